//! The app's dispositions, mask and alternate stack, as it believes them to be.
#![allow(unsafe_code)] // reason: system calls.

use alloc::vec::Vec;

use linux_raw_sys::general as nr;
use trommel_queue::WINDOW_SIGNAL;

use crate::base::address::AppPc;
use crate::base::blocked::{Blocked, BlockedState};
use crate::base::signals::{
    ALL_BUT_SYNCHRONOUS, Action, AltStack, CANNOT_BE_BLOCKED, Info, SA_NODEFER, SA_ONSTACK,
    SA_RESTORER, SA_SIGINFO, SIG_DFL, SIG_IGN, SIG_UNBLOCK, SIGNALS, SIGTRAP, SS_AUTODISARM,
    SS_DISABLE, SYNCHRONOUS, Ucontext, bit, change_mask, exchange_action, get_action, get_mask,
    is_synchronous, requeue, set_action, set_mask,
};
use crate::base::sys;
use crate::crossing::arch;

/// Flags of dispositions that the kernel keeps.
const KNOWN_FLAGS: u64 = 0xdc00_0807;

/// The app's view of its dispositions, which all threads share.
pub struct Actions(pub [Action; SIGNALS]);

/// Signal state of one thread.
pub struct Pending {
    /// The app's alternate stack.
    pub stack: AltStack,
    /// The runtime's own.
    pub own_stack: AltStack,
    /// The app's mask when the thread starts.
    pub first_mask: u64,
    /// A signal that waits for a boundary.
    pub kept: Option<Info>,
    /// Synchronous signals that were sent while one was kept, or are masked, in the order of
    /// [`SYNCHRONOUS`].
    pub more: [Option<Info>; SYNCHRONOUS.len()],
    /// The mask of the call that the kept signal ended, if that has one of its own.
    pub waited_with: Option<u64>,
    /// The app has set the trap flag.
    pub own_traps: bool,
    /// Control is on its way into a handler.
    pub entering: bool,
    /// Control is on its way back from one.
    pub returning: Option<Returning>,
    /// The app's mask while the kernel's is another.
    pub true_mask: Option<u64>,
    /// The app's block of SIGSEGV.
    pub blocked: BlockedState,
    /// The mask of the call that the thread waits in, if that has one of its own.
    pub waits_with: Option<u64>,
    /// The trap flag leads through the cache.
    pub rolling: bool,
    /// The app's alignment checks are off until the next boundary.
    pub unaligned: bool,
    /// State that a vfork child must restore in the memory it shares.
    pub before_child: Option<BeforeChild>,
    /// Instructions that the kernel led to and that are not counted yet: first ones of handlers, and those by which handlers return.
    pub delivered: Vec<AppPc>,
    /// The last fault that a handler of the thread was told of: its number, error code and address.
    pub last_fault: [u64; 3],
}

/// A return from a handler that the kernel is asked for: until it is made, it can be called off.
#[derive(Clone, Copy)]
pub struct Returning {
    /// The handler's frame.
    pub frame: u64,
    /// The app's alternate stack up to then.
    pub stack: AltStack,
    /// The app's block of SIGSEGV up to then.
    pub blocked: Blocked,
}

/// Masks of a thread before it has blocked all signals, to start another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartMask {
    /// The kernel's.
    pub kernel: u64,
    /// The app's.
    pub app: u64,
    /// The app's mask is shown to the runtime's handlers meanwhile.
    pub shows: bool,
}

/// State that a child process changes in the thread that it shares memory with.
#[derive(Clone, Copy)]
pub struct BeforeChild {
    /// `Thread::leaving`
    pub leaving: bool,
    /// `Context::pending`
    pub pending: u32,
    /// [`Pending::true_mask`]
    pub mask: Option<u64>,
    /// [`Starting::locked`](crate::engine::parts::Starting::locked)
    pub locked: Option<StartMask>,
}

