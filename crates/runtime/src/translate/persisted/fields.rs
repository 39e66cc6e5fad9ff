//! Fields of a record's code that depend on addresses and numbers of one run.

use super::field::Field;
use super::parts::{Parts, u32_at};
use crate::base::address::CachePc;
use crate::base::area::COUNTERS_OFFSET;
use crate::base::emit::Code;
use crate::base::ids::{ExitId, ExitNumber};
use crate::cache::Exit;
use crate::channel::persist::Origin;

fn put32(code: &mut [u8], at: usize, word: u32) {
    code[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

fn put64(code: &mut [u8], at: usize, word: u64) {
    code[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// The number of the path that is counted at an offset of the area.
fn path_at(counter: u32) -> Option<ExitNumber> {
    let into = counter.checked_sub(COUNTERS_OFFSET as u32)?;
    Some(ExitNumber(into / 8))
}

/// Meaning of one run's numbers in a fragment.
pub(super) struct Numbers<'a> {
    /// Number of its first exit.
    pub(super) exit: ExitId,
    /// Index of the fragment's path with a number.
    pub(super) path: &'a dyn Fn(ExitNumber) -> Option<usize>,
    /// Index of the fragment's path at an offset of the code: that of a sampler's counter or sum, or of the start of a value counter. Two paths may have the same.
    pub(super) stratum: &'a dyn Fn(usize) -> Option<usize>,
}

/// Takes addresses and numbers out of a copy of a fragment's code, which begins at `start`.
pub(super) fn without_addresses(
    code: &mut [u8],
    start: CachePc,
    fields: &[(Field, u16)],
    numbers: &Numbers<'_>,
    origin: Origin,
    exits: &[Exit],
) -> Option<()> {
    let base = origin.base;
    // The place of a displacement to a stub is left empty.
    for exit in exits.iter().filter(|exit| exit.stub != 0) {
        let at = (exit.patch.0 - start.0) as usize;
        code.get_mut(at..at + 4)?.fill(0);
    }
    for &(field, at) in fields {
        let at = usize::from(at);
        let word = code.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let word = u32::from_le_bytes(*word?);
        let long = code.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let long = long.map(|bytes| u64::from_le_bytes(*bytes));
        match field {
            Field::Relative => {
                let recorded = i64::from(word as i32) + start.0.wrapping_sub(base) as i64;
                put32(code, at, i32::try_from(recorded).ok()? as u32);
            }
            Field::Low => {
                let recorded = u64::from(word).wrapping_sub(base) as i64;
                put32(code, at, i32::try_from(recorded).ok()? as u32);
            }
            Field::Exit => put32(code, at, ExitId(word).since(numbers.exit)),
            Field::Counter => put32(code, at, (numbers.path)(path_at(word)?)? as u32),
            Field::Message => put32(code, at, (numbers.path)(ExitNumber(word))? as u32),
            Field::Stratum | Field::Sum | Field::ValueCounter => {
                put32(code, at, (numbers.stratum)(at)? as u32)
            }
            Field::Key => put32(code, at, 0),
            Field::Absolute => put64(code, at, long?.wrapping_sub(base)),
            Field::Negative => put64(code, at, long?.wrapping_add(base)),
        }
    }
    Some(())
}

/// Puts addresses into the code of a record.
pub(super) fn with_addresses(
    code: &mut Code<'_>,
    parts: &Parts<'_>,
    origin: Origin,
    first: ExitId,
    exits: u32,
) -> Option<()> {
    let start = code.at(0).0;
    let base = origin.base;
    for field in parts.fields() {
        let (field, at) = field?;
        let word = u32_at(parts.code, at);
        let recorded = i64::from(word as i32);
        match field {
            Field::Relative => {
                let rel = recorded.checked_add(base.wrapping_sub(start) as i64)?;
                code.put_u32(at, i32::try_from(rel).ok()? as u32);
            }
            Field::Low => {
                let address = recorded.checked_add(i64::try_from(base).ok()?)?;
                let low = i32::try_from(address).ok().filter(|&low| low >= 0)?;
                code.put_u32(at, low as u32);
            }
            Field::Exit if word < exits => code.put_u32(at, first.plus(word as usize).0),
            Field::Exit => return None,
            // When they have numbers.
            Field::Counter | Field::Key | Field::Message => {}
            Field::Stratum | Field::Sum | Field::ValueCounter => {}
            Field::Absolute | Field::Negative => {
                let long = parts.code.get(at..).and_then(|rest| rest.first_chunk());
                let long = u64::from_le_bytes(*long?);
                let value = match field {
                    Field::Absolute => long.wrapping_add(base),
                    _ => long.wrapping_sub(base),
                };
                code.put_u32(at, value as u32);
                code.put_u32(at + 4, (value >> 32) as u32);
            }
        }
    }
    Some(())
}
