//! Attaching to a running process.
//!
//! # Problem
//! All threads of a process that knows nothing of us are to go on under control from wherever they
//! are, within milliseconds. Later all are to be native again, with no mapping, descriptor or
//! signal handler left that was not there before. If a step fails, the process must be left as
//! it was.
//!
//! # Strategy
//! *Attaching.* All threads are stopped ([`Tracees`]). Each is looked at for what cannot be controlled, before
//! anything is changed. One thread is borrowed: it maps memory for the runtime, makes the shared
//! file (so that it is in the target whoever the users are; we open it from there), and runs the
//! runtime's start, which takes over the signal handlers. Then each thread's state goes to its
//! thread page, and the thread to the runtime's entry (see the runtime's `attach`).
//!
//! [`crate::takeover::detach`] is the way back.
// Fields of structures in the target are addressed by their offsets.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use libc::user_regs_struct as Regs;
use nix::unistd::Pid;
use trommel_queue::seccomp::Without;
use trommel_queue::thread_page::{Attached, ThreadPage};
use trommel_queue::{MAX_THREADS, THREAD_PAGE, THREAD_PAGES_OFFSET};

use crate::channel::image;
use crate::kernel::limits::{self, Limits};
use crate::kernel::running::{proc_text, restricts_itself};
use crate::ptrace::filters::terms;
use crate::ptrace::inject::Start;
use crate::ptrace::tracee::{Loan, StopFailure, Tracees, make_again};
use crate::takeover::detach::{Other, Remains, at_attached};
use crate::takeover::failure::{AttachFailure, Result, STOP_PATIENCE, system};
use crate::takeover::restrictions;
use crate::takeover::tracer::Tracer;
use crate::takeover::undo::{Dispositions, undo};

/// Longest time that another command may take to detach.
const OTHER_PATIENCE: Duration = Duration::from_secs(1);
/// Longest time that a keeper may take whose command has ended.
const KEEPER_PATIENCE: Duration = Duration::from_secs(15);
/// The shared file's name in the target's map.
const NAME: &std::ffi::CStr = c"trommel";

/// Makes the file that the target has made ready for it.
pub type Prepare<'a> = &'a mut dyn FnMut(OwnedFd) -> io::Result<()>;

/// Attaches to all threads of a process. `prepare` is given the file that it will share,
/// empty. `follows`: what it starts is observed, too. Returns where the runtime is in the target.
///
/// # Errors
/// Then the process is as it was.
pub fn attach(pid: Pid, follows: bool, prepare: Prepare<'_>) -> Result<Remains> {
    attach_stopped(pid, follows, prepare).map_err(AttachFailure::cause)
}

fn attach_stopped(pid: Pid, follows: bool, prepare: Prepare<'_>) -> Result<Remains> {
    let mut tracees = stop_alone(pid)?;
    let filtered = restricts_itself(pid);
    if let Some(old) = Remains::find(&tracees)? {
        old.detach(&mut tracees)?;
    }
    let (threads, without) = threads(&tracees, (filtered, follows), MAX_THREADS)?;
    put_in(&mut tracees, threads.len(), prepare)?;
    let remains = Remains::find(&tracees)?.ok_or(AttachFailure::NoRoom)?;
    if remains.has_windows(&tracees)? {
        // All stay native.
        return Ok(remains);
    }
    let word = |tracees: &Tracees, offset| {
        let word = tracees.word(remains.control() + offset);
        word.map_err(system("reading the runtime's memory"))
    };
    let door = word(&tracees, at_attached(offset_of!(Attached, join)))?;
    remains.expect_faults(&tracees)?;
    remains.leave_out(&tracees, without)?;
    let suspends = tracees.may_suspend_filters(tracees.anyone());
    let told = remains.tell_suspension(&tracees, suspends);
    told.map_err(system("writing the runtime's memory"))?;
    for (page, (tid, regs)) in threads.into_iter().enumerate() {
        let thread_page = THREAD_PAGES_OFFSET + page * THREAD_PAGE;
        let area = word(
            &tracees,
            (thread_page + offset_of!(ThreadPage, area)) as u64,
        )?;
        // One that has been killed meanwhile will not be missed.
        let _ = enter(&tracees, tid, regs, area, door);
        tracees.release(tid);
    }
    Ok(remains)
}

