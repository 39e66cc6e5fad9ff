//! Formats for people's tools.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{output, required};
use trommel_conformance::not_tested::not_tested;

use super::{Test, run, text, tool};
use trommel_conformance::recorded::{Recorded, source};

pub(super) const ALL: &[(&str, Test)] = &[
    ("callgrind: self instructions equal valgrind's", callgrind),
    (
        "callgrind: what is called late belongs to its caller",
        late_calls,
    ),
    ("cachegrind: the sum is callgrind's", cachegrind),
    ("pprof: go tool pprof has the sum", pprof),
    ("lcov: executed lines equal gcov's", lcov),
    ("drcov: blocks are those of csv", drcov),
    ("csv: instructions add up", csv),
    ("csv: the query that is printed runs in DuckDB", duckdb),
];

fn built() -> Result<Recorded, String> {
    Recorded::new("gcc", &["-O2", "-g"])
}

/// Functions of the program with their numbers, as `callgrind_annotate` prints them.
fn annotated(file: &Path) -> Result<(u64, BTreeMap<String, u64>), String> {
    let mut command = Command::new("callgrind_annotate");
    let printed = output(command.args(["--threshold=100", "--auto=no"]).arg(file))?;
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let mut total = 0;
    let mut functions = BTreeMap::new();
    for line in printed.lines() {
        let Some(first) = line.split_whitespace().next().and_then(number) else {
            continue;
        };
        if line.contains("PROGRAM TOTALS") {
            total = first;
        }
        let name = line.split("export_calls.c:").nth(1);
        if let Some(name) = name.and_then(|n| n.split_whitespace().next()) {
            // A function of recursion is two to valgrind.
            let name = name.split('\'').next().unwrap_or(name);
            *functions.entry(name.to_owned()).or_default() += first;
        }
    }
    Ok((total, functions))
}

fn callgrind() -> Result<(), String> {
    required("valgrind")?;
    let recorded = built()?;
    let ours = recorded.export("callgrind", &[])?;
    let theirs = recorded.scratch.path("valgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--tool=callgrind"]);
    valgrind
        .arg(format!("--callgrind-out-file={}", text(&theirs)))
        .arg(&recorded.program);
    output(&mut valgrind)?;
    let (total, ours) = annotated(&ours)?;
    let (_, theirs) = annotated(&theirs)?;
    for name in ["mix", "kind", "work", "fib"] {
        let (a, b) = (ours.get(name), theirs.get(name));
        if a.is_none() || a != b {
            return Err(format!(
                "{name}: {a:?} here, {b:?} by valgrind; of {ours:?} and {theirs:?}"
            ));
        }
    }
    let sum = csv_sum(&recorded)?;
    match total == sum {
        true => Ok(()),
        false => Err(format!("the total is {total}, the sum of blocks {sum}")),
    }
}

/// Instructions of a function with what it called, as `callgrind_annotate` prints them.
fn inclusive(file: &Path, name: &str) -> Result<u64, String> {
    let mut command = Command::new("callgrind_annotate");
    let options = ["--threshold=100", "--auto=no", "--inclusive=yes"];
    let printed = output(command.args(options).arg(file))?;
    let of = format!("/export_calls.c:{name}");
    let is = |line: &&str| line.split_whitespace().any(|word| word.ends_with(&of));
    let line = printed.lines().find(is).ok_or_else(|| printed.clone())?;
    let first = line.split_whitespace().next().unwrap_or_default();
    first.replace(',', "").parse().map_err(|_| line.to_owned())
}

/// A program whose calls of libraries are resolved when they are first made: all of these go through one function of the loader.
fn late_calls() -> Result<(), String> {
    required("valgrind")?;
    let recorded = Recorded::new("gcc", &["-O2", "-g", "-Wl,-z,lazy"])?;
    let theirs = recorded.scratch.path("valgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--tool=callgrind"]);
    valgrind.arg(format!("--callgrind-out-file={}", text(&theirs)));
    output(valgrind.arg(&recorded.program))?;
    let ours = inclusive(&recorded.export("callgrind", &[])?, "main")?;
    let theirs = inclusive(&theirs, "main")?;
    match ours.abs_diff(theirs) * 50 < theirs {
        true => Ok(()),
        false => Err(format!("main with all: {ours} here, {theirs} by valgrind")),
    }
}

fn cachegrind() -> Result<(), String> {
    required("valgrind")?;
    let recorded = built()?;
    let printed = run(
        Path::new("cg_annotate"),
        &[&text(&recorded.export("cachegrind", &[])?)],
        recorded.scratch.dir(),
    )?;
    let sum = csv_sum(&recorded)?;
    let total = printed
        .lines()
        .find(|line| line.contains("PROGRAM TOTALS"))
        .unwrap_or_default();
    match total.replace(',', "").trim().starts_with(&sum.to_string()) {
        true => Ok(()),
        false => Err(format!("{total} is not {sum}\n{printed}")),
    }
}

