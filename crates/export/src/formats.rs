//! The list of formats.

use crate::format::Format;
use crate::{
    autofdo, bolt, cachegrind, callgrind, csv, drcov, lcov, pprof, preaggregated, profgen,
};

/// All formats.
pub const FORMATS: &[&dyn Format] = &[
    &bolt::Bolt,
    &preaggregated::Preaggregated,
    &profgen::Profgen,
    &autofdo::Text,
    &autofdo::Extbinary,
    &autofdo::Gcov,
    &callgrind::Callgrind,
    &cachegrind::Cachegrind,
    &pprof::Pprof,
    &lcov::Lcov,
    &drcov::Drcov,
    &csv::Csv,
];

/// The format of a name.
pub fn find(name: &str) -> Option<&'static dyn Format> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_none_is_refused() {
        for (n, format) in FORMATS.iter().enumerate() {
            let found = find(format.name()).expect("listed");
            assert_eq!(found.about(), format.about());
            assert!(FORMATS[..n].iter().all(|f| f.name() != format.name()));
            assert_eq!(crate::why_not(format.name()), None);
        }
        assert!(find("elvish").is_none());
    }
}
