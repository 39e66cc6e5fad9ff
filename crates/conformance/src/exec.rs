//! Runs a command natively or under `trommel record`, with a time limit, and compares what is seen.
//!
//! Standard output and the exit status must be identical byte for byte. Standard error is shared
//! between the program and trommel, whose contract marks its own lines with `trommel:` while the
//! program runs and appends its summary after the program's end. So, with marked lines removed, the
//! program's native standard error must be a *prefix* of what is left.
//!
//! Output goes to files rather than pipes: a program that leaves a child after cannot keep the
//! harness waiting, and a time limit needs no reader threads.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use crate::built::{cache_dir, trommel, workspace};
use crate::built::{listing, once_a_run, tried_once_a_run};
use crate::not_tested::not_tested;
use crate::wait;
pub use crate::wait::children_cpu;

/// The event mixes that every behaviour check runs.
pub const MIXES: [&str; 4] = ["none", "edge,call", "edge,call,value,type", "path"];

/// Events of all kinds, counted in generated code: each by itself, and by strides.
pub const COUNTED: [(&str, &str); 2] = [
    ("edge,call,value,type", "H:crc[P16]2048+A16"),
    ("edge,call,value,type", "P40"),
];

/// Outcome of a run, as an observer sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Everything written to standard output.
    pub stdout: Vec<u8>,
    /// Everything written to standard error.
    pub stderr: Vec<u8>,
    /// Exit code, unless a signal ended the program.
    pub code: Option<i32>,
    /// Terminating signal.
    pub signal: Option<i32>,
    /// True if the time limit ended it.
    pub timed_out: bool,
}

/// A way of `trommel run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Run {
    /// Run with the options that people give.
    Plain,
    /// With a trace of whatever is executed twice, kept and optimised as far as may be.
    Traced,
}

/// A command to run: program, arguments, working directory and standard input.
#[derive(Clone, Debug)]
pub struct Job {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Working directory.
    pub dir: PathBuf,
    /// File given as standard input; `/dev/null` when absent.
    pub stdin: Option<PathBuf>,
    /// Changes to the environment.
    pub env: Vec<(OsString, OsString)>,
}

impl Job {
    /// A command in `dir`.
    pub fn new<S: Into<OsString>>(argv: impl IntoIterator<Item = S>, dir: &Path) -> Self {
        Self {
            argv: argv.into_iter().map(Into::into).collect(),
            dir: dir.to_path_buf(),
            stdin: None,
            env: Vec::new(),
        }
    }

    /// Runs it as it is.
    pub fn native(&self, limit: Duration) -> io::Result<Outcome> {
        self.run(&self.argv, limit)
    }

    /// Runs it under `trommel record -e MIX -o DATA`.
    pub fn record(
        &self,
        trommel: &Path,
        mix: &str,
        data: &Path,
        limit: Duration,
    ) -> io::Result<Outcome> {
        self.record_by(trommel, (mix, "exact"), data, limit)
    }

    /// Runs it under `trommel record -e MIX -c SPEC -o DATA`.
    pub fn record_by(
        &self,
        trommel: &Path,
        (mix, spec): (&str, &str),
        data: &Path,
        limit: Duration,
    ) -> io::Result<Outcome> {
        self.record_with(trommel, &["-e", mix, "-c", spec], data, limit)
    }

    /// Runs it under `trommel record --quiet OPTIONS -o DATA`.
    pub fn record_with(
        &self,
        trommel: &Path,
        options: &[&str],
        data: &Path,
        limit: Duration,
    ) -> io::Result<Outcome> {
        let mut argv: Vec<OsString> = vec![trommel.into(), "record".into(), "--quiet".into()];
        argv.extend(options.iter().map(Into::into));
        argv.extend(["-o".into(), data.into(), "--".into()]);
        argv.extend(self.argv.iter().cloned());
        self.run(&argv, limit)
    }

