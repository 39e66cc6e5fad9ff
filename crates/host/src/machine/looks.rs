//! Waits of threads where the kernel reports none to us: we look at the threads.
//!
//! # Problem
//! Reports of waits ([`super::waits`]) need privilege. Most users and containers have none.
//!
//! # Strategy
//! Some times in a second each thread is looked at, while the program goes on. `/proc/TID/syscall` says in which place a thread waits, and with what
//! stack pointer. Its stack is copied then. A second look tells whether it has waited all the while; if not, the copy is dropped. The time since
//! the last look counts for the path: it is a sample. How many waits there were, samples do not tell.
//!
//! # Invariants
//! * Nothing is stopped or changed: files are read, and memory is copied.
//! * What looking takes is a small part of a processor ([`COST`]), however many threads there are.
//! * Registers other than the stack pointer are not known. Where a frame needs one that no inner frame has saved, the path is broken there.

use std::fs;
use std::io::IoSliceMut;
use std::time::{Duration, Instant};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use trommel_profile::call_tree::Weight;

use crate::kernel::perf::records::{REGISTERS, Stack};
use crate::kernel::proc;

/// From one look to the next, at least.
const OFTEN: Duration = Duration::from_millis(10);
/// Looking takes one part in so many of a processor, at most.
const COST: u32 = 50;
/// Bytes of a stack that are copied.
const STACK: usize = 16 << 10;
/// Number of the stack pointer.
const RSP: usize = 4;

/// A thread that was found waiting.
pub(super) struct Found {
    pub(super) pid: u32,
    pub(super) stack: Stack,
    pub(super) weight: Weight,
}

/// Looks at the threads of a program.
pub(super) struct Looks {
    last: Instant,
    /// Time until the next look.
    pause: Duration,
    /// Threads of which nothing could be read.
    pub(super) refused: u64,
    /// Threads that were found waiting.
    pub(super) found: u64,
}

impl Looks {
    /// The first look is soon.
    pub(super) fn new() -> Self {
        Self {
            last: Instant::now(),
            pause: OFTEN,
            refused: 0,
            found: 0,
        }
    }

    /// Time until the next look is due.
    pub(super) fn due(&self) -> Duration {
        self.pause.saturating_sub(self.last.elapsed())
    }

    /// Looks at threads, each of a process.
    pub(super) fn look(&mut self, threads: impl Iterator<Item = (u32, u32)>) -> Vec<Found> {
        let began = Instant::now();
        let since = began.duration_since(self.last).as_nanos() as u64;
        self.last = began;
        let mut all = Vec::new();
        for (pid, tid) in threads {
            if let Some(stack) = self.waiting(pid, tid) {
                let weight = Weight {
                    times: 1,
                    own: since,
                };
                all.push(Found { pid, stack, weight });
            }
        }
        self.found += all.len() as u64;
        self.pause = OFTEN.max(began.elapsed() * COST);
        all
    }

    /// The stack of a thread that waits.
    fn waiting(&mut self, pid: u32, tid: u32) -> Option<Stack> {
        let (mut room, mut again) = ([0; 256], [0; 256]);
        let Some(text) = proc::read(tid as i32, b"syscall", &mut room) else {
            self.refused += 1;
            return None;
        };
        let (sp, pc) = place(text)?;
        let mut bytes = vec![0; STACK];
        let from = RemoteIoVec {
            base: usize::try_from(sp).ok()?,
            len: STACK,
        };
        // Up to the end of the stack, if that comes before.
        let there = copied(pid, from, &mut bytes)?;
        bytes.truncate(there);
        if proc::read(tid as i32, b"syscall", &mut again)? != text {
            return None;
        }
        let mut registers = [0; REGISTERS];
        registers[RSP] = sp;
        Some(Stack {
            pc,
            registers,
            is_cut: bytes.len() == STACK,
            bytes,
        })
    }
}

/// The threads of processes, each with its process.
pub(super) fn threads(pids: Vec<u32>) -> impl Iterator<Item = (u32, u32)> {
    pids.into_iter().flat_map(|pid| {
        let threads = fs::read_dir(format!("/proc/{pid}/task"));
        let names = threads.into_iter().flatten().flatten();
        names.filter_map(move |entry| Some((pid, entry.file_name().to_str()?.parse().ok()?)))
    })
}

/// Copies memory up to the first page that cannot be read. Returns the number of bytes.
fn copied(pid: u32, from: RemoteIoVec, to: &mut [u8]) -> Option<usize> {
    const PAGE: usize = 4096;
    let pid = Pid::from_raw(pid as i32);
    let first = (PAGE - from.base % PAGE).min(to.len());
    let mut pieces = vec![RemoteIoVec {
        base: from.base,
        len: first,
    }];
    // The kernel copies whole pieces, and ends at the first that it cannot.
    for base in (first..to.len()).step_by(PAGE) {
        pieces.push(RemoteIoVec {
            base: from.base + base,
            len: PAGE.min(to.len() - base),
        });
    }
    let got = process_vm_readv(pid, &mut [IoSliceMut::new(to)], &pieces);
    got.ok().filter(|got| *got > 0)
}

/// The stack pointer and the place of a thread that waits, of what `/proc/TID/syscall` says: a number and arguments of a call before, if it is in one.
fn place(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?.trim_ascii();
    if text == "running" {
        return None;
    }
    let mut words = text.rsplit(' ');
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (pc, sp) = (number()?, number()?);
    Some((sp, pc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_thread_that_waits_has_a_place() {
        let call = b"202 0x7f 0x80 0x0 0x0 0x0 0x0 0x7ffd10 0x7f0012\n";
        assert_eq!(place(call), Some((0x7ff_d10, 0x7f_0012)));
        assert_eq!(
            place(b"-1 0x7ffd10 0x7f0012\n"),
            Some((0x7ff_d10, 0x7f_0012))
        );
        assert_eq!(place(b"running\n"), None);
    }

    #[test]
    fn a_wait_counts_for_all_of_its_time() {
        let (told, waits) = std::sync::mpsc::channel::<()>();
        let (name, named) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = name.send(nix::unistd::gettid().as_raw() as u32);
            let _ = waits.recv();
        });
        let tid = named.recv().expect("it runs");
        let mut looks = Looks::new();
        let (mut times, mut own) = (0, 0);
        for _ in 0..20 {
            std::thread::sleep(looks.due());
            for found in looks.look(std::iter::once((std::process::id(), tid))) {
                times += found.weight.times;
                own += found.weight.own;
                let top = found.stack.registers[RSP];
                assert!(found.stack.pc > 4096 && top > 4096 && !found.stack.bytes.is_empty());
            }
        }
        // It may have been on its way to the wait at first.
        assert!((10..=20).contains(&times), "{times} samples");
        assert!(own > 100_000_000, "{own} ns");
        drop(told);
        let _ = thread.join();
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = place(&text);
        }
    }
}
