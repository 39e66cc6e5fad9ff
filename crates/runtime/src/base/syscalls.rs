//! System calls by what the runtime has to do with them.

use linux_raw_sys::general as nr;

/// `IO_PGETEVENTS`
pub const IO_PGETEVENTS: u32 = 333;
/// `IO_URING_ENTER`
pub const IO_URING_ENTER: u32 = 426;
/// `EPOLL_PWAIT2`
pub const EPOLL_PWAIT2: u32 = 441;

/// The system calls handled here.
pub const SEEN: [u32; 35] = [
    nr::__NR_mmap,
    nr::__NR_mprotect,
    nr::__NR_munmap,
    nr::__NR_mremap,
    nr::__NR_madvise,
    nr::__NR_remap_file_pages,
    nr::__NR_pkey_mprotect,
    nr::__NR_shmat,
    nr::__NR_rt_sigaction,
    nr::__NR_rt_sigreturn,
    nr::__NR_sigaltstack,
    nr::__NR_clone,
    nr::__NR_clone3,
    nr::__NR_fork,
    nr::__NR_vfork,
    nr::__NR_execve,
    nr::__NR_execveat,
    nr::__NR_unshare,
    nr::__NR_setns,
    nr::__NR_exit,
    nr::__NR_exit_group,
    nr::__NR_arch_prctl,
    nr::__NR_prctl,
    nr::__NR_seccomp,
    nr::__NR_process_vm_writev,
    nr::__NR_userfaultfd,
    nr::__NR_io_setup,
    nr::__NR_io_uring_setup,
    WAITS[0],
    WAITS[1],
    WAITS[2],
    WAITS[3],
    WAITS[4],
    WAITS[5],
    WAITS[6],
];

/// Those that start a thread or a process.
pub const STARTS: [u32; 4] = [
    nr::__NR_clone,
    nr::__NR_clone3,
    nr::__NR_fork,
    nr::__NR_vfork,
];

/// The calls handled here.
pub const WAITS: [u32; 7] = [
    nr::__NR_rt_sigsuspend,
    nr::__NR_ppoll,
    nr::__NR_pselect6,
    nr::__NR_epoll_pwait,
    EPOLL_PWAIT2,
    IO_PGETEVENTS,
    IO_URING_ENTER,
];

/// Calls that open files.
pub const OPENING: [u32; 2] = [nr::__NR_open, nr::__NR_openat];