/// Stops all threads of a process that no other command is busy with.
fn stop_alone(pid: Pid) -> Result<Tracees> {
    const STEP: Duration = Duration::from_millis(5);
    let began = Instant::now();
    loop {
        let mut tracees = Tracees::new(pid);
        let other = |tracees: &Tracees| match Remains::find(tracees)? {
            Some(old) => old.other(tracees),
            None => Ok(None),
        };
        // What cannot be read may have gone just now. Once all threads are stopped nothing goes any more.
        let mut busy = other(&tracees).ok().flatten();
        if busy.is_none() {
            match tracees.stop_all(STOP_PATIENCE) {
                // It has come or gone meanwhile.
                Ok(()) => busy = other(&tracees)?,
                Err(StopFailure::Refused(tid, error)) => match Tracer::of(tid) {
                    Tracer::Keeper(keeper) => busy = Some(Other::Keeper(keeper)),
                    Tracer::Leaving if began.elapsed() < OTHER_PATIENCE => {
                        tracees.release_late();
                        std::thread::sleep(STEP);
                        continue;
                    }
                    Tracer::Leaving => return Err(StopFailure::Refused(tid, error).into()),
                    Tracer::Another(tracer, name) => {
                        return Err(AttachFailure::Traced(tid, tracer, name));
                    }
                },
                Err(failure) => return Err(failure.into()),
            }
        }
        match busy {
            None => return Ok(tracees),
            // It may be about to detach.
            Some(Other::Host(host)) if began.elapsed() > OTHER_PATIENCE => {
                return Err(AttachFailure::Recorded(host));
            }
            Some(Other::Keeper(keeper)) if began.elapsed() > KEEPER_PATIENCE => {
                return Err(AttachFailure::Detaching(keeper));
            }
            Some(_) => {
                // The other one needs them all.
                tracees.release_late();
            }
        }
        drop(tracees);
        std::thread::sleep(STEP);
    }
}

/// The threads of a stopped process with their registers, if all of them can be taken, and the calls that the runtime is not to make there.
/// `filtered`: filters of system calls may be in the way. `follows`: what the process starts is observed, too.
pub(super) fn threads(
    tracees: &Tracees,
    (filtered, follows): (bool, bool),
    most: usize,
) -> Result<(Vec<(Pid, Regs)>, Without)> {
    let (mut threads, mut without) = (Vec::new(), Without::default());
    let suspended = !follows && tracees.may_suspend_filters(tracees.anyone());
    let terms = terms(tracees.pid(), suspended);
    for &tid in tracees.threads() {
        let regs = tracees.regs(tid).map_err(system("reading registers"))?;
        check(tid, &regs)?;
        // One thread may have filters that others do not have.
        if filtered || restricts_itself(tid) {
            without = without.and(restrictions::check_filters(tid, terms)?);
        }
        threads.push((tid, regs));
    }
    match threads.len() {
        threads if threads > most => Err(AttachFailure::ManyThreads { threads, most }),
        _ => Ok((threads, without)),
    }
}

fn check(tid: Pid, regs: &Regs) -> Result<()> {
    const CODE_SEGMENT_64: u64 = 0x33;
    if regs.cs != CODE_SEGMENT_64 {
        return Err(AttachFailure::NotNative(tid));
    }
    match regs.gs_base == 0 && regs.gs == 0 {
        true => restrictions::check_dispatch(tid),
        false => Err(AttachFailure::Gs(tid)),
    }
}

/// The runtime into the stopped process, with room for as many threads.
fn put_in(tracees: &mut Tracees, threads: usize, prepare: Prepare<'_>) -> Result<()> {
    let first = tracees.threads()[0];
    let pid = tracees.pid();
    let limits = Limits::of(pid).map_err(system("reading its limits"))?;
    limits.make_room(pid).map_err(AttachFailure::Limits)?;
    let put = put_within(tracees, first, &limits, threads, prepare);
    if put.is_err() {
        limits.restore(pid);
    }
    put
}

fn put_within(
    tracees: &mut Tracees,
    first: Pid,
    limits: &Limits,
    threads: usize,
    prepare: Prepare<'_>,
) -> Result<()> {
    let pid = tracees.pid();
    let loan = tracees
        .borrow(first)
        .map_err(system("borrowing a thread"))?;
    let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let size = image::bytes().len() as u64;
    let map = [image::base(), size, prot, flags, u64::MAX, 0];
    let locked = locked_memory(pid).unwrap_or(0);
    let base = loan
        .call(libc::SYS_mmap, map)
        .map_err(|_| AttachFailure::NoRoom)?;
    let started = match locked_memory(pid) {
        // It was the mapping just made: the process has asked for that.
        Some(bytes) if bytes > locked => Err(AttachFailure::LocksMemory),
        _ => start(&loan, (pid, limits), base, threads, prepare),
    };
    if started.is_err() {
        // Nothing else is left to undo, nor could be.
        let _ = loan.call(libc::SYS_munmap, [base, size, 0, 0, 0, 0]);
    }
    started
}

