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
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use crate::births::{Births, Seen};
use crate::family::Family;
use crate::pacer::Pacer;
use crate::running::proc_text;

/// A process that is known, its family, and the period of its windows.
pub type Known = (Pid, Rc<Family>, Duration);

/// Those that have not taken a slot yet.
#[derive(Default)]
pub struct Relatives {
    waiting: HashMap<Pid, (Pacer, Rc<Family>, Duration)>,
    looked: Option<Instant>,
    seen: Seen,
}

impl Relatives {
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

/// Whether two processes run in the same memory, or that is not known.
pub fn share_memory(one: Pid, other: Pid) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: no memory is passed.
    let order =
        unsafe { libc::syscall(libc::SYS_kcmp, one.as_raw(), other.as_raw(), KCMP_VM, 0, 0) };
    order <= 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

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
