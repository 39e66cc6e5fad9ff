//! The end of `record`: at most [`LINES`] lines, in plain words, with the files written and the next command.
//!
//! It is printed while the user waits for the prompt, so it reads symbol tables but only small
//! debug information; `report` reads all of it.
//!
//! One table is shown: what was asked for. What went wrong or is unusual is noted before it. The table has as many rows as there
//! is room for.

use std::io::{self, Write};

use trommel_profile::call_tree::Basis;
use trommel_profile::confidence::Confidence;
use trommel_profile::filter::Filter;
use trommel_profile::windows::Windows;
use trommel_profile::{KindProfile, Profile};
use trommel_symbol::Files;
use trommel_tuple::Kind;
use unicode_width::UnicodeWidthStr;

use super::Shown;
use super::contexts;
use super::custom;
use super::functions;
use super::intervals;
use super::lost;
use super::misses;
use super::nameless;
use super::processes::{self, Row};
use super::queries;
use super::samples;
use super::table::{Style, Table, ended, limits_title};
use super::text;
use super::tree;
use super::view::{Values, View};
use super::waits;
use crate::load;
use crate::others::{self, Others};
use crate::output::{self, duration, folded, grouped, number_of, printable};
use crate::simulate;

/// Lines of a terminal of 80 columns that the end of a recording takes at most, with the files written and the next command.
pub(crate) const LINES: usize = 12;
/// Rows of the table.
const ROWS: usize = 5;
/// Lines of a table before its rows.
const TITLES: usize = 2;
/// Opening this much debug information takes some fifteen milliseconds. The C library has more: its functions go without a source here.
const DEBUG_LIMIT: u64 = 6 << 20;
/// Loads with a smaller share of all executions say nothing about the program.
const MIN_SHARE: u64 = 1000;
/// Processes that are named.
const PROCESSES: usize = 3;

/// Pairs of a place and a value in all profiles, above which they are not added up while the user
/// waits.
const MOST_TUPLES: usize = 4 << 20;

/// Purpose of a recording, which its end shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Focus {
    /// Instructions of functions.
    Functions,
    /// The same, by call path.
    Contexts,
    /// Loads with their values.
    Values,
    /// Events of another kind that has values.
    Kind(Kind),
    /// Messages of queries.
    Messages,
    /// Pairs that a plug-in made.
    Plugin,
    /// Lines of memory that threads hand over.
    Sharing,
}

impl Focus {
    /// The command that shows it, without the profile's name.
    pub(crate) fn command(self) -> String {
        match self {
            Self::Functions | Self::Messages | Self::Plugin => "report".to_owned(),
            Self::Contexts => "report --html report.html".to_owned(),
            Self::Values => "values".to_owned(),
            Self::Sharing => "c2c".to_owned(),
            Self::Kind(Kind::Latency) => "latency".to_owned(),
            Self::Kind(Kind::Address) => "replay".to_owned(),
            Self::Kind(kind) => format!("report -e {kind}"),
        }
    }
}

/// Lines that are left, and how wide they are.
struct Room<'o, W> {
    out: &'o mut W,
    lines: usize,
    style: Style,
}

impl<W: Write> Room<'_, W> {
    /// Writes a text, as far as there is room. A line that is too wide is cut.
    fn text(&mut self, text: &str) -> io::Result<()> {
        for line in text.lines().take(self.lines) {
            self.lines -= 1;
            let plain = line
                .replace(self.style.bold, "")
                .replace(self.style.plain, "");
            match plain.width() <= self.style.width {
                true => writeln!(self.out, "{line}")?,
                false => writeln!(self.out, "{}", ended(&plain, self.style.width))?,
            }
        }
        Ok(())
    }

    /// Writes a sentence, if it leaves room for so many lines.
    fn note(&mut self, sentence: &str, leaves: usize) -> io::Result<bool> {
        const NAME: &str = "trommel: ";
        let text = output::wrapped(
            &printable(sentence),
            NAME.len(),
            NAME.len(),
            self.style.width,
        );
        let fits = text.lines().count() + leaves <= self.lines;
        if fits {
            self.text(&format!("{NAME}{text}"))?;
        }
        Ok(fits)
    }

    /// Writes a table of as many rows as there is room for. `write` gets the number of rows.
    fn table(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>, usize, Style) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        let rows = self.lines.saturating_sub(TITLES).min(ROWS);
        write(&mut text, rows, self.style)?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.trim_start().lines();
        let whole: Vec<String> = lines.map(|line| folded(line, self.style.width)).collect();
        if lines_of(&whole) <= self.lines {
            return self.text(&whole.join("\n"));
        }
        let shown = shortened(&whole, self.lines.saturating_sub(1));
        self.text(&shown.join("\n"))?;
        self.text("# … more in the report")
    }
}

