//! `report --per-interval`: intervals of the recording with their candidates, named ([`crate::intervals`]).
//!
//! Phases are found here, of all processes and threads together. What is alike has one number, whoever did it.
//! Messages of queries have intervals of their own, of each queue ([`messages`]).

mod messages;

use std::io::{self, Write};
use std::rc::Rc;

use anyhow::{Result, bail};
use trommel_compress::Spec;
use trommel_profile::Profile;
use trommel_profile::accuracy::phases::Phases;
use trommel_profile::intervals::{Interval, Intervals, Sequence};
use trommel_symbol::Location;
use trommel_tuple::{Message, Place};

use super::Shown;
use super::place::modules;
use super::view::View;
use crate::args::ReportArgs;
use crate::intervals::text::Lines;
use crate::intervals::{self, Entry, Names, Thread};
use crate::json::Json;
use crate::output::{command_line, complain, grouped, percent, printable};

/// The schema's name. Fields may be added; none is removed or changed.
const SCHEMA: &str = "trommel.intervals/1";
/// No interval of events.
static NONE: Intervals = Intervals {
    halvings: 0,
    sequences: Vec::new(),
};
/// Candidates that text shows of each interval, unless everything is wanted.
const CANDIDATES: usize = 3;

/// Places are named by functions.
impl Names for View<'_> {
    const FUNCTIONS: bool = true;

    fn place(&mut self, place: Place) -> String {
        self.name(place)
    }

    fn value(&mut self, at: Place, value: u64) -> String {
        self.shown(at, value)
    }

    fn location(&mut self, place: Place) -> Option<Rc<Location>> {
        Some(self.locate(place))
    }
}

/// Writes the intervals as the arguments want them.
///
/// # Errors
/// The profile has none.
pub(super) fn write(
    out: &mut impl Write,
    view: &mut View<'_>,
    args: &ReportArgs,
    shown: &Shown<'_>,
) -> Result<()> {
    let profile = view.profile;
    let file = args.source.file.display();
    let queues = match is_narrowed(args) {
        true => Vec::new(),
        false => messages::queues(profile),
    };
    let Some(found) = profile.intervals.as_ref().or_else(|| {
        // Of messages alone.
        (!queues.is_empty()).then_some(&NONE)
    }) else {
        bail!("{file}: {}", why_none(profile, is_narrowed(args)));
    };
    let entries = entries(found);
    let unfinished = match is_narrowed(args) {
        true => None,
        false => Some(unfinished(view, found)),
    };
    if args.json {
        json(out, view, (found, &entries), unfinished, &queues)?;
        return Ok(out.flush()?);
    }
    if args.csv {
        match profile.intervals {
            None => messages::csv(out, view, &queues)?,
            Some(_) => {
                intervals::csv::titles(out, view)?;
                intervals::csv::rows(out, &profile.compressor, &entries, view)?;
                if !queues.is_empty() {
                    complain(
                        "intervals of messages are not in this CSV, which has those of events: --json has both",
                    );
                }
            }
        }
        return Ok(out.flush()?);
    }
    let lines = Lines {
        top: shown.top,
        candidates: match args.top {
            Some(0) => usize::MAX,
            _ => CANDIDATES,
        },
    };
    writeln!(out, "# {}", printable(&command_line(&profile.command)))?;
    writeln!(out, "# compressor  {}", printable(&profile.compressor))?;
    if profile.intervals.is_some() {
        writeln!(out, "# counted     {}", profile.counted.words())?;
        let kept = entries.len() as u64;
        extent(out, profile, (found.ended(), kept), unfinished, "events")?;
        let spec = printable(&profile.compressor);
        intervals::text::write(out, shown.style, (&spec, &entries), view, lines)?;
    }
    for queue in &queues {
        messages::text(out, view, queue, (shown.style, lines))?;
    }
    Ok(out.flush()?)
}

/// The reason why there are no intervals to report.
fn why_none(profile: &Profile, narrowed: bool) -> &'static str {
    if profile.sum.is_some() {
        return "holds no intervals, as they are the course of one run and this is a sum; report a recording that was added up";
    }
    if narrowed && !messages::queues(profile).is_empty() {
        return "holds intervals of messages, which have no kind and no module: leave out -e, --module and --build-id";
    }
    if without(profile).is_some() {
        return "an earlier version recorded it, which did not keep intervals of messages: `trommel report` shows the sums of their candidates";
    }
    "holds no intervals; record with an interval profiler: `trommel record -c 'M4[10k,1%]2048' -- PROG` (`trommel help specs`)"
}

