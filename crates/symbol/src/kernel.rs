//! The kernel's functions: where they are now, and their bytes.
//!
//! # Problem
//! The kernel's code is in no file that is mapped anywhere. A running kernel tells its symbols in `/proc/kallsyms`, with zeros in the
//! place of addresses to whom it does not trust, and its memory in `/proc/kcore`, if it was built with that. Where it is
//! changes from boot to boot, and each time a module is loaded.
//!
//! # Strategy
//! A function's address is told as a distance from the first address of what it is part of: `_text` of the kernel itself, the
//! lowest symbol of a loaded module. [`image`] puts functions that a profile has into an ELF file, so that all that looks
//! at files ([`crate::Symbols`]) looks at them in the same way.
//!
//! # Invariants
//! Symbols have no sizes: a function reaches to the next one of its module. What is after the last one of a module belongs to
//! it for a page. Nothing is believed of either file: lines and headers that make no sense are left out.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::elf::build_id_in_notes;

/// The module that is no loaded one.
pub const KERNEL: &str = "[kernel]";

/// Assumed size of the last function of a module.
const LAST: u64 = 4096;

/// The functions of the running kernel.
#[derive(Debug)]
pub struct Kernel {
    text: String,
    /// Modules, the kernel itself first; and their first addresses.
    modules: Vec<(String, u64)>,
    /// In the order of their addresses.
    functions: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u64,
    module: u32,
    /// Position of its name in the text.
    name: (u32, u32),
    /// Among several at one address the largest is taken.
    rank: u8,
}

/// A function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelFunction<'k> {
    /// `[kernel]`, or another name in brackets.
    pub module: &'k str,
    /// The module's first address.
    pub base: u64,
    /// Its own.
    pub start: u64,
    /// The one after its last.
    pub end: u64,
    /// Its name.
    pub name: &'k str,
}

impl Kernel {
    /// Reads the text of `/proc/kallsyms`; `None` where it has no addresses.
    pub fn parse(text: String) -> Option<Self> {
        let mut modules = vec![(KERNEL.to_owned(), u64::MAX)];
        let mut functions = Vec::new();
        let mut base = None;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let Ok(start) = u64::from_str_radix(address, 16) else {
                continue;
            };
            let rank = match kind {
                "T" => 3,
                "t" => 2,
                "W" | "w" => 1,
                _ => continue,
            };
            if start == 0 {
                continue;
            }
            let module = words.next().unwrap_or(KERNEL);
            if module == KERNEL && name == "_text" {
                base = Some(start);
            }
            let number = match modules.iter().rposition(|(n, _)| n == module) {
                Some(number) => number,
                None => {
                    modules.push((module.to_owned(), u64::MAX));
                    modules.len() - 1
                }
            };
            modules[number].1 = modules[number].1.min(start);
            let at = name.as_ptr() as usize - text.as_ptr() as usize;
            functions.push(Entry {
                start,
                module: number as u32,
                name: (u32::try_from(at).ok()?, name.len() as u32),
                rank,
            });
        }
        modules[0].1 = base.unwrap_or(modules[0].1);
        functions.sort_by_key(|f: &Entry| (f.start, std::cmp::Reverse(f.rank)));
        functions.dedup_by_key(|f| f.start);
        (!functions.is_empty()).then_some(Self {
            text,
            modules,
            functions,
        })
    }

    /// The function that an address is in.
    pub fn find(&self, address: u64) -> Option<KernelFunction<'_>> {
        let after = self.functions.partition_point(|f| f.start <= address);
        let entry = self.functions.get(after.checked_sub(1)?)?;
        let next = self.functions.get(after);
        let end = match next {
            Some(next) if next.module == entry.module => next.start,
            Some(next) => next.start.min(entry.start.saturating_add(LAST)),
            None => entry.start.saturating_add(LAST),
        };
        let (module, base) = &self.modules[entry.module as usize];
        let (at, length) = entry.name;
        (address < end).then(|| KernelFunction {
            module,
            base: *base,
            start: entry.start,
            end,
            name: (self.text)
                .get(at as usize..(at + length) as usize)
                .unwrap_or_default(),
        })
    }
}

