//! System calls that threads were stopped in: made again, as the kernel would.

use std::fs;

use libc::user_regs_struct as Regs;
use nix::unistd::Pid;

use super::{SYSCALL_BYTES, Tracees};

/// Puts a thread that was stopped in a system call back to it, as the kernel would to make it again.
/// Returns the kernel's number for how, or 0. `spurious`: it says EINTR for no reason.
pub fn make_again(regs: &mut Regs, spurious: bool) -> u32 {
    const ERESTARTSYS: i64 = 512;
    const ERESTARTNOINTR: i64 = 513;
    const ERESTARTNOHAND: i64 = 514;
    const ERESTART_RESTARTBLOCK: i64 = 516;
    if (regs.orig_rax as i64) < 0 {
        return 0;
    }
    let code = match -(regs.rax as i64) {
        _ if spurious => ERESTARTNOHAND,
        code @ (ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | ERESTART_RESTARTBLOCK) => code,
        _ => return 0,
    };
    regs.rax = match code {
        ERESTART_RESTARTBLOCK => libc::SYS_restart_syscall as u64,
        _ => regs.orig_rax,
    };
    regs.orig_rax = u64::MAX;
    regs.rip -= SYSCALL_BYTES;
    code as u32
}

impl Tracees {
    /// Returns whether a system call that a thread was stopped in says EINTR only because it was stopped, and
    /// can be made again.
    pub fn spurious(&self, tid: Pid, regs: &Regs) -> bool {
        // Those that neither restart by themselves nor have done anything when they say so.
        const IO_PGETEVENTS: i64 = 333;
        const AGAIN: [i64; 24] = [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_accept,
            libc::SYS_accept4,
            libc::SYS_connect,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_recvfrom,
            libc::SYS_recvmsg,
            libc::SYS_recvmmsg,
            libc::SYS_sendmmsg,
            libc::SYS_semop,
            libc::SYS_semtimedop,
            libc::SYS_msgsnd,
            libc::SYS_msgrcv,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_io_getevents,
            IO_PGETEVENTS,
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_io_uring_enter,
        ];
        regs.rax as i64 == -i64::from(libc::EINTR)
            && AGAIN.contains(&(regs.orig_rax as i64))
            && !self.has_signal(tid)
    }

    /// Returns whether a signal waits that is not blocked.
    fn has_signal(&self, tid: Pid) -> bool {
        let path = format!("/proc/{}/task/{tid}/status", self.pid);
        let status = fs::read_to_string(path).unwrap_or_default();
        let mask = |name: &str| {
            let line = status.lines().find_map(|l| l.strip_prefix(name));
            line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok())
                .unwrap_or(0)
        };
        (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
    }
}
