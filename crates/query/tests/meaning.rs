//! The meaning of the language, told a second time from the tree alone, and compared with what assembled
//! programs do in the reference interpreter.

mod common;

use proptest::prelude::*;
use trommel_compress::random::SplitMix64;
use trommel_query::ast::{self, ActionKind, Comparand, ConditionKind, Every, Item, Next, Operand};
use trommel_query::engine::{Effect, Log, NEARLY_FULL};
use trommel_query::instruction::{Chance, Test};
use trommel_query::throttle::Rehearsal;
use trommel_query::{
    Assembly, Class, Engine, Entry, Event, Facts, Field, Operation, Record, Subject, assemble,
    parse,
};

use common::Choice;

/// Event of a run, without the numbers of instructions.
#[derive(Clone, PartialEq, Debug)]
enum Done {
    Sent(u8, Record, bool),
    Interrupted(Record, bool),
}

/// Facts that clauses ask for.
struct Known {
    first: Facts,
    /// Facts of the second of a pair, and its distance.
    second: Option<(Facts, u64)>,
}

/// Sampler of an entry.
struct Sampler {
    random: SplitMix64,
    /// Executions to the next record.
    left: u64,
    /// One in so many.
    n: u64,
    /// Facts of the first of a pair, and the distance of the second.
    first: Option<(Facts, u64)>,
}

impl Sampler {
    /// Draws a countdown: uniformly, or geometrically where it adapts itself.
    fn draw(&mut self, adapts: bool) {
        let mut failures = 0;
        if !adapts && self.n > 1 {
            failures = self.random.below(2 * self.n - 1);
        }
        let mut not = match adapts && self.n > 1 {
            true => u64::MAX - u64::MAX / self.n,
            false => 0,
        };
        for digit in 0.. {
            if not == 0 {
                break;
            }
            let all = (1_u128 << 64) + u128::from(not);
            let share = (u128::from(not) << 63).div_ceil(all);
            failures |= u64::from(u128::from(self.random.draw() >> 1) < share) << digit;
            not = ((u128::from(not) * u128::from(not)) >> 64) as u64;
        }
        self.left = failures + 1;
    }
}

/// Interprets trees. Actions and comparisons with filters are numbered in the order of the text, which
/// is that of their instructions.
struct Reader<'a> {
    file: &'a ast::File,
    /// For each `if` with filters, in order, their generators.
    filters: Vec<Vec<SplitMix64>>,
    /// Countdowns of the entries.
    sampling: Vec<Sampler>,
    rehearsal: Rehearsal,
    sent: Vec<u64>,
    counts: Vec<u64>,
    done: Vec<Done>,
}

fn generator(seed: u64, what: u8, number: usize, part: usize) -> SplitMix64 {
    SplitMix64::apart(
        seed,
        [b'r', b'p', b'a', what, number as u8, part as u8, 0, 0],
    )
}

impl<'a> Reader<'a> {
    fn new(file: &'a ast::File, assembly: &Assembly, seed: u64) -> Self {
        let mut filters = Vec::new();
        for (at, instruction) in assembly.program.code().iter().enumerate() {
            let tests = [instruction.even.test, instruction.odd.test];
            let banks = (0..2).filter(|b| matches!(tests[*b], Test::Chance(Chance::Filter(_))));
            let of_instruction: Vec<_> = banks.map(|b| generator(seed, b'f', at, b)).collect();
            if !of_instruction.is_empty() {
                filters.push(of_instruction);
            }
        }
        let mut reader = Self {
            file,
            filters,
            sampling: Vec::new(),
            rehearsal: Rehearsal::default(),
            sent: vec![0; 1000],
            counts: vec![0; 1000],
            done: Vec::new(),
        };
        for entry in Entry::all() {
            let mut sampler = Sampler {
                random: generator(seed, b'e', entry.number(), 0),
                left: 0,
                n: reader.query(entry).map_or(1, |(query, ..)| rate(query)),
                first: None,
            };
            sampler.draw(false);
            reader.sampling.push(sampler);
        }
        reader
    }

