//! Counts of samples at one instruction of a process.

use trommel_compress::hotlist::Hotlist;
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::{At, Held};

use super::operands::Read;
use crate::kernel::perf::records::REGISTERS;

/// Draws, each with a weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Draws {
    samples: u64,
    weight: f64,
    squares: f64,
}

impl Draws {
    pub(super) fn add(&mut self, weight: f64) {
        self.samples += 1;
        self.weight += weight;
        self.squares += weight * weight;
    }

    /// `probability`: of a sample to be in its counter.
    fn with(self, probability: f64) -> Sampled {
        Sampled {
            samples: self.samples,
            executions: self.weight,
            variance: self.squares,
            probability,
            factor_error: 0.0,
        }
    }

    pub(super) fn sampled(self) -> Sampled {
        self.with(1.0)
    }
}

/// Values of an operand. Most places are met once, and most operands have one value.
#[derive(Debug)]
enum List {
    One(u64, u64),
    Several(Box<Hotlist>),
}

impl List {
    fn add(&mut self, value: u64) {
        match self {
            Self::One(known, count) if *known == value => *count += 1,
            Self::One(known, count) => {
                let mut list = Box::new(Hotlist::new(*known ^ value.rotate_left(32)));
                list.add_times(*known, *count);
                list.add(value);
                *self = Self::Several(list);
            }
            Self::Several(list) => list.add(value),
        }
    }

    fn held(&self, draws: Draws) -> Held {
        match self {
            Self::One(value, count) => Held {
                sampled: draws.sampled(),
                values: [(*value, *count)].into(),
            },
            Self::Several(list) => {
                let all = draws.samples as f64;
                let count = |share: f64| ((share * all).round() as u64).max(1);
                let shares = list.shares();
                Held {
                    sampled: draws.with(list.chance(draws.samples)),
                    values: shares.map(|(value, share)| (value, count(share))).collect(),
                }
            }
        }
    }
}

/// An operand with its values.
#[derive(Debug)]
struct Values {
    read: Read,
    draws: Draws,
    list: Option<List>,
}

/// All of one instruction.
#[derive(Debug, Default)]
pub(super) struct InstructionSamples {
    draws: Draws,
    /// `None`: its bytes could not be read.
    values: Option<Vec<Values>>,
}

impl InstructionSamples {
    /// Nothing is found yet at an instruction that reads this, if that is known.
    pub(super) fn of(reads: Option<Vec<Read>>) -> Self {
        let values = |read| Values {
            read,
            draws: Draws::default(),
            list: None,
        };
        Self {
            draws: Draws::default(),
            values: reads.map(|reads| reads.into_iter().map(values).collect()),
        }
    }

    /// Returns true if it is known what it reads.
    pub(super) fn is_decoded(&self) -> bool {
        self.values.is_some()
    }

    /// A sample that stands for so much time.
    pub(super) fn add(&mut self, weight: f64, registers: Option<&[u64; REGISTERS]>) {
        self.draws.add(weight);
        let Some(registers) = registers else {
            return;
        };
        for values in self.values.iter_mut().flatten() {
            let value = values.read.value(registers);
            values.draws.add(weight);
            match &mut values.list {
                Some(list) => list.add(value),
                None => values.list = Some(List::One(value, 1)),
            }
        }
    }

    /// Returns the result for the profile.
    pub(super) fn at(&self) -> At {
        let held = |values: &Values| {
            let list = values.list.as_ref()?;
            Some((values.read.operand, list.held(values.draws)))
        };
        At {
            sampled: self.draws.sampled(),
            operands: self.values.iter().flatten().filter_map(held).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::operands::reads;
    use iced_x86::InstructionInfoFactory;

    #[test]
    fn values_are_counted_exactly_while_there_are_few_and_estimated_afterwards() {
        // inc rcx
        let inc = reads(&[0x48, 0xff, 0xc1], &mut InstructionInfoFactory::new());
        let mut found = InstructionSamples::of(inc);
        let mut registers = [0; REGISTERS];
        for n in 0..90_u64 {
            registers[1] = n % 3;
            found.add(2.0, Some(&registers));
        }
        let at = found.at();
        let held = at.operands.values().next().expect("one operand");
        assert_eq!(held.values, [(0, 30), (1, 30), (2, 30)].into());
        assert_eq!((at.sampled.samples, at.sampled.executions), (90, 180.0));
        assert!((held.sampled.probability - 1.0).abs() < 1e-9);
        for n in 0..2000_u64 {
            registers[1] = if n % 2 == 0 { 7 } else { 1000 + n };
            found.add(2.0, Some(&registers));
        }
        let at = found.at();
        let held = at.operands.values().next().expect("one operand");
        let (share, limits) = held.share(held.values[&7]);
        assert!(held.values.len() <= 16 && held.sampled.probability < 1.0);
        assert!(
            limits.low < 0.478 && limits.high > 0.478,
            "{share} {limits:?}"
        );
    }
}
