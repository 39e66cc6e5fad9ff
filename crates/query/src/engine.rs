//! The reference interpreter: what a program means (section 3.4).
//!
//! Problem: the same queries are executed by generated code around the selected instructions and by a
//! model of the paper's hardware. Both are compared with this one, message by message, so it says
//! exactly what happens, and nothing about when.
//!
//! # One execution
//! For each execution of an instruction, in the order of the thread, [`Engine::offer`] is called once for
//! its class and once more for each event that it caused, classes first, with all that is known about it.
//!
//! 1. *Sampling.* Each table entry that is profiled has a countdown. It is decremented; at 0 the execution
//!    is profiled, and a new countdown is drawn uniformly from 1 to 2N − 1. Its mean is N. (ProfileMe, from
//!    which the paper takes simple random sampling, resets a counter to random values in the same way. The
//!    cost of an execution that is not profiled is a decrement.) Of `always` every execution is profiled.
//!    Of `every auto` N is 1 until another one is put in force ([`Engine::pace`]), and the countdown is drawn from a geometric
//!    distribution of mean N: each execution is profiled with probability 1/N ([`crate::throttle`] says why).
//!    In a query on pairs all entries share the countdown and the generator of the first of them. At 0 the execution is the first of a
//!    pair, or the second, by turns ([`crate::pair`]). For a first its distance is drawn, for a second what is left to the next first.
//! 2. *Record.* The fields of the entry are packed ([`Record::pack`]). That of a first waits for the second; both make one record.
//! 3. *Query.* Instructions are executed from the entry's query PC on ([`Engine::step`]) until one stops.
//!
//! # One instruction
//! Both comparisons are made; a filter draws each time that its instruction is executed, whatever the other
//! comparison says. If both succeed, the action is done, then the query goes on as after a match;
//! otherwise it goes on as otherwise.
//!
//! * `send`: the n-th message of the instruction, n from 0, goes to queue `first + n mod count`.
//! * `count`: the counter, 12 bits, is incremented. At [`NEARLY_FULL`], close to overflowing, the thread is
//!   interrupted, which reads the counter and sets it to 0 ([`Sink::counted`]). What is left in
//!   counters at the end is reported by [`Engine::finish`]: sums are exact.
//! * `interrupt`: the sink is told. With `sync` the thread goes on when the query has ended.
//!
//! # Randomness
//! Each table entry and each filter has a generator of its own (splitmix64), seeded by the engine's seed and
//! its number. So what is drawn does not depend on how the executions of different queries interleave,
//! which a model of parallel hardware may change. A filter of n succeeds when the top log2(n) bits of a
//! draw are 0.
//!
//! # Whose state
//! An engine is the state of one thread: countdowns, generators, counters and the n of `send` are its own.
//! Threads have different seeds ([`thread_seed`]).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use trommel_compress::random::SplitMix64;

use crate::class::{ENTRIES, Entry};
use crate::instruction::{Action, COUNTER_BITS, Comparison, Next, Queues};
use crate::pair::{Member, Pairs};
use crate::pc::QueryPc;
use crate::program::Program;
use crate::rate::{Rate, Sampling};
use crate::record::{Facts, Record};

/// The value of a counter at which it is read and set to 0: 15/16 of its range.
pub const NEARLY_FULL: u16 = 15 << (COUNTER_BITS - 4);

/// The seed of the engine of a thread, of those of a run with `seed`. Threads are numbered from 1.
pub const fn thread_seed(seed: u64, thread: u32) -> u64 {
    SplitMix64::apart(seed.wrapping_add(thread as u64), *b"rpathrd\0").draw()
}

/// A receiver of the actions of queries.
pub trait Sink {
    /// A record for a queue. `at` is the instruction that sends it, `drop` what to do when the queue is
    /// full: drop and count the message, or wait.
    fn message(&mut self, at: QueryPc, queue: u8, record: &Record, drop: bool);
    /// The profiled thread is interrupted; with `sync` it goes on when the query has ended.
    fn interrupt(&mut self, at: QueryPc, record: &Record, sync: bool);
    /// The counter of the instruction `at` counted `records` since it was read last.
    fn counted(&mut self, at: QueryPc, records: u64);
}

