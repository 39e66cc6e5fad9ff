//! Functions of code that a program compiles while it runs, as it tells of them.
//!
//! # Problem
//! JIT-compiled code is in no file. Engines write its names into files of two kinds, made for `perf`: a *perf map* with a line for each function
//! ([`perf_map`]), and a *jitdump* that has the code too ([`jitdump`]).
//!
//! # Strategy
//! Both are read to their end, into functions in the order in which they were written. Memory is used again for other code, so a later function
//! takes the place of those that it overlaps ([`Compiled`]).
//!
//! # Invariants
//! * The program wrote these files, so nothing in them is believed: sizes are checked against the bytes that are there, and there is a limit to
//!   functions and names. What makes no sense is left out.
//! * No two functions overlap.

mod jitdump;
mod perf_map;

use std::collections::BTreeMap;

pub use jitdump::jitdump;
pub use perf_map::perf_map;

/// Functions of one program at most; further ones are left out.
const MOST: usize = 1 << 20;
/// Bytes of a name at most.
const LONGEST_NAME: usize = 2048;
/// Bytes of a function at most: no compiler makes larger ones.
const LARGEST: u64 = 1 << 26;

/// A function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function<'a> {
    /// Its address.
    pub start: u64,
    /// Number of bytes it has.
    pub size: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Its bytes, where they are known.
    pub code: &'a [u8],
}

/// Functions that do not overlap.
#[derive(Clone, Debug, Default)]
pub struct Compiled<'a>(BTreeMap<u64, Function<'a>>);

impl<'a> Compiled<'a> {
    /// No function.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a function, in place of what was there.
    pub fn add(&mut self, function: Function<'a>) {
        let Some(end) = function.start.checked_add(function.size) else {
            return;
        };
        if function.name.is_empty() || function.size == 0 || function.size > LARGEST {
            return;
        }
        // None that begins before reaches over another, so at most one of those reaches into this.
        let before = self.0.range(..function.start).next_back();
        let reaches = before.filter(|(start, old)| **start + old.size > function.start);
        let mut gone: Vec<u64> = reaches.map(|(start, _)| *start).into_iter().collect();
        gone.extend(self.0.range(function.start..end).map(|(start, _)| *start));
        for start in gone {
            self.0.remove(&start);
        }
        if self.0.len() < MOST {
            self.0.insert(function.start, function);
        }
    }

    /// The function that an address is in.
    pub fn find(&self, at: u64) -> Option<&Function<'a>> {
        let (_, function) = self.0.range(..=at).next_back()?;
        (at - function.start < function.size).then_some(function)
    }

    /// All of them, by their addresses.
    pub fn functions(&self) -> impl Iterator<Item = &Function<'a>> {
        self.0.values()
    }

    fn remove(&mut self, start: u64) -> Option<Function<'a>> {
        self.0.remove(&start)
    }
}

fn name(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(LONGEST_NAME)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(super) fn function(start: u64, size: u64, name: &[u8]) -> Function<'_> {
        Function {
            start,
            size,
            name,
            code: &[],
        }
    }

    #[test]
    fn later_functions_take_the_place_of_those_that_they_overlap() {
        let mut all = Compiled::new();
        all.add(function(0x100, 0x40, b"a"));
        all.add(function(0x140, 0x40, b"b"));
        all.add(function(0x130, 0x20, b"c"));
        assert_eq!(all.find(0x100), None);
        assert_eq!(all.find(0x14f).map(|f| f.name), Some(&b"c"[..]));
        assert_eq!(all.find(0x150), None);
        all.add(function(u64::MAX, 2, b"d"));
        all.add(function(0x10, u64::MAX, b"e"));
        assert_eq!(all.functions().count(), 1);
    }

    proptest! {
        #[test]
        fn no_two_overlap(all in prop::collection::vec((0_u64..200, 0_u64..40), 0..60)) {
            let mut compiled = Compiled::new();
            for (start, size) in &all {
                compiled.add(function(*start, *size, b"x"));
            }
            let kept: Vec<_> = compiled.functions().map(|f| (f.start, f.start + f.size)).collect();
            prop_assert!(kept.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            let last = all.iter().rev().find(|(_, size)| *size > 0);
            prop_assert!(last.is_none_or(|(start, size)| kept.contains(&(*start, start + size))));
        }
    }
}
