//! The queries that sessions are asked: loaded by name, removed by name or queue, and listed.

use std::sync::Arc;

use trommel_profile::queries::{Active, Queries};
use trommel_query::instruction::{Action, Queues};
use trommel_query::program::Query;
use trommel_query::{MAX_TEXT, Position, Program, Severity, assemble};
use trommel_queue::queries::LOADS;

use crate::ask::answerable::{check, check_in_windows};
use crate::channel::question::{Load, Question};

/// Loads of a session at most. Each has a place in the report.
const MOST: usize = 4096;

/// Loads a program. Returns what is to be said.
///
/// # Errors
/// Why it cannot be loaded.
pub(crate) fn load(
    question: &Question,
    name: String,
    program: Arc<Program>,
) -> Result<String, String> {
    if question.is_by_window() {
        check_in_windows(&program).map_err(|why| why.to_string())?;
    }
    if program.queries().is_empty() {
        return Err("there is no query in it: it must have `for` clauses".to_owned());
    }
    let mut loads = question.loads();
    let mut wanted = loads.iter().filter(|load| load.is_wanted());
    if wanted.clone().any(|load| load.name == name) {
        return Err(format!(
            "{name} is loaded already: remove it first, or give another name by --name"
        ));
    }
    if wanted.by_ref().count() >= LOADS {
        return Err(format!(
            "{LOADS} files of queries are loaded, as many as there can be: remove one first, by `trommel query remove`"
        ));
    }
    if loads.len() >= MOST {
        return Err(format!(
            "{MOST} files of queries were loaded in this session, as many as there can be: record anew"
        ));
    }
    let id = loads.len() as u32 + 1;
    let done = format!("{name} is loaded.");
    loads.push(Load {
        id,
        name,
        program,
        off: 0,
    });
    Ok(done)
}

/// Loads the queries of a text.
///
/// # Errors
/// Why they cannot be: for an error of the text its line and column.
pub(crate) fn load_text(question: &Question, name: &[u8], text: &[u8]) -> Result<(), String> {
    let name = str::from_utf8(name).ok().filter(|name| is_name(name));
    let name = name.ok_or("a name is 1 to 64 of letters, digits and ._-, and not a number")?;
    let text = Some(text).filter(|text| text.len() <= MAX_TEXT);
    let text = text.and_then(|text| str::from_utf8(text).ok());
    let text = text.ok_or("the queries are no text, or too long")?;
    let assembly = assemble(text).map_err(|wrong| {
        match wrong.iter().find(|d| d.severity == Severity::Error) {
            Some(first) => {
                let at = Position::of(text, first.span.start);
                format!("{}:{}: {}", at.line, at.column, first.message)
            }
            None => "the queries cannot be read".to_owned(),
        }
    })?;
    check(&assembly.program).map_err(|why| why.to_string())?;
    load(question, name.to_owned(), Arc::new(assembly.program)).map(drop)
}

/// Removes queries by name or queue. Returns what is to be said.
///
/// # Errors
/// There are none of that name or queue.
pub(crate) fn remove(question: &Question, what: &str) -> Result<String, String> {
    let mut loads = question.loads();
    let queue = what.parse::<u8>().ok();
    let (name, number) = match what.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (what, None),
    };
    let mut removed = 0;
    for load in loads.iter_mut().filter(|load| load.is_wanted()) {
        let queries = load.program.queries();
        for (n, query) in queries.iter().enumerate() {
            let chosen = match queue {
                Some(queue) => queues(&load.program, query).any(|q| q.hold(queue)),
                None => load.name == name && number.is_none_or(|of| of.parse() == Ok(n + 1)),
            };
            if chosen && !query.entries.iter().all(|entry| load.is_off(entry)) {
                removed += 1;
                let entries = query.entries.iter();
                load.off |= entries.fold(0, |bits, entry| bits | 1 << entry.number());
            }
        }
    }
    match (removed, queue) {
        (0, Some(queue)) => Err(format!(
            "no query sends to queue {queue}: `trommel query list` shows the queues"
        )),
        (0, None) => Err(format!(
            "no query has the name {what}: `trommel query list` shows the names"
        )),
        (1, _) => Ok("1 query is removed.".to_owned()),
        (n, _) => Ok(format!("{n} queries are removed.")),
    }
}

/// Queues that a query sends to.
fn queues<'p>(program: &'p Program, query: &Query) -> impl Iterator<Item = Queues> + use<'p> {
    let code = &program.code()[query.code.clone()];
    code.iter().filter_map(|i| match i.action {
        Action::Send(queues) => Some(queues),
        _ => None,
    })
}

/// Lines of a list, one for each query that was not removed. `sum`: their counts so far; `now`: nanoseconds since the session began.
pub(crate) fn rows(load: &Load, sum: Option<&Queries>, now: u64) -> Vec<String> {
    let queries = load.program.queries().into_iter().enumerate();
    queries
        .filter(|(_, query)| !query.entries.iter().all(|entry| load.is_off(entry)))
        .map(|(n, query)| row(load, n, &query, sum, now))
        .collect()
}

/// A line: its parts with tabs between.
fn row(load: &Load, n: usize, query: &Query, sum: Option<&Queries>, now: u64) -> String {
    let header = query.header();
    let mut sends: Vec<u8> = queues(&load.program, query)
        .flat_map(|q| (0..q.count).map(move |n| q.first.saturating_add(n)))
        .collect();
    sends.sort_unstable();
    sends.dedup();
    let sends: Vec<String> = sends.iter().map(u8::to_string).collect();
    let mut numbers = [0_u64; 6];
    let mut active = 0;
    if let Some(sum) = sum {
        for entry in query.entries.iter() {
            let seen = sum.seen.get(&(entry.number() as u8)).copied();
            let seen = seen.unwrap_or_default();
            numbers[0] += seen.executed;
            numbers[1] += seen.profiled;
        }
        for done in &sum.done[query.code.clone()] {
            let more = [done.sent, done.dropped, done.counted, done.interrupted];
            for (number, more) in numbers[2..].iter_mut().zip(more) {
                *number += more;
            }
        }
        let code = |a: &&Active| usize::from(a.code) == query.code.start;
        let since = sum.active.iter().find(code);
        active = since.map_or(0, |active| now.saturating_sub(active.from));
    }
    let numbers = numbers.map(|number| number.to_string()).join("\t");
    format!(
        "{}:{}\t{header}\t{}\t{numbers}\t{active}",
        load.name,
        n + 1,
        sends.join(",")
    )
}

/// Returns true if a load may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    !is_number && !name.contains(':') && is_word(name)
}

/// Returns true if a request may have this word in it.
pub(crate) fn is_word(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    (1..=64).contains(&word.len()) && word.bytes().all(allowed)
}
