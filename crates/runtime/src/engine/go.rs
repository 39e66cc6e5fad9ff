//! Ways for the app to go on: in a fragment, natively for one instruction, or natively for good.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::Detached;
use trommel_queue::dict::Mark;

use crate::base::address::{AppPc, CachePc};
use crate::base::area::Context;
use crate::base::ids::{ExitId, FragmentId};
use crate::base::prefix::Prefix;
use crate::crossing::arch::Landmarks;
use crate::engine::state::{Process, Runtime, Thread};
use crate::engine::{native, vsyscall};
use crate::observe::pairs::{Counted, Uncounted};
use crate::translate::Refusal;

impl Runtime {
    /// Lets the app go on at `pc`. `from` is the exit to link with it.
    pub fn go(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        pc: AppPc,
        from: Option<ExitId>,
        checked: bool,
    ) {
        if self.broken {
            context.next_pc = pc;
            return self.go_from_broken(thread, context);
        }
        self.arrive(thread, context, pc);
        if thread.windowed.now.is_some() {
            let from = from.filter(|_| !self.evict_if_asked());
            return self.go_in_window(thread, context, pc, from, checked);
        }
        if self.ends_control(thread, context, pc) {
            return;
        }
        let sampled = from.is_some_and(|exit| self.cache.exit(exit).prefix == Prefix::SAMPLED);
        let from = from.filter(|_| !self.evict_if_asked());
        if thread.is_to_leave(pc) {
            self.actions_of(thread).take_trap();
            return native::leave(thread, context);
        }
        let prefix = match sampled {
            true => Prefix::SAMPLED,
            false => self.arrive_on_path(thread, pc),
        };
        if thread.single.take() == Some(pc) {
            return self.go_single(thread, context, pc);
        }
        self.code_pages.stack = context.regs[4];
        self.hide_block(thread);
        let Some(prefix) = self.go_recorded(thread, context, pc, prefix) else {
            return;
        };
        // Only where a path begins is there a way by a table.
        let checked = checked && prefix == Prefix::NONE;
        match self.fragment((pc, prefix), checked) {
            Ok((id, flushed)) => {
                self.enter(thread, context, pc, id);
                let from = from.filter(|_| !flushed);
                self.lead_to(id, thread, pc, from, checked);
            }
            Err(why) => self.go_without(thread, context, pc, why),
        }
    }

    /// Takes note that a thread is out of the cache, at `pc`.
    fn arrive(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) {
        context.next_pc = pc;
        context.at_boundary = 1;
        self.regions.reached = thread.presence.reached.take();
        self.regions.away = None;
        thread.came_out(self);
        self.hand_path_over(thread);
    }

    /// Returns true if the thread has been sent elsewhere: to a branch that leads nowhere, or out of control.
    fn ends_control(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) -> bool {
        if core::mem::take(&mut thread.nowhere) {
            self.go_nowhere(thread, context, pc);
            return true;
        }
        let why = if core::mem::take(&mut self.leave) {
            Detached::Stress
        } else if self.is_lost() && !thread.process.is_leaving() {
            Detached::BailOut
        } else {
            return false;
        };
        self.detach(thread, context, why);
        true
    }

    /// Lets the app go on with the one instruction at `pc`, which may change the code after it.
    fn go_single(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) {
        let prefix = self.prefix(thread, pc);
        match self.single(pc, prefix) {
            Ok((id, _)) => context.target = self.cache.fragments[id.index()].entry,
            Err(_) => self.go_natively(thread, context, pc),
        }
    }

    /// Lets the app go on in a fragment whose exits all lead back to here, if the thread records a trace or it is to be found out
    /// what it follows on its path. Otherwise returns the prefix of that path.
    fn go_recorded(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        pc: AppPc,
        prefix: Prefix,
    ) -> Option<Prefix> {
        if thread.recording.is_some() && self.record_at(thread, context, pc) {
            self.watch_calls();
            return None;
        }
        if prefix != Prefix::UNKNOWN {
            return Some(prefix);
        }
        if self.collect_path(thread, context, pc) {
            self.watch_calls();
            thread.presence.waits = 0;
            return None;
        }
        Some(self.prefix(thread, pc))
    }

    /// Lets the app go on in a fragment, which begins at `pc`.
    fn enter(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc, id: FragmentId) {
        // Paths may be counted no more.
        self.hand_path_over(thread);
        self.count_deliveries(thread);
        self.watch_calls();
        thread.presence.waits = 0;
        thread.presence.brought = 0;
        thread.presence.entered = pc.0;
        context.target = self.cache.fragments[id.index()].entry;
    }

