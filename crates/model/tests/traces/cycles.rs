//! Cycles that can be counted by hand.
//!
//! An instruction fetched in cycle 0 is dispatched in 6, issued in 7, done in 8 if it takes one, and retires in 8: nine
//! cycles. `F`, `D`, `I`, `R` below are the cycles of fetch, dispatch, issue and retirement.

use crate::listing::*;
use trommel_model::machine::queries;
use trommel_model::parameters::{Cheap, WrongPaths};
use trommel_model::profile::{Answers, Load};
use trommel_model::{Parameters, Program, RunFigures};
use trommel_query::Field;
use trommel_query::engine::Effect;
use trommel_query::record::misc;

fn listing() -> Listing {
    Listing::default()
}

#[test]
fn one_instruction_goes_through_the_pipeline() {
    assert_eq!(listing().times(1, MOV).cycles(near()), 9);
}

#[test]
fn a_chain_executes_one_instruction_a_cycle() {
    // The n-th: I = 6 + n, R = 7 + n.
    for n in [2, 8, 100, 500] {
        assert_eq!(listing().times(n, ADD).cycles(near()), 8 + n as u64);
    }
}

#[test]
fn independent_instructions_go_eight_abreast() {
    // The k-th group of eight: F = k − 1, R = k + 7.
    for groups in [1, 2, 100] {
        assert_eq!(
            listing().times(8 * groups, MOV).cycles(near()),
            groups as u64 + 8
        );
    }
    assert_eq!(listing().times(801, MOV).cycles(near()), 101 + 8);
}

#[test]
fn units_and_ports_limit_what_is_issued() {
    // Two multipliers, three cycles, pipelined: I = 7 7 8 8 9 9 10 10, the last R = 13.
    assert_eq!(listing().times(8, IMUL).cycles(near()), 14);
    // Four ports, two cycles: I = 7 and 8, the last R = 10.
    assert_eq!(listing().times(8, LOAD).cycles(near()), 11);
    // Two divisions depend on each other: I = 7 and 27, R = 47.
    assert_eq!(listing().times(2, DIV).cycles(near()), 48);
}

#[test]
fn a_misprediction_costs_eight_cycles_of_fetching() {
    // Taken, predicted right: what follows is fetched in the next cycle.
    assert_eq!(listing().taken(JUMP).at(MOV, 0).cycles(near()), 10);
    // Counters start at not taken. F = 0, I = 7, done in 8, F of the next = 9, R = 17.
    assert_eq!(listing().taken(BRANCH).at(MOV, 0).cycles(near()), 18);
    assert_eq!(listing().at(BRANCH, 0).at(MOV, 0).cycles(near()), 9);
    // One taken jump a cycle.
    let mut jumps = listing();
    for _ in 0..10 {
        jumps.taken(JUMP);
    }
    assert_eq!(jumps.cycles(near()), 10 + 8);
}

/// A machine whose front end goes astray.
fn astray(paths: WrongPaths) -> Parameters {
    let mut parameters = near();
    parameters.core.wrong_paths = paths;
    parameters
}

#[test]
fn a_wrong_path_takes_its_place_until_the_branch_is_resolved() {
    // The branch is taken, to what follows, and predicted not to be: F = 0, done in 8. Wrong: the first eight moves F = 1, D = 7; the
    // others are fetched and never dispatched. Right: F = 9 to 12, R = 17 to 20.
    let mut moves = listing();
    moves.taken(BRANCH).times(32, MOV);
    let program = Program::new(moves.trace());
    let run = |parameters, text: &str| program.run(parameters, &queries(text), &[], true);
    let waiting = run(near(), "").core;
    let modelled = run(astray(WrongPaths::Modelled), "").core;
    assert_eq!((waiting.cycles, waiting.squashed), (21, 0));
    assert_eq!((modelled.cycles, modelled.squashed), (21, 8));
    assert_eq!(modelled.instructions, 33);
    // The wrong path has eight networks in 7, and none from 8 on.
    let asked = run(astray(WrongPaths::Modelled).with(64, 64), ALWAYS)
        .profile
        .networks;
    let plain = run(near().with(64, 64), ALWAYS).profile.networks;
    assert_eq!((asked[0], asked[8]), (plain[0] - 1, plain[8] + 1));
    assert_eq!(asked[9..], plain[9..]);
    let asked = run(astray(WrongPaths::Modelled).with(64, 64), ALWAYS);
    assert_eq!(asked.loads[0].seen[0].executed, 32);
}

