//! Programs that know of us: requests, each of which is an instruction that does nothing.
//!
//! # Problem
//! A program may know what the engine has to find out, such as which code is hot or made while the program runs, and
//! may want to know what the engine does. It must run everywhere, and need nothing.
//!
//! # Strategy
//! The future work of Dynamo (Bala, Duesterwald, Banerjia, PLDI 2000, section 10), by an instruction with a mark
//! (`trommel_aware::MARK`) that no compiler makes. The decoder recognizes it. A fragment ends before it, and none starts with
//! it, so each request reaches the dispatcher. The answer is in `rax`, and the app goes on after the request, by way of the
//! dispatcher: a program may make requests one after the other without end. In windows the request is executed natively,
//! and does nothing.
//!
//! # Why it is correct
//! Natively the instruction changes nothing, so whatever the answer, the program must be prepared for it. Memory is
//! written for it by the kernel, which refuses what the program could not write. Hints change when
//! something is made, or make its code more careful; none makes it less so.
//!
//! | request | effect |
//! |---|---|
//! | hot | fragments in the range are counted from a number close to the end |
//! | jit | pages of the range are not protected: fragments made from them compare their code |
//! | volatile | nothing is made that leaves out an access to memory |
//! | changed | fragments of the range are compared with the code before they are executed again |
//! | stop, start | no events are collected, no queries asked and no paths recorded in between: everything is made anew |
//! | leave | the process is detached |
//! | open, close, flush | as [`crate::engine::served`] says: they may wait, so they are answered when the lock is free |
//! | post | queries are loaded or removed, as `crate::engine::served` says |
//! | candidates | those of the thread's last interval are written, and kept from the first such request on |
//! | interrupts | those of queries are a signal to the thread itself, which the kernel delivers as any other |

use core::cmp::Reverse;
use core::sync::atomic::Ordering::Relaxed;

use trommel_aware::{Answer, Candidate, Counts, MARK, Request, VERSION};
use trommel_queue::work;
use trommel_queue::work::Flush;
use trommel_tuple::{Kind, KindSet};

use crate::base::address::{AppPc, CachePc, Range};
use crate::base::area::Context;
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::served::table::Errand;
use crate::engine::state::{Runtime, Thread};
use crate::memory::pages::whole;

impl Runtime {
    /// Answers the request at `pc`; the app goes on after it. Whether the process is to be detached.
    pub fn request(&mut self, thread: &mut Thread, context: &mut Context, pc: AppPc) -> bool {
        context.next_pc = AppPc(pc.0.wrapping_add(MARK.len() as u64));
        context.target = CachePc(arch::special as *const () as u64);
        let [number, a, b] = [context.regs[7], context.regs[6], context.regs[2]];
        work::add(&self.shared.control().work.requests, 1);
        let request = Request::from_number(number);
        let answer = match request {
            Some(request @ (Request::Open | Request::Close | Request::Flush | Request::Post)) => {
                thread.take_errand(Errand {
                    request,
                    args: [a, b],
                    pc,
                });
                Answer::Absent.number()
            }
            Some(Request::Present) => i64::from(VERSION),
            Some(Request::Interrupts) => self.interrupt_by(thread, a).number(),
            Some(Request::Candidates) => self.write_candidates(thread, a, b),
            Some(request) => self.answer(request, a, b).number(),
            None => Answer::Unknown.number(),
        };
        context.regs[0] = answer as u64;
        request == Some(Request::Leave)
    }

    fn answer(&mut self, request: Request, a: u64, b: u64) -> Answer {
        let range = Range { start: a, end: b };
        let takes_range = matches!(
            request,
            Request::Hot | Request::Jit | Request::Volatile | Request::Changed
        );
        if takes_range && a >= b {
            return Answer::Wrong;
        }
        match request {
            Request::Hot => self.cache.count_soon(range),
            Request::Jit => {
                self.doubt(whole(range));
                self.code_pages.expect_changes(range);
            }
            Request::Volatile => {
                if !core::mem::replace(&mut self.hints.volatile, true) {
                    self.evict = Some(Flush::Asked);
                }
            }
            Request::Changed => self.doubt(range),
            Request::Stop => self.pause(true),
            Request::Start => self.pause(false),
            Request::Counts => return self.write_counts(a, b),
            Request::Present
            | Request::Leave
            | Request::Open
            | Request::Close
            | Request::Flush
            | Request::Post
            | Request::Interrupts
            | Request::Candidates => {}
        }
        Answer::Done
    }

