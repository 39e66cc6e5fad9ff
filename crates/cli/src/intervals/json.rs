//! Intervals as JSON values, described in `docs/json.md`.

use serde_json::{Value, json};
use trommel_tuple::{Message, Place};

use super::{Entry, Names, Phase};

/// An interval with all its candidates.
pub(crate) fn interval(e: &Entry<'_>, names: &mut impl Names) -> Value {
    let mut value = json!({
        "start": e.start,
        "events": e.events,
        "phase": e.phase,
        "candidates": e.candidates.iter().map(|m| names.json(m)).collect::<Value>(),
    });
    if let Some(error) = e.error {
        // Four decimals, as all errors here; a sum of nothing is -0.
        value["error"] = json!((error * 1e4).round() / 1e4 + 0.0);
    }
    if let Some(of) = e.of {
        value["process"] = json!(of.process);
        value["thread"] = json!(Some(of.thread).filter(|thread| *thread != 0));
        value["interval"] = json!(e.number);
    }
    value
}

/// A phase with its number.
pub(crate) fn phase((n, phase): (usize, &Phase)) -> Value {
    json!({"phase": n + 1, "intervals": phase.intervals, "events": phase.events})
}

/// A candidate that is an event.
pub(super) fn candidate(m: &Message, names: &mut impl Names) -> Value {
    let at = place(m.tuple.pc, names);
    let mut value = json!({"kind": m.kind.name(), "at": at, "count": m.count});
    match m.kind.value_is_place() {
        true => value["to"] = place(Place::from_word(m.tuple.value), names),
        false => value["value"] = json!(m.tuple.value),
    }
    value
}

/// A place with its names.
pub(crate) fn place(place: Place, names: &mut impl Names) -> Value {
    let mut value = json!({"module": place.module().0, "vaddr": place.vaddr().0});
    if let Some(location) = names.location(place) {
        value["function"] = json!(location.function.as_deref());
        value["file"] = json!(location.file.as_deref());
        value["line"] = json!(location.line);
    }
    value
}
