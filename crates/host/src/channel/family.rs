//! The memory file of one program and of its forked children.
//!
//! # Problem
//! A process that forks needs a queue for its child before the host has heard of the child. The
//! child may have no access to anything of the host's: other namespaces, no `/proc`, another user.
//!
//! # Strategy
//! A file holds many slots, as `trommel_queue` says. A child finds its slot in memory that it has
//! inherited. The file grows ahead of need, as slots are claimed, so that it is no longer than
//! it must be: a limit for file sizes concerns it.
//!
//! A target learns that the host is gone from a robust mutex in the file, which the thread that made
//! the [`Family`] holds: when it dies, the kernel marks the mutex; when the family is dropped, it is
//! released. Parents, process numbers and permissions do not matter.
//!
//! # Invariants
//! * A slot is free only when nothing reads it any more: not the host for its process, and not for a
//!   process that goes on from its dictionary ([`Pages`] counts them), and no process writes there.
//! * A slot that is free is zero.
// A mapping that other processes write to cannot be a Rust slice; a mutex in it is the C library's.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use memmap2::{MmapOptions, MmapRaw};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use trommel_queue::{
    COUNTER_ARRAYS_OFFSET, DICT_WORDS_OFFSET, DIRECTORY_BYTES, Directory, MAX_SLOTS, POOL_OFFSET,
    SLOT_BYTES, Slot, slot_start,
};

use crate::channel::futex::futex_wake;
use crate::kernel::running::proc_file;

/// Slots that are free, as far as there can be more.
const AHEAD: usize = 8;

/// A file and its directory, mapped.
pub struct Family {
    file: OwnedFd,
    directory: MmapRaw,
    /// Slots that the file is long enough for.
    slots: Cell<usize>,
    /// Requests for more slots that were answered.
    answered: Cell<u32>,
}

/// A new process in a family.
#[derive(Clone, Copy, Debug)]
pub struct Newcomer {
    /// Its slot.
    pub slot: usize,
    /// Its parent's.
    pub parent: usize,
    /// Its process number, as it sees itself.
    pub pid: i32,
    /// It may see other process numbers than we do.
    pub foreign: bool,
    /// Paths, words and regions that are the parent's.
    pub known: Known,
}

/// Part of its parent's dictionary that a process knew.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// Paths.
    pub paths: usize,
    /// Words.
    pub words: usize,
    /// Regions.
    pub regions: usize,
}

impl Family {
    /// A family in a new file, readable by no other user.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Rc<Self>> {
        const NAME: &CStr = c"trommel";
        // SAFETY: a valid name; the descriptor is checked before it is owned.
        let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, nobody else's.
        Self::of(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// A family in an empty file.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(file: OwnedFd) -> io::Result<Rc<Self>> {
        nix::unistd::ftruncate(&file, slot_start(1) as i64)?;
        let directory = MmapOptions::new().len(DIRECTORY_BYTES).map_raw(&file)?;
        let family = Self {
            file,
            directory,
            slots: Cell::new(1),
            answered: Cell::new(0),
        };
        let there = family.directory();
        there.slot[0].state.store(Slot::USED, Relaxed);
        there.slots.store(1, SeqCst);
        family.hold()?;
        Ok(Rc::new(family))
    }

    /// The file's descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns whether a process has the file in its memory.
    pub fn is_mapped_by(&self, pid: Pid) -> bool {
        let Ok(stat) = nix::sys::stat::fstat(&self.file) else {
            return false;
        };
        let maps = proc_file(&format!("/proc/{pid}/maps")).unwrap_or_default();
        let inode = stat.st_ino.to_string();
        let mut lines = maps.split(|&c| c == b'\n');
        // Number by number, as `/proc` shows them: addresses, rights, offset, device, inode, name.
        lines.any(|line| {
            let mut words = line.split(|&c| c == b' ');
            words.nth(4) == Some(inode.as_bytes()) && line.windows(7).any(|w| w == b"/memfd:")
        })
    }

    fn directory(&self) -> &Directory {
        // SAFETY: the start of the mapping, aligned, all atomics.
        unsafe { &*self.directory.as_ptr().cast::<Directory>() }
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        const _: () = assert!(size_of::<libc::pthread_mutex_t>() <= 64);
        (&raw const self.directory().host)
            .cast::<libc::pthread_mutex_t>()
            .cast_mut()
    }

    /// Takes the mutex that reports the host's end.
    fn hold(&self) -> io::Result<()> {
        let check = |failed| match failed {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        };
        // SAFETY: an attribute object that lives here, and a mutex in memory that stays mapped until
        // it is released; nobody else has it.
        unsafe {
            let mut how: libc::pthread_mutexattr_t = std::mem::zeroed();
            check(libc::pthread_mutexattr_init(&raw mut how))?;
            check(libc::pthread_mutexattr_setrobust(
                &raw mut how,
                libc::PTHREAD_MUTEX_ROBUST,
            ))?;
            check(libc::pthread_mutexattr_setpshared(
                &raw mut how,
                libc::PTHREAD_PROCESS_SHARED,
            ))?;
            check(libc::pthread_mutex_init(self.mutex(), &raw const how))?;
            check(libc::pthread_mutex_lock(self.mutex()))
        }
    }

    /// Futex: 1 while the host sleeps.
    pub fn bell(&self) -> &AtomicU32 {
        &self.directory().bell
    }

    /// Returns whether processes wait for slots.
    pub fn is_asked(&self) -> bool {
        self.directory().wanted.load(SeqCst) != self.answered.get()
    }

