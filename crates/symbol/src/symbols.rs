//! Answers about places, for all modules of a profile.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::LittleEndian as LE;
use object::read::elf::SectionHeader;
use trommel_profile::Module;
use trommel_tuple::{ModuleId, Place};

use crate::code::{Code, extent, fixed};
use crate::debug::{self, Debug, Dwarf};
use crate::demangle::demangle;
use crate::elf;
use crate::files::Files;
use crate::listing::{FunctionSymbol, function_symbols, has_labels, section_symbols};
use crate::object_file::ObjectFile;
use crate::separate::{DebugPlaces, Separate, has_mini, mini};
use crate::sources::{self, Sources};
use crate::spans::Spans;
use crate::table::SymbolIndex;
use crate::vdso::own_vdso;

/// Name of an inlined function that has none.
const UNKNOWN: &[u8] = b"??";

/// Names of a place. All parts are optional: a stripped program has none of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Location {
    /// The function whose code this is, demangled.
    pub function: Option<Rc<str>>,
    /// Bytes from the function's start.
    pub offset: u64,
    /// Source file of the instruction (in the inlined function, if it comes from one).
    pub file: Option<Rc<str>>,
    /// Line in that file.
    pub line: Option<u32>,
    /// Source file of `function` itself: where nothing is inlined, that of the instruction.
    pub outer_file: Option<Rc<str>>,
    /// Line in that file.
    pub outer_line: Option<u32>,
    /// Functions inlined here, innermost first, each with the position of the instruction in it;
    /// `function` itself, into which they were inlined, is not among them.
    pub inlined: Vec<Frame>,
}

/// An inlined function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its name, demangled.
    pub function: Rc<str>,
    /// Source file of the instruction, or of the call that was inlined.
    pub file: Option<Rc<str>>,
    /// Line in that file.
    pub line: Option<u32>,
}

/// A function, or a part of one that has a name of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name as it is in the file.
    pub name: Vec<u8>,
    /// Its vaddrs.
    pub range: std::ops::Range<u64>,
}

/// Instructions of one source line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceRow {
    /// Their vaddrs.
    pub range: std::ops::Range<u64>,
    /// The source file.
    pub file: Rc<str>,
    /// The line in it.
    pub line: u32,
}

/// Tables that tools look for in the file that they are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnTables {
    /// Function symbols (`.symtab`) that say where functions end.
    pub symbols: bool,
    /// Symbols of places in code, functions or not.
    pub labels: bool,
    /// Debug information, packed or not.
    pub debug: bool,
    /// Debug information packed as before ELF had a way for it (`.zdebug_info`), which LLVM does not read.
    pub old_packed: bool,
    /// Relocations of code, which `--emit-relocs` keeps.
    pub relocations: bool,
    /// BOLT has rewritten the file.
    pub rewritten: bool,
    /// Tables of code that programs of Go's own compiler read while they run.
    pub go: bool,
    /// BOLT's table of where its code was before (`--enable-bat`).
    pub origins: bool,
}

/// The symbols of the modules of a profile.
pub struct Symbols<'a> {
    files: &'a Files,
    places: Rc<DebugPlaces>,
    debug_limit: u64,
    complain: Option<fn(&str)>,
    modules: Vec<Source<'a>>,
    strings: HashMap<Box<str>, Rc<str>>,
    /// Names of inlined functions, by their names as they are in the file.
    inlined: HashMap<&'a [u8], Rc<str>>,
    cache: HashMap<Place, Rc<Location>>,
}

impl<'a> Symbols<'a> {
    /// The symbols of `modules`. Nothing is opened before it is asked for.
    pub fn new(files: &'a Files, modules: &[Module]) -> Self {
        let mut symbols = Self {
            files,
            places: Rc::default(),
            debug_limit: u64::MAX,
            complain: None,
            modules: Vec::new(),
            strings: HashMap::new(),
            inlined: HashMap::new(),
            cache: HashMap::new(),
        };
        for module in modules {
            let source = symbols.slot(module.id);
            source.path = PathBuf::from(std::ffi::OsStr::from_bytes(&module.path));
            source.build_id.clone_from(&module.build_id);
            source.code = module.code;
        }
        symbols
    }

    /// Leaves the debug information of a module alone (no lines, no inlined frames) when it has
    /// more than `bytes`. Opening costs about 20 ms for each 10 MB.
    #[must_use]
    pub fn with_debug_limit(mut self, bytes: u64) -> Self {
        self.debug_limit = bytes;
        self
    }

