//! Recording: a program, single-stepped.
//!
//! # Strategy
//! The program is started with `ptrace`, without randomness of its addresses. A timer of its own CPU time, set before it
//! is executed, stops it again and again; there a stretch of instructions is stepped and recorded, and then it runs by
//! itself to the next stop. So a recording of few instructions is of all of a run: the dynamic linker's share in it is
//! what it is in the run. Where stretches are joined, control goes on elsewhere.
//!
//! In another recording each stretch begins within a tick of the kernel's clock of this one's: near, and not at the same
//! instruction.
//!
//! Of each instruction registers are read before and after it, and memory where its operands are: those that it
//! reads before, those that it writes after. Vector registers are read where the instruction has some.
//!
//! # Invariants
//! * What an execution did is known from the machine alone: a conditional branch was taken if the target is
//!   where its condition, looked at before, says; where the program then is confirms it, or the recording fails.
//! * Only the first thread is followed, and no child.
//! * A trace is of one program: when another is executed in a stretch, what was recorded before is dropped.
//!
//! Architecture invariant: only this file knows ptrace.
#![allow(unsafe_code, reason = "between fork and exec there is no safe form")]

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use iced_x86::{Decoder, DecoderOptions, Instruction as X86, InstructionInfoFactory};
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use trommel_query::observe::Observation;
use trommel_query::record::misc;
use trommel_query::{Facts, Field, FieldSet};

use super::stopped::Stopped;
use super::{Code, Execution, FIELDS, Region, Trace, TraceWriter, Use};
use crate::instruction::{self, ACCESSES};

/// Settings of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordingSettings {
    /// CPU time of the program from one stretch to the next, and before the first. If it is nothing, the only stretch
    /// starts at the first instruction.
    pub every: Duration,
    /// Stretches.
    pub stretches: u32,
    /// Instructions of a stretch.
    pub instructions: u64,
    /// The program goes on to its end after the last stretch; else it is killed.
    pub finish: bool,
}

/// A recording, and what became of the program.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The trace.
    pub trace: Trace,
    /// Its mappings after the last stretch, or at its end if that came before, as the kernel lists them.
    pub maps: String,
    /// Its exit status, or the negative of the signal that ended it; nothing if it was killed here.
    pub status: Option<i32>,
}

/// The CPU time that a program takes, without the kernel's for it, in ticks of the kernel's clock.
///
/// # Errors
/// When it cannot be started.
pub fn cpu_time(command: &mut Command) -> io::Result<Duration> {
    /// Ticks that the kernel counts for others, whatever its own are.
    const TICKS: u32 = 100;
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    // What has ended and was not waited for is still told of.
    waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    child.wait()?;
    let stat = stat?;
    // After the name, which may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: u32 = fields.skip(11).find_map(|f| f.parse().ok()).unwrap_or(0);
    Ok(Duration::from_secs(1) * ticks / TICKS)
}

/// Runs `command`, whose streams and environment the caller chose, and records it. The trace is shorter than wanted
/// if the program ends.
///
/// # Errors
/// When the program cannot be started or traced.
pub fn record(command: &mut Command, wanted: &RecordingSettings) -> io::Result<Trace> {
    record_with(command, wanted).map(|recording| recording.trace)
}

