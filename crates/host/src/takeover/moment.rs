//! Moments at which the threads of a process may be stopped without any of them noticing.
//!
//! # Problem
//! To be stopped ends the system call that a thread waits in. The kernel or we make it again, so the thread does not notice, but for
//! two kinds of calls. A transfer that has been done in part answers with that part. And some waits with a timeout
//! begin anew with all of their time, so that one which is stopped again and again would never end.
//!
//! # Strategy
//! Where there is a choice, no thread is stopped while one is in such a call. `/proc/PID/task/TID/syscall` names the call that a thread
//! waits in, with its arguments.
//!
//! # Limits
//! A thread may enter such a call between the look and the stop, which are some tens of microseconds apart. Timeouts of sockets
//! (`SO_RCVTIMEO`) do not show.

use std::fs;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

/// From one look to the next.
const PAUSE: Duration = Duration::from_millis(1);

/// The calls that threads of a process wait in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Calls {
    /// A thread is in a transfer that may have been done in part.
    pub(super) transfer: Option<Pid>,
    /// A thread is in a wait that would begin anew with all of its time.
    pub(super) timed: Option<Pid>,
}

impl Calls {
    /// Looks at all threads.
    pub(super) fn of(pid: Pid) -> Self {
        let mut found = Self::default();
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return found;
        };
        for thread in threads.flatten() {
            let Ok(line) = fs::read_to_string(thread.path().join("syscall")) else {
                continue;
            };
            let name = thread.file_name();
            let tid = name.to_str().and_then(|name| name.parse().ok());
            let tid = tid.map(Pid::from_raw);
            match kind(&line) {
                Kind::Transfer => found.transfer = tid,
                Kind::Timed => found.timed = tid,
                Kind::Other => {}
            }
        }
        found
    }

    /// Waits until it `fits`, for a while. Returns the calls at the end.
    pub(super) fn wait(pid: Pid, patience: Duration, fits: impl Fn(&Self) -> bool) -> Self {
        let limit = Instant::now() + patience;
        loop {
            let now = Self::of(pid);
            if fits(&now) || Instant::now() >= limit {
                return now;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the thread for which it is no moment to stop all, if there is one.
    pub(super) fn in_the_way(&self) -> Option<Pid> {
        self.transfer.or(self.timed)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Transfer,
    Timed,
    Other,
}

/// The kind of the call that a line of the kernel's names: a number and six arguments.
fn kind(line: &str) -> Kind {
    const WAIT_ALL: u64 = libc::MSG_WAITALL as u64;
    let mut words = line.split_ascii_whitespace();
    // A thread that runs has no number.
    let Some(number) = words.next().and_then(|word| word.parse::<i64>().ok()) else {
        return Kind::Other;
    };
    let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
    let args: Vec<u64> = words.filter_map(hex).collect();
    let arg = |n: usize| args.get(n).copied().unwrap_or(0);
    match number {
        libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendfile
        | libc::SYS_splice
        | libc::SYS_tee
        | libc::SYS_vmsplice
        | libc::SYS_copy_file_range
        | libc::SYS_getrandom => Kind::Transfer,
        libc::SYS_recvfrom if arg(3) & WAIT_ALL != 0 => Kind::Transfer,
        libc::SYS_recvmsg if arg(2) & WAIT_ALL != 0 => Kind::Transfer,
        // A negative number is no timeout, and 0 no wait.
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait if arg(3) as i32 > 0 => Kind::Timed,
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop if arg(3) != 0 => Kind::Timed,
        libc::SYS_rt_sigtimedwait if arg(2) != 0 => Kind::Timed,
        libc::SYS_io_getevents if arg(4) != 0 => Kind::Timed,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_told_apart() {
        let none = "0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe 0x7f00";
        assert_eq!(kind("running"), Kind::Other);
        assert_eq!(kind(&format!("-1 {none}")), Kind::Other);
        assert_eq!(kind(&format!("{} {none}", libc::SYS_write)), Kind::Transfer);
        assert_eq!(kind(&format!("{} {none}", libc::SYS_read)), Kind::Other);
        let epoll = |timeout: &str| format!("232 0x5 0x7ffe 0x10 {timeout} 0x0 0x0 0x7ffe 0x7f00");
        assert_eq!(kind(&epoll("0x64")), Kind::Timed);
        assert_eq!(kind(&epoll("0xffffffff")), Kind::Other);
        assert_eq!(kind(&epoll("0xffffffffffffffff")), Kind::Other);
    }

    #[test]
    fn a_thread_that_writes_is_found() {
        use std::io::{Read, Write};
        let (mut from, mut to) = std::io::pipe().expect("a pipe");
        let big = vec![0; 1 << 20];
        let all = big.len();
        let writer = std::thread::spawn(move || to.write_all(&big));
        let own = nix::unistd::getpid();
        let calls = Calls::wait(own, Duration::from_secs(60), |calls| {
            calls.transfer.is_some()
        });
        assert!(calls.in_the_way().is_some());
        let mut read = vec![0; all];
        from.read_exact(&mut read).expect("all of it");
        writer.join().expect("no panic").expect("written");
    }
}
