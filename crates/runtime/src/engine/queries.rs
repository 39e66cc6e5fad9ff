//! Queries of a thread ([`crate::observe::query`]): what its probes have crossed over for.
#![allow(unsafe_code)] // reason: reads the app's memory and data of probes, shares memory with the host.

pub mod changes;
pub mod counts;
mod rates;
pub mod windows;

use alloc::boxed::Box;
use core::sync::atomic::Ordering::Relaxed;

use trommel_compress::random::SplitMix64;
use trommel_query::engine::thread_seed;
use trommel_query::observe::{Machine, Segment, When};
use trommel_query::pair::Member;
use trommel_query::{Engine, Facts, Field, QueryPc, Rate, Record, Sampling, Sink};
use trommel_queue::queries::{Acted, ENTRIES, Header, LOADS, MESSAGE_WORDS, Queries, Sort};

use crate::base::address::CachePc;
use crate::base::area::{CONTEXT_OFFSET, Context};
use crate::base::sys;
use crate::channel::deliver::HostGone;
use crate::crossing::arch;
use crate::engine::asking::{Asking, Chosen, Raised, Rates, Underway, add};
use crate::engine::queries::counts::{Counts, InWindow};
use crate::engine::served::table::Message;
use crate::engine::served::{Filled, Sent, to_host};
use crate::engine::state::Thread;
use crate::observe::prefetch;
use crate::observe::prefetch::{Bursts, Turn};
use crate::observe::query::{Crossing, Site};

impl Thread {
    /// Makes the thread, which executes nothing yet, ready for queries: its engines begin with the first probe that it reaches.
    pub fn start_queries(&mut self, in_bursts: bool, by_window: bool) {
        let mapped = self.process.queue.mapped();
        let pages = self.writer.page + 1;
        mapped.queries().pages.fetch_max(pages, Relaxed);
        for place in 0..LOADS {
            self.rest(place);
        }
        self.asking = Some(Box::new(Asking {
            bursts: in_bursts.then(Bursts::default),
            by_window: by_window.then(Box::default),
            ..Asking::default()
        }));
    }

    /// Puts the countdowns of a place at rest: the first execution of each entry crosses over. No code counts them meanwhile.
    pub(crate) fn rest(&self, place: usize) {
        let context = (self.area() + CONTEXT_OFFSET as u64) as *mut Context;
        // SAFETY: words of a thread's context, of which no code that may be executed has a probe.
        unsafe {
            (&raw mut (*context).left[place]).write_volatile([1; ENTRIES]);
            (&raw mut (*context).begun[place]).write_volatile(0);
        }
    }
}

/// An instruction caused a signal: it is not executed, or not yet.
pub fn forget(context: &mut Context) {
    context.begun = [0; LOADS];
}

/// Handles a thread that has come to the runtime for some other reason: rates may be due that no record has led to.
pub fn look(thread: &mut Thread, context: &mut Context) {
    // Back from a call that started a process, the thread still holds the lock for it. Rates are put in force the next time.
    if thread.starting.locked.is_some() {
        return;
    }
    let Some(asking) = &mut thread.asking else {
        return;
    };
    let process = thread.process;
    let mut adjusted = false;
    for underway in asking.underway.iter_mut().flatten() {
        if !underway.is_due() {
            continue;
        }
        adjusted = true;
        // A place is put at rest with the lock held.
        let _runtime = process.runtime.lock();
        let area = process.queue.mapped().load(underway.place);
        if area.put.load(Relaxed) == underway.id {
            underway.look(context, area);
        }
    }
    if adjusted {
        asking.share_budget(process.queue.mapped());
    }
}

/// A probe has crossed over.
pub fn crossed(thread: &mut Thread, context: &mut Context) -> Result<(), HostGone> {
    let at = context.regs[1];
    // SAFETY: rcx leads to what the translator wrote after the crossing, which stays as long as a
    // thread may execute it.
    let crossing = unsafe { (at as *const Crossing).read_unaligned() };
    context.target = CachePc(at.wrapping_add_signed(crossing.after.into()));
    context.regs[1] = context.spill_rcx;
    // SAFETY: sites stay.
    let site: &'static Site = unsafe { &*(crossing.site as *const Site) };
    let Some(mut asking) = thread.asking.take() else {
        return Ok(());
    };
    let place = crossing.place();
    let area = thread.process.queue.mapped().load(place);
    if let Some(by_window) = &asking.by_window
        && by_window.of(place, area.put.load(Relaxed)).is_none()
    {
        // It has come in the midst of the window. The next execution crosses over again.
        context.left[place][site.counted.number()] = 1;
        thread.asking = Some(asking);
        return Ok(());
    }
    let mut underway = match asking.underway[place].take() {
        Some(underway) if underway.id == area.put.load(Relaxed) => underway,
        left => {
            let begun = {
                // The heap needs it.
                let _runtime = thread.process.runtime.lock();
                drop(left);
                Underway::begin(&asking, thread, context, site, place)
            };
            if begun.passes(context, site) {
                asking.underway[place] = Some(begun);
                thread.asking = Some(asking);
                return Ok(());
            }
            begun
        }
    };
    let adapts = site.control.sampling.rate().is_none();
    let from = if adapts { sys::ticks() } else { 0 };
    let mut done = underway.crossed(&mut asking, thread, context, site, crossing);
    let adjusted = adapts && underway.adapt(area, context, site, crossing, from);
    // What was seen before the last execution is sent after it.
    if done.is_ok() && underway.begun.is_none() && core::mem::take(&mut asking.last_of_round) {
        done = prefetch::sent(&thread.process.queue, &mut thread.writer);
    }
    asking.underway[place] = Some(underway);
    if adjusted {
        asking.share_budget(thread.process.queue.mapped());
    }
    thread.asking = Some(asking);
    done
}