/// Bytes of a process that are locked.
pub(super) fn locked_memory(pid: Pid) -> Option<u64> {
    let status = proc_text(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmLck:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

fn start(
    loan: &Loan<'_>,
    (pid, limits): (Pid, &Limits),
    base: u64,
    threads: usize,
    prepare: Prepare<'_>,
) -> Result<()> {
    let write = |at, bytes: &[u8]| {
        let done = loan.tracees().write(at, bytes);
        done.map_err(system("writing the runtime"))
    };
    // Where the runtime's stack begins later.
    let name_at = base + image::bytes().len() as u64 - 4096;
    write(name_at, NAME.to_bytes_with_nul())?;
    let made = make_file(loan, pid, name_at);
    let file = made.map_err(|e| match e.raw_os_error() {
        Some(libc::EMFILE) => AttachFailure::NoDescriptor,
        _ => system("making the memory shared with it")(e),
    })?;
    let opened = fs::File::options()
        .read(true)
        .write(true)
        .open(format!("/proc/{pid}/task/{}/fd/{file}", loan.tid()));
    let faults = Dispositions::of(loan, name_at).map_err(system("reading its signal handlers"))?;
    let run = || {
        opened
            .and_then(|opened| prepare(opened.into()))
            .map_err(system("opening the memory shared with it"))?;
        let start = Start {
            kept_file: -1,
            kept_is: None,
            file,
            image_file: -1,
            app_pc: 0,
            app_sp: 0,
            entry: 0,
            threads,
            limits: *limits,
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
    let started = run().and_then(|()| match Remains::find(loan.tracees())? {
        Some(remains) if remains.is_controlled(loan.tracees())? => Ok(()),
        _ => Err(AttachFailure::NoRoom),
    });
    if started.is_err() {
        undo(loan, base, &faults, name_at);
        // It may have closed it: there is no other of this number, as all threads are stopped.
        let _ = loan.call(libc::SYS_close, [file as u64, 0, 0, 0, 0, 0]);
    }
    started
}

/// A file in memory, made by the target; its descriptor there.
fn make_file(loan: &Loan<'_>, pid: Pid, name_at: u64) -> io::Result<i32> {
    let flags = u64::from(libc::MFD_CLOEXEC);
    let make = || loan.call(libc::SYS_memfd_create, [name_at, flags, 0, 0, 0, 0]);
    match make() {
        Err(e) if e.raw_os_error() == Some(libc::EMFILE) => limits::with_a_file(pid, make)?,
        made => made,
    }
    .map(|fd| fd as i32)
}

/// Makes a stopped thread's registers those with which it enters the runtime, its own being on its
/// thread page.
pub(super) fn enter(
    tracees: &Tracees,
    tid: Pid,
    regs: Regs,
    area: u64,
    door: u64,
) -> io::Result<()> {
    let mut app = regs;
    let code = make_again(&mut app, tracees.spurious(tid, &regs));
    if let Some(abort) = tracees.abort_sequence(tid, app.rip)? {
        app.rip = abort;
    }
    let mask = tracees.mask(tid)?;
    let known = tracees.sequences(tid);
    let sequences = known
        .filter(|_| restrictions::allow_sequences(tid))
        .unwrap_or_default();
    let thread_page = area + offset_of!(ThreadPage, interrupted) as u64;
    tracees.write(thread_page, &code.to_le_bytes())?;
    let thread_page = area + offset_of!(ThreadPage, mask) as u64;
    // In the order of the fields that follow.
    let words = [
        mask,
        app.rip,
        app.eflags,
        app.rax,
        app.rcx,
        app.rdx,
        app.rbx,
        app.rsp,
        app.rbp,
        app.rsi,
        app.rdi,
        app.r8,
        app.r9,
        app.r10,
        app.r11,
        app.r12,
        app.r13,
        app.r14,
        app.r15,
        sequences[0],
        sequences[1],
    ];
    const _: () = assert!(
        offset_of!(ThreadPage, pc) == offset_of!(ThreadPage, mask) + 8
            && offset_of!(ThreadPage, flags) == offset_of!(ThreadPage, mask) + 16
            && offset_of!(ThreadPage, regs) == offset_of!(ThreadPage, mask) + 24
            && offset_of!(ThreadPage, sequences) == offset_of!(ThreadPage, mask) + 152
    );
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    tracees.write(thread_page, &bytes)?;
    let mut regs = regs;
    regs.rip = door;
    regs.gs_base = area;
    regs.orig_rax = u64::MAX;
    regs.eflags = 0x202;
    tracees.set_mask(tid, u64::MAX)?;
    tracees.set_regs(tid, &regs)
}
