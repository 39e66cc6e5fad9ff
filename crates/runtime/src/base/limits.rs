//! The program's limits on memory and descriptors.
//!
//! # Problem
//! `RLIMIT_AS` and `RLIMIT_DATA` count all memory of a process, the runtime's too: gigabytes of reservations.
//! A program that limits itself to some more than it has would have nothing left. `RLIMIT_NOFILE` may leave no
//! descriptor for the moment in which the runtime reads the memory map. And a limit that the program has lowered for
//! good could not be raised again where the runtime needs memory.
//!
//! # The rule
//! The program's limits are the program's. It may map what it could map natively, is refused what it would be
//! refused natively, and is told the limits that it has set.
//!
//! # Strategy
//! The kernel's soft limit is the program's and what is ours ([`settle`]). It is raised before the runtime maps more
//! ([`room_for`]), and made anew when the runtime has unmapped something. The kernel's hard limit stays as it was at the
//! start. Calls that ask for limits or set them are answered from [`KEPT`] ([`change`]).
//!
//! A program that is executed next starts with room for the runtime ([`before_exec`]); its runtime gets the program's
//! limits from the host. A program that runs natively gets its own limits ([`exact`]), though a remainder of the runtime may
//! be in it. As long as all of the runtime is in a native one, that is in the soft limits: where it was detached ([`detached`]), where
//! the host is about to take the runtime out, and between bursts ([`farewell`]). The program runs then and may map memory. What it sets itself from then on stays.
//! The host sets the program's own limits when it takes the memory out, and a burst begins with them ([`again`]).
//!
//! A program with windows makes its calls itself, and nothing is known here of the limits that it sets. So the kernel has the
//! program's own limits, which count what is ours too ([`hand_over`]). It is little at first, and grows as it is used
//! (`trommel_queue::Growing`, `crate::cache`). Where the kernel refuses more, windows end or do not begin.
//!
//! # Invariants
//! * The caller holds the runtime's lock, or is the only thread yet.
//! * Nothing here allocates: the allocator calls it.
//!
//! # What shows
//! `/proc/PID/limits`, and `prlimit` of another process, show the kernel's values.
#![allow(unsafe_code)] // reason: system calls.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

use linux_raw_sys::general as nr;
use trommel_queue::{Control, LIMITS};

use crate::base::address::Range;
use crate::base::call::{self, Errno, checked};
use crate::base::hosted;
use crate::base::own;

/// A limit: soft and hard.
pub type Limit = [u64; 2];

/// No limit.
const INFINITY: u64 = u64::MAX;

/// Places in [`LIMITS`].
const ADDRESS_SPACE: usize = 0;
const DATA: usize = 1;
const FILES: usize = 2;

/// The program's limits, as it believes them to be.
static KEPT: [[AtomicU64; 2]; LIMITS.len()] =
    [const { [const { AtomicU64::new(INFINITY) }; 2] }; LIMITS.len()];
/// The program has a limit that counts the runtime's memory.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The program sets its limits itself.
static HANDED_OVER: AtomicBool = AtomicBool::new(false);
/// The kernel's limits when the program was detached, for as long as part of the runtime is in it.
static LEFT: [[AtomicU64; 2]; LIMITS.len()] =
    [const { [const { AtomicU64::new(0) }; 2] }; LIMITS.len()];
/// The program was detached: it may have set limits since.
static IS_LEFT: AtomicBool = AtomicBool::new(false);
/// Memory that the host made: image and first stack.
static IMAGE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Returns the place of a resource that is kept here.
pub fn place(resource: u64) -> Option<usize> {
    LIMITS.iter().position(|&r| u64::from(r) == resource)
}

fn kept(place: usize) -> Limit {
    [0, 1].map(|n| KEPT[place][n].load(Relaxed))
}

fn keep(place: usize, limit: Limit) {
    for (to, from) in KEPT[place].iter().zip(limit) {
        to.store(from, Relaxed);
    }
    let finite = |place| kept(place)[0] != INFINITY;
    ACTIVE.store(finite(ADDRESS_SPACE) || finite(DATA), Relaxed);
}

/// The kernel's limit. With `new` sets it.
fn kernel(place: usize, new: Option<Limit>) -> Result<Limit, Errno> {
    let mut old = [0_u64; 2];
    let from = new.as_ref().map_or(0, |new| new.as_ptr() as u64);
    let args = [
        0,
        u64::from(LIMITS[place]),
        from,
        old.as_mut_ptr() as u64,
        0,
        0,
    ];
    // SAFETY: two structures of two words, of which one may be left out.
    unsafe { checked(nr::__NR_prlimit64, args) }?;
    // SAFETY: written by the kernel just now.
    Ok(unsafe { (&raw const old).read_volatile() })
}

