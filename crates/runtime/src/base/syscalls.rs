//! The kernel's system calls: what the runtime does about each, and what the kernel writes for it.
//!
//! # Problem
//! Most calls are made from the cache, unseen. Some must be seen always: see [`Role`]. While the runtime protects pages, those that
//! write memory must be seen too, as the kernel's own store into a protected page would fail the call.
//!
//! # Strategy
//! One table, a row for each call of x86-64 in the order of numbers. A row says which arguments the kernel writes to, and
//! how much. A call that has no row is newer than the table: all its arguments are taken for structures.
//!
//! Memory that is written later than the call that named it is not in the table: see `engine::kernel_writes`.

use linux_raw_sys::general as nr;

/// `__NR_io_pgetevents`
pub const IO_PGETEVENTS: u32 = nr::__NR_io_pgetevents;
/// `__NR_io_uring_enter`
pub const IO_URING_ENTER: u32 = nr::__NR_io_uring_enter;
/// `__NR_epoll_pwait2`
pub const EPOLL_PWAIT2: u32 = nr::__NR_epoll_pwait2;

/// The runtime's part in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// No part: the call is made in place.
    Plain,
    /// The runtime makes the call itself.
    Handled,
    /// The runtime makes the call itself, which starts a thread or a process.
    Starts,
    /// The runtime makes the call itself, which waits with a signal mask of its own.
    Waits,
    /// The runtime looks at the file: the call opens one, or cuts it short.
    Opens,
    /// The runtime looks at what comes: the call may bring descriptors of another process.
    Receives,
    /// The runtime looks at the file once there may be descriptors that it did not see opened: the call writes to a file.
    WritesFiles,
    /// The runtime looks at the file once the process may read its own status: the call reads a file.
    ReadsFiles,
}

/// Memory that the kernel writes for a call. The first number is the argument with the address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// A fixed number of bytes.
    Fixed(u8, u16),
    /// Bytes, as many as another argument says.
    Buffer(u8, u8),
    /// A word, and as many bytes as another argument says.
    Text(u8, u8),
    /// Elements of so many bytes, as many as another argument says.
    Array(u8, u8, u16),
    /// A byte for each page of as many bytes as another argument says.
    Pages(u8, u8),
    /// Bytes, as many as the word says that another argument leads to, and that word.
    Sized(u8, u8),
    /// The buffers of a list, of which another argument says the length.
    Vectors(u8, u8),
    /// A `struct msghdr`, and where it leads.
    Message(u8),
    /// Several `struct mmsghdr`, as many as another argument says, and where they lead.
    Messages(u8, u8),
    /// A structure of a size that depends on the call.
    Structure(u8),
    /// A structure as that, and what its words lead to.
    Deep(u8),
    /// A structure as that, of which another argument, the number of a request, may say the size.
    Control(u8, u8),
    /// A bit for each of as many things as another argument says.
    Bits(u8, u8),
}

use Role::{Handled, Opens, Plain, ReadsFiles, Receives, Starts, Waits, WritesFiles};
use Write::{
    Array, Bits, Buffer, Control, Deep, Fixed, Message, Messages, Pages, Sized, Structure, Text,
    Vectors,
};

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Number of the call.
    pub number: u32,
    /// The runtime's part in it.
    pub role: Role,
    /// Memory that the kernel writes for it.
    pub writes: &'static [Write],
}

const fn row(number: u32, role: Role, writes: &'static [Write]) -> Row {
    Row {
        number,
        role,
        writes,
    }
}

