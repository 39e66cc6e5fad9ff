//! The selection of places to observe: `--only`.
//!
//! Where the target has no events of other code at all, it is given the selected addresses ([`Selection::tell`]). The host asks of each place once
//! more ([`Selection::has`]), and both agree.

use std::fmt;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use trommel_profile::Module;
use trommel_queue::dict::TargetPc;
use trommel_queue::queries as shared;
use trommel_symbol::{Files, Symbols, is_named};
use trommel_tuple::{Place, Vaddr};

use crate::channel::modules::Modules;
use crate::channel::tags::Told;

/// One `--only` argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Only {
    /// Addresses of the main executable, end exclusive.
    Range(Vaddr, Vaddr),
    /// A module by path or file name, or a function by name.
    Name(String),
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(Vaddr(low), Vaddr(high)) => write!(f, "{low:#x}-{high:#x}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl std::str::FromStr for Only {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |t: &str| u64::from_str_radix(t.strip_prefix("0x").unwrap_or(t), 16).ok();
        if let Some((lo, hi)) = text.split_once('-')
            && let (Some(lo), Some(hi)) = (number(lo), number(hi))
        {
            if lo >= hi {
                return Err(format!(
                    "the range {text} is empty: give LO-HI in hexadecimal, LO below HI"
                ));
            }
            return Ok(Self::Range(Vaddr(lo), Vaddr(hi)));
        }
        if text.is_empty() {
            return Err("give a module, a function, or LO-HI in hexadecimal".to_owned());
        }
        Ok(Self::Name(text.to_owned()))
    }
}

/// All `--only` arguments of a run; none selects everything.
pub struct Selection {
    wanted: Vec<Only>,
    main: Vec<u8>,
    files: &'static Files,
    /// Symbols of the modules known when they were last asked, and how many those were.
    symbols: Option<(Symbols<'static>, usize)>,
    /// Ranges that the target was given.
    told: Told,
}

impl Selection {
    /// The selection of a process that runs the program at `main` (the ELF file). `files` is where
    /// symbols are read from.
    pub fn new(wanted: Vec<Only>, main: &Path, files: &'static Files) -> Self {
        let main = match wanted.is_empty() {
            true => PathBuf::new(),
            false => std::fs::canonicalize(main).unwrap_or_else(|_| main.to_owned()),
        };
        Self {
            wanted,
            main: main.as_os_str().as_bytes().to_vec(),
            files,
            symbols: None,
            told: Told::default(),
        }
    }

    /// The files that symbols are read from.
    pub const fn files(&self) -> &'static Files {
        self.files
    }

    /// Returns whether `place` is selected.
    pub fn has(&mut self, place: Place, modules: &[Module]) -> bool {
        if self.wanted.is_empty() {
            return true;
        }
        let Some(module) = modules.get(usize::from(place.module().0)) else {
            return false;
        };
        if self.has_cheaply(place.vaddr(), module) {
            return true;
        }
        if !self.wanted.iter().any(|o| matches!(o, Only::Name(_))) {
            return false;
        }
        let (symbols, _) = match &mut self.symbols {
            Some(known) if known.1 == modules.len() => known,
            stale => stale.insert((
                Symbols::new(self.files, modules).with_debug_limit(0),
                modules.len(),
            )),
        };
        let function = symbols.locate(place).function.clone();
        self.wanted
            .iter()
            .any(|o| matches!(o, Only::Name(name) if function.as_deref() == Some(name)))
    }

    /// Returns whether an address of a module is selected by its number, or with all of the module.
    fn has_cheaply(&self, at: Vaddr, module: &Module) -> bool {
        self.wanted.iter().any(|only| match only {
            Only::Range(lo, hi) => module.path == self.main && (*lo..*hi).contains(&at),
            Only::Name(name) => is_named(&module.path, name),
        })
    }

    /// The parts of a range of a module in which [`Self::has`] says the same of all places, where it says that they are selected.
    fn selected(&mut self, of: Range<u64>, module: usize, modules: &[Module]) -> Vec<Range<u64>> {
        let Some(known) = modules.get(module) else {
            return Vec::new();
        };
        // Where the answer may change.
        let mut borders = vec![of.start, of.end];
        for only in &self.wanted {
            match only {
                Only::Range(lo, hi) => borders.extend([lo.0, hi.0]),
                Only::Name(name) => {
                    let symbols = Symbols::new(self.files, std::slice::from_ref(known));
                    borders.extend(symbols.borders_of(known.id, name));
                }
            }
        }
        borders.retain(|at| (of.start..=of.end).contains(at));
        borders.sort_unstable();
        borders.dedup();
        let mut found: Vec<Range<u64>> = Vec::new();
        for (&start, &end) in borders.iter().zip(&borders[1..]) {
            if self.has(Place::new(known.id, Vaddr(start)), modules) {
                match found.last_mut().filter(|last| last.end == start) {
                    Some(last) => last.end = end,
                    None => found.push(start..end),
                }
            }
        }
        found
    }

    /// Tells the target what of a new region is selected. False when there are more ranges than there is room for.
    pub fn tell(&mut self, to: &shared::Queries, range: Range<u64>, modules: &Modules) -> bool {
        let place = modules.place_at(TargetPc(range.start));
        let bias = range.start.wrapping_sub(place.vaddr().0);
        let of = place.vaddr().0..range.end.wrapping_sub(bias);
        let found = self.selected(of, usize::from(place.module().0), &modules.list);
        let here = |r: Range<u64>| r.start.wrapping_add(bias)..r.end.wrapping_add(bias);
        // What was told of other code that was there does not hold any more.
        let mut all = std::iter::once((range, 0)).chain(found.into_iter().map(|r| (here(r), 1)));
        all.all(|(range, tag)| self.told.tell(to, &range, tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_ranges_or_names() {
        assert_eq!(
            "1000-0x2000".parse(),
            Ok(Only::Range(Vaddr(0x1000), Vaddr(0x2000)))
        );
        assert_eq!("libc.so.6".parse(), Ok(Only::Name("libc.so.6".into())));
        assert_eq!("do-it".parse(), Ok(Only::Name("do-it".into())));
        assert!("2000-1000".parse::<Only>().is_err());
        assert!("".parse::<Only>().is_err());
    }
}
