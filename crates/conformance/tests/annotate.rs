//! Execution counts of each instruction, as `trommel annotate` derives them from exact counts of branches and calls, against
//! callgrind, which counts instructions.
//!
//! * `instructions …`: all code of real programs, as one piece and cut at the functions that are called in it.
//! * `functions …`: functions by their names, of real programs and of our own.
//!
//! Compared is each instruction of the main executable. Left out are repeated string instructions, which callgrind counts by
//! the round, and what differs between two runs of callgrind itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use trommel_conformance::exec::{Job, Scratch, output, required, trommel};
use trommel_conformance::{callgrind, program, settled};

fn main() {
    settled::settle();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    // At least so many instructions agree.
    for (name, words, least) in [
        ("gzip", vec!["gzip", "-9", "-c", "INPUT"], 2000),
        (
            "sed",
            vec!["sed", "s/line \\([0-9]*\\)/\\1/;/1.*1/d", "INPUT"],
            2000,
        ),
    ] {
        for mix in ["edge,call", "edge,call,value"] {
            let words = words.clone();
            let trial = Trial::test(format!("instructions {name} {mix}"), move || {
                Ok(all_code(&words, mix, least)?)
            });
            // Each program and each mix has a trial in CI.
            let in_ci = (name == "sed") == mix.contains("value");
            trials.push(trial.with_ignored_flag(!in_ci));
        }
    }
    trials.push(Trial::test("functions lua5.4", || {
        Ok(by_name(&["lua5.4", "-e", LUA], true)?)
    }));
    for name in [
        "branches_small@-O2",
        "call_forms@-O2",
        "flags_adc_chain@-O2",
        "flags_loop_jrcxz@-O2",
        "jump_tables@-O2",
        "redzone_leaf@-O2",
    ] {
        trials.push(Trial::test(format!("functions {name}"), move || {
            let path = program::named(name)?;
            Ok(by_name(&[&path.to_string_lossy()], false)?)
        }));
    }
    libtest_mimic::run(&args, trials).exit();
}

const LUA: &str = "local t={} for i=1,2000 do t[i%97]=(t[i%97] or 0)+i*3%7 end \
    local s='' for k=1,50 do s=s..tostring(t[k]) end print(#s, s:gsub('1','x'))";

/// A program under both.
struct Both {
    _scratch: Scratch,
    data: PathBuf,
    program: PathBuf,
    expected: BTreeMap<u64, u64>,
    /// Instructions that are left out.
    chance: BTreeSet<u64>,
}

impl Both {
    fn of(words: &[&str], mix: &str, by_chance: bool) -> Result<Self, String> {
        required("valgrind")?;
        let program = fs::canonicalize(required(words[0])?).map_err(|e| e.to_string())?;
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let input = scratch.path("input");
        fs::write(&input, settled::sample()).map_err(|e| e.to_string())?;
        let mut argv = vec![program.to_string_lossy().into_owned()];
        argv.extend(words[1..].iter().map(|w| match *w {
            "INPUT" => input.to_string_lossy().into_owned(),
            w => w.to_owned(),
        }));
        let expected = callgrind::instructions(&argv, &[], scratch.dir())?;
        let mut chance = BTreeSet::new();
        for n in 0..if by_chance { 4 } else { 0 } {
            // Its seed changes with where the stack begins.
            let moved = (format!("MOVED{n}").into(), "x".repeat(1 + 977 * n).into());
            let other = callgrind::instructions(&argv, &[moved], scratch.dir())?;
            let all = expected.keys().chain(other.keys());
            chance.extend(all.filter(|at| expected.get(at) != other.get(at)));
        }
        let data = scratch.path("data");
        let mut job = Job::new(argv, scratch.dir());
        job.env = callgrind::added_environment(scratch.dir())?;
        let run = job
            .record_by(trommel(), (mix, "exact"), &data, Duration::from_secs(120))
            .map_err(|e| e.to_string())?;
        if run.code != Some(0) {
            return Err(format!("record ended with {run:?}"));
        }
        Ok(Self {
            _scratch: scratch,
            data,
            program,
            expected,
            chance,
        })
    }

    /// Returns what `trommel annotate` says of a function, or what it says in place of that.
    fn annotated(&self, function: &str) -> Result<Result<Value, String>, String> {
        let done = Command::new(trommel())
            .args(["annotate", "--json", "--top", "1"])
            .arg(&self.data)
            .arg(function)
            .output()
            .map_err(|e| e.to_string())?;
        if !done.status.success() {
            return Ok(Err(String::from_utf8_lossy(&done.stderr).into_owned()));
        }
        serde_json::from_slice(&done.stdout)
            .map(Ok)
            .map_err(|e| e.to_string())
    }

