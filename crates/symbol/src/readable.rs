//! Names that fit into tables: what tells functions apart for people, without what compilers add.
//!
//! # Problem
//! A demangled C++ or Rust name has return type, template arguments and parameters, often hundreds of characters. A table has room for
//! thirty.
//!
//! # Strategy
//! [`readable`] leaves the path: `void ns::Stack<int, std::allocator<int> >::push<long>(int const&) const` becomes
//! `ns::Stack::push`. Rust's qualified paths keep their types' last parts: `<Vec as Extend>::extend`. [`fit`] then drops the first
//! parts of a path that is still too long, and cuts the middle of what is one part.
//!
//! # Invariants
//! A name without brackets and blanks stays as it is. No name becomes empty. Time is in proportion to the length.

/// Beginnings of special names; what follows is a name by itself.
const SPECIAL: [&str; 8] = [
    "vtable for ",
    "VTT for ",
    "typeinfo name for ",
    "typeinfo for ",
    "guard variable for ",
    "non-virtual thunk to ",
    "virtual thunk to ",
    "covariant return thunk to ",
];
/// Words after parameters that tell nothing in a table.
const QUALIFIERS: [&str; 6] = ["const", "volatile", "&&", "&", "noexcept", "restrict"];
const ANONYMOUS: &str = "(anonymous namespace)";

/// A demangled name without return type, template arguments and parameters. That of a stub ends in `@plt`, too.
pub fn readable(name: &str) -> String {
    match name.strip_suffix("@plt") {
        Some(function) if !function.is_empty() => of_function(function) + "@plt",
        _ => of_function(name),
    }
}

fn of_function(name: &str) -> String {
    if let Some((special, rest)) = (SPECIAL.iter()).find_map(|s| Some((*s, name.strip_prefix(s)?)))
    {
        return format!("{special}{}", of_function(rest));
    }
    if let Some(path) = crate::mangled::path(name) {
        return path;
    }
    let plain = |c: char| !matches!(c, '<' | '(' | ' ');
    if name.chars().all(plain) {
        return name.to_owned();
    }
    match path(name) {
        out if out.trim().is_empty() => name.to_owned(),
        out => out,
    }
}

fn path(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    // Parameters were passed: a qualifier may follow.
    let mut after = false;
    while let Some(c) = rest.chars().next() {
        let operator = is_operator(&out);
        match c {
            '<' | '>' | '(' | ' ' | '-' if operator => {
                let symbol = symbol_of_operator(rest);
                out.push_str(symbol);
                rest = &rest[symbol.len()..];
                continue;
            }
            '<' => {
                let group = group(rest);
                match out.is_empty() || group.starts_with("<impl ") {
                    true => out.push_str(&qualified(group)),
                    // Rust's generics of a function stand after two colons.
                    false => out.truncate(out.strip_suffix("::").map_or(out.len(), str::len)),
                }
                rest = &rest[group.len()..];
                after = false;
            }
            '(' if rest.starts_with(ANONYMOUS) => {
                out.push_str(ANONYMOUS);
                rest = &rest[ANONYMOUS.len()..];
            }
            '(' => {
                rest = &rest[group(rest).len()..];
                after = true;
            }
            ' ' => {
                rest = &rest[1..];
                if rest.starts_with('<') {
                    continue;
                }
                let word = rest.split(' ').next().unwrap_or(rest);
                if after && QUALIFIERS.iter().any(|q| word.starts_with(q)) {
                    let length = QUALIFIERS.iter().find(|q| word.starts_with(**q));
                    rest = &rest[length.map_or(0, |q| q.len())..];
                } else if rest.starts_with('[') {
                    // `[clone .isra.0]`
                    out.push_str(rest.trim_start_matches("[clone ").trim_end_matches(']'));
                    break;
                } else {
                    // What stood here was the type that is returned.
                    out.clear();
                    after = false;
                }
            }
            _ => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
                after = false;
            }
        }
    }
    out
}