fn pprof() -> Result<(), String> {
    let Some(go) = tool(&["go"], "pprof") else {
        return Ok(());
    };
    let recorded = built()?;
    let file = text(&recorded.export("pprof", &[])?);
    let printed = run(
        &go,
        &[
            "tool",
            "pprof",
            "-top",
            "-nodecount=500",
            "-nodefraction=0",
            &file,
        ],
        recorded.scratch.dir(),
    )?;
    let sum = csv_sum(&recorded)?;
    if !printed.contains(&format!("of {sum} total")) {
        return Err(format!("no sum of {sum}:\n{printed}"));
    }
    // An inlined function is there by its name.
    for name in ["small", "mix", "fib"] {
        if !printed
            .lines()
            .any(|line| line.split_whitespace().nth(5) == Some(name))
        {
            return Err(format!("{name} is missing:\n{printed}"));
        }
    }
    let raw = run(
        &go,
        &["tool", "pprof", "-raw", &file],
        recorded.scratch.dir(),
    )?;
    match raw.contains("Mappings") && raw.contains("/app") {
        true => Ok(()),
        false => Err(format!("no mapping of the program:\n{raw}")),
    }
}

/// Lines of the program's source with whether each was executed, of a tracefile.
fn lines(info: &str) -> BTreeMap<u32, bool> {
    let of_source = info.split("SF:").find(|part| {
        part.lines()
            .next()
            .is_some_and(|f| f.ends_with("export_calls.c"))
    });
    let all = of_source
        .into_iter()
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("DA:"));
    let pair = |line: &str| {
        let (number, count) = line.split_once(',')?;
        Some((number.parse().ok()?, count != "0"))
    };
    all.filter_map(pair).collect()
}

fn lcov() -> Result<(), String> {
    let recorded = Recorded::new("gcc", &["-O0", "-g"])?;
    let info = recorded.export("lcov", &[])?;
    let ours = lines(&fs::read_to_string(&info).map_err(|e| e.to_string())?);
    let dir = recorded.scratch.path("gcov");
    fs::create_dir(&dir).map_err(|e| e.to_string())?;
    let mut build = Command::new("gcc");
    build
        .args(["-O0", "--coverage", "-o", "app"])
        .arg(source())
        .current_dir(&dir);
    output(&mut build)?;
    output(Command::new(dir.join("app")).current_dir(&dir))?;
    output(
        Command::new("gcov")
            .args(["-o", ".", "app-export_calls.gcda"])
            .current_dir(&dir),
    )?;
    let listing = fs::read_to_string(dir.join("export_calls.c.gcov")).map_err(|e| e.to_string())?;
    let mut theirs = BTreeMap::new();
    for line in listing.lines() {
        let mut parts = line.split(':').map(str::trim);
        let (Some(count), Some(number)) = (parts.next(), parts.next()) else {
            continue;
        };
        if let Ok(number) = number.parse::<u32>()
            && number > 0
            && count != "-"
        {
            theirs.insert(number, !count.starts_with('#'));
        }
    }
    same_lines(&ours, &theirs)?;
    if let Some(lcov) = tool(&["lcov"], "lcov") {
        let printed = run(&lcov, &["--summary", &text(&info)], recorded.scratch.dir())?;
        let wanted = format!("of {} lines", ours.len());
        if !printed.contains(&wanted) {
            return Err(format!("no {wanted}:\n{printed}"));
        }
    }
    Ok(())
}

/// Requires that lines which both know were executed or not alike. One alone may know braces, labels and heads of functions: a compiler
/// that instruments gives these other lines than it gives the instructions.
fn same_lines(ours: &BTreeMap<u32, bool>, theirs: &BTreeMap<u32, bool>) -> Result<(), String> {
    let source = fs::read_to_string(source()).map_err(|e| e.to_string())?;
    let text: Vec<&str> = source.lines().map(str::trim).collect();
    let is_frame = |line: u32| {
        let text = text.get(line as usize - 1).copied().unwrap_or_default();
        let head =
            text.ends_with(')') && (text.contains("static ") || text.starts_with("int main"));
        matches!(text, "{" | "}") || text.ends_with(':') || head
    };
    let mut common = 0;
    for line in ours.keys().chain(theirs.keys()) {
        match (ours.get(line), theirs.get(line)) {
            (Some(a), Some(b)) if a == b => common += 1,
            (Some(_), Some(_)) => {
                return Err(format!("line {line}: {ours:?}\nby gcov: {theirs:?}"));
            }
            _ if is_frame(*line) => {}
            _ => {
                return Err(format!(
                    "line {line} is known to one: {ours:?}\nby gcov: {theirs:?}"
                ));
            }
        }
    }
    match common > 40 {
        true => Ok(()),
        false => Err(format!("{common} lines in common")),
    }
}