    /// The query of an entry, the number of its first action that sends, of its first that counts, and of
    /// its first `if` with filters.
    fn query(&self, entry: Entry) -> Option<(&'a ast::Query, [usize; 3])> {
        let mut first = [0; 3];
        for item in &self.file.items {
            let Item::Query(query) = item else { continue };
            if query.selectors.iter().any(|s| selects(s, entry)) {
                return Some((query, first));
            }
            for clause in &query.clauses {
                for (sum, n) in first.iter_mut().zip(numbers(clause)) {
                    *sum += n;
                }
            }
        }
        None
    }

    fn offer(&mut self, entry: Entry, facts: &Facts) {
        let Some((query, mut first)) = self.query(entry) else {
            return;
        };
        let adapts = matches!(query.every, Every::Auto(_));
        // One countdown for all that a query on pairs selects.
        let mut counted = entry;
        if query.pair.is_some() {
            let selected = |entry: &Entry| query.selectors.iter().any(|s| selects(s, *entry));
            counted = Entry::all().find(selected).expect("this one");
        }
        let sampler = &mut self.sampling[counted.number()];
        sampler.left -= 1;
        if sampler.left > 0 {
            return;
        }
        let mut known = Known {
            first: *facts,
            second: None,
        };
        match (&query.pair, sampler.first.take()) {
            (None, _) => sampler.draw(adapts),
            (Some(most), None) => {
                sampler.left = 1 + sampler.random.below(most.value as u64);
                sampler.first = Some((*facts, sampler.left));
                return;
            }
            (Some(_), Some((first, distance))) => {
                sampler.left = 1 + sampler.random.below(2 * (sampler.n - distance) - 1);
                known = Known {
                    first,
                    second: Some((*facts, distance)),
                };
            }
        }
        if adapts {
            let n = self.rehearsal.next(entry).one_in().into();
            if n != sampler.n {
                sampler.n = n;
                sampler.draw(true);
            }
        }
        // The record: what is collected, in the order of Table 2.
        let mut words = [0; 7];
        let names = |f: &Field| query.fields.iter().any(|n| n.text == f.name());
        let mut values = Vec::new();
        for field in Field::ALL.into_iter().filter(names) {
            values.push(known.first.get(field));
            values.extend(known.second.map(|(facts, _)| facts.get(field)));
        }
        values.extend(known.second.map(|(_, distance)| distance));
        words[..values.len()].copy_from_slice(&values);
        let record = Record(words);
        let mut label: Option<&str> = None;
        for clause in &query.clauses {
            let of_clause = first;
            for (sum, n) in first.iter_mut().zip(numbers(clause)) {
                *sum += n;
            }
            match (label, &clause.label) {
                (Some(wanted), Some(name)) if name.text == wanted => label = None,
                (Some(_), _) => continue,
                _ => {}
            }
            match self.clause(clause, of_clause, &known, record) {
                None | Some(Next::Next(_)) => {}
                Some(Next::Stop(_)) => return,
                Some(Next::Goto(_, name)) => label = Some(&name.text),
            }
        }
        panic!("a query ran over its end");
    }

