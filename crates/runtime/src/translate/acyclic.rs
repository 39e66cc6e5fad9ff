//! Acyclic paths in fragments: what follows each exit ([`crate::observe::acyclic`]).

use trommel_queue::dict::Event;

use super::{Site, Translator, target};
use crate::base::address::AppPc;
use crate::base::prefix::Prefix;
use crate::observe::acyclic::{Acyclic, ON_PATH, pass};

impl Translator {
    /// What is known of acyclic paths, where they are counted now.
    pub fn counting_acyclic(&mut self) -> Option<&mut Acyclic> {
        self.ways.acyclic.as_mut().filter(|_| self.config.counters)
    }

    /// The first event of a fragment's block, where acyclic paths are wanted.
    pub(super) fn arrival(&mut self, app: AppPc) -> Event {
        let prefix = self.job.prefix;
        match self.counting_acyclic() {
            Some(acyclic) => acyclic.arrival(prefix, app),
            None => Event::Enter { pc: target(app) },
        }
    }

    /// The block of the fragment being made is known.
    pub(super) fn know_events(&mut self, site: &Site<'_>, block: Option<u32>) {
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
    pub(super) fn goes_onward(
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

    /// Before a system call: tells what follows it, should the thread go no further.
    pub(super) fn tell_path(&mut self, path: u32) {
        if self.counting_acyclic().is_some() {
            self.job.code.store_gs_imm32(ON_PATH, path + 1);
        }
    }

    /// After it.
    pub(super) fn untell_path(&mut self) {
        if self.counting_acyclic().is_some() {
            self.job.code.store_gs_imm32(ON_PATH, 0);
        }
    }
}
