//! Failures: of a run that cannot be recorded, and of the runtime in a process.

use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use crate::ask::custom;
use crate::channel::image;
use crate::channel::shared::Shared;
use crate::kernel::running::Refusal;
use crate::ptrace::launch::LaunchFailure;

/// Reasons why a run could not be recorded at all.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program did not start.
    #[error("{}: {failure}", .program.display())]
    Launch {
        /// The program.
        program: PathBuf,
        /// The reason.
        failure: LaunchFailure,
    },
    /// A running program was not attached.
    #[error("process {pid}: {why}")]
    NotAttached {
        /// The process.
        pid: i32,
        /// The reason.
        why: NotAttached,
    },
    /// No shared memory.
    #[error(
        "cannot make the memory shared with the program: {0}; `trommel doctor` tells what is in the way"
    )]
    Shared(std::io::Error),
    /// The program has no room for the runtime, or may not have it.
    #[error("{}: the runtime cannot start in it: a limit or a sandbox refuses it memory; `trommel doctor` tells which", .program.display())]
    NotStarted {
        /// The program; nothing of it has run.
        program: PathBuf,
    },
    /// No windows.
    #[error(
        "no windows can be begun: the kernel refuses perf events: {0}; sysctl kernel.perf_event_paranoid must be 2 or less, or give this command CAP_PERFMON"
    )]
    Windows(std::io::Error),
    /// No file for messages.
    #[error("{}: cannot write messages: {error}", .path.display())]
    Messages {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// A service that cannot do its work.
    #[error("service {name}: {why}")]
    Service {
        /// Name of the service.
        name: String,
        /// Reason that the service gives.
        why: String,
    },
    /// A customisation module that cannot be used.
    #[error("customisation module {name}: {why}")]
    Custom {
        /// Name of the module.
        name: String,
        /// Reason of the refusal.
        why: custom::Refusal,
    },
    /// No stream file.
    #[error("{}: cannot write the event stream: {error}", .path.display())]
    Stream {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
}

impl RecordError {
    /// The error of memory that could not be shared. It names a limit that is in the way.
    pub fn shared(error: std::io::Error) -> Self {
        match address_space() {
            Some(limit) if error.kind() == std::io::ErrorKind::OutOfMemory => {
                Self::Shared(std::io::Error::other(format!(
                    "the hard limit on memory (ulimit -Hv {}) leaves no room for it, and only root may raise that",
                    limit >> 10
                )))
            }
            _ => Self::Shared(error),
        }
    }
}

/// Returns this process's hard limit on its address space, if there is one.
fn address_space() -> Option<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_AS).ok()?;
    (hard != RLIM_INFINITY).then_some(hard)
}

/// Reasons why a running process was not recorded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAttached {
    /// It cannot be.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It could not be.
    #[error("{why}{}", hint(.why))]
    Failed {
        /// In words.
        why: String,
    },
}

/// Returns the fix for a refusal of the kernel's.
fn hint(why: &str) -> &'static str {
    match why.contains("may not be traced") {
        true => {
            "; be the process's user, or root; sysctl kernel.yama.ptrace_scope must be 0, or give this command CAP_SYS_PTRACE; `trommel doctor` tells which"
        }
        false => "",
    }
}

/// A failure of the runtime: a signal in its own code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeFailure {
    /// The signal.
    pub signal: u32,
    /// The function and offset of the runtime's code that raised it.
    pub at: String,
    /// Its callers, the nearest first.
    pub callers: Vec<String>,
    /// The runtime's build.
    pub build: u64,
}

impl RuntimeFailure {
    /// The failure of the runtime in a process, if there is one.
    pub(super) fn find(shared: &Shared) -> Option<Self> {
        let failure = &shared.control().failure;
        let signal = failure.signal.load(Acquire);
        if signal == 0 {
            return None;
        }
        let name = |offset: u64| match image::function(offset) {
            Some((name, after)) => format!("{name}+{after:#x}"),
            None => format!("{offset:#x}"),
        };
        let callers = failure.stack.iter().map(|s| s.load(Relaxed));
        Some(Self {
            signal,
            at: name(failure.offset.load(Relaxed)),
            callers: callers.take_while(|at| *at != 0).map(name).collect(),
            build: image::build(),
        })
    }
}