/// Lines that a terminal shows of some texts.
fn lines_of(texts: &[String]) -> usize {
    texts.iter().map(|text| text.lines().count()).sum()
}

/// Returns true if a line says what was lost, or has failed.
fn is_fault(line: &str) -> bool {
    ["FAILED", "DROPPED", "ARE NOT ", "WERE NOT "]
        .iter()
        .any(|word| line.contains(word))
}

/// Lines of a table, each maybe folded, as many as there is room for. Two rows are worth more than details above them. What failed
/// or was lost stays.
fn shortened(whole: &[String], room: usize) -> Vec<String> {
    const LEAST_ROWS: usize = 2;
    let mut shown = whole.to_vec();
    while lines_of(&shown) > room {
        // Beside the titles.
        let rows = shown.iter().filter(|line| !line.starts_with('#')).count();
        let is_rest = |line: &String| line.starts_with("# and ");
        let last_row = shown.iter().rposition(|line| !line.starts_with('#'));
        let is_detail = |line: &String| line.starts_with("#   ") && !is_fault(line);
        let last_detail = shown.iter().rposition(is_detail);
        let left_out = match last_row.filter(|_| rows > LEAST_ROWS + 1) {
            _ if shown.last().is_some_and(is_rest) => Some(shown.len() - 1),
            Some(row) => Some(row),
            None => last_detail.or(last_row),
        };
        shown.remove(left_out.unwrap_or(shown.len() - 1));
    }
    shown
}

/// Writes the summary of a recording for stderr, in so many lines.
pub(crate) fn write(
    out: &mut impl Write,
    (first, others): (&Profile, &Others),
    focus: Focus,
    lines: usize,
) -> io::Result<()> {
    let style = Style::of(&io::stderr());
    let room = Room { out, lines, style };
    if others.is_empty() {
        return one(room, first, focus, &[]);
    }
    let rows: Vec<Row> = std::iter::once(Row::new(first))
        .chain(others.rows().cloned())
        .collect();
    if others::tuples(first) + others.tuples() > MOST_TUPLES {
        let seen = rows.iter().map(Row::seen).fold(0, u64::saturating_add);
        let told = std::iter::once(others::told(first)).chain(others.told());
        let mut room = room;
        return match processes::merge(told, false) {
            Some((merged, _)) => head(&mut room, &merged, seen, &rows),
            None => Ok(()),
        };
    }
    let all = std::iter::once(first.clone()).chain(others.profiles());
    match processes::merge(all, false) {
        Some((merged, rows)) => one(room, &merged, focus, &rows),
        None => Ok(()),
    }
}

fn one(
    mut room: Room<'_, impl Write>,
    profile: &Profile,
    focus: Focus,
    rows: &[Row],
) -> io::Result<()> {
    let files = Files::new();
    let symbols = load::symbols(&files, profile).with_debug_limit(DEBUG_LIMIT);
    let confidence = Confidence::of_processes(profile, rows.len().max(1));
    let mut view = View::new(profile, symbols, confidence);
    let seen = (profile.kinds.values()).fold(0_u64, |sum, k| sum.saturating_add(k.seen));
    head(&mut room, profile, seen, rows)?;
    if profile.windows.is_some() && view.has_limits() {
        room.note(&format!("limits {}", view.about_limits()), TITLES + 2)?;
    }
    table(&mut room, &mut view, focus)
}

