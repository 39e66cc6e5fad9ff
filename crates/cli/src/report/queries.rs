//! Results of relational queries, as text. [`json()`] has them for programs.

mod json;
mod messages;
mod notes;
mod services;

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::limits::LEVEL;
use trommel_profile::queries::{Count, Queries, Sent, Windowed};
use trommel_query::class::Subject;
use trommel_query::disassemble::{clause, rule};
use trommel_query::program::Query;
use trommel_query::tag::Where;
use trommel_query::{Program, Rate, Sampling, image};

use super::table::{Shape, Style, columns, range};
use super::view::View;
use crate::output::{grouped, printable};
use crate::query::forecast;

pub(crate) use json::json;
pub(super) use messages::number;
use messages::{limits, limits_of, messages};
use notes::faults_of_messages;
pub(crate) use notes::notes;
pub(super) use services::fields_of;
use services::service;

/// A query, and what it came to.
struct Answer<'p> {
    query: Query,
    /// Executions of its instructions, records made, and those that were not filtered out.
    seen: [u64; 3],
    /// Messages sent, those of them that the program served itself, and those dropped; records counted; interrupts.
    done: [u64; 5],
    /// Most frequent first.
    messages: Vec<(&'p Sent, Count)>,
}

fn answers<'p>(program: &Program, known: &'p Queries) -> Vec<Answer<'p>> {
    let all = program.queries().into_iter();
    let answer = |query: Query| {
        let mut seen = [0_u64; 3];
        for entry in query.entries.iter() {
            if let Some(of) = known.seen.get(&(entry.number() as u8)) {
                for (sum, n) in seen.iter_mut().zip([of.executed, of.profiled, of.acted]) {
                    *sum = sum.saturating_add(n);
                }
            }
        }
        let mut done = [0_u64; 5];
        for of in known
            .done
            .iter()
            .skip(query.code.start)
            .take(query.code.len())
        {
            let numbers = [of.sent, of.served, of.dropped, of.counted, of.interrupted];
            for (sum, n) in done.iter_mut().zip(numbers) {
                *sum = sum.saturating_add(n);
            }
        }
        let own = |told: &Sent| query.code.contains(&usize::from(told.at));
        let messages = known.messages.iter().filter(|(told, _)| own(told));
        let mut messages: Vec<(&Sent, Count)> = messages.map(|(told, n)| (told, *n)).collect();
        messages.sort_by_key(|(told, n)| (Reverse((n.executions, n.messages)), *told));
        Answer {
            query,
            seen,
            done,
            messages,
        }
    };
    all.map(answer).collect()
}

/// Results of all queries of all loads.
fn of_all(profile: &Profile) -> impl Iterator<Item = (&Queries, Answer<'_>)> {
    profile.queries.iter().flat_map(|queries| {
        let program = image::decode(&queries.program).ok();
        let answers = program.map_or(Vec::new(), |program| answers(&program, queries));
        answers.into_iter().map(move |answer| (queries, answer))
    })
}

/// The rules of the tags that a query selects. A rule that is of addresses in a module has their name and source line too.
fn tagged(view: &mut View<'_>, program: &Program, query: &Query) -> Vec<(String, Option<String>)> {
    let tags = query
        .entries
        .iter()
        .filter_map(|entry| match entry.subject() {
            Subject::Class(class) => Some(class.tag()),
            Subject::Event(_) => None,
        });
    let tags: Vec<u8> = tags.collect();
    // Without a rule an instruction has tag 0: so these are no part of the program by themselves.
    if tags.contains(&0) {
        return Vec::new();
    }
    let selected = program.tags().iter();
    let selected = selected.filter(|rule| tags.contains(&rule.tag));
    let named = selected.map(|of| (printable(&rule(of)), name_of(view, &of.place)));
    named.collect()
}

/// The name and the source line of the first of some addresses.
fn name_of(view: &mut View<'_>, place: &Where) -> Option<String> {
    let Where::Range { from, module, .. } = place else {
        return None;
    };
    let at = view.place_in(module.as_deref(), *from)?;
    let source = match view.source(at) {
        line if line.is_empty() => line,
        line => format!(" ({line})"),
    };
    Some(printable(&(view.name(at) + &source)))
}

/// Writes a table for each query of each load, with `top` messages.
pub(crate) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let profile = view.profile;
    let many = profile.queries.len() > 1;
    for queries in &profile.queries {
        if many {
            let title = format!("queries of {}", printable(&queries.name));
            writeln!(out, "# {}", style.strong(&title))?;
        }
        load(out, view, queries, top, style)?;
    }
    Ok(())
}

