//! An exact and slow oracle of acyclic paths: single-steps all threads of a program by `ptrace`.
//!
//! From one instruction and the address of the next it is plain which way a branch went, where a path ends and where the next
//! begins, by the definition in `docs/events.md`; the words of paths are put together here anew. Paths are those that begin in the
//! main executable. The entry into a signal's handler is seen by the frame that the kernel has made, the return by the system
//! call. Processes that the program starts are not followed, nor programs that it becomes.
#![allow(unsafe_code, reason = "ptrace has no safe form")]

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};
use serde_json::Value;

use crate::elf;
use crate::stepper::{OneProcessor, registers, run_to_entry, traced};

/// (vaddr where it begins, which way it goes) → executions.
pub type Paths = BTreeMap<(u64, u64), u64>;

const WHOLE: u64 = 0;
const CUT: u64 = 1;
const LEFT: u64 = 2;

/// A path that a thread is on.
#[derive(Clone, Default)]
struct Open {
    start: u64,
    outcomes: Vec<bool>,
    /// Outcomes before its indirect jump, and how far that went.
    jump: Option<(usize, u64)>,
}

impl Open {
    fn word(&self, end: u64) -> u64 {
        let outcomes = self.outcomes.iter();
        let bits = outcomes.fold(1, |bits, taken| bits << 1 | u64::from(*taken));
        let jump = self.jump.map_or(0, |(after, distance)| {
            1 << 61 | (after as u64) << 56 | distance << 32
        });
        end << 62 | jump | bits
    }

    fn is_full(&self) -> bool {
        self.outcomes.len() == if self.jump.is_some() { 31 } else { 60 }
    }
}

/// A thread at a stop.
struct Task {
    memory: File,
    /// Address at which it stopped, and the instruction there.
    at: u64,
    instruction: Option<Instruction>,
    /// The frame that a return from a handler is given.
    frame: u64,
    open: Open,
    /// Interrupted at, by a handler with this frame.
    interrupted: Vec<(u64, u64, Open)>,
    /// A signal that is caught is being delivered.
    delivers: bool,
}

impl Task {
    /// True if a SIGTRAP is the program's own: of a breakpoint instruction, or sent.
    fn traps(&self, pid: i32) -> io::Result<bool> {
        const STEPPED: std::ops::RangeInclusive<i32> = 1..=2;
        let asks = |i: &Instruction| matches!(i.mnemonic(), Mnemonic::Int3 | Mnemonic::Syscall);
        if !self.instruction.as_ref().is_some_and(asks) {
            return Ok(false);
        }
        let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the kernel fills exactly one siginfo_t.
        if unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, pid, 0, info.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: integers only, zeroed and then filled.
        Ok(!STEPPED.contains(&unsafe { info.assume_init() }.si_code))
    }
}

/// The program.
struct Stepper {
    code: Range<u64>,
    bias: u64,
    paths: Paths,
    tasks: HashMap<i32, Task>,
}

/// The paths of `argv` in its own executable, of at most `limit` steps.
pub fn count(argv: &[String], limit: u64) -> io::Result<Paths> {
    let program = fs::canonicalize(&argv[0])?;
    let scratch = crate::exec::Scratch::new()?;
    let _together = OneProcessor::pin()?;
    let mut child = traced(argv, &scratch)?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let result = step_all(pid, &program, limit);
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn step_all(pid: i32, program: &Path, limit: u64) -> io::Result<Paths> {
    let (_, _) = wait(pid)?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lost = || io::Error::other("the program is not in its own memory map");
    let bias = elf::bias(&maps, program).ok_or_else(lost)?;
    let image = elf::Image::read(program).ok_or_else(lost)?;
    run_to_entry(pid, program, bias)?;
    let options = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_EXITKILL;
    // SAFETY: a ptrace request on our stopped child, with no memory of ours.
    if unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0, libc::c_long::from(options)) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let low = image.lowest_page() + bias;
    let high = maps
        .lines()
        .filter(|line| line.split_whitespace().nth(5).map(Path::new) == Some(program))
        .filter_map(|line| u64::from_str_radix(line.split(['-', ' ']).nth(1)?, 16).ok())
        .max();
    let mut all = Stepper {
        code: low..high.ok_or_else(lost)?,
        bias,
        paths: Paths::new(),
        tasks: HashMap::new(),
    };
    all.meet(pid)?;
    for _ in 0..limit {
        if all.tasks.is_empty() {
            return Ok(all.paths);
        }
        if !all.event()? {
            return Ok(all.paths);
        }
    }
    Err(io::Error::other(format!("more than {limit} steps")))
}

