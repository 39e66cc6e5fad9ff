//! Fragments from app code.
//!
//! # Problem
//! A fragment must do exactly what its app code does, with every register, flag and byte of memory
//! the app's at each instruction boundary, while control stays in the cache. It must be made
//! quickly, since most code that ever runs, runs once.
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `config`, `site` | what a translator is told to do, what it is given, and why it may refuse |
//! | `job`, `walk` | the fragment being made, and the position of the second pass in it |
//! | `flags`, `liveness`, `spills` | the app's flags and registers around what is added |
//! | `operands` | instructions copied, and their memory operands read |
//! | `piece`, `path` | a path that was executed, and a trace of it |
//! | `optimise`, `looped` | variables of a loop in registers, and the loop's second round |
//! | `ways` | ways of counting, each a plug-in |
//! | `first` | the first pass: decodes, and finds the fragment's end |
//! | `second`, `insn` | the second pass: writes each instruction, and what ways add to it |
//! | `exits`, `stubs`, `turns`, `jumps` | ways out of a fragment: their code, stubs, predicted targets, alignment |
//! | `made`, `restartable` | code that may change, restartable sequences |
//! | `marks`, `deliveries` | marks in records, counts of signals by their handlers |
//! | `persisted` | fragments without addresses, kept for later runs |
//!
//! # Strategy
//! A fragment is a *superblock*: it starts at one app address, goes on past branches that are not
//! taken and through direct jumps, and ends at a call, a return, an indirect jump, a system call,
//! at code that has a fragment already, or at [`MAX_INSNS`]. The first pass decodes; the second
//! copies, rewriting only displacements, so most instructions keep their bytes.
//!
//! ```text
//!   entry           direct links come in here
//!   checked entry   tag check for indirect branches (see below)
//!   steal           with a stolen register for records: spill it, load the write pointer
//!   steps           one for each app instruction, probes before or after
//!   tails           taken branches that have something to record on their way out
//! ```
//!
//! The code after a branch may never run. In a program's hot code that costs little, since it is
//! translated once. The dynamic linker's code mostly runs once, or never. So until control
//! reaches the program's own entry point, fragments are *brief*: they end at a branch when they have
//! a few instructions. A third less is translated then.
//!
//! *Direct exits* jump to a stub at first; the dispatcher links them.
//!
//! *Indirect branches* jump through the table in the thread area, indexed by the low 16 bits of
//! the app address. Table entries lead to a fragment's checked entry, which compares the whole
//! address with its own, in `rcx`, with no flag touched. The app's `rcx` and `rdx` are in their
//! slots then. A fragment made for an indirect branch loads each only before the first
//! instruction that uses it, and need not store it again for an indirect branch of its own: a
//! register that is not used on the way stays out of the way. Its direct entry spills both.
//!
//! *Code that may change* (`Nature`) is read once, into a buffer, and a fragment made of it is of
//! one page and in one piece, so that it can be compared; only one of a single instruction may lie
//! across two pages. A *guarded* fragment compares its code when it is entered, and ends at the first
//! instruction that writes memory, which might be its own.
//!
//! *Calls* push the app's own return address; returns are indirect branches.
//!
//! *Events*: what is known now goes to the dictionary; the fragment stores only run-time values,
//! and at each exit the number of the path taken, as `trommel_queue` describes. With loads or types
//! to record, a register that no instruction of the fragment uses is *stolen* and holds the write
//! pointer; a fragment ends early rather than use them all. Where events are counted in the code (`ways/values.rs`), it is stolen
//! later, by the first load that needs a register.
//!
//! # Why it is correct
//! * Copied instructions see the app's registers: a stolen register is used by none of them, and
//!   scratch registers are restored before the next.
//! * Nothing but the app's own instructions touches flags or the app's stack.
//! * An instruction that faults does so before any scratch register of its step has lost a value
//!   that its `Step` cannot restore.
//! * `rcx` is free at `syscall`, which overwrites it.
//!
//! **I3 (return addresses).** Return addresses on the app's stack are the app's own.
//!
//! **I14 (below the stack pointer).** Only the app's own instructions write below the app's stack pointer.
#![allow(unsafe_code)] // reason: reads the app's code, writes to the cache.

mod config;
#[cfg(test)]
mod corpus;
mod deliveries;
mod exits;
mod first;
mod flags;
mod insn;
mod job;
mod jumps;
mod liveness;
mod looped;
mod made;
mod marks;
mod operands;
mod optimise;
mod path;
mod persisted;
pub mod piece;
mod restartable;
mod second;
mod site;
mod spills;
mod stubs;
mod turns;
mod walk;
mod ways;

