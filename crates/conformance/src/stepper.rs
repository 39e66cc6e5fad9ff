//! An exact and slow oracle: single-steps a program by `ptrace` and counts its events.
//!
//! Every instruction of every module is stepped (about 10 µs each) from the program's entry on, those of the main executable
//! are counted by the definitions of docs/events.md. Before a step the instruction is read from memory
//! as it is *now*, so changed code is seen; what it loads is read before it runs, from the address
//! that the registers give.
//!
//! Readings of the definitions where they leave room, applied here and to be kept in step with
//! `docs/events.md`: a load is an instruction with exactly one memory operand that is read and not
//! written, and which writes a register other than the stack pointer and flags; so `lods` counts,
//! `cmpxchg`, `xadd` and `xchg` with memory count only as the definition says (xchg and xadd do,
//! cmpxchg does not), x87 loads count, gathers, masked accesses, `rep` moves and state restores do not.
//!
//! Threads and children are not followed; a signal is passed on.
#![allow(unsafe_code, reason = "ptrace has no safe form")]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register, UsedMemory,
};

use crate::counts::{Counts, Target, add};
use crate::elf;

/// Counts the events of `argv` in its own executable, at most `limit` instructions.
pub fn count<S: AsRef<OsStr>>(argv: &[S], limit: u64) -> io::Result<Counts> {
    let program = fs::canonicalize(argv[0].as_ref())?;
    let scratch = crate::exec::Scratch::new()?;
    let _together = OneProcessor::pin()?;
    let mut child = traced(argv, &scratch)?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let result = Stepper::new(pid, &program).and_then(|mut s| s.run(limit).map(|()| s.counts));
    let _ = child.kill();
    let _ = child.wait();
    result
}

/// Keeps the calling thread, and what it starts, on the processor that it is on. The stepper and the stepped take turns, and
/// to wake the other one up takes several times as long where it is on another processor.
pub(crate) struct OneProcessor {
    before: libc::cpu_set_t,
}

impl OneProcessor {
    /// Pins the calling thread, until this is dropped.
    pub(crate) fn pin() -> io::Result<Self> {
        const SIZE: usize = size_of::<libc::cpu_set_t>();
        // SAFETY: a set is bits, and may be all zero.
        let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        // SAFETY: writes a set of the size said, which lives here.
        if unsafe { libc::sched_getaffinity(0, SIZE, &raw mut before) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: no memory of ours.
        let here = unsafe { libc::sched_getcpu() };
        let here = usize::try_from(here).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: sets a bit of a set that lives here; a number beyond its end sets none.
        unsafe { libc::CPU_SET(here, &mut one) };
        Self::set(&one)?;
        Ok(Self { before })
    }

    fn set(to: &libc::cpu_set_t) -> io::Result<()> {
        // SAFETY: reads a set of the size said, which lives here.
        match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), to) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        // Else the thread stays where it is: slower, and as right.
        let _ = Self::set(&self.before);
    }
}

/// Starts a program that stops at its first instruction.
pub(crate) fn traced<S: AsRef<OsStr>>(
    argv: &[S],
    scratch: &crate::exec::Scratch,
) -> io::Result<std::process::Child> {
    let mut command = Command::new(fs::canonicalize(argv[0].as_ref())?);
    // A file, as recorded programs have: libc asks what its output is.
    command
        .args(&argv[1..])
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(scratch.path("stdout"))?)
        .stderr(Stdio::null());
    // SAFETY: the closure runs between fork and exec and makes one system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    command.spawn()
}

