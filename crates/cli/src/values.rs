//! `trommel values`: loads that nearly always load the same and arguments that are nearly always the same, by what specialising them could save.
//!
//! # What a specialisation saves
//! A load of a value that is nearly always v becomes a comparison with v and code in which it is a constant (*Value Sampling*,
//! section 1). Each execution then pays for the comparison; one that finds v does without the load, whose
//! result everything after it waits for; one that does not may have been predicted wrongly. With the share s of v:
//!
//! saved = executions · (s · LOAD − COMPARE − min(s, 1 − s) · MISPREDICTED) cycles
//!
//! which is above 0 from about 80 % on. What the constant makes superfluous after it is not in it, so it orders
//! places and does not promise. Under sampling s is the lower limit of the share: what is not known well comes
//! later. Arguments are known of windows only ([`crate::arguments`]); in place of LOAD there are the instructions that pass one and work with it.
//!
//! Loads that only keep a function's frame in order (`code/src/upkeep.rs`) are left out, and counted, unless all are asked for.

mod operands;
mod shape;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde::Serialize;
use trommel_code::Upkeep;
use trommel_profile::confidence::Confidence;
use trommel_profile::filter::Filtered;
use trommel_symbol::Files;
use trommel_tuple::{Kind, Place};

use crate::args::ValuesArgs;
use crate::arguments::{self, Argued};
use crate::callers::{self, Caller};
use crate::json::{Json, Named};
use crate::load;
use crate::output::{self, grouped, percent};
use crate::report::filter::{self, MORE};
use crate::report::place::{modules, names};
use crate::report::table::{Style, Table, more};
use crate::report::view::{Values, View};
use crate::report::windows;
use shape::{DEFAULT_TOP, SCHEMA};

/// Cycles from a load that hits the first cache to the use of its value, on processors of this decade.
const LOAD: f64 = 5.0;
/// Cycles of a comparison and a branch that is predicted.
const COMPARE: f64 = 1.0;
/// Cycles of a branch that is not.
const MISPREDICTED: f64 = 15.0;

/// Places that have values: a load, or an argument.
enum Specialisable<'p> {
    Load(Values<'p>),
    /// A load, as one call of its function has it.
    Called(Place, Caller<'p>),
    Argument(Argued),
}

/// With the value that it is specialised for.
struct Candidate<'p> {
    subject: Specialisable<'p>,
    executions: u64,
    value: u64,
    share: f64,
    /// Limits of the share; both are the share where it is exact.
    limits: (f64, f64),
    /// Cycles; not above 0 where it does not pay.
    saved: f64,
    /// Reason why nobody would specialise it.
    upkeep: Option<Upkeep>,
}

/// The command that makes its recordings.
const RECORD: &str = "trommel record -e value,call --budget 1 -- PROGRAM";

