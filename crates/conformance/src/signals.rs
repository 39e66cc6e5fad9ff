//! Treatment of signals that programs inherit.
#![allow(unsafe_code, reason = "sigaction has no safe form")]

/// Makes the signals of a terminal end programs that this process starts, as they do in a terminal:
/// a shell has what it runs in the background ignore them, and so does `nohup`.
pub fn of_a_terminal() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: no handler of ours is involved.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
