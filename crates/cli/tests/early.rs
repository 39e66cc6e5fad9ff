//! Records are folded while the chunk that they are in fills: when that is makes no difference to what they say.

#[path = "common/dir.rs"]
mod dir;

use std::path::Path;
use std::process::{Command, Stdio};

use trommel_tuple::{Kind, ModuleId, Place};

use dir::Dir;

/// A call of code that nothing was made of yet may be folded before something is.
#[test]
fn a_call_of_new_code_has_its_place() {
    /// Runs, each of which must be right. In some of them the host is quicker than the runtime.
    const RUNS: usize = 60;
    let dir = Dir::new("early");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/beyond.S");
    let program = dir.0.join("beyond");
    let built = Command::new("cc")
        .args(["-nostdlib", "-static", "-no-pie", "-o"])
        .args([&program, &source])
        // The section may be written, and the linker says so.
        .stderr(Stdio::null())
        .status();
    assert!(built.expect("a C compiler").success());
    for _ in 0..RUNS {
        let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
            .args([
                "record",
                "--quiet",
                "-e",
                "call,value",
                "-c",
                "exact",
                "-o",
                "p.data",
            ])
            .arg("--")
            .arg(&program)
            .current_dir(&dir.0)
            .env("TROMMEL_STRESS", "delay=127")
            .output()
            .expect("trommel");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{said}");
        let profiles = trommel_store::read(&dir.0.join("p.data")).expect("profile");
        let counts = &profiles[0].kinds[&Kind::Call].counts;
        let to: Vec<&[(u64, u64)]> = counts.values().map(|to| &to[..]).collect();
        let [[(to, 1)]] = to[..] else {
            panic!("{counts:?}");
        };
        let to = Place::from_word(*to);
        assert_ne!(to.module(), ModuleId::ANON, "{to:?}");
    }
}
