//! The directory of the sockets: the user's own, and no other's.

use std::fs::{self, DirBuilder, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The reason why there is no directory for sockets.
#[derive(Debug, thiserror::Error)]
pub enum NoDirectory {
    /// The system refuses.
    #[error("{0}: {1}")]
    System(PathBuf, io::Error),
    /// Somebody else may write there.
    #[error("{0} is not a directory of yours alone: remove it, or set XDG_RUNTIME_DIR to one")]
    Foreign(PathBuf),
}

/// Returns the directory, and makes it if there is none.
///
/// # Errors
/// It cannot be made, or is not the user's own.
pub(super) fn own() -> Result<PathBuf, NoDirectory> {
    let path = path();
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(NoDirectory::System(path, error))
        }
        _ => check(path),
    }
}

/// Returns the directory, if there is one.
///
/// # Errors
/// It is not the user's own.
pub(super) fn there() -> Result<Option<PathBuf>, NoDirectory> {
    let path = path();
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(NoDirectory::System(path, error)),
        Ok(_) => check(path).map(Some),
    }
}

/// The user's runtime directory if it is what it should be, else one in `/tmp`.
fn path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = |path: &PathBuf| path.is_absolute() && fs::metadata(path).is_ok_and(|m| is_own(&m));
    match runtime.filter(own) {
        Some(runtime) => runtime.join("trommel"),
        None => Path::new("/tmp").join(format!("trommel-{}", nix::unistd::geteuid())),
    }
}

fn check(path: PathBuf) -> Result<PathBuf, NoDirectory> {
    match fs::symlink_metadata(&path) {
        Err(error) => Err(NoDirectory::System(path, error)),
        Ok(found) if is_own(&found) => Ok(path),
        Ok(_) => Err(NoDirectory::Foreign(path)),
    }
}

/// Returns true if it is a directory where nobody else may do anything.
fn is_own(found: &Metadata) -> bool {
    const OTHERS: u32 = 0o077;
    found.is_dir() && found.uid() == nix::unistd::geteuid().as_raw() && found.mode() & OTHERS == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn only_a_directory_of_ones_own_is_good_enough() {
        let base = std::env::temp_dir().join(format!("trommel-own-{}", std::process::id()));
        let good = base.join("good");
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&good)
            .expect("made");
        assert!(check(good.clone()).is_ok());
        fs::set_permissions(&good, fs::Permissions::from_mode(0o755)).expect("set");
        assert!(matches!(check(good.clone()), Err(NoDirectory::Foreign(_))));
        fs::set_permissions(&good, fs::Permissions::from_mode(0o700)).expect("set");
        let link = base.join("link");
        symlink(&good, &link).expect("made");
        assert!(matches!(check(link), Err(NoDirectory::Foreign(_))));
        let file = base.join("file");
        fs::write(&file, "").expect("written");
        assert!(matches!(check(file), Err(NoDirectory::Foreign(_))));
        fs::remove_dir_all(&base).expect("removed");
    }
}
