//! Memory maps, as `/proc/PID/maps` reports them.
//!
//! A process chooses the names of its files, so the end of a line may hold anything. It is bytes, and nothing
//! is cut off or searched in it.

use std::ops::Range;

/// A line: what is mapped in a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping<'a> {
    /// Addresses.
    pub(crate) range: Range<u64>,
    /// Rights as `rwxp`: readable, writable, executable, private; a dash, or `s` for shared, where not.
    rights: [u8; 4],
    /// Offset in the file at which it begins.
    pub(crate) offset: u64,
    /// The file's inode; 0: none.
    pub(crate) inode: u64,
    /// The file's path, a name in brackets of the kernel's, or nothing.
    pub(crate) path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// Parses a line without its end.
    pub(crate) fn of(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let mut parts = rest.splitn(2, |byte| *byte == b' ');
            let word = std::str::from_utf8(parts.next()?).ok();
            rest = parts.next().unwrap_or_default();
            word
        };
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = word()?.split_once('-')?;
        let range = hex(start)?..hex(end)?;
        let rights = *word()?.as_bytes().first_chunk()?;
        let offset = hex(word()?)?;
        word()?;
        let inode = word()?.parse().ok()?;
        Some(Self {
            range,
            rights,
            offset,
            inode,
            // The kernel puts paths in one column.
            path: rest.trim_ascii_start(),
        })
    }

    /// Returns whether it may be read.
    pub(crate) fn is_readable(&self) -> bool {
        self.rights[0] == b'r'
    }

    /// Returns whether it may be written to.
    pub(crate) fn is_writable(&self) -> bool {
        self.rights[1] == b'w'
    }

    /// Returns whether it is shared with other mappings of the same file.
    pub(crate) fn is_shared(&self) -> bool {
        self.rights[3] == b's'
    }

    /// Returns whether it may be executed.
    pub(crate) fn is_executable(&self) -> bool {
        self.rights[2] == b'x'
    }
}

/// The mappings of a whole text; lines that are none are left out.
pub(crate) fn mappings(text: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(Mapping::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart_whatever_its_path_is() {
        let line = b"7f0000401000-7f0000402000 r-xp 00001000 fe:00 99                         /a b/\xff\xfe (deleted)";
        let mapping = Mapping::of(line).expect("a mapping");
        assert_eq!(
            (mapping.range.clone(), mapping.offset, mapping.inode),
            (0x7f00_0040_1000..0x7f00_0040_2000, 0x1000, 99)
        );
        assert_eq!(mapping.path, b"/a b/\xff\xfe (deleted)");
        assert!(mapping.is_executable() && !mapping.is_writable());
        let heap = Mapping::of(b"55550000-55560000 rw-s 00000000 00:00 0 ").expect("a mapping");
        assert_eq!(
            (heap.path, heap.inode, heap.is_writable()),
            (&b""[..], 0, true)
        );
        for none in [
            &b""[..],
            b"7f00-",
            b"1-2 r-",
            b"1-2 r-xp 0 0:0",
            b"1-2 r-xp 0 0:0 x",
            b"\xff-2 r-xp 0 0:0 0",
            b"12 r-xp 0 0:0 0",
        ] {
            assert_eq!(Mapping::of(none), None);
        }
    }

    #[test]
    fn the_map_of_this_process_has_its_code() {
        let text = std::fs::read("/proc/self/maps").expect("a map");
        let here = the_map_of_this_process_has_its_code as fn() as usize as u64;
        let mut all = mappings(&text);
        assert!(all.any(|m| m.range.contains(&here) && m.is_executable() && m.inode != 0));
    }
}
