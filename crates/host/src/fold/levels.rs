//! Latencies of loads on this machine that hit one cache or another.
//!
//! # Problem
//! A latency in cycles says nothing by itself. The latency of a hit depends on the processor, on its clock against the
//! time stamp counter, and on the cost of measuring. Manuals of virtual machines' processors do not give it.
//!
//! # Strategy
//! Loads with a known level are measured one by one. They use the instructions that generated code has around a load
//! (`translate/ways/latency.rs` of the runtime). Rings of lines in random order are
//! followed, so that no prefetcher helps. One ring is a quarter of the first cache, one is between the first two caches in size. One is twice
//! the second, since of the third a virtual machine may have a small part. The same ring with each line flushed before
//! it is loaded is memory. The time of the same instructions without a load is subtracted from all.
//!
//! The limit between two levels lies between what most loads of either take. The share on the wrong side
//! of it is reported. A level that mostly cannot be distinguished from the one before it does not exist.
//!
//! # Limits
//! A latency is a time. A load that hits the second cache and misses the TLB takes as long as one from the third, and
//! is reported as one.
// The time stamp counter, fences, and lines flushed from the caches.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{_mm_clflush, _mm_mfence};

use trommel_compress::random::SplitMix64;
use trommel_profile::memory::{Cache, Level, Levels};
use trommel_queue::timed_load;

/// Bytes of a line of a cache.
const LINE: usize = 64;
/// Loads that are measured together: what is noted of them meanwhile takes little of the first cache.
const BATCH: usize = 128;
/// Number of batches.
const BATCHES: usize = 24;
/// Measurements of a cache, of which the one with the shortest loads counts: others push lines out of what they share, and interrupt.
const ATTEMPTS: usize = 6;
/// Caches, where the kernel does not tell.
const USUAL: [usize; 3] = [32 << 10, 1 << 20, 16 << 20];
/// Levels of which more are mistaken are one.
const TOO_MANY: f64 = 0.35;

/// A line that leads to another.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line {
    next: *const Self,
}

const _: () = assert!(size_of::<Line>() == LINE);

/// Lines in a circle.
struct Ring {
    lines: Vec<Line>,
    at: *const Line,
}

impl Ring {
    /// Makes a ring of so many bytes, in random order.
    fn new(bytes: usize) -> Self {
        let count = (bytes / LINE).max(2);
        let mut order: Vec<u32> = (0..count as u32).collect();
        let mut random = SplitMix64::new(1);
        for n in (1..count).rev() {
            order.swap(n, random.below(n as u64 + 1) as usize);
        }
        let none = std::ptr::null();
        let mut lines = vec![Line { next: none }; count];
        let base = lines.as_mut_ptr();
        for (n, &from) in order.iter().enumerate() {
            let to = order[(n + 1) % count] as usize;
            // SAFETY: both are below `count`.
            unsafe { (*base.add(from as usize)).next = base.add(to) };
        }
        Self { lines, at: base }
    }

    /// Follows it once around, so that it is where it belongs.
    fn go_around(&mut self) {
        for _ in 0..self.lines.len() {
            // SAFETY: lines lead to lines of the same ring, which are there as long as it is.
            self.at = unsafe { std::ptr::read_volatile(&raw const (*self.at).next) };
        }
    }

    /// Cycles of the next load.
    fn step(&mut self) -> u64 {
        let cycles;
        // SAFETY: as above.
        (self.at, cycles) = unsafe { timed(self.at) };
        cycles
    }

    /// Cycles of the next load, from memory.
    fn step_from_memory(&mut self) -> u64 {
        // SAFETY: a line of the ring's; flushing changes no contents.
        unsafe {
            _mm_clflush(self.at.cast());
            _mm_mfence();
        }
        self.step()
    }
}

/// Loads a line, and returns the cycles that took, with measuring.
///
/// # Safety
/// `line` must be there.
unsafe fn timed(line: *const Line) -> (*const Line, u64) {
    let mut slots = [0_u64; 3];
    let next: *const Line;
    // SAFETY: the slots are three words, and the line is there; registers that change are named.
    unsafe {
        asm!(
            timed_load!("mov {line}, [{line}]"),
            s = in(reg) slots.as_mut_ptr(),
            line = inout(reg) line => next,
            out("rax") _,
            out("rdx") _,
            options(nostack, preserves_flags),
        );
    }
    (next, between(slots[2]))
}

