//! The query engine: a barrel of four queries, a pipeline of four stages (section 3.4.2, Figure 5).
//!
//! # What happens when
//! Each cycle belongs to one of four slots, in turns. In its cycle a slot's query instruction is fetched; it is decoded
//! and reads its two words in the next, compares in the third, and acts and drives the next query PC in the fourth, just
//! before the slot's turn comes again: nothing ever waits for anything. An empty slot takes the oldest record that waits.
//!
//! A message leaves the buffer two words a cycle, one of each bank: four cycles, one message at a time. The slot is
//! free for the next record when its query has ended, the buffer when its last message has been written. A query whose
//! queue is full stays in its slot and tries again when its turn comes.
//!
//! The *table* of section 3.3 is the same with one slot, whose turn is each cycle, and one stage: a record's comparisons are made in the
//! cycle in which it comes. It holds queries of one instruction that sends ([`fits_table`]).
//!
//! # Why it is right
//! What a query instruction does is what the reference interpreter does: [`Engine::step`] is called once for
//! each. The model decides when, and nothing else. The step is made when the instruction is fetched and its effects
//! are put off to the last stage, which changes nothing, as a slot has one instruction in the pipeline at a time.

use std::collections::VecDeque;

use trommel_query::engine::{Effect, Log};
use trommel_query::instruction::Action;
use trommel_query::{Engine, MAX_INSTRUCTIONS, Program, QueryPc, Record};

use crate::parameters::QueryEngine;
use crate::queue::{Message, Queue};

/// Queries executed at a time, and stages of the pipeline.
pub const SLOTS: usize = 4;

/// A record that was filled, with the query that waits for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// First instruction of the query.
    pub start: QueryPc,
    /// The record.
    pub record: Record,
    /// Retirement waits for its end.
    pub synchronous: bool,
    /// Executions that it stands for.
    pub stands_for: u64,
}

/// Details of an effect in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detail {
    /// Executions that the record stands for.
    pub stands_for: u64,
    /// It was a message to a full queue, and dropped.
    pub dropped: bool,
}

#[derive(Clone, Debug)]
struct Running {
    filled: Filled,
    at: Option<QueryPc>,
    /// Effects of the last instruction that have not happened, oldest first.
    pending: VecDeque<Effect>,
    /// Time at which the last message of the query has been written.
    written: u64,
    /// The cycle of the last stage of its instruction.
    acts: u64,
    /// It has done something.
    acted: bool,
}

/// Effects of a cycle of the engine that others have to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Done {
    /// Buffers that are free from now on.
    pub buffers: usize,
    /// Queries for which retirement waited that have ended.
    pub synchronous: usize,
    /// Interrupts of the program.
    pub interrupts: u64,
}

/// The engine.
#[derive(Clone, Debug)]
pub struct Barrel {
    slots: [Option<Running>; SLOTS],
    waiting: VecDeque<Filled>,
    /// Times at which buffers that are being written become free.
    leaving: VecDeque<u64>,
    /// Time at which the next message can be written.
    port: u64,
    message: u64,
    poll: u64,
    /// Slots that take turns.
    turns: u64,
    /// Query instructions executed.
    pub instructions: u64,
    /// Turns in which a full queue was waited for.
    pub blocked: u64,
    /// Messages that were dropped.
    pub dropped: u64,
    /// Everything that queries did, where that is wanted.
    pub log: Option<Log>,
    /// Details of what is in the log, in its order.
    pub details: Vec<Detail>,
    /// By instruction: queries that begin there and did something.
    pub acted: Vec<u64>,
    /// By instruction: executions that counted records stand for.
    pub counted_for: Vec<u64>,
}

impl Barrel {
    /// An idle engine of a kind whose messages take `message` cycles, and an access to memory `poll`.
    pub fn new(kind: QueryEngine, message: u64, poll: u64) -> Self {
        Self {
            slots: [const { None }; SLOTS],
            waiting: VecDeque::new(),
            leaving: VecDeque::new(),
            port: 0,
            message,
            poll,
            turns: match kind {
                QueryEngine::Barrel => SLOTS as u64,
                QueryEngine::Table => 1,
            },
            instructions: 0,
            blocked: 0,
            dropped: 0,
            log: None,
            details: Vec::new(),
            acted: vec![0; MAX_INSTRUCTIONS],
            counted_for: vec![0; MAX_INSTRUCTIONS],
        }
    }

    /// A record has been filled.
    pub fn add(&mut self, filled: Filled) {
        self.waiting.push_back(filled);
    }

