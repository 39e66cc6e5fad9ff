//! `--only`: which places are observed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use trommel_profile::Module;
use trommel_symbol::{Files, Symbols};
use trommel_tuple::{Place, Vaddr};

/// One `--only` argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Only {
    /// Addresses of the main executable, end exclusive.
    Range(Vaddr, Vaddr),
    /// A module by path or file name, or a function by name.
    Name(String),
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
        }
    }

    /// Whether `place` is selected.
    pub fn has(&mut self, place: Place, modules: &[Module]) -> bool {
        if self.wanted.is_empty() {
            return true;
        }
        let Some(module) = modules.get(usize::from(place.module().0)) else {
            return false;
        };
        let path = Path::new(OsStr::from_bytes(&module.path));
        let named = |name: &str| {
            path == Path::new(name)
                || path
                    .file_name()
                    .is_some_and(|f| f.as_bytes() == name.as_bytes())
        };
        let cheap = self.wanted.iter().any(|only| match only {
            Only::Range(lo, hi) => module.path == self.main && (*lo..*hi).contains(&place.vaddr()),
            Only::Name(name) => named(name),
        });
        if cheap || !self.wanted.iter().any(|o| matches!(o, Only::Name(_))) {
            return cheap;
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
