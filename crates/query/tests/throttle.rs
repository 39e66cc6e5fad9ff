//! `every auto`: what is estimated is right, what is spent is kept to the budget, and what is rare is all there.

use trommel_compress::random::SplitMix64;
use trommel_query::throttle::{Paid, Rehearsal, Throttle, Together};
use trommel_query::{
    Class, Engine, Entry, Facts, Field, Operation, Program, Rate, Subject, assemble,
};

fn entry(operation: Operation) -> Entry {
    Entry::of(Subject::Class(Class::new(operation, 0).expect("a tag")))
}

fn program(text: &str) -> Program {
    assemble(text).expect(text).program
}

#[test]
fn countdowns_are_geometric() {
    let program = program("for opLOAD * every auto collect pc; send 1 stop;");
    let load = entry(Operation::Load);
    for rank in [1, 4, 8] {
        let mut engine = Engine::new(&program, 3);
        engine.pace(load, Rate::of_rank(rank));
        let n = f64::from(1 << rank);
        let draws = 40_000;
        let mut all: Vec<f64> = (0..draws)
            .map(|_| {
                let countdown = engine.countdown(load).expect("it is sampled") as f64;
                engine.profiled(load);
                countdown
            })
            .collect();
        // Mean n, deviation almost n.
        let mean = all.iter().sum::<f64>() / f64::from(draws);
        assert!(
            (mean - n).abs() < 5.0 * n / f64::from(draws).sqrt(),
            "{mean} of {n}"
        );
        // More than k executions pass with probability (1 − 1/n)^k, at every k.
        all.sort_by(f64::total_cmp);
        for k in [1.0, n / 4.0, n, 2.0 * n, 5.0 * n] {
            let more = all.iter().filter(|c| **c > k.floor()).count() as f64;
            let expected = (1.0 - 1.0 / n).powf(k.floor()) * f64::from(draws);
            assert!(
                (more - expected).abs() < 5.0 * expected.sqrt(),
                "{k} of {n}: {more}, {expected}"
            );
        }
    }
}

/// In the midst of a thread's work each execution is profiled one time in N, from the first one on: also where few follow.
#[test]
fn executions_in_the_midst_are_profiled_alike() {
    const EXECUTIONS: usize = 40;
    const SEEDS: u64 = 40_000;
    let load = entry(Operation::Load);
    for n in [1_u32, 2, 7, 16] {
        let program = program(&format!("for opLOAD * every {n} collect pc; send 1 stop;"));
        let mut profiled = [0_u32; EXECUTIONS];
        for seed in 0..SEEDS {
            let mut engine = Engine::new(&program, seed).amid();
            for count in &mut profiled {
                *count += u32::from(engine.draw(load).is_some());
            }
        }
        let expected = SEEDS as f64 / f64::from(n);
        for (k, count) in profiled.into_iter().enumerate() {
            let off = (f64::from(count) - expected).abs();
            assert!(
                off <= 5.0 * expected.sqrt(),
                "{k} of {n}: {count}, {expected}"
            );
        }
    }
}

/// The sum of N over the records of each of the executions, over many seeds, is one for each execution, also where the rate
/// changes after each few records and in the midst of countdowns.
#[test]
fn each_execution_is_told_of_once_on_the_average() {
    let program = program("for opLOAD * every auto collect op1; send 1 stop;");
    let load = entry(Operation::Load);
    const EXECUTIONS: usize = 60;
    const SEEDS: u64 = 20_000;
    let mut told = [0.0; EXECUTIONS];
    for seed in 0..SEEDS {
        let mut engine = Engine::new(&program, seed);
        engine.pace(load, Rate::of_rank(3));
        let mut rehearsal = Rehearsal::default();
        for (n, told) in told.iter_mut().enumerate() {
            if n == 20 {
                engine.pace(load, Rate::of_rank(2));
            }
            let weight = engine.rate(load).one_in();
            if engine.select(load, &Facts::NONE).is_some() {
                *told += f64::from(weight);
                engine.pace(load, rehearsal.next(load));
            }
        }
    }
    for (n, told) in told.iter().enumerate() {
        let mean = told / SEEDS as f64;
        // N is 32 at most, so the variance of one is below 31.
        let deviation = (31.0 / SEEDS as f64).sqrt();
        assert!(
            (mean - 1.0).abs() < 5.0 * deviation,
            "execution {n}: {mean}"
        );
    }
}

/// A thread whose instructions are executed at rates that change.
struct Thread<'p> {
    engine: Engine<'p>,
    throttle: Throttle,
    together: Option<Together>,
    random: SplitMix64,
    now: u64,
    spent: u64,
    /// Cost of a record.
    cost: u64,
    /// Cost of a countdown, in 256ths of a tick, and the 256ths that countdowns have cost.
    countdown: u64,
    counted: u64,
}

