//! The path in a mangled C++ name that cannot be demangled.
//!
//! # Problem
//! gcc mangles some expressions in ways that `cpp_demangle` does not read, as that in the type which `std::swap` returns. Such a name stays as it is.
//!
//! # Strategy
//! The path comes first, before return type and parameters, and template arguments are bracketed. So it is read without them:
//! `_ZSt4swapIdENSt9enable_ifIX…` is `std::swap`. What is not understood gives no path.

/// Returns the path that a mangled name begins with.
pub(crate) fn path(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let mut at = name.starts_with("_Z").then_some(2)?;
    let nested = bytes.get(at) == Some(&b'N');
    if nested {
        at += 1;
        // Qualifiers of a method.
        while matches!(bytes.get(at), Some(b'K' | b'V' | b'r' | b'R' | b'O')) {
            at += 1;
        }
    }
    let mut parts: Vec<&str> = Vec::new();
    if bytes.get(at..)?.starts_with(b"St") {
        parts.push("std");
        at += 2;
    }
    loop {
        match bytes.get(at)? {
            b'0'..=b'9' => {
                let end = identifier(bytes, at)?;
                let part = name
                    .get(at..end)?
                    .trim_start_matches(|c: char| c.is_ascii_digit());
                parts.push(part);
                at = end;
            }
            b'I' => at = bracket(bytes, at)?,
            b'E' if nested => break,
            _ if nested => return None,
            _ => break,
        }
        if !nested {
            break;
        }
    }
    let is_name = |part: &&str| !part.is_empty() && *part != "std";
    parts.last().is_some_and(is_name).then(|| parts.join("::"))
}

/// Returns the end of a name with its length before it.
fn identifier(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = bytes[at..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let length: usize = std::str::from_utf8(&bytes[at..at + digits])
        .ok()?
        .parse()
        .ok()?;
    let end = at.checked_add(digits)?.checked_add(length)?;
    (end <= bytes.len()).then_some(end)
}

/// Returns the end of what an opening letter begins.
fn bracket(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut open: Vec<u8> = Vec::new();
    while let Some(&letter) = bytes.get(at) {
        let until = |end: u8| Some(at + bytes[at..].iter().position(|b| *b == end)? + 1);
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        at = match letter {
            b'0'..=b'9' => identifier(bytes, at)?,
            // A constant: its digits are no length.
            b'L' if next.is_ascii_lowercase() => until(b'E')?,
            b'S' if next.is_ascii_lowercase() => at + 2,
            b'S' | b'T' | b'A' => until(b'_')?,
            b'I' | b'N' | b'X' | b'J' | b'F' | b'L' => {
                open.push(letter);
                at + 1
            }
            b'D' if matches!(next, b't' | b'T') => {
                open.push(b'X');
                at + 2
            }
            // A call in an expression.
            b'c' if next == b'l' && open.last() == Some(&b'X') => {
                open.push(b'X');
                at + 2
            }
            b'E' => {
                open.pop()?;
                at + 1
            }
            _ => at + 1,
        };
        if open.is_empty() {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_have_no_arguments() {
        for (name, wanted) in [
            (
                "_ZSt4swapIdENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EEEE5valueEvE4typeERS4_SE_",
                Some("std::swap"),
            ),
            ("_ZN3FooIXsrSt1aIiE1vEE3barILi12EEEv", Some("Foo::bar")),
            ("_ZNK3FooIA3_iE3barEv", Some("Foo::bar")),
            ("_Z1fv", Some("f")),
            ("_ZN3FooC1Ev", None),
            ("_ZSt", None),
            ("_Z99f", None),
            ("main", None),
        ] {
            assert_eq!(path(name).as_deref(), wanted, "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends(name in "_Z(sr|[0-9]|N|I|E|X|L|S|T|A|D|_|é|[a-z]){0,80}") {
            prop_assert!(path(&name).is_none_or(|path| !path.is_empty()));
        }
    }
}