/// The addresses of the instructions that `argv` executes from the first to the second time that it comes
/// to `start`, in its own file, handlers of signals included. Repetitions of one instruction count once.
pub fn turn<S: AsRef<OsStr>>(argv: &[S], start: u64, limit: u64) -> io::Result<Vec<u64>> {
    let scratch = crate::exec::Scratch::new()?;
    let _together = OneProcessor::pin()?;
    let mut child = traced(argv, &scratch)?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let result = wait(pid)
        .and_then(|_| run_to(pid, start))
        .and_then(|()| walk(pid, start, limit));
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn walk(pid: i32, start: u64, limit: u64) -> io::Result<Vec<u64>> {
    let mut seen = Vec::new();
    let mut signal = 0;
    for _ in 0..limit {
        let at = registers(pid)?.rip;
        if at == start && !seen.is_empty() && seen.last() != Some(&at) {
            return Ok(seen);
        }
        if (at == start || !seen.is_empty()) && seen.last() != Some(&at) {
            seen.push(at);
        }
        // SAFETY: a ptrace request on our stopped child, with no memory of ours.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, signal as libc::c_long) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let Some(stop) = wait(pid)? else {
            break;
        };
        signal = if stop == libc::SIGTRAP { 0 } else { stop };
    }
    Err(io::Error::other(format!("no turn in {limit} instructions")))
}

struct Stepper {
    pid: i32,
    memory: File,
    bias: u64,
    code: std::ops::Range<u64>,
    counts: Counts,
    decoded: HashMap<(u64, [u8; 15]), Plan>,
    info: InstructionInfoFactory,
}

/// Plan of what to look at when an instruction runs.
#[derive(Clone)]
struct Plan {
    instruction: Instruction,
    load: Option<UsedMemory>,
    rep: bool,
}

impl Stepper {
    fn new(pid: i32, program: &Path) -> io::Result<Self> {
        wait(pid)?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let lost = || io::Error::other("the program is not in its own memory map");
        let bias = elf::bias(&maps, program).ok_or_else(lost)?;
        let ranges: Vec<(u64, u64)> = maps
            .lines()
            .filter(|line| line.split_whitespace().nth(5).map(Path::new) == Some(program))
            .filter_map(|line| {
                let (low, rest) = line.split_once('-')?;
                let high = rest.split(' ').next()?;
                let hex = |s| u64::from_str_radix(s, 16).ok();
                Some((hex(low)?, hex(high)?))
            })
            .collect();
        let low = ranges.iter().map(|r| r.0).min().ok_or_else(lost)?;
        let high = ranges.iter().map(|r| r.1).max().ok_or_else(lost)?;
        run_to_entry(pid, program, bias)?;
        Ok(Self {
            pid,
            memory: File::open(format!("/proc/{pid}/mem"))?,
            bias,
            code: low..high,
            counts: Counts::default(),
            decoded: HashMap::new(),
            info: InstructionInfoFactory::new(),
        })
    }

