//! rr's test programs: how they end, and what they print.
//!
//! `--from` names a source tree of rr (its test programs are in `src/test`). Each is built once, as rr's own build does, and runs in
//! a directory of its own. What rr would record of it is no matter here. A name is a program (`signal_frame`, `x86/cpuid`).
//!
//! Programs print numbers of processes, addresses and times, from several threads. So numbers are masked, and lines are sorted. What two
//! native runs do not agree in is not compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use trommel_conformance::exec::{Job, Outcome, Scratch, cache_dir};

use super::{Verdict, Way, all, compare, compile, prefix, shell};
use crate::common::trommel;

/// Longest time of a native run. Some programs wait for a tracer.
const LIMIT: Duration = Duration::from_secs(8);
/// The same under trommel.
const LONGER: Duration = Duration::from_secs(120);
/// Programs that change the whole machine, or start processes for ever where they have no arguments.
const SKIPPED: [&str; 3] = ["mmap_shared_extern", "reboot", "sysctl"];
/// Call by which programs end who has started them: here that is this command.
const KILLS_PARENT: &str = "kill(getppid()";

struct Test {
    /// `.`, or the directory for this processor.
    group: &'static str,
    name: String,
}

impl Test {
    fn label(&self) -> String {
        match self.group {
            "." => self.name.clone(),
            group => format!("{group}/{}", self.name),
        }
    }
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let tree = from.ok_or("--from DIR: a source tree of rr")?;
    let sources = tree.join("src/test");
    let mut tests = Vec::new();
    for group in [".", "x86"] {
        let dir = sources.join(group);
        let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let stem = path.file_stem().unwrap_or_default();
            let name = stem.to_string_lossy().into_owned();
            let test = Test { group, name };
            let text = fs::read(&path).unwrap_or_default();
            let kills = String::from_utf8_lossy(&text).contains(KILLS_PARENT);
            let wanted = match names.is_empty() {
                true => !kills && !SKIPPED.contains(&test.name.as_str()),
                false => names.contains(&test.label()),
            };
            if path.extension().is_some_and(|e| e == "c") && wanted {
                tests.push(test);
            }
        }
    }
    tests.sort_by_key(Test::label);
    let built = cache_dir().join("conform/rr");
    generate(&tree, &built)?;
    let group = |test: &Test| match test.group {
        "." => "programs".to_owned(),
        group => format!("of {group}"),
    };
    let label = |test: &Test| (group(test), test.label());
    all(&tests, 2, label, |test| {
        let program = build(test, &sources, &built)?;
        judge(bin, ways, &program)
    })
}

/// Makes the headers that rr's build makes, unless they are there.
fn generate(tree: &Path, built: &Path) -> Result<(), String> {
    shell(
        r#"mkdir -p "$2" && cd "$2" && for f in SyscallEnumsForTestsX64 SyscallEnumsX64; do
           [ -e $f.generated ] || python3 "$1/src/generate_syscalls.py" $f.generated; done"#,
        &[tree.as_os_str(), built.as_os_str()],
    )
    .map(drop)
}

/// Builds a program unless it is there.
fn build(test: &Test, sources: &Path, built: &Path) -> Result<PathBuf, String> {
    let out = built.join(test.label().replace('/', "-"));
    if out.exists() {
        return Ok(out);
    }
    let tree = sources.join("../..");
    compile(
        |gcc| {
            gcc.args(["-O0", "-g", "-std=gnu11", "-pthread"])
                .args(["-msse2", "-D__MMX__", "-D__SSE__", "-D__SSE2__"])
                .arg("-D_FILE_OFFSET_BITS=64");
            for dir in ["src/test", "include", "src", "src/preload"] {
                gcc.arg("-I").arg(tree.join(dir));
            }
            gcc.arg("-I")
                .arg(built)
                .arg(sources.join(test.group).join(format!("{}.c", test.name)))
                .args(["-lrt", "-ldl", "-lutil", "-lm"]);
        },
        &out,
    )?;
    Ok(out)
}

/// A run: how it ended, and what it printed, masked.
struct Seen {
    outcome: Outcome,
    printed: [String; 2],
}