pub use config::Config;
pub use exits::pair_check;
pub use made::prepare;
pub use persisted::AHEAD;
pub use site::{Refusal, Site};
pub use ways::accesses::MOST_WORDS;
pub use ways::{Known, Ways};

use job::Job;
use site::{readable, target};
use trommel_queue::dict::{Event, Mark};
use trommel_tuple::{Kind, KindSet};
use ways::list::On;
use ways::{Kept, Needs};

use crate::base::address::AppPc;
use crate::base::emit::{Reg, Rel32};
use crate::base::ids::{EntryId, ExitNumber, FragmentId};
use crate::base::prefix::Prefix;
use crate::base::stress::{self, FailurePoint};
use crate::cache::Spilled;

/// App instructions in one fragment.
pub const MAX_INSNS: usize = 48;
/// App instructions that a brief fragment goes on past branches for.
const BRIEF_INSNS: usize = 8;
/// Words with a bit for each app instruction of a fragment or trace.
const QUIET_WORDS: usize = piece::MAX_INSNS.div_ceil(64);
/// Room a fragment and its stubs may need at most, in bytes.
const MAX_FRAGMENT: u64 = 48 << 10;
const MAX_STUBS: u64 = 12 << 10;
/// The same where an instruction may have probes of several query programs. Steps are at offsets of 16 bits.
const QUERIED_FRAGMENT: u64 = 64 << 10;
const QUERIED_STUBS: u64 = 48 << 10;
/// App instructions in a short fragment, for what room there is between others that are kept, and what that and its stubs may need.
const FEW_INSNS: usize = 4;
const SHORT_FRAGMENT: u64 = 8 << 10;
const SHORT_STUBS: u64 = 2 << 10;

/// A taken branch on its way out.
struct Tail {
    from: Rel32,
    target: AppPc,
    pc: AppPc,
    /// The first event of its way, and the one after those before it.
    first: usize,
    events: usize,
    values: usize,
    event: Option<Event>,
    spilled: Spilled,
    passed: usize,
    /// State that ways keep there.
    kept: Kept,
}

/// Makes fragments and traces: its configuration, what it counts, and the fragment being made.
pub struct Translator {
    config: Config,
    /// The ways of counting, as far as they are enabled, with what each keeps for the process.
    pub ways: Ways,
    /// The ways that are on, and what they need.
    on: On,
    needs: Needs,
    /// A block without events in the dictionary, once messages are about one.
    no_events: Option<EntryId>,
    /// Paths of marks in the dictionary, by their numbers, once there was one.
    marks: [Option<ExitNumber>; Mark::ALL.len()],
    /// Paths of deliveries in the dictionary.
    deliveries: deliveries::Deliveries,
    /// Fragments are brief until that of this address is made.
    brief_until: Option<AppPc>,
    /// Fragments have few instructions, for which less room will do.
    pub short: bool,
    /// Copy of the code that was read last and may change.
    made: made::Buffer,
    /// The fragment being made.
    job: Job,
}

/// Shape of a fragment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The usual one.
    Usual,
    /// An indirect branch leads there.
    Checked,
    /// One instruction, which may change the code after it: not found by its address, and never
    /// linked.
    Single,
    /// Part of a window's end, of at most as many instructions as two to this power: not found by its
    /// address, and never linked.
    Part(u8),
    /// A piece of a path that is recorded: each exit leads to the dispatcher.
    Recorded,
}

impl Translator {
    /// A translator with room for one fragment. `brief_until` is where the program itself starts,
    /// after its dynamic linker.
    pub fn new(config: Config, ways: Ways, brief_until: Option<AppPc>) -> Self {
        let mut translator = Self {
            config,
            ways,
            on: On::default(),
            needs: Needs::default(),
            no_events: None,
            marks: [None; Mark::ALL.len()],
            deliveries: deliveries::Deliveries::default(),
            brief_until,
            short: false,
            made: made::Buffer::new(),
            job: Job::new(config.max_insns),
        };
        translator.settle();
        translator
    }

    /// Returns true if there are traces, even if not in this variant of the code.
    pub fn leads_to_traces(&self) -> bool {
        self.config.trace_insns != 0
    }

    /// Fragments that are made from now on collect these kinds.
    pub fn collect_only(&mut self, kinds: KindSet) {
        self.config.kinds = kinds;
        self.settle();
    }

