//! The whole machine: a program, its queries, and who reads their answers.

use iced_x86::InstructionInfoFactory;
use trommel_query::engine::Log;
use trommel_query::{Program as Queries, program};

use crate::core::{self, Core};
use crate::instruction::Instruction;
use crate::parameters::Parameters;
use crate::profile::{self, Answers, Load, Unit};
use crate::service::Service;
use crate::trace::{Trace, tags};

/// A recorded program, ready to be run on the machine.
#[derive(Clone, Debug)]
pub struct Program {
    trace: Trace,
    code: Vec<Instruction>,
}

/// Figures of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFigures {
    /// Figures of the core.
    pub core: core::CoreFigures,
    /// Figures of the profile hardware.
    pub profile: profile::ProfileFigures,
    /// Query instructions, turns that waited for a full queue, messages dropped.
    pub engine: [u64; 3],
    /// Messages that service threads read.
    pub served: u64,
    /// The most messages that any queue held.
    pub deepest: u64,
    /// Answers of each load of queries, in order. A load that was not come to has none.
    pub loads: Vec<Answers>,
}

impl RunFigures {
    /// Everything that the queries of the first load did, if it was asked for.
    pub fn log(&self) -> Option<&Log> {
        self.loads.first().and_then(|answers| answers.log.as_ref())
    }

    /// Instructions a cycle.
    pub fn ipc(&self) -> f64 {
        self.core.instructions as f64 / self.core.cycles.max(1) as f64
    }

    /// The part of all cycles in which dispatch was stalled for want of profile hardware.
    pub fn stalled(&self) -> f64 {
        self.core.stalled.iter().sum::<u64>() as f64 / self.core.cycles.max(1) as f64
    }

    /// Returns how much longer this run took than `other`, as a part of that.
    pub fn slowdown(&self, other: &Self) -> f64 {
        self.core.cycles as f64 / other.core.cycles.max(1) as f64 - 1.0
    }

    /// The part of all cycles in which at least `n` of what a histogram counts were in use.
    pub fn at_least(histogram: &[u64], n: usize) -> f64 {
        let all: u64 = histogram.iter().sum();
        let of: u64 = histogram.iter().skip(n).sum();
        of as f64 / all.max(1) as f64
    }
}

impl Program {
    /// Decodes a trace's code, and gives stores of references their tag.
    pub fn new(trace: Trace) -> Self {
        let mut info = InstructionInfoFactory::new();
        let decode = |c: &crate::trace::Code| Instruction::decode(&mut info, c.pc, c.bytes());
        let mut code: Vec<Instruction> = trace.code().iter().map(decode).collect();
        tags::tag_references(&trace, &mut code);
        Self { trace, code }
    }

    /// Decodes a trace's code, with the tags that `tag` gives to addresses.
    pub fn with_tags(trace: Trace, mut tag: impl FnMut(u64) -> u8) -> Self {
        let mut info = InstructionInfoFactory::new();
        let code = trace.code().iter().map(|c| {
            let mut instruction = Instruction::decode(&mut info, c.pc, c.bytes());
            instruction.tag = tag(c.pc);
            instruction
        });
        let code = code.collect();
        Self { trace, code }
    }

    /// The recording.
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Its instructions.
    pub fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// Runs it on a machine, under queries, with service threads.
    pub fn run(
        &self,
        parameters: Parameters,
        queries: &Queries,
        services: &[&[Service]],
        log: bool,
    ) -> RunFigures {
        let first = Load { after: 0, queries };
        self.run_loads(parameters, first, &[], services, log)
    }

    /// Runs it likewise, and loads other queries later, in the order of the list.
    pub fn run_loads<'q>(
        &'q self,
        parameters: Parameters,
        first: Load<'q>,
        later: &[Load<'q>],
        services: &[&[Service]],
        log: bool,
    ) -> RunFigures {
        let mut unit = Unit::new(first.queries, parameters, services);
        unit.barrel.log = log.then(Log::default);
        let mut core = Core::new(parameters.core, &self.code, self.trace.replay(), unit);
        core.loads = later.iter().copied().collect();
        core.run();
        let unit = core.unit;
        RunFigures {
            core: core.counts,
            profile: unit.counts,
            engine: [
                unit.barrel.instructions,
                unit.barrel.blocked,
                unit.barrel.dropped,
            ],
            served: unit.processors.iter().map(|p| p.messages).sum(),
            deepest: (unit.queues.iter().flatten().map(|q| q.deepest).max()).unwrap_or(0),
            loads: core.answers,
        }
    }
}

/// The queries of a text.
///
/// # Panics
/// When it is none.
pub fn queries(text: &str) -> program::Program {
    match trommel_query::assemble(text) {
        Ok(assembly) => assembly.program,
        Err(found) => panic!("the model's own queries: {found:?}"),
    }
}
