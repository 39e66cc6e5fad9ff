//! SVG elements, escaped and rounded, in the style that all figures share.

use std::fmt::Write;

/// Colours of middle lightness, after Okabe and Ito, with a dash and a mark each.
const COLOURS: [&str; 10] = [
    "#3b7dd8", "#e07b00", "#2a9d5c", "#c9415f", "#8e6bbf", "#17939b", "#a8791c", "#7a8288",
    "#d664b0", "#5b8c1f",
];
const DASHES: [&str; 5] = ["", "7 3", "2 2.5", "9 3 2 3", "12 4"];

const STYLE: &str = "<style>\
.tr text{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}\
.tr .t{font-size:15px;font-weight:600}.tr .h{font-size:12.5px;font-weight:600}\
.tr .l{font-size:12px}.tr .n{font-size:11px}.tr .k{font-size:11px;font-style:italic}\
.tr .v{font-size:9px}\
.tr .a{stroke:#6b7075;stroke-width:1}.tr .g{stroke:#dfe2e5;stroke-width:1}\
.tr .m{stroke:#6b7075;stroke-width:1;stroke-dasharray:4 3}\
@media (prefers-color-scheme:dark){.tr .bg{fill:#16191d}.tr text{fill:#dfe3e7}\
.tr .a,.tr .m{stroke:#9aa1a8}.tr .g{stroke:#31373d}.tr .o{stroke:#16191d}}\
</style>";

/// About how wide a text is, in pixels: generous, so that what is given this room fits.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let wide = |c: char| match c {
        'i' | 'l' | 'j' | '.' | ',' | ':' | '\'' | '|' | '[' | ']' | ' ' | '(' | ')' => 0.36,
        'm' | 'w' | 'M' | 'W' | '%' => 0.92,
        c if c.is_ascii_uppercase() => 0.72,
        _ => 0.61,
    };
    text.chars().map(wide).sum::<f64>() * size
}

/// A document being written.
pub(super) struct Canvas(String);

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = String::new();
        let _ = write!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tr\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\" fill=\"#1f2328\" \
             font-family=\"sans-serif\" font-size=\"12\"><title>{}</title>{STYLE}\n\
             <rect class=\"bg\" width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n",
            escaped(title)
        );
        Self(svg)
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(
                self.0,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{}</text>",
                escaped(text)
            );
        }
    }

    /// A text that reads upwards.
    pub(super) fn turned(&mut self, x: f64, y: f64, anchor: &str, class: &str, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(
                self.0,
                "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"{anchor}\" \
                 class=\"{class}\">{}</text>",
                escaped(text)
            );
        }
    }

    pub(super) fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, class: &str) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\" stroke=\"#888\"/>"
        );
    }

    /// A line of a series through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], series: usize) {
        if points.is_empty() {
            return;
        }
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{x:.1},{y:.1} ");
        }
        let dash = DASHES[series % DASHES.len()];
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" \
             stroke-linejoin=\"round\" stroke-dasharray=\"{dash}\"/>",
            list.trim_end(),
            COLOURS[series % COLOURS.len()]
        );
    }

    /// A mark of a series.
    pub(super) fn point(&mut self, x: f64, y: f64, series: usize) {
        let colour = COLOURS[series % COLOURS.len()];
        let r = 3.2;
        let _ = match series % 4 {
            0 => writeln!(
                self.0,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"{colour}\"/>"
            ),
            1 => writeln!(
                self.0,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\" fill=\"{colour}\"/>",
                x - 3.0,
                y - 3.0
            ),
            2 => writeln!(
                self.0,
                "<polygon points=\"{x:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\" fill=\"{colour}\"/>",
                y - 4.0,
                x + 4.0,
                y + 3.2,
                x - 4.0,
                y + 3.2
            ),
            _ => writeln!(
                self.0,
                "<polygon points=\"{x:.1},{:.1} {:.1},{y:.1} {x:.1},{:.1} {:.1},{y:.1}\" fill=\"{colour}\"/>",
                y - 4.2,
                x + 4.2,
                y + 4.2,
                x - 4.2
            ),
        };
    }

    /// A filled box of a series; `words` are shown when it is pointed at.
    pub(super) fn bar(&mut self, x: f64, y: f64, w: f64, h: f64, series: usize, words: &str) {
        let colour = COLOURS[series % COLOURS.len()];
        let _ = writeln!(
            self.0,
            "<rect class=\"o\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{:.1}\" \
             fill=\"{colour}\" stroke=\"#ffffff\" stroke-width=\"0.5\"><title>{}</title></rect>",
            h.max(0.0),
            escaped(words)
        );
    }
}