/// Rows of the table of one kind.
fn rows(recorded: &Recorded, kind: &str) -> Result<Vec<Vec<String>>, String> {
    let out = fs::read_to_string(recorded.export("csv", &[])?).map_err(|e| e.to_string())?;
    let of_kind = out
        .lines()
        .filter(|line| line.starts_with(&format!("{kind},")));
    // Fields of this program need no quotes.
    Ok(of_kind
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect())
}

fn csv_sum(recorded: &Recorded) -> Result<u64, String> {
    let rows = rows(recorded, "block")?;
    Ok(rows
        .iter()
        .filter_map(|row| row.last()?.parse::<u64>().ok())
        .sum())
}

fn csv() -> Result<(), String> {
    let recorded = built()?;
    required("python3")?;
    let file = recorded.export("csv", &[])?;
    let script = "import csv,sys\nr=list(csv.DictReader(open(sys.argv[1])))\n\
        print(sum(int(x['instructions']) for x in r if x['kind']=='block'))\n\
        print(sum(int(x['count']) for x in r if x['kind']=='call' and x['to_function']=='fib'))\n";
    let printed = run(
        Path::new("python3"),
        &["-c", script, &text(&file)],
        recorded.scratch.dir(),
    )?;
    let numbers: Vec<u64> = printed
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    let sum = csv_sum(&recorded)?;
    // gcc leaves half of the recursive calls, as it makes a loop of the other half.
    match numbers[..] {
        [total, calls] if total == sum && calls > 100 => Ok(()),
        _ => Err(format!("{numbers:?}, and blocks have {sum}")),
    }
}

/// The printed command's query, by DuckDB's module for Python: functions with their instructions.
fn duckdb() -> Result<(), String> {
    let mut there = Command::new("python3");
    let there = there.args(["-c", "import duckdb"]).output();
    if !there.is_ok_and(|done| done.status.success()) {
        not_tested("exports csv: python3's module duckdb is not installed");
        return Ok(());
    }
    let recorded = built()?;
    let (_, said) = recorded.exported("csv", &[])?;
    let query = said.split_once("duckdb -c \"").ok_or(&*said)?.1;
    let (query, file) = query.split_once("\" < ").ok_or(&*said)?;
    let script = "import duckdb,sys\nfor f, n in duckdb.sql(sys.argv[1]).fetchall(): print(f, n)\n";
    let mut python = Command::new("python3");
    python.args(["-c", script, query]);
    let file = fs::File::open(file.trim_end()).map_err(|e| e.to_string())?;
    let printed = output(python.stdin(file))?;
    let mut theirs = BTreeMap::new();
    for line in printed.lines() {
        let (function, n) = line.rsplit_once(' ').ok_or(line)?;
        let n: u64 = n.parse().map_err(|_| line)?;
        theirs.insert(function.replace("None", ""), n);
    }
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for row in rows(&recorded, "block")? {
        let n = row.last().and_then(|n| n.parse::<u64>().ok());
        *ours.entry(row[3].clone()).or_default() += n.ok_or("no number")?;
    }
    match ours == theirs {
        true => Ok(()),
        false => Err(format!("{theirs:?} by DuckDB, {ours:?} here")),
    }
}

fn drcov() -> Result<(), String> {
    let recorded = built()?;
    let bytes =
        fs::read(recorded.export("drcov", &["--module", "app"])?).map_err(|e| e.to_string())?;
    let head = String::from_utf8_lossy(&bytes);
    let base = head
        .lines()
        .find(|line| line.starts_with("0, "))
        .ok_or("no module")?;
    if !base.ends_with("/app") {
        return Err(format!("another module: {base}"));
    }
    let table = b"BB Table: ";
    let at = bytes
        .windows(table.len())
        .position(|w| w == table)
        .ok_or("no table")?;
    let end = at
        + bytes[at..]
            .iter()
            .position(|c| *c == b'\n')
            .ok_or("no end")?
        + 1;
    let blocks: BTreeSet<u64> = (bytes[end..].chunks_exact(8))
        .map(|b| u64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]])))
        .collect();
    let rows = rows(&recorded, "block")?;
    let of_app = rows.iter().filter(|row| row[1].ends_with("/app"));
    let wanted: BTreeSet<u64> = of_app
        .filter_map(|row| u64::from_str_radix(row[2].trim_start_matches("0x"), 16).ok())
        .collect();
    // The program is position-independent: its first byte is at 0.
    match blocks == wanted && bytes[end..].len() == blocks.len() * 8 {
        true => Ok(()),
        false => Err(format!("{blocks:x?} and {wanted:x?}")),
    }
}
