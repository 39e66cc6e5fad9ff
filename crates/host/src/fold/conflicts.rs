//! Conflicts in a run of instructions: pairs of a store and a load after it that are in each other's way.
//!
//! # Problem
//! A processor that executes memory accesses early must find out how a load relates to stores before it that
//! are not in the cache yet. Where that goes wrong it waits, or does work again. *Value Sampling* (3.2) finds the
//! pairs in runs of interpreted instructions: accesses that may conflict, near each other, with no dependence between them.
//!
//! # Strategy
//! A small model decides which accesses are near and which depend on each other. It executes a run of instructions as a processor of
//! today would that has every line in its first cache and predicts every branch. [`WIDTH`] instructions a cycle come in, and
//! [`IN_FLIGHT`] at most are there at a time. Each begins when its inputs are ready. They retire in order, and a store leaves for
//! the cache [`COMMIT`] cycles after it has retired, one in a cycle. A load begins when its address is ready. Of the stores
//! before it that have not left then, the youngest that shares bytes with it decides:
//!
//! * its address becomes known [`LATE`] cycles after the load could begin, or later: [`Conflict::Order`].
//! * it has not all of the load's bytes: [`Conflict::Size`].
//! * else the load is given its bytes, and all is well.
//!
//! A younger one that shares none, with a known address that is equal in its lower 12 bits: [`Conflict::Synonym`].
//!
//! The seed leaves out pairs of which one depends on the other. Here that follows: an address that needs the inputs of the store's
//! address, or a value loaded from the store, is ready later than that.
//!
//! Real processors miss caches, so stores stay longer and more pairs are near. They also predict which loads
//! must wait, so not each pair costs what it did the first time. A reported pair is in the way of even this machine.
//!
//! # Invariants
//! * A run is one thread's, with no instruction left out.
//! * The model claims no cost of a pair.

use std::collections::VecDeque;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};
use trommel_profile::memory::Conflict;
use trommel_query::access::{self, Access, Accesses, Flow, REGISTERS};

/// Instructions that come in a cycle.
const WIDTH: u64 = 4;
/// Instructions that are there at a time.
const IN_FLIGHT: usize = 256;
/// Stores that are there at a time.
const STORES: usize = 56;
/// Cycles of a load.
const LOAD: u64 = 5;
/// Cycles from a store's retirement until it is in the cache, where none is before it.
const COMMIT: u64 = 12;
/// Cycles by which a store's address is late: less happens by chance, in either order.
const LATE: u64 = 4;
/// Bytes of a page: the part of addresses that is compared first.
const PAGE: u64 = 4096;

/// Facts of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    flow: Flow,
    accesses: Accesses,
}

impl Known {
    /// Returns the facts of the instruction with these bytes at an address.
    pub fn of(bytes: &[u8], pc: u64) -> Self {
        let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
        let mut info = InstructionInfoFactory::new();
        Self {
            flow: access::flow(&mut info, &instruction),
            accesses: access::accesses(&mut info, &instruction),
        }
    }

    /// Returns the number of addresses that belong to an execution of it.
    pub fn accesses(&self) -> usize {
        self.accesses.count()
    }
}

/// A store that has not left.
#[derive(Clone, Copy)]
struct Store {
    /// The instruction that stores.
    who: u32,
    address: u64,
    size: u64,
    /// Cycles at which its address is known, its data is ready, and it leaves.
    known: u64,
    data: u64,
    leaves: u64,
}

impl Store {
    fn shares_bytes(&self, address: u64, size: u64) -> bool {
        address.wrapping_sub(self.address) < self.size || self.address.wrapping_sub(address) < size
    }

    fn has_all(&self, address: u64, size: u64) -> bool {
        let offset = address.wrapping_sub(self.address);
        offset < self.size && self.size - offset >= size
    }

    /// Returns whether it looks so by the lower bits.
    fn resembles(&self, address: u64, size: u64) -> bool {
        let off = |a: u64, b: u64| a.wrapping_sub(b) % PAGE;
        off(address, self.address) < self.size || off(self.address, address) < size
    }
}

/// A run of instructions. Times are cycles.
pub struct Run {
    executed: u64,
    /// Cycle at which the value of each register is ready.
    ready: [u64; REGISTERS],
    /// Cycles at which the last instructions retired, the first of them first.
    retired: VecDeque<u64>,
    /// Cycle before which nothing begins.
    begins: u64,
    stores: VecDeque<Store>,
    /// Cycle at which the last store left.
    left: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            executed: 0,
            ready: [0; REGISTERS],
            retired: VecDeque::with_capacity(IN_FLIGHT),
            begins: 0,
            stores: VecDeque::with_capacity(STORES),
            left: 0,
        }
    }
}

