//! Memory shared with one process, read.
//!
//! The target may write anything at any time. So everything read here is read once, through
//! pointers that never leave this module, and checked against the file's bounds before it is used.
//!
//! **I24 (nothing trusted).** The host believes nothing that it reads from shared memory. Every number is checked against the file's bounds.

// A mapping that another process writes to cannot be a Rust slice.
#![allow(unsafe_code)]

use std::mem::offset_of;
use std::rc::Rc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::{io, ptr};

use nix::unistd::Pid;
use trommel_queue::contexts::Tree;
use trommel_queue::converge::Converge;
use trommel_queue::persist::Made;
use trommel_queue::prefetch::Prefetch;
use trommel_queue::queries::{LOADS, Posted, Queries};
use trommel_queue::thread_page::{ThreadPage, WAYS};
use trommel_queue::{
    CHUNK, CHUNKS_OFFSET, CONTROL_OFFSET, CONVERGE_OFFSET, Chunk, Control, CounterArray,
    DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, DIRECTORY_BYTES, LAYOUT_VERSION, MADE_OFFSET, MAGIC,
    MAP_OFFSET, MAX_PATHS, MAX_REGIONS, MAX_THREADS, MAX_WORDS, MapText, POOL_OFFSET,
    POSTED_OFFSET, PREFETCH_OFFSET, QUERIES_OFFSET, REGION_OFFSET, REQUEST_OFFSET, RegionRecord,
    Request, SLOT_BYTES, State, THREAD_PAGE, THREAD_PAGES_OFFSET, Unfollowed,
};

use crate::channel::family::{Family, Known, Newcomer, Pages};
use crate::channel::futex::futex_wake;
use crate::channel::terms::Terms;
use crate::kernel::bases;
use crate::kernel::limits::Limits;

mod chunks;
mod contexts;
mod counters;
mod dictionary;

pub use chunks::Filled;
pub use contexts::{ContextNode, ContextTree};
pub use counters::Counting;

/// Bytes of the file of one process. It is sparse: only what is used takes memory.
pub const SIZE: usize = DIRECTORY_BYTES + SLOT_BYTES;

impl Asked {
    /// The thread, where we see the same numbers as it does.
    pub const fn tid(&self) -> Pid {
        Pid::from_raw(self.tid)
    }
}

/// A thread that wants to become another program, or a process to be detached.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its thread id, as it sees itself.
    pub tid: i32,
    /// It is a process of its own, in the memory of the one whose slot this is.
    pub spawned: bool,
    /// The reason why the program cannot be followed.
    pub why: Option<Unfollowed>,
    /// A thread of the process that is to be detached, as the process sees it. 0: the request is about a program.
    pub process: u32,
    /// The program's path, as it was given.
    pub path: Vec<u8>,
}

/// Memory shared with one process: its slot, and the slots whose dictionary it continues.
pub struct Shared {
    pages: Rc<Pages>,
    /// The dictionaries it goes on from, each up to where the next begins.
    earlier: Vec<(Known, Rc<Pages>)>,
}

/// Parts of the slot that both sides may write at any time.
///
/// # Safety
/// All of such a type is atomic words, and each may have any value.
unsafe trait Atomics {}

macro_rules! atomics {
    ($($part:ty),*) => {
        // SAFETY: all atomics, as the layout declares them.
        $(unsafe impl Atomics for $part {})*
    };
}

atomics!(
    AtomicU32,
    AtomicU64,
    Control,
    Made,
    Posted,
    Queries,
    Prefetch,
    Converge,
    Chunk,
    CounterArray,
    Tree,
    MapText,
    ThreadPage
);

/// A report that the target wrote something that makes no sense.
#[derive(Debug, thiserror::Error)]
#[error(
    "the target wrote {what} {number} that cannot be; it damaged the memory it shares with trommel"
)]
pub struct Damaged {
    /// The thing that was read.
    pub what: &'static str,
    /// Its value or number.
    pub number: u64,
}

impl Damaged {
    /// An exit number that names no exit.
    pub(crate) fn path(number: u32) -> Self {
        Self {
            what: "an exit number",
            number: number.into(),
        }
    }
}