/// Returns true if what was read ends with the word `operator`.
fn is_operator(out: &str) -> bool {
    let before = out.strip_suffix("operator");
    before.is_some_and(|rest| !rest.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Text that follows the word `operator`: its symbols, or the type that is converted to.
fn symbol_of_operator(rest: &str) -> &str {
    if rest.starts_with("()") {
        return &rest[..2];
    }
    if rest.starts_with(' ') {
        let end = rest.find('(').unwrap_or(rest.len());
        return &rest[..end];
    }
    let end = rest.find(|c: char| !"<>-=*".contains(c));
    let symbols = &rest[..end.unwrap_or(rest.len())];
    // Template arguments may follow: `operator<< <char>`, `operator< <int>`.
    for known in [
        "<=>", "<<=", ">>=", "->*", "<<", ">>", "<=", ">=", "->", "-=", "--",
    ] {
        if symbols.starts_with(known) {
            return &symbols[..known.len()];
        }
    }
    &symbols[..1.min(symbols.len())]
}

/// The bracketed part that text begins with.
fn group(text: &str) -> &str {
    let mut depth = 0_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if before == '-' || before == '=' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        if depth == 0 {
            return &text[..at + c.len_utf8()];
        }
    }
    text
}

/// Rust's `<a::Type<T> as b::Trait>` and `<impl b::Trait for a::Type>` with the last parts of their paths.
fn qualified(group: &str) -> String {
    let inner = group.strip_prefix('<').unwrap_or(group);
    let inner = inner.strip_suffix('>').unwrap_or(inner);
    let mut words: Vec<String> = Vec::new();
    let mut rest = inner;
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && !rest[end..].starts_with(' ') {
            let next = rest[end..].chars().next().map_or(1, char::len_utf8);
            end += match rest[end..].starts_with(['<', '(', '[', '{']) {
                true => self::group(&rest[end..]).len(),
                false => next,
            };
        }
        let word = &rest[..end];
        let bare = word.split('<').next().unwrap_or(word);
        let last = match bare.is_empty() || word.starts_with(['[', '(', '{']) {
            true => word,
            false => bare
                .rsplit("::")
                .find(|part| !part.is_empty())
                .unwrap_or(bare),
        };
        words.push(last.to_owned());
        rest = rest[end..].trim_start_matches(' ');
    }
    format!("<{}>", words.join(" "))
}

/// The same of a name that an engine gave to code which it made: `int W.fib(int)` of Java, `JS:*fib /home/me/fib.js:1:13` of node.
///
/// Return type and parameters go, and the directories of a file. Classes are parts of a path.
pub fn readable_of_engine(name: &str) -> String {
    let bare = name.rfind(")[").map_or(name, |at| &name[..=at]);
    let head = bare.strip_suffix(')').and_then(|_| bare.split_once('('));
    let head = head.filter(|(head, _)| !head.ends_with(' '));
    if let Some((head, _)) = head {
        let path = head.rsplit(' ').next().unwrap_or(head);
        if path.contains(['.', ':']) {
            return path.to_owned();
        }
    }
    let file = name
        .match_indices('/')
        .find(|(at, _)| name[..*at].ends_with([' ', ':']));
    match file {
        Some((at, _)) => {
            let before = name[..at].strip_suffix("file:").unwrap_or(&name[..at]);
            let base = name.rsplit('/').next().unwrap_or_default();
            format!("{before}{base}")
        }
        None => name.to_owned(),
    }
}

/// A name in at most `most` characters: the last parts of a path stay, else both ends.
pub fn fit(name: &str, most: usize) -> String {
    let length = |text: &str| text.chars().count();
    if length(name) <= most {
        return name.to_owned();
    }
    let separator = if is_of_classes(name) { "." } else { "::" };
    let starts = name.match_indices(separator).map(|(at, _)| &name[at..]);
    let fits = |part: &&str| length(part) < most && part.len() > separator.len();
    if let Some(part) = starts.into_iter().find(fits) {
        return format!("…{part}");
    }
    let name = name.rsplit_once("::").map_or(name, |(_, last)| last);
    let whole = length(name);
    if whole <= most {
        return name.to_owned();
    }
    let kept = most.saturating_sub(1);
    let start: String = name.chars().take(kept.div_ceil(2)).collect();
    let end: String = name.chars().skip(whole - kept / 2).collect();
    format!("{start}…{end}")
}

