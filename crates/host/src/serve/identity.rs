//! Identities of processes, and how they end for a session.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::unistd::Pid;

use crate::kernel::running::command_of;

/// Identity of a process: its number, and where it comes from.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its number, as the host sees it.
    pub pid: Pid,
    /// Number of the process that started it; 0 for the first.
    pub parent: u32,
    /// Its program and arguments.
    pub command: Vec<Vec<u8>>,
}

impl Identity {
    /// Returns that of the process that a run starts with, whose arguments are these.
    pub fn first(pid: Pid, arguments: &[OsString]) -> Self {
        Self {
            pid,
            parent: 0,
            command: arguments.iter().map(|a| a.as_bytes().to_vec()).collect(),
        }
    }

    /// Returns that of a process that has just executed a program.
    pub(super) fn executed(pid: Pid, parent: u32) -> Self {
        Self {
            pid,
            parent,
            command: command_of(pid.as_raw()),
        }
    }
}

/// End of a process, as Trommel sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum End {
    /// It goes on.
    #[default]
    No,
    /// It has ended, with a status as in [`trommel_profile::Run::status`].
    Ended(Option<i32>),
    /// It is another program now, which is observed.
    Exec,
    /// It was detached, and is under control again: as another.
    Back,
    /// It was detached, and stays native.
    Stays,
    /// It goes on without us.
    Left,
}

/// The program that a process runs.
pub(super) fn program_of(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}