/// Sets the kernel's soft limit. The hard one is raised where that is necessary and allowed.
fn set_soft(place: usize, soft: u64) {
    let Ok([before, hard]) = kernel(place, None) else {
        return;
    };
    if soft == before {
        return;
    }
    if soft > hard && kernel(place, Some([soft, soft])).is_ok() {
        return;
    }
    let _ = kernel(place, Some([soft.min(hard), hard]));
}

/// Takes over the limits of a program that starts, or was attached. `image`: memory that the host made.
pub fn begin(limits: &[Limit; LIMITS.len()], image: Range) {
    IS_LEFT.store(false, Relaxed);
    IMAGE[0].store(image.start, Relaxed);
    IMAGE[1].store(image.end, Relaxed);
    for (place, limit) in limits.iter().enumerate() {
        keep(place, *limit);
    }
    set_soft(FILES, kept(FILES)[0]);
    settle();
}

/// The program makes its own calls from now on, about limits too.
pub fn hand_over() {
    exact();
    ACTIVE.store(false, Relaxed);
    HANDED_OVER.store(true, Relaxed);
}

/// The program goes on under control, and these are the kernel's limits by now: what it has not set itself since is as it was.
pub fn again(kernel: &[Limit; LIMITS.len()]) {
    let was_left = IS_LEFT.load(Relaxed);
    let own = core::array::from_fn(|place| match was_left {
        true => own(place, kernel[place]),
        false => kernel[place],
    });
    begin(&own, image());
}

/// The memory that the host made for the runtime.
pub fn image() -> Range {
    let [start, end] = [0, 1].map(|n| IMAGE[n].load(Relaxed));
    Range { start, end }
}

/// Returns whether memory is the runtime's.
pub fn is_ours(at: u64) -> bool {
    let image = IMAGE[0].load(Relaxed)..IMAGE[1].load(Relaxed);
    image.contains(&at) || own::ranges().any(|range| range.start <= at && at < range.end)
}

/// Bytes of the runtime's memory that count for each of the two limits.
fn ours() -> [u64; 2] {
    let mut sum = [0_u64; 2];
    let read = each_mapping(|range, writable, private| {
        if is_ours(range.start) {
            let bytes = range.end - range.start;
            sum[ADDRESS_SPACE] += bytes;
            sum[DATA] += bytes * u64::from(writable && private);
        }
    });
    if read.is_none() {
        // No map: all that there ever was.
        let all = own::ranges().map(|range| range.end - range.start).sum();
        return [all, all];
    }
    sum
}

/// A line of the memory map, as far as it was read: its addresses, its permissions, and how many blanks there were.
#[derive(Default)]
struct Line {
    start: u64,
    word: u64,
    blanks: u32,
    flags: [bool; 2],
    at: u32,
}

impl Line {
    /// Reads on. Calls `with` at the ends of lines.
    fn read(&mut self, bytes: &[u8], with: &mut impl FnMut(Range, bool, bool)) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let Self { start, word, .. } = *self;
                    with(Range { start, end: word }, self.flags[0], self.flags[1]);
                    *self = Self::default();
                }
                b' ' => {
                    self.blanks += 1;
                    self.at = 0;
                }
                b'-' if self.blanks == 0 => {
                    self.start = self.word;
                    self.word = 0;
                }
                _ if self.blanks == 0 => {
                    let digit = (byte as char).to_digit(16).unwrap_or(0);
                    self.word = self.word << 4 | u64::from(digit);
                }
                _ if self.blanks == 1 => {
                    self.flags[0] |= self.at == 1 && byte == b'w';
                    self.flags[1] |= self.at == 3 && byte == b'p';
                    self.at += 1;
                }
                _ => {}
            }
        }
    }
}

/// Calls `with` for each line of the memory map: addresses, whether it may be written, and whether it is private.
pub fn each_mapping(mut with: impl FnMut(Range, bool, bool)) -> Option<()> {
    let mut line = Line::default();
    let fd = match open(c"/proc/thread-self/maps") {
        Err(Errno::ENOSYS) => return hosted::text(|bytes| line.read(bytes, &mut with)),
        opened => opened.ok()?,
    };
    let mut buffer = [0_u8; 1024];
    let done = loop {
        match call::read(fd, &mut buffer) {
            Ok(0) => break Some(()),
            Ok(n) => line.read(&buffer[..n], &mut with),
            Err(_) => break None,
        }
    };
    call::close(fd);
    done
}

