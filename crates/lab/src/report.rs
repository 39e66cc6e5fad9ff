//! Findings as files: CSV, JSON and SVG for each experiment, one page and one text for all.
//!
//! The page is one file without references to others, so that it can be mailed and kept. Figures are
//! inline; data are in tables that open on a click. Long tables are left to the CSV files, and said.

use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::findings::{Findings, Table, Verdict};
use crate::{EXPERIMENTS, Experiment, Lab, LabError, Paper};

/// The page's name.
const PAGE: &str = "index.html";
/// The text's name.
const TEXT: &str = "findings.md";
/// Longer tables are not in the page.
const ROWS: usize = 120;

/// Files that were written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The page, where one was asked for.
    pub page: Option<PathBuf>,
    /// All files.
    pub files: Vec<PathBuf>,
}

/// A report that is written experiment by experiment: what is on disk is always whole.
pub struct Report<'a> {
    lab: &'a Lab<'a>,
    dir: &'a Path,
    /// Says whether there is a page.
    page: bool,
    /// Experiments to come, those done included.
    wanted: usize,
    done: Vec<(&'static Experiment, Findings)>,
    files: Vec<PathBuf>,
}

impl<'a> Report<'a> {
    /// A report of `wanted` experiments in `dir`, which is made and tried now: a wrong name is noticed before any work.
    pub fn new(
        lab: &'a Lab<'a>,
        dir: &'a Path,
        page: bool,
        wanted: usize,
    ) -> Result<Self, LabError> {
        fs::create_dir_all(dir).map_err(|e| LabError::io(dir, e))?;
        let trial = dir.join(format!(".{}.trial", std::process::id()));
        fs::write(&trial, "").map_err(|e| LabError::io(dir, e))?;
        fs::remove_file(&trial).map_err(|e| LabError::io(&trial, e))?;
        for name in [Some(TEXT), page.then_some(PAGE)].into_iter().flatten() {
            let path = dir.join(name);
            if path.is_dir() {
                return Err(LabError::io(&path, ErrorKind::IsADirectory.into()));
            }
        }
        Ok(Self {
            lab,
            dir,
            page,
            wanted,
            done: Vec::new(),
            files: Vec::new(),
        })
    }

    /// Writes the files of one more experiment, and text and page of all so far.
    pub fn add(
        &mut self,
        experiment: &'static Experiment,
        found: Findings,
    ) -> Result<(), LabError> {
        let stem = |part: &str| match part {
            "" => experiment.name.to_owned(),
            part => format!("{}-{part}", experiment.name),
        };
        for table in &found.tables {
            self.put(format!("{}.csv", stem(&table.name)), &table.csv())?;
        }
        for (part, figure) in &found.figures {
            self.put(format!("{}.svg", stem(part)), &figure.svg())?;
        }
        let json = found.json(experiment.name, experiment.title);
        self.put(format!("{}.json", experiment.name), &format!("{json:#}\n"))?;
        let order = |e: &Experiment| EXPERIMENTS.iter().position(|other| other.name == e.name);
        let at = self
            .done
            .partition_point(|(e, _)| order(e) < order(experiment));
        self.done.insert(at, (experiment, found));
        let left = self.wanted.saturating_sub(self.done.len());
        let all = self.wanted == EXPERIMENTS.len();
        let text = text(self.lab, &self.done, all, left);
        self.put(TEXT.into(), &text)?;
        if self.page {
            let page = html(self.lab, &self.done, left);
            self.put(PAGE.into(), &page)?;
        }
        Ok(())
    }

