//! Lines and JSON about places that were not profiled all the time.

use std::io::{self, Write};

use trommel_profile::filter::{Filter, Filtered};

use crate::json::Json;
use crate::output::{grouped, number_of, times};

/// Mark after a number of executions that has only the profiled ones.
pub(crate) const MORE: &str = "+";

/// Names and texts of the lines of a report's head.
pub(crate) fn lines(filter: &Filter) -> Vec<(&'static str, String)> {
    let Filter {
        limit,
        rounds,
        tables,
        places,
    } = filter;
    let open = places.values().filter(|place| !place.settled).count();
    let changed = places.values().filter(|place| place.changes != 0).count();
    let open = match open {
        0 => String::new(),
        n => format!(
            ", {} of them with values that have not settled",
            grouped(n as u64)
        ),
    };
    let mut lines = vec![(
        "filtered",
        format!(
            "{} for some time, as shares differed by less than {limit} %{open}; {} in {} had other values later; code was translated again {}",
            number_of(places.len() as u64, "instruction"),
            grouped(changed as u64),
            number_of(*rounds, "round"),
            times(*tables),
        ),
    )];
    if places.is_empty() {
        return lines;
    }
    let unprofiled = match filter.unprofiled() {
        Some(n) => format!(
            "{} of their executions were not profiled, and are counted by branches; shares are of the rest",
            grouped(n)
        ),
        None => format!(
            "executions that were not profiled are not counted: where {MORE} stands there were more; shares are of those profiled"
        ),
    };
    lines.push(("unprofiled", unprofiled));
    lines
}

/// The member `filter`.
pub(super) fn json<W: Write>(json: &mut Json<W>, filter: &Filter) -> io::Result<()> {
    json.member_object("filter")?;
    json.real("limit_percent", filter.limit)?;
    json.number("rounds", filter.rounds)?;
    json.number("made_anew", filter.tables)?;
    json.number("places", filter.places.len() as u64)?;
    unprofiled(json, filter.unprofiled())?;
    json.end_object()
}

/// The members of a place with values that say what was not profiled; `profiled`: what was.
pub(crate) fn members<W: Write>(
    json: &mut Json<W>,
    filtered: &Filtered,
    profiled: u64,
) -> io::Result<()> {
    json.number("profiled", profiled)?;
    unprofiled(json, filtered.unprofiled)?;
    json.number("filtered", filtered.outs)?;
    json.number("changes", filtered.changes)?;
    json.boolean("settled", filtered.settled)
}

fn unprofiled<W: Write>(json: &mut Json<W>, n: Option<u64>) -> io::Result<()> {
    match n {
        Some(n) => json.number("unprofiled", n),
        None => json.null("unprofiled"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trommel_tuple::Place;

    fn of(unprofiled: Option<u64>) -> String {
        let mut filter = Filter {
            limit: 2.0,
            rounds: 3,
            tables: 5,
            ..Filter::default()
        };
        let place = Filtered {
            outs: 2,
            changes: 1,
            settled: false,
            unprofiled,
        };
        filter.places.insert(Place::from_word(0x10), place);
        let lines = lines(&filter).into_iter();
        lines
            .map(|(name, text)| format!("{name}: {text}\n"))
            .collect()
    }

    #[test]
    fn it_is_said_whether_the_rest_is_counted() {
        let (known, unknown) = (of(Some(12_345)), of(None));
        assert!(
            known.contains("12 345 of their executions were not profiled"),
            "{known}"
        );
        assert!(unknown.contains("are not counted"), "{unknown}");
        assert!(
            known.contains("1 of them with values that have not settled"),
            "{known}"
        );
    }
}