    fn clause(
        &mut self,
        clause: &'a ast::Clause,
        mut first: [usize; 3],
        facts: &Known,
        record: Record,
    ) -> Option<&'a Next> {
        for arm in &clause.arms {
            let filters = filters(arm);
            let mut passed = Vec::new();
            if filters > 0 {
                let rates = arm.conditions.iter().filter_map(|c| match &c.kind {
                    ConditionKind::Filter(n) => Some(n.value as u64),
                    _ => None,
                });
                for (random, n) in self.filters[first[2]].iter_mut().zip(rates) {
                    passed.push(u128::from(random.draw()) * u128::from(n) < 1 << 64);
                }
                first[2] += 1;
            }
            let mut passed = passed.into_iter();
            let mut holds = true;
            for condition in &arm.conditions {
                holds &= match &condition.kind {
                    ConditionKind::Filter(_) => passed.next().expect("a draw"),
                    other => holds_in(other, facts),
                };
            }
            if holds {
                return self.body(&arm.then, first, record);
            }
            for action in &arm.then.actions {
                match action.kind {
                    ActionKind::Send { .. } => first[0] += 1,
                    ActionKind::Count => first[1] += 1,
                    ActionKind::Interrupt { .. } => {}
                }
            }
        }
        self.body(clause.otherwise.as_ref()?, first, record)
    }

    fn body(
        &mut self,
        body: &'a ast::Body,
        mut first: [usize; 3],
        record: Record,
    ) -> Option<&'a Next> {
        for action in &body.actions {
            match &action.kind {
                ActionKind::Send {
                    first: from,
                    last,
                    drop,
                } => {
                    let count = last.map_or(1, |last| last.value - from.value + 1) as u64;
                    let queue = from.value as u64 + self.sent[first[0]] % count;
                    self.done.push(Done::Sent(queue as u8, record, *drop));
                    self.sent[first[0]] += 1;
                    first[0] += 1;
                }
                ActionKind::Count => {
                    self.counts[first[1]] += 1;
                    first[1] += 1;
                }
                ActionKind::Interrupt { sync } => self.done.push(Done::Interrupted(record, *sync)),
            }
        }
        body.next.as_ref()
    }
}

/// The rate that is in force at first.
fn rate(query: &ast::Query) -> u64 {
    match query.every {
        Every::Number(n) => n.value as u64,
        Every::Always | Every::Auto(_) => 1,
    }
}

fn selects(selector: &ast::Selector, entry: Entry) -> bool {
    match entry.subject() {
        Subject::Event(event) => selector.name.text == event.name(),
        Subject::Class(class) => {
            selector.name.text == class.operation.name()
                && selector
                    .tag
                    .is_none_or(|tag| tag.value == i128::from(class.tag()))
        }
    }
}

fn filters(arm: &ast::Arm) -> usize {
    let conditions = arm.conditions.iter();
    conditions
        .filter(|c| matches!(c.kind, ConditionKind::Filter(_)))
        .count()
}

/// Actions that send, actions that count, arms with filters.
fn numbers(clause: &ast::Clause) -> [usize; 3] {
    let bodies = clause
        .arms
        .iter()
        .map(|arm| &arm.then)
        .chain(&clause.otherwise);
    let actions: Vec<_> = bodies.flat_map(|body| &body.actions).collect();
    let of = |wanted: fn(&ActionKind) -> bool| actions.iter().filter(|a| wanted(&a.kind)).count();
    [
        of(|a| matches!(a, ActionKind::Send { .. })),
        of(|a| matches!(a, ActionKind::Count)),
        clause.arms.iter().filter(|arm| filters(arm) > 0).count(),
    ]
}

/// The bits of an operand, and their number.
fn bits(operand: &Operand, of: &Operand, known: &Known) -> (u64, u32, bool) {
    let word = match (operand.field.text.as_str(), known.second) {
        ("distance", second) => second.expect("a pair").1,
        (name, second) => {
            let field = Field::from_name(name).expect("a field");
            match operand.second {
                true => second.expect("a pair").0.get(field),
                false => known.first.get(field),
            }
        }
    };
    let Some(part) = &of.part else {
        return (word, 64, false);
    };
    let width: u32 = part.kind.text[1..].parse().expect("a width");
    let byte = part.byte.map_or(0, |b| b.value as usize);
    let mut bytes = [0; 8];
    let part_bytes = &word.to_le_bytes()[byte..byte + width as usize / 8];
    bytes[..part_bytes.len()].copy_from_slice(part_bytes);
    (
        u64::from_le_bytes(bytes),
        width,
        part.kind.text.starts_with('i'),
    )
}

/// A number of so many bits.
fn number((bits, width, signed): (u64, u32, bool)) -> i128 {
    let value = i128::from(bits);
    if signed && bits >> (width - 1) & 1 == 1 {
        return value - (1 << width);
    }
    value
}

