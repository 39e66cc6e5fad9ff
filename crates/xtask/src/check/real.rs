//! Same behaviour of what people run: build systems, servers, JITs, debuggers, browsers.
//!
//! Each `tests/real/*.sh` is run by bash in an empty directory, twice as it is and once in each of
//! [`WAYS`], or with `--run` of [`TRACED`]; all must print the same and end the same. In it `t COMMAND…` runs a command natively or
//! under `trommel`, and `fetch URL FILE` keeps a public archive in `$CACHE`. Its first line
//! names the commands that it needs; where one is missing the script is skipped, with a message. The two native
//! runs show whether a script is deterministic. Natively it has to end with 0, so
//! that no script passes because it fails everywhere.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use trommel_conformance::exec::{Job, Outcome, Scratch, cache_dir, difference, which, workspace};

use crate::common::trommel;
use crate::ways::{
    AGGRESSIVE, COUNTED, FROM_START, KEPT, LATE, Recorded, SAMPLED, STRESSED, Traced,
};

/// Ways to record them: with new fragments, with kept ones, with those of the run before, and with events.
const WAYS: [Recorded; 6] = [
    ("", &["-e", "none", "--no-persist"]),
    ("", &["-e", "none"]),
    ("", &["-e", "none"]),
    ("", &["-e", "edge,call"]),
    COUNTED,
    SAMPLED,
];

/// Ways to run them under `run`.
const TRACED: [Traced; 5] = [FROM_START, LATE, KEPT, AGGRESSIVE, STRESSED];

const LIMIT: Duration = Duration::from_secs(1800);

const PREAMBLE: &str = r#"set -euo pipefail
fetch() { [ -s "$CACHE/$2" ] || { curl -sSfL -m 120 -o "$CACHE/$2.part" "$1" && mv "$CACHE/$2.part" "$CACHE/$2"; }; }
"#;

/// Compares servers, build systems, JITs and debuggers: same output and exit status.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check real make git")]
pub(crate) struct Args {
    /// Run them under `trommel run` instead of `trommel record`.
    #[arg(long)]
    run: bool,
    /// Scripts of `tests/real`; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let bin = trommel();
    let given = &args.names;
    let ways = match args.run {
        false => recorded(bin),
        true => traced(bin),
    };
    let _alone = alone()?;
    let dir = workspace().join("tests/real");
    let mut scripts: Vec<PathBuf> = fs::read_dir(&dir)
        .map_err(|e| format!("{}: {e}", dir.display()))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| given.is_empty() || given.contains(&name(path)))
        .collect();
    scripts.sort();
    if scripts.len() < given.len() {
        return Err(format!("{}: not all of {given:?} are there", dir.display()));
    }
    let mut failed = Vec::new();
    for script in scripts {
        let label = name(&script);
        match one(bin, &script, &ways) {
            Ok(line) => println!("{label:<24} {line}"),
            Err(what) => {
                println!("{label:<24} DIFFERENT {what}");
                failed.push(label);
            }
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("different: {}", failed.join(" "))),
    }
}

/// Lock that is held while scripts run, as they all run in one directory.
fn alone() -> Result<File, String> {
    let dir = cache_dir().join("real");
    let path = dir.join("lock");
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(&dir).map_err(failed)?;
    let file = File::create(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(format!(
            "another run of `cargo xtask real` has {}",
            dir.display()
        )),
        Err(TryLockError::Error(e)) => Err(failed(e)),
    }
}

/// A name, and what goes before a command.
type Way = (String, String);

fn recorded(bin: &Path) -> Vec<Way> {
    let bin = bin.display();
    let command = format!("{bin} record --quiet -o \"$DATA/$$.data\"");
    WAYS.iter()
        .map(|way| self::way("", &command, way))
        .collect()
}

fn traced(bin: &Path) -> Vec<Way> {
    let command = format!("{} run", bin.display());
    TRACED
        .iter()
        .map(|way| self::way("run ", &command, way))
        .collect()
}

fn way(before: &str, command: &str, (stress, options): &Traced) -> Way {
    let options = options.join(" ");
    let name = format!("{before}{options} {stress}").trim_end().to_owned();
    let prefix = format!("env TROMMEL_STRESS={stress} {command} {options} --");
    (name, prefix)
}

