//! Dispatch: into the window, with what an instruction waits for, and what a profiled one needs.

use super::stage::{DISPATCH, Reason};
use super::{Core, Entry, NEVER, NOBODY, Profiled, SOURCES};
use crate::profile::{Lack, facts_of};
use trommel_query::Field;

impl Core<'_, '_> {
    pub(super) fn dispatch(&mut self) {
        let before = self.tail;
        let reason = self.dispatch_some();
        let stage = self.stages[DISPATCH];
        for sequence in before..self.tail {
            let place = self.place(sequence);
            if let Some(profiled) = &mut self.window[place].profiled {
                let rate = stage.rate(sequence == before);
                profiled.facts = profiled.facts.with(Field::DispatchRate, rate);
            }
        }
        self.stages[DISPATCH].end(reason);
    }

    /// Returns why there were no more.
    fn dispatch_some(&mut self) -> Reason {
        for _ in 0..self.parameters.width {
            let Some(next) = self.queue.front() else {
                return if self.waits_for_branch() || self.now < self.held {
                    Reason::Control
                } else {
                    Reason::Supply
                };
            };
            if next.cycle + self.parameters.front_end > self.now {
                return Reason::Supply;
            }
            let (code, astray) = (next.execution.code as usize, next.astray);
            if self.tail - self.head == self.parameters.window as u64 {
                self.counts.full += 1;
                return Reason::Room;
            }
            if !astray && self.loads_first() {
                self.counts.loading += 1;
                return Reason::Profile;
            }
            let instruction = &self.code[code];
            let concerned = self.concerned[code];
            let Some(next) = self.queue.front_mut() else {
                return Reason::Supply;
            };
            if concerned && !next.asked {
                next.asked = true;
                next.selected = match astray {
                    false => self.unit.select(instruction),
                    true => self.unit.select_astray(instruction),
                };
            }
            if let Some(selected) = &next.selected
                && let Err(lack) = self.unit.admit(selected)
            {
                self.counts.stalled[match lack {
                    Lack::Network => 0,
                    Lack::Buffer => 1,
                }] += 1;
                return Reason::Profile;
            }
            self.enter();
        }
        Reason::None
    }

    /// Moves the next instruction into the window.
    fn enter(&mut self) {
        let Some(next) = self.queue.pop_front() else {
            return;
        };
        let instruction = self.instruction(&next.execution);
        let sequence = self.tail;
        let place = self.place(sequence);
        self.tail += 1;
        let profiled = next.selected.map(|selected| {
            let facts = facts_of(instruction, &next.execution, next.mispredicted)
                .with(Field::FetchTime, next.cycle)
                .with(Field::FetchRate, next.rate);
            Box::new(Profiled { selected, facts })
        });
        let entry = Entry {
            execution: next.execution,
            sequence,
            dispatched: self.now,
            issued: 0,
            done: NEVER,
            pending: 0,
            // It can be issued in the next cycle.
            ready: self.now + 1,
            waiters: NOBODY,
            mispredicted: next.mispredicted,
            astray: next.astray,
            profiled,
            events: next.events,
        };
        match self.window.get_mut(place) {
            Some(old) => *old = entry,
            None => self.window.push(entry),
        }
        let mut n = 0;
        for source in &instruction.sources {
            self.wait_for(self.makers[usize::from(*source)], place, &mut n);
        }
        let known = if next.astray {
            0
        } else {
            instruction.accesses.len()
        };
        let accesses = &instruction.accesses[..known];
        for (access, address) in accesses.iter().zip(next.execution.addresses) {
            let (first, last) = (address >> 3, (address + u64::from(access.size) - 1) >> 3);
            if access.reads {
                for group in [first, last] {
                    let (of, maker) = self.stores[group as usize % self.stores.len()];
                    if of == group {
                        self.wait_for(maker, place, &mut n);
                    }
                    if first == last {
                        break;
                    }
                }
            }
        }
        for (access, address) in accesses.iter().zip(next.execution.addresses) {
            if access.writes {
                let last = address + u64::from(access.size) - 1;
                for group in address >> 3..=last >> 3 {
                    let at = group as usize % self.stores.len();
                    self.stores[at] = (group, sequence + 1);
                }
            }
        }
        for destination in &instruction.destinations {
            self.makers[usize::from(*destination)] = sequence + 1;
        }
        if self.window[place].pending == 0 {
            self.wake(place);
        }
        self.stages[DISPATCH].count();
    }

    /// The instruction at `place` waits for a maker, if that is in the window and not done. `n` are those it
    /// waits for already.
    fn wait_for(&mut self, maker: u64, place: usize, n: &mut usize) {
        // Makers are numbered from 1: 0 is nobody.
        let Some(sequence) = maker.checked_sub(1).filter(|s| *s >= self.head) else {
            return;
        };
        let of = self.place(sequence);
        if self.window[of].done != NEVER {
            let done = self.window[of].done;
            let entry = &mut self.window[place];
            entry.ready = entry.ready.max(done);
        } else if *n < SOURCES {
            let link = place * SOURCES + *n;
            self.links[link] = self.window[of].waiters;
            self.window[of].waiters = link as u16;
            self.window[place].pending += 1;
            *n += 1;
        }
    }
}
