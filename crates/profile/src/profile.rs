//! The profile of one process.

use std::collections::BTreeMap;

use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

use crate::call_tree::{Basis, CallTree};
use crate::filter::Filter;
use crate::intervals::Intervals;
use crate::queries::Queries;
use crate::samples::{Function, Samples};
use crate::simulated::Simulated;
use crate::windows::Windows;

/// One observed process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Profile {
    /// The process.
    pub origin: Origin,
    /// The command as typed: program and arguments, as raw bytes.
    pub command: Vec<Vec<u8>>,
    /// The compressor's spec, as its parser prints it; with a filter, ` converge` and its limit after it.
    pub compressor: String,
    /// The counter of the events.
    pub counted: Counted,
    /// Modules in the order of their numbers; entry 0 is `[anon]`.
    pub modules: Vec<Module>,
    /// Events that were collected, per kind.
    pub kinds: BTreeMap<Kind, KindProfile>,
    /// Branch and call sites, with the way in which each transfers control.
    pub sites: BTreeMap<Place, Site>,
    /// Cost and end of the run.
    pub run: Run,
    /// Its threads.
    pub threads: Threads,
    /// Windows that were sampled, where nothing else was seen: counts are estimates then.
    pub windows: Option<Windows>,
    /// Results of relational queries, if any were asked: of each program that was loaded.
    pub queries: Vec<Queries>,
    /// Samples of the whole machine, where nothing else was taken.
    pub samples: Option<Samples>,
    /// Places that were not profiled all the time, as their values were known: counts of these are of what was profiled.
    pub filter: Option<Filter>,
    /// Call paths: one tree for each basis at most, in their order.
    pub call_trees: Vec<CallTree>,
    /// Functions that no file names, of modules `[anon]`, as a runtime that compiles code told them. `start` is a run-time address.
    pub compiled: Vec<Function>,
    /// Recordings that this is the sum of; `None` of a profile as it was recorded.
    pub sum: Option<Sum>,
    /// Results of simulated caches and predictors, and lines that threads share, if they were asked for.
    pub simulated: Option<Simulated>,
    /// Intervals with their candidates, if the compressor has any.
    pub intervals: Option<Intervals>,
    /// Part of the run that was to be observed.
    pub scope: Scope,
    /// Executions of the instructions after calls, where all of them are known: an instruction that is missing was not executed.
    /// Not of code in no file. How often calls came back follows from that.
    pub after_calls: Option<BTreeMap<Place, u64>>,
    /// Times that the kernel led control to an instruction for a signal: the first one of a handler, or that by which one
    /// returns. Empty where these are not counted.
    pub deliveries: BTreeMap<Place, u64>,
}

/// Part of a run that was to be observed. Where observation ended early, [`Run::detach`] has the reasons.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scope {
    /// The program ran already when observation began.
    pub late: bool,
    /// Modules, functions and ranges of addresses that alone were observed, as they were named, in order; none: all code.
    pub only: Vec<String>,
}

impl Scope {
    /// Adds that of another process.
    pub(crate) fn add(&mut self, other: Self) {
        self.late |= other.late;
        self.only.extend(other.only);
        self.only.sort_unstable();
        self.only.dedup();
    }
}

/// Extent of a sum of recordings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// Recordings.
    pub recordings: u64,
    /// Their processes. Each had a compressor of its own.
    pub processes: u64,
}

/// Counters of events: the first that sees each of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Counted {
    /// Trommel's service thread, all threads in one compressor.
    #[default]
    Service,
    /// The program's own generated code, each thread by itself.
    Code,
}

impl Counted {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Service => "in the service thread",
            Self::Code => "in the generated code",
        }
    }
}

/// Identity of a process. One that executes another program is another afterwards, with the same
/// number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// Its number in the kernel.
    pub pid: u32,
    /// The number of the process that started it; 0 for the first one.
    pub parent: u32,
    /// It ended by executing another program, which was observed.
    pub exec: bool,
}

/// The threads of a process, when there was more than one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Threads {
    /// Threads started under control, the first one included; 0 when there was only that.
    pub started: u64,
    /// Threads that produced events, by number.
    pub each: Vec<Thread>,
}

/// Events of one thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Thread {
    /// In the order in which they were started, from 1.
    pub number: u32,
    /// The kernel's id of it.
    pub tid: u32,
    /// Its share of [`KindProfile::seen`], per kind.
    pub seen: BTreeMap<Kind, u64>,
}

/// A file mapped as code, or a special region such as `[vdso]`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Module {
    /// The number that places refer to.
    pub id: ModuleId,
    /// Path at run time (raw bytes are kept as lossless as `OsStr` on Linux), or `[anon]`, `[vdso]`.
    pub path: Vec<u8>,
    /// GNU build id; empty where the file has none.
    pub build_id: Vec<u8>,
    /// Checksum of the code of a file that has no build id.
    pub code: Option<u32>,
    /// Memory that the module occupied, data included; `None` where that is not known. Values that are
    /// addresses, such as method tables, are named with it.
    pub loaded: Option<Loaded>,
}

