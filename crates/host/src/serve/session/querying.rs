//! Queries that are changed while the session goes on ([`crate::serve::control`]).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trommel_profile::queries::Queries;
use trommel_query::Program;
use trommel_query::instruction::{Action, Queues};
use trommel_query::program::Query;
use trommel_queue::queries::LOADS;

use super::Session;
use crate::ask::queries::{Changes, check_in_windows};
use crate::channel::question::{Load, Question};
use crate::serve::control::{Call, Control, Wish};
use crate::serve::identity::End;

/// Time that a change may take before its caller is told that it takes longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest sleep while a change is being made.
pub(super) const OFTEN: Duration = Duration::from_millis(2);

/// The socket of the session, and callers who wait for their change.
#[derive(Default)]
pub(super) struct Querying {
    control: Option<Control>,
    waiting: Vec<(Call, String, Instant)>,
    /// Something is not made yet.
    pub(super) is_busy: bool,
}

impl Querying {
    /// Returns true if it is worth while to look soon.
    pub(super) fn is_due(&self) -> bool {
        self.is_busy || self.control.as_ref().is_some_and(Control::is_called)
    }
}

impl Session<'_> {
    /// The question, if it may change.
    fn may_change(&self) -> Option<&'static Question> {
        self.options.question.filter(|q| q.may_change())
    }

    /// Listens for commands, if queries may change.
    pub(super) fn listen(&mut self) {
        if self.may_change().is_some() {
            match Control::open() {
                Ok(control) => self.querying.control = Some(control),
                Err(why) => (self.notice)(crate::serve::news::News::NoControl(why)),
            }
        }
    }

    /// Does what commands want.
    pub(super) fn querying(&mut self) {
        let Some(question) = self.may_change() else {
            return;
        };
        let control = self.querying.control.as_mut();
        let requests = control.map_or_else(Vec::new, Control::requests);
        for (call, request) in requests {
            let is_it = |pid: i32| pid == request.pid;
            let mut there = self.processes.iter().filter(|(_, p)| p.end == End::No);
            if !is_it(std::process::id() as i32)
                && !there.any(|(_, p)| is_it(p.identity.pid.as_raw()))
            {
                call.other();
                continue;
            }
            let done = match request.wish {
                Wish::List => {
                    call.done(&self.list(question));
                    continue;
                }
                Wish::Load { name, program } => self.load(question, name, *program),
                Wish::Remove(what) => remove(question, &what),
            };
            match done {
                Ok(done) => (self.querying.waiting).push((call, done, Instant::now())),
                Err(why) => call.refuse(&why),
            }
        }
        self.change();
    }

    /// Makes what is wanted and not made, and tells callers.
    fn change(&mut self) {
        let changes = self.processes.iter_mut();
        let changes: Vec<Changes> = changes.filter_map(|(_, p)| p.change_queries()).collect();
        let is_made = |changes: &Changes| matches!(changes, Changes::Made | Changes::Leaving);
        let made = changes.iter().all(is_made);
        for (call, done, since) in std::mem::take(&mut self.querying.waiting) {
            if made {
                call.done(&done);
            } else if since.elapsed() >= PATIENCE {
                call.done(&format!(
                    "{done} It takes effect when the program executes code again."
                ));
            } else {
                self.querying.waiting.push((call, done, since));
            }
        }
        // A window makes a change whenever it comes, and to look often would be paid for by fewer windows.
        let in_windows = self.options.question.is_some_and(Question::is_by_window);
        let rests = made || in_windows && self.querying.waiting.is_empty();
        self.querying.is_busy = !rests;
    }

    fn load(&self, question: &Question, name: String, program: Program) -> Result<String, String> {
        if !self.options.services.is_empty() || self.options.chosen.is_some() {
            return Err(
                "this session gives messages to services or a compressor, which know the queries of its start only: \
                 start another session without --service and -c"
                    .to_owned(),
            );
        }
        if question.is_by_window() {
            check_in_windows(&program).map_err(|why| why.to_string())?;
        }
        let mut loads = question.loads();
        let mut wanted = loads.iter().filter(|load| load.is_wanted());
        if wanted.clone().any(|load| load.name == name) {
            return Err(format!(
                "{name} is loaded already: remove it first, or give another name by --name"
            ));
        }
        if wanted.by_ref().count() >= LOADS {
            return Err(format!(
                "{LOADS} programs are loaded, as many as there can be: remove one first"
            ));
        }
        let id = loads.len() as u32 + 1;
        let done = format!("{name} is loaded.");
        loads.push(Load {
            id,
            name,
            program: Arc::new(program),
            off: 0,
        });
        Ok(done)
    }

    /// A line for each query, with tabs between its parts.
    fn list(&self, question: &Question) -> String {
        let mut sums: BTreeMap<u32, Queries> = BTreeMap::new();
        for (_, process) in &self.processes {
            for queries in process.queries_so_far() {
                match sums.get_mut(&queries.load) {
                    Some(sum) => sum.add(queries, |word| word),
                    None => drop(sums.insert(queries.load, queries)),
                }
            }
        }
        let now = self.began.elapsed().as_nanos() as u64;
        let mut text = String::new();
        let loads = question.loads();
        for load in loads.iter().filter(|load| load.is_wanted()) {
            for (n, query) in load.program.queries().iter().enumerate() {
                if !query.entries.iter().all(|entry| load.is_off(entry)) {
                    let sum = sums.get(&load.id);
                    let _ = writeln!(text, "{}", row(load, n, query, sum, now));
                }
            }
        }
        text
    }
}

