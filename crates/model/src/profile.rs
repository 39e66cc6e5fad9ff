//! The profile hardware beside the core: control table, networks, buffers, query engine, queues (sections 3.4 and 4).
//!
//! # What happens when
//! * *Dispatch.* Each instruction whose class has an entry counts it down. One that is selected needs a buffer for its
//!   record, and a network that carries information there; where one is missing dispatch stalls, and so does all
//!   after it. Cycles in which it does are what `every auto` has a budget of, as section 6.2 suggests.
//! * *Retirement.* The network is free. The record is complete and waits for the query engine.
//! * *End of the query.* The buffer is free, when the last message has left it.
//!
//! A *cheap* profile (section 6.3) holds only what is known when the instruction retires, and takes a buffer but no
//! network.
//!
//! # Decisions
//! * An instruction that causes an event is known late: its record takes a buffer at retirement and no network. If there
//!   is no free one it is lost and counted; waiting could wait for ever, for buffers that younger instructions hold.
//! * After `interrupt sync` retirement waits until the query has ended, from the retirement of the instruction on.
//! * A pair ([`trommel_query::pair`]) is chosen as single executions are, each of both when it comes to dispatch. When the first has
//!   retired, a latch beside the control table keeps its record, and its buffer is free. So the second can always have one.
//! * What is free is free from the next cycle on.

use trommel_query::engine::Log;
use trommel_query::pair::Member;
use trommel_query::record::misc;
use trommel_query::throttle::{Rehearsal, Throttle};
use trommel_query::{
    Class, ENTRIES, Engine, Entry, Facts, Field, FieldSet, MAX_INSTRUCTIONS, Operation, Program,
    QueryPc, Rate, Record, Subject,
};

use crate::barrel::{Barrel, Detail, Filled, synchronous};
use crate::instruction::Instruction;
use crate::parameters::{Cheap, Parameters, WrongPaths};
use crate::queue::Queue;
use crate::service::{Processor, Service};
use crate::trace::{Execution, FIELDS};

/// Service processors, as of Table 5.
pub const PROCESSORS: usize = 3;

/// The number of the only thread.
pub const THREAD: u64 = 1;

/// A profiled execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selected {
    entry: Entry,
    start: QueryPc,
    fields: FieldSet,
    cheap: bool,
    stands_for: u64,
    /// Its part in a record.
    member: Member,
}

/// Resources that dispatch waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// A profile network.
    Network,
    /// A profile buffer.
    Buffer,
}

/// Figures of the profile hardware.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFigures {
    /// Executions that were profiled, events included.
    pub records: u64,
    /// Records of events for which there was no buffer.
    pub lost: u64,
    /// Cycles in which so many networks were in use, and so many buffers.
    pub networks: Vec<u64>,
    /// Likewise.
    pub buffers: Vec<u64>,
    /// Interrupts.
    pub interrupts: u64,
}

/// Executions of what an entry is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The entry.
    pub entry: Entry,
    /// Executions up to the last of which a record was made.
    pub executed: u64,
    /// Records made.
    pub profiled: u64,
    /// The rate at the end.
    pub rate: Rate,
    /// True if the rate follows from a budget.
    pub throttled: bool,
}

/// Queries that are loaded into the profile hardware, by SET_PCR instructions of software (section 3.4).
#[derive(Clone, Copy, Debug)]
pub struct Load<'q> {
    /// Instructions that retire before.
    pub after: u64,
    /// The queries.
    pub queries: &'q Program,
}

/// Answers of one load of queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// Everything that the queries did, in the order in which it happened, where that was asked for.
    pub log: Option<Log>,
    /// Details of it, in the same order.
    pub details: Vec<Detail>,
    /// Executions of what the entries of the queries are about.
    pub seen: Vec<Seen>,
    /// By query instruction: queries that begin there and did something, and executions that counted records stand for.
    pub acted: [Vec<u64>; 2],
}

/// Owners of the rates of `every auto`.
enum Rates {
    /// Nothing asks for one.
    Fixed,
    /// Stalls.
    Throttled(Box<Throttle>),
    /// A test.
    Rehearsed(Box<Rehearsal>),
}

impl Rates {
    /// Those of queries that are loaded at a time.
    fn of(program: &Program, parameters: &Parameters, now: u64) -> Self {
        let period = parameters.profiling.period;
        match Throttle::new(program, period, now) {
            None => Self::Fixed,
            Some(_) if period == 0 => Self::Rehearsed(Box::default()),
            Some(throttle) => Self::Throttled(Box::new(throttle)),
        }
    }
}