/// Writes a summary: of one query all, of several a line each, those that did most first.
pub(crate) fn summary(
    out: &mut impl Write,
    view: &mut View<'_>,
    top: usize,
    style: Style,
) -> io::Result<()> {
    let profile = view.profile;
    let mut all: Vec<(&Queries, Answer<'_>)> = of_all(profile).collect();
    if all.len() < 2 {
        return write(out, view, top, style);
    }
    all.sort_by_key(|(_, answer)| Reverse(answer.seen[1]));
    let numbers = ["executed", "profiled", "sent", "counted"];
    let loaded = (profile.queries.len() > 1).then_some("load");
    let titles = numbers.into_iter().chain(loaded).chain(["query"]);
    let mut rows: Vec<Vec<String>> = vec![titles.map(str::to_owned).collect()];
    let more = all.len().saturating_sub(top);
    for (queries, answer) in all.iter().take(top) {
        let [executed, profiled, _] = answer.seen;
        let [sent, _, _, counted, _] = answer.done;
        let numbers = [executed, profiled, sent, counted].map(grouped).into_iter();
        let load = loaded.map(|_| printable(&queries.name));
        let mut query = printable(&answer.query.header());
        let of = image::decode(&queries.program).ok();
        let tagged = of.map_or(Vec::new(), |program| tagged(view, &program, &answer.query));
        if let Some((_, Some(place))) = tagged.first() {
            query = format!("{place}: {query}");
        }
        rows.push(numbers.chain(load).chain([query]).collect());
    }
    let shape = Shape {
        numbers: numbers.len(),
        together: 1,
    };
    columns(out, &rows, shape, style)?;
    match more {
        0 => Ok(()),
        n => writeln!(out, "# and {} more queries", grouped(n as u64)),
    }
}

/// Returns true if a query is sampled.
pub(crate) fn is_sampled(profile: &Profile) -> bool {
    of_all(profile).any(|(_, answer)| answer.query.sampling != Sampling::ALWAYS)
}

/// Messages of all queries, those that they counted, and the number of queries; `None` if there are none.
pub(crate) fn totals(profile: &Profile) -> Option<(u64, u64, usize)> {
    let (mut sent, mut counted, mut count) = (0_u64, 0_u64, 0);
    for (_, answer) in of_all(profile) {
        sent = sent.saturating_add(answer.done[0]);
        counted = counted.saturating_add(answer.done[3]);
        count += 1;
    }
    (count > 0).then_some((sent, counted, count))
}

/// Returns the sentence about queries that took far more than their budget, if any did. `common`: the budget of all together.
pub(crate) fn over_budget(profile: &Profile, common: Option<f64>) -> Option<String> {
    profile.queries.iter().find_map(|of| {
        let queries = image::decode(&of.program).ok()?.queries();
        let starts = queries.iter().map(|query| query.code.start as u8);
        let paid = starts.filter_map(|start| of.paid.get(&start)?.percent());
        forecast::after(paid.sum(), &queries, common)
    })
}

/// Messages of all queries that found no room.
pub(super) fn dropped(profile: &Profile) -> u64 {
    let dropped = of_all(profile).map(|(_, answer)| answer.done[2]);
    dropped.fold(0, u64::saturating_add)
}

/// Returns when a query was active, in seconds from the start of the run, unless that is the whole run.
fn active(queries: &Queries, answer: &Answer<'_>) -> Option<String> {
    const SECOND: f64 = 1e9;
    let active = queries.active(answer.query.code.start)?;
    let from = active.from as f64 / SECOND;
    Some(match active.until {
        Some(until) => format!("{from:.3} s to {:.3} s", until as f64 / SECOND),
        None => format!("{from:.3} s to the end"),
    })
}

fn load(
    out: &mut impl Write,
    view: &mut View<'_>,
    queries: &Queries,
    top: usize,
    style: Style,
) -> io::Result<()> {
    if queries.program.is_empty() {
        // Services of intervals alone.
        let mut services = queries.services.iter();
        return services
            .try_for_each(|served| service(out, view, (served, "intervals"), top, style));
    }
    let Ok(program) = image::decode(&queries.program) else {
        return writeln!(out, "# queries: their program cannot be read");
    };
    for answer in answers(&program, queries) {
        let [executed, profiled, acted] = answer.seen.map(grouped);
        let filtered = grouped(answer.seen[1].saturating_sub(answer.seen[2]));
        let [sent, served, dropped, counted, interrupts] = answer.done;
        writeln!(
            out,
            "# {}",
            style.strong(&printable(&answer.query.header()))
        )?;
        for (rule, place) in tagged(view, &program, &answer.query) {
            match place {
                Some(place) => writeln!(out, "#   {rule}: {place}")?,
                None => writeln!(out, "#   {rule}")?,
            }
        }
        let windowed = queries.windowed.as_ref();
        let up_to = match answer.query.sampling {
            _ if windowed.is_some() => " in windows",
            Sampling::ALWAYS => "",
            _ => " up to the last profiled",
        };
        let what = match answer.query.pair {
            None => "profiled",
            Some(_) => "pairs profiled",
        };
        write!(
            out,
            "#   {executed} executed{up_to}, {profiled} {what}, {filtered} filtered out, {acted} acted on: {} sent",
            grouped(sent)
        )?;
        if served > 0 {
            write!(out, ", {} of them to the program itself", grouped(served))?;
        }
        if dropped > 0 {
            write!(out, ", {} DROPPED", grouped(dropped))?;
        }
        match interrupts {
            0 => {}
            1 => write!(out, "; 1 interrupt")?,
            n => write!(out, "; {} interrupts", grouped(n))?,
        }
        writeln!(out)?;
        match windowed {
            Some(windowed) => in_windows(out, &answer.query, windowed)?,
            None => sampled(out, &answer.query)?,
        }
        let start = answer.query.code.start as u8;
        if let Some(part) = queries.paid.get(&start).and_then(|paid| paid.percent()) {
            writeln!(
                out,
                "#   records and countdowns took {part:.2} % of the time of its threads"
            )?;
        }
        if let Some(active) = active(queries, &answer) {
            writeln!(out, "#   active from {active}")?;
        }
        if counted > 0 {
            let counts = answer
                .query
                .code
                .clone()
                .zip(&queries.done[answer.query.code.start..]);
            for (at, done) in counts.filter(|(_, done)| done.counted > 0) {
                let text = clause(&program.code()[at], answer.query.layout());
                let stands_for = match windowed {
                    None if done.counted_for == done.counted => String::new(),
                    _ => {
                        let limits = match windowed {
                            Some(windowed) => windowed.counted.get(&(at as u8)).and_then(limits_of),
                            None => limits(answer.query.sampling, done.counted_for),
                        };
                        let limits = limits.map_or(String::new(), |l| format!(", {}", range(l)));
                        format!(
                            " (for some {} executions{limits})",
                            grouped(done.counted_for)
                        )
                    }
                };
                writeln!(
                    out,
                    "#   {} counted{stands_for} by {}",
                    grouped(done.counted),
                    printable(&text)
                )?;
            }
        }
        messages(out, view, queries, &answer, top, style)?;
    }
    for fault in faults_of_messages(&program, queries, &view.profile.modules) {
        writeln!(out, "# {}", printable(&fault))?;
    }
    for served in &queries.services {
        service(out, view, (served, "messages"), top, style)?;
    }
    Ok(())
}

/// Says what windows saw of the executions, and how many they stand for.
fn in_windows(out: &mut impl Write, query: &Query, windowed: &Windowed) -> io::Result<()> {
    let rate = query.sampling.rate().unwrap_or(Rate::ALWAYS).one_in();
    let each = match rate {
        1 => "every execution there".to_owned(),
        n => format!("1 execution in {n} there"),
    };
    let level = 100.0 * LEVEL;
    writeln!(
        out,
        "#   sampled by windows, {each}; limits hold in {level:.0} of 100 rows of code that executes one instruction a cycle"
    )?;
    let executed = windowed.executed.get(&(query.code.start as u8));
    match executed.filter(|executed| executed.samples != 0) {
        Some(executed) => writeln!(
            out,
            "#   stands for some {} executions, {}: {:.0} for each that a window saw",
            grouped(executed.executions.round() as u64),
            range(executed.limits()),
            executed.executions / executed.samples as f64
        ),
        None => writeln!(
            out,
            "#   no window saw any: how many there were is not known"
        ),
    }
}

/// Says which executions were profiled, and what is known of the numbers of others.
fn sampled(out: &mut impl Write, query: &Query) -> io::Result<()> {
    match query.sampling {
        Sampling::ALWAYS => Ok(()),
        Sampling::Every(rate) => {
            let each = match query.pair {
                None => format!("1 execution in {}", rate.one_in()),
                Some(within) => format!(
                    "1 execution in {}, each with another one at a random distance from 1 to {}",
                    rate.one_in(),
                    within.most()
                ),
            };
            let level = 100.0 * LEVEL;
            writeln!(
                out,
                "#   sampled {each}; limits hold in {level:.0} of 100 rows, assuming that executions do not keep step with that"
            )
        }
        Sampling::Auto(_) => writeln!(
            out,
            "#   sampled at rates that changed: \"stand for\" is an unbiased estimate, and its limits are not known"
        ),
    }
}