/// Returns the action to set in the kernel for a signal that the runtime wants to see, given the app's.
pub fn own_action(app: &Action) -> Action {
    const KEPT: u64 = 0x1000_0000 | 1 | 2; // SA_RESTART, SA_NOCLDSTOP, SA_NOCLDWAIT
    Action {
        handler: arch::on_signal as *const () as u64,
        flags: SA_SIGINFO | SA_ONSTACK | SA_RESTORER | SA_NODEFER | app.flags & KEPT,
        restorer: arch::restorer as *const () as u64,
        // Not those that a failure of the handler itself raises.
        mask: !SYNCHRONOUS.iter().fold(0, |mask, s| mask | bit(*s)),
    }
}

/// A trap is about to be used: it must not be blocked, or the kernel kills.
pub fn unblock_trap(signals: &mut Pending) {
    if signals.true_mask.is_some() {
        return;
    }
    let mask = get_mask();
    if mask & bit(SIGTRAP) != 0 {
        // First: one that is pending comes at once.
        signals.true_mask = Some(signals.app_mask(mask));
        // And nothing else changes: a signal that came since is kept, with all others blocked.
        change_mask(SIG_UNBLOCK, Some(&bit(SIGTRAP)));
    }
}

impl Actions {
    /// Returns the table before any action is known.
    pub const fn none() -> Self {
        const DEFAULT: Action = Action {
            handler: 0,
            flags: 0,
            restorer: 0,
            mask: 0,
        };
        Self([DEFAULT; SIGNALS])
    }

    /// Returns whether a signal has a handler of the app's.
    pub fn has_handler(&self, signal: u64) -> bool {
        let action = usize::try_from(signal).ok().and_then(|n| self.0.get(n));
        action.is_some_and(|action| action.handler > SIG_IGN)
    }

    /// Returns a copy for a process that has the same actions.
    pub const fn copy(&self) -> Self {
        Self(self.0)
    }

    /// The kernel has put every handler of this process back to the default.
    pub fn cleared(&mut self) {
        for action in &mut self.0 {
            if action.handler > SIG_IGN {
                *action = Action::default();
            }
        }
        for signal in SYNCHRONOUS {
            set_action(signal, &own_action(&self.0[signal as usize]));
        }
    }

    /// Takes over the synchronous signals.
    pub fn install() -> Self {
        let mut actions = [Action::default(); SIGNALS];
        for signal in SYNCHRONOUS {
            let app = get_action(signal);
            actions[signal as usize] = app;
            set_action(signal, &own_action(&app));
        }
        Self(actions)
    }

    /// Takes over, in a process that has been running, the synchronous signals and all that it
    /// handles.
    pub fn adopt() -> Self {
        let mut actions = Self::none();
        for signal in 1..SIGNALS {
            let app = get_action(signal as i32);
            actions.0[signal] = app;
            if actions.is_own(signal) {
                set_action(signal as i32, &own_action(&app));
            } else {
                actions.0[signal] = Action::default();
            }
        }
        actions
    }

    /// Takes over the synchronous signals, while a thread is in a window.
    pub fn take_synchronous(&mut self) {
        for signal in SYNCHRONOUS {
            let own = own_action(&Action::default());
            self.0[signal as usize] = exchange_action(signal, &own);
        }
    }

    /// Gives them back. One that the app has changed meanwhile stays as it is.
    pub fn give_back_synchronous(&self) {
        for signal in SYNCHRONOUS {
            let found = exchange_action(signal, &self.0[signal as usize]);
            if found.handler != arch::on_signal as *const () as u64 {
                set_action(signal, &found);
            }
        }
    }

    /// Takes over the signal of traps again, by which a thread leaves: one that is native already may have given it
    /// another handler, which is the app's from now on.
    pub fn take_trap(&mut self) {
        let ours = arch::on_signal as *const () as u64;
        if get_action(SIGTRAP).handler == ours {
            return;
        }
        let found = exchange_action(SIGTRAP, &own_action(&Action::default()));
        if found.handler != ours {
            self.0[SIGTRAP as usize] = found;
        }
    }

