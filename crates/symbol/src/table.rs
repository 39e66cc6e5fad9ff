//! Table of functions by address.
//!
//! The table is an index of start addresses over `.symtab` (of the file, else of its debug file) and `.dynsym`.
//! Names are read when asked for, so that building the index touches no string: 25 000 symbols of
//! libc take about a millisecond.
//!
//! An address belongs to a symbol only when it is within the symbol's size. Symbols of size zero,
//! as hand-written assembly has them, reach to the next symbol or the end of their section.
//! Where several symbols start together, the best known one is taken: functions before
//! labels, global before local, few leading underscores before many.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{SectionHeader, Sym};

use crate::demangle::demangle;
use crate::object_file::{ObjectFile, Table};
use crate::plt;

/// Distance from a nested symbol back to the one around it, at most, in symbols.
const MAX_NESTING: usize = 16;

/// A function (or an object) and the bytes it occupies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Symbol {
    pub(crate) start: u64,
    pub(crate) name: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Entry {
    start: u64,
    size: u64,
    symbol: u32,
    table: u8,
}

/// The index.
#[derive(Default)]
pub(crate) struct SymbolIndex<'a> {
    tables: Vec<Table<'a>>,
    entries: Vec<Entry>,
    /// Ends of sections, sorted: where symbols of size zero end at the latest.
    ends: Vec<u64>,
    plt: Vec<plt::Entry>,
    /// Functions by name, made when one is first asked for.
    by_name: OnceCell<HashMap<Vec<u8>, Vec<Range<u64>>>>,
}