    /// Returns the findings, in the order of the papers, and the files.
    pub fn finish(self) -> (Vec<(&'static Experiment, Findings)>, Written) {
        let page = self.dir.join(PAGE);
        let written = Written {
            page: self.files.contains(&page).then_some(page),
            files: self.files,
        };
        (self.done, written)
    }

    /// Writes a file whole or not at all.
    fn put(&mut self, name: String, content: &str) -> Result<(), LabError> {
        let path = self.dir.join(&name);
        let half = self.dir.join(format!(".{name}.{}", std::process::id()));
        let written = fs::write(&half, content).and_then(|()| fs::rename(&half, &path));
        if written.is_err() {
            let _ = fs::remove_file(&half);
        }
        written.map_err(|e| LabError::io(&path, e))?;
        if !self.files.contains(&path) {
            self.files.push(path);
        }
        Ok(())
    }
}

/// Writes the files of each experiment into `dir`, and the text of all of them; with `page`, the page too.
pub fn write(
    lab: &Lab<'_>,
    dir: &Path,
    done: &[(&'static Experiment, Findings)],
    page: bool,
) -> Result<Written, LabError> {
    let mut report = Report::new(lab, dir, page, done.len())?;
    for (experiment, found) in done {
        report.add(experiment, found.clone())?;
    }
    Ok(report.finish().1)
}

fn counts(done: &[(&'static Experiment, Findings)]) -> [(Verdict, usize); 4] {
    let all = done.iter().flat_map(|(_, f)| &f.claims);
    [
        Verdict::Holds,
        Verdict::Partly,
        Verdict::Fails,
        Verdict::NoData,
    ]
    .map(|v| (v, all.clone().filter(|c| c.verdict == v).count()))
}

fn summary(done: &[(&'static Experiment, Findings)]) -> String {
    let said = counts(done).into_iter().filter(|(_, n)| *n > 0);
    let said: Vec<_> = said
        .map(|(v, n)| match v {
            Verdict::Holds => format!("{n} hold"),
            Verdict::Partly => format!("{n} hold in part"),
            Verdict::Fails => format!("{n} do not"),
            Verdict::NoData => format!("{n} have no data"),
        })
        .collect();
    format!("Claims: {}.", said.join(", "))
}

fn streams(lab: &Lab<'_>) -> String {
    format!(
        "{} events of each stream, after the first {} of the program.",
        crate::plot::short(lab.events as f64),
        crate::plot::short(lab.skip as f64)
    )
}

/// Words about experiments that are still to come.
fn unfinished(left: usize) -> String {
    match left {
        0 => String::new(),
        n => format!(" Not finished: experiments still to come: {n}."),
    }
}

/// The report in Markdown; `all`: of all experiments, of which some are left.
fn text(lab: &Lab<'_>, done: &[(&'static Experiment, Findings)], all: bool, left: usize) -> String {
    let names: Vec<_> = done.iter().map(|(e, _)| e.name).collect();
    let what = match all {
        true => "all".to_owned(),
        false => names.join(" "),
    };
    let mut out = format!(
        "# What the lab found\n\nReference: claims of the papers and what was measured. `trommel lab {what}` made this page; do not edit it. The lab is described in [lab.md](lab.md).\n\n",
    );
    let (summary, streams) = (summary(done), streams(lab));
    let _ = writeln!(out, "{summary} {streams}{}\n", unfinished(left));
    out.push_str("| program | input |\n| --- | --- |\n");
    for program in lab.programs {
        let _ = writeln!(out, "| {} | {} |", program.name, program.about);
    }
    for paper in [
        Paper::Stratified,
        Paper::MultiHash,
        Paper::Dynamo,
        Paper::Relational,
        Paper::Values,
        Paper::Ours,
    ] {
        let mut of_paper = done.iter().filter(|(e, _)| e.paper == paper).peekable();
        if of_paper.peek().is_some() {
            let _ = writeln!(out, "\n## {}", paper.title());
        }
        for (experiment, found) in of_paper {
            let _ = writeln!(out, "\n### `{}`: {}\n", experiment.name, experiment.title);
            out.push_str("| claim | here | |\n| --- | --- | --- |\n");
            for claim in &found.claims {
                let cell = |text: &str| text.replace('|', "\\|");
                let _ = writeln!(
                    out,
                    "| {} | {} | **{}** |",
                    cell(claim.paper),
                    cell(&claim.ours),
                    found.verdict_of(claim)
                );
            }
            for note in &found.notes {
                let _ = writeln!(out, "\n{note}");
            }
        }
    }
    out
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1f2328;--ground:#fff;--soft:#f4f5f7;--line:#d9dde1;--good:#1a7f46;--half:#9a6700;--bad:#c0293f}\
@media(prefers-color-scheme:dark){:root{--ink:#dfe3e7;--ground:#16191d;--soft:#20252a;--line:#363c43;--good:#4cc37f;--half:#d9a514;--bad:#ff7b8a}}\
body{font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;color:var(--ink);background:var(--ground);margin:0 auto;max-width:1010px;padding:24px}\
h1{font-size:26px;margin:0 0 4px}h2{margin:48px 0 8px;border-bottom:2px solid var(--line)}h3{margin:36px 0 8px}\
table{border-collapse:collapse;width:100%;font-size:13.5px;margin:10px 0}th,td{border:1px solid var(--line);padding:5px 8px;text-align:left;vertical-align:top}\
th{background:var(--soft)}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.w{white-space:nowrap;font-weight:600}\
.holds{color:var(--good)}.part{color:var(--half)}.not{color:var(--bad)}.none{opacity:.7}\
svg{max-width:100%;height:auto;border:1px solid var(--line);border-radius:6px;margin:8px 0}\
details{margin:6px 0}summary{cursor:pointer}.scroll{overflow:auto;max-height:420px}\
a{color:inherit}nav{columns:2;font-size:14px;margin:16px 0}nav a{display:block}small{opacity:.75}";

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::Partly => "part",
        Verdict::Fails => "not",
        Verdict::NoData => "none",
    }
}

fn html(lab: &Lab<'_>, done: &[(&'static Experiment, Findings)], left: usize) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Trommel: the lab</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body>\n\
         <h1>The papers' figures, on today's programs</h1>\n<p>{} {}{}</p>\n<nav>",
        escaped(&summary(done)),
        escaped(&streams(lab)),
        unfinished(left)
    );
    for (experiment, found) in done {
        let verdicts = found.claims.iter().map(|c| {
            format!(
                "<span class=\"{}\" title=\"{}\">●</span>",
                class(c.verdict),
                c.verdict.words()
            )
        });
        let _ = writeln!(
            out,
            "<a href=\"#{0}\">{0} {1}</a>",
            experiment.name,
            verdicts.collect::<String>()
        );
    }
    out.push_str("</nav>\n<table><tr><th>program</th><th>what it does</th></tr>");
    for program in lab.programs {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td></tr>",
            program.name,
            escaped(program.about)
        );
    }
    out.push_str("</table>\n");
    for paper in [
        Paper::Stratified,
        Paper::MultiHash,
        Paper::Dynamo,
        Paper::Relational,
        Paper::Values,
        Paper::Ours,
    ] {
        let mut of_paper = done.iter().filter(|(e, _)| e.paper == paper).peekable();
        if of_paper.peek().is_some() {
            let _ = writeln!(out, "<h2>{}</h2>", paper.title());
        }
        for (experiment, found) in of_paper {
            section(&mut out, experiment, found);
        }
    }
    out.push_str("</body></html>\n");
    out
}

fn section(out: &mut String, experiment: &Experiment, found: &Findings) {
    let _ = writeln!(
        out,
        "<h3 id=\"{}\">{} <small>{0}</small></h3>",
        experiment.name,
        escaped(experiment.title)
    );
    for (_, figure) in &found.figures {
        out.push_str(&figure.svg());
    }
    if !found.claims.is_empty() {
        out.push_str("<table><tr><th>the claim</th><th>here</th><th></th></tr>");
        for claim in &found.claims {
            let _ = write!(
                out,
                "<tr><td>{}</td><td>{}</td><td class=\"w {}\">{}</td></tr>",
                escaped(claim.paper),
                escaped(&claim.ours),
                class(claim.verdict),
                found.verdict_of(claim)
            );
        }
        out.push_str("</table>\n");
    }
    for note in &found.notes {
        let _ = writeln!(out, "<p><small>{}</small></p>", escaped(note));
    }
    for table in &found.tables {
        data(out, experiment, table);
    }
}

fn data(out: &mut String, experiment: &Experiment, table: &Table) {
    let name = match table.name.as_str() {
        "" => experiment.name.to_owned(),
        part => format!("{}-{part}", experiment.name),
    };
    let _ = write!(
        out,
        "<details><summary>data ({} rows; {name}.csv)</summary>",
        table.rows.len()
    );
    if table.rows.len() > ROWS {
        let _ = write!(
            out,
            "<p><small>The first {ROWS} rows; all are in {name}.csv.</small></p>"
        );
    }
    out.push_str("<div class=\"scroll\"><table><tr>");
    for column in &table.columns {
        let _ = write!(out, "<th>{}</th>", escaped(column));
    }
    out.push_str("</tr>\n");
    for row in table.rows.iter().take(ROWS) {
        out.push_str("<tr>");
        for cell in row {
            let number = matches!(cell, crate::Cell::Number(_));
            let class = if number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<td{class}>{}</td>", escaped(&cell.text()));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div></details>\n");
}
