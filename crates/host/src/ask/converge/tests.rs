//! Tests of the service against a target that follows its tables, and one that does not.

use super::*;

const MILLI: Duration = Duration::from_millis(1);

/// A target that uses each table at once, with one place that loads `value` and one that is executed rarely.
struct Target {
    told: Box<Told>,
    converge: Converge,
    now: Moment,
    place: u32,
    rare: u32,
    /// End of a burst.
    until: u64,
}

/// An empty table, which the stack of a test has no room for.
fn table() -> Box<Told> {
    let thread = std::thread::Builder::new().stack_size(32 << 20);
    let made = thread.spawn(Box::<Told>::default).expect("a thread");
    made.join().expect("a table")
}

impl Target {
    fn new() -> Self {
        let mut converge = Converge::new(2.0, 1);
        let place = converge.place(0x1000, Some(1));
        let rare = converge.place(0x2000, Some(2));
        Self {
            told: table(),
            converge,
            now: Moment::default(),
            place,
            rare,
            until: 0,
        }
    }

    fn is_out(&self) -> bool {
        let told = self.told.reported.load(Relaxed);
        if self.told.all.load(Relaxed) != 0 && self.told.back.load(Relaxed) != told {
            return false;
        }
        let places = self.told.places.load(Relaxed) as usize;
        let mut all = self.told.place[..places].iter();
        all.any(|pc| pc.load(Relaxed) == 0x1000)
    }

    /// Returns the place's times out, its changes, and whether it has settled.
    fn outcome(&self) -> (u32, u32, bool) {
        let outcome = self.converge.outcomes().next().unwrap();
        (outcome.outs, outcome.changes, outcome.settled)
    }

    /// Goes on for so many milliseconds.
    fn go_on(&mut self, millis: u64, value: u64) {
        for _ in 0..millis {
            self.now.at += MILLI;
            self.now.stamp += 2_500_000;
            if !self.is_out() {
                self.converge.seen(self.place, value, 50_000);
            }
            self.converge.seen(self.rare, 9, 1);
            if self.converge.is_due(self.now.at) {
                self.converge.look(&self.told, self.now);
            }
            let told = self.told.reported.load(Relaxed);
            if told != self.told.seen.load(Relaxed) {
                self.told.stamp.store(self.now.stamp, Relaxed);
                self.until = self.now.stamp + self.told.lasts.load(Relaxed);
            }
            self.told.seen.store(told, Relaxed);
            if self.now.stamp >= self.until {
                self.told.back_stamp.store(self.now.stamp, Relaxed);
                self.told.back.store(told, Relaxed);
            }
        }
    }
}

#[test]
fn a_place_that_is_known_is_out_most_of_the_time_and_a_change_is_seen() {
    let mut target = Target::new();
    target.go_on(50, 7);
    assert!(target.is_out());
    assert_eq!(
        target.told.places.load(Relaxed),
        1,
        "the rare one is watched"
    );
    let mut watched = 0;
    for _ in 0..10_000 {
        target.go_on(1, 7);
        watched += u32::from(!target.is_out());
    }
    assert!((1..1000).contains(&watched), "{watched}");
    let (outs, changes, settled) = target.outcome();
    assert!(outs > 2 && changes == 0 && settled, "{outs} {changes}");
    target.go_on(20_000, 8);
    let (_, changes, settled) = target.outcome();
    assert_eq!((changes, settled), (1, true));
}

#[test]
fn no_table_is_told_before_the_last_is_gone_by() {
    let mut target = Target::new();
    target.go_on(50, 7);
    let tables = target.converge.tables();
    target.told.seen.store(0, Relaxed);
    for _ in 0..1000 {
        target.now.at += MILLI;
        target.converge.look(&target.told, target.now);
    }
    assert_eq!(target.converge.tables(), tables);
}

#[test]
fn code_is_not_made_anew_where_that_takes_longer_than_counting() {
    let mut target = Target::new();
    for _ in 0..1000 {
        target.now.translating += 2_000_000;
        target.go_on(1, 7);
    }
    assert_eq!(target.converge.tables(), 0);
}

#[test]
fn other_code_in_the_same_place_is_profiled() {
    let mut target = Target::new();
    target.go_on(50, 7);
    assert!(target.is_out());
    target.converge.replaced(&(0x800..0x1800));
    target.place = target.converge.place(0x1000, Some(3));
    target.now.at += 50 * MILLI;
    target.converge.look(&target.told, target.now);
    assert!(!target.is_out());
}

/// Value counters at a look, each with a place of its own.
fn at_look(counters: &[(u64, u32)]) -> Vec<ValueCounter> {
    let counter = |&(value, count)| ValueCounter {
        value,
        path: 0,
        count,
    };
    counters.iter().map(counter).collect()
}

#[test]
fn what_is_in_value_counters_is_seen_once() {
    let mut converge = Converge::new(2.0, 1);
    let place = converge.place(0x1000, Some(1));
    let same = |_: &mut Converge, _| Some(place);
    converge.value_counters(1, at_look(&[(5, 100)]), same);
    converge.value_counters(1, at_look(&[(5, 150)]), same);
    assert_eq!(converge.places[0].events, 150);
    // Sent as a whole, and another in its place.
    converge.recorded(1, place, &at_look(&[(5, 170)])[0]);
    converge.value_counters(1, at_look(&[(6, 10)]), same);
    assert_eq!(converge.places[0].events, 180);
}

/// A stretch has what was executed in it, whenever its value counters become records.
#[test]
fn a_burst_has_its_own_executions_only() {
    for is_recorded_late in [false, true] {
        let mut converge = Converge::new(2.0, 1);
        let place = converge.place(0x1000, Some(1));
        let same = |_: &mut Converge, _| Some(place);
        converge.value_counters(1, at_look(&[(5, 750_000), (6, 250_000)]), same);
        let of = &mut converge.places[0];
        of.take_out(MILLI);
        of.put_back(100 * MILLI);
        converge.value_counters(1, at_look(&[(5, 750_300), (6, 250_100)]), same);
        assert_eq!(converge.places[0].seen_now(), 400);
        let record = at_look(&[(5, 750_600)])[0];
        if !is_recorded_late {
            converge.recorded(1, place, &record);
        }
        converge.value_counters(1, at_look(&[(9, 1), (6, 250_200)]), same);
        if is_recorded_late {
            converge.recorded(1, place, &record);
        }
        assert_eq!(converge.places[0].seen_now(), 801, "{is_recorded_late}");
    }
}

/// Bursts whose events keep the host busy are so much rarer.
#[test]
fn what_the_host_spends_on_a_burst_is_paid_for() {
    let watched = |host: Duration| {
        let mut target = Target::new();
        target.go_on(50, 7);
        let mut watched = 0;
        for _ in 0..5_000 {
            if !target.is_out() {
                target.now.host += host;
                watched += 1;
            }
            target.go_on(1, 7);
        }
        watched
    };
    let (free, dear) = (watched(Duration::ZERO), watched(5 * MILLI));
    assert!(dear > 5 && dear * 3 < free, "{dear} against {free}");
}

/// Values that never repeat cost the host a lot, so probes go before as many were counted.
#[test]
fn probes_go_earlier_where_the_host_works_for_them() {
    let tables = |host: Duration| {
        let mut target = Target::new();
        target.now.translating += 100_000_000;
        target.go_on(1, 7);
        target.now.translating += 100_000_000;
        for _ in 0..30 {
            target.now.host += host;
            target.go_on(1, 7);
        }
        target.converge.tables()
    };
    assert_eq!((tables(Duration::ZERO), tables(10 * MILLI)), (0, 1));
}
