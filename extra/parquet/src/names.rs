//! Names of places in many profiles.
//!
//! Each profile numbers its modules by itself, and a database has thousands of profiles of few modules. So modules are known by path and
//! build id here, and each is opened once.

use std::collections::HashMap;
use std::rc::Rc;

use trommel_profile::{Build, Module, Profile};
use trommel_symbol::{Files, Location, Symbols};
use trommel_tuple::{ModuleId, Place};

use crate::table::Cell;

/// The number of a module among the symbols that are its alone.
const ONE: ModuleId = ModuleId(1);

/// The names of all modules that were met.
pub(crate) struct Names<'f> {
    files: &'f Files,
    symbols: HashMap<Build, Symbols<'f>>,
}

/// A module of a profile, as tables name it.
struct Named {
    key: Build,
    path: String,
    build_id: Option<String>,
}

/// Modules of a profile.
pub(crate) struct Modules(HashMap<ModuleId, Named>);

/// A place, as tables have it.
pub(crate) struct Site {
    module: String,
    build_id: Option<String>,
    vaddr: u64,
    location: Rc<Location>,
}

impl<'f> Names<'f> {
    pub(crate) fn new(files: &'f Files) -> Self {
        Self {
            files,
            symbols: HashMap::new(),
        }
    }

    /// Returns the site at a place of a profile with these modules.
    pub(crate) fn site(&mut self, modules: &Modules, place: Place) -> Site {
        let vaddr = place.vaddr();
        let Some(named) = modules.0.get(&place.module()) else {
            return Site {
                module: format!("[module {}]", place.module().0),
                build_id: None,
                vaddr: vaddr.0,
                location: Rc::default(),
            };
        };
        let Build {
            path,
            build_id,
            code,
        } = &named.key;
        let symbols = self.symbols.entry(named.key.clone()).or_insert_with(|| {
            let alone = Module {
                id: ONE,
                path: path.clone(),
                build_id: build_id.clone(),
                code: *code,
                loaded: None,
            };
            Symbols::new(self.files, &[alone])
        });
        Site {
            module: named.path.clone(),
            build_id: named.build_id.clone(),
            vaddr: vaddr.0,
            location: symbols.locate(Place::new(ONE, vaddr)),
        }
    }
}

impl Modules {
    pub(crate) fn of(profile: &Profile) -> Self {
        let named = |module: &Module| Named {
            key: module.build(),
            path: String::from_utf8_lossy(&module.path).into_owned(),
            build_id: Some(module.build_name()).filter(|name| !name.is_empty()),
        };
        let all = profile.modules.iter();
        Self(all.map(|module| (module.id, named(module))).collect())
    }
}

impl Site {
    /// The six columns of a place.
    pub(crate) fn cells(&self) -> [Cell<'_>; 6] {
        let location = &self.location;
        [
            Cell::Text(&self.module),
            Cell::text(self.build_id.as_deref()),
            Cell::Number(self.vaddr),
            Cell::text(location.function.as_deref()),
            Cell::text(location.file.as_deref()),
            Cell::number(location.line.map(u64::from)),
        ]
    }
}

/// A build id in words, if there is one.
pub(crate) fn hex(build_id: &[u8]) -> Option<String> {
    let text: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    (!text.is_empty()).then_some(text)
}
