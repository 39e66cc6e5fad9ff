//! A directory of a test's own.

use std::path::PathBuf;

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
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
