//! System calls that the runtime makes. Its only way to talk to the kernel.
#![allow(unsafe_code)] // reason: system calls.

use core::arch::naked_asm;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::base::keys::with_keys_lifted;
use crate::base::{guarded, limits, own};

pub use crate::base::call::{Errno, call, checked, close, is_left_out, nr, read};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Arguments of `mmap`.
pub struct Map {
    /// Address (a hint, unless `flags` says fixed).
    pub at: u64,
    /// Bytes.
    pub len: usize,
    /// `PROT_*`.
    pub prot: u32,
    /// `MAP_*`.
    pub flags: u32,
    /// File, or -1.
    pub fd: i32,
    /// Offset in the file.
    pub offset: u64,
}

/// `mmap` of memory of the runtime's, which is not to be in the program's cores: there it would be gigabytes.
///
/// # Safety
/// With `MAP_FIXED`, nothing that is still used may lie in the range.
pub unsafe fn mmap(map: &Map) -> Result<u64, Errno> {
    if map.flags & nr::MAP_FIXED == 0 {
        limits::room_for(map.len.next_multiple_of(PAGE) as u64);
    }
    // SAFETY: the caller answers for a fixed range; otherwise new memory is taken.
    let at = unsafe {
        checked(
            nr::__NR_mmap,
            [
                map.at,
                map.len as u64,
                u64::from(map.prot),
                u64::from(map.flags),
                map.fd as i64 as u64,
                map.offset,
            ],
        )
    }?;
    keep_out_of_cores(at, map.len as u64);
    Ok(at)
}

/// A program that dumps core dumps none of this memory, nor of what is mapped from it again.
pub fn keep_out_of_cores(at: u64, len: u64) {
    let advice = u64::from(nr::MADV_DONTDUMP);
    // SAFETY: no byte of memory changes.
    let _ = unsafe { call(nr::__NR_madvise, [at, len, advice, 0, 0, 0]) };
}

/// Next address for the runtime's own memory. It is far from where the kernel puts the app's memory, so
/// that the app's mappings are where they would be without us.
static OWN_MEMORY: AtomicU64 = AtomicU64::new(0);
/// First address of the runtime's own memory.
static OWN_START: AtomicU64 = AtomicU64::new(0);

/// Says where the runtime's own memory is to go.
pub fn own_memory_from(at: u64) {
    OWN_MEMORY.store(at, Relaxed);
    OWN_START.store(at, Relaxed);
}

/// Bytes of a huge page.
pub const HUGE: u64 = 2 << 20;

/// Fresh private memory of the runtime's, readable and writable. With room for huge pages it begins where one may.
pub fn anonymous(len: usize) -> Result<u64, Errno> {
    let pages = len.next_multiple_of(4096) as u64;
    let align = if pages < HUGE { 4096 } else { HUGE };
    let next = |at: u64| (at != 0).then_some(at.next_multiple_of(align) + pages);
    let at = match OWN_MEMORY.fetch_update(Relaxed, Relaxed, next) {
        Ok(at) => at.next_multiple_of(align),
        Err(_) => 0,
    };
    // SAFETY: no fixed address: the kernel takes another where something is already.
    unsafe {
        mmap(&Map {
            at,
            len,
            prot: nr::PROT_READ | nr::PROT_WRITE,
            flags: nr::MAP_PRIVATE | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE,
            fd: -1,
            offset: 0,
        })
    }
    .inspect(|at| own::add(*at, pages))
}

