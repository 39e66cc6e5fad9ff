//! Sampling rates: one execution in N is profiled.
//!
//! A rate stands in 13 bits of a profile control register, the rest of which Table 2 takes: a mantissa
//! of 9 bits, shifted left by an exponent of 4. So every N up to 511 is a rate, and above it those with
//! enough factors of two, up to 511 · 2^15. Each rate has one form: the smallest exponent.
//!
//! `every auto` has no rate of its own but a [`Budget`], by which rates are chosen while the program runs
//! ([`crate::throttle`]). Mantissas below 256 with the largest exponent are the form of no rate: those of 1 to 100
//! are budgets.

/// One in so many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u32);

const MANTISSA_BITS: u32 = 9;
const MANTISSA: u32 = (1 << MANTISSA_BITS) - 1;
const EXPONENT_MOST: u32 = 15;
/// Rank of the lowest rate that is a power of two.
pub const MOST_RANK: u32 = MANTISSA_BITS + EXPONENT_MOST - 1;

impl Rate {
    /// Every one.
    pub const ALWAYS: Self = Self(1);
    /// The lowest rate.
    pub const RAREST: Self = Self(MANTISSA << EXPONENT_MOST);
    /// Bits of the encoded form.
    pub const BITS: u32 = 13;

    /// One in `n`, if that is a rate.
    pub const fn new(n: u64) -> Option<Self> {
        if n == 0 || n > Self::RAREST.0 as u64 {
            return None;
        }
        let n = n as u32;
        match n & ((1 << exponent(n)) - 1) {
            0 => Some(Self(n)),
            _ => None,
        }
    }

    /// The rates on both sides of `n`, which is none; for an `n` out of range the last one twice.
    pub const fn around(n: u64) -> (Self, Self) {
        if n == 0 {
            return (Self::ALWAYS, Self::ALWAYS);
        }
        if n >= Self::RAREST.0 as u64 {
            return (Self::RAREST, Self::RAREST);
        }
        let n = n as u32;
        let below = n >> exponent(n) << exponent(n);
        (Self(below), Self(below + (1 << exponent(n))))
    }

    /// The rate of 2^`rank`; the lowest one of that kind where there is none.
    pub const fn of_rank(rank: u32) -> Self {
        Self(1 << if rank < MOST_RANK { rank } else { MOST_RANK })
    }

    /// N.
    pub const fn one_in(self) -> u32 {
        self.0
    }

    /// The 13 bits: mantissa below, exponent above.
    pub const fn encode(self) -> u32 {
        let exponent = exponent(self.0);
        self.0 >> exponent | exponent << MANTISSA_BITS
    }

    /// The rate of 13 bits, if they are the form of one.
    pub const fn decode(bits: u32) -> Option<Self> {
        let (mantissa, shift) = (bits & MANTISSA, bits >> MANTISSA_BITS);
        if mantissa == 0 || shift > EXPONENT_MOST {
            return None;
        }
        let n = mantissa << shift;
        if exponent(n) == shift {
            Some(Self(n))
        } else {
            None
        }
    }
}

impl core::fmt::Display for Rate {
    /// Writes the rate as a query's header has it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::ALWAYS => f.write_str("always"),
            Self(n) => write!(f, "every {n}"),
        }
    }
}

/// Cost that records may have, in percent of the program's time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Budget(u8);

impl Budget {
    /// The default.
    pub const USUAL: Self = Self(5);
    /// All of it.
    pub const MOST: Self = Self(100);

    /// So many percent, from 1 to 100.
    pub const fn new(percent: u64) -> Option<Self> {
        match percent {
            1..=100 => Some(Self(percent as u8)),
            _ => None,
        }
    }

    /// In percent.
    pub const fn percent(self) -> u32 {
        self.0 as u32
    }
}

/// Rules that choose the executions to profile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sampling {
    /// One in so many.
    Every(Rate),
    /// Samples as many as the budget allows, and all of a rare kind.
    Auto(Budget),
}

