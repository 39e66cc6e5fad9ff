//! The app's signal handlers, run under control and at exact places.
//!
//! # Problem
//! The kernel interrupts whatever runs: a fragment between two app instructions, in the middle of
//! one (a probe, a lookup), or the runtime itself. The app's handler must see, and may change, the
//! context of its own code, and must itself run in the cache.
//!
//! # Strategy
//! The kernel calls [`on_signal`] for every signal that the app handles, and for the synchronous
//! ones always; on a stack of the runtime's, all signals blocked. From the interrupted program
//! counter follows what to do:
//!
//! * *At a boundary* (the start of an app instruction, or a system call about to be made or just
//!   interrupted): deliver. The kernel's own frame is copied to the app's stack as the kernel would
//!   have put it, with the app's program counter, alternate stack and restorer; the frame being
//!   returned from is changed to enter the handler through the dispatcher.
//! * *Between boundaries in the cache*: the signal is kept, all others are blocked, and the trap
//!   flag leads on, one instruction at a time, to the next boundary. A step has a few dozen
//!   instructions at most, which bounds the delay.
//! * *In the runtime*: the signal is kept; the way back into the cache ends in a trap
//!   (`arch::resume`), where all registers are the app's, and it is delivered there.
//! * *A fault of the app* is always at an app instruction; the fragment's description says which
//!   registers it must get back.
//! * *A fault of the runtime* lets the app go, since its state is complete in the context.
//!
//! The app's return from its handler is a system call that the runtime sees: it lets the kernel
//! load the frame, with a landing place of its own as program counter.
//!
//! # Invariants
//! * At most one signal is kept: while there is one, all others are blocked in the kernel.
//! * The app's mask is the kernel's, except while `Signals::true_mask` holds it.
//! * A default or ignored disposition is the kernel's business, except for the synchronous
//!   signals, whose default action is carried out on the app's own code, so that a core dump shows
//!   the app.
#![allow(unsafe_code)] // reason: called by the kernel with raw frames.

use core::sync::atomic::Ordering::{Relaxed, Release};

use linux_raw_sys::general as nr;
use trommel_queue::{FULL_WINDOW, LetGo, State};

use crate::arch::{self, Landmarks};
use crate::area::{CONTEXT_OFFSET, Context};
use crate::cache::{AppPc, CachePc, Fragment, Spilled, Step};
use crate::dispatch::Runtime;
use crate::native::PENDING;
use crate::sys;

const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;
const SIGABRT_IOT: i32 = 6;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGSEGV: i32 = 11;
/// Signals that instructions cause.
pub const SYNCHRONOUS: [i32; 5] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV];
/// One more than the last signal number.
pub const SIGNALS: usize = 65;
const TRAP_FLAG: u64 = 0x100;
const TRAP_TRACE: i32 = 2;
const SA_SIGINFO: u64 = 4;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SA_RESTORER: u64 = 0x0400_0000;
const SIG_DFL: u64 = 0;
const SIG_IGN: u64 = 1;
/// `SS_DISABLE`
pub const SS_DISABLE: u32 = 2;
const RED_ZONE: u64 = 128;

/// `struct kernel_sigaction`
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Action {
    /// `SIG_DFL`, `SIG_IGN` or the handler.
    pub handler: u64,
    /// `SA_*`
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: u64,
    /// Blocked while it runs.
    pub mask: u64,
}

/// `stack_t`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// `SS_*`
    pub flags: u32,
    /// Padding of the kernel's structure.
    pub pad: u32,
    /// Bytes.
    pub size: u64,
}

/// `siginfo_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Info {
    signo: i32,
    errno: i32,
    code: i32,
    pad: i32,
    fields: [u64; 14],
}

/// `struct ucontext` of x86-64, as the kernel builds it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ucontext {
    flags: u64,
    link: u64,
    stack: AltStack,
    /// r8–r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp.
    regs: [u64; 16],
    /// Program counter.
    pub rip: u64,
    eflags: u64,
    selectors: u64,
    err: u64,
    trapno: u64,
    oldmask: u64,
    cr2: u64,
    fpstate: u64,
    reserved: [u64; 8],
    sigmask: u64,
}

