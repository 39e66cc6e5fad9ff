//! Branches that leave a fragment, and the exit stubs that they lead to.

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::{Site, Tail, Translator};
use crate::base::address::AppPc;
use crate::base::decode::Class;
use crate::base::emit::Rel32;
use crate::base::ids::{ExitId, ExitNumber, FragmentId};
use crate::base::prefix::Prefix;
use crate::cache::{Cache, Exit, Spilled, UNLINKED, Way};
use crate::slot;

impl Translator {
    /// Returns true if a taken branch has nothing to do on its way out.
    pub(super) fn leaves_directly(&self, events: usize) -> bool {
        let nothing = !self.wants(Kind::Edge) && events == self.job.first;
        let all_is_done = self.job.spilled == Spilled::NONE && !self.keeps_events();
        nothing && !self.needs.each_exit && all_is_done
    }

    /// Writes a conditional branch that leaves the main line from `from`, by which it is the event `other`. Returns the number of
    /// events that the main line has passed by going on.
    #[allow(
        clippy::too_many_arguments,
        reason = "the state of one walk over a fragment"
    )]
    pub(super) fn branch(
        &mut self,
        site: &mut Site<'_>,
        other: Option<Event>,
        from: Rel32,
        to: AppPc,
        events: usize,
        values: usize,
    ) -> usize {
        let event = other.filter(|_| self.wants(Kind::Edge));
        if self.leaves_directly(events) {
            self.stub(site.cache, from, to);
            return 0;
        }
        let tail = self.tail(from, to, (events, values), event);
        self.job.tails.push(tail);
        usize::from(event.is_some())
    }

    /// Returns the tail of a branch that leaves from here, to be written after the main line.
    pub(super) fn tail(
        &self,
        from: Rel32,
        to: AppPc,
        (events, values): (usize, usize),
        event: Option<Event>,
    ) -> Tail {
        Tail {
            from,
            target: to,
            pc: self.job.here,
            first: self.job.first,
            events,
            values,
            event,
            spilled: self.job.spilled,
            passed: self.job.passed,
            kept: self.kept(),
        }
    }

    /// Leads `from` to what is written beside the exit stubs next.
    pub(super) fn lead_to_stub(&mut self, from: Rel32) {
        let stub = self.job.stubs.at(self.job.stubs.here());
        let rel = stub.0 as i64 - self.job.code.at(from.0).0 as i64 - 4;
        self.job.code.put_u32(from.0, rel as i32 as u32);
    }

    /// Leads `from` to a new exit stub for `to`.
    pub(super) fn stub(&mut self, cache: &mut Cache, from: Rel32, to: AppPc) {
        let stub = self.job.stubs.at(self.job.stubs.here());
        let rel = (stub.0 as i64 - self.job.code.at(from.0).0 as i64 - 4) as i32;
        let number = cache.new_exit(Exit {
            patch: self.job.code.at(from.0),
            target: to,
            prefix: self.job.onward,
            next_link: self.next_link(),
            stub: if self.job.from.is_usual() { rel } else { 0 },
            insns: self.job.passed as u16,
            way: match self.job.class {
                Class::Call(_) => Way::Call,
                Class::Syscall => Way::Syscall,
                _ if self.job.stores_x87 => Way::Stored,
                _ if to <= self.job.here => Way::Backward,
                _ => Way::Forward,
            },
            counts: self.job.onward != Prefix::SAMPLED && (self.job.trace || self.may_start(to)),
            to: FragmentId::NONE,
        });
        self.job.code.put_u32(from.0, rel as u32);
        self.job.stubs.store_gs_imm32(slot!(exit), number.0);
        self.job.stubs.jmp_gs(slot!(entry.exit));
    }

    /// Returns the link word of an exit that is not linked.
    pub(super) fn next_link(&self) -> u32 {
        match self.job.onward {
            Prefix::UNKNOWN => self.job.onward_path,
            _ => UNLINKED,
        }
    }

    /// Numbers the exit of a recorded fragment by which it goes to an address known when it runs, after `path`. Its
    /// target is the branch itself.
    pub(super) fn recorded_exit(&self, cache: &mut Cache, path: Option<ExitNumber>) -> ExitId {
        cache.new_exit(Exit {
            next_link: path.map_or(UNLINKED, |path| path.0),
            insns: self.job.passed as u16,
            way: match self.job.class {
                Class::CallIndirect => Way::Call,
                Class::Ret(_) => Way::Return,
                _ => Way::Indirect,
            },
            ..Exit::fixed(self.job.here)
        })
    }

    /// Returns true if a trace may start at the target of the instruction: backward, and if it is a call, not far,
    /// as recursion is.
    fn may_start(&self, to: AppPc) -> bool {
        const NEAR: u64 = 4096;
        let call = matches!(self.job.class, Class::Call(_));
        to <= self.job.here && (!call || self.job.here.0 - to.0 < NEAR)
    }
}
