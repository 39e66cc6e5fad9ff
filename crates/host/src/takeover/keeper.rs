//! The process that holds a running program under control, and detaches it whatever happens.
//!
//! # Problem
//! Attaching to a process and detaching it means to borrow its threads for system calls of
//! ours. If the host were killed in between, they would go on with its registers. And a process that was
//! attached to should be native again when the command that did it has ended, in whatever way.
//!
//! # Strategy
//! The command forks a *keeper*, in a session of its own and with no other task: it attaches, waits,
//! and detaches. It is the only tracer. A socket connects both. When the command dies, the kernel
//! closes its end, and the keeper detaches at once. Killing the command with SIGKILL at any moment
//! therefore leaves the target native and clean.
//!
//! Another command may want the process at once. The keeper's process number is in the target's memory, and who attaches waits
//! for a keeper that lives, and for a command that dies (`attach`). So signals that begin windows are never sent to a process
//! that has no handler for them any more.
//!
//! If the keeper itself is killed, the command closes the target's queue: threads leave the cache when
//! they come to it next, and the next command that attaches clears up. Only when the keeper dies in one
//! of the few hundred microseconds in which it has a thread on loan is the target lost.
//!
//! Where another program traces the target, the keeper leaves a process that detaches it later ([`super::parting`]).
//!
//! # Messages
//! One packet each: from the keeper `M` with the descriptor of the file that the target has made,
//! answered by a byte when the file is ready; then `R`, or at any time `F` and why not; at the end
//! `E` (the target has ended), `D` (all native), or `X` and what went wrong. From the command: `b` for a burst of control,
//! any other byte to detach.
//!
//! # Bursts
//! A keeper may have the target rest between bursts of control ([`super::bursts`]). Then each burst ends by itself, after its time or
//! when the command wants something, with `B` and what it took ([`Burst`]), or `N` and why there was none.
// Forking, and descriptors of processes.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    recv, recvmsg, send, sendmsg, socketpair,
};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, setsid};
use trommel_compress::random::SplitMix64;

use crate::kernel::clocks::{cpu_of, stamp};
use crate::kernel::running::KEEPER_NAME;
use crate::ptrace::tracee::{StopFailure, Tracees};
use crate::takeover::attach::attach;
use crate::takeover::bursts::{Code, rest, wake};
use crate::takeover::detach::Remains;
use crate::takeover::failure::AttachFailure;
use crate::takeover::parting::{part, part_later};
use crate::windows::bursts::Burst;

/// The longest that a command is expected to die for.
const DYING: Duration = Duration::from_secs(1);

/// End of control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parting {
    /// The target has ended, or become another program.
    Ended,
    /// All threads are native, and nothing of ours remains.
    Detached,
    /// Something is.
    Failed(String),
}

/// News of a keeper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// A burst has ended.
    Burst(Burst),
    /// There was none, for this reason.
    NoBurst(String),
    /// Control has ended.
    Parted(Parting),
}

/// News of bursts that wait to be taken note of.
pub type Inbox = Rc<RefCell<Vec<Message>>>;

/// The keeper, seen by the command.
pub struct Keeper {
    socket: OwnedFd,
    process: Pid,
}

impl Keeper {
    /// Starts one, which attaches to `pid`. Must be called while the calling process has one
    /// thread. `prepare` is given the file that the target has made, empty.
    ///
    /// # Errors
    /// Why it could not, in words.
    pub fn start(
        pid: Pid,
        prepare: impl FnOnce(OwnedFd) -> std::io::Result<()>,
    ) -> Result<Self, String> {
        Self::begin(pid, None, prepare)
    }

