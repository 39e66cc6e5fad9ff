//! Processes that a program forks while it runs natively.
//!
//! # Problem
//! A program that is native between windows makes processes that we are not told of. Each has a copy of the
//! runtime in it that waits for a signal, and nobody sends one.
//!
//! # Strategy
//! The kernel lists the children of a thread. They are looked at every few milliseconds; each that has
//! the runtime's memory gets signals as its parent does. The first of them makes the runtime take a slot in the
//! directory (its `thread/copied.rs`), where the session finds it, and from then on it is a process like any other. One that
//! lives shorter than that is not seen, and has no cost.
//!
//! # Invariants
//! * No signal goes to a process that shares its memory with another (`vfork`): what it would be taken for is its parent.
// `kcmp` is in no library.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::channel::family::Family;
use crate::kernel::births::{Births, Seen};
use crate::kernel::maps::mappings;
use crate::kernel::running::{proc_file, proc_text};
use crate::windows::pacer::Pacer;

/// A process that is known, its family, and the period of its windows.
pub type Known = (Pid, Rc<Family>, Duration);

/// Forked children that have not taken a slot yet.
#[derive(Default)]
pub struct Forked {
    waiting: HashMap<Pid, (Pacer, Rc<Family>, Duration)>,
    looked: Option<Instant>,
    seen: Seen,
}

impl Forked {
    /// Looks for children of those that are known, if it is time, which comes so `often`, and there may be any new ones.
    pub fn look(
        &mut self,
        often: Duration,
        births: &mut Births,
        known: impl FnOnce() -> Vec<Known>,
    ) {
        if self.looked.is_some_and(|at| at.elapsed() < often) {
            return;
        }
        self.looked = Some(Instant::now());
        let births = births.generation();
        if !self.seen.is_news(births) && self.waiting.is_empty() {
            return;
        }
        let mut parents = known();
        let pids: Vec<Pid> = parents.iter().map(|(pid, ..)| *pid).collect();
        self.waiting.retain(|pid, (pacer, family, period)| {
            let there = !pids.contains(pid) && is_there(*pid);
            if there {
                parents.push((*pid, Rc::clone(family), *period));
                // Where the kernel refuses, it has refused the parent too, and that was told.
                let _ = pacer.look(family, None, births);
            }
            there
        });
        for (parent, family, period) in parents {
            for child in children(parent) {
                let new = !pids.contains(&child) && !self.waiting.contains_key(&child);
                if !new || !family.is_mapped_by(child) || share_memory(parent, child) {
                    continue;
                }
                let mut pacer = Pacer::new(child, Some(period)).at_random(often);
                let _ = pacer.look(&family, None, births);
                let family = Rc::clone(&family);
                self.waiting.insert(child, (pacer, family, period));
            }
        }
    }

    /// A process has a slot: its windows are begun by who serves it.
    pub fn has_begun(&mut self, pid: Pid) {
        self.waiting.remove(&pid);
    }

    /// No window begins any more in any of them.
    pub fn stop(&mut self) {
        self.waiting.clear();
    }
}

fn is_there(pid: Pid) -> bool {
    fs::exists(format!("/proc/{pid}/task")).unwrap_or(false)
}

/// The children of a process.
pub fn children(pid: Pid) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| proc_text(task.path().join("children").to_str()?));
    let words = lists.flat_map(|list| {
        let pids = list.split_ascii_whitespace();
        pids.filter_map(|word| word.parse().ok())
            .collect::<Vec<i32>>()
    });
    words.map(Pid::from_raw).collect()
}

/// Returns true if two processes run in the same memory, or that is not known.
pub fn share_memory(one: Pid, other: Pid) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: no memory is passed.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, one.as_raw(), other.as_raw(), KCMP_VM, 0, 0) };
    order <= 0
}

/// Returns true if nothing but one thread of a process, stopped, writes to its memory: no other thread, no process that runs in the same memory, and not the kernel
/// for rings of requests, or requests, that it has set up (`io_uring`, `io_setup`). What cannot be found out is so.
pub fn is_alone(pid: Pid) -> bool {
    const RING: &[u8] = b"anon_inode:[io_uring]";
    const REQUESTS: &[u8] = b"/[aio]";
    let count = |path: String| fs::read_dir(path).map(Iterator::count).ok();
    let one_thread = count(format!("/proc/{pid}/task")) == Some(1);
    let Ok(maps) = proc_file(&format!("/proc/{pid}/maps")) else {
        return false;
    };
    let asks = |path: &[u8]| path.starts_with(RING) || path.starts_with(REQUESTS);
    let is_mapped = mappings(&maps).any(|mapping| asks(mapping.path));
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let is_ring = |file: io::Result<fs::DirEntry>| {
        let name = file.and_then(|file| fs::read_link(file.path()));
        name.is_ok_and(|name| name.as_os_str().as_bytes().starts_with(RING))
    };
    let has_ring = files.into_iter().any(is_ring);
    let parent = parent(pid);
    let forked = children(pid).into_iter().chain(parent);
    let mut others = forked.filter(|other| share_memory(pid, *other));
    one_thread && !is_mapped && !has_ring && others.next().is_none()
}

/// The parent of a process, if it has one that can be seen.
fn parent(pid: Pid) -> Option<Pid> {
    let status = proc_text(&format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let parent = line.trim().parse().ok()?;
    (parent != 0).then(|| Pid::from_raw(parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn who_has_threads_is_not_alone_and_who_has_none_is() {
        let mut sleeps = Command::new("sleep").arg("100").spawn().expect("sleep");
        let pid = Pid::from_raw(sleeps.id() as i32);
        let limit = Instant::now() + Duration::from_secs(5);
        // Before its `exec` it runs in our memory.
        while !is_alone(pid) && Instant::now() < limit {
            std::thread::yield_now();
        }
        assert!(is_alone(pid));
        std::thread::scope(|scope| {
            let (say, hear) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || hear.recv());
            assert!(!is_alone(nix::unistd::getpid()));
            drop(say);
        });
        // No process has a number above 2^22.
        assert!(!is_alone(Pid::from_raw((1 << 22) + 1)));
        sleeps.kill().and_then(|()| sleeps.wait()).expect("its end");
    }

    #[test]
    fn children_are_found_and_have_memory_of_their_own() {
        let mut child = Command::new("sleep")
            .arg("100")
            .stdout(Stdio::null())
            .spawn()
            .expect("sleep runs");
        let (own, pid) = (nix::unistd::getpid(), Pid::from_raw(child.id() as i32));
        assert!(children(own).contains(&pid) && is_there(pid));
        assert!(share_memory(own, own) && !share_memory(own, pid));
        child.kill().expect("killed");
        child.wait().expect("waited for");
        assert!(!children(own).contains(&pid) && !is_there(pid));
        assert!(
            share_memory(own, pid),
            "of one that is gone nothing is known"
        );
    }
}
