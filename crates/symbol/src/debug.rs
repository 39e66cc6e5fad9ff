//! Files, lines and inlined frames from DWARF.
//!
//! The debug information is in the file itself or in a separate one; what several such files share may be in
//! yet another one (`dwz`). Opening costs time in proportion to all of it, so the caller states a limit first.

use std::collections::HashSet;

use addr2line::gimli::{self, AbbreviationsCacheStrategy, Section, SectionId};
use addr2line::{Context, Frame, LookupResult};

use crate::abbreviations::Tables;
use crate::files::Files;
use crate::meter::{Meter, Metered};
use crate::object_file::ObjectFile;
use crate::unit_ranges;

/// Nobody inlines deeper; a damaged tree may.
const MAX_FRAMES: usize = 64;

/// Attributes of one sort of entry at most: compilers write 20. An attribute without bytes costs time that no meter counts.
const MOST_ATTRIBUTES: u32 = 512;

/// Debug information of one file, with the meters of its sections.
pub(crate) struct Dwarf<'a> {
    pub(crate) sections: gimli::Dwarf<Metered<'a>>,
    pub(crate) meters: Vec<&'a Meter>,
}

impl Dwarf<'_> {
    /// Says whether the same bytes were to be read again and again, and reading ended before its end.
    pub(crate) fn is_spent(&self) -> bool {
        self.meters.iter().any(|meter| meter.is_spent())
    }
}

/// The sections that positions are derived from.
const SECTIONS: [&str; 9] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
];

/// Bytes of debug information in `file`.
pub(crate) fn size(file: &ObjectFile<'_>) -> u64 {
    SECTIONS
        .iter()
        .map(|name| file.unpacked_size(name))
        .fold(0, u64::saturating_add)
}

/// Returns true if debug information in `file` is compressed, and cannot be unpacked.
pub(crate) fn is_damaged<'a>(file: &ObjectFile<'a>, files: &'a Files) -> bool {
    SECTIONS.iter().any(|name| file.is_damaged(name, files))
}

/// A position in source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    /// The function's linkage name, or its plain name.
    pub(crate) function: Option<Vec<u8>>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

/// The debug information of one module.
pub(crate) struct Debug<'a> {
    context: Context<Metered<'a>>,
    meters: Vec<&'a Meter>,
}

/// The debug information in `file`, and what it has in common with others in `shared`; `None` when there is none that can be read.
pub(crate) fn dwarf<'a>(
    file: &ObjectFile<'a>,
    shared: Option<&ObjectFile<'a>>,
    files: &'a Files,
) -> Option<Dwarf<'a>> {
    if file.unpacked_size(".debug_info") == 0 {
        return None;
    }
    let mut meters = Vec::new();
    let mut sections = load(file, files, &mut meters)?;
    if let Some(shared) = shared {
        sections.set_sup(load(shared, files, &mut meters)?);
    }
    Some(Dwarf { sections, meters })
}

fn load<'a>(
    file: &ObjectFile<'a>,
    files: &'a Files,
    meters: &mut Vec<&'a Meter>,
) -> Option<gimli::Dwarf<Metered<'a>>> {
    let mut there = SECTIONS.map(|name| (name, file.unpacked(name, files)));
    if file.is_rewritten() {
        let tables = there.iter_mut().find(|(name, _)| *name == ".debug_abbrev");
        tables.into_iter().for_each(|(_, bytes)| {
            *bytes = files.keep(unit_ranges::without(bytes));
        });
    }
    let all = there.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let section = |id: SectionId| {
        let wanted = there.iter().find(|(name, _)| *name == id.name());
        let bytes = wanted.map_or(&[][..], |(_, bytes)| bytes);
        let meter = files.meter(allowance(id, bytes.len() as u64, all));
        meter.begin();
        meters.push(meter);
        Ok::<_, gimli::Error>(Metered::new(bytes, meter))
    };
    let mut dwarf = gimli::Dwarf::load(section).ok()?;
    if !is_plain(&dwarf) {
        meters.iter().for_each(|meter| meter.spend());
        return Some(dwarf);
    }
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::All);
    Some(dwarf)
}

/// Numbers and bytes of texts that may be read from a section of `size` bytes, in debug information of `all` bytes.
///
/// Sound files are read a few times over: a function once with its unit and once by itself, names and directories by each that has them.
fn allowance(id: SectionId, size: u64, all: u64) -> u64 {
    const LITTLE: u64 = 1 << 20;
    match id {
        // Units of `dwz` share the header of a line program, but not the rows, of which each takes 24 bytes.
        SectionId::DebugLine => LITTLE + (size * 16).min(size * 4 + 64 * LITTLE),
        SectionId::DebugAbbrev | SectionId::DebugRanges | SectionId::DebugRngLists => {
            LITTLE + size * 8
        }
        _ => 16 * LITTLE + (all * 64).min(all * 16 + 512 * LITTLE),
    }
}

