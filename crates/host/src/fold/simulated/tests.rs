//! Misses against lists of lines, and handoffs of lines between threads that take turns.

use super::*;
use proptest::prelude::*;
use trommel_profile::simulated::Way;

const LOAD_8: &[u8] = &[0x48, 0x8b, 0x07]; // mov rax, [rdi]
const STORE_8: &[u8] = &[0x48, 0x89, 0x07]; // mov [rdi], rax
const ADD_4: &[u8] = &[0x01, 0x07]; // add [rdi], eax
const MOVE: &[u8] = &[0xf3, 0xa4]; // rep movsb
const CALL: &[u8] = &[0xff, 0x10]; // call [rax]
const KINDS: [Kind; 2] = [Kind::Miss, Kind::LastMiss];

fn caches(text: &str) -> Caches {
    text.parse().expect("caches")
}

/// A simulator, and the instructions that it is given.
struct Harness {
    simulator: Simulator,
    code: Vec<Instruction>,
}

impl Harness {
    fn new(text: &str, sharing: bool) -> Self {
        let simulate = Simulate {
            caches: caches(text),
            sharing,
        };
        let code = [LOAD_8, STORE_8, ADD_4, MOVE, CALL];
        let code = (0..).zip(code);
        let place = |n: u64| Place::from_word(0x1000 + 16 * n);
        Self {
            simulator: Simulator::new(simulate, KINDS.into_iter().collect(), false),
            code: code
                .map(|(n, bytes)| Instruction::new(place(n), 0x1000 + 16 * n, bytes))
                .collect(),
        }
    }

    /// Executes an instruction with these words. Returns the kinds and lines of its misses.
    fn execute(&mut self, bytes: &[u8], words: &[u64]) -> Vec<(Kind, u64)> {
        let number = self.code.iter().position(|i| i.bytes() == bytes);
        let number = number.expect("known");
        let at = self.code[number].place;
        self.simulator.instruction(number as u32, &self.code);
        let mut made = Vec::new();
        for word in words {
            self.simulator.word(at, *word, &mut made);
        }
        made.iter().map(|(kind, t)| (*kind, t.value)).collect()
    }

    fn figures(self) -> Simulated {
        let modules = Modules::new(crate::channel::modules::Images::default());
        let mut tables = Tables::new(std::rc::Rc::new(crate::channel::memory::Budget::new(None)));
        self.simulator
            .finish(&modules, &mut tables, &mut BTreeMap::new())
    }
}

#[test]
fn what_misses_the_first_cache_looks_in_the_last() {
    let mut h = Harness::new("l1=128/2,ll=1k/4", false);
    let both = |line| vec![(Kind::Miss, line), (Kind::LastMiss, line)];
    assert_eq!(h.execute(LOAD_8, &[0x1008]), both(0x1000));
    assert_eq!(h.execute(STORE_8, &[0x1038]), []);
    // Across a line: the second part misses.
    assert_eq!(h.execute(LOAD_8, &[0x103c]), both(0x1000));
    assert_eq!(h.execute(LOAD_8, &[0x2000]), both(0x2000));
    // One set of two lines: 0x1000 has gone, and is in the last cache.
    assert_eq!(h.execute(ADD_4, &[0x1000]), [(Kind::Miss, 0x1000)]);
    let figures = h.figures();
    let told = |a: trommel_profile::simulated::Accessed| [a.accesses, a.first, a.last];
    assert_eq!(told(figures.loads), [4, 4, 3]);
    assert_eq!(told(figures.stores), [1, 0, 0]);
    // Those that missed and those that did not, by instruction.
    let accesses: Vec<u64> = figures.accesses.into_values().collect();
    assert_eq!(accesses, [3, 1, 1]);
}

#[test]
fn a_repeated_move_is_an_access_for_each_byte() {
    let mut h = Harness::new("l1=32k/8", false);
    // To 0x9000, from 0x5000: three lines each.
    let missed = h.execute(MOVE, &[0x9000, 0x5000, 130]);
    assert_eq!(missed.iter().filter(|(k, _)| *k == Kind::Miss).count(), 6);
    assert_eq!(h.execute(MOVE, &[0x9000, 0x5000, 0]), []);
    // A call reads its target and pushes.
    let missed = h.execute(CALL, &[0x7000, 0x8ff8]);
    assert_eq!(missed.len(), 4);
    let figures = h.figures();
    assert_eq!(figures.loads.accesses, 130 + 1);
    assert_eq!(figures.stores.accesses, 130 + 1);
}