/// A build of a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Build {
    /// The path at run time.
    pub path: Vec<u8>,
    /// The build id.
    pub build_id: Vec<u8>,
    /// The checksum of the code, where there is no build id.
    pub code: Option<u32>,
}

impl Module {
    /// The build of the file. Modules of one build are the same code.
    pub fn build(&self) -> Build {
        Build {
            path: self.path.clone(),
            build_id: self.build_id.clone(),
            code: self.code,
        }
    }

    /// The build id in hexadecimal, or `code-` and the checksum of the code; empty where neither is known.
    pub fn build_name(&self) -> String {
        match self.code {
            Some(code) if self.build_id.is_empty() => format!("code-{code:08x}"),
            _ => self.build_id.iter().map(|b| format!("{b:02x}")).collect(),
        }
    }
}

/// The memory that a module occupied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// The first address.
    pub start: u64,
    /// The address after the last one.
    pub end: u64,
    /// Run-time address minus vaddr, modulo 2^64.
    pub bias: u64,
}

impl Profile {
    /// The module of a number. Modules are in the order of their numbers, so this is one step in any profile but a damaged one.
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        let there = self.modules.get(usize::from(id.0));
        let there = there.filter(|module| module.id == id);
        there.or_else(|| self.modules.iter().find(|module| module.id == id))
    }

    /// The call paths of a basis.
    pub fn call_tree(&self, basis: Basis) -> Option<&CallTree> {
        self.call_trees.iter().find(|tree| tree.basis == basis)
    }

    /// The call paths of a basis, to add to.
    pub fn call_tree_mut(&mut self, basis: Basis) -> &mut CallTree {
        let at = self.call_trees.partition_point(|tree| tree.basis < basis);
        if self
            .call_trees
            .get(at)
            .is_none_or(|tree| tree.basis != basis)
        {
            self.call_trees.insert(at, CallTree::new(basis));
        }
        &mut self.call_trees[at]
    }
}

impl Loaded {
    /// The vaddr of a run-time address; `None` outside of the module.
    pub fn vaddr(&self, address: u64) -> Option<Vaddr> {
        let inside = (self.start..self.end).contains(&address);
        inside.then(|| Vaddr(address.wrapping_sub(self.bias)))
    }
}

/// Everything of one kind.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct KindProfile {
    /// Events the program produced.
    pub seen: u64,
    /// Messages the compressor sent.
    pub messages: u64,
    /// Tuples with the number of events each is estimated to stand for (exact under `exact`),
    /// sorted by place, then value.
    pub counts: BTreeMap<Place, Vec<(u64, u64)>>,
}

/// Ways in which an instruction transfers control.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Site {
    /// A conditional branch: its taken target and the instruction after it.
    Conditional {
        /// Destination when taken.
        taken: Place,
        /// Destination when not taken.
        fallthrough: Place,
    },
    /// A jump through a register or memory.
    IndirectJump,
    /// A call with its target in the instruction.
    DirectCall,
    /// A call through a register or memory.
    IndirectCall,
}

impl Site {
    /// Returns how control gets from a site with events of `kind` to `to`, in tables and JSON.
    pub fn way(site: Option<&Self>, kind: Kind, to: Place) -> &'static str {
        match (site, kind) {
            (Some(Self::Conditional { taken, .. }), _) if *taken == to => "taken",
            (Some(Self::Conditional { .. }), _) => "fallthrough",
            (Some(Self::DirectCall), _) => "direct",
            (Some(Self::IndirectJump | Self::IndirectCall), _) => "indirect",
            // Without a record of the site nothing more is known.
            (None, Kind::Call) => "direct",
            (None, _) => "indirect",
        }
    }
}

/// The run itself. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Run {
    /// Wall-clock start, nanoseconds since 1970.
    pub started: u64,
    /// Wall time from the first instruction to the end.
    pub wall: u64,
    /// CPU time of the target (user and system together).
    pub target_cpu: u64,
    /// CPU time that the host spent folding.
    pub host_cpu: u64,
    /// Exit code, or the negative of the terminating signal; `None` when the end was not seen.
    pub status: Option<i32>,
    /// Events lost: rare values that memory was too small for. A full queue loses none, it makes the producer wait.
    pub dropped: u64,
    /// By how much the count of a value may be too low at most, where events were lost.
    pub undercount: u64,
    /// Times the producer found its queue full and waited.
    pub waits: u64,
    /// Time the producer spent waiting.
    pub wait_time: u64,
    /// Reasons why observation ended before the program did (empty: observed to the end).
    pub detach: Vec<String>,
}

impl Profile {
    /// Reasons why executed code may have no counts although all counts are exact; none where the whole run was observed.
    pub fn unobserved(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if !self.scope.only.is_empty() {
            reasons.push(format!("only {} was observed", self.scope.only.join(", ")));
        }
        if self.scope.late {
            reasons.push("it ran already when observation began".to_owned());
        }
        reasons.extend(self.run.detach.iter().cloned());
        reasons
    }
}
