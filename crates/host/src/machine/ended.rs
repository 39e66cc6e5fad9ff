//! Processes that have ended, at most so many of them one by one.
//!
//! A machine on which programs are built starts thousands of processes a minute. The first [`MOST`] that samples found have a
//! profile each; what came of all others is added up in one.

use trommel_profile::merge::Merged;
use trommel_profile::{Origin, Profile};

/// Processes that are reported one by one.
const MOST: usize = 8192;

/// Counts of processes that have ended.
#[derive(Default)]
pub(super) struct Ended {
    profiles: Vec<Profile>,
    further: Option<Merged>,
}

impl Ended {
    /// Another one.
    pub(super) fn add(&mut self, mut profile: Profile) {
        if self.profiles.len() < MOST {
            return self.profiles.push(profile);
        }
        match &mut self.further {
            Some(further) => further.add(profile),
            None => {
                profile.origin = Origin::default();
                profile.command = vec![b"[further processes]".to_vec()];
                self.further = Some(Merged::new(profile));
            }
        }
    }

    /// Returns all of them, after `first`.
    pub(super) fn after(self, first: Profile) -> Vec<Profile> {
        let mut all = vec![first];
        all.extend(self.profiles);
        all.extend(self.further.map(Merged::profile));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_profile::sampled::Sampled;
    use trommel_profile::samples::{At, Samples};
    use trommel_tuple::Place;

    #[test]
    fn processes_beyond_the_most_are_added_up() {
        let one = |pid| {
            let at = At {
                sampled: Sampled {
                    samples: 1,
                    executions: 1e6,
                    variance: 1e12,
                    probability: 1.0,
                    factor_error: 0.0,
                },
                ..At::default()
            };
            Profile {
                origin: Origin {
                    pid,
                    ..Origin::default()
                },
                samples: Some(Samples {
                    places: [(Place::from_word(0x10), at)].into(),
                    ..Samples::default()
                }),
                ..Profile::default()
            }
        };
        let mut ended = Ended::default();
        (0..MOST as u32 + 50).for_each(|pid| ended.add(one(pid + 1)));
        let all = ended.after(Profile::default());
        assert_eq!(all.len(), 1 + MOST + 1);
        let samples = |p: &Profile| p.samples.as_ref().map_or(0, |s| s.total().samples);
        assert_eq!(samples(&all[1 + MOST]), 50);
        assert_eq!(all.iter().map(samples).sum::<u64>(), MOST as u64 + 50);
    }
}
