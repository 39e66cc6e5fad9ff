//! Results of relational queries, as text. [`json()`] has them for programs.

mod json;

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_compress::Spec;
use trommel_profile::confidence::Confidence;
use trommel_profile::intervals::Intervals;
use trommel_profile::limits::{LEVEL, Limits};
use trommel_profile::queries::{Count, Queries, Sent, Served, Windowed};
use trommel_profile::sampled::Sampled;
use trommel_profile::{Module, Profile};
use trommel_query::class::Subject;
use trommel_query::disassemble::{clause, rule};
use trommel_query::pair::Word;
use trommel_query::program::Query;
use trommel_query::tag::{Rule, Where};
use trommel_query::{Field, Program, Rate, Sampling, image};
use trommel_tuple::{Place, Tuple};

use super::table::{LIMITS, SECOND_SOURCE, SOURCE, Shape, Style, columns, range};
use super::view::View;
use crate::output::{grouped, number_of, percent, printable};
use crate::query::forecast;

pub(crate) use json::json;

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

/// Sentences about what went wrong with queries and their services, and then what each service was given, with the compressor of the run.
pub(crate) fn notes(queries: &Queries, profile: &Profile) -> Vec<String> {
    let compressor = &*profile.compressor;
    let mut all = Vec::new();
    for served in &queries.services {
        let faults = faults_of_service(served).into_iter();
        let of = title(compressor, served);
        all.extend(faults.map(|fault| format!("{of} {fault}")));
    }
    if let Ok(program) = image::decode(&queries.program) {
        for answer in answers(&program, queries) {
            let [_, _, dropped, ..] = answer.done;
            if dropped > 0 {
                let (dropped, query) = (grouped(dropped), answer.query.header());
                all.push(format!("{dropped} messages DROPPED of: {query}"));
            }
        }
        all.extend(faults_of_messages(&program, queries, &profile.modules));
    }
    let given = queries.services.iter().map(|served| {
        let given = match queries.program.is_empty() {
            true => number_of(served.messages, "interval"),
            false => number_of(served.messages, "message"),
        };
        let rows = number_of(served.rows.len() as u64, "row");
        let of = title(compressor, served);
        let ended = match &served.intervals {
            Some(intervals) => format!(", {}", number_of(intervals.ended(), "interval")),
            None => String::new(),
        };
        format!("{of}: {given}{ended}, {rows}")
    });
    all.extend(given);
    all
}

/// Messages that are not shown, and rules for tags that no code was met of.
fn faults_of_messages(program: &Program, queries: &Queries, modules: &[Module]) -> Vec<String> {
    let hidden = (queries.untabulated > 0).then(|| {
        let n = grouped(queries.untabulated);
        format!("{n} MESSAGES ARE NOT SHOWN: too many different ones; collect fewer fields, or use --messages")
    });
    let unmet = rules_unmet(program, queries);
    let unmet = unmet.map(|of| {
        let met = match of.place {
            Where::Module(_)
            | Where::Range {
                module: Some(_), ..
            } => met(modules),
            Where::Symbol(_) | Where::Range { module: None, .. } => String::new(),
        };
        format!("no code was met of: {}{met}", rule(of))
    });
    hidden.into_iter().chain(unmet).collect()
}

/// The names of modules that were met.
fn met(modules: &[Module]) -> String {
    const SHOWN: usize = 12;
    let names = modules
        .iter()
        .filter(|module| module.path.starts_with(b"/"));
    let names: Vec<_> = names
        .filter_map(|module| module.path.rsplit(|byte| *byte == b'/').next())
        .map(String::from_utf8_lossy)
        .collect();
    let more = match names.len() > SHOWN {
        true => ", …",
        false => "",
    };
    let shown = names[..names.len().min(SHOWN)].join(", ");
    format!("; modules met: {shown}{more}")
}

/// Failures of a service, and rows that it could not keep.
fn faults_of_service(served: &Served) -> Vec<String> {
    let failures = served.failures.iter().map(|why| format!("FAILED {why}"));
    let lost = (served.lost > 0).then(|| {
        let lost = grouped(served.lost);
        format!("ROWS WERE NOT KEPT, of a count of {lost}: there were too many")
    });
    failures.chain(lost).collect()
}

/// The limits of a number of executions that messages stand for; `None` where all were profiled, or nothing is known.
fn limits(sampling: Sampling, executions: u64) -> Option<Limits> {
    let rate = sampling.rate().filter(|rate| *rate != Rate::ALWAYS)?;
    let any = Tuple::new(Place::default(), 0);
    Confidence::of_rate(rate.one_in().into()).count(any, executions)
}

