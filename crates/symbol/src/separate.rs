//! Separate files of names: where they are, and whether they are of this very module.
//!
//! # Problem
//! Distributions strip their programs. Names and lines are in files of their own, in places that differ by distribution.
//!
//! # Strategy
//! Places are tried as gdb tries them, and the first file that fits is taken:
//! 1. `/usr/lib/debug/.build-id/12/34….debug`, by build id;
//! 2. the name that `.gnu_debuglink` says, in the directory of the module, in `.debug` there, and in that directory below
//!    `/usr/lib/debug`. The directory is as it was recorded, then without symbolic links;
//! 3. the cache of debuginfod's clients, by build id, where `DEBUGINFOD_URLS` is set. Nothing is downloaded.
//!
//! `.gnu_debugdata`, the symbols that Fedora leaves in a program itself, are read where none of these has symbols ([`mini`]).
//! What `dwz` moved out of several debug files is found by the path that `.gnu_debugaltlink` says, then by build id.
//!
//! # Invariants
//! A file that was found by build id has that build id. One that a link names has the checksum in the link. A name in a link has
//! no directory, so that a module cannot name any file of the system.

use std::env;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::Files;
use crate::object_file::ObjectFile;
use crate::packed::Packed;

/// Bytes of the largest file that is added up to see whether a link means it. A larger one takes longer than anybody waits, or has holes.
const MOST_SUMMED: u64 = 16 << 30;
/// Bytes of a file that is believed to have no holes, and times that a larger one may be greater than what of it is on the disk: file systems
/// compress. Holes would be read, and take memory.
const MOST_HOLLOW: u64 = 256 << 20;
const MAX_HOLES: u64 = 64;

/// Directories that separate debug files are looked for in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DebugPlaces {
    /// The root of what distributions install: `/usr/lib/debug`.
    pub root: PathBuf,
    /// The cache of debuginfod's clients, where it is to be read.
    pub cache: Option<PathBuf>,
}

impl DebugPlaces {
    /// The places of this system, as the environment says.
    pub fn of_system() -> Self {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let cache = || {
            let given = set("DEBUGINFOD_CACHE_PATH").map(PathBuf::from);
            let home = set("HOME").map(PathBuf::from);
            let older =
                || Some(home.as_ref()?.join(".debuginfod_client_cache")).filter(|p| p.is_dir());
            let in_home = || Some(home.as_ref()?.join(".cache"));
            let newer = || {
                Some(
                    set("XDG_CACHE_HOME")
                        .map(PathBuf::from)
                        .or_else(in_home)?
                        .join("debuginfod_client"),
                )
            };
            given.or_else(older).or_else(newer)
        };
        Self {
            root: "/usr/lib/debug".into(),
            cache: set("DEBUGINFOD_URLS").and_then(|_| cache()),
        }
    }

    /// The debug file for a build id.
    pub(crate) fn by_build_id<'a>(
        &self,
        build_id: &[u8],
        files: &'a Files,
    ) -> Option<Separate<'a>> {
        let (first, rest) = build_id
            .split_first()
            .filter(|(_, rest)| !rest.is_empty())?;
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let installed = format!(".build-id/{first:02x}/{}.debug", hex(rest));
        let fits = |file: &ObjectFile<'_>| file.build_id() == build_id;
        Separate::open(self.root.join(installed), files, fits)
    }

    /// The file for a build id in the cache of debuginfod's clients.
    fn cached<'a>(&self, build_id: &[u8], files: &'a Files) -> Option<Separate<'a>> {
        let cache = self.cache.as_ref().filter(|_| !build_id.is_empty())?;
        let name: String = build_id.iter().map(|b| format!("{b:02x}")).collect();
        let fits = |file: &ObjectFile<'_>| file.build_id() == build_id;
        Separate::open(cache.join(name).join("debuginfo"), files, fits)
    }

    /// The debug file of a module whose own file is gone.
    pub(crate) fn without_file<'a>(
        &self,
        build_id: &[u8],
        files: &'a Files,
    ) -> Option<Separate<'a>> {
        self.by_build_id(build_id, files)
            .or_else(|| self.cached(build_id, files))
    }

    /// The debug file of a module.
    pub(crate) fn of_module<'a>(
        &self,
        file: &ObjectFile<'a>,
        path: &Path,
        files: &'a Files,
    ) -> Option<Separate<'a>> {
        self.by_build_id(file.build_id(), files)
            .or_else(|| self.by_link(file, path, files))
            .or_else(|| self.cached(file.build_id(), files))
    }

    /// The file that a module's `.gnu_debuglink` names.
    fn by_link<'a>(
        &self,
        file: &ObjectFile<'a>,
        path: &Path,
        files: &'a Files,
    ) -> Option<Separate<'a>> {
        let (name, checksum) = link(file.raw(file.section(".gnu_debuglink")?))?;
        let recorded = path.parent().filter(|dir| dir.is_absolute())?;
        let real = path.canonicalize().ok();
        let real = real.as_deref().and_then(Path::parent);
        let real = real.filter(|real| *real != recorded);
        let directories = [Some(recorded), real].into_iter().flatten();
        let candidates = directories.flat_map(|directory| {
            let below = directory.strip_prefix("/").unwrap_or(directory);
            [
                directory.join(name),
                directory.join(".debug").join(name),
                self.root.join(below).join(name),
            ]
        });
        let fits = |file: &ObjectFile<'_>| crc32fast::hash(file.bytes()) == checksum;
        candidates
            .into_iter()
            .filter(|candidate| can_be_summed(candidate))
            .find_map(|candidate| Separate::open(candidate, files, fits))
    }

    /// The file that `dwz` moved common parts of a debug file to.
    pub(crate) fn shared<'a>(
        &self,
        file: &ObjectFile<'a>,
        path: &Path,
        files: &'a Files,
    ) -> Option<ObjectFile<'a>> {
        let link = file.raw(file.section(".gnu_debugaltlink")?);
        let end = link.iter().position(|&c| c == 0)?;
        let (name, build_id) = (&link[..end], &link[end + 1..]);
        let name = Path::new(OsStr::from_bytes(name));
        let fits = |file: &ObjectFile<'_>| !build_id.is_empty() && file.build_id() == build_id;
        let given = path.parent().unwrap_or(path).join(name);
        // Debug files may have been copied elsewhere than the link says.
        let collected = self.root.join(".dwz");
        let base = name.file_name()?;
        let collected = [
            collected.join(base),
            collected.join("x86_64-linux-gnu").join(base),
        ];
        Separate::open(given, files, fits)
            .or_else(|| self.without_file(build_id, files))
            .or_else(|| {
                collected
                    .into_iter()
                    .find_map(|path| Separate::open(path, files, fits))
            })
            .map(|found| found.file)
    }
}

