//! Recording: a program, single-stepped.
//!
//! # Strategy
//! The program is started with `ptrace`, without randomness of its addresses. It runs by itself for so much CPU time, which leaves out the dynamic linker and its own start: a timer of its own, set before it is
//! executed, stops it there. Then so many instructions are stepped and recorded, and it is killed.
//!
//! Another recording begins within a tick of the kernel's clock of this one: near, and not at the same instruction.
//!
//! Of each instruction registers are read before and after it, and memory where its operands are: those that it
//! reads before, those that it writes after. Vector registers are read where the instruction has some.
//!
//! # Invariants
//! * What an execution did is known from the machine alone: a conditional branch was taken if the target is
//!   where its condition, looked at before, says; where the program then is confirms it, or the recording fails.
//! * Only the first thread is followed, and no child.
//!
//! Architecture invariant: only this file knows ptrace.
#![allow(
    unsafe_code,
    reason = "what happens between fork and exec has no safe form"
)]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use iced_x86::{Decoder, DecoderOptions, Instruction as X86, InstructionInfoFactory, Register};
use libc::user_regs_struct as Registers;
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use trommel_query::observe::{Machine, Observation, Segment};
use trommel_query::record::misc;
use trommel_query::{Facts, Field, FieldSet};

use super::{Code, Execution, FIELDS, Region, Trace, Use, Writer};
use crate::instruction::{self, ACCESSES};

/// What to record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The program runs by itself for so much CPU time of its own; if that is nothing, recording starts at its first
    /// instruction.
    pub after: Duration,
    /// Instructions to be recorded.
    pub instructions: u64,
}

/// Runs `command`, whose streams and environment the caller chose, and records it. The trace is shorter than wanted
/// if the program ends.
///
/// # Errors
/// When the program cannot be started or traced.
pub fn record(command: &mut Command, wanted: &Wanted) -> io::Result<Trace> {
    let after = wanted.after;
    // SAFETY: the closure runs between fork and exec, and makes system calls only.
    unsafe {
        command.pre_exec(move || {
            let persona = personality::get()?;
            personality::set(persona | Persona::ADDR_NO_RANDOMIZE)?;
            ptrace::traceme()?;
            match after {
                Duration::ZERO => Ok(()),
                after => stop_after(after),
            }
        });
    }
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let done = Recorder::new(pid).and_then(|r| r.run(wanted));
    let _ = child.kill();
    let _ = child.wait();
    done
}

