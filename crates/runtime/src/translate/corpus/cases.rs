//! The combinations that the corpus is translated under.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use Compressor::{Exact, MultiHash, Recorded, Sampler};
use trommel_tuple::Kind::{self, Address, Call, Edge, Latency, Path, Type, Value};
use trommel_tuple::KindSet;

/// Compressors of events.
#[derive(Clone, Copy)]
pub(super) enum Compressor {
    /// Recorded one by one.
    Recorded,
    /// Counted by path.
    Exact,
    /// Counted by a sampler: substreams, rate, hash.
    Sampler(u32, u32, u32),
    /// Counted by a multi-hash profiler.
    MultiHash(&'static str),
}

/// Further requests to the translator.
#[derive(Clone, Copy, Default)]
pub(super) struct Also {
    pub(super) windows: bool,
    pub(super) listed: bool,
    pub(super) traces: bool,
    pub(super) plain: bool,
    pub(super) prefetch: bool,
    pub(super) quiet: bool,
    pub(super) selected: bool,
    pub(super) queries: bool,
    pub(super) persist: bool,
}

pub(super) struct Case {
    pub(super) kinds: KindSet,
    pub(super) compressor: Compressor,
    pub(super) also: Also,
}

impl Case {
    pub(super) fn name(&self) -> String {
        let kinds: Vec<&str> = self.kinds.iter().map(Kind::name).collect();
        let compressor = match self.compressor {
            Compressor::Recorded => "recorded".into(),
            Compressor::Exact => "exact".into(),
            Compressor::Sampler(n, rate, hash) => format!("H:{hash}[P{rate}]{n}"),
            Compressor::MultiHash(spec) => spec.into(),
        };
        let also = self.also;
        let flags = [
            (also.windows, "windows"),
            (also.listed, "listed"),
            (also.traces, "traces"),
            (also.plain, "plain"),
            (also.prefetch, "prefetch"),
            (also.quiet, "quiet"),
            (also.selected, "selected"),
            (also.queries, "queries"),
            (also.persist, "persist"),
        ];
        let flags = flags.iter().filter(|flag| flag.0).map(|flag| flag.1);
        let flags: Vec<&str> = flags.collect();
        format!("{} {compressor} {}", kinds.join(","), flags.join(","))
    }
}

/// Adds a case for each of these compressors and kinds.
fn add(to: &mut Vec<Case>, kinds: &[&[Kind]], compressors: &[Compressor], also: Also) {
    for kinds in kinds {
        for &compressor in compressors {
            let kinds = kinds.iter().copied().collect();
            to.push(Case {
                kinds,
                compressor,
                also,
            });
        }
    }
}

const NONE: Also = Also {
    windows: false,
    listed: false,
    traces: false,
    plain: false,
    prefetch: false,
    quiet: false,
    selected: false,
    queries: false,
    persist: false,
};
const TRACES: Also = Also {
    traces: true,
    persist: true,
    ..NONE
};
const PLAIN: Also = Also {
    plain: true,
    ..TRACES
};
const WINDOWS: Also = Also {
    windows: true,
    ..NONE
};
const LISTED: Also = Also {
    listed: true,
    ..WINDOWS
};

/// The table of combinations.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for also in [NONE, TRACES, PLAIN] {
        add(&mut cases, &[&[]], &[Recorded], also);
    }
    counted(&mut cases);
    // Samplers with the paper's hash count what is known alone.
    add(
        &mut cases,
        &[&[Edge, Call]],
        &[Sampler(2048, 256, 0)],
        PLAIN,
    );
    captures(&mut cases);
    for also in [NONE, TRACES] {
        let kinds: [&[Kind]; 2] = [&[Edge, Call, Path], &[Edge, Call, Value, Path]];
        add(&mut cases, &kinds, &[Exact, Recorded], also);
    }
    filters(&mut cases);
    cases
}

/// Adds the cases of events that are counted in generated code, for each compressor.
fn counted(cases: &mut Vec<Case>) {
    let kinds: [&[Kind]; 8] = [
        &[Edge],
        &[Call],
        &[Edge, Call],
        &[Value],
        &[Type],
        &[Value, Type],
        &[Edge, Call, Value, Type],
        &[Call, Value],
    ];
    let compressors = [
        Recorded,
        Exact,
        Sampler(1, 256, 1),
        Sampler(1, 5, 1),
        Sampler(64, 3, 1),
        Sampler(2048, 256, 1),
        Sampler(2048, 100, 2),
        MultiHash("M4:crc[10k,1%]2048:C1R0P1"),
        MultiHash("M1:mul[10k,1%]2048:C0R0P1"),
    ];
    for kinds in kinds {
        for compressor in compressors {
            add(cases, &[kinds], &[compressor], NONE);
            add(cases, &[kinds], &[compressor], TRACES);
        }
    }
}

/// Adds the cases of events that windows capture.
fn captures(cases: &mut Vec<Case>) {
    let kinds: [&[Kind]; 8] = [
        &[Address],
        &[Latency],
        &[Address, Latency],
        &[Address, Value],
        &[Call, Value],
        &[Edge, Call, Value, Type, Address],
        &[Edge, Call, Latency],
        &[],
    ];
    for also in [NONE, WINDOWS, LISTED] {
        add(cases, &kinds, &[Recorded], also);
    }
}

/// Adds the cases of filters, and of code that is written beside the code that observes.
fn filters(cases: &mut Vec<Case>) {
    let with = |change: fn(&mut Also), mut also: Also| {
        change(&mut also);
        also
    };
    let kinds: [&[Kind]; 3] = [&[], &[Edge, Call], &[Edge, Call, Value, Type]];
    for also in [
        with(|also| also.prefetch = true, NONE),
        with(|also| also.quiet = true, NONE),
        with(|also| also.quiet = true, TRACES),
        with(|also| also.selected = true, NONE),
        with(|also| also.selected = true, TRACES),
        with(|also| also.queries = true, NONE),
    ] {
        add(cases, &kinds, &[Recorded, Exact, Sampler(1, 256, 1)], also);
    }
}
