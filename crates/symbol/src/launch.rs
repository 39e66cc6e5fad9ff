//! From the program name that was typed to the file that will run.
//!
//! The rules are those of `execvp` and of the kernel's script loader, followed ahead of time so
//! that whatever is wrong can be said in words before a process exists. Exit statuses are those
//! that shells give: 127 for a program that is not there, 126 for one that cannot run.
//!
//! A text without a `#!` line is no program to the kernel, which refuses it with ENOEXEC. `execvp` then has a shell run it, and so do we.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::elf::{self, ElfError, Format, Image, Script};

/// The kernel follows this many scripts to an interpreter.
const MAX_SCRIPTS: usize = 5;
/// The shell by which `execvp` runs a text.
const SHELL: &str = "/bin/sh";

/// Reasons why a program cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No such program in `PATH`.
    #[error("{}: command not found; is it installed, and its directory in PATH?", program.to_string_lossy())]
    NotInPath {
        /// The name as typed.
        program: OsString,
    },
    /// No such file.
    #[error("{}: no such file; check the path", path.display())]
    Missing {
        /// The path as typed.
        path: PathBuf,
    },
    /// No execute permission.
    #[error("{}: not executable; `chmod +x` it, or name its interpreter first", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The file is there but not a program we can run.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// A script's interpreter cannot run.
    #[error("{}: its interpreter cannot run: {source}", script.display())]
    Interpreter {
        /// The script.
        script: PathBuf,
        /// The problem with the interpreter.
        source: Box<LaunchError>,
    },
    /// Scripts that run scripts that run scripts.
    #[error("{}: more than {MAX_SCRIPTS} scripts name each other as interpreters", path.display())]
    TooManyScripts {
        /// The script that was typed.
        path: PathBuf,
    },
    /// The dynamic loader is missing.
    #[error("{}: its dynamic loader {} is missing; install the C library it was built for", path.display(), loader.display())]
    NoLoader {
        /// The program.
        path: PathBuf,
        /// The loader it names.
        loader: PathBuf,
    },
}

impl LaunchError {
    /// The exit status that a shell would give.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotInPath { .. } | Self::Missing { .. } => 127,
            Self::Interpreter { .. } => 126,
            _ => 126,
        }
    }
}

/// A program that can be started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The file to hand to `execve`: found in `PATH` or as typed.
    pub path: PathBuf,
    /// The scripts between it and the ELF file, outermost first; empty for an ELF program.
    pub scripts: Vec<Script>,
    /// The ELF file that will run: `path` itself, or the last interpreter.
    pub elf: PathBuf,
    /// The image of that file.
    pub image: Image,
}

/// Finds the program that `words` start, as [`resolve`] does its name. Where a shell is to run it, they become the shell's.
///
/// # Errors
/// As those of [`resolve`].
pub fn resolve_command(
    words: &mut Vec<OsString>,
    path_variable: Option<&OsStr>,
) -> Result<Program, LaunchError> {
    let path = find_command(words, path_variable)?;
    resolve(path.as_os_str(), None)
}

/// Finds the program that `words` start, as [`find`] does its name. Where a shell is to run it, they become the shell's.
///
/// # Errors
/// As those of [`find`].
pub fn find_command(
    words: &mut Vec<OsString>,
    path_variable: Option<&OsStr>,
) -> Result<PathBuf, LaunchError> {
    let name = words.first().cloned().unwrap_or_default();
    let path = find(&name, path_variable)?;
    if !is_for_shell(&path) {
        return Ok(path);
    }
    words.splice(..1, [SHELL.into(), path.into()]);
    Ok(SHELL.into())
}

/// Returns whether the kernel takes an executable file, or the last of its interpreters, for no program, and it is a text.
fn is_for_shell(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..=MAX_SCRIPTS {
        if !is_executable(&path) {
            return false;
        }
        path = match elf::inspect(&path) {
            Ok(Format::Script(script)) => script.interpreter,
            Err(ElfError::NotAProgram { text, .. }) => return text,
            _ => return false,
        };
    }
    false
}

/// Finds `program` as a shell would and checks all that can be checked without running it.
///
/// # Errors
/// What keeps it from running; [`LaunchError::exit_code`] is the status for it.
pub fn resolve(program: &OsStr, path_variable: Option<&OsStr>) -> Result<Program, LaunchError> {
    let path = find(program, path_variable)?;
    let mut scripts = Vec::new();
    let mut elf = path.clone();
    loop {
        match check(&elf) {
            Ok(Format::Elf(image)) => {
                check_loader(&elf, &image)?;
                return Ok(Program {
                    path,
                    scripts,
                    elf,
                    image,
                });
            }
            Ok(Format::Script(_)) if scripts.len() == MAX_SCRIPTS => {
                return Err(LaunchError::TooManyScripts { path });
            }
            Ok(Format::Script(script)) => {
                elf.clone_from(&script.interpreter);
                scripts.push(script);
            }
            Err(source) if scripts.is_empty() => return Err(source),
            Err(source) => {
                return Err(LaunchError::Interpreter {
                    script: path,
                    source: Box::new(source),
                });
            }
        }
    }
}

/// Finds `program` as a shell would, whatever it is.
///
/// # Errors
/// There is none in `path_variable`.
pub fn find(program: &OsStr, path_variable: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    match program.as_bytes().contains(&b'/') {
        true => Ok(PathBuf::from(program)),
        false => find_in_path(program, path_variable),
    }
}

fn find_in_path(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, LaunchError> {
    let path = path.unwrap_or(OsStr::new("/bin:/usr/bin"));
    let mut not_executable = None;
    for directory in path.as_bytes().split(|&c| c == b':') {
        let directory = if directory.is_empty() {
            b"."
        } else {
            directory
        };
        let candidate = Path::new(OsStr::from_bytes(directory)).join(program);
        if program.is_empty() || !candidate.is_file() {
            continue;
        }
        if is_executable(&candidate) {
            return Ok(candidate);
        }
        not_executable.get_or_insert(candidate);
    }
    Err(match not_executable {
        Some(path) => LaunchError::NotExecutable { path },
        None => LaunchError::NotInPath {
            program: program.to_owned(),
        },
    })
}

fn check(path: &Path) -> Result<Format, LaunchError> {
    let format = elf::inspect_program(path);
    match format {
        Err(ElfError::Read { source, .. }) if is_missing(&source) => Err(LaunchError::Missing {
            path: path.to_owned(),
        }),
        // A directory is executable; saying what it is helps more.
        Err(error @ ElfError::NotAFile { .. }) => Err(error.into()),
        _ if !is_executable(path) => Err(LaunchError::NotExecutable {
            path: path.to_owned(),
        }),
        Err(ElfError::Read { path, source }) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(ElfError::Read {
                path,
                source: io::Error::new(
                    source.kind(),
                    "no permission to read it, and trommel must read what it observes; `chmod +r` it",
                ),
            }
            .into())
        }
        other => Ok(other?),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns true if any execute bit is set. The system has the last word (access lists, `noexec` mounts).
fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
}

fn check_loader(path: &Path, image: &Image) -> Result<(), LaunchError> {
    match &image.interpreter {
        Some(loader) if !loader.exists() => Err(LaunchError::NoLoader {
            path: path.to_owned(),
            loader: loader.clone(),
        }),
        _ => Ok(()),
    }
}
