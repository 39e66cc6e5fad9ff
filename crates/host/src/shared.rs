//! The memory file shared with a target.
//!
//! The target may write anything at any time. So everything read here is read once, through
//! pointers that never leave this module, and checked against the file's bounds before it is used.
// A mapping that another process writes to cannot be a Rust slice.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use trommel_queue::dict::{Event, MAX_BLOCK_EVENTS, MAX_EVENT_WORDS, PathHeader};
use trommel_queue::{
    CHUNK, CHUNKS, CONTROL_OFFSET, Control, DICT_INDEX_OFFSET, DICT_WORDS_OFFSET, FILE_SIZE,
    FIRST_RECORD, LAYOUT_VERSION, MAGIC, MAX_PATHS, MAX_REGIONS, MAX_WORDS, REGION_OFFSET,
    RING_OFFSET, RegionRecord, THREAD_PAGE_OFFSET, chunk_start,
};
use trommel_tuple::KindSet;

/// Bytes of the file. It is sparse: only what is used takes memory.
pub const SIZE: usize = FILE_SIZE;

/// The file, mapped.
pub struct SharedFile {
    file: OwnedFd,
    map: MmapRaw,
}

/// What the target wrote makes no sense.
#[derive(Debug, thiserror::Error)]
#[error(
    "the target wrote {what} {number} that cannot be; it damaged the memory it shares with trommel"
)]
pub struct Damaged {
    /// What was read.
    pub what: &'static str,
    /// Its value or number.
    pub number: u64,
}

/// A region as the runtime found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Addresses in the target.
    pub range: std::ops::Range<u64>,
    /// Offset of the start in the file.
    pub offset: u64,
    /// Inode of the file, 0 for none.
    pub inode: u64,
    /// Path as the kernel prints it.
    pub path: Vec<u8>,
}

impl SharedFile {
    /// A new file for one target, readable by no other user.
    pub fn new(kinds: KindSet, options: u64) -> io::Result<Self> {
        const NAME: &CStr = c"trommel";
        // SAFETY: a valid name; the descriptor is checked before it is owned.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, nobody else's.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        nix::unistd::ftruncate(&file, FILE_SIZE as i64)?;
        let map = MmapOptions::new().len(FILE_SIZE).map_raw(&file)?;
        let shared = Self { file, map };
        let control = shared.control();
        control.magic.store(MAGIC, Relaxed);
        control.version.store(LAYOUT_VERSION, Relaxed);
        control.kinds.store(u32::from(kinds.bits()), Relaxed);
        control.options.store(options, Relaxed);
        control.host_pid.store(std::process::id(), Relaxed);
        Ok(shared)
    }

    /// The file's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The control words.
    pub fn control(&self) -> &Control {
        // SAFETY: inside the mapping, aligned, all atomics.
        unsafe { &*self.map.as_ptr().add(CONTROL_OFFSET).cast::<Control>() }
    }

    fn word(&self, offset: usize) -> u64 {
        assert!(offset + 8 <= FILE_SIZE);
        // SAFETY: inside the mapping; read once.
        unsafe { ptr::read_volatile(self.map.as_ptr().add(offset).cast::<u64>()) }
    }

    /// The write pointer of the target, as an offset in the ring's current chunk; how far records
    /// of chunk number `chunk` go that was never published.
    pub fn unpublished(&self, chunk: u64) -> usize {
        let base = self.control().ring_base.load(Acquire);
        let pointer = self.word(THREAD_PAGE_OFFSET);
        let start = base.wrapping_add(chunk_start(chunk) as u64);
        match pointer.checked_sub(start) {
            Some(used) if base != 0 && used <= CHUNK as u64 => used as usize,
            _ => 0,
        }
    }

    /// Copies the records of a chunk, `bytes` long at most, into `to`.
    pub fn copy_chunk(&self, chunk: u64, bytes: usize, to: &mut Vec<u8>) {
        // A chunk's last record may run over into the window before the next chunk.
        let bytes = bytes
            .min(CHUNK + trommel_queue::MAX_RECORD - FIRST_RECORD + trommel_queue::FULL_WINDOW);
        let offset = RING_OFFSET + chunk_start(chunk);
        to.clear();
        to.reserve(bytes);
        // SAFETY: inside the mapping; the bytes are plain, whatever the target does meanwhile.
        unsafe {
            ptr::copy_nonoverlapping(self.map.as_ptr().add(offset), to.as_mut_ptr(), bytes);
            to.set_len(bytes);
        }
    }

