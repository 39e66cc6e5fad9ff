//! Ways of counting, each a plug-in of the translator.
//!
//! # Problem
//! A program is observed in a dozen ways: exits are counted, or values, or all events by a sampler; windows record addresses and
//! arguments; queries put probes; loads are prefetched. They combine, and each has something to do at many points of a
//! translation. A translator that names each of them at each point can neither be read nor tested by combinations.
//!
//! # Strategy
//! A way is a type with the hooks of [`Way`]. A hook that a way does not need does nothing. The macro [`each`] holds the
//! one list of ways. The translator calls a hook of all ways that are on ([`Translator::settle`]), in the order of the list,
//! and knows none by name. What the translator itself must know is in [`Needs`], the union of what the ways need.
//!
//! ```text
//!   first pass     begin · for each instruction: decoded, is_named, list
//!   second pass    enter · for each instruction: reach, registers, words, before, right_before · after
//!                  at a transfer: before_transfer · event (it goes on), event_out (it leaves)
//!   an exit        follow, plan, leave, left
//!   out of line    finish
//!   kept code      is_kept, have_room, relocate
//! ```
//!
//! Dispatch is static: each hook is a row of tests of one bit. With no way on, a point costs one comparison.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `list` | the one list of ways, and each hook called for all that are on |
//! | `events`, `records`, `selected`, `quiet` | events of transfers and of loads, and the code that has none |
//! | `exits` | exits counted or recorded |
//! | `values`, `value_counters` | values and types counted: shared parts, and exact counts |
//! | `strata`, `strata_values`, `strides` | the counters of a stratified sampler: by event, by value, by strides |
//! | `shields` | the counters of a multi-hash profiler |
//! | `acyclic` | acyclic paths |
//! | `after_calls` | executions of instructions after calls |
//! | `contexts` | calling contexts |
//! | `accesses`, `arguments`, `latency`, `budget` | captures of windows, and their end |
//! | `queries`, `prefetch` | probes of queries, prefetches |
//! | `traced`, `copies` | events of traces, and their copies where a sample may be |
//! | `pending`, `messages` | messages of counters, noted and then written after all else |
//! | `code` | instructions that all of it consists of |
//!
//! # Invariants
//! * The order of the list is the order of events in a block and of words in a record.
//! * What is kept for a process is in [`Ways`], what is kept for a fragment in [`super::job::Job`], what is kept at a point of the
//!   main line in [`Kept`].
//! * Which ways are on depends on the configuration alone, and not on the fragment.
//!
//! # Why it is correct
//! * Code of a way finds the app's registers as the step says, and leaves them so. What it spills it says in
//!   [`Spilled`](crate::cache::Spilled), before the instruction can fault.
//! * An event is counted after its instruction is done, by one way alone: [`Way::event`] and [`Way::value`] end with the first
//!   that has counted it.

pub(super) mod accesses;
pub(super) mod acyclic;
mod after_calls;
mod arguments;
mod budget;
mod code;
mod contexts;
mod copies;
mod events;
pub(super) mod exits;
mod latency;
pub(super) mod list;
mod messages;
mod pending;
mod prefetch;
mod queries;
mod quick;
mod quiet;
mod records;
mod selected;
mod shields;
mod strata;
mod strata_values;
pub(super) mod strides;
mod traced;
pub(super) mod value_counters;
pub(super) mod values;

use trommel_queue::dict::{Event, Passed};

use super::persisted::{Field, parts::Parts};
use super::walk::{At, Walk};
use super::{Refusal, Site, Translator};
use crate::base::address::AppPc;
use crate::base::decode::Insn;
use crate::base::emit::{Reg, Rel8};
use crate::base::ids::{EntryId, ExitNumber};
use crate::channel::dictionary::DictionaryFull;
use crate::channel::shields::Profiler;
use crate::channel::strata::Sampler;
use crate::channel::tags::Tags;
use crate::memory::region::Regions;
use crate::observe::acyclic::Acyclic;
use crate::observe::contexts::Contexts;
use crate::observe::converge::Converge;
use crate::observe::prefetch::Prefetch;
use crate::observe::query::Asked;
use values::Counted;

pub use pending::Known;
pub(super) use pending::Pending;
pub(super) use strides::Kept;
pub(super) use traced::Missed;