/// Has a signal sent to this process, and to what it executes, when it has used so much CPU time itself.
fn stop_after(after: Duration) -> io::Result<()> {
    let zero = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let timer = libc::itimerval {
        it_interval: zero,
        it_value: libc::timeval {
            tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_usec: after.subsec_micros().into(),
        },
    };
    // SAFETY: the kernel reads one timer, and writes none.
    match unsafe { libc::setitimer(libc::ITIMER_VIRTUAL, &raw const timer, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An instruction that was met.
struct Met {
    number: u32,
    observation: Observation,
    memory: Vec<iced_x86::UsedMemory>,
    vectors: bool,
    repeats: bool,
}

struct Recorder {
    pid: Pid,
    memory: Rc<File>,
    met: HashMap<(u64, [u8; 15]), Rc<Met>>,
    info: InstructionInfoFactory,
    writer: Writer,
    every: FieldSet,
}

impl Recorder {
    fn new(pid: Pid) -> io::Result<Self> {
        waitpid(pid, None)?;
        let every = (Field::ALL.into_iter()).filter(|field| !field.is_of_pipeline());
        Ok(Self {
            pid,
            memory: Rc::new(File::open(format!("/proc/{pid}/mem"))?),
            met: HashMap::new(),
            info: InstructionInfoFactory::new(),
            writer: Writer::default(),
            every: every.collect(),
        })
    }

    fn run(mut self, wanted: &Wanted) -> io::Result<Trace> {
        if wanted.after.is_zero() || self.run_to_timer()? {
            self.step(wanted.instructions)?;
        }
        // Of a program that has ended the kernel tells no more.
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
        Ok(self.writer.finish(regions(&maps)))
    }

    /// Lets the program run until its timer stops it. Whether it does.
    fn run_to_timer(&self) -> io::Result<bool> {
        let mut signal = None;
        loop {
            ptrace::cont(self.pid, signal.take())?;
            match waitpid(self.pid, None)? {
                WaitStatus::Stopped(_, Signal::SIGVTALRM) => return Ok(true),
                WaitStatus::Stopped(_, stop) => signal = passed_on(stop),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Ok(false),
                _ => {}
            }
        }
    }

    fn step(&mut self, instructions: u64) -> io::Result<()> {
        let mut signal = None;
        let mut now = State::of(self.pid, &self.memory)?;
        // Of a repeated instruction: what was known before the first time, and times.
        let mut begun: Option<(Facts, [u64; ACCESSES], u32)> = None;
        while self.writer.len() < instructions {
            let pc = now.general.rip;
            let met = self.meet(pc)?;
            if met.vectors {
                now.read_vectors()?;
            }
            let (before, addresses, times) = begun.take().unwrap_or_else(|| {
                let address = |m: &iced_x86::UsedMemory| now.address(m);
                let mut addresses = [0; ACCESSES];
                for (to, memory) in addresses.iter_mut().zip(&met.memory) {
                    *to = address(memory);
                }
                (met.observation.before(&now), addresses, 0)
            });
            let Some(next) = self.one(signal)? else {
                return Ok(());
            };
            signal = next;
            now = State::of(self.pid, &self.memory)?;
            if signal.is_some() && now.general.rip == pc {
                continue;
            }
            if met.repeats && now.general.rip == pc {
                begun = Some((before, addresses, times + 1));
                continue;
            }
            let facts = if met.observation.operation().is_transfer() {
                if signal.is_none() && before.get(Field::Res1) != now.general.rip {
                    let words = format!("the instruction at {pc:#x} led elsewhere than expected");
                    return Err(io::Error::other(words));
                }
                before
            } else {
                if met.vectors {
                    now.read_vectors()?;
                }
                met.observation.late(&now, before)
            };
            self.writer.push(&Execution {
                code: met.number,
                repeats: times + 1,
                taken: facts.get(Field::Misc) & misc::TAKEN != 0,
                addresses,
                words: FIELDS.map(|field| facts.get(field)),
            });
        }
        Ok(())
    }

    /// One step. Returns the signal to pass on with the next; nothing when the program has ended.
    fn one(&self, signal: Option<Signal>) -> io::Result<Option<Option<Signal>>> {
        ptrace::step(self.pid, signal)?;
        Ok(match waitpid(self.pid, None)? {
            WaitStatus::Stopped(_, stop) => Some(passed_on(stop)),
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => None,
            _ => Some(None),
        })
    }

    /// The instruction at `pc`, as it is in memory now.
    fn meet(&mut self, pc: u64) -> io::Result<Rc<Met>> {
        let mut bytes = [0; 15];
        self.memory.read_at(&mut bytes, pc)?;
        if let Some(met) = self.met.get(&(pc, bytes)) {
            return Ok(Rc::clone(met));
        }
        let i = Decoder::with_ip(64, &bytes, pc, DecoderOptions::NONE).decode();
        let mut code = Code {
            pc,
            length: i.len() as u8,
            bytes: [0; 15],
        };
        code.bytes[..i.len()].copy_from_slice(&bytes[..i.len()]);
        let met = Met {
            number: self.writer.code(code),
            observation: Observation::of(&mut self.info, &i, self.every),
            memory: instruction::memory(&mut self.info, &i)
                .map(|m| m.1)
                .collect(),
            vectors: has_vectors(&mut self.info, &i),
            repeats: instruction::is_repeated(&i),
        };
        let met = Rc::new(met);
        self.met.insert((pc, bytes), Rc::clone(&met));
        Ok(met)
    }
}

fn has_vectors(info: &mut InstructionInfoFactory, i: &X86) -> bool {
    let used = info.info(i).used_registers().iter();
    used.into_iter().any(|r| r.register().is_vector_register())
}

/// Of stops, which are signals of the program's.
fn passed_on(stop: Signal) -> Option<Signal> {
    (stop != Signal::SIGTRAP).then_some(stop)
}

fn regions(maps: &str) -> Vec<Region> {
    let region = |line: &str| {
        let mut fields = line.split_whitespace();
        let (from, to) = fields.next()?.split_once('-')?;
        let writable = fields.next()?.starts_with("rw");
        let name = fields.nth(3);
        let hex = |s| u64::from_str_radix(s, 16).ok();
        let used = match name {
            Some("[stack]") => Use::Stack,
            Some("[heap]") | None if writable => Use::Heap,
            _ => Use::Other,
        };
        Some(Region {
            from: hex(from)?,
            to: hex(to)?,
            used,
        })
    };
    maps.lines().filter_map(region).collect()
}

/// Registers of the stopped program, and its memory.
struct State {
    pid: Pid,
    general: Registers,
    vectors: Option<Box<[[u64; 2]; 16]>>,
    memory: Rc<File>,
}

impl State {
    fn of(pid: Pid, memory: &Rc<File>) -> io::Result<Self> {
        Ok(Self {
            pid,
            general: ptrace::getregs(pid)?,
            vectors: None,
            memory: Rc::clone(memory),
        })
    }

    fn read_vectors(&mut self) -> io::Result<()> {
        if self.vectors.is_some() {
            return Ok(());
        }
        let state = ptrace::getregset::<ptrace::regset::NT_PRFPREG>(self.pid)?;
        let mut vectors = [[0; 2]; 16];
        for (vector, words) in vectors.iter_mut().zip(state.xmm_space.chunks(4)) {
            let half = |n: usize| u64::from(words[n]) | u64::from(words[n + 1]) << 32;
            *vector = [half(0), half(2)];
        }
        self.vectors = Some(Box::new(vectors));
        Ok(())
    }

    fn address(&self, memory: &iced_x86::UsedMemory) -> u64 {
        let value = |register: Register, _, _| {
            Some(match register {
                Register::FS => self.general.fs_base,
                Register::GS => self.general.gs_base,
                r if r.is_gpr32() => self.general(r.number() as u8) & 0xffff_ffff,
                r if r.is_gpr() => self.general(r.full_register().number() as u8),
                _ => 0,
            })
        };
        memory.virtual_address(0, value).unwrap_or(0)
    }
}

impl Machine for State {
    fn general(&self, number: u8) -> u64 {
        let r = &self.general;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ][usize::from(number)]
    }

    fn vector(&self, number: u8) -> [u64; 2] {
        (self.vectors.as_ref()).map_or([0; 2], |v| v[usize::from(number)])
    }

    fn flags(&self) -> u64 {
        self.general.eflags
    }

    fn segment(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.general.fs_base,
            Segment::Gs => self.general.gs_base,
        }
    }

    fn memory(&self, address: u64, size: u8) -> Option<u64> {
        let mut bytes = [0; 8];
        let wanted = &mut bytes[..usize::from(size)];
        self.memory.read_exact_at(wanted, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests;
