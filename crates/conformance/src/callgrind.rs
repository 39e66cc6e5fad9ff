//! Exact branch and call counts of the main executable, from valgrind's callgrind.
//!
//! With `--dump-instr=yes --collect-jumps=yes` the file has a line per instruction (and calling
//! context) with its executions, and lines for transfers of control: `jcnd=TAKEN/EXECUTED TARGET`,
//! `jump=COUNT TARGET`, `calls=COUNT TARGET`. The line *after* a transfer names the instruction it
//! comes from. Addresses are vaddrs of the object named by the last `ob=`; `cob=` names the
//! callee's object for the next `calls=` only.
//!
//! Callgrind decides between the three words by function symbols, not by the instruction: a `jmp`
//! or a `jcc` that enters another function is a `calls=`. So each transfer is taken as what the
//! instruction at its source *is*, decoded from the file. A conditional branch that was never
//! taken has no transfer line at all; its fall-throughs are its executions less what it took.
//!
//! Valgrind gives code outside `.text` (`.plt`, `.init`) to the object `???`, with run-time addresses;
//! it loads every PIE at 0x108000, so those are brought back to vaddrs of the executable.
//!
//! What callgrind cannot tell, and is left out on both sides ([`comparable`]):
//! * `call` to the next instruction (get-pc): valgrind translates it as a push, with no call;
//! * which function of another module was entered: a target outside the executable is only "another
//!   module" on both sides;
//! * a conditional branch to the instruction after it: taken and not taken lead to the same place
//!   and valgrind drops it;
//! * the jump of PLT entry 0 into the lazy resolver: callgrind shows the resolver's jump to the
//!   function it found as a second transfer from here;
//! * a statically linked libc: it asks `cpuid`, which valgrind answers for another processor;
//! * programs that use threads, signals or longjmp: callgrind's shadow stack guesses there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::built::{cache_dir, kept};
use crate::counts::{Counts, Target, Transfers, add};
use crate::elf::Image;
use crate::exec::{Scratch, required};

/// Runs `argv` (whose first word is a canonical path) under callgrind.
///
/// It is run in `dir` with the changes `env` to the environment and no standard input.
pub fn count<S: AsRef<OsStr>>(
    argv: &[S],
    env: &[(OsString, OsString)],
    dir: &Path,
) -> Result<Counts, String> {
    parse(&run(argv, env, dir)?, Path::new(argv[0].as_ref()))
}

/// Returns how often each instruction of the main executable was executed; [`count`] says how it is run. Each round of a
/// repeated string instruction counts.
pub fn instructions<S: AsRef<OsStr>>(
    argv: &[S],
    env: &[(OsString, OsString)],
    dir: &Path,
) -> Result<BTreeMap<u64, u64>, String> {
    let main = Path::new(argv[0].as_ref());
    let image = Image::read(main).ok_or_else(|| format!("{}: not ELF", main.display()))?;
    let raw = Raw::read(&run(argv, env, dir)?, &main.to_string_lossy(), &image)?;
    Ok(raw.executed)
}

/// The file that callgrind writes. Of a program of ours that is run by itself it is kept: several trials compare with it.
fn run<S: AsRef<OsStr>>(
    argv: &[S],
    env: &[(OsString, OsString)],
    dir: &Path,
) -> Result<String, String> {
    let program = Path::new(argv[0].as_ref());
    let is_ours = fs::canonicalize(cache_dir()).is_ok_and(|ours| program.starts_with(ours));
    if argv.len() > 1 || !env.is_empty() || !is_ours {
        return ran(argv, env, dir);
    }
    let stamp = [stamp(program)?, stamp(&required("valgrind")?)?].concat();
    let name = program.to_string_lossy();
    kept("callgrind", &name, &stamp, || ran(argv, env, dir))
}

