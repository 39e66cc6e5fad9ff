//! A directory of a test's own, and the command run in it.

mod dir;

use std::process::{Command, Stdio};

use serde_json::Value;

pub(crate) use dir::Dir;

impl Dir {
    /// Returns the output of `trommel` with `args`, which must succeed.
    pub(crate) fn trommel(&self, args: &[&str]) -> Vec<u8> {
        let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .expect("trommel runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {said}");
        out.stdout
    }

    /// The same as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.trommel(args)).expect("JSON")
    }
}
