//! Plan of a run: what the host's words ask of the engine, worked out before anything is made.
//!
//! # Problem
//! What the host asks for goes together in some ways only. Traces need exits that are counted in code, windows count each
//! instruction, and queries record every event. All that must be settled before the translator, the cache and the dictionary are made.
//!
//! # Strategy
//! [`Words::read`] copies the words. [`Plan::of`] is a pure function of them. `mod@super::start` makes what the plan says.

use core::sync::atomic::Ordering::Relaxed;

use trommel_queue::{
    COUNTS_NOTHING, COUNTS_PATHS, Control, MAX_WINDOW, Optimise, counts_after_calls, options,
};
use trommel_tuple::{Kind, KindSet};

use crate::engine::window;
use crate::translate::{Config, MAX_INSNS, piece};

/// Words of the host that the plan depends on.
#[derive(Clone, Copy, Default)]
pub(super) struct Words {
    /// Options for tests, `trommel_queue::options`.
    pub(super) stress: u64,
    /// The event kinds asked for.
    pub(super) kinds: KindSet,
    /// Contents of counter arrays, [`COUNTS_NOTHING`] and so on.
    pub(super) counters: u32,
    /// Instructions in a window; 0: there are no windows.
    pub(super) window: u32,
    /// Number of executions after which a trace is made.
    pub(super) threshold: u32,
    /// The process is never detached because control does not pay.
    pub(super) stays: bool,
    /// Exits are not linked.
    pub(super) unlinked: bool,
    /// Level of optimisation.
    pub(super) optimise: Optimise,
    /// The code that does the app's work is marked.
    pub(super) audit: bool,
    /// Instructions are in the dictionary.
    pub(super) listed: bool,
    /// Bytes of code before all of it is dropped; 0: no limit.
    pub(super) cache_limit: u64,
    /// No other process has the memory of this one.
    pub(super) alone: bool,
    /// Instructions are counted by calling context.
    pub(super) contexts: bool,
    /// There is a query program.
    pub(super) asked: bool,
    /// Threads that are attached; 0 in a process that is about to start.
    pub(super) threads: u64,
    /// The processor wants jumps kept off the boundaries of lines.
    pub(super) whole_jumps: bool,
}

impl Words {
    /// Reads what the control words say of it.
    pub(super) fn read(control: &Control) -> Self {
        let (setup, trace) = (&control.setup, &control.trace);
        Self {
            stress: setup.options.load(Relaxed),
            kinds: KindSet::from_bits(setup.kinds.load(Relaxed) as u16),
            counters: setup.counters.load(Relaxed),
            window: control.window.length.load(Relaxed),
            threshold: trace.threshold.load(Relaxed),
            stays: trace.stay.load(Relaxed) != 0,
            unlinked: trace.unlinked.load(Relaxed) != 0,
            optimise: Optimise::from_word(trace.optimise.load(Relaxed)),
            audit: trace.audit.load(Relaxed) != 0,
            listed: setup.listed.load(Relaxed) != 0,
            cache_limit: trace.cache.load(Relaxed),
            alone: control.host.alone.load(Relaxed) != 0,
            contexts: setup.contexts.load(Relaxed) != 0,
            ..Self::default()
        }
    }
}

/// Plan of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Configuration of the translator.
    pub(super) config: Config,
    /// Instructions in a window; 0: there are no windows.
    pub(super) window: u32,
    /// Kinds asked for, if acyclic paths are counted in code.
    pub(super) acyclic: Option<KindSet>,
    /// Number of executions after which a trace is made; 0: there are no traces.
    pub(super) threshold: u32,
    /// It is watched whether control pays.
    pub(super) watched: bool,
    /// Exits are not linked.
    pub(super) unlinked: bool,
    /// Arenas are out of reach of their app code.
    pub(super) far: bool,
    /// Code in writable memory compares itself.
    pub(super) guarded: bool,
    /// Bytes of code before all of it is dropped; 0: no limit.
    pub(super) cache_limit: u64,
    /// Stack frames are taken to be written by their own thread alone.
    pub(super) aggressive: bool,
    /// Other threads or processes may have this memory.
    pub(super) shared_memory: bool,
}

impl Plan {
    /// Works the plan out.
    pub(super) fn of(words: &Words) -> Self {
        let kinds = with_transfers(words.kinds);
        let window = words.window.min(MAX_WINDOW);
        let counts_paths = words.counters == COUNTS_PATHS;
        let acyclic = words.kinds.has(Kind::Path) && counts_paths && !words.asked;
        // A trace goes on past calls.
        let traced = window == 0 && !words.contexts && Self::may_trace(words, kinds, acyclic);
        let threshold = match (traced, words.stress & options::TRACE) {
            (false, _) => 0,
            (true, 0) => words.threshold,
            (true, _) => 1,
        };
        Self {
            config: Config {
                kinds,
                max_insns: Self::most_insns(words, window),
                windows: window != 0,
                listed: words.listed,
                counters: counts_paths,
                after_calls: counts_paths && window == 0 && counts_after_calls(kinds),
                optimise: words.optimise != Optimise::Off,
                trace_insns: if threshold == 0 { 0 } else { piece::MAX_INSNS },
                whole_jumps: words.whole_jumps,
                audit: words.audit && window == 0,
            },
            window,
            acyclic: acyclic.then_some(words.kinds),
            threshold,
            watched: threshold > 1 && !words.stays,
            unlinked: words.unlinked,
            far: words.stress & options::FAR != 0,
            guarded: words.stress & options::GUARD != 0,
            cache_limit: match (words.stress >> options::CACHE_SHIFT & 0xfff) * 4096 {
                0 => words.cache_limit,
                limit => limit,
            },
            aggressive: words.optimise == Optimise::Aggressive,
            // Of what is attached to the host has found that out.
            shared_memory: words.threads != 0 && (words.threads != 1 || !words.alone),
        }
    }

