//! Acyclic paths in fragments: what follows each exit ([`crate::observe::acyclic`]).

use trommel_queue::dict::Event;
use trommel_tuple::Kind;

use super::{Leaving, Needs, Way};
use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn};
use crate::base::ids::EntryId;
use crate::base::prefix::Prefix;
use crate::channel::dictionary::DictionaryFull;
use crate::observe::acyclic::{Acyclic, ON_PATH, pass};
use crate::translate::walk::At;
use crate::translate::{Refusal, Site, Translator, target};

/// Follows acyclic paths.
pub(in crate::translate) struct AcyclicPaths;

impl Way for AcyclicPaths {
    fn is_on(t: &Translator) -> bool {
        t.config.kinds.has(Kind::Path)
    }

    fn needs(t: &Translator, needs: &mut Needs) {
        let counts = t.ways.acyclic.is_some() && t.config.counters;
        // A loop's ways begin in the midst of paths.
        needs.one_round |= counts;
        needs.runs_on |= counts;
    }

    fn begin(t: &mut Translator, site: &mut Site<'_>, app: AppPc) -> Result<(), Refusal> {
        let trace = t.job.trace;
        if let Some(acyclic) = t.counting_acyclic()
            && !(acyclic.have_room() && (trace || site.pairs.have_room()))
        {
            if trace {
                return Err(Refusal::Native);
            }
            t.stop_counting();
            return Err(Refusal::CacheFull);
        }
        if !trace {
            let arrival = t.arrival(app);
            site.shared.event(arrival);
            t.job.arrivals = 1;
        }
        Ok(())
    }

    fn list(t: &mut Translator, site: &mut Site<'_>, n: usize) -> usize {
        if let Some(event) = t.ends_path(&t.job.insns[n]).filter(|_| !t.needs.each_event) {
            site.shared.event(event);
        }
        0
    }

    fn enter(
        t: &mut Translator,
        site: &mut Site<'_>,
        block: Option<EntryId>,
        _: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        t.know_events(site, block);
        Ok(())
    }

    fn before_transfer(t: &mut Translator, _: &mut Site<'_>, insn: &Insn, at: &mut At) {
        let passes = !t.turns_at(at.n) && t.ends_path(insn).is_some();
        at.events += usize::from(passes);
    }

    fn follow(t: &mut Translator, site: &mut Site<'_>, exit: &mut Leaving) {
        if exit.indirect.is_none() {
            exit.counted = t.goes_onward(site, exit.passed.end.into(), exit.tail, exit.to);
        }
    }

    /// Plans a system call: says before it what follows, should the thread go no further.
    fn plan(
        t: &mut Translator,
        _: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        if let Some(number) = exit.number.filter(|_| exit.call)
            && t.counting_acyclic().is_some()
        {
            t.job.code.store_gs_imm32(ON_PATH, number.0 + 1);
        }
        Ok(())
    }

    fn called(t: &mut Translator) {
        if t.counting_acyclic().is_some() {
            t.job.code.store_gs_imm32(ON_PATH, 0);
        }
    }
}

impl Translator {
    /// Returns the meaning for acyclic paths of an instruction that is no event of the program's.
    pub(in crate::translate) fn ends_path(&self, insn: &Insn) -> Option<Event> {
        let pc = target(insn.pc());
        match insn.class {
            Class::Ret(_) if self.wants(Kind::Path) => Some(Event::Return { pc }),
            Class::Jmp(back) if self.config.cuts_at(insn) => Some(Event::Jump {
                pc,
                target: target(back),
            }),
            _ => None,
        }
    }

    /// Returns the state of acyclic paths, if they are counted now.
    pub fn counting_acyclic(&mut self) -> Option<&mut Acyclic> {
        self.ways.acyclic.as_mut().filter(|_| self.config.counters)
    }

    /// A prefix, where something follows it.
    pub(in crate::translate) fn followed(&mut self, prefix: Prefix) -> Prefix {
        match self.counting_acyclic() {
            None if prefix != Prefix::SAMPLED => Prefix::NONE,
            _ => prefix,
        }
    }

    /// The first event of a fragment's block, where acyclic paths are wanted.
    pub(in crate::translate) fn arrival(&mut self, app: AppPc) -> Event {
        let prefix = self.job.prefix;
        match self.counting_acyclic() {
            Some(acyclic) => acyclic.arrival(prefix, app),
            None => Event::Enter { pc: target(app) },
        }
    }

    /// The block of the fragment being made is known.
    fn know_events(&mut self, site: &Site<'_>, block: Option<EntryId>) {
        self.job.events.clear();
        self.job.followed = (0, None, false);
        if self.counting_acyclic().is_some()
            && let Some(block) = block
        {
            let events = site.shared.events_of(block);
            self.job.events.extend(events.map_while(|event| event));
        }
    }

    /// Finds out what follows an exit to `to`, after so many events of the block and with `tail`. Whether it
    /// is to be counted: a path has ended, or more than paths is wanted.
    fn goes_onward(
        &mut self,
        site: &Site<'_>,
        events: usize,
        tail: Option<Event>,
        to: AppPc,
    ) -> bool {
        self.job.onward = Prefix::NONE;
        if self.counting_acyclic().is_none() {
            return true;
        }
        if events < self.job.followed.0 {
            self.job.followed = (0, None, false);
        }
        let (done, mut on, mut ended) = self.job.followed;
        for event in &self.job.events[done..events.min(self.job.events.len())] {
            ended |= pass(&mut on, event, site.regions).is_some();
        }
        self.job.followed = (events, on, ended);
        if let Some(tail) = tail {
            ended |= pass(&mut on, &tail, site.regions).is_some();
        }
        let unknown = self.job.prefix == Prefix::UNKNOWN;
        let Some(acyclic) = self.counting_acyclic() else {
            return true;
        };
        let onward = match unknown {
            true => Prefix::UNKNOWN,
            false => acyclic.number_if_few(to, on),
        };
        let counted = !acyclic.alone || ended && !unknown;
        self.job.onward = onward;
        counted
    }
}
