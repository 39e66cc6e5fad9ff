//! Sums of counts that are exact beyond the numbers which a `f64` has.
//!
//! # Problem
//! Counts may be estimates, which are no whole numbers. A `f64` has whole numbers up to 2^53 only. A machine counts so far within months, and
//! profiles are added up.
//!
//! # Strategy
//! A number is the sum of two: the nearest `f64`, and the rest. Sums are those of Knuth and of Dekker: the error of a rounded sum is a `f64` itself.
//!
//! # Why it is right
//! Two halves of 53 bits hold each whole number up to 2^106. A profile has counts of 64 bits, and times at most 2^32 instructions.

/// A number with twice the bits of a `f64`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Exact {
    /// The nearest `f64`.
    pub(crate) near: f64,
    pub(crate) rest: f64,
}

impl Exact {
    /// A number that a `f64` has.
    pub const fn new(near: f64) -> Self {
        Self { near, rest: 0.0 }
    }

    /// The nearest `f64`.
    pub const fn nearest(self) -> f64 {
        self.near
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (near, error) = sum(self.near, other.near);
        let (rest, lost) = sum(self.rest, other.rest);
        let (near, error) = in_order(near, error + rest);
        let (near, rest) = in_order(near, error + lost);
        Self { near, rest }
    }

    /// The negative number.
    #[must_use]
    pub const fn negative(self) -> Self {
        Self {
            near: -self.near,
            rest: -self.rest,
        }
    }

    /// So many times the number.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        let product = self.near * factor;
        let error = self.near.mul_add(factor, -product);
        let (near, rest) = in_order(product, error + self.rest * factor);
        Self { near, rest }
    }

    /// The nearest whole number, as far as 64 bits go.
    pub fn whole(self) -> u64 {
        // Halves far apart are whole both. Of near ones the sum is.
        let near = self.near.round();
        let rest = (self.near - near + self.rest).round();
        let sum = (near as i128).saturating_add(rest as i128);
        u64::try_from(sum.max(0)).unwrap_or(u64::MAX)
    }
}

impl From<u64> for Exact {
    fn from(number: u64) -> Self {
        let near = number as f64;
        let rest = i128::from(number) - near as i128;
        Self {
            near,
            rest: rest as f64,
        }
    }
}

/// The rounded sum, and what is missing.
fn sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// The same where the first is the greater one.
fn in_order(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn sums_and_products_of_counts_are_exact(
            counts in prop::collection::vec(any::<u64>(), 1..50),
            factor in 1_u32..,
        ) {
            let all = counts.iter().fold(Exact::default(), |sum, n| sum.plus(Exact::from(*n)));
            let sum: u128 = counts.iter().map(|n| u128::from(*n)).sum();
            prop_assert_eq!(all.near as i128 + all.rest as i128, sum as i128);
            prop_assert_eq!(all.whole(), u64::try_from(sum).unwrap_or(u64::MAX));
            let many = Exact::from(counts[0]).times(f64::from(factor));
            let product = u128::from(counts[0]) * u128::from(factor);
            prop_assert_eq!(many.near as i128 + many.rest as i128, product as i128);
            let left = all.plus(Exact::from(counts[0]).negative());
            let less = sum - u128::from(counts[0]);
            prop_assert_eq!(left.near as i128 + left.rest as i128, less as i128);
        }
    }

    #[test]
    fn estimates_are_rounded_to_the_nearest() {
        let half = Exact::new(0.25).plus(Exact::new(0.5));
        assert_eq!((half.whole(), half.nearest()), (1, 0.75));
        assert_eq!(Exact::new(2.4).whole(), 2);
        assert_eq!(Exact::new(-3.0).whole(), 0);
        assert_eq!(Exact::new(f64::INFINITY).whole(), u64::MAX);
        assert_eq!(Exact::new(f64::NAN).whole(), 0);
    }
}
