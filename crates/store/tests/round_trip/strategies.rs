//! Any profile: strategies for each of its parts.

use proptest::prelude::*;
use trommel_profile::arguments::{Argument, Passed};
use trommel_profile::call_tree::{Basis, CallTree, Frame, Lost, Weight};
use trommel_profile::callers::{Called, Callers};
use trommel_profile::custom::{Custom, Value, Valued};
use trommel_profile::filter::{Filter, Filtered};
use trommel_profile::intervals::{Interval, Intervals, Row, Sequence};
use trommel_profile::memory::{Cache, Conflict, Level, Levels, Pair};
use trommel_profile::queries::{Acted, Active, Count, Paid, Queries, Seen, Sent, Served, Windowed};
use trommel_profile::rare::{EDGES, Edge, FEW, Rare};
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::{At, Function, Held, Machine, Operand, Samples, Thread as Own};
use trommel_profile::simulated::{
    Accessed, Caches, Predicted, SharedLine, Sharing, Simulated, Toucher,
};
use trommel_profile::windows::Windows;
use trommel_profile::{
    Counted, KindProfile, Loaded, Module, Origin, Profile, Run, Scope, Site, Sum, Thread, Threads,
};
use trommel_tuple::{Kind, Message, ModuleId, Place, Tuple};

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        any::<u64>(),
        0_u64..0x1000,
        (1_u64..4, 0_u64..0x10_0000).prop_map(|(m, a)| m << 48 | a)
    ]
    .prop_map(Place::from_word)
}

fn site() -> impl Strategy<Value = Site> {
    prop_oneof![
        (place(), place())
            .prop_map(|(taken, fallthrough)| Site::Conditional { taken, fallthrough }),
        Just(Site::IndirectJump),
        Just(Site::DirectCall),
        Just(Site::IndirectCall),
    ]
}

fn kind_profile() -> impl Strategy<Value = KindProfile> {
    let values = prop::collection::btree_map(any::<u64>(), any::<u64>(), 0..20);
    let values = values.prop_map(|v| v.into_iter().collect::<Vec<_>>());
    let counts = prop::collection::btree_map(place(), values, 0..30);
    (any::<u64>(), any::<u64>(), counts).prop_map(|(seen, messages, counts)| KindProfile {
        seen,
        messages,
        counts,
    })
}

fn windows() -> impl Strategy<Value = Windows> {
    let real = || 0.0..1e18_f64;
    let sampled = || {
        (any::<u64>(), real(), real(), 0.0..=1.0_f64).prop_map(
            |(samples, executions, variance, probability)| Sampled {
                samples,
                executions,
                variance,
                probability,
                factor_error: probability / 4.0,
            },
        )
    };
    let conflict = prop::sample::select(Conflict::ALL.to_vec());
    let pair = (conflict, place(), place()).prop_map(|(conflict, store, load)| Pair {
        conflict,
        store,
        load,
    });
    let pairs = prop::collection::btree_map(pair, sampled(), 0..20);
    let values = prop::collection::btree_map(any::<u64>(), any::<u64>(), 0..20);
    let argument = (sampled(), values).prop_map(|(sampled, values)| Argument {
        sampled,
        counts: values.into_iter().collect(),
    });
    let passed = (place(), prop::option::of(place()), 0_u8..6);
    let passed = passed.prop_map(|(target, call, register)| Passed {
        target,
        call,
        register,
    });
    let arguments = prop::collection::btree_map(passed, argument.clone(), 0..20);
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let called = (kind, place(), prop::option::of(place()));
    let called = called.prop_map(|(kind, at, call)| Called { kind, at, call });
    let lists = prop::collection::btree_map(called, argument, 0..20);
    let callers = (lists, any::<u64>()).prop_map(|(lists, dropped)| Callers { lists, dropped });
    let sites = prop::collection::btree_map(place(), sampled(), 1..20);
    let sites = prop::collection::btree_map(prop::sample::select(Kind::ALL.to_vec()), sites, 0..4);
    (
        any::<[u64; 14]>(),
        (any::<u32>(), real(), real()),
        ".{0,9}",
        sites,
        pairs,
        (arguments, prop::option::of(callers)),
        (
            prop::option::of(levels()),
            prop::option::of(rare(sampled())),
        ),
        prop::option::of(custom(sampled())),
    )
        .prop_map(
            |(
                n,
                (length, budget, rate),
                pacing,
                sites,
                pairs,
                (arguments, callers),
                (levels, rare),
                custom,
            )| {
                Windows {
                    budget,
                    taken: n[0],
                    counted: n[1],
                    whole: n[2],
                    calls: n[3],
                    signals: n[4],
                    refused: n[5],
                    skipped: n[6],
                    instructions: n[7],
                    length,
                    rate,
                    user: 0,
                    cpu: n[8],
                    wall: n[9],
                    in_windows: n[10],
                    in_kernel: n[11],
                    host: n[12],
                    covered: n[13],
                    pacing,
                    sites,
                    rare,
                    pairs,
                    arguments,
                    callers,
                    levels,
                    custom,
                }
            },
        )
}