/// The limits of an estimate; `None` where no window has seen it.
fn limits_of(sampled: &Sampled) -> Option<Limits> {
    (sampled.samples != 0).then(|| sampled.limits())
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

/// Rows of a service, largest counts first.
fn sorted(served: &Served) -> Vec<(&Vec<u64>, u64)> {
    let mut rows: Vec<(&Vec<u64>, u64)> = served.rows.iter().map(|(row, n)| (row, *n)).collect();
    rows.sort_by_key(|(row, n)| (Reverse(*n), *row));
    rows
}

/// Returns true if a table is that of the run's own compressor: those of libraries have an `=` in their name, after the queue.
fn is_compressor(compressor: &str, served: &Served) -> bool {
    let after = served.name.strip_prefix(compressor);
    after.is_some_and(|rest| rest.starts_with(" of queue ") && !rest.contains('='))
}

/// Name of what was given messages, with its sort.
fn title(compressor: &str, served: &Served) -> String {
    let of = match is_compressor(compressor, served) {
        true => "compressor",
        false => "service",
    };
    format!("{of} {}", printable(&served.name))
}

fn service(
    out: &mut impl Write,
    view: &mut View<'_>,
    (served, what): (&Served, &str),
    top: usize,
    style: Style,
) -> io::Result<()> {
    let compressor = &view.profile.compressor;
    let title = title(compressor, served);
    let given = grouped(served.messages);
    writeln!(out, "# {}", style.strong(&title))?;
    let spec: Option<Spec> = compressor.parse().ok();
    let length = spec.as_ref().and_then(Spec::interval);
    let length = length.map(|interval| u64::from(interval.interval));
    let length = length.filter(|_| is_compressor(compressor, served));
    let all = served.rows.values().copied().fold(0, u64::saturating_add);
    // The tables of messages have parts of all messages.
    let of = match length.filter(|_| all > 0) {
        None => String::new(),
        Some(_) => format!(
            "; candidates stand for {:.1} % of them, and percents are parts of that",
            percent(all, served.messages)
        ),
    };
    match served.intervals.as_ref().map(Intervals::ended) {
        Some(ended) if ended > 0 => writeln!(
            out,
            "#   was given {given} {what}, in {} (--per-interval shows them){of}",
            number_of(ended, "interval")
        )?,
        _ => writeln!(out, "#   was given {given} {what}{of}")?,
    }
    for fault in faults_of_service(served) {
        writeln!(out, "#   {}", printable(&fault))?;
    }
    if served.rows.is_empty() {
        return match length {
            Some(length) if served.messages < length => {
                writeln!(
                    out,
                    "#   no interval of {} messages has ended",
                    grouped(length)
                )
            }
            Some(_) => writeln!(out, "#   no interval had a candidate"),
            None => Ok(()),
        };
    }
    let titles = ["count", "%"].map(str::to_owned);
    let own = served.columns.iter().map(|title| printable(title));
    let mut table: Vec<Vec<String>> = vec![titles.iter().cloned().chain(own).collect()];
    let fields = fields_of(compressor, served);
    for (row, count) in sorted(served).into_iter().take(top) {
        let first = [grouped(count), format!("{:.1}", percent(count, all))];
        let words = row.iter().enumerate();
        let words = words.map(|(n, word)| match served.places >> n & 1 {
            0 => number(fields.get(n).copied().flatten(), *word),
            _ => printable(&view.name(Place::from_word(*word))),
        });
        table.push(first.into_iter().chain(words).collect());
    }
    let shape = Shape {
        numbers: titles.len(),
        together: 1,
    };
    columns(out, &table, shape, style)?;
    match served.rows.len().saturating_sub(top) {
        0 => Ok(()),
        n => writeln!(out, "# and {} more rows", grouped(n as u64)),
    }
}

fn unmet(program: &Program, queries: &Queries) -> Vec<String> {
    rules_unmet(program, queries).map(rule).collect()
}

fn rules_unmet<'p>(program: &'p Program, queries: &Queries) -> impl Iterator<Item = &'p Rule> {
    let rules = queries.unmet.iter();
    rules.filter_map(|n| program.tags().get(usize::from(*n)))
}