/// Returns the time of measuring without a load.
fn untimed() -> u64 {
    let mut slots = [0_u64; 3];
    // SAFETY: as in `timed`.
    unsafe {
        asm!(
            timed_load!(""),
            s = in(reg) slots.as_mut_ptr(),
            out("rax") _,
            out("rdx") _,
            options(nostack, preserves_flags),
        );
    }
    between(slots[2])
}

/// The least of a few times, as the runtime has it for each window: clocks change.
fn least_untimed() -> u64 {
    const TIMES: usize = 6;
    (0..TIMES).map(|_| untimed()).min().unwrap_or_default()
}

/// Cycles between the stamps in the halves of a word of a record, the earlier one in the lower half.
pub fn between(word: u64) -> u64 {
    u64::from(((word >> 32) as u32).wrapping_sub(word as u32))
}

/// Measures, for some tens of milliseconds. `cycle`: nanoseconds of one.
pub fn measure(cycle: f64) -> Levels {
    let [first, second, third] = sizes();
    let own = median(&measured(|_| least_untimed()));
    let hits = |ring: &mut Ring, again: bool| {
        ring.go_around();
        let mut attempt = |_| {
            ring.go_around();
            measured(|begins| {
                if begins && again {
                    ring.go_around();
                }
                ring.step().saturating_sub(own)
            })
        };
        let attempts = (0..ATTEMPTS).map(&mut attempt);
        attempts.min_by_key(|all| median(all)).unwrap_or_default()
    };
    let middle = (first as f64 * second as f64).sqrt() as usize;
    let mut all = vec![
        (Cache::L1, hits(&mut Ring::new(first / 4), true)),
        (Cache::L2, hits(&mut Ring::new(middle), true)),
    ];
    let mut ring = Ring::new(2 * second);
    if third > second {
        all.push((Cache::L3, hits(&mut ring, false)));
    }
    let flushed = measured(|_| ring.step_from_memory().saturating_sub(own));
    all.push((Cache::Memory, flushed));
    Levels {
        own,
        cycle,
        levels: levels(&all),
    }
}

/// Returns many measurements of `one`, sorted. `one` is told when a batch begins.
fn measured(mut one: impl FnMut(bool) -> u64) -> Vec<u64> {
    let mut all = Vec::with_capacity(BATCH * BATCHES);
    for _ in 0..BATCHES {
        let mut batch = [0_u32; BATCH];
        for (n, cycles) in batch.iter_mut().enumerate() {
            *cycles = one(n == 0) as u32;
        }
        all.extend(batch.map(u64::from));
    }
    all.sort_unstable();
    all
}

/// Returns the levels that measurements distinguish, each in order.
fn levels(all: &[(Cache, Vec<u64>)]) -> Vec<Level> {
    let mut found: Vec<(Level, &[u64])> = Vec::new();
    for (cache, loads) in all {
        let mut below = 0;
        if let Some((before, of_before)) = found.last_mut() {
            let (limit, mistaken) = limit(of_before, loads);
            if mistaken > TOO_MANY || median(loads) <= before.typical {
                continue;
            }
            before.below = limit;
            below = limit;
        }
        // What is below is told to be of a nearer one.
        let mistaken = part(loads, below);
        let level = Level {
            cache: *cache,
            typical: median(loads),
            below: u64::MAX,
            mistaken,
        };
        found.push((level, loads));
    }
    let beyond = |(mut level, loads): (Level, &[u64])| {
        level.mistaken += 1.0 - part(loads, level.below);
        level
    };
    found.into_iter().map(beyond).collect()
}

/// The part of loads that took fewer cycles.
fn part(sorted: &[u64], below: u64) -> f64 {
    sorted.partition_point(|c| *c < below) as f64 / sorted.len().max(1) as f64
}

