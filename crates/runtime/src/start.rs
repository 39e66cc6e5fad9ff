//! From the host's jump to the first fragment.
//!
//! The host has written the runtime into the new process, applied its relocations, and set its
//! registers: the first argument points to [`StartArgs`], the stack is the runtime's. Nothing of
//! the app has run. The runtime maps what it needs, takes over the synchronous signals, and goes to
//! the app's first instruction with the registers the kernel gave it.
#![allow(unsafe_code)] // reason: makes its own memory.

use core::sync::atomic::Ordering::{Relaxed, Release};

use linux_raw_sys::general as nr;
use trommel_queue::{CHUNK, FILE_SIZE, State, THREAD_PAGE_OFFSET, options};
use trommel_tuple::KindSet;

use crate::arch;
use crate::area::{AREA_BYTES, CONTEXT_OFFSET, Context, Entries, INDIRECT_TABLE, SYSCALL_TABLE};
use crate::cache::{AppPc, Cache, CachePc};
use crate::deliver::Shared;
use crate::dispatch::Runtime;
use crate::region::{Range, Regions};
use crate::signal::{AltStack, Signals};
use crate::sys;
use crate::syscall;
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

const STACK_BYTES: usize = 256 << 10;
const CHILD_STACK_BYTES: usize = 64 << 10;
const SIGNAL_STACK_BYTES: usize = 128 << 10;
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

fn map_area(file: i32) -> Option<u64> {
    let area = sys::anonymous(AREA_BYTES).ok()?;
    // SAFETY: the first page of the area just made.
    unsafe {
        sys::mmap(&sys::Map {
            at: area,
            len: 0x1000,
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
        indirect: arch::indirect as *const () as u64,
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
/// As the host starts it: once, in a process that runs nothing else.
pub unsafe fn start(args: StartArgs) -> Option<core::convert::Infallible> {
    let file = args.file as i32;
    sys::own_memory_from(args.stack_top.next_multiple_of(1 << 21));
    let shared_at = map_shared(file)?;
    let area = map_area(file)?;
    sys::close(file);
    let stack = sys::anonymous(STACK_BYTES).ok()? + STACK_BYTES as u64;
    let child_stack = sys::anonymous(CHILD_STACK_BYTES).ok()? + CHILD_STACK_BYTES as u64;
    let signal_stack = sys::anonymous(SIGNAL_STACK_BYTES).ok()?;
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
            size: SIGNAL_STACK_BYTES as u64,
        }),
        write_pointer: area as *mut u64,
        indirect: (area + u64::from(INDIRECT_TABLE.0)) as *mut CachePc,
        image: Range {
            start: args.image_start,
            end: args.image_end,
        },
        cache_limit: (stress >> options::CACHE_SHIFT & 0xffff) * 4096,
        leaving: false,
        stepping: false,
        stepping_there: false,
    };
    runtime.clear_indirect();
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
