//! The memory map of this process, as the host reads it: for a program that may not open `/proc`.
//!
//! The host is asked through the shared file ([`MapQuestion`]), and answers within some ten microseconds. Who waits may hold the runtime's lock:
//! the host needs no thread of this process for its answer. A host that does not answer, as it was stopped or killed, is
//! waited for no longer than [`TURNS`] say, and then the map cannot be read.
#![allow(unsafe_code)] // reason: memory shared with the host.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use trommel_queue::{Directory, MAP_TEXT, MapQuestion, MapText, protocol};

use crate::base::call::{call, nr};

/// Waits for the host, and nanoseconds of each.
const TURNS: u32 = 200;
const NANOS: u64 = 10_000_000;

/// The place of questions, the text of answers, and the directory. None: there is no host.
static PLACES: [AtomicPtr<()>; 3] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 3];

/// Says where questions are put and answered.
pub fn ask_at(
    question: &'static MapQuestion,
    text: &'static MapText,
    directory: &'static Directory,
) {
    let places = [
        (&raw const *question).cast::<()>(),
        (&raw const *text).cast(),
        (&raw const *directory).cast(),
    ];
    for (to, from) in PLACES.iter().zip(places) {
        to.store(from.cast_mut(), Relaxed);
    }
}

/// Makes the host look at what there is.
pub fn ring(directory: &Directory) {
    let sleeps = &directory.bell;
    protocol::rouse(sleeps, || wake(sleeps));
}

/// Wakes one that sleeps on a word, in this process or the host.
fn wake(word: &AtomicU32) {
    let args = [word.as_ptr() as u64, nr::FUTEX_WAKE.into(), 1, 0, 0, 0];
    // SAFETY: no memory is written.
    let _ = unsafe { call(nr::__NR_futex, args) };
}

/// Sleeps while a word has a value, for [`NANOS`] at most.
fn wait(word: &AtomicU32, value: u32) {
    let limit = [0, NANOS];
    let (at, wait) = (word.as_ptr() as u64, nr::FUTEX_WAIT.into());
    let args = [at, wait, value.into(), limit.as_ptr() as u64, 0, 0];
    // SAFETY: a futex word and a timespec.
    let _ = unsafe { call(nr::__NR_futex, args) };
}

/// The place of questions, for one thread at a time.
struct Place {
    question: &'static MapQuestion,
    text: &'static MapText,
    directory: &'static Directory,
    turns: u32,
}

/// The host is gone, or does not answer.
struct Silent;

impl Place {
    fn hold() -> Option<Self> {
        let [question, text, directory] = PLACES.each_ref().map(|place| place.load(Relaxed));
        if question.is_null() {
            return None;
        }
        // SAFETY: those that were said, which stay.
        let (question, text, directory) = unsafe {
            (
                &*question.cast::<MapQuestion>(),
                &*text.cast::<MapText>(),
                &*directory.cast::<Directory>(),
            )
        };
        let mut turns = 0;
        let sleep = |word: &AtomicU32, value| Self::sleep(directory, &mut turns, word, value);
        let words = [&question.asked, &question.answered];
        let free = || Self::free(question);
        protocol::hold(&question.held, words, sleep, free).ok()?;
        Some(Self {
            question,
            text,
            directory,
            turns,
        })
    }

    fn sleep(
        directory: &Directory,
        turns: &mut u32,
        word: &AtomicU32,
        value: u32,
    ) -> Result<(), Silent> {
        *turns += 1;
        if *turns > TURNS || !directory.host_is_there() {
            return Err(Silent);
        }
        wait(word, value);
        Ok(())
    }

    fn free(question: &MapQuestion) {
        question.held.store(0, SeqCst);
        wake(&question.held);
    }

    /// Asks. Returns the bytes of the answer.
    fn ask(&mut self, what: u32, at: u64) -> Option<usize> {
        let question = self.question;
        question.what.store(what, Relaxed);
        question.at.store(at, Relaxed);
        let asked = protocol::ask(&question.asked);
        ring(self.directory);
        let turns = &mut self.turns;
        let sleep = |value| Self::sleep(self.directory, turns, &question.answered, value);
        protocol::wait_for(&question.answered, asked, sleep).ok()?;
        let bytes = question.bytes.load(Relaxed);
        (bytes != MapQuestion::NONE).then(|| (bytes as usize).min(MAP_TEXT))
    }

