//! Coverage of a sampled profile, as a line and as JSON.

use std::io::{self, Write};

use trommel_profile::coverage::{Coverage, Extent};

use crate::json::Json;
use crate::output::grouped;

/// The line of a report's header; none where counts are exact, or nothing can be said.
pub(super) fn line(extent: &Extent) -> Option<String> {
    let Extent::Sampled(coverage) = extent else {
        return None;
    };
    let Coverage {
        edges,
        once,
        draw,
        draws,
        unseen,
        limits,
        known,
    } = coverage;
    let known = match known {
        Some(known) => format!(
            "; {:.1} % go along edges known within a factor of 2",
            100.0 * known
        ),
        None => String::new(),
    };
    Some(format!(
        "{} edges, {} of them in one {} only; {} of executions go along others ({} to {}, by {} draws of one {} each){known}",
        grouped(*edges),
        grouped(*once),
        draw.name(),
        percent(*unseen),
        percent(limits.low),
        percent(limits.high),
        grouped(draws.floor() as u64),
        draw.name(),
    ))
}

/// A share in percent, with two digits at least.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        10.0.. => format!("{percent:.0} %"),
        1.0..10.0 => format!("{percent:.1} %"),
        0.0 => "0 %".to_owned(),
        _ => format!("{percent:.2} %"),
    }
}

/// The member `coverage`.
pub(super) fn json<W: Write>(json: &mut Json<W>, extent: &Extent) -> io::Result<()> {
    json.member_object("coverage")?;
    json.boolean("complete", matches!(extent, Extent::Complete { .. }))?;
    match extent {
        Extent::Complete { edges } => json.number("edges", *edges)?,
        Extent::Sampled(coverage) => json.number("edges", coverage.edges)?,
        Extent::Unknown(_) => json.null("edges")?,
    }
    let sampled = match extent {
        Extent::Sampled(coverage) => Some(coverage),
        _ => None,
    };
    match sampled {
        Some(coverage) => json.number("edges_once", coverage.once)?,
        None => json.null("edges_once")?,
    }
    json.optional_text("draw", sampled.map(|coverage| coverage.draw.name()))?;
    for (name, figure) in [
        ("draws", sampled.map(|c| c.draws)),
        ("unseen", sampled.map(|c| c.unseen)),
        ("unseen_low", sampled.map(|c| c.limits.low)),
        ("unseen_high", sampled.map(|c| c.limits.high)),
        ("known", sampled.and_then(|c| c.known)),
    ] {
        match figure {
            Some(figure) => json.real(name, figure)?,
            None => json.null(name)?,
        }
    }
    let why = match extent {
        Extent::Unknown(why) => Some(*why),
        _ => None,
    };
    json.optional_text("unknown_because", why)?;
    json.end_object()
}
