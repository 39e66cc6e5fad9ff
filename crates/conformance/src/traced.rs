//! A process that a test traces, as a debugger would.
// What the kernel offers tracers.
#![allow(unsafe_code)]

/// A thread that the calling thread traces until this is dropped. It runs meanwhile.
#[derive(Debug)]
pub struct Traced(i32);

impl Traced {
    /// Traces a thread, unless another process does.
    pub fn seize(tid: i32) -> Option<Self> {
        request(libc::PTRACE_SEIZE, tid).then_some(Self(tid))
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        if request(libc::PTRACE_INTERRUPT, self.0) {
            // SAFETY: a null pointer stands for no status.
            unsafe { libc::waitpid(self.0, std::ptr::null_mut(), libc::__WALL) };
            request(libc::PTRACE_DETACH, self.0);
        }
    }
}

fn request(request: libc::c_uint, tid: i32) -> bool {
    // SAFETY: no memory is involved.
    unsafe { libc::ptrace(request, tid, 0_u64, 0_u64) != -1 }
}