/// The state of one thread that executes under a program's queries.
#[derive(Clone, Debug)]
pub struct Engine<'p> {
    program: &'p Program,
    sampling: [Sampler; ENTRIES],
    /// By entry, the number of the one whose countdown counts its executions.
    leaders: [u8; ENTRIES],
    state: Vec<State>,
}

#[derive(Clone, Debug)]
struct Sampler {
    random: SplitMix64,
    sampling: Sampling,
    /// In force.
    rate: Rate,
    drawn: u64,
    left: u64,
    /// Pairs, if profiled executions are of pairs.
    pairs: Option<Box<Pairs>>,
}

/// State of an instruction.
#[derive(Clone, Debug)]
struct State {
    filters: [SplitMix64; 2],
    counter: u16,
    sent: u8,
}

impl<'p> Engine<'p> {
    /// A thread that has executed nothing yet.
    pub fn new(program: &'p Program, seed: u64) -> Self {
        let stream = |what: u8, number: usize, part: u8| {
            let purpose = [b'r', b'p', b'a', what, number as u8, part, 0, 0];
            SplitMix64::apart(seed, purpose)
        };
        let mut sampling = [0; ENTRIES].map(|_| Sampler {
            random: SplitMix64::new(0),
            sampling: Sampling::ALWAYS,
            rate: Rate::ALWAYS,
            drawn: 0,
            left: 0,
            pairs: None,
        });
        let mut leaders: [u8; ENTRIES] = core::array::from_fn(|number| number as u8);
        for (entry, control) in program.table().entries() {
            let sampler = &mut sampling[entry.number()];
            sampler.random = stream(b'e', entry.number(), 0);
            sampler.sampling = control.sampling;
            sampler.rate = control.sampling.rate().unwrap_or(Rate::ALWAYS);
            sampler.reset();
            sampler.pairs = control.pair.map(|within| Box::new(Pairs::new(within)));
            leaders[entry.number()] = program.leader(entry).number() as u8;
        }
        let state = |at| State {
            filters: [stream(b'f', at, 0), stream(b'f', at, 1)],
            counter: 0,
            sent: 0,
        };
        Self {
            program,
            sampling,
            leaders,
            state: (0..program.code().len()).map(state).collect(),
        }
    }

    /// The thread is in the midst of its work, of which only parts are seen: first countdowns are drawn so that each execution that
    /// is seen is profiled with probability 1/N. Those of a thread's start are longer in the mean, which the executions after them make good.
    #[must_use]
    pub fn amid(mut self) -> Self {
        for sampler in &mut self.sampling {
            sampler.begin_amid();
        }
        self
    }

    /// One execution of an instruction of the class, or of one that caused the event, `entry`.
    pub fn offer(&mut self, entry: Entry, facts: &Facts, sink: &mut impl Sink) {
        if let Some((start, record)) = self.select(entry, facts) {
            self.query(start, &record, sink);
        }
    }

    /// Sampling and the record: steps 1 and 2. Returns where the query starts.
    pub fn select(&mut self, entry: Entry, facts: &Facts) -> Option<(QueryPc, Record)> {
        let control = self.program.table().get(entry)?;
        let member = self.draw(entry)?;
        let record = self.join(entry, member, &Record::pack(facts, control.fields))?;
        Some((control.start, record))
    }

    /// Sampling alone: the part that the execution has in a record, if it is profiled.
    pub fn draw(&mut self, entry: Entry) -> Option<Member> {
        self.program.table().get(entry)?;
        self.sampler_mut(entry).draw()
    }

    /// The record that a query is about, when the last of its executions is there. Records of an entry come in the order of their
    /// executions; that of an execution which made none is left out.
    pub fn join(&mut self, entry: Entry, member: Member, record: &Record) -> Option<Record> {
        let fields = self.program.table().get(entry)?.fields.len();
        match &mut self.sampler_mut(entry).pairs {
            None => Some(*record),
            Some(pairs) => pairs.join(member, record, fields),
        }
    }

    fn sampler(&self, entry: Entry) -> &Sampler {
        &self.sampling[usize::from(self.leaders[entry.number()])]
    }

    fn sampler_mut(&mut self, entry: Entry) -> &mut Sampler {
        &mut self.sampling[usize::from(self.leaders[entry.number()])]
    }

