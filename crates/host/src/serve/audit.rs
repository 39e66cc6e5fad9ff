//! Audit of a program whose threads stay in the cache: the part of the time that is its own work.
//!
//! # Problem
//! A program that stays in its cache may still be slower than natively: its indirect branches are checked or
//! looked up, and registers are saved and restored. The runtime is not entered there and cannot
//! see it. Counters would cost the very time in question.
//!
//! # Strategy
//! The program counter of each thread is sampled by the kernel's clock ([`Samplers`]), which the program does not
//! notice. The runtime has marked the code that does the program's own work (`trommel_queue::marks`). A
//! sample elsewhere in the cache or in the runtime is *added*. At first
//! samples are frequent, later they are rare. They are judged in groups of [`GROUP`]: where [`BAD`]
//! groups one after the other have more than [`TOO_MUCH`] percent added, the program is detached.
//!
//! Added code tells nothing of the time saved. So before a program is detached it is asked how it gets on ([`crate::serve::progress`]). One that is
//! faster than it was natively, by what it reads and writes, stays, and is asked again when two more groups have too much added.
//!
//! It is detached by a word in shared memory that each thread reads in the dispatcher. Threads that do not come
//! there are fetched: stopped, and asked to leave if they are in the cache ([`crate::takeover::detach::fetch`]).
//!
//! # Why load does not matter
//! The clock is the thread's user time. Time that other threads take of the processor is not in it.
//!
//! # Limits
//! A branch that is predicted wrongly costs time at its target, which may be the app's. Where the
//! kernel refuses events, and in threads beyond the first few, nothing is sampled and all is as without.

use std::io::IoSliceMut;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use trommel_queue::Control;
use trommel_queue::marks::{self, ARENA_BYTES, CODE_BYTES, MARKS_OFFSET};

use crate::channel::bell::IDLE;
use crate::kernel::clocks::cpu_of;
use crate::kernel::samplers::Samplers;
use crate::serve::progress::{Benefit, Progress, Rate, Steps, proven_after};

/// Samples that are judged together.
const GROUP: u64 = 256;
/// Groups with too much added, one after the other, that are enough.
const BAD: u32 = 2;
/// Percent of a group that may be added.
const TOO_MUCH: u64 = 5;
/// User time between samples at first, and after some groups.
const AT_FIRST: Duration = Duration::from_micros(250);
const LATER: Duration = Duration::from_millis(4);
/// Groups after which samples are rare.
const TRIED: u32 = 2;
/// Time between two looks at first.
const OFTEN: Duration = Duration::from_millis(10);
/// From one attempt to fetch threads to the next.
const FETCH_AGAIN: Duration = Duration::from_millis(50);

/// Samples by what they found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shares {
    /// The app's own work.
    pub app: u64,
    /// Else in fragments and stubs.
    pub added: u64,
    /// In the runtime.
    pub runtime: u64,
}

impl Shares {
    fn all(&self) -> u64 {
        self.app + self.added + self.runtime
    }

    fn is_too_much(&self) -> bool {
        (self.added + self.runtime) * 100 > self.all() * TOO_MUCH
    }
}

/// The account of a process.
pub struct Audit {
    pid: Pid,
    samplers: Samplers,
    looked: Option<Instant>,
    /// True if the program is detached.
    decides: bool,
    total: Shares,
    group: Shares,
    groups: u32,
    bad: u32,
    fetched: Option<Instant>,
    lost: Duration,
    /// Rate of the program natively, if that is known, and its rate under control.
    native: Option<Rate>,
    steps: Steps,
    /// Times that it was reattached because it got on faster under control.
    times: u32,
    /// CPU time of the process at which that is proven again, if it is to be.
    prove: Option<Duration>,
    /// It is detached for that.
    proving: bool,
}

impl Audit {
    /// Nothing is known. `decides`: the program is detached where control does not pay.
    pub fn begin(pid: Pid, decides: bool) -> Self {
        Self {
            pid,
            samplers: Samplers::new(pid, AT_FIRST),
            looked: None,
            decides,
            total: Shares::default(),
            group: Shares::default(),
            groups: 0,
            bad: 0,
            fetched: None,
            lost: Duration::ZERO,
            native: None,
            steps: Steps::default(),
            times: 0,
            prove: None,
            proving: false,
        }
    }

    /// The program got on like this before it was attached, which it was so many times for getting on faster
    /// then. `prove`: whether that is proven again.
    pub(crate) fn compare_with(&mut self, native: Rate, times: u32, prove: bool) {
        self.native = Some(native);
        self.times = times;
        let at = cpu_of(self.pid).filter(|_| prove);
        self.prove = at.map(|cpu| cpu + proven_after(times));
    }

    /// Returns the program's rate under control, and how often it was reattached for that. `None` if its native rate is unknown.
    pub(crate) fn under_control(&self) -> Option<(Rate, u32)> {
        self.native
            .and(self.steps.rate())
            .map(|rate| (rate, self.times))
    }

    /// It is detached to prove that control pays.
    pub(crate) fn is_proving(&self) -> bool {
        self.proving
    }

