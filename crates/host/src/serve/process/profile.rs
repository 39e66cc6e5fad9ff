//! What a process has come to: its profile at its end, or at the end of an epoch.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use trommel_profile::{Counted, Origin, Profile, Run, Threads};
use trommel_queue::State;
use trommel_tuple::KindSet;

use super::{Done, End, Identity, Process, WINDOWS};
use crate::channel::shared::Shared;
use crate::serve::record::Engine;
use crate::serve::series::Figures;

impl Process {
    /// What it has come to since the last time, if it is sampled. `host`: our own CPU time so far.
    pub fn epoch(
        &mut self,
        kinds: KindSet,
        host: Duration,
        notice: &mut dyn FnMut(&str),
    ) -> Option<Profile> {
        let windows = self.windows.as_mut()?.take(&self.shared, host)?;
        self.hurried = true;
        self.serve(notice);
        self.hurried = false;
        let taken = self.folder.take(kinds, windows)?;
        let (started, clock) =
            std::mem::replace(&mut self.since, (SystemTime::now(), Instant::now()));
        Some(Profile {
            origin: Origin {
                pid: self.identity.pid.as_raw() as u32,
                parent: self.identity.parent,
                exec: false,
            },
            command: self.identity.command.clone(),
            compressor: WINDOWS.to_owned(),
            run: Run {
                started: nanos(started),
                wall: clock.elapsed().as_nanos() as u64,
                ..of_windows(&taken.windows)
            },
            modules: taken.modules,
            kinds: taken.kinds,
            sites: taken.sites,
            windows: Some(taken.windows),
            threads: Threads {
                started: self.threads(),
                each: Vec::new(),
            },
            ..Profile::default()
        })
    }