/// The reason why an interval profiler found nothing, if it did not. No interval is not the same as intervals without candidates.
pub(super) fn without(profile: &Profile) -> Option<String> {
    let spec: Spec = profile.compressor.parse().ok()?;
    let length = grouped(spec.interval()?.interval.into());
    match profile.intervals.as_ref().map_or(0, Intervals::events) {
        0 => Some(format!(
            "no interval of {length} events has ended: name a shorter one, as in -c 'M4[10k,1%]2048'"
        )),
        _ => None,
    }
}

/// The part of all events that candidates are, by kind, where an interval profiler keeps nothing else.
pub(super) fn candidates(profile: &Profile) -> Option<String> {
    let spec: Spec = profile.compressor.parse().ok()?;
    spec.interval()?;
    let kept = profile
        .kinds
        .iter()
        .filter(|(_, data)| !data.counts.is_empty());
    let kept = kept.map(|(kind, data)| {
        let counts = data.counts.values().flatten().map(|(_, count)| *count);
        let sum = counts.fold(0, u64::saturating_add);
        format!("{kind} {:.1} %", percent(sum, data.seen))
    });
    let kept: Vec<String> = kept.collect();
    (!kept.is_empty()).then(|| {
        format!(
            "{} of all events. Tables are of candidates alone, and so are their percents",
            kept.join(", ")
        )
    })
}

/// Returns true if a part of the profile was asked for.
fn is_narrowed(args: &ReportArgs) -> bool {
    let select = &args.source.select;
    args.event.is_some() || !select.module.is_empty() || !select.build_id.is_empty()
}

/// Events of intervals that had not ended when their threads did.
fn unfinished(view: &View<'_>, found: &Intervals) -> u64 {
    let seen = view.profile.kinds.values().map(|kind| kind.seen);
    let seen = seen.fold(0, u64::saturating_add);
    seen.saturating_sub(found.events())
}

/// All intervals, with their phases.
fn entries(found: &Intervals) -> Vec<Entry<'_>> {
    let mut phases = Phases::default();
    let all = found
        .each()
        .map(|(sequence, interval)| entry(sequence, interval, &interval.candidates, &mut phases));
    all.collect()
}

/// An interval of a profile, with its candidates as tuples.
fn entry<'a, C>(
    sequence: &Sequence<C>,
    interval: &Interval<C>,
    candidates: &'a [Message],
    phases: &mut Phases,
) -> Entry<'a> {
    Entry {
        of: Some(Thread {
            process: sequence.process,
            thread: sequence.thread,
        }),
        number: interval.number,
        start: interval.start,
        events: interval.events,
        phase: phases.of(interval.events, candidates),
        error: None,
        candidates,
    }
}

/// Writes how many intervals there are, how many were kept, and what was in none of them.
fn extent(
    out: &mut impl Write,
    profile: &Profile,
    (ended, kept): (u64, u64),
    unfinished: Option<u64>,
    what: &str,
) -> io::Result<()> {
    let kept = match ended - kept.min(ended) {
        0 => "all kept".to_owned(),
        dropped => format!(
            "{} kept, {} dropped: memory has room for some, chosen at random",
            grouped(kept),
            grouped(dropped)
        ),
    };
    writeln!(out, "# intervals   {} ended, {kept}", grouped(ended))?;
    match unfinished {
        Some(0) | None => {}
        Some(events) => {
            let spec: Option<Spec> = profile.compressor.parse().ok();
            let length = spec.and_then(|spec| spec.interval().map(|i| i.interval));
            let length = length.map_or_else(String::new, |length| {
                format!("; an interval has {}", grouped(length.into()))
            });
            let events = grouped(events);
            writeln!(
                out,
                "# left out    {events} {what} of intervals that did not end{length}"
            )?;
        }
    }
    writeln!(out, "#")
}

fn json(
    out: &mut impl Write,
    view: &mut View<'_>,
    (found, entries): (&Intervals, &[Entry<'_>]),
    unfinished: Option<u64>,
    queues: &[messages::Queue<'_>],
) -> io::Result<()> {
    let profile = view.profile;
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    let command = profile.command.iter().map(|a| String::from_utf8_lossy(a));
    json.texts("command", command)?;
    json.text("compressor", &profile.compressor)?;
    json.number("ended", found.ended())?;
    json.number("kept", entries.len() as u64)?;
    match unfinished {
        Some(events) => json.number("unfinished", events)?,
        None => json.null("unfinished")?,
    }
    modules(&mut json, profile)?;
    json.member_array("phases")?;
    for phase in intervals::phases(entries).iter().enumerate() {
        json.object()?;
        json.members(&intervals::json::phase(phase))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("per_interval")?;
    for entry in entries {
        json.object()?;
        json.members(&intervals::json::interval(entry, view))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("messages")?;
    for queue in queues {
        messages::json(&mut json, view, queue)?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}
