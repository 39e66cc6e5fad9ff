//! Programs under `trommel run`: how long they take, and what the engine says it did.
//!
//! Problem: Dynamo's figures are times, and of programs at several levels of a compiler.
//!
//! Strategy: the lab's programs, and small ones in C that are built here with the compiler that is
//! installed. Times are CPU time of the whole process tree, `trommel` included; configurations take turns, and the
//! least of the rounds counts, as everything else that happens on a machine only adds. So these figures, other
//! than those of streams, differ from run to run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::Value;

use crate::Lab;
use crate::printed::{self, Printed};
use crate::streams::{make_private, unseeded};

/// Rounds that take turns.
const ROUNDS: usize = 3;
/// With fewer events asked for, the lab is being tried out.
const ALL: u64 = 1_000_000;

/// Something to run.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    /// Name in figures.
    pub(crate) name: String,
    command: Vec<PathBuf>,
}

impl Workload {
    /// The program and its arguments.
    pub(crate) fn command(&self) -> &[PathBuf] {
        &self.command
    }
}

/// A program in C.
pub(crate) struct Kernel {
    /// Name in figures.
    pub(crate) name: &'static str,
    /// The program.
    pub(crate) source: &'static str,
    /// Its argument: as much work as takes half a second at -O2.
    pub(crate) work: u32,
}

/// The programs in C.
pub(crate) const KERNELS: [Kernel; 5] = [
    Kernel {
        name: "vm",
        source: include_str!("dynamo/vm.c"),
        work: 100,
    },
    Kernel {
        name: "shapes",
        source: include_str!("dynamo/shapes.c"),
        work: 100,
    },
    Kernel {
        name: "squeeze",
        source: include_str!("dynamo/squeeze.c"),
        work: 150,
    },
    Kernel {
        name: "order",
        source: include_str!("dynamo/order.c"),
        work: 50,
    },
    Kernel {
        name: "grid",
        source: include_str!("dynamo/grid.c"),
        work: 150,
    },
];

/// Levels of the compiler, from nothing to profile feedback.
pub(crate) const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-O2 +P"];

/// Profile for the last level.
const FEEDBACK: &str = "-O2 +P";

/// A sample of the engine's figures.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// Seconds of CPU time since the process started.
    pub(crate) cpu: f64,
    /// Traces made so far.
    pub(crate) traces: f64,
    /// Seconds in the runtime so far.
    pub(crate) runtime: f64,
    /// Flushes for a new phase so far.
    pub(crate) flushes: f64,
}

/// Figures of the engine in the first process.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    /// Over time.
    pub(crate) moments: Vec<Moment>,
    /// It was detached, since control did not pay.
    pub(crate) bailed_out: bool,
}

impl Done {
    /// Rates over stretches of at least `step` seconds of CPU time: where each ends, traces made in it, and the
    /// part of it spent in the runtime.
    pub(crate) fn rates(&self, step: f64) -> Vec<(f64, f64, f64)> {
        let mut rates = Vec::new();
        let mut last = Moment::default();
        for moment in &self.moments {
            let passed = moment.cpu - last.cpu;
            if passed >= step {
                let part = (moment.runtime - last.runtime) / passed;
                rates.push((moment.cpu, moment.traces - last.traces, part));
                last = *moment;
            }
        }
        rates
    }

    /// The part of all CPU time that was spent in the runtime.
    pub(crate) fn overhead(&self) -> f64 {
        let last = self.moments.last().copied().unwrap_or_default();
        last.runtime / last.cpu.max(1e-9)
    }
}

