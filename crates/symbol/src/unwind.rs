//! Unwinding: from the registers of a function to those of its caller, as they are when it returns.
//!
//! # Problem
//! A sample has the registers of one instruction and some memory of the stack. Who wants to know the callers must find each return address.
//! A profile has thousands of samples a second, of dozens of frames each.
//!
//! # Strategy
//! `.eh_frame` describes each instruction's frame by a *rule*: how to compute the top of the frame, and where the caller's registers are.
//! A rule depends on nothing but the instruction, so it is read once and kept; to follow it takes a few additions and loads.
//! Registers that a caller preserves are all followed, since some code has its frame's top in `rbx` or `r12`. Those that a call destroys are
//! unknown in the caller. Code without a description keeps a frame pointer ([`Rule::frame_pointer`]), or cannot be followed. A handler of a signal
//! returns to a trampoline, above which the kernel has put all registers ([`Rule::signal_frame`]).
//!
//! # Invariants
//! * *Nothing wrong rather than something*: a rule that needs an unknown register, or memory that is not there, ends the walk with the reason.
//! * The stack pointer grows at each step but out of a signal frame, which may be on another stack. So each walk ends.
//! * No panic and no endless loop for any content of any file or stack.

use std::fs::File;
use std::ops::Range;

use addr2line::gimli::{
    CfaRule, Encoding, EndianSlice, Evaluation, EvaluationResult, Expression, LittleEndian,
    Location, Register, RegisterRule, UnwindContext, UnwindExpression, Value, X86_64,
};

use crate::described::{Described, Slice, range};
use crate::object_file::ObjectFile;

/// General registers.
const COUNT: usize = 16;
/// Numbers of registers, as instructions have them.
const RSP: u8 = 4;
const RBP: u8 = 5;
/// Registers that a function preserves for its caller: `rbx`, `rsp`, `rbp`, `r12` to `r15`.
const PRESERVED: u16 = 1 << 3 | 1 << RSP | 1 << RBP | 0xf000;
/// Number that an instruction has for each register, by DWARF's number.
const ORDER: [u8; COUNT] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// Registers of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// The instruction that is executed next in the frame.
    pub pc: u64,
    general: [u64; COUNT],
    /// Bits of those that are known.
    known: u16,
}

impl Registers {
    /// Registers that are all known, general ones by the number that instructions have for them.
    pub const fn new(pc: u64, general: [u64; COUNT]) -> Self {
        Self {
            pc,
            general,
            known: u16::MAX,
        }
    }

    /// The stack pointer.
    pub const fn stack_pointer(&self) -> u64 {
        self.general[RSP as usize]
    }

    fn get(&self, number: u8) -> Option<u64> {
        (self.known & 1 << number != 0).then(|| self.general[usize::from(number)])
    }

    fn set(&mut self, number: u8, value: Option<u64>) {
        match value {
            Some(value) => {
                self.general[usize::from(number)] = value;
                self.known |= 1 << number;
            }
            None => self.known &= !(1 << number),
        }
    }
}

/// Reasons why a frame has no caller that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// The stack has more than what was captured of it.
    Beyond,
    /// The frame cannot be followed.
    Broken,
}

/// Result of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The registers are the caller's now.
    Caller,
    /// The frame has no caller: the thread began in it.
    End,
}

/// An expression over registers and memory.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Formula {
    bytes: Box<[u8]>,
    encoding: Encoding,
}

/// The place or value of a caller's register.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Saved {
    /// In memory, at this distance from the frame's top.
    At(i64),
    /// The frame's top, and this distance.
    Top(i64),
    /// In another register.
    Register(u8),
    /// In memory, at an address that is computed.
    AtFormula(Formula),
    /// A value that is computed.
    Formula(Formula),
    /// Nowhere.
    Lost,
}

/// The top of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Top {
    Register(u8, i64),
    Formula(Formula),
}

/// The way in which the registers of a frame lead to its caller's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule(Kind);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    /// A thread begins here.
    End,
    /// Registers that are not listed are the caller's.
    Frame {
        top: Top,
        returns: Saved,
        saved: Box<[(u8, Saved)]>,
        signal: bool,
    },
    FramePointer,
    Signal,
}

