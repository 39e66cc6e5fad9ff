//! Line charts.

use super::area::Area;
use super::axis::Axis;
use super::canvas::Canvas;

/// A line through points; those that are not finite are left out. It breaks at points without a place on an axis.
#[derive(Clone, Debug)]
pub struct Line {
    /// In the legend.
    pub label: String,
    /// In order of x.
    pub points: Vec<(f64, f64)>,
    /// Says whether points are marked: for few of them.
    pub marked: bool,
}

pub(super) fn draw(
    canvas: &mut Canvas,
    area: Area,
    (x_axis, y_axis): (&Axis, &Axis),
    (low, high): (f64, f64),
    lines: &[Line],
    labels: &[String],
) {
    let xs = lines.iter().flat_map(|l| l.points.iter().map(|p| p.0));
    let (x_low, x_high) = x_axis.tight(xs);
    for (value, label) in x_axis.ticks(x_low, x_high, (area.width / 55.0) as usize) {
        let x = area.left + x_axis.place(value, x_low, x_high) * area.width;
        canvas.line(x, area.bottom(), x, area.bottom() + 4.0, "a");
        canvas.text(x, area.bottom() + 16.0, "middle", "n", &label);
    }
    for line in lines {
        let series = labels.iter().position(|l| *l == line.label).unwrap_or(0);
        let below = |y: f64| y_axis.least.is_some_and(|least| y < least);
        let shown = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite() && !below(p.1);
        let finite: Vec<_> = line.points.iter().filter(shown).collect();
        for run in finite.split(|p| !x_axis.has(p.0) || !y_axis.has(p.1)) {
            let place = |(x, y): &&(f64, f64)| {
                (
                    area.left + x_axis.place(*x, x_low, x_high) * area.width,
                    area.bottom() - y_axis.place(*y, low, high) * area.height,
                )
            };
            let places: Vec<(f64, f64)> = run.iter().map(place).collect();
            // A point between two breaks would be a line without length.
            let alone = places.len() == 1;
            canvas.path(&places, series);
            if line.marked || alone {
                for (x, y) in places {
                    canvas.point(x, y, series);
                }
            }
        }
    }
}

/// Returns true if points of the lines have no place on the axis: they are 0 and the axis logarithmic.
pub(super) fn some_missing(axis: &Axis, lines: &[Line]) -> bool {
    let mut ys = lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
    ys.any(|y| y.is_finite() && !axis.has(y))
}
