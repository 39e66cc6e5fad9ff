//! Limits of a process that count what the runtime has in it.
//!
//! # Problem
//! Memory of the runtime counts for the program's `RLIMIT_AS` and `RLIMIT_DATA`, and the file that it shares with us takes a descriptor
//! for a moment. A program with such limits would have no room left, or the runtime none.
//!
//! # Strategy
//! The host raises the limits while the process is stopped, before anything is put in ([`Limits::make_room`]). It tells the runtime the
//! program's own, and the runtime makes the kernel's limits the program's and what is ours, exactly (its `base::limits`). If
//! nothing is put in after all, the host sets the limits back ([`Limits::restore`]).
//!
//! A hard limit is raised where we have the privilege (CAP_SYS_RESOURCE), by [`NEEDED`] and no more: the program could use that, if it
//! makes system calls that the runtime does not see. Where we have not, the limit stays, if it leaves [`NEEDED`] above what the program has mapped. The
//! runtime's memory counts then.
// `prlimit` of another process is not in `nix`.
#![allow(unsafe_code)]

use std::io;

use nix::unistd::Pid;
use trommel_queue::LIMITS;

/// A limit: soft and hard.
pub type Limit = [u64; 2];

const INFINITY: u64 = libc::RLIM_INFINITY;

/// The runtime's room at least, for each of [`LIMITS`]: the shared file and the code caches, the code caches, and some descriptors.
const NEEDED: Limit3 = [16 << 30, 4 << 30, 16];
type Limit3 = [u64; LIMITS.len()];

/// Limits of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits(pub [Limit; LIMITS.len()]);

/// Returns a limit of a process. With `new` sets it.
fn limit(pid: Pid, resource: u32, new: Option<Limit>) -> io::Result<Limit> {
    let structure = |[soft, hard]: Limit| libc::rlimit {
        rlim_cur: soft,
        rlim_max: hard,
    };
    let new = new.map(structure);
    let mut old = structure([0; 2]);
    let from = new.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the first structure is valid or null, and the second lives here.
    match unsafe { libc::prlimit(pid.as_raw(), resource, from, &raw mut old) } {
        0 => Ok([old.rlim_cur, old.rlim_max]),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a limit as `/proc` prints it.
fn printed(pid: Pid, resource: u32) -> io::Result<Limit> {
    let name = match resource {
        libc::RLIMIT_AS => "Max address space",
        libc::RLIMIT_DATA => "Max data size",
        _ => "Max open files",
    };
    let text = std::fs::read_to_string(format!("/proc/{pid}/limits"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let mut words = line.unwrap_or_default().split_ascii_whitespace();
    let mut word = || match words.next() {
        Some("unlimited") => Some(INFINITY),
        word => word?.parse().ok(),
    };
    let limit = word().zip(word()).map(|(soft, hard)| [soft, hard]);
    limit.ok_or_else(|| io::Error::other("its limits cannot be read"))
}

/// Returns whether a limit, at its place of [`LIMITS`], leaves the runtime room above what a process has mapped.
fn is_beyond_use(pid: Pid, place: usize, soft: u64) -> bool {
    let name = match LIMITS[place] {
        libc::RLIMIT_AS => "VmSize:",
        _ => "VmData:",
    };
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|line| line.split_ascii_whitespace().next());
    let kilobytes = word.and_then(|word| word.parse::<u64>().ok());
    kilobytes.is_some_and(|used| (used << 10).saturating_add(NEEDED[place]) <= soft)
}

impl Limits {
    /// Returns those of a process.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(pid: Pid) -> io::Result<Self> {
        let mut limits = [[INFINITY; 2]; LIMITS.len()];
        for (to, resource) in limits.iter_mut().zip(LIMITS) {
            *to = match limit(pid, resource, None) {
                // Another user's, which anybody may read as text.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => printed(pid, resource)?,
                limit => limit?,
            };
        }
        Ok(Self(limits))
    }

    /// Returns these, which a process reported about itself, where they are not above what the kernel has for it.
    pub fn within(self, kernel: &Self) -> Self {
        let mut limits = self.0;
        for (own, [_, hard]) in limits.iter_mut().zip(kernel.0) {
            own[1] = own[1].min(hard);
            own[0] = own[0].min(own[1]);
        }
        Self(limits)
    }

    /// Raises the kernel's limits of a process with these, so that the runtime has room.
    ///
    /// # Errors
    /// There is none, and we may not make any.
    pub fn make_room(&self, pid: Pid) -> io::Result<()> {
        const FILES: usize = 2;
        for (place, resource) in LIMITS.into_iter().enumerate() {
            let soft = self.0[place][0];
            if soft == INFINITY {
                continue;
            }
            let [now, hard] = limit(pid, resource, None).or_else(|_| printed(pid, resource))?;
            let wanted = soft.saturating_add(NEEDED[place]);
            if now == INFINITY || place == FILES && soft >= NEEDED[FILES] * 4 {
                continue;
            }
            let raised = match hard >= wanted {
                true => limit(pid, resource, Some([hard, hard])),
                false => limit(pid, resource, Some([wanted, wanted])),
            };
            let has_room = || is_beyond_use(pid, place, soft);
            if raised.is_err() && place != FILES && !has_room() {
                return Err(io::Error::other(
                    "its limit on memory (ulimit -v, ulimit -d) leaves no room for the runtime, and raising it needs CAP_SYS_RESOURCE, which root may lack in a container",
                ));
            }
        }
        Ok(())
    }

    /// Makes these the kernel's limits of a process again.
    pub fn restore(&self, pid: Pid) {
        for (own, resource) in self.0.into_iter().zip(LIMITS) {
            if limit(pid, resource, None).is_ok_and(|now| now != own) {
                // It may have ended.
                let _ = limit(pid, resource, Some(own));
            }
        }
    }
}

/// Does something for which a process needs a descriptor, though it may have no more.
pub fn with_a_file<T>(pid: Pid, make: impl FnOnce() -> T) -> io::Result<T> {
    let resource = libc::RLIMIT_NOFILE;
    let old @ [_, hard] = limit(pid, resource, None)?;
    let open = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64;
    let enough = open + NEEDED[2];
    let most = hard.max(enough);
    // Not all that it may have, if that is more than it could without privilege.
    limit(pid, resource, Some([most, most]))
        .or_else(|_| limit(pid, resource, Some([hard, hard])))?;
    let made = make();
    limit(pid, resource, Some(old))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn room_is_made_and_given_back() {
        let mut child = Command::new("sleep").arg("100").spawn().expect("sleep");
        let pid = Pid::from_raw(child.id() as i32);
        let [_, hard] = limit(pid, libc::RLIMIT_AS, None).expect("a child");
        let own = [1 << 30, hard];
        limit(pid, libc::RLIMIT_AS, Some(own)).expect("lower");
        let limits = Limits::of(pid).expect("a child");
        assert_eq!(limits.0[0], own);
        limits.make_room(pid).expect("the hard limit has room");
        assert_eq!(limit(pid, libc::RLIMIT_AS, None).ok(), Some([hard, hard]));
        for resource in LIMITS {
            assert_eq!(printed(pid, resource).ok(), limit(pid, resource, None).ok());
        }
        limits.restore(pid);
        assert_eq!(Limits::of(pid).ok(), Some(limits));
        let claimed = Limits([[5, 9], [INFINITY, INFINITY], [3, 2]]);
        let kernel = Limits([[1, 7], [8, 8], [9, 9]]);
        assert_eq!(claimed.within(&kernel), Limits([[5, 7], [8, 8], [2, 2]]));
        child.kill().expect("killed");
        child.wait().expect("waited for");
    }
}