    /// Requires that `trommel run` shows what a native run shows, in each of these ways.
    pub fn check_run(&self, trommel: &Path, ways: &[Run], limit: Duration) -> Result<(), String> {
        let given = std::env::var("TROMMEL_STRESS").unwrap_or_default();
        for way in ways {
            let (stress, options) = match way {
                Run::Plain => (given.clone(), &[][..]),
                Run::Traced => (
                    format!("trace,{given}"),
                    &["--no-bail-out", "--opt", "aggressive"][..],
                ),
            };
            let mut job = self.clone();
            job.env
                .push(("TROMMEL_STRESS".into(), stress.clone().into()));
            // The program may show its environment.
            let native = job.native(limit).map_err(|e| format!("native: {e}"))?;
            let mut argv = vec![trommel.into()];
            argv.extend(["run", "--after", "0"].map(OsString::from));
            argv.extend(options.iter().map(OsString::from));
            argv.push("--".into());
            argv.extend(self.argv.iter().cloned());
            let seen = job
                .run(&argv, limit * 10)
                .map_err(|e| format!("{}: {e}", trommel.display()))?;
            native
                .compare(&seen)
                .map_err(|e| format!("run with stress `{stress}`: {e}"))?;
        }
        Ok(())
    }

    /// Requires that a run which makes all fragments anew, and one that has those of the first, show what a native run
    /// shows. `caches`: a directory for this alone.
    pub fn check_kept(&self, trommel: &Path, caches: &Path, limit: Duration) -> Result<(), String> {
        let mut job = self.clone();
        job.env.push(("XDG_CACHE_HOME".into(), caches.into()));
        let native = job.native(limit).map_err(|e| format!("native: {e}"))?;
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let data = scratch.path("data").into_os_string();
        let record = [
            "record".into(),
            "--quiet".into(),
            "-e".into(),
            "none".into(),
            "-o".into(),
            data,
        ];
        // What is kept is executed to the end: a program that is detached may see what docs/limits.md says of that.
        let run = ["run", "--after", "0", "--no-bail-out"].map(OsString::from);
        for way in [&record[..], &run[..]] {
            for what in ["anew", "with fragments of the run before"] {
                let mut argv = vec![trommel.as_os_str().to_owned()];
                argv.extend_from_slice(way);
                argv.push("--".into());
                argv.extend(job.argv.iter().cloned());
                let seen = job
                    .run(&argv, limit * 10)
                    .map_err(|e| format!("{}: {e}", trommel.display()))?;
                native
                    .compare(&seen)
                    .map_err(|e| format!("{} {what}: {e}", way[0].display()))?;
            }
        }
        Ok(())
    }

    fn run(&self, argv: &[OsString], limit: Duration) -> io::Result<Outcome> {
        let scratch = Scratch::new()?;
        let (out, err) = (scratch.path("stdout"), scratch.path("stderr"));
        let stdin = match &self.stdin {
            Some(file) => Stdio::from(File::open(file)?),
            None => Stdio::null(),
        };
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .current_dir(&self.dir)
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(stdin)
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?)
            .process_group(0)
            .spawn()?;
        let status = wait::within(&mut child, limit)?;
        let timed_out = status.is_none();
        let status = match status {
            Some(status) => status,
            None => {
                // The group that was made for this run: trommel, the program and its children.
                let _ = Command::new("kill")
                    .args(["-KILL", "--", &format!("-{}", child.id())])
                    .status();
                let _ = child.kill();
                child.wait()?
            }
        };
        Ok(Outcome {
            stdout: fs::read(&out)?,
            stderr: fs::read(&err)?,
            code: status.code(),
            signal: status.signal(),
            timed_out,
        })
    }

    /// Requires that `record` with each of these kinds and compressors shows what a native run shows. The error is the
    /// first difference.
    pub fn check_recorded<'k>(
        &self,
        trommel: &Path,
        ways: impl IntoIterator<Item = (&'k str, &'k str)>,
        limit: Duration,
    ) -> Result<(), String> {
        let native = self.native(limit).map_err(|e| format!("native: {e}"))?;
        if native.timed_out {
            return Err(format!("native run exceeded {limit:?}"));
        }
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        for (mix, spec) in ways {
            let seen = self
                .record_by(trommel, (mix, spec), &scratch.path("data"), limit * 10)
                .map_err(|e| format!("{}: {e}", trommel.display()))?;
            native
                .compare(&seen)
                .map_err(|e| format!("record -e {mix} -c {spec}: {e}"))?;
        }
        Ok(())
    }

    /// [`check_recorded`](Self::check_recorded) under every mix, and in every way to count.
    pub fn check(&self, trommel: &Path, limit: Duration) -> Result<(), String> {
        let exact = MIXES.map(|mix| (mix, "exact"));
        self.check_recorded(trommel, exact.into_iter().chain(COUNTED), limit)
    }
}

