//! FEX's tests of instructions: the state of the processor and of memory at the end of each.
//!
//! `--from` names a checkout of FEX. Its tests are in `unittests/ASM`: files for nasm, each with the memory that it needs and the
//! registers that it expects, in JSON. Each is assembled once. `fex.c` beside this file executes them, a process for each, until they
//! halt. A name is a path without its ending (`VEX/vaddps`). Tests of 32-bit code are left out: trommel has only 64-bit programs.
//!
//! What is compared is all that the harness prints: registers of any kind, flags, and sums of memory. Lines in which
//! two native runs do not agree hold times, addresses and random numbers, and are not compared.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use trommel_conformance::exec::{Job, Scratch, cache_dir, workspace};

use super::{Verdict, Way, all, compare, compile, prefix};
use crate::common::trommel;

/// Tests that one run of the harness executes at first. A test that differs is repeated by itself.
const TOGETHER: usize = 100;
/// The harness ends a test after 20 seconds.
const LIMIT: Duration = Duration::from_secs(600);

struct Test {
    source: PathBuf,
    /// Its path below the tests' directory, without its ending.
    name: String,
}

impl Test {
    /// The same as a name of a file.
    fn file(&self) -> String {
        self.name.replace('/', "-")
    }

    fn group(&self) -> &'static str {
        match self.name.split('/').next().unwrap_or_default() {
            "VEX" => "VEX",
            "3DNow" | "MMX" | "X87" | "X87_F64" => "x87, MMX, 3DNow!",
            "Primary" | "PrimaryGroup" => "opcodes of one byte",
            "H0F38" | "H0F3A" | "OpSize" | "REP" | "REPNE" => "longer opcodes",
            "SSE4a" | "Secondary" | "SecondaryModRM" | "TwoByte" => "longer opcodes",
            "SSELanePreservation" => "upper lanes",
            _ => "other",
        }
    }
}

/// Lines that the tests of a run printed, by test.
type Seen = BTreeMap<String, Vec<String>>;

struct Runner {
    bin: &'static Path,
    /// The harness and the assembled tests.
    built: PathBuf,
    /// Results of the first run in a way that are not taken yet.
    first: Mutex<BTreeMap<String, Seen>>,
    /// Tests that end natively as the suite expects.
    expected: AtomicUsize,
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let tree = from.ok_or("--from DIR: a checkout of FEX")?;
    let sources = tree.join("unittests/ASM");
    let mut tests = Vec::new();
    list(&sources, &sources, &mut tests)?;
    tests.retain(|test| names.is_empty() || names.contains(&test.name));
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    let built = cache_dir().join("conform/fex");
    fs::create_dir_all(&built).map_err(|e| format!("{}: {e}", built.display()))?;
    let harness = workspace().join("crates/xtask/src/check/conform/fex.c");
    let options = |gcc: &mut Command| {
        gcc.arg("-O1").arg(harness);
    };
    compile(options, &built.join("run"))?;
    tests.retain(|test| match assemble(test, &sources, &built) {
        Ok(()) => true,
        Err(why) => {
            println!("{} cannot be assembled: {why}", test.name);
            false
        }
    });
    let runner = Runner {
        bin: trommel(),
        built,
        first: Mutex::default(),
        expected: AtomicUsize::new(0),
    };
    for way in std::iter::once(None).chain(ways.iter().map(Some)) {
        runner.first_of(&tests, way)?;
    }
    let label = |test: &Test| (test.group().to_owned(), test.name.clone());
    let verdict = all(&tests, 2, label, |test| runner.judge(ways, test));
    let expected = runner.expected.load(Ordering::Relaxed);
    println!(
        "{expected} of {} end natively as the suite expects",
        tests.len()
    );
    verdict
}

