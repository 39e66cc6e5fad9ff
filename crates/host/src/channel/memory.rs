//! The limit on memory for counting.
//!
//! Counts of values are exact as long as they fit: a program that loads pointers and checksums sees
//! hundreds of millions of different ones. All that a run counts has one budget. By default that is a
//! quarter of the memory that is available when the counts begin to be large, and at most [`MOST`]. So
//! a profiler's memory does not depend on how long a build runs.

// The allocator's own call.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::fs;
use std::path::Path;

/// Memory for counts below which the limit does not matter.
const SMALL: u64 = 64 << 20;
/// The largest budget that is taken without being asked for.
const MOST: u64 = 2 << 30;

/// The budget of a run, in bytes.
#[derive(Debug, Default)]
pub struct Budget {
    used: Cell<u64>,
    limit: Cell<Option<u64>>,
}

impl Budget {
    /// A budget of so much; by default the machine decides.
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            used: Cell::new(0),
            limit: Cell::new(limit),
        }
    }

    /// Takes note that `now` is used where it was `before`.
    pub fn change(&self, before: u64, now: u64) {
        self.used.set(self.used.get().saturating_sub(before) + now);
    }

    /// Returns whether so much is used that what was given back should go back to the system too.
    pub fn is_large(&self) -> bool {
        self.used.get() > SMALL
    }

    /// Returns whether `more` would be too much.
    pub fn is_exceeded_by(&self, more: u64) -> bool {
        let wanted = self.used.get() + more;
        match self.limit.get() {
            Some(limit) => wanted > limit,
            None => wanted > SMALL && wanted > self.limit(),
        }
    }

    /// Returns whether `own` bytes, which are used, are half of it or more, or nothing is left of it.
    pub fn is_half(&self, own: u64) -> bool {
        let matters = self.limit.get().is_some() || own > SMALL / 2;
        matters && own >= self.limit() / 2 || self.is_exceeded_by(0)
    }

    /// All of it.
    pub fn limit(&self) -> u64 {
        if let Some(limit) = self.limit.get() {
            return limit;
        }
        let there = [of_machine(), of_group()].into_iter().flatten().min();
        // What is used already was available before.
        let there = there.map(|free| (free.saturating_add(self.used.get())) / 4);
        let limit = there.unwrap_or(MOST).clamp(SMALL, MOST);
        self.limit.set(Some(limit));
        limit
    }
}

/// Gives memory that was freed back to the system, which the allocator does for the end of its heap only.
pub fn give_back() {
    // SAFETY: has no effect but on memory that is free.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the memory that the machine could give without writing memory to disk.
fn of_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Returns the memory that our control group, and those around it, have left.
fn of_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|l| l.strip_prefix("0::/"))?;
    let whole = Path::new("/sys/fs/cgroup");
    let all = whole.join(group);
    let all = all.ancestors().take_while(|at| at.starts_with(whole));
    let left = |at: &Path| {
        let most = number(&at.join("memory.max"))?;
        Some(most.saturating_sub(number(&at.join("memory.current")).unwrap_or(0)))
    };
    all.filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_some_memory_and_a_limit_given_is_kept() {
        let budget = Budget::default();
        assert!(!budget.is_exceeded_by(SMALL));
        assert!(budget.is_exceeded_by(1 << 50));
        assert!((SMALL..=MOST).contains(&budget.limit()));
        let budget = Budget::new(Some(1000));
        budget.change(0, 600);
        assert!(budget.is_exceeded_by(401) && !budget.is_exceeded_by(400));
        budget.change(600, 100);
        assert!(!budget.is_exceeded_by(900));
        assert!(budget.is_half(500) && !budget.is_half(499));
        budget.change(100, 1001);
        assert!(budget.is_half(0));
        assert!(!Budget::default().is_half(SMALL / 2));
    }
}