#[test]
fn a_wrong_path_without_buffers_stalls_nobody_else() {
    // One buffer: the first wrong move has it in 7, the second one waits for it until 8.
    let run = listing().taken(BRANCH).times(1, MOV).times(1, ADD).run(
        astray(WrongPaths::Modelled).with(32, 1),
        ALWAYS,
        &[],
    );
    // As without: D = 15, its query has ended in 21; D = 22, R = 24.
    assert_eq!(run.core.cycles, 25);
    assert_eq!(run.core.stalled, [0, 1 + 7]);
    assert_eq!(run.core.squashed, 1);
}

#[test]
fn squashed_instructions_make_records_where_they_are_profiled() {
    let query = "for opALU * always collect pc misc; send 1 stop;";
    let run = listing().taken(BRANCH).times(8, MOV).run(
        astray(WrongPaths::Profiled).with(32, 32),
        query,
        &[],
    );
    let log = run.log().expect("asked for");
    let fields = [Field::Pc, Field::Misc].into_iter().collect();
    let squashed = log.0.iter().filter(|effect| match effect {
        Effect::Message { record, .. } => {
            let word = record.get(Field::Misc, fields).unwrap_or(0);
            word & misc::SQUASHED != 0
        }
        _ => false,
    });
    assert_eq!((squashed.count(), log.0.len()), (8, 16));
    assert_eq!(run.loads[0].seen[0].executed, 16);
}

#[test]
fn other_queries_are_loaded_when_the_pipeline_is_drained() {
    // Eight moves, then eight that are profiled. The first eight: D = 6, R = 8. Nothing is in the window from 8 on, so a register for
    // each of the four tags and a query instruction are written in 8 to 12. The others: D = 13, R = 15.
    let program = Program::new(listing().times(16, MOV).trace());
    let (nothing, asked) = (queries(""), queries(ALWAYS));
    let load = |after, queries| Load { after, queries };
    let run = |later: &[Load<'_>]| {
        program.run_loads(near().with(64, 64), load(0, &nothing), later, &[], true)
    };
    let once = run(&[load(8, &asked)]);
    assert_eq!((once.core.cycles, once.core.loading), (16, 6));
    let executed = |told: &RunFigures| -> Vec<u64> {
        let of = |told: &Answers| told.seen.iter().map(|seen| seen.executed).sum();
        told.loads.iter().map(of).collect()
    };
    assert_eq!(executed(&once), [0, 8]);
    // And taken out again after four more.
    let twice = run(&[load(8, &asked), load(12, &nothing)]);
    assert_eq!(executed(&twice), [0, 4, 0]);
    assert_eq!((twice.loads.len(), twice.core.instructions), (3, 16));
    // What is never come to is not loaded.
    assert_eq!(run(&[load(17, &asked)]).loads.len(), 1);
}

#[test]
fn misses_cost_their_round_trip_and_overlap() {
    let far = Parameters::TABLE_5;
    // The code has to come first: F = 12.
    assert_eq!(listing().at(MOV, 0).cycles(far), 21);
    // I = 19, the address, the cache, twelve: done in 33.
    assert_eq!(listing().at(LOAD, 0x9000).cycles(far), 34);
    // Another line at the same time; the same line, that is on its way.
    assert_eq!(listing().at(LOAD, 0x9000).at(LOAD, 0xa000).cycles(far), 34);
    assert_eq!(listing().at(LOAD, 0x9000).at(LOAD, 0x9008).cycles(far), 34);
    // A chain: the second one hits, I = 33, done in 35.
    assert_eq!(
        listing().at(CHASE, 0x9000).at(CHASE, 0x9008).cycles(far),
        36
    );
    // A store does not wait for its line.
    assert_eq!(listing().at(STORE, 0x9000).cycles(far), 21);
    // A load over the end of a line waits for both, which come together.
    assert_eq!(listing().at(LOAD, 0x901c).cycles(far), 34);
}

