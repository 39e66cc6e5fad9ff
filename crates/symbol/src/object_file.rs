//! One ELF file, by its sections: symbols, debug sections, notes.
//!
//! A thin layer over `object` that turns everything malformed into "not there". Sizes come from
//! the file and are believed only as far as bytes exist. A debug section is found by its name, or by the
//! one that it has when it is compressed in GNU's older way.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, SectionTable, SymbolTable};

use crate::elf::build_id_in_notes;
use crate::files::Files;
use crate::packed::Packed;

pub(crate) type Header = elf::FileHeader64<LE>;
pub(crate) type Section = elf::SectionHeader64<LE>;
pub(crate) type Table<'a> = SymbolTable<'a, Header>;

/// An ELF file whose section table could be read.
#[derive(Clone, Copy)]
pub(crate) struct ObjectFile<'a> {
    bytes: &'a [u8],
    sections: SectionTable<'a, Header>,
}

impl<'a> ObjectFile<'a> {
    /// The file of these bytes; `None` unless it is 64-bit little-endian ELF with sections.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = Header::parse(bytes).ok()?;
        if !header.is_class_64() || !header.is_little_endian() {
            return None;
        }
        let sections = header.sections(LE, bytes).ok()?;
        Some(Self { bytes, sections })
    }

    /// The whole file.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn sections(&self) -> impl Iterator<Item = (&'a [u8], &'a Section)> {
        let sections = self.sections;
        sections
            .iter()
            .map(move |s| (sections.section_name(LE, s).unwrap_or_default(), s))
    }

    /// The sections that are wanted. Sections of a damaged file may overlap, and reading all of them could take for ever. So these end where
    /// they have more bytes than the file.
    pub(crate) fn once(
        &self,
        wanted: impl Fn(&[u8], &Section) -> bool,
    ) -> impl Iterator<Item = (&'a [u8], &'a Section)> {
        let wanted = self.sections().filter(move |(name, s)| wanted(name, s));
        within(
            self.bytes,
            wanted.map(|(name, s)| (self.raw(s).len(), (name, s))),
        )
    }

    pub(crate) fn section(&self, name: &str) -> Option<&'a Section> {
        self.sections()
            .find(|(n, _)| *n == name.as_bytes())
            .map(|(_, s)| s)
    }

    /// Returns true if BOLT has rewritten the file.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.section(".note.bolt_info").is_some()
    }

    /// The bytes of a section as they are in the file.
    pub(crate) fn raw(&self, section: &'a Section) -> &'a [u8] {
        section.data(LE, self.bytes).unwrap_or_default()
    }

    /// Returns true if instructions are in the section of this number.
    pub(crate) fn is_code(&self, index: u16) -> bool {
        self.sections
            .section(object::SectionIndex(index.into()))
            .is_ok_and(|s| s.sh_flags(LE) & u64::from(elf::SHF_EXECINSTR) != 0)
    }

    /// `.symtab` or `.dynsym`, empty where there is none.
    pub(crate) fn symbols(&self, section_type: u32) -> Table<'a> {
        self.sections
            .symbols(LE, self.bytes, section_type)
            .unwrap_or_default()
    }

    /// The GNU build id; empty where there is none. A file without sections has it in a segment, as all programs do in memory.
    pub(crate) fn build_id(&self) -> &'a [u8] {
        let mut notes = self.once(|_, s| s.sh_type(LE) == elf::SHT_NOTE);
        let in_sections = notes.find_map(|(_, s)| build_id_in_notes(self.raw(s)));
        let segments = || {
            Header::parse(self.bytes)
                .ok()?
                .program_headers(LE, self.bytes)
                .ok()
        };
        let in_segments = || {
            let notes = segments()?.iter().filter(|s| s.p_type(LE) == elf::PT_NOTE);
            let bytes = notes.filter_map(|s| s.data(LE, self.bytes).ok());
            let mut notes = within(self.bytes, bytes.map(|bytes| (bytes.len(), bytes)));
            notes.find_map(build_id_in_notes)
        };
        in_sections.or_else(in_segments).unwrap_or_default()
    }

    /// The size that a section has in memory once unpacked.
    pub(crate) fn unpacked_size(&self, name: &str) -> u64 {
        let Some((name, section)) = self.debug_section(name) else {
            return 0;
        };
        let raw = self.raw(section);
        Packed::of(name, section.sh_flags(LE), raw).map_or(raw.len() as u64, |packed| packed.size())
    }

    /// The bytes of a section, unpacked into `files` where they are compressed.
    pub(crate) fn unpacked(&self, name: &str, files: &'a Files) -> &'a [u8] {
        let Some((name, section)) = self.debug_section(name) else {
            return &[];
        };
        let raw = self.raw(section);
        match Packed::of(name, section.sh_flags(LE), raw) {
            Some(packed) => packed.unpack(files).unwrap_or_default(),
            None => raw,
        }
    }

    /// Returns true if a section is compressed, and has no content: it is damaged, or unpacks to more than there may be.
    pub(crate) fn is_damaged(&self, name: &str, files: &'a Files) -> bool {
        let Some((found, section)) = self.debug_section(name) else {
            return false;
        };
        let packed = Packed::of(found, section.sh_flags(LE), self.raw(section));
        packed.is_some_and(|packed| packed.size() > 0 && packed.unpack(files).is_none())
    }

    /// The section of a name, such as `.debug_info`, or `.zdebug_info` in its place.
    pub(crate) fn debug_section(&self, name: &str) -> Option<(&'a [u8], &'a Section)> {
        let older = |found: &[u8]| {
            let rest = found.strip_prefix(b".z");
            rest.is_some_and(|rest| name.as_bytes().strip_prefix(b".") == Some(rest))
        };
        self.sections()
            .find(|(found, _)| *found == name.as_bytes() || older(found))
    }
}

/// The first of some parts of a file, each with its number of bytes, that have no more bytes together than the file.
fn within<T>(file: &[u8], parts: impl Iterator<Item = (usize, T)>) -> impl Iterator<Item = T> {
    let mut left = file.len();
    parts.map_while(move |(size, part)| {
        left = left.checked_sub(size)?;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of so many sections of notes, each the whole file.
    fn overlapping(count: u16) -> Vec<u8> {
        let mut file = vec![0_u8; 64 + 64 * usize::from(count)];
        let size = file.len() as u64;
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[40..48].copy_from_slice(&64_u64.to_le_bytes());
        file[58..60].copy_from_slice(&64_u16.to_le_bytes());
        file[60..62].copy_from_slice(&count.to_le_bytes());
        // The names of sections.
        file[62] = 1;
        for header in file[64..].chunks_exact_mut(64) {
            header[4] = elf::SHT_NOTE as u8;
            header[32..40].copy_from_slice(&size.to_le_bytes());
        }
        file
    }

    #[test]
    fn no_more_is_read_than_the_file_has() {
        for count in [2, 5, 1000] {
            let bytes = overlapping(count);
            let file = ObjectFile::parse(&bytes).expect("an ELF file");
            assert_eq!(file.sections().count(), usize::from(count));
            let notes = file.once(|_, s| s.sh_type(LE) == elf::SHT_NOTE);
            assert_eq!(notes.count(), 1, "{count}");
            assert!(file.build_id().is_empty());
        }
    }

    #[test]
    fn all_parts_of_a_sound_file_are_read() {
        let bytes = std::fs::read("/proc/self/exe").expect("own file");
        let file = ObjectFile::parse(&bytes).expect("an ELF file");
        assert_eq!(file.once(|_, _| true).count(), file.sections().count());
    }
}
