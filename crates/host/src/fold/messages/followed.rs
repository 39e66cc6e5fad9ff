//! Messages that the table after the counters sends on (`+A16`), without its counts.
//!
//! Each message either adds to an entry or begins one. Each entry is sent on once: when it is full, when its place is needed, or in the
//! end. So as many are sent on as are begun, and only the order of use has to be followed
//! ([`trommel_compress::table::Recent`]).

use trommel_compress::table::FULL;

/// Names that are compared together.
const LANES: usize = 16;
/// No name.
const NONE: u32 = u32::MAX;

/// Entries, in the order of use, most recent first.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    capacity: usize,
    /// Subjects of the entries; more than there are entries, to be a multiple of [`LANES`].
    names: Vec<u32>,
    /// Number of messages that each entry has counted.
    samples: Vec<u8>,
}

const _: () = assert!(FULL as usize == u8::MAX as usize);

impl Followed {
    /// A table of `capacity` entries.
    pub(super) fn new(capacity: u32) -> Self {
        let capacity = capacity as usize;
        Self {
            capacity,
            names: vec![NONE; capacity.next_multiple_of(LANES)],
            samples: vec![0; capacity],
        }
    }

    /// A message about `name`: whether an entry begins with it.
    #[inline]
    pub(super) fn begins(&mut self, name: u32) -> bool {
        let (chunks, _) = self.names.as_chunks::<LANES>();
        let found = |(n, chunk): (usize, &[u32; LANES])| {
            let each = chunk.iter().enumerate();
            let all = each.fold(0_u32, |all, (k, other)| {
                all | u32::from(*other == name) << k
            });
            (all != 0).then(|| LANES * n + all.trailing_zeros() as usize)
        };
        let Some(at) = chunks.iter().enumerate().find_map(found) else {
            let kept = self.capacity - 1;
            self.names.copy_within(..kept, 1);
            self.names[0] = name;
            self.samples.copy_within(..kept, 1);
            self.samples[0] = 1;
            return true;
        };
        let samples = self.samples[at] + 1;
        if u32::from(samples) == FULL {
            // Those after it move up.
            self.names.copy_within(at + 1..self.capacity, at);
            self.names[self.capacity - 1] = NONE;
            self.samples.copy_within(at + 1.., at);
        } else {
            self.names.copy_within(..at, 1);
            self.names[0] = name;
            self.samples.copy_within(..at, 1);
            self.samples[0] = samples;
        }
        false
    }

    /// Renames the subjects of entries.
    pub(super) fn rename(&mut self, to: impl Fn(u32) -> u32) {
        for name in self.names.iter_mut().filter(|name| **name != NONE) {
            *name = to(*name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_compress::table::{Entry, Recent};

    #[test]
    fn as_many_begin_as_the_table_sends_on() {
        for capacity in [1, 2, 5, 15, 16, 17, 40] {
            let mut table = Recent::new(capacity);
            let mut followed = Followed::new(capacity);
            let mut sent = [0; 8];
            let mut begun = [0; 8];
            let mut n = u64::from(capacity);
            let mut names = 0_u32;
            for k in 0..60_000_u32 {
                n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // So few that they become full, then some that do not all fit, then many.
                let many = match k >> 11 & 3 {
                    0 => 1 + capacity / 8,
                    1 => capacity + 2,
                    _ => 3 * capacity,
                };
                let about = (n >> 33) as u32 % many;
                let told = Entry {
                    about,
                    count: 256,
                    samples: 1,
                };
                if let Some(told) = table.add(told) {
                    sent[told.about as usize % 8] += 1;
                }
                begun[about as usize % 8] += u32::from(followed.begins(about ^ names));
                if k % 5000 == 0 {
                    names ^= 0x5a5a_0000;
                    followed.rename(|name| name ^ 0x5a5a_0000);
                }
            }
            while let Some(told) = table.take() {
                sent[told.about as usize % 8] += 1;
            }
            assert_eq!(sent, begun, "{capacity}");
        }
    }
}