/// Bytes of [`Ucontext`].
pub const UCONTEXT_BYTES: usize = size_of::<Ucontext>();
const _: () = assert!(UCONTEXT_BYTES == 304 && size_of::<Info>() == 128);

impl Ucontext {
    /// A general register by hardware number.
    fn reg(&mut self, n: u8) -> &mut u64 {
        const PLACE: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
        &mut self.regs[PLACE[usize::from(n & 15)]]
    }

    fn rsp(&mut self) -> &mut u64 {
        self.reg(4)
    }

    /// Prepares a frame of the app for `rt_sigreturn`: the state loaded is the frame's, but control
    /// comes to the runtime, and the kernel keeps the runtime's alternate stack. Returns where the
    /// app wants to go on and the alternate stack it wants.
    pub fn redirect(&mut self, own_stack: AltStack) -> (AppPc, AltStack) {
        let wanted = (AppPc(self.rip), self.stack);
        self.rip = Landmarks::sigreturned();
        self.stack = own_stack;
        wanted
    }
}

/// What the runtime knows about signals.
pub struct Signals {
    /// The app's view of its dispositions.
    pub actions: [Action; SIGNALS],
    /// The app's alternate stack.
    pub stack: AltStack,
    /// The runtime's own.
    pub own_stack: AltStack,
    /// A signal that waits for a boundary.
    kept: Option<Info>,
    /// The app's mask while the kernel's is another.
    true_mask: Option<u64>,
    /// The trap flag leads through the cache.
    rolling: bool,
    /// What a vfork child must put back in the memory it shares.
    pub after_child: Option<(bool, u32, Option<u64>)>,
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn is_synchronous(signal: i32) -> bool {
    SYNCHRONOUS.contains(&signal)
}

/// Sets the kernel's disposition.
fn set_action(signal: i32, action: &Action) -> i64 {
    // SAFETY: a valid structure; handlers set are the runtime's or the app's own.
    unsafe {
        sys::call(
            nr::__NR_rt_sigaction,
            [signal as u64, &raw const *action as u64, 0, 8, 0, 0],
        )
    }
}

/// Reads the kernel's disposition.
fn get_action(signal: i32) -> Action {
    let mut action = Action::default();
    // SAFETY: a valid structure to write to.
    let _ = unsafe {
        sys::call(
            nr::__NR_rt_sigaction,
            [signal as u64, 0, &raw mut action as u64, 8, 0, 0],
        )
    };
    action
}

fn get_mask() -> u64 {
    let mut mask = 0u64;
    // SAFETY: a valid word to write to.
    let _ = unsafe {
        sys::call(
            nr::__NR_rt_sigprocmask,
            [0, 0, &raw mut mask as u64, 8, 0, 0],
        )
    };
    mask
}

fn set_mask(mask: u64) {
    const SIG_SETMASK: u64 = 2;
    // SAFETY: a valid word to read.
    let _ = unsafe {
        sys::call(
            nr::__NR_rt_sigprocmask,
            [SIG_SETMASK, &raw const mask as u64, 0, 8, 0, 0],
        )
    };
}

/// What the kernel is told for a signal that the runtime wants to see, given the app's wish.
fn own_action(app: &Action) -> Action {
    const KEPT: u64 = 0x1000_0000 | 1 | 2; // SA_RESTART, SA_NOCLDSTOP, SA_NOCLDWAIT
    Action {
        handler: on_signal as *const () as u64,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER | app.flags & KEPT,
        restorer: arch::restorer as *const () as u64,
        mask: !0,
    }
}

/// A trap is about to be used: it must not be blocked, or the kernel kills.
pub fn unblock_trap(signals: &mut Signals) {
    if signals.true_mask.is_some() {
        return;
    }
    let mask = get_mask();
    if mask & bit(SIGTRAP) != 0 {
        signals.true_mask = Some(mask);
        set_mask(mask & !bit(SIGTRAP));
    }
}

impl Signals {
    /// Takes over the synchronous signals and installs the runtime's alternate stack.
    pub fn install(own_stack: AltStack) -> Self {
        let mut actions = [Action::default(); SIGNALS];
        for signal in SYNCHRONOUS {
            let app = get_action(signal);
            actions[signal as usize] = app;
            set_action(signal, &own_action(&app));
        }
        // SAFETY: the stack is the runtime's for good.
        let _ = unsafe {
            sys::call(
                nr::__NR_sigaltstack,
                [&raw const own_stack as u64, 0, 0, 0, 0, 0],
            )
        };
        Self {
            actions,
            stack: AltStack {
                sp: 0,
                flags: SS_DISABLE,
                pad: 0,
                size: 0,
            },
            own_stack,
            kept: None,
            true_mask: None,
            rolling: false,
            after_child: None,
        }
    }