    /// Its profile; everything is folded. What it shared is left, for processes that it is just
    /// making.
    pub fn finish(
        self,
        compressor: &str,
        kinds: KindSet,
        host: Duration,
        notice: &mut dyn FnMut(&str),
    ) -> (Done, Ancestor) {
        let started = self.threads();
        let Self {
            identity,
            shared,
            folder,
            mut served,
            series,
            audit,
            windows,
            turns,
            ..
        } = self;
        let progress = audit.as_ref().and_then(|audit| audit.progress());
        let shares = audit.map(|audit| audit.total());
        let series = series.map(|mut series| {
            series.take(identity.pid, shared.control());
            series.into_samples()
        });
        let windows = windows.and_then(|mut w| w.take(&shared, host));
        let is_sampled = windows.is_some();
        let folded = folder.finish(&shared, kinds, windows);
        let control = shared.control();
        let mut detach = served.detach;
        if self.end != End::Exec && shared.state() == Some(State::Exec) {
            detach.push("it became another program (exec), which ran natively".to_owned());
        }
        let children = u64::from(control.children.load(Relaxed));
        if children != 0 {
            detach.push(format!("{children} child processes, which ran natively"));
        }
        match control.work.stops.load(Relaxed) {
            0 => {}
            1 => detach.push("it stopped the collection of events itself".to_owned()),
            n => detach.push(format!(
                "it stopped the collection of events itself, {n} times"
            )),
        }
        if control.window.load(Relaxed) != 0 && !is_sampled {
            notice(&taken(&shared));
        }
        if self.end == End::Left {
            detach.push("it went on when the first program had ended".to_owned());
        }
        if let Some(error) = &folded.stream_error {
            served.stream_failed = true;
            notice(&format!(
                "{error}; the stream is cut short, the profile is not"
            ));
        }
        let (began, clock) = self.since;
        let of_windows = folded.windows.as_ref().map(of_windows);
        let run = Run {
            started: nanos(began),
            wall: clock.elapsed().as_nanos() as u64,
            status: match self.end {
                End::Ended(status) => status,
                _ => None,
            },
            dropped: folded.lost.events,
            undercount: folded.lost.undercount,
            waits: control.waits.load(Relaxed),
            wait_time: control.wait_nanos.load(Relaxed),
            detach,
            ..of_windows.unwrap_or_default()
        };
        let engine = Engine {
            shares,
            progress,
            fragments: control.fragments.load(Relaxed),
            kept_fragments: control.kept_fragments.load(Relaxed),
            instructions: control.instructions.load(Relaxed),
            traces: control.trace.made.load(Relaxed),
            trace_instructions: control.trace.instructions.load(Relaxed),
            trace_bytes: control.trace.bytes.load(Relaxed),
            traces_abandoned: control.trace.abandoned.load(Relaxed),
            dispatches: control.dispatches.load(Relaxed),
            indirect_misses: control.indirect_misses.load(Relaxed),
            syscalls: control.syscalls.load(Relaxed),
            signals: control.signals.load(Relaxed),
            cache_bytes: control.cache_bytes.load(Relaxed),
            invalidations: control.invalidations.load(Relaxed),
            children,
            record_bytes: served.bytes,
            figures: Figures::read(control),
            series: series.unwrap_or_default(),
            turns,
            prefetch: folded.prefetch,
        };
        let threads = Threads {
            started,
            each: folded.threads,
        };
        shared.pages().family().ended(shared.pages().slot());
        // Whoever is there still has its write pointer in it, and finds it closed.
        if matches!(self.end, End::Left | End::Stays) || control.spawned.load(Relaxed) != 0 {
            shared.pages().keep();
        }
        // Who goes on from its dictionary has no use for its chunks.
        shared.pages().discard_pool();
        let done = Done {
            profile: Profile {
                origin: Origin {
                    pid: identity.pid.as_raw() as u32,
                    parent: identity.parent,
                    exec: self.end == End::Exec,
                },
                command: identity.command.clone(),
                compressor: match is_sampled {
                    true => WINDOWS.to_owned(),
                    false => compressor.to_owned(),
                },
                counted: match shared.has_counter_arrays() {
                    true => Counted::Code,
                    false => Counted::Service,
                },
                modules: folded.modules.list,
                kinds: folded.kinds,
                sites: folded.sites,
                run,
                threads,
                windows: folded.windows,
                queries: folded.queries,
                samples: None,
                filter: folded.filter,
            },
            engine,
            stream_whole: !served.stream_failed,
        };
        (done, Ancestor { identity, shared })
    }
}

/// Nanoseconds since 1970.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

/// What the account of windows tells of a run.
fn of_windows(windows: &trommel_profile::windows::Windows) -> Run {
    Run {
        target_cpu: windows.cpu + windows.in_windows + windows.in_kernel,
        host_cpu: windows.host,
        ..Run::default()
    }
}

/// A process that has ended, as those that it has made remember it.
pub struct Ancestor {
    /// Who it was.
    pub identity: Identity,
    /// What it shared.
    pub shared: Shared,
}

impl Ancestor {
    /// Whether processes are still being made by it.
    pub fn is_needed(&self) -> bool {
        let pages = self.shared.pages();
        pages.family().expects(pages.slot())
    }
}

/// What windows have come to, for tests.
fn taken(shared: &Shared) -> String {
    let windows = &shared.control().windows;
    let counts = [
        ("ended", &windows.ended),
        ("instructions", &windows.instructions),
        ("whole", &windows.whole),
        ("calls", &windows.calls),
        ("signals", &windows.signals),
        ("refused", &windows.refused),
        ("skipped", &windows.skipped),
    ];
    let counts = counts.map(|(name, count)| format!("{name} {}", count.load(Relaxed)));
    let last = windows.last.iter().map(|last| {
        let words = [&last.from, &last.to, &last.instructions];
        words.map(|word| word.load(Relaxed))
    });
    let last = last.filter(|[from, ..]| *from != 0);
    let last: Vec<String> = last
        .map(|[from, to, n]| format!("{from:x}-{to:x}:{n}"))
        .collect();
    format!("windows: {}; last {}", counts.join(", "), last.join(" "))
}
