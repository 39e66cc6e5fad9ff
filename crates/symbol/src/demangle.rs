//! Names as people write them.
//!
//! Mangled names come from files that nobody vouches for, and a short C++ name can stand for an
//! astronomically long one through its back references. Output is therefore cut off at a fixed
//! length, and what cannot be demangled within it stays as it is.

use std::fmt::{self, Write};

/// No name that is worth reading is longer.
const MAX_OUTPUT: usize = 16 << 10;
/// Longer mangled names are passed through.
const MAX_INPUT: usize = 16 << 10;

/// The demangled form of a Rust or C++ symbol; any other name as it is. A stub (`puts@plt`) remains one.
pub fn demangle(name: &[u8]) -> String {
    match name.strip_suffix(b"@plt") {
        Some(function) => demangled(function) + "@plt",
        None => demangled(name),
    }
}

fn demangled(name: &[u8]) -> String {
    let plain = || String::from_utf8_lossy(name).into_owned();
    if name.len() > MAX_INPUT {
        return plain();
    }
    // A symbol version (`memcpy@@GLIBC_2.14`) is no part of a mangled name.
    let mangled = name.split(|&c| c == b'@').next().unwrap_or(name);
    let Ok(text) = std::str::from_utf8(mangled) else {
        return plain();
    };
    let mut out = Bounded(String::new());
    if let Ok(rust) = rustc_demangle::try_demangle(text) {
        return match write!(out, "{rust:#}") {
            Ok(()) => out.0,
            Err(fmt::Error) => plain(),
        };
    }
    if !text.starts_with("_Z") && !text.starts_with("__Z") {
        return plain();
    }
    let Ok(symbol) = cpp_demangle::Symbol::new(text) else {
        return plain();
    };
    let options = cpp_demangle::DemangleOptions::default();
    match symbol.structured_demangle(&mut out, &options) {
        Ok(()) => as_binutils(out.0),
        Err(fmt::Error) => plain(),
    }
}

/// Special names as binutils write them: `vtable for Shape`, not `{vtable(Shape)}`.
fn as_binutils(name: String) -> String {
    let Some(inner) = name.strip_prefix('{').and_then(|n| n.strip_suffix(")}")) else {
        return name;
    };
    for (ours, theirs) in [
        ("vtable(", "vtable for "),
        ("vtt(", "VTT for "),
        ("typeinfo(", "typeinfo for "),
        ("typeinfo name(", "typeinfo name for "),
    ] {
        if let Some(of) = inner.strip_prefix(ours) {
            return format!("{theirs}{of}");
        }
    }
    let thunk = inner.strip_prefix("virtual override thunk(");
    match thunk.and_then(|t| t.split_once("}, ")) {
        Some((offset, of)) if offset.starts_with("{virtual") => format!("virtual thunk to {of}"),
        Some((_, of)) => format!("non-virtual thunk to {of}"),
        None => name,
    }
}

/// A string that refuses to grow beyond [`MAX_OUTPUT`].
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        if self.0.len() + s.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_cpp_and_c() {
        for (mangled, wanted) in [
            ("main", "main"),
            (
                "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
                "core::fmt::Formatter::pad",
            ),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi",
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
            ),
            ("_ZTV3Foo", "vtable for Foo"),
            ("_ZTI3Foo", "typeinfo for Foo"),
            ("_ZTS3Foo", "typeinfo name for Foo"),
            ("_ZTT3Foo", "VTT for Foo"),
            ("_ZThn16_N3Foo3barEv", "non-virtual thunk to Foo::bar()"),
            ("_ZTv0_n24_N3Foo3barEv", "virtual thunk to Foo::bar()"),
            ("memcpy@@GLIBC_2.14", "memcpy@@GLIBC_2.14"),
            ("_ZN3Foo3barEv@plt", "Foo::bar()@plt"),
            ("puts@plt", "puts@plt"),
            ("_Z", "_Z"),
            ("", ""),
        ] {
            let got = demangle(mangled.as_bytes());
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn a_name_that_explodes_is_cut_off() {
        // Each pair refers back to the one before: 2^40 characters if written out.
        let mut name = String::from("_Z1fSt4pairIiiE");
        for i in 0..40 {
            name.push_str(&format!(
                "St4pairIS{i}_S{i}_E",
                i = if i < 10 { i.to_string() } else { "A".into() }
            ));
        }
        assert!(demangle(name.as_bytes()).len() <= MAX_OUTPUT.max(name.len()));
        assert_eq!(demangle(&[b'_'; 100_000]).len(), 100_000);
    }
}
