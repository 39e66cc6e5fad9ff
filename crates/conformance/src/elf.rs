//! The little of ELF that turns run-time addresses into vaddrs.

use std::fs;
use std::path::Path;

/// The lowest page of a module's image: the page-aligned `p_vaddr` of its first `PT_LOAD`.
///
/// A module whose lowest mapping starts at `start` is loaded with bias `start - lowest_page`.
pub fn lowest_page(path: &Path) -> Option<u64> {
    let file = fs::read(path).ok()?;
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let word = |at: usize| -> Option<u64> {
        Some(u64::from_le_bytes(file.get(at..at + 8)?.try_into().ok()?))
    };
    let half = |at: usize| -> Option<u16> {
        Some(u16::from_le_bytes(file.get(at..at + 2)?.try_into().ok()?))
    };
    let table = usize::try_from(word(32)?).ok()?;
    let size = usize::from(half(54)?);
    (0..usize::from(half(56)?))
        .filter_map(|n| {
            let at = table.checked_add(n * size)?;
            let load = file.get(at..at + 4)? == [1, 0, 0, 0];
            load.then(|| word(at + 16)).flatten()
        })
        .min()
        .map(|vaddr| vaddr & !0xfff)
}

/// The load bias of `path` in `/proc/PID/maps` text.
pub fn bias(maps: &str, path: &Path) -> Option<u64> {
    let name = path.to_str()?;
    let start = maps
        .lines()
        .filter(|line| line.ends_with(name) && line.split_whitespace().nth(5) == Some(name))
        .filter_map(|line| u64::from_str_radix(line.split('-').next()?, 16).ok())
        .min()?;
    Some(start.wrapping_sub(lowest_page(path)?))
}
