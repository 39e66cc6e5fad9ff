//! A program recorded from its first instruction to its end, and the processes that it starts.
//!
//!
//! Here is what goes in and what comes out; [`crate::serve::session`] does it.

use std::ffi::OsString;
use std::sync::atomic::Ordering::Relaxed;

use trommel_profile::Profile;

use crate::channel::bell;
use crate::channel::family::Family;
use crate::channel::shared::Shared;
use crate::kernel::interrupt::Guard;
use crate::ptrace::launch::{Command, launch, start};
use crate::serve::engine::Engine;
use crate::serve::failure::RecordError;
use crate::serve::identity::Identity;
use crate::serve::news::News;
use crate::serve::options::RecordOptions;
use crate::serve::persist::Keeping;
use crate::serve::recording::Recording;
use crate::serve::session::Session;
use crate::windows::toll::{self};

/// Runs the program and collects its events. `notice` gets, as it happens, what the user should
/// know. `others` gets the profile of each further process when that ends, and what its engine did. While it runs, `guard` gives it the interrupts; who writes the profile keeps
/// the guard until that is done.
///
/// Must be called while this process has one thread.
///
/// # Errors
/// Why there is nothing to record.
pub fn record(
    options: &RecordOptions,
    guard: &Guard,
    notice: &mut dyn FnMut(News),
    others: &mut dyn FnMut(Profile, Engine),
) -> Result<Recording, RecordError> {
    let toll = options.toll()?;
    if options.tracing.late().is_some() {
        return record_late(options, guard, notice, others);
    }
    let family = Family::new().map_err(RecordError::shared)?;
    let mut session = Session::new(options, toll, notice, others)?;
    let shared = Shared::first(&family, session.terms()).map_err(RecordError::shared)?;
    let stream = options.stream()?;
    session.begins();
    let command = command(options, guard);
    let keeping = session.kept(&options.program.elf);
    if keeping.is_some() {
        shared.control().setup.persist.store(1, Relaxed);
    }
    let kept = keeping.as_ref().and_then(Keeping::file);
    let launched = launch(&command, family.fd(), kept, || shared.warm());
    let pid = launched.map_err(|failure| RecordError::Launch {
        program: options.program.path.clone(),
        failure,
    })?;
    let watch = bell::watch();
    let stream = stream.map(|(file, limit)| (file.begin(), limit));
    let identity = Identity::first(pid, &options.arguments);
    if let Some(keeping) = keeping {
        session.will_keep(&shared, keeping);
    }
    session.first(identity, shared, stream);
    session.serve(None);
    guard.ended();
    drop(watch);
    session.conclude()
}

fn command<'a>(options: &'a RecordOptions, guard: &'a Guard) -> Command<'a> {
    Command {
        file: &options.program.path,
        args: options.arguments.iter().map(OsString::as_os_str).collect(),
        inherited: options.inherited,
        guard,
    }
}

/// Records as [`record`] does, programs that run natively at first.
fn record_late(
    options: &RecordOptions,
    guard: &Guard,
    notice: &mut dyn FnMut(News),
    others: &mut dyn FnMut(Profile, Engine),
) -> Result<Recording, RecordError> {
    let mut session = Session::new(options, None, notice, others)?;
    session.begins();
    let watch = bell::watch();
    let started = start(&command(options, guard));
    let pid = started.map_err(|failure| RecordError::Launch {
        program: options.program.path.clone(),
        failure,
    })?;
    session.first_natively(pid);
    session.serve(None);
    guard.ended();
    drop(watch);
    session.conclude()
}

/// Returns true if windows can be begun here.
///
/// # Errors
/// The kernel refuses.
pub fn check_windows() -> Result<(), RecordError> {
    toll::measure().map(drop).map_err(RecordError::Windows)
}
