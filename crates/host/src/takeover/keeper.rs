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
//! If the keeper itself is killed, the command closes the target's queue: threads leave the cache when
//! they come to it next, and the next command that attaches clears up. Only when the keeper dies in one
//! of the few hundred microseconds in which it has a thread on loan is the target lost.
//!
//! # Messages
//! One packet each: from the keeper `M` with the descriptor of the file that the target has made,
//! answered by a byte when the file is ready; then `R`, or at any time `F` and why not; at the end
//! `E` (the target has ended), `D` (all native), or `X` and what went wrong. From the command any byte:
//! detach.
// Forking, and descriptors of processes.
#![allow(unsafe_code)]

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    recv, recvmsg, send, sendmsg, socketpair,
};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, setsid};

use crate::ptrace::tracee::{StopFailure, Tracees};
use crate::takeover::attach::attach;
use crate::takeover::detach::{Remains, stop};
use crate::takeover::failure::AttachFailure;

/// The kernel closes all files of a process in one go, in less than this.
const DYING: Duration = Duration::from_millis(20);

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
        let flags = SockFlag::SOCK_CLOEXEC;
        let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags);
        let (ours, its) = pair.map_err(|e| format!("no socket: {}", e.desc()))?;
        // SAFETY: there is one thread, so the child may do whatever it likes.
        match unsafe { fork() } {
            Err(e) => Err(format!("fork: {}", e.desc())),
            Ok(ForkResult::Child) => {
                drop(ours);
                keep(&its, pid);
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
                Err(nix::Error::EINTR) => {}
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

    /// Waits until control has ended, for a while.
    pub fn parted(&self, patience: Duration) -> Option<Parting> {
        readable(&[self.socket.as_fd()], patience).first()?;
        Some(match self.message().0.split_first() {
            Some((b'E', _)) => Parting::Ended,
            Some((b'D', _)) => Parting::Detached,
            Some((_, why)) => Parting::Failed(String::from_utf8_lossy(why).into_owned()),
            None => Parting::Failed(
                "the helper process was ended; the program goes on, with the runtime in it".into(),
            ),
        })
    }
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

/// The keeper's life.
fn keep(socket: &OwnedFd, pid: Pid) {
    let say = |text: String| {
        // The command may be gone.
        let _ = send(socket.as_raw_fd(), text.as_bytes(), MsgFlags::MSG_NOSIGNAL);
    };
    // Interrupts of the terminal are for the command.
    let _ = setsid();
    // SAFETY: a valid name. Who kills all of that name does not mean us.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"attach-keeper".as_ptr()) };
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
    let remains = match attach(pid, &mut prepare) {
        Ok(remains) => remains,
        Err(failure) => return say(format!("F{failure}")),
    };
    say("R".into());
    const LONG: Duration = Duration::from_secs(1);
    loop {
        let ready = readable(&[socket.as_fd(), watched.as_fd()], LONG);
        if ready.contains(&1) {
            return say("E".into());
        }
        if ready.contains(&0) {
            // What is left unread would keep the last message from being read.
            let got = recv(socket.as_raw_fd(), &mut [0], MsgFlags::MSG_DONTWAIT);
            if got != Ok(1) {
                // The command has died. What began windows for it dies with it.
                std::thread::sleep(DYING);
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
        Err(failure) => format!("X{failure}"),
    });
}

fn part(tracees: &mut Tracees, remains: Remains) -> Result<(), AttachFailure> {
    stop(tracees, Instant::now() + Duration::from_secs(10))?;
    // It may have become another program.
    if Remains::find(tracees)? != Some(remains) {
        return Err(AttachFailure::Stop(StopFailure::Gone));
    }
    remains.detach(tracees)
}
