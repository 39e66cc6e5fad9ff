//! Theoretical bounds for both papers' designs.

/// The probability that a tuple becomes a false positive of a multi-hash profiler: (100·n ÷ (t·Z))^n
/// for n tables with Z counters in all and a threshold of t percent. At most 100/t counters of each
/// table can be at the threshold, and a false positive meets one in every table. At most 1.
///
/// A loose upper bound: it knows nothing of the stream, shielding or conservative update.
/// Source: *Multi-Hash*, section 6.2 and figure 9.
pub fn false_positive_bound(tables: u32, counters: u32, threshold_percent: f64) -> f64 {
    let n = f64::from(tables);
    let one = 100.0 * n / (threshold_percent * f64::from(counters));
    one.powf(n).min(1.0)
}

/// Ways in which a sampler learns the length of its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Length {
    /// Estimated: `R`, stateless.
    Estimated,
    /// Counted: `P`, `CR` with the ratio estimator.
    Counted,
}

/// The mean absolute error, in percent, of the estimated count of a tuple that occurs `t` times in
/// an input in random order where it makes up the share `bias`, sampled one in `rate`.
///
/// The mean of |error| is √(2/π)·σ, with σ² = (r − 1)/t where the length is estimated and
/// (r − 1)(1 − bias)/t where it is counted. Source: *Stratified Sampling*, section 3.3; `docs/papers.md`.
pub fn sampling_error(length: Length, rate: f64, t: f64, bias: f64) -> f64 {
    let spread = match length {
        Length::Estimated => 1.0,
        Length::Counted => 1.0 - bias,
    };
    let variance = (rate - 1.0) * spread / t;
    100.0 * (std::f64::consts::FRAC_2_PI * variance).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_that_of_figure_9() {
        // 1000 counters, 1 %: one table meets one of 100 hot counters with probability 0.1.
        assert!((false_positive_bound(1, 1000, 1.0) - 0.1).abs() < 1e-12);
        assert!((false_positive_bound(4, 1000, 1.0) - 0.4_f64.powi(4)).abs() < 1e-12);
        // More tables help, up to about four for 1000 counters.
        let at = |n| false_positive_bound(n, 1000, 1.0);
        assert!(at(3) < at(2) && at(2) < at(1) && at(6) > at(4));
        assert_eq!(false_positive_bound(1, 50, 1.0), 1.0);
    }

    #[test]
    fn the_papers_two_lengths_give_four_percent() {
        let r = sampling_error(Length::Estimated, 10.0, 0.3 * 12_000.0, 0.3);
        let n = 4600.0;
        // One of four substreams holds the tuple and a quarter of the rest.
        let bias = 0.3 / (0.3 + 0.7 / 4.0);
        let h = sampling_error(Length::Counted, 10.0, 0.3 * n, bias);
        assert!((r - 4.0).abs() < 0.1 && (h - 4.0).abs() < 0.2, "{r} {h}");
    }
}
