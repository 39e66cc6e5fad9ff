//! System calls that the runtime must see.
//!
//! Most system calls are made from the cache, unseen. A table of bytes in the thread area names
//! those that concern the runtime: what changes the memory map, what the app asks about signals,
//! what starts, replaces or ends a process, and what would take the ground from under the runtime.
//! Each is made in the app's name with the app's arguments, and the app gets the kernel's answer.
//! None is made while the runtime's lock is held, but for `fork`, what changes the map where there
//! is code, which does not wait, and requests to stop a thread of this memory (`super::stops`).
#![allow(unsafe_code)] // reason: makes the app's system calls.

use crate::base::syscalls::{self, Role};
use crate::crossing::arch::upcalls;
use crate::engine::vsyscall::{args, raw};
use core::sync::atomic::Ordering::Relaxed;

use linux_raw_sys::general as nr;
use trommel_queue::Detached;

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::area::{Context, Reason};
use crate::base::signals::{Action, AltStack, UCONTEXT_BYTES, Ucontext};
use crate::base::stress::{self, FailurePoint};
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::change::{change_map, replaced};
use crate::engine::descriptors;
use crate::engine::native;
use crate::engine::own_status;
use crate::engine::signals::Returning;
use crate::engine::state::Thread;
use crate::process::advice;
use crate::process::exec;
use crate::process::memory;
use crate::process::request;
use crate::process::restricts;
use crate::process::sequences;
use crate::process::signal;
use crate::process::stops;
use crate::process::taken;
use crate::process::thread::Flags;

/// Bytes of the instruction.
pub const SYSCALL_BYTES: u64 = 2;
const EFAULT: i64 = -14;
const PTRACE_TRACEME: u64 = 0;

/// Makes the app's call.
fn pass(thread: &mut Thread, context: &Context, number: u32) -> i64 {
    let result = raw(context, number);
    thread.call.made = Some(result);
    stress::fail(FailurePoint::Syscall);
    result
}

/// Sets `rcx` and `r11` as a system call leaves them.
pub fn finish(context: &mut Context, next: AppPc) {
    context.regs[1] = next.0;
    context.regs[11] = context.flags;
}

/// Returns the address of the call before `next`.
pub fn before(next: AppPc) -> AppPc {
    AppPc(next.0 - SYSCALL_BYTES)
}

/// Result of a call of the app's.
enum Handled {
    /// It was made: the kernel's answer.
    Made(i64),
    /// A signal came first: it has not been made, and the thread goes on before it.
    SignalFirst,
    /// It cannot be made under control.
    Detached(Detached),
    /// The thread has been led on.
    LedOn,
}

impl Handled {
    /// Returns what has come of a call that a signal may keep from being made.
    fn unless_signalled(result: Option<i64>) -> Self {
        result.map_or(Self::SignalFirst, Self::Made)
    }
}

/// Handles the call that the app makes just before `next`.
pub fn handle(thread: &mut Thread, context: &mut Context, next: AppPc) {
    let here = before(next);
    context.next_pc = here;
    context.at_boundary = 1;
    thread.call.at = here;
    let control = thread.process.queue.control();
    control.engine.syscalls.fetch_add(1, Relaxed);
    let number = context.regs[0] as u32;
    // What is made by them comes back by the exit (`Reason::Cloned`).
    if syscalls::role(number) != Role::Starts {
        thread.goes_out();
    }
    let handled = by_number(thread, context, number, next);
    let mut runtime;
    let go_on_at = match handled {
        Handled::Made(result) => {
            thread.call.made = None;
            let answer = result as u64;
            context.regs[0] = thread.call.reported.take().unwrap_or(answer);
            finish(context, next);
            context.next_pc = next;
            next
        }
        Handled::SignalFirst => here,
        Handled::Detached(why) => {
            runtime = thread.process.runtime.lock();
            return runtime.detach(thread, context, why);
        }
        Handled::LedOn => return,
    };
    runtime = thread.process.runtime.lock();
    runtime.go(thread, context, go_on_at, None, false);
}

