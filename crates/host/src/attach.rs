//! A running process taken under control, and let go.
//!
//! # Problem
//! All threads of a process that knows nothing of us are to go on under control from wherever they
//! are, within milliseconds; later all are to be native again, with no mapping, descriptor or
//! signal handler left that was not there before. Whatever fails on the way must leave the process as
//! it was.
//!
//! # Strategy
//! *Attaching.* Stop all threads ([`Tracees`]); look at each for what cannot be controlled, before
//! anything is changed. One thread is borrowed: it maps memory for the runtime, makes the shared
//! file (so that it is in the target whoever the users are; we open it from there), and runs the
//! runtime's start, which takes over the signal handlers. Then each thread's state goes to its
//! desk, and the thread to the runtime's door (the runtime's `attach` tells what happens there).
//!
//! *Detaching* goes in rounds: stop all threads, find out where each is, and let those run on that must.
//!
//! | found | done |
//! |---|---|
//! | in its own code, GS not ours | it stays stopped |
//! | in a system call made from the cache | it is put back to the app's own call, and stays stopped |
//! | elsewhere in the cache | it is asked to leave, by a signal that only the runtime sees |
//! | in the runtime | it leaves by itself |
//! | waiting on its way out (parked) | it stays stopped |
//!
//! When all are stopped or parked, one gives the kernel back the app's handlers. Only then those that
//! wait go on; when they too are in the app's code, everything is unmapped, and all are released.
//! So no code of the app's runs while the runtime's handlers stand for the app's.
//!
//! All that detaching needs is found in the target's memory: [`Remains::find`]. So a process whose
//! host has died can be freed by another.
// Fields of structures in the target are addressed by their offsets.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use libc::user_regs_struct as Regs;
use nix::unistd::Pid;
use trommel_queue::desk::{Attached, Desk, GO, LEAVE, MAX_OWNED, Owned, REQUEST, REQUEST_BLOCKED};
use trommel_queue::{
    Control, DIRECTORY_BYTES, Directory, LAYOUT_VERSION, MAGIC, MAX_THREADS, THREAD_PAGE,
    THREAD_PAGES_OFFSET,
};

use crate::image;
use crate::inject::Start;
use crate::tracee::{Loan, SYSCALL_BYTES, StopFailure, Tracees, make_again};

/// How long a thread may take to stop: the kernel may be busy with it.
const STOP_PATIENCE: Duration = Duration::from_secs(5);
/// How long another command may take to let go.
const OTHER_PATIENCE: Duration = Duration::from_secs(1);
/// How long threads may take to leave.
const LEAVE_PATIENCE: Duration = Duration::from_secs(30);
/// The shared file's name in the target's map.
const NAME: &std::ffi::CStr = c"trommel";
const MAPPED_NAME: &str = "/memfd:trommel (deleted)";

/// Why a process could not be taken under control, or let go.
#[derive(Debug, thiserror::Error)]
pub enum AttachFailure {
    /// Its threads could not be stopped.
    #[error(transparent)]
    Stop(#[from] StopFailure),
    /// A thread runs 32-bit code.
    #[error("thread {0} runs 32-bit code")]
    NotNative(Pid),
    /// A thread uses GS.
    #[error("thread {0} uses the GS segment, which the runtime needs")]
    Gs(Pid),
    /// Too many threads.
    #[error("it has {0} threads; at most {MAX_THREADS} can be observed")]
    ManyThreads(usize),
    /// Another command has it.
    #[error("it is recorded already by process {0}")]
    Recorded(u32),
    /// What another version left in it is not understood.
    #[error("another version of trommel has left it under control; restart it")]
    Foreign,
    /// No room.
    #[error(
        "the runtime cannot start in it: a limit or a sandbox refuses it memory; `trommel doctor` tells which"
    )]
    NoRoom,
    /// Threads do not leave.
    #[error(
        "thread {0} does not come out of the kernel; it will leave when it does, with the runtime's memory left in place"
    )]
    Stuck(Pid),
    /// The system refused something.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

type Result<T> = std::result::Result<T, AttachFailure>;

fn system(what: &'static str) -> impl Fn(io::Error) -> AttachFailure {
    move |e| AttachFailure::System(what, e)
}