impl Underway {
    /// The thread has reached a probe of a program for the first time. The caller has the lock.
    fn begin(
        asking: &Asking,
        thread: &Thread,
        context: &mut Context,
        site: &Site,
        place: usize,
    ) -> Box<Self> {
        let mapped = thread.process.queue.mapped();
        let prepared = site.prepared;
        let id = mapped.load(place).put.load(Relaxed);
        let slot = thread.process.queue.control().identity.slot.load(Relaxed);
        let seed = match slot {
            0 => mapped.queries().seed.load(Relaxed),
            n => {
                let seed = mapped.queries().seed.load(Relaxed);
                SplitMix64::apart(seed.wrapping_add(n.into()), *b"rpaslot\0").draw()
            }
        };
        let seed = match id {
            0 | 1 => seed,
            n => SplitMix64::apart(seed.wrapping_add(n.into()), *b"rpaload\0").draw(),
        };
        let engine = Engine::new(&prepared.program, thread_seed(seed, thread.writer.number));
        let engine = match asking.by_window {
            Some(_) => engine.amid(),
            None => engine,
        };
        let mut drawn = [0; ENTRIES];
        for entry in &prepared.entries {
            drawn[entry.number()] = engine.countdown(*entry).unwrap_or(0) as u32;
        }
        context.left[place] = drawn;
        context.begun[place] = 0;
        let rates = Rates::begin(&prepared.program, mapped);
        Box::new(Self {
            id,
            place,
            engine,
            prepared,
            drawn,
            begun: None,
            rates,
        })
    }

    /// The first execution is at a site. Returns true if it is one that the countdown passes.
    fn passes(&self, context: &mut Context, site: &Site) -> bool {
        let left = &mut context.left[self.place][site.counted.number()];
        let sampled = self.engine.countdown(site.entry).is_some();
        let passes = sampled && *left > 1;
        *left -= u32::from(passes);
        passes
    }

    /// A probe of the thread's own has crossed over.
    fn crossed(
        &mut self,
        asking: &mut Asking,
        thread: &mut Thread,
        context: &mut Context,
        site: &'static Site,
        crossing: Crossing,
    ) -> Result<(), HostGone> {
        let area = thread.process.queue.mapped().load(self.place);
        if crossing.flags & Crossing::SECOND != 0 {
            // Begun by another instruction that has not come to its end.
            let begun = self
                .begun
                .take_if(|(begun, ..)| core::ptr::eq(*begun, site));
            let Some((_, facts, chosen)) = begun else {
                context.begun[self.place] = 0;
                return Ok(());
            };
            let facts = site
                .observation
                .late(&AtProbe::of(context, crossing), facts);
            context.begun[self.place] = 0;
            return self.ask(asking, site, facts, chosen, thread, area);
        }
        let counts = self.counts(asking.by_window.as_deref(), area);
        let seen = &counts.seen[site.counted.number()];
        let rate = self.engine.rate(site.entry);
        // Of other queries everybody knows it.
        let rank = match site.control.sampling {
            Sampling::Every(_) => 0,
            Sampling::Auto(_) => rate.one_in().trailing_zeros() as u8,
        };
        let number = site.counted.number();
        let mut member = Member::Alone;
        let left = if let Some(mut bursts) = asking.bursts {
            let turn = bursts.turn(thread.process.queue.mapped().prefetch());
            asking.bursts = Some(bursts);
            self.count_down(turn, context);
            match turn {
                Turn::Pass => return Ok(()),
                Turn::Over => {
                    let mut runtime = thread.process.runtime.lock();
                    runtime.end_round(sys::ticks());
                    return Ok(());
                }
                Turn::Send => {}
                Turn::Last { round } => asking.last_of_round = round,
            }
            self.drawn[number]
        } else {
            member = self.engine.profiled(site.entry).unwrap_or(member);
            let left = self.engine.countdown(site.entry).unwrap_or(0) as u32;
            let executed = core::mem::replace(&mut self.drawn[number], left).max(1);
            if let Rates::Throttled(throttle) = &mut self.rates {
                throttle.record(site.entry, executed.into());
            }
            add(&seen.executed, executed.into());
            left
        };
        let chosen = Chosen { rank, member };
        // Of a pair when it is whole.
        if member == Member::Alone {
            add(&seen.profiled, 1);
        }
        let machine = AtProbe::of(context, crossing);
        let facts = site.observation.early(&machine);
        let facts = facts.with(Field::Thread, thread.writer.number.into());
        if crossing.flags & Crossing::FIRST != 0 {
            self.begun = Some((site, facts, chosen));
            context.begun[self.place] = 1;
            context.left[self.place][number] = left;
            return Ok(());
        }
        let facts = match site.when() {
            When::After => site.observation.late(&machine, facts),
            When::Before | When::Both => facts,
        };
        context.left[self.place][number] = left;
        self.ask(asking, site, facts, chosen, thread, area)
    }

