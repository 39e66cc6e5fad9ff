//! Properties that hold for any trace, any machine and any queries.

use crate::listing::*;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use trommel_compress::random::SplitMix64;
use trommel_model::machine::queries;
use trommel_model::parameters::{Cheap, Geometry, Parameters, Translation, WrongPaths};
use trommel_model::profile::facts_of;
use trommel_model::service::{BARRIER, EDGES};
use trommel_model::trace::Trace;
use trommel_model::trace::record::{RecordingSettings, record};
use trommel_model::{Program, RunFigures};
use trommel_query::engine::{Effect, Log};
use trommel_query::record::misc;
use trommel_query::throttle::Rehearsal;
use trommel_query::{Class, Engine, Entry, Field, Operation, Subject};

/// A real program's start.
fn recorded() -> &'static Program {
    static RECORDED: OnceLock<Program> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let mut command = Command::new("/bin/true");
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let wanted = RecordingSettings {
            every: Duration::ZERO,
            stretches: 1,
            instructions: 30_000,
            finish: false,
        };
        Program::new(record(&mut command, &wanted).expect("it can be traced"))
    })
}

/// Any mixture of instructions.
fn random(seed: u64, n: usize) -> Trace {
    let mut random = SplitMix64::new(seed);
    let mut listing = Listing::default();
    for _ in 0..n {
        let address = 0x9000 + 8 * random.below(4000) * random.below(2);
        let kinds = [MOV, ADD, IMUL, DIV, LOAD, CHASE, STORE, BRANCH, FILL];
        let kind = kinds[random.below(kinds.len() as u64) as usize];
        let taken = kind == BRANCH && random.below(2) == 0;
        let repeats = if kind == FILL {
            random.below(700) as u32
        } else {
            1
        };
        listing.add(kind, address, taken, repeats);
    }
    listing.trace()
}

/// The reference interpreter's answer.
fn reference(program: &Program, text: &str, seed: u64) -> Log {
    let queries = queries(text);
    let mut engine = Engine::new(&queries, seed);
    let mut log = Log::default();
    let mut rehearsal = Rehearsal::default();
    for execution in program.trace().replay() {
        let instruction = &program.code()[execution.code as usize];
        let class = Class::new(instruction.operation, instruction.tag).expect("a tag below 4");
        let facts = facts_of(instruction, &execution, false);
        let entry = Entry::of(Subject::Class(class));
        if let Some((start, record)) = engine.select(entry, &facts) {
            engine.query(start, &record, &mut log);
            engine.pace(entry, rehearsal.next(entry));
        }
    }
    engine.finish(&mut log);
    log
}

/// Messages in an order that does not depend on time, and sums of what was counted.
fn sorted(log: &Log) -> (Vec<String>, u64) {
    let mut messages = Vec::new();
    let mut counted = 0;
    for effect in &log.0 {
        match effect {
            Effect::Counted { records, .. } => counted += records,
            other => messages.push(format!("{other:?}")),
        }
    }
    messages.sort();
    (messages, counted)
}

const TEXTS: [&str; 8] = [
    "for opBRANCH * every 16 collect pc res1; send 1 stop; for opSTORE 1 always collect op1 op2 op3; if op1 <> 0 then send 3 stop else stop;",
    "for opLOAD * always collect pc res1 res2; if res1.u8@0 = 0 then send 3; if res2 bset 8 then count; stop;",
    "for opALU * every 7 collect pc op1 op2 res1; if op1 < op2 then send 0 stop else if res1 = 0 then send 1 stop else send 2 stop;",
    "for opJMP * always collect pc res1; if filter 16 then send 9; stop;",
    "for opSTORE * opLOAD * always collect pc res2; send 4..7 stop;",
    "for opSTORE * opALU * every auto collect pc res2; send 4 stop;",
    "for opSTORE * opLOAD * every 9 pair 8 collect pc res2; if res2 = second.res2 then send 5 stop else send 6 stop;",
    "for opBRANCH * every 20 pair 5 collect pc res1; if distance = 1 then interrupt sync stop else send 7 stop;",
];

#[test]
fn messages_are_those_of_the_reference_interpreter_on_every_machine() {
    let program = recorded();
    for (n, text) in TEXTS.into_iter().enumerate() {
        let expected = sorted(&reference(program, text, 1));
        assert!(!expected.0.is_empty(), "{text}");
        for (networks, buffers) in [(1, 1), (2, 8), (32, 32)] {
            let mut parameters = Parameters::TABLE_5.with(networks, buffers);
            parameters.profiling.period = 0;
            parameters.profiling.cheap =
                [Cheap::Nothing, Cheap::Retirement, Cheap::Stores][(n + networks) % 3];
            let run = program.run(parameters, &queries(text), &[], true);
            let log = run.log().expect("it was asked for");
            assert!(sorted(log) == expected, "{text} with {networks}, {buffers}");
        }
    }
}