/// Makes the kernel's limits the program's and what is ours.
pub fn settle() {
    if !ACTIVE.load(Relaxed) {
        return;
    }
    let ours = ours();
    for place in [ADDRESS_SPACE, DATA] {
        set_soft(place, kept(place)[0].saturating_add(ours[place]));
    }
}

/// Bytes of all mappings, and of those that are data.
fn used() -> Option<[u64; 2]> {
    let mut used = [0; 2];
    each_mapping(|range, writable, private| {
        let bytes = range.end - range.start;
        used[ADDRESS_SPACE] += bytes;
        if writable && private {
            used[DATA] += bytes;
        }
    })?;
    Some(used)
}

/// The runtime is about to map so many bytes. The program may have more already than its limit allows: there has to be
/// room on top of that too.
pub fn room_for(bytes: u64) {
    if !ACTIVE.load(Relaxed) {
        return;
    }
    let used = used().unwrap_or([0; 2]);
    for place in [ADDRESS_SPACE, DATA] {
        if let Ok([soft, _]) = kernel(place, None)
            && soft != INFINITY
        {
            set_soft(place, soft.max(used[place]).saturating_add(bytes));
        }
    }
}

/// Opens a file for reading, also where the program may have no more descriptors.
pub fn open(path: &core::ffi::CStr) -> Result<i32, Errno> {
    match call::open(path) {
        Err(Errno::EMFILE) => with_a_file(|| call::open(path)),
        done => done,
    }
}

/// Does something that needs a descriptor, where the program may have no more.
pub fn with_a_file<T>(open: impl FnOnce() -> T) -> T {
    let Ok([soft, hard]) = kernel(FILES, None) else {
        return open();
    };
    let _ = kernel(FILES, Some([hard, hard]));
    let done = open();
    let _ = kernel(FILES, Some([soft, hard]));
    done
}

