//! Records do not depend on where code lies, and fragments made of them are those that the translator makes.
#![allow(unsafe_code)] // reason: maps files and reads code.

extern crate std;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_compress::hash::OfPlace;
use trommel_queue::dict::{Event, MAX_EVENT_WORDS, PathHeader, TargetPc};
use trommel_queue::{
    BIASES_OFFSET, COUNTS_STRATA, DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, DIRECTORY_BYTES, SLOT_BYTES,
};
use trommel_tuple::{Kind, KindSet};

use trommel_queue::persist::Head;

use super::fields::{Numbers, without_addresses};
use super::parts::{COUNTS, Count, Parts, u32_at};
use super::*;
use crate::base::address::Range;
use crate::base::counted::first_of_value_counter;
use crate::base::ids::{EntryId, FragmentId};
use crate::base::prefix::Key;
use crate::base::prefix::Prefix;
use crate::base::sys;
use crate::cache::Cache;
use crate::cache::{Exit, Fragment, Step};
use crate::channel::dictionary::Shared;
use crate::channel::persist::Origin;
use crate::channel::persist::Persist;
use crate::channel::slot::Mapped;
use crate::channel::strata::Sampler;
use crate::memory::pages::Pages;
use crate::memory::region::Regions;
use crate::observe::pairs::Pairs;
use crate::translate::Site;
use crate::translate::{Config, MAX_INSNS, Shape, Ways};

/// State with which a process translates.
struct World {
    translator: Translator,
    cache: Cache,
    regions: Regions,
    pages: Pages,
    pairs: Pairs,
    shared: Shared,
    persist: Option<Persist>,
}

/// A path: its block's events that are passed, and its tail.
type Meaning = (Vec<Event>, Option<Event>);

