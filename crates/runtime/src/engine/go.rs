//! Ways for the app to go on: in a fragment, natively for one instruction, or natively for good.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::Detached;
use trommel_queue::dict::Mark;

use crate::base::address::{AppPc, CachePc};
use crate::base::area::Context;
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
        from: Option<u32>,
        checked: bool,
    ) {
        context.next_pc = pc;
        context.at_boundary = 1;
        thread.came_out(self);
        self.hand_path_over(thread);
        if thread.windowed.now.is_some() {
            self.evict_if_asked();
            return self.go_in_window(thread, context, pc, from, checked);
        }
        if core::mem::take(&mut self.leave) {
            return self.detach(thread, context, Detached::Stress);
        }
        if self.is_lost() && !thread.process.is_leaving() {
            return self.detach(thread, context, Detached::BailOut);
        }
        let sampled = from.is_some_and(|exit| self.cache.exit(exit).prefix == Prefix::SAMPLED);
        let from = from.filter(|_| !self.evict_if_asked());
        let fragile = thread
            .call
            .interrupted
            .is_some_and(|call| call.is_fragile(pc));
        if thread.process.is_leaving() && !fragile {
            self.actions_of(thread).take_trap();
            return native::leave(thread, context);
        }
        let mut prefix = match sampled {
            true => Prefix::SAMPLED,
            false => self.arrive_on_path(thread, pc),
        };
        if thread.single.take() == Some(pc) {
            let prefix = self.prefix(thread, pc);
            match self.single(pc, prefix) {
                Ok((id, _)) => context.target = self.cache.fragments[id as usize].entry,
                Err(_) => {
                    self.mark(thread, Mark::Arrived, [pc.0, 0]);
                    native::step(thread, context);
                }
            }
            return;
        }
        self.code_pages.stack = context.regs[4];
        if thread.recording.is_some() && self.record_at(thread, context, pc) {
            self.watch_calls();
            return;
        }
        if prefix == Prefix::UNKNOWN {
            if self.collect_path(thread, context, pc) {
                self.watch_calls();
                thread.presence.waits = 0;
                return;
            }
            prefix = self.prefix(thread, pc);
        }
        // Only where a path begins is there a way by a table.
        let checked = checked && prefix == Prefix::NONE;
        match self.fragment((pc, prefix), checked) {
            Ok((id, flushed)) => {
                // Paths may be counted no more.
                self.hand_path_over(thread);
                self.watch_calls();
                thread.presence.waits = 0;
                context.target = self.cache.fragments[id as usize].entry;
                let from = from.filter(|_| !flushed);
                self.lead_to(id, thread, pc, from, checked);
            }
            Err(Refusal::Native | Refusal::Made) => {
                self.mark(thread, Mark::Arrived, [pc.0, 0]);
                native::step(thread, context);
            }
            Err(Refusal::Vsyscall) => {
                self.mark(thread, Mark::Called, [pc.0, 0]);
                vsyscall::vsyscall(context, pc);
                let next = context.next_pc;
                self.go(thread, context, next, None, false);
            }
            Err(Refusal::Request) => {
                self.mark(thread, Mark::Arrived, [pc.0, 0]);
                if self.request(thread, context, pc) {
                    self.detach(thread, context, Detached::Asked);
                }
            }
            Err(Refusal::Instruction) => self.detach(thread, context, Detached::Instruction),
            Err(Refusal::Restartable) => self.detach(thread, context, Detached::Restartable),
            Err(Refusal::Gs) => self.detach(thread, context, Detached::GsBase),
            Err(Refusal::NoMaps) => self.detach(thread, context, Detached::NoMaps),
            Err(Refusal::Unnamed) => {
                // Comes back when the host has been asked, with the lock free.
                thread.unnamed = true;
                context.target = CachePc(Landmarks::sigreturned());
            }
            // Comes back when others have come out of what is in the way, with the lock free.
            Err(Refusal::Overflowing) if thread.is_patient() => {
                context.target = CachePc(Landmarks::sigreturned());
            }
            // The last two are met in windows only.
            Err(
                Refusal::OutOfSpace
                | Refusal::Overflowing
                | Refusal::CacheFull
                | Refusal::Call
                | Refusal::Moved(_),
            ) => {
                self.detach(thread, context, Detached::OutOfSpace);
            }
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
        let lost = &self.shared.control().trace.lost;
        self.balance.is_lost() || lost.load(Relaxed) != 0
    }

    /// All threads are to go, and this one has been fetched, at `pc`: the host has found that control
    /// does not pay.
    pub fn give_up_if_lost(&mut self, process: &Process, pc: AppPc) {
        if self.shared.control().trace.lost.load(Relaxed) != 0 && !process.is_leaving() {
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