/// Writes the one table.
fn table(room: &mut Room<'_, impl Write>, view: &mut View<'_>, focus: Focus) -> io::Result<()> {
    let there = |view: &View<'_>, kind: Kind| {
        let data = view.profile.kinds.get(&kind);
        data.is_some_and(|data| !text::is_empty(data))
    };
    let focus = match focus {
        Focus::Values if there(view, Kind::Value) => {
            return room.table(|out, rows, style| semi_invariant(out, view, rows, style));
        }
        Focus::Kind(kind) if there(view, kind) => Some(kind),
        Focus::Messages => {
            return room.table(|out, rows, style| queries::summary(out, view, rows, style));
        }
        Focus::Plugin => {
            return room.table(|out, rows, style| custom::write(out, view, rows, style));
        }
        Focus::Functions | Focus::Contexts | Focus::Values | Focus::Sharing | Focus::Kind(_) => {
            None
        }
    };
    if focus.is_none()
        && let Some(program) = view.program()
    {
        if let Some(note) = nameless::of_program(view.profile, &program) {
            room.note(&note, TITLES + 2)?;
        }
        return room.table(|out, rows, style| {
            functions::summary(out, view, &Shown::summary(Some(&program), rows, style))
        });
    }
    if focus.is_none()
        && let Some(paths) = view.call_paths(Basis::Contexts)
    {
        return room.table(|out, rows, style| {
            contexts::functions(out, view, &paths, &Shown::summary(None, rows, style))
        });
    }
    let first = view
        .profile
        .kinds
        .keys()
        .copied()
        .find(|kind| there(view, *kind));
    match focus.or(first) {
        None => Ok(()),
        Some(Kind::Value) => room.table(|out, rows, style| semi_invariant(out, view, rows, style)),
        Some(kind) => {
            room.table(|out, rows, style| text::table(out, view, kind, rows, style).map(drop))
        }
    }
}

impl<'a> Shown<'a> {
    /// The parts of a summary.
    fn summary(program: Option<&'a trommel_code::Program>, rows: usize, style: Style) -> Self {
        Self {
            program,
            inlined: None,
            wanted: None,
            rows: &[],
            top: rows,
            chosen: true,
            one_kind: false,
            style,
        }
    }
}

/// Writes the summary of a recording of samples, in so many lines.
pub(crate) fn of_machine(
    out: &mut impl Write,
    profiles: &[Profile],
    lines: usize,
) -> io::Result<()> {
    let Some((profile, rows)) = processes::merge(profiles.iter().cloned(), false) else {
        return Ok(());
    };
    let Some(found) = &profile.samples else {
        return Ok(());
    };
    let files = Files::new();
    let symbols = load::symbols(&files, &profile).with_debug_limit(DEBUG_LIMIT);
    let confidence = Confidence::of_processes(&profile, rows.len());
    let mut view = View::new(&profile, symbols, confidence);
    let style = Style::of(&io::stderr());
    let mut room = Room { out, lines, style };
    // What is lost or missing goes first.
    let all: Vec<_> = found.machine.iter().flat_map(samples::lines).collect();
    let is_bad = |name: &str| ["missing", "unknown", "lost"].contains(&name);
    let usual = all
        .iter()
        .filter(|(name, text)| !is_bad(name) || text == "none");
    let bad = all
        .iter()
        .filter(|(name, text)| is_bad(name) && text != "none");
    for (n, (name, text)) in usual.take(2).chain(bad).enumerate() {
        let leaves = if n == 0 { 0 } else { TITLES + 2 };
        room.note(&format!("{name}: {text}"), leaves)?;
    }
    if let Some(tree) = waits::waited(&profile) {
        if waits::paths_lost(tree) > 0 {
            room.note(&format!("off-cpu: {}", waits::line(tree)), TITLES + 2)?;
        }
        return room.table(|out, rows, style| waits::table(out, &mut view, rows, style).map(drop));
    }
    if let Some(note) = nameless::of_samples(&mut view, found) {
        room.note(&note, TITLES + 2)?;
    }
    room.table(|out, rows, style| samples::summary(out, &mut view, found, rows, style))
}

