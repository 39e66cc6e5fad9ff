//! Processes of a run that have nothing of ours in them: programs that were executed by native threads.
//!
//! # Problem
//! Between windows a program executes others, in its own place or in that of a child, and Trommel is not asked. They
//! are parts of the run, and most of its time may be theirs. Where programs are to be made faster, most are over before control would
//! have paid for its own start.
//!
//! # Strategy
//! The tree of processes below the first is looked through now and then. An exec'ed process that has used so much CPU time that the
//! budget pays for the attaching is attached as a running process is, by a [`Keeper`] of its own. Reasons to
//! refuse it are found before it is touched, and reported once. A passing refusal, like a debugger or a stop, is waited for in silence.
//!
//! Programs that are to be optimised run natively up to a CPU time that is a multiple of what control costs at first
//! ([`Tracing::after`](crate::channel::tracing::Tracing::after)), and are looked at meanwhile. Their native speed is what control is
//! compared with ([`crate::serve::progress`]). Where only descendants may be traced (Yama), they are attached without a keeper. A process that is killed in the few
//! milliseconds of the attachment may then take its program with it.
//!
//! # Why nothing else is hit
//! Only descendants of processes of the run are looked at, and none that shares its memory with another (`vfork`): it is
//! no program of its own yet. Whatever becomes of us, the keeper detaches its process.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_compress::random::SplitMix64;

use super::Session;
use crate::channel::family::Family;
use crate::channel::pids;
use crate::channel::shared::Shared;
use crate::kernel::clocks::cpu_of;
use crate::kernel::running::{self, Refusal, only_descendants};
use crate::serve::identity::{End, Identity};
use crate::serve::news::News;
use crate::serve::options::RecordOptions;
use crate::serve::process::bursts::Line;
use crate::serve::turns::WhyAttached;
use crate::takeover::attach::attach;
use crate::takeover::detach::is_in;
use crate::takeover::forked::{children, is_alone, share_memory};
use crate::takeover::keeper::Keeper;
use crate::windows::bursts::Bursts;

/// From one look to the next.
const OFTEN: Duration = Duration::from_millis(250);
/// CPU time that attaching takes, of the process and ours.
const COST: Duration = Duration::from_millis(3);
/// Percent of a exec'ed process's CPU time that attaching may take where no budget says how much.
const USUAL: f64 = 10.0;

/// The same where programs are to be optimised, at most, and at least if one will be taken then.
const LATER: Duration = Duration::from_millis(100);
const SOONEST: Duration = Duration::from_millis(5);