/// Returns whether the kernel lets the program raise limits (`CAP_SYS_RESOURCE`).
fn is_privileged() -> bool {
    const VERSION_3: u64 = 0x2008_0522;
    const CAP_SYS_RESOURCE: u32 = 24;
    let header = [VERSION_3, 0];
    let mut data = [0_u32; 6];
    let args = [header.as_ptr() as u64, data.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: a header, and room for two sets of three words.
    let got = unsafe { checked(nr::__NR_capget, args) };
    // SAFETY: written by the kernel just now.
    got.is_ok() && unsafe { (&raw const data[0]).read_volatile() } & 1 << CAP_SYS_RESOURCE != 0
}

/// The program asks for a limit, and maybe sets it: the kernel's answer, and the limit before.
pub fn change(place: usize, new: Option<Limit>) -> (i64, Limit) {
    const EINVAL: i64 = -22;
    const EPERM: i64 = -1;
    let old = kept(place);
    let Some([soft, hard]) = new else {
        return (0, old);
    };
    if soft > hard {
        return (EINVAL, old);
    }
    if hard > old[1] {
        let Ok([_, top]) = kernel(place, None) else {
            return (EPERM, old);
        };
        // The kernel judges what it has not been told to allow yet.
        let judged = match hard > top {
            true => kernel(place, Some([soft, hard])).map(drop),
            false if is_privileged() => Ok(()),
            false => Err(Errno(1)),
        };
        if let Err(error) = judged {
            return (-i64::from(error.0), old);
        }
    }
    keep(place, [soft, hard]);
    match place {
        FILES => set_soft(FILES, soft),
        // None any more, or there never was one.
        _ if !ACTIVE.load(Relaxed) => set_soft(place, soft),
        _ => settle(),
    }
    if IS_LEFT.load(Relaxed) {
        // By a thread that has not come out yet.
        leave(place);
    }
    (0, old)
}

/// Writes the program's own limits where the host reads them.
fn publish(control: &Control) {
    for (place, words) in control.process.limits.iter().enumerate() {
        for (to, from) in words.iter().zip(kept(place)) {
            to.store(from, Relaxed);
        }
    }
}

/// The program is about to execute another, which the host makes room in; it is told the program's limits.
pub fn before_exec(control: &Control) {
    publish(control);
    control.process.limits_known.store(1, Relaxed);
    if ACTIVE.load(Relaxed) {
        for place in [ADDRESS_SPACE, DATA] {
            if let Ok([_, hard]) = kernel(place, None) {
                set_soft(place, hard);
            }
        }
    }
}

/// Makes the kernel's limits the program's: little of ours is left. Those that a detached program has set itself stay.
pub fn exact() {
    if HANDED_OVER.load(Relaxed) {
        return;
    }
    for place in 0..LIMITS.len() {
        match kernel(place, None) {
            Ok(now) if IS_LEFT.load(Relaxed) => set(place, own(place, now)),
            _ => set(place, kept(place)),
        }
    }
}

/// The kernel's limit when the program was detached.
fn left(place: usize) -> Limit {
    [0, 1].map(|n| LEFT[place][n].load(Relaxed))
}

/// The limit of a program that was detached, of which the kernel has this one by now: soft and hard are as they were where the program has
/// not set them itself.
fn own(place: usize, now: Limit) -> Limit {
    let (left, kept) = (left(place), kept(place));
    let [soft, hard] = [0, 1].map(|n| match now[n] == left[n] {
        true => kept[n],
        false => now[n],
    });
    [soft.min(hard), hard]
}

fn set(place: usize, limit: Limit) {
    if kernel(place, None).is_ok_and(|found| found != limit) {
        let _ = kernel(place, Some(limit));
    }
}

/// Takes note of what the kernel has now.
fn leave(place: usize) {
    let limit = kernel(place, None).unwrap_or_default();
    for (to, from) in LEFT[place].iter().zip(limit) {
        to.store(from, Relaxed);
    }
}

/// The program runs natively from now on, with our memory in it.
pub fn detached() {
    if HANDED_OVER.load(Relaxed) {
        return;
    }
    for place in 0..LIMITS.len() {
        if let Ok([soft, hard]) = kernel(place, None) {
            let own = kept(place)[1].max(soft);
            set(place, [soft, own.min(hard)]);
        }
        leave(place);
    }
    IS_LEFT.store(true, Relaxed);
}

/// The program runs natively from now on, and the host takes our memory out, or leaves it for the next burst: it is told what to set then.
pub fn farewell(control: &Control) {
    if HANDED_OVER.load(Relaxed) {
        return;
    }
    if !IS_LEFT.load(Relaxed) {
        detached();
    }
    publish(control);
    let words = control.attached.limits_left.iter().enumerate();
    for (place, words) in words {
        for (to, from) in words.iter().zip(left(place)) {
            to.store(from, Relaxed);
        }
    }
    control.attached.limits_are_left.store(1, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_is_read_as_it_is_printed() {
        let here = &raw const ACTIVE as u64;
        let stack = [0_u8; 1];
        let (mut code, mut data, mut onstack, mut before) = (0, 0, 0, 0);
        each_mapping(|range, writable, private| {
            assert!(before <= range.start && range.start < range.end);
            before = range.end;
            let holds = |at: u64| range.start <= at && at < range.end;
            let is = u32::from(writable && private);
            data += u32::from(holds(here)) * is;
            onstack += u32::from(holds(stack.as_ptr() as u64)) * is;
            code += u32::from(holds(settle as *const () as u64) && !writable && private);
        })
        .expect("a map");
        assert_eq!((code, data, onstack), (1, 1, 1));
    }

    #[test]
    fn limits_set_by_a_native_program_are_its_own() {
        let data = place(2).expect("kept");
        let before = kept(data);
        keep(data, [10, 20]);
        for (to, from) in LEFT[data].iter().zip([110, 120]) {
            to.store(from, Relaxed);
        }
        for (now, its) in [
            ([110, 120], [10, 20]),
            ([50, 120], [20, 20]),
            ([15, 120], [15, 20]),
            ([110, 115], [10, 115]),
            ([5, 5], [5, 5]),
        ] {
            assert_eq!(own(data, now), its, "{now:?}");
        }
        keep(data, before);
    }

    #[test]
    fn limits_are_told_as_they_were_set() {
        let files = place(7).expect("kept");
        let [_, hard] = kernel(files, None).expect("a limit");
        keep(files, [hard, hard]);
        assert_eq!(change(files, Some([9, 8])).0, -22);
        let before = kernel(files, None).expect("a limit");
        assert_eq!(change(files, Some([200, 300])), (0, [hard, hard]));
        assert_eq!(kernel(files, None), Ok([200, hard]));
        assert_eq!(change(files, None), (0, [200, 300]));
        with_a_file(|| assert_eq!(kernel(files, None), Ok([hard, hard])));
        keep(files, before);
        set_soft(files, before[0]);
        assert_eq!(kernel(files, None), Ok(before));
        assert_eq!(place(3), None);
    }
}
