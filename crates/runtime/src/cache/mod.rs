//! The code cache: placement of fragments, and lookup.
//!
//! # Problem
//! A fragment's instructions keep their RIP-relative operands and are linked by 32-bit jumps. So it must
//! lie within 2 GiB of the data that its app code refers to. Programs have code in clusters far apart
//! (the executable, the libraries).
//!
//! # Strategy
//! Code lives in *arenas* of `ARENA_BYTES` of address space, one for each cluster, reserved in a gap close
//! to it. Fragments and the code that leads to them fill an arena from the bottom, exit stubs from `STUB_OFFSET` on.
//! So code which is executed once stays away from code which is executed often.
//!
//! A dense open-addressing table leads from app addresses to fragments. Nothing is ever moved.
//!
//! *Retiring.* A fragment whose app code goes away is cut off: every link to it leads to its exit
//! stub again, its checked entry to the dispatcher. A thread in it goes on to its next exit. A fragment
//! whose app code may have changed is cut off too, but can come back (`mod@suspect`).
//!
//! *Variants.* A generation may have two, with different probes. Threads enter one of them (`mod@variant`).
//!
//! *Generations.* When the cache is full all fragments are retired at once: they become an old
//! *generation*. Threads may still be in it, and signals may find them there. So its memory and
//! descriptions stay until every thread has come out of the cache once ([`Cache::reclaim`]). The next
//! generation grows in the gaps between what is kept of earlier ones. A thread that sleeps in a system call
//! made in place does not come out for hours. Only the fragment that it sleeps in is kept, *pinned* (`mod@old`).
//!
//! # Why it is correct while threads execute
//! * Code is written only to memory that no thread can be in: where nothing lay yet, or where a
//!   generation was reclaimed and no pin lies.
//! * Code is rewritten in place with one store. Displacements of jumps never cross a cache line
//!   ([`Code::patchable`]). The first eight bytes of a checked entry are aligned to as many, and are
//!   one instruction before and after. A processor fetches the old or the new.
//! * A thread gets into a fragment by a link, by a table of indirect targets, or from the
//!   dispatcher. When a generation is retired its links and table entries are removed. A thread
//!   that comes out of the cache afterwards holds no other way in. But an entry that it had read
//!   before may have been written back to the table (`arch::mismatch`). So when all have come
//!   out, tables are emptied once more, and all must come out again.
//!
//! # Invariants
//! * Fragments of a generation only grow within their arena; so its list of fragments of
//!   an arena is sorted by address, and a cache address is found by binary search.
//! * Every byte between a fragment's first step and its `end` belongs to exactly one of its steps.
//! * Exits that are linked belong to the current generation, as do the fragments they lead to.
//!
//! **I2 (registers at boundaries).** At each boundary between app instructions every register is the app's, except those that the fragment's description names. Their values lie in slots.
//!
//! **I8 (single stores).** Code is rewritten in place by single stores, which threads that execute it may meet at any time. Its memory is reused only when every thread has left the cache twice.
#![allow(unsafe_code)] // reason: writes machine code into arenas.

mod arena;
mod arrival;
pub mod entry;
mod head;
mod old;
mod suspect;
mod table;
pub mod targets;
mod variant;

use crate::base::address::{AppPc, CachePc};
use crate::base::recipe::Recipe;
use alloc::vec::Vec;
use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use trommel_queue::dict::Passed;

use arena::Arena;
use arrival::Arrivals;
pub use head::Head;
use head::Heads;
use old::{APART, Generation, Pin};
use suspect::Index;
use table::Table;
use variant::Variant;

use crate::base::address::Range;
use crate::base::emit::{Code, Reg};
use crate::base::prefix::Prefix;
use crate::base::stress;
use crate::slot;

/// Position of an app instruction in a fragment, or of several that were copied one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Offset of its first byte from the fragment's entry.
    pub cache: u16,
    /// Bytes from there on that lie as they do in the app's code.
    pub copied: u16,
    /// Events of the fragment's block before it, or of [strides](Fragment::strides).
    pub events: u16,
    /// Run-time values recorded before it.
    pub values: u8,
    /// Number of the way of a trace that it is on: 0 except in loops with several.
    pub way: u8,
    /// App address of the step.
    pub app: AppPc,
    /// Registers that are in their slots when it starts.
    pub spilled: Spilled,
    /// Registers that are in their slots if it faults.
    pub at_fault: Spilled,
    /// A register in the slot for far operands if it faults.
    pub far: Option<Reg>,
    /// Recipe of the app's flags when the step starts, if they are lost: see [`Cache::recipe`].
    pub recipe: u32,
}

