//! A directory of a test's own, and the command run in it.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Removed with all that is in it when dropped.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    /// An empty one.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("trommel-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    /// What `trommel` with `args` writes, which must succeed.
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

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