    /// Whether the runtime's handler is installed for a signal.
    fn is_own(&self, signal: usize) -> bool {
        is_synchronous(signal as i32) || self.actions[signal].handler > SIG_IGN
    }

    /// `rt_sigaction` of the app: installs what it asks for and returns the kernel's answer.
    pub fn change(&mut self, signal: i32, new: Option<Action>) -> (i64, Action) {
        let Some(old) = usize::try_from(signal)
            .ok()
            .and_then(|s| self.actions.get(s))
            .copied()
        else {
            return (-22, Action::default());
        };
        let slot = signal as usize;
        let old = if self.is_own(slot) {
            old
        } else {
            get_action(signal)
        };
        let Some(new) = new else {
            // SIGKILL and SIGSTOP may be asked for but not set; 0 may not even be asked for.
            return (if signal == 0 { -22 } else { 0 }, old);
        };
        let wanted = if new.handler > SIG_IGN || is_synchronous(signal) {
            own_action(&new)
        } else {
            new
        };
        let result = set_action(signal, &wanted);
        if result == 0 {
            const CANNOT_BE_BLOCKED: u64 = bit(9) | bit(19);
            self.actions[slot] = Action {
                mask: new.mask & !CANNOT_BE_BLOCKED,
                ..new
            };
        }
        (result, old)
    }

    /// Ignored synchronous signals, which a new program must inherit as ignored.
    pub fn hand_over_ignored(&self, back: bool) {
        for signal in SYNCHRONOUS {
            let app = self.actions[signal as usize];
            if app.handler == SIG_IGN {
                set_action(signal, &if back { own_action(&app) } else { app });
            }
        }
    }

    fn on_stack(&self, rsp: u64) -> bool {
        self.stack.flags & SS_DISABLE == 0
            && rsp.wrapping_sub(self.stack.sp) <= self.stack.size
            && rsp > self.stack.sp
    }

    /// `sigaltstack` of the app: the kernel's checks, on the app's view.
    pub fn change_stack(&mut self, rsp: u64, new: Option<AltStack>) -> (i64, AltStack) {
        const SS_ONSTACK: u32 = 1;
        const SS_AUTODISARM: u32 = 1 << 31;
        const MINIMUM: u64 = 2048;
        let on = self.on_stack(rsp);
        let mut old = self.stack;
        old.flags = (self.stack.flags & SS_AUTODISARM)
            | if on {
                SS_ONSTACK
            } else if self.stack.size == 0 {
                SS_DISABLE
            } else {
                0
            };
        let Some(new) = new else { return (0, old) };
        let mode = new.flags & !SS_AUTODISARM;
        if on {
            return (-1, old); // EPERM
        }
        if mode != SS_DISABLE && mode != SS_ONSTACK && mode != 0 {
            return (-22, old);
        }
        if mode == SS_DISABLE {
            self.stack = AltStack {
                sp: 0,
                flags: new.flags,
                pad: 0,
                size: 0,
            };
        } else if new.size < MINIMUM {
            return (-12, old); // ENOMEM
        } else {
            self.stack = AltStack { pad: 0, ..new };
        }
        (0, old)
    }