/// Writes what was counted and what it cost, and then notes, worst first, as long as some rows of a table fit.
fn head(
    room: &mut Room<'_, impl Write>,
    profile: &Profile,
    seen: u64,
    rows: &[Row],
) -> io::Result<()> {
    let run = &profile.run;
    room.note(&counted(profile, seen), 0)?;
    let cpu = format!(
        "CPU time {} of the program, {} of trommel",
        duration(run.target_cpu),
        duration(run.host_cpu)
    );
    room.note(&cpu, 0)?;
    let mut left = 0_usize;
    // It was asked for, and some rows are enough beside it.
    for line in profile.simulated.iter().flat_map(simulate::lines) {
        left += usize::from(!room.note(&format!("simulated: {line}"), TITLES + 3)?);
    }
    for note in notes(profile, rows) {
        left += usize::from(!room.note(&note, TITLES + 3)?);
    }
    if left > 0 {
        room.note(
            &match left {
                1 => "1 more note at the top of `trommel report`".to_owned(),
                _ => format!("{left} more notes at the top of `trommel report`"),
            },
            0,
        )?;
    }
    Ok(())
}

/// The numbers of events and of what was lost.
fn counted(profile: &Profile, seen: u64) -> String {
    let run = &profile.run;
    let counted = match profile.call_tree(Basis::Contexts) {
        Some(tree) if profile.kinds.is_empty() => {
            format!("{} calling contexts", grouped(tree.nodes().len() as u64))
        }
        _ => match queries::totals(profile) {
            Some((sent, counted, queries)) if profile.kinds.is_empty() => {
                answered(sent, counted, queries)
            }
            None if profile.kinds.is_empty() && text::is_of_queries(profile) => {
                "no query was asked".to_owned()
            }
            _ => match misses::counted(profile) {
                Some(counted) => counted,
                None => number_of(seen, "event"),
            },
        },
    };
    let estimated = match profile.windows.is_some() {
        true => " (estimated)",
        false => "",
    };
    let lost = lost::at_the_end(profile);
    format!("{counted}{estimated} in {}, {lost}", duration(run.wall))
}

/// The numbers of what queries came to, other than 0.
fn answered(sent: u64, counted: u64, queries: usize) -> String {
    let of = match queries {
        1 => "1 query".to_owned(),
        n => format!("{n} queries"),
    };
    match (sent, counted) {
        (_, 0) => format!("{} of {of}", number_of(sent, "message")),
        (0, _) => format!("{} counted by {of}", grouped(counted)),
        _ => format!(
            "{} and {} counted by {of}",
            number_of(sent, "message"),
            grouped(counted)
        ),
    }
}

/// Sentences about what is unusual, the most important first.
fn notes(profile: &Profile, rows: &[Row]) -> Vec<String> {
    let run = &profile.run;
    let reasons = run.detach.iter();
    let mut all: Vec<String> = reasons
        .map(|reason| format!("not observed to the end: {reason}"))
        .collect();
    let asked = profile.queries.iter();
    all.extend(asked.flat_map(|asked| queries::notes(asked, profile)));
    all.extend(empty(profile));
    all.extend(intervals::candidates(profile).map(|words| format!("candidates: {words}")));
    all.extend(
        profile
            .call_tree(Basis::Contexts)
            .map(tree::lacks)
            .unwrap_or_default(),
    );
    all.extend(profile.windows.as_ref().map(sampled));
    all.extend(profile.filter.as_ref().and_then(unprofiled));
    if run.waits > 0 {
        all.push(format!(
            "the program waited {} for trommel to catch up",
            duration(run.wait_time)
        ));
    }
    all.extend(of_processes(rows));
    all.extend(text::threads(profile).map(|threads| format!("threads: {threads}")));
    all
}