/// Makes the file that the target has made ready for it.
pub type Prepare<'a> = &'a mut dyn FnMut(OwnedFd) -> io::Result<()>;

/// Takes all threads of a process under control. `prepare` is given the file that it will share,
/// empty. Returns where the runtime is in the target.
///
/// # Errors
/// Then the process is as it was.
pub fn attach(pid: Pid, prepare: Prepare<'_>) -> Result<Remains> {
    let mut tracees = Tracees::new(pid);
    let limit = Instant::now() + OTHER_PATIENCE;
    while let Some(old) = Remains::find(&tracees)?
        && let Some(host) = old.host(&tracees)?
    {
        // It may be about to let go.
        if Instant::now() > limit {
            return Err(AttachFailure::Recorded(host));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    tracees.stop_all(STOP_PATIENCE)?;
    if let Some(old) = Remains::find(&tracees)? {
        if let Some(host) = old.host(&tracees)? {
            return Err(AttachFailure::Recorded(host));
        }
        old.detach(&mut tracees)?;
    }
    let mut threads = Vec::new();
    for &tid in tracees.threads() {
        let regs = tracees.regs(tid).map_err(system("reading registers"))?;
        check(tid, &regs)?;
        threads.push((tid, regs));
    }
    if threads.len() > MAX_THREADS {
        return Err(AttachFailure::ManyThreads(threads.len()));
    }
    put_in(&mut tracees, threads.len(), prepare)?;
    let remains = Remains::find(&tracees)?.ok_or(AttachFailure::NoRoom)?;
    let word = |tracees: &Tracees, offset| {
        let word = tracees.word(remains.control + offset);
        word.map_err(system("reading the runtime's memory"))
    };
    let door = word(&tracees, at_attached(offset_of!(Attached, join)))?;
    for (page, (tid, regs)) in threads.into_iter().enumerate() {
        let desk = THREAD_PAGES_OFFSET + page * THREAD_PAGE;
        let area = word(&tracees, (desk + offset_of!(Desk, area)) as u64)?;
        // One that has been killed meanwhile will not be missed.
        let _ = enter(&tracees, tid, regs, area, door);
        tracees.release(tid);
    }
    Ok(remains)
}

fn check(tid: Pid, regs: &Regs) -> Result<()> {
    const CODE_SEGMENT_64: u64 = 0x33;
    if regs.cs != CODE_SEGMENT_64 {
        return Err(AttachFailure::NotNative(tid));
    }
    match regs.gs_base == 0 && regs.gs == 0 {
        true => Ok(()),
        false => Err(AttachFailure::Gs(tid)),
    }
}

/// The runtime into the stopped process, with room for as many threads.
fn put_in(tracees: &mut Tracees, threads: usize, prepare: Prepare<'_>) -> Result<()> {
    let first = tracees.threads()[0];
    let pid = tracees.pid();
    let loan = tracees
        .borrow(first)
        .map_err(system("borrowing a thread"))?;
    let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let size = image::bytes().len() as u64;
    let map = [image::base(), size, prot, flags, u64::MAX, 0];
    let base = loan
        .call(libc::SYS_mmap, map)
        .map_err(|_| AttachFailure::NoRoom)?;
    let started = start(&loan, pid, base, threads, prepare);
    if started.is_err() {
        // Nothing else is left to undo, nor could be.
        let _ = loan.call(libc::SYS_munmap, [base, size, 0, 0, 0, 0]);
    }
    started
}

fn start(loan: &Loan<'_>, pid: Pid, base: u64, threads: usize, prepare: Prepare<'_>) -> Result<()> {
    let write = |at, bytes: &[u8]| {
        let done = loan.tracees().write(at, bytes);
        done.map_err(system("writing the runtime"))
    };
    // Where the runtime's stack begins later.
    let name_at = base + image::bytes().len() as u64 - 4096;
    write(name_at, NAME.to_bytes_with_nul())?;
    let made = make_file(loan, pid, name_at);
    let file = made.map_err(system("making the memory shared with it"))?;
    let opened = fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/task/{}/fd/{file}", loan.tid()));
    let run = || {
        opened
            .and_then(|opened| prepare(opened.into()))
            .map_err(system("opening the memory shared with it"))?;
        let start = Start {
            file,
            image_file: -1,
            app_pc: 0,
            app_sp: 0,
            entry: 0,
            threads,
        };
        let (args, args_at) = start.place(base);
        write(base, image::bytes())?;
        if let Some(moved) = image::moved(base) {
            write(base + moved.offset as u64, &moved.bytes)?;
        }
        write(args_at, &args)?;
        loan.run(base + image::entry() as u64, args_at, args_at)
            .map_err(system("starting the runtime"))
    };
    if let Err(error) = run() {
        let _ = loan.call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0]);
        return Err(error);
    }
    // If it failed, it has given back what it had, but maybe the file.
    match Remains::find(loan.tracees())? {
        Some(_) => Ok(()),
        None => {
            let _ = loan.call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0]);
            Err(AttachFailure::NoRoom)
        }
    }
}