/// The hardware.
pub struct Unit<'p> {
    program: &'p Program,
    engine: Engine<'p>,
    rates: Rates,
    /// For each query instruction, whether its query can interrupt synchronously.
    synchronous: Vec<bool>,
    parameters: Parameters,
    networks: usize,
    buffers: usize,
    /// Queries that retirement waits for.
    awaited: usize,
    /// Records made, by entry.
    profiled: [u64; ENTRIES],
    /// Executions so far, and up to the last record, by entry.
    offered: [[u64; 2]; ENTRIES],
    /// The query engine.
    pub barrel: Barrel,
    /// The queues, by number.
    pub queues: Vec<Option<Queue>>,
    /// The service processors.
    pub processors: Vec<Processor>,
    /// Figures so far.
    pub counts: ProfileFigures,
}

impl<'p> Unit<'p> {
    /// Idle hardware, loaded with a program of queries, and for each service processor its threads.
    pub fn new(program: &'p Program, parameters: Parameters, services: &[&[Service]]) -> Self {
        let profiling = parameters.profiling;
        let queue = |n: u8| {
            let served = services.iter().copied().flatten().any(|s| s.0 == n);
            Some(Queue::new(n, profiling.queue, served))
        };
        Self {
            program,
            engine: Engine::new(program, profiling.seed),
            rates: Rates::of(program, &parameters, 0),
            synchronous: synchronous(program),
            parameters,
            networks: 0,
            buffers: 0,
            awaited: 0,
            profiled: [0; ENTRIES],
            offered: [[0; 2]; ENTRIES],
            barrel: Barrel::new(
                profiling.engine,
                profiling.message,
                parameters.service.round_trip,
            ),
            queues: (0..=u8::MAX).map(queue).collect(),
            processors: services
                .iter()
                .take(PROCESSORS)
                .map(|services| Processor::new(parameters.service, services))
                .collect(),
            counts: ProfileFigures {
                networks: vec![0; profiling.networks + 1],
                buffers: vec![0; profiling.buffers + 1],
                ..ProfileFigures::default()
            },
        }
    }

    /// Returns true if executions of this instruction are counted at all.
    pub fn concerns(&self, instruction: &Instruction) -> bool {
        class_of(instruction).is_some_and(|entry| self.program.table().get(entry).is_some())
    }

    /// An instruction comes to dispatch: whether it is profiled. To be asked once.
    pub fn select(&mut self, instruction: &Instruction) -> Option<Selected> {
        let entry = class_of(instruction)?;
        self.program.table().get(entry)?;
        let (member, stands_for) = self.sample(entry)?;
        self.selected(instruction, entry, member, stands_for)
    }

    /// An instruction of a wrong path comes to dispatch. It is counted down for, and among the executions only if it makes records.
    pub fn select_astray(&mut self, instruction: &Instruction) -> Option<Selected> {
        if self.parameters.core.wrong_paths == WrongPaths::Profiled {
            return self.select(instruction);
        }
        let entry = class_of(instruction)?;
        self.program.table().get(entry)?;
        let member = self.engine.draw(entry)?;
        self.selected(instruction, entry, member, 0)
    }

    fn selected(
        &self,
        instruction: &Instruction,
        entry: Entry,
        member: Member,
        stands_for: u64,
    ) -> Option<Selected> {
        let control = self.program.table().get(entry)?;
        let (start, fields) = (control.start, control.fields);
        let cheap = is_cheap(self.parameters.profiling.cheap, instruction, fields);
        Some(Selected {
            entry,
            start,
            fields,
            cheap,
            stands_for,
            member,
        })
    }

    /// The part that an execution has in a record, if one is made; the next one may be at another rate.
    fn sample(&mut self, entry: Entry) -> Option<(Member, u64)> {
        let executed = self.engine.passed(entry) + 1;
        let counted = self.program.leader(entry).number();
        self.offered[counted][0] += 1;
        let stands_for = self.engine.rate(entry).one_in().into();
        let member = self.engine.draw(entry)?;
        let [offered, up_to] = &mut self.offered[counted];
        *up_to = *offered;
        match &mut self.rates {
            Rates::Fixed => {}
            Rates::Throttled(throttle) => throttle.record(entry, executed),
            Rates::Rehearsed(rehearsal) => self.engine.pace(entry, rehearsal.next(entry)),
        }
        Some((member, stands_for))
    }

