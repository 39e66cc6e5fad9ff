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
use trommel_queue::thread_page::{Attached, ThreadPage};
use trommel_queue::{MAX_THREADS, THREAD_PAGE, THREAD_PAGES_OFFSET};

use crate::channel::image;
use crate::ptrace::inject::Start;
use crate::ptrace::tracee::{Loan, Tracees, make_again};
use crate::takeover::detach::{Remains, at_attached};
use crate::takeover::failure::{AttachFailure, Result, STOP_PATIENCE, system};

/// Longest time that another command may take to detach.
const OTHER_PATIENCE: Duration = Duration::from_secs(1);
/// The shared file's name in the target's map.
const NAME: &std::ffi::CStr = c"trommel";

/// Makes the file that the target has made ready for it.
pub type Prepare<'a> = &'a mut dyn FnMut(OwnedFd) -> io::Result<()>;

/// Attaches to all threads of a process. `prepare` is given the file that it will share,
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
        // It may be about to detached.
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
    if remains.has_windows(&tracees)? {
        // All stay native.
        return Ok(remains);
    }
    let word = |tracees: &Tracees, offset| {
        let word = tracees.word(remains.control() + offset);
        word.map_err(system("reading the runtime's memory"))
    };
    let door = word(&tracees, at_attached(offset_of!(Attached, join)))?;
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
            kept_file: -1,
            kept_is: None,
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
/// thread page.
fn enter(tracees: &Tracees, tid: Pid, regs: Regs, area: u64, door: u64) -> io::Result<()> {
    let mut app = regs;
    let code = make_again(&mut app, tracees.spurious(tid, &regs));
    if let Some(abort) = tracees.abort_sequence(tid, app.rip)? {
        app.rip = abort;
    }
    let mask = tracees.mask(tid)?;
    let thread_page = area + offset_of!(ThreadPage, interrupted) as u64;
    tracees.write(thread_page, &code.to_le_bytes())?;
    let thread_page = area + offset_of!(ThreadPage, mask) as u64;
    // In the order of the fields that follow.
    let words = [
        mask, app.rip, app.eflags, app.rax, app.rcx, app.rdx, app.rbx, app.rsp, app.rbp, app.rsi,
        app.rdi, app.r8, app.r9, app.r10, app.r11, app.r12, app.r13, app.r14, app.r15,
    ];
    const _: () = assert!(
        offset_of!(ThreadPage, pc) == offset_of!(ThreadPage, mask) + 8
            && offset_of!(ThreadPage, flags) == offset_of!(ThreadPage, mask) + 16
            && offset_of!(ThreadPage, regs) == offset_of!(ThreadPage, mask) + 24
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