impl Rule {
    /// The rule of code that keeps a frame pointer.
    pub const fn frame_pointer() -> Self {
        Self(Kind::FramePointer)
    }

    /// The rule of a trampoline to which a signal's handler returns.
    pub const fn signal_frame() -> Self {
        Self(Kind::Signal)
    }

    /// Returns true if these are the instructions of such a trampoline: `mov eax, 15` or `mov rax, 15`, and `syscall`.
    pub fn is_trampoline(code: &[u8]) -> bool {
        const LONG: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
        const SHORT: &[u8] = &[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];
        code.starts_with(LONG) || code.starts_with(SHORT)
    }

    /// Returns true if the caller was interrupted there, and waits for no call.
    pub const fn interrupts(&self) -> bool {
        matches!(self.0, Kind::Signal | Kind::Frame { signal: true, .. })
    }

    /// Returns true if nothing describes the frame, so that it is only likely to be one.
    pub const fn is_likely(&self) -> bool {
        matches!(self.0, Kind::FramePointer)
    }

    /// Goes from a frame to its caller. `read`: a word of the stack.
    ///
    /// # Errors
    /// The caller is not known; the registers are what they were.
    pub fn step(
        &self,
        registers: &mut Registers,
        read: impl Fn(u64) -> Result<u64, Failed>,
    ) -> Result<Step, Failed> {
        let next = match &self.0 {
            Kind::End => return Ok(Step::End),
            Kind::Signal => interrupted(registers, &read)?,
            Kind::FramePointer => {
                let at = registers.get(RBP).ok_or(Failed::Broken)?;
                if at == 0 {
                    return Ok(Step::End);
                }
                pointed_at(registers, at, &read)?
            }
            Kind::Frame {
                top,
                returns,
                saved,
                signal,
            } => {
                let next = described(registers, (top, returns, saved), &read)?;
                if !signal && next.stack_pointer() <= registers.stack_pointer() {
                    return Err(Failed::Broken);
                }
                next
            }
        };
        if next.pc == 0 {
            return Ok(Step::End);
        }
        *registers = next;
        Ok(Step::Caller)
    }
}

/// The caller of a function with a frame pointer, which is at `at`.
fn pointed_at(
    registers: &Registers,
    at: u64,
    read: &impl Fn(u64) -> Result<u64, Failed>,
) -> Result<Registers, Failed> {
    let top = at.checked_add(16).ok_or(Failed::Broken)?;
    // Its frame is above what it has pushed since.
    if at < registers.stack_pointer() || !at.is_multiple_of(8) {
        return Err(Failed::Broken);
    }
    let mut next = *registers;
    next.known &= 1 << RSP | 1 << RBP;
    next.set(RBP, Some(read(at)?));
    next.pc = read(at + 8)?;
    next.set(RSP, Some(top));
    Ok(next)
}

/// The frame of a signal, as the kernel makes it: `ucontext_t` is at the stack pointer.
fn interrupted(
    registers: &Registers,
    read: &impl Fn(u64) -> Result<u64, Failed>,
) -> Result<Registers, Failed> {
    /// Distance of the registers from the start of `ucontext_t`, and their order: numbers of instructions.
    const FIRST: u64 = 40;
    const SAVED: [u8; COUNT] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
    let base = registers.stack_pointer().checked_add(FIRST);
    let base = base.ok_or(Failed::Broken)?;
    let word = |n: usize| read(base.checked_add(8 * n as u64).ok_or(Failed::Broken)?);
    let mut general = [0; COUNT];
    for (n, number) in SAVED.into_iter().enumerate() {
        general[usize::from(number)] = word(n)?;
    }
    Ok(Registers::new(word(COUNT)?, general))
}