impl Session<'_> {
    /// Attaches to exec'ed processes, if it is time to look for them.
    pub(super) fn execed(&mut self) {
        let late = self.options.tracing.late();
        let is_time = |at: Instant| at.elapsed() >= self.execed.next;
        if !self.execed.looked.is_none_or(is_time) {
            return;
        }
        self.execed.looked = Some(Instant::now());
        self.execed.refused.retain(|&pid| is_there(pid));
        self.part_from_ended();
        let budget = match self.options.sampling.map_or(0.0, |wanted| wanted.budget) {
            0.0 => USUAL,
            percent => percent,
        };
        let worth = late.unwrap_or(COST.mul_f64(100.0 / budget));
        let births = self.births.generation();
        let all = self.execed.births.is_news(births) || self.execed.waiting;
        let found = self.find(all);
        let mut next = late.map_or(OFTEN, |_| LATER);
        self.execed.waiting = !found.is_empty();
        let steps = &mut self.execed.steps;
        steps.retain(|pid, _| found.iter().any(|(p, _)| p == pid));
        for (pid, parent) in found {
            let cpu = cpu_of(pid);
            if let Some(cpu) = cpu.filter(|_| late.is_some()) {
                next = next.min(self.execed.step(pid, cpu));
            }
            let worth = self.bursts_begin_after(pid).unwrap_or(worth);
            match cpu.and_then(|cpu| worth.checked_sub(cpu)) {
                Some(Duration::ZERO) | None => self.take(pid, parent),
                Some(left) => next = next.min(left),
            }
        }
        self.execed.next = next.max(SOONEST);
    }

    /// CPU time that a process which the first one has started uses natively before its first burst.
    fn bursts_begin_after(&self, pid: Pid) -> Option<Duration> {
        const PARTS: u64 = 1024;
        let sampling = self.options.sampling.filter(|_| self.options.bursts)?;
        let is_random = self.first.pid != Some(pid) && self.options.stress.bursts == 0;
        let parts = 1 + SplitMix64::new(pid.as_raw() as u64).draw() % PARTS;
        let earned = Bursts::earned_after(sampling.budget);
        is_random.then(|| earned.mul_f64(parts as f64 / PARTS as f64))
    }

    /// Keepers of processes that have ended are needed no more.
    pub(super) fn part_from_ended(&mut self) {
        let there: Vec<Pid> = self.processes.iter().map(|(_, p)| p.identity.pid).collect();
        // Waits for the end of the keeper, which has come.
        self.execed.held.retain(|(pid, _)| there.contains(pid));
    }

    /// Exec'ed processes, with their parents. `all`: there may be new processes.
    fn find(&mut self, all: bool) -> Vec<(Pid, u32)> {
        let mut found = Vec::new();
        let mut known = Vec::new();
        let late = self.options.tracing.late().is_some();
        let signs = &mut self.execed.signs;
        signs.retain(|number, _| self.processes.iter().any(|(n, _)| n == number));
        for (number, process) in &mut self.processes {
            let pid = process.identity.pid;
            if process.end != End::No || pid.as_raw() <= 0 {
                continue;
            }
            known.push(pid);
            if process.is_kept() {
                // Its keeper tells when it is gone.
                continue;
            }
            let control = process.shared.control();
            // The runtime may not have come into it yet.
            let has_begun = late || control.process.windows_ready.load(Acquire) != 0;
            let now = control.windows.ended.load(Acquire);
            if signs
                .insert(*number, now)
                .is_some_and(|before| before != now)
            {
                continue;
            }
            if has_begun && !process.family().is_mapped_by(pid) && has_program(pid) {
                // It is another program now.
                process.end = End::Exec;
                found.push((pid, process.identity.parent));
            }
        }
        if let Some(main) = self.first.pid.filter(|main| !known.contains(main)) {
            known.push(main);
            if has_program(main) && !found.iter().any(|(pid, _)| *pid == main) {
                found.push((main, 0));
            }
        }
        if !self.options.follow || !all && found.is_empty() {
            return found;
        }
        let mut parents = known.clone();
        while let Some(parent) = parents.pop() {
            for child in children(parent) {
                if known.contains(&child) {
                    continue;
                }
                known.push(child);
                parents.push(child);
                let is_ours = |family: &Rc<Family>| family.is_mapped_by(child);
                // What was detached has made it by `fork`, maybe while some of its threads were still under control.
                let is_left = late && is_in(child);
                let strange = !is_left && !self.families.iter().any(is_ours) && is_there(child);
                if strange && !share_memory(parent, child) {
                    found.push((child, parent.as_raw() as u32));
                }
            }
        }
        found.retain(|(pid, _)| !self.execed.refused.contains(pid));
        found
    }

    fn take(&mut self, pid: Pid, parent: u32) {
        match running::look(pid.as_raw()) {
            Ok(_) => {}
            // It ends, or may be taken later.
            Err(Refusal::None | Refusal::Zombie | Refusal::Traced(..)) => {
                return;
            }
            Err(why) => return self.refuse(pid, parent, &why.to_string()),
        }
        if self.options.bursts && !RecordOptions::check_bursts(pid.as_raw()) {
            let why = format!(
                "it has more than {} threads, and not all of them could count in bursts; --windows samples it",
                RecordOptions::MOST_THREADS
            );
            return self.refuse(pid, parent, &why);
        }
        let steps = self.execed.steps.remove(&pid);
        if let Err(why) = self.attach_to(Identity::executed(pid, parent), WhyAttached::Late) {
            return self.refuse(pid, parent, &why);
        }
        if let Some(rate) = steps.and_then(|steps| steps.rate())
            && let Some((_, process)) = self.processes.last_mut()
        {
            process.compare_with(rate, 0, self.options.tracing.retakes());
        }
    }

    /// Attaches to a process that is native.
    ///
    /// # Errors
    /// Why it could not be, in words. Then it is native.
    pub(super) fn attach_to(&mut self, identity: Identity, why: WhyAttached) -> Result<(), String> {
        let pid = identity.pid;
        let terms = self.terms;
        let mut made = None;
        let mut prepare = |file: OwnedFd| {
            let family = Family::of(file)?;
            let shared = Shared::first(&family, terms)?;
            // All its threads are stopped.
            let alone = is_alone(pid);
            shared.control().host.alone.store(alone.into(), Relaxed);
            shared.set_foreign(pids::are_other(pid));
            shared.warm();
            made = Some((family, shared));
            Ok(())
        };
        let tracing = &self.options.tracing;
        let bursts = self.options.length_of_bursts();
        let alone = bursts.is_none()
            && (tracing.late().is_some() || tracing.retakes())
            && only_descendants();
        let keeper = match alone {
            false => Some(Rc::new(Keeper::begin(pid, bursts, prepare)?)),
            true => {
                let taken = attach(pid, true, &mut prepare);
                taken.map_err(|failure| failure.to_string())?;
                None
            }
        };
        let (family, shared) = made.ok_or("it was not asked for memory")?;
        self.families.push(family);
        self.begin(identity, shared, why);
        if let (Some(keeper), true) = (&keeper, self.options.bursts) {
            let line = Line {
                keeper: Rc::clone(keeper),
                inbox: None,
            };
            self.in_bursts(line, true);
        }
        self.execed.held.extend(keeper.map(|keeper| (pid, keeper)));
        Ok(())
    }

    /// One stays native, which is told, unless it is gone.
    fn refuse(&mut self, pid: Pid, parent: u32, why: &str) {
        self.execed.refused.push(pid);
        if is_there(pid) {
            let identity = Identity::executed(pid, parent);
            (self.notice)(News::NotAttached(identity, why.to_owned()));
        }
    }
}

/// Returns true if a process has memory of its own still, which we may look at. Asked after its map: one that is ending has none.
fn has_program(pid: Pid) -> bool {
    fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// Returns true if a process has memory of its own still, whether we may look at it or not.
fn is_there(pid: Pid) -> bool {
    let program = fs::read_link(format!("/proc/{pid}/exe"));
    program.map_or_else(|e| e.kind() == ErrorKind::PermissionDenied, |_| true)
}
