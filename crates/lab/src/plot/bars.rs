//! Bar charts: groups of bars, each a stack of parts.

use super::area::Area;
use super::axis::Axis;
use super::axis::{brief, short};
use super::canvas::{Canvas, text_width};

/// Groups of stacked bars.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// Names of the parts of bars, in the legend.
    pub series: Vec<String>,
    /// The groups, left to right.
    pub groups: Vec<Group>,
    /// Says whether the height of each bar is written above it.
    pub numbers: bool,
}

/// Bars side by side over one label.
#[derive(Clone, Debug)]
pub struct Group {
    /// Below the bars.
    pub label: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A stack.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Below it; may be empty.
    pub label: String,
    /// Series number and height of each part, from below.
    pub parts: Vec<(usize, f64)>,
}

impl Bar {
    /// The whole height.
    pub fn height(&self) -> f64 {
        let finite = self.parts.iter().map(|p| p.1).filter(|h| h.is_finite());
        finite.sum()
    }
}

const LABEL: f64 = 9.5;

impl Bars {
    pub(super) fn tops(&self) -> impl Iterator<Item = f64> {
        self.groups.iter().flat_map(|g| &g.bars).map(Bar::height)
    }

    /// The widest label of a bar.
    fn widest(&self) -> f64 {
        let bars = self.groups.iter().flat_map(|g| &g.bars);
        let widths = bars.map(|b| text_width(&b.label, LABEL));
        widths.fold(0.0, f64::max)
    }

    /// Bars and gaps between groups, counted in bars.
    fn slots(&self) -> f64 {
        let bars: usize = self.groups.iter().map(|g| g.bars.len()).sum();
        bars as f64 + 0.8 * self.groups.len() as f64
    }

    fn turned(&self, width: f64) -> bool {
        self.widest() > width / self.slots().max(1.0)
    }

    /// Returns true if the labels of groups need two rows.
    fn staggered(&self, width: f64) -> bool {
        let slot = width / self.slots().max(1.0);
        self.groups
            .iter()
            .any(|g| text_width(&g.label, 11.0) + 4.0 > slot * (g.bars.len() as f64 + 0.8))
    }

    /// Room below the axis.
    pub(super) fn label_height(&self, width: f64) -> f64 {
        let bars = match self.widest() {
            0.0 => 0.0,
            widest if self.turned(width - 8.0) => widest + 8.0,
            _ => 14.0,
        };
        bars + 18.0
            + if self.staggered(width - 8.0) {
                14.0
            } else {
                0.0
            }
    }
}

pub(super) fn draw(
    canvas: &mut Canvas,
    area: Area,
    axis: &Axis,
    (low, high): (f64, f64),
    bars: &Bars,
    labels: &[String],
) {
    let slot = area.width / bars.slots().max(1.0);
    let turned = bars.turned(area.width);
    let staggered = bars.staggered(area.width);
    let label_room = match bars.widest() {
        0.0 => 0.0,
        widest if turned => widest + 8.0,
        _ => 14.0,
    };
    let mut x = area.left;
    for (number, group) in bars.groups.iter().enumerate() {
        x += 0.4 * slot;
        let middle = x + slot * group.bars.len() as f64 / 2.0;
        for bar in &group.bars {
            let mut sum = 0.0;
            let width = slot * 0.84;
            for (part, height) in bar.parts.iter().filter(|p| p.1.is_finite() && p.1 > 0.0) {
                let at = |value| axis.place(value, low, high) * area.height;
                let (from, to) = (at(sum), at(sum + height));
                sum += height;
                let name = bars.series.get(*part).map_or("", String::as_str);
                let series = labels.iter().position(|l| l == name).unwrap_or(*part);
                let words = format!("{} {} {name}: {}", group.label, bar.label, short(*height));
                let left = x + slot * 0.08;
                canvas.bar(left, area.bottom() - to, width, to - from, series, &words);
            }
            let top = area.bottom() - axis.place(sum, low, high) * area.height;
            let cut = sum > high;
            if bars.numbers || cut {
                let text = format!("{}{}", brief(sum), if cut { " ↑" } else { "" });
                if slot < 30.0 {
                    // Beside the top of a bar that fills the panel there is no room above it.
                    let room = text_width(&text, 9.0) + 4.0;
                    let y = (top - 3.0).max(area.top + room);
                    canvas.turned(x + slot / 2.0 + 3.2, y, "start", "v", &text);
                } else {
                    canvas.text(
                        x + slot / 2.0,
                        (top - 3.0).max(area.top + 9.0),
                        "middle",
                        "v",
                        &text,
                    );
                }
            }
            if turned {
                let y = area.bottom() + 4.0;
                canvas.turned(x + slot / 2.0 + 3.2, y, "end", "v", &bar.label);
            } else {
                canvas.text(
                    x + slot / 2.0,
                    area.bottom() + 12.0,
                    "middle",
                    "v",
                    &bar.label,
                );
            }
            x += slot;
        }
        let lower = if staggered && number % 2 == 1 {
            14.0
        } else {
            0.0
        };
        let y = area.bottom() + label_room + 14.0 + lower;
        canvas.text(middle, y, "middle", "n", &group.label);
        x += 0.4 * slot;
    }
}
