//! Other programs that trace a thread.

use std::fs;

use nix::unistd::Pid;

use crate::kernel::running::{KEEPER_NAME, tracer_of};
use crate::kernel::workers;

/// The process in the way of who would trace a thread.
pub(super) enum Tracer {
    /// A keeper of a command that has ended.
    Keeper(u32),
    /// None any more, or one that ends just now: the kernel takes its threads from it.
    Leaving,
    /// Another program, by its name.
    Another(u32, String),
}

impl Tracer {
    pub(super) fn of(tid: Pid) -> Self {
        let Some(tracer) = tracer_of(tid) else {
            return Self::Leaving;
        };
        let name = fs::read(format!("/proc/{tracer}/comm")).unwrap_or_default();
        let name = name.trim_ascii();
        if name == KEEPER_NAME.to_bytes() {
            return Self::Keeper(tracer);
        }
        match is_ending(tracer) {
            true => Self::Leaving,
            false => Self::Another(tracer, String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// Returns true for a process that has ended, or is about to: it executes nothing of its own any more.
fn is_ending(pid: u32) -> bool {
    /// `PF_EXITING` of the kernel's flags.
    const EXITING: u64 = 4;
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let has_ended = state.starts_with(['Z', 'X']);
    has_ended || workers::flags(&stat).is_some_and(|flags| flags & EXITING != 0)
}
