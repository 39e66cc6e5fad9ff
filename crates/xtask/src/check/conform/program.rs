//! Programs of a suite that know no results of their own: how they end, and what they print.
//!
//! Each runs in a directory of its own. Programs print numbers of processes, addresses and times, from several threads. So numbers are
//! masked, and lines are sorted. What two native runs do not agree in is not compared.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use trommel_conformance::exec::{Job, Outcome, Scratch};

use super::{Verdict, Way, compare, prefix};

/// A program as it is run.
pub(super) struct Program {
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
    /// Longest time of a native run. Some programs wait for what never comes here.
    pub limit: Duration,
}

/// Longest time under trommel, in that of a native run.
const LONGER: u32 = 15;

/// A run: how it ended, and what it printed, masked.
struct Seen {
    outcome: Outcome,
    printed: [String; 2],
}

/// Compares a program.
pub(super) fn judge(bin: &Path, ways: &[Way], program: &Program) -> Result<Verdict, String> {
    let once = |way: Option<&Way>| once(bin, program, way);
    let natives = [once(None)?, once(None)?];
    if end(&natives[0]) != end(&natives[1]) {
        return Ok(Verdict::Unsteady("natively it ends differently".to_owned()));
    }
    let is_steady = [0, 1].map(|n| natives[0].printed[n] == natives[1].printed[n]);
    compare(ways, once, |native, seen| {
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
    })
}

fn end(seen: &Seen) -> (Option<i32>, Option<i32>, bool) {
    let outcome = &seen.outcome;
    (outcome.code, outcome.signal, outcome.timed_out)
}

fn once(bin: &Path, program: &Program, way: Option<&Way>) -> Result<Seen, String> {
    let failed = |e: std::io::Error| e.to_string();
    let scratch = Scratch::new().map_err(failed)?;
    let work = scratch.path("work");
    fs::create_dir(&work).map_err(failed)?;
    let copy = work.join(program.path.file_name().unwrap_or_default());
    fs::copy(&program.path, &copy).map_err(failed)?;
    let mut argv = prefix(bin, way, &scratch.path("data"));
    argv.push(copy.into());
    argv.extend_from_slice(&program.arguments);
    let job = Job::new(argv, &work);
    let native = program.limit;
    let limit = way.map_or(native, |_| native * LONGER);
    let outcome = job.native(limit).map_err(failed);
    end_those_left(&work);
    let outcome = outcome?;
    if outcome.timed_out && way.is_none() {
        return Err(format!("natively it takes more than {native:?}"));
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