    /// Starts one like [`Self::start`]. With `bursts` the first burst begins at once.
    ///
    /// # Errors
    /// Why it could not, in words.
    pub fn begin(
        pid: Pid,
        bursts: Option<Length>,
        prepare: impl FnOnce(OwnedFd) -> std::io::Result<()>,
    ) -> Result<Self, String> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
        let (ours, its) = pair.map_err(|e| format!("no socket: {}", e.desc()))?;
        // SAFETY: there is one thread, so the child may do whatever it likes.
        match unsafe { fork() } {
            Err(e) => Err(format!("fork: {}", e.desc())),
            Ok(ForkResult::Child) => {
                drop(ours);
                keep(&its, pid, bursts);
                // SAFETY: ends this process, which shares its exit handlers with its parent.
                unsafe { libc::_exit(0) }
            }
            Ok(ForkResult::Parent { child }) => {
                drop(its);
                let keeper = Self {
                    socket: ours,
                    process: child,
                };
                let mut prepare = Some(prepare);
                loop {
                    let (message, file) = keeper.message();
                    match (message.split_first(), file, prepare.take()) {
                        (Some((b'M', _)), Some(file), Some(prepare)) => {
                            prepare(file).map_err(|e| e.to_string())?;
                            keeper.detach();
                        }
                        (Some((b'R', _)), ..) => return Ok(keeper),
                        (Some((b'F', why)), ..) => {
                            return Err(String::from_utf8_lossy(why).into_owned());
                        }
                        _ => return Err("the helper process was ended".into()),
                    }
                }
            }
        }
    }

    /// The next message, and a descriptor that came with it; empty when there is no keeper any more.
    fn message(&self) -> (Vec<u8>, Option<OwnedFd>) {
        let mut bytes = [0; 1024];
        let mut space = nix::cmsg_space!(i32);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let got = loop {
            match recvmsg::<UnixAddr>(fd, &mut parts, Some(&mut space), flags) {
                // It has ended with something of ours unread. That is told once, before its last messages.
                Err(nix::Error::EINTR | nix::Error::ECONNRESET) => {}
                other => break other,
            }
        };
        let Ok(message) = got else {
            return (Vec::new(), None);
        };
        let fd = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|m| match m {
                ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
                _ => None,
            })
        });
        let n = message.bytes;
        // SAFETY: the kernel has just given it to us.
        let file = fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        (bytes[..n].to_vec(), file)
    }

    /// Asks for the target to be detached.
    pub fn detach(&self) {
        // It may have ended by itself just now.
        let _ = send(self.socket.as_raw_fd(), b"d", MsgFlags::MSG_NOSIGNAL);
    }

    /// Asks for a burst of control.
    pub fn burst(&self) {
        // It may have ended by itself just now.
        let _ = send(self.socket.as_raw_fd(), b"b", MsgFlags::MSG_NOSIGNAL);
    }

    /// Waits until there are news, for a while.
    pub fn news(&self, patience: Duration) -> Option<Message> {
        readable(&[self.socket.as_fd()], patience).first()?;
        let text = |why: &[u8]| String::from_utf8_lossy(why).into_owned();
        Some(match self.message().0.split_first() {
            Some((b'E', _)) => Message::Parted(Parting::Ended),
            Some((b'D', _)) => Message::Parted(Parting::Detached),
            Some((b'B', words)) => Message::Burst(read(words)),
            Some((b'N', why)) => Message::NoBurst(text(why)),
            Some((_, why)) => Message::Parted(Parting::Failed(text(why))),
            None => Message::Parted(Parting::Failed(
                "the helper process was ended; the program goes on, with the runtime in it".into(),
            )),
        })
    }

    /// Waits until control has ended, for a while. News of bursts are passed over.
    pub fn parted(&self, patience: Duration) -> Option<Parting> {
        let limit = Instant::now() + patience;
        loop {
            let left = limit.saturating_duration_since(Instant::now());
            if let Message::Parted(parting) = self.news(left)? {
                return Some(parting);
            }
        }
    }
}

/// Reads a burst from the words of its message.
fn read(words: &[u8]) -> Burst {
    let (words, _) = words.as_chunks::<8>();
    let word = |n: usize| words.get(n).map_or(0, |word| u64::from_le_bytes(*word));
    Burst {
        cpu: [word(0), word(1)],
        keeper: word(2),
    }
}

/// The message of a burst.
fn message_of(burst: &Burst) -> Vec<u8> {
    let words = [burst.cpu[0], burst.cpu[1], burst.keeper];
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    std::iter::once(b'B').chain(bytes).collect()
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // It ends when the socket is closed, at the latest.
        let _ =
            nix::sys::socket::shutdown(self.socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        let _ = waitpid(self.process, None);
    }
}

/// Returns the indices of the descriptors that can be read, or have been closed, within a time.
fn readable(fds: &[BorrowedFd<'_>], patience: Duration) -> Vec<usize> {
    let mut polled: Vec<_> = (fds.iter())
        .map(|fd| PollFd::new(*fd, PollFlags::POLLIN))
        .collect();
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    // Interrupted: as if nothing had come.
    let _ = poll(&mut polled, timeout);
    let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|r| !r.is_empty());
    (0..fds.len()).filter(|&n| ready(&polled[n])).collect()
}

