//! Pages that may be protected, as a thread leaves the list that is killed at any moment.
//!
//! # Problem
//! A thread may be killed while it protects a page, or makes it writable again (`engine::inherit`). Then the app must
//! find all its pages writable. A tree that is half changed does not say which are not.
//!
//! # Strategy
//! A list of words, a page each, next to the tree. A page is listed before it is protected and struck when it is writable again, each by one store.
//! So the list has every page that is protected, and maybe one that is not: to make that writable again changes nothing.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Bits of a word below the page's.
const PROTECTION: u64 = 4095;

/// Pages that may be protected.
#[derive(Default)]
pub struct MaybeProtected {
    /// A page, and in its low bits the protection that the app believes it to have; 0: none.
    words: Vec<AtomicU64>,
    /// Words that are 0.
    free: Vec<Listed>,
}

/// A place in the list.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Listed(u32);

impl MaybeProtected {
    /// Lists a page that is about to be protected.
    pub fn list(&mut self, page: u64, believed: u32) -> Listed {
        let word = page | u64::from(believed);
        if let Some(at) = self.free.pop() {
            self.words[at.0 as usize].store(word, Relaxed);
            return at;
        }
        self.words.push(AtomicU64::new(word));
        Listed(self.words.len() as u32 - 1)
    }

    /// Strikes a page that is writable again.
    pub fn strike(&mut self, at: Listed) {
        self.words[at.0 as usize].store(0, Relaxed);
        self.free.push(at);
    }

    /// The pages, with the protection that the app believes they have.
    pub fn pages(&self) -> impl Iterator<Item = (u64, u32)> {
        let words = self.words.iter().map(|word| word.load(Relaxed));
        let listed = words.filter(|&word| word != 0);
        listed.map(|word| (word & !PROTECTION, (word & PROTECTION) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_listed_until_they_are_struck() {
        let mut list = MaybeProtected::default();
        let first = list.list(0x1000, 7);
        let second = list.list(0x2000, 3);
        assert!(list.pages().eq([(0x1000, 7), (0x2000, 3)]));
        list.strike(first);
        assert!(list.pages().eq([(0x2000, 3)]));
        assert_eq!(list.list(0x5000, 2), first);
        assert!(list.pages().eq([(0x5000, 2), (0x2000, 3)]));
        list.strike(second);
        list.strike(first);
        assert_eq!(list.pages().count(), 0);
    }
}
