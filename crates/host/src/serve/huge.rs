//! Memory of running programs on huge pages.
//!
//! # Problem
//! A program whose data lies in more small pages than the processor keeps translations of, some megabytes in all, waits for
//! translations as much as for the data. Where the system gives huge pages to those only who ask (`madvise`), most programs
//! have none: neither interpreters nor compressors ask.
//!
//! # Strategy
//! A process that has used some CPU time is looked at. A *stretch* is what one huge page would hold; those are taken that are for the most part
//! populated, with pages that the process shares with nobody. If there are more than translations reach, the kernel is asked to make each a huge page
//! (`MADV_COLLAPSE`), from outside where we may (`process_madvise`, which needs `CAP_SYS_NICE`), else by a borrowed thread of the process.
//! Looks come at CPU times that grow by a factor, so memory that comes later is found. What looks cost is kept below a part of
//! the CPU time that the process has used: what is left over waits for the next one.
//!
//! # Why nothing else changes
//! The kernel copies the pages while nobody can access them, at the same addresses. What a program can see of it is time, a resident set that is larger by
//! what was not populated, and what `/proc` says of it. Nothing is done where the system's setting is `never`; memory for which the program has
//! refused huge pages (`prctl`, `madvise`) the kernel leaves alone. Pages that are shared since a `fork` stay shared.
//!
//! A thread is borrowed by a process of its own, so that it comes back also when we are killed meanwhile ([`crate::takeover::keeper`] has the same reason).
// System calls that no library has, pipes and a fork.
#![allow(unsafe_code)]

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, pipe2, setsid, write};

use crate::kernel::maps::{Mapping, mappings};
use crate::kernel::running::{only_descendants, proc_file, proc_text};
use crate::ptrace::tracee::Tracees;
use crate::serve::series::cpu_of;

/// Bytes of a huge page, on x86-64.
const HUGE: u64 = 2 << 20;
const PAGE: u64 = 4096;
/// Pages of a stretch that must be populated: the resident set does not grow by more than a third.
const POPULATED: usize = 384;
/// Stretches without a huge page that a look is followed by questions for. Processors of this decade keep translations of 1536 to 3072 pages, which is 3 to 6 stretches.
const LEAST: usize = 4;
/// Between looks CPU time grows by this.
const FACTOR: f64 = 1.5;
/// A look that was not over goes on when CPU time has grown by this.
const SOON: f64 = 1.1;
/// Part of the CPU time of a process that looks at it may take.
const SHARE: f64 = 0.01;
/// Stretches that are asked for at a time.
const BATCH: usize = 4;
/// CPU time before the first look: what is over sooner pays nothing.
const FIRST: Duration = Duration::from_millis(250);
/// From one question for the CPU time to the next, at least.
const OFTEN: Duration = Duration::from_millis(20);
/// How long a thread may take to stop.
const PATIENCE: Duration = Duration::from_millis(200);
/// Of `madvise`: the range is made huge pages at once.
const MADV_COLLAPSE: i32 = 25;

/// What was done for a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Looks at its memory.
    pub looks: u64,
    /// Bytes put on huge pages.
    pub bytes: u64,
    /// Bytes for which the kernel refused that.
    pub refused: u64,
    /// CPU time that it took, of ours or of a borrowed thread.
    pub spent: Duration,
}

/// Who asks the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// We do.
    Outside,
    /// A thread of the process, borrowed by a process made for that.
    Borrowed,
    /// A thread of the process, borrowed by us: nobody else may.
    BorrowedByUs,
}

/// The memory of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    report: Report,
    /// When its CPU time can have come to that of the next look, at the earliest.
    due: Instant,
    /// CPU time at which it is looked at next.
    next: Duration,
    /// On huge pages.
    done: BTreeSet<u64>,
    /// Refused.
    refused: BTreeSet<u64>,
    /// Found at the last look and not asked for yet.
    waiting: VecDeque<u64>,
    /// Nothing more can be had.
    over: bool,
}

impl Memory {
    /// What was done; nothing where there was nothing to do.
    pub(crate) fn report(&self) -> Option<Report> {
        (self.report.looks != 0).then_some(self.report)
    }

    /// Of a process that was found now.
    pub(crate) fn begin() -> Self {
        Self {
            report: Report::default(),
            due: Instant::now(),
            next: FIRST,
            done: BTreeSet::new(),
            refused: BTreeSet::new(),
            waiting: VecDeque::new(),
            over: false,
        }
    }

