//! `trommel compress`: put a recorded stream through compressors and say how good their profiles
//! are.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use trommel_compress::{Seeds, Spec, SpecError, note};
use trommel_profile::accuracy::{Evaluation, Evaluator, Options, json};

use crate::args::CompressArgs;
use crate::output::{self, grouped};
use crate::report::table::{Style, Table};
use crate::stream;

/// Runs the command.
pub(crate) fn run(args: &CompressArgs) -> Result<ExitCode> {
    let specs: Vec<Spec> = args.specs.iter().map(|s| parse(s)).collect::<Result<_>>()?;
    for warning in specs.iter().filter_map(note) {
        output::complain(&warning);
    }
    let filter = match &args.filter {
        Some(text) => text
            .parse()
            .map_err(|error: trommel_profile::accuracy::FilterError| {
                anyhow!("wrong filter: {error}\n{}", pointed_at(text, error.column))
            })?,
        None => Default::default(),
    };
    let seeds = Seeds {
        hash: args.seed,
        random: args.seed,
    };
    let options = Options {
        filter,
        seeds,
        ..Options::default()
    };
    let evaluations = evaluate(&specs, options, &args.stream)?;
    if args.json {
        write_json(&evaluations)?;
    } else {
        write_text(&evaluations)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The spec, or an error that points at what is wrong in it.
pub(crate) fn parse(text: &str) -> Result<Spec> {
    text.parse().map_err(|error: SpecError| {
        anyhow!(
            "wrong compressor spec: {error}\n{}",
            pointed_at(text, error.column)
        )
    })
}

/// `text` with a caret below its `column`, counted from 1.
fn pointed_at(text: &str, column: usize) -> String {
    format!("    {}\n    {:>column$}", output::printable(text), '^')
}

fn evaluate(specs: &[Spec], options: Options, path: &Path) -> Result<Vec<Evaluation>> {
    let mut reader = stream::open(path)?;
    let mut evaluator = Evaluator::new(specs, options);
    stream::for_each_block(&mut reader, path, |block, _| {
        evaluator.events(block.events());
        Ok(true)
    })?;
    Ok(evaluator.finish())
}

fn write_json(evaluations: &[Evaluation]) -> Result<()> {
    use std::io::Write;
    let mut out = output::stdout();
    let text = serde_json::to_string_pretty(&json::evaluations(evaluations))
        .context("the evaluation cannot be written as JSON")?;
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

fn write_text(evaluations: &[Evaluation]) -> Result<()> {
    use std::io::Write;
    let mut table = Table::new(["error", "messages", "spec", "of events", "overhead", "held"]);
    for e in evaluations {
        table.row([
            format!("{:.2}%", e.error),
            grouped(e.messages),
            e.spec.to_string(),
            format!("{:.3}%", output::percent(e.messages, e.events)),
            format!("{:.2}%", e.overhead_percent()),
            e.held.map_or_else(String::new, grouped),
        ]);
    }
    let mut out = output::stdout();
    if let Some(first) = evaluations.first() {
        writeln!(
            out,
            "# {} events; seed {}",
            grouped(first.events),
            first.seeds.hash
        )?;
        writeln!(
            out,
            "# overhead: 30 cycles a message against 4 cycles an event, as no cycle model is there"
        )?;
    }
    table.write(&mut out, Style::new(output::colours(&std::io::stdout())))?;
    Ok(out.flush()?)
}
