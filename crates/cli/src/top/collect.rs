//! The process that collects: it attaches or samples, and writes a line of JSON for each moment.
//!
//! # Problem
//! Attaching must begin in a process with one thread, and a terminal wants an answer to each key. A mistake while collecting must not
//! leave the terminal in disorder.
//!
//! # Strategy
//! A child collects, and its parent has the terminal. Between them is a pipe of snapshots with names. Where the parent is gone, the
//! kernel asks the child to end, and it detaches.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use trommel_compress::Spec;
use trommel_host::kernel::interrupt::Guard;
use trommel_host::machine::{self, Subject};
use trommel_host::serve::epochs::{Epochs, LatestIntervals};
use trommel_host::windows::sampling::Sampling;
use trommel_profile::Profile;
use trommel_symbol::Files;
use trommel_tuple::{Kind, KindSet};

use super::snapshot::Snapshot;
use crate::args::SKIP;
use crate::host::{self, Options};
use crate::inherited;
use crate::news;
use crate::record::USUAL_KINDS;

/// Subject and cost of what is collected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The process; `None`: the whole machine.
    pub(super) pid: Option<i32>,
    pub(super) budget: f64,
    pub(super) delay: Duration,
    /// The process that shows it.
    pub(super) shown_by: i32,
    /// The interval profiler of a process, if its latest intervals are shown.
    pub(super) intervals: Option<Profiler>,
}

/// An interval profiler, and what it profiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profiler {
    pub(super) spec: Spec,
    pub(super) kinds: KindSet,
}

/// Collects until the process ends or `guard` is interrupted, and returns the exit status.
pub(super) fn run(settings: Settings, to: File, guard: &Guard) -> u8 {
    let mut lines = Lines {
        to,
        files: Files::new(),
    };
    let done = match (settings.pid, settings.intervals) {
        (Some(pid), Some(profiler)) => intervals(settings, (pid, profiler), &mut lines, guard),
        (Some(pid), None) => windows(settings, pid, &mut lines, guard),
        (None, _) => samples(settings, &mut lines, guard),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            lines.write(&Snapshot::said(format!("{error:#}")));
            1
        }
    }
}

/// Writes snapshots.
struct Lines {
    to: File,
    /// Kept, so that symbols are read once.
    files: Files,
}

impl Lines {
    fn write(&mut self, snapshot: &Snapshot) {
        let Ok(mut line) = serde_json::to_vec(snapshot) else {
            return;
        };
        line.push(b'\n');
        // Where nobody reads any more, the signal that asks for the end is on its way.
        let _ = self.to.write_all(&line);
    }
}

fn windows(settings: Settings, pid: i32, lines: &mut Lines, guard: &Guard) -> Result<()> {
    let (program, arguments) = host::running(pid)?;
    let options = Options {
        sampling: Some(Sampling {
            budget: settings.budget,
            rate: None,
            length: None,
            skip: SKIP,
            by_caller: false,
        }),
        ..Options::of(program, arguments, kinds())?
    };
    // News come between profiles, and are written with the next one.
    let said = RefCell::new(Vec::new());
    let mut notice = |news| said.borrow_mut().push(news::sentence(&news));
    let mut give = |profile: Profile| {
        let mut snapshot = Snapshot::of_windows(&profile, &lines.files);
        snapshot.news = said.take();
        lines.write(&snapshot);
    };
    // The parent has the terminal: what that takes is paid from the budget too.
    let epochs =
        Epochs::new(settings.delay, &mut give).shown_by(settings.shown_by, settings.budget);
    let recording = host::record_epochs(options, pid, None, guard, &mut notice, Some(epochs))?;
    give(recording.profile);
    // The process ends now: giving back each piece would only take time.
    std::mem::forget(recording.engine);
    Ok(())
}

fn intervals(
    settings: Settings,
    (pid, profiler): (i32, Profiler),
    lines: &mut Lines,
    guard: &Guard,
) -> Result<()> {
    let (program, arguments) = host::running(pid)?;
    let options = Options {
        compressor: profiler.spec,
        ..Options::of(program, arguments, profiler.kinds)?
    };
    let said = RefCell::new(Vec::new());
    let mut notice = |news| said.borrow_mut().push(news::sentence(&news));
    let mut give = |latest: LatestIntervals| {
        let mut snapshot = Snapshot::of_intervals(&latest, &profiler.spec, &lines.files);
        snapshot.news = said.take();
        lines.write(&snapshot);
    };
    let epochs = Epochs::of_intervals(settings.delay, &mut give);
    let recording = host::record_epochs(options, pid, None, guard, &mut notice, Some(epochs))?;
    // The process ends now: giving back each piece would only take time.
    std::mem::forget(recording);
    // What was said at last has no counts.
    for news in said.take() {
        lines.write(&Snapshot::said(news));
    }
    Ok(())
}

fn kinds() -> KindSet {
    let kinds: [Kind; 3] = USUAL_KINDS;
    kinds.into_iter().collect()
}

fn samples(settings: Settings, lines: &mut Lines, guard: &Guard) -> Result<()> {
    let options = machine::Options {
        subject: Subject::Machine,
        budget: settings.budget,
        inherited: inherited::inherited(),
        ..machine::Options::default()
    };
    let mut give = |profiles: Vec<Profile>| {
        lines.write(&Snapshot::of_samples(profiles, &lines.files));
    };
    let every = machine::Every::new(settings.delay, &mut give);
    let recording = machine::record_every(&options, guard, every)?;
    give(recording.profiles);
    Ok(())
}
