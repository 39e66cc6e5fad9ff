//! The call that led to the executed function, instruction by instruction of a window.
//!
//! # Strategy
//! A call in the window is known, and so is its return address: the calls that have not returned are a chain. Calls before the
//! window are read from the piece of the stack that was captured there, frame by frame, each when it is first asked for. The unwinding information
//! of the file says where the return address is ([`trommel_symbol::Frames`]), and the code before that address must be a call.
//!
//! A return is followed: it leads to the next instruction, and the chain is cut back to the call that returns there. Where there is none,
//! or where an indirect jump leads into the middle of another function (`longjmp`, exceptions, coroutines), the chain is
//! given up, until the next call.
//!
//! # Why it is correct
//! * A call is in the chain from where it was executed in this window, or from its return address, read where the file says, in memory as it
//!   was when the window began. While the function has not returned, only the function itself changes that word.
//! * A tail call is a jump to the first instruction of a function. The return address stays, and the caller is the
//!   one that is returned to.
//! * Between two instructions of a window nothing else is executed by the thread.

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use rustc_hash::FxHashMap;
use trommel_queue::dict::TargetPc;
use trommel_symbol::{Base, Frames};
use trommel_tuple::{Place, Vaddr};

use crate::channel::modules::Modules;
use crate::fold::dictionary::Instruction;

/// The effect of an instruction on the chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Call,
    Return,
    Jump,
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    flow: Flow,
    place: Place,
    pc: u64,
    next: u64,
}

/// A call that has not come back.
#[derive(Clone, Copy, Debug)]
struct Call {
    /// `None`: it is not known which.
    at: Option<Place>,
    /// Its return address.
    back: u64,
}

/// Known registers of a frame.
#[derive(Clone, Copy, Debug)]
struct Registers {
    pc: u64,
    rsp: u64,
    rbp: Option<u64>,
    /// The function was called from there, or the window began there.
    called: bool,
}

/// The frames that were there when the window began.
#[derive(Default)]
struct Before {
    /// The stack from this address on.
    at: u64,
    words: Vec<u64>,
    /// Registers of the innermost frame that has not been returned from.
    inner: Option<Registers>,
    /// Its caller, and the frame further out, once that was asked.
    outer: Option<Option<(Call, Registers)>>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Chain {
    /// Instructions met, by number.
    known: Vec<Known>,
    /// Calls in the window that is read.
    calls: Vec<Call>,
    before: Before,
    /// The last instruction that was executed.
    last: Option<u32>,
    /// The answer, until something is executed that may change it.
    caller: Option<Option<Place>>,
    /// True if jumps from one place to another stay in a function, or lead to one's start.
    stays: FxHashMap<(Place, Place), bool>,
    /// Calls by the places that they come back to.
    call_of: FxHashMap<Place, Option<Place>>,
}

impl Chain {
    pub(super) fn learn(&mut self, all: &[Instruction]) {
        for new in &all[self.known.len()..] {
            let bytes = new.bytes();
            let decoded = Decoder::with_ip(64, bytes, new.pc(), DecoderOptions::NONE).decode();
            let flow = match decoded.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => Flow::Call,
                FlowControl::Return => Flow::Return,
                FlowControl::IndirectBranch => Flow::Jump,
                _ => Flow::Other,
            };
            self.known.push(Known {
                flow,
                place: new.place,
                pc: new.pc(),
                next: new.pc().wrapping_add(bytes.len() as u64),
            });
        }
    }

    pub(super) fn begin(&mut self) {
        self.lose();
        self.before.words.clear();
        self.last = None;
    }

    /// Forgets all callers.
    fn lose(&mut self) {
        self.calls.clear();
        self.before.inner = None;
        self.before.outer = None;
        self.caller = None;
    }

    /// Receives the window's start, the stack pointer and the frame pointer there, and words of the stack; or further words.
    pub(super) fn stack(&mut self, mut words: impl Iterator<Item = u64>) {
        if self.before.inner.is_none() {
            let mut word = || words.next().unwrap_or_default();
            let (pc, rsp, rbp) = (word(), word(), word());
            self.before.at = rsp;
            self.before.inner = Some(Registers {
                pc,
                rsp,
                rbp: Some(rbp),
                called: false,
            });
        }
        self.before.words.extend(words);
    }