    /// Executions up to the next that is profiled, that one included, of an entry that is sampled (of pairs, of all entries of the
    /// query). Who counts them down by itself, in place of [`Self::offer`], calls [`Self::profiled`] when they come to 0.
    pub fn countdown(&self, entry: Entry) -> Option<u64> {
        let control = self.program.table().get(entry)?;
        (control.sampling != Sampling::ALWAYS).then(|| self.sampler(entry).left)
    }

    /// The execution that a countdown led to: draws the next countdown. Returns the part that it has in a record.
    pub fn profiled(&mut self, entry: Entry) -> Option<Member> {
        self.program.table().get(entry)?;
        Some(self.sampler_mut(entry).profile())
    }

    /// Executions of an entry since its countdown was drawn.
    pub fn passed(&self, entry: Entry) -> u64 {
        let sampler = self.sampler(entry);
        sampler.drawn - sampler.left
    }

    /// The rate in force: a record that is made at it stands for N executions.
    pub fn rate(&self, entry: Entry) -> Rate {
        self.sampler(entry).rate
    }

    /// Puts a rate in force for an entry of `every auto`, by another countdown.
    pub fn pace(&mut self, entry: Entry, rate: Rate) {
        let sampler = self.sampler_mut(entry);
        if sampler.sampling.rate().is_none() && sampler.rate != rate {
            sampler.rate = rate;
            sampler.reset();
        }
    }

    /// Returns what an instruction has counted and not reported. The call reports it, and counting starts anew.
    pub fn take_counted(&mut self, pc: QueryPc) -> u16 {
        let state = self.state.get_mut(pc.number());
        state.map_or(0, |s| core::mem::take(&mut s.counter))
    }

    /// Step 3.
    pub fn query(&mut self, start: QueryPc, record: &Record, sink: &mut impl Sink) {
        let mut at = Some(start);
        while let Some(pc) = at {
            at = self.step(pc, record, sink);
        }
    }

    /// Executes one query instruction and says where the query goes on. A `pc` outside the program
    /// ends it.
    pub fn step(&mut self, pc: QueryPc, record: &Record, sink: &mut impl Sink) -> Option<QueryPc> {
        let instruction = self.program.code().get(pc.number())?;
        let state = &mut self.state[pc.number()];
        let word = |number: u8| record.0.get(usize::from(number)).copied().unwrap_or(0);
        let values = [
            word(2 * instruction.even.word),
            word(2 * instruction.odd.word + 1),
        ];
        let mut holds = |bank: usize, comparison: Comparison| {
            let random = &mut state.filters[bank];
            let pass = |n: u8| random.draw() >> (64 - u32::from(n)) == 0;
            let (own, other) = (values[bank], values[1 - bank]);
            comparison
                .test
                .holds(own, instruction.immediate, other, pass)
        };
        let even = holds(0, instruction.even);
        let odd = holds(1, instruction.odd);
        let next = if even && odd {
            state.act(pc, instruction.action, record, sink);
            instruction.matched
        } else {
            instruction.otherwise
        };
        match next {
            Next::Continue => QueryPc::new(pc.number() + 1),
            Next::Branch => Some(instruction.target),
            Next::Stop => None,
        }
    }

    /// Reports what is left in counters, which are 0 afterwards.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        for (number, state) in self.state.iter_mut().enumerate() {
            if state.counter != 0
                && let Some(pc) = QueryPc::new(number)
            {
                sink.counted(pc, u64::from(core::mem::take(&mut state.counter)));
            }
        }
    }

    /// The counter embedded in an instruction, as it stands.
    pub fn counter(&self, pc: QueryPc) -> u16 {
        self.state.get(pc.number()).map_or(0, |s| s.counter)
    }
}

impl Sampler {
    /// One execution. Returns its part in a record, if it is profiled.
    fn draw(&mut self) -> Option<Member> {
        self.left -= 1;
        (self.left == 0).then(|| self.profile())
    }

    /// A profiled execution: draws the next countdown.
    fn profile(&mut self) -> Member {
        let Some(pairs) = &mut self.pairs else {
            self.reset();
            return Member::Alone;
        };
        let (random, n) = (&mut self.random, u64::from(self.rate.one_in()));
        let (member, left) = pairs.profile(n, |bound| random.below(bound));
        (self.drawn, self.left) = (left, left);
        member
    }