fn described(
    registers: &Registers,
    (top, returns, saved): (&Top, &Saved, &[(u8, Saved)]),
    read: &impl Fn(u64) -> Result<u64, Failed>,
) -> Result<Registers, Failed> {
    let top = match top {
        Top::Register(number, distance) => {
            let base = registers.get(*number).ok_or(Failed::Broken)?;
            base.wrapping_add_signed(*distance)
        }
        Top::Formula(formula) => formula.value(registers, None, read)?,
    };
    let value = |saved: &Saved| match saved {
        Saved::At(distance) => read(top.wrapping_add_signed(*distance)),
        Saved::Top(distance) => Ok(top.wrapping_add_signed(*distance)),
        Saved::Register(number) => registers.get(*number).ok_or(Failed::Broken),
        Saved::AtFormula(formula) => read(formula.value(registers, Some(top), read)?),
        Saved::Formula(formula) => formula.value(registers, Some(top), read),
        Saved::Lost => Err(Failed::Broken),
    };
    let mut next = *registers;
    next.known &= PRESERVED;
    next.pc = value(returns)?;
    next.set(RSP, Some(top));
    for (number, saved) in saved {
        match value(saved) {
            Ok(found) => next.set(*number, Some(found)),
            // Compilers do not always say that a register has been popped already, at the end of a function: it holds the caller's then.
            Err(_) if is_popped(saved, top, registers) => {}
            Err(_) => next.set(*number, None),
        }
    }
    Ok(next)
}

/// Returns true if a register's place is below the stack pointer.
fn is_popped(saved: &Saved, top: u64, registers: &Registers) -> bool {
    match saved {
        Saved::At(distance) => top.wrapping_add_signed(*distance) < registers.stack_pointer(),
        _ => false,
    }
}

impl Formula {
    /// Its value; `top` is on its stack at first, where registers are computed.
    fn value(
        &self,
        registers: &Registers,
        top: Option<u64>,
        read: &impl Fn(u64) -> Result<u64, Failed>,
    ) -> Result<u64, Failed> {
        /// More operations are in no frame's description, but may be in a loop.
        const MOST: u32 = 1000;
        let broken = |_| Failed::Broken;
        let bytes: Slice<'_> = EndianSlice::new(&self.bytes, LittleEndian);
        let mut evaluation = Evaluation::new(bytes, self.encoding);
        evaluation.set_max_iterations(MOST);
        if let Some(top) = top {
            evaluation.set_initial_value(top);
        }
        let mut state = evaluation.evaluate().map_err(broken)?;
        loop {
            state = match state {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = match register {
                        X86_64::RA => Some(registers.pc),
                        _ => number(register).and_then(|number| registers.get(number)),
                    };
                    let value = Value::Generic(value.ok_or(Failed::Broken)?);
                    evaluation.resume_with_register(value).map_err(broken)?
                }
                EvaluationResult::RequiresMemory {
                    address, size: 8, ..
                } => {
                    let value = Value::Generic(read(address)?);
                    evaluation.resume_with_memory(value).map_err(broken)?
                }
                _ => return Err(Failed::Broken),
            };
        }
        let result = evaluation.as_result();
        match result.last().map(|piece| &piece.location) {
            Some(Location::Address { address }) => Ok(*address),
            _ => Err(Failed::Broken),
        }
    }
}

/// The number that instructions have for a register.
fn number(register: Register) -> Option<u8> {
    ORDER.get(usize::from(register.0)).copied()
}

/// The rules of a file.
#[derive(Debug)]
pub struct Unwind(Described);

impl Unwind {
    /// Reads those of an open file; `None` where it has none.
    pub fn read(file: &File) -> Option<Self> {
        Described::read(file).map(Self)
    }