impl Shared {
    /// The first slot of a family, for a program that is about to start.
    ///
    /// # Errors
    /// What the system says.
    pub fn first(family: &Rc<Family>, terms: Terms) -> io::Result<Self> {
        let shared = Self {
            pages: family.map(0)?,
            earlier: Vec::new(),
        };
        let control = shared.control();
        control.identity.magic.store(MAGIC, Relaxed);
        control.identity.version.store(LAYOUT_VERSION, Relaxed);
        control
            .setup
            .kinds
            .store(u32::from(terms.kinds.bits()), Relaxed);
        terms.counts.write(control);
        control.setup.options.store(terms.options, Relaxed);
        control.window.length.store(terms.window, Relaxed);
        control.window.skip.store(terms.window_skip, Relaxed);
        control.setup.listed.store(terms.listed.into(), Relaxed);
        control.setup.stacks.store(terms.stacks.into(), Relaxed);
        control.setup.contexts.store(terms.contexts, Relaxed);
        control.setup.follow.store(terms.follow.into(), Relaxed);
        control
            .setup
            .fsgsbase
            .store(bases::has_instructions().into(), Relaxed);
        terms.tracing.write(control);
        control.host.pid.store(std::process::id(), Relaxed);
        control
            .identity
            .build
            .store(crate::channel::image::build(), Relaxed);
        if let Some(question) = terms.question {
            question.write(|place| shared.load(place));
        } else {
            shared.queries().tagged.store(terms.selects.into(), Relaxed);
        }
        terms.prefetch.write(shared.prefetch());
        let converges = terms.converge.is_some();
        shared.converge().wanted.store(converges.into(), Relaxed);
        Ok(shared)
    }

    /// Prefaults the part of the file that every program uses, so that neither side waits for page faults.
    pub fn warm(&self) {
        const CHUNKS_USED: usize = 2;
        for (offset, bytes) in [
            (CONTROL_OFFSET, CHUNKS_OFFSET + THREAD_PAGE),
            (REGION_OFFSET, 4 * size_of::<RegionRecord>()),
            (DICT_INDEX_OFFSET, 16 << 10),
            (DICT_WORDS_OFFSET, 160 << 10),
            (POOL_OFFSET, CHUNKS_USED * CHUNK),
        ] {
            let page = offset & !0xfff;
            // SAFETY: inside the mapping, and no byte of it changes. Where the kernel cannot do it
            // the pages are made when they are used.
            unsafe {
                let start = self.pages.map.as_mut_ptr().add(page).cast();
                libc::madvise(start, offset - page + bytes, libc::MADV_POPULATE_WRITE);
            }
        }
    }

    /// The slot of a process that was made by `fork`.
    ///
    /// # Errors
    /// What the system says.
    pub fn forked(parent: &Self, newcomer: &Newcomer) -> io::Result<Self> {
        let family = parent.pages.family();
        let Known {
            paths,
            words,
            regions,
        } = newcomer.known;
        // The process was copied after it had written this much, and before what followed.
        let known = Known {
            paths: paths.min(MAX_PATHS),
            words: words.min(MAX_WORDS),
            regions: regions.min(MAX_REGIONS),
        };
        let mut earlier = parent.earlier.clone();
        earlier.push((known, Rc::clone(&parent.pages)));
        let shared = Self {
            pages: family.map(newcomer.slot)?,
            earlier,
        };
        shared.is_like(parent.control());
        Ok(shared)
    }

    /// Copies the addresses for detaching from its parent, whose memory it has a copy of.
    fn is_like(&self, parent: &Control) {
        let control = self.control();
        let (its, theirs) = (&control.attached, &parent.attached);
        let pairs = [
            (&its.join, &theirs.join),
            (&its.farewell, &theirs.farewell),
            (&its.wait[0], &theirs.wait[0]),
            (&its.wait[1], &theirs.wait[1]),
            (&its.image[0], &theirs.image[0]),
            (&its.image[1], &theirs.image[1]),
            (&its.owned, &theirs.owned),
        ];
        for (to, from) in pairs {
            to.store(from.load(Relaxed), Relaxed);
        }
        control.identity.version.store(LAYOUT_VERSION, Relaxed);
        control.identity.magic.store(MAGIC, Release);
    }

    /// Its pages.
    pub fn pages(&self) -> &Rc<Pages> {
        &self.pages
    }

    /// The pages that hold what `is_in` says of what is known of an earlier dictionary.
    fn holder(&self, is_in: impl Fn(&Known) -> bool) -> &Pages {
        let earlier = self.earlier.iter().find(|(known, _)| is_in(known));
        earlier.map_or(&self.pages, |(_, pages)| pages)
    }

    /// Returns a part of the slot.
    fn part<T: Atomics>(&self, offset: usize) -> &T {
        assert!(offset + size_of::<T>() <= SLOT_BYTES && offset.is_multiple_of(align_of::<T>()));
        // SAFETY: inside the mapping and aligned, and made of atomics, of which every value is valid.
        unsafe { &*self.pages.map.as_ptr().add(offset).cast::<T>() }
    }

    /// The control words.
    pub fn control(&self) -> &Control {
        self.part(CONTROL_OFFSET)
    }

    /// Returns the target's counters of what it has made.
    pub(crate) fn made(&self) -> &Made {
        self.part(MADE_OFFSET)
    }

    /// The text of answers about the memory map.
    pub(crate) fn map_text(&self) -> &MapText {
        self.part(MAP_OFFSET)
    }

    /// State of the request.
    pub fn request_state(&self) -> &AtomicU32 {
        self.half_word(REQUEST_OFFSET + offset_of!(Request, state))
    }

