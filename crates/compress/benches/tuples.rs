//! Tuples a second of each compressor, from memory, on one core.
//!
//! `cargo bench -p trommel-compress [-- SPEC… STREAM.raw16.zst…]`. Without a stream, a synthetic one.
//! Each figure is the best of nine passes; not a test.

use std::hint::black_box;
use std::time::Instant;

use trommel_compress::{Seeds, Spec};
use trommel_tuple::stream::{self, Block};
use trommel_tuple::{Events, Kind, Message, Place, Tuple};

const SPECS: [&str; 13] = [
    "P256",
    "R256",
    "CR256",
    "H[P256]2048",
    "H:crc[P256]2048",
    "H:mul[P256]2048",
    "H[P256]2048+A16",
    "T[256]2048/2way/2bit",
    "M1[10k,1%]2048:C0R1P1",
    "M4[10k,1%]2048:C1R0P1",
    "M4:crc[10k,1%]2048:C1R0P1",
    "M4:mul[10k,1%]2048:C1R0P1",
    "M4[1M,0.1%]2048:C1R0P1",
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

fn main() {
    let given: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let (specs, paths): (Vec<_>, Vec<_>) = given.iter().partition(|a| a.parse::<Spec>().is_ok());
    let mut specs: Vec<&str> = specs.into_iter().map(String::as_str).collect();
    if specs.is_empty() {
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
            let mut best = f64::INFINITY;
            for _ in 0..9 {
                let mut compressor = spec.build(Seeds::default());
                let mut sent = 0u64;
                let mut sink = |_: Message| sent += 1;
                let start = Instant::now();
                for block in tuples.chunks(4096) {
                    compressor.events(Events::of_kind(Kind::Value, block), &mut sink);
                }
                best = best.min(start.elapsed().as_secs_f64());
                black_box(sent);
            }
            println!(
                "  {text:26} {:7.1} M tuples/s",
                tuples.len() as f64 / best / 1e6
            );
        }
    }
}