fn holds_in(condition: &ConditionKind, facts: &Known) -> bool {
    match condition {
        ConditionKind::Constant(value) => *value,
        ConditionKind::Filter(_) => unreachable!("drawn by the caller"),
        ConditionKind::Compare(left, relation, right) => {
            let right = match right {
                Comparand::Number(n) => n.value,
                Comparand::Operand(right) => number(bits(right, left, facts)),
            };
            let left = number(bits(left, left, facts));
            match relation {
                ast::Relation::Equal => left == right,
                ast::Relation::NotEqual => left != right,
                ast::Relation::Less => left < right,
                ast::Relation::LessOrEqual => left <= right,
                ast::Relation::Greater => left > right,
                ast::Relation::GreaterOrEqual => left >= right,
            }
        }
        ConditionKind::Bits { operand, set, mask } => {
            let (value, ..) = bits(operand, operand, facts);
            let mask = match mask {
                Comparand::Number(n) => n.value as u64,
                Comparand::Operand(right) => bits(right, operand, facts).0,
            };
            (0..64).all(|n| mask >> n & 1 == 0 || value >> n & 1 == u64::from(*set))
        }
    }
}

/// Random facts.
fn facts(choice: &mut Choice) -> Facts {
    let all = Field::ALL.into_iter();
    all.fold(Facts::NONE, |facts, field| facts.with(field, choice.word()))
}

/// Executes both and compares.
fn agree(text: &str, seed: u64, executions: usize) {
    let file = parse(text).expect(text);
    let assembly = assemble(text).expect(text);
    let mut reader = Reader::new(&file, &assembly, seed);
    let mut engine = Engine::new(&assembly.program, seed);
    let mut log = Log::default();
    let mut choice = Choice::new(seed);
    let entries: Vec<Entry> = Entry::all().collect();
    let mut rehearsal = Rehearsal::default();
    for _ in 0..executions {
        let entry = *choice.of(&entries);
        let facts = facts(&mut choice);
        if let Some((start, record)) = engine.select(entry, &facts) {
            engine.query(start, &record, &mut log);
            engine.pace(entry, rehearsal.next(entry));
        }
        reader.offer(entry, &facts);
    }
    engine.finish(&mut log);
    let code = assembly.program.code();
    let done: Vec<Done> = (log.0.iter())
        .filter_map(|effect| match *effect {
            Effect::Message {
                queue,
                record,
                drop,
                ..
            } => Some(Done::Sent(queue, record, drop)),
            Effect::Interrupt { record, sync, .. } => Some(Done::Interrupted(record, sync)),
            Effect::Counted { .. } => None,
        })
        .collect();
    assert_eq!(done, reader.done, "{text}");
    let counting = code
        .iter()
        .map(|i| i.action == trommel_query::instruction::Action::Count);
    let counts = log.counts(&assembly.program);
    let counts: Vec<u64> = counts
        .into_iter()
        .zip(counting)
        .filter(|c| c.1)
        .map(|c| c.0)
        .collect();
    assert_eq!(counts, reader.counts[..counts.len()], "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1 << 20, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn assembled_queries_do_what_their_text_says(seed in any::<u64>()) {
        let text = common::text(&mut Choice::new(seed));
        let valid = match assemble(&text) {
            Ok(_) => true,
            Err(found) => {
                // What the generator does not avoid.
                for error in found {
                    let known = ["never match", "even and one odd", "no record comes", "nothing branches",
                        "always matches", "selects nothing"];
                    let is_known = known.iter().any(|k| error.message.contains(k));
                    prop_assert!(is_known, "{text}{error:?}");
                }
                false
            }
        };
        prop_assume!(valid);
        agree(&text, seed, 400);
    }
}