/// Runs the command.
pub(crate) fn run(args: &ValuesArgs) -> Result<ExitCode> {
    let (profile, rows, _) =
        load::made_by(&args.source.file, &args.source.select, RECORD)?.merge()?;
    if let Some(samples) = &profile.samples {
        return operands::run(args, &profile, samples, rows.len());
    }
    if !profile.kinds.contains_key(&Kind::Value) {
        bail!(
            "{}: holds no loaded values; record them with `{RECORD}`",
            args.source.file.display()
        );
    }
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = load::symbols(&files, &profile);
    let mut view = View::new(&profile, symbols, confidence);
    let loads = view.values(Kind::Value);
    let sum = |all: u64, n: u64| all.saturating_add(n);
    let executed = Executed {
        loads: loads.iter().map(|v| v.executions).fold(0, sum),
        calls: (view.values(Kind::Call).iter())
            .map(|v| v.executions)
            .fold(0, sum),
        left_out: BTreeMap::new(),
    };
    let arguments = arguments::all(&mut view);
    let mut found: Vec<Candidate<'_>> = Vec::new();
    let callers = loads.iter().flat_map(|v| {
        let of = callers::of(&view, Kind::Value, v.at).into_iter();
        of.map(|caller| (v.at, caller))
    });
    let callers: Vec<_> = callers.filter(|(_, c)| c.call.is_some()).collect();
    found.extend(callers.into_iter().filter_map(|c| called(&mut view, c)));
    found.extend(loads.into_iter().filter_map(|v| load(&mut view, v)));
    found.extend(arguments.into_iter().filter_map(argument));
    found.retain(|c| (args.all || c.saved > 0.0) && c.share >= args.share / 100.0);
    found.sort_by(|a, b| b.saved.total_cmp(&a.saved));
    let mut left_out = BTreeMap::new();
    if !args.all {
        found.retain(|candidate| match candidate.upkeep {
            Some(why) => {
                // A load once, whoever calls its function.
                let once = u64::from(candidate.caller().is_none());
                *left_out.entry(why).or_default() += once;
                false
            }
            None => true,
        });
    }
    let executed = Executed {
        left_out,
        ..executed
    };
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let mut out = output::stdout();
    if args.json {
        json(&mut out, &mut view, &found, &executed, top)?;
    } else {
        let style = Style::of(&io::stdout());
        let found = once(found);
        text(&mut out, &mut view, &found, &executed, top, style)?;
        let hot = found.iter().map(Candidate::at);
        if let Some(command) = view.next(&args.source.file, hot) {
            writeln!(out, "# next: {}", output::printable(&command))?;
        }
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Executions of all.
struct Executed {
    loads: u64,
    calls: u64,
    /// Number of loads that were left out, by reason.
    left_out: BTreeMap<Upkeep, u64>,
}

impl Candidate<'_> {
    /// The load, or the function.
    fn at(&self) -> Place {
        match &self.subject {
            Specialisable::Load(values) => values.at,
            Specialisable::Called(at, _) => *at,
            Specialisable::Argument(argued) => argued.function,
        }
    }

    /// Returns what is known of a load that was not profiled all the time, and how often it was.
    fn filtered(&self) -> Option<(Filtered, u64)> {
        match &self.subject {
            Specialisable::Load(values) => Some((values.filtered?, values.profiled)),
            Specialisable::Called(..) | Specialisable::Argument(_) => None,
        }
    }

    fn argued(&self) -> Option<&Argued> {
        match &self.subject {
            Specialisable::Load(_) | Specialisable::Called(..) => None,
            Specialisable::Argument(argued) => Some(argued),
        }
    }

    fn caller(&self) -> Option<&Caller<'_>> {
        match &self.subject {
            Specialisable::Called(_, caller) => Some(caller),
            Specialisable::Load(_) | Specialisable::Argument(_) => None,
        }
    }

    /// Returns what it is a part of, if it is told of a call: an argument by its register.
    fn whole(&self) -> Option<(Place, Option<&'static str>)> {
        match &self.subject {
            Specialisable::Called(at, _) => Some((*at, None)),
            Specialisable::Argument(argued) if argued.call.is_some() => {
                Some((argued.function, Some(argued.register())))
            }
            Specialisable::Load(_) | Specialisable::Argument(_) => None,
        }
    }

    /// Returns what calls may be parts of.
    fn parts(&self) -> Option<(Place, Option<&'static str>)> {
        match &self.subject {
            Specialisable::Load(values) => Some((values.at, None)),
            Specialisable::Argument(argued) if argued.call.is_none() => {
                Some((argued.function, Some(argued.register())))
            }
            Specialisable::Called(..) | Specialisable::Argument(_) => None,
        }
    }

    fn shown(&self, view: &mut View<'_>) -> String {
        match &self.subject {
            Specialisable::Load(Values { at, .. }) | Specialisable::Called(at, _) => {
                view.shown(*at, self.value)
            }
            Specialisable::Argument(argued) => argued.shown(view, self.value),
        }
    }
}

/// A load with the value that it loads most.
fn load<'p>(view: &mut View<'p>, values: Values<'p>) -> Option<Candidate<'p>> {
    let (value, count) = values.top(1).first().copied()?;
    let share = count as f64 / values.profiled.max(1) as f64;
    let share = share.min(1.0);
    let limits = match view.executions(&values) {
        Some(executions) => {
            let limits = executions.share(values.position(value), count);
            (limits.low, limits.high)
        }
        None => (share, share),
    };
    Some(Candidate {
        executions: values.executions,
        saved: saved(values.executions, limits.0, LOAD),
        upkeep: view.upkeep(values.at),
        subject: Specialisable::Load(values),
        value,
        share,
        limits,
    })
}