impl Stepper {
    /// A new thread, stopped.
    fn meet(&mut self, pid: i32) -> io::Result<()> {
        let at = registers(pid)?.rip;
        let task = Task {
            memory: File::open(format!("/proc/{pid}/mem"))?,
            at,
            instruction: None,
            frame: 0,
            open: Open {
                start: at,
                ..Open::default()
            },
            interrupted: Vec::new(),
            delivers: false,
        };
        self.tasks.insert(pid, task);
        self.resume(pid, 0)
    }

    /// Lets a thread execute what it is at.
    fn resume(&mut self, pid: i32, signal: i32) -> io::Result<()> {
        let regs = registers(pid)?;
        if let Some(task) = self.tasks.get_mut(&pid) {
            let mut bytes = [0; 15];
            let there = task.memory.read_at(&mut bytes, regs.rip).unwrap_or(0);
            let mut decoder = Decoder::with_ip(64, &bytes[..there], regs.rip, DecoderOptions::NONE);
            task.at = regs.rip;
            task.instruction = (there != 0).then(|| decoder.decode());
            // `rt_sigreturn`
            task.frame = if regs.rax == 15 { regs.rsp } else { 0 };
        }
        step(pid, signal)
    }

    /// The next stop of any thread; false when what follows is another program.
    fn event(&mut self) -> io::Result<bool> {
        let (pid, status) = wait(-1)?;
        if !libc::WIFSTOPPED(status) {
            if let Some(task) = self.tasks.remove(&pid) {
                self.end(task);
            }
            return Ok(true);
        }
        if !self.tasks.contains_key(&pid) {
            // A thread's first stop.
            self.meet(pid)?;
            return Ok(true);
        }
        match status >> 16 {
            0 => {}
            libc::PTRACE_EVENT_EXEC => {
                let all: Vec<Task> = self.tasks.drain().map(|(_, task)| task).collect();
                all.into_iter().for_each(|task| self.end(task));
                return Ok(false);
            }
            // In the middle of a system call.
            _ => return step(pid, 0).map(|()| true),
        }
        let signal = libc::WSTOPSIG(status);
        let regs = registers(pid)?;
        let Some(mut task) = self.tasks.remove(&pid) else {
            return Ok(true);
        };
        let stepped = signal == libc::SIGTRAP && !task.traps(pid)?;
        if std::mem::take(&mut task.delivers) {
            self.entered(&mut task, &regs)?;
        } else if stepped || regs.rip != task.at {
            self.executed(&mut task, regs.rip);
        }
        task.delivers = !stepped && catches(pid, signal)?;
        self.tasks.insert(pid, task);
        self.resume(pid, if stepped { 0 } else { signal })?;
        Ok(true)
    }

    fn add(&mut self, open: &Open, end: u64) {
        if self.code.contains(&open.start) {
            let key = (open.start - self.bias, open.word(end));
            *self.paths.entry(key).or_default() += 1;
        }
    }

    /// A path is over, and the next begins.
    fn cut(&mut self, task: &mut Task, end: u64, next: u64) {
        let open = Open {
            start: next,
            ..Open::default()
        };
        let before = std::mem::replace(&mut task.open, open);
        self.add(&before, end);
    }

    /// The thread goes no further.
    fn end(&mut self, task: Task) {
        for (_, _, open) in &task.interrupted {
            self.add(open, LEFT);
        }
        self.add(&task.open, LEFT);
    }

    /// A handler has been entered.
    fn entered(&self, task: &mut Task, regs: &libc::user_regs_struct) -> io::Result<()> {
        // After the return address, with the program counter as its 21st word.
        let frame = regs.rsp + 8;
        let mut pc = [0; 8];
        task.memory.read_exact_at(&mut pc, frame + 8 * 21)?;
        let open = Open {
            start: regs.rip,
            ..Open::default()
        };
        let before = std::mem::replace(&mut task.open, open);
        task.interrupted
            .push((u64::from_le_bytes(pc), frame, before));
        Ok(())
    }