/// Makes a call, or finds out why not.
fn by_number(thread: &mut Thread, context: &mut Context, number: u32, next: AppPc) -> Handled {
    let a = args(context);
    match number {
        nr::__NR_rt_sigaction => Handled::Made(sigaction(thread, &a)),
        nr::__NR_rt_sigprocmask => {
            Handled::unless_signalled(signal::change_mask(thread, context, &a))
        }
        nr::__NR_sigaltstack => Handled::Made(altstack(thread, context, &a)),
        nr::__NR_rt_sigreturn => {
            sigreturn(thread, context, before(next));
            Handled::LedOn
        }
        nr::__NR_execve | nr::__NR_execveat => {
            Handled::unless_signalled(exec::exec(thread, context, number, &a))
        }
        nr::__NR_exit | nr::__NR_exit_group => end(thread, context, number, a[0]),
        nr::__NR_ptrace if a[0] == PTRACE_TRACEME && thread.spawned.is_none() => {
            Handled::Detached(Detached::Traced)
        }
        nr::__NR_ptrace => Handled::Made(trace(thread, context, number, &a)),
        nr::__NR_arch_prctl => arch_prctl(thread, context, &a),
        nr::__NR_prctl => prctl(thread, context, &a),
        nr::__NR_seccomp => match restricts::by_seccomp(thread, &a) {
            Some(why) => Handled::Detached(why),
            None => Handled::Made(pass(thread, context, number)),
        },
        nr::__NR_unshare | nr::__NR_setns => {
            Handled::Made(change_namespaces(thread, context, number, &a))
        }
        nr::__NR_rseq => Handled::Made(sequences::register(thread, context, &a)),
        _ => match syscalls::role(number) {
            Role::Starts => start(thread, context, number, &a, next),
            Role::Waits => Handled::unless_signalled(signal::wait(thread, context, number, &a)),
            _ => match taken::look(thread, number, &a) {
                None => Handled::Made(sequences::around(thread, number, &a, |thread| {
                    touch_memory(thread, context, number, &a)
                })),
                Some(taken::Outcome::Answer(answer)) => Handled::Made(answer),
                Some(taken::Outcome::Detach) => Handled::Detached(Detached::Place),
                Some(taken::Outcome::Again) => Handled::SignalFirst,
            },
        },
    }
}

/// Makes a call of `ptrace`. A process that is traced from here on runs natively first.
fn trace(thread: &mut Thread, context: &Context, number: u32, a: &[u64; 6]) -> i64 {
    const PTRACE_ATTACH: u64 = 16;
    const PTRACE_SEIZE: u64 = 0x4206;
    if matches!(a[0], PTRACE_ATTACH | PTRACE_SEIZE) && thread.spawned.is_none() {
        request::detach_other(thread, a[1] as u32);
    }
    match stops::may_stop(thread, a) {
        true => stops::ask(thread, context, number, a),
        false => pass(thread, context, number),
    }
}

/// Makes a call that may change the memory map, or what is in memory.
fn touch_memory(thread: &mut Thread, context: &Context, number: u32, a: &[u64; 6]) -> i64 {
    let process = thread.process;
    match number {
        nr::__NR_mmap => map(thread, context, a),
        nr::__NR_brk => memory::brk(thread, context, a[0]),
        nr::__NR_mlockall | nr::__NR_munlockall => memory::lock_all(thread, context, number, a[0]),
        nr::__NR_getrlimit | nr::__NR_setrlimit | nr::__NR_prlimit64 => {
            memory::limit(thread, context, number, a)
        }
        // What is sealed could not be made writable again.
        nr::__NR_munmap | nr::__NR_remap_file_pages | nr::__NR_mseal => {
            change_map(process, range(a[0], a[1]), None, || {
                pass(thread, context, number)
            })
        }
        nr::__NR_mprotect | nr::__NR_pkey_mprotect => {
            let protection = Some(a[2] as u32);
            change_map(process, range(a[0], a[1]), protection, || {
                pass(thread, context, number)
            })
        }
        nr::__NR_madvise | nr::__NR_process_madvise => {
            advice::give(process, number, a, || pass(thread, context, number))
        }
        nr::__NR_mremap => {
            let result = change_map(process, range(a[0], a[1]), None, || {
                pass(thread, context, number)
            });
            if result > 0 {
                replaced(process, range(result as u64, a[2]));
            }
            result
        }
        nr::__NR_shmat | nr::__NR_userfaultfd => {
            const SHM_REMAP: u64 = 0x4000;
            if number == nr::__NR_userfaultfd {
                sys::serve_faults();
            }
            let result = pass(thread, context, number);
            if number == nr::__NR_userfaultfd || a[2] & SHM_REMAP != 0 {
                replaced(process, range(0, u64::MAX));
            }
            result
        }
        _ => write(thread, context, number, a),
    }
}

