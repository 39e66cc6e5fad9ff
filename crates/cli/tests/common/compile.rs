//! Programs of tests, compiled where they are needed.

use std::path::Path;
use std::process::Command;

/// Compiles C: writes `source` to `name`.c in the directory, and the program beside it.
pub(crate) fn compile(dir: &Path, name: &str, options: &[&str], source: &str) {
    let file = format!("{name}.c");
    std::fs::write(dir.join(&file), source).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(options).args(["-o", name, &file]).current_dir(dir);
    assert!(cc.status().expect("a C compiler").success());
}