/// All that retires makes its record with wrong paths too, whatever they take, and how little there is.
#[test]
fn wrong_paths_take_time_and_lose_nothing() {
    let program = recorded();
    let text = "for opLOAD * opALU * opBRANCH * always collect pc res1 misc; send 1 stop;";
    let fields = [Field::Pc, Field::Res1, Field::Misc].into_iter().collect();
    let words = |facts: &dyn Fn(Field) -> u64| {
        let taken = facts(Field::Misc) & misc::TAKEN;
        (facts(Field::Pc), facts(Field::Res1), taken)
    };
    let asked = [Operation::Load, Operation::Alu, Operation::Branch];
    let mut expected = Vec::new();
    for execution in program.trace().replay() {
        let instruction = &program.code()[execution.code as usize];
        if asked.contains(&instruction.operation) {
            let facts = facts_of(instruction, &execution, false);
            expected.push(words(&|field| facts.get(field)));
        }
    }
    expected.sort_unstable();
    for paths in [WrongPaths::Modelled, WrongPaths::Profiled] {
        for (networks, buffers, window) in [(1, 1, 3), (2, 8, 128), (64, 64, 128)] {
            let mut parameters = Parameters::TABLE_5.with(networks, buffers);
            parameters.core.window = window;
            parameters.core.wrong_paths = paths;
            let run = program.run(parameters, &queries(text), &[], true);
            assert_eq!(run.core.instructions, program.trace().len());
            assert!(run.core.squashed > 100, "{}", run.core.squashed);
            let (mut right, mut squashed) = (Vec::new(), 0);
            for effect in &run.log().expect("it was asked for").0 {
                let Effect::Message { record, .. } = effect else {
                    panic!("only messages");
                };
                let of = |field| record.get(field, fields).expect("collected");
                match of(Field::Misc) & misc::SQUASHED {
                    0 => right.push(words(&of)),
                    _ => squashed += 1,
                }
            }
            right.sort_unstable();
            assert!(
                right == expected,
                "{networks}, {buffers}, {window}, {paths:?}"
            );
            // The branch itself has the only buffer.
            let delivered = paths == WrongPaths::Profiled && buffers > 1;
            assert_eq!(squashed > 50, delivered, "{squashed}");
        }
    }
}

#[test]
fn rates_are_throttled_back_when_dispatch_stalls() {
    let program = Program::new(random(3, 200_000));
    let run = |rate: &str, networks: usize, period: u64| {
        let text = format!(
            "for opALU * opLOAD * opSTORE * opBRANCH * {rate} collect pc res1; send 1 stop;"
        );
        let mut parameters = Parameters::TABLE_5.with(networks, networks);
        parameters.profiling.period = period;
        let run = program.run(parameters, &queries(&text), &[], false);
        let stalled: u64 = run.core.stalled.iter().sum();
        (stalled as f64 / run.core.cycles as f64, run.profile.records)
    };
    let (always, all) = run("always", 1, 40_000);
    assert!(always > 0.3, "{always}");
    for percent in [2, 10] {
        let (share, records) = run(&format!("every auto {percent}%"), 1, 40_000);
        let budget = f64::from(percent) / 100.0;
        assert!(share < 1.5 * budget, "{share} of {budget}");
        assert!(
            records < all / 4 && records > all / 1000,
            "{records} of {all}"
        );
    }
    // What costs nothing is not thinned.
    let (share, records) = run("every auto 2%", 200, 40_000);
    assert_eq!((share, records), (0.0, all));
}

#[test]
fn everything_retires_whatever_stalls() {
    let text = "for opALU * opLOAD * every 3 collect pc; send 1 stop; for opSTORE * always collect op1; if op1 <> 0 then send 3 stop else stop;";
    for seed in 0..12 {
        let mut parameters = Parameters::TABLE_5.with(1 + seed as usize % 3, 1 + seed as usize % 4);
        parameters.core.window = [128, 100, 16, 3][seed as usize % 4];
        parameters.core.width = [8, 4, 1][seed as usize % 3];
        parameters.core.ports = [4, 1][seed as usize % 2];
        parameters.profiling.queue = 1 + seed;
        if seed % 2 == 0 {
            let pages = Geometry {
                bytes: 16 << 12,
                ways: 4,
                line: 4096,
            };
            parameters.core.translation = Some(Translation { pages, walk: 30 });
        }
        let program = Program::new(random(seed, 4000));
        let run = program.run(
            parameters,
            &queries(text),
            &[&[(1, EDGES)], &[(3, BARRIER)]],
            true,
        );
        assert_eq!(run.core.instructions, 4000);
        assert_eq!(run.core.classes.iter().sum::<u64>(), 4000);
        let messages = run.log().expect("asked for").0.len() as u64;
        assert!(run.served <= messages && messages > 500);
        assert_eq!(
            run,
            program.run(
                parameters,
                &queries(text),
                &[&[(1, EDGES)], &[(3, BARRIER)]],
                true
            )
        );
    }
}