    /// Counts to add to. A window has those of each load that it is asked.
    fn counts<'c>(&self, by_window: Option<&'c InWindow>, area: &'c Queries) -> Counts<'c> {
        let in_window = by_window.and_then(|by_window| by_window.of(self.place, self.id));
        Counts::of(in_window, area)
    }

    /// Countdowns of all entries, where executions are profiled in bursts.
    fn count_down(&mut self, turn: Turn, context: &mut Context) {
        for entry in &self.prepared.entries {
            let left = match turn {
                Turn::Send => 1,
                Turn::Pass | Turn::Over | Turn::Last { .. } => {
                    self.engine.profiled(*entry);
                    self.engine.countdown(*entry).unwrap_or(0) as u32
                }
            };
            self.drawn[entry.number()] = left;
            context.left[self.place][entry.number()] = left;
        }
    }

    /// Executes the query, when the record is complete.
    fn ask(
        &mut self,
        asking: &mut Asking,
        site: &Site,
        facts: Facts,
        Chosen { rank, member }: Chosen,
        thread: &mut Thread,
        area: &Queries,
    ) -> Result<(), HostGone> {
        let record = Record::pack(&facts, site.control.fields);
        let Asking {
            raised, by_window, ..
        } = asking;
        let by_window = by_window.as_deref();
        let counts = self.counts(by_window, area);
        let seen = &counts.seen[site.counted.number()];
        let Some(record) = self.engine.join(site.entry, member, &record) else {
            return Ok(());
        };
        if member != Member::Alone {
            add(&seen.profiled, 1);
        }
        let mut out = Out {
            thread,
            counts,
            by_window,
            words: site.control.layout().len() as u8,
            place: self.place as u8,
            rank,
            gone: Ok(()),
            acted: false,
            interrupted: false,
            waits: false,
            raised,
        };
        self.engine.query(site.control.start, &record, &mut out);
        let Out {
            mut gone,
            mut acted,
            interrupted,
            waits,
            ..
        } = out;
        raised.send(area);
        // The query has ended, and what it has sent is there.
        if interrupted && gone.is_ok() {
            let asked = thread.process.queue.interrupt();
            if waits {
                thread.writer.awaits = Some(asked);
                gone = thread.process.queue.answered(&mut thread.writer);
            }
        }
        for at in &self.prepared.counting {
            let counted = self.engine.take_counted(*at);
            if counted != 0 {
                let rate = site.control.sampling.rate();
                let rate = rate.unwrap_or(Rate::of_rank(rank.into())).one_in();
                let done = &counts.done[at.number()];
                add(&done.counted, counted.into());
                add(&done.counted_for, u64::from(counted) * u64::from(rate));
                acted = true;
            }
        }
        if acted {
            add(&seen.acted, 1);
        }
        gone
    }
}

/// Destination of messages.
struct Out<'a> {
    thread: &'a mut Thread,
    counts: Counts<'a>,
    /// Counts of the window, where they are reported by window.
    by_window: Option<&'a InWindow>,
    words: u8,
    place: u8,
    rank: u8,
    gone: Result<(), HostGone>,
    /// An action was done.
    acted: bool,
    /// True if the host is to look at once.
    interrupted: bool,
    /// True if the thread waits for that look.
    waits: bool,
    raised: &'a mut Raised,
}

