//! Detaching of a process under control.
//!
//! # Problem
//! Threads may be anywhere: in the code cache, in the runtime, in system calls that may wait for ever.
//! All are to go on in the program's own code as if they had never been elsewhere. Their
//! counts are to be complete, and nothing of ours may be left.
//!
//! # Strategy
//! In rounds: stop all threads, find out where each is, and let those run on that must.
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
use std::time::{Duration, Instant};

use libc::user_regs_struct as Regs;
use nix::unistd::Pid;
use trommel_queue::seccomp::Without;
use trommel_queue::thread_page::{Attached, GO, LEAVE, REQUEST, REQUEST_BLOCKED, ThreadPage};
use trommel_queue::{Control, DIRECTORY_BYTES, Directory, LAYOUT_VERSION, MAGIC, State};

use crate::channel::pids;
use crate::kernel::maps::{Mapping, mappings};
use crate::kernel::running::{proc_file, serves_faults};
use crate::ptrace::tracee::{SYSCALL_BYTES, StopFailure, Tracees, make_again};
use crate::takeover::failure::{AttachFailure, Result, STOP_PATIENCE, system};
use crate::takeover::tracer::Tracer;
use crate::takeover::{limits, undo};

/// Longest time that threads may take to leave.
pub(crate) const LEAVE_PATIENCE: Duration = Duration::from_secs(30);
/// The shared file in the target's map.
const MAPPED_NAME: &[u8] = b"/memfd:trommel (deleted)";

/// Returns true if there is a runtime in a process.
pub fn is_in(pid: Pid) -> bool {
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    mappings(&maps).any(|mapping| mapping.path == MAPPED_NAME)
}

/// A process that has not finished with another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Other {
    /// A command that records it.
    Host(u32),
    /// A keeper that detaches it, or will.
    Keeper(u32),
}

/// The moment when a process was started, in the kernel's ticks. `None`: there is none that lives.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split(' ');
    let state = words.next()?;
    (!matches!(state, "Z" | "X")).then(|| words.nth(18)?.parse().ok())?
}

/// Returns whether a process is a `trommel` command that lives.
fn is_command(pid: u32) -> bool {
    let name = |who: &str| fs::read(format!("/proc/{who}/comm")).ok();
    let its = name(&pid.to_string());
    its.is_some()
        && its == name(&std::os::unix::process::parent_id().to_string())
        && started(pid).is_some()
}

/// A runtime in a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remains {
    /// Address of the control words.
    control: u64,
}

/// Addresses of the runtime's memory in the target.
struct Places {
    image: (u64, u64),
    owned: Vec<(u64, u64)>,
    farewell: u64,
    /// After the call with which the runtime waits for the app, and where that is called off.
    wait: (u64, u64),
}

impl Places {
    /// Top of the stack that routines run on for the host.
    fn stack(&self) -> u64 {
        self.image.1 - 64
    }

    /// Returns true if a GS base is that of a thread's area.
    fn is_area(&self, gs: u64) -> bool {
        gs != 0 && self.owned.iter().any(|&(s, e)| s <= gs && gs < e)
    }

    /// Returns true if there is code of the cache at an address.
    fn is_cache(&self, at: u64) -> bool {
        self.holds(at) && !(self.image.0..self.image.1).contains(&at)
    }

    fn holds(&self, at: u64) -> bool {
        let inside = |&(start, end): &(u64, u64)| start <= at && at < end;
        inside(&self.image) || self.owned.iter().any(inside)
    }
}

/// Position of a stopped thread.
enum Position {
    /// In the app's code, or put there: it needs nothing more.
    Out,
    /// Waiting to go on natively.
    Parked,
    /// It must run on.
    Busy,
}

/// Returns the offset of a field of [`Attached`] from the control words on.
pub(crate) const fn at_attached(offset: usize) -> u64 {
    (offset_of!(Control, attached) + offset) as u64
}

impl Remains {
    /// Address of the control words.
    pub(crate) fn control(&self) -> u64 {
        self.control
    }