impl<'a> SymbolIndex<'a> {
    /// The index of `file`, with the symbols of another one, which is looked for where the file itself is stripped.
    pub(crate) fn new<'o>(
        file: &ObjectFile<'a>,
        other: impl FnOnce() -> Option<&'o ObjectFile<'a>>,
    ) -> Self
    where
        'a: 'o,
    {
        let mut index = Self {
            plt: plt::entries(file),
            ..Self::default()
        };
        for (_, section) in file.sections() {
            let end = section.sh_addr(LE).checked_add(section.sh_size(LE));
            index.ends.extend(end.filter(|_| section.sh_addr(LE) != 0));
        }
        index.ends.sort_unstable();
        index.add(file, elf::SHT_SYMTAB);
        if index.entries.is_empty() {
            if let Some(other) = other() {
                index.add(other, elf::SHT_SYMTAB);
            }
            index.add(file, elf::SHT_DYNSYM);
        }
        index.entries.sort_unstable_by_key(|e| e.start);
        index
    }

    fn add(&mut self, file: &ObjectFile<'a>, section_type: u32) {
        let table = file.symbols(section_type);
        let number = self.tables.len() as u8;
        for (i, symbol) in table.iter().enumerate() {
            let section = symbol.st_shndx(LE);
            if section == elf::SHN_UNDEF || (elf::SHN_LORESERVE..elf::SHN_XINDEX).contains(&section)
            {
                continue;
            }
            let wanted = match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT => true,
                elf::STT_NOTYPE => file.is_code(section),
                _ => false,
            };
            if wanted && let Ok(symbol_number) = u32::try_from(i) {
                self.entries.push(Entry {
                    start: symbol.st_value(LE),
                    size: symbol.st_size(LE),
                    symbol: symbol_number,
                    table: number,
                });
            }
        }
        self.tables.push(table);
    }

    /// The symbol that `address` is in.
    pub(crate) fn find(&self, address: u64) -> Option<Symbol> {
        self.find_in_tables(address)
            .or_else(|| self.find_in_plt(address))
    }

    /// The bytes of the functions of a name, as it is in the file or demangled.
    pub(crate) fn ranges_of(&self, name: &str) -> Vec<Range<u64>> {
        let all = self.by_name.get_or_init(|| self.ranges_by_name());
        all.get(name.as_bytes()).cloned().unwrap_or_default()
    }

    fn ranges_by_name(&self) -> HashMap<Vec<u8>, Vec<Range<u64>>> {
        let mut all: HashMap<Vec<u8>, Vec<Range<u64>>> = HashMap::new();
        for function in self.functions() {
            let shown = demangle(function.name).into_bytes();
            let as_it_is = (shown != function.name).then(|| function.name.to_vec());
            for name in as_it_is.into_iter().chain([shown]) {
                let ranges = all.entry(name).or_default();
                if ranges.last() != Some(&function.range) {
                    ranges.push(function.range.clone());
                }
            }
        }
        all
    }

    /// Returns where what [`Self::find`] finds may begin or cease to be of this name: the ends of all symbols that are, and those of others in them.
    pub(crate) fn borders_of(&self, name: &str) -> Vec<u64> {
        let called = |n: &[u8]| n == name.as_bytes() || demangle(n) == name;
        let own = self.entries.iter().filter(|entry| {
            let rank = self.rank(entry);
            rank.is_some_and(|rank| called(rank.name))
        });
        let mut own: Vec<_> = own.map(|entry| self.range(entry)).collect();
        let plt = self.plt.iter().filter(|entry| called(&entry.name));
        own.extend(plt.map(|entry| entry.start..entry.start.saturating_add(entry.size)));
        let inside = |at: &u64| own.iter().any(|r| (r.start..=r.end).contains(at));
        let all = self.entries.iter().map(|entry| self.range(entry));
        let all = all.flat_map(|range| [range.start, range.end]);
        let plt = self.plt.iter().map(|entry| entry.start);
        all.chain(plt)
            .filter(inside)
            .chain(own.iter().flat_map(|r| [r.start, r.end]))
            .collect()
    }

    /// The functions and labels of code with the bytes of each, in their order; several may be of the same bytes.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Labelled<'_>> {
        self.entries.iter().filter_map(|entry| {
            let rank = self.rank(entry).filter(|rank| rank.kind != 1)?;
            Some(Labelled {
                name: rank.name,
                range: self.range(entry),
                sized: entry.size != 0,
            })
        })
    }

    /// The stubs of library functions with the bytes of each.
    pub(crate) fn stubs(&self) -> impl Iterator<Item = (&[u8], Range<u64>)> {
        let range = |e: &plt::Entry| e.start..e.start.saturating_add(e.size);
        self.plt.iter().map(move |e| (&e.name[..], range(e)))
    }

    fn range(&self, entry: &Entry) -> Range<u64> {
        let after = self.entries.partition_point(|e| e.start <= entry.start);
        let next = self.entries.get(after).map_or(u64::MAX, |e| e.start);
        let end = match entry.size {
            0 => next.min(self.end_of_section(entry.start)),
            size => entry.start.saturating_add(size),
        };
        entry.start..end
    }

    fn find_in_plt(&self, address: u64) -> Option<Symbol> {
        let before = self.plt.partition_point(|e| e.start <= address);
        let entry = &self.plt[before.checked_sub(1)?];
        (address - entry.start < entry.size).then(|| Symbol {
            start: entry.start,
            name: entry.name.clone(),
        })
    }

    fn find_in_tables(&self, address: u64) -> Option<Symbol> {
        let before = self.entries.partition_point(|e| e.start <= address);
        let nearest = self.entries[before.checked_sub(1)?].start;
        let mut best: Option<(Rank<'_>, Entry)> = None;
        for entry in self.entries[..before].iter().rev().take(MAX_NESTING * 4) {
            if best.as_ref().is_some_and(|(_, b)| b.start != entry.start) {
                break;
            }
            let covers = match entry.size {
                0 => entry.start == nearest && address < self.end_of_section(nearest),
                size => address - entry.start < size,
            };
            if covers
                && let Some(rank) = self.rank(entry)
                && best.as_ref().is_none_or(|(b, _)| rank < *b)
            {
                best = Some((rank, *entry));
            }
        }
        best.map(|(rank, entry)| Symbol {
            start: entry.start,
            name: rank.name.to_vec(),
        })
    }

    fn end_of_section(&self, start: u64) -> u64 {
        let after = self.ends.partition_point(|end| *end <= start);
        self.ends.get(after).copied().unwrap_or(u64::MAX)
    }

    fn rank(&self, entry: &Entry) -> Option<Rank<'_>> {
        let table = &self.tables[usize::from(entry.table)];
        let symbol = table
            .symbol(object::SymbolIndex(entry.symbol as usize))
            .ok()?;
        let name = table
            .symbol_name(LE, symbol)
            .ok()
            .filter(|n| !n.is_empty())?;
        Some(Rank {
            kind: match symbol.st_type() {
                elf::STT_FUNC | elf::STT_GNU_IFUNC => 0,
                elf::STT_OBJECT => 1,
                _ => 2,
            },
            sized: entry.size == 0,
            binding: match symbol.st_bind() {
                elf::STB_GLOBAL => 0,
                elf::STB_WEAK => 1,
                _ => 2,
            },
            alias: name.starts_with(b"__GI_"),
            underscores: name.iter().take_while(|c| **c == b'_').count(),
            name,
        })
    }
}

/// A function or label of code.
pub(crate) struct Labelled<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) range: Range<u64>,
    /// The symbol has a size. Else it goes on to the next one.
    pub(crate) sized: bool,
}

/// The order of symbols that start together; the least one is shown.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    kind: u8,
    sized: bool,
    binding: u8,
    /// glibc's names for its own use of its public functions.
    alias: bool,
    underscores: usize,
    name: &'a [u8],
}
