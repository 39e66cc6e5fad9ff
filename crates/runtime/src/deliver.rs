//! The target's side of the queue: the dictionary written, chunks published.
//!
//! Generated code appends records by itself; it comes here only when its chunk is full. A full
//! ring makes the app wait until the host has given a chunk back: nothing is dropped. If the host
//! is gone there is nobody to wait for, and the caller lets the app go.
#![allow(unsafe_code)] // reason: writes into memory shared with the host.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use linux_raw_sys::general as nr;
use trommel_queue::dict::{Event, PathHeader};
use trommel_queue::{
    CHUNKS, Control, DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, MAX_PATHS, MAX_REGIONS, MAX_WORDS,
    REGION_OFFSET, RING_OFFSET, RegionRecord, chunk_start,
};

use crate::region::Mapping;
use crate::sys;

/// The shared file as mapped here.
pub struct Shared {
    base: u64,
    /// Chunk being filled.
    chunk: u64,
    paths: u32,
    words: u64,
    regions: u32,
}

/// The host is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostGone;

/// The dictionary is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DictionaryFull;

impl Shared {
    /// The file mapped at `base`.
    ///
    /// # Safety
    /// All `FILE_SIZE` bytes must be mapped there, shared and writable, for good.
    pub unsafe fn new(base: u64) -> Self {
        let shared = Self {
            base,
            chunk: 0,
            paths: 0,
            words: 0,
            regions: 0,
        };
        shared
            .control()
            .ring_base
            .store(base + RING_OFFSET as u64, Release);
        shared
    }

    /// The control words.
    pub fn control(&self) -> &Control {
        // SAFETY: the mapping is ours for good; `Control` is all atomics.
        unsafe { &*(self.base as *const Control) }
    }

    /// Where the write pointer starts.
    pub fn first_record(&self) -> u64 {
        self.base + RING_OFFSET as u64 + chunk_start(self.chunk) as u64
    }

    fn put_words(&mut self, words: &[u64]) -> Result<u32, DictionaryFull> {
        if self.words + words.len() as u64 > MAX_WORDS as u64 {
            return Err(DictionaryFull);
        }
        let at = self.words;
        for (n, word) in words.iter().enumerate() {
            let address = self.base + DICT_WORDS_OFFSET as u64 + (at + n as u64) * 8;
            // SAFETY: bounds checked above; only the runtime writes here.
            unsafe { (address as *mut u64).write(*word) };
        }
        self.words += words.len() as u64;
        self.control().words.store(self.words, Release);
        Ok(at as u32)
    }

    /// Describes a fragment's main line; the word offset names the block in paths.
    pub fn block(&mut self, events: &[Event]) -> Result<u32, DictionaryFull> {
        let at = self.put_words(&[events.len() as u64])?;
        for event in events {
            let (words, n) = event.encode();
            self.put_words(&words[..n])?;
        }
        Ok(at)
    }

    /// Numbers a path.
    pub fn path(
        &mut self,
        block: u32,
        events: u16,
        tail: Option<Event>,
    ) -> Result<u32, DictionaryFull> {
        if self.paths as usize >= MAX_PATHS {
            return Err(DictionaryFull);
        }
        let at = self.put_words(&[PathHeader {
            block,
            events,
            tail: tail.is_some(),
        }
        .encode()])?;
        if let Some(event) = tail {
            let (words, n) = event.encode();
            self.put_words(&words[..n])?;
        }
        let number = self.paths;
        let index = self.base + DICT_INDEX_OFFSET as u64 + u64::from(number) * 4;
        // SAFETY: bounds checked above; only the runtime writes here.
        unsafe { (index as *mut u32).write(at) };
        self.paths += 1;
        self.control().paths.store(self.paths, Release);
        Ok(number)
    }

    /// Tells the host about a region.
    pub fn region(&mut self, mapping: &Mapping) -> Result<(), DictionaryFull> {
        if self.regions as usize >= MAX_REGIONS {
            return Err(DictionaryFull);
        }
        let address =
            self.base + (REGION_OFFSET + self.regions as usize * size_of::<RegionRecord>()) as u64;
        // SAFETY: bounds checked above; only the runtime writes here, and the host reads no further
        // than `regions`. The file is zero where it was never written.
        let record = unsafe { &mut *(address as *mut RegionRecord) };
        let n = mapping.path.len().min(record.path.len());
        record.start = mapping.range.start;
        record.end = mapping.range.end;
        record.offset = mapping.offset;
        record.inode = mapping.inode;
        record.path_len = n as u64;
        record.path[..n].copy_from_slice(&mapping.path[..n]);
        self.regions += 1;
        self.control().regions.store(self.regions, Release);
        Ok(())
    }

    /// Publishes the current chunk, filled up to `write_pointer`, and waits for the next one.
    /// Returns the new write pointer.
    pub fn publish(&mut self, write_pointer: u64) -> Result<u64, HostGone> {
        let used = write_pointer - self.first_record();
        let control = self.control();
        control.chunk_bytes[(self.chunk % CHUNKS as u64) as usize].store(used as u32, Relaxed);
        control.published.0.store(self.chunk + 1, SeqCst);
        if control.host_sleeps.load(SeqCst) != 0 {
            control.host_sleeps.store(0, SeqCst);
            wake(&control.host_sleeps);
        }
        self.chunk += 1;
        self.wait_until_consumed(self.chunk + 1 - CHUNKS.min(self.chunk as usize + 1) as u64)?;
        Ok(self.first_record())
    }

    /// Publishes what there is and waits until the host has folded all of it.
    pub fn drain(&mut self, write_pointer: u64) -> Result<u64, HostGone> {
        let next = self.publish(write_pointer)?;
        self.wait_until_consumed(self.chunk)?;
        Ok(next)
    }

    fn wait_until_consumed(&self, chunks: u64) -> Result<(), HostGone> {
        let control = self.control();
        if control.consumed.0.load(Acquire) >= chunks {
            return Ok(());
        }
        let started = sys::monotonic();
        let mut gone = false;
        while control.consumed.0.load(Acquire) < chunks {
            control.target_sleeps.store(1, SeqCst);
            if control.consumed.0.load(SeqCst) >= chunks {
                break;
            }
            sleep(&control.target_sleeps, 100_000_000);
            if control.consumed.0.load(Acquire) < chunks
                && sys::getppid() as u32 != control.host_pid.load(Relaxed)
            {
                gone = true;
                break;
            }
        }
        control.target_sleeps.store(0, SeqCst);
        control.waits.fetch_add(1, Relaxed);
        control
            .wait_nanos
            .fetch_add(sys::monotonic() - started, Relaxed);
        if gone { Err(HostGone) } else { Ok(()) }
    }
}

fn wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: a futex word of the shared file.
    let _ = unsafe {
        sys::call(
            nr::__NR_futex,
            [word.as_ptr() as u64, u64::from(nr::FUTEX_WAKE), 1, 0, 0, 0],
        )
    };
}

fn sleep(word: &core::sync::atomic::AtomicU32, nanos: u64) {
    let timeout = [0u64, nanos];
    // SAFETY: a futex word of the shared file and a timespec.
    let _ = unsafe {
        sys::call(
            nr::__NR_futex,
            [
                word.as_ptr() as u64,
                u64::from(nr::FUTEX_WAIT),
                1,
                timeout.as_ptr() as u64,
                0,
                0,
            ],
        )
    };
}
