//! State of this process at its start that a started program must find.
// System calls that the C library restricts.
#![allow(unsafe_code)]

/// State of this process at its start that a program must find unchanged: Rust's start-up code, or we, changed it since.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inherited {
    /// Standard descriptors to close.
    pub closed: [bool; 3],
    /// Signals that were ignored: bit `n - 1` is signal `n`.
    pub ignored: u64,
    /// Signals that were blocked.
    pub blocked: u64,
    /// Limits, soft and hard, of [`RAISED`], if these were raised.
    pub limits: Option<[[u64; 2]; RAISED.len()]>,
}

/// Limits that would be in our way, and are raised for us: processor time, size of files, memory, descriptors.
pub const RAISED: [libc::__rlimit_resource_t; 5] = [
    libc::RLIMIT_CPU,
    libc::RLIMIT_FSIZE,
    libc::RLIMIT_DATA,
    libc::RLIMIT_AS,
    libc::RLIMIT_NOFILE,
];

/// Raises a limit of this process as far as it goes. Returns it as it was. Async-signal-safe.
pub fn raise_limit(resource: libc::__rlimit_resource_t) -> [u64; 2] {
    let mut old = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: structures that live here.
    unsafe {
        libc::getrlimit(resource, &raw mut old);
        let all = libc::rlimit {
            rlim_cur: libc::RLIM_INFINITY,
            rlim_max: libc::RLIM_INFINITY,
        };
        let most = libc::rlimit {
            rlim_cur: old.rlim_max,
            rlim_max: old.rlim_max,
        };
        let is_most = old.rlim_cur == libc::RLIM_INFINITY
            || resource == libc::RLIMIT_NOFILE && old.rlim_cur == old.rlim_max;
        // The first needs a privilege.
        if !is_most
            && (resource == libc::RLIMIT_NOFILE || libc::setrlimit(resource, &raw const all) != 0)
        {
            libc::setrlimit(resource, &raw const most);
        }
    }
    [old.rlim_cur, old.rlim_max]
}

/// Sets a limit of this process. Async-signal-safe.
fn set_limit(resource: libc::__rlimit_resource_t, [soft, hard]: [u64; 2]) {
    let limit = libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    // SAFETY: a structure that lives here.
    unsafe { libc::setrlimit(resource, &raw const limit) };
}

impl Inherited {
    /// Restores it in the child, before `exec`. A traced child stops by SIGTRAP after its `exec`, so SIGTRAP stays
    /// unblocked until that stop.
    pub fn restore(self, traced: bool) {
        for fd in (0..3).filter(|&fd| self.closed[fd as usize]) {
            // SAFETY: async-signal-safe, and nothing of the child uses the descriptor.
            unsafe { libc::close(fd) };
        }
        for signal in 1..=64 {
            let ignored = self.ignored & (1 << (signal - 1)) != 0;
            if ignored || signal == libc::SIGPIPE {
                set_action(
                    signal,
                    if ignored {
                        libc::SIG_IGN
                    } else {
                        libc::SIG_DFL
                    },
                );
            }
        }
        for (resource, limit) in RAISED.into_iter().zip(self.limits.into_iter().flatten()) {
            set_limit(resource, limit);
        }
        set_blocked(self.blocked & !(u64::from(traced) << (libc::SIGTRAP - 1)));
    }
}

/// Sets the action of a signal by the system call: the C library refuses the two signals that it uses itself.
/// Async-signal-safe.
pub fn set_action(signal: i32, action: libc::sighandler_t) {
    // The kernel's structure: handler, flags, restorer, mask.
    let action = [action as u64, 0, 0, 0];
    // SAFETY: the kernel reads a structure that lives here. Neither action runs code.
    unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, &raw const action, 0, 8) };
}

/// Sets the mask of blocked signals, with the two that the C library keeps to itself. Async-signal-safe.
pub fn set_blocked(blocked: u64) {
    // SAFETY: the kernel reads eight bytes that live here.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const blocked,
            0,
            8,
        )
    };
}