    /// All samples so far.
    pub fn total(&self) -> Shares {
        self.total
    }

    /// Returns the program's rates natively and under control, if they are known.
    pub fn progress(&self) -> Option<Progress> {
        self.native.map(|native| Progress {
            native,
            under_control: self.steps.rate(),
        })
    }

    /// User time since control paid last that was not the program's own work, as far as samples tell.
    pub fn lost(&self) -> Duration {
        self.lost
    }

    /// The program has been detached: there is nothing to sample.
    pub fn stop(&mut self) {
        self.samplers.stop();
    }

    /// From one look to the next.
    pub fn pause(&self) -> Duration {
        match self.samplers.are_refused() || self.groups >= TRIED && self.bad == 0 {
            true => IDLE,
            false => OFTEN,
        }
    }

    /// Looks at a process that is under control, if it is time. Returns true if threads are to be fetched.
    pub fn look(&mut self, control: &Control) -> bool {
        let now = Instant::now();
        if self.looked.is_some_and(|at| now - at < self.pause()) {
            return false;
        }
        self.looked = Some(now);
        let map = Map::of(control);
        let mut found = Shares::default();
        let pid = self.pid;
        self.samplers.drain(|pc| map.count(pc, pid, &mut found));
        self.add(found);
        // Traces are being made in the first group.
        let cpu = self.native.and_then(|_| cpu_of(pid));
        if let Some(cpu) = cpu.filter(|_| self.groups > 0) {
            self.steps.look(pid, cpu);
        }
        if !self.decides || self.bad < BAD {
            return false;
        }
        let verdict = self.native.map(|native| self.steps.beside(native));
        match verdict.unwrap_or(Benefit::Unknown) {
            Benefit::Open => return false,
            Benefit::Pays => {
                self.bad = 0;
                self.lost = Duration::ZERO;
                self.proving = self.prove.is_some_and(|at| cpu >= Some(at));
                if !self.proving {
                    return false;
                }
            }
            Benefit::DoesNot | Benefit::Unknown => {}
        }
        control.host.lost.store(1, Relaxed);
        let again = self.fetched.is_none_or(|at| now - at > FETCH_AGAIN);
        if again {
            self.fetched = Some(now);
        }
        again
    }

    fn add(&mut self, found: Shares) {
        let lost = (found.added + found.runtime).min(u32::MAX.into());
        self.lost += self.samplers.period() * lost as u32;
        for shares in [&mut self.total, &mut self.group] {
            shares.app += found.app;
            shares.added += found.added;
            shares.runtime += found.runtime;
        }
        if self.group.all() < GROUP {
            return;
        }
        self.bad = match self.group.is_too_much() {
            true => self.bad + 1,
            false => {
                self.lost = Duration::ZERO;
                0
            }
        };
        self.group = Shares::default();
        self.groups += 1;
        if self.groups == TRIED {
            self.samplers.set_period(LATER);
        }
    }
}

/// Map of the target.
struct Map {
    image: (u64, u64),
    arenas: Vec<u64>,
}

impl Map {
    fn of(control: &Control) -> Self {
        let image = control.attached.image.each_ref().map(|at| at.load(Relaxed));
        let arenas = control.traces.arenas.iter().map(|at| at.load(Relaxed));
        Self {
            image: (image[0], image[1]),
            arenas: arenas.take_while(|&at| at != 0).collect(),
        }
    }

    fn count(&self, pc: u64, pid: Pid, to: &mut Shares) {
        if (self.image.0..self.image.1).contains(&pc) {
            to.runtime += 1;
            return;
        }
        let offset = |start: u64| pc.checked_sub(start).filter(|&o| o < ARENA_BYTES);
        let Some((start, offset)) = self.arenas.iter().find_map(|&s| Some((s, offset(s)?))) else {
            return;
        };
        match offset < CODE_BYTES && is_marked(pid, start, offset) {
            true => to.app += 1,
            false => to.added += 1,
        }
    }
}

fn is_marked(pid: Pid, arena: u64, offset: u64) -> bool {
    let (byte, bit) = marks::place(offset);
    let Some(base) = arena.checked_add(MARKS_OFFSET + byte) else {
        return false;
    };
    let mut found = [0];
    let from = RemoteIoVec {
        base: base as usize,
        len: 1,
    };
    let read = process_vm_readv(pid, &mut [IoSliceMut::new(&mut found)], &[from]);
    read == Ok(1) && found[0] & bit != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(app: u64, added: u64) -> Shares {
        Shares {
            app,
            added,
            runtime: 0,
        }
    }

    #[test]
    fn two_bad_groups_one_after_the_other_are_enough() {
        let mut audit = Audit::begin(Pid::from_raw(1), true);
        for (found, bad) in [
            (of(GROUP - 1, 0), 0),
            (of(0, 1), 0),
            (of(100, 155), 0),
            (of(0, 1), 1),
            (of(GROUP, 0), 0),
            (of(0, GROUP), 1),
            (of(0, GROUP), 2),
        ] {
            audit.add(found);
            assert_eq!(audit.bad, bad);
        }
    }
}
