//! Control that comes and goes: bursts, between which a process rests with the runtime in it.
//!
//! # Problem
//! A profile within a budget needs many short times under control, and most of what an attachment costs (the runtime's start,
//! all translation) must not be paid in each. Between two of them the process is to be as if nothing had ever been there.
//!
//! # Strategy
//! [`rest`] gets all threads out as [`Remains::detach`] does, and leaves the runtime in. [`wake`] leads them in as
//! [`attach`](super::attach::attach) does: the runtime, which is there already, only reads anew what may have changed.
//!
//! Translated code is kept if the code that it was made from is what it was. The runtime compares its regions with the kernel's
//! list. What that does not tell is found here ([`Code`]): a page of a private mapping that was written to is no page of its
//! file any more, as `/proc/PID/pagemap` says; a file that was written to has another time of change.
//!
//! To be stopped must not show. So a burst begins only when no thread is in a call to which that makes a difference
//! ([`super::moment`]), and ends when none is in a transfer. A wait with a timeout in which a burst ends takes longer
//! by the time of the burst at most, and no other burst begins before its end.
//!
//! # Why it is correct
//! * Whatever is not known to be the same counts as changed, and then all translated code is dropped.
//! * Each step but the last leaves the process at rest or under control, and is undone where it fails.
use std::fs::{self, File, Metadata};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_queue::MAX_THREADS;
use trommel_queue::thread_page::{Attached, GO};
use trommel_queue::wake::{ASLEEP, AWAKE, Wake};

use crate::kernel::limits::Limits;
use crate::kernel::maps::{Mapping, mappings};
use crate::kernel::running::{self, Refusal, proc_file, restricts_itself};
use crate::ptrace::tracee::{StopFailure, Tracees};
use crate::takeover::attach::{enter, locked_memory, threads};
use crate::takeover::detach::{LEAVE_PATIENCE, Remains, at_attached};
use crate::takeover::failure::{AttachFailure, Result, system};
use crate::takeover::moment::Calls;

/// Threads that fit into the memory by which they are told.
const MOST: usize = 2048;
const _: () = assert!(MOST <= MAX_THREADS);
const PAGE: u64 = 4096;
/// Longest time that a thread may take to stop. One that waits for another in a page fault stops when that one goes on.
const PATIENCE: Duration = Duration::from_millis(200);
/// Longest time that a moment is waited for at which threads may be stopped.
const MOMENT: Duration = Duration::from_millis(200);
/// The same at the end of a burst, for transfers alone.
const TRANSFERS: Duration = Duration::from_secs(2);

/// The state of the code of a process, as far as the kernel tells. Equal states mean equal code.
#[derive(PartialEq, Eq, Debug)]
pub struct Code(Vec<Piece>);

/// A mapping with code.
#[derive(PartialEq, Eq, Debug)]
struct Piece {
    range: (u64, u64),
    offset: u64,
    path: Vec<u8>,
    /// Device, inode, size, and times of change, in seconds and nanoseconds, of the file.
    file: [u64; 7],
}

impl Code {
    /// Reads the state. `None`: some of the code may change unseen, or it is not known.
    pub fn of(pid: Pid) -> Option<Self> {
        let maps = proc_file(&format!("/proc/{pid}/maps")).ok()?;
        let pages = File::open(format!("/proc/{pid}/pagemap")).ok()?;
        let mut found = Vec::new();
        for mapping in mappings(&maps).filter(|m| m.is_executable()) {
            if mapping.path.starts_with(b"[v") {
                // The kernel's own.
                continue;
            }
            if mapping.inode == 0 || mapping.is_shared() || mapping.is_writable() {
                // The runtime's own, or generated: what was translated of it is compared.
                continue;
            }
            if is_any_written(&pages, &mapping.range)? {
                return None;
            }
            found.push(Piece {
                range: (mapping.range.start, mapping.range.end),
                offset: mapping.offset,
                path: mapping.path.to_vec(),
                file: file(pid, &mapping)?,
            });
        }
        Some(Self(found))
    }
}

