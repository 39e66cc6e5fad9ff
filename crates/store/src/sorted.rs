//! Sorted values with their counts, written as differences.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// Returns the values in order, each once: readers insist on it, and a run must not be lost over it.
pub(crate) fn sorted(values: &[(u64, u64)]) -> Cow<'_, [(u64, u64)]> {
    if values.is_sorted_by(|a, b| a.0 < b.0) {
        return Cow::Borrowed(values);
    }
    let mut merged = BTreeMap::new();
    for &(value, count) in values {
        let sum: &mut u64 = merged.entry(value).or_default();
        *sum = sum.saturating_add(count);
    }
    Cow::Owned(merged.into_iter().collect())
}

/// A map as its length, and each value as the difference from the one before.
pub(crate) mod deltas {
    use std::collections::BTreeMap;

    use crate::field::Inside;
    use crate::varint::{self, Cursor};

    pub(crate) fn put(values: &BTreeMap<u64, u64>, raw: &mut Vec<u8>) {
        varint::put(raw, values.len() as u64);
        let mut last = 0;
        for (&value, &count) in values {
            varint::put(raw, value - last);
            varint::put(raw, count);
            last = value;
        }
    }

    pub(crate) fn get(cursor: &mut Cursor<'_>) -> Inside<BTreeMap<u64, u64>> {
        let mut values = BTreeMap::new();
        let mut last = 0_u64;
        for _ in 0..cursor.number()? {
            let value = last.checked_add(cursor.number()?);
            last = value.ok_or("a value is too large")?;
            if values.insert(last, cursor.number()?).is_some() {
                return Err("a value is there twice");
            }
        }
        Ok(values)
    }
}