/// The same, while threads that stop too late are released.
fn readable_beside(pid: Pid, fds: &[BorrowedFd<'_>], patience: Duration) -> Vec<usize> {
    /// A thread that has stopped may stand still for so long.
    const SHORT: Duration = Duration::from_millis(1);
    let tracees = Tracees::new(pid);
    let limit = Instant::now() + patience;
    loop {
        let late = tracees.release_late();
        let left = limit.saturating_duration_since(Instant::now());
        let ready = readable(fds, if late { left.min(SHORT) } else { left });
        if !late || !ready.is_empty() || left.is_zero() {
            return ready;
        }
    }
}

/// The keeper's life.
fn keep(socket: &OwnedFd, pid: Pid, bursts: Option<Length>) {
    let tell = |bytes: &[u8]| {
        // The command may be gone.
        let _ = send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL);
    };
    let say = |text: String| tell(text.as_bytes());
    let command = nix::unistd::getppid();
    // Interrupts of the terminal are for the command.
    let _ = setsid();
    // SAFETY: a valid name. Who kills all of that name does not mean us.
    unsafe { libc::prctl(libc::PR_SET_NAME, KEEPER_NAME.as_ptr()) };
    // SAFETY: asks for a descriptor of a process.
    let watched = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    if watched < 0 {
        return say("Fit has ended".into());
    }
    // SAFETY: just made, and nobody else's.
    let watched = unsafe { OwnedFd::from_raw_fd(watched as i32) };
    let mut prepare = |file: OwnedFd| {
        let fds = [file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&fds)];
        let parts = [IoSlice::new(b"M")];
        let flags = MsgFlags::MSG_NOSIGNAL;
        sendmsg::<UnixAddr>(socket.as_raw_fd(), &parts, &rights, flags, None)?;
        match recv(socket.as_raw_fd(), &mut [0], MsgFlags::empty()) {
            Ok(1) => Ok(()),
            _ => Err(std::io::Error::other("the command has ended")),
        }
    };
    let remains = match attach(pid, false, &mut prepare) {
        Ok(remains) => remains,
        Err(failure) => return say(format!("F{failure}")),
    };
    remains.name_keeper(&Tracees::new(pid));
    say("R".into());
    const LONG: Duration = Duration::from_secs(1);
    let fds = [socket.as_fd(), watched.as_fd()];
    let mut bursts = bursts.map(|length| Bursts::new(pid, remains, length));
    if let Some(bursts) = &mut bursts {
        tell(&bursts.finish(&fds));
    }
    loop {
        let ready = readable_beside(pid, &fds, LONG);
        if ready.contains(&1) {
            return say("E".into());
        }
        if ready.contains(&0) {
            // What is left unread would keep the last message from being read.
            let mut byte = [0];
            let got = recv(socket.as_raw_fd(), &mut byte, MsgFlags::MSG_DONTWAIT);
            if let (Ok(1), b"b", Some(bursts)) = (got, &byte, &mut bursts) {
                let told = bursts.burst(&fds);
                tell(&told);
                continue;
            }
            if got != Ok(1) {
                wait_for_death(command);
            }
            break;
        }
    }
    let mut tracees = Tracees::new(pid);
    let done = part(&mut tracees, remains);
    drop(tracees);
    say(match done {
        Ok(()) => "D".into(),
        Err(AttachFailure::Stop(StopFailure::Gone)) => "E".into(),
        Err(_) if ends(pid, &fds) => "E".into(),
        Err(AttachFailure::Traced(tid, tracer, name)) => {
            part_later(pid, remains, &watched);
            format!(
                "Xprocess {tracer} ({name}) traces thread {tid}; it is detached when nobody traces it any more"
            )
        }
        Err(failure) => format!("X{failure}"),
    });
}

/// Length of bursts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// So much CPU time of the target.
    Cpu(Duration),
    /// Random times on the wall with this mean, with such times between them: for tests.
    Random(Duration),
}

/// Bursts of one target.
struct Bursts {
    pid: Pid,
    remains: Remains,
    length: Length,
    random: SplitMix64,
    /// Its CPU time when the burst began.
    began: Duration,
    /// The state of its code when it was under control last.
    code: Option<Code>,
}

impl Bursts {
    /// Begins under control.
    fn new(pid: Pid, remains: Remains, length: Length) -> Self {
        Self {
            pid,
            remains,
            length,
            random: SplitMix64::new(stamp()),
            began: cpu_of(pid).unwrap_or_default(),
            code: None,
        }
    }