    /// Time to the next look, at least.
    pub(crate) fn pause(&self) -> Duration {
        match self.over {
            true => Duration::MAX,
            false => self.due.saturating_duration_since(Instant::now()),
        }
    }

    /// Looks at the process, if it has used enough CPU time since the last look. `way` becomes another where one is not allowed.
    pub(crate) fn look(&mut self, pid: Pid, way: &mut Way) {
        if !self.pause().is_zero() {
            return;
        }
        let Some(cpu) = cpu_of(pid) else {
            self.over = true;
            return;
        };
        if cpu >= self.next {
            self.look_now(pid, cpu, way);
        }
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        let least = self.next.saturating_sub(cpu) / processors as u32;
        self.due = Instant::now() + least.max(OFTEN);
    }

    fn look_now(&mut self, pid: Pid, cpu: Duration, way: &mut Way) {
        let begun = own_time();
        self.report.looks += 1;
        if self.waiting.is_empty() {
            // It may be ending.
            let found = stretches(pid).unwrap_or_default();
            let all: BTreeSet<u64> = found.into_iter().collect();
            self.done.retain(|at| all.contains(at));
            self.refused.retain(|at| all.contains(at));
            let known = |at: &&u64| !self.done.contains(at) && !self.refused.contains(at);
            if all.len() >= LEAST {
                self.waiting = all.iter().filter(known).copied().collect();
            }
        }
        self.report.spent += own_time().saturating_sub(begun);
        while !self.waiting.is_empty() && self.report.spent < cpu.mul_f64(SHARE) && !self.over {
            let batch: Vec<u64> = self
                .waiting
                .drain(..BATCH.min(self.waiting.len()))
                .collect();
            let (answers, spent) = ask(pid, &batch, way);
            self.report.spent += spent;
            self.take(&batch, &answers);
        }
        self.next = cpu.mul_f64(if self.waiting.is_empty() {
            FACTOR
        } else {
            SOON
        });
    }

    fn take(&mut self, batch: &[u64], answers: &[Answer]) {
        for (&at, answer) in batch.iter().zip(answers) {
            match answer {
                Ok(()) => {
                    self.done.insert(at);
                    self.report.bytes += HUGE;
                }
                // There may be room later, and it may be free for a moment later.
                Err(Errno::ENOMEM) => self.waiting.clear(),
                Err(Errno::EAGAIN | Errno::EBUSY) => {}
                // The process is gone, or another program, or may not be touched.
                Err(Errno::ESRCH | Errno::EPERM | Errno::ENOSYS) => self.over = true,
                Err(_) => {
                    self.refused.insert(at);
                    self.report.refused += HUGE;
                }
            }
        }
        self.over |= answers.is_empty();
    }
}