/// The source of a load's bytes.
enum Meets {
    /// Nothing: its bytes are in the cache.
    Nothing,
    /// A store that gives it its bytes when they are there.
    Forwards(u64),
    /// A store that is in the way until then.
    Hinders(Conflict, u32, u64),
}

impl Run {
    /// Another run begins.
    pub fn clear(&mut self) {
        self.executed = 0;
        self.ready = [0; REGISTERS];
        self.retired.clear();
        self.begins = 0;
        self.stores.clear();
        self.left = 0;
    }

    /// The next instruction, `who`, is executed and accesses memory at `addresses`. `found` gets what is in its way, and whose store that is.
    pub fn execute(
        &mut self,
        who: u32,
        known: &Known,
        addresses: &[u64],
        mut found: impl FnMut(Conflict, u32),
    ) {
        let room = match self.retired.len() {
            IN_FLIGHT => self.retired.pop_front().unwrap_or_default(),
            _ => 0,
        };
        let comes = (self.executed / WIDTH).max(room).max(self.begins);
        self.executed += 1;
        let last = self.retired.back().copied().unwrap_or_default();
        let flow = &known.flow;
        let mut data = self.when(flow.reads.iter(), comes);
        let accesses = || known.accesses.iter().zip(addresses);
        for (access, &address) in accesses().filter(|(access, _)| access.reads) {
            let begins = self.when(access.registers().iter(), comes);
            data = data.max(match self.meets(begins, address, access.size.into()) {
                Meets::Nothing => begins + LOAD,
                Meets::Forwards(when) => begins.max(when) + LOAD,
                Meets::Hinders(conflict, whose, until) => {
                    found(conflict, whose);
                    begins.max(until) + LOAD
                }
            });
        }
        let done = data + u64::from(flow.cycles);
        for register in flow.writes.iter() {
            self.ready[register] = done;
        }
        let retires = last.max(done);
        self.retired.push_back(retires);
        for (access, &address) in accesses().filter(|(access, _)| access.writes) {
            self.store(who, access, address, (comes, data, retires));
        }
        if flow.serialises {
            self.stores.clear();
            self.begins = retires;
        }
    }

    /// Returns the cycle at which all of these registers are ready, for an instruction that comes at a time.
    fn when(&self, registers: impl Iterator<Item = usize>, comes: u64) -> u64 {
        registers.map(|r| self.ready[r]).fold(comes, u64::max)
    }

    fn store(
        &mut self,
        who: u32,
        access: &Access,
        address: u64,
        (comes, data, retires): (u64, u64, u64),
    ) {
        if self.stores.len() == STORES {
            self.stores.pop_front();
        }
        self.left = (retires + COMMIT).max(self.left + 1);
        self.stores.push_back(Store {
            who,
            address,
            size: access.size.into(),
            known: self.when(access.registers().iter(), comes),
            data,
            leaves: self.left,
        });
    }

