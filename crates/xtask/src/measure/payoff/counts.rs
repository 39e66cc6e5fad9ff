//! Exact counts of a run by callgrind: what a processor would do, whatever else the machine does.
//!
//! Taken branches are taken conditional ones, jumps and calls of the file that is optimised. Callgrind files a jump into
//! another symbol, such as `f.cold`, as a call, so calls and jumps count alike. Returns are not counted.

use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::output;

/// Callgrind's name of code that it finds in no file. BOLT leaves code that it does not move in a segment of its own, of which callgrind knows nothing.
const UNKNOWN: &str = "???";

/// Counts of one run, in one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) taken: u64,
    pub(super) instructions: u64,
    /// Misses of the first instruction cache that callgrind models.
    pub(super) misses: u64,
}

/// Counts of a program's run in the file of this path.
pub(super) fn of(program: &Path, args: &[String], file: &Path) -> Result<Counts, String> {
    let out = program.with_extension("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--collect-jumps=yes", "--cache-sim=yes"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    output(command.arg(program).args(args))?;
    let text = std::fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let counts = parsed(&text, &file.to_string_lossy())?;
    match counts.instructions {
        0 => Err(format!("{}: callgrind saw nothing of it", file.display())),
        _ => Ok(counts),
    }
}

/// The counts of an object file in callgrind's output.
fn parsed(text: &str, object: &str) -> Result<Counts, String> {
    let mut counts = Counts::default();
    let (mut instructions, mut misses) = (None, None);
    let mut names: Vec<(&str, bool)> = Vec::new();
    let mut inside = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(events) = line.strip_prefix("events: ") {
            let at = |name| events.split(' ').position(|event| event == name);
            (instructions, misses) = (at("Ir"), at("I1mr"));
        } else if let Some(of) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            // A name is written once, with the number that stands for it from then on.
            let (number, name) = of.split_once(' ').unwrap_or((of, ""));
            if !name.is_empty() {
                names.push((number, name == object || name == UNKNOWN));
            }
            if line.starts_with("ob=") {
                inside = names.iter().any(|(n, wanted)| *n == number && *wanted);
            }
        } else if let Some((kind, rest)) = line.split_once('=') {
            let times = match kind {
                "calls" | "jump" => rest.split(' ').next(),
                "jcnd" => rest.split('/').next(),
                _ => continue,
            };
            let times: u64 = (times.and_then(|t| t.parse().ok()))
                .ok_or_else(|| format!("callgrind wrote {line}"))?;
            counts.taken += if inside { times } else { 0 };
            // Its position, and of a call the inclusive cost.
            lines.next();
        } else if inside && line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            let costs: Vec<&str> = line.split(' ').skip(1).collect();
            let cost = |at: Option<usize>| costs.get(at?)?.parse().ok();
            counts.instructions += cost(instructions).unwrap_or(0_u64);
            counts.misses += cost(misses).unwrap_or(0_u64);
        }
    }
    instructions
        .and(misses)
        .map(|_| counts)
        .ok_or_else(|| "callgrind wrote no events".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_and_branches_of_one_file_are_added_up() {
        let text = "version: 1\nevents: Ir Dr Dw I1mr\n\nob=(1) /app\nfl=(1) a.c\nfn=(1) main\n16 5 1 0 2\n+1 7\n\
                    jcnd=3/10 +2\n18\njump=4 +9\n*\ncob=(2) /lib\ncfn=(2) f\ncalls=2 0\n20 1000 0 0 9\n\n\
                    ob=(3) ???\nfn=(3)\n0 10\nob=(2)\nfn=(2)\n0 100 1 1 1\ncob=(1)\ncfn=(1)\ncalls=8 0\n0 5\nob=(1)\nfn=(1)\n* 1\n";
        let wanted = Counts {
            taken: 3 + 4 + 2,
            instructions: 5 + 7 + 10 + 1,
            misses: 2,
        };
        assert_eq!(parsed(text, "/app"), Ok(wanted));
        assert!(parsed("ob=(1) /app\n", "/app").is_err());
    }
}