/// Whether the system lets anybody have huge pages. Where they are not for all, they are for those who ask.
pub fn are_allowed() -> bool {
    let setting = proc_text("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.is_some_and(|setting| !setting.contains("[never]"))
}

/// What the kernel says about a stretch.
type Answer = Result<(), Errno>;

/// The stretches of a process that are worth a huge page: private memory of no file, for the most part populated, with pages that nobody else maps.
fn stretches(pid: Pid) -> io::Result<Vec<u64>> {
    let maps = proc_file(&format!("/proc/{pid}/maps"))?;
    let pages = File::open(format!("/proc/{pid}/pagemap"))?;
    let mut found = Vec::new();
    for range in mappings(&maps)
        .filter(is_candidate)
        .map(|mapping| mapping.range)
    {
        let large = on_huge_pages(&pages, &range);
        let mut at = range.start.next_multiple_of(HUGE);
        while at.checked_add(HUGE).is_some_and(|end| end <= range.end) {
            if !large.iter().any(|large| large.contains(&at)) && is_populated(&pages, at)? {
                found.push(at);
            }
            at += HUGE;
        }
    }
    Ok(found)
}

/// What of a range is on huge pages already, as far as the kernel can tell: Linux 6.7 and later can. What is asked for in vain costs
/// a system call.
fn on_huge_pages(pages: &File, range: &Range<u64>) -> Vec<Range<u64>> {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const IS_HUGE: u64 = 1 << 6;
    const MOST: usize = 256;
    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    struct Region {
        start: u64,
        end: u64,
        categories: u64,
    }
    #[repr(C)]
    struct Scan {
        size: u64,
        flags: u64,
        start: u64,
        end: u64,
        walked: u64,
        regions: u64,
        most: u64,
        pages: u64,
        inverted: u64,
        all_of: u64,
        any_of: u64,
        told: u64,
    }
    let mut found = Vec::new();
    let mut start = range.start;
    while start < range.end {
        let mut regions = [Region::default(); MOST];
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: 0,
            start,
            end: range.end,
            walked: 0,
            regions: regions.as_mut_ptr() as u64,
            most: MOST as u64,
            pages: 0,
            inverted: 0,
            all_of: IS_HUGE,
            any_of: 0,
            told: IS_HUGE,
        };
        // SAFETY: the kernel reads and writes the structure, and writes no more regions than it is said there are.
        let n = unsafe { libc::ioctl(pages.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let Some(some) = usize::try_from(n).ok().and_then(|n| regions.get(..n)) else {
            break;
        };
        found.extend(some.iter().map(|region| region.start..region.end));
        if scan.walked <= start {
            break;
        }
        start = scan.walked;
    }
    found
}

/// Whether memory is private and writable, of no file and no stack.
fn is_candidate(mapping: &Mapping<'_>) -> bool {
    mapping.is_private()
        && mapping.is_writable()
        && mapping.inode == 0
        && !mapping.path.starts_with(b"[stack")
}

/// By the kernel's words about its pages (`Documentation/admin-guide/mm/pagemap.rst`).
fn is_populated(pages: &File, at: u64) -> io::Result<bool> {
    const PRESENT: u64 = 1 << 63;
    const EXCLUSIVE: u64 = 1 << 56;
    let mut words = [0; (HUGE / PAGE) as usize * 8];
    pages.read_exact_at(&mut words, at / PAGE * 8)?;
    let (words, _) = words.as_chunks::<8>();
    let own =
        |word: &&[u8; 8]| u64::from_le_bytes(**word) & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE;
    Ok(words.iter().filter(own).count() >= POPULATED)
}

/// Asks the kernel, and what CPU time that took. No answers: the process cannot be asked for.
fn ask(pid: Pid, batch: &[u64], way: &mut Way) -> (Vec<Answer>, Duration) {
    if *way == Way::Outside {
        let begun = own_time();
        let answers = outside(pid, batch);
        let spent = own_time().saturating_sub(begun);
        if !answers.contains(&Err(Errno::EPERM)) {
            return (answers, spent);
        }
        *way = match only_descendants() {
            true => Way::BorrowedByUs,
            false => Way::Borrowed,
        };
    }
    let told = match *way {
        Way::BorrowedByUs => inside(pid, batch),
        _ => apart(|| inside(pid, batch)),
    };
    told.unwrap_or_default()
}

/// By `process_madvise`, one stretch after the other.
fn outside(pid: Pid, batch: &[u64]) -> Vec<Answer> {
    // SAFETY: asks for a descriptor of a process.
    let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if opened < 0 {
        return batch.iter().map(|_| Err(Errno::last())).collect();
    }
    // SAFETY: just made, and nobody else's.
    let opened = unsafe { OwnedFd::from_raw_fd(opened as i32) };
    let one = |&at: &u64| {
        let range = libc::iovec {
            iov_base: at as *mut libc::c_void,
            iov_len: HUGE as usize,
        };
        // SAFETY: the kernel reads one structure, which lives here; the addresses in it are of the other process.
        let done = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                opened.as_raw_fd(),
                &raw const range,
                1_usize,
                MADV_COLLAPSE,
                0_u32,
            )
        };
        if done < 0 { Err(Errno::last()) } else { Ok(()) }
    };
    batch.iter().map(one).collect()
}

/// By a thread of the process, which goes on where it was. With the thread's CPU time, or what has passed where the kernel does not
/// tell that.
fn inside(pid: Pid, batch: &[u64]) -> Option<(Vec<Answer>, Duration)> {
    let mut tracees = Tracees::new(pid);
    let tid = tracees.stop_one(PATIENCE).ok()?;
    let loan = tracees.borrow(tid).ok()?;
    let (begun, before) = (Instant::now(), thread_time(pid, tid));
    let one = |&at: &u64| {
        let arguments = [at, HUGE, MADV_COLLAPSE as u64, 0, 0, 0];
        let done = loan.call(libc::SYS_madvise, arguments);
        done.map(drop)
            .map_err(|e| Errno::from_raw(e.raw_os_error().unwrap_or(libc::EIO)))
    };
    let answers = batch.iter().map(one).collect();
    let after = thread_time(pid, tid);
    let spent = after.and_then(|after| after.checked_sub(before?));
    Some((answers, spent.unwrap_or_else(|| begun.elapsed())))
}