fn messages(
    out: &mut impl Write,
    view: &mut View<'_>,
    queries: &Queries,
    answer: &Answer<'_>,
    top: usize,
    style: Style,
) -> io::Result<()> {
    if answer.messages.is_empty() {
        return Ok(());
    }
    let sum = |n: fn(&Count) -> u64| {
        let all = answer.messages.iter().map(|(_, count)| n(count));
        all.fold(0, u64::saturating_add)
    };
    let windowed = queries.windowed.as_ref();
    let limits = |told: &Sent, count: &Count| match windowed {
        Some(windowed) => windowed.sent.get(told).and_then(limits_of),
        None => limits(answer.query.sampling, count.executions),
    };
    // Where messages stand for executions, it is those that say how frequent each is.
    let sampled = answer.query.sampling != Sampling::ALWAYS || windowed.is_some();
    let all = sum(|count| count.executions);
    let titles = ["messages", "%", "queue"].map(str::to_owned).into_iter();
    let stands_for = sampled.then(|| "stand for".to_owned());
    let has_limits = (answer.messages.iter()).any(|(told, count)| limits(told, count).is_some());
    let stands_for = stands_for
        .into_iter()
        .chain(has_limits.then(|| LIMITS.to_owned()));
    let fields = answer.query.names().map(str::to_owned);
    let titles: Vec<String> = titles.chain(stands_for).collect();
    let numbers = titles.len();
    let mut rows: Vec<Vec<String>> = vec![titles.into_iter().chain(fields).collect()];
    for (told, count) in answer.messages.iter().take(top) {
        let first = [
            grouped(count.messages),
            format!("{:.1}", percent(count.executions, all)),
            told.queue.to_string(),
        ];
        let limits = limits(told, count);
        let stands_for = sampled.then(|| grouped(count.executions)).into_iter();
        // Where a message has limits, all have the column.
        let limits = has_limits.then(|| limits.map(range).unwrap_or_default());
        let stands_for = stands_for.chain(limits);
        let places = places(queries, told);
        let names = answer.query.layout().words();
        let words = told.words.iter().enumerate().zip(names);
        let words = words.map(|((n, word), name)| match places >> n & 1 {
            0 => number(Some(name), *word),
            _ => printable(&view.name(Place::from_word(*word))),
        });
        rows.push(first.into_iter().chain(stands_for).chain(words).collect());
    }
    sources(view, queries, answer, &mut rows);
    let shape = Shape {
        numbers,
        // The first's word and the second's.
        together: 1 + usize::from(answer.query.pair.is_some()),
    };
    columns(out, &rows, shape, style)?;
    let more = answer.messages.len().saturating_sub(top);
    match more {
        0 => Ok(()),
        n => writeln!(out, "# and {} more kinds of messages", grouped(n as u64)),
    }
}

/// A word that is no place: counts as such, parts of a rate apart, and addresses, operands and sets of bits in hexadecimal digits.
pub(super) fn number(word: Option<Word>, value: u64) -> String {
    match word {
        Some(Word::Distance) => grouped(value),
        Some(Word::Field(field) | Word::Second(field)) if field.is_count() => grouped(value),
        Some(Word::Field(field) | Word::Second(field)) if field.is_rate() => {
            let [instructions, reason] = [value & 0xffff, value >> 16 & 0xffff];
            format!("{instructions}/{reason}/{}", value >> 32)
        }
        _ => format!("{value:#x}"),
    }
}

/// Meaning of the columns of the run's own compressor. A library has titles of its own.
pub(super) fn fields_of(compressor: &str, served: &Served) -> Vec<Option<Word>> {
    let word = |title: &String| match is_compressor(compressor, served) {
        true => Word::from_name(title),
        false => None,
    };
    served.columns.iter().map(word).collect()
}

/// Adds source lines to the rows of a table of messages: those of their instruction, of a pair also of the second one.
fn sources(view: &mut View<'_>, queries: &Queries, answer: &Answer<'_>, rows: &mut [Vec<String>]) {
    for (of, title) in [
        (Word::Field(Field::Pc), SOURCE),
        (Word::Second(Field::Pc), SECOND_SOURCE),
    ] {
        let at = answer.query.layout().words().position(|word| word == of);
        let Some(at) = at else { continue };
        let found = answer
            .messages
            .iter()
            .take(rows.len() - 1)
            .map(|(told, _)| {
                let word = told
                    .words
                    .get(at)
                    .filter(|_| places(queries, told) >> at & 1 != 0);
                word.map_or_else(String::new, |word| view.source(Place::from_word(*word)))
            });
        let found: Vec<String> = found.collect();
        if found.iter().all(String::is_empty) {
            continue;
        }
        for (row, cell) in rows
            .iter_mut()
            .zip(std::iter::once(title.to_owned()).chain(found))
        {
            row.push(printable(&cell));
        }
    }
}

fn places(queries: &Queries, told: &Sent) -> u8 {
    let places = queries.places.get(usize::from(told.at));
    places.copied().unwrap_or(0)
}