    /// Makes more slots when few are free.
    pub fn provide(&self) {
        let directory = self.directory();
        let asked = directory.wanted.load(SeqCst);
        let there = self.slots.get();
        let free = |slot: &&Slot| slot.state.load(Relaxed) == Slot::FREE;
        let ahead = directory.slot[..there].iter().filter(free).count();
        if ahead * 2 < AHEAD {
            let more = (there + AHEAD.max(there)).min(MAX_SLOTS);
            let longer = nix::unistd::ftruncate(&self.file, slot_start(more) as i64);
            if longer.is_ok() && more > there {
                self.slots.set(more);
                directory.slots.store(more as u32, SeqCst);
            }
        }
        if asked != self.answered.replace(asked) {
            futex_wake(&directory.slots);
        }
    }

    /// Processes whose slots `is_known` does not know.
    pub fn newcomers(&self, is_known: impl Fn(usize) -> bool) -> Vec<Newcomer> {
        let directory = self.directory();
        let used = directory.slot[..self.slots.get()].iter().enumerate();
        used.filter(|(n, slot)| slot.state.load(Acquire) == Slot::USED && !is_known(*n))
            .map(|(n, slot)| Newcomer {
                slot: n,
                parent: slot.parent.load(Relaxed) as usize,
                pid: slot.pid.load(Relaxed) as i32,
                foreign: slot.foreign.load(Relaxed) != 0,
                known: Known {
                    paths: slot.paths.load(Relaxed) as usize,
                    words: slot.words.load(Relaxed) as usize,
                    regions: slot.regions.load(Relaxed) as usize,
                },
            })
            .collect()
    }

    /// Returns whether processes are being made by the one in `parent`, which must be known when they come.
    /// Gives up those that died before.
    pub fn expects(&self, parent: usize) -> bool {
        let slots = &self.directory().slot[..self.slots.get()];
        let expected = slots.iter().filter(|slot| {
            slot.state.load(SeqCst) == Slot::EXPECTED
                && slot.parent.load(Relaxed) as usize == parent
        });
        let is_coming = |slot: &&Slot| {
            let pid = Pid::from_raw(slot.pid.load(SeqCst) as i32);
            let died = pid.as_raw() > 0
                && slot.foreign.load(Relaxed) == 0
                && kill(pid, None) == Err(Errno::ESRCH)
                && (slot.state)
                    .compare_exchange(Slot::EXPECTED, Slot::FREE, SeqCst, Relaxed)
                    .is_ok();
            !died
        };
        expected.filter(is_coming).count() != 0
    }

    /// Notes that the process of a slot has ended.
    pub fn ended(&self, slot: usize) {
        let state = &self.directory().slot[slot].state;
        state.store(Slot::ENDED, SeqCst);
    }

    /// Maps a slot.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(self: &Rc<Self>, slot: usize) -> io::Result<Rc<Pages>> {
        let map = MmapOptions::new()
            .offset(slot_start(slot) as u64)
            .len(SLOT_BYTES)
            .map_raw(&self.file)?;
        Ok(Rc::new(Pages {
            family: Rc::clone(self),
            slot,
            map,
            kept: Cell::new(false),
        }))
    }

    /// Gives memory of a slot back to the system.
    fn discard(&self, slot: usize, range: std::ops::Range<usize>) {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let at = (slot_start(slot) + range.start) as i64;
        // SAFETY: a descriptor of ours; the memory becomes zero, which every reader expects.
        unsafe { libc::fallocate(self.file.as_raw_fd(), how, at, range.len() as i64) };
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // SAFETY: held since it was made, by this thread.
        unsafe { libc::pthread_mutex_unlock(self.mutex()) };
    }
}

/// A slot, mapped; dropped, it is free, unless it is kept.
pub struct Pages {
    family: Rc<Family>,
    slot: usize,
    pub(crate) map: MmapRaw,
    /// Somebody else uses it still.
    kept: Cell<bool>,
}

impl Pages {
    /// Returns the slot's number.
    pub fn slot(&self) -> usize {
        self.slot
    }

    /// Returns the slot's family.
    pub fn family(&self) -> &Rc<Family> {
        &self.family
    }

    /// Reads a part of it, not through the mapping.
    ///
    /// # Errors
    /// What the system says.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> io::Result<()> {
        assert!(offset + to.len() <= SLOT_BYTES);
        let at = (slot_start(self.slot) + offset) as i64;
        match nix::sys::uio::pread(&self.family.file, to, at)? {
            n if n == to.len() => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes a part of it, not through the mapping.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> io::Result<()> {
        assert!(offset + bytes.len() <= SLOT_BYTES);
        let at = (slot_start(self.slot) + offset) as i64;
        match nix::sys::uio::pwrite(&self.family.file, bytes, at)? {
            n if n == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Gives a part back to the system: it is zero then.
    pub fn discard(&self, range: std::ops::Range<usize>) {
        self.family.discard(self.slot, range);
    }

    /// Gives the pool of chunks and the counter arrays back to the system.
    pub fn discard_pool(&self) {
        if !self.kept.get() {
            let family = &self.family;
            family.discard(self.slot, POOL_OFFSET..DICT_WORDS_OFFSET);
            family.discard(self.slot, COUNTER_ARRAYS_OFFSET..SLOT_BYTES);
        }
    }

    /// Leaves the slot to processes that record in it without us.
    pub fn keep(&self) {
        self.kept.set(true);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // The first slot's program is another when its process executes one; its file goes as a whole.
        if self.slot != 0 && !self.kept.get() {
            self.family.discard(self.slot, 0..SLOT_BYTES);
            let state = &self.family.directory().slot[self.slot].state;
            state.store(Slot::FREE, SeqCst);
        }
    }
}
