//! Exact binomial limits, given that there was a sample at all.
//!
//! A report lists what was sampled at least once, so coverage has to hold *for what is listed*: all
//! tails here are those of the zero-truncated binomial distribution. For an entry of one sample the
//! lower limit is then a single event: a tuple that occurred once is listed when chance chose it.
//!
//! Tails are regularised incomplete beta functions, evaluated by their continued fraction; limits are
//! found by bisection. Above [`EXACT`] samples Wilson's score limits differ by less than is printed.

/// Half of what may be missed: limits are meant to hold in 95 of 100 cases.
pub(super) const TAIL: f64 = 0.025;
/// The normal quantile of [`TAIL`].
pub(super) const Z: f64 = 1.959_963_985;
/// More samples than these use the score limits.
const EXACT: u64 = 2000;

/// ln Γ(x) for x > 0, by Lanczos' series (g = 7, nine terms; relative error near 1e-15).
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let mut sum = 0.999_999_999_999_809_9;
    for (i, term) in TERMS.iter().enumerate() {
        sum += term / (x + i as f64 + 1.0);
    }
    let t = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// I_x(a, b), the regularised incomplete beta function.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * fraction(a, b, x) / a
    } else {
        1.0 - front.exp() * fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function, from its front (Lentz).
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut value) = (1.0, d);
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = value;
        for step in [even, odd] {
            d = 1.0 / away(1.0 + step * d);
            c = away(1.0 + step / c);
            value *= c * d;
        }
        if (value - before).abs() <= 1e-12 * value.abs() {
            break;
        }
    }
    value
}

/// P(X ≥ k) for X binomial of `n` trials, which need not be whole, with probability `p`.
fn at_least(k: f64, n: f64, p: f64) -> f64 {
    match k {
        k if k <= 0.0 => 1.0,
        k if k > n => 0.0,
        k => incomplete_beta(k, n - k + 1.0, p),
    }
}

/// The same, given X ≥ 1.
fn at_least_if_any(k: f64, n: f64, p: f64) -> f64 {
    let any = -(n * (-p).ln_1p()).exp_m1();
    if any <= 0.0 {
        // The limit for vanishing p: one sample is certain, two are not.
        return if k <= 1.0 { 1.0 } else { 0.0 };
    }
    (at_least(k, n, p) / any).min(1.0)
}

/// Returns where the increasing `f` crosses `wanted`, between `low` and `high`.
fn crossing(mut low: f64, mut high: f64, wanted: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if f(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
        if high - low <= 1e-7 * high {
            break;
        }
    }
    f64::midpoint(low, high)
}

/// Returns limits of the number of events, when each was chosen with probability 1/`rate` and `k` ≥ 1 were.
pub(super) fn events(k: u64, rate: f64) -> (f64, f64) {
    let p = 1.0 / rate;
    let n = k as f64;
    let q = 1.0 - p;
    let middle = n + Z * Z * q / 2.0;
    let half = Z * (q * (n + Z * Z * q / 4.0)).sqrt();
    if q <= 0.0 {
        return (n, n);
    }
    if k > EXACT {
        return ((middle - half) / p, (middle + half) / p);
    }
    let most = (middle + 3.0 * half + 10.0) / p;
    let low = match k {
        1 => 1.0,
        _ => crossing(n, most, TAIL, |events| at_least_if_any(n, events, p)),
    };
    let high = crossing(n, most, 1.0 - TAIL, |events| {
        at_least_if_any(n + 1.0, events, p)
    });
    (low, high)
}

/// The share of a population that `k` ≥ 1 of `n` random members come from.
pub(super) fn share(k: u64, n: u64) -> (f64, f64) {
    let (k, n) = (k.min(n), n.max(1));
    let (hits, trials) = (k as f64, n as f64);
    if k > EXACT && n - k > EXACT {
        let z = Z * Z / trials;
        let p = hits / trials;
        let half = Z * (p * (1.0 - p) / trials + z / (4.0 * trials)).sqrt();
        let middle = p + z / 2.0;
        return ((middle - half) / (1.0 + z), (middle + half) / (1.0 + z));
    }
    let low = match k {
        1 => 0.0,
        _ => crossing(0.0, 1.0, TAIL, |p| at_least_if_any(hits, trials, p)),
    };
    let high = match k == n {
        true => 1.0,
        false => crossing(0.0, 1.0, 1.0 - TAIL, |p| {
            at_least_if_any(hits + 1.0, trials, p)
        }),
    };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_those_of_small_distributions() {
        // Ten throws of a fair coin.
        for (k, ways) in [(0, 1024.0), (1, 1023.0), (5, 638.0), (10, 1.0)] {
            let tail = at_least(f64::from(k), 10.0, 0.5);
            assert!((tail - ways / 1024.0).abs() < 1e-10, "{k}: {tail}");
        }
        let tail = at_least_if_any(2.0, 10.0, 0.5);
        assert!((tail - 1013.0 / 1023.0).abs() < 1e-10);
        assert!((ln_gamma(11.0) - 3_628_800.0_f64.ln()).abs() < 1e-10);
    }

    #[test]
    fn limits_hold_the_tail_probability() {
        let (low, high) = events(10, 16.0);
        assert!(low < 160.0 && 160.0 < high);
        assert!((at_least_if_any(10.0, low, 1.0 / 16.0) - TAIL).abs() < 1e-5);
        assert!((1.0 - at_least_if_any(11.0, high, 1.0 / 16.0) - TAIL).abs() < 1e-5);
        assert_eq!(events(1, 256.0).0, 1.0);
        assert_eq!(events(7, 1.0), (7.0, 7.0));
        let (low, high) = share(50, 50);
        assert!(low > 0.9 && high == 1.0);
    }

    #[test]
    fn score_limits_continue_exact_ones() {
        let near = |a: f64, b: f64| (a - b).abs() < 2e-3 * a;
        let (exact, score) = (events(EXACT, 256.0), events(EXACT + 1, 256.0));
        assert!(near(exact.0, score.0) && near(exact.1, score.1));
        let (exact, score) = (share(EXACT, 9000), share(EXACT + 1, 9000));
        assert!(near(exact.0, score.0) && near(exact.1, score.1));
    }
}