/// A file in memory, made by the target; its descriptor there.
fn make_file(loan: &Loan<'_>, pid: Pid, name_at: u64) -> io::Result<i32> {
    let flags = u64::from(libc::MFD_CLOEXEC);
    let make = || loan.call(libc::SYS_memfd_create, [name_at, flags, 0, 0, 0, 0]);
    match make() {
        Err(e) if e.raw_os_error() == Some(libc::EMFILE) => {
            // One more than it may have, for as long as it needs that.
            let limit = |new: Option<&libc::rlimit>| {
                let mut old = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
                // SAFETY: both structures are valid or null.
                match unsafe { libc::prlimit(pid.as_raw(), libc::RLIMIT_NOFILE, new, &raw mut old) }
                {
                    0 => Ok(old),
                    _ => Err(io::Error::last_os_error()),
                }
            };
            let old = limit(None)?;
            let more = libc::rlimit {
                rlim_cur: old.rlim_cur + 1,
                rlim_max: old.rlim_max.max(old.rlim_cur + 1),
            };
            limit(Some(&more))?;
            let made = make();
            limit(Some(&old))?;
            made
        }
        made => made,
    }
    .map(|fd| fd as i32)
}

/// Makes a stopped thread's registers those with which it enters the runtime, its own being on its
/// desk.
fn enter(tracees: &Tracees, tid: Pid, regs: Regs, area: u64, door: u64) -> io::Result<()> {
    let mut app = regs;
    let code = make_again(&mut app, tracees.spurious(tid, &regs));
    if let Some(abort) = tracees.abort_sequence(tid, app.rip)? {
        app.rip = abort;
    }
    let mask = tracees.mask(tid)?;
    let desk = area + offset_of!(Desk, interrupted) as u64;
    tracees.write(desk, &code.to_le_bytes())?;
    let desk = area + offset_of!(Desk, mask) as u64;
    // In the order of the fields that follow.
    let words = [
        mask, app.rip, app.eflags, app.rax, app.rcx, app.rdx, app.rbx, app.rsp, app.rbp, app.rsi,
        app.rdi, app.r8, app.r9, app.r10, app.r11, app.r12, app.r13, app.r14, app.r15,
    ];
    const _: () = assert!(
        offset_of!(Desk, pc) == offset_of!(Desk, mask) + 8
            && offset_of!(Desk, flags) == offset_of!(Desk, mask) + 16
            && offset_of!(Desk, regs) == offset_of!(Desk, mask) + 24
    );
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    tracees.write(desk, &bytes)?;
    let mut regs = regs;
    regs.rip = door;
    regs.gs_base = area;
    regs.orig_rax = u64::MAX;
    regs.eflags = 0x202;
    tracees.set_mask(tid, u64::MAX)?;
    tracees.set_regs(tid, &regs)
}

/// Whether there is a runtime in a process.
pub fn is_in(pid: Pid) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.ends_with(MAPPED_NAME))
}

/// A runtime in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remains {
    /// Address of the control words.
    control: u64,
}

/// Where the runtime's memory is in the target.
struct Places {
    image: (u64, u64),
    owned: Vec<(u64, u64)>,
    farewell: u64,
    /// Behind the call with which the runtime waits for the app, and where that is called off.
    wait: (u64, u64),
}

