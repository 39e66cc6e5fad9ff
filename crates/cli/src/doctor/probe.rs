//! Trying things out: the answers that no file in `/proc` gives.
//!
//! Containers filter system calls and security modules refuse mappings without saying so anywhere,
//! so these probes do what the launcher will do, on a child or a page of their own.
#![allow(unsafe_code)] // reason: raw system calls are what is being tried.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Traces a child from its first instruction on, as a launch does.
pub(super) fn trace_a_child() -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: the closure makes one system call and touches no memory that the parent could have
    // had locked while it forked.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let mut child = command.spawn()?;
    let mut status = 0;
    // SAFETY: waits for our own child; `status` lives here.
    let waited =
        unsafe { libc::waitpid(child.id().cast_signed(), &raw mut status, libc::WUNTRACED) };
    let error = io::Error::last_os_error();
    let _ = child.kill();
    let _ = child.wait();
    match waited {
        -1 => Err(error),
        _ if libc::WIFSTOPPED(status) => Ok(()),
        _ => Err(io::Error::other(
            "the child did not stop at its first instruction",
        )),
    }
}

/// Makes a shared memory file and maps it.
pub(super) fn shared_memory() -> io::Result<()> {
    // SAFETY: a new descriptor of our own, closed below; the name is a C string.
    unsafe {
        let fd = libc::memfd_create(c"trommel-doctor".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let sized = libc::ftruncate(fd, 4096);
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            0,
        );
        let error = io::Error::last_os_error();
        libc::close(fd);
        if sized != 0 || page == libc::MAP_FAILED {
            return Err(error);
        }
        libc::munmap(page, 4096);
    }
    Ok(())
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
