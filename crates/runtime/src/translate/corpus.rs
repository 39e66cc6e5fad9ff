//! A corpus of code, translated under many configurations.
//!
//! # Problem
//! What the translator writes must not change by the way its source is arranged, whatever is counted; and each combination of
//! ways of counting must be translated, or refused with a word.
//!
//! # Strategy
//! Functions and random walks of the C library, mapped at one address for each configuration, are translated as fragments and traces.
//! All that comes of them is hashed: code, stubs, steps, exits, records, the dictionary. With `TROMMEL_HASHES=FILE` the hashes go to
//! that file, a line for each configuration, to be compared with those of another revision. Run it without randomised
//! addresses then: `setarch -R`.
#![allow(unsafe_code)] // reason: maps files and reads code.

mod cases;
mod selected;
mod walks;

extern crate std;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_compress::Spec;
use trommel_compress::interval::Shield;
use trommel_queue::{
    BIASES_OFFSET, COUNTS_INTERVALS, COUNTS_NOTHING, COUNTS_PATHS, COUNTS_STRATA,
    DICT_WORDS_OFFSET, DIRECTORY_BYTES, SLOT_BYTES,
};
use trommel_tuple::Kind;

use cases::{Case, Compressor, cases};
use walks::Random;

use super::*;
use crate::base::address::Range;
use crate::base::decode::{Class, Insn, Reader};
use crate::base::ids::FragmentId;
use crate::base::sys;
use crate::cache::Cache;
use crate::channel::dictionary::Shared;
use crate::channel::persist::Persist;
use crate::channel::shields::Profiler;
use crate::channel::slot::Mapped;
use crate::channel::strata::Sampler;
use crate::channel::tags::Tags;
use crate::memory::mapping;
use crate::memory::pages::Pages;
use crate::memory::region::Regions;
use crate::observe::acyclic::Acyclic;
use crate::observe::converge::Converge;
use crate::observe::pairs::Pairs;
use crate::observe::prefetch::Prefetch;
use crate::observe::query::Asked;
use crate::slot;
use crate::translate::piece::{self, Path, Piece};

/// FNV-1a, in words of eight bytes where there are.
struct Hash(u64);

impl Hash {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        self.word(bytes.len() as u64);
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 ^= self.0 >> 29;
    }
}

/// Maps the C library's code at the place of this configuration.
fn library(n: usize) -> Range {
    let all = mapping::read_all().expect("the kernel's list");
    let here = all
        .iter()
        .find(|m| m.executable && m.path.ends_with(b"/libc.so.6"))
        .expect("the C library is mapped");
    let path = alloc::ffi::CString::new(here.path.clone()).expect("a path");
    let file = sys::open(&path).expect("the C library can be read");
    let len = (here.range.end - here.range.start) as usize;
    // SAFETY: where nothing else is put.
    let at = unsafe {
        sys::mmap(&sys::Map {
            at: 0x2000_0000_0000 + ((16 << 30) + 0x1000) * n as u64,
            len,
            prot: nr::PROT_READ | nr::PROT_EXEC,
            flags: nr::MAP_PRIVATE | nr::MAP_FIXED_NOREPLACE,
            fd: file,
            offset: here.offset,
        })
    };
    sys::close(file);
    let start = at.expect("memory");
    Range {
        start,
        end: start + len as u64,
    }
}

struct World {
    translator: Translator,
    cache: Cache,
    regions: Regions,
    pages: Pages,
    pairs: Pairs,
    shared: Shared,
    persist: Option<Persist>,
    range: Range,
    hash: Hash,
    made: usize,
    refused: usize,
}

const QUERY: &str = "for opLOAD 1 always collect op1; send 1 stop;
for opBRANCH * every 100 collect pc; send 1 stop;";