/// The build id in `/sys/kernel/notes`; empty where there is none.
pub fn kernel_build_id(notes: &[u8]) -> Vec<u8> {
    build_id_in_notes(notes).unwrap_or_default().to_vec()
}

/// The kernel's memory, `/proc/kcore`: an ELF file whose segments are where the kernel is.
#[derive(Debug)]
pub struct Core {
    file: File,
    /// First address, bytes, offset in the file.
    parts: Vec<(u64, u64, u64)>,
}

impl Core {
    /// Opens the file.
    ///
    /// # Errors
    /// It is not there, may not be read, or is no such file.
    pub fn open(path: &Path) -> io::Result<Self> {
        const HEADER: usize = 64;
        const SEGMENT: usize = 56;
        const MOST: usize = 1024;
        const LOAD: u64 = 1;
        let file = File::open(path)?;
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "no ELF file of 64 bits");
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        if !header.starts_with(b"\x7fELF\x02\x01") {
            return Err(bad());
        }
        let word = |bytes: &[u8], at: usize| {
            let bytes = bytes.get(at..at + 8).and_then(|b| b.first_chunk::<8>());
            bytes.map_or(0, |b| u64::from_le_bytes(*b))
        };
        let (table, counts) = (word(&header, 32), word(&header, 54));
        let (size, count) = (counts as u16, (counts >> 16) as u16);
        if usize::from(size) != SEGMENT {
            return Err(bad());
        }
        let mut segments = vec![0; SEGMENT * usize::from(count).min(MOST)];
        file.read_exact_at(&mut segments, table)?;
        let parts = segments.chunks_exact(SEGMENT);
        let parts = parts.filter(|s| word(s, 0) as u32 as u64 == LOAD);
        let parts = parts.map(|s| (word(s, 16), word(s, 32), word(s, 8)));
        let parts = parts.collect();
        Ok(Self { file, parts })
    }

    /// The bytes of a range of addresses, if it has them all.
    pub fn read(&self, range: std::ops::Range<u64>) -> Option<Vec<u8>> {
        /// No function is longer.
        const MOST: u64 = 1 << 20;
        let length = range.end.checked_sub(range.start).filter(|n| *n <= MOST)?;
        let (start, _, offset) = self.parts.iter().find(|(start, size, _)| {
            let before = range.start.checked_sub(*start);
            before.is_some_and(|before| before.checked_add(length).is_some_and(|n| n <= *size))
        })?;
        let mut bytes = vec![0; length as usize];
        let at = offset.checked_add(range.start - start)?;
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// A function in an image.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// Its vaddr.
    pub start: u64,
    /// Number of bytes it has.
    pub size: u64,
    /// Its name.
    pub name: &'a [u8],
    /// Its bytes, as many as are known.
    pub code: &'a [u8],
}

