//! Names for the stubs through which programs call library functions.
//!
//! Stubs have no symbols. Each one jumps through a slot of the global offset table, and a
//! relocation names the function that the slot is for. So the stub sections are searched for
//! `jmp *disp(%rip)`, whatever is around it: this covers the classic layout, the one with
//! `endbr64`, `.plt.got` and what other linkers make. Names are those of objdump: `puts@plt`.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{Rela, SectionHeader, Sym};

use crate::object_file::ObjectFile;

/// A stub.
pub(crate) struct Entry {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) name: Vec<u8>,
}

/// The stubs of `file`, sorted by address.
pub(crate) fn entries(file: &ObjectFile<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut slots = None;
    let is_stubs = |name: &[u8]| matches!(name, b".plt" | b".plt.sec" | b".iplt" | b".plt.got");
    for (name, section) in file.once(|name, _| is_stubs(name)) {
        let stub_size = match name {
            b".plt.got" if section.sh_entsize(LE) != 16 => 8,
            _ => 16,
        };
        let slots = slots.get_or_insert_with(|| slots_of(file));
        let start = section.sh_addr(LE);
        for (i, stub) in file.raw(section).chunks_exact(stub_size).enumerate() {
            let address = start.wrapping_add((i * stub_size) as u64);
            let Some(name) = slot_of(stub, address).and_then(|slot| slots.get(&slot)) else {
                continue;
            };
            entries.push(Entry {
                start: address,
                size: stub_size as u64,
                name: [name, &b"@plt"[..]].concat(),
            });
        }
    }
    entries.sort_by_key(|e| e.start);
    entries.dedup_by_key(|e| e.start);
    entries
}

/// The slot that the stub at `address` jumps through.
fn slot_of(stub: &[u8], address: u64) -> Option<u64> {
    let at = stub.windows(6).position(|w| w[..2] == [0xff, 0x25])?;
    let displacement = i32::from_le_bytes(*stub[at + 2..].first_chunk()?);
    let next = address.wrapping_add(at as u64 + 6);
    Some(next.wrapping_add_signed(displacement.into()))
}

/// Slots and the names of what they are for.
fn slots_of(file: &ObjectFile<'_>) -> HashMap<u64, Vec<u8>> {
    let symbols = file.symbols(elf::SHT_DYNSYM);
    let mut slots = HashMap::new();
    for (_, section) in file.once(|_, s| s.sh_type(LE) == elf::SHT_RELA) {
        let Ok(relocations) =
            object::pod::slice_from_all_bytes::<elf::Rela64<LE>>(file.raw(section))
        else {
            continue;
        };
        for relocation in relocations {
            let name = match relocation.r_type(LE, false) {
                elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => relocation
                    .symbol(LE, false)
                    .and_then(|i| symbols.symbol(i).ok())
                    .and_then(|s| s.name(LE, symbols.strings()).ok())
                    .map(<[u8]>::to_vec),
                elf::R_X86_64_IRELATIVE => {
                    Some(format!("*ABS*+{:#x}", relocation.r_addend(LE)).into_bytes())
                }
                _ => None,
            };
            if let Some(name) = name.filter(|n| !n.is_empty()) {
                slots.insert(relocation.r_offset(LE), name);
            }
        }
    }
    slots
}
