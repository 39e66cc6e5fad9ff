//! The functions of a module, each once, those without a name included.
//!
//! # Problem
//! Reports add up what each function did. Distributions strip their programs: only exported functions have symbols. What has no symbol
//! would all be one heap.
//!
//! # Strategy
//! Symbols come first, the best known one of each start. `.eh_frame` describes every function that a compiler made, so that exceptions and
//! debuggers can pass through it. Its entries are the functions that have no symbol. Stubs of the procedure linkage table are functions of
//! their own, marked as stubs.
//!
//! # Invariants
//! Spans are in the order of their starts, no two with the same start. A span may lie in another, as symbols may.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use addr2line::gimli::{
    BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, LittleEndian, UnwindSection,
};
use object::LittleEndian as LE;
use object::read::elf::SectionHeader;

use crate::object_file::ObjectFile;
use crate::table::SymbolIndex;

/// A function, or a part of one that is described by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Its name as it is in the file; empty where it has none.
    pub name: Vec<u8>,
    /// Its vaddrs.
    pub range: Range<u64>,
    /// True of a stub through which a library function is called.
    pub stub: bool,
    /// True if its end is known. Else it goes on to the next symbol.
    pub sized: bool,
}

/// The functions of a module.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    all: Vec<Span>,
    /// The functions that parts belong to, by the numbers of both.
    whole: BTreeMap<usize, usize>,
    /// The parts of each such function.
    parts: BTreeMap<usize, Vec<usize>>,
}

/// Symbols that lie in each other, at most.
const MAX_NESTING: usize = 64;

impl Spans {
    pub(crate) fn of(file: &ObjectFile<'_>, index: &SymbolIndex<'_>) -> Self {
        let mut all: Vec<Span> = Vec::new();
        for function in index.functions().filter(|f| f.range.start < f.range.end) {
            let best = index.find(function.range.start);
            all.push(Span {
                name: best.map_or_else(|| function.name.to_vec(), |best| best.name),
                range: function.range,
                stub: false,
                sized: function.sized,
            });
        }
        all.sort_by_key(|span| (span.range.start, std::cmp::Reverse(span.range.end)));
        all.dedup_by_key(|span| span.range.start);
        let mut spans = Self {
            all,
            ..Self::default()
        };
        let mut found: Vec<Span> = Vec::new();
        for (name, range) in index.stubs() {
            let name = name.to_vec();
            found.push(Span {
                name,
                range,
                stub: true,
                sized: true,
            });
        }
        spans.join(found);
        let stubs = sections_of_stubs(file);
        let mut found = Vec::new();
        for mut range in described(file) {
            let before = stubs.partition_point(|s| s.start <= range.start);
            let stub = before > 0 && stubs[before - 1].contains(&range.start);
            // One entry describes a whole section of stubs: what has no name is the part before those that have one.
            if stub && let Some(next) = spans.next(range.start) {
                range.end = range.end.min(next);
            }
            found.push(Span {
                name: Vec::new(),
                range,
                stub,
                sized: true,
            });
        }
        spans.join(found);
        spans.whole = spans.parts_by_name();
        for (part, whole) in &spans.whole {
            spans.parts.entry(*whole).or_default().push(*part);
        }
        spans
    }

    /// Adds those that begin in none that is known.
    fn join(&mut self, found: Vec<Span>) {
        let new = found
            .into_iter()
            .filter(|s| self.find(s.range.start).is_none());
        let new: Vec<Span> = new.collect();
        self.all.extend(new);
        self.all.sort_by_key(|span| span.range.start);
        self.all.dedup_by_key(|span| span.range.start);
    }

    /// The start of the first one after an address.
    fn next(&self, at: u64) -> Option<u64> {
        let after = self.all.partition_point(|span| span.range.start <= at);
        self.all.get(after).map(|span| span.range.start)
    }

    /// Parts that compilers put elsewhere, by their names. With several functions of one name it is not known whose part it is.
    fn parts_by_name(&self) -> BTreeMap<usize, usize> {
        let mut named: BTreeMap<&[u8], Option<usize>> = BTreeMap::new();
        for (n, span) in self.all.iter().enumerate() {
            let known = named.entry(&span.name);
            known.and_modify(|n| *n = None).or_insert(Some(n));
        }
        let parts = self.all.iter().enumerate().filter_map(|(n, span)| {
            let whole = named.get(part_of(&span.name)?).copied().flatten()?;
            Some((n, whole))
        });
        parts.collect()
    }