    /// The runtime in a process, if there is one.
    pub fn find(tracees: &Tracees) -> Result<Option<Self>> {
        let maps = format!("/proc/{}/task/{}/maps", tracees.pid(), tracees.anyone());
        let maps = proc_file(&maps).map_err(system("reading its memory map"))?;
        let whole = |mapping: &Mapping<'_>| mapping.path == MAPPED_NAME && mapping.offset == 0;
        for mapping in mappings(&maps).filter(whole) {
            let start = mapping.range.start;
            let control = start + DIRECTORY_BYTES as u64;
            let word = |at| tracees.word(control + at as u64);
            let is = word(offset_of!(Control, identity.magic)).is_ok_and(|magic| magic == MAGIC);
            if !is {
                continue;
            }
            let version = word(offset_of!(Control, identity.version)).unwrap_or(0) as u32;
            if version != LAYOUT_VERSION {
                return Err(AttachFailure::Foreign);
            }
            return Ok(Some(Self { control }));
        }
        Ok(None)
    }

    /// Has the runtime wait for no page of code under its lock, if threads of the process may serve faults of others. Before threads go in.
    pub(crate) fn expect_faults(&self, tracees: &Tracees) -> Result<()> {
        let at = self.control + at_attached(offset_of!(Attached, faults_served));
        let served = u32::from(serves_faults(tracees.pid()));
        let written = tracees.write(at, &served.to_le_bytes());
        written.map_err(system("writing the runtime's memory"))
    }

    /// Has the runtime leave out these calls. Before threads go in.
    pub(crate) fn leave_out(&self, tracees: &Tracees, calls: Without) -> Result<()> {
        let at = self.control + at_attached(offset_of!(Attached, without));
        let written = tracees.write(at, &calls.0.to_le_bytes());
        written.map_err(system("writing the runtime's memory"))
    }

    /// Tells the runtime whether filters judge the calls that it makes on loan.
    pub(crate) fn tell_suspension(&self, tracees: &Tracees, suspends: bool) -> io::Result<()> {
        let at = self.control + at_attached(offset_of!(Attached, suspends));
        tracees.write(at, &u32::from(suspends).to_le_bytes())
    }

    /// Returns true if what the process starts is observed, too.
    pub(crate) fn follows(&self, tracees: &Tracees) -> Result<bool> {
        Ok(self.half(tracees, offset_of!(Control, setup.follow) as u64)? != 0)
    }

    /// Returns true if threads are native but for windows.
    pub(crate) fn has_windows(&self, tracees: &Tracees) -> Result<bool> {
        Ok(self.half(tracees, offset_of!(Control, window.length) as u64)? != 0)
    }

    /// Returns true if the runtime has started, and control has not ended.
    pub(crate) fn is_controlled(&self, tracees: &Tracees) -> Result<bool> {
        let state = self.half(tracees, offset_of!(Control, process.state) as u64)?;
        Ok(State::from_number(state) == Some(State::Controlled))
    }