/// Says whether each table of abbreviations that a unit has can be read, with few attributes each.
///
/// Tables may lie in each other, so all that is read has a bound.
fn is_plain(dwarf: &gimli::Dwarf<Metered<'_>>) -> bool {
    let tables = dwarf.debug_abbrev.reader().slice();
    let size = tables.len() as u64;
    let mut left = allowance(SectionId::DebugAbbrev, size, size);
    let mut known = HashSet::new();
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        let offset = header.debug_abbrev_offset().0;
        if !known.insert(offset) {
            continue;
        }
        let mut table = Tables::new(tables, offset);
        let many = has_many_attributes(&mut table).unwrap_or(false);
        let read = table.at().saturating_sub(offset) as u64;
        match left.checked_sub(read) {
            Some(rest) if !many => left = rest,
            _ => return false,
        }
    }
    true
}

/// Passes a table, and says whether one of its entries has more attributes than [`MOST_ATTRIBUTES`]; `None` if it is cut short.
fn has_many_attributes(table: &mut Tables<'_>) -> Option<bool> {
    while table.entry()?.is_some() {
        let mut attributes = 0;
        while table.attribute()?.is_some() {
            attributes += 1;
            if attributes > MOST_ATTRIBUTES {
                return Some(true);
            }
        }
    }
    Some(false)
}

/// Instructions of one source line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) file: String,
    pub(crate) line: u32,
}

impl<'a> Debug<'a> {
    /// An index of debug information; `None` when it cannot be read.
    pub(crate) fn open(dwarf: Dwarf<'a>) -> Option<Self> {
        let Dwarf { sections, meters } = dwarf;
        let context = Context::from_dwarf(sections).ok()?;
        Some(Self { context, meters })
    }

    /// Says whether reading ended early, as [`Dwarf::is_spent`].
    pub(crate) fn is_spent(&self) -> bool {
        self.meters.iter().any(|meter| meter.is_spent())
    }

    fn begin(&self) -> &Context<Metered<'a>> {
        self.meters.iter().for_each(|meter| meter.begin());
        &self.context
    }

    /// The lines of the instructions in a range, in the order of their addresses.
    pub(crate) fn rows(&self, range: &std::ops::Range<u64>) -> Vec<Row> {
        let Ok(found) = self.begin().find_location_range(range.start, range.end) else {
            return Vec::new();
        };
        let row = |(start, length, location): (u64, u64, addr2line::Location<'_>)| {
            Some(Row {
                start,
                end: start.saturating_add(length),
                file: location.file?.to_owned(),
                line: location.line.filter(|line| *line > 0)?,
            })
        };
        found.filter_map(row).collect()
    }

    /// The source file and line at `address`.
    pub(crate) fn line(&self, address: u64) -> Option<(&str, u32)> {
        let location = self.begin().find_location(address).ok()??;
        Some((location.file?, location.line.filter(|line| *line > 0)?))
    }

    /// Names of the functions inlined at `address` as they are in the file, innermost first.
    pub(crate) fn inlined(&self, address: u64) -> Vec<Option<&'a [u8]>> {
        let mut names = self.walk(address, |frame| {
            frame.function.as_ref().map(|f| f.name.slice())
        });
        // The function itself.
        names.pop();
        names
    }

    /// The frames at `address`, innermost first; the last one is the function itself.
    pub(crate) fn frames(&self, address: u64) -> Vec<Position> {
        self.walk(address, |frame| {
            let location = frame.location.as_ref();
            Position {
                function: frame.function.as_ref().map(|f| f.name.slice().to_vec()),
                file: location.and_then(|l| l.file).map(str::to_owned),
                line: location.and_then(|l| l.line),
            }
        })
    }

    /// Makes something of each frame at `address`, up to the first that cannot be read.
    fn walk<T>(&self, address: u64, make: impl Fn(&Frame<'_, Metered<'a>>) -> T) -> Vec<T> {
        let found = match self.begin().find_frames(address) {
            LookupResult::Output(found) => found,
            load @ LookupResult::Load { .. } => load.skip_all_loads(),
        };
        let Ok(mut frames) = found else {
            return Vec::new();
        };
        let mut made = Vec::new();
        while made.len() < MAX_FRAMES
            && let Ok(Some(frame)) = frames.next()
        {
            made.push(make(&frame));
        }
        made
    }
}