fn rare(sampled: impl Strategy<Value = Sampled>) -> impl Strategy<Value = Rare> {
    let kind = prop::sample::select(EDGES.to_vec());
    let edge = (kind, place(), place()).prop_map(|(kind, from, to)| Edge { kind, from, to });
    let edges = prop::collection::btree_map(edge, 1..=FEW, 0..20);
    (sampled, edges).prop_map(|(all, edges)| Rare { all, edges })
}

fn custom(sampled: impl Strategy<Value = Sampled>) -> impl Strategy<Value = Custom> {
    let text = || prop::option::of(any::<String>());
    let value = (any::<u64>(), text()).prop_map(|(count, text)| Value { count, text });
    let values = prop::collection::btree_map(any::<u64>(), value, 0..5);
    let valued = (sampled, values).prop_map(|(sampled, values)| Valued { sampled, values });
    (
        any::<(String, String, bool)>(),
        any::<[u64; 3]>(),
        prop::collection::btree_map(place(), valued, 0..9),
        prop::collection::vec(any::<String>(), 0..3),
    )
        .prop_map(
            |((name, title, places), [windows, lost, pairs], sites, failures)| Custom {
                name,
                title,
                places,
                windows,
                lost,
                pairs,
                sites,
                failures,
            },
        )
}

fn filter() -> impl Strategy<Value = Filter> {
    let filtered = (any::<[u64; 2]>(), any::<bool>(), any::<Option<u64>>()).prop_map(
        |([outs, changes], settled, unprofiled)| Filtered {
            outs,
            changes,
            settled,
            unprofiled,
        },
    );
    let places = prop::collection::btree_map(place(), filtered, 0..20);
    (0.0..100.0_f64, any::<[u64; 2]>(), places).prop_map(|(limit, [rounds, tables], places)| {
        Filter {
            limit,
            rounds,
            tables,
            places,
        }
    })
}

fn function() -> impl Strategy<Value = Function> {
    let blob = || prop::collection::vec(any::<u8>(), 0..20);
    (blob(), any::<[u64; 2]>(), blob(), blob()).prop_map(|(module, [start, size], name, code)| {
        Function {
            module,
            start,
            size,
            name,
            code,
        }
    })
}

fn samples() -> impl Strategy<Value = Samples> {
    let sampled = || {
        (any::<u64>(), 0.0..1e18_f64, 0.0..1e18_f64).prop_map(|(samples, executions, variance)| {
            Sampled {
                samples,
                executions,
                variance,
                probability: 1.0,
                factor_error: 0.0,
            }
        })
    };
    let values = prop::collection::btree_map(any::<u64>(), any::<u64>(), 0..5);
    let held = (sampled(), values).prop_map(|(sampled, values)| Held { sampled, values });
    let operand = (0_u8..18).prop_map(|n| Operand::from_number(n).expect("there are 18"));
    let operands = prop::collection::btree_map(operand, held, 0..4);
    let at = (sampled(), operands).prop_map(|(sampled, operands)| At { sampled, operands });
    let blob = || prop::collection::vec(any::<u8>(), 0..20);
    let machine = (
        any::<[u64; 8]>(),
        0.0..50.0_f64,
        prop::collection::btree_map(any::<u32>(), sampled(), 0..4),
        prop::collection::vec(".{0,9}", 0..3),
        prop::collection::vec(function(), 0..4),
    )
        .prop_map(|(n, budget, processors, missing, functions)| Machine {
            budget,
            rate: budget * 100.0,
            wall: n[0],
            toll: n[1],
            host: n[2],
            taken: n[3],
            lost: n[4],
            throttled: n[5],
            kernel: n[6],
            deferred: n[7],
            decoded: n[3] / 2,
            unknown: n[4] / 2,
            of_processes: n[0] % 2 == 1,
            processors,
            missing,
            functions,
        });
    let own = (blob(), sampled()).prop_map(|(name, sampled)| Own { name, sampled });
    (
        prop::option::of(machine),
        prop::collection::btree_map(place(), at, 0..20),
        prop::collection::btree_map(place(), sampled(), 0..4),
        prop::collection::btree_map(any::<u32>(), own, 0..4),
    )
        .prop_map(|(machine, places, entered, threads)| Samples {
            machine,
            places,
            entered,
            threads,
        })
}

