//! Programs for tests, from assembler, and damaged bytes.

use std::path::PathBuf;
use std::process::Command;

/// A program without libraries that is linked with these options, and the addresses of its symbols.
pub(crate) fn assembled(
    name: String,
    source: &'static str,
    options: &'static str,
) -> (PathBuf, impl Fn(&str) -> u64) {
    let dir = std::env::temp_dir().join(format!("trommel-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let (text, out) = (dir.join("program.s"), dir.join("program"));
    std::fs::write(&text, format!(".intel_syntax noprefix\n{source}")).expect("written");
    let done = Command::new("gcc")
        .args(["-nostdlib", "-static", &format!("-Wl,{options}"), "-o"])
        .args([&out, &text])
        .status();
    assert!(done.expect("gcc").success());
    let symbols = Command::new("nm").arg(&out).output().expect("nm").stdout;
    let symbols = String::from_utf8(symbols).expect("text");
    let at = move |name: &str| {
        let mut lines = symbols.lines();
        let line = lines.find(|line| line.ends_with(&format!(" {name}")));
        let digits = line.and_then(|line| line.split(' ').next());
        u64::from_str_radix(digits.expect("a symbol"), 16).expect("hex")
    };
    (out, at)
}

/// The bytes cut short at each place, and with bits changed at each.
pub(crate) fn damages(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..whole.len()).flat_map(|n| {
        let changed = [0xff, 0x80, 1].map(|bits| {
            let mut damaged = whole.to_vec();
            damaged[n] ^= bits;
            damaged
        });
        std::iter::once(whole[..n].to_vec()).chain(changed)
    })
}