impl Sampling {
    /// Every one.
    pub const ALWAYS: Self = Self::Every(Rate::ALWAYS);

    /// The 13 bits: of a rate its own; of a budget the percentage below, and the largest exponent above.
    pub const fn encode(self) -> u32 {
        match self {
            Self::Every(rate) => rate.encode(),
            Self::Auto(budget) => budget.0 as u32 | EXPONENT_MOST << MANTISSA_BITS,
        }
    }

    /// Returns what 13 bits say, if they are the form of something.
    pub const fn decode(bits: u32) -> Option<Self> {
        if let Some(rate) = Rate::decode(bits) {
            return Some(Self::Every(rate));
        }
        match (Budget::new((bits & MANTISSA) as u64), bits >> MANTISSA_BITS) {
            (Some(budget), EXPONENT_MOST) => Some(Self::Auto(budget)),
            _ => None,
        }
    }

    /// The rate, where there is one for good.
    pub const fn rate(self) -> Option<Rate> {
        match self {
            Self::Every(rate) => Some(rate),
            Self::Auto(_) => None,
        }
    }
}

impl core::fmt::Display for Sampling {
    /// Writes the rule as a query's header has it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Every(rate) => rate.fmt(f),
            Self::Auto(Budget::USUAL) => f.write_str("every auto"),
            Self::Auto(Budget(percent)) => write!(f, "every auto {percent}%"),
        }
    }
}

/// The smallest exponent with which `n` fits.
const fn exponent(n: u32) -> u32 {
    (u32::BITS - n.leading_zeros()).saturating_sub(MANTISSA_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_has_one_form() {
        let mut forms = 0;
        for bits in 0..1 << Rate::BITS {
            if let Some(rate) = Rate::decode(bits) {
                forms += 1;
                assert_eq!(rate.encode(), bits);
                assert_eq!(Rate::new(rate.one_in().into()), Some(rate));
            }
            match Sampling::decode(bits) {
                Some(sampling) => assert_eq!(sampling.encode(), bits),
                None => assert_eq!(Rate::decode(bits), None),
            }
        }
        let budgets = (0..1 << Rate::BITS).filter_map(Sampling::decode);
        assert_eq!(budgets.filter(|s| s.rate().is_none()).count(), 100);
        // 511 without an exponent, and with each of the others those with the top bit set.
        assert_eq!(forms, 511 + 15 * 256);
        for n in [1, 256, 511, 512, 1000, 1024, 488 << 11, 511 << 15] {
            assert_eq!(Rate::new(n).map(Rate::one_in), Some(n as u32));
        }
    }

    #[test]
    fn ranks_are_rates() {
        for rank in 0..=MOST_RANK {
            let rate = Rate::of_rank(rank);
            assert_eq!(Rate::decode(rate.encode()), Some(rate));
            assert_eq!(rate.one_in(), 1 << rank);
        }
        assert_eq!(Rate::of_rank(MOST_RANK + 1), Rate::of_rank(MOST_RANK));
        assert!(Rate::new(1 << (MOST_RANK + 1)).is_none());
    }

    #[test]
    fn what_is_no_rate_has_neighbours() {
        assert_eq!(Rate::new(513), None);
        let (below, above) = Rate::around(513);
        assert_eq!((below.one_in(), above.one_in()), (512, 514));
        assert_eq!(Rate::around(1023), (Rate(1022), Rate(1024)));
        assert_eq!(Rate::around(u64::MAX), (Rate::RAREST, Rate::RAREST));
        assert_eq!(Rate::around(0), (Rate::ALWAYS, Rate::ALWAYS));
        for n in 0..5000 {
            let (below, above) = Rate::around(n);
            assert!(Rate::new(below.one_in().into()).is_some());
            assert!(Rate::new(above.one_in().into()).is_some());
        }
    }
}
