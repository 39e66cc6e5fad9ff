//! Samples of the whole machine: where time goes, in programs and in the kernel, and what registers hold there.
//!
//! # Problem
//! An interrupt of the clock finds an instruction that is about to be executed, and the general registers. Its execution is not
//! seen, so there are no events. But the operands that the instruction is about to read are known.
//!
//! # Strategy
//! Each sample stands for the time from the one before on its processor, in nanoseconds, which is its weight: a place's time is the sum of
//! weights, with the variance of a Poisson sum ([`Sampled`]; each sample is one draw). The registers that the
//! instruction reads are its *operands*, and so are the addresses that it accesses; the values of each are kept in a
//! [hotlist](trommel_compress::hotlist). Their shares are of samples.
//!
//! The kernel's code is in no file that others could read, so a recording has what it needs of it: names and, where
//! they could be read, the bytes of functions that were met.

use std::collections::BTreeMap;

use trommel_tuple::Place;

use crate::limits::Limits;
use crate::sampled::Sampled;

/// Samples of one process.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Samples {
    /// The recording as a whole, in the first of its profiles, which is of no process.
    pub machine: Option<Machine>,
    /// Samples by place.
    pub places: BTreeMap<Place, At>,
    /// Time in the kernel, by the instruction that the program goes on with: after a system call, or one that faults.
    pub entered: BTreeMap<Place, Sampled>,
    /// By thread, the kernel's id of it.
    pub threads: BTreeMap<u32, Thread>,
}

/// A thread, by the name that it had last.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Thread {
    /// Name of the thread, as it calls itself.
    pub name: Vec<u8>,
    /// Its time.
    pub sampled: Sampled,
}

/// Samples of an instruction.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct At {
    /// Its time: `executions` are nanoseconds.
    pub sampled: Sampled,
    /// Operands that it reads.
    pub operands: BTreeMap<Operand, Held>,
}

/// Something that an instruction reads and a sample tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Operand(u8);

impl Operand {
    const NAMES: [&str; 18] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15", "address", "address2",
    ];
    const REGISTERS: u8 = 16;

    /// The general register of this number, as instructions have it: what is read of it, zero-extended.
    pub const fn register(number: u8) -> Option<Self> {
        match number < Self::REGISTERS {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// The address of the first or second access to memory.
    pub const fn address(second: bool) -> Self {
        Self(Self::REGISTERS + second as u8)
    }

    /// Returns true if it is an address, and no register.
    pub const fn is_address(self) -> bool {
        self.0 >= Self::REGISTERS
    }

    /// Its number in files.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the operand of a number in a file.
    pub const fn from_number(number: u8) -> Option<Self> {
        match (number as usize) < Self::NAMES.len() {
            true => Some(Self(number)),
            false => None,
        }
    }

    /// Its name: of the whole register, or `address`.
    pub fn name(self) -> &'static str {
        Self::NAMES[usize::from(self.0)]
    }
}

/// The values of an operand.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Held {
    /// The samples that they are of.
    pub sampled: Sampled,
    /// The most frequent ones, each with the number of samples that had it, estimated.
    pub values: BTreeMap<u64, u64>,
}

impl Held {
    /// The most frequent first.
    pub fn top(&self) -> Vec<(u64, u64)> {
        let mut all: Vec<(u64, u64)> = self.values.iter().map(|(v, n)| (*v, *n)).collect();
        all.sort_unstable_by_key(|&(value, count)| (std::cmp::Reverse(count), value));
        all
    }

    /// The share of the samples that so many of them are, with its limits.
    pub fn share(&self, count: u64) -> (f64, Limits) {
        let share = (count as f64 / self.sampled.samples.max(1) as f64).min(1.0);
        (share, self.sampled.share(share))
    }

    fn add(&mut self, other: Self) {
        self.sampled.add(&other.sampled);
        for (value, count) in other.values {
            let sum = self.values.entry(value).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

/// The recording. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Machine {
    /// Budget of the user, in percent of all processors' time; 0: a rate was given.
    pub budget: f64,
    /// Samples in a second of each processor, while it is not idle, in the end.
    pub rate: f64,
    /// Time from the beginning to the end.
    pub wall: u64,
    /// Cost of each sample, by measurement on this machine.
    pub toll: u64,
    /// CPU time of trommel's own meanwhile.
    pub host: u64,
    /// Samples.
    pub taken: u64,
    /// Records of any kind for which there was no room.
    pub lost: u64,
    /// Number of times the kernel has stopped a processor's clock for the rest of a tick.
    pub throttled: u64,
    /// Samples in the kernel.
    pub kernel: u64,
    /// Samples in the kernel where it enables interrupts again: their time is of code before that.
    pub deferred: u64,
    /// Samples at instructions whose bytes could be read.
    pub decoded: u64,
    /// Samples of which nobody knew what the process had there.
    pub unknown: u64,
    /// Time of each processor that was not idle.
    pub processors: BTreeMap<u32, Sampled>,
    /// Reasons why something is missing, in words.
    pub missing: Vec<String>,
    /// Only a program or process was sampled, with all that came of it.
    pub of_processes: bool,
    /// Functions of the kernel that were met.
    pub functions: Vec<Function>,
}

/// A function of the kernel, or of code that was compiled while the program ran.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Function {
    /// The path of its module: `[kernel]`, the name of one that was loaded, in brackets, or `[anon]`.
    pub module: Vec<u8>,
    /// Its vaddr: the distance from the module's first address. For `[anon]`: its address.
    pub start: u64,
    /// Number of bytes it has.
    pub size: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// Its bytes, where they could be read.
    pub code: Vec<u8>,
}

impl Machine {
    /// All processors' time.
    pub fn capacity(&self) -> u64 {
        self.wall.saturating_mul(self.processors.len() as u64)
    }