impl Places {
    fn holds(&self, at: u64) -> bool {
        let inside = |&(start, end): &(u64, u64)| start <= at && at < end;
        inside(&self.image) || self.owned.iter().any(inside)
    }
}

/// Where a stopped thread is.
enum Found {
    /// In the app's code, or put there: it needs nothing more.
    Out,
    /// Waiting to go on natively.
    Parked,
    /// It must run on.
    Busy,
}

const fn at_attached(offset: usize) -> u64 {
    (offset_of!(Control, attached) + offset) as u64
}

impl Remains {
    /// The runtime in a process, if there is one.
    pub fn find(tracees: &Tracees) -> Result<Option<Self>> {
        let maps = format!("/proc/{}/task/{}/maps", tracees.pid(), tracees.anyone());
        let maps = fs::read_to_string(maps).map_err(system("reading its memory map"))?;
        let start = |line: &str| {
            let mut words = line.splitn(6, ' ');
            let start = words.next()?.split('-').next()?;
            let whole = words.nth(1).is_some_and(|offset| offset == "00000000");
            let named = line.ends_with(MAPPED_NAME) && whole;
            named.then(|| u64::from_str_radix(start, 16).ok())?
        };
        for start in maps.lines().filter_map(start) {
            let control = start + DIRECTORY_BYTES as u64;
            let word = |at| tracees.word(control + at as u64);
            let is = word(offset_of!(Control, magic)).is_ok_and(|magic| magic == MAGIC);
            if !is {
                continue;
            }
            let version = word(offset_of!(Control, version)).unwrap_or(0) as u32;
            if version != LAYOUT_VERSION {
                return Err(AttachFailure::Foreign);
            }
            return Ok(Some(Self { control }));
        }
        Ok(None)
    }