impl Outcome {
    /// Returns whether the runtime has failed, which a program need not show: it goes on natively. Options may ask for that.
    fn has_failed_inside(&self) -> bool {
        let asked = std::env::var("TROMMEL_STRESS").is_ok_and(|given| given.contains("fail-"));
        let mut lines = self.stderr.split(|&b| b == b'\n');
        !asked && lines.any(|line| line.starts_with(b"trommel: internal error"))
    }

    /// Requires that `seen`, a run under trommel, shows what this native run showed.
    pub fn compare(&self, seen: &Self) -> Result<(), String> {
        let tail = || {
            let text = String::from_utf8_lossy(&seen.stderr);
            let from = text.char_indices().rev().nth(1500).map_or(0, |(at, _)| at);
            format!("\nits stderr ends:\n{}", &text[from..])
        };
        if seen.timed_out {
            return Err(format!("exceeded its time{}", tail()));
        }
        if seen.has_failed_inside() {
            return Err(format!("trommel failed inside{}", tail()));
        }
        if (self.code, self.signal) != (seen.code, seen.signal) {
            return Err(format!(
                "native ended with code {:?} signal {:?}, this with {:?} {:?}{}",
                self.code,
                self.signal,
                seen.code,
                seen.signal,
                tail()
            ));
        }
        if let Some(text) = difference("stdout", &self.stdout, &seen.stdout) {
            return Err(text + &tail());
        }
        let rest = without_marked(&seen.stderr);
        if !rest.starts_with(&self.stderr) {
            let cut = rest.len().min(self.stderr.len());
            return Err(difference("stderr", &self.stderr, &rest[..cut]).unwrap_or_default());
        }
        Ok(())
    }
}

fn without_marked(stderr: &[u8]) -> Vec<u8> {
    stderr
        .split_inclusive(|&b| b == b'\n')
        .filter(|line| !line.starts_with(b"trommel:"))
        .flatten()
        .copied()
        .collect()
}

/// The first line in which two outputs differ.
pub fn difference(what: &str, native: &[u8], seen: &[u8]) -> Option<String> {
    if native == seen {
        return None;
    }
    let mut lines = native
        .split(|&b| b == b'\n')
        .zip(seen.split(|&b| b == b'\n'));
    let at = lines.clone().take_while(|(a, b)| a == b).count();
    let (a, b) = lines.nth(at).unwrap_or((b"(end)", b"(end)"));
    let short =
        |line: &[u8]| -> String { String::from_utf8_lossy(line).chars().take(300).collect() };
    Some(format!(
        "{what} differs at line {}: {} bytes native, {} here\n  native: {}\n  here:   {}",
        at + 1,
        native.len(),
        seen.len(),
        short(a),
        short(b)
    ))
}

/// A directory that is removed when dropped.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// A new empty directory.
    pub fn new() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "trommel-test-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the output of a command that succeeds.
///
/// # Errors
/// How it has ended otherwise, with what it said.
pub fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|e| e.to_string())?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{command:?}: {}:\n{stderr}", done.status));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Returns what a program prints that prints the same each time, and needs nothing of this test's own. It runs once for all tests of a
/// run: some compute for seconds.
///
/// # Errors
/// How it has ended otherwise.
pub fn natively(program: &[&str]) -> Result<String, String> {
    tried_once_a_run(&format!("native {program:?}"), || {
        output(Command::new(program[0]).args(&program[1..]))
    })
}

