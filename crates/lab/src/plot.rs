//! Plots as self-contained SVG.
//!
//! Problem: figures must read well in a page, alone in a viewer, in a README, on light and dark
//! grounds, and printed; and be made from data without looking at them.
//!
//! Strategy: a [`Figure`] is a title, one legend for all, and a grid of panels. What could overlap
//! is given room before anything is drawn: the legend has rows of its own above the panels, axis
//! labels get margins as wide as they are, bar labels are turned when they are too wide. Colours are
//! of middle lightness, and told apart by dashes and marks as well; text and ground follow
//! `prefers-color-scheme`, with the light ones as attributes for viewers that know no CSS.
//!
//! Invariants: no value that is not finite is drawn; every text is escaped; equal labels have equal
//! colours in all panels of a figure.

mod area;
mod axis;
mod bars;
mod canvas;
mod lines;

pub use axis::{Axis, Scale};
pub use bars::{Bar, Bars, Group};
pub use lines::Line;

use area::Area;
pub(crate) use axis::short;
use canvas::{Canvas, text_width};

/// The width of every figure, in pixels.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 14.0;
const GAP: f64 = 18.0;
const LEGEND_ROW: f64 = 20.0;

/// Panels under one title.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Title of the figure.
    pub title: String,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
    /// Panels in a row.
    pub columns: usize,
    /// Height of a panel, in pixels.
    pub height: f64,
}

/// One set of axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Title of the panel; may be empty.
    pub title: String,
    /// To the right; its scale is not used by bars.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// Content of the panel.
    pub content: Content,
    /// Horizontal lines at values of the papers, with words.
    pub marks: Vec<(f64, String)>,
}

/// Contents of panels.
#[derive(Clone, Debug)]
pub enum Content {
    /// Lines through points.
    Lines(Vec<Line>),
    /// Bars in groups.
    Bars(Bars),
}

impl Figure {
    /// The labels in the legend: every label once, in order of appearance. Their positions are their
    /// colours.
    fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for panel in &self.panels {
            let of_panel: Vec<&String> = match &panel.content {
                Content::Lines(lines) => lines.iter().map(|l| &l.label).collect(),
                Content::Bars(bars) => bars.series.iter().collect(),
            };
            for label in of_panel {
                if !labels.contains(label) {
                    labels.push(label.clone());
                }
            }
        }
        labels
    }

    /// The figure as an SVG document.
    pub fn svg(&self) -> String {
        let labels = self.labels();
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let rows = self.panels.len().div_ceil(columns);
        let with_legend = labels.len() > 1;
        let places = legend_places(&labels);
        let legend = match (with_legend, places.last()) {
            (true, Some((_, row))) => (*row as f64 + 1.0) * LEGEND_ROW + 6.0,
            _ => 0.0,
        };
        let top = MARGIN + 24.0 + legend;
        let height = top + rows as f64 * (self.height + GAP) - GAP + MARGIN;
        let width = (WIDTH - 2.0 * MARGIN - GAP * (columns - 1) as f64) / columns as f64;
        let mut canvas = Canvas::new(WIDTH, height, &self.title);
        canvas.text(MARGIN, MARGIN + 12.0, "start", "t", &self.title);
        if with_legend {
            let lines = self
                .panels
                .iter()
                .any(|p| matches!(p.content, Content::Lines(_)));
            for (number, (label, (x, row))) in labels.iter().zip(&places).enumerate() {
                let y = MARGIN + 24.0 + *row as f64 * LEGEND_ROW + 10.0;
                match lines {
                    true => {
                        canvas.path(&[(*x, y - 4.0), (x + 26.0, y - 4.0)], number);
                        canvas.point(x + 13.0, y - 4.0, number);
                    }
                    false => canvas.bar(*x + 6.0, y - 10.0, 12.0, 12.0, number, ""),
                }
                canvas.text(x + 32.0, y, "start", "l", label);
            }
        }
        for (number, panel) in self.panels.iter().enumerate() {
            let left = MARGIN + (number % columns) as f64 * (width + GAP);
            let top = top + (number / columns) as f64 * (self.height + GAP);
            let outer = Area {
                left,
                top,
                width,
                height: self.height,
            };
            panel.draw(&mut canvas, outer, &labels);
        }
        canvas.finish()
    }
}

/// Returns where each legend entry begins, and in which row.
fn legend_places(labels: &[String]) -> Vec<(f64, usize)> {
    let (mut x, mut row) = (MARGIN, 0);
    let mut places = Vec::new();
    for label in labels {
        let width = 32.0 + text_width(label, 12.0) + 18.0;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, row) = (MARGIN, row + 1);
        }
        places.push((x, row));
        x += width;
    }
    places
}

impl Panel {
    fn y_range(&self) -> (f64, f64) {
        let marks = self.marks.iter().map(|(y, _)| *y);
        match &self.content {
            Content::Lines(lines) => {
                let ys = lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
                self.y.range_of(ys.chain(marks))
            }
            Content::Bars(bars) => {
                let (low, high) = self.y.range_of(bars.tops().chain(marks));
                // Room for what is written above the highest bar.
                let room = match (bars.numbers, self.y.scale) {
                    (false, _) => 1.0,
                    (true, Scale::Linear) => 1.08,
                    (true, Scale::Log) => 2.0,
                };
                (low, high * room)
            }
        }
    }

