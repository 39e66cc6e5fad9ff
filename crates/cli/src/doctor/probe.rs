//! Trying things out: the answers that no file in `/proc` gives.
//!
//! Containers filter system calls and security modules refuse mappings without saying so anywhere,
//! so these probes do what the launcher will do, on a child or a page of their own.
#![allow(unsafe_code)] // reason: raw system calls are what is being tried.

use std::io;

/// Results of a launch, tried on a child of our own.
pub(super) struct Traced {
    /// Stopping it, reading its registers, changing its code and its signal mask.
    pub(super) ptrace: io::Result<()>,
    /// Writing and reading its memory in pieces.
    pub(super) memory: io::Result<()>,
}

/// Traces a child.
pub(super) fn trace_a_child() -> Traced {
    static WORD: u64 = 0;
    const MAY_NOT: i32 = 1;
    // SAFETY: the child makes system calls only, and ends without running anything else of ours.
    let child = unsafe { libc::fork() };
    match child {
        -1 => {
            return Traced {
                ptrace: Err(io::Error::last_os_error()),
                memory: Ok(()),
            };
        }
        0 => {
            // SAFETY: as above.
            unsafe {
                if libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) != -1 {
                    libc::raise(libc::SIGSTOP);
                }
                libc::_exit(MAY_NOT)
            }
        }
        _ => {}
    }
    let at = &raw const WORD;
    let ptrace = stopped(child).and_then(|()| {
        const GETSIGMASK: libc::c_uint = 0x420a;
        // SAFETY: all-zero is a valid set of registers, which the kernel fills; the mask and the
        // word are as large as said and live here. The word is written back as it was.
        let done = unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let mut mask = 0_u64;
            libc::ptrace(libc::PTRACE_GETREGS, child, 0, &raw mut registers) != -1
                && libc::ptrace(libc::PTRACE_SETREGS, child, 0, &raw const registers) != -1
                && libc::ptrace(GETSIGMASK, child, 8, &raw mut mask) != -1
                && libc::ptrace(libc::PTRACE_POKETEXT, child, at, 0) != -1
        };
        done.then_some(()).ok_or_else(io::Error::last_os_error)
    });
    let memory = match &ptrace {
        Ok(()) => exchange(child),
        Err(_) => Ok(()),
    };
    // SAFETY: our own child, waited for so that nothing stays.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    Traced { ptrace, memory }
}

/// Waits until a child has stopped.
fn stopped(child: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: waits for our own child; `status` lives here.
    match unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) } {
        -1 => Err(io::Error::last_os_error()),
        _ if libc::WIFSTOPPED(status) => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

/// Reads and writes a word on a stopped child's stack: it is where ours is, as it was forked.
fn exchange(child: i32) -> io::Result<()> {
    let mut word = 0_u64;
    let own = libc::iovec {
        iov_base: (&raw mut word).cast(),
        iov_len: size_of::<u64>(),
    };
    // SAFETY: both ranges are the word that lives here, in us and in the copy of us.
    let done = unsafe {
        libc::process_vm_readv(child, &raw const own, 1, &raw const own, 1, 0) == 8
            && libc::process_vm_writev(child, &raw const own, 1, &raw const own, 1, 0) == 8
    };
    done.then_some(()).ok_or_else(io::Error::last_os_error)
}

/// Maps memory that is written and executed, as the code cache is.
pub(super) fn writable_code() -> io::Result<()> {
    // SAFETY: a new page that nothing else refers to, unmapped below.
    unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(page, 4096);
    }
    Ok(())
}

/// A value of the auxiliary vector; 0 where it has none.
pub(super) fn auxiliary(kind: u64) -> u64 {
    // SAFETY: reads the vector that the kernel left on our stack.
    unsafe { libc::getauxval(kind) }
}

/// The soft limit of a resource; `None` for no limit.
pub(super) fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills the structure that lives here.
    let done = unsafe { libc::getrlimit(resource, &raw mut limit) };
    (done == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The effective user.
pub(super) fn user() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}
