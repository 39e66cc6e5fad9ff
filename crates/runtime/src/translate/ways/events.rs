//! Branches and calls as events.

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::Way;
use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn};
use crate::translate::{Config, Refusal, Site, Translator, target};

/// Lists branches and calls in the dictionary.
pub(in crate::translate) struct Transfers;

impl Way for Transfers {
    fn is_on(t: &Translator) -> bool {
        t.config.kinds.has(Kind::Edge) || t.config.kinds.has(Kind::Call)
    }

    /// The host hears where a branch leads before it can be recorded: it may fold that record before code
    /// there is made, and would take the place for memory without a file.
    #[inline]
    fn is_named(t: &Translator, site: &mut Site<'_>, n: usize) -> bool {
        let to = t.leads_to(&t.job.insns[n]);
        to.is_none_or(|to| Translator::region(site, to) != Err(Refusal::Unnamed))
    }

    /// Lists the events in the order in which [`Translator::emit`] passes them. Indirect branches counted by keys are none of them.
    #[inline]
    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        let insn = t.job.insns[n];
        if t.needs.each_event || t.job.skips {
            return 0;
        }
        let pc = target(insn.pc());
        let kinds = t.config.kinds;
        let dynamic = |kind| Event::Dynamic { kind, pc };
        let event = match insn.class {
            Class::Jcc(_, taken_to) | Class::ShortBranch(taken_to) if kinds.has(Kind::Edge) => {
                Event::Branch {
                    pc,
                    len: insn.size() as u8,
                    target: target(taken_to),
                    taken: false,
                }
            }
            Class::JmpIndirect if kinds.has(Kind::Edge) && !t.job.pairs => dynamic(Kind::Edge),
            Class::Call(callee) if kinds.has(Kind::Call) => Event::Call {
                pc,
                target: target(callee),
            },
            Class::CallIndirect if kinds.has(Kind::Call) && !t.job.pairs => dynamic(Kind::Call),
            _ => return 0,
        };
        site.shared.event(event);
        0
    }
}

impl Config {
    /// Returns true if an instruction is a jump backward that ends an acyclic path, and such paths are enabled.
    pub(in crate::translate) fn cuts_at(&self, insn: &Insn) -> bool {
        let back = matches!(insn.class, Class::Jmp(to) if to <= insn.pc());
        back && self.kinds.has(Kind::Path)
    }
}

impl Translator {
    /// Returns the two ways of a branch as events, that of the main line first, or another transfer of the main line. They are
    /// given as far as they are enabled and known. `turn` is where a trace goes on after the transfer, `next` what is executed next
    /// on the main line, and `closes` where a loop starts whose way ends here.
    pub(in crate::translate) fn sides(
        &self,
        insn: &Insn,
        turn: Option<AppPc>,
        next: Option<AppPc>,
        closes: Option<AppPc>,
    ) -> (Option<Event>, Option<Event>) {
        let pc = target(insn.pc());
        let (call, edge) = (self.wants(Kind::Call), self.wants(Kind::Edge));
        match insn.class {
            Class::Jcc(_, to) | Class::ShortBranch(to) if edge => {
                let conditional = matches!(insn.class, Class::Jcc(..));
                let closed = conditional && closes == Some(to);
                // A trace that goes on after a branch that was taken has it the other way round.
                let other = next.filter(|&next| {
                    self.job.trace && conditional && to == insn.next() && next != to
                });
                let side = |taken| Event::Branch {
                    pc,
                    len: insn.size() as u8,
                    target: target(other.unwrap_or(to)),
                    taken,
                };
                let taken = closed || other.is_some();
                (Some(side(taken)), Some(side(!taken)))
            }
            Class::Call(to) if call => {
                let target = target(to);
                (Some(Event::Call { pc, target }), None)
            }
            Class::CallIndirect | Class::JmpIndirect => {
                let is_call = insn.class == Class::CallIndirect;
                let wanted = if is_call { call } else { edge };
                let known = turn.filter(|_| wanted).map(|to| Event::Indirect {
                    pc,
                    target: target(to),
                    call: is_call,
                });
                (known, None)
            }
            _ => (None, None),
        }
    }

    /// Returns the target of an instruction, if it is known and an event.
    fn leads_to(&self, insn: &Insn) -> Option<AppPc> {
        match insn.class {
            Class::Jcc(_, to) | Class::ShortBranch(to) if self.wants(Kind::Edge) => Some(to),
            Class::Call(to) if self.wants(Kind::Call) => Some(to),
            _ => None,
        }
    }
}

/// Returns the address executed after a transfer whose way is known.
pub(super) fn follows(event: Event) -> AppPc {
    match event {
        Event::Branch {
            pc,
            len,
            taken: false,
            ..
        } => AppPc(pc.0 + u64::from(len)),
        Event::Branch { target, .. }
        | Event::Call { target, .. }
        | Event::Indirect { target, .. } => AppPc(target.0),
        _ => AppPc(event.pc().0),
    }
}
