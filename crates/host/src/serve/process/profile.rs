//! Profile of a process at its end, or at the end of an epoch.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime};

use trommel_profile::simulated::Simulated;
use trommel_profile::{Counted, Origin, Profile, Run, Threads};
use trommel_queue::State;
use trommel_tuple::{KindSet, ModuleId, Place};

use super::Process;
use crate::channel::shared::Shared;
use crate::fold::Folded;
use crate::kernel::running;
use crate::serve::engine::Engine;
use crate::serve::epochs::LatestIntervals;
use crate::serve::identity::End;
use crate::serve::news::{News, WindowCounts};
use crate::serve::recording::{Ancestor, Done};
use crate::serve::unobserved::Unobserved;

/// Name that stands for a compressor in profiles that are made of windows.
const WINDOWS: &str = "windows";

impl Process {
    /// Returns the profile and the news since the last time, if it is sampled. `host`: our own CPU time so far.
    pub fn epoch(&mut self, kinds: KindSet, host: Duration) -> (Option<Profile>, Vec<News>) {
        let windows = self.windows.as_mut();
        let Some(windows) = windows.and_then(|w| w.take(&self.shared, host)) else {
            return (None, Vec::new());
        };
        self.hurried = true;
        let news = self.serve();
        self.hurried = false;
        let Some(taken) = self.folder.take(&self.shared, kinds, windows) else {
            return (None, news);
        };
        let part = self.part();
        let profile = Profile {
            compressor: WINDOWS.to_owned(),
            run: Run {
                started: part.run.started,
                wall: part.run.wall,
                ..of_windows(&taken.windows)
            },
            modules: taken.modules,
            kinds: taken.kinds,
            sites: taken.sites,
            windows: Some(taken.windows),
            queries: taken.queries,
            ..part
        };
        (Some(profile), news)
    }

    /// Returns a profile without events, of the time since the last one.
    fn part(&mut self) -> Profile {
        let (started, clock) =
            std::mem::replace(&mut self.since, (SystemTime::now(), Instant::now()));
        Profile {
            origin: Origin {
                pid: self.identity.pid.as_raw() as u32,
                parent: self.identity.parent,
                exec: false,
            },
            command: self.identity.command.clone(),
            run: Run {
                started: nanos(started),
                wall: clock.elapsed().as_nanos() as u64,
                ..Run::default()
            },
            threads: Threads {
                started: self.threads(),
                each: Vec::new(),
            },
            ..Profile::default()
        }
    }

    /// Returns the latest intervals and the news since the last time, if somebody looks at them.
    pub fn latest(&mut self) -> (Option<LatestIntervals>, Vec<News>) {
        if !self.folder.keeps_latest() {
            return (None, Vec::new());
        }
        let news = self.serve();
        let Some((latest, ended, modules)) = self.folder.latest() else {
            return (None, news);
        };
        let cpu = running::cpu_time(self.identity.pid).unwrap_or(self.cpu);
        let before = std::mem::replace(&mut self.cpu, cpu);
        let profile = Profile {
            modules,
            ..self.part()
        };
        let latest = LatestIntervals {
            profile,
            cpu: cpu.saturating_sub(before),
            ended,
            latest,
        };
        (Some(latest), news)
    }

    /// Its profile; everything is folded. What it shared is left, for processes that it is just
    /// making.
    pub fn finish(
        mut self,
        compressor: &str,
        kinds: KindSet,
        host: Duration,
    ) -> (Done, Ancestor, Vec<News>) {
        let threads = self.threads();
        let windows = self.account(host);
        let control = self.shared.control();
        let audit = self.audit.take();
        let progress = audit.as_ref().and_then(|audit| audit.progress());
        let shares = audit.map(|audit| audit.total());
        let series = self.series.take().map(|mut series| {
            series.take(self.identity.pid, control);
            series.into_samples()
        });
        let is_sampled = windows.is_some();
        let mut folded = self.folder.finish(&self.shared, kinds, windows);
        let told = std::mem::take(&mut self.served.unobserved);
        let unobserved = unobserved(told, &self.shared, self.end);
        if control.window.length.load(Relaxed) != 0 && !is_sampled {
            let counts = window_counts(&self.shared);
            self.served.tell(News::WindowCounts(counts));
        }
        if let Some(error) = &folded.stream_error {
            self.served.stream_failed = true;
            self.served.tell(News::StreamCut {
                error: error.to_string(),
                goes_on: false,
            });
        }
        let (started, clock) = self.since;
        let run = Run {
            started: nanos(started),
            wall: clock.elapsed().as_nanos() as u64,
            status: match self.end {
                End::Ended(status) => status,
                _ => None,
            },
            dropped: folded.lost.events,
            undercount: folded.lost.undercount,
            waits: control.chunks.waits.load(Relaxed),
            wait_time: control.chunks.wait_nanos.load(Relaxed),
            detach: unobserved.iter().map(ToString::to_string).collect(),
            ..folded.windows.as_ref().map(of_windows).unwrap_or_default()
        };
        let engine = Engine {
            shares,
            progress,
            record_bytes: self.served.bytes,
            series: series.unwrap_or_default(),
            turns: self.turns,
            prefetch: folded.prefetch.take(),
            ..Engine::of(control)
        };
        leave(&self.shared, self.end);
        let pid = self.identity.pid.as_raw() as u32;
        let compiled = self.compiled.functions(&in_compiled_code(&folded));
        let profile = Profile {
            origin: Origin {
                pid,
                parent: self.identity.parent,
                exec: self.end == End::Exec,
            },
            command: self.identity.command.clone(),
            compressor: match is_sampled {
                true => WINDOWS.to_owned(),
                false => compressor.to_owned(),
            },
            counted: match self.shared.has_counter_arrays() {
                true => Counted::Code,
                false => Counted::Service,
            },
            run,
            compiled,
            scope: self.scope,
            ..of_folded(folded, pid, threads)
        };
        let done = Done {
            profile,
            engine,
            stream_whole: !self.served.stream_failed,
        };
        let ancestor = Ancestor {
            identity: self.identity,
            shared: self.shared,
        };
        (done, ancestor, self.served.news())
    }

