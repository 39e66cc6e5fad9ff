//! The command under test, and the directory for what tests build and keep.
//!
//! Tests of the profile `ci` try the command of that profile, so one build makes both. All others take the released command:
//! what measures does, and an unoptimised command misses the times that some tests set. Each finds the target directory by
//! where it is itself, whatever the directory's name is.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The top of the workspace.
pub fn workspace() -> PathBuf {
    // Cargo tells it when it runs tests. What was compiled in may be the checkout that this one was copied from.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors()
        .nth(2)
        .unwrap_or(Path::new("."))
        .to_path_buf()
}

/// Directory in which this program is built.
struct Place {
    /// The target directory.
    target: PathBuf,
    /// The profile whose command is tried, which is the name of its directory too.
    profile: String,
}

impl Place {
    /// The place of this process's program. Tests are in `TARGET/PROFILE/deps`, others in `TARGET/PROFILE`.
    fn here() -> Self {
        let exe = std::env::current_exe().unwrap_or_default();
        let dir = exe.parent().unwrap_or(Path::new(""));
        let is_test = dir.ends_with("deps");
        let profile = if is_test { dir.parent() } else { Some(dir) };
        let target = profile.and_then(Path::parent);
        let name = profile.and_then(Path::file_name);
        let profile = match name.map(|name| name.to_string_lossy().into_owned()) {
            Some(name) if is_test && name != "debug" => name,
            _ => "release".to_owned(),
        };
        Self {
            target: target.map_or_else(|| workspace().join("target"), Path::to_path_buf),
            profile,
        }
    }
}

/// The target directory that this program was built in.
pub fn target_dir() -> PathBuf {
    Place::here().target
}

/// The directory for what tests build and keep.
pub fn cache_dir() -> PathBuf {
    target_dir().join("conformance")
}

/// True if this process shall list its tests, and run none.
pub fn listing() -> bool {
    std::env::args_os().any(|word| word == "--list")
}

/// The command under test: `TROMMEL_BIN`, else the workspace's own, built first.
///
/// # Panics
/// When the build fails: no test passes for want of a command.
pub fn trommel() -> &'static Path {
    static BIN: OnceLock<PathBuf> = OnceLock::new();
    BIN.get_or_init(|| {
        if let Some(path) = std::env::var_os("TROMMEL_BIN") {
            return PathBuf::from(path);
        }
        let place = Place::here();
        once_a_run("command", || build(&place));
        place.target.join(&place.profile).join("trommel")
    })
}

fn build(place: &Place) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With the features of all members, as the tests were built.
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--bin", "trommel", "--profile"])
        .arg(&place.profile)
        .arg("--target-dir")
        .arg(&place.target)
        .current_dir(workspace())
        .status();
    assert!(
        status.is_ok_and(|s| s.success()),
        "cargo build --profile {} --bin trommel failed",
        place.profile
    );
    String::new()
}

/// Finds out what is the same for all tests of a run: the first process does, others are told. `cargo nextest` has a
/// process for each test, and a number for the run.
pub fn once_a_run(what: &str, find: impl FnOnce() -> String) -> String {
    let made = tried_once_a_run(what, || Ok(find()));
    made.expect("it was found")
}

/// The same of what may fail.
///
/// # Errors
/// Those of `find`, and the next one tries again.
pub fn tried_once_a_run(
    what: &str,
    find: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    match std::env::var_os("NEXTEST_RUN_ID") {
        Some(run) => kept("once", what, &run.to_string_lossy(), find),
        None => find(),
    }
}

/// A text by its name, made once for all tests while its `stamp` is the same. Others wait while one makes it.
///
/// # Errors
/// Those of `make`, and nothing is kept then.
///
/// # Panics
/// Without a directory that can be written.
pub fn kept(
    room: &str,
    name: &str,
    stamp: &str,
    make: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    let dir = cache_dir().join(room);
    fs::create_dir_all(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let hash = |text: &str| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    let path = dir.join(hash(name));
    let mut file = locked(&path);
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    let head = format!("{}\n", hash(stamp));
    if let Some(found) = text.strip_prefix(&head) {
        return Ok(found.to_owned());
    }
    let made = make()?;
    file.set_len(0).expect("the file can be written");
    file.rewind().expect("the file can be written");
    // The stamp comes last: what is cut short is made again.
    file.write_all(" ".repeat(head.len()).as_bytes())
        .and_then(|()| file.write_all(made.as_bytes()))
        .and_then(|()| file.rewind())
        .and_then(|()| file.write_all(head.as_bytes()))
        .expect("the file can be written");
    Ok(made)
}

/// A file that no other process has meanwhile.
fn locked(path: &Path) -> fs::File {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let file = file.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    file.lock().expect("the file can be locked");
    file
}