/// Maps a file for reading, if it has at most so many bytes: where, and how many.
pub fn map_file(fd: i32, most: usize) -> Result<(u64, usize), Errno> {
    let mut stat = [0_u64; 18];
    let args = [fd as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: room for what the kernel writes.
    unsafe { checked(nr::__NR_fstat, args) }?;
    // As `struct stat` has it.
    let len = usize::try_from(stat[6])
        .ok()
        .filter(|&len| 0 < len && len <= most);
    let len = len.ok_or(Errno::EFBIG)?;
    let at = anonymous(len)?;
    // SAFETY: in place of the reservation just made.
    let at = unsafe {
        mmap(&Map {
            at,
            len,
            prot: nr::PROT_READ,
            flags: nr::MAP_PRIVATE | nr::MAP_FIXED,
            fd,
            offset: 0,
        })
    }?;
    Ok((at, len))
}

/// Takes note that memory of [`anonymous`] is unmapped.
pub fn disown(at: u64, len: usize) {
    if !is_in_window(at) {
        own::remove(at, len.next_multiple_of(4096) as u64);
    }
}

/// Maps memory that is mapped shared at `from` at `to` as well.
///
/// # Safety
/// Nothing that is still used may lie at `to`.
pub unsafe fn map_again(from: u64, len: usize, to: u64) -> Result<u64, Errno> {
    const MAYMOVE_FIXED: u64 = 3;
    let args = [from, 0, len as u64, MAYMOVE_FIXED, to, 0];
    // The kernel counts what is there and what takes its place.
    limits::room_for(len as u64);
    // SAFETY: with an old length of 0 the call makes a second mapping; the caller answers for `to`.
    let mapped = unsafe { checked(nr::__NR_mremap, args) };
    limits::settle();
    mapped
}

/// Maps `len` bytes of a file at `to`, from `offset` on, given a place where its start is mapped
/// shared: a mapping that is made out of another may be longer.
///
/// # Safety
/// Nothing that is still used may lie at `to`. If this fails, it may have been unmapped.
pub unsafe fn map_forward(start: u64, offset: usize, len: usize, to: u64) -> Result<u64, Errno> {
    const MAYMOVE: u64 = 1;
    let whole = offset + len;
    limits::room_for(whole as u64);
    let args = [start, 0, whole as u64, MAYMOVE, 0, 0];
    // SAFETY: with an old length of 0 the call makes a second mapping, where nothing is.
    let at = unsafe { checked(nr::__NR_mremap, args) }?;
    // SAFETY: handed on to the caller. Room for what takes the place of the same is there already.
    let mapped = unsafe { map_again(at + offset as u64, len, to) };
    // SAFETY: just made.
    unsafe { munmap(at, whole) };
    mapped
}

/// Puts mappings of parts of a file in place of all that is at `to`, given a place where its start is mapped shared. `offset`: of what
/// belongs at `to`; the parts are offsets and bytes after that.
///
/// # Safety
/// Nothing that is still used may lie in the `whole` bytes at `to`. If this fails, they may have been unmapped.
pub unsafe fn map_parts_forward(
    start: u64,
    offset: usize,
    whole: usize,
    to: u64,
    parts: impl Iterator<Item = (usize, usize)>,
) -> Result<(), Errno> {
    const MAYMOVE: u64 = 1;
    // Else the kernel would lock, and make present, all that is mapped for the moment.
    // SAFETY: no byte of memory changes.
    let _ = unsafe { call(nr::__NR_munlock, [start, PAGE as u64, 0, 0, 0, 0]) };
    let args = [start, 0, (offset + whole) as u64, MAYMOVE, 0, 0];
    // SAFETY: with an old length of 0 the call makes a second mapping, where nothing is.
    let at = unsafe { checked(nr::__NR_mremap, args) }?;
    if !is_in_window(to) {
        own::clear(to, whole as u64);
    }
    // SAFETY: handed on to the caller.
    unsafe { munmap(to, whole) };
    let done = parts.into_iter().try_for_each(|(part, len)| {
        let from = at + (offset + part) as u64;
        // SAFETY: where nothing is any more.
        unsafe { map_again(from, len, to + part as u64) }?;
        list(to + part as u64, len);
        Ok(())
    });
    // SAFETY: just made.
    unsafe { munmap(at, offset + whole) };
    done
}

/// Makes a mapping longer, where it is.
///
/// # Safety
/// It must have `old` bytes from `at` on, and what follows up to `new` no other use.
pub unsafe fn extend(at: u64, old: u64, new: u64) -> Result<(), Errno> {
    limits::room_for(new - old);
    // SAFETY: the kernel extends it only where nothing is.
    unsafe { checked(nr::__NR_mremap, [at, old, new, 0, 0, 0]) }?;
    list(at + old, (new - old) as usize);
    Ok(())
}

/// Returns whether an address is among those that are kept for the runtime.
fn is_in_window(at: u64) -> bool {
    (OWN_START.load(Relaxed)..OWN_MEMORY.load(Relaxed)).contains(&at)
}

/// Takes note of memory that was mapped at a given address.
pub fn list(at: u64, len: usize) {
    if !is_in_window(at) {
        own::add(at, len.next_multiple_of(PAGE) as u64);
    }
}

/// Fresh memory of the runtime's that can be mapped again.
pub fn shareable(len: usize) -> Result<u64, Errno> {
    let at = anonymous(len)?;
    // SAFETY: in place of the memory just made.
    unsafe {
        mmap(&Map {
            at,
            len,
            prot: nr::PROT_READ | nr::PROT_WRITE,
            flags: nr::MAP_SHARED | nr::MAP_ANONYMOUS | nr::MAP_NORESERVE | nr::MAP_FIXED,
            fd: -1,
            offset: 0,
        })
    }
}

/// Makes the pages of a range present and writable at once, for a fraction of what a fault for each
/// costs. A kernel that cannot leaves it to the faults.
pub fn populate(at: u64, len: u64) {
    let start = at & !0xfff;
    let end = (at + len).next_multiple_of(4096);
    let advice = u64::from(nr::MADV_POPULATE_WRITE);
    // SAFETY: no byte of memory changes.
    let _ = unsafe { call(nr::__NR_madvise, [start, end - start, advice, 0, 0, 0]) };
}

/// Says what may be done with the pages of a range of the runtime's.
pub fn protect(range: core::ops::Range<u64>, prot: u32) {
    let args = [range.start, range.end - range.start, prot.into(), 0, 0, 0];
    // SAFETY: no byte of memory changes; the caller only takes away what it does without.
    let _ = unsafe { call(nr::__NR_mprotect, args) };
}

/// Asks for huge pages in a range.
pub fn huge(at: u64, len: u64) {
    let advice = u64::from(nr::MADV_HUGEPAGE);
    // SAFETY: no byte of memory changes.
    let _ = unsafe { call(nr::__NR_madvise, [at, len, advice, 0, 0, 0]) };
}

/// `munmap`.
///
/// # Safety
/// Nothing in the range may be used any more.
pub unsafe fn munmap(at: u64, len: usize) {
    disown(at, len);
    // SAFETY: handed on to the caller. A failure leaves the memory mapped, which harms nobody.
    let _ = unsafe { call(nr::__NR_munmap, [at, len as u64, 0, 0, 0, 0]) };
    limits::settle();
}

/// Opens a file for reading. `path` ends with a NUL byte.
pub fn open(path: &core::ffi::CStr) -> Result<i32, Errno> {
    limits::open(path)
}

/// Returns whether files are opened for reading at all.
pub fn opens_files() -> bool {
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC);
    !is_left_out(nr::__NR_openat, &[0, 0, flags, 0, 0, 0])
}

