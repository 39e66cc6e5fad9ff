//! Start of the runtime: from the host's jump to the first fragment.
//!
//! The host has brought the runtime into the new process, applied its relocations, and set its
//! registers: the first argument points to [`StartArgs`], the stack is the runtime's. Nothing of
//! the app has run. The runtime maps what it needs, takes over the synchronous signals, and goes to
//! the app's first instruction with the registers the kernel gave it. What is made follows a plan (`mod@super::plan`).
#![allow(unsafe_code)] // reason: makes its own memory.

use super::plan::{Plan, Words};
use crate::base::signals;
use crate::base::start::StartArgs;
use crate::base::stress::{self, FailurePoint};
use crate::engine::current;
use core::sync::atomic::Ordering::{Relaxed, Release};

use alloc::boxed::Box;
use alloc::vec;

use linux_raw_sys::general as nr;
use trommel_queue::{
    CHUNK, COUNTER_ARRAY_BYTES, COUNTS_INTERVALS, DIRECTORY_BYTES, Detached, POOL_OFFSET,
    QUERIES_OFFSET, State, first_parts, mapped_bytes,
};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::area::{
    CONTEXT_OFFSET, COUNTERS_OFFSET, Context, INDIRECT_TABLE, SECOND_OFFSET, STACKS_END,
    WHOLE_BYTES,
};
use crate::base::heap::Heap;
use crate::base::hosted;
use crate::base::limits;
use crate::base::phase::Phases;
use crate::base::processor;
use crate::base::sys;
use crate::cache::Cache;
use crate::cache::targets::Targets;
use crate::channel::deliver::Queue;
use crate::channel::dictionary::Shared;
use crate::channel::persist::{self, Persist};
use crate::channel::shields::Profiler;
use crate::channel::slot::{self, Mapped};
use crate::channel::strata::Sampler;
use crate::channel::tags::Tags;
use crate::crossing::arch::{self};
use crate::engine::hints::Hints;
use crate::engine::signals::Actions;
use crate::engine::state::Runtime;
use crate::engine::state::Windows;
use crate::engine::state::{Process, Thread};
use crate::engine::window;
use crate::memory::pages::Pages;
use crate::memory::region::Regions;
use crate::observe::acyclic::Acyclic;
use crate::observe::contexts::Contexts;
use crate::observe::converge::Converge;
use crate::observe::pairs::Pairs;
use crate::observe::prefetch::Prefetch;
use crate::observe::query::Asked;
use crate::process::attach;
use crate::trace::balance::{Balance, Clocks};
use crate::translate::{Translator, Ways};

const PAGE: u64 = 4096;
/// One huge page, which takes a fraction of the time that its small pages would take to become
/// present: the thread area, the stacks, and what the heap gives out first.
const BLOCK_BYTES: u64 = 2 << 20;
const _: () = assert!(STACKS_END + (512 << 10) < BLOCK_BYTES);

/// All of the memory that the host made may be read, written and executed so far, and would be in cores.
fn protect(args: &StartArgs) {
    let data = nr::PROT_READ | nr::PROT_WRITE;
    sys::protect(
        args.image_start..args.image_end,
        nr::PROT_READ | nr::PROT_EXEC,
    );
    sys::protect(args.base..args.image_start, data);
    sys::protect(args.image_end..args.stack_top, data);
    sys::keep_out_of_cores(args.base, args.stack_top - args.base);
}

/// Maps the directory and the first slot after it, as much of it as the process uses. Returns where the slot is.
fn map_shared(file: i32) -> Option<u64> {
    let (windows, asked) = {
        const HEAD: usize = DIRECTORY_BYTES + QUERIES_OFFSET.next_multiple_of(CHUNK) + CHUNK;
        let head = map_file(file, sys::anonymous(HEAD).ok()?, 0, HEAD)?;
        // SAFETY: all that is looked at is in what was just mapped, which is not unmapped meanwhile; all atomics.
        let mapped = unsafe { Mapped::new(head + DIRECTORY_BYTES as u64) };
        let asked = Asked::is_there(mapped);
        let windows = mapped.has_windows();
        // SAFETY: nothing uses it any more.
        unsafe { sys::munmap(head, HEAD) };
        (windows, asked)
    };
    let bytes = DIRECTORY_BYTES + mapped_bytes(windows);
    let room = sys::anonymous(bytes + CHUNK).ok()?;
    // Chunks are at multiples of their size.
    let start = room.next_multiple_of(CHUNK as u64);
    let slot = start + DIRECTORY_BYTES as u64;
    if !windows {
        map_file(file, start, 0, bytes)?;
        return Some(slot);
    }
    // SAFETY: just made. What is mapped there from now on is listed.
    unsafe { sys::munmap(room, bytes + CHUNK) };
    limits::room_for(bytes as u64);
    map_file(file, start, 0, DIRECTORY_BYTES)?;
    sys::list(start, DIRECTORY_BYTES);
    for (offset, len) in first_parts(asked) {
        map_file(file, slot + offset as u64, DIRECTORY_BYTES + offset, len)?;
        sys::list(slot + offset as u64, len);
    }
    slot::parts_begin();
    Some(slot)
}

