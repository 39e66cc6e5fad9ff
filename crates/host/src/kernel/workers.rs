//! Threads of a process that execute nothing but the kernel's code.
//!
//! The kernel makes them for `io_uring` (`iou-wrk-…`, `iou-sqp-…`) and for guests of virtual machines (`vhost-…`). They are listed among
//! the process's threads, stop for a tracer, and never go on in the program. So nobody attaches to them, or waits for them.

use std::fs;

use nix::unistd::Pid;

/// `PF_IO_WORKER` and `PF_USER_WORKER` of the kernel's flags.
const WORKER: u64 = 0x4010;

/// Returns true for such a thread of a process.
pub fn is_worker(pid: Pid, tid: Pid) -> bool {
    if tid == pid {
        return false;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat"));
    stat.ok()
        .and_then(|stat| flags(&stat))
        .is_some_and(|flags| flags & WORKER != 0)
}

/// The flags in the kernel's line about a thread.
pub fn flags(stat: &str) -> Option<u64> {
    // After the name: state, parent, group, session, terminal and its group.
    let words = stat.rsplit_once(") ")?.1;
    words.split(' ').nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_after_any_name() {
        let line = "7 (a) S (b) c) S 1 2 3 0 -1 4210768 5 6";
        assert_eq!(flags(line), Some(4_210_768));
        assert_eq!(flags("7 (a) S 1"), None);
        assert_eq!(flags(""), None);
    }
}