#[test]
fn profiling_costs_nothing_where_nothing_is_asked_or_everything_is_there() {
    let program = recorded();
    let run = |text: &str, networks, buffers| -> RunFigures {
        program.run(
            Parameters::TABLE_5.with(networks, buffers),
            &queries(text),
            &[],
            false,
        )
    };
    let free = run("", 1, 1);
    assert_eq!((free.profile.records, free.core.stalled), (0, [0, 0]));
    let enough = run(TEXTS[0], 128, 4096);
    assert_eq!(enough.core, free.core);
    let one = run(TEXTS[0], 1, 8);
    assert!(one.core.cycles > free.core.cycles && one.core.stalled[0] > 0);
    assert!(free.ipc() > 0.5 && free.ipc() < 8.0, "{}", free.ipc());
}

#[test]
fn a_slow_reader_holds_the_program_up_and_loses_nothing() {
    let program = recorded();
    let text = "for opSTORE * always collect op1; send 3 stop;";
    let run = |services: &[&[_]]| program.run(Parameters::TABLE_5, &queries(text), services, true);
    let (unread, read) = (run(&[]), run(&[&[(3, BARRIER)]]));
    assert!(read.core.cycles > unread.core.cycles);
    assert!(
        read.engine[1] > 0 && read.deepest >= 127,
        "{}",
        read.deepest
    );
    let log = |run: &RunFigures| sorted(run.log().expect("asked for"));
    assert_eq!(log(&read), log(&unread));
    // What may be dropped is dropped, and counted, and the program goes on.
    let text = "for opSTORE * always collect op1; send 3 or drop stop;";
    let run = program.run(
        Parameters::TABLE_5,
        &queries(text),
        &[&[(3, BARRIER)]],
        true,
    );
    assert!(run.engine[2] > 0 && run.core.cycles < read.core.cycles);
}

#[test]
fn retirement_records_account_for_every_cycle() {
    let program = recorded();
    let every = "for opJMP * opBRANCH * opLOAD * opSTORE * opALU * opMULT * opFLOAT * opSYS * \
                 always collect pc ftime wlat elat rtime rrate; send 4 stop;";
    let run = program.run(
        Parameters::TABLE_5.with(4096, 4096),
        &queries(every),
        &[],
        true,
    );
    let fields = [
        Field::Pc,
        Field::FetchTime,
        Field::WindowLatency,
        Field::ExecutionLatency,
    ];
    let fields = fields
        .into_iter()
        .chain([Field::RetireTime, Field::RetireRate])
        .collect();
    let mut cycles = 0.0;
    let mut retired = 0;
    for effect in &run.log().expect("asked for").0 {
        let Effect::Message { record, .. } = effect else {
            panic!("only messages");
        };
        let get = |field| record.get(field, fields).expect("collected");
        let rate = get(Field::RetireRate);
        // C = c + 1/n, section 3.2.
        cycles += (rate >> 32) as f64 + 1.0 / (rate & 0xffff) as f64;
        let [fetched, retires] = [Field::FetchTime, Field::RetireTime].map(get);
        let executed = get(Field::WindowLatency) + get(Field::ExecutionLatency);
        assert!(fetched + 6 + executed <= retires);
        retired += 1;
    }
    assert_eq!(retired, run.core.instructions);
    assert!(
        (cycles - run.core.cycles as f64).abs() < 1e-3,
        "{cycles} {}",
        run.core.cycles
    );
}

#[test]
fn a_sample_of_retirement_records_estimates_the_cycles_of_a_loop() {
    // Two hundred turns of two loops: eight moves, and eight additions that depend on each other.
    let mut listing = Listing::default();
    for _ in 0..200 {
        listing.times(24, MOV).times(8, ADD);
    }
    let query = "for opALU * every 4 collect pc op1 rrate; send 4 stop;";
    let run = listing.run(near().with(128, 4096), query, &[]);
    let fields = [Field::Pc, Field::Op1, Field::RetireRate]
        .into_iter()
        .collect();
    let mut cycles = 0.0;
    for effect in &run.log().expect("asked for").0 {
        if let Effect::Message { record, .. } = effect {
            let rate = record.get(Field::RetireRate, fields).expect("collected");
            cycles += 4.0 * ((rate >> 32) as f64 + 1.0 / (rate & 0xffff) as f64);
        }
    }
    let off = (cycles / run.core.cycles as f64 - 1.0).abs();
    assert!(off < 0.1, "{cycles} for {}", run.core.cycles);
}