    /// The alternate stack that a frame of the app brings back.
    pub fn restore_stack(&mut self, stack: AltStack) {
        if stack.flags & SS_DISABLE != 0 || stack.size >= 2048 {
            self.stack = stack;
        }
    }

    /// The mask the app believes in, given the kernel's.
    pub fn mask_override(&mut self) -> &mut Option<u64> {
        &mut self.true_mask
    }
}

/// Where a signal found the thread.
enum Where {
    /// At an app instruction, all registers the app's (but a stolen one).
    Boundary(AppPc, Option<(Fragment, Step)>),
    /// Inside the step of an app instruction.
    Inside(Fragment, Step),
    /// In a fragment, before its first step.
    Lead,
    /// In `arch::resume`.
    Resuming,
    /// Elsewhere in the runtime.
    Runtime,
}

fn place(runtime: &Runtime, context: &Context, pc: u64) -> Where {
    if pc == Landmarks::sigreturned() {
        return Where::Boundary(context.next_pc, None);
    }
    if (Landmarks::resume_start()..Landmarks::resume_end()).contains(&pc) {
        return Where::Resuming;
    }
    if Landmarks::lookup().contains(&pc) {
        return Where::Lead;
    }
    if runtime.image.holds(AppPc(pc)) {
        return Where::Runtime;
    }
    let Some(id) = runtime.cache.fragment_at(CachePc(pc)) else {
        return if runtime.cache.arena_of(CachePc(pc)).is_some() {
            Where::Lead
        } else {
            Where::Boundary(AppPc(pc), None)
        };
    };
    let fragment = runtime.cache.fragments[id as usize];
    let steps = runtime.cache.steps_of(&fragment);
    let Some(offset) = pc.checked_sub(fragment.entry.0) else {
        return Where::Lead;
    };
    let Some(n) = steps
        .partition_point(|s| u64::from(s.cache) <= offset)
        .checked_sub(1)
    else {
        return Where::Lead;
    };
    // A followed jump has no bytes of its own: the first step at an offset is where the app is.
    let first = steps[..=n].partition_point(|s| s.cache < steps[n].cache);
    let step = steps[n];
    let app = |s: Step| AppPc((fragment.app.0 as i64 + i64::from(s.app)) as u64);
    if u64::from(step.cache) == offset {
        return Where::Boundary(app(steps[first]), Some((fragment, steps[first])));
    }
    // SAFETY: a cache address inside a fragment.
    let bytes = unsafe { (pc as *const [u8; 2]).read() };
    if bytes == [0x0f, 0x05] && n + 1 == steps.len() {
        // The system call that ends a fragment: its path is recorded, nothing is stolen.
        return Where::Boundary(app(step), None);
    }
    Where::Inside(fragment, step)
}

fn context() -> &'static mut Context {
    let this: u64;
    // SAFETY: GS points to the thread area while handlers of the runtime are installed, and only
    // one thread is controlled.
    unsafe {
        core::arch::asm!("mov {}, gs:[{}]", out(reg) this, const CONTEXT_OFFSET + core::mem::offset_of!(Context, this), options(nostack, readonly));
        &mut *((this + CONTEXT_OFFSET as u64) as *mut Context)
    }
}