impl World {
    fn new(n: usize, case: &Case) -> Self {
        let range = library(n);
        let base = sys::anonymous(DIRECTORY_BYTES + SLOT_BYTES).expect("memory");
        // SAFETY: as long as the file, writable, for good.
        let mapped = unsafe { Mapped::new(base + DIRECTORY_BYTES as u64) };
        let control = mapped.control();
        let (kinds, also) = (case.kinds, case.also);
        control.setup.kinds.store(kinds.bits().into(), Relaxed);
        control.setup.persist.store(also.persist.into(), Relaxed);
        let counters = match case.compressor {
            Compressor::Recorded => COUNTS_NOTHING,
            Compressor::Exact => COUNTS_PATHS,
            Compressor::Sampler(substreams, rate, hash) => {
                control.setup.strata.substreams.store(substreams, Relaxed);
                control.setup.strata.rate.store(rate, Relaxed);
                control.setup.strata.hash.store(hash, Relaxed);
                COUNTS_STRATA
            }
            Compressor::MultiHash(spec) => {
                let spec: Spec = spec.parse().expect("a spec");
                let shield = Shield::of(&spec).expect("a profiler");
                for (to, word) in control.setup.intervals.iter().zip(shield.words()) {
                    to.store(word, Relaxed);
                }
                COUNTS_INTERVALS
            }
        };
        control.setup.counters.store(counters, Relaxed);
        for region in 0..64_u64 {
            let at = mapped.base() + BIASES_OFFSET as u64 + 8 * region;
            // SAFETY: in the mapping, aligned.
            unsafe { &*(at as *const AtomicU64) }.store(1 + region * 0x1000_0000, Relaxed);
        }
        if also.prefetch {
            mapped.prefetch().wanted.store(2, Relaxed);
        }
        if also.queries {
            let query = trommel_query::assemble::assemble(QUERY).expect("a query");
            let bytes = trommel_query::image::encode(&query.program);
            for (word, bytes) in mapped.queries().program.iter().zip(bytes.chunks(8)) {
                let mut eight = [0; 8];
                eight[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_le_bytes(eight), Relaxed);
            }
            mapped.queries().bytes.store(bytes.len() as u32, Relaxed);
            mapped.queries().id.store(1, Relaxed);
        }
        if also.selected {
            let queries = mapped.queries();
            queries.tagged.store(1, Relaxed);
            queries.ranges.store(1, Relaxed);
            let middle = range.start + (range.end - range.start) / 2;
            queries.range[0].start.store(range.start, Relaxed);
            queries.range[0].end.store(middle, Relaxed);
            queries.range[0].tag.store(1, Relaxed);
        }
        let config = Config {
            kinds,
            max_insns: MAX_INSNS,
            counters: counters == COUNTS_PATHS,
            after_calls: counters == COUNTS_PATHS && trommel_queue::counts_after_calls(kinds),
            windows: also.windows,
            listed: also.listed,
            trace_insns: if also.traces { piece::MAX_INSNS } else { 0 },
            audit: also.traces && !also.plain,
            whole_jumps: !also.plain,
            optimise: also.traces && !also.plain,
        };
        let mut cache = Cache::new();
        cache.make_traces(u32::from(also.traces) * 50);
        let profiler = (counters == COUNTS_INTERVALS).then(|| Profiler::of(control).expect("one"));
        let acyclic = kinds.has(Kind::Path) && counters == COUNTS_PATHS;
        let acyclic = acyclic.then(|| Acyclic::new(kinds));
        let mut shared = Shared::new(mapped);
        if acyclic.is_some() {
            shared.keep();
        }
        let mut random = Random(n as u64);
        let converge = also.quiet.then(|| {
            let len = range.end - range.start;
            let all = (0..len / 3).map(|_| range.start + random.below(len));
            Converge::of_places(mapped, all.collect())
        });
        Self {
            translator: Translator::new(
                config,
                Ways {
                    sampler: Sampler::of(control),
                    profiler,
                    acyclic,
                    contexts: None,
                    asked: Asked::of(mapped),
                    prefetch: Prefetch::of(mapped),
                    converge,
                    selected: Tags::selected(mapped),
                },
                None,
            ),
            cache,
            regions: Regions::default(),
            pages: Pages::default(),
            pairs: Pairs::default(),
            shared,
            persist: Persist::open(mapped, config.shape(), &[]),
            range,
            hash: Hash(0xcbf2_9ce4_8422_2325),
            made: 0,
            refused: 0,
        }
    }

    fn site(&mut self) -> (&mut Translator, Site<'_>) {
        let site = Site {
            cache: &mut self.cache,
            regions: &mut self.regions,
            pages: &mut self.pages,
            shared: &mut self.shared,
            pairs: &mut self.pairs,
            persist: &mut self.persist,
        };
        (&mut self.translator, site)
    }

