//! Branches and ways through code by address, as `perf2bolt -pa` reads them. No names are needed.
//!
//! `B FROM TO COUNT MISPREDICTED` is a taken branch, `F FROM TO COUNT` code that was executed from one address to the other without
//! one. Address 0 stands for code of other files.

use std::io::Write;

use trommel_tuple::{ModuleId, Place};

use crate::bolt;
use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::leaders;

/// The format.
pub(crate) struct Preaggregated;

impl Format for Preaggregated {
    fn name(&self) -> &'static str {
        "bolt-preagg"
    }

    fn about(&self) -> &'static str {
        "branches by address, for perf2bolt -pa"
    }

    fn modules(&self) -> Modules {
        Modules::One
    }

    fn is_for_optimisers(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "preagg"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let Next { file, module, .. } = next;
        let command = format!("perf2bolt -pa -p {file} -o {file}.fdata {module}");
        match (next.rewritten, next.stripped) {
            (true, _) => {
                format!("{command}  # of the program before BOLT: rewrite that one with it")
            }
            (false, true) => {
                format!("{command}  # newer versions take a stripped program with --allow-stripped")
            }
            (false, false) => {
                let rewrite = bolt::rewrite(next, &format!("{file}.fdata"));
                let mismatching = match next.relocations {
                    true => "",
                    false => "; until then perf2bolt reports split functions as mismatching",
                };
                format!("{command} && {rewrite}{mismatching}")
            }
        }
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_original(module, true)?;
        input.check_compiler(module, self.name())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let (code, flow) = input.only(self.name())?;
        self.check(input, flow.module)?;
        let at = |place: Place| match flow.has(place) {
            true => place.vaddr().0,
            false => 0,
        };
        for transfer in leaders::transfers(input, &code, &flow) {
            let (from, to, count) = (at(transfer.from), at(transfer.to), transfer.count);
            match transfer.way.is_taken() {
                true => writeln!(out, "B {from:x} {to:x} {count} 0")?,
                false => writeln!(out, "F {from:x} {to:x} {count}")?,
            }
        }
        Ok(())
    }
}
