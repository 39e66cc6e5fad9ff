//! Issue: of what is ready the oldest, as units and ports allow; and what waits for it is told when it will be done.

use super::stage::{ISSUE, Reason};
use super::{CALENDAR, Core, NEVER, NOBODY, SOURCES};
use crate::memory::Side;
use trommel_query::Field;

impl Core<'_, '_> {
    pub(super) fn issue(&mut self) {
        let today = self.now as usize % CALENDAR;
        let mut due = std::mem::take(&mut self.calendar[today]);
        while due != 0 {
            let place = due.trailing_zeros() as usize;
            due &= due - 1;
            self.wake(place);
        }
        let (mut issued, mut ports) = (0, 0);
        let mut profiled = None;
        // From the oldest on: places from that of the head up, then those from 0.
        let head = self.place(self.head);
        let older = self.ready >> head << head;
        for mut set in [older, self.ready & !older] {
            while set != 0 && issued < self.parameters.width {
                let place = set.trailing_zeros() as usize;
                set &= set - 1;
                if self.start(place, &mut ports) {
                    self.ready &= !(1 << place);
                    issued += 1;
                    let first = self.stages[ISSUE].count();
                    if self.window[place].profiled.is_some() {
                        profiled.get_or_insert_with(Vec::new).push((place, first));
                    }
                }
            }
        }
        let stage = &mut self.stages[ISSUE];
        for (place, first) in profiled.into_iter().flatten() {
            if let Some(profiled) = &mut self.window[place].profiled {
                profiled.facts = profiled.facts.with(Field::IssueRate, stage.rate(first));
            }
        }
        stage.end(match self.head == self.tail {
            true => Reason::Supply,
            false => Reason::Operands,
        });
    }

    /// Everything that an instruction waited for has been issued: it is ready when the last is done.
    pub(super) fn wake(&mut self, place: usize) {
        let ready = self.window[place].ready;
        if ready <= self.now {
            self.ready |= 1 << place;
        } else {
            // What is too far ahead is looked at again on the way.
            let day = ready.min(self.now + CALENDAR as u64 - 1) as usize % CALENDAR;
            self.calendar[day] |= 1 << place;
        }
    }

    /// Issues the instruction at `place`, if its unit and ports are free. `ports` were used in this cycle.
    fn start(&mut self, place: usize, ports: &mut usize) -> bool {
        let execution = self.window[place].execution;
        let instruction = self.instruction(&execution);
        let accesses = instruction.accesses.len();
        // More accesses than ports take them all.
        if *ports > 0 && *ports + accesses > self.parameters.ports {
            return false;
        }
        if let Some(unit) = instruction.unit {
            let free = self.busy[unit as usize]
                .iter_mut()
                .find(|b| **b <= self.now);
            match free {
                Some(busy) => *busy = self.now + u64::from(instruction.interval),
                None => return false,
            }
        }
        *ports += accesses;
        let mut wait = 0;
        let mut events = 0;
        let known = if self.window[place].astray {
            0
        } else {
            accesses
        };
        for (access, address) in instruction.accesses[..known]
            .iter()
            .zip(execution.addresses)
        {
            // Each line that it touches. A repeated instruction brings them one after the other.
            let bytes = u64::from(access.size) * u64::from(execution.repeats.max(1));
            let mut time = 0;
            let end = address.saturating_add(bytes.min(1 << 20) - 1);
            let (mut at, last) = (address, self.memory.line(Side::Data, end));
            while self.memory.line(Side::Data, at) <= last {
                let found = self.memory.access(Side::Data, at, self.now);
                events |= found.events;
                time = match instruction.repeats {
                    true => time + found.wait,
                    false => time.max(found.wait),
                };
                let line = self.memory.line(Side::Data, at);
                while self.memory.line(Side::Data, at) == line {
                    at = (at & !31) + 32;
                }
            }
            if access.reads {
                wait = wait.max(time);
            }
        }
        let mut latency = instruction.latency + execution.repeats.saturating_sub(1);
        if instruction.loads() {
            // The address, the cache, and what is computed with it.
            latency += 1 + self.parameters.hit + wait;
        }
        let done = self.now + u64::from(latency.max(1));
        let entry = &mut self.window[place];
        entry.issued = self.now;
        entry.done = done;
        entry.events |= events;
        let mut link = std::mem::replace(&mut entry.waiters, NOBODY);
        let (mispredicted, sequence) = (entry.mispredicted, entry.sequence);
        while link != NOBODY {
            let waiter = usize::from(link) / SOURCES;
            link = self.links[usize::from(link)];
            let entry = &mut self.window[waiter];
            debug_assert!(entry.done == NEVER && entry.pending > 0);
            entry.pending -= 1;
            entry.ready = entry.ready.max(done);
            if entry.pending == 0 {
                self.wake(waiter);
            }
        }
        if mispredicted {
            self.resolve(sequence, done);
        }
        true
    }
}