    fn draw(&self, canvas: &mut Canvas, outer: Area, labels: &[String]) {
        let (low, high) = self.y_range();
        let ticks = self.y.ticks(low, high, (outer.height / 45.0) as usize);
        let widest = ticks.iter().map(|t| text_width(&t.1, 11.0));
        let left = 22.0 + widest.fold(0.0, f64::max) + 6.0;
        let below = match &self.content {
            Content::Lines(_) => 36.0,
            Content::Bars(bars) => bars.label_height(outer.width - left) + 18.0,
        };
        let above = if self.title.is_empty() { 4.0 } else { 20.0 };
        let area = Area {
            left: outer.left + left,
            top: outer.top + above,
            width: outer.width - left - 8.0,
            height: outer.height - above - below,
        };
        let middle = area.left + area.width / 2.0;
        canvas.text(middle, outer.top + 12.0, "middle", "h", &self.title);
        let y_middle = area.top + area.height / 2.0;
        let missing = match &self.content {
            Content::Lines(lines) if lines::some_missing(&self.y, lines) => " (0 is not drawn)",
            _ => "",
        };
        let title = format!("{}{missing}", self.y.title);
        canvas.turned(outer.left + 11.0, y_middle, "middle", "l", &title);
        for (value, label) in &ticks {
            let y = area.bottom() - self.y.place(*value, low, high) * area.height;
            canvas.line(area.left, y, area.left + area.width, y, "g");
            canvas.text(area.left - 5.0, y + 3.8, "end", "n", label);
        }
        match &self.content {
            Content::Lines(lines) => {
                lines::draw(canvas, area, (&self.x, &self.y), (low, high), lines, labels);
            }
            Content::Bars(bars) => bars::draw(canvas, area, &self.y, (low, high), bars, labels),
        }
        for (value, words) in &self.marks {
            let y = area.bottom() - self.y.place(*value, low, high) * area.height;
            canvas.line(area.left, y, area.left + area.width, y, "m");
            canvas.text(area.left + area.width - 3.0, y - 4.0, "end", "k", words);
        }
        canvas.line(area.left, area.top, area.left, area.bottom(), "a");
        let bottom = area.bottom();
        canvas.line(area.left, bottom, area.left + area.width, bottom, "a");
        let under = outer.top + outer.height - 4.0;
        canvas.text(middle, under, "middle", "l", &self.x.title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let line = |label: &str, y: f64| Line {
            label: label.into(),
            points: vec![(1.0, y), (10.0, f64::NAN), (100.0, y * 3.0)],
            marked: true,
        };
        let panel = |lines| Panel {
            title: "a < b & c".into(),
            x: Axis::log("events"),
            y: Axis::linear("error in %"),
            content: Content::Lines(lines),
            marks: vec![(5.0, "5 %".into())],
        };
        Figure {
            title: "test".into(),
            panels: vec![
                panel(vec![line("one", 1.0), line("two", 2.0)]),
                panel(vec![line("two", 9.0)]),
            ],
            columns: 2,
            height: 240.0,
        }
    }

    #[test]
    fn documents_are_well_formed_and_finite() {
        let svg = figure().svg();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("NaN") && !svg.contains("inf"));
        assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count());
    }

    #[test]
    fn equal_labels_share_a_legend_entry() {
        assert_eq!(figure().labels(), ["one", "two"]);
    }

    /// On a logarithmic axis 0 has no place: the line breaks there, and the title says so.
    #[test]
    fn zero_is_not_drawn_on_a_logarithmic_axis() {
        let mut figure = figure();
        let zeros =
            |from: usize| (0..6).map(move |n| (10.0 + n as f64, if n == from { 0.0 } else { 2.0 }));
        for panel in &mut figure.panels {
            panel.y = Axis::log("error in %");
            panel.marks.clear();
            panel.content = Content::Lines(vec![Line {
                label: "one".into(),
                points: zeros(3).collect(),
                marked: false,
            }]);
        }
        let svg = figure.svg();
        assert_eq!(svg.matches("error in % (0 is not drawn)").count(), 2);
        let lines: Vec<_> = svg.lines().filter(|l| l.starts_with("<polyline")).collect();
        assert_eq!(lines.len(), 4, "two lines, each broken once: {lines:?}");
        for panel in &mut figure.panels {
            panel.y = Axis::linear("error in %");
        }
        let svg = figure.svg();
        assert!(!svg.contains("not drawn"));
        assert_eq!(
            svg.lines().filter(|l| l.starts_with("<polyline")).count(),
            2
        );
    }

    #[test]
    fn a_long_legend_has_rows() {
        let labels: Vec<String> = (0..30).map(|n| format!("H[P256]2048 number {n}")).collect();
        let places = legend_places(&labels);
        assert!(places.iter().all(|(x, _)| *x < WIDTH - 100.0));
        assert!(places.last().is_some_and(|(_, row)| *row > 3));
        for pair in places.windows(2) {
            assert!(pair[0].1 < pair[1].1 || pair[1].0 - pair[0].0 > 150.0);
        }
    }

    #[test]
    fn empty_figures_are_drawn() {
        let mut figure = figure();
        figure.panels.clear();
        assert!(figure.svg().contains("</svg>"));
    }
}
