//! One screen, as lines: facts, tabs, a table, news and keys. No line is wider than it may be.

use trommel_profile::windows::Windows;

use super::history::{History, Sum};
use super::intervals::Intervals;
use super::state::{Shown, State};
use super::tables::{self, Lines};
use crate::output::{duration, grouped, printable};
use crate::report::table::ended;

/// The look of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    Plain,
    Strong,
    /// Titles of a table.
    Head,
    /// The chosen row.
    Chosen,
}

/// A screen.
pub(super) struct Screen {
    pub(super) lines: Vec<(Look, String)>,
    /// Rows of the table, on the screen or not.
    pub(super) rows: usize,
    /// Rows that there is room for.
    pub(super) page: usize,
}

/// Lines that are no rows.
const FRAME: usize = 6;
const KEYS: &str =
    " q quit  arrows move  f b c v p table  s sort  t recent/all  space pause  h help";
const KEYS_OF_INTERVALS: &str =
    " q quit  arrows move  s sort  t recent/all threads  space pause  h help";
const HELP_OF_INTERVALS: [&str; 7] = [
    " q, Esc         quit; detaches from the process",
    " arrows, j, k   move; PgUp, PgDn, Home and End too",
    " s              sort by another column",
    " t              threads whose interval ended in the last 10 moments, or all",
    " space          pause",
    " Candidates are what was frequent in the last interval that has ended: those",
    " branches, calls or values that are above the threshold of the profiler.",
];
const HELP: [&str; 11] = [
    " q, Esc         quit; detaches from the process",
    " arrows, j, k   move; PgUp, PgDn, Home and End too",
    " f              functions: what they executed, and calls",
    " b              branches, with where they went",
    " c              calls",
    " v              loads, with the values that they loaded most",
    " p              processes, with --all",
    " Tab            next table",
    " s              sort by another column",
    " t              counts of the last 10 moments, or of the whole time",
    " space          pause",
];

/// Returns the screen of so many columns and lines.
pub(super) fn screen(state: &State, history: &History, (width, height): (usize, usize)) -> Screen {
    let sum = history.sum(state.whole);
    let page = height.saturating_sub(FRAME).max(1);
    let mut lines = vec![
        (Look::Strong, title(history)),
        (Look::Plain, facts(state, history, &sum)),
        (Look::Plain, tabs(state)),
    ];
    let table = (state.shown, state.order());
    let Lines { head, rows } = tables::lines(history, &sum, state, table, width);
    let number = rows.len();
    if state.help {
        let help: &[&str] = match state.shown {
            Shown::Candidates => &HELP_OF_INTERVALS,
            _ => &HELP,
        };
        lines.extend(help.iter().map(|text| (Look::Plain, (*text).to_owned())));
    } else {
        lines.push((Look::Head, head));
        let chosen = state.chosen.min(number.saturating_sub(1));
        let first = (chosen + 1).saturating_sub(page);
        for (n, row) in rows.into_iter().enumerate().skip(first).take(page) {
            lines.push(match n == chosen {
                true => (Look::Chosen, row.replacen(' ', ">", 1)),
                false => (Look::Plain, row),
            });
        }
        if number == 0 {
            lines.push((Look::Plain, nothing(state, history)));
        }
    }
    lines.truncate(height.saturating_sub(2));
    lines.resize(height.saturating_sub(2), (Look::Plain, String::new()));
    let news = history.news.front();
    lines.push((
        Look::Strong,
        news.map_or_else(String::new, |n| format!(" {n}")),
    ));
    let keys = match state.shown {
        Shown::Candidates => KEYS_OF_INTERVALS,
        _ => KEYS,
    };
    lines.push((Look::Plain, keys.to_owned()));
    for (_, text) in &mut lines {
        *text = ended(printable(text).trim_end(), width);
    }
    lines.truncate(height);
    Screen {
        lines,
        rows: number,
        page,
    }
}

fn title(history: &History) -> String {
    match history.last() {
        Some(last) => format!(" trommel top: {}", last.command),
        None => " trommel top: waiting for the first counts".to_owned(),
    }
}

/// The line of what is known of the run, and of the cost.
pub(super) fn facts(state: &State, history: &History, sum: &Sum) -> String {
    let Some(last) = history.last() else {
        return String::new();
    };
    let cpu = 100.0 * last.cpu_ns as f64 / last.wall_ns.max(1) as f64;
    let mode = match (state.ended, state.paused) {
        (true, _) => "  ended",
        (false, true) => "  paused",
        (false, false) => "",
    };
    if let Some(intervals) = &last.intervals {
        return format!(" cpu {cpu:.0}%  {}{mode}", of_intervals(history, intervals));
    }
    let what = match sum.is_time {
        true => "samples",
        false => "windows",
    };
    let threads = match last.threads {
        0 => String::new(),
        n => format!("  threads {}", grouped(n)),
    };
    let cost = match sum.is_time || sum.cpu_ns >= Windows::TELLING {
        true => format!("{:.2}% of", sum.cost()),
        false => "not known yet,".to_owned(),
    };
    format!(
        " cpu {cpu:.0}%{threads}  cost {cost} {}%  {} {what} in {}{mode}",
        last.budget_percent.unwrap_or(0.0),
        grouped(sum.samples),
        duration(sum.wall_ns),
    )
}

