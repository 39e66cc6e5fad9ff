//! Directories of files that can be made again.

use std::path::PathBuf;

/// The user's cache directory, `trommel` in it: `$XDG_CACHE_HOME`, else `~/.cache`.
pub(crate) fn directory() -> Option<PathBuf> {
    let set = |name| {
        std::env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let caches = set("XDG_CACHE_HOME").filter(|p| p.is_absolute());
    let caches = caches.or_else(|| set("HOME").map(|home| home.join(".cache")));
    Some(caches?.join("trommel"))
}