fn levels() -> impl Strategy<Value = Levels> {
    let cache = prop::sample::select(Cache::ALL.to_vec());
    let level = (cache, any::<u64>(), any::<u64>(), 0.0..=1.0_f64);
    let level = level.prop_map(|(cache, typical, below, mistaken)| Level {
        cache,
        typical,
        below,
        mistaken,
    });
    let levels = prop::collection::vec(level, 0..5);
    (any::<u64>(), 0.0..1e3_f64, levels).prop_map(|(own, cycle, levels)| Levels {
        own,
        cycle,
        levels,
    })
}

fn served() -> impl Strategy<Value = Served> {
    let texts = || prop::collection::vec(any::<String>(), 0..4);
    let words = prop::collection::vec(any::<u64>(), 0..8);
    (
        any::<String>(),
        any::<(u64, u8, u64)>(),
        texts(),
        prop::collection::btree_map(words, any::<u64>(), 0..20),
        texts(),
        prop::option::of(intervals(row())),
    )
        .prop_map(
            |(name, (messages, places, lost), columns, rows, failures, intervals)| Served {
                name,
                messages,
                columns,
                places,
                rows,
                lost,
                failures,
                intervals,
            },
        )
}

/// Estimates of queries in windows.
fn windowed() -> impl Strategy<Value = Option<Windowed>> {
    let real = || 0.0..1e18_f64;
    let sampled = move || {
        (any::<u64>(), real(), real()).prop_map(|(samples, executions, variance)| Sampled {
            samples,
            executions,
            variance,
            probability: 1.0,
            factor_error: 0.0,
        })
    };
    let by_number = || prop::collection::btree_map(any::<u8>(), sampled(), 0..4);
    let words = prop::collection::vec(any::<u64>(), 0..8);
    let sent = (any::<u8>(), any::<u8>(), words);
    let sent = sent.prop_map(|(at, queue, words)| Sent { at, queue, words });
    let sent = prop::collection::btree_map(sent, sampled(), 0..20);
    let all = (by_number(), by_number(), sent);
    prop::option::of(all.prop_map(|(executed, counted, sent)| Windowed {
        executed,
        counted,
        sent,
    }))
}

fn queries() -> impl Strategy<Value = Queries> {
    let blob = || prop::collection::vec(any::<u8>(), 0..20);
    let seen = any::<[u64; 3]>().prop_map(|[executed, profiled, acted]| Seen {
        executed,
        profiled,
        acted,
    });
    let done = any::<[u64; 6]>().prop_map(
        |[sent, served, dropped, counted, counted_for, interrupted]| Acted {
            sent,
            served,
            dropped,
            counted,
            counted_for,
            interrupted,
        },
    );
    let count = any::<[u64; 2]>().prop_map(|[messages, executions]| Count {
        messages,
        executions,
    });
    let active = (any::<u8>(), any::<u64>(), any::<Option<u64>>());
    let active = active.prop_map(|(code, from, until)| Active { code, from, until });
    let active = prop::collection::vec(active, 0..3);
    let paid = any::<[u64; 2]>().prop_map(|[ticks, of]| Paid { ticks, of });
    let paid = prop::collection::btree_map(any::<u8>(), paid, 0..3);
    let words = prop::collection::vec(any::<u64>(), 0..8);
    let told = (any::<u8>(), any::<u8>(), words);
    let told = told.prop_map(|(at, queue, words)| Sent { at, queue, words });
    (
        blob(),
        blob(),
        prop::collection::vec(any::<u16>(), 0..3),
        prop::collection::btree_map(any::<u8>(), seen, 0..4),
        prop::collection::vec(done, 0..4),
        prop::collection::btree_map(told, count, 0..20),
        any::<u64>(),
        prop::collection::vec(served(), 0..3),
        (any::<String>(), any::<u32>(), active, windowed(), paid),
    )
        .prop_map(
            |(program, places, unmet, seen, done, messages, untabulated, services, load)| Queries {
                name: if load.1 == 0 { String::new() } else { load.0 },
                load: load.1,
                active: if load.1 == 0 { Vec::new() } else { load.2 },
                windowed: load.3,
                paid: load.4,
                program,
                places,
                unmet,
                seen,
                done,
                messages,
                untabulated,
                services,
            },
        )
}