    /// Takes over the signal that begins windows. It interrupts no call, and nothing interrupts its handler: synchronous ones that are sent
    /// would where it has the lock.
    pub fn take_window_signal(&mut self) {
        const SA_RESTART: u64 = 0x1000_0000;
        let own = Action {
            mask: u64::MAX,
            ..own_action(&Action {
                flags: SA_RESTART,
                ..Action::default()
            })
        };
        self.0[WINDOW_SIGNAL as usize] = exchange_action(WINDOW_SIGNAL, &own);
    }

    /// Gives the signal that begins windows back, when nothing sends it any more. What waits of it is
    /// dropped first, as the kernel does with what is ignored: it would end the program.
    pub fn give_back_window_signal(&self) {
        let ignored = Action {
            handler: SIG_IGN,
            ..Action::default()
        };
        let found = exchange_action(WINDOW_SIGNAL, &ignored);
        let ours = found.handler == arch::on_signal as *const () as u64;
        let app = &self.0[WINDOW_SIGNAL as usize];
        set_action(WINDOW_SIGNAL, if ours { app } else { &found });
    }

    /// Gives the kernel the app's dispositions.
    pub fn give_back(&self) {
        for signal in 1..SIGNALS {
            let ours = arch::on_signal as *const () as u64;
            // Threads that are native already may have set another.
            if self.is_own(signal) && get_action(signal as i32).handler == ours {
                set_action(signal as i32, &self.0[signal]);
            }
        }
    }

    /// Returns whether the runtime's handler is installed for a signal.
    pub fn is_own(&self, signal: usize) -> bool {
        is_synchronous(signal as i32) || self.0[signal].handler > SIG_IGN
    }

    /// `rt_sigaction` of the app: installs what it asks for and returns the kernel's answer.
    pub fn change(&mut self, signal: i32, new: Option<Action>) -> (i64, Action) {
        let Some(old) = usize::try_from(signal)
            .ok()
            .and_then(|s| self.0.get(s))
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
        // Of flags that do not exist the kernel keeps none, since Linux 5.11: programs find out so which ones do.
        let strange = new.flags & !KNOWN_FLAGS;
        let wanted = Action {
            flags: wanted.flags | strange,
            ..wanted
        };
        let result = set_action(signal, &wanted);
        if result == 0 {
            let kept = match strange {
                0 => 0,
                _ => strange & get_action(signal).flags,
            };
            self.0[slot] = Action {
                mask: new.mask & !CANNOT_BE_BLOCKED,
                flags: new.flags & KNOWN_FLAGS | kept,
                ..new
            };
        }
        (result, old)
    }

    /// All synchronous signals, as a set.
    pub fn synchronous_bits() -> u64 {
        SYNCHRONOUS
            .into_iter()
            .map(bit)
            .fold(0, |set, bit| set | bit)
    }

    /// The synchronous signals that the app ignores, and those that it handles.
    pub fn synchronous(&self) -> [u64; 2] {
        let mut sets = [0; 2];
        for signal in SYNCHRONOUS {
            match self.0[signal as usize].handler {
                SIG_DFL => {}
                SIG_IGN => sets[0] |= bit(signal),
                _ => sets[1] |= bit(signal),
            }
        }
        sets
    }

    /// Ignored synchronous signals, which a new program must inherit as ignored.
    pub fn hand_over_ignored(&self, back: bool) {
        for signal in SYNCHRONOUS {
            let app = self.0[signal as usize];
            if app.handler == SIG_IGN {
                set_action(signal, &if back { own_action(&app) } else { app });
            }
        }
    }
}