/// Returns true if points divide packages and classes, as in `java.util.HashMap.merge`, rather than what a compiler or linker adds to a name.
fn is_of_classes(name: &str) -> bool {
    let name = name.split("+0x").next().unwrap_or(name);
    let parts = name.split('.');
    let is_added = |part: &str| {
        matches!(
            part,
            "so" | "cold" | "part" | "isra" | "constprop" | "llvm" | "lto_priv"
        )
    };
    let is_class = |part: &str| {
        let first = part.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '<');
        let rest = part
            .chars()
            .all(|c| c.is_alphanumeric() || "_$<>".contains(c));
        first && rest && !is_added(part)
    };
    parts.clone().count() > 1 && parts.clone().all(is_class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_path_is_what_stays() {
        for (name, wanted) in [
            ("main", "main"),
            ("gzip+0x12", "gzip+0x12"),
            ("puts@plt", "puts@plt"),
            ("ns::make(int)@plt", "ns::make@plt"),
            (
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
                "std::vector::push_back",
            ),
            (
                "void ns::Stack<int, std::allocator<int> >::push<long>(int const&) const",
                "ns::Stack::push",
            ),
            (
                "foo(int)::{lambda(int)#1}::operator()(int) const",
                "foo::{lambda#1}::operator()",
            ),
            (
                "std::ostream& std::operator<< <char>(std::ostream&, char)",
                "std::operator<<",
            ),
            (
                "bool operator< <int>(A<int> const&, A<int> const&)",
                "operator<",
            ),
            ("A::operator->() const", "A::operator->"),
            (
                "A::operator unsigned long() const",
                "A::operator unsigned long",
            ),
            ("operator new(unsigned long)", "operator new"),
            ("operator delete[](void*)", "operator delete[]"),
            ("my_operator(int)", "my_operator"),
            (
                "(anonymous namespace)::Pass::run(int)",
                "(anonymous namespace)::Pass::run",
            ),
            ("decltype (f(0)) g<int>(int) [clone .cold]", "g.cold"),
            ("vtable for Foo<int>", "vtable for Foo"),
            (
                "non-virtual thunk to Foo<int>::bar()",
                "non-virtual thunk to Foo::bar",
            ),
            (
                "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
                "core::ptr::drop_in_place",
            ),
            ("mycrate::foo::<u8>", "mycrate::foo"),
            (
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                "<Vec as Extend>::extend",
            ),
            ("<[T]>::sort_by::<F>", "<[T]>::sort_by"),
            (
                "core::fmt::num::<impl core::fmt::Display for u32>::fmt",
                "core::fmt::num::<impl Display for u32>::fmt",
            ),
            ("a::b::{{closure}}", "a::b::{{closure}}"),
            ("f<(E)1, &(g(int))>(void)", "f"),
            ("(", "("),
            ("<", "<>"),
            ("<&é", "<&é>"),
        ] {
            assert_eq!(readable(name), wanted, "{name}");
        }
    }

    #[test]
    fn names_of_engines_keep_function_and_file() {
        for (name, wanted) in [
            ("int W.fib(int)", "W.fib"),
            (
                "java.lang.Object java.util.HashMap.merge(java.lang.Object, java.lang.Object, java.util.function.BiFunction)",
                "java.util.HashMap.merge",
            ),
            (
                "instance void [System.Private.CoreLib] System.Foo::Bar(class System.String)[PreJIT]",
                "System.Foo::Bar",
            ),
            ("JS:*fib /home/me/fib.js:1:13", "JS:*fib fib.js:1:13"),
            ("JS:* file:///home/me/a b/m.mjs:2:1", "JS:* m.mjs:2:1"),
            (
                "JS:^f node:internal/modules/cjs/loader:4:1",
                "JS:^f node:internal/modules/cjs/loader:4:1",
            ),
            ("py::fib:/home/me/w.py", "py::fib:w.py"),
            ("StubRoutines (2)", "StubRoutines (2)"),
            ("I2C/C2I adapters", "I2C/C2I adapters"),
            ("Interpreter", "Interpreter"),
            ("a/", "a/"),
        ] {
            assert_eq!(readable_of_engine(name), wanted, "{name}");
        }
        for (name, most, wanted) in [
            ("java.util.HashMap.merge", 15, "….HashMap.merge"),
            ("java.util.HashMap.merge+0x1c", 12, "….merge+0x1c"),
            ("java.util.HashMap.merge", 4, "ja…e"),
            ("a_long_name.constprop.0", 9, "a_lo…op.0"),
            ("libsomething.so.6+0x1c", 9, "libs…0x1c"),
        ] {
            assert_eq!(fit(name, most), wanted, "{name}");
        }
    }

    #[test]
    fn long_names_keep_their_last_parts() {
        assert_eq!(fit("a::b::c", 7), "a::b::c");
        assert_eq!(fit("alpha::beta::gamma", 14), "…::beta::gamma");
        assert_eq!(fit("alpha::beta::gamma", 10), "…::gamma");
        assert_eq!(fit("alpha::abcdefghij", 7), "abc…hij");
        assert_eq!(fit("abcdefghij", 5), "ab…ij");
        assert_eq!(fit("abc", 0), "…");
    }

    proptest! {
        #[test]
        fn any_name_stays_a_name(name in "[a-z<>():, \\-\\[\\]{}&é~]{1,60}", most in 1_usize..40) {
            let out = readable(&name);
            prop_assert!(!out.is_empty() && out.len() <= name.len() + 2);
            prop_assert!(fit(&out, most).chars().count() <= most);
            let out = readable_of_engine(&name);
            prop_assert!(!out.is_empty() && out.len() <= name.len());
            prop_assert!(fit(&out, most).chars().count() <= most);
        }
    }
}
