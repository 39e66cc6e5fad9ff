//! The processes of a recording, one line each.

use std::cmp::Reverse;
use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::merge::Merged;
use trommel_profile::sampled::Sampled;
use trommel_profile::samples::Samples;
use trommel_tuple::Kind;

use super::table::{Style, Table};
use crate::json::Json;
use crate::output::{command_line, grouped, percent};

/// Facts about one process.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) pid: u32,
    pub(super) parent: u32,
    pub(crate) command: Vec<Vec<u8>>,
    exec: bool,
    status: Option<i32>,
    wall: u64,
    pub(super) threads: u64,
    /// (kind, seen, messages)
    events: Vec<(Kind, u64, u64)>,
    detach: Vec<String>,
    /// Time of the process, in samples of the whole machine.
    pub(crate) time: Option<Sampled>,
}

impl Row {
    pub(crate) fn new(profile: &Profile) -> Self {
        let events = |(kind, data): (&Kind, &trommel_profile::KindProfile)| {
            (*kind, data.seen, data.messages)
        };
        Self {
            pid: profile.origin.pid,
            parent: profile.origin.parent,
            command: profile.command.clone(),
            exec: profile.origin.exec,
            // The first one's is that of the run as a whole.
            status: profile.run.status.filter(|_| !profile.origin.exec),
            wall: profile.run.wall,
            threads: profile.threads.started.max(1),
            events: profile.kinds.iter().map(events).collect(),
            detach: profile.run.detach.clone(),
            time: (profile.samples.as_ref())
                .map(Samples::total)
                .filter(|time| time.samples > 0),
        }
    }

    pub(super) fn seen(&self) -> u64 {
        let seen = self.events.iter().map(|(_, seen, _)| *seen);
        seen.fold(0, u64::saturating_add)
    }

    pub(super) fn ended(&self) -> String {
        match self.status {
            _ if self.exec => "exec".into(),
            Some(status) if status >= 0 => format!("exit {status}"),
            Some(signal) => format!("signal {}", -i64::from(signal)),
            None => "not seen".into(),
        }
    }
}

/// All profiles in one, with a row for each. `apart`: they were not made together.
pub(crate) fn merge(
    profiles: impl IntoIterator<Item = Profile>,
    apart: bool,
) -> Option<(Profile, Vec<Row>)> {
    let mut profiles = profiles.into_iter();
    let first = profiles.next()?;
    let mut rows = vec![Row::new(&first)];
    let mut merged = match apart {
        true => Merged::apart(first),
        false => Merged::new(first),
    };
    for profile in profiles {
        rows.push(Row::new(&profile));
        merged.add(profile);
    }
    Some((merged.profile(), rows))
}

/// A table of those that made most events, if there is more than one.
pub(crate) fn table(
    out: &mut impl Write,
    rows: &[Row],
    top: usize,
    style: Style,
) -> io::Result<()> {
    if rows.len() < 2 {
        return Ok(());
    }
    let total = rows.iter().map(Row::seen).fold(0, u64::saturating_add);
    let mut order: Vec<&Row> = rows.iter().collect();
    order.sort_by_key(|row| Reverse(row.seen()));
    // Queries and contexts alone are no events.
    let events = match total {
        0 => String::new(),
        total => format!(", {} events", grouped(total)),
    };
    let (title, all) = (style.strong("Processes"), grouped(rows.len() as u64));
    writeln!(out, "# {title}: {all} observed{events}")?;
    let mut table = Table::new([
        "events", "%", "pid", "parent", "ended", "threads", "command", "",
    ]);
    for row in order.iter().take(top) {
        let [seen, share] = match total {
            0 => ["-", "-"].map(str::to_owned),
            total => [
                grouped(row.seen()),
                format!("{:.2}%", percent(row.seen(), total)),
            ],
        };
        table.row([
            seen,
            share,
            match row.pid {
                0 => "-".into(),
                pid => pid.to_string(),
            },
            match row.parent {
                0 => String::new(),
                parent => parent.to_string(),
            },
            row.ended(),
            row.threads.to_string(),
            cut(&command_line(&row.command)),
            if row.detach.is_empty() {
                ""
            } else {
                "(in part)"
            }
            .into(),
        ]);
    }
    table.write(out, style)
}

/// Long commands, up to where they differ mostly.
pub(crate) fn cut(command: &str) -> String {
    const MOST: usize = 60;
    match command.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &command[..at]),
        None => command.to_owned(),
    }
}

/// The member `processes`.
pub(super) fn json<W: Write>(json: &mut Json<W>, rows: &[Row]) -> io::Result<()> {
    json.member_array("processes")?;
    for row in rows {
        json.object()?;
        match row.pid {
            0 => json.null("pid")?,
            pid => json.number("pid", pid)?,
        }
        match row.parent {
            0 => json.null("parent")?,
            parent => json.number("parent", parent)?,
        }
        json.texts(
            "command",
            row.command.iter().map(|word| String::from_utf8_lossy(word)),
        )?;
        let ended = match row.status {
            _ if row.exec => Some("exec"),
            Some(status) if status >= 0 => Some("exit"),
            Some(_) => Some("signal"),
            None => None,
        };
        json.optional_text("ended", ended)?;
        match row.status {
            Some(status) if status >= 0 => json.number("status", status)?,
            _ => json.null("status")?,
        }
        match row.status {
            Some(signal) if signal < 0 => json.number("signal", -i64::from(signal))?,
            _ => json.null("signal")?,
        }
        json.number("wall_ns", row.wall)?;
        json.number("threads", row.threads)?;
        if let Some(time) = &row.time {
            json.number("samples", time.samples)?;
            json.number("time_ns", time.executions.round() as u64)?;
        }
        json.member_object("events")?;
        for (kind, seen, messages) in &row.events {
            json.member_object(kind.name())?;
            json.number("seen", *seen)?;
            json.number("messages", *messages)?;
            json.end_object()?;
        }
        json.end_object()?;
        json.texts("let_go", &row.detach)?;
        json.end_object()?;
    }
    json.end_array()
}