impl World {
    fn new(traces: bool, counted: KindSet, substreams: Option<u32>) -> Self {
        let base = sys::anonymous(DIRECTORY_BYTES + SLOT_BYTES).expect("memory");
        // SAFETY: as long as the file, writable, for good.
        let mapped = unsafe { Mapped::new(base + DIRECTORY_BYTES as u64) };
        mapped.control().setup.persist.store(1, Relaxed);
        if let Some(substreams) = substreams {
            let control = mapped.control();
            control.setup.counters.store(COUNTS_STRATA, Relaxed);
            control.setup.strata.substreams.store(substreams, Relaxed);
            control.setup.strata.rate.store(256, Relaxed);
            control.setup.strata.hash.store(1, Relaxed);
            for region in 0..64_u64 {
                let at = mapped.base() + BIASES_OFFSET as u64 + 8 * region;
                // SAFETY: in the mapping, aligned.
                unsafe { &*(at as *const AtomicU64) }.store(1 + region * 0x1000_0000, Relaxed);
            }
        }
        let config = Config {
            kinds: counted,
            max_insns: MAX_INSNS,
            counters: !counted.is_empty() && substreams.is_none(),
            after_calls: !counted.is_empty() && substreams.is_none(),
            windows: false,
            listed: false,
            trace_insns: if traces {
                crate::translate::piece::MAX_INSNS
            } else {
                0
            },
            audit: traces,
            whole_jumps: false,
            optimise: traces,
        };
        let mut cache = Cache::new();
        cache.make_traces(u32::from(traces) * 50);
        Self {
            translator: Translator::new(
                config,
                Ways {
                    sampler: Sampler::of(mapped.control()),
                    ..Ways::default()
                },
                None,
            ),
            cache,
            regions: Regions::default(),
            pages: Pages::default(),
            pairs: Pairs::default(),
            shared: Shared::new(mapped),
            persist: Persist::open(mapped, config.shape(), &[]),
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

    fn word(&self, at: usize) -> u64 {
        let at = self.shared.mapped().base() + (DICT_WORDS_OFFSET + 8 * at) as u64;
        // SAFETY: in the mapping.
        unsafe { (at as *const u64).read() }
    }

    /// Returns the meanings of the paths after the first `before`.
    fn paths(&self, before: u32) -> Vec<Meaning> {
        let meaning = |n: u32| {
            let index = self.shared.mapped().base() + (DICT_INDEX_OFFSET + 4 * n as usize) as u64;
            // SAFETY: in the mapping.
            let at = unsafe { (index as *const u32).read() } as usize;
            let header = PathHeader::decode(self.word(at));
            let words: [u64; MAX_EVENT_WORDS] = core::array::from_fn(|n| self.word(at + 1 + n));
            let tail = Event::decode(&words).filter(|_| header.tail);
            let events = self.shared.events_of(EntryId(header.block));
            let events: Vec<Event> = events.map(|e| e.expect("an event")).collect();
            let passed = usize::from(header.passed.first)..usize::from(header.passed.end);
            (events[passed].to_vec(), tail.map(|tail| tail.0))
        };
        (before..self.shared.paths()).map(meaning).collect()
    }

    /// The branches that have keys, after the first `before`.
    fn branches(&self, before: usize) -> Vec<(Branch, Vec<Event>)> {
        let all = self.pairs.branches()[before..].iter();
        let with_events = |branch: &Branch| {
            let (block, passed) = branch.block;
            let events = self.shared.events_of(block);
            let events: Vec<Event> = events.map(|e| e.expect("an event")).collect();
            let passed = usize::from(passed.first)..usize::from(passed.end);
            (*branch, events[passed].to_vec())
        };
        all.map(with_events).collect()
    }

    /// The code of a fragment, with its exits and steps.
    fn parts(
        &self,
        id: FragmentId,
        first_exit: usize,
    ) -> (Fragment, Vec<u8>, Vec<Exit>, Vec<Step>) {
        let fragment = self.cache.fragments[id.index()];
        let start = fragment.entry;
        let len = (fragment.end.0 - start.0) as usize;
        // SAFETY: code of the cache.
        let code = unsafe { core::slice::from_raw_parts(start.0 as *const u8, len) };
        let steps = &self.cache.steps[fragment.first_step as usize..];
        let exits = &self.cache.exits[first_exit..];
        (fragment, code.to_vec(), exits.to_vec(), steps.to_vec())
    }
}

/// The C library's code, mapped once more.
struct Library {
    range: Range,
}

/// Each far from everything else that this process has mapped: the arenas of other tests take what room there is near the rest. Their distances
/// are multiples of nothing but a page.
fn library() -> Vec<Library> {
    const APART: u64 = (16 << 30) + 0x1000;
    static NEXT: AtomicU64 = AtomicU64::new(0x1000_0000_0000);
    let all = crate::memory::mapping::read_all().expect("the kernel's list");
    let here = all
        .iter()
        .find(|m| m.executable && m.path.ends_with(b"/libc.so.6"))
        .expect("the C library is mapped");
    let path = alloc::ffi::CString::new(here.path.clone()).expect("a path");
    let file = sys::open(&path).expect("the C library can be read");
    let len = (here.range.end - here.range.start) as usize;
    let again = |_| {
        // SAFETY: where nothing else is put.
        let at = unsafe {
            sys::mmap(&sys::Map {
                at: NEXT.fetch_add(APART, Relaxed),
                len,
                prot: nr::PROT_READ | nr::PROT_EXEC,
                flags: nr::MAP_PRIVATE | nr::MAP_FIXED_NOREPLACE,
                fd: file,
                offset: here.offset,
            })
        };
        let start = at.expect("memory");
        Library {
            range: Range {
                start,
                end: start + len as u64,
            },
        }
    };
    (0..3).map(again).collect()
}

fn origin_in(world: &mut World, at: AppPc) -> (Origin, Range) {
    let (_, mut site) = world.site();
    let region = Translator::region(&mut site, at).expect("code");
    let mapping = site.regions.known[region].clone();
    let origin = world.persist.as_mut().and_then(|p| p.origin(&mapping));
    (origin.expect("a file"), mapping.range)
}

/// An event of code that lies elsewhere.
fn moved_event(event: Event, by: u64) -> Event {
    let here = |pc: TargetPc| TargetPc(pc.0.wrapping_add(by));
    match event {
        Event::Branch {
            pc,
            len,
            target,
            taken,
        } => Event::Branch {
            pc: here(pc),
            len,
            target: here(target),
            taken,
        },
        Event::Call { pc, target } => Event::Call {
            pc: here(pc),
            target: here(target),
        },
        Event::Dynamic { kind, pc } => Event::Dynamic { kind, pc: here(pc) },
        Event::AfterCall { pc } => Event::AfterCall { pc: here(pc) },
        other => panic!("{other:?} is not counted"),
    }
}

/// Two libraries' records are the same, and fragments made of them are what is made of the third. `substreams`: those of the sampler, if there is one.
fn translated(traces: bool, counted: KindSet, substreams: Option<u32>) {
    const WANTED: usize = 6000;
    let [one, other, third] = library().try_into().ok().expect("three");
    let mut worlds = [(); 3].map(|()| World::new(traces, counted, substreams));
    let (mut paths_seen, mut branches_seen, mut looks) = (0, 0, 0);
    let (mut counters_seen, mut values_seen, mut strides_seen) = (0, 0, 0);
    let mut todo: Vec<u64> = (0..one.range.end - one.range.start)
        .step_by(0x700)
        .collect();
    todo.reverse();
    let mut seen = BTreeSet::new();
    let (mut same, mut unfit) = (0, 0);
    while let Some(at) = todo.pop() {
        if same >= WANTED || at >= one.range.end - one.range.start || !seen.insert(at) {
            continue;
        }
        let shape = match seen.len() % 3 {
            0 => Shape::Checked,
            _ => Shape::Usual,
        };
        let mut records = Vec::new();
        let mut fresh = None;
        for (world, library) in worlds.iter_mut().zip([&one, &other]) {
            let app = AppPc(library.range.start + at);
            let first_exit = world.cache.exits.len();
            let before = (world.shared.paths(), world.pairs.branches().len());
            let (translator, mut site) = world.site();
            let Ok(id) = translator.translate(&mut site, (app, Prefix::NONE), shape) else {
                continue;
            };
            let (origin, range) = origin_in(world, app);
            let (fragment, code, exits, steps) = world.parts(id, first_exit);
            let mut record = Vec::new();
            let t = &world.translator;
            let (of, parts) = ((origin, range), (steps.as_slice(), exits.as_slice()));
            let kept = t.put_together(&mut record, &fragment, &world.shared, of, parts);
            let fit = kept.is_some() && !t.job.notes.unfit;
            records.push(fit.then_some(record));
            let span = fragment.span;
            let counts = (world.paths(before.0), world.branches(before.1));
            fresh = Some((fragment, code, exits, steps, counts));
            todo.push(span.end - library.range.start);
        }
        let [record, again] = records.as_slice() else {
            assert!(
                records.is_empty(),
                "{at:#x} can be made at one address and not at another"
            );
            continue;
        };
        assert!(record == again, "{at:#x} depends on its address");
        let Some(record) = record else {
            unfit += 1;
            continue;
        };
        if let Some((.., exits, _, _)) = &fresh {
            let targets = exits.iter().map(|exit| exit.target.0);
            todo.extend(targets.map(|to| to - other.range.start));
        }
        // What is made of the record elsewhere is, but for addresses, what was translated.
        let world = &mut worlds[2];
        let app = AppPc(third.range.start + at);
        let (origin, range) = origin_in(world, app);
        let parts = Parts::of(&record[Head::BYTES..]).expect("a record");
        let first = (world.cache.exits.len(), world.cache.next_exit());
        let before = (world.shared.paths(), world.pairs.branches().len());
        let (translator, mut site) = world.site();
        let region = Translator::region(&mut site, app).expect("code");
        let id = translator
            .bring_back(&mut site, &parts, app, origin, region)
            .expect("the record can be used");
        let (fragment, mut code, exits, steps) = world.parts(id, first.0);
        let placed = code.clone();
        let moved = app.0.wrapping_sub(other.range.start + at);
        let [_, second, last] = &mut worlds;
        let translator = &second.translator;
        let (fresh, fresh_code, fresh_exits, fresh_steps, counts) = fresh.expect("made above");
        let here = |pc: AppPc| AppPc(pc.0.wrapping_add(moved));
        let len = (fragment.end.0 - fragment.entry.0) as usize;
        assert_eq!(len, code.len());
        let numbers = Numbers {
            exit: first.1,
            path: &|number| Some((number.0 - before.0) as usize),
            stratum: &|at| translator.stratum_at(at),
        };
        // Each counter, and each value counter, is that of its event here.
        for &(at, number) in &translator.job.notes.counted {
            let of = translator.job.notes.paths.iter();
            let mut of = of.enumerate();
            let (nth, path) = of.find(|(_, p)| p.number == number).expect("a path");
            let event = moved_event(path.tail.expect("an event"), moved);
            let expected = match (last.translator.ways.sampler.as_mut(), event) {
                (None, _) => first_of_value_counter(before.0 + nth as u32),
                (Some(sampler), Event::Dynamic { pc, .. }) => {
                    match sampler.of_place(&last.regions, AppPc(pc.0)) {
                        Some(OfPlace::Sum { start, .. }) => start,
                        _ => panic!("a sum"),
                    }
                }
                (Some(sampler), _) => sampler.counter(&last.regions, &event).0,
            };
            assert_eq!(u32_at(&placed, at.into()), expected);
            values_seen += usize::from(matches!(event, Event::Dynamic { .. }));
            counters_seen += 1;
        }
        without_addresses(
            &mut code,
            fragment.entry,
            &translator.job.notes.fields,
            &numbers,
            origin,
            &exits,
        )
        .expect("fields are where they were");
        assert!(code == parts.code, "{at:#x}");
        let key = (worlds[2].pairs.branches().len() > before.1).then(|| {
            let number = worlds[2].pairs.branches().len() - 1;
            u32::from(Key::of(number).offset())
        });
        let (paths, branches) = (worlds[2].paths(before.0), worlds[2].branches(before.1));
        let event = |e: Event| moved_event(e, moved);
        let events = |all: &[Event]| all.iter().map(|&e| event(e)).collect::<Vec<_>>();
        let expected: Vec<Meaning> = (counts.0.iter())
            .map(|(passed, tail)| (events(passed), tail.map(event)))
            .collect();
        assert!(paths == expected, "{at:#x}: {paths:x?}, not {expected:x?}");
        assert_eq!(branches.len(), counts.1.len());
        for ((branch, passed), (fresh, fresh_passed)) in branches.iter().zip(&counts.1) {
            assert_eq!((branch.pc, branch.call), (here(fresh.pc), fresh.call));
            assert_eq!(*passed, events(fresh_passed));
            assert!(placed.windows(4).any(|w| Some(u32_at(w, 0)) == key));
        }
        paths_seen += paths.len();
        branches_seen += branches.len();
        looks += parts.count(Count::Looked);
        assert_eq!(code.len(), fresh_code.len());
        assert_eq!(fragment.app, here(fresh.app));
        assert_eq!((fragment.insns, fragment.steps), (fresh.insns, fresh.steps));
        assert_eq!(fragment.stolen, fresh.stolen);
        assert_eq!(fragment.strides, fresh.strides);
        strides_seen += usize::from(fragment.strides);
        assert_eq!(fragment.span.start, fresh.span.start.wrapping_add(moved));
        assert_eq!(fragment.span.end, fresh.span.end.wrapping_add(moved));
        let check = |f: &Fragment| f.checked.map(|c| c.0 as i64 - f.entry.0 as i64);
        assert_eq!(check(&fragment), check(&fresh));
        for (step, fresh) in steps.iter().zip(&fresh_steps) {
            let app = here(fresh.app);
            assert_eq!(*step, Step { app, ..*fresh });
        }
        assert_eq!(
            (steps.len(), exits.len()),
            (fresh_steps.len(), fresh_exits.len())
        );
        for (exit, fresh_exit) in exits.iter().zip(&fresh_exits) {
            let outline = |e: &Exit, f: &Fragment| {
                let patch = e.patch.0.checked_sub(f.entry.0);
                (patch, e.prefix, e.insns, e.way, e.counts, e.stub != 0)
            };
            assert_eq!(outline(exit, &fragment), outline(fresh_exit, &fresh));
            assert_eq!(exit.target, here(fresh_exit.target));
        }
        let _ = range;
        same += 1;
    }
    assert!(same >= WANTED && unfit < same / 20, "{same} {unfit}");
    if !counted.is_empty() {
        let all = (paths_seen, branches_seen, looks);
        assert!(all.1 > 20 && all.2 > 1000, "{all:?}");
        let strides = substreams == Some(1);
        assert_eq!(strides_seen > 1000, strides, "{strides_seen}");
        assert_eq!(all.0 > 1000, !strides, "{all:?}");
        let values = counted.has(Kind::Value) && !strides;
        let counters = substreams.is_some() && !strides || values;
        assert_eq!(counters_seen > 1000, counters, "{counters_seen}");
        assert_eq!(values_seen > 1000, values, "{values_seen}");
    }
}

#[test]
fn fragments_come_back_as_they_are_made() {
    translated(false, KindSet::NONE, None);
}

#[test]
fn fragments_that_traces_start_in_do_too() {
    translated(true, KindSet::NONE, None);
}

#[test]
fn fragments_that_count_do_too() {
    let counted = KindSet::from_iter([Kind::Edge, Kind::Call]);
    translated(true, counted, None);
    translated(false, KindSet::from_iter([Kind::Call]), None);
}

#[test]
fn fragments_with_counters_of_a_sampler_do_too() {
    let counted = KindSet::from_iter([Kind::Edge, Kind::Call]);
    translated(true, counted, Some(2048));
    translated(false, KindSet::from_iter([Kind::Edge]), Some(2048));
}

#[test]
fn fragments_that_hash_values_do_too() {
    let all = KindSet::from_iter([Kind::Edge, Kind::Call, Kind::Value, Kind::Type]);
    translated(true, all, Some(2048));
    translated(false, all, Some(2048));
}

#[test]
fn fragments_with_value_counters_do_too() {
    let all = KindSet::from_iter([Kind::Edge, Kind::Call, Kind::Value, Kind::Type]);
    translated(true, all, None);
    translated(false, all, None);
}

#[test]
fn what_is_not_a_record_is_refused() {
    let mut bytes = [0_u8; 256];
    let mut x = 1_u64;
    let mut whole = 0;
    for _ in 0..200_000 {
        for (n, byte) in bytes.iter_mut().enumerate() {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Small numbers make lists that fit.
            *byte = (x >> 56) as u8
                & match n {
                    _ if n >= 2 * COUNTS => 0xff,
                    _ if n % 2 == 0 => 7,
                    _ => 0,
                };
        }
        if let Some(parts) = Parts::of(&bytes) {
            whole += 1;
            for field in parts.fields().map_while(|field| field) {
                assert!(field.1 + 4 <= parts.code.len());
            }
        }
    }
    assert!(whole > 100, "{whole}");
}

#[test]
fn fragments_that_stride_do_too() {
    let all = KindSet::from_iter([Kind::Edge, Kind::Call, Kind::Value, Kind::Type]);
    translated(true, all, Some(1));
    translated(
        false,
        KindSet::from_iter([Kind::Value]).with(Kind::Call),
        Some(1),
    );
}