#[test]
fn a_load_gets_what_the_store_before_it_stored() {
    // Both I = 7; another address: R = 9.
    assert_eq!(
        listing().at(STORE, 0x9000).at(LOAD, 0xa000).cycles(near()),
        10
    );
    // The same: the store is done in 8, the load in 10.
    assert_eq!(
        listing().at(STORE, 0x9000).at(LOAD, 0x9000).cycles(near()),
        11
    );
    assert_eq!(
        listing().at(STORE, 0x9000).at(LOAD, 0x9004).cycles(near()),
        11
    );
}

#[test]
fn a_repeated_instruction_takes_a_cycle_a_time() {
    assert_eq!(listing().add(FILL, 0x9000, false, 1).cycles(near()), 9);
    assert_eq!(listing().add(FILL, 0x9000, false, 50).cycles(near()), 58);
    // Farther than the calendar reaches.
    let mut long = listing();
    long.add(FILL, 0x9000, false, 1000).at(FILL, 0xf000);
    assert_eq!(long.cycles(near()), 8 + 1000 + 1);
}

#[test]
fn a_full_window_stalls_dispatch() {
    let mut parameters = near();
    parameters.core.window = 16;
    // The division: I = 7, R = 27. D of the groups of eight: 6, 7, and, as they retire, 27 and 28; the last R = 30.
    let run = listing().at(DIV, 0).times(31, MOV).run(parameters, "", &[]);
    assert_eq!(run.core.cycles, 31);
    // Cycles 8 to 26.
    assert_eq!(run.core.full, 19);
    // In a window of 128 all is waited for at once: R = 27 to 30.
    assert_eq!(listing().at(DIV, 0).times(31, MOV).cycles(near()), 31);
    assert_eq!(listing().at(DIV, 0).times(15, MOV).cycles(near()), 29);
}

const ALWAYS: &str = "for opALU * always collect pc; stop;";

#[test]
fn without_a_free_buffer_dispatch_stalls_until_the_query_has_ended() {
    // The first: D = 6, R = 8. Its query: slot 0 in 8, ended in slot 0's next turn, 12; the buffer is free in 13.
    // The second: D = 13, R = 15; slot 3 in 15, ended in 19. The third: D = 20, R = 22.
    let run = listing().times(3, MOV).run(near().with(32, 1), ALWAYS, &[]);
    assert_eq!(run.core.cycles, 23);
    // 6 to 12, and 13 to 19.
    assert_eq!(run.core.stalled, [0, 14]);
}

#[test]
fn without_a_free_network_dispatch_stalls_until_retirement() {
    // D = 6, 8, 10, as those before retire; R = 12.
    let run = listing().times(3, MOV).run(near().with(1, 32), ALWAYS, &[]);
    assert_eq!((run.core.cycles, run.core.stalled), (13, [4, 0]));
    // Cheap profiles take none.
    let mut cheap = near().with(1, 32);
    cheap.profiling.cheap = Cheap::Retirement;
    let run = listing().times(3, MOV).run(cheap, ALWAYS, &[]);
    assert_eq!((run.core.cycles, run.core.stalled), (9, [0, 0]));
    // With enough of both nobody notices.
    let run = listing().times(3, MOV).run(near().with(3, 3), ALWAYS, &[]);
    assert_eq!((run.core.cycles, run.core.stalled), (9, [0, 0]));
    // None before 6 and from 8 on, until the queries have ended in 14.
    assert_eq!(run.profile.networks, [13, 0, 0, 2]);
}

#[test]
fn the_window_hides_stalls_under_a_long_chain() {
    // Fifty additions depend on each other; the profiled moves after them wait for a network, two cycles each.
    let mut hidden = listing();
    hidden.times(50, ADD).times(4, LOAD);
    let query = "for opLOAD * always collect pc; stop;";
    let free = hidden.trace();
    let free = trommel_model::Program::new(free);
    let cycles = |networks: usize| {
        let queries = trommel_model::machine::queries(query);
        free.run(near().with(networks, 32), &queries, &[], false)
    };
    // The chain ends in 57; one load at a time: each waits for the one before to retire.
    let (all, one) = (cycles(4), cycles(1));
    assert_eq!(all.core.cycles, 58);
    // D = 12, and R = 57 after the chain; the others D = 57, 60, 63; the last done in 66.
    assert_eq!(one.core.cycles, 67);
    assert_eq!(one.core.stalled[0], 45 + 3 + 3);
}