fn name(script: &Path) -> String {
    script
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn one(bin: &Path, script: &Path, ways: &[Way]) -> Result<String, String> {
    let text = fs::read_to_string(script).map_err(|e| e.to_string())?;
    let needs = text
        .lines()
        .next()
        .and_then(|l| l.strip_prefix("# needs: "));
    let needs = needs.ok_or("its first line does not say `# needs: COMMAND…`")?;
    if let Some(missing) = needs.split(' ').find(|n| which(n).is_none()) {
        return Ok(format!("SKIPPED, no {missing}"));
    }
    let native = run_once(&text, "")?;
    let again = run_once(&text, "")?;
    if let Err(what) = native.outcome.compare(&again.outcome) {
        return Err(format!("between two native runs: {what}"));
    }
    if native.outcome.code != Some(0) {
        return Err(format!(
            "natively it ends with {:?}: {}",
            native.outcome.code,
            String::from_utf8_lossy(&native.outcome.stderr)
        ));
    }
    let mut line = format!("same, native {:.2} s", native.seconds);
    for (n, (way, prefix)) in ways.iter().enumerate() {
        let seen = run_once(&text, prefix)?;
        let outcome = |run: &Run| (run.outcome.code, run.outcome.signal, run.outcome.timed_out);
        if outcome(&native) != outcome(&seen) {
            return Err(format!(
                "{way}: native {:?}, here {:?} (code, signal, timed out)\n{}",
                outcome(&native),
                outcome(&seen),
                String::from_utf8_lossy(&seen.outcome.stderr)
            ));
        }
        let stdout = |run: &Run| run.outcome.stdout.clone();
        if let Some(what) = difference("output", &stdout(&native), &stdout(&seen)) {
            return Err(format!("{way}: {what}"));
        }
        line += &format!(", {way} {:.2} s", seen.seconds);
        if n == ways.len() - 1 && prefix.contains(" record ") {
            line += &summary(bin, &seen)?;
        }
    }
    Ok(line)
}

struct Run {
    outcome: Outcome,
    seconds: f64,
    scratch: Scratch,
}

/// Runs the script where `t` puts `prefix` before a command.
fn run_once(text: &str, prefix: &str) -> Result<Run, String> {
    let failed = |e: std::io::Error| e.to_string();
    let scratch = Scratch::new().map_err(failed)?;
    // The same path each time, as programs put it into what they write.
    let work = cache_dir().join("real/work");
    let cache = cache_dir().join("real/cache");
    if work.exists() {
        fs::remove_dir_all(&work).map_err(failed)?;
    }
    for dir in [&work, &cache, &scratch.path("data"), &scratch.path("bin")] {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    let t = scratch.path("bin/t");
    fs::write(&t, format!("#!/bin/sh\nexec {prefix} \"$@\"\n")).map_err(failed)?;
    fs::write(scratch.path("script"), format!("{PREAMBLE}{text}")).map_err(failed)?;
    for path in [
        &t,
        scratch.dir(),
        &scratch.path("bin"),
        &scratch.path("data"),
    ] {
        // Also for scripts that change the user.
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    let mut job = Job::new(["bash".into(), scratch.path("script")], &work);
    let mut path = OsString::from(scratch.path("bin"));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let home = std::env::var("HOME").unwrap_or_default();
    let corpus =
        std::env::var("TROMMEL_CORPUS").unwrap_or_else(|_| format!("{home}/.cache/trommel-corpus"));
    for (key, value) in [
        ("PATH", path),
        ("CACHE", cache.into()),
        ("DATA", scratch.path("data").into()),
        ("CORPUS", corpus.into()),
        ("PERL_HASH_SEED", "0".into()),
        ("PYTHONHASHSEED", "0".into()),
        ("LC_ALL", "C".into()),
    ] {
        job.env.push((key.into(), value));
    }
    let started = Instant::now();
    let outcome = job.native(LIMIT).map_err(failed)?;
    Ok(Run {
        outcome,
        seconds: started.elapsed().as_secs_f64(),
        scratch,
    })
}

/// Summary of the profiles: their number, and why observation ended early.
fn summary(bin: &Path, run: &Run) -> Result<String, String> {
    let files = fs::read_dir(run.scratch.path("data")).map_err(|e| e.to_string())?;
    let (mut profiles, mut reasons) = (0, Vec::<String>::new());
    for file in files.flatten() {
        let done = Command::new(bin)
            .args(["report", "--json"])
            .arg(file.path())
            .output()
            .map_err(|e| e.to_string())?;
        if !done.status.success() {
            let words = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(format!("a profile cannot be read: {words}"));
        }
        profiles += 1;
        let json = String::from_utf8_lossy(&done.stdout);
        for part in json.split("\"let_go\":").skip(1) {
            let list = part.split(']').next().unwrap_or_default();
            let words = list.split('"').skip(1).step_by(2).map(str::to_owned);
            reasons.extend(words);
        }
    }
    reasons.sort();
    reasons.dedup();
    let mut text = format!("; {profiles} profiles");
    for reason in reasons {
        text += &format!("\n{:<24}   not observed: {reason}", "");
    }
    Ok(text)
}