    /// The number of the function that a part belongs to: of what is no part, its own.
    pub fn whole(&self, number: usize) -> usize {
        self.whole.get(&number).copied().unwrap_or(number)
    }

    /// The bytes of a function, and of its parts.
    pub fn parts(&self, number: usize) -> Vec<Range<u64>> {
        let own = self.all.get(number).map(|span| span.range.clone());
        let parts = self.parts.get(&number).into_iter().flatten();
        let parts = parts.map(|part| self.all[*part].range.clone());
        own.into_iter().chain(parts).collect()
    }

    /// All of them, in the order of their starts.
    pub fn all(&self) -> &[Span] {
        &self.all
    }

    /// The innermost one that an address is in.
    pub fn find(&self, at: u64) -> Option<usize> {
        let after = self.all.partition_point(|span| span.range.start <= at);
        let least = after.saturating_sub(MAX_NESTING);
        (least..after).rev().find(|n| self.all[*n].range.end > at)
    }

    /// Returns true if a function is known to end at an address, and none that has the byte before it goes on there. A call that ends so does
    /// not come back: compilers put nothing after it.
    pub fn end_at(&self, at: u64) -> bool {
        let after = self.all.partition_point(|span| span.range.start < at);
        let least = after.saturating_sub(MAX_NESTING);
        let around = self.all[least..after].iter().filter(|s| s.range.end >= at);
        let mut known = false;
        for span in around {
            if span.range.end > at {
                return false;
            }
            known |= span.sized;
        }
        known
    }
}

/// The name of the function that a part is of, as compilers name parts that are rarely executed.
pub fn part_of(name: &[u8]) -> Option<&[u8]> {
    let at = name.windows(5).rposition(|w| w == b".cold")?;
    let rest = &name[at + 5..];
    let number = rest.strip_prefix(b".").unwrap_or(rest);
    (at > 0 && number.iter().all(u8::is_ascii_digit)).then(|| &name[..at])
}

/// Addresses of sections that hold stubs, in order, joined where they meet.
fn sections_of_stubs(file: &ObjectFile<'_>) -> Vec<Range<u64>> {
    let is = |name: &[u8]| name.starts_with(b".plt") || name == b".iplt";
    let sections = file.sections().filter(|(name, _)| is(name));
    let range = |start: u64, size: u64| start..start.saturating_add(size);
    let mut all: Vec<_> = sections
        .map(|(_, s)| range(s.sh_addr(LE), s.sh_size(LE)))
        .collect();
    all.sort_by_key(|range| range.start);
    all.dedup_by(|next, range| {
        let meets = next.start <= range.end;
        if meets {
            range.end = range.end.max(next.end);
        }
        meets
    });
    all
}

/// Code that `.eh_frame` describes.
fn described(file: &ObjectFile<'_>) -> Vec<Range<u64>> {
    let mut ranges = Vec::new();
    let Some(section) = file.section(".eh_frame") else {
        return ranges;
    };
    let text = file.section(".text").map_or(0, |s| s.sh_addr(LE));
    let bases = BaseAddresses::default()
        .set_eh_frame(section.sh_addr(LE))
        .set_text(text);
    let frames: EhFrame<EndianSlice<'_, LittleEndian>> =
        EhFrame::new(file.raw(section), LittleEndian);
    let mut entries = frames.entries(&bases);
    // Many entries have one head, which may be long.
    let mut heads = HashMap::new();
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let head = |frames: &EhFrame<_>, bases: &BaseAddresses, at: EhFrameOffset| {
            let known = heads.entry(at.0);
            let head = known.or_insert_with(|| frames.cie_from_offset(bases, at));
            head.clone()
        };
        let Ok(fde) = partial.parse(head) else {
            continue;
        };
        let start = fde.initial_address();
        if let Some(end) = start.checked_add(fde.len()).filter(|end| *end > start) {
            ranges.push(start..end);
        }
    }
    ranges
}