/// Records a program to a file, which must print what it does natively.
///
/// # Errors
/// That it does not, or how one of them has ended.
///
/// # Panics
/// Without a command to test.
pub fn record_alike(options: &[&str], program: &[&str], data: &Path) -> Result<(), String> {
    let native = natively(program)?;
    let mut command = Command::new(trommel());
    command.arg("record").args(options).arg("-o").arg(data);
    let seen = output(command.arg("--").args(program))?;
    match native == seen {
        true => Ok(()),
        false => Err(format!("{seen:?} in place of {native:?}")),
    }
}

/// Returns what `report --json` says of a profile, without what is read of debug information.
///
/// # Errors
/// How it has ended otherwise.
///
/// # Panics
/// Without a command to test.
pub fn reported(data: &Path) -> Result<serde_json::Value, String> {
    let mut command = Command::new(trommel());
    let words = ["report", "--json", "--no-debug-info"];
    let text = output(command.args(words).arg(data))?;
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

/// Returns the message of `record` where the kernel refuses perf events, without which there are no windows.
///
/// # Panics
/// Without a command to test.
pub fn no_windows() -> Option<String> {
    let said = once_a_run("windows", || {
        let words = "record --budget 5 --windows -o /dev/null -- true".split(' ');
        let done = Command::new(trommel()).args(words).output();
        let stderr = done.expect("the command runs").stderr;
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        let line = stderr.lines().find(|l| l.contains("no windows"));
        line.unwrap_or_default().to_owned()
    });
    Some(said).filter(|said| !said.is_empty())
}

/// For test files that need windows: where there are none, says why and ends the process, with success. A list of tests is the
/// same everywhere.
///
/// # Panics
/// Without a command to test.
pub fn need_windows() {
    if listing() {
        return;
    }
    if let Some(why) = no_windows() {
        not_tested(why);
        std::process::exit(0);
    }
}

/// Finds a program that `.ci/run` installs.
///
/// # Errors
/// That it is not there, and what to do.
pub fn required(name: &str) -> Result<PathBuf, String> {
    which(name)
        .ok_or_else(|| format!("{name} is not installed: the tests need it, see CONTRIBUTING.md"))
}

/// Finds a program on `PATH`.
pub fn which(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|p| p.exists());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|p| p.is_file())
}

/// Copies a program, to execute it: by a process of its own. A descriptor of ours that writes to the copy would be inherited by what
/// another test starts meanwhile, and as long as one is open, nothing executes the file.
///
/// # Errors
/// What `cp` says.
pub fn copy(program: &Path, to: &Path) -> Result<(), String> {
    let done = Command::new("cp").arg(program).arg(to).output();
    let done = done.map_err(|e| format!("cp: {e}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(stdout: &str, stderr: &str) -> Outcome {
        Outcome {
            stdout: stdout.into(),
            stderr: stderr.into(),
            code: Some(0),
            signal: None,
            timed_out: false,
        }
    }

    #[test]
    fn own_words_are_set_apart() {
        let native = outcome("a\n", "warn\n");
        let seen = outcome("a\n", "trommel: hello\nwarn\nsummary\n");
        assert_eq!(native.compare(&seen), Ok(()));
        assert!(native.compare(&outcome("a\n", "summary\n")).is_err());
        assert!(native.compare(&outcome("b\n", "warn\n")).is_err());
    }

    #[test]
    fn a_signal_and_a_time_limit_are_seen() {
        let scratch = Scratch::new().unwrap();
        let job = Job::new(["sh", "-c", "kill -TERM $$"], scratch.dir());
        assert_eq!(job.native(Duration::from_secs(5)).unwrap().signal, Some(15));
        let job = Job::new(["sleep", "30"], scratch.dir());
        assert!(job.native(Duration::from_millis(50)).unwrap().timed_out);
    }
}