    /// Returns what the samples cost whatever ran, in percent of all processors' time.
    pub fn cost_of_samples(&self) -> f64 {
        let cost = self.taken.saturating_mul(self.toll);
        100.0 * cost as f64 / self.capacity().max(1) as f64
    }

    /// Returns what trommel used beside, likewise.
    pub fn cost_of_host(&self) -> f64 {
        100.0 * self.host as f64 / self.capacity().max(1) as f64
    }

    /// Both.
    pub fn cost(&self) -> f64 {
        self.cost_of_samples() + self.cost_of_host()
    }

    /// Adds another recording, made at another time or elsewhere. Processors of one number are added up.
    fn add(&mut self, other: Self) {
        self.budget = self.budget.max(other.budget);
        self.rate = self.rate.max(other.rate);
        // In the mean of the samples.
        let cost = self.taken.saturating_mul(self.toll);
        let cost = cost.saturating_add(other.taken.saturating_mul(other.toll));
        for (sum, more) in [
            (&mut self.wall, other.wall),
            (&mut self.host, other.host),
            (&mut self.taken, other.taken),
            (&mut self.lost, other.lost),
            (&mut self.throttled, other.throttled),
            (&mut self.kernel, other.kernel),
            (&mut self.deferred, other.deferred),
            (&mut self.decoded, other.decoded),
            (&mut self.unknown, other.unknown),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.toll = cost.checked_div(self.taken).unwrap_or(self.toll);
        for (processor, time) in other.processors {
            self.processors.entry(processor).or_default().add(&time);
        }
        self.missing.extend(other.missing);
        self.missing.sort_unstable();
        self.missing.dedup();
        self.of_processes &= other.of_processes;
        self.functions.extend(other.functions);
        self.functions.sort_unstable();
        self.functions.dedup();
    }
}

impl Samples {
    /// The time of all places.
    pub fn total(&self) -> Sampled {
        sum(self.places.values().map(|at| &at.sampled))
    }

    /// Adds those of another process of the recording; `place`: what its places are here.
    pub fn add(&mut self, other: Self, place: impl Fn(Place) -> Place) {
        match (&mut self.machine, other.machine) {
            (Some(machine), Some(more)) => machine.add(more),
            (None, more) => self.machine = more,
            (Some(_), None) => {}
        }
        for (at, more) in other.places {
            let sum = self.places.entry(place(at)).or_default();
            sum.sampled.add(&more.sampled);
            for (operand, held) in more.operands {
                sum.operands.entry(operand).or_default().add(held);
            }
        }
        for (at, more) in other.entered {
            self.entered.entry(place(at)).or_default().add(&more);
        }
        for (tid, more) in other.threads {
            let sum = self.threads.entry(tid).or_default();
            sum.sampled.add(&more.sampled);
            if sum.name.is_empty() {
                sum.name = more.name;
            }
        }
    }
}

/// Returns the sum of several places.
pub fn sum<'a>(all: impl Iterator<Item = &'a Sampled>) -> Sampled {
    let mut sum = Sampled::default();
    all.for_each(|sampled| sum.add(sampled));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::{ModuleId, Vaddr};

    fn draws(samples: u64) -> Sampled {
        Sampled {
            samples,
            executions: samples as f64 * 1e6,
            variance: samples as f64 * 1e12,
            probability: 1.0,
            factor_error: 0.0,
        }
    }

    #[test]
    fn processes_add_up() {
        let at = |module, vaddr| Place::new(ModuleId(module), Vaddr(vaddr));
        let one = |module: u16, value: u64, samples: u64| {
            let held = Held {
                sampled: draws(samples),
                values: [(value, samples)].into(),
            };
            let rdi = Operand::register(7).expect("a register");
            let found = At {
                sampled: draws(samples),
                operands: [(rdi, held)].into(),
            };
            Samples {
                places: [(at(module, 8), found)].into(),
                ..Samples::default()
            }
        };
        let mut sum = one(1, 5, 30);
        sum.add(one(2, 5, 10), |place| at(1, place.vaddr().0));
        sum.add(one(2, 6, 60), |place| at(1, place.vaddr().0));
        assert_eq!((sum.places.len(), sum.total().samples), (1, 100));
        let held = sum.places[&at(1, 8)].operands.values().next().expect("one");
        assert_eq!(held.top(), [(6, 60), (5, 40)]);
        let (share, limits) = held.share(60);
        assert!((share - 0.6).abs() < 1e-9 && limits.low < 0.6 && limits.high > 0.6);
    }

    #[test]
    fn operands_have_names_and_numbers() {
        for number in 0..=255 {
            let operand = Operand::from_number(number);
            assert_eq!(operand.is_some(), number < 18);
            assert!(operand.is_none_or(|o| o.number() == number && !o.name().is_empty()));
        }
        assert_eq!(Operand::register(16), None);
        assert!(Operand::address(true).is_address() && Operand::address(true).number() == 17);
    }
}
