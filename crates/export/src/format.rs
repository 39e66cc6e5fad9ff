//! The trait of a format.

use std::io::Write;

use trommel_profile::unit::Unit;
use trommel_tuple::ModuleId;

use crate::error::ExportError;
use crate::input::Input;

/// The modules that a format describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Modules {
    /// One file.
    One,
    /// Any number.
    All,
}

/// The language of a module's function with most instructions, as far as it says which compiler reads a profile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// Rust.
    Rust,
    /// Any other, or none that is known.
    Other,
}

/// Parts of the command that reads a file next, each as a shell takes it.
#[derive(Clone, Copy, Debug)]
pub struct Next<'a> {
    /// The file that was written.
    pub file: &'a str,
    /// The program or library that it describes.
    pub module: &'a str,
    /// A name for what is made of it, in the present directory.
    pub made: &'a str,
    /// The unit of executed code.
    pub unit: Unit,
    /// The module has relocations of its code.
    pub relocations: bool,
    /// BOLT has rewritten the module.
    pub rewritten: bool,
    /// The module is a shared library.
    pub library: bool,
    /// The module has no function symbols of its own.
    pub stripped: bool,
    /// The separate file of the module's debug information, as a shell takes it.
    pub debug: Option<&'a str>,
    /// Source files of the module are not on this machine.
    pub sources_missing: bool,
    /// The source file of the module's function with most instructions, if it is there.
    pub source: Option<&'a str>,
    /// The language of that function.
    pub language: Language,
}

impl Next<'_> {
    /// Flags that a compiler needs of the module's sources beside those of the profile.
    pub(crate) const fn flags(&self) -> &'static str {
        match self.library {
            true => "-O2 -g -fPIC",
            false => "-O2 -g",
        }
    }

    /// The compiler of LLVM with a sample profile, as a shell takes it.
    pub(crate) fn compiler(&self, profile: &str) -> String {
        match self.language {
            Language::Rust => format!("rustc +nightly -O -g -Z profile-sample-use={profile}"),
            Language::Other => format!("clang {} -fprofile-sample-use={profile}", self.flags()),
        }
    }

    /// The option by which the linker keeps relocations.
    pub(crate) const fn emit_relocations(&self) -> &'static str {
        match self.language {
            Language::Rust => "-C link-arg=-Wl,--emit-relocs",
            Language::Other => "-Wl,--emit-relocs",
        }
    }
}

/// A format that profiles are written in.
pub trait Format: Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// Its purpose, in one line.
    fn about(&self) -> &'static str;
    /// The modules that it describes.
    fn modules(&self) -> Modules;
    /// Returns true if the format says what was not executed, so that estimates would be wrong in it.
    fn promises_exact(&self) -> bool {
        false
    }
    /// Returns true if an optimiser reads the format, to which inconsistent estimates are of less use.
    fn is_for_optimisers(&self) -> bool {
        false
    }
    /// The part of a profile that is lost where functions have no symbol in the module's own file; `None` where nothing is.
    fn lost_without_symbols(&self) -> Option<&'static str> {
        None
    }
    /// Returns true if the format has source lines, and can be written without any.
    fn has_lines(&self) -> bool {
        false
    }
    /// Returns true if the format has nothing but what source lines are known of.
    fn needs_lines(&self) -> bool {
        false
    }
    /// Returns true if the format tells processes apart.
    fn tells_processes(&self) -> bool {
        false
    }
    /// Returns true if the command that reads the format opens all source files.
    fn opens_sources(&self) -> bool {
        false
    }
    /// The greatest number that it holds.
    fn most(&self) -> u64 {
        u64::MAX
    }
    /// The end of a file's name.
    fn extension(&self) -> &'static str;
    /// The command that reads the file next.
    fn next(&self, next: &Next<'_>) -> String;
    /// Checks that a module's file has what the format needs of it.
    ///
    /// # Errors
    /// What it lacks.
    fn check(&self, _input: &Input<'_, '_>, _module: ModuleId) -> Result<(), ExportError> {
        Ok(())
    }
    /// Says in words what the format cannot hold of the chosen modules, where there is such.
    fn left_out(&self, _input: &Input<'_, '_>) -> Option<String> {
        None
    }
    /// Writes the profile.
    ///
    /// # Errors
    /// The profile lacks something that the format cannot do without, or the output cannot be written.
    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError>;
}