/// State that enabled ways keep for a process.
#[derive(Default)]
pub struct Ways {
    /// Counts events in the counters of a sampler.
    pub sampler: Option<Sampler>,
    /// Counts events in those of a multi-hash profiler. At most one of them is there.
    pub profiler: Option<Profiler>,
    /// Acyclic paths, where they are counted, or were.
    pub acyclic: Option<Acyclic>,
    /// Calling contexts, where they are counted, or were.
    pub contexts: Option<Contexts>,
    /// Queries about the process.
    pub asked: Option<Asked>,
    /// Prefetches, where they are wanted.
    pub prefetch: Option<Prefetch>,
    /// Places that are not profiled, where the host watches that.
    pub converge: Option<Converge>,
    /// Code that has events, if not all has.
    pub selected: Option<Tags>,
}

/// Needs of the ways that are on, as far as the translator must know.
#[derive(Clone, Copy, Default)]
pub(super) struct Needs {
    /// Operands are looked at, and a register may be needed for what is read there.
    pub(super) operands: bool,
    /// Loads are looked at.
    pub(super) loads: bool,
    /// That register is stolen where it is needed first, and holds no write pointer.
    pub(super) late: bool,
    /// Registers that cannot be stolen.
    pub(super) kept: u16,
    /// Words that an instruction records at most.
    pub(super) words: usize,
    /// Indirect branches have keys.
    pub(super) keys: bool,
    /// Each event is counted by itself, where it happens.
    pub(super) each_event: bool,
    /// Each exit has something to do.
    pub(super) each_exit: bool,
    /// Fragments do not end where others begin: that would be where a path begins.
    pub(super) runs_on: bool,
    /// Loops have one round.
    pub(super) one_round: bool,
    /// Traces need more room.
    pub(super) room: bool,
}

/// An exit that is being written.
pub(super) struct Leaving {
    pub(super) to: AppPc,
    pub(super) block: Option<EntryId>,
    /// The events of the block that belong to it, and the one that the exit is.
    pub(super) passed: Passed,
    pub(super) tail: Option<Event>,
    /// Run-time values recorded before it.
    pub(super) values: usize,
    /// The instruction that leaves with an address known only when it runs. Its target is in `rdx`, or in `rcx` with `rdx` free.
    pub(super) indirect: Option<Insn>,
    /// The register whose value belongs to the last event, if that is one.
    pub(super) dynamic: Option<Reg>,
    /// A register that is free, with the app's value in its slot or overwritten.
    pub(super) scratch: Option<Reg>,
    /// True if it is a system call.
    pub(super) call: bool,
    /// True if it is to be counted.
    pub(super) counted: bool,
    /// Its number in the dictionary.
    pub(super) number: Option<ExitNumber>,
    /// True if it is recorded, and if it needs `rcx` for another reason.
    pub(super) recorded: bool,
    pub(super) needs_rcx: bool,
    /// The jump that is taken where a chunk is full, with the place that it comes back to.
    pub(super) full: Option<(Rel8, usize)>,
    /// The jump that is taken where a window is at its end.
    pub(super) spent: Option<Rel8>,
}

impl Leaving {
    pub(super) fn new(to: AppPc, block: Option<EntryId>, passed: Passed) -> Self {
        Self {
            to,
            block,
            passed,
            tail: None,
            values: 0,
            indirect: None,
            dynamic: None,
            scratch: None,
            call: false,
            counted: true,
            number: None,
            recorded: false,
            needs_rcx: false,
            full: None,
            spent: None,
        }
    }
}

/// A way of counting. All hooks are of the translator that it is on in.
pub(super) trait Way {
    /// True if it is on.
    fn is_on(t: &Translator) -> bool;

    /// Adds what it needs.
    fn needs(_t: &Translator, _needs: &mut Needs) {}

    /// Begins a fragment at `app`, or refuses it.
    fn begin(_t: &mut Translator, _site: &mut Site<'_>, _app: AppPc) -> Result<(), Refusal> {
        Ok(())
    }

