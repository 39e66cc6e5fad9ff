//! The input of a format: a profile, its program, and the modules that are meant.

use std::cell::Cell;

use trommel_code::Program;
use trommel_profile::{Module, Profile};
use trommel_symbol::{Code, Symbols, printable};
use trommel_tuple::{Kind, ModuleId};

use crate::error::ExportError;
use crate::infer::{self, Inferred};
use crate::process::Process;
use crate::view::ModuleFlow;

/// The input of a format.
pub struct Input<'a, 'f> {
    /// The profile.
    pub profile: &'a Profile,
    /// The program that follows from it.
    pub program: &'a Program,
    /// Names, lines and code.
    pub symbols: &'a mut Symbols<'f>,
    /// The processes that the profile is the sum of, for formats that tell them apart.
    pub processes: &'a [Process],
    /// Modules that are written.
    pub modules: Vec<ModuleId>,
    /// Make the counts of each function consistent, where they are estimates. The functions are added up here.
    pub infer: Option<Cell<Inferred>>,
}

impl<'f> Input<'_, 'f> {
    /// Checks that anything can be derived from a profile.
    ///
    /// # Errors
    /// It lacks branches or calls.
    pub fn check(profile: &Profile) -> Result<(), ExportError> {
        if profile.samples.is_some() {
            return Err(ExportError::Samples);
        }
        if profile.windows.as_ref().is_some_and(|seen| seen.taken == 0) {
            return Err(ExportError::NothingSeen);
        }
        for (kind, missing) in [(Kind::Edge, "edge"), (Kind::Call, "call")] {
            if !profile.kinds.contains_key(&kind) {
                return Err(ExportError::NoControl { missing });
            }
        }
        Ok(())
    }

    /// The module that the profile's command names, where it was executed by that name.
    pub fn program_of(profile: &Profile) -> Option<&Module> {
        Self::program_named(profile, profile.command.first()?)
    }

    /// The module of a profile with this name, directories aside.
    pub fn program_named<'p>(profile: &'p Profile, name: &[u8]) -> Option<&'p Module> {
        let base = |path: &[u8]| path.rsplit(|c| *c == b'/').next().unwrap_or(path).to_vec();
        let name = base(name);
        profile.modules.iter().find(|m| base(&m.path) == name)
    }

    /// The module of this number.
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.profile.module(id)
    }

    /// Path of a module, printable.
    pub fn path(&self, id: ModuleId) -> String {
        let path = self.module(id).map_or(&b""[..], |module| &module.path);
        printable(&String::from_utf8_lossy(path)).into_owned()
    }

    /// The only module that is meant, with its code and what was executed of it.
    pub(crate) fn only(&self, format: &'static str) -> Result<(Code<'f>, ModuleFlow), ExportError> {
        let &[module] = &self.modules[..] else {
            let number = self.modules.len();
            return Err(ExportError::OneModule { format, number });
        };
        self.flow(module, format)
    }

    /// The code of a module, and what was executed of it.
    pub(crate) fn flow(
        &self,
        module: ModuleId,
        format: &'static str,
    ) -> Result<(Code<'f>, ModuleFlow), ExportError> {
        if module == ModuleId::ANON {
            return Err(ExportError::Anonymous { format });
        }
        let code = self
            .symbols
            .code(module)
            .map_err(|why| ExportError::NoCode { why })?;
        let flow = ModuleFlow::new(self.program, module).filter(|flow| !flow.lines.is_empty());
        let flow = flow.ok_or_else(|| ExportError::NotExecuted {
            module: self.path(module),
        })?;
        if let Some(all) = &self.infer {
            let functions = self.program.functions.iter();
            let own = functions.filter(|function| function.module == module);
            let (flow, inferred) = infer::inferred(&code, flow, own, infer::WORK);
            let mut sum = all.get();
            sum.add(inferred);
            all.set(sum);
            return Ok((code, flow));
        }
        Ok((code, flow))
    }

    /// Functions and parts of functions that were executed in a module, and have no symbol in its own file.
    pub fn without_symbols(&self, module: ModuleId) -> usize {
        let symbols = self.symbols.function_symbols(module);
        let mut starts: Vec<u64> = symbols.iter().map(|symbol| symbol.start).collect();
        starts.sort_unstable();
        let functions = self.program.functions.iter();
        let functions = functions.filter(|f| f.module == module && !f.stub);
        let own = functions.filter_map(|f| f.ranges.first());
        own.filter(|range| starts.binary_search(&range.start).is_err())
            .count()
    }

    /// The reason why functions of a module have no names in its own file.
    pub(crate) fn nameless(&self, module: ModuleId, format: &'static str) -> ExportError {
        let has_labels = self
            .symbols
            .own_tables(module)
            .is_some_and(|own| own.labels);
        let module = self.path(module);
        match has_labels {
            true => ExportError::Labels { module, format },
            false => ExportError::Stripped { module, format },
        }
    }

    /// The reason why a module has no source lines.
    pub(crate) fn lineless(&self, module: ModuleId, format: &'static str) -> ExportError {
        let own = self.symbols.own_tables(module);
        let (what, remedy) = match own {
            Some(own) if own.old_packed => (
                "has its debug information in .zdebug sections, which LLVM does not read",
                "link with -gz=zlib, or use autofdo",
            ),
            // A line on stderr says why.
            _ if self.symbols.missing_lines(module).is_some() => (
                "has debug information that cannot be read to its end",
                "build or install it again",
            ),
            _ if self.symbols.has_split_debug(module) => (
                "has its debug information in .dwo files",
                "compile without -gsplit-dwarf, or use profgen: llvm-profgen reads .dwo files",
            ),
            Some(own) if own.rewritten => (
                "has no debug information",
                "BOLT keeps it with --update-debug-sections",
            ),
            _ => ("has no debug information", "compile with -g"),
        };
        ExportError::NoLines {
            module: self.path(module),
            what,
            format,
            remedy,
        }
    }

    /// Refuses a module without debug information.
    pub(crate) fn check_lines(
        &self,
        module: ModuleId,
        format: &'static str,
    ) -> Result<(), ExportError> {
        let own = self.symbols.own_tables(module);
        let is_without = own.is_some_and(|own| !own.debug);
        match is_without && self.symbols.separate_debug(module).is_none() {
            true => Err(self.lineless(module, format)),
            false => Ok(()),
        }
    }

    /// Refuses a program of Go in a format of optimisers.
    pub(crate) fn check_compiler(
        &self,
        module: ModuleId,
        format: &'static str,
    ) -> Result<(), ExportError> {
        match self.symbols.own_tables(module) {
            Some(own) if own.go => Err(ExportError::Go {
                module: self.path(module),
                format,
            }),
            _ => Ok(()),
        }
    }

    /// Refuses a module that BOLT has rewritten, where it or `perf2bolt` would.
    pub(crate) fn check_original(
        &self,
        module: ModuleId,
        needs_origins: bool,
    ) -> Result<(), ExportError> {
        let own = self.symbols.own_tables(module).filter(|own| own.rewritten);
        let remedy = match own {
            None => return Ok(()),
            Some(own) if own.origins && needs_origins => return Ok(()),
            Some(own) if own.origins => {
                "use bolt-preagg: perf2bolt makes a profile of the original program of it"
            }
            Some(_) => {
                "record the original program; or rewrite that with --enable-bat, and use bolt-preagg"
            }
        };
        Err(ExportError::Rewritten {
            module: self.path(module),
            remedy,
        })
    }

    /// Files among the modules whose code cannot be had, and why: they are gone, or others.
    pub fn gone(&self) -> Vec<(ModuleId, String)> {
        let is_file = |id: &ModuleId| self.module(*id).is_some_and(|m| m.path.starts_with(b"/"));
        let modules = self.modules.iter().copied().filter(is_file);
        let gone = modules.filter_map(|id| self.symbols.code(id).err().map(|why| (id, why)));
        gone.collect()
    }

    /// Those of the modules that have code, with it and what was executed of them: code in no file is left out.
    pub(crate) fn flows(
        &self,
        format: &'static str,
    ) -> Result<Vec<(ModuleId, Code<'f>, ModuleFlow)>, ExportError> {
        let mut all = Vec::new();
        for &module in &self.modules {
            if let Ok((code, flow)) = self.flow(module, format) {
                all.push((module, code, flow));
            }
        }
        match (&self.modules[..], all.is_empty()) {
            (&[only, ..], true) => self.flow(only, format).map(|_| all),
            _ => Ok(all),
        }
    }
}
