//! The program that a command has started.

use std::fs;
use std::process::Child;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Waits until a child of the command executes a program with this file name, which a busy machine may take its time for.
///
/// # Panics
/// When it has not within 20 seconds.
pub(crate) fn wait_for(command: &Child, name: &str) {
    let children = format!("/proc/{0}/task/{0}/children", command.id());
    let clock = Instant::now();
    loop {
        let pids = fs::read_to_string(&children).unwrap_or_default();
        let is = |pid: &str| {
            let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        };
        if pids.split_whitespace().any(is) {
            return;
        }
        assert!(
            clock.elapsed() < Duration::from_secs(20),
            "{name} does not start"
        );
        sleep(Duration::from_millis(1));
    }
}