/// An ELF file of functions, with a symbol and, where there are bytes, a segment for each.
pub fn image(functions: &[Placed<'_>], build_id: &[u8]) -> Vec<u8> {
    const HEADER: usize = 64;
    const SEGMENT: usize = 56;
    const SECTION: usize = 64;
    /// An ELF file counts no more.
    const MOST: usize = 0xfff0;
    let coded: Vec<&Placed<'_>> = (functions.iter())
        .filter(|f| !f.code.is_empty())
        .take(MOST)
        .collect();
    let mut bodies = Vec::new();
    let mut segments = Vec::new();
    let first = HEADER + SEGMENT * coded.len();
    for function in &coded {
        let (offset, size) = ((first + bodies.len()) as u64, function.code.len() as u64);
        bodies.extend_from_slice(function.code);
        // Loaded, to be read and executed; offset, address twice, bytes in the file and in memory, alignment.
        let words = [
            1 | 5 << 32,
            offset,
            function.start,
            function.start,
            size,
            size,
            1,
        ];
        segments.extend(words.iter().flat_map(|word: &u64| word.to_le_bytes()));
    }
    let mut names = vec![0];
    let mut symbols = vec![0; 24];
    for function in functions {
        let kind = 0x12_u64; // A global function.
        let section = 1_u64;
        let name = names.len() as u64;
        for word in [
            name | kind << 32 | section << 48,
            function.start,
            function.size,
        ] {
            symbols.extend_from_slice(&word.to_le_bytes());
        }
        names.extend(function.name.iter().filter(|byte| **byte != 0));
        names.push(0);
    }
    let mut note = Vec::new();
    for word in [4, build_id.len() as u32, 3] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(b"GNU\0");
    note.extend_from_slice(build_id);
    note.resize(note.len().next_multiple_of(4), 0);
    let low = functions.iter().map(|f| f.start).min().unwrap_or(0);
    let ends = functions.iter().map(|f| f.start.saturating_add(f.size));
    let high = ends.max().unwrap_or(0);
    // Name, kind, flags, address, offset, size, link, info, entry size.
    let titles = b"\0.text\0.note\0.symtab\0.strtab\0";
    let mut out = vec![0; HEADER];
    out.extend(segments);
    out.extend(bodies);
    let mut sections: Vec<[u64; 9]> = vec![[0; 9], [1, 8, 6, low, 0, high - low, 0, 0, 0]];
    for (name, kind, bytes, link, info, entry) in [
        (7, 7, &note[..], 0, 0, 0),
        (13, 2, &symbols[..], 4, 1, 24),
        (21, 3, &names[..], 0, 0, 0),
        (21, 3, &titles[..], 0, 0, 0),
    ] {
        out.resize(out.len().next_multiple_of(8), 0);
        let (at, size) = (out.len() as u64, bytes.len() as u64);
        sections.push([name, kind, 0, 0, at, size, link, info, entry]);
        out.extend_from_slice(bytes);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    let table = out.len() as u64;
    for [name, kind, flags, address, offset, size, link, info, entry] in &sections {
        let words = [
            name | kind << 32,
            *flags,
            *address,
            *offset,
            *size,
            link | info << 32,
            8,
            *entry,
        ];
        debug_assert_eq!(words.len() * 8, SECTION);
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    out[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let counts = [
        // A shared object for x86-64, version 1.
        (16, 3 | 62 << 16 | 1 << 32),
        (32, HEADER as u64),
        (40, table),
        // No flags; the header's size and that of a segment.
        (48, (HEADER as u64) << 32 | (SEGMENT as u64) << 48),
        // How many segments, the size of a section, how many, which has the titles.
        (
            56,
            coded.len() as u64 | (SECTION as u64) << 16 | 6 << 32 | 5 << 48,
        ),
    ];
    for (at, word) in counts {
        out[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Code, Files, Symbols};
    use proptest::prelude::*;
    use trommel_profile::Module;
    use trommel_tuple::{ModuleId, Place, Vaddr};

    const SYMBOLS: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t local
ffffffff81000040 T read_zero
ffffffff81000100 D no_code
ffffffff81000200 T last
ffffffffc0201000 t trampoline\t[net_thing]
ffffffffc0201010 t other\t[net_thing]
nonsense
";

    #[test]
    fn functions_reach_to_the_next_of_their_module() {
        let kernel = Kernel::parse(SYMBOLS.to_owned()).expect("addresses");
        let found = kernel.find(0xffff_ffff_8100_0044).expect("a function");
        assert_eq!((found.name, found.module), ("read_zero", KERNEL));
        assert_eq!(
            (found.start - found.base, found.end - found.base),
            (0x40, 0x200)
        );
        let last = kernel.find(0xffff_ffff_8100_0fff).expect("after the last");
        assert_eq!((last.name, last.end - last.base), ("last", 0x1200));
        let loaded = kernel.find(0xffff_ffff_c020_1018).expect("a module");
        assert_eq!((loaded.name, loaded.module), ("other", "[net_thing]"));
        assert_eq!(loaded.start - loaded.base, 0x10);
        for outside in [0, 0x40_0000, 0xffff_ffff_8100_2000, u64::MAX] {
            assert_eq!(kernel.find(outside), None, "{outside:#x}");
        }
        let hidden = SYMBOLS
            .replace("ffffffff8", "000000000")
            .replace("ffffffffc", "000000000");
        let hidden = hidden
            .lines()
            .map(|l| format!("{:016}{}\n", 0, l.get(16..).unwrap_or("")));
        assert!(Kernel::parse(hidden.collect()).is_none());
    }

    #[test]
    fn an_image_has_names_and_code() {
        let add = [0x01, 0xf8, 0xc3];
        let placed = [
            Placed {
                start: 0x40,
                size: 0x20,
                name: b"read_zero",
                code: &add,
            },
            Placed {
                start: 0x200,
                size: 0x10,
                name: b"no_bytes",
                code: &[],
            },
        ];
        let id = vec![7; 20];
        let module = Module {
            id: ModuleId(1),
            path: KERNEL.into(),
            build_id: id.clone(),
            ..Module::default()
        };
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &[module]);
        symbols.set_image(ModuleId(1), image(&placed, &id));
        let at = |vaddr| Place::new(ModuleId(1), Vaddr(vaddr));
        let location = symbols.locate(at(0x42));
        assert_eq!(symbols.problem(ModuleId(1)), None);
        assert_eq!(
            (location.function.as_deref(), location.offset),
            (Some("read_zero"), 2)
        );
        assert_eq!(
            symbols.locate(at(0x20f)).function.as_deref(),
            Some("no_bytes")
        );
        assert_eq!(symbols.locate(at(0x100)).function, None);
        let code: Code<'_> = symbols.code(ModuleId(1)).expect("code");
        assert_eq!(code.at(0x41), Some(&add[1..]));
        assert_eq!(code.at(0x200), None);
        assert_eq!(
            symbols.ranges_of(ModuleId(1), "no_bytes"),
            vec![0x200..0x210]
        );
    }

    #[test]
    fn memory_is_read_through_its_headers() {
        let bytes: Vec<u8> = (0..64).collect();
        let placed = Placed {
            start: 0xffff_ffff_8100_0000,
            size: 64,
            name: b"f",
            code: &bytes,
        };
        let path = std::env::temp_dir().join(format!("trommel-core-{}", std::process::id()));
        std::fs::write(&path, image(&[placed], &[])).expect("a file");
        let core = Core::open(&path).expect("an ELF file");
        let at = |from: u64, to: u64| core.read(placed.start + from..placed.start + to);
        assert_eq!(at(3, 7), Some(vec![3, 4, 5, 6]));
        assert_eq!(at(60, 65), None);
        assert_eq!(core.read(0..8), None);
        std::fs::write(&path, b"\x7fELF\x02\x01 and then nothing").expect("a file");
        assert!(Core::open(&path).is_err());
        std::fs::remove_file(path).expect("clean");
    }

    proptest! {
        #[test]
        fn any_text_is_looked_at(text in "([0-9a-f]{0,17}[ \t]?[TtWwdD]?[ \t]?[a-z\\[\\]]{0,5}\n?){0,20}", at in any::<u64>()) {
            if let Some(kernel) = Kernel::parse(text) {
                let found = kernel.find(at);
                prop_assert!(found.is_none_or(|f| f.start <= at && at < f.end));
            }
        }

        #[test]
        fn any_functions_make_an_image(
            all in prop::collection::vec((any::<u64>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..9)), 0..9),
            at in any::<u64>(),
        ) {
            let placed: Vec<Placed<'_>> = (all.iter())
                .map(|(start, size, bytes)| Placed { start: *start, size: *size, name: bytes, code: bytes })
                .collect();
            let files = Files::new();
            let mut symbols = Symbols::new(&files, &[Module { id: ModuleId(1), ..Module::default() }]);
            symbols.set_image(ModuleId(1), image(&placed, &[]));
            let _ = symbols.locate(Place::new(ModuleId(1), Vaddr(at)));
            prop_assert_eq!(symbols.problem(ModuleId(1)), None);
        }

        #[test]
        fn any_core_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0_usize..120) {
            let placed = Placed { start: 0x1000, size: 4, name: b"f", code: &[1, 2, 3, 4] };
            let mut whole = image(&[placed], &[]);
            let end = (at + bytes.len()).min(whole.len());
            whole[at..end].copy_from_slice(&bytes[..end - at]);
            let path = std::env::temp_dir().join(format!("trommel-core-any-{}", std::process::id()));
            std::fs::write(&path, whole).expect("a file");
            if let Ok(core) = Core::open(&path) {
                let _ = core.read(0x1000..0x1004);
            }
            std::fs::remove_file(path).expect("clean");
        }
    }
}