/// Maps `bytes` of the shared file at an address of ours.
fn map_file(file: i32, at: u64, offset: usize, bytes: usize) -> Option<u64> {
    // SAFETY: in place of a reservation, or where one was, of one thread that runs.
    let mapped = unsafe {
        sys::mmap(&sys::Map {
            at,
            len: bytes,
            prot: nr::PROT_READ | nr::PROT_WRITE,
            flags: nr::MAP_SHARED | nr::MAP_FIXED,
            fd: file,
            offset: offset as u64,
        })
    };
    mapped.ok()
}

/// Sets everything up and goes to the app. `None` when the kernel refuses memory; the caller must
/// end the process with an error, since nothing of the app has run.
///
/// # Safety
/// As the host starts it: once, in a process that runs nothing else. `heap` must be the allocator in
/// use, and not yet used.
pub unsafe fn start(args: StartArgs, heap: &Heap) -> Option<core::convert::Infallible> {
    protect(&args);
    limits::begin(
        &args.limits,
        Range {
            start: args.base,
            end: args.stack_top,
        },
    );
    // SAFETY: the caller's word.
    let area = unsafe { make_area(&args, heap) }?;
    let (mapped, kept) = map_files(&args, area)?;
    let control = mapped.control();
    attach::tell(&control.attached, &args);
    if control.setup.fsgsbase.load(Relaxed) != 0 {
        // SAFETY: the kernel has enabled them, as the host says.
        unsafe { arch::use_instructions() };
    }
    sys::find_clock();
    processor::find();
    stress::set(control.setup.options.load(Relaxed));
    let attaches = args.threads != 0;
    if attaches {
        stress::fail(FailurePoint::Start);
    } else {
        // SAFETY: GS is the runtime's from here on.
        unsafe { arch::set_gs_base(area) };
    }
    let asked = Asked::of(mapped);
    let words = Words {
        asked: asked.is_some(),
        threads: args.threads,
        whole_jumps: processor::confines_jumps(),
        ..Words::read(control)
    };
    let plan = Plan::of(&words);
    let entry = (args.entry != 0).then_some(AppPc(args.entry));
    let translator = translator_of(&plan, mapped, asked, entry)?;
    let runtime = runtime_of(&plan, translator, mapped, kept, area);
    let image = Range {
        start: args.image_start,
        end: args.image_end,
    };
    let process: &'static Process =
        Box::leak(Box::new(Process::new(runtime, Queue::new(mapped), image)));
    let thread = Thread::of_area(process, area, 0, 0);
    thread.writer.number = 1;
    process.runtime.lock().areas.push(&raw const *thread);
    current::serve(process);
    if control.setup.options.load(Relaxed) != 0 {
        Heap::guarded_by(process.runtime.word());
    }
    if plan.window == 0 {
        hosted::ask_at(&control.map, mapped.map_text(), mapped.directory());
    }
    if attaches || plan.window != 0 {
        // Made natively.
        sys::expect_guards();
    }
    if attaches {
        stress::fail(FailurePoint::Start);
        return attach::prepare(process, thread, &args);
    }
    // SAFETY: in the area just filled in.
    let context = unsafe { &mut *((area + CONTEXT_OFFSET as u64) as *mut Context) };
    enter(process, thread, context, &args, plan.window != 0);
    // SAFETY: the context is complete and GS points to its area.
    unsafe { arch::resume() }
}

/// Makes the first thread's area, and gives the heap what is left of its block. Returns the area's address.
///
/// # Safety
/// `heap` must be the allocator in use, and not yet used.
unsafe fn make_area(args: &StartArgs, heap: &Heap) -> Option<u64> {
    // The thread page before the block, so that the rest of the area is in it.
    let block = args.stack_top.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES;
    sys::own_memory_from(block - PAGE);
    let area = sys::anonymous(WHOLE_BYTES).ok()?;
    let block = area + PAGE;
    if block.is_multiple_of(BLOCK_BYTES) {
        sys::huge(block, BLOCK_BYTES);
    }
    const _: () = assert!(SECOND_OFFSET as u64 == PAGE + BLOCK_BYTES);
    let rest = Range {
        start: area + STACKS_END,
        end: block + BLOCK_BYTES,
    };
    // SAFETY: the rest of the block, which nothing else uses.
    unsafe { heap.give(rest) };
    Some(area)
}

/// Maps the shared file, and the thread page in it at the start of the area. Maps the kept fragments. Closes the descriptors.
fn map_files(args: &StartArgs, area: u64) -> Option<(Mapped, &'static [u8])> {
    let file = args.file as i32;
    let shared_at = map_shared(file);
    sys::close(file);
    if args.image_file != u64::MAX {
        sys::close(args.image_file as i32);
    }
    let kept = match (args.kept_file, args.kept_path) {
        (u64::MAX, 0) => &[],
        // SAFETY: the host has put a path there.
        (u64::MAX, path) => unsafe { persist::map_path(path, [args.kept_device, args.kept_inode]) },
        (file, _) => persist::map(file as i32),
    };
    let shared_at = shared_at?;
    sys::populate(shared_at + POOL_OFFSET as u64, CHUNK as u64);
    // SAFETY: mapped as required.
    let mapped = unsafe { Mapped::new(shared_at) };
    if mapped.has_windows() {
        // Windows count in no arrays.
        // SAFETY: the end of the area, which is not used yet.
        unsafe { sys::munmap(area + COUNTERS_OFFSET as u64, COUNTER_ARRAY_BYTES) };
    }
    // SAFETY: the first page of the area, which is not used yet.
    unsafe { sys::map_again(mapped.thread_page(0), sys::PAGE, area) }.ok()?;
    Some((mapped, kept))
}

