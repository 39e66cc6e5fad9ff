//! The socket by which commands of the same user reach a session: `trommel query load`, `remove` and `list`.
//!
//! # Problem
//! Another command is to change what a session asks its programs. The session has one thread, which must not wait for anybody.
//! Who connects may be hostile, slow, or gone.
//!
//! # Strategy
//! Each session listens on a socket in a directory that is the user's own: `trommel` in `$XDG_RUNTIME_DIR`, else `/tmp/trommel-UID`.
//! The name of the socket is the session's process number. A command asks each session for the process that it means. Sockets that nobody
//! listens to are removed. The kernel sends the session a signal when somebody calls, so that it sleeps meanwhile ([`bell`](crate::channel::bell)).
//!
//! A request is a line: `trommel 1 list PID`, `trommel 1 remove PID WHAT`, or `trommel 1 load PID NAME BYTES` and so many bytes of an
//! assembled program. The answer is `other`, or `ok BYTES` or `error BYTES` and a text.
//!
//! # Why it is safe
//! * The directory and the caller must belong to the effective user, as the kernel reports it. Others are refused. Nobody gains a right: a user may
//!   attach to these processes anyway.
//! * A request is bounded, checked in full before anything is done, and read without waiting. A caller that sends nothing is dropped.

pub mod client;
mod directory;
mod request;
pub mod standing;

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};

pub use directory::NoDirectory;
pub(crate) use request::{Request, Wish};

/// Callers at a time whose requests are not whole.
const MOST: usize = 16;
/// Time within which a request must be whole.
const PATIENCE: Duration = Duration::from_secs(2);

/// A socket with its callers.
pub(crate) struct Control {
    listener: UnixListener,
    path: PathBuf,
    calls: Vec<Call>,
}

/// A caller.
pub(crate) struct Call {
    stream: UnixStream,
    bytes: Vec<u8>,
    since: Instant,
}

impl Control {
    /// Listens.
    ///
    /// # Errors
    /// There is no directory for the socket, or the system refuses.
    pub(crate) fn open() -> Result<Self, NoDirectory> {
        let directory = directory::own()?;
        let path = directory.join(format!("{}.sock", std::process::id()));
        let failed = |error| NoDirectory::System(path.clone(), error);
        // A session of the same number that was killed.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        rings(listener.as_fd());
        Ok(Self {
            listener,
            path,
            calls: Vec::new(),
        })
    }

    /// Closes the socket in a child of the process that listens, which goes on.
    pub(crate) fn leave(mut self) {
        // The file stays.
        self.path.clear();
    }

    /// Returns true while somebody is about to say what is wanted.
    pub(crate) fn is_called(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Returns the requests that have come, with their callers.
    pub(crate) fn requests(&mut self) -> Vec<(Call, Request)> {
        let mut requests = Vec::new();
        // Those who find no room wait to be accepted: the kernel rings for each once.
        while self.accept() {
            self.read(&mut requests);
            if self.calls.len() >= MOST {
                return requests;
            }
        }
        self.read(&mut requests);
        requests
    }

    /// Accepts callers while there is room. Returns true if more of them may wait.
    fn accept(&mut self) -> bool {
        while self.calls.len() < MOST {
            let Ok((stream, _)) = self.listener.accept() else {
                return false;
            };
            let of_user = getsockopt(&stream, sockopt::PeerCredentials)
                .is_ok_and(|peer| peer.uid() == nix::unistd::geteuid().as_raw());
            if of_user && stream.set_nonblocking(true).is_ok() {
                rings(stream.as_fd());
                self.calls.push(Call {
                    stream,
                    bytes: Vec::new(),
                    since: Instant::now(),
                });
            }
        }
        true
    }

    /// Reads what callers have sent. Whole requests are taken, and wrong ones answered.
    fn read(&mut self, requests: &mut Vec<(Call, Request)>) {
        for mut call in std::mem::take(&mut self.calls) {
            let ended = call.read();
            match request::parse(&call.bytes) {
                Ok(Some(request)) => requests.push((call, request)),
                Ok(None) if !ended && call.since.elapsed() < PATIENCE => self.calls.push(call),
                Ok(None) => call.refuse("the request is not whole"),
                Err(why) => call.refuse(&why),
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Call {
    /// Reads what there is. Returns true if no more comes.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        while self.bytes.len() <= request::MOST_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(n) => self.bytes.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() != ErrorKind::WouldBlock,
            }
        }
        true
    }

    /// Answers that the process is of another session.
    pub(crate) fn other(self) {
        self.say(b"other\n");
    }

    /// Answers that it is done.
    pub(crate) fn done(self, text: &str) {
        self.say(format!("ok {}\n{text}", text.len()).as_bytes());
    }

    /// Answers why it is not done.
    pub(crate) fn refuse(self, why: &str) {
        self.say(format!("error {}\n{why}", why.len()).as_bytes());
    }

    /// Who does not take the answer at once does not get it.
    fn say(mut self, answer: &[u8]) {
        let _ = self.stream.write_all(answer);
    }
}

/// Lets the kernel send the signal that ends the session's sleep, when there is something to read.
#[allow(unsafe_code)] // reason: commands of `fcntl` that the library lacks.
fn rings(socket: BorrowedFd<'_>) {
    const F_SETSIG: i32 = 10;
    let fd = socket.as_raw_fd();
    // SAFETY: a descriptor of ours; without it the session notices callers later.
    unsafe {
        libc::fcntl(fd, libc::F_SETOWN, libc::getpid());
        libc::fcntl(fd, F_SETSIG, libc::SIGCHLD);
        let flags = libc::fcntl(fd, libc::F_GETFL);
        libc::fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(name: &str) -> Control {
        let path = std::env::temp_dir().join(format!("trommel-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        listener.set_nonblocking(true).expect("set");
        Control {
            listener,
            path,
            calls: Vec::new(),
        }
    }

    fn callers(control: &Control, count: usize, say: &[u8]) -> Vec<UnixStream> {
        let caller = |_| {
            let mut stream = UnixStream::connect(&control.path).expect("connected");
            stream.write_all(say).expect("sent");
            stream
        };
        (0..count).map(caller).collect()
    }

    /// Many call in one moment: each is heard, and at once.
    #[test]
    fn all_who_call_at_a_time_are_heard() {
        let mut control = control("many");
        let all = callers(&control, 5 * MOST + 1, b"trommel 1 list 7\n");
        assert_eq!(control.requests().len(), all.len());
        assert!(!control.is_called());
    }

    /// Those who say nothing keep the others waiting for a moment, and nobody is sent away for their sake.
    #[test]
    fn silent_callers_turn_nobody_away() {
        let mut control = control("silent");
        let silent = callers(&control, MOST, b"trommel 1 li");
        assert!(control.requests().is_empty());
        let others = callers(&control, 3, b"trommel 1 list 7\n");
        assert!(control.requests().is_empty() && control.is_called());
        drop(silent);
        let mut heard = 0;
        for _ in 0..3 {
            heard += control.requests().len();
        }
        assert_eq!(heard, others.len());
    }
}