    /// Returns true if nothing is left to do.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.leaving.is_empty() && self.slots.iter().all(Option::is_none)
    }

    /// One cycle.
    pub fn cycle(
        &mut self,
        now: u64,
        engine: &mut Engine<'_>,
        queues: &mut [Option<Queue>],
    ) -> Done {
        let mut done = Done::default();
        while self.leaving.front().is_some_and(|at| *at <= now) {
            self.leaving.pop_front();
            done.buffers += 1;
        }
        let turn = (now % self.turns) as usize;
        let mut running = match self.slots[turn].take() {
            Some(running) => running,
            None => match self.waiting.pop_front() {
                Some(filled) => Running {
                    at: Some(filled.start),
                    pending: VecDeque::new(),
                    written: 0,
                    acts: 0,
                    acted: false,
                    filled,
                },
                None => return done,
            },
        };
        if !self.act(&mut running, now, queues, &mut done) {
            self.slots[turn] = Some(running);
            return done;
        }
        let Some(pc) = running.at else {
            done.synchronous += usize::from(running.filled.synchronous);
            // Messages are written one after the other: buffers are freed in that order.
            match running.written {
                at if at > now => self.leaving.push_back(at),
                _ => done.buffers += 1,
            }
            // The slot takes the next record at once.
            if let Some(filled) = self.waiting.pop_front() {
                let next = Running {
                    at: Some(filled.start),
                    pending: VecDeque::new(),
                    written: 0,
                    acts: 0,
                    acted: false,
                    filled,
                };
                self.slots[turn] = Some(self.step(next, filled.start, now, engine));
            }
            return done;
        };
        self.slots[turn] = Some(self.step(running, pc, now, engine));
        done
    }

    /// Executes the instruction at `pc`; its effects come in its last stage.
    fn step(
        &mut self,
        mut running: Running,
        pc: QueryPc,
        now: u64,
        engine: &mut Engine<'_>,
    ) -> Running {
        let mut log = Log::default();
        let before = engine.counter(pc);
        running.at = engine.step(pc, &running.filled.record, &mut log);
        // A counter that is full is read, and begins anew.
        let is_count = |effect: &Effect| matches!(effect, Effect::Counted { .. });
        let counted = engine.counter(pc) != before || log.0.iter().any(is_count);
        if counted && let Some(sum) = self.counted_for.get_mut(pc.number()) {
            *sum += running.filled.stands_for;
        }
        if (counted || !log.0.is_empty()) && !running.acted {
            running.acted = true;
            if let Some(sum) = self.acted.get_mut(running.filled.start.number()) {
                *sum += 1;
            }
        }
        running.acts = now + self.turns - 1;
        self.instructions += 1;
        running.pending.extend(log.0);
        running
    }

    /// Lets what a slot's last instruction did happen. Returns true if all of it has.
    fn act(
        &mut self,
        running: &mut Running,
        now: u64,
        queues: &mut [Option<Queue>],
        done: &mut Done,
    ) -> bool {
        while let Some(effect) = running.pending.front() {
            let mut detail = Detail {
                stands_for: running.filled.stands_for,
                dropped: false,
            };
            match *effect {
                Effect::Message {
                    queue,
                    record,
                    drop,
                    ..
                } => {
                    let room = match queues.get_mut(usize::from(queue)) {
                        Some(Some(queue)) => {
                            let room = queue.has_room(now, self.poll);
                            if room {
                                let from = self.port.max(running.acts + 1);
                                self.port = from + self.message;
                                running.written = self.port;
                                queue.write(Message {
                                    ready: self.port,
                                    words: record.0,
                                });
                            }
                            room
                        }
                        _ => true,
                    };
                    if !room && !drop {
                        self.blocked += 1;
                        return false;
                    }
                    self.dropped += u64::from(!room);
                    detail.dropped = !room;
                }
                Effect::Interrupt { .. } | Effect::Counted { .. } => done.interrupts += 1,
            }
            let effect = running.pending.pop_front();
            if let (Some(log), Some(effect)) = (&mut self.log, effect) {
                log.0.push(effect);
                self.details.push(detail);
            }
        }
        true
    }
}

/// Returns the first query that the table cannot hold: one of several instructions, or that does something else than to send.
pub fn fits_table(program: &Program) -> Result<(), String> {
    for query in program.queries() {
        let fits = match &program.code()[query.code.clone()] {
            [one] => matches!(one.action, Action::None | Action::Send(_)),
            _ => false,
        };
        if !fits {
            return Err(format!(
                "{}: the table holds queries of one instruction that sends: one clause, with two comparisons at most",
                query.header()
            ));
        }
    }
    Ok(())
}