    /// Copies text of the answer, from an offset on.
    fn copy(&self, from: usize, to: &mut [u8]) {
        for (n, byte) in to.iter_mut().enumerate() {
            let at = from + n;
            let word = self.text.words[at / 8 % (MAP_TEXT / 8)].load(Relaxed);
            *byte = word.to_le_bytes()[at % 8];
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        Self::free(self.question);
    }
}

/// The line of the mapping that holds an address, as much of it as there is room for: its bytes, and whether the process has the file open for
/// writing. No bytes where nothing is mapped. `None`: the host does not say.
pub fn entry(at: u64, line: &mut [u8]) -> Option<(usize, bool)> {
    let mut place = Place::hold()?;
    let bytes = place.ask(MapQuestion::ENTRY, at)?.min(line.len());
    place.copy(0, &mut line[..bytes]);
    let written = place.question.written.load(Relaxed) != 0;
    Some((bytes, written))
}

/// Calls `with` for the whole text, piece by piece. `None`: the host does not say all of it.
pub fn text(mut with: impl FnMut(&[u8])) -> Option<()> {
    let mut place = Place::hold()?;
    let mut read = 0;
    loop {
        let bytes = place.ask(MapQuestion::PIECE, read)?;
        if bytes == 0 {
            return Some(());
        }
        let mut piece = [0; 512];
        for from in (0..bytes).step_by(piece.len()) {
            let part = &mut piece[..512.min(bytes - from)];
            place.copy(from, part);
            with(part);
        }
        read += bytes as u64;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::sync::atomic::Ordering::Acquire;
    use std::vec::Vec;

    use super::*;

    /// Zero memory for good.
    fn zero<T>() -> &'static T {
        let layout = core::alloc::Layout::new::<T>();
        // SAFETY: all of these types are atomics, which may be 0; the memory stays.
        unsafe { &*std::alloc::alloc_zeroed(layout).cast::<T>() }
    }

    /// Answers as the host does, as often as said: the address or offset comes back as text.
    fn host(question: &MapQuestion, text: &MapText, answers: usize) {
        for _ in 0..answers {
            let asked = loop {
                match protocol::asked(&question.asked, &question.answered) {
                    Some(asked) => break asked,
                    None => std::thread::yield_now(),
                }
            };
            let at = question.at.load(Acquire);
            let bytes = match question.what.load(Relaxed) {
                MapQuestion::PIECE if at >= 1200 => 0,
                MapQuestion::PIECE => 600,
                _ if at == 0 => MapQuestion::NONE,
                _ => 16,
            };
            text.words.iter().for_each(|word| word.store(at, Relaxed));
            question.bytes.store(bytes, Relaxed);
            question.written.store(1, Relaxed);
            protocol::answer(&question.answered, asked, || ());
        }
    }

    #[test]
    fn a_host_answers_or_is_not_waited_for() {
        let (question, text, directory) = (zero::<MapQuestion>(), zero(), zero::<Directory>());
        let mut line = [0; 12];
        assert_eq!(entry(1, &mut line), None, "there is none");
        ask_at(question, text, directory);
        assert_eq!(entry(1, &mut line), None, "it is gone");
        // The question that nobody has answered.
        question.answered.store(1, SeqCst);
        directory.host[0].store(1, SeqCst);
        let host = std::thread::spawn(|| host(question, text, 5));
        assert_eq!(entry(0x4142, &mut line), Some((12, true)));
        assert_eq!(line, *b"\x42\x41\0\0\0\0\0\0\x42\x41\0\0");
        assert_eq!(entry(0, &mut line), None, "it cannot read the map");
        let mut all = Vec::new();
        assert_eq!(super::text(|piece| all.extend_from_slice(piece)), Some(()));
        assert_eq!((all.len(), all[0], all[600]), (1200, 0, 0x58));
        host.join().expect("it has answered");
    }
}
