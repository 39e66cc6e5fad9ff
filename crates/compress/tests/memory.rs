//! Memory is taken when a compressor is built, and never while events go through it.
#![allow(unsafe_code)] // reason: an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use trommel_compress::random::SplitMix64;
use trommel_compress::{Seeds, Sink, Spec};
use trommel_tuple::{Events, Kind, Message, Place, Tuple};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is handed on to the system's allocator; counting allocates nothing, as the
// counter is constant-initialised and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are the ones asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are the ones asked for.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Count(u64);

impl Sink for Count {
    fn message(&mut self, message: Message) {
        self.0 += message.count;
    }
}

#[test]
fn no_event_allocates() {
    let mut random = SplitMix64::new(9);
    let tuples: Vec<Tuple> = (0..60_000)
        .map(|_| {
            let bits = random.below(16);
            Tuple::new(Place::from_word(random.below(1 << bits)), random.below(9))
        })
        .collect();
    let kinds: Vec<Kind> = (0..tuples.len()).map(|n| Kind::ALL[n % 2]).collect();
    for text in [
        "exact+A16",
        "P7",
        "R7+A3",
        "D7",
        "CR7",
        "H[P7]64+A16",
        "H:crc[D7]64",
        "H:mul[CR7]64",
        "T[16]64/2way/2bit+A4",
        "D4+H[P4:phase]64+A4",
        "R3+T[16]64/2way/2bit",
        "P2+CR7",
        "F[5%,8]64+H[P7]64",
        "M4[500..8k,1%]64:C1R1P1",
        "M4[1k,1%]64:C1R1P1",
        "M3:crc[1k,1%]96:C1R0P1A3",
        "M16:mul[1k,1%]1024:C0R0P0",
        "M2[1k,1%]64:C1R1P1A90E3",
        "SS[1k,1%]50",
        "MG[1k,1%]300",
        "CM4[1k,1%]256",
        "HK2[1k,1%]64",
        "S8[1k,1%]64:E2A9",
    ] {
        let spec: Spec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let mut compressor = spec.build(Seeds::default());
        let mut sink = Count(0);
        let before = ALLOCATIONS.get();
        compressor.events(Events::of_kind(Kind::Value, &tuples), &mut sink);
        let mixed = Events::new(&tuples, &kinds).expect("lanes of one length");
        compressor.events(mixed, &mut sink);
        compressor.finish(&mut sink);
        assert_eq!(ALLOCATIONS.get() - before, 0, "{text}");
        assert!(sink.0 > 0, "{text} sends something");
    }
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(vec![1u8; 10]));
    assert_eq!(ALLOCATIONS.get() - before, 1, "the allocator counts");
}
