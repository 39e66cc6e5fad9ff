//! The one list of ways, and each hook called for all that are on.

use trommel_queue::dict::Event;

use super::accesses::{Addresses, USUAL_WORDS};
use super::acyclic::AcyclicPaths;
use super::after_calls::AfterCalls;
use super::arguments::Arguments;
use super::budget::Budget;
use super::contexts::CallingContexts;
use super::events::Transfers;
use super::exits::Exits;
use super::latency::Latency;
use super::prefetch::Prefetches;
use super::queries::Probes;
use super::quiet::Quiet;
use super::records::Records;
use super::selected::Selection;
use super::shields::Shields;
use super::strata::Strata;
use super::strides::Striding;
use super::value_counters::ValueCounters;
use super::values::{Counted, Values};
use super::{Leaving, Needs, Way};
use crate::base::address::AppPc;
use crate::base::decode::Insn;
use crate::base::emit::Reg;
use crate::base::ids::{EntryId, ExitNumber};
use crate::channel::dictionary::DictionaryFull;
use crate::memory::region::Regions;
use crate::translate::persisted::{Field, parts::Parts};
use crate::translate::walk::{At, WAYS, Walk};
use crate::translate::{Refusal, Site, Translator};

/// Declares the list: the number of each way, and the macro that goes through all that are on.
macro_rules! list {
    ($dollar:tt $($way:ident)+) => {
        /// The ways, by number.
        #[allow(clippy::enum_variant_names, reason = "the names of the ways")]
        #[derive(Clone, Copy)]
        enum Number {
            $($way),+
        }

        const _: () = assert!([$(Number::$way),+].len() == WAYS);

        /// Evaluates a block for each way that is on, of which `W` is the type.
        macro_rules! each {
            ($dollar t:ident, $dollar W:ident, $dollar n:ident => $dollar block:block) => {
                if !$dollar t.on.is_empty() {
                    $(
                        if $dollar t.on.has(Number::$way as usize) {
                            type $dollar W = $way;
                            #[allow(unused_variables, reason = "few hooks need it")]
                            let $dollar n = Number::$way as usize;
                            $dollar block
                        }
                    )+
                }
            };
        }

        impl Translator {
            /// Finds out which ways are on, and what they need.
            pub(in crate::translate) fn settle(&mut self) {
                self.on = On::default();
                let mut needs = Needs {
                    words: USUAL_WORDS,
                    ..Needs::default()
                };
                $(
                    if $way::is_on(self) {
                        self.on.0 |= 1 << Number::$way as u32;
                        $way::needs(self, &mut needs);
                    }
                )+
                self.needs = needs;
            }
        }
    };
}

list! {
    $
    Selection
    AfterCalls
    Quiet
    Addresses
    Latency
    Arguments
    Probes
    Records
    Transfers
    Striding
    Values
    Shields
    Strata
    ValueCounters
    Prefetches
    CallingContexts
    Exits
    AcyclicPaths
    Budget
}

/// Value in place of a way's words in a record, if the instruction has none.
const NO_WORDS: i32 = 0;

/// A set of ways.
#[derive(Clone, Copy, Default)]
pub(in crate::translate) struct On(u32);

impl On {
    pub(in crate::translate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, number: usize) -> bool {
        self.0 >> number & 1 != 0
    }
}