/// Has a process of its own do something to another one, and waits for it. Called while there is one thread.
fn apart(
    work: impl FnOnce() -> Option<(Vec<Answer>, Duration)>,
) -> Option<(Vec<Answer>, Duration)> {
    let (from, to) = pipe2(OFlag::O_CLOEXEC).ok()?;
    // SAFETY: there is one thread, so the child may do whatever it likes.
    match unsafe { fork() }.ok()? {
        ForkResult::Child => {
            // Interrupts of the terminal are not for it.
            let _ = setsid();
            // SAFETY: a valid name. Who kills all of that name does not mean us.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"attach-keeper".as_ptr()) };
            let (answers, spent) = work().unwrap_or_default();
            let mut bytes = (spent.as_nanos() as u64).to_le_bytes().to_vec();
            bytes.extend(
                answers
                    .into_iter()
                    .map(|answer| answer.err().map_or(0, |e| e as u8)),
            );
            // We may be gone.
            let _ = write(&to, &bytes);
            // SAFETY: ends this process, which shares its exit handlers with its parent.
            unsafe { libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            drop(to);
            let mut bytes = Vec::new();
            // What was read before a failure counts.
            let _ = File::from(from).read_to_end(&mut bytes);
            let _ = waitpid(child, None);
            let (spent, answers) = bytes.split_first_chunk::<8>()?;
            let answer = |byte: &u8| match byte {
                0 => Ok(()),
                errno => Err(Errno::from_raw((*errno).into())),
            };
            let spent = Duration::from_nanos(u64::from_le_bytes(*spent));
            Some((answers.iter().map(answer).collect(), spent))
        }
    }
}

/// CPU time of a thread of another process.
fn thread_time(pid: Pid, tid: Pid) -> Option<Duration> {
    let told = proc_text(&format!("/proc/{pid}/task/{tid}/schedstat"))?;
    let nanos = told.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

/// CPU time of this thread.
fn own_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_writable_memory_of_no_file_is_looked_at() {
        let is = |line: &str| mappings(line.as_bytes()).any(|mapping| is_candidate(&mapping));
        assert!(is("555555600000-555555a00000 rw-p 00000000 00:00 0 [heap]"));
        assert!(is("7f0000000000-7f0000400000 rwxp 00000000 00:00 0 "));
        for other in [
            "7f0000000000-7f0000400000 r--p 00000000 00:00 0",
            "7f0000000000-7f0000400000 ---p 00000000 00:00 0",
            "7f0000000000-7f0000400000 rw-s 00000000 00:01 77 /memfd:x",
            "7f0000000000-7f0000400000 rw-p 00001000 fe:00 99 /usr/lib/libx.so",
            "7ffffff00000-7ffffffff000 rw-p 00000000 00:00 0 [stack]",
        ] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn what_is_refused_is_not_asked_for_again_and_what_fails_for_now_is() {
        let mut memory = Memory::begin();
        let batch = [HUGE, 2 * HUGE, 3 * HUGE];
        memory.waiting = VecDeque::from([4 * HUGE]);
        memory.take(&batch, &[Ok(()), Err(Errno::EINVAL), Err(Errno::EBUSY)]);
        assert_eq!((memory.report.bytes, memory.report.refused), (HUGE, HUGE));
        let sets = (
            memory.done.len(),
            memory.refused.len(),
            memory.waiting.len(),
            memory.over,
        );
        assert_eq!(sets, (1, 1, 1, false));
        memory.take(&batch[..1], &[Err(Errno::ENOMEM)]);
        assert!(memory.waiting.is_empty() && !memory.over);
        // No answer: it is gone.
        memory.take(&batch, &[]);
        assert!(memory.over);
        assert_eq!(memory.pause(), Duration::MAX);
    }

    #[test]
    fn nothing_is_asked_before_its_time_and_nothing_of_who_is_not_there() {
        let mut memory = Memory::begin();
        let mut way = Way::Outside;
        // No process has a number above 2^22.
        memory.look(Pid::from_raw((1 << 22) + 1), &mut way);
        assert!(memory.over && memory.report().is_none());
        let mut memory = Memory::begin();
        memory.next = Duration::from_secs(1 << 30);
        memory.look(nix::unistd::getpid(), &mut way);
        assert!(!memory.over && memory.report().is_none() && memory.pause() > OFTEN);
    }
}
