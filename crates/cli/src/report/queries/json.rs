//! Results of relational queries, as JSON.

use std::io::{self, Write};

use trommel_profile::queries::Queries;
use trommel_profile::sampled::Sampled;
use trommel_query::disassemble::clause;
use trommel_query::{Program, image};
use trommel_tuple::Place;

use super::super::place;
use super::super::view::View;
use super::messages::{limits, places};
use super::notes::unmet;
use super::services::sorted;
use super::{Answer, answers};
use crate::json::Json;

/// Writes the member `queries`, if any were put; `top` limits messages.
pub(crate) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    top: usize,
    mut place: impl FnMut(&mut Json<W>, &mut View<'_>, &str, Place) -> io::Result<()>,
) -> io::Result<()> {
    let profile = view.profile;
    if profile.queries.is_empty() {
        return Ok(());
    }
    let read = |queries: &Queries| image::decode(&queries.program).ok();
    json.member_array("queries")?;
    for queries in &profile.queries {
        let Some(program) = read(queries) else {
            continue;
        };
        for answer in answers(&program, queries) {
            one(json, view, (queries, &program), &answer, top, &mut place)?;
        }
    }
    json.end_array()?;
    let untold = profile.queries.iter().map(|queries| queries.untabulated);
    json.number(
        "messages_not_told_apart",
        untold.fold(0, u64::saturating_add),
    )?;
    let unmet =
        (profile.queries.iter()).filter_map(|queries| Some(unmet(&read(queries)?, queries)));
    json.texts("tags_without_code", unmet.flatten())?;
    json.member_array("services")?;
    let all = profile.queries.iter();
    let all = all.flat_map(|queries| queries.services.iter().map(move |served| (queries, served)));
    for (queries, served) in all {
        json.object()?;
        json.text("name", &served.name)?;
        match queries.program.is_empty() {
            true => {
                json.null("messages")?;
                json.number("intervals", served.messages)?;
            }
            false => json.number("messages", served.messages)?,
        }
        json.number("count_not_kept", served.lost)?;
        for (name, texts) in [("failures", &served.failures), ("columns", &served.columns)] {
            json.texts(name, texts)?;
        }
        json.member_array("rows")?;
        for (row, count) in sorted(served).into_iter().take(top) {
            json.object()?;
            json.number("count", count)?;
            for ((n, word), title) in row.iter().enumerate().zip(&served.columns) {
                match served.places >> n & 1 {
                    0 => json.number(title, *word)?,
                    _ => place(json, view, title, Place::from_word(*word))?,
                }
            }
            json.end_object()?;
        }
        json.end_array()?;
        json.end_object()?;
    }
    json.end_array()
}

/// An estimate from windows, with its limits and the draws that it is worth: null where no window saw any.
fn estimate<W: Write>(json: &mut Json<W>, name: &str, sampled: Option<&Sampled>) -> io::Result<()> {
    let sampled = sampled.filter(|sampled| sampled.samples != 0);
    let Some(sampled) = sampled else {
        for name in [name, "low", "high"] {
            json.null(name)?;
        }
        return json.real("draws", 0.0);
    };
    json.number(name, sampled.executions.round() as u64)?;
    place::limits(json, Some(sampled.limits()))?;
    json.real("draws", sampled.draws())
}

/// Writes what a query came to.
fn one<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    (queries, program): (&Queries, &Program),
    answer: &Answer<'_>,
    top: usize,
    mut place: impl FnMut(&mut Json<W>, &mut View<'_>, &str, Place) -> io::Result<()>,
) -> io::Result<()> {
    json.object()?;
    json.text("header", &answer.query.header())?;
    json.text("load", &queries.name)?;
    let active = queries.active(answer.query.code.start);
    json.number("active_from_ns", active.map_or(0, |active| active.from))?;
    match active.and_then(|active| active.until) {
        Some(until) => json.number("active_until_ns", until)?,
        None => json.null("active_until_ns")?,
    }
    json.texts("fields", answer.query.names())?;
    let [executed, profiled, acted] = answer.seen;
    let [sent, served, dropped, counted, interrupts] = answer.done;
    for (name, number) in [
        ("executed", executed),
        ("profiled", profiled),
        ("filtered", profiled.saturating_sub(acted)),
        ("sent", sent),
        ("served_by_program", served),
        ("dropped", dropped),
        ("counted", counted),
        ("interrupts", interrupts),
    ] {
        json.number(name, number)?;
    }
    let start = answer.query.code.start as u8;
    match queries.paid.get(&start).and_then(|paid| paid.percent()) {
        Some(part) => json.real("paid_percent", part)?,
        None => json.null("paid_percent")?,
    }
    let windowed = queries.windowed.as_ref();
    if let Some(windowed) = windowed {
        let executed = windowed.executed.get(&(answer.query.code.start as u8));
        json.member_object("windows")?;
        estimate(json, "executed", executed)?;
        json.end_object()?;
    } else {
        json.null("windows")?;
    }
    json.member_array("instructions")?;
    for at in answer.query.code.clone() {
        json.object()?;
        json.number("instruction", at as u64)?;
        json.text(
            "clause",
            &clause(&program.code()[at], answer.query.layout()),
        )?;
        let done = queries.done.get(at).copied().unwrap_or_default();
        json.number("sent", done.sent)?;
        json.number("served_by_program", done.served)?;
        json.number("dropped", done.dropped)?;
        json.number("counted", done.counted)?;
        match windowed {
            Some(windowed) => estimate(json, "counted_for", windowed.counted.get(&(at as u8)))?,
            None => json.number("counted_for", done.counted_for)?,
        }
        json.number("interrupts", done.interrupted)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("messages")?;
    for (told, count) in answer.messages.iter().take(top) {
        json.object()?;
        json.number("count", count.messages)?;
        match windowed {
            Some(windowed) => estimate(json, "stands_for", windowed.sent.get(*told))?,
            None => {
                json.number("stands_for", count.executions)?;
                place::limits(json, limits(answer.query.sampling, count.executions))?;
            }
        }
        json.number("queue", told.queue)?;
        json.number("instruction", told.at)?;
        let places = places(queries, told);
        let words = told.words.iter().enumerate();
        for ((n, word), name) in words.zip(answer.query.names()) {
            match places >> n & 1 {
                0 => json.number(name, *word)?,
                _ => place(json, view, name, Place::from_word(*word))?,
            }
        }
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}