    /// Returns whether traces can hold what is asked for. What is recorded names the exits of fragments, and variants are of fragments. What is
    /// counted in the code is so in traces too.
    fn may_trace(words: &Words, kinds: KindSet, acyclic: bool) -> bool {
        let countable = [Kind::Edge, Kind::Call, Kind::Value, Kind::Type];
        let countable: KindSet = countable.into_iter().collect();
        let countable = match acyclic {
            true => countable.with(Kind::Path),
            false => countable,
        };
        let counted = words.counters != COUNTS_NOTHING && !words.asked;
        kinds.is_empty() || counted && kinds.is_within(countable)
    }

    fn most_insns(words: &Words, window: u32) -> usize {
        match (words.stress & options::INSNS_MASK) as usize {
            insns if window != 0 => insns.clamp(1, window::LONGEST),
            0 => MAX_INSNS,
            insns => insns,
        }
    }
}

/// Adds the kinds that acyclic paths are made of.
fn with_transfers(kinds: KindSet) -> KindSet {
    match kinds.has(Kind::Path) {
        true => kinds.with(Kind::Edge).with(Kind::Call),
        false => kinds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(all: &[Kind]) -> KindSet {
        all.iter().copied().collect()
    }

    fn counting(all: &[Kind]) -> Words {
        Words {
            kinds: kinds(all),
            counters: COUNTS_PATHS,
            threshold: 50,
            ..Words::default()
        }
    }

    #[test]
    fn what_is_counted_in_code_is_counted_in_traces() {
        let plan = Plan::of(&counting(&[Kind::Edge, Kind::Value]));
        assert_eq!((plan.threshold, plan.watched), (50, true));
        assert_eq!(plan.config.trace_insns, piece::MAX_INSNS);
        let plan = Plan::of(&counting(&[Kind::Edge, Kind::Address]));
        assert_eq!((plan.threshold, plan.watched), (0, false));
        assert_eq!(plan.config.trace_insns, 0);
    }

    #[test]
    fn what_is_recorded_has_no_traces() {
        let recorded = Words {
            counters: COUNTS_NOTHING,
            ..counting(&[Kind::Edge])
        };
        assert_eq!(Plan::of(&recorded).threshold, 0);
        // Nothing is recorded of no kind.
        let engine = Words {
            kinds: kinds(&[]),
            ..recorded
        };
        assert_eq!(Plan::of(&engine).threshold, 50);
        let asked = Words {
            asked: true,
            ..counting(&[Kind::Edge])
        };
        assert_eq!(Plan::of(&asked).threshold, 0);
    }

    #[test]
    fn calling_contexts_have_no_traces() {
        let contexts = Words {
            contexts: true,
            ..counting(&[Kind::Edge])
        };
        assert_eq!(Plan::of(&contexts).threshold, 0);
    }

    #[test]
    fn acyclic_paths_need_branches_and_calls() {
        let plan = Plan::of(&counting(&[Kind::Path]));
        let all = kinds(&[Kind::Path, Kind::Edge, Kind::Call]);
        assert_eq!(plan.config.kinds.bits(), all.bits());
        assert_eq!(
            plan.acyclic.map(KindSet::bits),
            Some(kinds(&[Kind::Path]).bits())
        );
        assert_eq!(plan.threshold, 50);
        let asked = Words {
            asked: true,
            ..counting(&[Kind::Path])
        };
        assert!(Plan::of(&asked).acyclic.is_none());
    }

    #[test]
    fn windows_have_short_fragments_and_no_traces() {
        let windowed = Words {
            window: u32::MAX,
            ..counting(&[Kind::Edge])
        };
        let plan = Plan::of(&windowed);
        assert_eq!((plan.window, plan.threshold), (MAX_WINDOW, 0));
        assert_eq!(plan.config.max_insns, 1);
        let long = Words {
            stress: options::INSNS_MASK,
            ..windowed
        };
        assert_eq!(Plan::of(&long).config.max_insns, window::LONGEST);
    }

    #[test]
    fn options_for_tests_come_first() {
        let words = Words {
            stress: options::TRACE | options::FAR | options::GUARD | 3 << options::CACHE_SHIFT | 7,
            cache_limit: 1 << 20,
            ..counting(&[])
        };
        let plan = Plan::of(&words);
        assert_eq!((plan.threshold, plan.watched), (1, false));
        assert!(plan.far && plan.guarded);
        assert_eq!(plan.cache_limit, 3 * 4096);
        assert_eq!(plan.config.max_insns, 7);
        let usual = Words { stress: 0, ..words };
        assert_eq!(Plan::of(&usual).cache_limit, 1 << 20);
        assert_eq!(Plan::of(&usual).config.max_insns, MAX_INSNS);
    }

    #[test]
    fn memory_is_shared_unless_one_thread_is_known_to_be_alone() {
        let shared = |threads, alone| {
            let words = Words {
                threads,
                alone,
                ..Words::default()
            };
            Plan::of(&words).shared_memory
        };
        // A process that is about to start has one thread.
        assert!(!shared(0, false));
        assert!(!shared(1, true));
        assert!(shared(1, false));
        assert!(shared(2, true));
    }
}