/// Records a program as [`record`](fn@record) does, with its mappings and its end.
///
/// # Errors
/// As [`record`](fn@record).
pub fn record_with(command: &mut Command, wanted: &RecordingSettings) -> io::Result<Recording> {
    let every = wanted.every;
    // SAFETY: the closure runs between fork and exec, and makes system calls only.
    unsafe {
        command.pre_exec(move || {
            let persona = personality::get()?;
            personality::set(persona | Persona::ADDR_NO_RANDOMIZE)?;
            ptrace::traceme()?;
            match every {
                Duration::ZERO => Ok(()),
                every => stop_every(every),
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

/// Has a signal sent to this process, and to what it executes, whenever it has used so much CPU time itself.
fn stop_every(time: Duration) -> io::Result<()> {
    let time = libc::timeval {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_usec: time.subsec_micros().into(),
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
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

/// A stop after a step.
enum Stepped {
    /// The program goes on with this signal, if there is one.
    On(Option<Signal>),
    /// It has executed another program, and stands before its first instruction.
    Executed,
    Ended,
}

struct Recorder {
    pid: Pid,
    memory: Rc<File>,
    /// Mappings when they were looked at last.
    maps: String,
    met: HashMap<(u64, [u8; 15]), Rc<Met>>,
    info: InstructionInfoFactory,
    writer: TraceWriter,
    every: FieldSet,
    status: Option<i32>,
    /// The signal that is still to be passed on.
    held: Option<Signal>,
}

impl Recorder {
    fn new(pid: Pid) -> io::Result<Self> {
        waitpid(pid, None)?;
        // At its end a program has no mappings any more, unless it is stopped on the way.
        let stops = ptrace::Options::PTRACE_O_TRACEEXEC | ptrace::Options::PTRACE_O_TRACEEXIT;
        ptrace::setoptions(pid, stops)?;
        let every = (Field::ALL.into_iter()).filter(|field| !field.is_of_pipeline());
        Ok(Self {
            pid,
            memory: memory(pid)?,
            maps: String::new(),
            met: HashMap::new(),
            info: InstructionInfoFactory::new(),
            writer: TraceWriter::default(),
            every: every.collect(),
            status: None,
            held: None,
        })
    }

    fn run(mut self, wanted: &RecordingSettings) -> io::Result<Recording> {
        for stretch in 1..=wanted.stretches {
            let at_start = wanted.every.is_zero();
            if at_start && stretch > 1 || !at_start && !self.run_to_timer(true)? {
                break;
            }
            if !self.step(wanted.instructions)? {
                break;
            }
            self.look_at_maps();
        }
        while wanted.finish && self.status.is_none() && self.run_to_timer(false)? {}
        Ok(Recording {
            trace: self.writer.finish(regions(&self.maps)),
            maps: self.maps,
            status: self.status,
        })
    }

    fn look_at_maps(&mut self) {
        if let Ok(maps) = fs::read_to_string(format!("/proc/{}/maps", self.pid)) {
            self.maps = maps;
        }
    }

    /// Drops what was recorded: another program was executed.
    fn begin_anew(&mut self) -> io::Result<()> {
        self.memory = memory(self.pid)?;
        self.met.clear();
        self.writer = TraceWriter::default();
        self.maps.clear();
        Ok(())
    }

    /// Takes note of the program's end, if that is why it stands still.
    fn ended(&mut self, status: WaitStatus) -> bool {
        self.status = match status {
            WaitStatus::Exited(_, code) => Some(code),
            WaitStatus::Signaled(_, signal, _) => Some(-(signal as i32)),
            _ => return false,
        };
        true
    }

    /// Lets the program run until its timer stops it. Returns true if it does. `records`: more is to be recorded.
    fn run_to_timer(&mut self, records: bool) -> io::Result<bool> {
        let mut signal = self.held.take();
        loop {
            ptrace::cont(self.pid, signal.take())?;
            match waitpid(self.pid, None)? {
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) if records => {
                    self.begin_anew()?;
                }
                WaitStatus::Stopped(_, Signal::SIGVTALRM) => return Ok(true),
                WaitStatus::Stopped(_, stop) => signal = passed_on(stop),
                status if self.ended(status) => return Ok(false),
                _ => {}
            }
        }
    }

    /// Records so many instructions. Returns true if the program goes on then.
    fn step(&mut self, instructions: u64) -> io::Result<bool> {
        let mut until = self.writer.len() + instructions;
        let mut signal = None;
        let mut now = Stopped::of(self.pid.as_raw(), &self.memory)?;
        // Of a repeated instruction: what was known before the first time, and times.
        let mut begun: Option<(Facts, [u64; ACCESSES], u32)> = None;
        while self.writer.len() < until {
            let pc = now.general.rip;
            let Some(met) = self.meet(pc)? else {
                // Nothing can be executed there: a signal comes of it.
                match self.one(signal.take())? {
                    Stepped::On(next) => signal = next,
                    Stepped::Executed => return Err(lost(pc)),
                    Stepped::Ended => return Ok(false),
                }
                now = Stopped::of(self.pid.as_raw(), &self.memory)?;
                continue;
            };
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
            let passed = signal.is_some();
            signal = match self.one(signal)? {
                Stepped::On(next) => next,
                Stepped::Executed => {
                    self.begin_anew()?;
                    until = instructions;
                    now = Stopped::of(self.pid.as_raw(), &self.memory)?;
                    signal = None;
                    continue;
                }
                Stepped::Ended => return Ok(false),
            };
            now = Stopped::of(self.pid.as_raw(), &self.memory)?;
            if passed || signal.is_some() {
                // The handler was entered, or the signal came before the step: the instruction is still to be executed.
                continue;
            }
            if met.repeats && now.general.rip == pc {
                begun = Some((before, addresses, times + 1));
                continue;
            }
            let facts = if met.observation.operation().is_transfer() {
                if before.get(Field::Res1) != now.general.rip {
                    return Err(lost(pc));
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
        self.held = signal;
        Ok(true)
    }

    /// One step.
    fn one(&mut self, mut signal: Option<Signal>) -> io::Result<Stepped> {
        loop {
            ptrace::step(self.pid, signal.take())?;
            match waitpid(self.pid, None)? {
                // It came before the step.
                WaitStatus::Stopped(_, Signal::SIGVTALRM) => {}
                WaitStatus::Stopped(_, stop) => return Ok(Stepped::On(passed_on(stop))),
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXIT) => self.look_at_maps(),
                WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_EXEC) => {
                    // To the end of the system call: a step would stop there, too.
                    ptrace::syscall(self.pid, None)?;
                    let status = waitpid(self.pid, None)?;
                    return Ok(match self.ended(status) {
                        false => Stepped::Executed,
                        true => Stepped::Ended,
                    });
                }
                status if self.ended(status) => return Ok(Stepped::Ended),
                _ => return Ok(Stepped::On(None)),
            }
        }
    }

    /// The instruction at `pc`, as it is in memory now; none where no memory is.
    fn meet(&mut self, pc: u64) -> io::Result<Option<Rc<Met>>> {
        let mut bytes = [0; 15];
        if !self.memory.read_at(&mut bytes, pc).is_ok_and(|n| n > 0) {
            return Ok(None);
        }
        if let Some(met) = self.met.get(&(pc, bytes)) {
            return Ok(Some(Rc::clone(met)));
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
        Ok(Some(met))
    }
}

/// The memory of a program.
fn memory(pid: Pid) -> io::Result<Rc<File>> {
    File::open(format!("/proc/{pid}/mem")).map(Rc::new)
}

fn lost(pc: u64) -> io::Error {
    io::Error::other(format!(
        "the instruction at {pc:#x} led elsewhere than expected"
    ))
}

fn has_vectors(info: &mut InstructionInfoFactory, i: &X86) -> bool {
    let used = info.info(i).used_registers().iter();
    used.into_iter().any(|r| r.register().is_vector_register())
}

/// Returns the signals of the program among stops: steps and the timer are ours.
fn passed_on(stop: Signal) -> Option<Signal> {
    (!matches!(stop, Signal::SIGTRAP | Signal::SIGVTALRM)).then_some(stop)
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

#[cfg(test)]
mod tests;