    /// Executes the instruction at `pc` natively.
    fn go_natively(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) {
        self.mark(thread, Mark::Arrived, [pc.0, 0]);
        native::step(thread, context);
    }

    /// Lets the app go on at `pc`, of which there is no fragment.
    fn go_without(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc, why: Refusal) {
        match why {
            Refusal::Native | Refusal::Made => {
                if let Some(page) = self.regions.away.filter(|_| thread.brings_pages()) {
                    // Comes back when the page is there, with the lock free.
                    thread.presence.away = Some(page);
                    context.target = CachePc(Landmarks::sigreturned());
                    return;
                }
                self.go_natively(thread, context, pc);
            }
            Refusal::Vsyscall => {
                self.mark(thread, Mark::Called, [pc.0, 0]);
                if !vsyscall::vsyscall(context, pc) {
                    return self.go_natively(thread, context, pc);
                }
                let next = context.next_pc;
                self.go(thread, context, next, None, false);
            }
            Refusal::Request => {
                self.mark(thread, Mark::Arrived, [pc.0, 0]);
                if self.request(thread, context, pc) {
                    self.detach(thread, context, Detached::Asked);
                }
            }
            Refusal::Unnamed => {
                // Comes back when the host has been asked, with the lock free.
                thread.unnamed = true;
                context.target = CachePc(Landmarks::sigreturned());
            }
            // Comes back when others have come out of what is in the way, with the lock free.
            Refusal::Overflowing if thread.is_patient() => {
                context.target = CachePc(Landmarks::sigreturned());
            }
            Refusal::Instruction => self.detach(thread, context, Detached::Instruction),
            Refusal::Restartable => self.detach(thread, context, Detached::Restartable),
            Refusal::Gs => self.detach(thread, context, Detached::GsBase),
            Refusal::NoMaps => self.detach(thread, context, Detached::NoMaps),
            // The last two are met in windows only.
            Refusal::OutOfSpace
            | Refusal::Overflowing
            | Refusal::CacheFull
            | Refusal::Call
            | Refusal::Moved(_) => self.detach(thread, context, Detached::OutOfSpace),
        }
    }

    /// Lets the app go on where an indirect branch leads that was counted, or not.
    pub fn go_counted(
        &mut self,
        thread: &mut Thread,
        context: &mut Context,
        counted: Result<Option<Counted>, Uncounted>,
    ) {
        let pc = context.next_pc;
        match counted {
            Ok(Some(Counted { exit })) => self.go(thread, context, pc, exit, false),
            // There is no host to say what it calls the target.
            Ok(None) | Err(Uncounted::Unnamed) => self.go(thread, context, pc, None, true),
            Err(Uncounted::DictionaryFull) => self.detach(thread, context, Detached::OutOfSpace),
        }
    }

    /// Returns whether the program had better run natively: as the runtime knows, or the host.
    fn is_lost(&self) -> bool {
        let lost = &self.shared.control().host.lost;
        self.balance.is_lost() || lost.load(Relaxed) != 0
    }

    /// All threads are to go, and this one has been fetched, at `pc`: the host has found that control
    /// does not pay.
    pub fn give_up_if_lost(&mut self, process: &Process, pc: AppPc) {
        if self.shared.control().host.lost.load(Relaxed) != 0 && !process.is_leaving() {
            native::announce(process, Detached::BailOut, pc);
            self.cut_off();
        }
    }

    /// Drops everything, if that is asked for.
    fn evict_if_asked(&mut self) -> bool {
        let evict = self.evict.take();
        if let Some(why) = evict {
            self.flush(why);
        }
        evict.is_some()
    }

    /// Detaches the process, this thread at `context.next_pc`.
    pub fn detach(&mut self, thread: &mut Thread, context: &mut Context, why: Detached) {
        context.at_boundary = 1;
        native::announce(thread.process, why, context.next_pc);
        self.cut_off();
        native::leave(thread, context);
    }

    /// All code is left at its next exit: for threads that are to be detached.
    pub fn cut_off(&mut self) {
        self.cache.retire_all();
        self.close_pages();
        for targets in &mut self.targets {
            targets.clear();
        }
    }
}

impl Thread {
    /// Returns whether the thread, which is at `pc`, is to leave there: not at a system call that was interrupted and must not be made natively.
    pub fn is_to_leave(&self, pc: AppPc) -> bool {
        let interrupted = self.call.interrupted;
        self.process.is_leaving() && !interrupted.is_some_and(|call| call.is_fragile(pc))
    }
}
