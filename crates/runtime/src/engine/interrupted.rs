//! A system call that a thread was stopped in when it was attached.

use crate::base::address::AppPc;
use crate::base::signals::Ucontext;

const SYSCALL_BYTES: u64 = 2;

/// A system call that is to be made again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted {
    pub(crate) at: AppPc,
    pub(crate) number: u64,
    pub(crate) code: u32,
}

impl Interrupted {
    /// Returns whether the kernel forgets how to continue the call when a signal handler returns, and the call
    /// is the next thing that the app does. Then the thread must not leave by way of a handler.
    pub fn is_fragile(&self, pc: AppPc) -> bool {
        const ERESTART_RESTARTBLOCK: u32 = 516;
        self.code == ERESTART_RESTARTBLOCK && self.at == pc
    }

    /// A signal is delivered to a handler with these flags, and the thread is where `frame` says: if
    /// the call has not been made again yet, it ends as the kernel would have ended it.
    pub fn finish(&self, frame: &mut Ucontext, flags: u64) {
        const ERESTARTSYS: u32 = 512;
        const ERESTARTNOINTR: u32 = 513;
        const SA_RESTART: u64 = 0x1000_0000;
        const EINTR: i64 = -4;
        let made_again =
            self.code == ERESTARTNOINTR || self.code == ERESTARTSYS && flags & SA_RESTART != 0;
        if frame.rip == self.at.0 && *frame.reg(0) == self.number && !made_again {
            frame.rip += SYSCALL_BYTES;
            *frame.reg(0) = EINTR as u64;
        }
    }
}