/// Makes a mapping.
fn map(thread: &mut Thread, context: &Context, a: &[u64; 6]) -> i64 {
    let process = thread.process;
    let result = match a[3] & u64::from(nr::MAP_FIXED) == 0 {
        true => pass(thread, context, nr::__NR_mmap),
        false => change_map(process, range(a[0], a[1]), None, || {
            pass(thread, context, nr::__NR_mmap)
        }),
    };
    let result = memory::made(thread, result, a[1]);
    advice::mapped(a[3]);
    let shared = a[3] & u64::from(nr::MAP_SHARED | nr::MAP_ANONYMOUS) == u64::from(nr::MAP_SHARED);
    if shared && result > 0 {
        descriptors::mapped_shared(process, a[4] as i32);
    }
    result
}

/// Makes a call by which the kernel may write to memory with code, now or later, or any other.
fn write(thread: &mut Thread, context: &Context, number: u32, a: &[u64; 6]) -> i64 {
    let process = thread.process;
    match number {
        nr::__NR_io_setup | nr::__NR_io_uring_setup => {
            let mut runtime = process.runtime.lock();
            runtime.be_joined();
            runtime.writes_are_unseen();
            drop(runtime);
            pass(thread, context, number)
        }
        nr::__NR_process_vm_writev => {
            let mut runtime = process.runtime.lock();
            if a[0] == sys::getpid() as u64 {
                runtime.open_all(range(0, u64::MAX));
            }
            pass(thread, context, number)
        }
        nr::__NR_write
        | nr::__NR_pwrite64
        | nr::__NR_writev
        | nr::__NR_pwritev
        | nr::__NR_pwritev2 => {
            let mut runtime = process.runtime.lock();
            runtime.write_memory_file(|| raw(context, number))
        }
        nr::__NR_read | nr::__NR_pread64 | nr::__NR_readv => {
            let result = pass(thread, context, number);
            let mut runtime = process.runtime.lock();
            let shown = runtime.shown_signals(thread, a[0] as i32);
            drop(runtime);
            own_status::answer(number, a, result, shown);
            result
        }
        _ => pass(thread, context, number),
    }
}

/// Ends the thread or the process, unless a signal comes first.
fn end(thread: &mut Thread, context: &mut Context, number: u32, status: u64) -> Handled {
    if number == nr::__NR_exit_group && thread.spawned.is_none() {
        thread.process.queue.announce_end(status);
        return Handled::Made(pass(thread, context, number));
    }
    thread.exit(context, number, status);
    Handled::SignalFirst
}

fn arch_prctl(thread: &mut Thread, context: &Context, a: &[u64; 6]) -> Handled {
    const ARCH_GET_GS: u64 = 0x1004;
    if let Some(why) = restricts::by_arch(thread, a) {
        return Handled::Detached(why);
    }
    match a[0] {
        // A thread under control has none of its own.
        ARCH_GET_GS if sys::write_checked(&[0; 8], a[1]) => Handled::Made(0),
        ARCH_GET_GS => Handled::Made(EFAULT),
        _ => Handled::Made(pass(thread, context, nr::__NR_arch_prctl)),
    }
}

fn prctl(thread: &mut Thread, context: &Context, a: &[u64; 6]) -> Handled {
    const PR_SET_TSC: u64 = 26;
    const PR_SET_MDWE: u64 = 65;
    if let Some(why) = restricts::by_prctl(thread, a) {
        return Handled::Detached(why);
    }
    let process = thread.process;
    let before = match a[0] {
        PR_SET_MDWE => process.runtime.lock().leave_writable(true),
        _ => false,
    };
    let result = pass(thread, context, nr::__NR_prctl);
    if a[0] == PR_SET_MDWE && result != 0 {
        process.runtime.lock().leave_writable(before);
    }
    if a[0] == PR_SET_TSC && result == 0 {
        sys::find_clock();
    }
    Handled::Made(result)
}

/// Moves the thread to other namespaces.
fn change_namespaces(thread: &mut Thread, context: &Context, number: u32, a: &[u64; 6]) -> i64 {
    let result = pass(thread, context, number);
    let flags = match number {
        nr::__NR_unshare => a[0],
        _ => a[1],
    };
    // Which namespaces `setns` is about is told by the file, if not here.
    let any = number == nr::__NR_setns && flags == 0;
    if result == 0 && (any || Flags(flags).is_foreign()) {
        let control = thread.process.queue.control();
        control.process.foreign.store(1, Relaxed);
        thread.process.children_are_elsewhere();
    }
    result
}

