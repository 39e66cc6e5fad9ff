//! Instructions that the translator spends on an instruction of cold code.
//!
//! Translates functions of the C library, each superblock once, as the dispatcher would: the same code whatever revision is
//! measured. Run it under `valgrind --tool=callgrind` for exact counts; by itself it prints nanoseconds.
#![allow(unsafe_code)] // reason: maps the memory that the host would share.

use std::collections::BTreeSet;
use std::time::Instant;

use trommel_queue::{DIRECTORY_BYTES, SLOT_BYTES};
use trommel_runtime::base::address::AppPc;
use trommel_runtime::base::prefix::Prefix;
use trommel_runtime::base::sys;
use trommel_runtime::cache::Cache;
use trommel_runtime::channel::dictionary::Shared;
use trommel_runtime::channel::slot::Mapped;
use trommel_runtime::memory::pages::Pages;
use trommel_runtime::memory::region::Regions;
use trommel_runtime::observe::pairs::Pairs;
use trommel_runtime::translate::{Config, MAX_INSNS, Shape, Site, Translator, Ways};
use trommel_tuple::KindSet;

unsafe extern "C" {
    fn qsort();
}

fn main() {
    let kinds = match std::env::args().nth(1).as_deref() {
        Some("all") => KindSet::from_bits(0xff),
        Some("edge") => KindSet::from_bits(3),
        _ => KindSet::NONE,
    };
    let wanted = 20_000;
    let base =
        sys::anonymous(DIRECTORY_BYTES + SLOT_BYTES).expect("memory") + DIRECTORY_BYTES as u64;
    // SAFETY: as long as the file, writable, for good.
    let mut shared = Shared::new(unsafe { Mapped::new(base) });
    let (mut cache, mut regions) = (Cache::new(), Regions::default());
    let max_insns = MAX_INSNS;
    let mut pages = Pages::default();
    let mut pairs = Pairs::default();
    let mut translator = Translator::new(
        Config {
            kinds,
            max_insns,
            after_calls: false,
            counters: std::env::args().nth(2).is_some(),
            windows: false,
            listed: false,
            trace_insns: 0,
            audit: false,
            whole_jumps: false,
            optimise: false,
        },
        Ways::default(),
        None,
    );
    let mut todo = vec![AppPc(qsort as *const () as u64)];
    let mut seen = BTreeSet::new();
    let (mut insns, mut exits) = (0, 0);
    let clock = Instant::now();
    while let Some(pc) = todo.pop() {
        if insns >= wanted || !seen.insert(pc) {
            continue;
        }
        let mut site = Site {
            cache: &mut cache,
            regions: &mut regions,
            pages: &mut pages,
            shared: &mut shared,
            pairs: &mut pairs,
            persist: &mut None,
        };
        let shape = match seen.len() % 4 {
            0 => Shape::Checked,
            _ => Shape::Usual,
        };
        if let Ok(id) = translator.translate(&mut site, (pc, Prefix::NONE), shape) {
            let fragment = cache.fragments[id.index()];
            insns += usize::from(fragment.insns);
            todo.push(AppPc(fragment.span.end));
            todo.extend(cache.exits[exits..].iter().map(|e| e.target));
            exits = cache.exits.len();
        }
    }
    let time = clock.elapsed();
    println!(
        "{insns} instructions in {} fragments: {:.0} ns each",
        seen.len(),
        time.as_nanos() as f64 / insns as f64
    );
}