impl Lab<'_> {
    /// Returns true if the lab is only being tried out.
    pub(crate) fn is_quick(&self) -> bool {
        self.events < ALL
    }

    /// One of the lab's programs; `None`, and said, when it is not there.
    pub(crate) fn subject(&self, name: &str) -> Option<Workload> {
        self.trommel.as_ref()?;
        let known = self.program(name)?;
        // Recordings of its runs lie there.
        if let Err(error) = make_private(&self.cache) {
            (self.say)(&error.to_string());
            return None;
        }
        let ready = known.prepare(&self.cache.join("inputs")).ok().flatten();
        if ready.is_none() {
            let package = known.package;
            (self.say)(&format!(
                "{name} is not installed and is left out (package {package})"
            ));
        }
        Some(Workload {
            name: name.to_owned(),
            command: ready?.command,
        })
    }

    /// A script for one of the lab's programs.
    pub(crate) fn script(&self, name: &str, file: &str, text: &str) -> Option<Workload> {
        let mut subject = self.subject(name)?;
        let path = self.cache.join("inputs").join(file);
        fs::write(&path, text).ok()?;
        subject.command.truncate(1);
        subject.command.push(path);
        Some(subject)
    }

    /// A kernel at a level; `None`, and said, when it cannot be built.
    pub(crate) fn build(&self, kernel: &Kernel, level: &str) -> Option<Workload> {
        self.trommel.as_ref()?;
        let dir = self.cache.join("kernels");
        let work = if self.is_quick() {
            kernel.work / 10
        } else {
            kernel.work
        };
        let made = self.compile(&dir, kernel, level, work);
        if let Err(error) = &made {
            (self.say)(&format!("{} {level} is left out: {error}", kernel.name));
        }
        Some(Workload {
            name: format!("{} {level}", kernel.name),
            command: vec![made.ok()?, work.to_string().into()],
        })
    }

    fn compile(
        &self,
        dir: &Path,
        kernel: &Kernel,
        level: &str,
        work: u32,
    ) -> Result<PathBuf, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        fs::create_dir_all(dir).map_err(failed)?;
        let source = dir.join(format!("{}.c", kernel.name));
        fs::write(&source, kernel.source).map_err(failed)?;
        let out = dir.join(format!("{}{}", kernel.name, level.replace(' ', "")));
        let gcc = |flags: &[&str]| {
            let done = Command::new("gcc")
                .args(flags)
                .arg("-o")
                .args([&out, &source])
                .current_dir(dir)
                .output()
                .map_err(|e| format!("gcc: {e}"))?;
            match done.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
            }
        };
        if level != FEEDBACK {
            gcc(&[level])?;
            return Ok(out);
        }
        gcc(&["-O2", "-fprofile-generate"])?;
        let trained = Command::new(&out)
            .arg((work / 10 + 1).to_string())
            .current_dir(dir)
            .stdout(Stdio::null())
            .status();
        if !trained.is_ok_and(|status| status.success()) {
            return Err("the run that profiles it failed".to_owned());
        }
        gcc(&["-O2", "-fprofile-use", "-Wno-missing-profile"])?;
        Ok(out)
    }

    /// The least seconds of CPU time that a program takes natively, and under `trommel run` with each of
    /// these options; `None`, and said, where a run fails or prints something else.
    pub(crate) fn times(&self, subject: &Workload, options: &[&str]) -> Option<Vec<f64>> {
        let mut least = vec![f64::INFINITY; options.len() + 1];
        let mut printed: Option<Printed> = None;
        let rounds = if self.is_quick() { 1 } else { ROUNDS };
        for round in 0..rounds {
            (self.progress)(&format!(
                "{}, round {} of {rounds}",
                subject.name,
                round + 1
            ));
            for (n, least) in least.iter_mut().enumerate() {
                let options = n.checked_sub(1).map(|n| options[n]);
                let (seconds, out) = self.time(subject, options)?;
                *least = least.min(seconds);
                if *printed.get_or_insert(out) != out {
                    let words = options.unwrap_or_default();
                    (self.say)(&format!(
                        "{} printed something else with run {words}",
                        subject.name
                    ));
                    return None;
                }
            }
        }
        Some(least)
    }

    /// Seconds of CPU time of a run, native without options, and what it printed.
    pub(crate) fn time(&self, subject: &Workload, options: Option<&str>) -> Option<(f64, Printed)> {
        let before = children_cpu()?;
        let done = printed::run(&mut self.command(subject, options)?).ok()?;
        let seconds = children_cpu()? - before;
        if !done.status.success() {
            let words = options.map_or("natively".to_owned(), |o| format!("with run {o}"));
            let (name, status) = (&subject.name, done.status);
            (self.say)(&format!(
                "{name} {words} ended with {status} and is left out: times are of runs that succeed"
            ));
            return None;
        }
        Some((seconds, done.printed))
    }

    fn command(&self, subject: &Workload, options: Option<&str>) -> Option<Command> {
        let mut words: Vec<PathBuf> = Vec::new();
        let options = options.map(stressed);
        let stress = options.and_then(|(stress, _)| stress);
        if let Some((_, options)) = options {
            words.push(self.trommel.clone()?);
            words.push("run".into());
            // What control does is asked, from the beginning.
            words.extend(["--after", "0"].map(PathBuf::from));
            // What is counted does not depend on earlier runs.
            words.push("--no-persist".into());
            words.extend(options.split_whitespace().map(PathBuf::from));
            words.push("--".into());
        }
        words.extend(subject.command.iter().cloned());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        unseeded(&mut command);
        command.envs(stress.map(|stress| (STRESS, stress)));
        Some(command)
    }

    /// Returns what the engine does in a program under `trommel run` with these options; `None`, and said, where that
    /// cannot be had.
    pub(crate) fn watch(&self, subject: &Workload, options: &str) -> Option<Done> {
        (self.progress)(&format!("{}, watched", subject.name));
        let file = self.cache.join(format!(".stats.{}", std::process::id()));
        let wanted = format!("{options} --stats {}", file.display());
        let status = self
            .command(subject, Some(&wanted))?
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let stats: Option<Value> = File::open(&file)
            .ok()
            .and_then(|f| serde_json::from_reader(std::io::BufReader::new(f)).ok());
        let _ = fs::remove_file(&file);
        if !status.is_ok_and(|s| s.success()) || stats.is_none() {
            (self.say)(&format!(
                "{} with run {options} left no statistics and is left out: they are of runs that succeed",
                subject.name
            ));
            return None;
        }
        let process = stats?["processes"][0].take();
        let seconds = |v: &Value, name: &str| v[name].as_f64().unwrap_or(0.0) / 1e9;
        let moment = |v: &Value| Moment {
            cpu: seconds(v, "cpu_ns"),
            traces: v["traces"].as_f64().unwrap_or(0.0),
            runtime: ["translate_ns", "trace_ns", "flush_ns", "dispatch_ns"]
                .iter()
                .map(|name| seconds(v, name))
                .sum(),
            flushes: v["flushes_phase"].as_f64().unwrap_or(0.0),
        };
        let words = process["let_go"].to_string();
        Some(Done {
            moments: process["series"].as_array()?.iter().map(moment).collect(),
            bailed_out: words.contains("did not pay off"),
        })
    }
}