/// For each query instruction, whether its query can interrupt synchronously.
pub fn synchronous(program: &Program) -> Vec<bool> {
    let mut all = vec![false; program.code().len()];
    for query in program.queries() {
        let code = &program.code()[query.code.clone()];
        let any = (code.iter()).any(|i| matches!(i.action, Action::Interrupt { sync: true }));
        all[query.code].fill(any);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::queries;

    /// Cycles at the end of which a buffer became free, for records that come in cycle 0.
    fn freed(text: &str, records: usize, capacity: u64) -> (Vec<u64>, Barrel) {
        freed_by(QueryEngine::Barrel, text, records, capacity)
    }

    fn freed_by(
        kind: QueryEngine,
        text: &str,
        records: usize,
        capacity: u64,
    ) -> (Vec<u64>, Barrel) {
        let program = queries(text);
        let mut engine = Engine::new(&program, 1);
        let mut queues: Vec<Option<Queue>> = vec![None, Some(Queue::new(1, capacity, true))];
        let mut barrel = Barrel::new(kind, 4, 12);
        for n in 0..records {
            barrel.add(Filled {
                start: QueryPc::FIRST,
                record: Record([n as u64; 7]),
                synchronous: false,
                stands_for: 1,
            });
        }
        let mut all = Vec::new();
        for now in 0..200 {
            let done = barrel.cycle(now, &mut engine, &mut queues);
            all.extend(std::iter::repeat_n(now, done.buffers));
            // The reader comes late.
            if now == 99
                && let Some(queue) = &mut queues[1]
            {
                queue.read();
                queue.tell();
            }
        }
        (all, barrel)
    }

    #[test]
    fn queries_take_turns_of_four_cycles() {
        let (all, barrel) = freed("for opALU * always collect pc; stop;", 6, 128);
        assert_eq!(all, [4, 5, 6, 7, 8, 9]);
        assert_eq!((barrel.instructions, barrel.is_idle()), (6, true));
        // Messages leave one after the other, in four cycles each.
        let (all, _) = freed("for opALU * always collect pc; send 1 stop;", 6, 128);
        assert_eq!(all, [8, 12, 16, 20, 24, 28]);
    }

    #[test]
    fn the_table_takes_a_record_in_each_cycle() {
        let table = |text: &str| freed_by(QueryEngine::Table, text, 6, 128);
        let (all, barrel) =
            table("for opALU * always collect pc; if pc > 9 then send 1 stop else stop;");
        assert_eq!(all, [1, 2, 3, 4, 5, 6]);
        assert_eq!((barrel.instructions, barrel.is_idle()), (6, true));
        // Messages leave as from the barrel.
        let (all, barrel) = table("for opALU * always collect pc; send 1 stop;");
        assert_eq!(all, [5, 9, 13, 17, 21, 25]);
        assert!(barrel.is_idle());
    }

    #[test]
    fn the_table_holds_short_queries_that_send() {
        let fits = |text: &str| fits_table(&queries(text)).is_ok();
        let both = "if pc > 4 and op1 = 4 then send 1 stop else stop;";
        for clause in ["send 1 stop;", "send 1 or drop stop;", both, "stop;"] {
            assert!(
                fits(&format!("for opALU * always collect pc op1; {clause}")),
                "{clause}"
            );
        }
        for clause in ["count stop;", "interrupt stop;", "send 1; send 2 stop;"] {
            assert!(
                !fits(&format!("for opALU * always collect pc op1; {clause}")),
                "{clause}"
            );
        }
    }

    #[test]
    fn a_full_queue_keeps_a_query_in_its_slot() {
        // The first message fills the queue. The second query waits in slot 1 and looks, which takes 12 cycles, again and
        // again; when it sees that the message was read its own leaves, in four cycles.
        let (all, barrel) = freed("for opALU * always collect pc; send 1 stop;", 2, 1);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], 8);
        assert!((100..=100 + 16 + 12 + 4).contains(&all[1]), "{all:?}");
        assert!(barrel.blocked >= 20 && barrel.dropped == 0);
        let (all, barrel) = freed("for opALU * always collect pc; send 1 or drop stop;", 2, 1);
        // What is dropped is not written.
        assert_eq!((all, barrel.dropped), (vec![5, 8], 1));
    }
}