const _: () = assert!(size_of::<Step>() == 32);

impl Step {
    /// Returns whether what `next` describes follows this step as it does in the app's code, with all
    /// else the same.
    pub fn goes_on(&self, next: &Self) -> bool {
        self.copied != 0
            && self.cache + self.copied == next.cache
            && self.app.0 + u64::from(self.copied) == next.app.0
            && self.spilled == next.spilled
            && self.recipe == next.recipe
    }

    /// The app address of what lies `offset` bytes after the fragment's entry, if that is an
    /// instruction of this step.
    pub fn app_at(&self, offset: u64) -> Option<AppPc> {
        let within = offset.checked_sub(u64::from(self.cache))?;
        (within == 0 || within < u64::from(self.copied)).then_some(AppPc(self.app.0 + within))
    }
}

/// Registers that do not hold the app's values. The values are in their slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Spilled {
    /// `rcx`
    pub rcx: bool,
    /// `rdx`
    pub rdx: bool,
    /// The register of [`Fragment::stolen`].
    pub stolen: bool,
    /// `rax`, which holds the app's status flags: in `ah` all but the overflow flag, which is `al`.
    pub flags: bool,
    /// The registers of [`Fragment::homes`].
    pub homes: bool,
}

impl Spilled {
    /// No register: all are the app's.
    pub const NONE: Self = Self {
        rcx: false,
        rdx: false,
        stolen: false,
        flags: false,
        homes: false,
    };
    /// `rcx` and `rdx` are not.
    pub const BOTH: Self = Self {
        rcx: true,
        rdx: true,
        ..Self::NONE
    };
}

/// A fragment.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    /// App address of its first instruction.
    pub app: AppPc,
    /// Prefix of the acyclic path at the fragment's start, where acyclic paths are counted.
    pub prefix: Prefix,
    /// Entry of direct links, all registers the app's.
    pub entry: CachePc,
    /// Entry of the inline lookup (the tag check), if it has been made, `rcx` and `rdx` in their
    /// slots.
    pub checked: Option<CachePc>,
    /// After its last byte.
    pub end: CachePc,
    /// The register that is stolen where steps say so, if any.
    pub stolen: Option<u8>,
    /// Registers that hold what slots of the stack frame hold, in the loop of a trace.
    pub homes: u16,
    /// First step of the fragment in [`Cache::steps`].
    pub first_step: u32,
    /// Number of steps.
    pub steps: u16,
    /// App instructions in them.
    pub insns: u16,
    /// Block of the fragment in the dictionary, if it has events.
    pub block: Option<u32>,
    /// The app addresses it was made from.
    pub span: Range,
    /// Offset of the fragment's code in [`Cache::sources`], if it lies in one piece and may change.
    pub source: Option<u32>,
    /// True if the fragment compares its code each time it is entered.
    pub guarded: bool,
    /// True if the fragment's events are counted by strides: [`Step::events`] are strides.
    pub strides: bool,
    /// True if it is entered.
    pub state: FragmentState,
    /// State of the fragment in the selection of traces.
    pub head: Head,
    /// The first exit that is linked to it, in [`Cache::exits`], or [`UNLINKED`].
    pub first_link: u32,
    /// Another suspect fragment of the same address, or [`UNLINKED`].
    pub older: u32,
}

impl Fragment {
    /// Returns the fragment's key in the table, in the place of its address.
    fn key(&self) -> AppPc {
        self.prefix.key(self.app)
    }
}

/// True if a fragment is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FragmentState {
    /// Entered.
    Live,
    /// Entered only after its app code has been compared with the code that it was made from.
    Suspect,
    /// Never entered again.
    Retired,
}

