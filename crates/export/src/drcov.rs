//! DynamoRIO's coverage, for Lighthouse and other viewers of basic blocks: executed straight lines of all modules.
//!
//! Blocks are `u32` offset from the module's first byte, `u16` size, `u16` module, little-endian. A longer block is several.

use std::io::Write;

use trommel_tuple::ModuleId;

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::view::ModuleFlow;

/// The format.
pub(crate) struct Drcov;

impl Format for Drcov {
    fn name(&self) -> &'static str {
        "drcov"
    }

    fn about(&self) -> &'static str {
        "executed basic blocks, for Lighthouse and other viewers"
    }

    fn modules(&self) -> Modules {
        Modules::All
    }

    fn promises_exact(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "drcov"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!("# open {file} with the coverage viewer of your disassembler")
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let all: Vec<(ModuleId, ModuleFlow)> = (input.flows(self.name())?.into_iter())
            .map(|(m, _, flow)| (m, flow))
            .collect();
        writeln!(out, "DRCOV VERSION: 2\nDRCOV FLAVOR: trommel")?;
        writeln!(out, "Module Table: version 2, count {}", all.len())?;
        writeln!(out, "Columns: id, base, end, entry, path")?;
        let mut blocks: Vec<[u8; 8]> = Vec::new();
        for (number, (module, flow)) in all.iter().enumerate() {
            let extent = input.symbols.extent(*module).unwrap_or(0..0);
            let bias = input
                .module(*module)
                .and_then(|m| m.loaded)
                .map_or(0, |l| l.bias);
            let (base, end) = (
                extent.start.wrapping_add(bias),
                extent.end.wrapping_add(bias),
            );
            let path = input.path(*module);
            writeln!(
                out,
                "{number}, {base:#018x}, {end:#018x}, {:#018x}, {path}",
                0
            )?;
            let id = u16::try_from(number).unwrap_or(u16::MAX);
            for line in &flow.lines {
                pieces(
                    line.start.wrapping_sub(extent.start),
                    line.end - line.start,
                    id,
                    &mut blocks,
                );
            }
        }
        writeln!(out, "BB Table: {} bbs", blocks.len())?;
        for block in &blocks {
            out.write_all(block)?;
        }
        Ok(())
    }
}

/// A straight line as blocks.
fn pieces(mut offset: u64, mut size: u64, module: u16, out: &mut Vec<[u8; 8]>) {
    while size > 0
        && let Ok(start) = u32::try_from(offset)
    {
        let part = size.min(u16::MAX.into());
        let mut block = [0; 8];
        block[..4].copy_from_slice(&start.to_le_bytes());
        block[4..6].copy_from_slice(&(part as u16).to_le_bytes());
        block[6..].copy_from_slice(&module.to_le_bytes());
        out.push(block);
        offset += part;
        size -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_block_is_several() {
        let mut blocks = Vec::new();
        pieces(0x10, 0x1_0001, 7, &mut blocks);
        assert_eq!(
            blocks,
            [
                [0x10, 0, 0, 0, 0xff, 0xff, 7, 0],
                [0x0f, 0, 1, 0, 2, 0, 7, 0]
            ]
        );
    }
}
