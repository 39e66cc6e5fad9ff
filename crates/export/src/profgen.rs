//! The unsymbolised profile of `llvm-profgen`: ranges and branches by offset, from which it makes sample profiles itself.
//!
//! Offsets count from the page in which code begins, as `llvm-profgen` does by default. A range ends with the address of its last
//! instruction. Branches from other files have no offset and are left out.
//!
//! `llvm-profgen` takes lines from debug information, and starts of functions from symbols. It makes an empty profile without either.

use std::io::Write;

use trommel_tuple::ModuleId;

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;

/// The format.
pub(crate) struct Profgen;

impl Format for Profgen {
    fn name(&self) -> &'static str {
        "profgen"
    }

    fn about(&self) -> &'static str {
        "ranges and branches, for llvm-profgen"
    }

    fn modules(&self) -> Modules {
        Modules::One
    }

    fn is_for_optimisers(&self) -> bool {
        true
    }

    fn lost_without_symbols(&self) -> Option<&'static str> {
        Some("llvm-profgen leaves out calls of them; autofdo has these")
    }

    fn needs_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "profgen"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let Next {
            file, module, made, ..
        } = next;
        let debug = next.debug.map(|debug| format!(" --debug-binary={debug}"));
        let debug = debug.unwrap_or_default();
        format!(
            "llvm-profgen --unsymbolized-profile={file} --binary={module}{debug} --output={made}.profgen.prof  # then {}",
            next.compiler(&format!("{made}.profgen.prof"))
        )
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_compiler(module, self.name())?;
        let own = input.symbols.own_tables(module);
        if own.is_some_and(|own| !own.symbols) {
            return Err(input.nameless(module, self.name()));
        }
        let separate = input.symbols.separate_debug(module);
        if separate.is_none() && own.is_some_and(|own| !own.debug || own.old_packed) {
            return Err(input.lineless(module, self.name()));
        }
        Ok(())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let (_, flow) = input.only(self.name())?;
        self.check(input, flow.module)?;
        let base = input.symbols.code_base(flow.module).unwrap_or(0);
        let offset = |at: u64| at.wrapping_sub(base);
        writeln!(out, "{}", flow.lines.len())?;
        for line in &flow.lines {
            let (start, last) = (offset(line.start), offset(line.last));
            writeln!(out, "{start:x}-{last:x}:{}", line.count)?;
        }
        let branches = flow.transfers.iter().filter(|t| t.way.is_taken());
        let branches: Vec<_> = branches
            .filter(|t| flow.has(t.from) && flow.has(t.to))
            .collect();
        writeln!(out, "{}", branches.len())?;
        for branch in branches {
            let (from, to) = (offset(branch.from.vaddr().0), offset(branch.to.vaddr().0));
            writeln!(out, "{from:x}->{to:x}:{}", branch.count)?;
        }
        Ok(())
    }
}