/// Sentences about kinds of which nothing was collected, and why.
fn empty(profile: &Profile) -> Vec<String> {
    let empty = profile.kinds.iter();
    let empty = empty.filter(|(_, data)| text::is_empty(data));
    let (missed, absent): (Vec<_>, Vec<_>) = empty.partition(|(_, data)| data.seen > 0);
    let names = |kinds: &[(&Kind, &KindProfile)]| {
        let names: Vec<&str> = kinds.iter().map(|(kind, _)| kind.name()).collect();
        names.join(", ")
    };
    let mut all = Vec::new();
    if !absent.is_empty() {
        let no = match profile.windows.is_some() {
            true => "no window saw",
            false => "no",
        };
        all.push(format!("{no} {} events", names(&absent)));
    }
    if !missed.is_empty() {
        let seen = missed.iter().map(|(_, data)| data.seen);
        let seen = seen.fold(0, u64::saturating_add);
        let why = || format!("{}: {}", names(&missed), text::none_of(profile, seen));
        all.push(intervals::without(profile).unwrap_or_else(why));
    }
    all
}

fn sampled(windows: &Windows) -> String {
    let how = match windows.are_bursts() {
        true => "bursts",
        false => "windows",
    };
    match (windows.taken, windows.are_bursts()) {
        (0, true) => {
            return "no burst began, so nothing was counted: leave out --budget to count all of it, or add --windows"
                .to_owned();
        }
        (0, false) => {
            return "sampled in 0 windows, so nothing was counted: record a longer run, or all of it, without --budget, --rate and --window"
                .to_owned();
        }
        _ => {}
    }
    let taken = grouped(windows.taken);
    match windows.tells_cost() {
        true => format!(
            "sampled in {taken} {how}, for {:.2} % of the CPU time",
            windows.cost()
        ),
        false => format!("sampled in {taken} {how}"),
    }
}

fn unprofiled(filter: &Filter) -> Option<String> {
    let loads = match filter.places.len() {
        0 => return None,
        n => grouped(n as u64),
    };
    Some(match filter.unprofiled() {
        Some(n) => format!(
            "{loads} hot loads were profiled until known: {} executions were not profiled",
            grouped(n)
        ),
        None => format!("{loads} hot loads were profiled until known, and + marks their counts"),
    })
}

/// The processes with most events, where there are several.
fn of_processes(rows: &[Row]) -> Option<String> {
    if rows.len() < 2 {
        return None;
    }
    let total = rows.iter().map(Row::seen).fold(0, u64::saturating_add);
    if total == 0 {
        return Some(format!("{} processes", grouped(rows.len() as u64)));
    }
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by_key(|row| std::cmp::Reverse(row.seen()));
    let most = order.iter().take(PROCESSES).map(|row| {
        let name = row
            .command
            .first()
            .map_or("?".into(), |n| String::from_utf8_lossy(n));
        let name = name.rsplit('/').next().unwrap_or_default();
        format!("{name} {:.1} %", output::percent(row.seen(), total))
    });
    let most: Vec<String> = most.collect();
    let rest = match rows.len() > PROCESSES {
        true => ", …",
        false => "",
    };
    Some(format!(
        "{} processes, by events: {}{rest}",
        grouped(rows.len() as u64),
        most.join(", ")
    ))
}