    /// A burst. Returns the message for the command.
    fn burst(&mut self, fds: &[BorrowedFd<'_>]) -> Vec<u8> {
        if let Length::Random(mean) = self.length {
            let pause = self.draw(mean);
            readable_beside(self.pid, fds, pause);
        }
        self.began = cpu_of(self.pid).unwrap_or(self.began);
        match wake(&self.remains, self.pid, self.code.as_ref()) {
            Ok(()) => self.finish(fds),
            Err(AttachFailure::Stop(StopFailure::Gone)) => b"E".to_vec(),
            Err(failure) => format!("N{failure}").into_bytes(),
        }
    }

    /// A time below twice the mean.
    fn draw(&mut self, mean: Duration) -> Duration {
        const PARTS: u64 = 1024;
        2 * mean * (self.random.draw() % PARTS) as u32 / PARTS as u32
    }

    /// Waits until the burst is over. `fds`: what ends the wait before its time.
    fn wait(&mut self, fds: &[BorrowedFd<'_>]) {
        /// Times that a burst may take of the clock on the wall, for a target that sleeps.
        const PATIENCE: u32 = 16;
        const SHORT: Duration = Duration::from_millis(1);
        let length = match self.length {
            Length::Random(mean) => {
                let time = self.draw(mean);
                readable_beside(self.pid, fds, time);
                return;
            }
            Length::Cpu(length) => length,
        };
        let limit = Instant::now() + PATIENCE * length;
        while let Some(cpu) = cpu_of(self.pid)
            && let left = length.saturating_sub(cpu.saturating_sub(self.began))
            && !left.is_zero()
            && Instant::now() < limit
            && readable_beside(self.pid, fds, left.max(SHORT)).is_empty()
        {}
    }

    /// Waits until the burst is over, and has the target rest. `fds`: what ends the wait before its time, the second of them
    /// as the target has ended.
    fn finish(&mut self, fds: &[BorrowedFd<'_>]) -> Vec<u8> {
        // From one try to have the target rest to the next.
        let mut pause = Duration::from_millis(20);
        const LONG: Duration = Duration::from_secs(1);
        self.wait(fds);
        let mut tracees = Tracees::new(self.pid);
        let mut done = rest(&self.remains, &mut tracees);
        // A thread is busy in the kernel, or another program traces one. It goes on under control meanwhile.
        let is_late = |failure: &AttachFailure| {
            matches!(
                failure,
                AttachFailure::Traced(..)
                    | AttachFailure::Stop(StopFailure::Busy(_) | StopFailure::Refused(..))
            )
        };
        while done.as_ref().is_err_and(is_late) && readable_beside(self.pid, fds, pause).is_empty()
        {
            pause = (pause * 2).min(LONG);
            done = rest(&self.remains, &mut tracees);
        }
        match done {
            Ok(()) => {
                self.code = Code::of(self.pid);
                let after = cpu_of(self.pid).unwrap_or(self.began);
                let nanos = |time: Duration| time.as_nanos() as u64;
                let burst = Burst {
                    cpu: [nanos(self.began), nanos(after)],
                    keeper: nanos(cpu_of(nix::unistd::getpid()).unwrap_or_default()),
                };
                message_of(&burst)
            }
            Err(AttachFailure::Stop(StopFailure::Gone)) => b"E".to_vec(),
            // Whoever asks for the end of control has it tried again.
            Err(failure) if is_late(&failure) => format!("N{failure}").into_bytes(),
            Err(failure) => {
                drop(tracees);
                match ends(self.pid, fds) {
                    true => b"E".to_vec(),
                    false => format!("X{failure}").into_bytes(),
                }
            }
        }
    }
}

/// Returns whether the target, with which something could not be done, is about to end. It does not before its tracer has been told of its threads.
fn ends(pid: Pid, fds: &[BorrowedFd<'_>]) -> bool {
    const PATIENCE: Duration = Duration::from_millis(200);
    let limit = Instant::now() + PATIENCE;
    // What the command has said makes the others readable.
    while !Instant::now().gt(&limit) {
        let late = Tracees::new(pid).release_late();
        if readable(fds, Duration::ZERO).contains(&1) {
            return true;
        }
        if !late {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Waits until the command, which has closed its end of the socket, has died. Its perf events send the signals that begin
/// windows. The kernel closes them before it gives the command's children to another process.
fn wait_for_death(command: Pid) {
    const STEP: Duration = Duration::from_millis(1);
    let limit = Instant::now() + DYING;
    while nix::unistd::getppid() == command && Instant::now() < limit {
        std::thread::sleep(STEP);
    }
}