/// Removes queries by name or queue.
fn remove(question: &Question, what: &str) -> Result<String, String> {
    let mut loads = question.loads();
    let queue = what.parse::<u8>().ok();
    let (name, number) = match what.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (what, None),
    };
    let mut removed = 0;
    for load in loads.iter_mut().filter(|load| load.is_wanted()) {
        let queries = load.program.queries();
        for (n, query) in queries.iter().enumerate() {
            let chosen = match queue {
                Some(queue) => queues(&load.program, query).any(|q| q.hold(queue)),
                None => load.name == name && number.is_none_or(|of| of.parse() == Ok(n + 1)),
            };
            if chosen && !query.entries.iter().all(|entry| load.is_off(entry)) {
                removed += 1;
                let entries = query.entries.iter();
                load.off |= entries.fold(0, |bits, entry| bits | 1 << entry.number());
            }
        }
    }
    match (removed, queue) {
        (0, Some(queue)) => Err(format!(
            "no query sends to queue {queue}: `trommel query list` shows the queues"
        )),
        (0, None) => Err(format!(
            "no query has the name {what}: `trommel query list` shows the names"
        )),
        (1, _) => Ok("1 query is removed.".to_owned()),
        (n, _) => Ok(format!("{n} queries are removed.")),
    }
}

/// Queues that a query sends to.
fn queues<'p>(program: &'p Program, query: &Query) -> impl Iterator<Item = Queues> + use<'p> {
    let code = &program.code()[query.code.clone()];
    code.iter().filter_map(|i| match i.action {
        Action::Send(queues) => Some(queues),
        _ => None,
    })
}

fn row(load: &Load, n: usize, query: &Query, sum: Option<&Queries>, now: u64) -> String {
    let header = query.header();
    let mut sends: Vec<u8> = queues(&load.program, query)
        .flat_map(|q| (0..q.count).map(move |n| q.first.saturating_add(n)))
        .collect();
    sends.sort_unstable();
    sends.dedup();
    let sends: Vec<String> = sends.iter().map(u8::to_string).collect();
    let mut numbers = [0_u64; 6];
    let mut active = 0;
    if let Some(sum) = sum {
        for entry in query.entries.iter() {
            let seen = sum.seen.get(&(entry.number() as u8)).copied();
            let seen = seen.unwrap_or_default();
            numbers[0] += seen.executed;
            numbers[1] += seen.profiled;
        }
        for done in &sum.done[query.code.clone()] {
            let more = [done.sent, done.dropped, done.counted, done.interrupted];
            for (number, more) in numbers[2..].iter_mut().zip(more) {
                *number += more;
            }
        }
        let code = |a: &&trommel_profile::queries::Active| usize::from(a.code) == query.code.start;
        let since = sum.active.iter().find(code);
        active = since.map_or(0, |active| now.saturating_sub(active.from));
    }
    let numbers = numbers.map(|number| number.to_string()).join("\t");
    format!(
        "{}:{}\t{header}\t{}\t{numbers}\t{active}",
        load.name,
        n + 1,
        sends.join(",")
    )
}
