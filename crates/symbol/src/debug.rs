//! Files, lines and inlined frames from DWARF.
//!
//! The debug information is in the file itself or in a separate one that is found by build id, as
//! distributions package it; what several such files share may be in yet another one (`dwz`).
//! Opening costs time in proportion to all of it, so the caller states a limit first.

use std::path::{Path, PathBuf};

use addr2line::gimli::{self, EndianSlice, LittleEndian, SectionId};
use addr2line::{Context, LookupResult};

use crate::files::Files;
use crate::object_file::ObjectFile;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

const DEBUG_ROOT: &str = "/usr/lib/debug";

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

/// The separate debug file for a build id, where one is installed.
pub(crate) fn separate_file<'a>(build_id: &[u8], files: &'a Files) -> Option<ObjectFile<'a>> {
    let file = ObjectFile::parse(files.map(&separate_path(build_id)?).ok()?)?;
    (file.build_id() == build_id).then_some(file)
}

fn separate_path(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id
        .split_first()
        .filter(|(_, rest)| !rest.is_empty())?;
    let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
    Some(PathBuf::from(format!(
        "{DEBUG_ROOT}/.build-id/{first:02x}/{rest}.debug"
    )))
}

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

impl<'a> Debug<'a> {
    /// Opens the debug information in `file`; `None` when there is none that can be read.
    pub(crate) fn open(file: &ObjectFile<'a>, files: &'a Files) -> Option<Self> {
        file.section(".debug_info")?;
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
        if let Some(shared) = shared_file(file, files) {
            dwarf
                .load_sup(|id| Ok::<_, gimli::Error>(load(&shared, id)))
                .ok()?;
        }
        Context::from_dwarf(dwarf).ok().map(Self)
    }

    /// The frames at `address`, innermost first; the last one is the function itself.
    pub(crate) fn frames(&self, address: u64) -> Vec<Position> {
        /// Nobody inlines deeper; a damaged tree may.
        const MAX_FRAMES: usize = 64;
        let found = match self.0.find_frames(address) {
            LookupResult::Output(found) => found,
            load @ LookupResult::Load { .. } => load.skip_all_loads(),
        };
        let Ok(mut frames) = found else {
            return Vec::new();
        };
        let mut positions = Vec::new();
        while positions.len() < MAX_FRAMES
            && let Ok(Some(frame)) = frames.next()
        {
            let location = frame.location.as_ref();
            positions.push(Position {
                function: frame.function.map(|f| f.name.slice().to_vec()),
                file: location.and_then(|l| l.file).map(str::to_owned),
                line: location.and_then(|l| l.line),
            });
        }
        positions
    }
}

/// The file that `dwz` moved common parts to.
fn shared_file<'a>(file: &ObjectFile<'a>, files: &'a Files) -> Option<ObjectFile<'a>> {
    use std::os::unix::ffi::OsStrExt;
    let link = file.raw(file.section(".gnu_debugaltlink")?);
    let end = link.iter().position(|&c| c == 0)?;
    let (name, build_id) = (&link[..end], &link[end + 1..]);
    separate_file(build_id, files).or_else(|| {
        // The name is relative to the debug file; distributions keep all of them in one place.
        let name = Path::new(std::ffi::OsStr::from_bytes(name)).file_name()?;
        let path = Path::new(DEBUG_ROOT).join(".dwz");
        let candidates = [path.join(name), path.join("x86_64-linux-gnu").join(name)];
        let bytes = candidates.iter().find_map(|path| files.map(path).ok())?;
        ObjectFile::parse(bytes).filter(|f| f.build_id() == build_id)
    })
}