/// Table of all calls, by number.
#[rustfmt::skip] // reason: a row a line
pub static TABLE: [Row; COUNT] = [
    row(nr::__NR_read, ReadsFiles, &[Buffer(1, 2)]),
    row(nr::__NR_write, WritesFiles, &[]),
    row(nr::__NR_open, Opens, &[]),
    row(nr::__NR_close, Plain, &[]),
    row(nr::__NR_stat, Plain, &[Fixed(1, 144)]),
    row(nr::__NR_fstat, Plain, &[Fixed(1, 144)]),
    row(nr::__NR_lstat, Plain, &[Fixed(1, 144)]),
    row(nr::__NR_poll, Plain, &[Array(0, 1, 8)]),
    row(nr::__NR_lseek, Plain, &[]),
    row(nr::__NR_mmap, Handled, &[]),
    row(nr::__NR_mprotect, Handled, &[]),
    row(nr::__NR_munmap, Handled, &[]),
    row(nr::__NR_brk, Handled, &[]),
    row(nr::__NR_rt_sigaction, Handled, &[Fixed(2, 32)]),
    row(nr::__NR_rt_sigprocmask, Handled, &[Fixed(2, 8)]),
    row(nr::__NR_rt_sigreturn, Handled, &[]),
    row(nr::__NR_ioctl, Plain, &[Control(1, 2)]),
    row(nr::__NR_pread64, ReadsFiles, &[Buffer(1, 2)]),
    row(nr::__NR_pwrite64, WritesFiles, &[]),
    row(nr::__NR_readv, ReadsFiles, &[Vectors(1, 2)]),
    row(nr::__NR_writev, WritesFiles, &[]),
    row(nr::__NR_access, Plain, &[]),
    row(nr::__NR_pipe, Plain, &[Fixed(0, 8)]),
    row(nr::__NR_select, Plain, &[Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, 16)]),
    row(nr::__NR_sched_yield, Plain, &[]),
    row(nr::__NR_mremap, Handled, &[]),
    row(nr::__NR_msync, Plain, &[]),
    row(nr::__NR_mincore, Plain, &[Pages(2, 1)]),
    row(nr::__NR_madvise, Handled, &[]),
    row(nr::__NR_shmget, Plain, &[]),
    row(nr::__NR_shmat, Handled, &[]),
    row(nr::__NR_shmctl, Plain, &[Structure(2)]),
    row(nr::__NR_dup, Plain, &[]),
    row(nr::__NR_dup2, Plain, &[]),
    row(nr::__NR_pause, Plain, &[]),
    row(nr::__NR_nanosleep, Plain, &[Fixed(1, 16)]),
    row(nr::__NR_getitimer, Plain, &[Fixed(1, 32)]),
    row(nr::__NR_alarm, Plain, &[]),
    row(nr::__NR_setitimer, Plain, &[Fixed(2, 32)]),
    row(nr::__NR_getpid, Plain, &[]),
    row(nr::__NR_sendfile, WritesFiles, &[Fixed(2, 8)]),
    row(nr::__NR_socket, Plain, &[]),
    row(nr::__NR_connect, Plain, &[]),
    row(nr::__NR_accept, Plain, &[Sized(1, 2)]),
    row(nr::__NR_sendto, Plain, &[]),
    row(nr::__NR_recvfrom, Plain, &[Buffer(1, 2), Sized(4, 5)]),
    row(nr::__NR_sendmsg, Plain, &[]),
    row(nr::__NR_recvmsg, Receives, &[Message(1)]),
    row(nr::__NR_shutdown, Plain, &[]),
    row(nr::__NR_bind, Plain, &[]),
    row(nr::__NR_listen, Plain, &[]),
    row(nr::__NR_getsockname, Plain, &[Sized(1, 2)]),
    row(nr::__NR_getpeername, Plain, &[Sized(1, 2)]),
    row(nr::__NR_socketpair, Plain, &[Fixed(3, 8)]),
    row(nr::__NR_setsockopt, Plain, &[]),
    row(nr::__NR_getsockopt, Plain, &[Sized(3, 4)]),
    row(nr::__NR_clone, Starts, &[Fixed(2, 4), Fixed(3, 4)]),
    row(nr::__NR_fork, Starts, &[]),
    row(nr::__NR_vfork, Starts, &[]),
    row(nr::__NR_execve, Handled, &[]),
    row(nr::__NR_exit, Handled, &[]),
    row(nr::__NR_wait4, Plain, &[Fixed(1, 4), Fixed(3, 144)]),
    row(nr::__NR_kill, Plain, &[]),
    row(nr::__NR_uname, Plain, &[Fixed(0, 390)]),
    row(nr::__NR_semget, Plain, &[]),
    row(nr::__NR_semop, Plain, &[]),
    row(nr::__NR_semctl, Plain, &[Fixed(3, 64000)]),
    row(nr::__NR_shmdt, Plain, &[]),
    row(nr::__NR_msgget, Plain, &[]),
    row(nr::__NR_msgsnd, Plain, &[]),
    row(nr::__NR_msgrcv, Plain, &[Text(1, 2)]),
    row(nr::__NR_msgctl, Plain, &[Structure(2)]),
    row(nr::__NR_fcntl, Plain, &[Structure(2)]),
    row(nr::__NR_flock, Plain, &[]),
    row(nr::__NR_fsync, Plain, &[]),
    row(nr::__NR_fdatasync, Plain, &[]),
    row(nr::__NR_truncate, Opens, &[]),
    row(nr::__NR_ftruncate, WritesFiles, &[]),
    row(nr::__NR_getdents, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_getcwd, Plain, &[Buffer(0, 1)]),
    row(nr::__NR_chdir, Plain, &[]),
    row(nr::__NR_fchdir, Plain, &[]),
    row(nr::__NR_rename, Plain, &[]),
    row(nr::__NR_mkdir, Plain, &[]),
    row(nr::__NR_rmdir, Plain, &[]),
    row(nr::__NR_creat, Opens, &[]),
    row(nr::__NR_link, Plain, &[]),
    row(nr::__NR_unlink, Plain, &[]),
    row(nr::__NR_symlink, Plain, &[]),
    row(nr::__NR_readlink, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_chmod, Plain, &[]),
    row(nr::__NR_fchmod, Plain, &[]),
    row(nr::__NR_chown, Plain, &[]),
    row(nr::__NR_fchown, Plain, &[]),
    row(nr::__NR_lchown, Plain, &[]),
    row(nr::__NR_umask, Plain, &[]),
    row(nr::__NR_gettimeofday, Plain, &[Fixed(0, 16), Fixed(1, 8)]),
    row(nr::__NR_getrlimit, Handled, &[Fixed(1, 16)]),
    row(nr::__NR_getrusage, Plain, &[Fixed(1, 144)]),
    row(nr::__NR_sysinfo, Plain, &[Fixed(0, 112)]),
    row(nr::__NR_times, Plain, &[Fixed(0, 32)]),
    row(nr::__NR_ptrace, Handled, &[Structure(2), Deep(3)]),
    row(nr::__NR_getuid, Plain, &[]),
    row(nr::__NR_syslog, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_getgid, Plain, &[]),
    row(nr::__NR_setuid, Plain, &[]),
    row(nr::__NR_setgid, Plain, &[]),
    row(nr::__NR_geteuid, Plain, &[]),
    row(nr::__NR_getegid, Plain, &[]),
    row(nr::__NR_setpgid, Plain, &[]),
    row(nr::__NR_getppid, Plain, &[]),
    row(nr::__NR_getpgrp, Plain, &[]),
    row(nr::__NR_setsid, Plain, &[]),
    row(nr::__NR_setreuid, Plain, &[]),
    row(nr::__NR_setregid, Plain, &[]),
    row(nr::__NR_getgroups, Plain, &[Array(1, 0, 4)]),
    row(nr::__NR_setgroups, Plain, &[]),
    row(nr::__NR_setresuid, Plain, &[]),
    row(nr::__NR_getresuid, Plain, &[Fixed(0, 4), Fixed(1, 4), Fixed(2, 4)]),
    row(nr::__NR_setresgid, Plain, &[]),
    row(nr::__NR_getresgid, Plain, &[Fixed(0, 4), Fixed(1, 4), Fixed(2, 4)]),
    row(nr::__NR_getpgid, Plain, &[]),
    row(nr::__NR_setfsuid, Plain, &[]),
    row(nr::__NR_setfsgid, Plain, &[]),
    row(nr::__NR_getsid, Plain, &[]),
    row(nr::__NR_capget, Plain, &[Fixed(0, 8), Fixed(1, 24)]),
    row(nr::__NR_capset, Plain, &[Fixed(0, 8)]),
    row(nr::__NR_rt_sigpending, Plain, &[Buffer(0, 1)]),
    row(nr::__NR_rt_sigtimedwait, Plain, &[Fixed(1, 128)]),
    row(nr::__NR_rt_sigqueueinfo, Plain, &[]),
    row(nr::__NR_rt_sigsuspend, Waits, &[]),
    row(nr::__NR_sigaltstack, Handled, &[Fixed(1, 24)]),
    row(nr::__NR_utime, Plain, &[]),
    row(nr::__NR_mknod, Plain, &[]),
    row(nr::__NR_uselib, Plain, &[]),
    row(nr::__NR_personality, Plain, &[]),
    row(nr::__NR_ustat, Plain, &[Fixed(1, 32)]),
    row(nr::__NR_statfs, Plain, &[Fixed(1, 120)]),
    row(nr::__NR_fstatfs, Plain, &[Fixed(1, 120)]),
    row(nr::__NR_sysfs, Plain, &[Structure(2)]),
    row(nr::__NR_getpriority, Plain, &[]),
    row(nr::__NR_setpriority, Plain, &[]),
    row(nr::__NR_sched_setparam, Plain, &[]),
    row(nr::__NR_sched_getparam, Plain, &[Fixed(1, 4)]),
    row(nr::__NR_sched_setscheduler, Plain, &[]),
    row(nr::__NR_sched_getscheduler, Plain, &[]),
    row(nr::__NR_sched_get_priority_max, Plain, &[]),
    row(nr::__NR_sched_get_priority_min, Plain, &[]),
    row(nr::__NR_sched_rr_get_interval, Plain, &[Fixed(1, 16)]),
    row(nr::__NR_mlock, Plain, &[]),
    row(nr::__NR_munlock, Plain, &[]),
    row(nr::__NR_mlockall, Handled, &[]),
    row(nr::__NR_munlockall, Handled, &[]),
    row(nr::__NR_vhangup, Plain, &[]),
    row(nr::__NR_modify_ldt, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_pivot_root, Plain, &[]),
    row(nr::__NR__sysctl, Plain, &[Structure(0)]),
    row(nr::__NR_prctl, Handled, &[Structure(1), Structure(2), Structure(3), Structure(4)]),
    row(nr::__NR_arch_prctl, Handled, &[Fixed(1, 8)]),
    row(nr::__NR_adjtimex, Plain, &[Fixed(0, 208)]),
    row(nr::__NR_setrlimit, Handled, &[]),
    row(nr::__NR_chroot, Plain, &[]),
    row(nr::__NR_sync, Plain, &[]),
    row(nr::__NR_acct, Plain, &[]),
    row(nr::__NR_settimeofday, Plain, &[]),
    row(nr::__NR_mount, Plain, &[]),
    row(nr::__NR_umount2, Plain, &[]),
    row(nr::__NR_swapon, Plain, &[]),
    row(nr::__NR_swapoff, Plain, &[]),
    row(nr::__NR_reboot, Plain, &[]),
    row(nr::__NR_sethostname, Plain, &[]),
    row(nr::__NR_setdomainname, Plain, &[]),
    row(nr::__NR_iopl, Plain, &[]),
    row(nr::__NR_ioperm, Plain, &[]),
    row(nr::__NR_create_module, Plain, &[]),
    row(nr::__NR_init_module, Plain, &[]),
    row(nr::__NR_delete_module, Plain, &[]),
    row(nr::__NR_get_kernel_syms, Plain, &[]),
    row(nr::__NR_query_module, Plain, &[]),
    row(nr::__NR_quotactl, Plain, &[Structure(3)]),
    row(nr::__NR_nfsservctl, Plain, &[]),
    row(nr::__NR_getpmsg, Plain, &[]),
    row(nr::__NR_putpmsg, Plain, &[]),
    row(nr::__NR_afs_syscall, Plain, &[]),
    row(nr::__NR_tuxcall, Plain, &[]),
    row(nr::__NR_security, Plain, &[]),
    row(nr::__NR_gettid, Plain, &[]),
    row(nr::__NR_readahead, Plain, &[]),
    row(nr::__NR_setxattr, Plain, &[]),
    row(nr::__NR_lsetxattr, Plain, &[]),
    row(nr::__NR_fsetxattr, Plain, &[]),
    row(nr::__NR_getxattr, Plain, &[Buffer(2, 3)]),
    row(nr::__NR_lgetxattr, Plain, &[Buffer(2, 3)]),
    row(nr::__NR_fgetxattr, Plain, &[Buffer(2, 3)]),
    row(nr::__NR_listxattr, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_llistxattr, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_flistxattr, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_removexattr, Plain, &[]),
    row(nr::__NR_lremovexattr, Plain, &[]),
    row(nr::__NR_fremovexattr, Plain, &[]),
    row(nr::__NR_tkill, Plain, &[]),
    row(nr::__NR_time, Plain, &[Fixed(0, 8)]),
    row(nr::__NR_futex, Plain, &[Fixed(0, 4), Fixed(4, 4)]),
    row(nr::__NR_sched_setaffinity, Plain, &[]),
    row(nr::__NR_sched_getaffinity, Plain, &[Buffer(2, 1)]),
    row(nr::__NR_set_thread_area, Plain, &[Fixed(0, 16)]),
    row(nr::__NR_io_setup, Handled, &[Fixed(1, 8)]),
    row(nr::__NR_io_destroy, Plain, &[]),
    row(nr::__NR_io_getevents, Plain, &[Array(3, 2, 32)]),
    row(nr::__NR_io_submit, Plain, &[]),
    row(nr::__NR_io_cancel, Plain, &[Fixed(2, 32)]),
    row(nr::__NR_get_thread_area, Plain, &[Fixed(0, 16)]),
    row(nr::__NR_lookup_dcookie, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_epoll_create, Plain, &[]),
    row(nr::__NR_epoll_ctl_old, Plain, &[]),
    row(nr::__NR_epoll_wait_old, Plain, &[Array(1, 2, 12)]),
    row(nr::__NR_remap_file_pages, Handled, &[]),
    row(nr::__NR_getdents64, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_set_tid_address, Plain, &[]),
    row(nr::__NR_restart_syscall, Plain, &[]),
    row(nr::__NR_semtimedop, Plain, &[]),
    row(nr::__NR_fadvise64, Plain, &[]),
    row(nr::__NR_timer_create, Plain, &[Fixed(2, 4)]),
    row(nr::__NR_timer_settime, Plain, &[Fixed(3, 32)]),
    row(nr::__NR_timer_gettime, Plain, &[Fixed(1, 32)]),
    row(nr::__NR_timer_getoverrun, Plain, &[]),
    row(nr::__NR_timer_delete, Plain, &[]),
    row(nr::__NR_clock_settime, Plain, &[]),
    row(nr::__NR_clock_gettime, Plain, &[Fixed(1, 16)]),
    row(nr::__NR_clock_getres, Plain, &[Fixed(1, 16)]),
    row(nr::__NR_clock_nanosleep, Plain, &[Fixed(3, 16)]),
    row(nr::__NR_exit_group, Handled, &[]),
    row(nr::__NR_epoll_wait, Plain, &[Array(1, 2, 12)]),
    row(nr::__NR_epoll_ctl, Plain, &[]),
    row(nr::__NR_tgkill, Plain, &[]),
    row(nr::__NR_utimes, Plain, &[]),
    row(nr::__NR_vserver, Plain, &[]),
    row(nr::__NR_mbind, Plain, &[]),
    row(nr::__NR_set_mempolicy, Plain, &[]),
    row(nr::__NR_get_mempolicy, Plain, &[Fixed(0, 4), Structure(1)]),
    row(nr::__NR_mq_open, Plain, &[]),
    row(nr::__NR_mq_unlink, Plain, &[]),
    row(nr::__NR_mq_timedsend, Plain, &[]),
    row(nr::__NR_mq_timedreceive, Plain, &[Buffer(1, 2), Fixed(3, 4)]),
    row(nr::__NR_mq_notify, Plain, &[]),
    row(nr::__NR_mq_getsetattr, Plain, &[Fixed(2, 64)]),
    row(nr::__NR_kexec_load, Plain, &[]),
    row(nr::__NR_waitid, Plain, &[Fixed(2, 128), Fixed(4, 144)]),
    row(nr::__NR_add_key, Plain, &[]),
    row(nr::__NR_request_key, Plain, &[]),
    row(nr::__NR_keyctl, Plain, &[Structure(1), Structure(2), Structure(3), Structure(4)]),
    row(nr::__NR_ioprio_set, Plain, &[]),
    row(nr::__NR_ioprio_get, Plain, &[]),
    row(nr::__NR_inotify_init, Plain, &[]),
    row(nr::__NR_inotify_add_watch, Plain, &[]),
    row(nr::__NR_inotify_rm_watch, Plain, &[]),
    row(nr::__NR_migrate_pages, Plain, &[]),
    row(nr::__NR_openat, Opens, &[]),
    row(nr::__NR_mkdirat, Plain, &[]),
    row(nr::__NR_mknodat, Plain, &[]),
    row(nr::__NR_fchownat, Plain, &[]),
    row(nr::__NR_futimesat, Plain, &[]),
    row(nr::__NR_newfstatat, Plain, &[Fixed(2, 144)]),
    row(nr::__NR_unlinkat, Plain, &[]),
    row(nr::__NR_renameat, Plain, &[]),
    row(nr::__NR_linkat, Plain, &[]),
    row(nr::__NR_symlinkat, Plain, &[]),
    row(nr::__NR_readlinkat, Plain, &[Buffer(2, 3)]),
    row(nr::__NR_fchmodat, Plain, &[]),
    row(nr::__NR_faccessat, Plain, &[]),
    row(nr::__NR_pselect6, Waits, &[Bits(1, 0), Bits(2, 0), Bits(3, 0), Fixed(4, 16)]),
    row(nr::__NR_ppoll, Waits, &[Array(0, 1, 8), Fixed(2, 16)]),
    row(nr::__NR_unshare, Handled, &[]),
    row(nr::__NR_set_robust_list, Plain, &[]),
    row(nr::__NR_get_robust_list, Plain, &[Fixed(1, 8), Fixed(2, 8)]),
    row(nr::__NR_splice, WritesFiles, &[Fixed(1, 8), Fixed(3, 8)]),
    row(nr::__NR_tee, Plain, &[]),
    row(nr::__NR_sync_file_range, Plain, &[]),
    row(nr::__NR_vmsplice, Plain, &[Vectors(1, 2)]),
    row(nr::__NR_move_pages, Plain, &[Array(4, 1, 4)]),
    row(nr::__NR_utimensat, Plain, &[]),
    row(nr::__NR_epoll_pwait, Waits, &[Array(1, 2, 12)]),
    row(nr::__NR_signalfd, Plain, &[]),
    row(nr::__NR_timerfd_create, Plain, &[]),
    row(nr::__NR_eventfd, Plain, &[]),
    row(nr::__NR_fallocate, WritesFiles, &[]),
    row(nr::__NR_timerfd_settime, Plain, &[Fixed(3, 32)]),
    row(nr::__NR_timerfd_gettime, Plain, &[Fixed(1, 32)]),
    row(nr::__NR_accept4, Plain, &[Sized(1, 2)]),
    row(nr::__NR_signalfd4, Plain, &[]),
    row(nr::__NR_eventfd2, Plain, &[]),
    row(nr::__NR_epoll_create1, Plain, &[]),
    row(nr::__NR_dup3, Plain, &[]),
    row(nr::__NR_pipe2, Plain, &[Fixed(0, 8)]),
    row(nr::__NR_inotify_init1, Plain, &[]),
    row(nr::__NR_preadv, Plain, &[Vectors(1, 2)]),
    row(nr::__NR_pwritev, WritesFiles, &[]),
    row(nr::__NR_rt_tgsigqueueinfo, Plain, &[]),
    row(nr::__NR_perf_event_open, Plain, &[Structure(0)]),
    row(nr::__NR_recvmmsg, Receives, &[Messages(1, 2), Fixed(4, 16)]),
    row(nr::__NR_fanotify_init, Plain, &[]),
    row(nr::__NR_fanotify_mark, Plain, &[]),
    row(nr::__NR_prlimit64, Handled, &[Fixed(3, 16)]),
    row(nr::__NR_name_to_handle_at, Plain, &[Structure(2), Fixed(3, 8)]),
    row(nr::__NR_open_by_handle_at, Opens, &[]),
    row(nr::__NR_clock_adjtime, Plain, &[Fixed(1, 208)]),
    row(nr::__NR_syncfs, Plain, &[]),
    row(nr::__NR_sendmmsg, Plain, &[Array(1, 2, 64)]),
    row(nr::__NR_setns, Handled, &[]),
    row(nr::__NR_getcpu, Plain, &[Fixed(0, 4), Fixed(1, 4), Fixed(2, 128)]),
    row(nr::__NR_process_vm_readv, Plain, &[Vectors(1, 2)]),
    row(nr::__NR_process_vm_writev, Handled, &[]),
    row(nr::__NR_kcmp, Plain, &[]),
    row(nr::__NR_finit_module, Plain, &[]),
    row(nr::__NR_sched_setattr, Plain, &[Structure(1)]),
    row(nr::__NR_sched_getattr, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_renameat2, Plain, &[]),
    row(nr::__NR_seccomp, Handled, &[Structure(2)]),
    row(nr::__NR_getrandom, Plain, &[Buffer(0, 1)]),
    row(nr::__NR_memfd_create, Plain, &[]),
    row(nr::__NR_kexec_file_load, Plain, &[]),
    row(nr::__NR_bpf, Plain, &[Deep(1)]),
    row(nr::__NR_execveat, Handled, &[]),
    row(nr::__NR_userfaultfd, Handled, &[]),
    row(nr::__NR_membarrier, Plain, &[]),
    row(nr::__NR_mlock2, Plain, &[]),
    row(nr::__NR_copy_file_range, WritesFiles, &[Fixed(1, 8), Fixed(3, 8)]),
    row(nr::__NR_preadv2, Plain, &[Vectors(1, 2)]),
    row(nr::__NR_pwritev2, WritesFiles, &[]),
    row(nr::__NR_pkey_mprotect, Handled, &[]),
    row(nr::__NR_pkey_alloc, Plain, &[]),
    row(nr::__NR_pkey_free, Plain, &[]),
    row(nr::__NR_statx, Plain, &[Fixed(4, 256)]),
    row(nr::__NR_io_pgetevents, Waits, &[Array(3, 2, 32)]),
    row(nr::__NR_rseq, Handled, &[]),
    row(nr::__NR_uretprobe, Plain, &[]),
    row(nr::__NR_pidfd_send_signal, Plain, &[]),
    row(nr::__NR_io_uring_setup, Handled, &[Fixed(1, 120)]),
    row(nr::__NR_io_uring_enter, Waits, &[]),
    row(nr::__NR_io_uring_register, Plain, &[Deep(2)]),
    row(nr::__NR_open_tree, Plain, &[]),
    row(nr::__NR_move_mount, Plain, &[]),
    row(nr::__NR_fsopen, Plain, &[]),
    row(nr::__NR_fsconfig, Plain, &[]),
    row(nr::__NR_fsmount, Plain, &[]),
    row(nr::__NR_fspick, Plain, &[]),
    row(nr::__NR_pidfd_open, Plain, &[]),
    row(nr::__NR_clone3, Starts, &[Deep(0)]),
    row(nr::__NR_close_range, Plain, &[]),
    row(nr::__NR_openat2, Opens, &[]),
    row(nr::__NR_pidfd_getfd, Receives, &[]),
    row(nr::__NR_faccessat2, Plain, &[]),
    row(nr::__NR_process_madvise, Handled, &[]),
    row(nr::__NR_epoll_pwait2, Waits, &[Array(1, 2, 12)]),
    row(nr::__NR_mount_setattr, Plain, &[]),
    row(nr::__NR_quotactl_fd, Plain, &[Structure(3)]),
    row(nr::__NR_landlock_create_ruleset, Plain, &[]),
    row(nr::__NR_landlock_add_rule, Plain, &[]),
    row(nr::__NR_landlock_restrict_self, Plain, &[]),
    row(nr::__NR_memfd_secret, Plain, &[]),
    row(nr::__NR_process_mrelease, Plain, &[]),
    row(nr::__NR_futex_waitv, Plain, &[Deep(0)]),
    row(nr::__NR_set_mempolicy_home_node, Plain, &[]),
    row(nr::__NR_cachestat, Plain, &[Fixed(2, 40)]),
    row(nr::__NR_fchmodat2, Plain, &[]),
    row(nr::__NR_map_shadow_stack, Plain, &[]),
    row(nr::__NR_futex_wake, Plain, &[Fixed(0, 4)]),
    row(nr::__NR_futex_wait, Plain, &[Fixed(0, 4)]),
    row(nr::__NR_futex_requeue, Plain, &[Deep(0)]),
    row(nr::__NR_statmount, Plain, &[Buffer(1, 2)]),
    row(nr::__NR_listmount, Plain, &[Array(1, 2, 8)]),
    row(nr::__NR_lsm_get_self_attr, Plain, &[Sized(1, 2)]),
    row(nr::__NR_lsm_set_self_attr, Plain, &[]),
    row(nr::__NR_lsm_list_modules, Plain, &[Sized(0, 1)]),
    row(nr::__NR_mseal, Handled, &[]),
    row(nr::__NR_setxattrat, Plain, &[]),
    row(nr::__NR_getxattrat, Plain, &[Deep(4)]),
    row(nr::__NR_listxattrat, Plain, &[Buffer(3, 4)]),
    row(nr::__NR_removexattrat, Plain, &[]),
    row(nr::__NR_open_tree_attr, Plain, &[]),
    row(nr::__NR_file_getattr, Plain, &[Buffer(2, 3)]),
    row(nr::__NR_file_setattr, Plain, &[]),
];

