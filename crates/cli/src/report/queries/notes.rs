//! Sentences about what went wrong: messages and rows that are missing, services that failed, rules that met no code.

use trommel_profile::queries::Queries;
use trommel_profile::{Module, Profile};
use trommel_query::disassemble::rule;
use trommel_query::tag::{Rule, Where};
use trommel_query::{Program, image};

use super::answers;
use super::services::{faults_of_service, title};
use crate::output::{grouped, number_of};

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
pub(super) fn faults_of_messages(
    program: &Program,
    queries: &Queries,
    modules: &[Module],
) -> Vec<String> {
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

pub(super) fn unmet(program: &Program, queries: &Queries) -> Vec<String> {
    rules_unmet(program, queries).map(rule).collect()
}

fn rules_unmet<'p>(program: &'p Program, queries: &Queries) -> impl Iterator<Item = &'p Rule> {
    let rules = queries.unmet.iter();
    rules.filter_map(|n| program.tags().get(usize::from(*n)))
}
