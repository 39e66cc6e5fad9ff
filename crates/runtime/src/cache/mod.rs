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
//!   (`Code::patchable`). The first eight bytes of a checked entry are aligned to as many, and are
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

mod arena;
mod arrival;
pub mod entry;
mod exit;
mod fragment;
mod head;
mod old;
mod place;
mod retire;
mod suspect;
mod table;
pub mod targets;
mod variant;

use alloc::vec::Vec;

use trommel_queue::dict::Passed;

use crate::base::address::{AppPc, CachePc};
use crate::base::ids::{ExitId, FragmentId, VariantId};
use crate::base::prefix::Prefix;
use crate::base::recipe::Recipe;

use arena::Arena;
use arrival::Arrivals;
pub use exit::{Exit, UNLINKED, Way};
pub use fragment::{Fragment, FragmentState, Spilled, Step};
pub use head::Head;
use head::Heads;
use old::{APART, Generation, Pin};
use suspect::Index;
use table::Table;
use variant::Variant;

/// Starts of a generation in an arena, and its fragments there by address.
#[derive(Clone, Default)]
struct Part {
    code: u64,
    stubs: u64,
    fragments: Vec<(CachePc, FragmentId)>,
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

/// Everything translated.
pub struct Cache {
    arenas: Vec<Arena>,
    /// Fragments of the current generation; retired ones too.
    pub fragments: Vec<Fragment>,
    /// Steps of all fragments.
    pub steps: Vec<Step>,
    /// The exits, numbered from `first_exit` on.
    pub exits: Vec<Exit>,
    first_exit: ExitId,
    /// Parts of the current generation, by arena.
    parts: Vec<Part>,
    /// Number of the current variant, and how many there were.
    variant: VariantId,
    variants: u32,
    /// The other one.
    resting: Option<Variant>,
    /// The first number for exits of another variant.
    spare_exit: ExitId,
    /// Earlier generations, oldest first.
    old: Vec<Generation>,
    /// Pins of generations before those.
    pins: Vec<Pin>,
    /// Counts generations.
    epoch: u64,
    table: Table<FragmentId>,
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
    /// Arenas are mapped as far as they are used: what is mapped counts against the program's own limits.
    grows: bool,
    /// The kernel has refused memory for another arena.
    confined: bool,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// An empty cache.
    pub fn new() -> Self {
        Self::with_room(1 << 11)
    }

    /// An empty cache that takes little memory at first, and more as it is used.
    pub fn growing() -> Self {
        Self {
            grows: true,
            ..Self::with_room(1 << 7)
        }
    }

    /// An empty cache with lists for so many fragments.
    fn with_room(fragments: usize) -> Self {
        Self {
            arenas: Vec::new(),
            fragments: Vec::with_capacity(fragments),
            steps: Vec::with_capacity(8 * fragments),
            exits: Vec::with_capacity(4 * fragments),
            first_exit: ExitId(0),
            parts: Vec::new(),
            variant: VariantId(0),
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
            grows: false,
            confined: false,
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

    /// Returns the numbers of all fragments of the current variant.
    fn ids(&self) -> impl Iterator<Item = FragmentId> + use<> {
        (0..self.fragments.len() as u32).map(FragmentId)
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
    pub fn lookup(&self, app: AppPc) -> Option<FragmentId> {
        self.table.get(app)
    }

    /// The live fragment that starts at an app address, with this after it on an acyclic path.
    #[inline]
    pub fn lookup_on(&self, app: AppPc, prefix: Prefix) -> Option<FragmentId> {
        self.table.get(prefix.key(app))
    }

    /// A fragment of an app address will be placed soon.
    #[inline]
    pub fn prefetch(&self, app: AppPc) {
        self.table.prefetch(app);
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
                let fragment = fragments[list[i].1.index()];
                let first = fragment.first_step as usize;
                (pc < fragment.end)
                    .then(|| (fragment, &steps[first..first + fragment.steps as usize]))
            })
            .or_else(|| self.pinned_at(pc))
    }

    /// Returns the app's instruction whose copy, or whose probe, holds a cache address.
    pub fn app_of(&self, pc: CachePc) -> Option<AppPc> {
        let (fragment, steps) = self.fragment_at(pc)?;
        let offset = pc.0.checked_sub(fragment.entry.0)?;
        let n = steps.partition_point(|s| u64::from(s.cache) <= offset);
        let step = steps.get(n.checked_sub(1)?)?;
        Some(step.app_at(offset).unwrap_or(step.app))
    }

    /// Returns the app's instruction whose copy holds a cache address that ends with these 32 bits. Arenas may have such
    /// addresses in common.
    pub fn app_ending_with(&self, low: u32) -> Option<AppPc> {
        let whole = |base: u64| CachePc(base.wrapping_add(low.wrapping_sub(base as u32).into()));
        let mut arenas = self.arenas.iter();
        arenas.find_map(|a| {
            Some(whole(a.base()))
                .filter(|&pc| a.holds(pc))
                .and_then(|pc| self.app_of(pc))
        })
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