/// Makes the translator of a plan. `entry`: where the program itself starts, after its dynamic linker.
fn translator_of(
    plan: &Plan,
    mapped: Mapped,
    asked: Option<Asked>,
    entry: Option<AppPc>,
) -> Option<Translator> {
    let control = mapped.control();
    let mut converge = Converge::of(mapped);
    if let Some(converge) = &mut converge {
        converge.threshold = plan.threshold;
    }
    let profiler = match control.setup.counters.load(Relaxed) {
        COUNTS_INTERVALS => Some(Profiler::of(control)?),
        _ => None,
    };
    let ways = Ways {
        sampler: Sampler::of(control),
        profiler,
        acyclic: plan.acyclic.map(Acyclic::new),
        contexts: Contexts::new(control.setup.contexts.load(Relaxed)),
        asked,
        prefetch: Prefetch::of(mapped),
        converge,
        selected: Tags::selected(mapped),
    };
    if plan.config.counters && plan.config.wants_values() {
        control.process.value_counters.store(1, Relaxed);
    }
    Some(Translator::new(plan.config, ways, entry))
}

/// Makes the state that all threads share, with nothing translated yet.
fn runtime_of(
    plan: &Plan,
    translator: Translator,
    mapped: Mapped,
    kept: &'static [u8],
    area: u64,
) -> Runtime {
    let mut cache = match plan.window {
        0 => Cache::new(),
        _ => Cache::growing(),
    };
    cache.far = plan.far;
    cache.unlinked = plan.unlinked;
    if translator.ways.converge.is_none() {
        cache.make_traces(plan.threshold);
    }
    let persist = Persist::open(mapped, plan.config.shape(), kept);
    if let Some(persist) = &persist {
        cache.expect(persist.records());
    }
    let mut shared = Shared::new(mapped);
    if translator.ways.acyclic.is_some() {
        // What follows exits is looked up there.
        shared.keep();
    }
    // SAFETY: fresh zero memory, which stays.
    let targets = unsafe {
        Targets::new(
            area + u64::from(INDIRECT_TABLE.0),
            area + SECOND_OFFSET as u64,
        )
    };
    let mut code_pages = Pages::default();
    code_pages.unsteady = plan.guarded;
    Runtime {
        translator,
        cache,
        regions: Regions::default(),
        code_pages,
        watching: false,
        memory_file: false,
        status_file: false,
        shared,
        actions: Actions::none(),
        targets: vec![targets],
        pairs: Pairs::default(),
        shared_tables: 0,
        cache_limit: plan.cache_limit,
        reclaim_at: 0,
        threads: vec![],
        areas: vec![],
        aggressive: plan.aggressive,
        overflowing: plan.shared_memory,
        evict: None,
        leave: false,
        broken: false,
        balance: Balance::new(plan.watched, Clocks::now()),
        phases: Phases::default(),
        hints: Hints::none(plan.config.kinds),
        parts: 0,
        queries_leave: false,
        queries_looked: 0,
        pages: 1,
        numbers: 1,
        windows: Windows::of(plan.window),
        persist,
        loaded: vec![],
    }
}

/// Takes control over the process's one thread, at the app's first instruction.
fn enter(
    process: &'static Process,
    thread: &mut Thread,
    context: &mut Context,
    args: &StartArgs,
    windows: bool,
) {
    thread.is_current();
    // There is room in an empty queue, if there is a host.
    let taken = process.queue.take(&mut thread.writer);
    signals::use_stack(&thread.signals.own_stack);
    context.regs[4] = args.app_sp;
    context.flags = 0x202;
    let control = process.queue.control();
    control.process.threads.store(1, Relaxed);
    let mut runtime = process.runtime.lock();
    // Should the runtime fail, the thread gives it up.
    process.runtime.hold_on(thread.stacks().start);
    thread.take_counter_array(&mut runtime);
    thread.name_counter_array();
    thread.take_contexts(&mut runtime);
    thread.take_queries(&mut runtime);
    runtime.threads.push(&raw const *thread);
    runtime.actions = Actions::install();
    // From here on the host may send signals.
    let state = &control.process.state;
    state.store(State::Controlled as u32, Release);
    let _ = runtime.begins_with_mask(thread, signals::get_mask());
    let app_pc = AppPc(args.app_pc);
    if taken.is_err() {
        context.next_pc = app_pc;
        runtime.detach(thread, context, Detached::HostGone);
        return;
    }
    if windows {
        window::first(&mut runtime, thread, context, app_pc);
    }
    runtime.go(thread, context, app_pc, None, false);
}
