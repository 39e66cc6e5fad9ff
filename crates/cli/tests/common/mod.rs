//! A directory of a test's own, and the command run in it.

mod dir;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) use dir::Dir;

impl Dir {
    /// Runs a command here, without input. It must succeed.
    pub(crate) fn ended(&self, command: &mut Command) -> Output {
        let out = command.current_dir(&self.0).stdin(Stdio::null()).output();
        let out = out.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{command:?}: {said}");
        out
    }

    /// Returns the output of `trommel` with `args`, which must succeed.
    pub(crate) fn trommel(&self, args: &[&str]) -> Vec<u8> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        self.ended(command.args(args)).stdout
    }

    /// The same as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.trommel(args)).expect("JSON")
    }
}
