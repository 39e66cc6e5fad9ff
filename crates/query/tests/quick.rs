//! Ways of queries that only compare and count are what the engine does.

mod common;

use proptest::prelude::*;
use trommel_query::engine::{Effect, Log};
use trommel_query::quick::{Node, Quick};
use trommel_query::{Engine, Entry, Operation, Program, QueryPc, Record, Subject, assemble};

use common::Choice;

/// The engine's counts of each instruction for a record, and whether it sent anything.
fn asked(program: &Program, entry: Entry, record: &Record) -> (Vec<QueryPc>, bool) {
    let mut engine = Engine::new(program, 1);
    let mut log = Log::default();
    let control = program.table().get(entry).expect("an entry");
    engine.query(control.start, record, &mut log);
    let counts = |at: &QueryPc| engine.take_counted(*at) != 0;
    let all = (0..program.code().len()).filter_map(QueryPc::new);
    let counted = all.filter(counts).collect();
    let sent = log
        .0
        .iter()
        .any(|effect| !matches!(effect, Effect::Counted { .. }));
    (counted, sent)
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1 << 20, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn ways_are_what_the_engine_does(seed in any::<u64>()) {
        let mut choice = Choice::new(seed);
        let text = common::text(&mut choice);
        let Ok(assembly) = assemble(&text) else {
            return Err(TestCaseError::reject("not valid"));
        };
        let program = assembly.program;
        let quick = Quick::of(&program);
        for (entry, _) in program.table().entries() {
            let Some(tree) = quick.tree(entry) else { continue };
            for _ in 0..20 {
                let record = Record(std::array::from_fn(|_| choice.word()));
                if let Some(way) = tree.leaf(&record) {
                    let way = &quick.ways()[usize::from(way)];
                    prop_assert_eq!(way.entry, entry);
                    let (counted, sent) = asked(&program, entry, &record);
                    prop_assert!(!sent, "{}", text);
                    let mut expected = way.counted.clone();
                    expected.sort_unstable();
                    prop_assert_eq!(expected, counted, "{}", text);
                }
            }
        }
    }
}

fn tree(text: &str) -> (Option<Node>, usize) {
    let program = assemble(text).expect(text).program;
    let class = trommel_query::Class::new(Operation::Store, 0).expect("a class");
    let quick = Quick::of(&program);
    let tree = quick.tree(Entry::of(Subject::Class(class))).cloned();
    (tree, quick.ways().len())
}

#[test]
fn what_counts_or_filters_is_decided_without_the_engine() {
    let head = "for opSTORE 0 always collect op1 op2;";
    let of = |clauses: &str| tree(&format!("{head}{clauses}"));
    assert_eq!(of("count stop;"), (Some(Node::Way(0)), 1));
    let (filtered, ways) = of("if op1 <> 0 then send 3 stop else stop;");
    let Some(Node::Test {
        matched,
        otherwise,
        checks,
    }) = filtered
    else {
        panic!("no test");
    };
    assert_eq!((*matched, *otherwise, ways), (Node::Ask, Node::Way(0), 1));
    assert_eq!(checks.len(), 1);
    // Two comparisons of one instruction, and two instructions.
    assert_eq!(of("if op1 = 1 and op2 = 1 then count; stop;").1, 2);
    assert_eq!(
        of("if op1 = 1 then count; if op1 = 2 then count; stop;").1,
        4
    );
    for clauses in [
        "send 1 stop;",
        "if filter 4 then count; stop;",
        "if op1 < op2 then count; stop;",
        "interrupt stop;",
    ] {
        assert_eq!(of(clauses).0, None, "{clauses}");
    }
    let sampled = "for opSTORE 0 every 2 collect op1; count stop;";
    assert_eq!(tree(sampled), (None, 0));
}

#[test]
fn entries_beyond_the_ways_that_there_can_be_have_no_tree() {
    let three = "if op1 = 1 then count; if op1 = 2 then count; if op1 = 3 then count; stop;";
    let all = "opJMP * opBRANCH * opLOAD * opSTORE * opALU * opMULT * opFLOAT * opSYS *";
    let text = format!("for {all} always collect op1; {three}");
    let program = assemble(&text).expect("valid").program;
    let quick = Quick::of(&program);
    let entries = program.table().entries();
    let trees = entries.filter(|(entry, _)| quick.tree(*entry).is_some());
    assert!((1..32).contains(&trees.count()));
    assert!((64..=128).contains(&quick.ways().len()));
}
