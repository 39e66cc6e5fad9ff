//! One Parquet file, row by row.
//!
//! # Problem
//! Parquet is written column by column, in groups of rows, each column of one type; a database is read epoch by epoch, and may be larger than
//! memory.
//!
//! # Strategy
//! A table has [`Column`]s by name and [`Type`]. Rows come as [`Cell`]s, in the order of the columns, and are kept by column until there are as many as a group
//! has. Texts repeat, so equal ones of a group are kept once; in the file the dictionaries of Parquet do the same.
//!
//! # Invariants
//! The types of Parquet are chosen here alone: texts are UTF-8 strings, numbers unsigned integers of 64 bits, moments milliseconds
//! since 1970 in UTC.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::parser::parse_message_type;

/// Rows of a group: with some 30 columns a few tens of megabytes.
const ROWS: usize = 1 << 16;

/// Type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    /// UTF-8.
    Text,
    /// 64 bits, not negative.
    Number,
    /// Milliseconds since 1970.
    Moment,
    /// A floating-point number.
    Real,
    /// Yes or no.
    Flag,
}

/// A column of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) holds: Type,
    /// It may be null.
    pub(crate) optional: bool,
}

/// Value of a row in a column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Cell<'a> {
    Null,
    Text(&'a str),
    Number(u64),
    Moment(u64),
    Real(f64),
    Flag(bool),
}

impl<'a> Cell<'a> {
    /// Null where there is no text.
    pub(crate) fn text(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }

    /// Null where there is no number.
    pub(crate) fn number(number: Option<u64>) -> Self {
        number.map_or(Self::Null, Self::Number)
    }

    /// Null where there is no number.
    pub(crate) fn real(number: Option<f64>) -> Self {
        number.map_or(Self::Null, Self::Real)
    }
}

/// Values of a column in the rows that are not written yet: nulls are in the levels alone.
struct Kept {
    column: Column,
    values: Values,
    /// 0 for each null, 1 for each value.
    levels: Vec<i16>,
}

enum Values {
    Text {
        all: Vec<ByteArray>,
        known: HashMap<Box<str>, ByteArray>,
    },
    Integer(Vec<i64>),
    Real(Vec<f64>),
    Flag(Vec<bool>),
}

/// A file that is being written.
pub(crate) struct Table {
    writer: SerializedFileWriter<File>,
    columns: Vec<Kept>,
    /// Number of these rows that are in the file already.
    rows: u64,
}

impl Table {
    /// Makes the file, or makes it anew.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn create(path: &Path, name: &str, columns: &[Column]) -> Result<Self> {
        let failed = || format!("{}: cannot be written", path.display());
        let schema = parse_message_type(&schema(name, columns)).context("its schema is wrong")?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(format!("trommel-parquet {}", env!("CARGO_PKG_VERSION")))
            .build();
        let file = File::create(path).with_context(failed)?;
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            writer: writer.with_context(failed)?,
            columns: columns.iter().map(|column| Kept::new(*column)).collect(),
            rows: 0,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// The file cannot be written, or the cells are not the columns'.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        ensure!(cells.len() == self.columns.len(), "a row of another table");
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.keep(*cell)?;
        }
        self.rows += 1;
        match self.rows % ROWS as u64 {
            0 => self.group(),
            _ => Ok(()),
        }
    }

    /// Writes what is left, and how many rows there are.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self) -> Result<u64> {
        if !self.rows.is_multiple_of(ROWS as u64) {
            self.group()?;
        }
        self.writer.close()?;
        Ok(self.rows)
    }

    fn group(&mut self) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            column.write(&mut group)?;
        }
        group.close()?;
        Ok(())
    }
}

impl Kept {
    fn new(column: Column) -> Self {
        let values = match column.holds {
            Type::Text => Values::Text {
                all: Vec::new(),
                known: HashMap::new(),
            },
            Type::Number | Type::Moment => Values::Integer(Vec::new()),
            Type::Real => Values::Real(Vec::new()),
            Type::Flag => Values::Flag(Vec::new()),
        };
        Self {
            column,
            values,
            levels: Vec::new(),
        }
    }

    fn keep(&mut self, cell: Cell<'_>) -> Result<()> {
        let Column {
            name,
            holds,
            optional,
        } = self.column;
        match (&mut self.values, cell, holds) {
            (_, Cell::Null, _) if optional => {}
            (Values::Text { all, known }, Cell::Text(text), _) => all.push(match known.get(text) {
                Some(bytes) => bytes.clone(),
                None => {
                    let bytes = ByteArray::from(text);
                    known.insert(text.into(), bytes.clone());
                    bytes
                }
            }),
            // The bits are kept: the schema says that there is no sign.
            (Values::Integer(all), Cell::Number(number), Type::Number) => all.push(number as i64),
            (Values::Integer(all), Cell::Moment(time), Type::Moment) => {
                all.push(i64::try_from(time).unwrap_or(i64::MAX));
            }
            (Values::Real(all), Cell::Real(number), _) => all.push(number),
            (Values::Flag(all), Cell::Flag(flag), _) => all.push(flag),
            (_, cell, _) => anyhow::bail!("column {name} holds {holds:?}, not {cell:?}"),
        }
        self.levels.push(i16::from(cell != Cell::Null));
        Ok(())
    }

    /// Writes the column of a group, and forgets it.
    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<()> {
        let mut to = group.next_column()?.context("a column too many")?;
        let levels = self.column.optional.then_some(&self.levels[..]);
        match &mut self.values {
            Values::Text { all, known } => {
                put::<ByteArrayType>(&mut to, all, levels)?;
                known.clear();
            }
            Values::Integer(all) => put::<Int64Type>(&mut to, all, levels)?,
            Values::Real(all) => put::<DoubleType>(&mut to, all, levels)?,
            Values::Flag(all) => put::<BoolType>(&mut to, all, levels)?,
        }
        to.close()?;
        self.levels.clear();
        Ok(())
    }
}

fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<()> {
    to.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
    Ok(())
}

/// The schema in the language of Parquet.
fn schema(name: &str, columns: &[Column]) -> String {
    let mut text = format!("message {name} {{\n");
    for column in columns {
        let repetition = if column.optional {
            "optional"
        } else {
            "required"
        };
        let (physical, logical) = match column.holds {
            Type::Text => ("binary", " (STRING)"),
            Type::Number => ("int64", " (INTEGER(64,false))"),
            Type::Moment => ("int64", " (TIMESTAMP(MILLIS,true))"),
            Type::Real => ("double", ""),
            Type::Flag => ("boolean", ""),
        };
        let _ = writeln!(text, "  {repetition} {physical} {}{logical};", column.name);
    }
    text.push('}');
    text
}