    fn half(&self, tracees: &Tracees, offset: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        let read = tracees.read(self.control + offset, &mut bytes);
        read.map_err(system("reading the runtime's memory"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The process that has it under control and lives.
    fn host(&self, tracees: &Tracees) -> Result<Option<u32>> {
        let host = self.half(tracees, offset_of!(Control, host_pid) as u64)?;
        let closed = self.half(tracees, offset_of!(Control, closed) as u64)?;
        let mut word = [0; 4];
        let directory = self.control - DIRECTORY_BYTES as u64;
        let read = tracees.read(directory + offset_of!(Directory, host) as u64, &mut word);
        read.map_err(system("reading the runtime's memory"))?;
        let lives = Directory::host_lives(u32::from_le_bytes(word));
        Ok((lives && closed == 0).then_some(host))
    }

    fn places(&self, tracees: &Tracees) -> Result<Places> {
        let unreadable = system("reading the runtime's memory");
        let word = |at: u64| tracees.word(at).map_err(&unreadable);
        let attached = |offset| word(self.control + at_attached(offset));
        let image = offset_of!(Attached, image);
        let wait = offset_of!(Attached, wait);
        let owned_at = attached(offset_of!(Attached, owned))?;
        let count = word(owned_at + offset_of!(Owned, count) as u64)?;
        let mut owned = Vec::new();
        for n in 0..count.min(MAX_OWNED as u64) {
            let at = owned_at + offset_of!(Owned, ranges) as u64 + 16 * n;
            let (start, end) = (word(at)?, word(at + 8)?);
            if start < end && start.is_multiple_of(4096) && end.is_multiple_of(4096) {
                owned.push((start, end));
            }
        }
        Ok(Places {
            image: (attached(image)?, attached(image + 8)?),
            owned,
            farewell: attached(offset_of!(Attached, farewell))?,
            wait: (attached(wait)?, attached(wait + 8)?),
        })
    }

    fn set_detach(&self, tracees: &Tracees, value: u32) -> Result<()> {
        let at = self.control + at_attached(offset_of!(Attached, detach));
        let written = tracees.write(at, &value.to_le_bytes());
        written.map_err(system("writing the runtime's memory"))
    }

    /// Lets all threads go and takes the runtime out. On success all threads are stopped; they are
    /// released with `tracees`.
    pub fn detach(&self, tracees: &mut Tracees) -> Result<()> {
        let limit = Instant::now() + LEAVE_PATIENCE;
        stop(tracees, limit)?;
        self.set_detach(tracees, LEAVE)?;
        self.rounds(tracees, limit, false)?;
        let places = self.places(tracees)?;
        let gone = |_| AttachFailure::Stop(StopFailure::Gone);
        let worker = tracees.threads().first().copied();
        let worker = worker.ok_or(AttachFailure::Stop(StopFailure::Gone))?;
        let loan = tracees.borrow(worker).map_err(gone)?;
        // A trap of the app's that waited may have come first.
        while self.half(
            loan.tracees(),
            at_attached(offset_of!(Attached, bid_farewell)),
        )? == 0
        {
            loan.run(places.farewell, places.image.1 - 64, 0)
                .map_err(gone)?;
        }
        drop(loan);
        self.set_detach(tracees, GO)?;
        self.rounds(tracees, limit, true)?;
        let worker = tracees.threads().first().copied();
        let worker = worker.ok_or(AttachFailure::Stop(StopFailure::Gone))?;
        let loan = tracees.borrow(worker).map_err(gone)?;
        for (start, end) in places.owned.into_iter().chain([places.image]) {
            loan.call(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0])
                .map_err(system("unmapping the runtime"))?;
        }
        Ok(())
    }

    /// Lets threads run on and stops them, until all are where they need nothing more: parked, or
    /// (`all`) out.
    fn rounds(&self, tracees: &mut Tracees, limit: Instant, all: bool) -> Result<()> {
        let mut pause = Duration::from_micros(100);
        for round in 0.. {
            stop(tracees, limit)?;
            let places = self.places(tracees)?;
            let mut busy = Vec::new();
            for tid in tracees.threads().to_vec() {
                // An error: it has been killed.
                match self
                    .settle(tracees, tid, &places, round)
                    .unwrap_or(Found::Busy)
                {
                    Found::Out => {}
                    Found::Parked if !all => {}
                    Found::Parked | Found::Busy => busy.push(tid),
                }
            }
            let Some(&some) = busy.first() else {
                return Ok(());
            };
            if Instant::now() > limit {
                self.set_detach(tracees, GO)?;
                return Err(AttachFailure::Stuck(some));
            }
            busy.into_iter().for_each(|tid| tracees.release(tid));
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Finds out where a thread is, and does what brings it out.
    fn settle(
        &self,
        tracees: &mut Tracees,
        tid: Pid,
        places: &Places,
        round: u32,
    ) -> io::Result<Found> {
        const FEW: u32 = 4;
        let regs = tracees.regs(tid)?;
        let (gs, pc) = (regs.gs_base, regs.rip);
        if gs == 0 || !places.owned.iter().any(|&(s, e)| s <= gs && gs < e) {
            return Ok(match places.holds(pc) {
                true => Found::Busy,
                false => Found::Out,
            });
        }
        let mut tids = [0; 8];
        tracees.read(gs + offset_of!(Desk, tid) as u64, &mut tids)?;
        const _: () = assert!(offset_of!(Desk, parked) == offset_of!(Desk, tid) + 4);
        let half = |n: usize| {
            tids[n..]
                .first_chunk()
                .map_or(0, |b| u32::from_le_bytes(*b))
        };
        if half(0) != tid.as_raw() as u32 {
            // New: it has its parent's GS for its first instructions.
            return Ok(Found::Busy);
        }
        if half(4) != 0 {
            return Ok(Found::Parked);
        }
        let in_image = places.image.0 <= pc && pc < places.image.1;
        if pc == places.wait.0 && (regs.orig_rax as i64) >= 0 && is_unfinished(&regs) {
            // A wait that the runtime makes for the app: the app makes it again when it is out.
            let mut off = regs;
            off.rip = places.wait.1;
            off.orig_rax = u64::MAX;
            tracees.set_regs(tid, &off)?;
            return Ok(Found::Busy);
        }
        if in_image || !places.holds(pc) {
            return Ok(Found::Busy);
        }
        match self.behind_call(tracees, &regs)? {
            Some(next) => {
                put_back(tracees, tid, regs, next)?;
                Ok(Found::Out)
            }
            // It may be about to make an interrupted call again, which a signal would end.
            None if regs.rax as i64 == libc::SYS_restart_syscall && round < FEW => Ok(Found::Busy),
            None => {
                ask(tracees, tid)?;
                Ok(Found::Busy)
            }
        }
    }

    /// Where the app goes on, if the thread is in a system call made from the cache, or just behind
    /// one. The cache says so itself: `mov rcx, NEXT` follows the call.
    fn behind_call(&self, tracees: &Tracees, regs: &Regs) -> io::Result<Option<u64>> {
        if (regs.orig_rax as i64) < 0 {
            return Ok(None);
        }
        let mut code = [0; 12];
        tracees.read(regs.rip - SYSCALL_BYTES, &mut code)?;
        let small = |at: usize| {
            code[at..]
                .first_chunk()
                .map_or(0, |b| u32::from_le_bytes(*b))
        };
        Ok(match code {
            [0x0f, 0x05, 0xb9, ..] => Some(u64::from(small(3))),
            [0x0f, 0x05, 0x48, 0xb9, ..] => code[4..].first_chunk().map(|b| u64::from_le_bytes(*b)),
            [0x0f, 0x05, 0x48, 0xc7, 0xc1, ..] => Some(small(5) as i32 as u64),
            _ => None,
        })
    }
}

/// Stops all threads, also while another command tries to attach, which it will give up.
pub fn stop(tracees: &mut Tracees, limit: Instant) -> Result<()> {
    loop {
        match tracees.stop_all(STOP_PATIENCE) {
            Err(StopFailure::Refused(..)) if Instant::now() < limit => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return Ok(done?),
        }
    }
}

/// Whether a thread was stopped in a call that goes on or says EINTR.
fn is_unfinished(regs: &Regs) -> bool {
    let mut again = *regs;
    regs.rax as i64 == -i64::from(libc::EINTR) || make_again(&mut again, false) != 0
}

/// Puts a thread that is in a system call made from the cache to the app's own call, and gives it back
/// its alternate stack and GS.
fn put_back(tracees: &mut Tracees, tid: Pid, regs: Regs, next: u64) -> io::Result<()> {
    let mut stack = [0; 24];
    let at = tracees.word(regs.gs_base + offset_of!(Desk, stack) as u64)?;
    tracees.read(at, &mut stack)?;
    if stack[16..] == [0; 8] {
        // The kernel takes none of no size, unless it is said to be none.
        stack[8] |= libc::SS_DISABLE as u8;
    }
    let stack_at = regs.gs_base + offset_of!(Desk, regs) as u64;
    tracees.write(stack_at, &stack)?;
    let mut app = regs;
    app.rip = next;
    app.rcx = next;
    app.gs_base = 0;
    if tracees.spurious(tid, &regs) {
        make_again(&mut app, true);
    }
    let loan = tracees.borrow(tid)?;
    loan.call(libc::SYS_sigaltstack, [stack_at, 0, 0, 0, 0, 0])?;
    drop(loan);
    tracees.set_regs(tid, &app)
}

/// Asks a thread in the cache to leave, when it runs on.
fn ask(tracees: &Tracees, tid: Pid) -> io::Result<()> {
    const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
    let mask = tracees.mask(tid)?;
    let blocked = mask & TRAP != 0;
    if blocked {
        tracees.set_mask(tid, mask & !TRAP)?;
    }
    #[repr(C)]
    struct Queued {
        signo: i32,
        errno: i32,
        code: i32,
        pad: i32,
        pid: i32,
        uid: u32,
        value: u64,
        rest: [u64; 12],
    }
    let info = Queued {
        signo: libc::SIGTRAP,
        errno: 0,
        code: libc::SI_QUEUE,
        pad: 0,
        pid: std::process::id() as i32,
        // SAFETY: no arguments.
        uid: unsafe { libc::getuid() },
        value: REQUEST | if blocked { REQUEST_BLOCKED } else { 0 },
        rest: [0; 12],
    };
    // SAFETY: the structure has the layout and size of a siginfo.
    let done = unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            tracees.pid().as_raw(),
            tid.as_raw(),
            libc::SIGTRAP,
            &raw const info,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
