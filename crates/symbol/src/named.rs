//! Names that users give to modules.
//!
//! A process maps files under their real names: `/usr/bin/redis-server` may be a link to `redis-check-rdb`, and `libz.so.1` one to
//! `libz.so.1.2.13`. Users name what they type.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns true if a user may mean the module at `path` by `name`: its path or file name, or those of a symbolic link to it. A bare
/// file name is that of a link beside the module.
pub fn is_named(path: &[u8], name: &str) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let file = path.file_name();
    if path == Path::new(name) || file.is_some_and(|file| file == name) {
        return true;
    }
    let leads_here = |link: &Path| fs::canonicalize(link).is_ok_and(|real| real == path);
    match path.parent() {
        // No file.
        _ if !path.is_absolute() => false,
        _ if name.contains('/') => leads_here(Path::new(name)),
        Some(directory) => leads_here(&directory.join(name)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_module_has_the_names_of_links_to_it() {
        let dir = std::env::temp_dir().join(format!("trommel-named-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("elsewhere")).expect("a directory");
        let dir = fs::canonicalize(dir).expect("a directory");
        let real = dir.join("libz.so.1.2.13");
        fs::write(&real, "").expect("a file");
        for link in ["libz.so.1", "libz.so", "elsewhere/libz.so"] {
            symlink(&real, dir.join(link)).expect("a link");
        }
        fs::write(dir.join("other"), "").expect("a file");
        let full = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let path = real.as_os_str().as_bytes();
        for name in ["libz.so.1.2.13", "libz.so.1", "libz.so"] {
            assert!(
                is_named(path, name) && is_named(path, &full(name)),
                "{name}"
            );
        }
        assert!(is_named(path, &full("elsewhere/libz.so")));
        for name in ["other", "libz", "", "elsewhere"] {
            assert!(
                !is_named(path, name) && !is_named(path, &full(name)),
                "{name}"
            );
        }
        assert!(is_named(b"[vdso]", "[vdso]") && !is_named(b"[vdso]", "libz.so"));
        fs::remove_dir_all(dir).expect("removed");
    }
}
