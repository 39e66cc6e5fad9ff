//! Axes: where values lie, and the numbers beside them.

/// Scales of an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// Each decade alike; values at or below 0 have no place, and lines break there.
    Log,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Title, with the unit.
    pub title: String,
    /// The spread.
    pub scale: Scale,
    /// The largest value drawn; what is beyond is cut off and said.
    pub most: Option<f64>,
    /// The smallest value drawn on a logarithmic axis.
    pub least: Option<f64>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(title: &str) -> Self {
        Self {
            title: title.into(),
            scale: Scale::Linear,
            most: None,
            least: None,
        }
    }

    /// A logarithmic axis.
    pub fn log(title: &str) -> Self {
        Self {
            scale: Scale::Log,
            ..Self::linear(title)
        }
    }

    /// The axis cut off at `most`.
    #[must_use]
    pub fn up_to(mut self, most: f64) -> Self {
        self.most = Some(most);
        self
    }

    /// The axis cut off below `least`.
    #[must_use]
    pub fn from(mut self, least: f64) -> Self {
        self.least = Some(least);
        self
    }

    /// The range that shows the values: from 0 for a linear axis, whole decades for a logarithmic.
    pub(super) fn range_of(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let log = self.scale == Scale::Log;
        let (mut low, mut high) = (f64::MAX, 0.0_f64);
        for value in values.filter(|v| v.is_finite() && (!log || *v > 0.0)) {
            low = low.min(value);
            high = high.max(value);
        }
        if let Some(most) = self.most {
            high = high.min(most);
        }
        if let Some(least) = self.least {
            low = low.max(least);
        }
        match (log, high > 0.0) {
            (false, true) => (0.0, high * 1.06),
            (false, false) => (0.0, 1.0),
            (true, false) => (0.1, 1.0),
            (true, true) => {
                let low = 10_f64.powf(low.min(high).log10().floor());
                let top = 10_f64.powf(high.log10().floor());
                let high = [1.0, 2.0, 5.0, 10.0]
                    .map(|m| m * top)
                    .into_iter()
                    .find(|t| *t >= high);
                let high = high.unwrap_or(top * 10.0);
                (low, if high > low { high } else { low * 10.0 })
            }
        }
    }

    /// The exact range of the values: for an axis that need not begin at 0.
    pub(super) fn tight(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let finite = values.filter(|v| v.is_finite() && (self.scale == Scale::Linear || *v > 0.0));
        let (low, high) = finite.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)));
        let high = self.most.map_or(high, |most| high.min(most));
        match low < high {
            true if self.scale == Scale::Linear && low < 0.3 * high => (0.0, high),
            true => (low, high),
            false if low == f64::MAX && self.scale == Scale::Log => (0.1, 1.0),
            false if low == f64::MAX => (0.0, 1.0),
            false => (low * 0.9, low * 1.1 + 1e-9),
        }
    }

    /// Returns true if the value has a place on the axis.
    pub(super) fn has(&self, value: f64) -> bool {
        value.is_finite() && (self.scale == Scale::Linear || value > 0.0)
    }

    /// From 0 at `low` to 1 at `high`.
    pub(super) fn place(&self, value: f64, low: f64, high: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - low) / (high - low),
            Scale::Log if value <= 0.0 => 0.0,
            Scale::Log => (value / low).ln() / (high / low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// About `wanted` round values from `low` to `high`, with their labels.
    pub(super) fn ticks(&self, low: f64, high: f64, wanted: usize) -> Vec<(f64, String)> {
        let wanted = wanted.clamp(2, 12);
        let mut values = Vec::new();
        match self.scale {
            Scale::Linear => {
                let rough = (high - low) / wanted as f64;
                let power = 10_f64.powf(rough.log10().floor());
                let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power);
                let step = steps.into_iter().find(|s| *s >= rough).unwrap_or(rough);
                let first = (low / step).ceil() as i64;
                let last = (high / step + 1e-9).floor() as i64;
                values.extend((first..=last).map(|n| n as f64 * step));
            }
            Scale::Log if low <= 0.0 || high < low => {}
            Scale::Log => {
                let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
                let decades = (last - first).max(1) as usize;
                let every = decades.div_ceil(wanted).max(1);
                let within: &[f64] = match wanted / decades {
                    0 | 1 => &[1.0],
                    2 => &[1.0, 3.0],
                    _ => &[1.0, 2.0, 5.0],
                };
                for decade in (first..=last).step_by(every) {
                    values.extend(within.iter().map(|m| m * 10_f64.powi(decade)));
                }
                values.retain(|v| *v >= low * 0.999 && *v <= high * 1.001);
            }
        }
        values.into_iter().map(|v| (v, tick(v))).collect()
    }
}

