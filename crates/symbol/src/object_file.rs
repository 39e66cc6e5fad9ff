//! One ELF file, by its sections: symbols, debug sections, notes.
//!
//! A thin layer over `object` that turns everything malformed into "not there". Sizes come from
//! the file and are believed only as far as bytes exist; compressed sections are unpacked piece by
//! piece up to a limit, so a header that promises terabytes allocates nothing.

use std::io::Read;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, SectionHeader, SectionTable, SymbolTable};

use crate::elf::build_id_in_notes;
use crate::files::Files;

pub(crate) type Header = elf::FileHeader64<LE>;
pub(crate) type Section = elf::SectionHeader64<LE>;
pub(crate) type Table<'a> = SymbolTable<'a, Header>;

/// No debug section of a program that people run is larger once unpacked.
const MAX_UNPACKED: u64 = 4 << 30;
/// DEFLATE cannot do better than this.
const MAX_RATIO: u64 = 1032;

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

    pub(crate) fn section(&self, name: &str) -> Option<&'a Section> {
        self.sections()
            .find(|(n, _)| *n == name.as_bytes())
            .map(|(_, s)| s)
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

    /// The GNU build id; empty where there is none.
    pub(crate) fn build_id(&self) -> &'a [u8] {
        self.sections
            .iter()
            .filter(|s| s.sh_type(LE) == elf::SHT_NOTE)
            .find_map(|s| build_id_in_notes(self.raw(s)))
            .unwrap_or_default()
    }

    /// The size that a section has in memory once unpacked.
    pub(crate) fn unpacked_size(&self, name: &str) -> u64 {
        let Some(section) = self.section(name) else {
            return 0;
        };
        let raw = self.raw(section);
        match Packed::of(section, raw) {
            Some(packed) => packed.size,
            None => raw.len() as u64,
        }
    }

    /// The bytes of a section, unpacked into `files` where they are compressed.
    pub(crate) fn unpacked(&self, name: &str, files: &'a Files) -> &'a [u8] {
        let Some(section) = self.section(name) else {
            return &[];
        };
        let raw = self.raw(section);
        match Packed::of(section, raw) {
            Some(packed) => packed.unpack().map_or(&[], |bytes| files.keep(bytes)),
            None => raw,
        }
    }
}

/// A section compressed as the gABI describes.
struct Packed<'a> {
    format: u32,
    size: u64,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    fn of(section: &Section, raw: &'a [u8]) -> Option<Self> {
        if section.sh_flags(LE) & u64::from(elf::SHF_COMPRESSED) == 0 {
            return None;
        }
        let (header, bytes) = raw.split_at_checked(24).unwrap_or((&[0; 24], &[]));
        let (format, size) = (header.first_chunk()?, header[8..].first_chunk()?);
        Some(Self {
            format: u32::from_le_bytes(*format),
            size: u64::from_le_bytes(*size),
            bytes,
        })
    }

    fn unpack(&self) -> Option<Vec<u8>> {
        let possible = (self.bytes.len() as u64 + 1).saturating_mul(MAX_RATIO);
        if self.format != elf::ELFCOMPRESS_ZLIB || self.size > MAX_UNPACKED.min(possible) {
            return None;
        }
        let mut out = Vec::with_capacity(self.size as usize);
        flate2::read::ZlibDecoder::new(self.bytes)
            .take(self.size)
            .read_to_end(&mut out)
            .ok()?;
        (out.len() as u64 == self.size).then_some(out)
    }
}
