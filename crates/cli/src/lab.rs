//! `trommel lab`: the papers' experiments.
//!
//! Names are checked before anything is done. Progress is one line that is written over, on a
//! terminal only. Results are written experiment by experiment.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trommel_lab::{EXPERIMENTS, Experiment, Lab, Report, named};

use crate::args::LabArgs;
use crate::caches;
use crate::output;

/// Streams simulated for each point, as in the paper.
const TRIALS: u32 = 2500;

/// Runs the command.
pub(crate) fn run(args: &LabArgs) -> Result<ExitCode> {
    if args.names.iter().any(|n| n == "list") {
        if args.names.len() > 1 {
            bail!("`list` stands alone: trommel lab list");
        }
        return list();
    }
    let all = args.names.iter().any(|n| n == "all");
    let experiments: Vec<&'static Experiment> = match all {
        true => EXPERIMENTS.iter().collect(),
        false => args.names.iter().map(|n| find(n)).collect::<Result<_>>()?,
    };
    if all && args.names.len() > 1 {
        bail!("`all` stands alone: trommel lab all");
    }
    let terminal = std::io::stderr().is_terminal();
    let clear = if terminal { "\r\x1b[K" } else { "" };
    let progress = |text: &str| {
        if terminal {
            let _ = write!(
                std::io::stderr(),
                "{clear}trommel: {}",
                output::printable(text)
            );
        }
    };
    let say = |text: &str| {
        let _ = write!(std::io::stderr(), "{clear}");
        output::complain(text);
    };
    let lab = Lab {
        trommel: Some(std::env::current_exe().context("cannot find this program to record with")?),
        cache: cache()?,
        events: args.events.unwrap_or(trommel_lab::EVENTS),
        skip: trommel_lab::SKIP,
        trials: TRIALS,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        say: &say,
        progress: &progress,
    };
    let place = || {
        format!(
            "{}: results cannot be written there; name another directory with --out",
            args.out.display()
        )
    };
    let mut report =
        Report::new(&lab, &args.out, all || args.html, experiments.len()).with_context(place)?;
    lab.run_each(&experiments, |experiment, found| {
        report.add(experiment, found)
    })?;
    let (done, written) = report.finish();
    let _ = write!(std::io::stderr(), "{clear}");
    let mut out = output::stdout();
    for (experiment, found) in &done {
        writeln!(out, "{}: {}", experiment.name, experiment.title)?;
        for claim in &found.claims {
            writeln!(out, "  {:<13} {}", claim.verdict.words(), claim.paper)?;
            writeln!(out, "  {:<13} {}", "", claim.ours)?;
        }
    }
    let shown = |path: &std::path::Path| output::printable(&path.display().to_string());
    match &written.page {
        Some(page) => writeln!(
            out,
            "wrote {} files; open {}",
            written.files.len(),
            shown(page)
        )?,
        None => writeln!(
            out,
            "wrote {} files in {}",
            written.files.len(),
            shown(&args.out)
        )?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<ExitCode> {
    let columns = output::width(&std::io::stdout());
    let mut out = output::stdout();
    for experiment in &EXPERIMENTS {
        let text = format!("{}: {}", experiment.paper.title(), experiment.title);
        let text = output::wrapped(&text, 15, 15, columns);
        writeln!(out, "{:<14} {text}", experiment.name)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static Experiment> {
    let names: Vec<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
    named(name).with_context(|| {
        format!(
            "there is no experiment `{name}`; there are {}, and `all`",
            names.join(", ")
        )
    })
}

/// The lab's part of the user's cache directory.
fn cache() -> Result<PathBuf> {
    let caches = caches::directory()
        .context("neither XDG_CACHE_HOME nor HOME is set: where should recordings be kept?")?;
    Ok(caches.join("lab"))
}
