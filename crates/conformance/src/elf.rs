//! The little of ELF that turns run-time addresses into vaddrs, and vaddrs into bytes.

use std::fs;
use std::path::Path;

/// A 64-bit ELF file and its loaded segments.
#[derive(Debug)]
pub struct Image {
    file: Vec<u8>,
    loads: Vec<Load>,
    /// True if it may be loaded anywhere (`ET_DYN`).
    pub movable: bool,
}

#[derive(Debug)]
struct Load {
    offset: u64,
    vaddr: u64,
    size: u64,
    executable: bool,
}

impl Image {
    /// Reads a file; `None` when it is no 64-bit ELF.
    pub fn read(path: &Path) -> Option<Self> {
        let file = fs::read(path).ok()?;
        if file.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let word = |at: usize| -> Option<u64> {
            Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?))
        };
        let half = |at: usize| -> Option<usize> {
            let bytes = file.get(at..at + 2)?.try_into().ok()?;
            Some(usize::from(u16::from_le_bytes(bytes)))
        };
        let table = usize::try_from(word(32)?).ok()?;
        let (size, count) = (half(54)?, half(56)?);
        let loads = (0..count)
            .filter_map(|n| {
                let at = table.checked_add(n * size)?;
                let is_load = file.get(at..at + 4)? == [1, 0, 0, 0];
                is_load.then_some(Load {
                    offset: word(at + 8)?,
                    vaddr: word(at + 16)?,
                    size: word(at + 32)?,
                    executable: file.get(at + 4)? & 1 != 0,
                })
            })
            .collect();
        let movable = half(16)? == 3;
        Some(Self {
            file,
            loads,
            movable,
        })
    }

    /// The lowest page of the image. Loaded at `start`, its bias is `start - lowest_page`.
    pub fn lowest_page(&self) -> u64 {
        let lowest = self.loads.iter().map(|l| l.vaddr).min();
        lowest.unwrap_or(0) & !0xfff
    }

    /// Up to 15 bytes of code at a vaddr.
    pub fn code(&self, vaddr: u64) -> Option<&[u8]> {
        let load = self
            .loads
            .iter()
            .find(|l| l.executable && (l.vaddr..l.vaddr + l.size).contains(&vaddr))?;
        let at = usize::try_from(vaddr - load.vaddr + load.offset).ok()?;
        self.file.get(at..(at + 15).min(self.file.len()))
    }
}

/// The load bias of `path` in `/proc/PID/maps` text.
pub fn bias(maps: &str, path: &Path) -> Option<u64> {
    let name = path.to_str()?;
    let start = maps
        .lines()
        .filter(|line| line.split_whitespace().nth(5) == Some(name))
        .filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
        .min()?;
    Some(start.wrapping_sub(Image::read(path)?.lowest_page()))
}
