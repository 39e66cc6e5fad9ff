//! Arguments of functions, and of calls: what they nearly always are.
//!
//! # What a specialisation saves
//! The function is made a second time, for an argument that is nearly always v; one of its calls, or its first instructions, compare with
//! v. Each call then pays for the comparison. One that finds v does without the instruction that passes the argument, and without those that
//! work with it: one cycle each.
//!
//! # Which function it is
//! A call of another file's function leads to a stub in the same file. Where the profile has branches too, the stub's jump says where it leads, and
//! the calls count for that function.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use trommel_code::Parameter;
use trommel_profile::arguments::{Argument, Passed, REGISTERS};
use trommel_tuple::Place;

use crate::callers::{Part, top};
use crate::json::Json;
use crate::report::view::View;
use crate::shown::shown;

/// An argument, as a function or as one of its calls has it.
pub(crate) struct Argued {
    /// The function's first instruction.
    pub(crate) function: Place,
    /// `None`: all calls.
    pub(crate) call: Option<Place>,
    register: u8,
    parameter: Parameter,
    argument: Argument,
}

/// Returns the arguments that functions take, by all calls and by each call, of those that windows have seen in registers.
pub(crate) fn all(view: &mut View<'_>) -> Vec<Argued> {
    such(view, |_| true)
}

/// Returns the arguments of calls that are `wanted`, by call: first those of the function that was called most, in the order of their registers.
pub(crate) fn by_call(
    view: &mut View<'_>,
    wanted: impl Fn(Place) -> bool,
) -> HashMap<Place, Vec<Argued>> {
    let mut all: HashMap<Place, Vec<Argued>> = HashMap::new();
    for argued in such(view, |call| call.is_some_and(&wanted)) {
        if let Some(call) = argued.call {
            all.entry(call).or_default().push(argued);
        }
    }
    for argued in all.values_mut() {
        argued.sort_by_key(|a| (Reverse(a.executions()), a.function, a.register));
    }
    all
}

fn such(view: &mut View<'_>, wanted: impl Fn(Option<Place>) -> bool) -> Vec<Argued> {
    let mut sums: BTreeMap<Passed, Argument> = BTreeMap::new();
    let windows = view.profile.windows.as_ref();
    let all = windows.into_iter().flat_map(|w| &w.arguments);
    for (passed, argument) in all.filter(|(passed, _)| wanted(passed.call)) {
        let target = view.called(passed.target);
        let sum = sums.entry(Passed { target, ..*passed }).or_default();
        sum.add_beside(argument.clone());
    }
    let mut found = Vec::new();
    for (passed, mut argument) in sums {
        let Some(parameter) = view.parameter(passed.target, passed.register) else {
            continue;
        };
        argument.narrow(parameter.bytes);
        found.push(Argued {
            function: passed.target,
            call: passed.call,
            register: passed.register,
            parameter,
            argument,
        });
    }
    found
}

impl Argued {
    /// Calls.
    pub(crate) fn executions(&self) -> u64 {
        (self.argument.sampled.executions.round() as u64).max(1)
    }

    /// Cycles that a call without the argument saves.
    pub(crate) fn worth(&self) -> f64 {
        1.0 + f64::from(self.parameter.uses)
    }

    /// The most frequent value, its share, and the limits of that.
    pub(crate) fn most(&self) -> Option<(u64, f64, (f64, f64))> {
        self.top().first().map(|t| (t.0, t.2, t.3))
    }

    /// The register's name.
    pub(crate) fn register(&self) -> &'static str {
        REGISTERS[usize::from(self.register)]
    }

    /// Values with their counts and shares, most frequent first.
    pub(crate) fn top(&self) -> Vec<Part> {
        top(&self.argument)
    }

    /// In words.
    pub(crate) fn shown(&self, view: &mut View<'_>, value: u64) -> String {
        shown(view, value, Some(self.parameter.usage))
    }

    /// `rdi of f`, and which call passes it.
    pub(crate) fn name(&self, view: &mut View<'_>) -> String {
        let function = view.name(self.function);
        let name = format!("{} of {function}", self.register());
        match self.call {
            Some(call) => format!("{name}, by {}", view.name(call)),
            None => name,
        }
    }

    /// Members of an object.
    pub(crate) fn json<W: Write>(&self, json: &mut Json<W>, view: &mut View<'_>) -> io::Result<()> {
        json.text("register", self.register())?;
        json.number("bytes", self.parameter.bytes)?;
        json.number("uses", self.parameter.uses)?;
        json.number("samples", self.argument.sampled.samples)?;
        json.real("draws", self.argument.sampled.draws())?;
        json.member_array("top")?;
        for (value, count, share, (low, high)) in self.top() {
            json.object()?;
            json.number("value", value)?;
            json.text("shown", &self.shown(view, value))?;
            json.number("count", count)?;
            json.real("share", share)?;
            json.real("share_low", low)?;
            json.real("share_high", high)?;
            json.end_object()?;
        }
        json.end_array()
    }
}