    /// Takes note of what has come of a translation.
    fn note(&mut self, made: Result<FragmentId, Refusal>, first_exit: usize) -> Option<Range> {
        let fragment = match made {
            Err(refusal) => {
                self.refused += 1;
                self.hash.bytes(format!("{refusal:?}").as_bytes());
                return None;
            }
            Ok(id) => self.cache.fragments[id.index()],
        };
        self.made += 1;
        let t = &self.translator;
        let (code, mut stubs) = (t.job.code.bytes().to_vec(), t.job.stubs.bytes().to_vec());
        // A probe of a query has the address of what is known of its site.
        let crossing = slot!(entry.query).0.to_le_bytes();
        let jump = [&[0x65, 0xff, 0x24, 0x25], &crossing[..]].concat();
        for at in 0..stubs.len().saturating_sub(16) {
            if stubs[at..at + 8] == jump[..] {
                stubs[at + 8..at + 16].fill(0);
            }
        }
        self.hash.bytes(&code);
        self.hash.bytes(&stubs);
        self.hash.bytes(&t.job.notes.record);
        let steps = &self.cache.steps[fragment.first_step as usize..];
        for step in steps {
            // Numbers alone: hashes do not depend on the names of fields and types.
            let step = (
                (step.cache, step.copied, step.events, step.values, step.way),
                (step.spilled.bits(), step.at_fault.bits()),
                (step.app.0, step.far.map(|r| r.0), step.recipe),
            );
            self.hash.bytes(format!("{step:?}").as_bytes());
        }
        for exit in &self.cache.exits[first_exit..] {
            let exit = (
                exit.patch,
                exit.target,
                exit.prefix,
                exit.stub,
                exit.insns,
                exit.way,
            );
            self.hash.bytes(format!("{exit:?}").as_bytes());
        }
        let about = (
            (fragment.entry, fragment.checked, fragment.end),
            (fragment.stolen, fragment.promoted, fragment.insns),
            (
                fragment.block.map(|id| id.0),
                fragment.guarded,
                fragment.strides,
            ),
        );
        self.hash.bytes(format!("{about:?}").as_bytes());
        Some(fragment.span)
    }

    fn fragment(&mut self, app: AppPc, shape: Shape) -> Option<Range> {
        let first_exit = self.cache.exits.len();
        let (translator, mut site) = self.site();
        let made = translator.translate(&mut site, (app, Prefix::NONE), shape);
        self.note(made, first_exit)
    }

    /// Fragments of the library, from many places on.
    fn fragments(&mut self, most: usize) {
        let Range { start, end } = self.range;
        let step = (end - start) / 97;
        let mut todo: Vec<u64> = (0..97).map(|n| start + n * step / 16 * 16).collect();
        let mut seen = BTreeSet::new();
        let windows = self.translator.config.windows;
        let (mut left, mut exits) = (most, 0);
        while let Some(at) = todo.pop() {
            if left == 0 || !self.range.holds(AppPc(at)) || !seen.insert(at) {
                continue;
            }
            left -= 1;
            let shape = match seen.len() % 12 {
                0 | 4 | 8 => Shape::Checked,
                1 => Shape::Recorded,
                2 if windows => Shape::Part((seen.len() / 12 % 5) as u8),
                _ => Shape::Usual,
            };
            if let Some(span) = self.fragment(AppPc(at), shape) {
                todo.push(span.end);
                todo.extend(self.cache.exits[exits..].iter().map(|e| e.target.0));
            }
            exits = self.cache.exits.len();
        }
    }

    /// The dictionary, up to a long stretch of nothing.
    fn hash_dictionary(&mut self) {
        let base = self.shared.mapped().base() + DICT_WORDS_OFFSET as u64;
        let (mut zeros, mut n) = (0, 0);
        while zeros < 512 {
            // SAFETY: in the mapping.
            let word = unsafe { ((base + 8 * n) as *const u64).read() };
            self.hash.word(word);
            zeros = if word == 0 { zeros + 1 } else { 0 };
            n += 1;
        }
        self.hash.word(self.shared.paths().into());
        for branch in self.pairs.branches() {
            let block = (branch.block.0.0, branch.block.1);
            let about = (block, branch.pc, branch.call, branch.variant.0);
            self.hash.bytes(format!("{about:?}").as_bytes());
        }
    }
}

#[test]
fn each_combination_is_translated_or_refused() {
    let mut lines = String::new();
    let whole = std::env::var_os("TROMMEL_HASHES");
    let most = if whole.is_some() { 600 } else { 100 };
    for (n, case) in cases().iter().enumerate() {
        let mut world = World::new(n, case);
        world.fragments(most);
        if case.also.traces {
            world.traces(most / 4);
        }
        world.hash_dictionary();
        let (name, made, refused) = (case.name(), world.made, world.refused);
        lines += &format!("{:016x} {made:4} {refused:4} {name}\n", world.hash.0);
        assert!(made > most / 4, "{name}: {made} made, {refused} refused");
    }
    if let Some(file) = whole {
        std::fs::write(file, lines).expect("written");
    }
}