/// Returns the limit between two levels, and the part of both on the wrong side. The limit is two thirds of the way from the time of nine of ten
/// near loads to the median of the far ones. The slowest near loads are not the cache's doing. A ring of a far cache finds some of its lines
/// nearer. A disturbance makes a load slower, never faster.
fn limit(near: &[u64], far: &[u64]) -> (u64, f64) {
    let most = near.get(near.len() * 9 / 10).copied().unwrap_or_default();
    let from = match most < median(far) {
        true => most,
        false => median(near),
    };
    let limit = ((from + 2 * median(far)) / 3).max(from + 1);
    let wrong = (1.0 - part(near, limit) + part(far, limit)) / 2.0;
    (limit, wrong)
}

fn median(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Bytes of the first, second and third cache for data.
fn sizes() -> [usize; 3] {
    let mut found = [0; 3];
    for n in 0..8 {
        let read = |name| {
            let path = format!("/sys/devices/system/cpu/cpu0/cache/index{n}/{name}");
            std::fs::read_to_string(path).map(|text| text.trim().to_owned())
        };
        let (Ok(level), Ok(of), Ok(size)) = (read("level"), read("type"), read("size")) else {
            break;
        };
        let kib = size.strip_suffix('K').and_then(|k| k.parse::<usize>().ok());
        let level = level.parse::<usize>().unwrap_or(0).wrapping_sub(1);
        if let (Some(kib), Some(place)) = (kib, found.get_mut(level))
            && of != "Instruction"
        {
            *place = kib << 10;
        }
    }
    match found {
        [0, ..] | [_, 0, _] => USUAL,
        // Whatever is beyond the second is memory.
        [first, second, 0] => [first, second, second],
        all => all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_this_machine_follow_each_other() {
        let levels = measure(0.4);
        assert!(levels.own > 0);
        let typical: Vec<u64> = levels.levels.iter().map(|l| l.typical).collect();
        assert!(typical.len() >= 2, "{levels:?}");
        assert!(typical.is_sorted_by(|a, b| a < b), "{levels:?}");
        assert!(
            levels.levels.iter().all(|l| l.typical < l.below),
            "{levels:?}"
        );
        assert_eq!(levels.levels.last().map(|l| l.below), Some(u64::MAX));
    }

    #[test]
    fn the_limit_is_between_what_is_apart() {
        let near: Vec<u64> = (3..8).collect();
        let far: Vec<u64> = (20..30).collect();
        let (limit, mistaken) = limit(&near, &far);
        assert!(
            (8..=20).contains(&limit) && mistaken.abs() < 1e-9,
            "{limit} {mistaken}"
        );
        let all = [(Cache::L1, near), (Cache::L2, far)];
        let levels = levels(&all);
        assert_eq!(levels.len(), 2);
        assert!(levels.iter().all(|l| l.mistaken.abs() < 1e-9));
    }

    #[test]
    fn what_takes_as_long_mostly_is_one_level() {
        let near: Vec<u64> = [0, 0, 0, 0, 0, 0, 0, 0, 0, 5].into();
        let same: Vec<u64> = [0, 0, 0, 0, 0, 0, 9, 9, 9, 9].into();
        let levels = levels(&[(Cache::L1, near), (Cache::L2, same)]);
        let caches: Vec<Cache> = levels.iter().map(|l| l.cache).collect();
        assert_eq!(caches, [Cache::L1]);
    }

    #[test]
    fn what_cannot_be_told_apart_is_one_level() {
        let same: Vec<u64> = (0..100).collect();
        let far: Vec<u64> = (95..295).collect();
        let all = [
            (Cache::L2, same.clone()),
            (Cache::L3, same),
            (Cache::Memory, far),
        ];
        let levels = levels(&all);
        let caches: Vec<Cache> = levels.iter().map(|l| l.cache).collect();
        assert_eq!(caches, [Cache::L2, Cache::Memory]);
        // Between 90 and 195, above all of the one and 65 of 200 of the other.
        assert_eq!(levels[0].below, 160);
        assert!(levels[0].mistaken.abs() < 1e-9, "{levels:?}");
        assert!((levels[1].mistaken - 0.325).abs() < 0.01, "{levels:?}");
    }

    #[test]
    fn stamps_may_wrap_around() {
        assert_eq!(between(0x0000_0005_ffff_fffe), 7);
        assert_eq!(between(0x0000_0064_0000_0000), 100);
    }
}
