//! Processes that were detached and are reattached when they turn to other work.
//!
//! # Problem
//! A process that was detached runs natively with the runtime's memory in it. It has gone on as it liked: it has made threads and
//! children, has set handlers of signals, or is another program by now.
//!
//! # Strategy
//! [`Watch`] says when. Then all that is left of the earlier control is removed, as when a command detaches a process that it was
//! attached to (by its [`Keeper`](crate::takeover::keeper::Keeper), or by whoever attaches next, as the slot is closed), and the process is attached to as one that never
//! was under control: with a new file, a new runtime, and an account of its own. To the run it is another process with the same number, as after
//! an exec.
//!
//! What was detached because it seemed no faster, or to find out whether it is, is asked natively how it gets on ([`Proof`]), and reattached
//! in the same way if it was faster under control.
//!
//! # Processes that are not reattached
//! Some processes are detached for another reason than that control does not pay. That reason (seccomp, GS, …) is
//! there still, or the user asked for it. Processes that are native by themselves are found by [`super::takes`]: programs that
//! a detached process executes. Its forked children share nothing with the host, and stay native until then.
//!
//! # What can happen meanwhile
//! A process that ends or becomes another program before all its threads are stopped is left untouched. One that is stopped or
//! traced by others is looked at again later. If the reattachment fails, the process is native, and stays so.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use trommel_queue::Detached;

use super::Session;
use crate::kernel::running::{self, Refusal};
use crate::serve::identity::End;
use crate::serve::process::Process;
use crate::serve::progress::Proof;
use crate::serve::turns::WhyAttached;
use crate::takeover::retake::Watch;

/// From one look to the next.
const OFTEN: Duration = Duration::from_millis(100);
/// The same where a detached process is reattached at once, for tests.
const HASTE: Duration = Duration::from_millis(3);

impl Session<'_> {
    /// Takes processes back, if it is time to look at them.
    pub(super) fn retakes(&mut self) {
        let hasty = self.options.stress.retake;
        let pause = if hasty { HASTE } else { OFTEN };
        let soon = |at: Instant| at.elapsed() < pause;
        if !self.options.tracing.retakes() {
            return;
        }
        self.prove();
        if self.retakes.looked.is_some_and(soon) {
            return;
        }
        self.retakes.looked = Some(Instant::now());
        self.part_from_ended();
        let watched = &mut self.retakes.watched;
        watched.retain(|number, _| self.processes.iter().any(|(n, _)| n == number));
        let mut due = Vec::new();
        for (number, process) in &self.processes {
            if !may_come_back(process, hasty) {
                continue;
            }
            let watch = watched.entry(*number);
            let watch = watch.or_insert_with(|| Watch::begin(process.identity.pid, hasty));
            if let Some(percent) = watch.look(process.lost()) {
                due.push((*number, percent));
            }
        }
        for (number, percent) in due {
            self.reattach(number, WhyAttached::Back(percent));
        }
    }

    /// Reattaches processes that were faster under control.
    fn prove(&mut self) {
        let proofs = &mut self.retakes.proofs;
        proofs.retain(|number, _| self.processes.iter().any(|(n, _)| n == number));
        let mut due = Vec::new();
        for (number, process) in &self.processes {
            if !may_come_back(process, false) {
                continue;
            }
            let Some((rate, times)) = process.under_control() else {
                continue;
            };
            let proof = proofs.entry(*number);
            let proof = proof.or_insert_with(|| Proof::begin(process.identity.pid, rate, times));
            if let Some((percent, native)) = proof.look() {
                due.push((*number, percent, native, times));
            }
        }
        for (number, percent, native, times) in due {
            self.part_from_ended();
            if self.reattach(number, WhyAttached::Faster(percent))
                && let Some((_, process)) = self.processes.last_mut()
            {
                process.compare_with(native, times + 1, true);
            }
        }
    }

    /// Returns true if it is under control again: then it is the last process.
    fn reattach(&mut self, number: usize, why: WhyAttached) -> bool {
        let began = Instant::now();
        let Some((_, process)) = self.process(number) else {
            return false;
        };
        let identity = process.identity.clone();
        let pid = identity.pid;
        let is_there = process.family().is_mapped_by(pid);
        // Another program or none, or a thread of it is about to execute one.
        if !is_there || self.traced.iter().any(|traced| traced.process == pid) {
            return false;
        }
        let fit = match running::look(pid.as_raw()) {
            Ok(_) => Ok(()),
            Err(Refusal::None | Refusal::Zombie | Refusal::Traced(..)) => {
                return false;
            }
            Err(why) => Err(why.to_string()),
        };
        let taken = fit.and_then(|()| {
            // It is nobody's from here on: who attaches next takes out what is left.
            if let Some((_, process)) = self.process(number) {
                process.shared.close();
                process.hush();
            }
            self.execed.part(pid);
            self.attach_to(identity, why)
        });
        // It is the last one, if it is under control again.
        let again = self.processes.last().map_or(number, |(n, _)| *n);
        let Some((_, process)) = self.process(number) else {
            return false;
        };
        match taken {
            Ok(()) => {
                process.end = End::Back;
                if let Some(mut watch) = self.retakes.watched.remove(&number) {
                    watch.taken(began.elapsed());
                    self.retakes.watched.insert(again, watch);
                }
                true
            }
            Err(why) => {
                process.stays(&why);
                self.execed.never(pid);
                false
            }
        }
    }
}

/// It was detached for what may change.
fn may_come_back(process: &Process, hasty: bool) -> bool {
    let why = process.shared.control().process.detach.load(Relaxed);
    let is = |reason: Detached| why == reason as u32;
    let fit = is(Detached::BailOut) || hasty && is(Detached::Stress);
    fit && process.end == End::No && process.is_detach() && process.identity.pid.as_raw() > 0
}
