//! `trommel stat`: exact counts of a program's instructions, where `perf stat` needs a PMU.
//!
//! # Strategy
//! The program runs with its branches and calls counted, and instructions, loads, stores and system calls follow from these and the code
//! ([`trommel_code::Mix`]). Before that it runs once natively, with its output thrown away, for its time. The input of the native run is
//! read again where it is a file; where it is a pipe there is no native run, as nobody can read it twice.
//!
//! # Invariants
//! Counts are exact, or said to be at least so many: of code that has no bytes only branches and calls are known. The program's exit status is
//! ours, unless `--fail-above` fails.

mod baseline;
mod native;
mod write;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trommel_code::{Mix, Program};
use trommel_host::channel::tracing::Tracing;
use trommel_host::kernel::{addresses, interrupt};
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, launch};
use trommel_tuple::Kind;

use crate::args::StatArgs;
use crate::exit::{self, ProgramEnd};
use crate::host::{self, Options};
use crate::load;
use crate::output;
use crate::pipes;
use native::Native;

/// A process of a run.
pub(super) struct Process {
    pid: u32,
    command: Vec<Vec<u8>>,
    mix: Mix,
}

/// A counted run.
pub(super) struct Run {
    mix: Mix,
    /// Code without bytes executed at least so much of it.
    at_least: bool,
    processes: Vec<Process>,
    wall: u64,
    cpu: u64,
    /// Reasons why not all was counted.
    incomplete: Vec<String>,
}

/// Everything that was measured.
pub(super) struct Measured {
    command: Vec<String>,
    runs: Vec<Run>,
    native: Option<Native>,
    /// Addresses were not randomised.
    deterministic: bool,
    status: Option<i32>,
}

impl Measured {
    /// The run whose number of instructions is the median.
    fn median(&self) -> Option<&Run> {
        let mut order: Vec<&Run> = self.runs.iter().collect();
        order.sort_by(|a, b| a.mix.instructions.total_cmp(&b.mix.instructions));
        order.get(order.len() / 2).copied()
    }

    /// Distance between runs, in percent of the median of the instructions.
    fn spread(&self) -> f64 {
        let all = || self.runs.iter().map(|run| run.mix.instructions);
        let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        let median = self.median().map_or(1.0, |run| run.mix.instructions);
        100.0 * (high - low) / median.max(1.0)
    }

    /// CPU time of a counted run for each of the native one.
    fn slowdown(&self) -> Option<f64> {
        let native = self.native.as_ref()?;
        let mut counted: Vec<u64> = self.runs.iter().map(|run| run.cpu).collect();
        counted.sort_unstable();
        let cpu = native.user + native.system;
        (cpu > 0).then(|| counted[counted.len() / 2] as f64 / cpu as f64)
    }
}

/// Runs the command.
pub(crate) fn run(mut args: StatArgs) -> Result<ExitCode> {
    if args.output.is_none() {
        output::check_stderr()?;
    }
    let earlier = args.baseline.as_deref().map(baseline::read).transpose()?;
    let path = std::env::var_os("PATH");
    let program = launch::resolve_command(&mut args.program, path.as_deref())?;
    if args.deterministic {
        addresses::fix().context(
            "--deterministic: the system refuses to place programs at fixed addresses, as some containers do; leave it out",
        )?;
    }
    let native = match args.no_native {
        true => None,
        false => native::run(&program.path, &args.program)?,
    };
    let guard = interrupt::guard();
    let files = Files::new();
    let mut measured = Measured {
        command: (args.program.iter())
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
        runs: Vec::new(),
        native,
        deterministic: args.deterministic,
        status: None,
    };
    let mut end = ProgramEnd::Exited(0);
    for _ in 0..args.repeat {
        native::rewind();
        let kinds = [Kind::Edge, Kind::Call].into_iter().collect();
        let options = Options {
            follow: true,
            persist: true,
            tracing: Tracing::OBSERVED,
            ..Options::of(program.clone(), args.program.clone(), kinds)?
        };
        let mut profiles = Vec::new();
        let (recording, ended) = host::run(options, &guard, &mut |profile, _| {
            profiles.push(profile);
        })?;
        measured.status = recording.ended.status;
        profiles.insert(0, recording.profile);
        measured.runs.push(counted(&profiles, &files)?);
        end = ended;
        if !matches!(end, ProgramEnd::Exited(0)) {
            break;
        }
    }
    drop(guard);
    let worse = write(&args, &measured, earlier.as_ref())?;
    Ok(match (worse, end) {
        (true, ProgramEnd::Exited(0)) => ExitCode::from(crate::diff::WORSE),
        _ => exit::like(end),
    })
}

/// Writes what was asked for. Returns true if it is worse than the baseline allows.
fn write(
    args: &StatArgs,
    measured: &Measured,
    earlier: Option<&baseline::Earlier>,
) -> Result<bool> {
    let compared = earlier.and_then(|earlier| earlier.compare(measured));
    let worse = match (compared, args.fail_above) {
        (Some(change), Some(most)) => change > most,
        _ => false,
    };
    let mut text = Vec::new();
    if args.json {
        write::json(&mut text, measured, compared)?;
    } else if args.csv {
        write::csv(&mut text, measured)?;
    } else {
        write::text(&mut text, measured, compared.zip(args.baseline.as_deref()))?;
    }
    match &args.output {
        Some(path) => pipes::create(path)
            .and_then(|mut file| file.write_all(&text))
            .map_err(|e| {
                anyhow::anyhow!("{}: {e}; name a file that can be written", path.display())
            })?,
        // The program's own output is on stdout.
        None => output::stderr().write_all(&text)?,
    }
    if worse && args.output.is_some() {
        output::complain("more instructions than --fail-above allows");
    }
    Ok(worse)
}

/// Adds up the processes of a run.
fn counted(profiles: &[Profile], files: &Files) -> Result<Run> {
    let mut run = Run {
        mix: Mix::default(),
        at_least: false,
        processes: Vec::new(),
        wall: profiles.first().map_or(0, |p| p.run.wall),
        cpu: profiles.first().map_or(0, |p| p.run.target_cpu),
        incomplete: Vec::new(),
    };
    for profile in profiles {
        let symbols = load::symbols(files, profile);
        let mut confidence = Confidence::new(profile);
        let Some(program) = Program::new(profile, &symbols, &mut confidence) else {
            bail!("process {}: nothing was counted", profile.origin.pid);
        };
        let mut mix = Mix::default();
        for (module, derived) in &program.modules {
            mix = match symbols.code(*module) {
                Ok(code) => mix.plus(&Mix::of_blocks(&derived.blocks, &code)),
                Err(_) => {
                    run.at_least = true;
                    mix.plus(&Mix::of_events(&derived.blocks))
                }
            };
        }
        for reason in &profile.run.detach {
            if !run.incomplete.contains(reason) {
                run.incomplete.push(reason.clone());
            }
        }
        run.mix = run.mix.plus(&mix);
        run.processes.push(Process {
            pid: profile.origin.pid,
            command: profile.command.clone(),
            mix,
        });
    }
    let key = |p: &Process| p.mix.instructions;
    run.processes.sort_by(|a, b| key(b).total_cmp(&key(a)));
    Ok(run)
}