/// Returns words that differ once the mapped file was written to.
fn file(pid: Pid, mapping: &Mapping<'_>) -> Option<[u64; 7]> {
    use std::os::unix::ffi::OsStrExt;
    let relative = std::ffi::OsStr::from_bytes(mapping.path.strip_prefix(b"/")?);
    let path = PathBuf::from(format!("/proc/{pid}/root")).join(relative);
    let is_it = |found: &Metadata| found.ino() == mapping.inode;
    // A file that was deleted, or replaced by another, has no path any more. Not everybody may look at it.
    let (start, end) = (mapping.range.start, mapping.range.end);
    let nameless = || fs::metadata(format!("/proc/{pid}/map_files/{start:x}-{end:x}"));
    let named = fs::metadata(path).ok().filter(is_it);
    let is = named.or_else(|| nameless().ok().filter(is_it))?;
    let times = [is.mtime(), is.mtime_nsec(), is.ctime(), is.ctime_nsec()];
    let [a, b, c, d] = times.map(|time| time as u64);
    Some([is.dev(), is.ino(), is.size(), a, b, c, d])
}

/// Returns whether a page of a private mapping of a file is not the file's any more. `None`: that is not known.
fn is_any_written(pages: &File, range: &std::ops::Range<u64>) -> Option<bool> {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    let count = (range.end - range.start) / PAGE;
    let mut bytes = vec![0; 8 * count as usize];
    pages
        .read_exact_at(&mut bytes, range.start / PAGE * 8)
        .ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
    Some(words.any(|word| word & (PRESENT | SWAPPED) != 0 && word & OF_FILE == 0))
}

/// All threads go on natively, with the runtime in the process. On success all are stopped; they are released with `tracees`.
pub fn rest(remains: &Remains, tracees: &mut Tracees) -> Result<()> {
    // What waits with a timeout has begun in this burst.
    Calls::wait(tracees.pid(), TRANSFERS, |calls| calls.transfer.is_none());
    tracees.stop_all(PATIENCE)?;
    // It may have become another program.
    if Remains::find(tracees)? != Some(*remains) {
        return Err(AttachFailure::Stop(StopFailure::Gone));
    }
    let rests = remains.control() + at_attached(offset_of!(Attached, rests));
    let written = tracees.write(rests, &1_u32.to_le_bytes());
    written.map_err(system("writing the runtime's memory"))?;
    remains.let_out(tracees, Instant::now() + LEAVE_PATIENCE, None)
}

/// All threads of a process that rests go on under control. `before`: the state of its code when it was under control last.
///
/// # Errors
/// Then it rests on.
pub fn wake(remains: &Remains, pid: Pid, before: Option<&Code>) -> Result<()> {
    match running::untraced(pid.as_raw()) {
        Err(why @ Refusal::Traced(..)) => return Err(why.into()),
        Err(_) => return Err(AttachFailure::Stop(StopFailure::Gone)),
        Ok(()) => {}
    }
    if running::is_stopped(pid) {
        return Err(AttachFailure::Stopped);
    }
    let calls = Calls::wait(pid, MOMENT, |calls| calls.in_the_way().is_none());
    if let Some(tid) = calls.in_the_way() {
        return Err(AttachFailure::NoMoment(tid));
    }
    let mut tracees = Tracees::new(pid);
    tracees.stop_all(PATIENCE)?;
    if Remains::find(&tracees)? != Some(*remains) {
        return Err(AttachFailure::Stop(StopFailure::Gone));
    }
    if locked_memory(pid) != Some(0) && locks_new(&mut tracees)? {
        return Err(AttachFailure::LocksMemory);
    }
    let filtered = restricts_itself(pid);
    let follows = remains.follows(&tracees)?;
    let (threads, without) = threads(&tracees, (filtered, follows), MOST)?;
    let same = before.is_some_and(|before| Code::of(pid).as_ref() == Some(before));
    let ids: Vec<u64> = threads.iter().map(|(tid, _)| tid.as_raw() as u64).collect();
    remains.expect_faults(&tracees)?;
    let areas = up(remains, &mut tracees, !same, &ids)?;
    remains.leave_out(&tracees, without)?;
    let join = tracees.word(remains.control() + at_attached(offset_of!(Attached, join)));
    let join = join.map_err(system("reading the runtime's memory"))?;
    for ((tid, regs), area) in threads.into_iter().zip(areas) {
        // One that has been killed meanwhile will not be missed.
        let _ = enter(&tracees, tid, regs, area, join);
        tracees.release(tid);
    }
    Ok(())
}

