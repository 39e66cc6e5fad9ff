//! Counts beyond 32 bits: streams of more than 2^32 events.
//!
//! What a sampler before leaves out costs nothing, so that 2^32 events go through samplers, splitters,
//! tables and the tagged compressor in a moment. Those that look at every event take minutes, so
//! they are given 2 to the power of `TROMMEL_SCALE`, 21 where it is not set.

use trommel_compress::{Compressor, Seeds, Spec};
use trommel_tuple::{Events, Kind, Message, Place, Tuple};

/// Events of a block, and a number of blocks that is more than 2^32 events.
const BLOCK: u64 = 1 << 20;
const BLOCKS: u64 = (1 << 12) + 3;

fn build(text: &str) -> Compressor {
    let spec: Spec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    spec.build(Seeds::default())
}

/// Three tuples in turn, one of them twice.
fn block() -> Vec<Tuple> {
    let tuple = |n: u64| {
        Tuple::new(
            Place::from_word(1 << 48 | 0x40_1000),
            [7, 8, 7, 9][n as usize % 4],
        )
    };
    (0..BLOCK).map(tuple).collect()
}

/// All blocks through a compressor: messages, the sum of their counts, the greatest of them.
fn run(compressor: &mut Compressor, tuples: &[Tuple], blocks: u64) -> (u64, u64, u64) {
    let (mut messages, mut counted, mut most) = (0, 0, 0);
    let mut sink = |message: Message| {
        messages += 1;
        counted += message.count;
        most = most.max(message.count);
    };
    for _ in 0..blocks {
        compressor.events(Events::of_kind(Kind::Value, tuples), &mut sink);
    }
    compressor.finish(&mut sink);
    (messages, counted, most)
}

#[test]
fn more_than_2_32_events_are_all_counted() {
    let tuples = block();
    let events = BLOCK * BLOCKS;
    assert!(events > 1 << 32);
    for spec in [
        "P4096+P256",
        "P4096+exact",
        "P4096+exact+A1",
        "P1021+H[P255]64+A3",
        "P1021+H:mul[CR16]64",
        "P1021+CR64:sum+A2",
        "P65536+T[256]16/2way/2bit",
        "P1048573+P4096",
    ] {
        let mut compressor = build(spec);
        let (messages, counted, most) = run(&mut compressor, &tuples, BLOCKS);
        assert!(messages > 0, "{spec}");
        assert_eq!(Some(events - counted), compressor.held(), "{spec}");
        if spec.ends_with("P4096") {
            // One message stands for more than 2^32 events.
            assert_eq!((messages, most), (1, 1_048_573 * 4096), "{spec}");
        }
    }
}

#[test]
fn estimates_of_more_than_2_32_events_are_near() {
    let tuples = block();
    let events = (BLOCK * BLOCKS) as f64;
    for spec in ["D1024+R16", "D4096+D4", "D1024+H[P16:phase]64", "D4096+CR4"] {
        let (_, counted, _) = run(&mut build(spec), &tuples, BLOCKS);
        let off = counted as f64 / events - 1.0;
        assert!(off.abs() < 0.02, "{spec}: {off}");
    }
}

#[test]
fn a_counter_table_adds_up_the_greatest_counts() {
    // 65535 × 65537 is the greatest rate of two samplers, 2^32 − 1.
    let rates = [(65_535, 65_537), (4_294_967_295_u64, 1)];
    for (first, second) in rates {
        let spec: Result<Spec, _> = format!("R{first}+P{second}+A1").parse();
        assert!(spec.is_ok(), "{first} {second}");
    }
    let mut tables = trommel_compress::Tables::NONE;
    tables.push(trommel_compress::TableSpec {
        entries: 1,
        bits: 8,
    });
    let mut table = trommel_compress::table::CounterTables::new(&tables).expect("a table");
    let message = Message {
        kind: Kind::Value,
        tuple: Tuple::default(),
        count: u64::from(u32::MAX),
        samples: 1,
    };
    let mut sent = 0;
    for _ in 0..255 {
        table.message(message, &mut |m: Message| sent = m.count);
    }
    assert_eq!(sent, 255 * u64::from(u32::MAX));
}

#[test]
fn an_interval_may_have_all_the_events_that_32_bits_count() {
    for spec in [
        "M4[4294967295,100%]64:C0R0P1",
        "M1[4294967295,0.1%]64",
        "SS[4294967295,100%]4",
        "S8[4294967295,1%]64",
    ] {
        let compressor = build(spec);
        let left = compressor.first_level().interval_left();
        assert_eq!(left, Some(u64::from(u32::MAX)), "{spec}");
    }
    let spec: Spec = "M4[4294967295,100%]64".parse().expect("a spec");
    let interval = spec.interval().expect("an interval");
    assert_eq!(interval.threshold_count(), u32::MAX);
}

/// Offers 2^21 events of one tuple (2^`TROMMEL_SCALE`, if set), and 2^20 · 3 more.
#[test]
fn every_event_is_looked_at() {
    let bits: u32 = std::env::var("TROMMEL_SCALE")
        .map_or(21, |bits| bits.parse().expect("TROMMEL_SCALE is a number"));
    let tuples = vec![Tuple::new(Place::from_word(1 << 48 | 0x40_1000), 7); BLOCK as usize];
    let blocks = (1 << bits) / BLOCK + 3;
    let events = BLOCK * blocks;
    let interval = (1_u64 << bits) - 1;
    let greatest = &format!("H[P{interval}]2");
    let half = &format!("T[{}]16/2way/2bit", 1_u64 << (bits - 1));
    for spec in [
        "P256",
        "CR256",
        "exact+A1",
        greatest,
        "H:crc[P256]2048",
        half,
    ] {
        let mut compressor = build(spec);
        let (_, counted, _) = run(&mut compressor, &tuples, blocks);
        assert_eq!(compressor.held(), Some(events - counted), "{spec}");
        println!("{spec}: {counted} counted");
    }
    // One tuple that has all events of each interval.
    for (form, rest) in [
        ("M4", "100%]64:C1R0P1"),
        ("M4", "100%]64:C0R1P0"),
        ("M3", "50%]48:C1R0P1E3"),
        ("SS", "100%]4"),
        ("MG", "100%]4"),
        ("CM4", "100%]64"),
        ("HK2", "100%]64"),
        ("S8", "100%]64"),
    ] {
        let spec = format!("{form}[{interval},{rest}");
        let mut compressor = build(&spec);
        let (messages, _, most) = run(&mut compressor, &tuples, blocks);
        assert_eq!((messages, most), (events / interval, interval), "{spec}");
        println!("{spec}: {most}");
    }
}