/// A mapping, as the kernel reports one of `/proc/PID/maps` (`procmap_query`).
#[repr(C)]
#[derive(Default)]
pub struct MappingAt {
    size: u64,
    query: u64,
    at: u64,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Permissions of the mapping.
    pub flags: u64,
    page_size: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Inode of the file, 0 for none.
    pub inode: u64,
    /// Device of the file: major and minor number.
    pub device: [u32; 2],
    /// Bytes of its name, a NUL byte included; 0 when it has none.
    pub name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const _: () = assert!(size_of::<MappingAt>() == 104);

/// Asks for the mapping that holds `at`; `maps` is `/proc/PID/maps`.
pub fn mapping_at(maps: i32, at: u64, name: &mut [u8]) -> Result<MappingAt, Errno> {
    const PROCMAP_QUERY: u64 = 0xc068_6611;
    let mut answer = MappingAt {
        size: size_of::<MappingAt>() as u64,
        at,
        name_size: name.len() as u32,
        name: name.as_mut_ptr() as u64,
        ..MappingAt::default()
    };
    let args = [maps as u64, PROCMAP_QUERY, &raw mut answer as u64, 0, 0, 0];
    // SAFETY: the kernel writes the answer and at most as many bytes of the name as there are.
    unsafe { checked(nr::__NR_ioctl, args) }?;
    Ok(answer)
}

/// This process.
pub fn getpid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(nr::__NR_getpid, [0; 6]) as i32 }
}

