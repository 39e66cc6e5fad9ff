//! The service processors: scalar, in order, three threads in turns (section 5.4).
//!
//! # Problem
//! How fast messages are read decides whether queues fill up. Service threads are programs; the paper does not print
//! them, and they run on processors of their own.
//!
//! # Strategy
//! A thread serves one queue. For each message it executes a [`Step`] list, written here as a compiler would make it
//! of the loop that section 5 describes: poll the ready word, read the record, do the work, clear the ready word,
//! and store how many were read, every sixteen messages and when there are no more. Steps are timed on the processor: each cycle one thread
//! that can go on executes one; a load that hits is used two cycles later, a miss takes a round trip, a taken branch
//! costs four cycles more, as there is no prediction. Where there is nothing to read, a thread polls.
//!
//! The third processor runs the garbage collector, which nothing here waits for: with a perfect second level it
//! takes nothing away from anybody, and it is left out.

use std::collections::HashSet;

use crate::cache::{Cache, Lookup};
use crate::parameters::ServiceProcessor;
use crate::queue::Queue;

/// Address of a thread's own data: tables, mark bits, a list of what is to be traced.
const DATA: u64 = 0x20_0000_0000;
/// Messages after which the read status is stored.
const TELL: u64 = 16;
/// Cycles from a load that hits to its use.
const USE: u64 = 2;

/// One instruction of a service thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Computes.
    Alu,
    /// Loads a word of the message; 7 is the ready word.
    Word(u8),
    /// Loads from the thread's own data.
    Load(DataPlace),
    /// Stores there.
    Store(DataPlace),
    /// Clears the ready word.
    Clear,
    /// Stores the read status, where it is time to.
    Tell,
    /// A branch after the next so many steps, taken if the object of a word of the record is marked. It is, from then on.
    IfMarked(u8, usize),
    /// A branch that is not taken.
    Passed,
    /// A branch that is taken.
    Taken,
}

/// A place in the data of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataPlace {
    /// In a table of so many bytes, where the hash of a word of the record says.
    Table(u8, u64),
    /// In a bitmap with a bit for each eight bytes of memory: that of the address in a word of the record.
    Bit(u8),
    /// At the end of a list that is written round a buffer of so many bytes.
    End(u64),
}

/// Tabulates branches: `counts[hash(pc)][outcome] += 1`.
pub const EDGES: &[Step] = {
    use DataPlace::Table;
    use Step::{Alu, Clear, Load, Passed, Store, Taken, Tell, Word};
    const COUNTS: DataPlace = Table(0, 1 << 16);
    &[
        Word(7),
        Passed,
        Word(0),
        Word(1),
        Alu,
        Alu,
        Alu,
        Load(COUNTS),
        Passed,
        Alu,
        Store(COUNTS),
        Clear,
        Alu,
        Alu,
        Tell,
        Taken,
    ]
};

/// A store barrier: an object whose reference was stored is marked and put on the list of those to be traced, if it was
/// not marked before. So most stores of a reference that is stored often take the short way.
pub const BARRIER: &[Step] = {
    use DataPlace::{Bit, End};
    use Step::{Alu, Clear, IfMarked, Load, Passed, Store, Taken, Tell, Word};
    &[
        Word(7),
        Passed,
        Word(0),
        Alu,
        Load(Bit(0)),
        Alu,
        IfMarked(0, 4),
        Alu,
        Store(Bit(0)),
        Store(End(1 << 12)),
        Alu,
        Clear,
        Alu,
        Alu,
        Tell,
        Taken,
    ]
};

