//! The profiles of all processes but the first, packed while the run goes on.
//!
//! A build has hundreds of processes, each with millions of values; together they would not fit into
//! memory as they are. Packed as in the profile's file they take a twentieth of that, and are unpacked
//! one at a time.

use trommel_profile::Profile;

use crate::output;
use crate::report::processes::Row;

/// One process.
struct Packed {
    row: Row,
    started: u64,
    tuples: usize,
    bytes: Vec<u8>,
}

/// Packed profiles.
#[derive(Default)]
pub(crate) struct Others(Vec<Packed>);

impl Others {
    /// Packs a profile.
    pub(crate) fn keep(&mut self, profile: Profile) {
        let mut bytes = Vec::new();
        if let Err(error) = trommel_store::encode(std::slice::from_ref(&profile), &mut bytes) {
            output::complain(&format!("a process is left out: {error}"));
            return;
        }
        bytes.shrink_to_fit();
        self.0.push(Packed {
            row: Row::new(&profile),
            started: profile.run.started,
            tuples: tuples(&profile),
            bytes,
        });
    }

    /// In the order in which they started.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|packed| packed.started);
    }

    /// Whether there is none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is told of each.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.0.iter().map(|packed| &packed.row)
    }

    /// Pairs of a place and a value in all of them.
    pub(crate) fn tuples(&self) -> usize {
        self.0.iter().map(|packed| packed.tuples).sum()
    }

    /// Unpacks one after the other.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = Profile> {
        self.0
            .iter()
            .flat_map(|packed| match trommel_store::decode(&packed.bytes) {
                Ok(profiles) => profiles,
                Err(error) => {
                    output::complain(&format!("a process is left out: {error}"));
                    Vec::new()
                }
            })
    }
}

/// Pairs of a place and a value.
pub(crate) fn tuples(profile: &Profile) -> usize {
    let kinds = profile.kinds.values();
    kinds.flat_map(|k| k.counts.values()).map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::Run;

    #[test]
    fn what_is_kept_comes_back_in_order() {
        let mut others = Others::default();
        let profile = |started| Profile {
            run: Run {
                started,
                ..Run::default()
            },
            ..Profile::default()
        };
        for started in [5, 2, 9] {
            others.keep(profile(started));
        }
        others.sort();
        let back: Vec<Profile> = others.profiles().collect();
        assert_eq!(back, [profile(2), profile(5), profile(9)]);
        assert_eq!(others.rows().count(), 3);
    }
}