/// Trees of call paths, at most one of each basis, in order.
fn call_trees() -> impl Strategy<Value = Vec<CallTree>> {
    let frame = (place(), prop::option::of(place())).prop_map(|(at, call)| Frame { at, call });
    let stack = (prop::collection::vec(frame, 0..6), any::<[u64; 2]>());
    let tree = (prop::collection::vec(stack, 0..20), any::<[u64; 3]>());
    prop::collection::vec((any::<bool>(), tree), 2).prop_map(|trees| {
        let mut all = Vec::new();
        for (basis, (there, (stacks, lost))) in Basis::ALL.into_iter().zip(trees) {
            if !there {
                continue;
            }
            let mut tree = CallTree::new(basis);
            let [truncated, broken, folded] = lost;
            tree.lost = Lost {
                truncated,
                broken,
                folded,
            };
            for (stack, [times, own]) in stacks {
                tree.add_stack(stack, Weight { times, own });
            }
            all.push(tree);
        }
        all
    })
}

/// Results of simulation, with lines that threads share.
fn simulated() -> impl Strategy<Value = Simulated> {
    let toucher = (
        any::<[u32; 1]>(),
        place(),
        any::<[u16; 2]>(),
        any::<[u64; 2]>(),
    );
    let toucher = toucher.prop_map(|([thread], at, [offset, size], [loads, stores])| Toucher {
        thread,
        at,
        offset,
        size,
        loads,
        stores,
    });
    let line = (
        any::<u32>(),
        any::<[u64; 2]>(),
        prop::option::of(place()),
        prop::collection::vec(toucher, 0..5),
    );
    let line = line.prop_map(
        |(process, [address, handoffs], object, touchers)| SharedLine {
            process,
            address,
            object,
            handoffs,
            touchers,
        },
    );
    let sharing = (any::<u64>(), prop::collection::vec(line, 0..6));
    let sharing = sharing.prop_map(|(untracked, lines)| Sharing { untracked, lines });
    let counts = (any::<[[u64; 3]; 2]>(), any::<[[u64; 2]; 2]>());
    let executed = || prop::collection::btree_map(place(), any::<u64>(), 0..5);
    let executed = [executed(), executed()];
    (counts, executed, prop::option::of(sharing)).prop_map(
        |((accessed, predicted), executed, sharing)| {
            let [accesses, branches] = executed;
            let [loads, stores] = accessed.map(|[accesses, first, last]| Accessed {
                accesses,
                first,
                last,
            });
            let [conditional, indirect] =
                predicted.map(|[branches, wrong]| Predicted { branches, wrong });
            Simulated {
                caches: Caches::default(),
                accesses,
                branches,
                loads,
                stores,
                conditional,
                indirect,
                sharing,
            }
        },
    )
}

/// A candidate of events.
fn candidate() -> impl Strategy<Value = Message> {
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let candidate = (kind, place(), any::<[u64; 2]>());
    candidate.prop_map(|(kind, pc, [value, count])| Message {
        kind,
        tuple: Tuple::new(pc, value),
        count,
        samples: 1,
    })
}

/// A candidate of messages.
fn row() -> impl Strategy<Value = Row> {
    let words = prop::collection::vec(any::<u64>(), 0..8);
    (words, any::<u64>()).prop_map(|(words, count)| Row { words, count })
}