    fn meets(&self, begins: u64, address: u64, size: u64) -> Meets {
        let there = self.stores.iter().rev();
        for store in there.take_while(|store| store.leaves > begins) {
            let both = store.known.max(store.data);
            if store.shares_bytes(address, size) {
                return if store.known >= begins + LATE {
                    Meets::Hinders(Conflict::Order, store.who, both)
                } else if store.has_all(address, size) {
                    Meets::Forwards(both)
                } else {
                    Meets::Hinders(Conflict::Size, store.who, store.leaves)
                };
            }
            if store.known <= begins && store.resembles(address, size) {
                return Meets::Hinders(Conflict::Synonym, store.who, both);
            }
        }
        Meets::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 0x10_0000;

    // In all of these rdi, rsi and rbx are addresses.
    const STORE_8: &[u8] = &[0x48, 0x89, 0x07]; // mov [rdi], rax
    const STORE_4: &[u8] = &[0x89, 0x07]; // mov [rdi], eax
    const LOAD_8: &[u8] = &[0x48, 0x8b, 0x0e]; // mov rcx, [rsi]
    const LOAD_4: &[u8] = &[0x8b, 0x0e]; // mov ecx, [rsi]
    const FIND: &[u8] = &[0x48, 0x8b, 0x3b]; // mov rdi, [rbx]
    const FIND_BOTH: &[u8] = &[0x48, 0x8b, 0x33]; // mov rsi, [rbx]
    const COPY: &[u8] = &[0x48, 0x89, 0xfe]; // mov rsi, rdi
    const PASS: &[u8] = &[0x90]; // nop
    const FENCE: &[u8] = &[0x0f, 0xae, 0xf0]; // mfence

    fn run(code: &[(&[u8], Option<u64>)]) -> Vec<(usize, Conflict, u32)> {
        let mut run = Run::default();
        let mut all = Vec::new();
        for (n, (bytes, address)) in code.iter().enumerate() {
            let known = Known::of(bytes, 0x1000);
            let addresses: Vec<u64> = address.iter().copied().collect();
            assert_eq!(known.accesses(), addresses.len(), "{bytes:x?}");
            run.execute(n as u32, &known, &addresses, |conflict, whose| {
                all.push((n, conflict, whose));
            });
        }
        all
    }

    #[test]
    fn a_load_gets_its_bytes_from_a_store_that_has_them_all() {
        for (store, load, address) in [
            (STORE_8, LOAD_8, A),
            (STORE_8, LOAD_4, A + 4),
            (STORE_4, LOAD_4, A),
        ] {
            assert_eq!(run(&[(store, Some(A)), (load, Some(address))]), []);
        }
    }

    #[test]
    fn a_load_of_more_than_a_store_has_waits_for_it() {
        let size = [(1, Conflict::Size, 0)];
        for (store, load, address) in [
            (STORE_4, LOAD_8, A),
            (STORE_4, LOAD_8, A - 4),
            (STORE_8, LOAD_8, A + 4),
            (STORE_8, LOAD_8, A - 7),
            (STORE_8, LOAD_4, A + 5),
        ] {
            assert_eq!(run(&[(store, Some(A)), (load, Some(address))]), size);
        }
        assert_eq!(run(&[(STORE_4, Some(A)), (LOAD_8, Some(A + 4))]), []);
        // The youngest store decides.
        let code = [(STORE_4, Some(A)), (STORE_8, Some(A)), (LOAD_8, Some(A))];
        assert_eq!(run(&code), []);
        let code = [(STORE_8, Some(A)), (STORE_4, Some(A)), (LOAD_8, Some(A))];
        assert_eq!(run(&code), [(2, Conflict::Size, 1)]);
    }

    #[test]
    fn what_has_left_is_not_in_the_way() {
        for (passed, finds) in [(10, true), (200, false)] {
            let mut code = vec![(STORE_4, Some(A))];
            code.extend(vec![(PASS, None); passed]);
            code.push((LOAD_8, Some(A)));
            assert_eq!(run(&code).len(), usize::from(finds), "{passed}");
        }
        let code = [(STORE_4, Some(A)), (FENCE, None), (LOAD_8, Some(A))];
        assert_eq!(run(&code), []);
    }

    #[test]
    fn a_store_whose_address_is_late_is_overtaken() {
        let code = [(FIND, Some(8)), (STORE_8, Some(A)), (LOAD_8, Some(A))];
        assert_eq!(run(&code), [(2, Conflict::Order, 1)]);
        let elsewhere = [(FIND, Some(8)), (STORE_8, Some(A)), (LOAD_8, Some(A + 8))];
        assert_eq!(run(&elsewhere), []);
    }

    #[test]
    fn no_load_overtakes_a_store_on_whose_address_its_own_depends() {
        let code = [
            (FIND, Some(8)),
            (COPY, None),
            (STORE_8, Some(A)),
            (LOAD_8, Some(A)),
        ];
        assert_eq!(run(&code), []);
        // Nor one whose address was in the way of the store's.
        let code = [
            (FIND, Some(8)),
            (FIND_BOTH, Some(8)),
            (STORE_8, Some(A)),
            (LOAD_8, Some(A)),
        ];
        assert_eq!(run(&code), []);
    }

    #[test]
    fn addresses_that_look_alike_are_in_the_way() {
        let synonym = [(1, Conflict::Synonym, 0)];
        for address in [A + 4096, A - 8 * 4096 + 3, A + 4096 - 7] {
            let code = [(STORE_8, Some(A)), (LOAD_8, Some(address))];
            assert_eq!(run(&code), synonym, "{address:#x}");
        }
        for address in [A + 4096 + 8, A + 2048, A - 8] {
            let code = [(STORE_8, Some(A)), (LOAD_8, Some(address))];
            assert_eq!(run(&code), [], "{address:#x}");
        }
        // A younger one that has the bytes is found first.
        let code = [
            (STORE_8, Some(A + 4096)),
            (STORE_8, Some(A)),
            (LOAD_8, Some(A)),
        ];
        assert_eq!(run(&code), []);
    }

    #[test]
    fn a_cleared_run_has_forgotten_everything() {
        let mut run = Run::default();
        let (store, load) = (Known::of(STORE_4, 0), Known::of(LOAD_8, 0));
        run.execute(0, &store, &[A], |_, _| {});
        run.clear();
        run.execute(1, &load, &[A], |conflict, _| panic!("{conflict:?}"));
    }
}