impl Pending {
    /// Creates the signal state of a thread for whose handlers the runtime has `own_stack`.
    pub const fn new(own_stack: AltStack) -> Self {
        Self {
            stack: AltStack {
                sp: 0,
                flags: 0,
                pad: 0,
                size: 0,
            },
            own_stack,
            first_mask: 0,
            kept: None,
            more: [None; SYNCHRONOUS.len()],
            waited_with: None,
            own_traps: false,
            entering: false,
            returning: None,
            true_mask: None,
            blocked: BlockedState::none(),
            waits_with: None,
            rolling: false,
            unaligned: false,
            before_child: None,
            delivered: Vec::new(),
            last_fault: [0; 3],
        }
    }

    /// A native thread enters a window by returning to `frame`: until it leaves, mask and
    /// alternate stack are the runtime's.
    pub fn borrow(&mut self, frame: &mut Ucontext) {
        self.stack = frame.stack;
        // Told by its size alone.
        self.stack.flags &= !SS_DISABLE;
        self.true_mask = Some(frame.sigmask);
        self.kept = None;
        self.returning = None;
        self.rolling = false;
        self.unaligned = false;
        frame.stack = self.own_stack;
        frame.sigmask = ALL_BUT_SYNCHRONOUS;
    }

    /// A window has ended: signals that were to begin others meanwhile are forgotten, or they would be
    /// queued without end where windows last longer than the time between them. Those that are not the kernel's nor
    /// `ours` are kept; whether there was one of ours.
    pub fn forget_window_signals(ours: impl Fn(&Info) -> bool) -> bool {
        let set = bit(WINDOW_SIGNAL);
        let none = [0_u64; 2];
        let mut info = Info::none();
        let args = [
            &raw const set as u64,
            &raw mut info as u64,
            none.as_ptr() as u64,
            size_of::<u64>() as u64,
            0,
            0,
        ];
        let (mut others, mut found) = (None, false);
        // SAFETY: a set, a place for what comes with the signal, no time to wait; the signal is blocked.
        while unsafe { sys::call(nr::__NR_rt_sigtimedwait, args) } > 0 {
            // SAFETY: written by the kernel just now.
            let info = unsafe { (&raw const info).read_volatile() };
            if ours(&info) {
                found = true;
            } else if !info.is_from_kernel() {
                others = Some(info);
            }
        }
        // The program's own, which says the same however often it comes.
        if let Some(info) = others {
            requeue(&info);
        }
        found
    }

    /// Blocks what is blocked in a window.
    pub fn block(&mut self) {
        // First: a synchronous one that is pending comes at once.
        self.true_mask = Some(get_mask());
        set_mask(ALL_BUT_SYNCHRONOUS);
    }

    /// Returns whether `rsp` is in the memory of the alternate stack.
    pub fn in_stack(&self, rsp: u64) -> bool {
        self.stack.size != 0
            && rsp.wrapping_sub(self.stack.sp) <= self.stack.size
            && rsp > self.stack.sp
    }

    /// Returns whether a thread with this `rsp` runs on the alternate stack. One that is disarmed when a
    /// handler is entered is never in use.
    pub fn on_stack(&self, rsp: u64) -> bool {
        self.stack.flags & SS_AUTODISARM == 0 && self.in_stack(rsp)
    }

    /// `sigaltstack` of the app: the kernel's checks, on the app's view.
    pub fn change_stack(&mut self, rsp: u64, new: Option<AltStack>) -> (i64, AltStack) {
        const SS_ONSTACK: u32 = 1;
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

    /// Returns whether a stack pointer is on the runtime's own stack for handlers.
    pub fn on_own_stack(&self, rsp: u64) -> bool {
        rsp.wrapping_sub(self.own_stack.sp) <= self.own_stack.size
    }

    /// Returns whether the app blocks a signal that the kernel does not. A signal that comes in a call that waits meets the mask of that.
    pub fn is_masked(&self, signal: i32) -> bool {
        const NONE: u64 = 0;
        self.waits_with.unwrap_or_else(|| self.app_mask(NONE)) & bit(signal) != 0
    }
}