    /// Takes what a profiled instruction needs. To be asked once a cycle, until there is all.
    ///
    /// # Errors
    /// What there is none of.
    pub fn admit(&mut self, selected: &Selected) -> Result<(), Lack> {
        let profiling = &self.parameters.profiling;
        let lack = if !selected.cheap && self.networks == profiling.networks {
            Some(Lack::Network)
        } else if self.buffers == profiling.buffers {
            Some(Lack::Buffer)
        } else {
            None
        };
        if let Some(lack) = lack {
            if let Rates::Throttled(throttle) = &mut self.rates {
                throttle.spend(selected.entry, 1);
            }
            return Err(lack);
        }
        self.networks += usize::from(!selected.cheap);
        self.buffers += 1;
        self.counts.records += 1;
        Ok(())
    }

    /// Returns true if retirement waits for the end of its query.
    pub fn is_synchronous(&self, selected: &Selected) -> bool {
        // The first of a pair has no query.
        !matches!(selected.member, Member::First(_))
            && self.synchronous.get(selected.start.number()) == Some(&true)
    }

    /// A profiled instruction has retired.
    pub fn retire(&mut self, selected: &Selected, facts: &Facts) {
        self.networks -= usize::from(!selected.cheap);
        let Selected { entry, start, .. } = *selected;
        let record = Record::pack(facts, selected.fields);
        self.complete(entry, selected.member, record, start, selected.stands_for);
    }

    /// A profiled instruction was squashed, and makes no record.
    pub fn squash(&mut self, selected: &Selected) {
        self.networks -= usize::from(!selected.cheap);
        self.buffers -= 1;
    }

    /// The record of an execution is complete, in its buffer.
    fn complete(
        &mut self,
        entry: Entry,
        member: Member,
        record: Record,
        start: QueryPc,
        stands_for: u64,
    ) {
        match self.engine.join(entry, member, &record) {
            Some(record) => {
                self.profiled[self.program.leader(entry).number()] += 1;
                self.fill(start, record, stands_for);
            }
            None => self.buffers -= 1,
        }
    }

    /// An instruction has retired that caused an event.
    pub fn event(&mut self, event: trommel_query::Event, facts: &Facts) {
        let entry = Entry::of(Subject::Event(event));
        let Some(control) = self.program.table().get(entry) else {
            return;
        };
        let Some((member, stands_for)) = self.sample(entry) else {
            return;
        };
        if self.buffers == self.parameters.profiling.buffers {
            self.counts.lost += 1;
            return;
        }
        self.buffers += 1;
        self.counts.records += 1;
        let record = Record::pack(facts, control.fields);
        self.complete(entry, member, record, control.start, stands_for);
    }

    fn fill(&mut self, start: QueryPc, record: Record, stands_for: u64) {
        let synchronous = self.synchronous.get(start.number()) == Some(&true);
        self.awaited += usize::from(synchronous);
        self.barrel.add(Filled {
            start,
            record,
            synchronous,
            stands_for,
        });
    }

    /// Returns true if retirement waits for a query.
    pub const fn holds_retirement(&self) -> bool {
        self.awaited > 0
    }

    /// Ends a cycle: counts what is in use, and lets the query engine and the service processors do theirs. Returns
    /// the cycles for which the program is interrupted.
    pub fn cycle(&mut self, now: u64) -> u64 {
        self.counts.networks[self.networks] += 1;
        self.counts.buffers[self.buffers] += 1;
        let done = (self.barrel).cycle(now, &mut self.engine, &mut self.queues);
        self.buffers -= done.buffers;
        self.awaited -= done.synchronous;
        for processor in &mut self.processors {
            processor.cycle(now, &mut self.queues);
        }
        if let Rates::Throttled(throttle) = &mut self.rates
            && throttle.is_due(now)
        {
            throttle.adjust(now, &mut self.engine);
        }
        self.counts.interrupts += done.interrupts;
        done.interrupts * u64::from(self.parameters.profiling.interrupt)
    }

    /// Returns true if all queries have ended.
    pub fn is_idle(&self) -> bool {
        self.barrel.is_idle()
    }

