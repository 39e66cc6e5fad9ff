//! Files that appear whole or not at all.
//!
//! The new file has no name while it is written, where the file system can do that: whoever is killed then leaves nothing. When it is
//! complete it gets its name at once, unless there is an old file. Then it is
//! named beside the old one. The two change names, and the old
//! one becomes `NAME.old`: at no moment there is no file of the name. Renaming one over the other
//! would make ext4 write the new one out at once, and take longer than a short program. Where names
//! cannot be exchanged, the old file gets its second name first and the new one is renamed over it. A symbolic
//! link stays a link: what it points to is replaced. Devices and pipes (`-o /dev/stdout`) are
//! written to as they are.
//!
//! Signals that end the process are held back while the new file has a name of its own ([`Held`]). Only `SIGKILL` cannot be: between
//! those few calls it leaves one of the two whole files under the name `.NAME.PID.tmp`.
//!
//! Data is handed to the kernel, not forced to the disk: that would take longer than many a
//! recorded run, and protects from nothing but power failure.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use trommel_tuple::stream::outlet::Outlet;

use crate::error::{Left, StoreError};
use crate::held::Held;

/// Result of writing a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// Size of the file; 0 for a device or pipe.
    pub bytes: u64,
    /// Path of the earlier file now.
    pub old: Option<PathBuf>,
}

/// Checks that a profile can be written to `path`: before a long run and not after it.
///
/// # Errors
/// What is in the way.
pub fn check_destination(path: &Path) -> Result<(), StoreError> {
    let Some(target) = target(path)? else {
        return Ok(());
    };
    let temporary = target.temporary();
    create(&temporary, Readers::Owner).map_err(|source| target.cannot_create(path, &source))?;
    let _ = fs::remove_file(&temporary);
    Ok(())
}

/// Calls `write` on a new file and puts it in the place of `path`.
pub(crate) fn replace(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<Written, StoreError> {
    let Some(target) = target(path)? else {
        let failed = |kept| move |source| StoreError::write(path, source, kept);
        let device = Outlet::open(path, OpenOptions::new().write(true));
        let mut device = device.map_err(failed(Left::Nothing))?;
        write(&mut device).map_err(failed(Left::Part))?;
        return Ok(Written {
            bytes: 0,
            old: None,
        });
    };
    let nameless = nameless(&target.temporary(), readers);
    target.fill(path, readers, nameless, write)
}

/// A file that is given up when a signal waits that will end the process.
struct Interruptible<'a> {
    file: &'a mut File,
    held: Option<&'a Held>,
}

impl Write for Interruptible<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Of the kind `Interrupted`, it would be tried again.
        match self.held.is_some_and(Held::will_end) {
            true => Err(io::Error::other("interrupted")),
            false => self.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Users who may read a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readers {
    /// Whoever may read the user's files.
    AsUsual,
    /// The user alone.
    Owner,
}

impl Readers {
    const fn mode(self) -> u32 {
        match self {
            Self::AsUsual => 0o666,
            Self::Owner => 0o600,
        }
    }
}

/// A file without a name in the directory of another; `None` where there can be none.
fn nameless(beside: &Path, readers: Readers) -> Option<File> {
    // The way to name it later.
    if !Path::new("/proc/self/fd").is_dir() {
        return None;
    }
    let dir = match beside.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let mut options = OpenOptions::new();
    let options = options.write(true).mode(readers.mode());
    options.custom_flags(nix::libc::O_TMPFILE).open(dir).ok()
}

/// Gives a file without a name this one, which no other file has.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    let follow = nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW;
    let here = nix::fcntl::AT_FDCWD;
    nix::unistd::linkat(here, &*from, here, name, follow).map_err(io::Error::from)
}

/// Gives a file without a name this one, of our own.
fn name(file: &File, name: &Path) -> io::Result<()> {
    match link(file, name) {
        // Left by a process of the same number that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(name)?;
            link(file, name)
        }
        other => other,
    }
}

fn create(temporary: &Path, readers: Readers) -> io::Result<File> {
    let mode = readers.mode();
    let open = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(temporary)
    };
    match open() {
        // Left by a process of the same number that was killed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(temporary)?;
            open()
        }
        other => other,
    }
}

