//! Tuples a second of each compressor, from memory, on one core, beside exact counting with
//! `hashbrown` and a public heavy-hitter crate (`heavykeeper`).
//!
//! `cargo bench -p trommel-compress [-- SPEC… STREAM…]`. Without a stream, a synthetic one. Each figure
//! is the best of nine passes; not a test.
//!
//! `-- --passes N SPEC` sends the synthetic stream through one compressor N times and nothing else:
//! `cargo xtask instructions` counts it under valgrind.

use std::hint::black_box;
use std::time::Instant;

use trommel_compress::{Seeds, Spec};
use trommel_tuple::stream::{self, Block};
use trommel_tuple::{Events, Kind, Message, Place, Tuple};

const SPECS: [&str; 20] = [
    "P256",
    "R256",
    "CR256",
    "H[P256]2048",
    "H:crc[P256]2048",
    "H:mul[P256]2048",
    "H[P256]2048+A16",
    "D16+H[P16:phase]4096",
    "D16+T[16]2048/2way/4bit",
    "T[256]2048/2way/2bit",
    "M1[10k,1%]2048:C0R1P1",
    "M4[10k,1%]2048:C1R0P1",
    "M4:mul[10k,1%]2048:C1R0P1",
    "M4[1M,0.1%]2048:C1R0P1",
    "SS[10k,1%]538",
    "MG[10k,1%]538",
    "CM4[10k,1%]2048",
    "HK2[10k,1%]1024",
    "S12[10k,1%]1536",
    "S12[1M,0.1%]1536:E2",
];

fn synthetic() -> Vec<Tuple> {
    let mut random = trommel_compress::random::SplitMix64::new(3);
    (0..1 << 20)
        .map(|_| {
            let (pc_bits, value_bits) = (random.below(12), random.below(20));
            let (pc, value) = (random.below(1 << pc_bits), random.below(1 << value_bits));
            Tuple::new(Place::from_word(0x1_0000_0040_0000 + 4 * pc), value)
        })
        .collect()
}

fn load(path: &str) -> Vec<Tuple> {
    let mut reader = stream::open(path).unwrap_or_else(|e| panic!("{e}"));
    let (mut tuples, mut block) = (Vec::new(), Block::default());
    while reader
        .next_block(&mut block)
        .unwrap_or_else(|e| panic!("{e}"))
    {
        tuples.extend_from_slice(block.events().tuples());
    }
    tuples
}

/// One pass of the tuples through a compressor, and the messages.
fn pass(spec: &Spec, tuples: &[Tuple]) -> u64 {
    let mut compressor = spec.build(Seeds::default());
    let mut sent = 0u64;
    let mut sink = |_: Message| sent += 1;
    for block in tuples.chunks(4096) {
        compressor.events(Events::of_kind(Kind::Value, block), &mut sink);
    }
    sent
}

fn exact(tuples: &[Tuple]) -> u64 {
    let mut counts = hashbrown::HashMap::<Tuple, u64>::new();
    for tuple in tuples {
        *counts.entry(*tuple).or_insert(0) += 1;
    }
    counts.len() as u64
}

/// The crate's own structure at the cells of `HK2[10k,1%]1024`, over the whole stream.
fn public(tuples: &[Tuple]) -> u64 {
    let mut top = heavykeeper::TopK::new(100, 512, 2, 1.0 / 1.08);
    for tuple in tuples {
        top.add(tuple, 1);
    }
    top.list().len() as u64
}

fn best(name: &str, tuples: &[Tuple], mut run: impl FnMut(&[Tuple]) -> u64) {
    let mut best = f64::INFINITY;
    for _ in 0..9 {
        let start = Instant::now();
        black_box(run(tuples));
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "  {name:26} {:7.1} M tuples/s",
        tuples.len() as f64 / best / 1e6
    );
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    if let [option, passes, spec] = given.as_slice()
        && option == "--passes"
    {
        let passes: usize = passes.parse().expect("a number of passes");
        let spec: Spec = spec.parse().unwrap_or_else(|e| panic!("{e}"));
        let tuples = synthetic().repeat(passes);
        black_box(pass(&spec, &tuples));
        return;
    }
    let given = given.iter().filter(|a| !a.starts_with("--"));
    let (specs, paths): (Vec<_>, Vec<_>) = given.partition(|a| a.parse::<Spec>().is_ok());
    let all = specs.is_empty();
    let mut specs: Vec<&str> = specs.into_iter().map(String::as_str).collect();
    if all {
        specs = SPECS.to_vec();
    }
    let mut streams: Vec<_> = paths.into_iter().map(|p| (load(p), p.clone())).collect();
    if streams.is_empty() {
        streams.push((synthetic(), "synthetic".to_string()));
    }
    for (tuples, name) in &streams {
        println!("{name}: {} tuples", tuples.len());
        for text in &specs {
            let spec: Spec = text.parse().expect("a valid spec");
            best(text, tuples, |tuples| pass(&spec, tuples));
        }
        if all {
            best("hashbrown, exact", tuples, exact);
            best("heavykeeper 0.7", tuples, public);
        }
    }
}
