//! `T[r]n/kway/bbit`: stratified sampling with partial tags.
//!
//! Problem: a splitter lets every tuple of a substream share one counter. Full tuples as tags would
//! end aliasing, at a price; a few tag bits discriminate most of it.
//!
//! Strategy: a set-associative table of (tag, hits, misses, state). An entry collects the hits of
//! its tag and sends the tuple at r of them. A miss does not evict at once, because the entry does
//! not hold the tuple that would have to be sent: it puts the entry into `Evict`, where it waits for
//! its tuple to come again with enough hits to be worth a message, or gives up after eight misses, unless the spec says otherwise.
//! No transition drops a count: what one tuple leaves behind, the next one inherits.
//!
//! Transitions, by the names of the paper's Figure 6:
//! `E1` Empty → Valid; `E2` r hits, send, Empty; `E3` hit in Valid; `E4` miss in Valid → Evict;
//! `E5a` miss in Evict; `E5` too many misses, the new tag takes over; `E6a` hit in Evict;
//! `E6` enough hits in Evict, send, Empty.
//!
//! Invariants: message counts + Σ (hits + misses) = events; a set has at most one entry in `Evict`.
//!
//! Source: *Stratified Sampling*, section 4.1; `docs/papers.md`, "Tagged compressor".

use alloc::boxed::Box;
use alloc::vec;

use trommel_tuple::{Kind, Message, Tuple};

use crate::hash::{Hash, HashKind, Layout, xor_fold};
use crate::{Compress, Sink, TaggedSpec};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    Valid,
    Evict,
}

#[derive(Clone, Debug)]
struct Entry {
    state: State,
    tag: u16,
    hits: u32,
    misses: u32,
    /// Time of the entry's last hit or takeover.
    used: u64,
}

/// The compressor.
#[derive(Clone, Debug)]
pub struct Tagged {
    spec: TaggedSpec,
    hash: Hash<u32>,
    clock: u64,
    /// Set after set, `ways` entries each.
    entries: Box<[Entry]>,
}

impl Tagged {
    /// The table of a checked spec.
    pub fn new(spec: TaggedSpec, kind: HashKind, hash_seed: u64) -> Self {
        let sets = spec.entries / spec.ways;
        assert!(sets.is_power_of_two(), "an index has whole bits");
        let empty = Entry {
            state: State::Empty,
            tag: 0,
            hits: 0,
            misses: 0,
            used: 0,
        };
        Self {
            spec,
            hash: Hash::new(kind, hash_seed, Layout::single(sets.trailing_zeros())),
            clock: 0,
            entries: vec![empty; (sets * spec.ways) as usize].into_boxed_slice(),
        }
    }
}

impl Entry {
    /// One more event for this entry's tuple; the count to send when there is one.
    fn hit(&mut self, spec: &TaggedSpec) -> Option<u32> {
        self.hits += 1;
        if self.state == State::Evict {
            // E6a, E6.
            if self.hits < spec.rate.div_ceil(spec.enough) {
                return None;
            }
            let sent = core::mem::replace(&mut self.hits, self.misses);
            self.misses = 0;
            self.state = State::Empty;
            return Some(sent);
        }
        // E1, E3.
        self.state = State::Valid;
        self.full(spec.rate)
    }

    /// E2: enough hits in Valid.
    fn full(&mut self, rate: u32) -> Option<u32> {
        if self.hits < rate {
            return None;
        }
        self.state = State::Empty;
        Some(core::mem::take(&mut self.hits))
    }

    /// An event of another tuple. Returns true if that one takes over.
    fn miss(&mut self, spec: &TaggedSpec) -> bool {
        // E4, E5a.
        self.state = State::Evict;
        self.misses += 1;
        self.misses >= spec.misses
    }
}

impl Compress for Tagged {
    #[inline(always)]
    fn event<S: Sink + ?Sized>(&mut self, kind: Kind, tuple: Tuple, out: &mut S) {
        let spec = self.spec;
        let ways = self.spec.ways as usize;
        let tag = xor_fold(tuple.pc.word() ^ tuple.value, self.spec.tag_bits) as u16;
        let set = self.hash.index(tuple) as usize * ways;
        let set = &mut self.entries[set..set + ways];
        self.clock += 1;

        let found = set
            .iter()
            .position(|e| e.state != State::Empty && e.tag == tag)
            .or_else(|| set.iter().position(|e| e.state == State::Empty));
        let sent = if let Some(way) = found {
            let entry = &mut set[way];
            entry.tag = tag;
            entry.used = self.clock;
            entry.hit(&spec)
        } else {
            // The way in Evict is charged, else the least recently used.
            let charged = set
                .iter_mut()
                .min_by_key(|e| (e.state != State::Evict, e.used));
            let mut taken = None;
            if let Some(entry) = charged
                && entry.miss(&spec)
            {
                // E5.
                entry.tag = tag;
                entry.used = self.clock;
                entry.hits += core::mem::take(&mut entry.misses);
                entry.state = State::Valid;
                taken = entry.full(spec.rate);
            }
            taken
        };
        if let Some(count) = sent {
            out.message(Message {
                kind,
                tuple,
                count: u64::from(count),
                samples: 1,
            });
        }
    }

    fn held(&self) -> Option<u64> {
        let inside = |e: &Entry| u64::from(e.hits) + u64::from(e.misses);
        Some(self.entries.iter().map(inside).sum())
    }
}
