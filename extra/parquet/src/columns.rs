//! The tables: their names, and the names and types of their columns. Others read files by them, so they stay (`docs/database.md`).

use crate::table::{Column, Type};

/// Name of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Name {
    /// The files of the database.
    Epochs,
    /// Branches with where they went.
    Edges,
    /// Calls with what they called.
    Calls,
    /// Instructions with values.
    Values,
    /// Loads with how long they took.
    Latencies,
    /// Stores and loads that are in each other's way.
    Conflicts,
}

impl Name {
    /// Every one, in the order of their numbers.
    pub(crate) const ALL: [Self; 6] = [
        Self::Epochs,
        Self::Edges,
        Self::Calls,
        Self::Values,
        Self::Latencies,
        Self::Conflicts,
    ];

    /// Returns the name of its file, without the extension.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Epochs => "epochs",
            Self::Edges => "edges",
            Self::Calls => "calls",
            Self::Values => "values",
            Self::Latencies => "latencies",
            Self::Conflicts => "conflicts",
        }
    }

    /// Its columns, in order.
    pub(crate) fn columns(self) -> Vec<Column> {
        let own: &[&[Column]] = match self {
            Self::Epochs => &[EPOCH],
            Self::Edges | Self::Calls => &[FROM, TO, TRANSFER, COUNT, SITE],
            Self::Values => &[KIND, AT, EXECUTIONS, VALUE, COUNT, SHARE],
            Self::Latencies => &[AT, EXECUTIONS, LATENCY, COUNT, SHARE],
            Self::Conflicts => &[KIND, STORE, LOAD, COUNT, SAMPLES],
        };
        [KEY]
            .iter()
            .chain(own)
            .flat_map(|part| part.iter().copied())
            .collect()
    }
}

const fn column(name: &'static str, holds: Type) -> Column {
    Column {
        name,
        holds,
        optional: false,
    }
}

const fn optional(name: &'static str, holds: Type) -> Column {
    Column {
        name,
        holds,
        optional: true,
    }
}

/// Key of every table: the file of the database, the machine, and when its time begins.
const KEY: &[Column] = &[
    column("epoch", Type::Text),
    column("host", Type::Text),
    column("begin", Type::Moment),
];

const EPOCH: &[Column] = &[
    column("end", Type::Moment),
    column("merged", Type::Flag),
    column("program", Type::Text),
    optional("program_build_id", Type::Text),
    optional("pid", Type::Number),
    column("command", Type::Text),
    column("compressor", Type::Text),
    column("wall_ns", Type::Number),
    column("target_cpu_ns", Type::Number),
    column("host_cpu_ns", Type::Number),
    optional("windows", Type::Number),
    optional("window_instructions", Type::Number),
    optional("sampled_cpu_ns", Type::Number),
    optional("in_windows_ns", Type::Number),
    optional("in_kernel_ns", Type::Number),
    optional("covered_ns", Type::Number),
];

const AT: &[Column] = &[
    column("module", Type::Text),
    optional("build_id", Type::Text),
    column("vaddr", Type::Number),
    optional("function", Type::Text),
    optional("file", Type::Text),
    optional("line", Type::Number),
];

const FROM: &[Column] = &[
    column("from_module", Type::Text),
    optional("from_build_id", Type::Text),
    column("from_vaddr", Type::Number),
    optional("from_function", Type::Text),
    optional("from_file", Type::Text),
    optional("from_line", Type::Number),
];

const TO: &[Column] = &[
    column("to_module", Type::Text),
    optional("to_build_id", Type::Text),
    column("to_vaddr", Type::Number),
    optional("to_function", Type::Text),
    optional("to_file", Type::Text),
    optional("to_line", Type::Number),
];

const STORE: &[Column] = &[
    column("store_module", Type::Text),
    optional("store_build_id", Type::Text),
    column("store_vaddr", Type::Number),
    optional("store_function", Type::Text),
    optional("store_file", Type::Text),
    optional("store_line", Type::Number),
];

const LOAD: &[Column] = &[
    column("load_module", Type::Text),
    optional("load_build_id", Type::Text),
    column("load_vaddr", Type::Number),
    optional("load_function", Type::Text),
    optional("load_file", Type::Text),
    optional("load_line", Type::Number),
];

const KIND: &[Column] = &[column("kind", Type::Text)];

const TRANSFER: &[Column] = KIND;

const COUNT: &[Column] = &[
    column("count", Type::Number),
    optional("low", Type::Number),
    optional("high", Type::Number),
];

const SITE: &[Column] = &[
    optional("samples_of_site", Type::Number),
    optional("draws_of_site", Type::Real),
];

const SAMPLES: &[Column] = &[column("samples", Type::Number)];

const EXECUTIONS: &[Column] = &[
    column("executions", Type::Number),
    optional("executions_low", Type::Number),
    optional("executions_high", Type::Number),
    optional("samples", Type::Number),
    optional("draws", Type::Real),
    optional("kept", Type::Real),
];

const VALUE: &[Column] = &[column("value", Type::Number)];

const LATENCY: &[Column] = &[
    column("cycles", Type::Number),
    optional("level", Type::Text),
];

const SHARE: &[Column] = &[
    column("share", Type::Real),
    optional("share_low", Type::Real),
    optional("share_high", Type::Real),
];