/// A number beside an axis: powers of ten where a decimal fraction would be long.
fn tick(value: f64) -> String {
    if value <= 0.0 || value >= 0.000_95 {
        return short(value);
    }
    let power = value.log10().floor();
    let front = value / 10_f64.powf(power);
    let digits = format!("{}", -power as i64);
    let raised: String = digits
        .bytes()
        .map(|d| ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][usize::from(d - b'0')])
        .collect();
    match front.round() {
        1.0 => format!("10⁻{raised}"),
        front => format!("{front}·10⁻{raised}"),
    }
}

/// A number above a bar: two significant digits below a hundred.
pub(super) fn brief(value: f64) -> String {
    match value {
        v if v < 0.005 => "0".into(),
        v if v < 0.995 => short((v * 100.0).round() / 100.0),
        v if v < 99.5 => short((v * 10.0).round() / 10.0),
        v => short(v),
    }
}

/// A number as axes and tables show it: 200k, 1.5M, 0.05.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        v if v >= 999_999.5 => (value / 1e6, "M"),
        v if v >= 9_999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    if scaled == 0.0 {
        return "0".into();
    }
    let digits = (2 - scaled.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log axis without a value above 0, a single value, one cut off on the wrong side.
    #[test]
    fn axes_of_nothing_have_few_ticks() {
        let ranges: [&[f64]; 4] = [&[], &[0.0], &[5.0], &[f64::NAN, -1.0]];
        for axis in [Axis::log("x"), Axis::linear("x"), Axis::log("x").from(1e9)] {
            for values in ranges {
                for (low, high) in [
                    axis.range_of(values.iter().copied()),
                    axis.tight(values.iter().copied()),
                ] {
                    assert!(axis.ticks(low, high, 6).len() < 20, "{axis:?} {values:?}");
                    assert!(
                        axis.place(1.0, low, high).is_finite(),
                        "{axis:?} {values:?}"
                    );
                }
            }
        }
        assert!(Axis::log("x").ticks(0.0, 1.0, 6).is_empty());
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.05, "0.05"),
            (2.5, "2.5"),
            (1000.0, "1000"),
            (200_000.0, "200k"),
            (1_500_000.0, "1.5M"),
            (0.000_1, "0.0001"),
        ] {
            assert_eq!(short(value), text);
        }
        assert_eq!((tick(1e-8), tick(2e-4)), ("10⁻⁸".into(), "2·10⁻⁴".into()));
        assert_eq!(
            (brief(0.0745), brief(1.82), brief(134.2)),
            ("0.07".into(), "1.8".into(), "134".into())
        );
    }

    #[test]
    fn ticks_lie_in_the_range() {
        for axis in [Axis::linear(""), Axis::log("")] {
            for (low, high) in [(0.01, 100.0), (0.001, 0.002), (1.0, 2e7)] {
                for wanted in [0, 3, 6, 20] {
                    let ticks = axis.ticks(low, high, wanted);
                    assert!(ticks.len() <= 26, "{ticks:?}");
                    assert!(
                        ticks
                            .iter()
                            .all(|t| t.0 >= low * 0.99 && t.0 <= high * 1.01)
                    );
                }
            }
        }
    }

    #[test]
    fn ranges_hold_what_is_shown() {
        let log = Axis::log("");
        assert_eq!(log.range_of([0.0, 0.03, 40.0].into_iter()), (0.01, 50.0));
        assert_eq!(log.range_of([f64::NAN].into_iter()), (0.1, 1.0));
        let (low, high) = Axis::linear("")
            .up_to(10.0)
            .range_of([3.0, 90.0].into_iter());
        assert!(low == 0.0 && high < 11.0);
        assert_eq!(log.place(0.0, 0.1, 1.0), 0.0);
    }
}