    /// The queries that are loaded.
    pub const fn program(&self) -> &'p Program {
        self.program
    }

    /// Loads other queries, in idle hardware. Returns the answers of those before.
    pub fn load(&mut self, program: &'p Program, now: u64) -> Answers {
        let answers = self.finish();
        self.program = program;
        self.engine = Engine::new(program, self.parameters.profiling.seed);
        self.rates = Rates::of(program, &self.parameters, now);
        self.synchronous = synchronous(program);
        (self.profiled, self.offered) = ([0; ENTRIES], [[0; 2]; ENTRIES]);
        answers
    }

    /// Ends the queries that are loaded, and reports counts of clauses that were not reported yet.
    pub fn finish(&mut self) -> Answers {
        let mut log = Log::default();
        self.engine.finish(&mut log);
        let seen = self.seen();
        let barrel = &mut self.barrel;
        if let Some(all) = &mut barrel.log {
            let detail = Detail {
                stands_for: 0,
                dropped: false,
            };
            barrel.details.extend(log.0.iter().map(|_| detail));
            all.0.extend(log.0);
        }
        let none = || vec![0; MAX_INSTRUCTIONS];
        Answers {
            log: barrel.log.as_mut().map(std::mem::take),
            details: std::mem::take(&mut barrel.details),
            seen,
            acted: [
                std::mem::replace(&mut barrel.acted, none()),
                std::mem::replace(&mut barrel.counted_for, none()),
            ],
        }
    }

    /// Executions of what each entry of the program is about, those profiled, and the rate at the end.
    fn seen(&self) -> Vec<Seen> {
        let entries = self.program.table().entries();
        let seen = entries.map(|(entry, control)| Seen {
            entry,
            executed: self.offered[entry.number()][1],
            profiled: self.profiled[entry.number()],
            rate: self.engine.rate(entry),
            throttled: control.sampling.rate().is_none(),
        });
        seen.collect()
    }
}

fn class_of(instruction: &Instruction) -> Option<Entry> {
    let class = Class::new(instruction.operation, instruction.tag)?;
    Some(Entry::of(Subject::Class(class)))
}

/// Returns true if all of `fields` is there when the instruction retires.
fn is_cheap(cheap: Cheap, instruction: &Instruction, fields: FieldSet) -> bool {
    use Field as F;
    let operation = instruction.operation;
    let transfers = operation.is_transfer();
    fields.iter().all(|field| match field {
        _ if cheap == Cheap::Nothing => false,
        F::Pc | F::Thread | F::Misc | F::Res2 | F::RetireTime | F::RetireRate => true,
        F::Res1 => transfers,
        F::Op1 | F::Op1Up => cheap == Cheap::Stores && operation == Operation::Store,
        // The parts of a store's address: their sum is.
        F::Op2 | F::Op3 => cheap == Cheap::Stores && operation == Operation::Store,
        _ => false,
    })
}

/// Returns what is known of an execution apart from its times.
pub fn facts_of(instruction: &Instruction, execution: &Execution, mispredicted: bool) -> Facts {
    let mut facts = Facts::NONE
        .with(Field::Pc, instruction.pc)
        .with(Field::Thread, THREAD);
    for (field, word) in FIELDS.into_iter().zip(execution.words) {
        facts = facts.with(field, word);
    }
    let taken = if execution.taken { misc::TAKEN } else { 0 };
    let wrong = if mispredicted { misc::MISPREDICTED } else { 0 };
    facts.with(Field::Misc, taken | wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::InstructionInfoFactory;

    #[test]
    fn cheap_is_what_is_there_at_retirement() {
        let decode =
            |bytes: &[u8]| Instruction::decode(&mut InstructionInfoFactory::new(), 0, bytes);
        let (branch, load) = (decode(&[0x74, 0]), decode(&[0x48, 0x8b, 0x07]));
        let store = decode(&[0x48, 0x89, 0x07]);
        use Cheap::{Nothing, Retirement, Stores};
        use Field as F;
        let cases: [(&Instruction, &[Field], [bool; 3]); 7] = [
            (&branch, &[F::Pc, F::Misc], [false, true, true]),
            (&branch, &[F::Pc, F::Res1], [false, true, true]),
            (&load, &[F::Pc, F::Res2], [false, true, true]),
            (&load, &[F::Res1], [false, false, false]),
            (&load, &[F::Pc, F::IssueRate], [false, false, false]),
            (&store, &[F::Op1, F::Op2, F::Op3], [false, false, true]),
            (&store, &[F::Pc, F::RetireRate], [false, true, true]),
        ];
        for (instruction, fields, expected) in cases {
            let fields: FieldSet = fields.iter().copied().collect();
            let is = [Nothing, Retirement, Stores].map(|c| is_cheap(c, instruction, fields));
            assert_eq!(is, expected, "{:?} {fields:?}", instruction.operation);
        }
    }
}