    /// Returns true if the runtime handles signals of ours, and no thread is about to become another program.
    pub fn takes_knocks(&self) -> bool {
        self.state() == Some(State::Controlled) && self.request_state().load(SeqCst) != Request::GO
    }

    /// The thread that wants to become another program, if it is the host's turn.
    pub fn asked(&self) -> Option<Asked> {
        let state = self.request_state();
        if state.load(Acquire) != Request::ASKED {
            return None;
        }
        let half = |at| self.half_word(REQUEST_OFFSET + at).load(Relaxed);
        let word = |at| self.word(REQUEST_OFFSET + at);
        const ROOM: usize = CHUNKS_OFFSET - REQUEST_OFFSET - offset_of!(Request, path);
        let len = (word(offset_of!(Request, path_len)) as usize).min(ROOM);
        let mut path = vec![0; len];
        let from = REQUEST_OFFSET + offset_of!(Request, path);
        // SAFETY: inside the mapping; plain bytes, whatever the target does meanwhile.
        unsafe {
            let from = self.pages.map.as_ptr().add(from);
            ptr::copy_nonoverlapping(from, path.as_mut_ptr(), len);
        }
        Some(Asked {
            tid: half(offset_of!(Request, tid)) as i32,
            spawned: half(offset_of!(Request, spawned)) != 0,
            why: Unfollowed::from_number(half(offset_of!(Request, why))),
            process: half(offset_of!(Request, process)),
            path,
        })
    }

    /// Returns whether the process, or its children, may see other process numbers than we do.
    pub fn is_foreign(&self) -> bool {
        self.control().process.foreign.load(Relaxed) != 0
    }

    /// Returns the limits that the process reported as its own before it executed another program.
    pub fn limits(&self) -> Option<Limits> {
        let process = &self.control().process;
        let limits =
            (process.limits.each_ref()).map(|limit| limit.each_ref().map(|w| w.load(Relaxed)));
        (process.limits_known.load(Relaxed) != 0).then_some(Limits(limits))
    }

    /// Says whether it may.
    pub fn set_foreign(&self, foreign: bool) {
        self.control()
            .process
            .foreign
            .store(foreign.into(), Relaxed);
    }

    /// Answers the request.
    pub fn answer(&self, state: u32) {
        self.request_state().store(state, SeqCst);
        futex_wake(self.request_state());
    }

    /// Notes that the host reads here no more: processes that still record are detached.
    pub fn close(&self) {
        self.control().host.closed.store(1, SeqCst);
        futex_wake(&self.control().chunks.target_sleeps);
    }

    fn word(&self, offset: usize) -> u64 {
        word(&self.pages, offset)
    }

    fn half_word(&self, offset: usize) -> &AtomicU32 {
        self.part(offset)
    }

    /// Returns the state that the runtime reports of itself.
    pub fn state(&self) -> Option<State> {
        State::from_number(self.control().process.state.load(SeqCst))
    }

    /// Returns whether a program of one thread has come to its end, and only the kernel is busy with it.
    pub fn is_ending(&self) -> bool {
        let control = self.control();
        control.process.state.load(SeqCst) == State::Exited as u32
            && control.process.threads.load(SeqCst) <= 1
    }

    /// Returns the first place of query programs, with what is of all of them.
    pub fn queries(&self) -> &Queries {
        self.load(0)
    }

    /// Returns the program's request about queries, and the reply.
    pub fn posted(&self) -> &Posted {
        self.part(POSTED_OFFSET)
    }

    /// Returns a place of query programs.
    pub fn load(&self, place: usize) -> &Queries {
        self.part(QUERIES_OFFSET + place % LOADS * size_of::<Queries>())
    }

    /// Returns how often threads of the process have gone a way of its queries.
    pub fn times_of_way(&self, way: usize) -> u64 {
        let pages = self.queries().pages.load(Relaxed) as usize;
        let times = |page: usize| {
            let page: &ThreadPage = self.part(THREAD_PAGES_OFFSET + page * THREAD_PAGE);
            page.ways[way % WAYS].load(Relaxed)
        };
        (0..pages.min(MAX_THREADS))
            .map(times)
            .fold(0, u64::saturating_add)
    }

    /// Returns the shared part of prefetches: the question, and its answers.
    pub fn prefetch(&self) -> &Prefetch {
        self.part(PREFETCH_OFFSET)
    }

    /// Returns the table of places that are not profiled.
    pub fn converge(&self) -> &Converge {
        self.part(CONVERGE_OFFSET)
    }
}

fn word(pages: &Pages, offset: usize) -> u64 {
    assert!(offset + 8 <= SLOT_BYTES);
    // SAFETY: inside the mapping; read once.
    unsafe { ptr::read_volatile(pages.map.as_ptr().add(offset).cast::<u64>()) }
}
