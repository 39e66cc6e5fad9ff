//! Answers to relational queries by single-stepping: an exact and slow oracle.
//!
//! Every instruction that a program executes is looked at with `ptrace` before and after, and the facts of
//! each are given to the reference engine. Where memory and registers are looked at *only* before or only after,
//! as the runtime does, an instruction's facts must come out the same.
//!
//! The program runs where the kernel puts programs that ask for no randomness, with no environment, so that
//! all its registers and memory are what they are in another such run.
#![allow(unsafe_code, reason = "ptrace has no safe form")]

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic};
use trommel_model::trace::stopped::Stopped;
use trommel_query::engine::{Effect, Log, thread_seed};
use trommel_query::observe::Observation;
use trommel_query::throttle::Rehearsal;
use trommel_query::{
    Class, Engine, Entry, Facts, Field, FieldSet, Operation, Program, QueryPc, Rate, Subject,
};

use crate::stepper::{is_rep, wait};

/// The number of the only thread.
const THREAD: u32 = 1;

/// A command whose program runs at the same addresses, with the same memory, each time. Rates of `every auto` are rehearsed.
pub fn steady(argv: &[&Path]) -> Command {
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).env_clear();
    command.env("TROMMEL_STRESS", "rates");
    command.stdin(Stdio::null()).stderr(Stdio::null());
    // SAFETY: the closure runs between fork and exec and makes one system call.
    unsafe {
        command.pre_exec(
            || match libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            },
        );
    }
    command
}

/// Results of queries.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// In order.
    pub log: Log,
    /// The rates in force at each.
    pub rates: Vec<Rate>,
}

/// Returns what the queries of `question` do in a run of `program`, at most `limit` instructions long, whose code
/// has the tags that `tag` says. The engine's seed is `seed`; rates of `every auto` are rehearsed.
pub fn answers(
    program: &Path,
    question: &Program,
    seed: u64,
    tag: impl Fn(u64) -> u8,
    limit: u64,
) -> io::Result<Answers> {
    let mut command = steady(&[program]);
    command.stdout(Stdio::null());
    // SAFETY: as above.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let result = walk(pid, question, seed, tag, limit);
    let _ = child.kill();
    let _ = child.wait();
    result
}

fn walk(
    pid: i32,
    question: &Program,
    seed: u64,
    tag: impl Fn(u64) -> u8,
    limit: u64,
) -> io::Result<Answers> {
    wait(pid)?;
    let memory = Rc::new(File::open(format!("/proc/{pid}/mem"))?);
    let mut engine = Engine::new(question, thread_seed(seed, THREAD));
    let mut answers = Answers::default();
    let mut rehearsal = Rehearsal::default();
    let mut info = InstructionInfoFactory::new();
    let mut decoded: HashMap<(u64, [u8; 15]), (Instruction, Observation)> = HashMap::new();
    let every: FieldSet = (Field::ALL.into_iter())
        .filter(|field| !field.is_of_pipeline())
        .collect();
    let look = || {
        let mut stopped = Stopped::of(pid, &memory)?;
        stopped.read_vectors().map(|()| stopped)
    };
    let mut now = look()?;
    // Of a repeated instruction, from the first time on.
    let mut begun: Option<Facts> = None;
    for _ in 0..limit {
        let pc = now.general.rip;
        let mut bytes = [0; 15];
        memory.read_at(&mut bytes, pc)?;
        let (instruction, observation) = decoded.entry((pc, bytes)).or_insert_with(|| {
            let i = Decoder::with_ip(64, &bytes, pc, DecoderOptions::NONE).decode();
            let observation = Observation::of(&mut info, &i, every);
            (i, observation)
        });
        let before = begun.take().unwrap_or_else(|| observation.before(&now));
        let mut offer = |facts: Facts| {
            let class = Class::new(observation.operation(), tag(pc)).expect("a tag below 4");
            let facts = facts.with(Field::Thread, THREAD.into());
            let entry = Entry::of(Subject::Class(class));
            let rate = engine.rate(entry);
            let Some((start, record)) = engine.select(entry, &facts) else {
                return;
            };
            engine.query(start, &record, &mut answers.log);
            for at in (0..question.code().len()).filter_map(QueryPc::new) {
                let records = engine.take_counted(at).into();
                if records > 0 {
                    answers.log.0.push(Effect::Counted { at, records });
                }
            }
            answers.rates.resize(answers.log.0.len(), rate);
            engine.pace(entry, rehearsal.next(entry));
        };
        // The last one of a program has no after.
        let is_call = instruction.mnemonic() == Mnemonic::Syscall;
        if is_call {
            offer(before);
        }
        // SAFETY: a ptrace request on our stopped child, with no memory of ours.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let Some(stop) = wait(pid)? else {
            return Ok(answers);
        };
        if stop != libc::SIGTRAP {
            return Err(io::Error::other(format!("signal {stop} at {pc:#x}")));
        }
        now = look()?;
        if is_rep(instruction) && now.general.rip == pc {
            begun = Some(before);
            continue;
        }
        if is_call {
            continue;
        }
        let transfers = [Operation::Branch, Operation::Jump];
        let facts = match transfers.contains(&observation.operation()) {
            true => before,
            false => observation.late(&now, before),
        };
        if transfers.contains(&observation.operation()) && facts.get(Field::Res1) != now.general.rip
        {
            return Err(io::Error::other(format!("{pc:#x} leads elsewhere")));
        }
        offer(facts);
    }
    Err(io::Error::other(format!("more than {limit} instructions")))
}