#[test]
fn each_thread_has_a_first_cache_and_all_share_the_last() {
    let mut h = Harness::new("l1=1k/2", false);
    assert_eq!(h.execute(LOAD_8, &[0x40]).len(), 2);
    h.simulator.select(2);
    assert_eq!(h.execute(LOAD_8, &[0x40]), [(Kind::Miss, 0x40)]);
    h.simulator.select(1);
    assert_eq!(h.execute(LOAD_8, &[0x40]), []);
}

#[test]
fn lines_of_two_threads_are_handed_over_as_often_as_they_take_turns() {
    let mut h = Harness::new("l1=32k/8", true);
    for turn in 0..10 {
        h.simulator.select(1 + turn % 2);
        let own = 8 * u64::from(turn % 2);
        // Two variables of one line, one of another that both read, and one that only one writes.
        h.execute(ADD_4, &[0x1000 + own]);
        h.execute(ADD_4, &[0x1000 + own]);
        h.execute(LOAD_8, &[0x2000]);
        h.execute(STORE_8, &[0x3000 + 64 * u64::from(turn % 2)]);
    }
    let sharing = h.figures().sharing.expect("looked for");
    assert_eq!(sharing.untracked, 0);
    let [line] = &sharing.lines[..] else {
        panic!("{sharing:?}");
    };
    // Nothing is seen before the second thread is there.
    assert_eq!((line.address, line.handoffs), (0x1000, 8));
    assert_eq!((line.way(), line.threads()), (Way::False, vec![1, 2]));
    let counts = line
        .touchers
        .iter()
        .map(|t| (t.thread, t.offset, t.size, t.stores));
    // The second thread's first turn is before the line is handed over.
    assert!(counts.eq([(1, 0, 4, 8), (2, 8, 4, 10)]), "{line:?}");
}

#[test]
fn a_line_that_two_threads_use_once_has_the_accesses_of_both() {
    let mut h = Harness::new("l1=32k/8", true);
    h.simulator.select(2);
    for n in 0..100 {
        h.execute(ADD_4, &[0x1000 + n % 2 * 4]);
        // More parts of a line than are kept.
        for part in 0..40 {
            h.execute(ADD_4, &[0x2000 + part]);
        }
    }
    h.simulator.select(1);
    for _ in 0..70 {
        h.execute(ADD_4, &[0x1008]);
    }
    h.execute(ADD_4, &[0x2000]);
    let sharing = h.figures().sharing.expect("looked for");
    let [line, other] = &sharing.lines[..] else {
        panic!("{sharing:?}");
    };
    assert_eq!((line.handoffs, line.possible()), (1, 2 * 2 * 70));
    let counts = line.touchers.iter().map(|t| (t.thread, t.offset, t.stores));
    assert!(counts.eq([(1, 8, 70), (2, 0, 50), (2, 4, 50)]), "{line:?}");
    assert_eq!((other.address, sharing.untracked), (0x2000, 8 * 100));
}

#[test]
fn a_line_that_is_read_after_each_write_is_handed_over() {
    let mut h = Harness::new("l1=32k/8", true);
    h.simulator.select(2);
    h.execute(LOAD_8, &[0x9000]);
    for _ in 0..3 {
        h.simulator.select(1);
        h.execute(STORE_8, &[0x1000]);
        h.simulator.select(2);
        // Handed over once, however often it is read.
        h.execute(LOAD_8, &[0x1000]);
        h.execute(LOAD_8, &[0x1000]);
    }
    let sharing = h.figures().sharing.expect("looked for");
    let of: Vec<_> = sharing
        .lines
        .iter()
        .map(|l| (l.handoffs, l.way()))
        .collect();
    assert_eq!(of, [(5, Way::True)]);
}

proptest! {
    /// Misses are those of a cache that is a list of lines for each set, the last one used first.
    #[test]
    fn misses_are_those_of_lists_of_lines(
        accesses in prop::collection::vec((0_u64..3000, any::<bool>()), 1..300),
        sets in 0_u32..4,
        ways in 1_usize..5,
    ) {
        let sets = 1_u64 << sets;
        let text = format!("l1={}/{ways},line=16", sets * 16 * ways as u64);
        let mut h = Harness::new(&text, false);
        let mut lists = vec![Vec::<u64>::new(); sets as usize];
        for (address, store) in accesses {
            let code = if store { STORE_8 } else { LOAD_8 };
            let missed = h.execute(code, &[address]);
            let mut misses = false;
            for line in address / 16..=(address + 7) / 16 {
                let list = &mut lists[(line % sets) as usize];
                match list.iter().position(|l| *l == line) {
                    Some(at) => drop(list.remove(at)),
                    None => misses = true,
                }
                list.insert(0, line);
                list.truncate(ways);
            }
            let first = missed.iter().any(|(kind, _)| *kind == Kind::Miss);
            prop_assert_eq!(first, misses);
        }
    }
}