/// Makes two files change names, at once. Not all file systems can.
fn exchange(a: &Path, b: &Path) -> nix::Result<()> {
    nix::fcntl::renameat2(
        nix::fcntl::AT_FDCWD,
        a,
        nix::fcntl::AT_FDCWD,
        b,
        nix::fcntl::RenameFlags::RENAME_EXCHANGE,
    )
}

/// A place for a regular file.
struct Target {
    path: PathBuf,
}

/// `None` for a device or a pipe, which is written to as it is.
fn target(path: &Path) -> Result<Option<Target>, StoreError> {
    let refuse = |what: &str| StoreError::Destination {
        path: path.to_owned(),
        what: what.to_owned(),
    };
    let Ok(metadata) = fs::metadata(path) else {
        if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
            return Err(refuse("it names no file"));
        }
        // Not there, or a link to what is not there.
        let path = fs::read_link(path).map_or_else(
            |_| path.to_owned(),
            |link| path.parent().unwrap_or(Path::new("")).join(link),
        );
        return Ok(Some(Target { path }));
    };
    if metadata.is_dir() {
        return Err(refuse("it is a directory"));
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    let path = if path.is_symlink() {
        fs::canonicalize(path).map_err(|error| refuse(&error.to_string()))?
    } else {
        path.to_owned()
    };
    Ok(Some(Target { path }))
}

impl Target {
    /// A name in the same directory, so that renaming never copies.
    fn temporary(&self) -> PathBuf {
        let mut name = std::ffi::OsString::from(".");
        name.push(self.path.file_name().unwrap_or_default());
        name.push(format!(".{}.tmp", std::process::id()));
        self.path.with_file_name(name)
    }