/// The handler of everything. Called by the kernel on the runtime's alternate stack.
///
/// # Safety
/// Only the kernel may call this.
pub unsafe extern "C" fn on_signal(signal: i32, info: *const Info, frame: *mut Ucontext) {
    let context = context();
    // SAFETY: the kernel passes valid pointers; the runtime is the thread's own, and where it was
    // interrupted itself only words that it reads once are changed.
    let (runtime, info, frame) = unsafe { (Runtime::of(context), &*info, &mut *frame) };
    let caused = is_synchronous(signal) && info.code > 0;
    if signal == SIGTRAP && caused {
        if frame.rip == Landmarks::resume_end() {
            return landed(runtime, context, frame);
        }
        if info.code == TRAP_TRACE && (runtime.stepping || runtime.signals.rolling) {
            return stepped(runtime, context, frame);
        }
    }
    match place(runtime, context, frame.rip) {
        Where::Boundary(app, at) => {
            stop_stepping(runtime, context, frame);
            let app = trap_address(runtime, info, app, frame, caused);
            restore_mask(runtime, frame);
            deliver(runtime, context, info, frame, app, at, caused);
        }
        Where::Inside(fragment, step) if caused => {
            let app = AppPc((fragment.app.0 as i64 + i64::from(step.app)) as u64);
            let app = if info.code > 0 && signal == SIGTRAP {
                AppPc(app.0 + 1)
            } else {
                app
            };
            if let Some(far) = step.far {
                *frame.reg(far.0) = context.spill_far;
            }
            let at = Step {
                spilled: step.at_fault,
                ..step
            };
            restore_mask(runtime, frame);
            deliver(
                runtime,
                context,
                info,
                frame,
                app,
                Some((fragment, at)),
                true,
            );
        }
        Where::Runtime | Where::Resuming if caused => failed(runtime, context, info, frame),
        Where::Lead if caused => failed(runtime, context, info, frame),
        Where::Inside(..) | Where::Lead => {
            keep(runtime, info, frame);
            runtime.signals.rolling = true;
            frame.eflags |= TRAP_FLAG;
        }
        Where::Resuming => {
            keep(runtime, info, frame);
            frame.rip = Landmarks::resume_start();
            context.pending = PENDING;
        }
        Where::Runtime => {
            keep(runtime, info, frame);
            context.pending = PENDING;
        }
    }
}

/// A breakpoint instruction reports the address behind itself.
fn trap_address(
    runtime: &Runtime,
    info: &Info,
    app: AppPc,
    frame: &Ucontext,
    caused: bool,
) -> AppPc {
    if !caused || info.signo != SIGTRAP || info.code == TRAP_TRACE {
        return app;
    }
    // In the cache the next step begins there, but its app address may be elsewhere (a followed
    // jump); the breakpoint itself is one byte before.
    match runtime.cache.fragment_at(CachePc(frame.rip - 1)) {
        Some(id) => {
            let fragment = runtime.cache.fragments[id as usize];
            let offset = frame.rip - 1 - fragment.entry.0;
            runtime
                .cache
                .steps_of(&fragment)
                .iter()
                .rev()
                .find(|s| u64::from(s.cache) <= offset)
                .map_or(app, |s| {
                    AppPc((fragment.app.0 as i64 + i64::from(s.app)) as u64 + 1)
                })
        }
        None => app,
    }
}

fn unspill(context: &Context, frame: &mut Ucontext, spilled: Spilled) {
    if spilled.rcx {
        *frame.reg(1) = context.spill_rcx;
    }
    if spilled.rdx {
        *frame.reg(2) = context.spill_rdx;
    }
}

fn restore_mask(runtime: &mut Runtime, frame: &mut Ucontext) {
    if let Some(mask) = runtime.signals.true_mask.take() {
        frame.sigmask = mask;
    }
}

/// Keeps a signal for the next boundary, with all others blocked until then.
fn keep(runtime: &mut Runtime, info: &Info, frame: &mut Ucontext) {
    let signals = &mut runtime.signals;
    signals.kept = Some(*info);
    signals.true_mask.get_or_insert(frame.sigmask);
    frame.sigmask = !SYNCHRONOUS.iter().fold(0, |mask, s| mask | bit(*s));
}

