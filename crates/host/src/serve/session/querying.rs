//! Queries that are changed while the session goes on ([`crate::serve::control`]).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trommel_profile::queries::Queries;

use super::Session;
use crate::ask::loads;
use crate::ask::queries::Changes;
use crate::channel::question::Question;
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
                Wish::Load { name, program } => (self.takes_loads())
                    .and_then(|()| loads::load(question, name, Arc::new(*program))),
                Wish::Remove(what) => loads::remove(question, &what),
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

    /// Returns an error in words if the session cannot be given queries.
    fn takes_loads(&self) -> Result<(), String> {
        match self.options.changes_queries() {
            true => Ok(()),
            false => Err(
                "this session gives messages to a compressor, which knows the queries of its start only: \
                 start another session without -c"
                    .to_owned(),
            ),
        }
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
        let now = self.account.began.elapsed().as_nanos() as u64;
        let mut text = String::new();
        let loads = question.loads();
        for load in loads.iter().filter(|load| load.is_wanted()) {
            for line in loads::rows(load, sums.get(&load.id), now) {
                let _ = writeln!(text, "{line}");
            }
        }
        text
    }
}