    fn half(&self, tracees: &Tracees, offset: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        let read = tracees.read(self.control + offset, &mut bytes);
        read.map_err(system("reading the runtime's memory"))?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// The process that has it under control and lives.
    pub(crate) fn host(&self, tracees: &Tracees) -> Result<Option<u32>> {
        let host = self.half(tracees, offset_of!(Control, host.pid) as u64)?;
        let closed = self.half(tracees, offset_of!(Control, host.closed) as u64)?;
        let lives = Directory::host_lives(self.host_word(tracees)?);
        Ok((lives && closed == 0).then_some(host))
    }

    fn host_word(&self, tracees: &Tracees) -> Result<u32> {
        let mut word = [0; 4];
        let directory = self.control - DIRECTORY_BYTES as u64;
        let read = tracees.read(directory + offset_of!(Directory, host) as u64, &mut word);
        read.map_err(system("reading the runtime's memory"))?;
        Ok(u32::from_le_bytes(word))
    }

    /// Writes into the target that this process is its keeper.
    pub(crate) fn name_keeper(&self, tracees: &Tracees) {
        let own = std::process::id();
        for (n, word) in [u64::from(own), started(own).unwrap_or(0)]
            .into_iter()
            .enumerate()
        {
            let at = self.control + at_attached(offset_of!(Attached, keeper)) + 8 * n as u64;
            // It may have ended.
            let _ = tracees.write(at, &word.to_le_bytes());
        }
    }

    /// The process that has not finished with it yet, if there is one.
    pub(crate) fn other(&self, tracees: &Tracees) -> Result<Option<Other>> {
        if let Some(host) = self.host(tracees)? {
            return Ok(Some(Other::Host(host)));
        }
        let word = |n: u64| {
            let at = self.control + at_attached(offset_of!(Attached, keeper)) + 8 * n;
            tracees
                .word(at)
                .map_err(system("reading the runtime's memory"))
        };
        let (keeper, since) = (word(0)? as u32, word(1)?);
        if keeper != 0 && keeper != std::process::id() && started(keeper) == Some(since) {
            return Ok(Some(Other::Keeper(keeper)));
        }
        // The mark of its death is set before its files are closed.
        let host = self.half(tracees, offset_of!(Control, host.pid) as u64)?;
        let died = Directory::host_died(self.host_word(tracees)?);
        let is_dying = died && host != std::process::id() && is_command(host);
        Ok(is_dying.then_some(Other::Host(host)))
    }

    /// Top of the stack that routines run on for the host.
    pub(crate) fn stack(&self, tracees: &Tracees) -> Result<u64> {
        Ok(self.places(tracees)?.stack())
    }

    fn places(&self, tracees: &Tracees) -> Result<Places> {
        const FIRST: usize = offset_of!(Attached, farewell);
        const WORDS: usize = (offset_of!(Attached, owned) - FIRST) / 8 + 1;
        let unreadable = system("reading the runtime's memory");
        let mut bytes = [0; 8 * WORDS];
        let read = tracees.read(self.control + at_attached(FIRST), &mut bytes);
        read.map_err(&unreadable)?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |offset: usize| u64::from_le_bytes(words[(offset - FIRST) / 8]);
        let pair = |offset: usize| (word(offset), word(offset + 8));
        let owned = undo::owned(tracees, word(offset_of!(Attached, owned)));
        Ok(Places {
            image: pair(offset_of!(Attached, image)),
            owned: owned.map_err(&unreadable)?,
            farewell: word(offset_of!(Attached, farewell)),
            wait: pair(offset_of!(Attached, wait)),
        })
    }

    pub(crate) fn set_detach(&self, tracees: &Tracees, value: u32) -> Result<()> {
        let at = self.control + at_attached(offset_of!(Attached, detach));
        let written = tracees.write(at, &value.to_le_bytes());
        written.map_err(system("writing the runtime's memory"))
    }

    /// Lets all threads go and takes the runtime out. On success all threads are stopped; they are
    /// released with `tracees`.
    pub fn detach(&self, tracees: &mut Tracees) -> Result<()> {
        self.detach_until(tracees, Instant::now() + LEAVE_PATIENCE, None)
    }

    /// [`Self::detach`] that gives up at `limit`. `held`: a thread whose next call is made when nothing of the runtime is left.
    pub(crate) fn detach_until(
        &self,
        tracees: &mut Tracees,
        limit: Instant,
        held: Option<Pid>,
    ) -> Result<()> {
        self.let_out(tracees, limit, held)?;
        let places = self.places(tracees)?;
        let gone = |_| AttachFailure::Stop(StopFailure::Gone);
        let worker = tracees.threads().first().copied();
        let worker = worker.ok_or(AttachFailure::Stop(StopFailure::Gone))?;
        let loan = tracees.borrow(worker).map_err(gone)?;
        let scratch = places.stack() - 64;
        limits::give_back(&loan, self.control, scratch).map_err(system("setting its limits"))?;
        for (start, end) in places.owned.into_iter().chain([places.image]) {
            loan.call(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0])
                .map_err(system("unmapping the runtime"))?;
        }
        Ok(())
    }

    /// Makes all threads native, with the kernel's state the app's again. The runtime stays in the process. On success all threads
    /// are stopped. `held`: a thread that has made none of its own system calls then.
    pub(crate) fn let_out(
        &self,
        tracees: &mut Tracees,
        limit: Instant,
        held: Option<Pid>,
    ) -> Result<()> {
        stop(tracees, limit)?;
        self.set_detach(tracees, LEAVE)?;
        self.rounds(tracees, limit, (false, held))?;
        let places = self.places(tracees)?;
        let gone = |_| AttachFailure::Stop(StopFailure::Gone);
        let worker = tracees.threads().first().copied();
        let worker = worker.ok_or(AttachFailure::Stop(StopFailure::Gone))?;
        let loan = tracees.borrow(worker).map_err(gone)?;
        self.tell_suspension(loan.tracees(), loan.suspends_filters())
            .map_err(gone)?;
        // A trap of the app's that waited may have come first.
        while self.half(
            loan.tracees(),
            at_attached(offset_of!(Attached, bid_farewell)),
        )? == 0
        {
            loan.run(places.farewell, places.stack(), 0).map_err(gone)?;
        }
        drop(loan);
        self.set_detach(tracees, GO)?;
        if let Some(tid) = held {
            let is_own = |pc: u64| !places.holds(pc);
            let run = tracees.run_to_call(tid, limit, is_own);
            run.map_err(system("holding a thread at its system call"))?;
        }
        self.rounds(tracees, limit, (true, held))
    }

