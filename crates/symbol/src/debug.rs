//! Files, lines and inlined frames from DWARF.
//!
//! The debug information is in the file itself or in a separate one; what several such files share may be in
//! yet another one (`dwz`). Opening costs time in proportion to all of it, so the caller states a limit first.

use addr2line::gimli::{self, EndianSlice, LittleEndian, SectionId};
use addr2line::{Context, Frame, LookupResult};

use crate::files::Files;
use crate::object_file::ObjectFile;

/// Nobody inlines deeper; a damaged tree may.
const MAX_FRAMES: usize = 64;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// Debug information of one file.
pub(crate) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

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

/// A position in source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    /// The function's linkage name, or its plain name.
    pub(crate) function: Option<Vec<u8>>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

/// The debug information of one module.
pub(crate) struct Debug<'a>(Context<Slice<'a>>);

/// The debug information in `file`, and what it has in common with others in `shared`; `None` when there is none that can be read.
pub(crate) fn dwarf<'a>(
    file: &ObjectFile<'a>,
    shared: Option<&ObjectFile<'a>>,
    files: &'a Files,
) -> Option<Dwarf<'a>> {
    if file.unpacked_size(".debug_info") == 0 {
        return None;
    }
    let load = |file: &ObjectFile<'a>, id: SectionId| -> Slice<'a> {
        let wanted = SECTIONS.contains(&id.name());
        let bytes = if wanted {
            file.unpacked(id.name(), files)
        } else {
            &[]
        };
        Slice::new(bytes, LittleEndian)
    };
    let mut dwarf = gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(load(file, id))).ok()?;
    if let Some(shared) = shared {
        dwarf
            .load_sup(|id| Ok::<_, gimli::Error>(load(shared, id)))
            .ok()?;
    }
    Some(dwarf)
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
        Context::from_dwarf(dwarf).ok().map(Self)
    }

    /// The lines of the instructions in a range, in the order of their addresses.
    pub(crate) fn rows(&self, range: &std::ops::Range<u64>) -> Vec<Row> {
        let Ok(found) = self.0.find_location_range(range.start, range.end) else {
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
        let location = self.0.find_location(address).ok()??;
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
    fn walk<T>(&self, address: u64, make: impl Fn(&Frame<'_, Slice<'a>>) -> T) -> Vec<T> {
        let found = match self.0.find_frames(address) {
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