fn judge(bin: &Path, ways: &[Way], program: &Path) -> Result<Verdict, String> {
    let natives = [once(bin, program, None)?, once(bin, program, None)?];
    if end(&natives[0]) != end(&natives[1]) {
        return Ok(Verdict::Unsteady("natively it ends differently".to_owned()));
    }
    let is_steady = [0, 1].map(|n| natives[0].printed[n] == natives[1].printed[n]);
    compare(
        ways,
        |way| once(bin, program, way),
        |native, seen| {
            let same = |n: usize| !is_steady[n] || native.printed[n] == seen.printed[n];
            let is_same = end(native) == end(seen) && same(0) && same(1);
            (!is_same).then(|| {
                let said = String::from_utf8_lossy(&seen.outcome.stderr);
                let last: Vec<&str> = said.lines().rev().take(4).collect();
                let last: Vec<&str> = last.into_iter().rev().collect();
                format!(
                    "code, signal, out of time: natively {:?}, here {:?}; printed {} {}\n    {}",
                    end(native),
                    end(seen),
                    same(0),
                    same(1),
                    last.join("\n    ")
                )
            })
        },
    )
}

fn end(seen: &Seen) -> (Option<i32>, Option<i32>, bool) {
    let outcome = &seen.outcome;
    (outcome.code, outcome.signal, outcome.timed_out)
}

fn once(bin: &Path, program: &Path, way: Option<&Way>) -> Result<Seen, String> {
    let failed = |e: std::io::Error| e.to_string();
    let scratch = Scratch::new().map_err(failed)?;
    let work = scratch.path("work");
    fs::create_dir(&work).map_err(failed)?;
    let copy = work.join(program.file_name().unwrap_or_default());
    fs::copy(program, &copy).map_err(failed)?;
    let mut argv = prefix(bin, way, &scratch.path("data"));
    argv.push(copy.into());
    let job = Job::new(argv, &work);
    let limit = if way.is_some() { LONGER } else { LIMIT };
    let outcome = job.native(limit).map_err(failed);
    end_those_left(&work);
    let outcome = outcome?;
    if outcome.timed_out && way.is_none() {
        return Err(format!("natively it takes more than {LIMIT:?}"));
    }
    let printed = [&outcome.stdout, &outcome.stderr].map(|bytes| masked(bytes, &work));
    Ok(Seen { outcome, printed })
}

/// Ends the processes that execute a file of a directory. Some programs leave daemons that compute for ever.
fn end_those_left(work: &Path) {
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let program = fs::read_link(process.path().join("exe"));
        if program.is_ok_and(|program| program.starts_with(work)) {
            let _ = Command::new("kill")
                .arg("-KILL")
                .arg(process.file_name())
                .output();
        }
    }
}

/// Lines in order of the alphabet, with numbers of several digits masked, and without those of trommel.
fn masked(bytes: &[u8], work: &Path) -> String {
    let text = String::from_utf8_lossy(bytes).replace(&*work.to_string_lossy(), "DIR");
    let mut lines: Vec<String> = (text.lines())
        .filter(|line| !line.starts_with("trommel:"))
        .map(mask)
        .collect();
    lines.sort();
    lines.join("\n")
}

fn mask(line: &str) -> String {
    let is_part = |c: char| c.is_ascii_hexdigit() || c == 'x';
    let mut masked = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(start);
        let is_hex = number.starts_with("0x");
        let is_in = |c: char| {
            if is_hex {
                is_part(c)
            } else {
                c.is_ascii_digit()
            }
        };
        let len = number.find(|c| !is_in(c)).unwrap_or(number.len());
        masked.push_str(before);
        masked.push_str(if len > 1 { "N" } else { &number[..len] });
        rest = &number[len..];
    }
    masked + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_several_digits_are_masked() {
        assert_eq!(mask("pid 1234 has 3 at 0x7fff12ab."), "pid N has 3 at N.");
        assert_eq!(mask("12"), "N");
        assert_eq!(mask("none"), "none");
        let bytes = b"b 77\ntrommel: words\n/tmp/w/file\na";
        assert_eq!(masked(bytes, Path::new("/tmp/w")), "DIR/file\na\nb N");
    }
}
