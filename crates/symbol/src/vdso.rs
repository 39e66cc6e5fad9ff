//! The vDSO, the library that the kernel maps into every process.
//!
//! It is in no file. All processes of a kernel have the same one, so our own copy names the
//! functions of any other; after another kernel was booted, its build id differs and it is not
//! used. The copy is read through `/proc/self/mem`, which needs no pointer.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::object_file::ObjectFile;

/// The kernel's is two pages; anything much bigger is not it.
const MAX_SIZE: u64 = 1 << 20;

/// The memory image of this process' vDSO, where there is one.
pub fn own_vdso() -> Option<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let size = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    if size > MAX_SIZE {
        return None;
    }
    let mut bytes = vec![0; size as usize];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut bytes, start)
        .ok()?;
    Some(bytes)
}

/// The build id of a file's bytes; empty where it has none.
pub fn build_id_of(bytes: &[u8]) -> Vec<u8> {
    ObjectFile::parse(bytes).map_or_else(Vec::new, |file| file.build_id().to_vec())
}