/// The trap at the end of `arch::resume`: every register is the app's.
fn landed(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    context.pending = 0;
    stop_stepping(runtime, context, frame);
    if context.at_boundary == 0 {
        // Inside a step (a chunk was full): on to the boundary.
        frame.rip = context.target.0;
        frame.eflags |= TRAP_FLAG;
        runtime.signals.rolling = true;
        return;
    }
    arrived(runtime, context, frame, context.next_pc, None);
}

fn stop_stepping(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    if runtime.stepping {
        runtime.stepping = false;
        context.flags &= !TRAP_FLAG;
        frame.eflags &= !TRAP_FLAG;
    }
}

/// One instruction was executed with the trap flag.
fn stepped(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    if runtime.stepping {
        // The flag works from the moment it is loaded: first come traps on the way there, the last
        // of them in front of the instruction.
        if runtime.image.holds(AppPc(frame.rip)) {
            return;
        }
        if !runtime.stepping_there {
            runtime.stepping_there = true;
            return;
        }
        stop_stepping(runtime, context, frame);
        let pc = AppPc(frame.rip);
        return arrived(runtime, context, frame, pc, None);
    }
    match place(runtime, context, frame.rip) {
        Where::Boundary(app, at) => {
            runtime.signals.rolling = false;
            frame.eflags &= !TRAP_FLAG;
            arrived(runtime, context, frame, app, at);
        }
        Where::Runtime | Where::Resuming => {
            runtime.signals.rolling = false;
            frame.eflags &= !TRAP_FLAG;
            context.pending = PENDING;
        }
        Where::Inside(..) | Where::Lead => {}
    }
}

/// At a boundary with something to do: leave, deliver what was kept, or just go on.
fn arrived(
    runtime: &mut Runtime,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    if runtime.leaving {
        to_app_state(runtime, context, frame, app, at);
        return leave(runtime, context, frame);
    }
    restore_mask(runtime, frame);
    match runtime.signals.kept.take() {
        Some(info) => deliver(runtime, context, &info, frame, app, at, false),
        None => go_on(runtime, context, frame, app, at),
    }
}

/// Makes the frame the app's own context at `app`, and records the events of the part of the
/// fragment that was executed.
fn to_app_state(
    runtime: &mut Runtime,
    context: &Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    frame.rip = app.0;
    let Some((fragment, step)) = at else { return };
    if let Some(n) = fragment.stolen {
        *frame.reg(n) = context.spill_stolen;
    }
    unspill(context, frame, step.spilled);
    if let (Some(block), true) = (fragment.block, step.events > 0) {
        record_part(runtime, block, step);
    }
}

fn record_part(runtime: &mut Runtime, block: u32, step: Step) {
    let Ok(path) = runtime.shared.path(block, u16::from(step.events), None) else {
        return;
    };
    // SAFETY: the write pointer leads to room for a whole record, whose values are in place.
    let full = unsafe {
        let at = runtime.write_pointer.read();
        (at as *mut u32).write_unaligned(path);
        let next = at + 4 + 8 * u64::from(step.values);
        runtime.write_pointer.write(next);
        next as usize & 0xffff < FULL_WINDOW
    };
    if full {
        let _ = runtime.publish();
    }
}

/// Lets the app go on at `app` through the dispatcher.
fn go_on(
    runtime: &mut Runtime,
    context: &mut Context,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
) {
    to_app_state(runtime, context, frame, app, at);
    context.next_pc = app;
    frame.rip = Landmarks::sigreturned();
}

/// Runs the app's handler, or does what the app chose instead.
fn deliver(
    runtime: &mut Runtime,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    app: AppPc,
    at: Option<(Fragment, Step)>,
    caused: bool,
) {
    let signal = info.signo;
    let action = runtime.signals.actions[signal as usize];
    match action.handler {
        // The kernel does not let an instruction's fault be ignored.
        SIG_DFL | SIG_IGN if caused => {
            let app = if signal == SIGTRAP && info.code != TRAP_TRACE {
                AppPc(app.0 - 1)
            } else {
                app
            };
            to_app_state(runtime, context, frame, app, at);
            die(runtime, context, info, frame, false);
        }
        SIG_IGN => go_on(runtime, context, frame, app, at),
        SIG_DFL if is_synchronous(signal) || signal == SIGABRT_IOT => {
            to_app_state(runtime, context, frame, app, at);
            die(runtime, context, info, frame, true);
        }
        // The app changed its mind between the signal and its delivery; the kernel decides anew.
        SIG_DFL => {
            requeue(info);
            go_on(runtime, context, frame, app, at);
        }
        _ => {
            to_app_state(runtime, context, frame, app, at);
            call_handler(runtime, context, info, frame, &action, caused);
        }
    }
}