    /// Lets threads run on and stops them, until all are where they need nothing more: parked, or
    /// (`all`) out. `held`: a thread that does not run on where it is out. Others may do so where one waits for them: signals reach the app's handlers.
    fn rounds(
        &self,
        tracees: &mut Tracees,
        limit: Instant,
        (all, held): (bool, Option<Pid>),
    ) -> Result<()> {
        let mut pause = Duration::from_micros(100);
        for round in 0.. {
            match all && held.is_some() {
                true => stop(tracees, limit)?,
                false => retry(limit, || tracees.stop_whole(STOP_PATIENCE))?,
            }
            let places = self.places(tracees)?;
            let mut busy = Vec::new();
            for tid in tracees.threads().to_vec() {
                // An error: it has been killed.
                match self
                    .settle(tracees, tid, &places, round)
                    .unwrap_or(Position::Busy)
                {
                    Position::Out => {}
                    Position::Parked if !all => {}
                    Position::Parked | Position::Busy => busy.push(tid),
                }
            }
            let Some(&some) = busy.first() else {
                return Ok(());
            };
            if Instant::now() > limit {
                self.set_detach(tracees, GO)?;
                return Err(AttachFailure::Stuck(some));
            }
            match busy.iter().any(|&tid| tracees.is_held(tid)) {
                true => tracees.run_held(&busy, pause, |pc| !places.holds(pc)),
                false => {
                    busy.into_iter().for_each(|tid| tracees.release(tid));
                    std::thread::sleep(pause);
                }
            }
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
    ) -> io::Result<Position> {
        const FEW: u32 = 4;
        let regs = tracees.regs(tid)?;
        let (gs, pc) = (regs.gs_base, regs.rip);
        if !places.is_area(gs) {
            return Ok(match places.holds(pc) {
                true => Position::Busy,
                false => Position::Out,
            });
        }
        let mut tids = [0; 8];
        tracees.read(gs + offset_of!(ThreadPage, tid) as u64, &mut tids)?;
        const _: () = assert!(offset_of!(ThreadPage, parked) == offset_of!(ThreadPage, tid) + 4);
        let half = |n: usize| {
            tids[n..]
                .first_chunk()
                .map_or(0, |b| u32::from_le_bytes(*b))
        };
        let (seen, own) = (half(0), tid.as_raw() as u32);
        if seen != own && (seen == 0 || !pids::is_seen_as(tracees.pid(), tid, seen)) {
            // New: it has its parent's GS for its first instructions.
            return Ok(Position::Busy);
        }
        if half(4) != 0 {
            return Ok(Position::Parked);
        }
        let in_image = places.image.0 <= pc && pc < places.image.1;
        if pc == places.wait.0 && (regs.orig_rax as i64) >= 0 && is_unfinished(&regs) {
            // A wait that the runtime makes for the app: the app makes it again when it is out.
            let mut off = regs;
            off.rip = places.wait.1;
            off.orig_rax = u64::MAX;
            tracees.set_regs(tid, &off)?;
            return Ok(Position::Busy);
        }
        if in_image || !places.holds(pc) || self.has_windows(tracees).unwrap_or(false) {
            // A window ends by itself.
            return Ok(Position::Busy);
        }
        match self.after_call(tracees, &regs)? {
            Some(next) => {
                put_back(tracees, tid, regs, next)?;
                Ok(Position::Out)
            }
            // It may be about to make an interrupted call again, which a signal would end.
            None if regs.rax as i64 == libc::SYS_restart_syscall && round < FEW => {
                Ok(Position::Busy)
            }
            None => {
                ask(tracees, tid)?;
                Ok(Position::Busy)
            }
        }
    }

    /// Returns where the app goes on, if the thread is in a system call made from the cache, or just after
    /// one. The cache says so itself: `mov rcx, NEXT` follows the call. Where paths are counted, a store to the thread's area is between
    /// them.
    fn after_call(&self, tracees: &Tracees, regs: &Regs) -> io::Result<Option<u64>> {
        const STORE: [u8; 4] = [0x65, 0xc7, 0x04, 0x25];
        const STORE_BYTES: u64 = 12;
        if (regs.orig_rax as i64) < 0 {
            return Ok(None);
        }
        let mut code = [0; 12];
        tracees.read(regs.rip - SYSCALL_BYTES, &mut code)?;
        let [0x0f, 0x05, rest @ ..] = code else {
            return Ok(None);
        };
        let mut code = rest;
        if code.starts_with(&STORE) {
            tracees.read(regs.rip + STORE_BYTES, &mut code)?;
        }
        let small = |at: usize| {
            code[at..]
                .first_chunk()
                .map_or(0, |b| u32::from_le_bytes(*b))
        };
        Ok(match code {
            [0xb9, ..] => Some(u64::from(small(1))),
            [0x48, 0xb9, ..] => code[2..].first_chunk().map(|b| u64::from_le_bytes(*b)),
            [0x48, 0xc7, 0xc1, ..] => Some(small(3) as i32 as u64),
            _ => None,
        })
    }
}

/// Asks all threads that are in the cache to leave.
pub fn fetch(pid: Pid) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let mut tracees = Tracees::new(pid);
    stop(&mut tracees, Instant::now() + PATIENCE)?;
    let Some(remains) = Remains::find(&tracees)? else {
        return Ok(());
    };
    let places = remains.places(&tracees)?;
    for tid in tracees.threads().to_vec() {
        let Ok(regs) = tracees.regs(tid) else {
            continue;
        };
        let in_cache = places.is_area(regs.gs_base) && places.is_cache(regs.rip);
        let waits = regs.rax as i64 == libc::SYS_restart_syscall;
        if in_cache && !waits && matches!(remains.after_call(&tracees, &regs), Ok(None)) {
            let _ = ask(&tracees, tid);
        }
    }
    Ok(())
}