    /// Interrupts are this signal from now on.
    fn interrupt_by(&mut self, thread: &mut Thread, signal: u64) -> Answer {
        let asked = self.translator.asked();
        if !asked.is_some_and(|asked| asked.interrupts()) {
            return Answer::Unasked;
        }
        // Another process, in whose memory the word would stay.
        if thread.spawned.is_some() || signal != 0 && !self.actions_of(thread).has_handler(signal) {
            return Answer::Wrong;
        }
        thread.process.served.interrupt_by(signal as u8);
        Answer::Done
    }

    fn pause(&mut self, paused: bool) {
        if core::mem::replace(&mut self.hints.paused, paused) == paused {
            return;
        }
        let asked = self.translator.asked();
        let asks = asked.is_some_and(|asked| asked.pause(paused));
        if self.hints.kinds.is_empty() && !asks {
            return;
        }
        if paused {
            work::add(&self.shared.control().work.stops, 1);
        }
        self.translator.collect_only(match paused {
            true => KindSet::NONE,
            false => self.hints.kinds,
        });
        self.evict = Some(Flush::Asked);
    }

    /// Writes candidates of the thread's last interval, as many as there is room for. Returns how many there are.
    fn write_candidates(&self, thread: &mut Thread, to: u64, bytes: u64) -> i64 {
        const BYTES: usize = size_of::<Candidate>();
        let Some(counting) = &mut thread.counting else {
            return Answer::Absent.number();
        };
        let kept = counting.kept();
        let (interval, events) = (kept.number, u64::from(kept.events));
        let mut all = kept.candidates.clone();
        all.sort_unstable_by_key(|&(subject, value, count)| (Reverse(count), subject, value));
        let room = usize::try_from(bytes).unwrap_or(usize::MAX) / BYTES;
        for (n, &(subject, value, count)) in all.iter().enumerate().take(room) {
            let subject = counting.subject(subject);
            let value = if subject.cell == 0 {
                value
            } else {
                subject.value
            };
            let kind = Kind::ALL[subject.kind as usize % Kind::ALL.len()];
            let address = |word| self.regions.address(word).map_or(0, |pc| pc.0);
            let value = if kind.value_is_place() {
                address(value)
            } else {
                value
            };
            let count = u64::from(count);
            let words = [
                address(subject.place),
                value,
                count,
                kind as u64,
                interval,
                events,
            ];
            const _: () = assert!(BYTES == 6 * 8);
            let words = words.map(u64::to_le_bytes);
            let at = to.wrapping_add((n * BYTES) as u64);
            if !sys::write_checked(words.as_flattened(), at) {
                return Answer::Wrong.number();
            }
        }
        all.len() as i64
    }

    fn write_counts(&self, to: u64, bytes: u64) -> Answer {
        let control = self.shared.control();
        let counts = Counts {
            fragments: control.engine.fragments.load(Relaxed),
            traces: control.traces.made.load(Relaxed),
            dispatches: control.engine.dispatches.load(Relaxed),
            indirect_misses: control.engine.indirect_misses.load(Relaxed),
            links: self.cache.links,
            flushes: control.work.flushes.iter().map(|n| n.load(Relaxed)).sum(),
            cache_bytes: self.cache.bytes(),
            requests: control.work.requests.load(Relaxed),
        };
        let words = [
            counts.fragments,
            counts.traces,
            counts.dispatches,
            counts.indirect_misses,
            counts.links,
            counts.flushes,
            counts.cache_bytes,
            counts.requests,
        ];
        const _: () = assert!(size_of::<Counts>() == 8 * 8);
        let words = words.map(u64::to_le_bytes);
        let all = words.as_flattened();
        let len = usize::try_from(bytes).map_or(all.len(), |n| n.min(all.len()));
        match sys::write_checked(&all[..len], to) {
            true => Answer::Done,
            false => Answer::Wrong,
        }
    }
}