/// Intervals in order, some of each sequence left out.
fn intervals<C: Clone + std::fmt::Debug>(
    candidate: impl Strategy<Value = C>,
) -> impl Strategy<Value = Intervals<C>> {
    let candidates = prop::collection::vec(candidate, 0..5);
    let interval = (1..1_u64 << 40, any::<bool>(), candidates);
    let sequence = (any::<[u32; 2]>(), prop::collection::vec(interval, 0..9));
    let sequence = sequence.prop_map(|([process, thread], intervals)| {
        let mut sequence = Sequence {
            process,
            thread,
            ended: 0,
            events: 0,
            each: Vec::new(),
        };
        for (events, kept, candidates) in intervals {
            sequence.ended += 1;
            if kept {
                sequence.each.push(Interval {
                    number: sequence.ended,
                    start: sequence.events,
                    events,
                    candidates,
                });
            }
            sequence.events += events;
        }
        sequence
    });
    (any::<u32>(), prop::collection::vec(sequence, 0..4)).prop_map(|(halvings, sequences)| {
        Intervals {
            halvings,
            sequences,
        }
    })
}

/// Modules in the order of their numbers, each there once.
fn numbered(mut modules: Vec<Module>) -> Vec<Module> {
    modules.sort_by_key(|module| module.id);
    modules.dedup_by_key(|module| module.id);
    modules
}

pub(super) fn profile() -> impl Strategy<Value = Profile> {
    let blob = || prop::collection::vec(any::<u8>(), 0..40);
    let module = (
        any::<u16>(),
        blob(),
        blob(),
        any::<(Option<u32>, Option<[u64; 3]>)>(),
    )
        .prop_map(|(id, path, build_id, (code, loaded))| Module {
            id: ModuleId(id),
            path,
            build_id,
            code,
            loaded: loaded.map(|[start, end, bias]| Loaded { start, end, bias }),
        });
    let scope = (any::<bool>(), prop::collection::vec(".{0,20}", 0..3));
    let scope = scope.prop_map(|(late, only)| Scope { late, only });
    let after_calls = prop::collection::btree_map(place(), any::<u64>(), 0..20);
    let after_calls = prop::option::of(after_calls);
    let deliveries = prop::collection::btree_map(place(), any::<u64>(), 0..5);
    let run = (
        any::<[u64; 8]>(),
        any::<Option<i32>>(),
        prop::collection::vec(".{0,20}", 0..3),
    )
        .prop_map(|(n, status, detach)| Run {
            started: n[0],
            wall: n[1],
            target_cpu: n[2],
            host_cpu: n[3],
            status,
            dropped: n[4],
            waits: n[5],
            wait_time: n[6],
            undercount: n[7],
            detach,
        });
    let seen =
        prop::collection::btree_map(prop::sample::select(Kind::ALL.to_vec()), any::<u64>(), 0..3);
    let thread =
        (any::<[u32; 2]>(), seen).prop_map(|([number, tid], seen)| Thread { number, tid, seen });
    let threads = (any::<u64>(), prop::collection::vec(thread, 0..5))
        .prop_map(|(started, each)| Threads { started, each });
    (
        prop::collection::vec(blob(), 0..4),
        ".{0,20}",
        prop::collection::vec(module, 0..5).prop_map(numbered),
        prop::collection::btree_map(
            prop::sample::select(Kind::ALL.to_vec()),
            kind_profile(),
            0..5,
        ),
        prop::collection::btree_map(place(), site(), 0..30),
        run,
        threads,
        (any::<(u32, u32, bool)>(), scope, after_calls, deliveries),
        (
            prop::option::of(windows()),
            prop::collection::vec(queries(), 0..3),
            prop::option::of(samples()),
            prop::option::of(filter()),
            call_trees(),
            prop::collection::vec(function(), 0..4),
            prop::option::of(simulated()),
            prop::option::of(intervals(candidate())),
        ),
    )
        .prop_map(
            |(
                command,
                compressor,
                modules,
                kinds,
                sites,
                run,
                threads,
                (origin, scope, after_calls, deliveries),
                (windows, queries, samples, filter, call_trees, compiled, simulated, intervals),
            )| {
                let (pid, parent, exec) = origin;
                Profile {
                    origin: Origin { pid, parent, exec },
                    command,
                    counted: match pid % 2 {
                        0 => Counted::Code,
                        _ => Counted::Service,
                    },
                    compressor,
                    modules,
                    kinds,
                    sites,
                    run,
                    threads,
                    windows,
                    queries,
                    samples,
                    filter,
                    call_trees,
                    compiled,
                    sum: (parent % 2 == 1).then_some(Sum {
                        recordings: parent.into(),
                        processes: pid.into(),
                    }),
                    simulated,
                    intervals,
                    scope,
                    after_calls,
                    deliveries,
                }
            },
        )
}