    fn run(&mut self, limit: u64) -> io::Result<()> {
        let mut signal = 0;
        let mut regs = registers(self.pid)?;
        for _ in 0..limit {
            let plan = self.plan(regs.rip);
            let value = plan.as_ref().and_then(|p| self.load(p, &regs));
            // SAFETY: a ptrace request on our stopped child, with no memory of ours.
            if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, signal as libc::c_long) }
                != 0
            {
                return Err(io::Error::last_os_error());
            }
            let Some(stop) = wait(self.pid)? else {
                return Ok(());
            };
            let before = regs.rip;
            regs = registers(self.pid)?;
            signal = if stop == libc::SIGTRAP { 0 } else { stop };
            let faulted = signal != 0 && regs.rip == before;
            if let Some(plan) = plan.filter(|p| !faulted && (!p.rep || regs.rip != before)) {
                self.event(&plan, regs.rip, value);
            }
        }
        Err(io::Error::other(format!("more than {limit} instructions")))
    }

    /// Decodes the instruction at `rip` if it belongs to the main executable.
    fn plan(&mut self, rip: u64) -> Option<Plan> {
        if !self.code.contains(&rip) {
            return None;
        }
        let mut bytes = [0; 15];
        self.memory.read_at(&mut bytes, rip).ok()?;
        let info = &mut self.info;
        let plan = self.decoded.entry((rip, bytes)).or_insert_with(|| {
            let instruction = Decoder::with_ip(64, &bytes, rip, DecoderOptions::NONE).decode();
            Plan {
                load: loaded(&instruction, info),
                rep: is_rep(&instruction),
                instruction,
            }
        });
        Some(plan.clone())
    }

    fn load(&self, plan: &Plan, regs: &libc::user_regs_struct) -> Option<u64> {
        let memory = plan.load.as_ref()?;
        let address = memory.virtual_address(0, |r, _, _| Some(register(regs, r)))?;
        let size = memory.memory_size().size().clamp(1, 8);
        let mut bytes = [0; 8];
        self.memory.read_at(&mut bytes[..size], address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    fn event(&mut self, plan: &Plan, next: u64, value: Option<u64>) {
        let at = plan.instruction.ip().wrapping_sub(self.bias);
        let to = if self.code.contains(&next) {
            Target::Here(next.wrapping_sub(self.bias))
        } else {
            Target::Elsewhere
        };
        match plan.instruction.flow_control() {
            FlowControl::ConditionalBranch => add(&mut self.counts.branches, at, to, 1),
            FlowControl::IndirectBranch => add(&mut self.counts.jumps, at, to, 1),
            FlowControl::Call | FlowControl::IndirectCall
                if plan.instruction.mnemonic() == Mnemonic::Call =>
            {
                add(&mut self.counts.calls, at, to, 1);
            }
            _ => {}
        }
        if let Some(value) = value {
            *self.counts.values.entry((at, value)).or_default() += 1;
        }
    }
}

/// Lets a program that has not executed anything run to its own first instruction, unstepped: the dynamic linker is most of what a
/// short program executes, and executes nothing of the program's file but the resolvers of indirect functions.
pub(crate) fn run_to_entry(pid: i32, program: &Path, bias: u64) -> io::Result<()> {
    let mut word = [0; 8];
    File::open(program)?.read_exact_at(&mut word, 24)?;
    run_to(pid, u64::from_le_bytes(word).wrapping_add(bias))
}

/// Lets a program that is stopped run to an instruction that is there, unstepped.
fn run_to(pid: i32, to: u64) -> io::Result<()> {
    const BREAKPOINT: [u8; 1] = [0xcc];
    let memory = format!("/proc/{pid}/mem");
    let memory = File::options().read(true).write(true).open(memory)?;
    if registers(pid)?.rip == to {
        return Ok(());
    }
    let mut before = [0];
    memory.read_exact_at(&mut before, to)?;
    memory.write_all_at(&BREAKPOINT, to)?;
    // SAFETY: a ptrace request on our stopped child, with no memory of ours.
    if unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let stop = wait(pid)?;
    let mut regs = registers(pid)?;
    if stop != Some(libc::SIGTRAP) || regs.rip != to + 1 {
        return Err(io::Error::other(format!(
            "the program did not come to {to:#x}"
        )));
    }
    memory.write_all_at(&before, to)?;
    regs.rip = to;
    // SAFETY: the kernel reads a struct that lives here.
    match unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &raw const regs) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(crate) fn is_rep(i: &Instruction) -> bool {
    (i.has_rep_prefix() || i.has_repne_prefix()) && i.is_string_instruction()
}

/// The memory operand of a `value` event.
fn loaded(i: &Instruction, factory: &mut InstructionInfoFactory) -> Option<UsedMemory> {
    let excluded = matches!(
        i.mnemonic(),
        Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Ret
            | Mnemonic::Push
            | Mnemonic::Call
            | Mnemonic::Jmp
            | Mnemonic::Cmpxchg
            | Mnemonic::Cmpxchg8b
            | Mnemonic::Cmpxchg16b
            | Mnemonic::Movsb
            | Mnemonic::Movsw
            | Mnemonic::Movsq
            | Mnemonic::Cmpsb
            | Mnemonic::Cmpsw
            | Mnemonic::Cmpsd
            | Mnemonic::Cmpsq
            | Mnemonic::Scasb
            | Mnemonic::Scasw
            | Mnemonic::Scasd
            | Mnemonic::Scasq
            | Mnemonic::Xrstor
            | Mnemonic::Xrstor64
            | Mnemonic::Fxrstor
            | Mnemonic::Fxrstor64
    ) || matches!(i.code(), Code::Movsd_m32_m32)
        || i.is_vsib()
        || i.has_op_mask()
        || is_rep(i);
    if excluded {
        return None;
    }
    let swaps = matches!(i.mnemonic(), Mnemonic::Xchg | Mnemonic::Xadd);
    let info = factory.info(i);
    let read = |a: OpAccess| matches!(a, OpAccess::Read | OpAccess::CondRead);
    let memory = info
        .used_memory()
        .iter()
        .find(|m| read(m.access()) || (swaps && matches!(m.access(), OpAccess::ReadWrite)))?;
    // A register is written: an operand, or one that the instruction implies.
    let written = |a: OpAccess| {
        matches!(
            a,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    let pops_register = matches!(i.mnemonic(), Mnemonic::Pop) && i.op0_kind() == OpKind::Register;
    let x87 = i.fpu_stack_increment_info().writes_top() || i.is_fpu_load();
    // What a stack operation does to the stack pointer is no data, unless it is the operand.
    let names_rsp =
        i.op0_kind() == OpKind::Register && i.op0_register().full_register() == Register::RSP;
    let register = pops_register
        || x87
        || info.used_registers().iter().any(|r| {
            written(r.access()) && (names_rsp || r.register().full_register() != Register::RSP)
        });
    register.then_some(*memory)
}

trait FpuLoad {
    fn is_fpu_load(&self) -> bool;
}

impl FpuLoad for Instruction {
    /// x87 arithmetic that reads memory and writes st(0); comparisons write only status.
    fn is_fpu_load(&self) -> bool {
        use Mnemonic::*;
        matches!(
            self.mnemonic(),
            Fld | Fild
                | Fbld
                | Fadd
                | Fiadd
                | Fsub
                | Fisub
                | Fsubr
                | Fisubr
                | Fmul
                | Fimul
                | Fdiv
                | Fidiv
                | Fdivr
                | Fidivr
        )
    }
}

pub(crate) fn register(regs: &libc::user_regs_struct, register: Register) -> u64 {
    let value = match register.full_register() {
        Register::RAX => regs.rax,
        Register::RBX => regs.rbx,
        Register::RCX => regs.rcx,
        Register::RDX => regs.rdx,
        Register::RSI => regs.rsi,
        Register::RDI => regs.rdi,
        Register::RSP => regs.rsp,
        Register::RBP => regs.rbp,
        Register::R8 => regs.r8,
        Register::R9 => regs.r9,
        Register::R10 => regs.r10,
        Register::R11 => regs.r11,
        Register::R12 => regs.r12,
        Register::R13 => regs.r13,
        Register::R14 => regs.r14,
        Register::R15 => regs.r15,
        Register::FS => regs.fs_base,
        Register::GS => regs.gs_base,
        _ => 0,
    };
    match register.size() {
        1 => value & 0xff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

/// Waits for a stop; `None` when the child ended.
pub(crate) fn wait(pid: i32) -> io::Result<Option<i32>> {
    let mut status = 0;
    // SAFETY: waits for our own child; `status` outlives the call.
    if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid {
        return Err(io::Error::last_os_error());
    }
    Ok(libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status)))
}

pub(crate) fn registers(pid: i32) -> io::Result<libc::user_regs_struct> {
    let mut regs = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    // SAFETY: the kernel fills exactly one user_regs_struct.
    let done = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, regs.as_mut_ptr()) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: an integer-only struct, zeroed and then filled.
    Ok(unsafe { regs.assume_init() })
}
