//! A function's instructions as text, for other commands.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use trommel_tuple::ModuleId;

use super::notes;
use super::source::Sources;
use super::{DEFAULT_TOP, annotate};
use crate::find::FunctionMatch;
use crate::report::view::View;

/// An instruction in words.
pub(crate) struct Listed {
    /// Its vaddr.
    pub(crate) address: u64,
    /// The instruction.
    pub(crate) text: String,
    /// Executions, where these are known.
    pub(crate) count: Option<f64>,
    /// Share of the function's executions, 0 to 1.
    pub(crate) share: f64,
    /// Share of a conditional branch's executions that took it.
    pub(crate) taken: Option<f64>,
    /// The source line, where it is another one than before.
    pub(crate) source: Option<String>,
    /// Targets, values and all else that is known.
    pub(crate) notes: String,
}

/// Lists a function. The first range is where it is entered.
///
/// # Errors
/// Its code is not there.
pub(crate) fn listing(
    view: &mut View<'_>,
    module: ModuleId,
    name: String,
    ranges: Vec<Range<u64>>,
) -> Result<Vec<Listed>> {
    let found = FunctionMatch {
        module,
        name,
        ranges,
    };
    let function = annotate(view, found, DEFAULT_TOP)?;
    let path = Path::new(OsStr::from_bytes(&function.module.path));
    let mut sources = Sources::new(path);
    let mut position = None;
    let mut all = Vec::with_capacity(function.lines.len());
    for line in &function.lines {
        let location = view.locate(line.at);
        let here = (location.file.clone(), location.line);
        let is_new = location.file.is_some() && position.as_ref() != Some(&here);
        all.push(Listed {
            address: line.at.vaddr().0,
            text: line.text.clone(),
            count: line.count.map(|count| count.times),
            share: line.share,
            taken: line.taken.map(|part| part.share),
            source: is_new.then(|| notes::source(&mut sources, &location)),
            notes: notes::notes(view, line),
        });
        position = Some(here);
    }
    Ok(all)
}