    fn old(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".old");
        name.into()
    }

    /// Writes the new file, in one without a name if there is one, and gives it its name.
    fn fill(
        &self,
        path: &Path,
        readers: Readers,
        nameless: Option<File>,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Written, StoreError> {
        let temporary = self.temporary();
        let (mut file, held) = match nameless {
            Some(file) => (file, None),
            None => {
                let held = Held::new();
                let file = create(&temporary, readers);
                (file.map_err(|e| self.cannot_create(path, &e))?, Some(held))
            }
        };
        let is_named = held.is_some();
        let written = write(&mut Interruptible {
            file: &mut file,
            held: held.as_ref(),
        });
        let _to_the_end = held.unwrap_or_else(Held::new);
        let installed = written.and_then(|()| file.metadata()).and_then(|metadata| {
            let old = match is_named {
                true => self.install(&temporary)?,
                false if link(&file, &self.path).is_ok() => None,
                // There is an earlier file, or the directory is gone.
                false => {
                    name(&file, &temporary)?;
                    self.install(&temporary)?
                }
            };
            Ok((metadata.len(), old))
        });
        match installed {
            Ok((bytes, old)) => Ok(Written { bytes, old }),
            Err(error) => {
                let _ = fs::remove_file(&temporary);
                Err(self.cannot_write(path, error))
            }
        }
    }

    fn cannot_write(&self, path: &Path, error: io::Error) -> StoreError {
        let directory = self.directory();
        if error.kind() == io::ErrorKind::NotFound && !directory.is_dir() {
            return StoreError::Destination {
                path: path.to_owned(),
                what: format!("the directory {} is gone", directory.display()),
            };
        }
        let kept = match self.path.exists() {
            true => Left::Earlier,
            false => Left::Nothing,
        };
        StoreError::write(path, error, kept)
    }

    fn directory(&self) -> &Path {
        let directory = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        directory.unwrap_or(Path::new("."))
    }

    /// Gives the complete file its name.
    fn install(&self, temporary: &Path) -> io::Result<Option<PathBuf>> {
        if !self.path.exists() {
            fs::rename(temporary, &self.path)?;
            return Ok(None);
        }
        let old = self.old();
        if exchange(temporary, &self.path).is_ok() {
            // The name that was the new file's is now the earlier one's.
            let _ = fs::remove_file(&old);
            let renamed = fs::rename(temporary, &old).is_ok();
            return Ok(Some(if renamed { old } else { temporary.to_owned() }));
        }
        let _ = fs::remove_file(&old);
        // Some file systems have no hard links.
        fs::hard_link(&self.path, &old).or_else(|_| fs::rename(&self.path, &old))?;
        fs::rename(temporary, &self.path)?;
        Ok(Some(old))
    }

    fn cannot_create(&self, path: &Path, error: &io::Error) -> StoreError {
        let directory = self.directory().display();
        if error.kind() == io::ErrorKind::StorageFull {
            return self.cannot_write(path, error.kind().into());
        }
        StoreError::Destination {
            path: path.to_owned(),
            what: match error.kind() {
                io::ErrorKind::NotFound => format!("the directory {directory} does not exist"),
                io::ErrorKind::NotADirectory => format!("{directory} is not a directory"),
                io::ErrorKind::PermissionDenied => {
                    format!("no permission to make files in {directory}")
                }
                _ => format!("no file can be created in {directory}: {error}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn directory(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("trommel-replace-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("temp dir");
        path
    }

    #[test]
    fn while_it_is_written_a_file_has_no_name() {
        let dir = directory("nameless");
        let path = dir.join("trommel.data");
        let supported = nameless(&path, Readers::AsUsual).is_some();
        let names = || fs::read_dir(&dir).expect("a directory").count();
        let written = |file: &mut dyn Write| {
            assert!(!supported || names() == 0);
            file.write_all(b"whole")
        };
        for _ in 0..2 {
            let _ = fs::remove_file(&path);
            replace(&path, Readers::AsUsual, written).expect("written");
            assert_eq!(fs::read(&path).expect("there"), b"whole");
            assert_eq!(names(), 1);
            // Another process of this number was killed between the two names.
            let target = Target { path: path.clone() };
            fs::write(target.temporary(), "left").expect("written");
            replace(&path, Readers::AsUsual, |file| file.write_all(b"whole")).expect("written");
            assert_eq!(names(), 2);
            fs::remove_file(target.old()).expect("the earlier one");
        }
        fs::remove_dir_all(dir).expect("removed");
    }

    #[test]
    fn a_failed_write_leaves_the_earlier_file_and_nothing_else() {
        let dir = directory("failed");
        let path = dir.join("trommel.data");
        fs::write(&path, "earlier").expect("file");
        let full = |file: &mut dyn Write| {
            file.write_all(b"half of it")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        let error = replace(&path, Readers::AsUsual, full)
            .expect_err("the disk is full")
            .to_string();
        assert!(
            error.contains("earlier file is untouched") && error.contains("free some space"),
            "{error}"
        );
        assert_eq!(fs::read(&path).expect("file"), b"earlier");
        assert_eq!(fs::read_dir(&dir).expect("dir").count(), 1);
        fs::remove_dir_all(&dir).expect("clean");
    }

    #[test]
    fn an_earlier_file_becomes_old() {
        let dir = directory("old");
        let path = dir.join("trommel.data");
        let write = |text: &'static str| {
            replace(&path, Readers::AsUsual, |f| f.write_all(text.as_bytes())).expect("written")
        };
        assert_eq!(write("one").old, None);
        write("two");
        let third = write("three");
        assert_eq!(
            (third.bytes, third.old.as_deref()),
            (5, Some(dir.join("trommel.data.old").as_path()))
        );
        assert_eq!(fs::read(&path).expect("file"), b"three");
        assert_eq!(
            fs::read(dir.join("trommel.data.old")).expect("file"),
            b"two"
        );
        assert_eq!(fs::read_dir(&dir).expect("dir").count(), 2);
        fs::remove_dir_all(&dir).expect("clean");
    }

    #[test]
    fn destinations_are_checked_in_words() {
        let dir = directory("checked");
        check_destination(&dir.join("new")).expect("fine");
        check_destination(Path::new("/dev/null")).expect("a device");
        for (path, words) in [
            (dir.clone(), "is a directory"),
            (dir.join("missing/file"), "does not exist"),
            (dir.join("new/"), "names no file"),
        ] {
            let error = check_destination(&path)
                .expect_err("impossible")
                .to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(fs::read_dir(&dir).expect("dir").count(), 0);
        fs::remove_dir_all(&dir).expect("clean");
    }
}
