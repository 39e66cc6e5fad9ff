//! `trommel compress`: put a recorded stream through compressors and say how good their profiles
//! are.

mod intervals;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trommel_compress::{Seeds, Spec, SpecError, note};
use trommel_profile::accuracy::{Evaluation, Evaluator, Model, Options, json};
use trommel_tuple::stream::Module;

use crate::args::CompressArgs;
use crate::excerpt::{self, Excerpt};
use crate::output::{self, grouped};
use crate::report::table::{Style, Table};
use crate::stream;

/// A figure that does not exist. It is not 0.
const NONE: &str = "-";

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
                wrong_at(text, error.column, format!("wrong filter: {error}"))
            })?,
        None => Default::default(),
    };
    let seeds = Seeds {
        hash: args.seed,
        random: args.seed,
    };
    if args.per_interval && specs.iter().all(|s| s.interval().is_none()) {
        bail!(
            "--per-interval: none of the compressors has intervals; `M4[10k,1%]2048` has (`trommel help specs`)"
        );
    }
    let Some(stream) = &args.stream else {
        return costs(&specs, args.json);
    };
    let options = Options {
        filter,
        seeds,
        per_interval: args.per_interval,
        model: model(args),
        ..Options::default()
    };
    output::last_words(
        "interrupted while the stream was evaluated: nothing was reported; fewer compressors at a time take less",
    );
    let (evaluations, modules) = evaluate(&specs, options, stream)?;
    if args.json {
        write_json(args, &evaluations, &modules)?;
    } else if args.csv {
        let mut out = output::stdout();
        intervals::csv(&mut out, &evaluations, &modules)?;
        std::io::Write::flush(&mut out)?;
    } else {
        write_text(args, &evaluations, &modules)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The cost model that was asked for.
fn model(args: &CompressArgs) -> Model {
    let papers = Model::default();
    Model {
        message: args.message_cycles.unwrap_or(papers.message),
        event: args.event_cycles.unwrap_or(papers.event),
        buffer: args.buffer.unwrap_or(papers.buffer),
    }
}

/// The bytes of a compressor in hardware, in words.
fn bytes(spec: &Spec) -> String {
    spec.bytes().map_or_else(|| NONE.into(), grouped)
}

/// Writes what the compressors take in hardware, which needs no stream.
fn costs(specs: &[Spec], json: bool) -> Result<ExitCode> {
    use std::io::Write;
    let mut out = output::stdout();
    if json {
        let cost = |spec: &Spec| {
            serde_json::json!({
                "schema": json::SCHEMA,
                "spec": spec.to_string(),
                "bytes": spec.bytes(),
            })
        };
        let all: serde_json::Value = specs.iter().map(cost).collect();
        writeln!(out, "{all:#}")?;
    } else {
        let mut table = Table::new(["bytes", "spec"]).numbers(1);
        for spec in specs {
            table.row([bytes(spec), spec.to_string()]);
        }
        table.write(&mut out, Style::of(&std::io::stdout()))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The spec, or an error that points at what is wrong in it.
pub(crate) fn parse(text: &str) -> Result<Spec> {
    text.parse().map_err(|error: SpecError| {
        let what = format!("wrong compressor spec: {error}");
        wrong_at(text, error.column, what)
    })
}

/// An error with `text` below it, and a caret below the `column`, counted from 1.
fn wrong_at(text: &str, column: usize, what: String) -> anyhow::Error {
    let columns = output::width(&std::io::stderr());
    let Excerpt { shown, marks } = excerpt::around(text, column, 1, columns.saturating_sub(4));
    let lines = [format!("    {shown}"), format!("    {marks}")];
    output::with_lines(what, lines.into())
}

/// The evaluations of a stream, and its modules.
fn evaluate(
    specs: &[Spec],
    options: Options,
    path: &Path,
) -> Result<(Vec<Evaluation>, Vec<Module>)> {
    let mut reader = stream::open(path)?;
    let mut evaluator = Evaluator::new(specs, options);
    stream::for_each_block(&mut reader, path, |block, _| {
        evaluator.events(block.events());
        Ok(true)
    })?;
    Ok((evaluator.finish(), reader.modules().to_vec()))
}

fn write_json(args: &CompressArgs, evaluations: &[Evaluation], modules: &[Module]) -> Result<()> {
    use std::io::Write;
    let mut out = output::stdout();
    let mut values = json::evaluations(evaluations);
    if args.cost {
        let list = values.as_array_mut().into_iter().flatten();
        for (value, e) in list.zip(evaluations) {
            value["bytes"] = serde_json::json!(e.spec.bytes());
        }
    }
    if args.per_interval {
        intervals::add(&mut values, evaluations, modules);
    }
    let text = serde_json::to_string_pretty(&values)
        .context("the evaluation cannot be written as JSON")?;
    writeln!(out, "{text}")?;
    Ok(out.flush()?)
}

fn write_text(args: &CompressArgs, evaluations: &[Evaluation], modules: &[Module]) -> Result<()> {
    use std::io::Write;
    let mut table = Table::new(["error", "messages", "spec", "of events", "overhead", "held"]);
    for e in evaluations {
        let of_events = |figure: String| if e.events > 0 { figure } else { NONE.into() };
        table.row([
            e.error
                .map_or_else(|_| NONE.into(), |error| format!("{error:.2}%")),
            grouped(e.messages),
            e.spec.to_string(),
            of_events(format!("{:.3}%", output::percent(e.messages, e.events))),
            of_events(format!("{:.2}%", e.overhead_percent())),
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
            "# overhead: {:.1} cycles a message against {} cycles an event, as no cycle model is there",
            first.model.of_message(),
            first.model.event
        )?;
    }
    for e in evaluations.iter().filter(|_| args.cost) {
        writeln!(out, "# {}: {} bytes of hardware", e.spec, bytes(&e.spec))?;
    }
    for e in evaluations {
        if let Err(reason) = e.error {
            writeln!(out, "# {}: no error: {reason}", e.spec)?;
        }
    }
    let style = Style::of(&std::io::stdout());
    table.write(&mut out, style)?;
    if args.per_interval {
        intervals::text(&mut out, style, evaluations, modules)?;
    }
    Ok(out.flush()?)
}