fn children_cpu() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(micros as f64 / 1e6)
}

/// The geometric mean of ratios.
pub(crate) fn geomean(ratios: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut n) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        n += 1;
    }
    (sum / f64::from(n)).exp()
}

/// The variable of stress options.
const STRESS: &str = "TROMMEL_STRESS";

/// Splits stress options from the options of `run` after them: `TROMMEL_STRESS=no-opt --no-bail-out`.
fn stressed(options: &str) -> (Option<&str>, &str) {
    let stress = options
        .strip_prefix(STRESS)
        .and_then(|o| o.strip_prefix('='));
    match stress.map(|stress| stress.split_once(' ').unwrap_or((stress, ""))) {
        Some((stress, options)) => (Some(stress), options),
        None => (None, options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_stretches() {
        let moment = |cpu: f64, traces: f64, runtime: f64| Moment {
            cpu,
            traces,
            runtime,
            flushes: 0.0,
        };
        let done = Done {
            moments: vec![
                moment(0.01, 5.0, 0.005),
                moment(0.02, 8.0, 0.01),
                moment(0.05, 8.0, 0.01),
            ],
            bailed_out: false,
        };
        assert_eq!(done.rates(0.02), [(0.02, 8.0, 0.5), (0.05, 0.0, 0.0)]);
        assert!((done.overhead() - 0.2).abs() < 1e-9);
        assert!((geomean([2.0, 8.0]) - 4.0).abs() < 1e-9);
    }
}