impl Default for DebugPlaces {
    fn default() -> Self {
        Self::of_system()
    }
}

/// A debug file and its path.
pub(crate) struct Separate<'a> {
    pub(crate) file: ObjectFile<'a>,
    pub(crate) path: PathBuf,
}

impl<'a> Separate<'a> {
    fn open(
        path: PathBuf,
        files: &'a Files,
        fits: impl Fn(&ObjectFile<'_>) -> bool,
    ) -> Option<Self> {
        let file = ObjectFile::parse(files.map(&path).ok()?).filter(fits)?;
        Some(Self { file, path })
    }
}

/// Returns true of a file that is added up in a short time. Its size is what is there, not what holes promise.
fn can_be_summed(path: &Path) -> bool {
    let Ok(metadata) = path.metadata() else {
        return false;
    };
    let (size, there) = (metadata.len(), metadata.blocks().saturating_mul(512));
    size <= MOST_HOLLOW || (size <= MOST_SUMMED && size / MAX_HOLES <= there)
}

/// Name and checksum in the content of a `.gnu_debuglink` section.
fn link(section: &[u8]) -> Option<(&OsStr, u32)> {
    let end = section.iter().position(|&c| c == 0)?;
    let name = &section[..end];
    let checksum = section
        .get((end + 1).next_multiple_of(4)..)?
        .first_chunk()?;
    let plain = !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b"..";
    plain.then(|| (OsStr::from_bytes(name), u32::from_le_bytes(*checksum)))
}

/// Returns true if symbols are packed into the file itself.
pub(crate) fn has_mini(file: &ObjectFile<'_>) -> bool {
    file.section(".gnu_debugdata").is_some()
}

/// The symbols that are packed into the file itself.
pub(crate) fn mini<'a>(file: &ObjectFile<'a>, files: &'a Files) -> Option<ObjectFile<'a>> {
    let packed = file.raw(file.section(".gnu_debugdata")?);
    ObjectFile::parse(Packed::xz(packed).unpack(files)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_of_holes_is_not_added_up() {
        let path = env::temp_dir().join(format!("trommel-holes-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        for (size, can) in [
            (0, true),
            (MOST_HOLLOW, true),
            (MOST_HOLLOW + 1, false),
            (1 << 40, false),
        ] {
            file.set_len(size).expect("holes");
            assert_eq!(can_be_summed(&path), can, "{size}");
        }
        std::fs::remove_file(&path).expect("removed");
        assert!(!can_be_summed(&path));
    }

    #[test]
    fn a_link_has_a_plain_name_and_a_checksum() {
        let checksum = 0x0403_0201;
        assert_eq!(
            link(b"abc\0\x01\x02\x03\x04"),
            Some(("abc".as_ref(), checksum))
        );
        assert_eq!(
            link(b"ab\0\0\x01\x02\x03\x04"),
            Some(("ab".as_ref(), checksum))
        );
        assert_eq!(
            link(b"abcd\0\0\0\0\x01\x02\x03\x04"),
            Some(("abcd".as_ref(), checksum))
        );
        for wrong in [
            &b""[..],
            b"\0\0\0\0\x01\x02\x03\x04",
            b"abc\0\x01\x02\x03",
            b"abcd",
            b"/etc/passwd\0\x01\x02\x03\x04",
            b"..\0\0\x01\x02\x03\x04",
        ] {
            assert_eq!(link(wrong), None, "{wrong:?}");
        }
    }
}