    pub(super) fn enter(&mut self, first: u32, modules: &Modules) {
        let Some(&Known { pc, .. }) = self.known.get(first as usize) else {
            return self.lose();
        };
        let last = self.last.and_then(|n| self.known.get(n as usize)).copied();
        let Some(last) = last else {
            if self.before.inner.is_none_or(|inner| inner.pc != pc) {
                self.lose();
            }
            return;
        };
        match last.flow {
            Flow::Other => return,
            // One that leads after itself is for the address, and does not come back.
            Flow::Call if pc == last.next => {}
            Flow::Call => self.calls.push(Call {
                at: Some(last.place),
                back: last.next,
            }),
            Flow::Return => self.returned(pc, modules),
            Flow::Jump => {
                if !self.stays(last.place, modules.place_at(TargetPc(pc)), modules) {
                    self.lose();
                }
                return;
            }
        }
        self.caller = None;
    }

    pub(super) fn leave(&mut self, last: u32) {
        self.last = Some(last);
    }

    /// A return has led to an address.
    fn returned(&mut self, to: u64, modules: &Modules) {
        while let Some(call) = self.calls.pop() {
            if call.back == to {
                return;
            }
        }
        match self.outer(modules) {
            Some((call, further)) if call.back == to => {
                self.before.inner = Some(further);
                self.before.outer = None;
            }
            _ => self.lose(),
        }
    }

    /// The call that has led to the function which is executed.
    pub(super) fn caller(&mut self, modules: &Modules) -> Option<Place> {
        if let Some(known) = self.caller {
            return known;
        }
        let call = self.calls.last().copied();
        let call = call.or_else(|| Some(self.outer(modules)?.0));
        let caller = call.and_then(|call| call.at);
        self.caller = Some(caller);
        caller
    }

    /// The call that the innermost frame of before the window is of, and the frame that it is in.
    fn outer(&mut self, modules: &Modules) -> Option<(Call, Registers)> {
        if let Some(known) = self.before.outer {
            return known;
        }
        let found = self.before.inner.and_then(|inner| self.up(&inner, modules));
        self.before.outer = Some(found);
        found
    }

    fn up(&mut self, inner: &Registers, modules: &Modules) -> Option<(Call, Registers)> {
        // A call may be the last instruction of its function.
        let pc = inner.pc.wrapping_sub(inner.called.into());
        let place = modules.place_at(TargetPc(pc));
        let frame = modules.frames(place.module())?.frame(place.vaddr().0)?;
        let (base, distance) = frame.top;
        let base = match base {
            Base::Rsp => inner.rsp,
            Base::Rbp => inner.rbp?,
        };
        let top = base.wrapping_add_signed(distance);
        let back = self.before.word(top.wrapping_sub(8))?;
        // The stack has to get shorter, or it would never end.
        if top <= inner.rsp {
            return None;
        }
        let rbp = match frame.rbp {
            None => inner.rbp,
            Some(distance) => match top.wrapping_add_signed(distance) {
                // An epilogue has given it back, which compilers do not tell: it is in the same place still, below the stack.
                at if at < inner.rsp => inner.rbp,
                at => self.before.word(at),
            },
        };
        let call = Call {
            at: self.call_of(back, modules),
            back,
        };
        let further = Registers {
            pc: back,
            rsp: top,
            rbp,
            called: true,
        };
        Some((call, further))
    }

    /// The call that comes back to an address, if there is one before it.
    fn call_of(&mut self, back: u64, modules: &Modules) -> Option<Place> {
        let returns_to = modules.place_at(TargetPc(back));
        let find = || {
            let frames = modules.frames(returns_to.module())?;
            let at = call_before(&frames, returns_to.vaddr().0)?;
            Some(Place::new(returns_to.module(), Vaddr(at)))
        };
        forget_many(&mut self.call_of);
        *self.call_of.entry(returns_to).or_insert_with(find)
    }

    /// Returns whether an indirect jump leaves the return address what it is: it stays in its function, or leads to the start of one.
    fn stays(&mut self, from: Place, to: Place, modules: &Modules) -> bool {
        let function = |place: Place| {
            let frames = modules.frames(place.module())?;
            frames.function(place.vaddr().0)
        };
        let find = || {
            let Some(led_to) = function(to) else {
                return false;
            };
            let inside = from.module() == to.module() && led_to.contains(&from.vaddr().0);
            inside || led_to.start == to.vaddr().0
        };
        forget_many(&mut self.stays);
        *self.stays.entry((from, to)).or_insert_with(find)
    }
}

impl Before {
    /// A word of the stack, where it was captured.
    fn word(&self, at: u64) -> Option<u64> {
        let offset = at.checked_sub(self.at).filter(|offset| offset % 8 == 0)?;
        self.words.get(usize::try_from(offset / 8).ok()?).copied()
    }
}

/// Clears a cache that has grown beyond all use.
fn forget_many<K, V>(known: &mut FxHashMap<K, V>) {
    const MANY: usize = 1 << 16;
    if known.len() >= MANY {
        known.clear();
    }
}