impl Out<'_> {
    /// A record as it is sent.
    fn record(&self, at: QueryPc, queue: u8, record: &Record, sort: Sort) -> Message {
        let header = Header {
            at: at.number() as u8,
            queue,
            words: self.words,
            load: self.place,
            rank: self.rank,
            sort,
        };
        let mut message = [0; MESSAGE_WORDS + 1];
        message[..MESSAGE_WORDS].copy_from_slice(&record.0);
        let sender = u64::from(self.thread.writer.number) << 32;
        message[MESSAGE_WORDS] = sender | u64::from(header.encode());
        message
    }

    /// Returns what the thread does when a record that must not be lost has filled its chunk.
    const fn waits_when_filled(&self) -> Filled {
        match self.thread.windowed.now {
            None => Filled::Wait,
            Some(_) => Filled::WaitLater,
        }
    }

    /// Sends a message of a window, or drops it.
    fn send_in_window(
        &mut self,
        (done, by_window): (&Acted, &InWindow),
        message: &Message,
    ) -> Result<(), HostGone> {
        // What is passed before a window is no part of it.
        if self.thread.passes() {
            return Ok(());
        }
        let process = self.thread.process;
        if process.queue.lags() || !by_window.has_room() {
            add(&done.dropped, 1);
            return Ok(());
        }
        if process.queue.is_short() {
            // Where the kernel refuses memory, the host gives back what was published.
            let runtime = process.runtime.lock();
            process.queue.has_chunks(runtime.threads.len());
        }
        add(&done.sent, 1);
        let writer = &mut self.thread.writer;
        to_host(writer, &process.queue, message, Filled::WaitLater)
    }

    /// Sends a message to whoever serves its queue.
    fn send(&mut self, done: &Acted, message: &Message, drop: bool) -> Result<(), HostGone> {
        let queue = &self.thread.process.queue;
        match self.thread.send(message, drop)? {
            Sent::There | Sent::Later => {
                add(&done.served, 1);
                add(&done.sent, 1);
            }
            Sent::Dropped => add(&done.dropped, 1),
            Sent::NotOpen if drop && queue.lags() => add(&done.dropped, 1),
            Sent::NotOpen => {
                add(&done.sent, 1);
                let filled = match drop {
                    true => Filled::GoOn,
                    false => self.waits_when_filled(),
                };
                to_host(&mut self.thread.writer, queue, message, filled)?;
            }
        }
        Ok(())
    }
}

impl Sink for Out<'_> {
    fn message(&mut self, at: QueryPc, queue: u8, record: &Record, drop: bool) {
        self.acted = true;
        if self.gone.is_err() {
            return;
        }
        let message = self.record(at, queue, record, Sort::Message);
        let done = &self.counts.done[at.number()];
        self.gone = match self.by_window {
            Some(by_window) => self.send_in_window((done, by_window), &message),
            None => self.send(done, &message, drop),
        };
    }

    /// The record goes the way of messages, so that it is reported in its place among them.
    fn interrupt(&mut self, at: QueryPc, record: &Record, sync: bool) {
        self.acted = true;
        if self.gone.is_err() {
            return;
        }
        let sort = match sync {
            false => Sort::Interrupt,
            true => Sort::Synchronous,
        };
        let message = self.record(at, 0, record, sort);
        let process = self.thread.process;
        let done = &self.counts.done[at.number()];
        let apps = process
            .served
            .interrupts()
            .filter(|_| self.thread.spawned.is_none());
        if let Some(signal) = apps {
            match self.raised.push(signal, at, record.0[0]) {
                true => add(&done.interrupted, 1),
                false => add(&done.dropped, 1),
            }
            return;
        }
        add(&done.interrupted, 1);
        let filled = self.waits_when_filled();
        self.gone = to_host(&mut self.thread.writer, &process.queue, &message, filled);
        self.interrupted = true;
        self.waits |= sync;
    }

    /// Counters are read after each query, so none comes close to overflowing.
    fn counted(&mut self, _: QueryPc, _: u64) {}
}

/// The app's registers at a probe, and its memory.
struct AtProbe<'a> {
    context: &'a Context,
    rdx: u64,
}

impl<'a> AtProbe<'a> {
    fn of(context: &'a Context, crossing: Crossing) -> Self {
        Self {
            context,
            rdx: match crossing.flags & Crossing::RDX_IN_SLOT {
                0 => context.regs[2],
                _ => context.spill_rdx,
            },
        }
    }
}

impl Machine for AtProbe<'_> {
    fn general(&self, number: u8) -> u64 {
        match number {
            2 => self.rdx,
            n => self.context.regs[usize::from(n & 15)],
        }
    }

    fn vector(&self, number: u8) -> [u64; 2] {
        self.context.xmm[usize::from(number & 15)]
    }

    fn flags(&self) -> u64 {
        self.context.flags
    }

    fn segment(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => arch::fs_base(),
            // Code with it is not run in the cache.
            Segment::Gs => 0,
        }
    }

    fn memory(&self, address: u64, size: u8) -> Option<u64> {
        let mut value = 0;
        // SAFETY: a word to write to; what cannot be read is told.
        let read = unsafe { arch::peek(address, size.into(), &raw mut value) };
        (read != 0).then_some(value)
    }
}
