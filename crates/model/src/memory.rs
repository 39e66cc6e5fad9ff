//! The memory that the core sees: first-level caches, the second level, TLBs.

use trommel_query::Event;

use crate::cache::{Cache, Lookup};
use crate::parameters::Core;

/// Caches and TLBs of the core.
#[derive(Clone, Debug)]
pub struct Memory {
    first: [Cache; 2],
    second: Option<(Cache, u32)>,
    tlbs: Option<([Cache; 2], u32)>,
    round_trip: u32,
}

/// For what memory is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Instructions.
    Code = 0,
    /// Data.
    Data = 1,
}

/// Result of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccessResult {
    /// Cycles beyond those of a hit.
    pub wait: u32,
    /// Events, a bit for each.
    pub events: u8,
}

impl AccessResult {
    const fn with(mut self, wait: u32, event: Option<Event>) -> Self {
        self.wait += wait;
        if let Some(event) = event {
            self.events |= 1 << event as u8;
        }
        self
    }
}

impl Memory {
    /// Empty caches.
    pub fn new(core: &Core) -> Self {
        Self {
            first: core.first.map(Cache::new),
            second: core.second.map(|s| (Cache::new(s.cache), s.memory)),
            tlbs: (core.translation).map(|t| ([t.pages; 2].map(Cache::new), t.walk)),
            round_trip: core.round_trip,
        }
    }

    /// An access to the line of `address`.
    pub fn access(&mut self, side: Side, address: u64, now: u64) -> AccessResult {
        let mut outcome = AccessResult::default();
        if let Some((tlbs, walk)) = &mut self.tlbs {
            let tlb = &mut tlbs[side as usize];
            let page = tlb.line(address);
            if tlb.look(page, now) == Lookup::Miss {
                tlb.fill(page, now);
                let event = match side {
                    Side::Code => Event::ItlbMiss,
                    Side::Data => Event::DtlbMiss,
                };
                outcome = outcome.with(*walk, Some(event));
            }
        }
        let cache = &mut self.first[side as usize];
        let line = cache.line(address);
        match cache.look(line, now) {
            Lookup::Hit => outcome,
            Lookup::Coming(at) => outcome.with((at - now) as u32, None),
            Lookup::Miss => {
                let mut miss = AccessResult::default().with(self.round_trip, None);
                if let Some((second, memory)) = &mut self.second {
                    let line = second.line(address);
                    miss = match second.look(line, now) {
                        Lookup::Hit => miss,
                        Lookup::Coming(at) => AccessResult::default()
                            .with(self.round_trip.max((at - now) as u32), None),
                        Lookup::Miss => {
                            let wait = self.round_trip + *memory;
                            second.fill(line, now + u64::from(wait));
                            let event = (side == Side::Data).then_some(Event::L2DataMiss);
                            AccessResult::default().with(wait, event)
                        }
                    };
                }
                cache.fill(line, now + u64::from(miss.wait));
                AccessResult {
                    wait: outcome.wait + miss.wait,
                    events: outcome.events | miss.events,
                }
            }
        }
    }

    /// The number of the line of an address.
    pub const fn line(&self, side: Side, address: u64) -> u64 {
        self.first[side as usize].line(address)
    }

    /// Misses of the first level: instructions, data.
    pub fn misses(&self) -> [u64; 2] {
        [self.first[0].misses, self.first[1].misses]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::{Geometry, Parameters, SecondLevel, Translation};

    #[test]
    fn each_level_adds_what_it_takes() {
        let mut core = Parameters::TABLE_5.core;
        core.second = Some(SecondLevel {
            cache: Geometry {
                bytes: 1 << 16,
                ways: 4,
                line: 64,
            },
            memory: 80,
        });
        core.translation = Some(Translation {
            pages: Geometry {
                bytes: 4 << 12,
                ways: 4,
                line: 4096,
            },
            walk: 30,
        });
        let mut memory = Memory::new(&core);
        let bit = |event: Event| 1 << event as u8;
        let mut at = |side, address, now| {
            let AccessResult { wait, events } = memory.access(side, address, now);
            (wait, events)
        };
        let (data, code) = (Side::Data, Side::Code);
        let all = bit(Event::DtlbMiss) | bit(Event::L2DataMiss);
        assert_eq!(at(data, 0x9000, 0), (30 + 12 + 80, all));
        // The line, on its way and there; the other half of the second level's line.
        assert_eq!(at(data, 0x9008, 50), (42, 0));
        assert_eq!(at(data, 0x9008, 92), (0, 0));
        assert_eq!(at(data, 0x9020, 100), (12, 0));
        // Misses of code are no events of data.
        assert_eq!(at(code, 0x5000, 200), (122, bit(Event::ItlbMiss)));
        // The fifth page takes the place of the first.
        for page in 0xa..0xe {
            assert_eq!(at(data, page << 12, 300).1, all);
        }
        assert_eq!(at(data, 0x9000, 900), (30, bit(Event::DtlbMiss)));
    }
}