const PERIOD: u64 = 1 << 18;

impl<'p> Thread<'p> {
    fn new(program: &'p Program, cost: u64) -> Self {
        Self {
            engine: Engine::new(program, 1),
            throttle: Throttle::new(program, PERIOD, 0).expect("it wants one"),
            together: None,
            random: SplitMix64::new(9),
            now: 0,
            spent: 0,
            cost,
            countdown: 0,
            counted: 0,
        }
    }

    /// Each execution costs so many 256ths of a tick, of which the throttle knows if it is `charged`.
    fn counting(mut self, countdown: u64, charged: bool) -> Self {
        self.countdown = countdown;
        if charged {
            self.throttle = self.throttle.charging(countdown);
        }
        self
    }

    /// All its queries may take so many percent.
    fn together(mut self, percent: f64) -> Self {
        self.together = Together::percent(percent);
        self
    }

    /// Shares of the time that countdowns and records have taken.
    fn shares(&self) -> [f64; 2] {
        [self.counted as f64 / 256.0, self.spent as f64].map(|ticks| ticks / self.now as f64)
    }

    /// For so many ticks of its own work each of the operations is executed once in so many ticks. Returns executions of each, their
    /// records and the sum of N.
    fn phase<const N: usize>(&mut self, ticks: u64, each: [(Operation, u64); N]) -> [[u64; 3]; N] {
        let mut seen = [[0; 3]; N];
        let fastest = each.iter().map(|(_, every)| *every).min().expect("one");
        for _ in 0..ticks / fastest {
            self.now += fastest;
            for ((operation, every), seen) in each.iter().zip(&mut seen) {
                if self.random.below(*every) >= fastest {
                    continue;
                }
                seen[0] += 1;
                let before = self.counted / 256;
                self.counted += self.countdown;
                self.now += self.counted / 256 - before;
                let of = entry(*operation);
                let (passed, n) = (self.engine.passed(of) + 1, self.engine.rate(of).one_in());
                let facts = Facts::NONE.with(Field::Pc, 1);
                if self.engine.select(of, &facts).is_none() {
                    continue;
                }
                seen[1] += 1;
                seen[2] += u64::from(n);
                self.now += self.cost;
                self.spent += self.cost;
                self.throttle.record(of, passed);
                self.throttle.spend(of, self.cost);
                self.look();
            }
        }
        seen
    }

    /// For 60 periods loads, stores and arithmetic are executed at rates that change. Returns the percentage that records took.
    fn changes(&mut self, random: &mut SplitMix64) -> f64 {
        while self.now < 60 * PERIOD {
            let mut every = || 16 << random.below(14);
            let each = [
                (Operation::Load, every()),
                (Operation::Store, every()),
                (Operation::Alu, every()),
            ];
            let length = (PERIOD / 50) << random.below(10);
            let _ = self.phase(length, each);
        }
        100.0 * self.spent as f64 / self.now as f64
    }

    fn look(&mut self) {
        if self.throttle.is_due(self.now) {
            self.throttle.adjust(self.now, &mut self.engine);
            if let Some(together) = self.together {
                let part = together.part(|| [&self.throttle].into_iter());
                self.throttle.limit(part);
            }
        }
    }

    fn rate(&self, operation: Operation) -> u32 {
        self.engine.rate(entry(operation)).one_in()
    }

    /// Loads are executed once in so many ticks: after two periods all of them are recorded.
    fn loads_are_rare(&mut self, every: u64) {
        for _ in 0..2 {
            let _ = self.phase(2 * PERIOD, [(Operation::Load, every)]);
            self.look();
        }
        assert_eq!(self.rate(Operation::Load), 1);
    }
}