    /// Calls `complain` at the end with each of [`Self::missing_names`] and [`Self::missing_lines`].
    #[must_use]
    pub fn with_complaints(mut self, complain: fn(&str)) -> Self {
        self.complain = Some(complain);
        let all = self.modules.iter_mut();
        all.for_each(|module| module.complain = Some(complain));
        self
    }

    /// Looks for separate debug files in these places and not in those of the system.
    #[must_use]
    pub fn with_debug_places(mut self, places: DebugPlaces) -> Self {
        self.places = Rc::new(places);
        let all = self.modules.iter_mut();
        all.for_each(|module| module.places = Rc::clone(&self.places));
        self
    }

    /// Takes `image` as the content of a module that is in no file, instead of looking for it.
    pub fn set_image(&mut self, module: ModuleId, image: Vec<u8>) {
        self.slot(module).image = Some(image);
        self.cache.retain(|place, _| place.module() != module);
    }

    /// Returns what stands at `place`.
    pub fn locate(&mut self, place: Place) -> Rc<Location> {
        if let Some(known) = self.cache.get(&place) {
            return Rc::clone(known);
        }
        let location = Rc::new(self.look_up(place));
        self.cache.insert(place, Rc::clone(&location));
        location
    }

    /// The source file and line of an instruction, without its other names; cheaper than [`Self::locate`] for many places.
    pub fn line(&mut self, place: Place) -> Option<(Rc<str>, u32)> {
        let source = self.modules.get(usize::from(place.module().0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        let debug = opened.debug(self.files, self.debug_limit)?;
        let (file, line) = debug.line(place.vaddr().0)?;
        let file = match self.strings.get(file) {
            Some(known) => Rc::clone(known),
            None => {
                let new: Rc<str> = file.into();
                self.strings.insert(file.into(), Rc::clone(&new));
                new
            }
        };
        Some((file, line))
    }

    /// The functions inlined at an instruction, innermost first, as [`Location::inlined`] has them; cheaper than [`Self::locate`] for many places.
    pub fn inlined(&mut self, place: Place) -> Vec<Rc<str>> {
        let Some(source) = self.modules.get(usize::from(place.module().0)) else {
            return Vec::new();
        };
        let Ok(opened) = source.opened(self.files) else {
            return Vec::new();
        };
        let debug = opened.debug(self.files, self.debug_limit);
        let names = debug.map(|debug| debug.inlined(place.vaddr().0));
        let name = |name: Option<&'a [u8]>| {
            let name = name.unwrap_or(UNKNOWN);
            let known = self.inlined.entry(name);
            Rc::clone(known.or_insert_with(|| demangle(name).into()))
        };
        names.unwrap_or_default().into_iter().map(name).collect()
    }

    /// Returns where in a module the functions of a name are, as it is in the file or demangled.
    pub fn ranges_of(&self, module: ModuleId, name: &str) -> Vec<std::ops::Range<u64>> {
        let source = self.modules.get(usize::from(module.0));
        match source.map(|source| source.opened(self.files)) {
            Some(Ok(opened)) => opened.index(self.files).ranges_of(name),
            _ => Vec::new(),
        }
    }

    /// Addresses between which [`Self::locate`] finds, or does not find, a function of this name, as far as symbols tell.
    pub fn borders_of(&self, module: ModuleId, name: &str) -> Vec<u64> {
        let source = self.modules.get(usize::from(module.0));
        match source.map(|source| source.opened(self.files)) {
            Some(Ok(opened)) => opened.index(self.files).borders_of(name),
            _ => Vec::new(),
        }
    }

    /// All functions of a module in the order of their addresses, each with every name that it has.
    pub fn functions(&self, module: ModuleId) -> Vec<Function> {
        let source = self.modules.get(usize::from(module.0));
        let Some(Ok(opened)) = source.map(|source| source.opened(self.files)) else {
            return Vec::new();
        };
        let functions = opened.index(self.files).functions();
        let owned = functions.map(|function| Function {
            name: function.name.to_vec(),
            range: function.range,
        });
        owned.collect()
    }

    /// The functions of a module, those without a name included.
    pub fn spans(&self, module: ModuleId) -> Rc<Spans> {
        let source = self.modules.get(usize::from(module.0));
        match source.map(|source| source.opened(self.files)) {
            Some(Ok(opened)) => {
                let spans = || Spans::of(&opened.file, opened.index(self.files));
                match *self.places == DebugPlaces::default() {
                    true => self.files.known(opened.file.bytes(), spans),
                    // Another separate file may have other symbols.
                    false => Rc::new(spans()),
                }
            }
            _ => Rc::default(),
        }
    }

    /// The name of the function at a place as it is in the file, where a symbol tells. No debug information is opened.
    pub fn symbol(&self, place: Place) -> Option<(Vec<u8>, u64)> {
        let source = self.modules.get(usize::from(place.module().0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        let address = place.vaddr().0;
        let symbol = opened.index(self.files).find(address)?;
        Some((symbol.name, address - symbol.start))
    }

    /// The function symbols of a module's symbol table, in the order of their starts.
    pub fn function_symbols(&self, module: ModuleId) -> Vec<FunctionSymbol> {
        let source = self.modules.get(usize::from(module.0));
        let Some(Ok(opened)) = source.map(|source| source.opened(self.files)) else {
            return Vec::new();
        };
        let found = function_symbols(&opened.file);
        match (found.is_empty(), opened.with_symbols(self.files)) {
            (true, Some(other)) => function_symbols(other),
            _ => found,
        }
    }

    /// The sections of code that a module's own `.symtab` has a symbol of, each with its start.
    pub fn section_symbols(&self, module: ModuleId) -> Vec<(u64, Vec<u8>)> {
        let source = self.modules.get(usize::from(module.0));
        let opened = source.and_then(|source| source.opened(self.files).as_ref().ok());
        opened.map_or_else(Vec::new, |opened| section_symbols(&opened.file))
    }

    /// Tables in a module's own file, without those of separate debug files; `None` where the file cannot be read.
    pub fn own_tables(&self, module: ModuleId) -> Option<OwnTables> {
        let source = self.modules.get(usize::from(module.0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        let file = Some(&opened.file).filter(|_| opened.in_place)?;
        let relocations = |(name, _): (&[u8], _)| name.starts_with(b".rela.text");
        Some(OwnTables {
            symbols: function_symbols(file).iter().any(|f| f.size > 0),
            labels: has_labels(file),
            debug: file.debug_section(".debug_info").is_some(),
            old_packed: file.section(".zdebug_info").is_some(),
            relocations: file.sections().any(relocations),
            rewritten: file.is_rewritten(),
            go: file.section(".gopclntab").is_some(),
            origins: file.section(".note.bolt_bat").is_some(),
        })
    }

    /// The separate file that a module's debug information is in, where it is not in its own.
    pub fn separate_debug(&self, module: ModuleId) -> Option<PathBuf> {
        let source = self.modules.get(usize::from(module.0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        let (file, path) = opened.with_debug(self.files)?;
        let separate = path != opened.path && debug::size(file) > 0;
        separate.then(|| path.to_owned())
    }

    /// The source lines of the instructions in a range of a module, in the order of their addresses.
    pub fn rows(&mut self, module: ModuleId, range: &std::ops::Range<u64>) -> Vec<SourceRow> {
        let source = self.modules.get(usize::from(module.0));
        let Some(Ok(opened)) = source.map(|source| source.opened(self.files)) else {
            return Vec::new();
        };
        let debug = opened.debug(self.files, self.debug_limit);
        let rows = debug.map(|debug| debug.rows(range)).unwrap_or_default();
        let mut found = Vec::with_capacity(rows.len());
        for row in rows {
            found.push(SourceRow {
                range: row.start..row.end,
                file: self.shared(&row.file),
                line: row.line,
            });
        }
        found
    }

    /// The source positions of a module as sample profiles name them; `None` without debug information.
    pub fn sources(&self, module: ModuleId) -> Option<Sources> {
        let source = self.modules.get(usize::from(module.0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        let dwarf = opened.dwarf(self.files)?;
        let mut named: HashMap<u64, Vec<Vec<u8>>> = HashMap::new();
        for symbol in self.function_symbols(module) {
            named.entry(symbol.start).or_default().push(symbol.name);
        }
        let symbols = |at: u64| named.get(&at).cloned().unwrap_or_default();
        let sources = Sources::of(&dwarf.sections, symbols);
        opened.note(dwarf.is_spent());
        Some(sources).filter(|sources| !sources.is_empty())
    }

    /// Says whether debug information of a module is in files of their own, which are not read (`-gsplit-dwarf`).
    pub fn has_split_debug(&self, module: ModuleId) -> bool {
        let source = self.modules.get(usize::from(module.0));
        let opened = source.and_then(|source| source.opened(self.files).as_ref().ok());
        let dwarf = opened.and_then(|opened| opened.dwarf(self.files));
        dwarf.is_some_and(|dwarf| sources::is_split(&dwarf.sections))
    }

    /// The vaddrs that a module occupies, as its program headers say.
    pub fn extent(&self, module: ModuleId) -> Option<std::ops::Range<u64>> {
        let source = self.modules.get(usize::from(module.0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        extent(opened.file.bytes())
    }

    /// The vaddr from which tools count offsets in a module: of the page in which its code begins.
    pub fn code_base(&self, module: ModuleId) -> Option<u64> {
        const PAGE: u64 = 4096;
        let code = self.code(module).ok()?;
        let first = code.parts().iter().map(|(start, _)| *start).min()?;
        Some(first & !(PAGE - 1))
    }

    /// The code of a module.
    ///
    /// # Errors
    /// In words: its file is gone, was changed since the recording, or has no code; or there never was a file.
    pub fn code(&self, module: ModuleId) -> Result<Code<'a>, String> {
        match self.modules.get(usize::from(module.0)) {
            Some(source) => source.code(self.files),
            None => Err("no such module".into()),
        }
    }

    /// The vaddrs of a module that nothing writes once it has been linked: code, constants, and pointers that the linker fills in and then
    /// protects. Empty where the file is not there.
    pub fn fixed(&self, module: ModuleId) -> Vec<Range<u64>> {
        let source = self.modules.get(usize::from(module.0));
        let opened = source.and_then(|source| source.opened(self.files).as_ref().ok());
        let Some(opened) = opened.filter(|opened| opened.in_place) else {
            return Vec::new();
        };
        let mut all = fixed(opened.file.bytes());
        // Each of these is filled in once, when its function is called first.
        if let Some(section) = opened.file.section(".got.plt") {
            let start = section.sh_addr(LE);
            all.push(start..start.saturating_add(section.sh_size(LE)));
        }
        all
    }

    /// The text at a vaddr of a module, among the bytes that the program cannot write: up to a zero, printable, and of at least
    /// four characters.
    pub fn text(&self, module: ModuleId, vaddr: u64) -> Option<String> {
        const FEW: usize = 4;
        const MANY: usize = 4096;
        let source = self.modules.get(usize::from(module.0))?;
        let opened = source.opened(self.files).as_ref().ok()?;
        let constants = opened
            .in_place
            .then(|| Code::constants_of(opened.file.bytes()))??;
        let bytes = constants.at(vaddr)?;
        let bytes = &bytes[..bytes.len().min(MANY)];
        let text = bytes.split(|byte| *byte == 0).next()?;
        let printable = |byte: &u8| byte.is_ascii_graphic() || b" \n\t\r".contains(byte);
        let is = text.len() >= FEW && text.len() < bytes.len() && text.iter().all(printable);
        is.then(|| String::from_utf8_lossy(text).into_owned())
    }

    /// Returns why a module gives no names although it was asked about; `None` when all is well.
    pub fn problem(&self, module: ModuleId) -> Option<&str> {
        match self.modules.get(usize::from(module.0))?.opened.get()? {
            Ok(_) => None,
            Err(problem) => Some(problem),
        }
    }

    /// Returns why lines and inlined functions of a module are missing that its debug information has; `None` when all is well.
    pub fn missing_lines(&self, module: ModuleId) -> Option<String> {
        let opened = self.modules.get(usize::from(module.0))?.opened.get()?;
        opened.as_ref().ok()?.missing_lines()
    }

    /// Returns why names of a module are missing that its file has; `None` when all is well.
    pub fn missing_names(&self, module: ModuleId) -> Option<String> {
        let opened = self.modules.get(usize::from(module.0))?.opened.get()?;
        opened.as_ref().ok()?.missing_names()
    }

    fn slot(&mut self, module: ModuleId) -> &mut Source<'a> {
        let number = usize::from(module.0);
        if self.modules.len() <= number {
            let (places, complain) = (&self.places, self.complain);
            self.modules.resize_with(number + 1, || Source {
                places: Rc::clone(places),
                complain,
                ..Source::default()
            });
        }
        &mut self.modules[number]
    }

    fn look_up(&mut self, place: Place) -> Location {
        let address = place.vaddr().0;
        let Some(source) = self.modules.get(usize::from(place.module().0)) else {
            return Location::default();
        };
        let Ok(opened) = source.opened(self.files) else {
            return Location::default();
        };
        let symbol = opened.index(self.files).find(address);
        let frames = opened
            .debug(self.files, self.debug_limit)
            .map(|debug| debug.frames(address))
            .unwrap_or_default();
        let mut location = Location::default();
        if let Some(innermost) = frames.first() {
            location.file = innermost.file.as_deref().map(|f| self.shared(f));
            location.line = innermost.line.filter(|line| *line > 0);
        }
        if let Some((outermost, inlined)) = frames.split_last() {
            location.outer_file = outermost.file.as_deref().map(|f| self.shared(f));
            location.outer_line = outermost.line.filter(|line| *line > 0);
            for frame in inlined {
                let name = demangle(frame.function.as_deref().unwrap_or(UNKNOWN));
                location.inlined.push(Frame {
                    function: self.shared(&name),
                    file: frame.file.as_deref().map(|f| self.shared(f)),
                    line: frame.line,
                });
            }
            location.function = outermost
                .function
                .as_deref()
                .map(|f| self.shared(&demangle(f)));
        }
        if let Some(symbol) = symbol {
            location.function = Some(self.shared(&demangle(&symbol.name)));
            location.offset = address - symbol.start;
        }
        location
    }

    fn shared(&mut self, text: &str) -> Rc<str> {
        if let Some(known) = self.strings.get(text) {
            return Rc::clone(known);
        }
        let new: Rc<str> = text.into();
        self.strings.insert(text.into(), Rc::clone(&new));
        new
    }
}

/// The checksum of a file's code.
struct Checksum(Option<u32>);

/// A module before and after its files were opened.
#[derive(Default)]
struct Source<'a> {
    path: PathBuf,
    build_id: Vec<u8>,
    code: Option<u32>,
    image: Option<Vec<u8>>,
    places: Rc<DebugPlaces>,
    complain: Option<fn(&str)>,
    opened: OnceCell<Result<Opened<'a>, String>>,
}

impl<'a> Source<'a> {
    fn opened(&self, files: &'a Files) -> &Result<Opened<'a>, String> {
        self.opened.get_or_init(|| self.open(files))
    }

    fn code(&self, files: &'a Files) -> Result<Code<'a>, String> {
        let opened = self.opened(files).as_ref().map_err(Clone::clone)?;
        let path = self.path.display();
        if opened.in_place {
            let code = Code::of(opened.file.bytes());
            return code.ok_or_else(|| format!("{path}: has no code that can be read"));
        }
        // Names came from its separate debug file, which has no code.
        Err(match files.map(&self.path) {
            Ok(_) => format!("{path}: changed since the recording (other build id)"),
            Err(error) => format!("{path}: {error}"),
        })
    }

    fn open(&self, files: &'a Files) -> Result<Opened<'a>, String> {
        let bytes = if let Some(image) = &self.image {
            files.keep(image.clone())
        } else if self.path == Path::new("[vdso]") {
            files.keep(own_vdso().ok_or("this process has no vDSO to compare with")?)
        } else if self.path.is_absolute() {
            match files.map(&self.path) {
                Ok(bytes) => bytes,
                // The file is gone; its debug file may still be installed.
                Err(error) => {
                    return (self.places.without_file(&self.build_id, files))
                        .map(|separate| self.debug_file(separate))
                        .ok_or_else(|| format!("{}: {error}", self.path.display()));
                }
            }
        } else {
            return Err("no file".into());
        };
        let file = ObjectFile::parse(bytes)
            .ok_or_else(|| format!("{}: no readable section table", self.path.display()))?;
        if !self.build_id.is_empty() && file.build_id() != self.build_id {
            if let Some(separate) = self.places.without_file(&self.build_id, files) {
                return Ok(self.debug_file(separate));
            }
            return Err(format!(
                "{}: changed since the recording (other build id)",
                self.path.display()
            ));
        }
        if let Some(code) = self.code.filter(|_| self.build_id.is_empty()) {
            let there = files.known(bytes, || Checksum(elf::code_checksum(&self.path)));
            if there.0 != Some(code) {
                return Err(format!(
                    "{}: changed since the recording (other code)",
                    self.path.display()
                ));
            }
        }
        Ok(self.named(file, self.path.clone()))
    }

    /// Only a debug file is there.
    fn debug_file(&self, separate: Separate<'a>) -> Opened<'a> {
        let mut opened = self.named(separate.file, separate.path);
        opened.in_place = false;
        opened
    }

    fn named(&self, file: ObjectFile<'a>, path: PathBuf) -> Opened<'a> {
        let mut opened = Opened::new(file, path, Rc::clone(&self.places));
        opened.complain = self.complain;
        opened
    }
}

/// A module whose file was opened; its parts are read when needed.
struct Opened<'a> {
    file: ObjectFile<'a>,
    path: PathBuf,
    places: Rc<DebugPlaces>,
    /// It is the module's own file.
    in_place: bool,
    separate: OnceCell<Option<Separate<'a>>>,
    mini: OnceCell<Option<ObjectFile<'a>>>,
    index: OnceCell<SymbolIndex<'a>>,
    debug: OnceCell<Option<Debug<'a>>>,
    /// Debug information was not read to its end.
    spent: Cell<bool>,
    /// Debug information could not be unpacked.
    damaged: Cell<bool>,
    complain: Option<fn(&str)>,
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let missing = [self.missing_names(), self.missing_lines()];
        if let Some(complain) = self.complain {
            missing
                .iter()
                .flatten()
                .for_each(|missing| complain(missing));
        }
    }
}

impl<'a> Opened<'a> {
    fn new(file: ObjectFile<'a>, path: PathBuf, places: Rc<DebugPlaces>) -> Self {
        Self {
            file,
            path,
            places,
            in_place: true,
            separate: OnceCell::new(),
            mini: OnceCell::new(),
            index: OnceCell::new(),
            debug: OnceCell::new(),
            spent: Cell::new(false),
            damaged: Cell::new(false),
            complain: None,
        }
    }

    fn separate(&self, files: &'a Files) -> Option<&Separate<'a>> {
        let find = || {
            let found = || self.places.of_module(&self.file, &self.path, files);
            self.in_place.then(found).flatten()
        };
        self.separate.get_or_init(find).as_ref()
    }

    /// The file with the symbols that a stripped one lacks.
    fn with_symbols(&self, files: &'a Files) -> Option<&ObjectFile<'a>> {
        let has_symbols = |file: &ObjectFile<'_>| !file.symbols(object::elf::SHT_SYMTAB).is_empty();
        if let Some(separate) = self.separate(files).filter(|s| has_symbols(&s.file)) {
            return Some(&separate.file);
        }
        let unpacked = self.mini.get_or_init(|| mini(&self.file, files));
        unpacked.as_ref()
    }

    /// Returns why names are missing that the file has packed; `None` when all is well.
    fn missing_names(&self) -> Option<String> {
        let is_damaged = matches!(self.mini.get(), Some(None)) && has_mini(&self.file);
        is_damaged.then(|| {
            format!(
                "{}: its symbols in .gnu_debugdata are damaged, or unpack to far more than they could, so functions have no names; \
                 build or install it again",
                self.path.display()
            )
        })
    }

    fn index(&self, files: &'a Files) -> &SymbolIndex<'a> {
        self.index
            .get_or_init(|| SymbolIndex::new(&self.file, || self.with_symbols(files)))
    }

    fn debug(&self, files: &'a Files, limit: u64) -> Option<&Debug<'a>> {
        let open = || {
            let (file, _) = self.with_debug(files)?;
            if debug::size(file) > limit {
                return None;
            }
            let dwarf = self.dwarf(files)?;
            let meters = dwarf.meters.clone();
            let debug = Debug::open(dwarf);
            self.note(meters.iter().any(|meter| meter.is_spent()));
            debug
        };
        self.debug.get_or_init(open).as_ref()
    }

    fn note(&self, spent: bool) {
        self.spent.set(self.spent.get() || spent);
    }

    fn missing_lines(&self) -> Option<String> {
        let debug = self.debug.get().and_then(Option::as_ref);
        let spent = self.spent.get() || debug.is_some_and(Debug::is_spent);
        let why = match (self.damaged.get(), spent) {
            (true, _) => "is compressed, and is damaged or unpacks to far more than it could",
            (_, true) => "refers to the same bytes again and again",
            _ => return None,
        };
        Some(format!(
            "{}: its debug information {why}, so lines and inlined functions are missing; build or install it again",
            self.path.display()
        ))
    }

    fn dwarf(&self, files: &'a Files) -> Option<Dwarf<'a>> {
        let (file, path) = self.with_debug(files)?;
        self.damaged.set(debug::is_damaged(file, files));
        let shared = self.places.shared(file, path, files);
        debug::dwarf(file, shared.as_ref(), files)
    }

    /// The file with the debug information, and its path.
    fn with_debug(&self, files: &'a Files) -> Option<(&ObjectFile<'a>, &Path)> {
        match debug::size(&self.file) {
            0 => (self.separate(files)).map(|separate| (&separate.file, &*separate.path)),
            _ => Some((&self.file, &*self.path)),
        }
    }
}