/// Returns whether there is a thread `tid` of the process `pid`, which may be ending.
pub fn is_thread(pid: u32, tid: u32) -> bool {
    const ESRCH: i64 = -3;
    let args = [u64::from(pid), u64::from(tid), 0, 0, 0, 0];
    // SAFETY: nothing is sent.
    unsafe { call(nr::__NR_tgkill, args) != ESRCH }
}

/// The user that this process is of.
pub fn getuid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(nr::__NR_getuid, [0; 6]) as u32 }
}

/// The process that started this one.
pub fn getppid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(nr::__NR_getppid, [0; 6]) as i32 }
}

/// This thread.
pub fn gettid() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(nr::__NR_gettid, [0; 6]) as i32 }
}

fn futex(word: u64, op: u32, value: u32, timeout: Option<u64>, private: bool) {
    const PRIVATE: u32 = 128;
    let op = if private { op | PRIVATE } else { op };
    let spec = [0, timeout.unwrap_or(0)];
    let spec_at = timeout.map_or(0, |_| spec.as_ptr() as u64);
    let args = [word, u64::from(op), u64::from(value), spec_at, 0, 0];
    // SAFETY: a futex word and a timespec.
    let _ = unsafe { call(nr::__NR_futex, args) };
}

/// Sleeps while `word` is `value`, until woken, interrupted, or `nanos` (less than a second) have
/// passed. `private`: only this process sleeps on that word.
pub fn futex_wait(word: &AtomicU32, value: u32, nanos: Option<u64>, private: bool) {
    let word = word.as_ptr() as u64;
    futex(word, nr::FUTEX_WAIT, value, nanos, private);
}

/// Sleeps like [`futex_wait`], while the low half of `word`, of this process alone, is `value`.
pub fn futex_wait_half(word: &AtomicU64, value: u32, nanos: Option<u64>) {
    let low = word.as_ptr() as u64;
    futex(low, nr::FUTEX_WAIT, value, nanos, true);
}

/// Wakes up to `count` that sleep by [`futex_wait_half`].
pub fn futex_wake_half(word: &AtomicU64, count: u32) {
    let low = word.as_ptr() as u64;
    futex(low, nr::FUTEX_WAKE, count, None, true);
}

/// Sleeps for `nanos` (less than a second), or until interrupted.
pub fn nap(nanos: u64) {
    futex_wait(&AtomicU32::new(0), 0, Some(nanos), true);
}

/// Wakes up to `count` that sleep on `word`.
pub fn futex_wake(word: &AtomicU32, count: u32, private: bool) {
    let word = word.as_ptr() as u64;
    futex(word, nr::FUTEX_WAKE, count, None, private);
}