/// A load with the value that it loads most when its function is called by one call.
fn called<'p>(view: &mut View<'p>, (at, caller): (Place, Caller<'p>)) -> Option<Candidate<'p>> {
    let (value, _, share, limits) = callers::top(caller.values).first().copied()?;
    let executions = caller.executions();
    Some(Candidate {
        executions,
        saved: saved(executions, limits.0, LOAD),
        upkeep: view.upkeep(at),
        subject: Specialisable::Called(at, caller),
        value,
        share,
        limits,
    })
}

/// An argument with the value that it is most.
fn argument<'p>(argued: Argued) -> Option<Candidate<'p>> {
    let (value, share, limits) = argued.most()?;
    let executions = argued.executions();
    Some(Candidate {
        executions,
        saved: saved(executions, limits.0, argued.worth()),
        subject: Specialisable::Argument(argued),
        value,
        share,
        limits,
        upkeep: None,
    })
}

/// Cycles that are saved where so many executions have the value in this share of them, and each that has it does without `worth`.
fn saved(executions: u64, share: f64, worth: f64) -> f64 {
    let missed = share.min(1.0 - share);
    /// Less of a cycle is what rounding leaves.
    const NOTHING: f64 = 1e-9;
    let cycles = share * worth - COMPARE - missed * MISPREDICTED;
    match cycles.abs() < NOTHING {
        true => 0.0,
        false => executions as f64 * cycles,
    }
}

/// Without what has, for a call, the value that it has most for all calls, where that is told: it pays, or they do not either.
fn once(found: Vec<Candidate<'_>>) -> Vec<Candidate<'_>> {
    let wholes = found.iter().filter_map(|whole| {
        let pays = whole.saved > 0.0;
        Some(((whole.parts()?, whole.value), pays))
    });
    let wholes: HashMap<_, bool> = wholes.collect();
    let is_told = |candidate: &Candidate<'_>| {
        let whole = candidate.whole().map(|whole| (whole, candidate.value));
        let pays = whole.and_then(|whole| wholes.get(&whole));
        pays.is_some_and(|pays| *pays || candidate.saved <= 0.0)
    };
    let told: Vec<bool> = found.iter().map(is_told).collect();
    let all = found.into_iter().zip(told);
    all.filter(|(_, told)| !told).map(|(c, _)| c).collect()
}

fn text(
    out: &mut impl Write,
    view: &mut View<'_>,
    found: &[Candidate<'_>],
    executed: &Executed,
    top: usize,
    style: Style,
) -> io::Result<()> {
    if let Some(data) = &view.profile.windows {
        windows::heading(out, data)?;
    }
    for (name, text) in view.profile.filter.iter().flat_map(filter::lines) {
        writeln!(out, "# {name:<11} {text}")?;
    }
    let sum = found.iter().fold(0.0, |sum, c| sum + c.saved.max(0.0));
    let arguments = found.iter().filter(|c| c.argued().is_some()).count();
    let loads = grouped((found.len() - arguments) as u64);
    let (sum, of) = (cycles(sum), grouped(executed.loads));
    match arguments {
        0 => writeln!(
            out,
            "# Loads worth specialising: {loads} of them, {sum} cycles to save; {of} loads executed",
        )?,
        _ => writeln!(
            out,
            "# Loads and arguments worth specialising: {loads} and {} of them, {sum} cycles to save; {of} loads and {} calls executed",
            grouped(arguments as u64),
            grouped(executed.calls),
        )?,
    }
    if let Some(line) = left_out_line(&executed.left_out) {
        writeln!(out, "# {line}")?;
    }
    let what = match arguments {
        0 => "load",
        _ => "load or argument",
    };
    let mut table = Table::new([
        "saves",
        "% of loads",
        "executions",
        what,
        "value",
        "share",
        "",
        "source",
        "module",
    ]);
    for entry in found.iter().take(top) {
        let at = entry.at();
        let (low, high) = entry.limits;
        let doubt = 100.0 * (high - entry.share).max(entry.share - low);
        let doubt = match view.has_limits() {
            true => format!("±{doubt:.1}"),
            false => String::new(),
        };
        let (name, part) = match entry.argued() {
            Some(argued) => (argued.name(view), String::new()),
            None => {
                let part = format!("{:.2}%", percent(entry.executions, executed.loads));
                let name = view.name(at);
                let name = match entry.caller() {
                    Some(caller) => format!("{name}, {}", caller.name(view)),
                    None => name,
                };
                (name, part)
            }
        };
        let more = match entry.filtered() {
            Some((filtered, _)) if filtered.unprofiled.is_none() => MORE,
            _ => "",
        };
        let value = entry.shown(view);
        let source = entry.argued().and_then(|argued| argued.call).unwrap_or(at);
        table.row([
            cycles(entry.saved.max(0.0)),
            part,
            format!("{}{more}", grouped(entry.executions)),
            name,
            value,
            format!("{:.1}%{doubt}", 100.0 * entry.share),
            entry
                .upkeep
                .map_or_else(String::new, |why| why.name().to_owned()),
            view.source(source),
            view.module(source),
        ]);
    }
    table.write(out, style)?;
    more(out, found.len(), top)
}

/// Returns what was left out, and how to see it.
fn left_out_line(left_out: &BTreeMap<Upkeep, u64>) -> Option<String> {
    let words = |why: &Upkeep| match why {
        Upkeep::Canary => "of the stack protector",
        Upkeep::Restored => "that restore registers",
        Upkeep::Fixed => "of memory that does not change",
    };
    let parts = left_out.iter().map(|(why, n)| {
        format!(
            "{} {} {}",
            grouped(*n),
            if *n == 1 { "load" } else { "loads" },
            words(why)
        )
    });
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| format!("left out: {}; --all shows them", parts.join(", ")))
}

/// In three digits.
pub(crate) fn cycles(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2}G", n / 1e9),
        n if n >= 1e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e3 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Members before the lists.
#[derive(Serialize)]
struct Head<'a> {
    schema: &'static str,
    basis: &'a str,
    executions: u64,
    calls: u64,
    left_out: Named<'a, u64>,
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    found: &[Candidate<'_>],
    executed: &Executed,
    top: usize,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    let left_out = Upkeep::ALL.into_iter().map(|why| {
        let n = executed.left_out.get(&why);
        (why.name(), n.copied().unwrap_or(0))
    });
    json.members(&Head {
        schema: SCHEMA,
        basis: view.basis().name(),
        executions: executed.loads,
        calls: executed.calls,
        left_out: Named(left_out.collect()),
    })?;
    modules(&mut json, view.profile)?;
    json.member_array("loads")?;
    let loads = || found.iter().filter(|c| c.argued().is_none());
    for entry in loads().filter(|c| c.caller().is_none()).take(top) {
        json.object()?;
        place(&mut json, view, "at", entry.at())?;
        figures(&mut json, view, entry)?;
        json.optional_text("upkeep", entry.upkeep.map(Upkeep::name))?;
        json.end_object()?;
    }
    json.end_array()?;
    let called = loads().filter_map(|c| Some((c, c.caller()?.call?)));
    json.member_array("by_caller")?;
    for (entry, call) in called.take(top) {
        json.object()?;
        place(&mut json, view, "at", entry.at())?;
        place(&mut json, view, "call", call)?;
        figures(&mut json, view, entry)?;
        json.optional_text("upkeep", entry.upkeep.map(Upkeep::name))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("arguments")?;
    let arguments = found.iter().filter_map(|c| Some((c, c.argued()?)));
    for (entry, argued) in arguments.take(top) {
        json.object()?;
        place(&mut json, view, "function", argued.function)?;
        match argued.call {
            Some(call) => place(&mut json, view, "call", call)?,
            None => json.null("call")?,
        }
        figures(&mut json, view, entry)?;
        argued.json(&mut json, view)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}

fn place<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    name: &str,
    at: Place,
) -> io::Result<()> {
    let location = view.locate(at);
    json.member_object(name)?;
    names(json, at, &location)?;
    json.end_object()
}

fn figures<W: Write>(
    json: &mut Json<W>,
    view: &mut View<'_>,
    entry: &Candidate<'_>,
) -> io::Result<()> {
    json.number("executions", entry.executions)?;
    if let Some((filtered, profiled)) = entry.filtered() {
        filter::members(json, &filtered, profiled)?;
    }
    json.number("value", entry.value)?;
    json.text("shown", &entry.shown(view))?;
    json.real("share", entry.share)?;
    json.real("share_low", entry.limits.0)?;
    json.real("share_high", entry.limits.1)?;
    json.real("saved_cycles", entry.saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_nearly_always_the_same_saves_nothing() {
        assert!(saved(1000, 1.0, LOAD) > saved(1000, 0.95, LOAD) && saved(1000, 0.95, LOAD) > 0.0);
        assert!(saved(1000, 0.7, LOAD) < 0.0 && saved(1000, 0.0, LOAD) < 0.0);
        assert!((saved(100, 1.0, LOAD) - 400.0).abs() < 1e-9);
        // 0.8 · 5 − 1 − 0.2 · 15, which floating point does not make 0.
        assert!(saved(10, 0.8, LOAD).abs() < f64::MIN_POSITIVE);
    }

    #[test]
    fn what_is_left_out_is_said_with_the_option_that_shows_it() {
        assert_eq!(left_out_line(&BTreeMap::new()), None);
        let both = BTreeMap::from([(Upkeep::Restored, 1200), (Upkeep::Canary, 2)]);
        let wanted = "left out: 2 loads of the stack protector, 1 200 loads that restore registers; --all shows them";
        assert_eq!(left_out_line(&both).as_deref(), Some(wanted));
    }
}