fn range(start: u64, len: u64) -> Range {
    Range {
        start,
        end: start.saturating_add(len),
    }
}

fn sigaction(thread: &mut Thread, a: &[u64; 6]) -> i64 {
    const EINVAL: i64 = -22;
    if a[3] != 8 {
        return EINVAL;
    }
    let mut new = [0u8; size_of::<Action>()];
    if a[1] != 0 && !sys::copy_checked(a[1], &mut new) {
        return EFAULT;
    }
    let word = |n: usize| {
        new[8 * n..]
            .first_chunk()
            .map_or(0, |b| u64::from_le_bytes(*b))
    };
    let wanted = (a[1] != 0).then(|| Action {
        handler: word(0),
        flags: word(1),
        restorer: word(2),
        mask: word(3),
    });
    let mut runtime = thread.process.runtime.lock();
    let (result, old) = runtime.actions_of(thread).change(a[0] as i32, wanted);
    drop(runtime);
    if result == 0 && a[2] != 0 {
        let mut bytes = [0u8; size_of::<Action>()];
        for (n, word) in [old.handler, old.flags, old.restorer, old.mask]
            .into_iter()
            .enumerate()
        {
            bytes[8 * n..8 * n + 8].copy_from_slice(&word.to_le_bytes());
        }
        if !sys::write_checked(&bytes, a[2]) {
            return EFAULT;
        }
    }
    result
}