    pub(crate) fn wants(&self, kind: Kind) -> bool {
        self.config.kinds.has(kind) && !self.job.skips
    }

    /// Bytes of app code in what was made last.
    pub fn app_bytes(&self) -> u64 {
        self.job.insns[..self.job.count]
            .iter()
            .map(|insn| insn.size() as u64)
            .sum()
    }

    /// Makes the fragment of `app`, with this after it on an acyclic path.
    pub fn translate(
        &mut self,
        site: &mut Site<'_>,
        (app, prefix): (AppPc, Prefix),
        shape: Shape,
    ) -> Result<FragmentId, Refusal> {
        self.begin(made::From::of(shape), prefix, false);
        let end = self.collect(site, app)?;
        self.write(site, app, end, shape == Shape::Checked)
    }

    /// Marks the code from `from` on as the app's work.
    fn is_work(&mut self, from: usize) {
        if !self.config.audit {
            return;
        }
        let (from, to) = (from as u32, self.job.code.here() as u32);
        match self.job.work.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => self.job.work.push((from, to)),
        }
    }

    /// Begins a fragment: nothing has been decoded.
    fn begin(&mut self, from: made::From, prefix: Prefix, trace: bool) {
        let prefix = self.followed(prefix);
        self.job.begin(from, prefix, trace);
    }

    /// Writes the fragment that the first pass has found into the cache.
    fn write(
        &mut self,
        site: &mut Site<'_>,
        app: AppPc,
        end: Option<AppPc>,
        checked: bool,
    ) -> Result<FragmentId, Refusal> {
        let region = site.regions.range_of(app).unwrap_or(self.job.span);
        let arena = site.cache.arena_for(region).ok_or(Refusal::OutOfSpace)?;
        let (most, most_stubs) = match self.job.trace {
            false if self.short => (SHORT_FRAGMENT, SHORT_STUBS),
            false if self.has_many_probes() => (QUERIED_FRAGMENT, QUERIED_STUBS),
            false => (MAX_FRAGMENT, MAX_STUBS),
            true if self.needs.room => (path::MAX_SHIELDED, path::MAX_STUBS),
            true => (path::MAX_CODE, path::MAX_STUBS),
        };
        if !site.cache.has_room(arena, most, most_stubs) {
            return Err(Refusal::CacheFull);
        }
        if self.job.trace {
            site.cache.align_code(arena);
        }
        // SAFETY: nothing is placed before the fragment is, and no code is written after that.
        (self.job.code, self.job.stubs) = unsafe { site.cache.open(arena, most, most_stubs) };
        let first_exit = (site.cache.exits.len(), site.cache.next_exit());
        self.job.open(arena, first_exit);
        let before = (site.cache.steps.len(), site.cache.exits.len());
        let mut fragment = match self.emit(site, app, end, checked) {
            Ok(fragment) => fragment,
            Err(refusal) => {
                site.cache.steps.truncate(before.0);
                site.cache.exits.truncate(before.1);
                return Err(refusal);
            }
        };
        self.keep_source(site.cache, &mut fragment);
        self.keep(site, &fragment);
        self.ways_placed(site);
        stress::fail(FailurePoint::Translate);
        let (code, stubs) = (self.job.code.here(), self.job.stubs.here());
        if self.config.audit {
            let at = self.job.code.at(0);
            site.cache.mark(arena, at, code, &self.job.work);
        }
        let id = site
            .cache
            .place(arena, code, stubs, fragment, &self.job.pages);
        for &exit in &self.job.looped.exits {
            site.cache.link_loop(exit, id);
        }
        Ok(id)
    }
}

/// A register that a fragment using `used` can do without. `rcx` and `rdx` serve indirect branches,
/// `rsp` is the stack.
fn stealable(used: u16) -> Option<Reg> {
    const NEVER: u16 = 1 << 1 | 1 << 2 | 1 << 4;
    let free = !(used | NEVER);
    // The upper eight from the last on, then the lower ones, rax last.
    match (free >> 8, free & 0xfe) {
        (0, 0) => (free != 0).then_some(Reg::RAX),
        (0, low) => Some(Reg(low.trailing_zeros() as u8)),
        (high, _) => Some(Reg(15 - (high << 8).leading_zeros() as u8)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_stolen_in_order() {
        let mut used = 0;
        let order = core::iter::from_fn(|| {
            let found = stealable(used)?;
            used |= found.bit();
            Some(found.0)
        });
        assert!(order.eq([15, 14, 13, 12, 11, 10, 9, 8, 3, 5, 6, 7, 0]));
    }
}