/// Words about the interval that has ended last.
fn of_intervals(history: &History, intervals: &Intervals) -> String {
    let latest = history.latest(false);
    let Some((last, age)) = latest.first() else {
        return format!("{}: no interval has ended yet", intervals.compressor);
    };
    let thread = match last.thread.filter(|_| intervals.latest.len() > 1) {
        None => String::new(),
        Some(thread) => format!(" of thread {thread}"),
    };
    format!(
        "interval {}{thread} ended {}  {} events",
        grouped(last.interval),
        tables::ago(*age),
        grouped(last.events),
    )
}

fn tabs(state: &State) -> String {
    let mut text = String::new();
    for &shown in state.tables() {
        let name = shown.name();
        text.push_str(&match shown == state.shown {
            true => format!(" [{name}]"),
            false => format!("  {name} "),
        });
    }
    format!("{text}  by {}", state.order())
}

pub(super) fn nothing(state: &State, history: &History) -> String {
    let time = history.last().is_some_and(|last| last.unit == "ns");
    match (state.shown, history.last()) {
        (_, None) => " no counts yet".to_owned(),
        (Shown::Candidates, Some(last)) => {
            let none = last.intervals.as_ref().is_none_or(|i| i.latest.is_empty());
            match none {
                true => " no interval has ended yet".to_owned(),
                false => " no event was frequent enough to be a candidate".to_owned(),
            }
        }
        (Shown::Processes, _) if !time => " one process is watched; --all shows all".to_owned(),
        (Shown::Branches | Shown::Calls | Shown::Values, _) if time => {
            " samples of the machine tell times only; -p PID shows this of a process".to_owned()
        }
        _ => " none seen".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::intervals::{CandidateRow, IntervalRow};
    use super::super::snapshot::{FunctionRow, Snapshot, TransferRow, ValueRow, Valued};
    use super::super::state::Action;
    use super::*;
    use unicode_width::UnicodeWidthStr;

    const LONG: &str = "namespace_of_some_length::Type<with, arguments>::function_of_some_length";

    fn history() -> History {
        let mut history = History::default();
        let functions = (0..50).map(|n| FunctionRow {
            name: format!("{LONG}_{n}"),
            module: "libsomething.so.6.0.33".to_owned(),
            own: 1e9 / f64::from(n + 1),
            calls: f64::from(n),
        });
        history.add(Snapshot {
            unit: "instructions".to_owned(),
            command: format!("./app {LONG} {LONG}"),
            wall_ns: 1_000_000_000,
            cpu_ns: 1_980_000_000,
            threads: 4,
            cost_percent: Some(0.9),
            budget_percent: Some(1.0),
            samples: Some(1234),
            total: Some(4.5e9),
            seen: [("edge".to_owned(), 1000)].into(),
            functions: functions.collect(),
            branches: vec![TransferRow {
                from: format!("{LONG}+0x123"),
                to: "+0x45".to_owned(),
                kind: "fallthrough".to_owned(),
                module: "app".to_owned(),
                count: 900,
            }],
            values: vec![ValueRow {
                at: format!("{LONG}+0x7"),
                module: "app".to_owned(),
                executions: 100,
                top: vec![Valued {
                    shown: "0x7ffc00001230 <a_variable_of_some_length>".to_owned(),
                    count: 93,
                }],
            }],
            news: vec![format!("not observed from here on: {LONG} {LONG}")],
            ..Snapshot::default()
        });
        history
    }

    #[test]
    fn every_table_fits_at_each_width_and_height() {
        let history = history();
        for shown in Shown::COUNTS {
            for width in [20, 80, 120, 200] {
                for height in [3, 8, 24, 50] {
                    let mut state = State::default();
                    state.act(Action::Show(shown), 0, 0);
                    let screen = screen(&state, &history, (width, height));
                    assert_eq!(screen.lines.len(), height);
                    for (_, line) in &screen.lines {
                        assert!(line.width() <= width, "{width}: {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn eighty_columns_hold_what_matters() {
        let (state, history) = (State::default(), history());
        let screen = screen(&state, &history, (80, 24));
        let text: Vec<&str> = screen.lines.iter().map(|(_, line)| &**line).collect();
        assert!(text[1].contains("cpu 198%") && text[1].contains("cost 0.90% of 1%"));
        assert!(text[2].contains("[functions]") && text[2].contains("processes"));
        assert!(text[3].contains("instructions") && text[4].contains("1 000 000 000  22.2%"));
        assert!(text[4].starts_with('>') && text[4].contains("function_of_some_length"));
        assert!(text[22].contains("not observed") && text[23].contains("q quit"));
        assert_eq!((screen.rows, screen.page), (50, 18));
    }

    fn candidate(at: String, count: u64) -> CandidateRow {
        CandidateRow {
            kind: "edge".to_owned(),
            at,
            to: Some("+0x45".to_owned()),
            value: None,
            function: Some("main".to_owned()),
            module: "libsomething.so.6.0.33".to_owned(),
            count,
            share: count as f64 / 10_000.0,
        }
    }

    fn of_profiler(latest: Vec<IntervalRow>) -> History {
        let mut history = History::default();
        history.add(Snapshot {
            command: "./app".to_owned(),
            wall_ns: 1_000_000_000,
            cpu_ns: 1_000_000_000,
            intervals: Some(Intervals {
                compressor: "M4[10k,1%]2048:C1R0P1".to_owned(),
                ended: 1234,
                latest,
            }),
            ..Snapshot::default()
        });
        history
    }

    fn interval(thread: Option<u32>, ended_ns_ago: u64, counts: &[u64]) -> IntervalRow {
        let candidates = counts.iter().enumerate();
        IntervalRow {
            thread,
            interval: 1234,
            start: 12_330_000,
            events: 10_000,
            ended_ns_ago,
            candidates_found: counts.len() as u64,
            candidates: candidates
                .map(|(n, count)| candidate(format!("{LONG}_{n}+0x12"), *count))
                .collect(),
        }
    }

    fn text_of(history: &History, state: &State) -> Vec<String> {
        let screen = screen(state, history, (80, 24));
        let lines: Vec<String> = screen.lines.into_iter().map(|(_, line)| line).collect();
        assert!(lines.iter().all(|line| line.width() <= 80), "{lines:?}");
        lines
    }

    #[test]
    fn candidates_of_the_last_interval_fit_into_eighty_columns() {
        let history = of_profiler(vec![interval(Some(1), 3_000_000_000, &[6000, 2000])]);
        let text = text_of(&history, &State::new(true));
        let facts = "interval 1 234 ended 3.0";
        assert!(text[1].contains(facts) && text[1].contains("10 000 events"));
        assert!(text[2].contains("[candidates]") && !text[2].contains("functions"));
        assert!(text[4].contains("6 000  60.0%") && text[4].contains("function_of_some_length"));
        assert!(!text[3].contains("thread") && text[5].contains("20.0%"));
        assert!(text[23].contains("q quit"));
    }

    /// A thread that did something long ago is not hot now.
    #[test]
    fn threads_whose_interval_ended_long_ago_are_shown_on_demand() {
        let history = of_profiler(vec![
            interval(Some(2), 1_000, &[6000]),
            interval(Some(3), 500_000_000, &[7000]),
            interval(Some(1), 60_000_000_000, &[9000]),
        ]);
        let mut state = State::new(true);
        let text = text_of(&history, &state);
        assert!(text[1].contains("interval 1 234 of thread 2 ended"));
        assert!(text[3].contains("thread") && text[3].contains("ended"));
        assert!(text[4].contains("70.0%") && text[5].contains("60.0%") && text[6].is_empty());
        state.act(Action::Whole, 0, 0);
        assert!(text_of(&history, &state)[4].contains("90.0%"));
    }

    #[test]
    fn that_no_interval_has_ended_is_said() {
        let none = text_of(&of_profiler(Vec::new()), &State::new(true));
        assert!(none[1].contains("M4[10k,1%]2048:C1R0P1: no interval has ended yet"));
        assert!(none[4].contains("no interval has ended yet"));
        let empty = of_profiler(vec![interval(None, 1_000, &[])]);
        let empty = text_of(&empty, &State::new(true));
        assert!(empty[1].contains("interval 1 234 ended"));
        assert!(empty[4].contains("no event was frequent"));
    }

    #[test]
    fn the_chosen_row_is_on_the_screen() {
        let history = history();
        let mut state = State::default();
        for (action, expected) in [
            (Action::Last, "_49"),
            (Action::Up, "_48"),
            (Action::First, "_0"),
        ] {
            state.act(action, 50, 18);
            let screen = screen(&state, &history, (200, 24));
            let chosen: Vec<_> = (screen.lines.iter())
                .filter(|(look, _)| *look == Look::Chosen)
                .collect();
            assert_eq!(chosen.len(), 1);
            assert!(
                chosen[0].1.contains(&format!("{expected} ")),
                "{}",
                chosen[0].1
            );
        }
    }

    #[test]
    fn names_do_not_reach_the_terminal_as_commands() {
        let mut history = History::default();
        history.add(Snapshot::said("a\x1b[2Jb".to_owned()));
        let screen = screen(&State::default(), &history, (80, 10));
        assert!(screen.lines.iter().all(|(_, line)| !line.contains('\x1b')));
    }
}