/// Wakes like [`futex_wake`], on a word of the app's that may be absent.
pub fn wake_there(address: u64, count: u32) {
    let args = [
        address,
        u64::from(nr::FUTEX_WAKE),
        u64::from(count),
        0,
        0,
        0,
    ];
    // SAFETY: no memory is written.
    let _ = unsafe { call(nr::__NR_futex, args) };
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic() -> u64 {
    clock(nr::CLOCK_MONOTONIC)
}

/// Nanoseconds of CPU time of all threads of the process, those that have ended included.
pub fn process_cpu() -> u64 {
    clock(nr::CLOCK_PROCESS_CPUTIME_ID)
}

/// Nanoseconds of CPU time of the calling thread.
pub fn thread_cpu() -> u64 {
    clock(nr::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds that the calling thread has spent in its own code, and not in the kernel.
pub fn thread_user() -> u64 {
    const RUSAGE_THREAD: u64 = 1;
    // struct rusage: user time in seconds and microseconds first.
    let mut used = [0_u64; 18];
    // SAFETY: `used` has the size of a `struct rusage`.
    let done = unsafe {
        checked(
            nr::__NR_getrusage,
            [RUSAGE_THREAD, used.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    match done {
        Ok(_) => used[0] * 1_000_000_000 + used[1] * 1000,
        // A filter refuses it.
        Err(_) => thread_cpu(),
    }
}

/// The time stamp counter may not be read: some thread of the program has said that whoever does so dies.
static CLOCKLESS: AtomicBool = AtomicBool::new(false);

/// The time stamp counter, or 0 where the calling thread may not read it: the signal handler leads the fault to the end.
#[unsafe(naked)]
pub extern "C" fn time_stamp() -> u64 {
    naked_asm!(
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "ret",
        ".globl trommel_time_stamp_failed",
        "trommel_time_stamp_failed:",
        "xor eax, eax",
        "ret",
    )
}

unsafe extern "C" {
    /// Address where [`time_stamp`] goes on when it may not read. A label, not a function.
    pub safe fn trommel_time_stamp_failed();
}

/// A clock of some gigahertz that costs next to nothing. Only differences are of use.
pub fn ticks() -> u64 {
    if !CLOCKLESS.load(Relaxed) {
        match time_stamp() {
            // A thread may lose the counter while it is native, or while another one looks.
            0 => CLOCKLESS.store(true, Relaxed),
            stamp => return stamp,
        }
    }
    monotonic()
}

/// Returns whether the calling thread may read the time stamp counter, and finds a clock for [`ticks`] if not. To be called where no
/// handler of ours sees to a fault yet, or soon none does.
pub fn find_clock() -> bool {
    const PR_GET_TSC: u64 = 25;
    const PR_TSC_SIGSEGV: u32 = 2;
    let mut how = 0_u32;
    let to = &raw mut how as u64;
    // SAFETY: the kernel writes the word.
    let _ = unsafe { call(nr::__NR_prctl, [PR_GET_TSC, to, 0, 0, 0, 0]) };
    let allowed = how != PR_TSC_SIGSEGV;
    if !allowed {
        CLOCKLESS.store(true, Relaxed);
    }
    allowed
}

fn clock(which: u32) -> u64 {
    let mut t = [0u64; 2];
    // SAFETY: `t` has the shape of a timespec.
    let _ = unsafe {
        call(
            nr::__NR_clock_gettime,
            [u64::from(which), t.as_mut_ptr() as u64, 0, 0, 0, 0],
        )
    };
    t[0] * 1_000_000_000 + t[1]
}

/// Writes to standard error, for a failure of the runtime itself.
pub fn complain(bytes: &[u8]) {
    // SAFETY: the slice is valid.
    let _ = unsafe {
        call(
            nr::__NR_write,
            [2, bytes.as_ptr() as u64, bytes.len() as u64, 0, 0, 0],
        )
    };
}

/// Copies between memory of the runtime, `[address, bytes]`, and ranges of this process that may not
/// be there; how many bytes were copied, up to the first that could not be.
///
/// # Safety
/// `number` is one of the two calls, and may do to `local` what it does.
unsafe fn across(number: u32, local: [u64; 2], remote: &[[u64; 2]]) -> usize {
    let args = [
        // Not the process: its first thread may be gone, and then has no memory.
        gettid() as u64,
        local.as_ptr() as u64,
        1,
        remote.as_ptr() as u64,
        remote.len() as u64,
        0,
    ];
    if is_left_out(number, &args) {
        // SAFETY: the caller answers for `local`; the rest is there, or not.
        return unsafe { across_by_hand(number, local, remote) };
    }
    // SAFETY: the caller answers for `local`; the kernel checks the rest.
    let n = unsafe { call(number, args) };
    n.max(0) as usize
}

/// The same without the kernel.
///
/// # Safety
/// The same.
unsafe fn across_by_hand(number: u32, local: [u64; 2], remote: &[[u64; 2]]) -> usize {
    let mut copied = 0;
    for &[at, len] in remote {
        let here = local[0] + copied as u64;
        let len = len.min(local[1] - copied as u64);
        let (to, from) = match number {
            nr::__NR_process_vm_readv => (here, at),
            _ => (at, here),
        };
        // SAFETY: the caller answers for `local`; what may not be there is guarded.
        let n = unsafe { guarded::copy(to, from, len) };
        copied += n;
        if (n as u64) < len {
            break;
        }
    }
    copied
}

/// Reads a few bytes at the start of the page of `address`, as the kernel reads arguments of a call: that brings the page, lets a
/// stack grow down to it, and needs no more rights than to execute. Returns whether the page is there. No signal is raised.
pub fn reach(address: u64) -> bool {
    const PAGE: u64 = 4096;
    const EFAULT: i64 = -14;
    const MODIFY: u64 = 3;
    let page = address & !(PAGE - 1);
    let nothing = u64::MAX;
    let args = [nothing, MODIFY, nothing, page, 0, 0];
    if is_left_out(nr::__NR_epoll_ctl, &args) {
        let mut byte = 0_u8;
        // SAFETY: room for a byte, and what may not be there is guarded.
        return unsafe { guarded::copy(&raw mut byte as u64, page, 1) == 1 };
    }
    // SAFETY: the kernel reads what is at `page`, and then finds that there is no such descriptor.
    unsafe { call(nr::__NR_epoll_ctl, args) != EFAULT }
}

/// Faults of the program are served by its own threads, or were at some time (`userfaultfd`).
static FAULTS_SERVED: AtomicBool = AtomicBool::new(false);

/// Takes note that threads of the program may serve faults of others.
pub fn serve_faults() {
    FAULTS_SERVED.store(true, Relaxed);
}

/// Returns whether threads of the program may serve faults of others.
pub fn faults_are_served() -> bool {
    FAULTS_SERVED.load(Relaxed)
}

/// The program has guard regions, or had some (`MADV_GUARD_INSTALL`).
static GUARDED: AtomicBool = AtomicBool::new(false);

/// Takes note that pages of readable memory may be guards, which nobody may touch.
pub fn expect_guards() {
    GUARDED.store(true, Relaxed);
}

/// Returns whether pages of readable memory may be guards.
pub fn has_guards() -> bool {
    GUARDED.load(Relaxed)
}

/// One of [`UNKNOWN`], [`ALLOWED`] and [`HIDDEN`], of the question which pages are in memory (`mincore`). A filter may end the program
/// for it, as those of service managers do.
static RESIDENCE: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;
const ALLOWED: u32 = 1;
const HIDDEN: u32 = 2;

/// Takes note that a filter may end the program for that question.
pub fn hide_residence() {
    RESIDENCE.store(HIDDEN, Relaxed);
}

/// Takes note that the program may have set filters natively.
pub fn expect_filters() {
    RESIDENCE.store(UNKNOWN, Relaxed);
    expect_reports();
}

/// A filter may have calls of the program's reported to a handler (SIGSYS).
static REPORTS: AtomicBool = AtomicBool::new(false);

/// Takes note that a filter may have calls reported.
pub fn expect_reports() {
    REPORTS.store(true, Relaxed);
}

/// Returns whether a filter may have calls of the program's reported to a handler: SIGSYS must not be blocked while one is made, or
/// the kernel ends the program.
pub fn may_report_calls() -> bool {
    REPORTS.load(Relaxed)
}

/// Returns whether the question may be asked: this thread has no filters, of which the kernel does not say what they allow.
fn may_ask_residence() -> bool {
    if RESIDENCE.load(Relaxed) == UNKNOWN {
        RESIDENCE.store(if has_filters() { HIDDEN } else { ALLOWED }, Relaxed);
    }
    RESIDENCE.load(Relaxed) == ALLOWED
}

/// Returns whether this thread has filters of system calls. True where that cannot be read.
fn has_filters() -> bool {
    const NONE: &[u8] = b"\nSeccomp:\t0\n";
    let Ok(file) = open(c"/proc/thread-self/status") else {
        return true;
    };
    let mut text = [0; 4096];
    let len = read(file, &mut text).unwrap_or(0);
    close(file);
    !text[..len].windows(NONE.len()).any(|line| line == NONE)
}

/// Returns whether a page is in memory, so that reading it waits for nobody. Where the kernel does not say, as of a file that the user
/// neither owns nor may write, it is true. Where nobody may ask it is true unless threads of the program serve faults.
pub fn is_resident(page: u64) -> bool {
    if !may_ask_residence() {
        return !faults_are_served();
    }
    let mut resident = 1_u8;
    let args = [page, 1, &raw mut resident as u64, 0, 0, 0];
    // SAFETY: the kernel writes a byte for the one page.
    let result = unsafe { call(nr::__NR_mincore, args) };
    result != 0 || resident & 1 != 0
}

/// Copies memory of this process that may not be there; whether all of it was.
pub fn copy_checked(from: u64, to: &mut [u8]) -> bool {
    let len = to.len() as u64;
    let local = [to.as_mut_ptr() as u64, len];
    // SAFETY: `to` may be written.
    let copied = || unsafe { across(nr::__NR_process_vm_readv, local, &[[from, len]]) == to.len() };
    // This call does not grow stacks.
    copied() || reach(from) && copied()
}

/// Copies words of this process, as far as they are there; how many that is.
pub fn copy_words(from: u64, to: &mut [u64]) -> usize {
    const PAGE: u64 = 4096;
    const WORD: usize = size_of::<u64>();
    let len = size_of_val(to) as u64;
    let local = [to.as_mut_ptr() as u64, len];
    // The kernel takes pieces whole: one for the page that is likely there.
    let first = (PAGE - from % PAGE).min(len);
    let remote = [[from, first], [from.wrapping_add(first), len - first]];
    // SAFETY: `to` may be written, and any bytes are words.
    unsafe { across(nr::__NR_process_vm_readv, local, &remote) / WORD }
}

/// Copies a string of this process that may not be there, its end excluded. `None` when it is longer
/// than `to`, or cannot be read.
pub fn read_string(from: u64, to: &mut [u8]) -> Option<usize> {
    let local = [to.as_mut_ptr() as u64, to.len() as u64];
    let remote = [[from, to.len() as u64]];
    // SAFETY: `to` may be written.
    let read = unsafe { across(nr::__NR_process_vm_readv, local, &remote) };
    to[..read].iter().position(|&c| c == 0)
}

/// Writes the kernel's name of the file of a descriptor to `name`, cut to what fits. Returns its length there.
pub fn link_of(fd: i32, name: &mut [u8]) -> Option<usize> {
    let mut path = *b"/proc/thread-self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    const DIGITS: usize = 21;
    let mut rest = u32::try_from(fd).ok()?;
    let digits = rest.checked_ilog10().unwrap_or(0) as usize + 1;
    for at in (DIGITS..DIGITS + digits).rev() {
        path[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let (to, len) = (name.as_mut_ptr() as u64, name.len() as u64);
    // SAFETY: the path ends with a NUL byte; the kernel writes `len` bytes at most.
    let read = unsafe { call(nr::__NR_readlink, [path.as_ptr() as u64, to, len, 0, 0, 0]) };
    usize::try_from(read).ok()
}

/// Returns how many of `count` (16 at most) pages from `page` on can be read, up to the first that cannot.
pub fn readable_pages(page: u64, count: usize) -> usize {
    let count = count.min(16);
    // All at once, and mapped when they are read. Refused if there is one that cannot be, and by old
    // kernels.
    let advice = u64::from(nr::MADV_POPULATE_READ);
    // SAFETY: no byte of memory changes.
    let present = unsafe {
        call(
            nr::__NR_madvise,
            [page, count as u64 * 4096, advice, 0, 0, 0],
        )
    };
    if present == 0 {
        return count;
    }
    // Also what may be executed and not read, as code is.
    let all = (0..count as u64).map(|n| page + n * 4096);
    with_keys_lifted(|| all.take_while(|&page| reach(page)).count())
}

/// Writes memory of this process that may not be there; whether all of it was.
pub fn write_checked(from: &[u8], to: u64) -> bool {
    let len = from.len() as u64;
    let local = [from.as_ptr() as u64, len];
    // SAFETY: `from` is only read; what is written is memory of the app.
    let written =
        || unsafe { across(nr::__NR_process_vm_writev, local, &[[to, len]]) == from.len() };
    // This call does not grow stacks.
    written() || reach(to) && written()
}
