//! Commands with a time limit, and what is asked of their answers.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;
use trommel_conformance::exec::{Scratch, cache_dir, workspace};
use trommel_conformance::program::compile;
use trommel_conformance::wait;

/// Longer than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// A directory, and the command under test run in it.
pub(crate) struct Place {
    bin: PathBuf,
    scratch: Scratch,
}

/// End of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new(bin: &Path) -> Result<Self, String> {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let bin = bin.to_path_buf();
        Ok(Self { bin, scratch })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.scratch.path(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), String> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.path(name);
        fs::write(&path, bytes)
            .and_then(|()| fs::set_permissions(&path, PermissionsExt::from_mode(mode)))
            .map_err(|e| format!("{}: {e}", path.display()))
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(self.scratch.dir()).map_err(|e| e.to_string())?;
        let mut names: Vec<String> = entries
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n != "stdout" && n != "stderr")
            .collect();
        names.sort();
        Ok(names)
    }

    /// The command with these arguments, its output in files `stdout` and `stderr`.
    pub(crate) fn command(&self, args: &[&str]) -> Result<Command, String> {
        let mut command = Command::new(&self.bin);
        command.args(args);
        self.outputs(&mut command)?;
        Ok(command)
    }

    /// A shell's command in which `"$T"` is trommel.
    pub(crate) fn shell(&self, script: &str) -> Result<Command, String> {
        let mut command = Command::new("bash");
        command.args(["-c", script]).env("T", &self.bin);
        self.outputs(&mut command)?;
        Ok(command)
    }

    fn outputs(&self, command: &mut Command) -> Result<(), String> {
        let file = |name| File::create(self.path(name)).map_err(|e| e.to_string());
        command
            .current_dir(self.scratch.dir())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(file("stdout")?)
            .stderr(file("stderr")?)
            .process_group(0);
        Ok(())
    }

    /// Runs `trommel args`.
    pub(crate) fn trommel(&self, args: &[&str]) -> Result<Ended, String> {
        self.run(&mut self.command(args)?)
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Result<Ended, String> {
        let child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        self.finish(child).map_err(|e| format!("{command:?}: {e}"))
    }

    /// Waits for a command that is its own process group.
    pub(crate) fn finish(&self, mut child: Child) -> Result<Ended, String> {
        let status = wait::within(&mut child, LIMIT).map_err(|e| e.to_string())?;
        let Some(status) = status else {
            send(-i64::from(child.id()), "KILL");
            let _ = child.wait();
            return Err(format!("hangs: stderr {:?}", self.read("stderr")));
        };
        let ended = Ended {
            status,
            stdout: fs::read(self.path("stdout")).unwrap_or_default(),
            stderr: self.read("stderr"),
        };
        match ended.stderr.contains("panicked") {
            true => Err(format!("panicked: {}", ended.stderr)),
            false => Ok(ended),
        }
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.path(name)).unwrap_or_default()).into_owned()
    }

    /// Requires one error with `code` that says all `words`.
    pub(crate) fn refused(&self, args: &[&str], code: i32, words: &[&str]) -> Result<(), String> {
        let ended = self.trommel(args)?;
        ended
            .refused(code, words)
            .map_err(|e| format!("trommel {}: {e}", args.join(" ")))
    }

    /// The profile `name` as `report --json` shows it.
    pub(crate) fn report(&self, name: &str) -> Result<Value, String> {
        let ended = self.trommel(&["report", "--json", "--no-debug-info", name])?;
        if !ended.status.success() {
            return Err(format!("report {name}: {}", ended.stderr));
        }
        let report: Value = serde_json::from_slice(&ended.stdout).map_err(|e| e.to_string())?;
        consistent(&report)?;
        Ok(report)
    }
}

impl Ended {
    /// Requires one error with `code` that says all `words`, and nothing on stdout.
    pub(crate) fn refused(&self, code: i32, words: &[&str]) -> Result<(), String> {
        let text = &self.stderr;
        if self.status.code() != Some(code) {
            return Err(format!("{} instead of {code}: {text}", self.status));
        }
        if !self.stdout.is_empty() {
            return Err("wrote to stdout".into());
        }
        self.one_error()?;
        match words.iter().find(|word| !text.contains(*word)) {
            Some(word) => Err(format!("does not say `{word}`: {text}")),
            None => Ok(()),
        }
    }

    /// Requires that stderr is one error, in one line; what is quoted below it is indented.
    pub(crate) fn one_error(&self) -> Result<(), String> {
        let plain: Vec<_> = self
            .stderr
            .lines()
            .filter(|line| !line.starts_with("    "))
            .collect();
        match &plain[..] {
            [line] if line.starts_with("trommel: ") => Ok(()),
            _ => Err(format!("not one clear error: {:?}", self.stderr)),
        }
    }

    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// Requires that the sums of the lists are the totals: a partial profile is still a true one.
fn consistent(report: &Value) -> Result<(), String> {
    let lists = [
        ("edge", "edges", "count"),
        ("call", "calls", "count"),
        ("value", "values", "executions"),
        ("type", "types", "executions"),
    ];
    if report["compressor"] != "exact" {
        return Ok(());
    }
    for (kind, list, field) in lists {
        let empty = Vec::new();
        let entries = report[list].as_array().unwrap_or(&empty);
        let sum: u64 = entries.iter().filter_map(|e| e[field].as_u64()).sum();
        let seen = report["events"][kind]["seen"].as_u64().unwrap_or(0);
        if sum != seen {
            return Err(format!("{list} sum to {sum}, but {seen} were seen"));
        }
    }
    Ok(())
}

/// Sends a signal to a process, or to a group by its negative number.
pub(crate) fn send(pid: i64, signal: &str) {
    let _ = Command::new("kill")
        .args([&format!("-{signal}"), "--", &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

/// Builds a C program of these tests.
pub(crate) fn program(name: &str, text: &str) -> Result<PathBuf, String> {
    let dir = cache_dir().join("failures");
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let source = dir.join(format!("{name}.c"));
    if fs::read_to_string(&source).ok().as_deref() != Some(text) {
        fs::write(&source, text).map_err(|e| e.to_string())?;
    }
    let out = dir.join(name);
    compile(&source, &["-O1".to_owned()], &out)?;
    Ok(out)
}

/// Different numbers in every run, printed by those who use them.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn new() -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self(now.map_or(1, |d| d.as_nanos() as u64) | 1)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    pub(crate) fn sleep(&mut self, most: Duration) {
        std::thread::sleep(Duration::from_micros(
            self.below(most.as_micros() as u64 + 1),
        ));
    }
}

/// A file of this repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    workspace().join(path)
}