fn requeue(info: &Info) {
    let (pid, tid) = (sys::getpid() as u64, {
        // SAFETY: no arguments.
        unsafe { sys::call(nr::__NR_gettid, [0; 6]) as u64 }
    });
    // SAFETY: a valid siginfo.
    let _ = unsafe {
        sys::call(
            nr::__NR_rt_tgsigqueueinfo,
            [pid, tid, info.signo as u64, &raw const *info as u64, 0, 0],
        )
    };
}

/// The default action of a synchronous signal, on the app's own code: by executing the faulting
/// instruction again, or by sending the signal again.
fn die(
    runtime: &mut Runtime,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    send: bool,
) {
    let _ = runtime.publish();
    context.next_pc = AppPc(frame.rip);
    runtime.signals.actions[info.signo as usize] = Action::default();
    if send {
        requeue(info);
    }
    leave(runtime, context, frame);
}

/// Builds the app's frame, as the kernel would, and enters the handler through the dispatcher.
fn call_handler(
    runtime: &mut Runtime,
    context: &mut Context,
    info: &Info,
    frame: &mut Ucontext,
    action: &Action,
    caused: bool,
) {
    let signals = &mut runtime.signals;
    runtime.shared.control().signals.fetch_add(1, Relaxed);
    let rsp = *frame.rsp();
    let mut top = rsp - RED_ZONE;
    if action.flags & SA_ONSTACK != 0 && signals.stack.size != 0 && !signals.on_stack(rsp) {
        top = signals.stack.sp + signals.stack.size;
    }
    let vector_bytes = vector_state_bytes(frame.fpstate);
    let vector_at = (top - vector_bytes as u64) & !63;
    let frame_bytes = 8 + UCONTEXT_BYTES as u64 + size_of::<Info>() as u64;
    let at = ((vector_at - frame_bytes) & !15) - 8;
    let (uc_at, info_at) = (at + 8, at + 8 + UCONTEXT_BYTES as u64);
    let mut shown = *frame;
    shown.stack = signals.stack;
    shown.fpstate = if frame.fpstate == 0 { 0 } else { vector_at };
    let mut told = *info;
    // Faults of an instruction itself (not of its operand) carry its address.
    if caused && matches!(info.signo, SIGILL | SIGFPE) {
        told.fields[0] = frame.rip;
    }
    let bytes = |p: *const u8, n| {
        // SAFETY: both structures are plain and alive.
        unsafe { core::slice::from_raw_parts(p, n) }
    };
    let vector: &[u8] = if frame.fpstate == 0 {
        &[]
    } else {
        bytes(frame.fpstate as *const u8, vector_bytes)
    };
    let written = sys::write_checked(vector, vector_at)
        && sys::write_checked(&action.restorer.to_le_bytes(), at)
        && sys::write_checked(bytes((&raw const shown).cast(), UCONTEXT_BYTES), uc_at)
        && sys::write_checked(bytes((&raw const told).cast(), size_of::<Info>()), info_at);
    if !written {
        // No room for the frame: the kernel kills with SIGSEGV.
        let mut fault = *info;
        fault.signo = SIGSEGV;
        runtime.signals.actions[SIGSEGV as usize] = Action::default();
        frame.sigmask &= !bit(SIGSEGV);
        return die(runtime, context, &fault, frame, true);
    }
    if action.flags & SA_RESETHAND != 0 {
        let reset = Action {
            handler: SIG_DFL,
            ..*action
        };
        signals.actions[info.signo as usize] = reset;
        if !is_synchronous(info.signo) {
            set_action(info.signo, &reset);
        }
    }
    frame.sigmask |= action.mask;
    if action.flags & SA_NODEFER == 0 {
        frame.sigmask |= bit(info.signo);
    }
    // Registers as at the start of a handler; the kernel gives it fresh vector state.
    *frame.rsp() = at;
    *frame.reg(7) = info.signo as u64;
    *frame.reg(6) = info_at;
    *frame.reg(2) = uc_at;
    *frame.reg(0) = 0;
    const DIRECTION_TRAP_RESUME: u64 = 0x400 | TRAP_FLAG | 0x1_0000;
    frame.eflags &= !DIRECTION_TRAP_RESUME;
    frame.fpstate = 0;
    context.next_pc = AppPc(action.handler);
    frame.rip = Landmarks::sigreturned();
}