    /// Returns the account of its windows or bursts, if it is seen in those.
    fn account(&mut self, host: Duration) -> Option<trommel_profile::windows::Windows> {
        let windows = self.windows.take();
        let windows = windows.and_then(|mut windows| windows.take(&self.shared, host));
        let bursts = self.bursts.take();
        windows.or_else(|| Some(bursts?.account.account(host)))
    }
}

/// Gives back what an ended process shared, as far as nobody has a use for it.
fn leave(shared: &Shared, end: End) {
    let pages = shared.pages();
    pages.family().ended(pages.slot());
    // Whoever is there still has its write pointer in it, and finds it closed.
    let spawned = shared.control().process.spawned.load(Relaxed) != 0;
    if matches!(end, End::Left | End::Stays) || spawned {
        pages.keep();
    }
    // Who goes on from its dictionary has no use for its chunks.
    pages.discard_pool();
}

/// Profile of what was counted in a process that has started so many threads.
fn of_folded(folded: Folded, pid: u32, threads: u64) -> Profile {
    Profile {
        modules: folded.modules.list,
        kinds: folded.kinds,
        sites: folded.sites,
        threads: Threads {
            started: threads,
            each: folded.threads,
        },
        windows: folded.windows,
        queries: folded.queries,
        filter: folded.filter,
        call_trees: folded.contexts.into_iter().collect(),
        simulated: folded.simulated.map(|simulated| of_process(simulated, pid)),
        intervals: folded.intervals.map(|intervals| intervals.of_process(pid)),
        after_calls: folded.after_calls,
        deliveries: folded.deliveries,
        ..Profile::default()
    }
}

/// Results of simulation with the number of their process.
fn of_process(mut simulated: Simulated, pid: u32) -> Simulated {
    let lines = simulated.sharing.iter_mut().flat_map(|s| &mut s.lines);
    lines.for_each(|line| line.process = pid);
    simulated
}

/// Addresses of events in code that is in no file.
fn in_compiled_code(folded: &Folded) -> BTreeSet<u64> {
    let places = folded.kinds.iter().flat_map(|(kind, data)| {
        data.counts.iter().flat_map(|(at, values)| {
            let values = values.iter().filter(|_| kind.value_is_place());
            values
                .map(|(value, _)| Place::from_word(*value))
                .chain([*at])
        })
    });
    let places = places.filter(|place| place.module() == ModuleId::ANON);
    places.map(|place| place.vaddr().0).collect()
}

/// Reasons why parts of the life of a process were not observed, with those that its end tells.
fn unobserved(mut unobserved: Vec<Unobserved>, shared: &Shared, end: End) -> Vec<Unobserved> {
    let control = shared.control();
    if end != End::Exec && shared.state() == Some(State::Exec) {
        unobserved.push(Unobserved::Exec);
    }
    match control.process.children.load(Relaxed) {
        0 => {}
        n => unobserved.push(Unobserved::Children(n.into())),
    }
    match control.work.stops.load(Relaxed) {
        0 => {}
        n => unobserved.push(Unobserved::Stopped(n)),
    }
    if end == End::Left {
        unobserved.push(Unobserved::Outlived);
    }
    unobserved
}

/// Nanoseconds since 1970.
fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}

/// Returns the run, as the account of windows has it.
fn of_windows(windows: &trommel_profile::windows::Windows) -> Run {
    Run {
        target_cpu: windows.cpu + windows.in_windows + windows.in_kernel,
        host_cpu: windows.host,
        ..Run::default()
    }
}

/// Counts of windows, for tests.
fn window_counts(shared: &Shared) -> WindowCounts {
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
    let last = windows.last.iter().map(|last| {
        let words = [&last.from, &last.to, &last.instructions];
        words.map(|word| word.load(Relaxed))
    });
    WindowCounts {
        counts: counts.map(|(name, count)| (name, count.load(Relaxed))),
        last: last.filter(|[from, ..]| *from != 0).collect(),
    }
}