/// Stops all threads, also while another command tries to attach, which it will give up.
pub fn stop(tracees: &mut Tracees, limit: Instant) -> Result<()> {
    retry(limit, || tracees.stop_all(STOP_PATIENCE))
}

fn retry(
    limit: Instant,
    mut stop: impl FnMut() -> std::result::Result<(), StopFailure>,
) -> Result<()> {
    /// A debugger may trace it for a moment, too.
    const OTHER_PATIENCE: Duration = Duration::from_secs(1);
    let began = Instant::now();
    loop {
        match stop() {
            Err(StopFailure::Refused(tid, _))
                if began.elapsed() > OTHER_PATIENCE
                    && let Tracer::Another(tracer, name) = Tracer::of(tid) =>
            {
                return Err(AttachFailure::Traced(tid, tracer, name));
            }
            Err(StopFailure::Refused(..)) if Instant::now() < limit => {
                std::thread::sleep(Duration::from_millis(1));
            }
            done => return Ok(done?),
        }
    }
}

/// Returns true if a thread was stopped in a call that goes on or says EINTR.
fn is_unfinished(regs: &Regs) -> bool {
    let mut again = *regs;
    regs.rax as i64 == -i64::from(libc::EINTR) || make_again(&mut again, false) != 0
}

/// Puts a thread that is in a system call made from the cache to the app's own call, and gives it back
/// its alternate stack, its mask and GS.
fn put_back(tracees: &mut Tracees, tid: Pid, regs: Regs, next: u64) -> io::Result<()> {
    let mut stack = [0; 24];
    let at = tracees.word(regs.gs_base + offset_of!(ThreadPage, stack) as u64)?;
    tracees.read(at, &mut stack)?;
    if stack[16..] == [0; 8] {
        // The kernel takes none of no size, unless it is said to be none.
        stack[8] |= libc::SS_DISABLE as u8;
    }
    let stack_at = regs.gs_base + offset_of!(ThreadPage, regs) as u64;
    tracees.write(stack_at, &stack)?;
    let mut app = regs;
    app.rip = next;
    app.rcx = next;
    app.gs_base = 0;
    if tracees.spurious(tid, &regs) {
        make_again(&mut app, true);
    }
    let hidden = tracees.word(regs.gs_base + offset_of!(ThreadPage, hidden) as u64)?;
    let loan = tracees.borrow(tid)?;
    loan.call(libc::SYS_sigaltstack, [stack_at, 0, 0, 0, 0, 0])?;
    drop(loan);
    if hidden != 0 {
        tracees.set_mask(tid, tracees.mask(tid)? | hidden)?;
    }
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