    /// Compares a function; gives how many instructions agree, and of how many nothing is known.
    fn compare(&self, function: &str) -> Result<(usize, usize), String> {
        let said = match self.annotated(function)? {
            Ok(said) => said,
            // What has no events was executed never, or has no branch, call and load.
            Err(why) if why.contains("holds no events") => return Ok((0, 0)),
            Err(why) => return Err(why),
        };
        let (mut agree, mut unknown) = (0, 0);
        let mut wrong = Vec::new();
        for line in said["instructions"].as_array().ok_or("no instructions")? {
            let at = line["at"]["vaddr"].as_u64().ok_or("no vaddr")?;
            let text = line["text"].as_str().unwrap_or_default();
            if text.starts_with("rep") || self.chance.contains(&at) {
                continue;
            }
            let expected = self.expected.get(&at).copied().unwrap_or(0);
            match line["executions"].as_u64() {
                None => unknown += 1,
                Some(got) if got == expected => agree += 1,
                Some(got) => wrong.push(format!("  {at:#x} {text}: {expected}, not {got}")),
            }
        }
        if wrong.is_empty() {
            return Ok((agree, unknown));
        }
        let number = wrong.len();
        wrong.truncate(20);
        Err(format!(
            "{function}: {number} wrong, {agree} right\n{}",
            wrong.join("\n")
        ))
    }
}

fn all_code(words: &[&str], mix: &str, least: usize) -> Result<(), String> {
    let both = Both::of(words, mix, false)?;
    let text = text_of(&both.program)?;
    let module = both.program.file_name().ok_or("no name")?.to_string_lossy();
    let whole = format!("{module}:{:#x}-{:#x}", text.start, text.end);
    let (agree, unknown) = both.compare(&whole)?;
    eprintln!(
        "{}: {agree} instructions agree, {unknown} unknown",
        words[0]
    );
    let executed = both.expected.range(text.clone()).count();
    if agree < least || unknown > 0 || executed * 3 < least {
        return Err(format!(
            "{agree} agree, {unknown} are unknown, {executed} executed"
        ));
    }
    // The same in pieces, of each of which only its own branches are known, and what leads to it.
    let report = Command::new(trommel())
        .args(["report", "--json", "-e", "call"])
        .arg(&both.data)
        .output()
        .map_err(|e| e.to_string())?;
    let report: Value = serde_json::from_slice(&report.stdout).map_err(|e| e.to_string())?;
    let calls = report["calls"].as_array().ok_or("no calls")?;
    let id = &calls
        .iter()
        .find(|c| text.contains(&vaddr(&c["from"])))
        .ok_or("no calls")?["from"]["module"];
    let here = calls
        .iter()
        .map(|c| &c["to"])
        .filter(|to| to["module"] == *id);
    let mut starts: BTreeSet<u64> = here.map(vaddr).filter(|at| text.contains(at)).collect();
    starts.insert(text.end);
    let starts: Vec<u64> = starts.into_iter().collect();
    let (mut agree, mut unknown) = (0, 0);
    for ends in starts.windows(2) {
        let (a, u) = both.compare(&format!("{module}:{:#x}-{:#x}", ends[0], ends[1]))?;
        (agree, unknown) = (agree + a, unknown + u);
    }
    eprintln!(
        "in {} pieces: {agree} agree, {unknown} unknown",
        starts.len() - 1
    );
    if starts.len() < 10 || agree * 4 < least || unknown * 20 > agree {
        return Err(format!("in pieces {agree} agree, {unknown} are unknown"));
    }
    Ok(())
}

fn vaddr(place: &Value) -> u64 {
    place["vaddr"].as_u64().unwrap_or(0)
}

fn by_name(words: &[&str], by_chance: bool) -> Result<(), String> {
    let both = Both::of(words, "edge,call", by_chance)?;
    let text = text_of(&both.program)?;
    let path = both.program.to_string_lossy();
    let mut names = BTreeMap::new();
    for options in [&["-S"][..], &["-S", "-D"]] {
        let listed = output(Command::new("nm").args(options).arg(&*path))?;
        for line in listed.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if let [start, size, kind, name] = words[..]
                && kind.eq_ignore_ascii_case("t")
                && let (Ok(start), Ok(size)) = (hex(start), hex(size))
                && text.contains(&start)
                && size > 0
                && !name.contains(".cold")
            {
                names.insert(start, name.to_owned());
            }
        }
    }
    let module = both.program.file_name().ok_or("no name")?.to_string_lossy();
    let (mut agree, mut unknown, mut functions) = (0, 0, 0);
    for name in names.values() {
        let (a, u) = both.compare(&format!("{module}:{name}"))?;
        (agree, unknown) = (agree + a, unknown + u);
        functions += usize::from(a > 0);
    }
    eprintln!("{functions} functions: {agree} instructions agree, {unknown} unknown");
    if functions < 2 || agree < 30 || unknown * 20 > agree {
        return Err(format!(
            "{functions} functions, {agree} agree, {unknown} are unknown"
        ));
    }
    Ok(())
}

fn hex(digits: &str) -> Result<u64, String> {
    u64::from_str_radix(digits, 16).map_err(|e| e.to_string())
}

/// Returns the addresses of the compiler's code.
fn text_of(program: &Path) -> Result<Range<u64>, String> {
    let listed = output(Command::new("readelf").arg("-SW").arg(program))?;
    let line = listed.lines().find(|l| l.contains(" .text "));
    let words: Vec<&str> = line.ok_or("no .text")?.split_whitespace().collect();
    let at = words.iter().position(|w| *w == ".text").ok_or("no .text")?;
    let number = |n: usize| {
        words
            .get(at + n)
            .map_or(Err("no number".into()), |w| hex(w))
    };
    let (start, size) = (number(2)?, number(4)?);
    Ok(start..start + size)
}