const COUNT: usize = 382;

/// Numbers of system calls that there may be.
pub const NUMBERS: u32 = 512;

/// The row of a call, if it has one.
pub fn row_of(number: u32) -> Option<&'static Row> {
    // Up to the first gap in the numbers, a row's place is its number.
    let at_number = TABLE
        .get(number as usize)
        .filter(|row| row.number == number);
    at_number.or_else(|| {
        let found = TABLE.binary_search_by_key(&number, |row| row.number);
        found.ok().map(|n| &TABLE[n])
    })
}

/// Returns the runtime's part in a call.
pub fn role(number: u32) -> Role {
    row_of(number).map_or(Plain, |row| row.role)
}

/// The calls with these roles.
pub fn with(roles: &'static [Role]) -> impl Iterator<Item = u32> {
    TABLE
        .iter()
        .filter(|row| roles.contains(&row.role))
        .map(|row| row.number)
}

/// Roles of calls that the runtime makes itself.
pub const MADE: &[Role] = &[Handled, Starts, Waits];

/// Returns whether the runtime makes a call itself.
pub fn is_made(number: u32) -> bool {
    MADE.contains(&role(number))
}

/// The calls that may write memory of the caller.
pub fn writing() -> impl Iterator<Item = u32> {
    let is_silent = |number: &u32| row_of(*number).is_some_and(|row| row.writes.is_empty());
    (0..NUMBERS).filter(move |number| !is_silent(number))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::format;

    use super::*;

    #[test]
    fn each_call_of_the_kernels_list_has_one_row() {
        let first = 0..=nr::__NR_uretprobe;
        let second = nr::__NR_pidfd_send_signal..=nr::__NR_file_setattr;
        assert!(TABLE.iter().map(|row| row.number).eq(first.chain(second)));
        let newest = nr::__NR_file_setattr + 1;
        assert!(row_of(newest).is_none() && writing().any(|number| number == newest));
    }

    /// The headers of the machine that the runtime is built on may be older or newer than those that its numbers are from.
    #[test]
    fn each_call_of_the_headers_has_a_row() {
        let places = ["x86_64-linux-gnu/asm", "asm"];
        let found = places.map(|place| format!("/usr/include/{place}/unistd_64.h"));
        let text = found
            .iter()
            .find_map(|path| std::fs::read_to_string(path).ok());
        let text = text.expect("headers of the kernel, which the C compiler needs too");
        let mut calls = 0;
        for line in text
            .lines()
            .filter_map(|line| line.strip_prefix("#define __NR_"))
        {
            let (name, number) = line.split_once(' ').expect("a number");
            let number: u32 = number.trim().parse().expect("a number");
            let newest = TABLE[COUNT - 1].number;
            assert!(row_of(number).is_some() || number > newest, "{name}");
            calls += 1;
        }
        assert!(calls > 350, "{calls}");
    }

    #[test]
    fn rows_name_arguments_that_there_are() {
        for row in &TABLE {
            for write in row.writes {
                let (at, other) = match *write {
                    Fixed(at, _) | Structure(at) | Deep(at) | Message(at) => (at, 0),
                    Buffer(at, n) | Text(at, n) | Array(at, n, _) | Pages(at, n) => (at, n),
                    Control(n, at) | Bits(at, n) => (at, n),
                    Sized(at, n) | Vectors(at, n) | Messages(at, n) => (at, n),
                };
                assert!(at < 6 && other < 6, "{row:?}");
            }
        }
    }

    #[test]
    fn calls_that_take_part_in_control_are_made_by_the_runtime() {
        for number in [
            nr::__NR_mmap,
            nr::__NR_clone3,
            nr::__NR_ppoll,
            nr::__NR_execve,
            nr::__NR_rt_sigprocmask,
        ] {
            assert!(is_made(number), "{number}");
        }
        for number in [nr::__NR_read, nr::__NR_write, nr::__NR_futex, 1000] {
            assert!(!is_made(number), "{number}");
        }
        assert_eq!(with(MADE).count(), 46);
    }
}
