//! `trommel-parquet`: a profile database as Parquet files, for databases and data frames.
//!
//! # Problem
//! Who compares programs over weeks and machines wants to ask in a language of their own: SQL, pandas, R. They read Parquet; and that
//! takes crates which nobody needs who profiles.
//!
//! # Strategy
//! A command of its own, outside of Trommel's workspace. It reads what `trommel report` reads, by the same crates, and writes a
//! row for each branch, call, value, latency and conflict of each epoch (`rows`), with names (`names`), to six tables (`columns`, `table`, `export`).
//! They are described in `docs/database.md`.

mod columns;
mod export;
mod names;
mod rows;
mod table;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;

use export::Exported;

/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.parquet/1";

/// Write a profile database (`trommel daemon`) to Parquet files: one for each table, a row for each entry of each epoch.
#[derive(Parser, Debug)]
#[command(
    version,
    after_help = "\
Examples:
  trommel-parquet profiles -o tables            epochs, edges, calls, values, latencies, conflicts
  trommel-parquet profiles -o tables --json     what was written, for scripts
  duckdb -c \"SELECT to_function, sum(count) FROM 'tables/calls.parquet' GROUP BY ALL\"

The columns are described in docs/database.md. The database may be written to meanwhile."
)]
struct Arguments {
    /// The directory of the database
    database: PathBuf,

    /// The directory for the tables; those that are there are replaced
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Write what was done as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = export::export(&arguments.database, &arguments.output).and_then(|exported| {
        for error in &exported.skipped {
            complain(&format!("left out: {error}"));
        }
        said(&arguments, &exported)?;
        Ok(())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let closed = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
            if error.downcast_ref::<io::Error>().is_some_and(closed) {
                return ExitCode::SUCCESS;
            }
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Says what went wrong, without what terminals obey. When even stderr is gone there is nobody to tell.
fn complain(what: &str) {
    let plain = |c: char| !c.is_control() || c == '\n';
    let what: String = what
        .chars()
        .map(|c| if plain(c) { c } else { '?' })
        .collect();
    let _ = writeln!(io::stderr(), "trommel-parquet: {what}");
}

/// Reports what was written.
fn said(arguments: &Arguments, exported: &Exported) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        let tables: Vec<_> = (exported.tables.iter())
            .map(|table| {
                json!({
                    "name": table.name,
                    "path": table.path.to_string_lossy(),
                    "rows": table.rows,
                    "bytes": table.bytes,
                })
            })
            .collect();
        let skipped: Vec<_> = exported.skipped.iter().map(ToString::to_string).collect();
        let all = json!({
            "schema": SCHEMA,
            "database": arguments.database.to_string_lossy(),
            "files": exported.epochs,
            "skipped": skipped,
            "tables": tables,
        });
        return writeln!(out, "{all:#}");
    }
    writeln!(
        out,
        "# {}: {} files read, {} left out",
        arguments.database.display(),
        exported.epochs,
        exported.skipped.len()
    )?;
    writeln!(out, "# {:>10}  {:>12}  table", "rows", "bytes")?;
    for table in &exported.tables {
        let path = table.path.display();
        writeln!(out, "  {:>10}  {:>12}  {path}", table.rows, table.bytes)?;
    }
    out.flush()
}
