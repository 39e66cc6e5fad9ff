//! A program that is stopped at each of its system calls, so that something can happen to it at a moment that is sure.
#![allow(unsafe_code, reason = "ptrace has no safe form")]

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use crate::stepper::OneProcessor;

/// A moment before a system call.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pid: i32,
    /// The call's number.
    pub call: i64,
    /// Its first three arguments.
    pub arguments: [u64; 3],
}

impl Moment {
    /// Sends the process a signal, which reaches it when it goes on.
    pub fn send(&self, signal: i32) {
        // SAFETY: no memory of ours. The process is a child that was not waited for.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Makes the call fail, as one that the kernel does not know. The moment is before the call.
    ///
    /// # Errors
    /// The kernel's.
    pub fn refuse(&self) -> io::Result<()> {
        let mut registers = registers(self.pid)?;
        registers.orig_rax = u64::MAX;
        let from = &raw mut registers;
        // SAFETY: the kernel reads a structure that lives here.
        match unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.pid, 0, from) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Runs a program of one thread, and calls `at` before each of its system calls.
///
/// # Errors
/// The kernel's: it may refuse `ptrace`.
pub fn each(
    command: &mut Command,
    mut at: impl FnMut(Moment) -> io::Result<()>,
) -> io::Result<ExitStatus> {
    // SAFETY: the closure runs between fork and exec and makes one system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let _together = OneProcessor::pin()?;
    let child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    let mut signal = 0;
    let mut is_new = true;
    loop {
        let mut status = 0;
        // SAFETY: one number of this function's own.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
            return Err(io::Error::last_os_error());
        }
        if !libc::WIFSTOPPED(status) {
            return Ok(ExitStatus::from_raw(status));
        }
        if std::mem::take(&mut is_new) {
            // SAFETY: a ptrace request on our stopped child, with no memory of ours.
            unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::c_long::from(options)) };
        } else if libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80 {
            let registers = registers(pid)?;
            // Before a call, this stands where its result will be.
            if registers.rax.cast_signed() == -i64::from(libc::ENOSYS) {
                at(moment(pid, &registers))?;
            }
        } else {
            signal = libc::WSTOPSIG(status);
        }
        let signal = libc::c_long::from(std::mem::take(&mut signal));
        // SAFETY: a ptrace request on our stopped child, with no memory of ours.
        if unsafe { libc::ptrace(libc::PTRACE_SYSCALL, pid, 0, signal) } != 0 {
            let error = io::Error::last_os_error();
            // It was killed: the next wait tells how it ended.
            if error.raw_os_error() != Some(libc::ESRCH) {
                return Err(error);
            }
        }
    }
}

fn moment(pid: i32, registers: &libc::user_regs_struct) -> Moment {
    Moment {
        pid,
        call: registers.orig_rax.cast_signed(),
        arguments: [registers.rdi, registers.rsi, registers.rdx],
    }
}

fn registers(pid: i32) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel writes the structure that lives here.
    if unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, registers.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: written above.
    Ok(unsafe { registers.assume_init() })
}