/// Bytes of the vector state that a frame points to.
fn vector_state_bytes(fpstate: u64) -> usize {
    const LEGACY: usize = 512;
    const MAGIC: u32 = 0x4650_5853;
    if fpstate == 0 {
        return 0;
    }
    // SAFETY: the kernel wrote the state there, and describes it in the bytes software may use.
    let [magic, size] = unsafe { ((fpstate + 464) as *const [u32; 2]).read() };
    if magic == MAGIC {
        size as usize
    } else {
        LEGACY
    }
}

/// The last step of letting go: everything of the kernel's is the app's again.
fn leave(runtime: &mut Runtime, context: &mut Context, frame: &mut Ucontext) {
    const ARCH_SET_GS: u64 = 0x1001;
    let signals = &mut runtime.signals;
    frame.eflags &= !TRAP_FLAG;
    frame.stack = signals.stack;
    if let Some(mask) = signals.true_mask.take() {
        frame.sigmask = mask;
    }
    for signal in 1..SIGNALS {
        if signals.is_own(signal) {
            set_action(signal as i32, &signals.actions[signal]);
        }
    }
    if let Some(info) = signals.kept.take() {
        requeue(&info);
    }
    signals.rolling = false;
    if let Some((leaving, pending, mask)) = signals.after_child.take() {
        runtime.leaving = leaving;
        context.pending = pending;
        signals.true_mask = mask;
    }
    // SAFETY: nothing uses GS from here on: the handler returns straight to the kernel.
    let _ = unsafe { sys::call(nr::__NR_arch_prctl, [ARCH_SET_GS, 0, 0, 0, 0, 0]) };
}

/// The runtime itself failed. While it runs, the app's state is complete in the context, and
/// nothing of the app has changed: the app is let go.
fn failed(runtime: &mut Runtime, context: &mut Context, info: &Info, frame: &mut Ucontext) {
    let control = runtime.shared.control();
    let text = b"trommel: internal error: signal 00 in the runtime at offset 0x0000000000000000\n";
    let mut line = *text;
    let hex = |n: u64| b"0123456789abcdef"[(n & 15) as usize];
    line[33] = b'0' + (info.signo / 10) as u8;
    line[34] = b'0' + (info.signo % 10) as u8;
    for n in 0..16 {
        line[text.len() - 2 - n] = hex(frame.rip.wrapping_sub(runtime.image.start) >> (4 * n));
    }
    sys::complain(&line);
    if runtime.leaving || !runtime.image.holds(AppPc(frame.rip)) {
        // Nothing sound is left: the default action, here.
        set_action(info.signo, &Action::default());
        return;
    }
    control.let_go.store(LetGo::Internal as u32, Relaxed);
    control.let_go_pc.store(context.next_pc.0, Relaxed);
    control.state.store(State::Native as u32, Release);
    runtime.leaving = true;
    context.pending = PENDING;
    context.at_boundary = 1;
    frame.rip = Landmarks::resume_start();
}