/// An exit.
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// The 32-bit displacement to rewrite; of an exit that is never linked, the system call that it
    /// is before, or 0.
    pub patch: CachePc,
    /// Address that the app goes to.
    pub target: AppPc,
    /// Prefix of the acyclic path at the target, where acyclic paths are counted.
    pub prefix: Prefix,
    /// The displacement that leads to the exit's stub, or 0 when this exit is never linked.
    pub stub: i32,
    /// App instructions of its fragment up to it, if that is recorded.
    pub insns: u16,
    /// Kind of transfer that leads through the exit.
    pub way: Way,
    /// True if a trace may start at the target.
    pub counts: bool,
    /// The fragment it is linked to, or [`UNLINKED`].
    pub to: u32,
    /// The next exit that is linked to the same, or [`UNLINKED`]. Before that, where only threads know what follows, the path of the dictionary that ends here.
    pub next_link: u32,
}

/// Kind of transfer that leads through an exit, as far as the selection of traces asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// A branch that goes forward, or nothing.
    Forward,
    /// A branch that goes backward.
    Backward,
    /// A call.
    Call,
    /// A return.
    Return,
    /// An indirect jump.
    Indirect,
    /// A system call, made in place.
    Syscall,
    /// The branch back of a loop within a trace, which is linked to its own fragment only.
    Loop,
    /// An indirect branch of a trace that goes elsewhere than was seen; [`Exit::next_link`] is its
    /// number among the sites.
    Site,
}

/// [`Exit::to`] of an exit that leads to its stub; the end of a list of fragments or exits.
pub const UNLINKED: u32 = u32::MAX;

impl Exit {
    /// Returns an exit that is never linked.
    pub const fn fixed(target: AppPc) -> Self {
        Self {
            patch: CachePc(0),
            target,
            prefix: Prefix::NONE,
            stub: 0,
            insns: 0,
            way: Way::Forward,
            counts: false,
            to: UNLINKED,
            next_link: UNLINKED,
        }
    }
}

/// Starts of a generation in an arena, and its fragments there by address.
#[derive(Clone, Default)]
struct Part {
    code: u64,
    stubs: u64,
    fragments: Vec<(CachePc, u32)>,
}

impl Part {
    /// Returns a part of the same generation, without fragments.
    fn empty(&self) -> Self {
        Self {
            fragments: Vec::new(),
            ..*self
        }
    }
}

/// Bytes of a cache line.
const LINE: u64 = 64;