/// The vaddr of a call that ends where the code after it begins, as the instructions of its function are from the first on.
fn call_before(frames: &Frames, returns_to: u64) -> Option<u64> {
    let function = frames.function(returns_to.checked_sub(1)?)?;
    let code = frames.code(function.start..returns_to)?;
    let mut decoder = Decoder::with_ip(64, &code, function.start, DecoderOptions::NONE);
    let mut last = None;
    while decoder.can_decode() {
        last = Some(decoder.decode());
    }
    let last = last.filter(|last| last.next_ip() == returns_to)?;
    let calls = matches!(
        last.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    );
    calls.then(|| last.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::modules::Images;
    use proptest::prelude::*;
    use trommel_tuple::ModuleId;

    /// A next step of a random run through functions without instructions.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        /// A call of the function with this number.
        Call(u64),
        /// A return to the last call that has not come back.
        Return,
        /// One to the call before that, as one that has been longjmp'ed over comes back.
        ReturnFurther,
        /// One to where nothing was called from.
        ReturnElsewhere,
        /// A jump, to a function with this number: its caller is another's from then on.
        Jump(u64),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            6 => (0_u64..8).prop_map(Act::Call),
            5 => Just(Act::Return),
            1 => Just(Act::ReturnFurther),
            1 => Just(Act::ReturnElsewhere),
            1 => (0_u64..8).prop_map(Act::Jump),
        ]
    }

    /// A function's instructions: a call, a return, an indirect jump.
    const CALL: &[u8] = &[0xe8, 0, 1, 0, 0];
    const RETURN: &[u8] = &[0xc3];
    const JUMP: &[u8] = &[0xff, 0xe0];
    const EACH: u64 = 16;

    fn start(function: u64) -> u64 {
        0x1000 + function * EACH
    }

    fn place(pc: u64) -> Place {
        Place::new(ModuleId::ANON, Vaddr(pc))
    }

    proptest! {
        #[test]
        fn callers_are_the_calls_that_have_not_come_back(acts in prop::collection::vec(act(), 1..60)) {
            let modules = Modules::new(Images::default());
            let mut all = Vec::new();
            for function in 0..9 {
                for (at, bytes) in [(0, CALL), (5, RETURN), (6, JUMP)] {
                    let pc = start(function) + at;
                    all.push(Instruction::new(place(pc), pc, bytes));
                }
            }
            let number = |pc: u64| all.iter().position(|i| i.pc() == pc).expect("known") as u32;
            let mut chain = Chain::default();
            chain.learn(&all);
            chain.begin();
            let mut here = 0;
            // Instructions are entered one by one; after a call comes the return, at its own place.
            let mut truth: Vec<u64> = Vec::new();
            chain.enter(number(start(here)), &modules);
            for act in acts {
                let (last, next) = match act {
                    Act::Call(function) => {
                        truth.push(start(here));
                        here = function;
                        (truth[truth.len() - 1], start(function))
                    }
                    Act::Return | Act::ReturnFurther => {
                        if matches!(act, Act::ReturnFurther) {
                            // One that comes back to the same instruction cannot be told from it.
                            match truth[..] {
                                [.., further, last] if further != last => truth.pop(),
                                _ => continue,
                            };
                        }
                        let Some(call) = truth.pop() else { continue };
                        let last = start(here) + 5;
                        here = (call - 0x1000) / EACH;
                        (last, call + 5)
                    }
                    Act::ReturnElsewhere => {
                        truth.clear();
                        let last = start(here) + 5;
                        here = 8;
                        (last, start(8))
                    }
                    Act::Jump(function) => {
                        truth.clear();
                        let last = start(here) + 6;
                        here = function;
                        (last, start(function))
                    }
                };
                chain.leave(number(last));
                chain.enter(number(next), &modules);
                let caller = chain.caller(&modules);
                prop_assert_eq!(caller, truth.last().map(|call| place(*call)));
                prop_assert_eq!(chain.caller(&modules), caller, "asked twice");
            }
        }
    }

    #[test]
    fn a_stack_of_anything_has_no_caller_and_does_no_harm() {
        let modules = Modules::new(Images::default());
        for words in [
            &[0x1000, 0x7000, 1, 2, 3][..],
            &[0x1000],
            &[],
            &[u64::MAX; 9],
        ] {
            let mut chain = Chain::default();
            chain.learn(&[Instruction::new(place(0x1000), 0x1000, RETURN)]);
            chain.begin();
            chain.stack(words.iter().copied());
            chain.enter(0, &modules);
            assert_eq!(chain.caller(&modules), None);
            chain.leave(0);
            chain.enter(0, &modules);
            assert_eq!(chain.caller(&modules), None);
        }
    }
}