    /// Takes from instruction `n` of the first pass what it keeps from being observed.
    fn decoded(_t: &mut Translator, _site: &mut Site<'_>, _n: usize) {}

    /// True if the host has named what instruction `n` of the first pass has to do with.
    fn is_named(_t: &Translator, _site: &mut Site<'_>, _n: usize) -> bool {
        true
    }

    /// Lists the events of instruction `n` of the first pass. Returns how many words it records or counts.
    fn list(_t: &mut Translator, _site: &mut Site<'_>, _n: usize) -> usize {
        0
    }

    /// Begins the second pass: the fragment's block is known.
    fn enter(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _block: Option<EntryId>,
        _end: Option<AppPc>,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// Turns to instruction `n`.
    fn turn_to(_t: &mut Translator, _n: usize) {}

    /// Writes what comes at the boundary before an instruction.
    fn reach(_t: &mut Translator, _site: &mut Site<'_>, _walk: &Walk, _at: &At) {}

    /// Registers that must be the app's, beside those that an instruction uses.
    fn registers(_t: &Translator, _insn: &Insn) -> u16 {
        0
    }

    /// Events of the block that come before all others of instruction `n`.
    fn heads(_t: &Translator, _n: usize) -> usize {
        0
    }

    /// Writes a plain instruction in its own way, if it has one. Returns the register in the slot for far operands.
    fn replace(_t: &mut Translator, _site: &mut Site<'_>, _insn: &Insn) -> Option<Option<Reg>> {
        None
    }

    /// It records words for plain instructions. For those of which it has none, nothing is written.
    const HAS_WORDS: bool = false;

    /// Words of a record for a plain instruction. Each of them is an event.
    fn words(_t: &Translator, _insn: &Insn, _n: usize) -> usize {
        0
    }

    /// Writes what comes before a plain instruction; `slot` is the place of its words in the record.
    fn before(_t: &mut Translator, _insn: &Insn, _at: &mut At, _slot: i32) {}

    /// Writes what comes after all that, right before the instruction.
    fn right_before(_t: &mut Translator, _insn: &Insn, _slot: i32) {}

    /// Writes what comes after a plain instruction.
    fn after(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _walk: &Walk,
        _at: &mut At,
        _slot: i32,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// Writes what comes before an instruction that is not plain.
    fn before_transfer(_t: &mut Translator, _site: &mut Site<'_>, _insn: &Insn, _at: &mut At) {}

    /// Writes what comes after one that goes on with the next.
    fn after_other(_t: &mut Translator, _site: &mut Site<'_>, _insn: &Insn) {}

    /// Counts an event of the main line. Returns whether it has.
    fn event(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _event: Event,
    ) -> Result<bool, DictionaryFull> {
        Ok(false)
    }

    /// Counts an event by which the fragment is left for `to`, and leaves. Returns whether it has.
    fn event_out(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _event: Event,
        _to: AppPc,
    ) -> Result<bool, DictionaryFull> {
        Ok(false)
    }

    /// Counts an event with its value. Returns whether it has.
    fn value(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _event: Event,
        _value: &Counted,
    ) -> Result<bool, DictionaryFull> {
        Ok(false)
    }

    /// Counts a call by its method table: its target is in `rcx`, and the app's `rcx` in its slot.
    fn table(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _insn: &Insn,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// Writes what follows the main line.
    fn walked(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _walk: &Walk,
        _at: &mut At,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    /// Writes what follows the branches that leave.
    fn finish(_t: &mut Translator, _site: &mut Site<'_>) {}

    /// Finds out what follows an exit, and whether it is counted.
    fn follow(_t: &mut Translator, _site: &mut Site<'_>, _exit: &mut Leaving) {}

    /// Numbers an exit, and says what it needs.
    fn plan(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// Writes what an exit does.
    fn leave(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _exit: &mut Leaving,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// Writes, out of line, what may come before the instructions after a system call.
    fn called(_t: &mut Translator) {}

    /// Counts that the main line of a trace comes to its start once more.
    fn round(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _exit: &Leaving,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// Takes note of a fragment that is complete.
    fn placed(_t: &mut Translator, _site: &mut Site<'_>) {}

    /// Returns the way's state in a record, as bits of one word.
    fn word(_t: &Translator) -> u16 {
        0
    }

    /// Takes a fragment of `app` back with such a word.
    fn bring(
        _t: &mut Translator,
        _site: &mut Site<'_>,
        _app: AppPc,
        _word: u16,
    ) -> Result<(), DictionaryFull> {
        Ok(())
    }

    /// True if a record can say all that it counts.
    fn is_kept(_t: &Translator) -> bool {
        true
    }

    /// True if it can count what a record says.
    fn have_room(_t: &Translator, _site: &Site<'_>, _parts: &Parts<'_>) -> bool {
        true
    }

    /// Finds out anew what stands in kept code for an event whose messages have a number. `Some(None)`: nothing does.
    fn relocate(
        _t: &mut Translator,
        _regions: &Regions,
        _event: &Event,
        _number: ExitNumber,
    ) -> Option<Option<(Field, u32)>> {
        None
    }
}