    /// Those of a file's bytes.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        Described::of(&ObjectFile::parse(bytes)?).map(Self)
    }

    /// The code that has one description with the instruction at a vaddr: its function, or a part of it.
    pub fn function(&self, vaddr: u64) -> Option<Range<u64>> {
        self.0.with_entry(vaddr, |entry, _, _| Some(range(entry)))
    }

    /// The rule at a vaddr; `None` if nothing describes it, or nothing that can be followed.
    pub fn rule(&self, vaddr: u64) -> Option<Rule> {
        self.0.with_entry(vaddr, |entry, frames, bases| {
            let encoding = entry.cie().encoding();
            let formula = |expression: &UnwindExpression<usize>| {
                let Expression(bytes) = expression.get(frames).ok()?;
                Some(Formula {
                    bytes: bytes.slice().into(),
                    encoding,
                })
            };
            let saved = |rule: RegisterRule<usize>| {
                Some(match rule {
                    RegisterRule::Offset(distance) => Saved::At(distance),
                    RegisterRule::ValOffset(distance) => Saved::Top(distance),
                    RegisterRule::Register(register) => Saved::Register(number(register)?),
                    RegisterRule::Expression(expression) => Saved::AtFormula(formula(&expression)?),
                    RegisterRule::ValExpression(expression) => {
                        Saved::Formula(formula(&expression)?)
                    }
                    _ => Saved::Lost,
                })
            };
            let mut context = UnwindContext::new();
            let row = entry.unwind_info_for_address(frames, bases, &mut context, vaddr);
            let row = row.ok()?;
            let top = match row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => {
                    Top::Register(number(*register)?, *offset)
                }
                CfaRule::Expression(expression) => Top::Formula(formula(expression)?),
            };
            let returns = match row.register(X86_64::RA) {
                RegisterRule::Undefined => return Some(Rule(Kind::End)),
                rule => saved(rule)?,
            };
            let mut all = Vec::new();
            for (register, rule) in row.registers() {
                if let Some(number) = number(*register)
                    && !matches!(rule, RegisterRule::Undefined | RegisterRule::SameValue)
                {
                    all.push((number, saved(rule.clone())?));
                }
            }
            Some(Rule(Kind::Frame {
                top,
                returns,
                saved: all.into(),
                signal: entry.is_signal_trampoline(),
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembled::{assembled, damages};

    /// Functions of a few instructions. The names are those of the rules that they have after their first instruction.
    const SOURCE: &str = r#"
        .globl _start
        .type _start, @function
        _start: .cfi_startproc
            .cfi_undefined rip
            nop
            ud2
            .cfi_endproc
        .type pushes, @function
        pushes: .cfi_startproc
            push rbx
            .cfi_adjust_cfa_offset 8
            .cfi_offset rbx, -16
            sub rsp, 16
            .cfi_adjust_cfa_offset 16
            nop
            ret
            .cfi_endproc
        .type by_rbx, @function
        by_rbx: .cfi_startproc
            mov rbx, rsp
            .cfi_def_cfa rbx, 8
            nop
            ret
            .cfi_endproc
        .type by_rax, @function
        by_rax: .cfi_startproc
            nop
            .cfi_def_cfa rax, 8
            ret
            .cfi_endproc
        .type computed, @function
        computed: .cfi_startproc
            nop
            # The top is what is at rsp+8.
            .cfi_escape 0x0f, 0x03, 0x77, 0x08, 0x06
            nop
            .cfi_endproc
        .section .note.GNU-stack,"",@progbits
    "#;

    const BASE: u64 = 0x7000;
    const RBX: usize = 3;

    fn program(name: &str) -> (Vec<u8>, impl Fn(&str) -> u64) {
        let (path, at) = assembled(format!("unwind-{name}"), SOURCE, "--eh-frame-hdr");
        let bytes = std::fs::read(&path).expect("the program");
        let dir = path.parent().expect("a directory");
        std::fs::remove_dir_all(dir).expect("clean");
        (bytes, at)
    }

    fn registers() -> Registers {
        let mut general = [0; COUNT];
        general[usize::from(RSP)] = BASE;
        general[RBX] = BASE + 16;
        Registers::new(0x1000, general)
    }

    fn read(words: &[u64]) -> impl Fn(u64) -> Result<u64, Failed> {
        move |at| {
            let number = at.checked_sub(BASE).ok_or(Failed::Broken)? / 8;
            words.get(number as usize).copied().ok_or(Failed::Beyond)
        }
    }

    /// The caller's pc, stack pointer and `rbx`.
    fn stepped(rule: &Rule, words: &[u64]) -> Result<(u64, u64, Option<u64>), Failed> {
        let mut registers = registers();
        match rule.step(&mut registers, read(words))? {
            Step::End => Ok((0, 0, None)),
            Step::Caller => Ok((
                registers.pc,
                registers.stack_pointer(),
                registers.get(RBX as u8),
            )),
        }
    }

    #[test]
    fn callers_are_where_the_directives_say() {
        let (bytes, at) = program("each");
        let unwind = Unwind::of(&bytes).expect("descriptions");
        let rule = |name: &str, offset: u64| unwind.rule(at(name) + offset).expect("a rule");
        let words = [10, BASE + 32, 12, 13, 14, 15];
        assert_eq!(stepped(&rule("_start", 1), &words), Ok((0, 0, None)));
        let same = Some(BASE + 16);
        assert_eq!(
            stepped(&rule("pushes", 0), &words),
            Ok((10, BASE + 8, same))
        );
        assert_eq!(
            stepped(&rule("pushes", 1), &words),
            Ok((BASE + 32, BASE + 16, Some(10)))
        );
        assert_eq!(
            stepped(&rule("pushes", 5), &words),
            Ok((13, BASE + 32, Some(12)))
        );
        assert_eq!(
            stepped(&rule("by_rbx", 3), &words),
            Ok((12, BASE + 24, same))
        );
        assert_eq!(
            stepped(&rule("computed", 1), &words),
            Ok((13, BASE + 32, same))
        );
        assert_eq!(unwind.rule(0), None);
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let (bytes, at) = program("unknown");
        let unwind = Unwind::of(&bytes).expect("descriptions");
        let rule = unwind.rule(at("pushes") + 5).expect("a rule");
        assert_eq!(stepped(&rule, &[1, 2]), Err(Failed::Beyond));
        // What a call destroys is not known in its caller.
        let by_rax = unwind.rule(at("by_rax") + 1).expect("a rule");
        let mut caller = registers();
        caller.general[0] = BASE + 24;
        assert_eq!(by_rax.step(&mut caller, read(&[7; 6])), Ok(Step::Caller));
        assert_eq!(by_rax.step(&mut caller, read(&[7; 6])), Err(Failed::Broken));
        // A top below the stack pointer would go in circles.
        let mut below = registers();
        below.general[0] = BASE - 8;
        assert_eq!(by_rax.step(&mut below, read(&[7; 6])), Err(Failed::Broken));
    }

    #[test]
    fn frame_pointers_and_signals_are_followed() {
        let mut with = registers();
        with.general[usize::from(RBP)] = BASE + 8;
        let rule = Rule::frame_pointer();
        assert_eq!(rule.step(&mut with, read(&[1, 0, 33, 4])), Ok(Step::Caller));
        assert_eq!((with.pc, with.stack_pointer()), (33, BASE + 24));
        // The caller has none: it is the first.
        assert_eq!(rule.step(&mut with, read(&[1, 0, 33, 4])), Ok(Step::End));
        // Five words, then the registers in the kernel's order.
        let words: Vec<u64> = (0..25).collect();
        let mut handler = registers();
        let rule = Rule::signal_frame();
        assert_eq!(rule.step(&mut handler, read(&words)), Ok(Step::Caller));
        assert_eq!((handler.pc, handler.stack_pointer()), (21, 20));
        assert!(rule.interrupts() && handler.get(0) == Some(18));
        assert!(Rule::is_trampoline(&[
            0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 5
        ]));
        assert!(!Rule::is_trampoline(&[
            0x48, 0xc7, 0xc0, 14, 0, 0, 0, 0x0f, 5
        ]));
    }

    #[test]
    fn damaged_descriptions_are_none_or_others_and_nothing_worse() {
        let (bytes, at) = program("damaged");
        let mut unwind = Unwind::of(&bytes).expect("descriptions");
        let places = ["_start", "pushes", "by_rbx", "computed"].map(&at);
        for table in [true, false] {
            let part = |unwind: &mut Unwind| match table {
                true => std::mem::take(&mut unwind.0.table.bytes),
                false => std::mem::take(&mut unwind.0.frames.bytes),
            };
            let whole = part(&mut unwind);
            let mut put = |bytes: Vec<u8>| {
                match table {
                    true => unwind.0.table.bytes = bytes,
                    false => unwind.0.frames.bytes = bytes,
                }
                for place in places {
                    if let Some(rule) = unwind.rule(place + 1) {
                        let _ = stepped(&rule, &[1, BASE + 16, 3, 4, 5]);
                    }
                }
            };
            damages(&whole).for_each(&mut put);
            put(whole);
        }
    }
}