#[test]
fn the_query_engine_executes_four_queries_in_turns() {
    // Five records in cycle 8, of one instruction each: slots 0 to 3 in 8 to 11, ended in 12 to 15; the fifth takes
    // slot 0 in 12, and ends in 16.
    let run = listing()
        .times(5, MOV)
        .run(near().with(32, 32), ALWAYS, &[]);
    assert_eq!(run.profile.buffers[..7], [6, 1, 1, 1, 1, 7, 0]);
    assert_eq!(run.engine[0], 5);
    // Two instructions each: ended in 16 to 19, and 24.
    let two = "for opALU * always collect pc; if pc = 1 then stop; if pc = 2 then count; stop;";
    let run = listing().times(5, MOV).run(near().with(32, 32), two, &[]);
    let per_query = run.engine[0] / 5;
    let last = 8 + 4 + 8 * per_query;
    let cycles: u64 = run.profile.buffers.iter().sum();
    assert!(per_query >= 2);
    if per_query == 2 {
        assert_eq!(run.profile.buffers[..7], [6, 5, 1, 1, 1, 11, 0]);
        assert_eq!(cycles, last - 8 + 5);
    }
}

#[test]
fn a_message_leaves_its_buffer_in_four_cycles() {
    let send = "for opALU * always collect pc; send 1 stop;";
    // In use from 6 on; the last stage is 11, written in 12 to 15, free in 16.
    let run = listing().times(1, MOV).run(near(), send, &[]);
    assert_eq!(run.profile.buffers[..2], [6, 11]);
    // The second one's follows, in 16 to 19.
    let run = listing().times(2, MOV).run(near(), send, &[]);
    assert_eq!(run.profile.buffers[..3], [6, 4, 11]);
}

#[test]
fn retirement_waits_for_a_synchronous_interrupt() {
    let query = "for opMULT * always collect pc; interrupt sync stop;";
    // I = 7, R = 10; its query is fetched in 10 and has ended in 14. The move retires in 15.
    let run = listing().at(IMUL, 0).at(MOV, 0).run(near(), query, &[]);
    assert_eq!((run.core.cycles, run.profile.interrupts), (16, 1));
    let query = "for opMULT * always collect pc; interrupt stop;";
    let run = listing().at(IMUL, 0).at(MOV, 0).run(near(), query, &[]);
    assert_eq!((run.core.cycles, run.profile.interrupts), (11, 1));
}

#[test]
fn an_interrupt_stops_fetching_for_thirty_cycles() {
    let query = "for opSTORE * always collect pc; interrupt stop;";
    // Everything is fetched and retires at the same rate, so each cycle in which nothing is fetched is one more.
    let mut long = listing();
    long.at(STORE, 0x9000).times(8 * 100, MOV);
    let free = long.trace();
    let free = trommel_model::Program::new(free);
    let run = |text: &str| {
        let queries = trommel_model::machine::queries(text);
        free.run(near(), &queries, &[], false).core.cycles
    };
    assert_eq!(run(query) - run(""), 30);
}

#[test]
fn what_the_second_level_misses_is_an_event() {
    use trommel_model::parameters::{Geometry, SecondLevel};
    let mut parameters = Parameters::TABLE_5;
    parameters.core.second = Some(SecondLevel {
        cache: Geometry {
            bytes: 1 << 20,
            ways: 8,
            line: 64,
        },
        memory: 100,
    });
    let query = "for evL2DMISS * always collect pc res2; send 1 stop;";
    let run = listing()
        .at(LOAD, 0x9000)
        .at(LOAD, 0x9020)
        .at(LOAD, 0x9000)
        .run(parameters, query, &[]);
    // The code comes from memory too: F = 112. I = 119, done in 119 + 2 + 112.
    assert_eq!(run.core.cycles, 234);
    // The second line of the first level is in the same line of the second: on its way, no miss.
    assert_eq!(run.profile.records, 1);
}
