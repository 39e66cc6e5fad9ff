//! Values of instructions by who called their function, where windows told them apart.

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_profile::callers::Values;
use trommel_profile::confidence::Executions;
use trommel_tuple::{Kind, Place};

use crate::json::Json;
use crate::report::place::place;
use crate::report::view::View;

/// One of the callers of an instruction's function.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'p> {
    /// `None`: those that are not known.
    pub(crate) call: Option<Place>,
    pub(crate) values: &'p Values,
}

/// A value with its count, its share, and the limits of that.
pub(crate) type Part = (u64, u64, f64, (f64, f64));

/// The callers of an instruction's function, by how often it was executed for them, most first.
pub(crate) fn of<'p>(view: &View<'p>, kind: Kind, at: Place) -> Vec<Caller<'p>> {
    let windows = view.profile.windows.as_ref();
    let callers = windows.and_then(|windows| windows.callers.as_ref());
    let all = callers.into_iter().flat_map(|all| all.of(kind, at));
    let mut all: Vec<_> = all.map(|(call, values)| Caller { call, values }).collect();
    all.sort_by_key(|caller| (Reverse(caller.executions()), caller.call));
    all
}

/// Values with their counts and shares, most frequent first.
pub(crate) fn top(values: &Values) -> Vec<Part> {
    let known = Executions::of_windows(&values.sampled, &values.counts);
    let all = values.sampled.executions.max(1.0);
    let one = |(n, &(value, count)): (usize, &(u64, u64))| {
        let limits = known.share(n, count);
        let share = (count as f64 / all).min(1.0);
        (value, count, share, (limits.low, limits.high))
    };
    let mut top: Vec<_> = values.counts.iter().enumerate().map(one).collect();
    top.sort_by_key(|&(value, count, ..)| (Reverse(count), value));
    top
}

impl Caller<'_> {
    /// Executions of the instruction.
    pub(crate) fn executions(&self) -> u64 {
        (self.values.sampled.executions.round() as u64).max(1)
    }

    /// `from main+0x12`.
    pub(crate) fn name(&self, view: &mut View<'_>) -> String {
        match self.call {
            Some(call) => format!("from {}", view.name(call)),
            None => "from elsewhere".to_owned(),
        }
    }
}

/// The member `by_caller` of an instruction, with at most so many callers and values of each; `shown` says values in words.
pub(crate) fn json<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    callers: &[Caller<'_>],
    most: usize,
    shown: impl Fn(&mut View<'_>, u64) -> Option<String>,
) -> io::Result<()> {
    json.member_array("by_caller")?;
    for caller in callers.iter().take(most) {
        json.object()?;
        match caller.call {
            Some(call) => place(json, view, "call", call)?,
            None => json.null("call")?,
        }
        json.number("executions", caller.executions())?;
        json.number("samples", caller.values.sampled.samples)?;
        json.real("draws", caller.values.sampled.draws())?;
        json.real("kept", caller.values.sampled.probability)?;
        json.member_array("top")?;
        for (value, count, share, (low, high)) in top(caller.values).into_iter().take(most) {
            json.object()?;
            json.number("value", value)?;
            if let Some(words) = shown(view, value) {
                json.text("shown", &words)?;
            }
            json.number("count", count)?;
            json.real("share", share)?;
            json.real("share_low", low)?;
            json.real("share_high", high)?;
            json.end_object()?;
        }
        json.end_array()?;
        json.end_object()?;
    }
    json.end_array()
}