/// Adds the tests of a directory and of those in it.
fn list(root: &Path, dir: &Path, tests: &mut Vec<Test>) -> Result<(), String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for source in entries.flatten().map(|entry| entry.path()) {
        if source.is_dir() {
            list(root, &source, tests)?;
        } else if source.extension().is_some_and(|e| e == "asm") {
            let below = source.strip_prefix(root).unwrap_or(&source);
            let name = below.with_extension("").to_string_lossy().into_owned();
            tests.push(Test { source, name });
        }
    }
    Ok(())
}

/// Reads the configuration in a test.
fn config(source: &Path) -> Result<Value, String> {
    let text = fs::read(source).map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&text);
    let part = text
        .split_once("%ifdef CONFIG")
        .and_then(|(_, rest)| rest.split_once("%endif"));
    match part {
        Some((json, _)) => serde_json::from_str(json).map_err(|e| e.to_string()),
        None => Ok(Value::Null),
    }
}

/// Assembles a test, and writes down the memory that it needs, unless both are there.
fn assemble(test: &Test, sources: &Path, built: &Path) -> Result<(), String> {
    let code = built.join(test.file() + ".bin");
    if code.exists() {
        return Ok(());
    }
    let memory = memory(&config(&test.source)?)?;
    fs::write(built.join(test.file() + ".memory"), memory).map_err(|e| e.to_string())?;
    let part = built.join(test.file() + ".part");
    let done = Command::new("nasm")
        .args(["--before", "BITS 64", "-i"])
        .arg(sources.join("Includes/"))
        .arg(&test.source)
        .arg("-o")
        .arg(&part)
        .output()
        .map_err(|e| format!("nasm: {e}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned());
    }
    fs::rename(&part, &code).map_err(|e| e.to_string())
}

/// The memory that a test needs, as the harness reads it.
fn memory(config: &Value) -> Result<String, String> {
    let mut lines = String::new();
    for (at, size) in pairs(&config["MemoryRegions"]) {
        lines += &format!("{:x} {:x}\n", number(at)?, number(&text(size)?)?);
    }
    for (at, bytes) in pairs(&config["MemoryData"]) {
        let bytes = text(bytes)?;
        lines += &format!("{:x}:", number(at)?);
        for word in bytes.split(' ') {
            // A longer word has its last byte first.
            let digits = word.trim_start_matches("0x").as_bytes();
            for pair in digits.rchunks(2) {
                lines += &format!(" {}", String::from_utf8_lossy(pair));
            }
        }
        lines.push('\n');
    }
    Ok(lines)
}

fn pairs(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> Result<String, String> {
    let text = value.as_str().ok_or_else(|| format!("no text: {value}"))?;
    Ok(text.to_owned())
}

fn number(text: &str) -> Result<u64, String> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    }
    .map_err(|e| format!("{text}: {e}"))
}

impl Runner {
    /// Runs all tests in a way, many at a time, and keeps what they print.
    fn first_of(&self, tests: &[Test], way: Option<&Way>) -> Result<(), String> {
        let mut seen = Seen::new();
        let mut detached = 0;
        for tests in tests.chunks(TOGETHER) {
            detached += self.execute(tests, way, &mut seen)?;
        }
        if let Some(way) = way {
            println!("{way}: {detached} tests were detached");
        }
        let mut first = self.first.lock().unwrap_or_else(|e| e.into_inner());
        first.insert(key(way), seen);
        Ok(())
    }

    /// Runs tests in a way. Gives how many trommel said it detached.
    fn execute(&self, tests: &[Test], way: Option<&Way>, seen: &mut Seen) -> Result<usize, String> {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let mut argv: Vec<OsString> = prefix(self.bin, way, &scratch.path("data"));
        argv.extend([self.built.join("run").into(), self.built.clone().into()]);
        argv.extend(tests.iter().map(|test| test.file().into()));
        let outcome = Job::new(argv, &self.built)
            .native(LIMIT)
            .map_err(|e| e.to_string())?;
        let printed = String::from_utf8_lossy(&outcome.stdout);
        let mut name = String::new();
        for line in printed.lines() {
            match line.strip_prefix("== ") {
                Some(test) => name = test.to_owned(),
                None => seen.entry(name.clone()).or_default().push(line.to_owned()),
            }
        }
        let said = String::from_utf8_lossy(&outcome.stderr);
        let detached = |line: &&str| line.starts_with("trommel: not observed from here on");
        Ok(said.lines().filter(detached).count())
    }

