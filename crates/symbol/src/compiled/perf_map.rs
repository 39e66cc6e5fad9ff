//! Perf maps, `/tmp/perf-PID.map`: a line for each function, `START SIZE NAME`, with numbers in hex.

use super::{Compiled, Function, name};

/// Reads a perf map. Lines that are none are left out; of functions that overlap the last is kept.
pub fn perf_map(bytes: &[u8]) -> Compiled<'_> {
    let mut all = Compiled::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Some(function) = function(line) {
            all.add(function);
        }
    }
    all
}

fn function(line: &[u8]) -> Option<Function<'_>> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (start, size) = (hex(parts.next()?)?, hex(parts.next()?)?);
    Some(Function {
        start,
        size,
        name: name(parts.next()?.trim_ascii()),
        code: &[],
    })
}

/// A number in hex, with or without a prefix.
fn hex(digits: &[u8]) -> Option<u64> {
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    // Signs are no digits.
    let plain = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_functions_and_others_are_left_out() {
        let text = b"7f0000001000 20 LazyCompile:*loop /a b.js:3\n\
            0x7f0000002000 0x10 py::f:/x.py\r\n\
            nonsense\n\n7f00 \n+7f 1 signed\n-1 2 x\n7f0000003000 0 empty\nffffffffffffffffff 1 large\n";
        let all = perf_map(text);
        let told: Vec<_> = all.functions().map(|f| (f.start, f.size, f.name)).collect();
        let wanted = [
            (0x7f00_0000_1000, 0x20, &b"LazyCompile:*loop /a b.js:3"[..]),
            (0x7f00_0000_2000, 0x10, b"py::f:/x.py"),
        ];
        assert_eq!(told, wanted);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            prop_assert!(perf_map(&bytes).functions().all(|f| f.name.len() <= bytes.len()));
        }

        #[test]
        fn any_lines_are_read(lines in prop::collection::vec("[0-9a-fx]{0,20} [0-9a-fx]{0,20} .{0,20}", 0..30)) {
            let text = lines.join("\n");
            let all = perf_map(text.as_bytes());
            prop_assert!(all.functions().count() <= lines.len());
        }
    }
}
