//! The code of a module, and its other bytes that never change, as its file has them.
//!
//! Bytes are found by program headers alone, so a file without sections has code too. What the headers promise and the file
//! does not have is not there. Nor is a segment that goes on after the last address: the vaddr after any instruction is a number.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::object_file::Header;

/// Code by vaddr.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Code<'a> {
    parts: Vec<(u64, &'a [u8])>,
    entry: Option<u64>,
}

impl<'a> Code<'a> {
    /// The executable segments of an ELF file; `None` where it has none.
    pub(crate) fn of(file: &'a [u8]) -> Option<Self> {
        Self::segments(file, |flags| flags & elf::PF_X != 0)
    }

    /// The segments of an ELF file that the program cannot write.
    pub(crate) fn constants_of(file: &'a [u8]) -> Option<Self> {
        Self::segments(file, |flags| flags & elf::PF_W == 0)
    }

    fn segments(file: &'a [u8], wanted: impl Fn(u32) -> bool) -> Option<Self> {
        let header = Header::parse(file).ok()?;
        let segments = header.program_headers(LE, file).ok()?.iter();
        let parts = segments.filter(|s| s.p_type(LE) == elf::PT_LOAD && wanted(s.p_flags(LE)));
        let parts: Vec<_> = parts
            .filter_map(|s| Some((s.p_vaddr(LE), s.data(LE, file).ok()?)))
            .filter(|(start, bytes)| start.checked_add(bytes.len() as u64).is_some())
            .collect();
        let entry = Some(header.e_entry(LE)).filter(|entry| *entry != 0);
        (!parts.is_empty()).then_some(Self { parts, entry })
    }

    /// Code that is at hand.
    pub fn new(parts: Vec<(u64, &'a [u8])>) -> Self {
        Self { parts, entry: None }
    }

    /// The vaddr where the kernel enters the file, if it is a program.
    pub fn entry(&self) -> Option<u64> {
        self.entry
    }

    /// The bytes from a vaddr to the end of its segment.
    pub fn at(&self, vaddr: u64) -> Option<&'a [u8]> {
        self.parts.iter().find_map(|(start, bytes)| {
            let offset = usize::try_from(vaddr.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }

    /// Its segments: where each begins, and its bytes.
    pub fn parts(&self) -> &[(u64, &'a [u8])] {
        &self.parts
    }
}

/// The vaddrs that the program does not write once it has been linked: segments without that right, and what the linker protects.
pub(crate) fn fixed(file: &[u8]) -> Vec<std::ops::Range<u64>> {
    let Ok(header) = Header::parse(file) else {
        return Vec::new();
    };
    let segments = header.program_headers(LE, file).unwrap_or_default().iter();
    let fixed = segments.filter(|s| match s.p_type(LE) {
        elf::PT_LOAD => s.p_flags(LE) & elf::PF_W == 0,
        kind => kind == elf::PT_GNU_RELRO,
    });
    let range = |s: &elf::ProgramHeader64<LE>| {
        let start = s.p_vaddr(LE);
        start..start.saturating_add(s.p_memsz(LE))
    };
    fixed.map(range).collect()
}

/// The vaddrs from the first byte of the first segment to the last one of the last.
pub(crate) fn extent(file: &[u8]) -> Option<std::ops::Range<u64>> {
    let header = Header::parse(file).ok()?;
    let segments = header.program_headers(LE, file).ok()?.iter();
    let loaded = segments.filter(|s| s.p_type(LE) == elf::PT_LOAD);
    let (starts, ends): (Vec<u64>, Vec<u64>) = loaded
        .map(|s| (s.p_vaddr(LE), s.p_vaddr(LE).saturating_add(s.p_memsz(LE))))
        .unzip();
    Some(starts.into_iter().min()?..ends.into_iter().max()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_address() {
        let code = Code::new(vec![(0x1000, &[1, 2, 3][..]), (0x3000, &[9][..])]);
        assert_eq!(code.at(0x1001), Some(&[2, 3][..]));
        assert_eq!(code.at(0x3000), Some(&[9][..]));
        for outside in [0, 0xfff, 0x1003, 0x3001, u64::MAX] {
            assert_eq!(code.at(outside), None, "{outside:#x}");
        }
    }

    #[test]
    fn a_segment_that_goes_on_after_the_last_address_is_not_there() {
        // One executable segment: the file itself.
        let with = |vaddr: u64| {
            let mut file = vec![0_u8; 120];
            file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            for (at, value) in [(32, 64), (64, 1 | 5 << 32), (80, vaddr), (96, 120)] {
                file[at..at + 8].copy_from_slice(&u64::to_le_bytes(value));
            }
            (file[54], file[56]) = (56, 1);
            Code::of(&file).is_some()
        };
        assert!(with(0x1000) && with(u64::MAX - 120));
        assert!(!with(u64::MAX - 119) && !with(u64::MAX - 1));
    }

    #[test]
    fn a_damaged_file_has_no_code_or_other_code_and_nothing_worse() {
        let whole = std::fs::read("/proc/self/exe").expect("own file");
        let start = &whole[..4096.min(whole.len())];
        assert!(Code::of(&whole).is_some());
        assert_eq!(Code::of(&[]), None);
        for at in 0..start.len() {
            let mut damaged = start.to_vec();
            damaged[at] ^= 0xff;
            let _ = Code::of(&damaged);
            let _ = Code::constants_of(&damaged);
            let _ = fixed(&damaged);
            let _ = Code::of(&start[..at]);
        }
    }
}
