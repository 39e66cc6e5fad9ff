//! `trommel run`: a program under Dynamo's control, optimised while it runs.
//!
//! Nothing is observed and nothing is written but what `--stats` asks for. All that can be wrong
//! with the arguments is found before the program starts.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use trommel_host::channel::tracing::{Optimise, THRESHOLD, Tracing};
use trommel_host::kernel::interrupt;
use trommel_host::serve::engine::Engine;
use trommel_host::serve::recording::Recording;
use trommel_profile::Profile;
use trommel_symbol::launch;
use trommel_tuple::KindSet;

use crate::args::{Opt, RunArgs};
use crate::exit;
use crate::host::{self, Options};
use crate::prefetches;
use crate::report::table::Style;
use crate::stats;

/// CPU time that a process uses natively first. What control costs until it is known whether it pays, 20 to 60 milliseconds, is then a
/// small part of the time that the program takes anyway, and one that is over sooner pays nothing (`docs/performance.md`).
const AFTER: Duration = Duration::from_millis(250);

/// Runs the command.
pub(crate) fn run(args: RunArgs) -> Result<ExitCode> {
    let path = std::env::var_os("PATH");
    let mut words = args.program;
    let program = launch::resolve_command(&mut words, path.as_deref())?;
    let to = args.stats.as_deref().map(stats::open).transpose()?;
    let watched = to.is_some() || args.prefetch || args.no_bail_out || program.image.aware;
    let without = host::stress()?.without;
    let options = Options {
        follow: true,
        persist: !args.no_persist,
        tracing: Tracing {
            threshold: if without.traces { 0 } else { THRESHOLD },
            optimise: match (without.optimiser, args.opt) {
                (true, _) => Optimise::Off,
                (false, Opt::Conservative) => Optimise::Conservative,
                (false, Opt::Aggressive) => Optimise::Aggressive,
            },
            link: !without.links,
            returns: !without.returns,
            stay: args.no_bail_out || args.prefetch,
            retake: !args.no_retake,
            cache: args.cache.unwrap_or(0),
            series: to.is_some(),
            after: args.after.unwrap_or(match watched {
                true => Duration::ZERO,
                false => AFTER,
            }),
        },
        converge: None,
        simulate: None,
        prefetch: args.prefetch,
        ..Options::of(program, words, KindSet::NONE)?
    };
    let guard = interrupt::guard();
    let mut others = Vec::new();
    let (recording, outcome) = host::run(options, &guard, &mut |profile, engine| {
        if to.is_some()
            || engine
                .prefetch
                .as_ref()
                .is_some_and(|report| report.rounds != 0)
        {
            others.push((profile, engine));
        }
    })?;
    if let (Some(out), Some(path)) = (to, &args.stats) {
        stats::write(out, path, &recording, &others)?;
    }
    if args.prefetch {
        let _ = io::stderr().write_all(&tables(&recording, &others)?);
    }
    drop(guard);
    Ok(exit::like(outcome))
}

/// Returns what was prefetched in each process that was asked.
fn tables(first: &Recording, others: &[(Profile, Engine)]) -> Result<Vec<u8>> {
    let style = Style::of(&io::stderr());
    let mut text = Vec::new();
    let others = others.iter().map(|(profile, engine)| (profile, engine));
    for (profile, engine) in std::iter::once((&first.profile, &first.engine)).chain(others) {
        if let Some(report) = engine.prefetch.as_ref().filter(|r| r.rounds != 0) {
            prefetches::table(&mut text, profile, report, style)?;
        }
    }
    if text.is_empty() {
        writeln!(
            text,
            "# prefetches: none; nothing ran long enough to be asked"
        )?;
    }
    Ok(text)
}