/// Returns the code of every checked entry that is retired: `jmp gs:[…]`, eight bytes.
fn retired_entry() -> u64 {
    let mut bytes = [0; 16];
    let mut code = Code::new(CachePc(0), &mut bytes);
    code.jmp_gs(slot!(entry.absent));
    code.bytes()
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Everything translated.
pub struct Cache {
    arenas: Vec<Arena>,
    /// Fragments of the current generation; retired ones too.
    pub fragments: Vec<Fragment>,
    /// Steps of all fragments.
    pub steps: Vec<Step>,
    /// The exits, numbered from `first_exit` on.
    pub exits: Vec<Exit>,
    first_exit: u32,
    /// Parts of the current generation, by arena.
    parts: Vec<Part>,
    /// Number of the current variant, and how many there were.
    variant: u32,
    variants: u32,
    /// The other one.
    resting: Option<Variant>,
    /// The first number for exits of another variant.
    spare_exit: u32,
    /// Earlier generations, oldest first.
    old: Vec<Generation>,
    /// Pins of generations before those.
    pins: Vec<Pin>,
    /// Counts generations.
    epoch: u64,
    table: Table,
    /// The app code that fragments which may become suspect were made from.
    pub sources: Vec<u8>,
    index: Index,
    heads: Heads,
    arrivals: Arrivals,
    /// Exits are not linked.
    pub unlinked: bool,
    /// Exits that were linked so far.
    pub links: u64,
    /// Recipes of flags, for steps of all generations.
    recipes: Vec<Recipe>,
    /// Bytes of fragments that were retired.
    dead: u64,
    /// Arenas are placed out of reach of their app code (a stress option).
    pub far: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self {
            arenas: Vec::new(),
            fragments: Vec::with_capacity(1 << 11),
            steps: Vec::with_capacity(1 << 14),
            exits: Vec::with_capacity(1 << 13),
            first_exit: 0,
            parts: Vec::new(),
            variant: 0,
            variants: 0,
            resting: None,
            spare_exit: APART,
            old: Vec::new(),
            pins: Vec::new(),
            epoch: 0,
            table: Table::new(),
            sources: Vec::new(),
            index: Index::default(),
            heads: Heads::new(),
            arrivals: Arrivals::new(),
            unlinked: false,
            links: 0,
            recipes: Vec::new(),
            dead: 0,
            far: false,
        }
    }

    /// Reserves room for so many fragments, which are likely to be made.
    pub fn expect(&mut self, fragments: usize) {
        /// Steps of a fragment, on average.
        const STEPS: usize = 5;
        const EXITS: usize = 2;
        self.table = Table::of((2 * fragments + 2).next_power_of_two().max(1 << 12));
        self.fragments.reserve(fragments);
        self.steps.reserve(STEPS * fragments);
        self.exits.reserve(EXITS * fragments);
    }

    /// The arena for code in `range`, made if there is none; `None` when there is no room.
    pub fn arena_for(&mut self, range: Range) -> Option<usize> {
        if let Some(i) = self
            .arenas
            .iter()
            .position(|a| self.far || a.reaches(range))
        {
            return Some(i);
        }
        let arena = Arena::reserve(range, self.far)?;
        self.parts.push(Part {
            code: arena.code.next,
            stubs: arena.stubs.next,
            fragments: Vec::new(),
        });
        self.arenas.push(arena);
        Some(self.arenas.len() - 1)
    }

    /// An arena.
    pub fn arena(&self, i: usize) -> &Arena {
        &self.arenas[i]
    }

    /// Returns whether there is as much room for a fragment of an arena and its stubs.
    pub fn has_room(&mut self, arena: usize, code: u64, stubs: u64) -> bool {
        self.arenas[arena].has_room(code, stubs)
    }

    /// Memory for the next fragment of an arena and for its stubs. [`Self::place`] takes what was
    /// used of it.
    ///
    /// # Safety
    /// Neither is used any more when something is placed in the arena.
    ///
    /// # Panics
    /// When there is not as much room.
    pub unsafe fn open(
        &mut self,
        arena: usize,
        code: u64,
        stubs: u64,
    ) -> (Code<'static>, Code<'static>) {
        let a = &mut self.arenas[arena];
        // SAFETY: handed on to the caller.
        unsafe { (a.code.open(code), a.stubs.open(stubs)) }
    }

    /// Takes a finished fragment and its stubs, of these lengths, where they were made. `pages` are
    /// those that its app code is in. One that is not live is not found by its address.
    pub fn place(
        &mut self,
        arena: usize,
        code: usize,
        stubs: usize,
        fragment: Fragment,
        pages: &[u64],
    ) -> u32 {
        let line = self.line(fragment.head == Head::Trace);
        let a = &mut self.arenas[arena];
        a.stubs.take(stubs as u64, 1);
        stress::delay();
        let at = a.code.take(code as u64, line);
        let id = self.fragments.len() as u32;
        self.parts[arena].fragments.push((CachePc(at), id));
        self.fragments.push(fragment);
        if fragment.state == FragmentState::Live {
            self.table.insert(fragment.key(), id);
            self.index.add(id, pages);
        }
        id
    }

    /// Returns the alignment of what follows a fragment.
    fn line(&self, trace: bool) -> u64 {
        /// Alignment of fragments when there are traces: hot code is made anew as a trace, and the rest is packed.
        const PACKED: u64 = 16;
        match self.heads.threshold != 0 && !trace {
            true => PACKED,
            false => LINE,
        }
    }

    /// Marks what does the app's work in `len` bytes of code at `at`.
    pub fn mark(&mut self, arena: usize, at: CachePc, len: usize, work: &[(u32, u32)]) {
        self.arenas[arena].mark(at, len, work);
    }

    /// Returns the start addresses of arenas.
    pub fn arena_starts(&self) -> impl Iterator<Item = u64> {
        self.arenas.iter().map(Arena::base)
    }

    /// The next fragment of an arena starts a cache line.
    pub fn align_code(&mut self, arena: usize) {
        self.arenas[arena].code.take(0, LINE);
    }

    /// The next fragment of an arena begins so many bytes after the start of a cache line.
    pub fn align_to(&mut self, arena: usize, phase: u64) {
        let code = &mut self.arenas[arena].code;
        let gap = phase.wrapping_sub(code.next) % LINE;
        code.take(gap, 1);
    }

    /// Places code on the way to a fragment that is not part of it (a tag check made later, a jump to another
    /// arena, what counts a pair) where `Arena::next` says: among the fragments, as it is executed as often
    /// as they are. Jumps from where the stubs are and back cost ten nanoseconds each on some processors.
    pub fn place_lead(&mut self, arena: usize, code: &[u8]) -> CachePc {
        let line = self.line(false);
        CachePc(self.arenas[arena].code.put(code, line))
    }

    /// Numbers an exit of the current generation.
    pub fn new_exit(&mut self, exit: Exit) -> u32 {
        let number = self.next_exit();
        self.exits.push(exit);
        number
    }

    /// Links exits from an index on to what there is already, but for those where a trace may start.
    pub fn link_among(&mut self, from: usize) {
        for n in from..self.exits.len() {
            let exit = self.exits[n];
            if exit.stub != 0
                && (!exit.counts || self.heads.threshold == 0)
                && exit.to == UNLINKED
                && let Some(id) = self.lookup_on(exit.target, exit.prefix)
            {
                self.link(self.first_exit.wrapping_add(n as u32), id);
            }
        }
    }

    /// Tells where the system call is that an exit of the current generation is before.
    pub fn call_is_at(&mut self, number: u32, at: CachePc) {
        if let Some(n) = self.current_exit(number) {
            self.exits[n].patch = at;
        }
    }

    /// An exit's place in [`Self::exits`], if it is of the current generation.
    fn current_exit(&self, number: u32) -> Option<usize> {
        let n = number.wrapping_sub(self.first_exit) as usize;
        (n < self.exits.len()).then_some(n)
    }

    /// An exit by its number.
    pub fn exit(&self, number: u32) -> Exit {
        if let Some(n) = self.current_exit(number) {
            return self.exits[n];
        }
        let resting = self.resting.iter().map(|e| (e.first_exit, &e.exits));
        let old = self.old.iter().map(|g| (g.first_exit, &g.exits));
        let found = resting.chain(old).find_map(|(first, exits)| {
            let n = number.wrapping_sub(first) as usize;
            exits.get(n).copied()
        });
        // A thread that takes an exit has not come out of the cache since: its generation is there, or what it was in of that.
        let found = found.or_else(|| self.pinned_exit(number));
        found.unwrap_or(Exit::fixed(AppPc(0)))
    }

    /// Numbers a recipe, the same number as last time if it is the same; 0 stands for none.
    pub fn new_recipe(&mut self, recipe: Option<Recipe>) -> u32 {
        let Some(recipe) = recipe else { return 0 };
        if self.recipes.last() != Some(&recipe) {
            self.recipes.push(recipe);
        }
        self.recipes.len() as u32
    }

    /// Returns the recipe of the app's flags when a step starts, if they are lost there.
    pub fn recipe(&self, step: &Step) -> Option<Recipe> {
        let n = (step.recipe as usize).checked_sub(1)?;
        self.recipes.get(n).copied()
    }

    /// The arena that holds a cache address.
    pub fn arena_of(&self, pc: CachePc) -> Option<usize> {
        self.arenas.iter().position(|a| a.holds(pc))
    }

    /// Returns the events of the block that have been passed where a step of a fragment starts. `steps` are the fragment's.
    pub fn passed(steps: &[Step], step: &Step) -> Passed {
        // The first step of another way has none of that way's events before it.
        let on_way = steps.iter().filter(|s| s.way == step.way);
        let first = match step.way {
            0 => 0,
            _ => on_way.map(|s| s.events).min().unwrap_or(0),
        };
        Passed {
            first,
            end: step.events,
        }
    }

    /// The live fragment that starts at an app address. Where acyclic paths are counted, one begins there.
    #[inline]
    pub fn lookup(&self, app: AppPc) -> Option<u32> {
        self.table.get(app)
    }

    /// The live fragment that starts at an app address, with this after it on an acyclic path.
    #[inline]
    pub fn lookup_on(&self, app: AppPc, prefix: Prefix) -> Option<u32> {
        self.table.get(prefix.key(app))
    }

    /// A fragment of an app address will be placed soon.
    #[inline]
    pub fn prefetch(&self, app: AppPc) {
        self.table.prefetch(app);
    }

    /// Memory that the next fragments of an arena will take is on its way to the processor.
    pub fn prefetch_room(&self, arena: usize) {
        /// Fragments ahead, and bytes of each of their parts.
        const AHEAD: usize = 3;
        const CODE: usize = 128;
        const STUBS: usize = 40;
        let arena = &self.arenas[arena];
        let code = (arena.code.next as *const u8).wrapping_add(AHEAD * CODE);
        let stubs = (arena.stubs.next as *const u8).wrapping_add(AHEAD * STUBS);
        fn end<T>(list: &[T], ahead: usize) -> *const u8 {
            list.as_ptr().wrapping_add(list.len() + ahead).cast()
        }
        let fragment = end(&self.fragments, AHEAD);
        let lines = [
            code,
            code.wrapping_add(LINE as usize),
            stubs,
            fragment,
            fragment.wrapping_add(LINE as usize),
            end(&self.steps, 4 * AHEAD),
            end(&self.steps, 4 * AHEAD + 2),
            end(&self.exits, 2 * AHEAD),
            end(&self.exits, 2 * AHEAD + 1),
        ];
        for line in lines {
            // SAFETY: a prefetch reads nothing and does not fault.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) };
        }
    }

    /// The fragment that a cache address is in, from its tag check to its end, with its steps.
    pub fn fragment_at(&self, pc: CachePc) -> Option<(Fragment, &[Step])> {
        let arena = self.arena_of(pc)?;
        let current = (&self.parts, &self.fragments, &self.steps);
        let old = (self.old.iter().rev()).map(|g| (&g.parts, &g.fragments, &g.steps));
        let resting = self.resting.iter();
        let resting = resting.map(|e| (&e.parts, &e.fragments, &e.steps));
        core::iter::once(current)
            .chain(resting)
            .chain(old)
            .find_map(|(parts, fragments, steps)| {
                let list = &parts.get(arena)?.fragments;
                let i = list
                    .partition_point(|&(start, _)| start <= pc)
                    .checked_sub(1)?;
                let fragment = fragments[list[i].1 as usize];
                let first = fragment.first_step as usize;
                (pc < fragment.end)
                    .then(|| (fragment, &steps[first..first + fragment.steps as usize]))
            })
            .or_else(|| self.pinned_at(pc))
    }

    /// Writes a displacement that other threads may be executing.
    fn patch(patch: CachePc, rel: i32) {
        stress::delay();
        // SAFETY: `patch` is the displacement of a jump inside a fragment or stub of ours, in one
        // cache line; a single store, so that a thread fetches the old one or the new.
        unsafe {
            core::arch::asm!("mov dword ptr [{}], {:e}", in(reg) patch.0, in(reg) rel, options(nostack, preserves_flags));
        }
    }

    /// Lets an exit lead straight to a fragment, unless it is of another generation. A fragment in
    /// an arena too far away is reached through a stub.
    pub fn link(&mut self, number: u32, id: u32) {
        const FAR_JUMP: u64 = 16;
        let Some(n) = self.current_exit(number) else {
            return;
        };
        let exit = self.exits[n];
        if exit.stub == 0 || exit.to == id || self.unlinked || exit.way == Way::Loop {
            return;
        }
        let distance = |to: CachePc| i32::try_from(to.0 as i64 - exit.patch.0 as i64 - 4);
        let entry = match exit.counts {
            true => self.counted_entry(id),
            false => self.fragments[id as usize].entry,
        };
        let rel = match (distance(entry), self.arena_of(exit.patch)) {
            (Ok(rel), _) => rel,
            (Err(_), Some(arena)) if self.arenas[arena].room() >= FAR_JUMP => {
                let mut bytes = [0; FAR_JUMP as usize];
                let mut code = Code::new(self.arenas[arena].next(), &mut bytes);
                code.jmp_far(entry.0);
                let at = self.place_lead(arena, code.bytes());
                let Ok(rel) = distance(at) else { return };
                rel
            }
            _ => return,
        };
        let fragment = &mut self.fragments[id as usize];
        self.exits[n].to = id;
        self.exits[n].next_link = core::mem::replace(&mut fragment.first_link, n as u32);
        self.exits[n].prefix = fragment.prefix;
        self.links += 1;
        Self::patch(exit.patch, rel);
    }

    /// Takes note that the branch back of a loop leads into fragment `id`, as long as that is not retired.
    pub fn link_loop(&mut self, number: u32, id: u32) {
        let Some(n) = self.current_exit(number) else {
            return;
        };
        let fragment = &mut self.fragments[id as usize];
        self.exits[n].to = id;
        self.exits[n].next_link = core::mem::replace(&mut fragment.first_link, n as u32);
    }

    /// Retires the traces that keep slots of the stack frame in registers.
    pub fn retire_loops(&mut self) {
        for id in 0..self.fragments.len() as u32 {
            let fragment = &self.fragments[id as usize];
            if fragment.homes != 0 && fragment.state == FragmentState::Live {
                self.cut_off(id);
                self.bury(id);
            }
        }
    }

    /// Retires all fragments: a thread that is in one leaves it at its next exit, and none gets in
    /// any more but through a table of indirect targets, whose way leads to the dispatcher.
    pub fn retire_all(&mut self) {
        self.in_both(Self::retire_variant);
        self.heads.forget_recorded();
    }

    fn retire_variant(&mut self) {
        let retired = retired_entry();
        for fragment in &mut self.fragments {
            if fragment.state == FragmentState::Live {
                Self::lead_entry(fragment, retired);
                self.table.remove(fragment.key());
            }
            fragment.state = FragmentState::Retired;
            fragment.first_link = UNLINKED;
        }
        for exit in &mut self.exits {
            if exit.to != UNLINKED {
                exit.to = UNLINKED;
                Self::patch(exit.patch, exit.stub);
            }
        }
        self.index = Index::default();
    }

    /// Starts a new generation, and epoch: a thread that comes out of the cache from
    /// now on has seen it. `alone`: no other thread is in the cache.
    pub fn next_generation(&mut self, alone: bool) {
        if !alone {
            self.retire_all();
        }
        self.epoch += 1;
        self.table = Table::new();
        self.sources = Vec::new();
        self.index = Index::default();
        self.heads.forget();
        self.arrivals.forget();
        for arena in &mut self.arenas {
            arena.free_counters();
        }
        self.dead = 0;
        if let Some(resting) = self.resting.take() {
            self.spare_exit = resting.first_exit.wrapping_add(resting.exits.len() as u32);
            self.spare_exit = self.exits_from(self.spare_exit);
            self.old.push(resting.into_old(self.epoch, &self.arenas));
        }
        let exits = core::mem::take(&mut self.exits);
        let first_exit = self.first_exit;
        self.first_exit = self.exits_from(first_exit.wrapping_add(exits.len() as u32));
        let parts = self.arenas.iter().map(|a| Part {
            code: a.code.next,
            stubs: a.stubs.next,
            fragments: Vec::new(),
        });
        let parts = core::mem::replace(&mut self.parts, parts.collect());
        let fragments = core::mem::take(&mut self.fragments);
        let steps = core::mem::take(&mut self.steps);
        self.old.push(Generation {
            first_exit,
            fragments,
            steps,
            exits,
            ..Generation::of(self.epoch, parts, &self.arenas)
        });
    }

    /// The current epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Bytes of fragments of the current generation that are never entered again.
    pub fn dead_bytes(&self) -> u64 {
        self.dead
    }

    /// Bytes that the current generation uses in all arenas.
    pub fn bytes(&self) -> u64 {
        let each = self.arenas.iter().zip(&self.parts);
        each.map(|(a, part)| a.code.used(part.code) + a.stubs.used(part.stubs))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_is_within_reach_of_its_code() {
        let code = an_arena_is_within_reach_of_its_code as *const () as u64;
        let range = Range {
            start: code & !0xfff,
            end: (code & !0xfff) + 0x1000,
        };
        let mut cache = Cache::new();
        let i = cache.arena_for(range).expect("room");
        assert_eq!(cache.arena_for(range), Some(i));
        assert!(cache.arena(i).next().0.abs_diff(code) < 1 << 31);
    }
}