    /// A handler has been returned from, to `next`.
    fn returned(&mut self, task: &mut Task, next: u64) {
        self.cut(task, LEFT, next);
        let entered = |(_, frame, _): &(u64, u64, Open)| *frame == task.frame;
        let Some(n) = task.interrupted.iter().rposition(entered) else {
            return;
        };
        for (_, _, open) in task.interrupted.drain(n + 1..) {
            self.add(&open, LEFT);
        }
        match task.interrupted.pop() {
            Some((pc, _, open)) if pc == next => task.open = open,
            Some((_, _, open)) => self.add(&open, LEFT),
            None => {}
        }
    }

    /// The thread has executed an instruction and is at `next`.
    fn executed(&mut self, task: &mut Task, next: u64) {
        let Some(i) = task.instruction.take() else {
            return;
        };
        let forward = next.checked_sub(i.ip()).filter(|d| *d != 0);
        match i.flow_control() {
            FlowControl::ConditionalBranch => {
                let taken = next == i.near_branch_target();
                task.open.outcomes.push(taken);
                match taken && forward.is_none() {
                    true => self.cut(task, WHOLE, next),
                    false if task.open.is_full() => self.cut(task, CUT, next),
                    false => {}
                }
            }
            FlowControl::UnconditionalBranch if forward.is_none() => self.cut(task, WHOLE, next),
            FlowControl::IndirectBranch => {
                let near = self.code.contains(&i.ip()) == self.code.contains(&next);
                let open = &mut task.open;
                match forward.filter(|d| near && *d < 1 << 24) {
                    Some(d) if open.jump.is_none() && open.outcomes.len() <= 31 => {
                        open.jump = Some((open.outcomes.len(), d));
                        if open.is_full() {
                            self.cut(task, CUT, next);
                        }
                    }
                    _ => self.cut(task, WHOLE, next),
                }
            }
            FlowControl::Return => self.cut(task, WHOLE, next),
            FlowControl::Call | FlowControl::IndirectCall if i.mnemonic() == Mnemonic::Call => {
                self.cut(task, WHOLE, next);
            }
            _ if i.mnemonic() == Mnemonic::Syscall && task.frame != 0 => self.returned(task, next),
            _ => {}
        }
    }
}

/// True if the thread has a handler for a signal.
fn catches(pid: i32, signal: i32) -> io::Result<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let caught = caught.ok_or_else(|| io::Error::other("no SigCgt"))?;
    Ok(caught >> (signal - 1) & 1 != 0)
}

fn step(pid: i32, signal: i32) -> io::Result<()> {
    // SAFETY: a ptrace request on our stopped tracee, with no memory of ours.
    if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, libc::c_long::from(signal)) } != 0 {
        let error = io::Error::last_os_error();
        // Killed meanwhile: its end is told next.
        if error.raw_os_error() != Some(libc::ESRCH) {
            return Err(error);
        }
    }
    Ok(())
}

/// Waits for what this thread of ours traces.
fn wait(pid: i32) -> io::Result<(i32, i32)> {
    let mut status = 0;
    // SAFETY: waits for our own children; `status` outlives the call.
    let found = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found, status))
}

/// The paths that `trommel report --json` reports of the module at `main`.
pub fn of_report(report: &Value, main: &Path) -> Result<Paths, String> {
    let modules = report["modules"].as_array().ok_or("no modules")?;
    let id = modules
        .iter()
        .find(|m| m["path"].as_str().map(Path::new) == Some(main))
        .ok_or_else(|| format!("no module {}", main.display()))?["id"]
        .clone();
    let mut paths = Paths::new();
    for path in report["paths"].as_array().ok_or("no paths")? {
        if path["at"]["module"] != id {
            continue;
        }
        let number = |v: &Value| v.as_u64().ok_or_else(|| format!("no number in {path}"));
        let key = (number(&path["at"]["vaddr"])?, number(&path["path"])?);
        *paths.entry(key).or_default() += number(&path["executions"])?;
    }
    Ok(paths)
}
