//! From the host's jump to the first fragment.
//!
//! The host has written the runtime into the new process, applied its relocations, and set its
//! registers: the first argument points to [`StartArgs`], the stack is the runtime's. Nothing of
//! the app has run. The runtime maps what it needs, takes over the synchronous signals, and goes to
//! the app's first instruction with the registers the kernel gave it.
#![allow(unsafe_code)] // reason: makes its own memory.

use core::sync::atomic::Ordering::{Relaxed, Release};

use linux_raw_sys::general as nr;
use trommel_queue::{CHUNK, FILE_SIZE, RING_OFFSET, State, THREAD_PAGE_OFFSET, options};
use trommel_tuple::KindSet;

use crate::arch::{self, Landmarks};
use crate::area::{
    AREA_BYTES, CONTEXT_OFFSET, Context, Entries, SECOND_BYTES, SECOND_OFFSET, SYSCALL_TABLE,
};
use crate::cache::{AppPc, Cache};
use crate::deliver::Shared;
use crate::dispatch::Runtime;
use crate::heap::Heap;
use crate::region::{Range, Regions};
use crate::signal::{AltStack, Signals};
use crate::sys;
use crate::syscall;
use crate::targets::Targets;
use crate::translate::{Config, MAX_INSNS, Translator};

/// What the host tells the runtime, at a place in the runtime's own image.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StartArgs {
    /// The shared file, as a descriptor of the target. The runtime closes it.
    pub file: u64,
    /// Where the app starts.
    pub app_pc: u64,
    /// The app's stack pointer.
    pub app_sp: u64,
    /// First address of the runtime's image.
    pub image_start: u64,
    /// Behind its last.
    pub image_end: u64,
    /// Top of the stack the runtime is started on.
    pub stack_top: u64,
}

const PAGE: u64 = 4096;
/// One huge page, which takes a fraction of the time that its small pages would take to become
/// present: the thread area, the stacks, and what the heap gives out first.
const BLOCK_BYTES: u64 = 2 << 20;
const STACK_BYTES: u64 = 256 << 10;
const CHILD_STACK_BYTES: u64 = 64 << 10;
const SIGNAL_STACK_BYTES: u64 = 128 << 10;
const _: () = assert!(
    AREA_BYTES as u64 + STACK_BYTES + CHILD_STACK_BYTES + SIGNAL_STACK_BYTES + (512 << 10)
        < BLOCK_BYTES
);
const ARCH_SET_GS: u64 = 0x1001;

fn map_shared(file: i32) -> Option<u64> {
    let padded = FILE_SIZE + CHUNK;
    let start = sys::anonymous(padded).ok()?;
    let base = start.next_multiple_of(CHUNK as u64);
    // SAFETY: inside the reservation just made.
    unsafe {
        sys::mmap(&sys::Map {
            at: base,
            len: FILE_SIZE,
            prot: nr::PROT_READ | nr::PROT_WRITE,
            flags: nr::MAP_SHARED | nr::MAP_FIXED,
            fd: file,
            offset: 0,
        })
    }
    .ok()
}

fn map_thread_page(area: u64, file: i32) -> Option<u64> {
    // SAFETY: the first page of the area, which the caller has just made.
    unsafe {
        sys::mmap(&sys::Map {
            at: area,
            len: PAGE as usize,
            prot: nr::PROT_READ | nr::PROT_WRITE,
            flags: nr::MAP_SHARED | nr::MAP_FIXED,
            fd: file,
            offset: THREAD_PAGE_OFFSET as u64,
        })
    }
    .ok()
}

fn entries() -> Entries {
    Entries {
        exit: arch::exit as *const () as u64,
        indirect: Landmarks::indirect(),
        mismatch: arch::mismatch as *const () as u64,
        syscall: arch::syscall as *const () as u64,
        full: arch::full as *const () as u64,
        special: arch::special as *const () as u64,
    }
}