/// Changes when a file does.
fn stamp(file: &Path) -> Result<String, String> {
    let data = fs::metadata(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(format!(
        "{} {}.{} ",
        data.len(),
        data.mtime(),
        data.mtime_nsec()
    ))
}

fn ran<S: AsRef<OsStr>>(
    argv: &[S],
    env: &[(OsString, OsString)],
    dir: &Path,
) -> Result<String, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let file = scratch.path("callgrind.out");
    let done = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--dump-instr=yes",
            "--collect-jumps=yes",
        ])
        .args([
            "--compress-strings=no",
            "--compress-pos=no",
            "--skip-plt=no",
        ])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args(argv)
        .envs(env.iter().map(|(k, v)| (k, v)))
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(File::create(scratch.path("stdout")).map_err(|e| e.to_string())?)
        .stderr(File::create(scratch.path("stderr")).map_err(|e| e.to_string())?)
        .output()
        .map_err(|e| format!("valgrind: {e}"))?;
    let text = fs::read(&file).map_err(|e| {
        let said = fs::read(scratch.path("stderr")).unwrap_or_default();
        format!("{e} ({}): {}", done.status, String::from_utf8_lossy(&said))
    })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the variables that valgrind adds to the environment of the programs it runs in `dir`.
///
/// It adds the same each time, so one run tells it for all trials that use this build directory.
pub fn added_environment(dir: &Path) -> Result<Vec<(OsString, OsString)>, String> {
    let valgrind = required("valgrind")?;
    // What is there already comes before it, or after.
    let there = ["PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"].into_iter();
    let there = there.filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
    let there: Vec<(OsString, OsString)> = there.collect();
    let stamp = format!("{}{there:?}", stamp(&valgrind)?);
    let pairs = kept("valgrind", "environment", &stamp, || {
        let done = Command::new(&valgrind)
            .args(["-q", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .args(["env", "-0"])
            .env_clear()
            .envs(there.iter().map(|(name, value)| (name, value)))
            .output()
            .map_err(|e| format!("valgrind: {e}"))?;
        String::from_utf8(done.stdout).map_err(|e| format!("valgrind's environment: {e}"))
    })?;
    let pairs = pairs.split('\0').filter_map(|line| {
        let (name, value) = line.split_once('=')?;
        Some((OsString::from(name), OsString::from(value)))
    });
    let dir = fs::canonicalize(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    // Where it is a script, its shell says where it is.
    let here = |(name, value)| match name == "PWD" {
        true => (name, dir.clone().into_os_string()),
        false => (name, value),
    };
    let added = pairs.filter(|pair| !there.contains(pair));
    Ok(added.map(here).collect())
}

/// Reads a callgrind file for the object `main`.
pub fn parse(text: &str, main: &Path) -> Result<Counts, String> {
    let image = Image::read(main).ok_or_else(|| format!("{}: not ELF", main.display()))?;
    let name = main.to_string_lossy();
    let raw = Raw::read(text, &name, &image)?;
    let mut counts = Counts::default();
    for (&(from, to), &times) in &raw.transfers {
        let Some(instruction) = decode(&image, from) else {
            return Err(format!(
                "callgrind names {from:#x}, where the file has no code"
            ));
        };
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => add(&mut counts.branches, from, to, times),
            FlowControl::IndirectBranch => add(&mut counts.jumps, from, to, times),
            FlowControl::Call | FlowControl::IndirectCall => {
                add(&mut counts.calls, from, to, times)
            }
            _ => {}
        }
    }
    for (&at, &executed) in &raw.executed {
        let Some(i) = decode(&image, at) else {
            continue;
        };
        if i.flow_control() == FlowControl::ConditionalBranch {
            let taken: u64 = raw
                .transfers
                .range((at, Target::Here(0))..=(at, Target::Elsewhere))
                .map(|(_, n)| n)
                .sum();
            let rest = executed
                .checked_sub(taken)
                .ok_or_else(|| format!("{at:#x} taken {taken} times of {executed}"))?;
            add(&mut counts.branches, at, Target::Here(i.next_ip()), rest);
        }
    }
    Ok(comparable(&counts, &image))
}

/// Drops what callgrind cannot express; apply to both sides of a comparison.
pub fn comparable(counts: &Counts, image: &Image) -> Counts {
    let keep = |map: &Transfers| -> Transfers {
        map.iter()
            .filter(|((from, _), _)| {
                decode(image, *from).is_none_or(|i| {
                    i.near_branch_target() != i.next_ip() || i.is_jmp_near_indirect()
                })
            })
            .map(|(k, v)| (*k, *v))
            .collect()
    };
    Counts {
        branches: keep(&counts.branches),
        jumps: counts
            .jumps
            .iter()
            .filter(|((from, _), _)| !is_plt_zero(image, *from))
            .map(|(k, v)| (*k, *v))
            .collect(),
        calls: keep(&counts.calls),
        values: BTreeMap::new(),
    }
}

/// `push [rip+x]; jmp [rip+y]`: the way into the lazy resolver.
fn is_plt_zero(image: &Image, jump: u64) -> bool {
    image
        .code(jump.wrapping_sub(6))
        .is_some_and(|code| code.starts_with(&[0xff, 0x35]))
}

fn decode(image: &Image, vaddr: u64) -> Option<Instruction> {
    let code = image.code(vaddr)?;
    let i = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE).decode();
    (!i.is_invalid()).then_some(i)
}

/// Transfers and executions of one object, as written.
#[derive(Default)]
struct Raw {
    transfers: Transfers,
    executed: BTreeMap<u64, u64>,
}

/// Address at which valgrind loads a position-independent executable.
const PIE_BASE: u64 = 0x10_8000;

/// Name on an `ob=` or `cob=` line.
#[derive(Clone, Copy)]
enum Object {
    Main,
    Unknown,
    Other,
}

impl Raw {
    fn read(text: &str, main: &str, image: &Image) -> Result<Self, String> {
        let mut raw = Self::default();
        let object = |name: &str| match name {
            "???" => Object::Unknown,
            name if name == main => Object::Main,
            _ => Object::Other,
        };
        let locate = |object: Object, at: u64| match object {
            Object::Main => Target::Here(at),
            Object::Other => Target::Elsewhere,
            Object::Unknown => {
                let at = at.wrapping_sub(if image.movable { PIE_BASE } else { 0 });
                image
                    .code(at)
                    .map_or(Target::Elsewhere, |_| Target::Here(at))
            }
        };
        let mut current = Object::Other;
        let mut callee: Option<Object> = None;
        // The transfer whose source is the next line.
        let mut pending: Option<(Target, u64)> = None;
        for line in text.lines() {
            let bad = || format!("callgrind line not understood: {line}");
            if let Some(name) = line.strip_prefix("ob=") {
                current = object(name);
            } else if let Some(name) = line.strip_prefix("cob=") {
                callee = Some(object(name));
            } else if let Some(rest) = line.strip_prefix("calls=") {
                let (times, to) = count_and_target(rest).ok_or_else(bad)?;
                pending = Some((locate(callee.take().unwrap_or(current), to), times));
            } else if let Some(rest) = line.strip_prefix("jump=") {
                let (times, to) = count_and_target(rest).ok_or_else(bad)?;
                pending = Some((locate(current, to), times));
            } else if let Some(rest) = line.strip_prefix("jcnd=") {
                let (taken, rest) = rest.split_once('/').ok_or_else(bad)?;
                let (_, to) = count_and_target(rest).ok_or_else(bad)?;
                let times = taken.parse().map_err(|_| bad())?;
                pending = Some((locate(current, to), times));
            } else if line.starts_with("0x") {
                let mut words = line.split_whitespace();
                let at = hex(words.next()).ok_or_else(bad)?;
                let cost = words.nth(1).and_then(|w| w.parse::<u64>().ok());
                let transfer = pending.take();
                let Target::Here(at) = locate(current, at) else {
                    continue;
                };
                if let Some((to, times)) = transfer {
                    add(&mut raw.transfers, at, to, times);
                } else if let Some(cost) = cost {
                    *raw.executed.entry(at).or_default() += cost;
                }
            }
        }
        Ok(raw)
    }
}

fn count_and_target(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    Some((words.next()?.parse().ok()?, hex(words.next())?))
}

fn hex(word: Option<&str>) -> Option<u64> {
    u64::from_str_radix(word?.strip_prefix("0x")?, 16).ok()
}