    /// Draws a countdown: for N = 1 that is 1, and nothing need be drawn.
    fn reset(&mut self) {
        let n = u64::from(self.rate.one_in());
        self.drawn = match self.sampling {
            _ if n == 1 => 1,
            Sampling::Every(_) => 1 + self.random.below(2 * n - 1),
            Sampling::Auto(_) => 1 + failures(&mut self.random, n),
        };
        self.left = self.drawn;
    }
}

impl Sampler {
    /// Draws what is left of a countdown that is under way: uniform countdowns from 1 to 2N − 1 leave k with probability (2N − k) / N(2N − 1).
    /// That is the lesser one of two different numbers from 1 to 2N.
    fn begin_amid(&mut self) {
        let n = u64::from(self.rate.one_in());
        if n == 1 || !matches!(self.sampling, Sampling::Every(_)) {
            return;
        }
        let one = 1 + self.random.below(2 * n);
        let other = 1 + self.random.below(2 * n - 1);
        let other = other + u64::from(other >= one);
        self.drawn = one.min(other);
        self.left = self.drawn;
    }
}

/// Returns how often what succeeds once in `n` times fails before it does: geometric. The binary digits of such a number are
/// independent: with q = 1 − 1/n that of 2^j is 1 with probability Q / (1 + Q), where Q is q to the power of 2^j. Integers only, as the
/// program's modes of rounding may be in force.
fn failures(random: &mut SplitMix64, n: u64) -> u64 {
    let mut failures = 0;
    // Q, of 2^64.
    let mut q = u64::MAX - u64::MAX / n;
    let mut digit = 1;
    while q > 0 {
        let drawn = u128::from(random.draw() >> 1);
        if drawn * ((1 << 64) + u128::from(q)) < u128::from(q) << 63 {
            failures += digit;
        }
        q = ((u128::from(q) * u128::from(q)) >> 64) as u64;
        digit <<= 1;
    }
    failures
}

impl State {
    fn act(&mut self, pc: QueryPc, action: Action, record: &Record, sink: &mut impl Sink) {
        match action {
            Action::None => {}
            Action::Send(Queues { first, count, drop }) => {
                sink.message(pc, first + self.sent, record, drop);
                self.sent = (self.sent + 1) % count;
            }
            Action::Count => {
                self.counter += 1;
                if self.counter == NEARLY_FULL {
                    sink.counted(pc, u64::from(core::mem::take(&mut self.counter)));
                }
            }
            Action::Interrupt { sync } => sink.interrupt(pc, record, sync),
        }
    }
}

/// A sink that keeps everything, for comparing engines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Log(pub Vec<Effect>);

/// Effects of actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// [`Sink::message`]
    Message {
        /// The instruction.
        at: QueryPc,
        /// The queue.
        queue: u8,
        /// The record.
        record: Record,
        /// Says whether it may be dropped.
        drop: bool,
    },
    /// [`Sink::interrupt`]
    Interrupt {
        /// The instruction.
        at: QueryPc,
        /// The record.
        record: Record,
        /// Says whether the thread waits.
        sync: bool,
    },
    /// [`Sink::counted`]
    Counted {
        /// The instruction.
        at: QueryPc,
        /// Records counted.
        records: u64,
    },
}

impl Sink for Log {
    fn message(&mut self, at: QueryPc, queue: u8, record: &Record, drop: bool) {
        let record = *record;
        self.0.push(Effect::Message {
            at,
            queue,
            record,
            drop,
        });
    }

    fn interrupt(&mut self, at: QueryPc, record: &Record, sync: bool) {
        let record = *record;
        self.0.push(Effect::Interrupt { at, record, sync });
    }

    fn counted(&mut self, at: QueryPc, records: u64) {
        self.0.push(Effect::Counted { at, records });
    }
}

impl Log {
    /// Returns the number of records each instruction counted.
    pub fn counts(&self, program: &Program) -> Vec<u64> {
        let mut counts = vec![0; program.code().len()];
        for effect in &self.0 {
            if let Effect::Counted { at, records } = effect {
                counts[at.number()] += records;
            }
        }
        counts
    }
}