/// A service of a queue: its number, and the steps for a message.
pub type Service = (u8, &'static [Step]);

#[derive(Clone, Debug)]
struct Thread {
    queue: u8,
    steps: &'static [Step],
    at: usize,
    ready: u64,
    served: u64,
    words: [u64; 7],
    address: u64,
}

/// A service processor.
#[derive(Clone, Debug)]
pub struct Processor {
    parameters: ServiceProcessor,
    caches: [Cache; 2],
    threads: Vec<Thread>,
    turn: usize,
    /// Objects that are marked, by eight bytes: nothing is at first, as when a collection begins.
    marked: HashSet<u64>,
    /// Instructions executed for messages.
    pub instructions: u64,
    /// Messages served.
    pub messages: u64,
}

impl Processor {
    /// A processor whose threads serve these queues, at most three.
    pub fn new(parameters: ServiceProcessor, services: &[Service]) -> Self {
        let thread = |(queue, steps): &Service| Thread {
            queue: *queue,
            steps,
            at: 0,
            ready: 0,
            served: 0,
            words: [0; 7],
            address: 0,
        };
        Self {
            parameters,
            caches: parameters.caches.map(Cache::new),
            threads: services.iter().map(thread).collect(),
            turn: 0,
            marked: HashSet::new(),
            instructions: 0,
            messages: 0,
        }
    }

    /// Returns true if all threads wait for messages.
    pub fn is_idle(&self) -> bool {
        self.threads.iter().all(|t| t.at == 0)
    }

    /// One cycle: the next thread that can go on executes a step.
    pub fn cycle(&mut self, now: u64, queues: &mut [Option<Queue>]) {
        let n = self.threads.len();
        for offset in 0..n {
            let number = (self.turn + offset) % n;
            if self.threads[number].ready > now {
                continue;
            }
            let at = usize::from(self.threads[number].queue);
            if let Some(Some(queue)) = queues.get_mut(at) {
                self.execute(number, now, queue);
                self.turn = (number + 1) % n;
                return;
            }
            self.threads[number].ready = u64::MAX;
        }
    }

    fn execute(&mut self, number: usize, now: u64, queue: &mut Queue) {
        let thread = &mut self.threads[number];
        if thread.at == 0 {
            let Some((message, address)) = queue.front(now) else {
                // Nothing to do: a good time to say how many were read. Then ready word and branch back, at that rate.
                queue.tell();
                let period = USE + 1 + self.parameters.penalty;
                thread.ready = now + period;
                return;
            };
            thread.words = message.words;
            thread.address = address;
            // What the engine wrote is in no cache. (A message is a line.)
            let data = &mut self.caches[1];
            let line = data.line(address);
            data.drop_line(line);
        }
        // Steps are instructions of four bytes, each thread's in a place of its own.
        let pc = 0x1000 * (number as u64 + 1) + 4 * thread.at as u64;
        let fetch = touch(&mut self.caches[0], pc, now, self.parameters.round_trip);
        if fetch > 0 {
            thread.ready = now + fetch;
            return;
        }
        let step = thread.steps[thread.at];
        let own = DATA + (u64::from(thread.queue) << 28);
        let word = |word: u8| thread.words[usize::from(word % 7)];
        let at = |place: DataPlace| match place {
            DataPlace::Table(number, size) => {
                own + (word(number) ^ word(number) >> 17) % size / 4 * 4
            }
            DataPlace::Bit(number) => own + (word(number) >> 6) % (1 << 27),
            DataPlace::End(size) => own + (1 << 27) + 8 * thread.served % size,
        };
        let (address, uses) = match step {
            Step::Word(word) => (Some(thread.address + 4 * u64::from(word)), true),
            Step::Load(place) => (Some(at(place)), true),
            Step::Store(place) => (Some(at(place)), false),
            Step::Clear => (Some(thread.address + 28), false),
            Step::Tell if thread.served % TELL == TELL - 1 => (Some(queue.status()), false),
            Step::Alu | Step::IfMarked(..) | Step::Passed | Step::Taken | Step::Tell => {
                (None, false)
            }
        };
        let mut time = if uses { USE } else { 1 };
        if let Some(address) = address {
            let wait = touch(
                &mut self.caches[1],
                address,
                now,
                self.parameters.round_trip,
            );
            // Stores go to a buffer.
            time += if uses { wait } else { 0 };
        }
        match step {
            Step::Taken => time += self.parameters.penalty,
            Step::IfMarked(number, skipped) if !self.marked.insert(word(number) >> 3) => {
                time += self.parameters.penalty;
                thread.at += skipped;
            }
            Step::Clear => queue.read(),
            Step::Tell if address.is_some() => queue.tell(),
            _ => {}
        }
        self.instructions += 1;
        thread.ready = now + time;
        thread.at += 1;
        if thread.at == thread.steps.len() {
            thread.at = 0;
            thread.served += 1;
            self.messages += 1;
        }
    }
}

/// Cycles that an access waits; the line is brought in.
fn touch(cache: &mut Cache, address: u64, now: u64, round_trip: u64) -> u64 {
    let line = cache.line(address);
    match cache.look(line, now) {
        Lookup::Hit => 0,
        Lookup::Coming(at) => at - now,
        Lookup::Miss => {
            cache.fill(line, now + round_trip);
            round_trip
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Parameters;
    use crate::queue::Message;

    fn queues(messages: u64) -> Vec<Option<Queue>> {
        let mut queue = Queue::new(0, 128, true);
        for _ in 0..messages {
            queue.write(Message {
                ready: 0,
                words: [0x40_1000; 7],
            });
        }
        vec![Some(queue)]
    }

    /// Cycles until all messages were served.
    fn cycles(processor: &mut Processor, queues: &mut [Option<Queue>], messages: u64) -> u64 {
        let mut now = 0;
        while processor.messages < messages {
            processor.cycle(now, queues);
            now += 1;
            assert!(now < 100_000);
        }
        now
    }

    #[test]
    fn a_message_takes_the_cycles_of_its_steps() {
        use Step::{Alu, Clear, Taken, Word};
        let parameters = Parameters::TABLE_5.service;
        let mut processor = Processor::new(parameters, &[(0, &[Word(7), Alu, Clear, Taken])]);
        // The first instruction misses the instruction cache: 12. The ready word misses: its load is fetched at
        // 12 and used at 12 + 2 + 12 = 26, so the addition is at 26, the store at 27, the branch at 28.
        assert_eq!(cycles(&mut processor, &mut queues(1), 1), 29);
        // The next one starts when the branch has been taken, five cycles after it. Its instructions are there, its
        // message is not: 2 + 12, then 1, 1, and the branch.
        let mut processor = Processor::new(parameters, &[(0, &[Word(7), Alu, Clear, Taken])]);
        assert_eq!(
            cycles(&mut processor, &mut queues(2), 2),
            28 + 5 + 14 + 2 + 1
        );
    }

    #[test]
    fn threads_share_the_pipeline() {
        use Step::{Alu, Clear};
        const STEPS: &[Step] = &[Alu, Alu, Alu, Alu, Alu, Alu, Alu, Clear];
        let parameters = Parameters::TABLE_5.service;
        let alone = cycles(
            &mut Processor::new(parameters, &[(0, STEPS)]),
            &mut queues(50),
            50,
        );
        let mut two = queues(50);
        two.push(two[0].clone());
        let together = cycles(
            &mut Processor::new(parameters, &[(0, STEPS), (1, STEPS)]),
            &mut two,
            100,
        );
        // One instruction a cycle in all.
        assert_eq!(alone, 12 + 8 * 50);
        assert!(
            (2 * 8 * 50..2 * 8 * 50 + 30).contains(&together),
            "{together}"
        );
    }
}