#[test]
fn rare_classes_are_all_recorded_and_frequent_ones_within_the_budget() {
    let text = "for opLOAD * opMULT * every auto 5% collect pc; send 1 stop;";
    let program = program(text);
    let mut thread = Thread::new(&program, 150);
    let [loads, multiplications] = thread.phase(
        100 * PERIOD,
        [(Operation::Load, 8), (Operation::Multiply, 40_000)],
    );
    assert_eq!(multiplications[0], multiplications[1], "all that is rare");
    assert_eq!(thread.rate(Operation::Multiply), 1);
    // A record of 150 ticks in each 3000 is one load in 375.
    assert!((256..=1024).contains(&thread.rate(Operation::Load)));
    let share = thread.spent as f64 / thread.now as f64;
    assert!((0.024..0.052).contains(&share), "{share}");
    let error = loads[2] as f64 / loads[0] as f64 - 1.0;
    assert!(error.abs() < 5.0 / (loads[1] as f64).sqrt(), "{error}");

    // Loads become rare: they are all recorded again as soon as the thread looks, at a record or at another time.
    thread.loads_are_rare(5_000);
    let [loads] = thread.phase(100 * PERIOD, [(Operation::Load, 5_000)]);
    assert_eq!(loads[0], loads[1]);
    // And frequent again.
    let spent = thread.spent;
    let _ = thread.phase(PERIOD, [(Operation::Load, 8)]);
    assert!(thread.rate(Operation::Load) >= 128);
    let spent = thread.spent - spent;
    assert!(spent < PERIOD / 4, "{spent} of {PERIOD}");
}

#[test]
fn the_budget_holds_whatever_the_phases() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let percent = 1 + random.below(20);
        let text = format!(
            "for opLOAD * opSTORE * opALU * every auto {percent}% collect pc; send 1 stop;"
        );
        let program = program(&text);
        let mut thread = Thread::new(&program, 80 + random.below(2000));
        let share = thread.changes(&mut random);
        assert!(
            share < 1.1 * percent as f64 + 0.2,
            "seed {seed}: {share} % of {percent} %"
        );
    }
}

/// Countdowns and records together keep the budget, which records alone would use up.
#[test]
fn the_budget_is_charged_with_countdowns() {
    let program = program("for opLOAD * every auto 10% collect pc; send 1 stop;");
    let run = |cost: u64, countdown: u64, charged: bool| {
        let mut thread = Thread::new(&program, cost).counting(countdown, charged);
        let _ = thread.phase(100 * PERIOD, [(Operation::Load, 8)]);
        thread.shares()
    };
    let mut over = 0;
    // Costs at which powers of two come close to a budget, and stay below it.
    for cost in [100, 125, 150, 200, 250, 300] {
        let [counted, recorded] = run(cost, 100, true);
        assert!((0.04..0.05).contains(&counted), "{counted}");
        let all = counted + recorded;
        assert!((0.06..0.105).contains(&all), "a record costs {cost}: {all}");
        let [counted, recorded] = run(cost, 100, false);
        over += u32::from(counted + recorded > 0.105);
    }
    assert!(over > 0, "without the charge the budget is exceeded");
}

/// A throttle knows what its periods took.
#[test]
fn what_was_paid_is_known() {
    let text = "for opLOAD * every auto 10% collect pc; send 1 stop; for opSTORE * every auto 2% collect pc; send 2 stop;";
    let program = program(text);
    let mut thread = Thread::new(&program, 150).counting(100, true);
    let each = [(Operation::Load, 8), (Operation::Store, 16)];
    let _ = thread.phase(100 * PERIOD, each);
    let mut paid = Vec::new();
    thread
        .throttle
        .settle(|first, took| paid.push((first, took)));
    let [(loads, of_loads), (stores, of_stores)] = paid[..] else {
        panic!("{paid:?}");
    };
    assert_eq!(
        [loads, stores],
        [Operation::Load, Operation::Store].map(entry)
    );
    // The last period of each has not ended.
    for Paid { of, .. } in [of_loads, of_stores] {
        assert!(of <= thread.now && of + 2 * PERIOD > thread.now, "{of}");
    }
    let [counted, recorded] = thread.shares();
    let share = |paid: Paid| paid.ticks as f64 / paid.of as f64;
    let all = share(of_loads) + share(of_stores);
    assert!((all / (counted + recorded) - 1.0).abs() < 0.03, "{all}");
    // It is said once.
    thread.throttle.settle(|_, took| panic!("{took:?}"));
}

/// Records have a quarter of the budget where countdowns alone take more than it, which is enough for what is rare.
#[test]
fn countdowns_leave_a_quarter_to_records() {
    let program = program("for opLOAD * opMULT * every auto 4% collect pc; send 1 stop;");
    let mut thread = Thread::new(&program, 150).counting(256, true);
    let each = [(Operation::Load, 8), (Operation::Multiply, 80_000)];
    let [loads, multiplications] = thread.phase(100 * PERIOD, each);
    let [counted, recorded] = thread.shares();
    assert!(counted > 0.1, "{counted}");
    assert!((0.004..0.012).contains(&recorded), "{recorded}");
    // Some are missed before the first period is over.
    assert!(multiplications[1] * 20 > multiplications[0] * 19);
    let error = loads[2] as f64 / loads[0] as f64 - 1.0;
    assert!(error.abs() < 5.0 / (loads[1] as f64).sqrt(), "{error}");
    // Nothing is owed for it: when loads become rare all of them are recorded soon.
    thread.loads_are_rare(20_000);
}

