//! Process numbers, translated from a process's namespace to ours.
//!
//! In a namespace of its own a process has another number than outside. The kernel reports all numbers of
//! a process (`NSpid` in its status), but not which process has a number. So this module searches the processes
//! for one that has this number and our file in its memory. It does so only where the runtime says that
//! there may be such a namespace.

use std::fs;
use std::path::Path;

use nix::unistd::Pid;

use crate::channel::family::Family;

/// The last number of a process or thread, the one that it sees itself.
fn own_number(status: &Path) -> Option<i32> {
    let text = fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Returns whether a thread of a process, by our number for it, sees itself as `seen`.
pub fn is_seen_as(process: Pid, thread: Pid, seen: u32) -> bool {
    let status = format!("/proc/{process}/task/{thread}/status");
    own_number(Path::new(&status)) == i32::try_from(seen).ok()
}

/// The number by which a process sees itself.
pub fn seen_by_itself(process: Pid) -> Option<u32> {
    let own = own_number(Path::new(&format!("/proc/{process}/status")));
    own.and_then(|own| u32::try_from(own).ok())
}

/// Returns whether a process sees other numbers than we do.
pub fn are_other(process: Pid) -> bool {
    let own = own_number(Path::new(&format!("/proc/{process}/status")));
    own.is_some_and(|own| own != process.as_raw())
}

fn numbers(directory: &str) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process of a family that sees itself as `seen`.
pub fn process(seen: i32, family: &Family) -> Option<Pid> {
    let is_it = |pid: &i32| {
        own_number(Path::new(&format!("/proc/{pid}/status"))) == Some(seen)
            && family.is_mapped_by(Pid::from_raw(*pid))
    };
    numbers("/proc").find(is_it).map(Pid::from_raw)
}

/// The thread of a process that sees itself as `seen`.
pub fn thread(process: Pid, seen: i32) -> Option<Pid> {
    let directory = format!("/proc/{process}/task");
    let is_it =
        |tid: &i32| own_number(Path::new(&format!("{directory}/{tid}/status"))) == Some(seen);
    numbers(&directory).find(is_it).map(Pid::from_raw)
}

/// Returns whether a thread is one of a process.
pub fn is_thread_of(tid: Pid, process: Pid) -> bool {
    Path::new(&format!("/proc/{process}/task/{tid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_threads_are_found_by_what_they_see() {
        let family = Family::new().expect("memory");
        let own = std::process::id() as i32;
        // As in every namespace here: our own number is the one that others see.
        let seen = own_number(Path::new("/proc/self/status"));
        if seen == Some(own) {
            assert_eq!(process(own, &family), Some(Pid::from_raw(own)));
            assert_eq!(process(1, &family).filter(|_| own != 1), None);
            assert_eq!(thread(Pid::from_raw(own), own), Some(Pid::from_raw(own)));
            assert!(is_thread_of(Pid::from_raw(own), Pid::from_raw(own)));
            assert!(!is_thread_of(Pid::from_raw(1), Pid::from_raw(own)));
        }
    }
}