/// The hottest loads that nearly always load the same: what could be specialised.
fn semi_invariant(
    out: &mut impl Write,
    view: &mut View<'_>,
    rows: usize,
    style: Style,
) -> io::Result<()> {
    let all = view.values(Kind::Value);
    let total = all
        .iter()
        .fold(0_u64, |sum, v| sum.saturating_add(v.executions));
    let hot = |v: &&Values<'_>| v.executions >= total / MIN_SHARE;
    let steady = |v: &&Values<'_>| v.most() >= v.profiled - v.profiled / 10;
    let chosen: Vec<_> = all.iter().filter(hot).filter(steady).take(rows).collect();
    let found = if chosen.is_empty() { ": none" } else { "" };
    writeln!(
        out,
        "# {} (90 % or more){found}",
        style.strong("Loads that nearly always load the same value")
    )?;
    if chosen.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        "executions",
        "%",
        limits_title(view),
        "load",
        "distinct",
        "values",
        "source",
        "module",
    ]);
    for entry in chosen {
        text::value_row(&mut table, view, entry, total, false);
    }
    table.write(out, style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::Place;

    fn written(profile: &Profile, focus: Focus) -> String {
        let mut text = Vec::new();
        let profiles = (profile, &Others::default());
        write(&mut text, profiles, focus, LINES - 2).expect("memory");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn rows_are_shown_before_what_is_said_of_them() {
        let whole = [
            "# q",
            "#   a",
            "#   b",
            " titles",
            " 1",
            " 2",
            " 3",
            "# and 4 more",
        ];
        let of = |whole: &[&str], room| {
            let whole: Vec<String> = whole.iter().map(|&line| line.to_owned()).collect();
            shortened(&whole, room).join("|")
        };
        assert_eq!(of(&whole, 8), whole.join("|"));
        assert_eq!(of(&whole, 7), "# q|#   a|#   b| titles| 1| 2| 3");
        assert_eq!(of(&whole, 6), "# q|#   a|#   b| titles| 1| 2");
        assert_eq!(of(&whole, 5), "# q|#   a| titles| 1| 2");
        assert_eq!(of(&whole, 3), "# q| titles| 1");
        assert_eq!(of(&whole, 0), "");
        // What failed or was lost stays, also where it takes two lines.
        for fault in ["#   FAILED x", "#   9 sent,\n#   3 DROPPED"] {
            let whole = ["# q", "#   by", fault, " titles", " 1", " 2"];
            let room = 3 + fault.lines().count();
            assert_eq!(of(&whole, room), format!("# q|{fault}| titles| 1"));
        }
        assert_eq!(of(&["# a", "# b"], 1), "# a");
    }

    /// A line of facts that is wider than the terminal takes several lines, and what is left out is not counted: the report
    /// has other rows.
    #[test]
    fn numbers_of_losses_are_never_cut() {
        let text = "for opSTORE * always collect pc op1 op2; send 1 or drop stop;";
        let program = trommel_query::assemble(text).expect("a query").program;
        let acted = trommel_profile::queries::Acted {
            sent: 123_456_789_012,
            dropped: 234_567_890_123,
            ..Default::default()
        };
        let messages = (0..9).map(|n| {
            let sent = trommel_profile::queries::Sent {
                words: vec![n, n, n],
                queue: 1,
                at: 0,
            };
            (sent, trommel_profile::queries::Count::default())
        });
        let profile = Profile {
            queries: vec![trommel_profile::queries::Queries {
                program: trommel_query::image::encode(&program),
                done: vec![acted],
                messages: messages.collect(),
                ..Default::default()
            }],
            ..Profile::default()
        };
        for columns in [40, 60, 80] {
            let mut text = Vec::new();
            let style = Style {
                width: columns,
                ..Style::new(false)
            };
            let (files, lines) = (Files::new(), LINES - 3);
            let mut view = View::new(
                &profile,
                load::symbols(&files, &profile),
                Confidence::new(&profile),
            );
            let mut room = Room {
                out: &mut text,
                lines,
                style,
            };
            table(&mut room, &mut view, Focus::Messages).expect("memory");
            let text = String::from_utf8(text).expect("UTF-8");
            assert!(text.lines().count() <= lines, "{text}");
            assert!(text.lines().all(|line| line.width() <= columns), "{text}");
            let words = text.replace("\n#", " ");
            let words: Vec<&str> = words.split_whitespace().collect();
            let words = words.join(" ");
            assert!(
                words.contains("123 456 789 012 sent, 234 567 890 123 DROPPED"),
                "{text}"
            );
            assert!(
                text.ends_with(
                    "# … more in the report
"
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn steady_loads_are_shown_and_others_are_not() {
        let counts = [
            (Place::from_word(0x10), vec![(7, 950), (8, 50)]),
            (Place::from_word(0x18), vec![(7, 1_000)]),
            (Place::from_word(0x28), vec![(1, 50_000), (2, 50_000)]),
            (Place::from_word(0x30), vec![(3, 10)]),
            (Place::from_word(0x20), vec![(1, 50), (2, 50)]),
        ];
        let values = KindProfile {
            seen: 200,
            messages: 200,
            counts: counts.into(),
        };
        let profile = Profile {
            kinds: [(Kind::Value, values), (Kind::Edge, KindProfile::default())].into(),
            ..Profile::default()
        };
        let text = written(&profile, Focus::Values);
        assert!(
            text.contains("[anon]+0x10") && text.contains(" 7 95.0%"),
            "{text}"
        );
        assert!(
            !text.contains("0x20") && text.contains("nothing lost"),
            "{text}"
        );
        assert!(text.contains("no edge events"), "{text}");
    }

    /// Each sort of loss is said, and by itself: a message that was dropped is no event.
    #[test]
    fn what_was_lost_is_said_of_each_sort() {
        let text = "for opSTORE * always collect pc; send 1 or drop stop;";
        let program = trommel_query::assemble(text).expect("a query").program;
        let asked = |dropped| trommel_profile::queries::Queries {
            program: trommel_query::image::encode(&program),
            done: vec![trommel_profile::queries::Acted {
                sent: 9,
                dropped,
                ..Default::default()
            }],
            ..Default::default()
        };
        for (events, dropped, said) in [
            (0, 0, "9 messages of 1 query in 0 µs, nothing lost"),
            (0, 7, "in 0 µs, 7 MESSAGES DROPPED\n"),
            (5, 0, "in 0 µs, 5 EVENTS LOST\n"),
            (5, 7, "in 0 µs, 5 EVENTS LOST, 7 MESSAGES DROPPED\n"),
        ] {
            let mut profile = Profile {
                queries: vec![asked(dropped)],
                ..Profile::default()
            };
            profile.run.dropped = events;
            let text = written(&profile, Focus::Messages);
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    /// No event of a kind is not the same as events of which none was sampled, or is a candidate.
    #[test]
    fn kinds_without_counts_are_said_with_the_reason() {
        let of = |seen| KindProfile {
            seen,
            ..KindProfile::default()
        };
        for (compressor, said) in [
            ("P257", "call: none of 881 events was sampled"),
            ("M4[1k,1%]512", "no interval of 1 000 events has ended"),
        ] {
            let profile = Profile {
                compressor: compressor.into(),
                kinds: [(Kind::Edge, of(0)), (Kind::Call, of(881))].into(),
                ..Profile::default()
            };
            let text = written(&profile, Focus::Kind(Kind::Call));
            assert!(text.contains("no edge events"), "{text}");
            assert!(text.contains(said), "{text}");
            assert!(!text.contains("no edge, call"), "{text}");
        }
        let compressor = "M4[1k,1%]512".to_owned();
        let profile = Profile {
            compressor,
            ..Profile::default()
        };
        assert_eq!(
            text::none_of(&profile, 7),
            "none of 7 events is a candidate"
        );
        assert_eq!(text::none_of(&profile, 0), "none");
    }

    /// Notes take room from the table, and what has no room is counted.
    #[test]
    fn notes_and_a_table_share_the_lines() {
        let counts = (1..40).map(|n| (Place::from_word(8 * n), vec![(7, 1_000)]));
        let values = KindProfile {
            seen: 200,
            messages: 200,
            counts: counts.collect(),
        };
        let mut profile = Profile {
            kinds: [(Kind::Value, values)].into(),
            ..Profile::default()
        };
        for notes in 0..20 {
            let text = written(&profile, Focus::Values);
            assert!(text.lines().count() <= LINES - 2, "{text}");
            assert!(text.matches("[anon]").count() >= 2, "{text}");
            assert_eq!(text.contains(" more note"), notes > 3, "{notes}: {text}");
            profile.run.detach.push(format!("reason {notes}"));
        }
    }
}