    /// The next result of a test in a way: the first is there.
    fn once(&self, test: &Test, way: Option<&Way>) -> Result<Vec<String>, String> {
        let file = test.file();
        let mut first = self.first.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(lines) = first.get_mut(&key(way)).and_then(|seen| seen.remove(&file)) {
            return Ok(lines);
        }
        drop(first);
        let mut seen = Seen::new();
        self.execute(std::slice::from_ref(test), way, &mut seen)?;
        Ok(seen.remove(&file).unwrap_or_default())
    }

    fn judge(&self, ways: &[Way], test: &Test) -> Result<Verdict, String> {
        let natives = [self.once(test, None)?, self.once(test, None)?];
        if natives[0].len() < 2 || natives[0].len() != natives[1].len() {
            return Err(format!("natively it prints {}", natives[0].join(", ")));
        }
        if is_expected(&config(&test.source)?, &natives[0]) {
            self.expected.fetch_add(1, Ordering::Relaxed);
        }
        let is_steady =
            |n: usize, line: &str| natives[1][n].as_str() == line && natives[0][n] == line;
        compare(
            ways,
            |way| self.once(test, way),
            |native, seen| {
                let differs = |(n, line): (usize, &String)| {
                    let here = seen.get(n).map_or("nothing", String::as_str);
                    (is_steady(n, line) && here != line.as_str())
                        .then(|| format!("natively {line}, here {here}"))
                };
                let all: Vec<_> = native.iter().enumerate().filter_map(differs).collect();
                (!all.is_empty() || seen.len() != native.len()).then(|| all.join("; "))
            },
        )
    }
}

fn key(way: Option<&Way>) -> String {
    way.map(Way::to_string).unwrap_or_default()
}

/// Says if registers hold what a test expects of them.
fn is_expected(config: &Value, lines: &[String]) -> bool {
    let is_same = |(register, value): (&String, &Value)| {
        let register = register.to_uppercase();
        let starts = |line: &&String| line.split(' ').next() == Some(register.as_str());
        let line = lines.iter().find(starts);
        let mut words = line.into_iter().flat_map(|line| line.split(' ').skip(1));
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        values.iter().all(|value| {
            let wanted = value.as_str().and_then(|text| number(text).ok());
            let found = words.next().and_then(|w| u64::from_str_radix(w, 16).ok());
            wanted.is_some() && wanted == found
        })
    };
    lines[0] == "halted" && pairs(&config["RegData"]).all(is_same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn memory_is_written_byte_by_byte() {
        let config = json!({
            "MemoryRegions": {"0x10000": "4096", "0x20000": "0x10"},
            "MemoryData": {"0x10000": "AA 0xBB", "0x20000": "0x1122334"},
        });
        let lines = "10000 1000\n20000 10\n10000: AA BB\n20000: 34 23 12 1\n";
        assert_eq!(memory(&config).unwrap(), lines);
    }

    #[test]
    fn expected_registers_are_found() {
        let lines = ["halted", "RAX ff", "XMM1 1 2 0 0"].map(str::to_owned);
        let expects = |data: Value| is_expected(&json!({"RegData": data}), &lines);
        assert!(expects(json!({"rax": "0xFF", "XMM1": ["0x1", "2"]})));
        assert!(!expects(json!({"RAX": "0xFE"})));
        assert!(!expects(json!({"RBX": "0"})));
        assert!(!is_expected(&Value::Null, &["signal 4".to_owned()]));
    }
}