fn altstack(thread: &mut Thread, context: &Context, a: &[u64; 6]) -> i64 {
    let mut new = [0u8; 24];
    if a[0] != 0 && !sys::copy_checked(a[0], &mut new) {
        return EFAULT;
    }
    let word = |n: usize| new[n..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    let wanted = (a[0] != 0).then(|| AltStack {
        sp: word(0),
        flags: word(8) as u32,
        pad: 0,
        size: word(16),
    });
    let (result, old) = thread.signals.change_stack(context.regs[4], wanted);
    if result == 0 && a[1] != 0 {
        let mut bytes = [0u8; 24];
        bytes[..8].copy_from_slice(&old.sp.to_le_bytes());
        bytes[8..12].copy_from_slice(&old.flags.to_le_bytes());
        bytes[16..].copy_from_slice(&old.size.to_le_bytes());
        if !sys::write_checked(&bytes, a[1]) {
            return EFAULT;
        }
    }
    result
}

/// The app returns from its handler: the kernel loads the frame, and control comes back to
/// `arch::sigreturned`. What it loads is a copy, so that the app's stays as it is, and the call can
/// be called off.
fn sigreturn(thread: &mut Thread, context: &mut Context, here: AppPc) {
    let at = context.regs[4];
    let mut bytes = [0u8; UCONTEXT_BYTES];
    if !sys::copy_checked(at, &mut bytes) {
        // No frame there: what the kernel makes of that, it makes of the app's own call.
        context.next_pc = here;
        return native::step(thread, context);
    }
    // SAFETY: plain words, and as many bytes.
    let mut frame: Ucontext = unsafe { core::mem::transmute(bytes) };
    if frame.has_trap_flag() {
        // Natively the app sees a trap after each instruction from here on.
        let mut runtime = thread.process.runtime.lock();
        return runtime.detach(thread, context, Detached::SingleStep);
    }
    let (pc, stack) = frame.redirect(arch::Landmarks::sigreturned(), thread.signals.own_stack);
    thread.signals.returning = Some(Returning {
        frame: at,
        stack: thread.signals.stack,
        blocked: thread.signals.blocked.get(),
    });
    let mut runtime = thread.process.runtime.lock();
    if let Some(restorer) = restorer(at, here) {
        runtime.delivered(thread, restorer);
    }
    frame.sigmask = runtime.take_mask(thread, frame.sigmask);
    drop(runtime);
    let _ = thread.signals.change_stack(at, Some(stack));
    context.next_pc = pc;
    // SAFETY: the frame is complete and the kernel checks it; control does not come back here.
    unsafe { arch::sigreturn(&raw const frame as u64) }
}

/// The address that a handler has returned to, as its stack still has it, if the call at `here` follows. Programs may make the call
/// elsewhere: then code led there.
fn restorer(frame: u64, here: AppPc) -> Option<AppPc> {
    /// Bytes of an instruction that loads the call's number, at most.
    const LONGEST: u64 = 10;
    let mut word = [0; 8];
    let read = sys::copy_checked(frame.checked_sub(8)?, &mut word);
    let restorer = AppPc(u64::from_le_bytes(word));
    let between = here.0.checked_sub(restorer.0)?;
    (read && between <= LONGEST).then_some(restorer)
}

/// A call of the app was called off for a signal, which is delivered before it.
///
/// # Safety
/// Only `arch::calls` may call this, with the app's registers in the context.
#[unsafe(export_name = "trommel_called_off")]
pub unsafe extern "C" fn called_off(context: &mut Context) {
    // SAFETY: the thread has no other reference in use: it has left where it was.
    let thread = unsafe { Thread::of(context) };
    if thread.starting.locked.take().is_some() {
        // SAFETY: taken for the process that was not started.
        unsafe { thread.process.runtime.release() };
    }
    let here = thread.call.at;
    let mut runtime = thread.process.runtime.lock();
    // Nothing was returned from.
    if let Some(returning) = thread.signals.returning.take() {
        thread.signals.stack = returning.stack;
        runtime.blocks_as_before(thread, returning.blocked);
    }
    runtime.go(thread, context, here, None, false);
}

const _: upcalls::Entered = called_off;

/// Starts a thread or a process. Does not come back for a process with memory of its own: its maker
/// goes on in the dispatcher, and the child in `native::child`.
fn start(
    thread: &mut Thread,
    context: &mut Context,
    number: u32,
    a: &[u64; 6],
    next: AppPc,
) -> Handled {
    let (flags, stack) = flags_and_stack(number, a);
    let process = thread.process;
    if flags.is_foreign() {
        // Its later children are not, but it does no harm to look twice.
        process.queue.control().process.foreign.store(1, Relaxed);
    }
    let follow = process.queue.control().setup.follow.load(Relaxed) != 0;
    let done = |started| match started {
        Ok(result) => Handled::Made(result),
        Err(why) => Handled::Detached(why),
    };
    if flags.is_thread() {
        return done(thread.start(context, number, a, next, stack));
    }
    if flags.shares_memory() && follow {
        process.memory_is_shared(flags.is_foreign());
        return done(thread.spawn(context, number, a, next, stack, flags));
    }
    if flags.shares_memory() && !flags.waits() {
        return Handled::Detached(Detached::SharedMemory);
    }
    context.next_pc = next;
    context.reason = Reason::Cloned as u32;
    if !flags.shares_memory() {
        if follow {
            thread.reserve();
        }
        let mask = thread.block_for_start();
        // SAFETY: a word of the context, which a handler of this thread may just have written.
        if unsafe { (&raw const context.pending).read_volatile() } != 0 {
            thread.unblock_after_start(mask);
            thread.forked(-1);
            return Handled::SignalFirst;
        }
        thread.starting.clear_handlers = flags.clears_handlers();
        // The child's copy of what it guards is whole. Released where the parent comes back.
        let runtime = process.runtime.lock();
        thread.expect(&runtime);
        core::mem::forget(runtime);
        thread.starting.locked = Some(mask);
    }
    // SAFETY: the context holds the app's whole state at its call.
    unsafe { arch::clone() }
}

/// Returns the flags of a call that starts a thread or a process, and the new stack's top, 0 for the same stack.
fn flags_and_stack(number: u32, a: &[u64; 6]) -> (Flags, u64) {
    match number {
        nr::__NR_clone => (Flags(a[0]), a[1]),
        nr::__NR_clone3 => {
            let mut args = [0u8; 56];
            let known = (a[1] as usize).min(args.len());
            // An unreadable argument fails in the kernel just so.
            let _ = sys::copy_checked(a[0], &mut args[..known]);
            let word = |n: usize| {
                args[8 * n..]
                    .first_chunk()
                    .map_or(0, |b| u64::from_le_bytes(*b))
            };
            let stack = match (word(5), word(6)) {
                (0, _) => 0,
                (stack, size) => stack.wrapping_add(size),
            };
            (Flags(word(0)), stack)
        }
        nr::__NR_vfork => (Flags::VFORK, 0),
        _ => (Flags(0), 0),
    }
}