/// Sets everything up and goes to the app. `None` when the kernel refuses memory; the caller must
/// end the process with an error, since nothing of the app has run.
///
/// # Safety
/// As the host starts it: once, in a process that runs nothing else. `heap` must be the allocator in
/// use, and not yet used.
pub unsafe fn start(args: StartArgs, heap: &Heap) -> Option<core::convert::Infallible> {
    let file = args.file as i32;
    // The thread page in front of the block, so that the rest of the area is in it.
    let block = args.stack_top.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES;
    sys::own_memory_from(block - PAGE);
    let area = sys::anonymous((PAGE + BLOCK_BYTES) as usize + SECOND_BYTES).ok()?;
    let block = area + PAGE;
    if block.is_multiple_of(BLOCK_BYTES) {
        sys::huge(block, BLOCK_BYTES);
    }
    const _: () = assert!(SECOND_OFFSET as u64 == PAGE + BLOCK_BYTES);
    let stack = area + AREA_BYTES as u64 + STACK_BYTES;
    let child_stack = stack + CHILD_STACK_BYTES;
    let signal_stack = child_stack;
    let rest = Range {
        start: signal_stack + SIGNAL_STACK_BYTES,
        end: block + BLOCK_BYTES,
    };
    // SAFETY: the rest of the block, which nothing else uses.
    unsafe { heap.give(rest) };
    let shared_at = map_shared(file)?;
    map_thread_page(area, file)?;
    sys::close(file);
    sys::populate(shared_at + RING_OFFSET as u64, CHUNK as u64);
    // SAFETY: mapped as required.
    let shared = unsafe { Shared::new(shared_at) };
    let control = shared.control();
    let stress = control.options.load(Relaxed);
    let kinds = KindSet::from_bits(control.kinds.load(Relaxed) as u8);
    let first_record = shared.first_record();
    // SAFETY: fresh zero memory of the right size; all-zero is a valid context.
    let context = unsafe { &mut *((area + CONTEXT_OFFSET as u64) as *mut Context) };
    context.regs[4] = args.app_sp;
    context.flags = 0x202;
    context.entry = entries();
    context.stack = stack;
    context.child_stack = child_stack;
    context.this = area;
    // SAFETY: the table lies inside the area.
    unsafe {
        (area as *mut u64).write(first_record);
        for number in syscall::SEEN {
            ((area + u64::from(SYSCALL_TABLE.0) + u64::from(number)) as *mut u8).write(1);
        }
    }
    // SAFETY: GS is the runtime's from here on.
    let _ = unsafe { sys::call(nr::__NR_arch_prctl, [ARCH_SET_GS, area, 0, 0, 0, 0]) };
    let mut cache = Cache::new();
    cache.far = stress & options::FAR != 0;
    let insns = (stress & options::INSNS_MASK) as usize;
    let config = Config {
        kinds,
        max_insns: if insns == 0 { MAX_INSNS } else { insns },
    };
    let mut runtime = Runtime {
        translator: Translator::new(config),
        cache,
        regions: Regions::default(),
        shared,
        signals: Signals::install(AltStack {
            sp: signal_stack,
            flags: 0,
            pad: 0,
            size: SIGNAL_STACK_BYTES,
        }),
        write_pointer: area as *mut u64,
        // SAFETY: mapped above, for good.
        targets: unsafe { Targets::new(area) },
        image: Range {
            start: args.image_start,
            end: args.image_end,
        },
        cache_limit: (stress >> options::CACHE_SHIFT & 0xffff) * 4096,
        leaving: false,
        stepping: false,
        stepping_there: false,
    };
    runtime
        .shared
        .control()
        .state
        .store(State::Controlled as u32, Release);
    runtime.go(context, AppPc(args.app_pc), None, false);
    runtime.install(context);
    // SAFETY: the context is complete and GS points to its area.
    unsafe { arch::resume() }
}