impl Translator {
    pub(in crate::translate) fn ways_begin(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
    ) -> Result<(), Refusal> {
        each!(self, W, _n => { W::begin(self, site, app)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_decoded(&mut self, site: &mut Site<'_>, n: usize) {
        each!(self, W, _n => { W::decoded(self, site, n); });
    }

    pub(in crate::translate) fn ways_are_named(&self, site: &mut Site<'_>, n: usize) -> bool {
        each!(self, W, _n => {
            if !W::is_named(self, site, n) {
                return false;
            }
        });
        true
    }

    /// Lists like [`Way::list`], for all together.
    pub(in crate::translate) fn ways_list(&mut self, site: &mut Site<'_>, n: usize) -> usize {
        let mut words = 0;
        each!(self, W, _n => { words += W::list(self, site, n); });
        words
    }

    pub(in crate::translate) fn ways_enter(
        &mut self,
        site: &mut Site<'_>,
        block: Option<EntryId>,
        end: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => { W::enter(self, site, block, end)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_turn_to(&mut self, n: usize) {
        each!(self, W, _n => { W::turn_to(self, n); });
    }

    pub(in crate::translate) fn ways_reach(&mut self, site: &mut Site<'_>, walk: &Walk, at: &At) {
        each!(self, W, _n => { W::reach(self, site, walk, at); });
    }

    pub(in crate::translate) fn ways_registers(&self, insn: &Insn) -> u16 {
        let mut registers = 0;
        each!(self, W, _n => { registers |= W::registers(self, insn); });
        registers
    }

    pub(in crate::translate) fn ways_heads(&self, n: usize) -> usize {
        let mut heads = 0;
        each!(self, W, _n => { heads += W::heads(self, n); });
        heads
    }

    pub(in crate::translate) fn ways_replace(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
    ) -> Option<Option<Reg>> {
        each!(self, W, _n => {
            if let Some(far) = W::replace(self, site, insn) {
                return Some(far);
            }
        });
        None
    }

    /// Gives each way the place of its words in the record, and writes what comes before a plain instruction.
    pub(in crate::translate) fn ways_before(&mut self, insn: &Insn, at: &mut At) {
        each!(self, W, n => {
            if W::HAS_WORDS {
                let words = W::words(self, insn, at.n);
                at.slots[n] = match words {
                    0 => NO_WORDS,
                    _ => 4 + 8 * at.values as i32,
                };
                at.values += words;
                at.events += words;
                at.probed |= words != 0;
            }
        });
        each!(self, W, n => {
            if !W::HAS_WORDS || at.slots[n] != NO_WORDS {
                W::before(self, insn, at, at.slots[n]);
            }
        });
    }

    pub(in crate::translate) fn ways_right_before(&mut self, insn: &Insn, at: &At) {
        each!(self, W, n => {
            if !W::HAS_WORDS || at.slots[n] != NO_WORDS {
                W::right_before(self, insn, at.slots[n]);
            }
        });
    }

    pub(in crate::translate) fn ways_after(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, n => {
            if !W::HAS_WORDS || at.slots[n] != NO_WORDS {
                W::after(self, site, walk, at, at.slots[n])?;
            }
        });
        Ok(())
    }

    pub(in crate::translate) fn ways_before_transfer(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
        at: &mut At,
    ) {
        each!(self, W, _n => { W::before_transfer(self, site, insn, at); });
    }

    pub(in crate::translate) fn ways_after_other(&mut self, site: &mut Site<'_>, insn: &Insn) {
        each!(self, W, _n => { W::after_other(self, site, insn); });
    }

    /// Counts an event of the main line, where events are counted one by one.
    pub(in crate::translate) fn ways_event(
        &mut self,
        site: &mut Site<'_>,
        event: Option<Event>,
    ) -> Result<(), DictionaryFull> {
        let Some(event) = event.filter(|_| self.needs.each_event) else {
            return Ok(());
        };
        each!(self, W, _n => {
            if W::event(self, site, event)? {
                return Ok(());
            }
        });
        Ok(())
    }

    /// Counts an event by which the fragment is left for `to`, and leaves.
    pub(in crate::translate) fn ways_event_out(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        to: AppPc,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => {
            if W::event_out(self, site, event, to)? {
                return Ok(());
            }
        });
        self.leave(site, to, None, 0, 0, None)
    }

    pub(in crate::translate) fn ways_value(
        &mut self,
        site: &mut Site<'_>,
        event: Event,
        value: &Counted,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => {
            if W::value(self, site, event, value)? {
                return Ok(());
            }
        });
        Ok(())
    }

    pub(in crate::translate) fn ways_table(
        &mut self,
        site: &mut Site<'_>,
        insn: &Insn,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => { W::table(self, site, insn)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_walked(
        &mut self,
        site: &mut Site<'_>,
        walk: &Walk,
        at: &mut At,
    ) -> Result<(), Refusal> {
        each!(self, W, _n => { W::walked(self, site, walk, at)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_finish(&mut self, site: &mut Site<'_>) {
        each!(self, W, _n => { W::finish(self, site); });
    }

    pub(in crate::translate) fn ways_plan(
        &mut self,
        site: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => { W::follow(self, site, exit); });
        each!(self, W, _n => { W::plan(self, site, exit)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_leave(
        &mut self,
        site: &mut Site<'_>,
        exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => { W::leave(self, site, exit)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_called(&mut self) {
        each!(self, W, _n => { W::called(self); });
    }

    pub(in crate::translate) fn ways_round(
        &mut self,
        site: &mut Site<'_>,
        exit: &Leaving,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => { W::round(self, site, exit)?; });
        Ok(())
    }

    pub(in crate::translate) fn ways_placed(&mut self, site: &mut Site<'_>) {
        each!(self, W, _n => { W::placed(self, site); });
    }

    pub(in crate::translate) fn ways_word(&self) -> u16 {
        let mut word = 0;
        each!(self, W, _n => { word |= W::word(self); });
        word
    }

    pub(in crate::translate) fn ways_bring(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        word: u16,
    ) -> Result<(), DictionaryFull> {
        each!(self, W, _n => { W::bring(self, site, app, word)?; });
        Ok(())
    }

    /// Returns true if a record can hold all counts of the fragment being made, and a loaded one has all counts that it needs.
    pub(in crate::translate) fn ways_are_kept(&self) -> bool {
        each!(self, W, _n => {
            if !W::is_kept(self) {
                return false;
            }
        });
        true
    }

    pub(in crate::translate) fn ways_have_room(&self, site: &Site<'_>, parts: &Parts<'_>) -> bool {
        each!(self, W, _n => {
            if !W::have_room(self, site, parts) {
                return false;
            }
        });
        true
    }

    pub(in crate::translate) fn ways_relocate(
        &mut self,
        regions: &Regions,
        event: &Event,
        number: ExitNumber,
    ) -> Option<Option<(Field, u32)>> {
        each!(self, W, _n => {
            if let Some(found) = W::relocate(self, regions, event, number) {
                return Some(found);
            }
        });
        None
    }
}