/// Returns whether the process locks each mapping that is made.
fn locks_new(tracees: &mut Tracees) -> Result<bool> {
    let pid = tracees.pid();
    let worker = tracees.anyone();
    let before = locked_memory(pid);
    let borrowing = system("borrowing a thread");
    let loan = tracees.borrow(worker).map_err(borrowing)?;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let map = [0, PAGE, libc::PROT_READ as u64, flags, u64::MAX, 0];
    let at = loan.call(libc::SYS_mmap, map);
    let at = at.map_err(|_| AttachFailure::NoRoom)?;
    let after = locked_memory(pid);
    let unmapped = loan.call(libc::SYS_munmap, [at, PAGE, 0, 0, 0, 0]);
    unmapped.map_err(system("unmapping a page"))?;
    Ok(before != after)
}

/// Has the runtime take the threads in. Returns their areas.
fn up(remains: &Remains, tracees: &mut Tracees, drop_all: bool, ids: &[u64]) -> Result<Vec<u64>> {
    let pid = tracees.pid();
    let limits = Limits::of(pid).map_err(system("reading its limits"))?;
    let mut words = vec![u64::from(drop_all), ids.len() as u64];
    words.extend(limits.0.as_flattened());
    const _: () = assert!(offset_of!(Wake, threads) == 8 && offset_of!(Wake, limits) == 16);
    debug_assert_eq!(8 * words.len(), size_of::<Wake>());
    words.extend(ids);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let told = (remains.stack(tracees)? - bytes.len() as u64) & !63;
    let unwritten = system("writing the runtime's memory");
    tracees.write(told, &bytes).map_err(&unwritten)?;
    let entry = tracees.word(remains.control() + at_attached(offset_of!(Attached, wake)));
    let entry = entry.map_err(system("reading the runtime's memory"))?;
    remains.set_detach(tracees, 0)?;
    let worker = tracees.threads().first().copied();
    let worker = worker.ok_or(AttachFailure::Stop(StopFailure::Gone))?;
    let mut run = || -> io::Result<Option<Vec<u8>>> {
        let loan = tracees.borrow(worker)?;
        remains.tell_suspension(loan.tracees(), loan.suspends_filters())?;
        let mut answer = vec![0; bytes.len()];
        loop {
            loan.run(entry, told, told)?;
            loan.tracees().read(told, &mut answer)?;
            match answer.first_chunk().map(|word| u64::from_le_bytes(*word)) {
                Some(AWAKE) => return Ok(Some(answer)),
                Some(ASLEEP) => return Ok(None),
                // A trap of the app's that waited has come first.
                _ => {}
            }
        }
    };
    let refused = match run() {
        Ok(Some(answer)) => {
            let areas = answer[size_of::<Wake>()..].as_chunks::<8>().0.iter();
            return Ok(areas.map(|area| u64::from_le_bytes(*area)).collect());
        }
        Ok(None) => AttachFailure::ManyCounting,
        Err(error) => system("waking the runtime")(error),
    };
    remains.set_detach(tracees, GO)?;
    Err(refused)
}
