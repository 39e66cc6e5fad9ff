//! Fragments that end in code that is not selected.
//!
//! The first pass leaves the translator at the last instruction of a fragment. The second pass begins at the first one. So
//! nothing that holds for the last instruction may be used for the fragment's beginning.

use super::cases::{Also, Case, Compressor};
use super::*;

/// Places of the C library from which fragments are tried.
const PLACES: u64 = 8;

/// A world that records acyclic paths of all code, or of that before an offset in the library.
fn world(n: usize, selected: Option<u64>) -> World {
    let case = Case {
        kinds: [Kind::Path].into_iter().collect(),
        compressor: Compressor::Recorded,
        also: Also {
            selected: selected.is_some(),
            ..Also::default()
        },
    };
    let world = World::new(n, &case);
    if let Some(end) = selected {
        let range = &world.shared.mapped().queries().range[0];
        range.end.store(world.range.start + end, Relaxed);
    }
    world
}

/// Translates the code at an offset. Returns the offset of the last instruction, and the events before the first one.
fn translated(world: &mut World, offset: u64) -> Option<(u64, u16)> {
    let (start, shape) = (world.range.start, Shape::Usual);
    let (translator, mut site) = world.site();
    let made = translator.translate(&mut site, (AppPc(start + offset), Prefix::NONE), shape);
    let fragment = world.cache.fragments[made.ok()?.index()];
    let job = &world.translator.job;
    let last = job.insns[..job.count].last()?.pc().0 - start;
    Some((last, world.cache.steps[fragment.first_step as usize].events))
}

#[test]
fn the_arrival_comes_before_the_first_instruction_whatever_ends_the_fragment() {
    let mut ended = 0;
    for n in 0..PLACES {
        let mut all = world(500 + 2 * n as usize, None);
        let len = all.range.end - all.range.start;
        let offset = (n + 1) * (len / (PLACES + 2)) / 16 * 16;
        let Some((last, events)) = translated(&mut all, offset) else {
            continue;
        };
        assert_eq!(events, 1, "{offset:#x}: the arrival is an event");
        if last == offset {
            continue;
        }
        let mut some = world(501 + 2 * n as usize, Some(last));
        let found = translated(&mut some, offset).expect("a fragment");
        assert_eq!(
            found,
            (last, 1),
            "{offset:#x}: without its last instruction"
        );
        ended += 1;
    }
    assert!(ended > 2, "{ended} fragments were tried");
}