    /// Chunks published and not yet taken, after `taken`; with the bytes of each.
    pub fn published(&self, taken: u64) -> Result<Option<usize>, Damaged> {
        let control = self.control();
        let published = control.published.0.load(Acquire);
        if published == taken {
            return Ok(None);
        }
        if published < taken || published - taken > CHUNKS as u64 {
            return Err(Damaged {
                what: "a count of filled chunks",
                number: published,
            });
        }
        Ok(Some(
            control.chunk_bytes[(taken % CHUNKS as u64) as usize].load(Relaxed) as usize,
        ))
    }

    /// Gives chunks back to the target.
    pub fn give_back(&self, taken: u64) {
        let control = self.control();
        control.consumed.0.store(taken, SeqCst);
        // A target that waits for room is woken when there is plenty, not for each chunk.
        let waiting = control.published.0.load(Acquire).saturating_sub(taken);
        if waiting <= CHUNKS as u64 / 2 && control.target_sleeps.load(SeqCst) != 0 {
            control.target_sleeps.store(0, SeqCst);
            futex(&control.target_sleeps, libc::FUTEX_WAKE, 1, None);
        }
    }

    /// Sleeps until a chunk beyond `taken` is published, `until` has passed, or [`Self::wake`] after
    /// `over` has become true.
    pub fn sleep(&self, taken: u64, until: Duration, over: &dyn Fn() -> bool) {
        let control = self.control();
        control.host_sleeps.store(1, SeqCst);
        if control.published.0.load(SeqCst) == taken && !over() {
            futex(&control.host_sleeps, libc::FUTEX_WAIT, 1, Some(until));
        }
        control.host_sleeps.store(0, SeqCst);
    }

    /// Wakes [`Self::sleep`] in another thread.
    pub fn wake(&self) {
        let control = self.control();
        control.host_sleeps.store(0, SeqCst);
        futex(&control.host_sleeps, libc::FUTEX_WAKE, 1, None);
    }

    /// Paths numbered so far.
    pub fn paths(&self) -> usize {
        (self.control().paths.load(Acquire) as usize).min(MAX_PATHS)
    }

    fn words(&self, at: usize) -> [u64; MAX_EVENT_WORDS] {
        let word = |n| {
            if at + n < MAX_WORDS {
                self.word(DICT_WORDS_OFFSET + 8 * (at + n))
            } else {
                0
            }
        };
        [word(0), word(1)]
    }

    /// The header of a path, and the event of its exit, if that has one.
    pub fn path(&self, number: usize) -> Result<(PathHeader, Option<Event>), Damaged> {
        let damaged = Damaged {
            what: "a path number",
            number: number as u64,
        };
        if number >= self.paths() {
            return Err(damaged);
        }
        let index = self.word((DICT_INDEX_OFFSET + 4 * number) & !7);
        let at = (index >> (32 * (number & 1))) as u32 as usize;
        let header = PathHeader::decode(self.words(at)[0]);
        let tail = match header.tail {
            true => Some(Event::decode(&self.words(at + 1)).ok_or(damaged)?.0),
            false => None,
        };
        Ok((header, tail))
    }

    /// The events of the block at a word offset, in the order of its main line.
    pub fn block(&self, at: u32) -> Result<Vec<Event>, Damaged> {
        let damaged = |number| Damaged {
            what: "an event of a block",
            number,
        };
        let mut word = at as usize;
        let count = self.words(word)[0];
        if count > MAX_BLOCK_EVENTS as u64 {
            return Err(damaged(count));
        }
        word += 1;
        let mut events = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let words = self.words(word);
            let (event, n) = Event::decode(&words).ok_or_else(|| damaged(words[0]))?;
            events.push(event);
            word += n;
        }
        Ok(events)
    }

    /// Regions recorded so far.
    pub fn regions(&self) -> usize {
        (self.control().regions.load(Acquire) as usize).min(MAX_REGIONS)
    }

    /// A region.
    pub fn region(&self, number: usize) -> Region {
        assert!(number < MAX_REGIONS);
        let at = REGION_OFFSET + number * size_of::<RegionRecord>();
        // SAFETY: inside the mapping; plain words and bytes.
        let record =
            unsafe { ptr::read_volatile(self.map.as_ptr().add(at).cast::<RegionRecord>()) };
        let n = (record.path_len as usize).min(record.path.len());
        Region {
            range: record.start..record.end.max(record.start),
            offset: record.offset,
            inode: record.inode,
            path: record.path[..n].to_vec(),
        }
    }
}

fn futex(word: &std::sync::atomic::AtomicU32, op: i32, value: u32, timeout: Option<Duration>) {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as i64,
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    let spec_at = spec.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: a valid futex word and timeout.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), op, value, spec_at, 0, 0) };
}
