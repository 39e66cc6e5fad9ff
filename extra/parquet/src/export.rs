//! From a database to a directory of tables.
//!
//! # Problem
//! A database may be larger than memory, and changes while it is read. Whoever reads the tables must not find some of one export and some of another, or half a
//! file.
//!
//! # Strategy
//! Epochs are read one at a time and written to files under other names. Where the database changed meanwhile, these are begun anew
//! ([`Database::each`]). When all are whole they get their names, the table of epochs last.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use trommel_store::StoreError;
use trommel_store::database::{Database, EpochFilter};
use trommel_symbol::Files;

use crate::columns::Name;
use crate::names::Names;
use crate::rows::Rows;
use crate::table::Table;

/// Result of an export.
pub(crate) struct Exported {
    /// Files of the database that were read.
    pub(crate) epochs: u64,
    /// Files that were left out, and the reasons.
    pub(crate) skipped: Vec<StoreError>,
    /// The tables.
    pub(crate) tables: Vec<Made>,
}

/// A table that was made.
pub(crate) struct Made {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// Tables that have no names yet.
struct Unfinished {
    tables: Vec<(Name, Table)>,
    epochs: u64,
}

/// Writes all epochs of the database in `from` to the directory `to`, which is made if it is not there.
///
/// # Errors
/// There is no database, no epoch in it can be read, or the tables cannot be written. Earlier ones are as they were then.
pub(crate) fn export(from: &Path, to: &Path) -> Result<Exported> {
    match fs::metadata(from) {
        Err(source) => bail!(
            "{}: {source}; name the directory that `trommel daemon --db DIRECTORY` writes",
            from.display()
        ),
        Ok(there) if !there.is_dir() => bail!(
            "{}: no directory, so no database; `trommel report --json` gives what is in a profile file",
            from.display()
        ),
        Ok(_) => {}
    }
    fs::create_dir_all(to).with_context(|| format!("{}: cannot be made", to.display()))?;
    let done = write(from, to);
    // What has its name is not there any more under the other.
    for name in Name::ALL {
        let _ = fs::remove_file(unfinished(to, name));
    }
    done
}

fn write(from: &Path, to: &Path) -> Result<Exported> {
    let files = Files::new();
    let mut names = Names::new(&files);
    let begin = || {
        let table = |name: Name| {
            let path = unfinished(to, name);
            Ok((name, Table::create(&path, name.text(), &name.columns())?))
        };
        Ok(Unfinished {
            tables: Name::ALL.into_iter().map(table).collect::<Result<_>>()?,
            epochs: 0,
        })
    };
    let (written, skipped) = Database::at(from).each(
        &EpochFilter::default(),
        begin,
        |state, epoch| -> Result<()> {
            let mut rows = Rows::of(&epoch, &mut names);
            for (name, table) in &mut state.tables {
                let failed = || format!("{}: cannot be written", unfinished(to, *name).display());
                rows.write(*name, table).with_context(failed)?;
            }
            state.epochs += 1;
            Ok(())
        },
    )?;
    if written.epochs == 0 {
        let why: String = skipped.iter().map(|error| format!("\n  {error}")).collect();
        bail!(
            "{}: the directory holds no epochs{}; `trommel daemon --db {0}` writes them{why}",
            from.display(),
            if skipped.is_empty() {
                ""
            } else {
                " that can be read"
            },
        );
    }
    let mut tables = Vec::new();
    for (name, table) in written.tables {
        let failed = || format!("{}: cannot be written", unfinished(to, name).display());
        tables.push((name, table.finish().with_context(failed)?));
    }
    // Who finds the epochs finds the rest.
    let mut made = Vec::new();
    for (name, rows) in tables.into_iter().rev() {
        let path = to.join(format!("{}.parquet", name.text()));
        let failed = || format!("{}: cannot be written", path.display());
        fs::rename(unfinished(to, name), &path).with_context(failed)?;
        let bytes = fs::metadata(&path).with_context(failed)?.len();
        made.push(Made {
            name: name.text(),
            path,
            rows,
            bytes,
        });
    }
    made.reverse();
    Ok(Exported {
        epochs: written.epochs,
        skipped,
        tables: made,
    })
}

/// The name of a table until it is whole.
fn unfinished(to: &Path, name: Name) -> PathBuf {
    to.join(format!(
        ".new.{}.{}.parquet",
        std::process::id(),
        name.text()
    ))
}