/// Queries have a common budget, whatever their own add up to, and one that is alone has as much of it as it may.
#[test]
fn queries_keep_a_common_budget() {
    for seed in 0..12 {
        let mut random = SplitMix64::new(seed);
        let mut percent = || 5 + random.below(20);
        let text = format!(
            "for opLOAD * every auto {}% collect pc; send 1 stop;
             for opSTORE * every auto {}% collect pc; send 1 stop;
             for opALU * every auto {}% collect pc; send 1 stop;",
            percent(),
            percent(),
            percent()
        );
        let program = program(&text);
        let common = 1 + random.below(6);
        let cost = 80 + random.below(2000);
        let mut thread = Thread::new(&program, cost).together(common as f64);
        let share = thread.changes(&mut random);
        assert!(
            share < 1.1 * common as f64 + 0.3,
            "seed {seed}: {share} % of {common} %"
        );
        let (now, spent) = (thread.now, thread.spent);
        let _ = thread.phase(60 * PERIOD, [(Operation::Store, 16)]);
        let share = 100.0 * (thread.spent - spent) as f64 / (thread.now - now) as f64;
        assert!(
            (0.4 * common as f64..1.1 * common as f64).contains(&share),
            "seed {seed}: alone {share} % of {common} %"
        );
    }
}

/// A part of their own budgets is as large as it can be, for throttles of several programs, and all of them where that fits.
#[test]
fn a_common_budget_is_used_up_and_never_exceeded() {
    let text = |percent| format!("for opLOAD * every auto {percent}% collect pc; send 1 stop;");
    let programs: Vec<Program> = [3, 10, 20].map(|p| program(&text(p))).into();
    // Of the last one, only a hundredth of what it may take is executed.
    let run = |common: f64| {
        let together = Together::percent(common).expect("a budget");
        let mut threads: Vec<Thread<'_>> = programs.iter().map(|p| Thread::new(p, 150)).collect();
        let mut before = [[0; 2]; 3];
        for round in 0..60 {
            for (thread, every) in threads.iter_mut().zip([8, 8, 75_000]) {
                let _ = thread.phase(PERIOD, [(Operation::Load, every)]);
            }
            let part = together.part(|| threads.iter().map(|thread| &thread.throttle));
            for thread in &mut threads {
                thread.throttle.limit(part);
            }
            if round == 20 {
                for (thread, before) in threads.iter().zip(&mut before) {
                    *before = [thread.spent, thread.now];
                }
            }
        }
        let share = |(thread, before): (&Thread<'_>, &[u64; 2])| {
            100.0 * (thread.spent - before[0]) as f64 / (thread.now - before[1]) as f64
        };
        let shares: Vec<f64> = threads.iter().zip(&before).map(share).collect();
        <[f64; 3]>::try_from(shares).expect("three")
    };
    let [first, second, rare] = run(90.0);
    assert!((1.4..3.3).contains(&first), "{first}");
    assert!((4.5..11.0).contains(&second), "{second}");
    assert!((0.15..0.25).contains(&rare), "{rare}");
    let [first, second, rare] = run(4.0);
    assert!(first < 1.2 && second < 3.5, "{first} and {second}");
    assert!(
        (1.8..4.2).contains(&(first + second)),
        "{first} and {second}"
    );
    assert!((0.15..0.25).contains(&rare), "what is rare is cut: {rare}");
}

#[test]
fn a_common_budget_is_a_part_of_the_time() {
    for (percent, word) in [
        (0.0, None),
        (0.001, None),
        (0.1, Some(65)),
        (100.0, Some(65536)),
    ] {
        let together = Together::percent(percent);
        assert_eq!(together.map(Together::word), word, "{percent}");
        assert_eq!(together.and_then(|t| Together::of_word(t.word())), together);
    }
    for percent in [-1.0, 101.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Together::percent(percent), None);
    }
    assert_eq!(Together::of_word(0), None);
}

#[test]
fn what_has_no_budget_is_left_alone() {
    let program = program(
        "for opLOAD * every 16 collect pc; send 1 stop; for opALU * always collect pc; send 1 stop;",
    );
    assert!(Throttle::new(&program, PERIOD, 0).is_none());
    let mut engine = Engine::new(&program, 1);
    engine.pace(entry(Operation::Load), Rate::of_rank(9));
    assert_eq!(engine.rate(entry(Operation::Load)).one_in(), 16);
    assert_eq!(engine.rate(entry(Operation::Alu)), Rate::ALWAYS);
}