#[test]
fn figure_2_delivers_what_it_asks_for() {
    let text = "for opBRANCH * every 256 collect pc misc ;\nsend 1 stop;\n\
                for evL2DMISS * always collect pc res2 ;\nsend 2 stop;\n\
                for opSTORE 1 always collect op1 op2 op3;\nif op1 <> 0 then send 3 stop else stop;";
    agree(text, 1, 20_000);
    let program = assemble(text).expect("it assembles").program;
    let mut engine = Engine::new(&program, 1);
    let mut log = Log::default();
    let class =
        |operation, tag| Entry::of(Subject::Class(Class::new(operation, tag).expect("a tag")));
    let branches = 1_000_000;
    for n in 0..branches {
        let facts = Facts::NONE.with(Field::Pc, n).with(Field::Misc, n & 1);
        engine.offer(class(Operation::Branch, 0), &facts, &mut log);
    }
    let sampled = log.0.len() as f64;
    // The countdowns have mean 256 and deviation 256/√3: over so many the count deviates by 36.
    assert!(
        (sampled - branches as f64 / 256.0).abs() < 5.0 * 36.1,
        "{sampled}"
    );
    let taken = log
        .0
        .iter()
        .filter(|e| matches!(e, Effect::Message { record, .. } if record.0[1] == 1));
    assert!((taken.count() as f64 - sampled / 2.0).abs() < 5.0 * sampled.sqrt() / 2.0);

    log.0.clear();
    for (op1, tag) in [(0, 1), (7, 1), (7, 2), (1 << 32, 1)] {
        let facts = Facts::NONE
            .with(Field::Op1, op1)
            .with(Field::Op2, 0x1000)
            .with(Field::Op3, 8);
        engine.offer(class(Operation::Store, tag), &facts, &mut log);
    }
    let miss = Facts::NONE.with(Field::Pc, 0x400).with(Field::Res2, 0xbeef);
    engine.offer(
        Entry::of(Subject::Event(Event::L2DataMiss)),
        &miss,
        &mut log,
    );
    let sent: Vec<_> = (log.0.iter())
        .map(|e| match e {
            Effect::Message { queue, record, .. } => (*queue, record.0[..3].to_vec()),
            other => panic!("{other:?}"),
        })
        .collect();
    // Every store of a reference with the tag, and only those: 2^32 is no null either.
    assert_eq!(
        sent,
        [
            (3, vec![7, 0x1000, 8]),
            (3, vec![1 << 32, 0x1000, 8]),
            (2, vec![0x400, 0xbeef, 0]),
        ]
    );
}

#[test]
fn filters_and_rates_multiply() {
    let text =
        "for opALU * every 10 collect pc; if filter 4 and filter 16 then count stop else stop;";
    let program = assemble(text).expect("it assembles").program;
    let mut engine = Engine::new(&program, 7);
    let mut log = Log::default();
    let alu = Entry::of(Subject::Class(
        Class::new(Operation::Alu, 3).expect("a tag"),
    ));
    let executions = 2_000_000_u32;
    for _ in 0..executions {
        engine.offer(alu, &Facts::NONE, &mut log);
    }
    engine.finish(&mut log);
    let expected = f64::from(executions) / 640.0;
    let counted = log.counts(&program)[0] as f64;
    assert!(
        (counted - expected).abs() < 5.0 * expected.sqrt(),
        "{counted} of {expected}"
    );
}

#[test]
fn counters_are_read_before_they_overflow_and_lose_nothing() {
    let text = "for opALU 0 always collect pc; count stop;";
    let program = assemble(text).expect("it assembles").program;
    let mut engine = Engine::new(&program, 1);
    let mut log = Log::default();
    let alu = Entry::of(Subject::Class(
        Class::new(Operation::Alu, 0).expect("a tag"),
    ));
    for n in 1..=10_000_u32 {
        engine.offer(alu, &Facts::NONE, &mut log);
        let start = trommel_query::QueryPc::FIRST;
        assert_eq!(u32::from(engine.counter(start)), n % u32::from(NEARLY_FULL));
    }
    assert_eq!(log.0.len(), 2);
    engine.finish(&mut log);
    engine.finish(&mut log);
    assert_eq!((log.0.len(), log.counts(&program)[0]), (3, 10_000));
}
