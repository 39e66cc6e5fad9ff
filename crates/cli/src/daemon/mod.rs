//! `trommel daemon`: chosen processes profiled as long as they live, into a database.
//!
//! # Problem
//! Processes come and go while somebody wants to know what all of them do, over days and within a budget. A process that is
//! attached to must be served by one with a single thread; any of them may die or be killed at any moment, and neither a
//! target nor what was collected may suffer.
//!
//! # Strategy
//! The daemon looks through `/proc` a few times a second and starts a *session* for each process of the description: a
//! forked child that attaches once, stays attached until the process ends, and writes a profile for each epoch ([`session`]).
//! The daemon itself holds nothing. When it dies, the kernel asks its sessions to end: they detached and write what they have. When a session is killed, its keeper
//! detaches its target (`host/src/takeover/keeper.rs`), and the daemon takes it again.
//!
//! Commands may change the queries that all sessions ask ([`trommel_host::serve::control::standing`]).
//!
//! # Invariants
//! * The daemon has one thread, and so has each child.
//! * A process is reported once, unless it becomes another program.
//! * At most what a session has collected since the last epoch is lost, and only if the session itself is killed.

mod find;
mod session;
mod settings;

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use trommel_host::ask::answerable;
use trommel_host::channel::question::Question;
use trommel_host::kernel::interrupt::{self, Guard};
use trommel_host::kernel::running::{self, Refusal};
use trommel_host::serve::control::client::name_of;
use trommel_host::serve::control::standing::{Serving, Standing};
use trommel_host::serve::news::News;
use trommel_host::serve::record;
use trommel_host::takeover::children::{Child, Ending};
use trommel_store::database::Database;
use trommel_tuple::{Kind, KindSet};

use crate::args::DaemonArgs;
use crate::news;
use crate::output;
use crate::query;
use crate::record::{check_callers, check_kinds, check_query_kinds};
use find::{Identity, ProcessMatch};
use settings::Settings;

/// From one look at the processes to the next.
const LOOK: Duration = Duration::from_millis(250);
/// From one look at the size of the database to the next, at least.
const KEEP: Duration = Duration::from_secs(10);
/// Processes that are profiled at a time: each has two helpers.
const MOST: usize = 128;
/// A process whose sessions were killed is taken again so often.
const AGAIN: u32 = 3;
/// Time within which a problem that passes is not reported.
const SOON: Duration = Duration::from_secs(2);
/// Detaching of everything takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Events where none are named.
const USUAL_KINDS: [Kind; 3] = [Kind::Edge, Kind::Call, Kind::Value];

/// A process that was found.
enum State {
    /// A first time: it may be gone the next.
    New,
    /// Cannot be attached to now, which may pass: since when, and whether that was reported.
    Waits(Instant, bool),
    Profiled(Child),
    /// It is not taken again.
    Done,
}

/// See the module.
struct Daemon {
    settings: Settings,
    wanted: find::Selection,
    keep: u64,
    known: HashMap<Identity, State>,
    /// Number of times sessions of a process were killed.
    killed: HashMap<Identity, u32>,
    taken: u64,
    overflowing: bool,
    /// Hears changes of the queries.
    standing: Option<Standing>,
    /// Changes that are being made in the sessions.
    errands: Vec<Child>,
    keeper: Option<Child>,
    kept: Option<Instant>,
}

/// Runs the command.
pub(crate) fn run(args: DaemonArgs) -> Result<ExitCode> {
    let question = args.query.as_deref().map(asked).transpose()?;
    let kinds = args.events.unwrap_or_else(|| match question {
        Some(_) => KindSet::NONE,
        None => USUAL_KINDS.into_iter().collect(),
    });
    anyhow::ensure!(
        !kinds.is_empty() || question.is_some(),
        "`-e none` collects nothing for a database: name edge, call, value, type, address or latency"
    );
    anyhow::ensure!(
        !kinds.has(Kind::Path),
        "`path` is not recorded in windows, of which profiles in a database are made: record a process with \
         `trommel record -e path -p PID`"
    );
    check_kinds(kinds, true, false)?;
    check_query_kinds(question.is_some(), kinds)?;
    if args.by_caller {
        check_callers(kinds, true)?;
    }
    for pid in &args.pid {
        crate::host::running(*pid)?;
    }
    record::check_windows()?;
    let database = Database::create(&args.db);
    let database =
        database.with_context(|| format!("{}: cannot make the database", args.db.display()))?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // Whether files can be made there is found out before anything is taken.
    let kept = database.keep(host.trim(), args.keep, session::now())?;
    let guard = interrupt::guard();
    let mut daemon = Daemon {
        settings: Settings {
            database,
            host: host.trim().to_owned(),
            kinds,
            budget: args.budget,
            by_caller: args.by_caller,
            epoch: args.epoch,
            question,
        },
        wanted: find::Selection::new(args.pid, &args.name, args.user),
        keep: args.keep,
        known: HashMap::new(),
        killed: HashMap::new(),
        taken: 0,
        overflowing: false,
        standing: question.and_then(listen),
        errands: Vec::new(),
        keeper: None,
        kept: Some(Instant::now()),
    };
    let path = output::command_line(&[args.db.as_os_str().as_encoded_bytes().to_vec()]);
    let bytes = output::grouped(kept.bytes);
    output::complain(&format!(
        "profiling {} into {path} ({bytes} bytes there of this machine's); Ctrl-C ends it; at any time: trommel report {path}",
        daemon.wanted
    ));
    daemon.serve(&guard);
    daemon.leave();
    output::complain(&format!(
        "{} profiled",
        match daemon.taken {
            1 => "1 process".to_owned(),
            n => format!("{n} processes"),
        }
    ));
    output::complain(&format!("next: trommel report {path}"));
    drop(guard);
    Ok(ExitCode::SUCCESS)
}

/// The queries in a file, which windows can answer.
fn asked(file: &Path) -> Result<&'static Question> {
    let program = query::question(file)?;
    answerable::check_in_windows(&program)?;
    crate::host::question(name_of(file), program, true, None)
}

/// Hears changes of the queries, where there can be a socket.
fn listen(question: &'static Question) -> Option<Standing> {
    match Standing::open(question) {
        Ok(standing) => Some(standing),
        Err(why) => {
            output::complain(&news::sentence(&News::NoControl(why)));
            None
        }
    }
}

impl Daemon {
    /// Until it is asked to end, or there is nobody left to wait for.
    fn serve(&mut self, guard: &Guard) {
        while !guard.asked() {
            self.look(guard);
            self.reap();
            self.answer();
            let over = self
                .wanted
                .is_over(|identity| !matches!(self.known.get(identity), None | Some(State::Done)));
            if over {
                break;
            }
            self.keep();
            std::thread::sleep(LOOK);
        }
    }

    /// Takes processes that have come, and forgets those that have gone.
    fn look(&mut self, guard: &Guard) {
        let found = self.wanted.find();
        let is_there = |identity: &Identity| found.iter().any(|f| f.identity == *identity);
        self.known
            .retain(|identity, state| matches!(state, State::Profiled(_)) || is_there(identity));
        self.killed.retain(|identity, _| is_there(identity));
        for ProcessMatch { identity, name } in &found {
            match self.known.get(identity) {
                None => {
                    self.known.insert(identity.clone(), State::New);
                }
                Some(State::New | State::Waits(..)) => self.take(identity, name, guard),
                Some(State::Profiled(_) | State::Done) => {}
            }
        }
    }

    fn take(&mut self, identity: &Identity, name: &str, guard: &Guard) {
        let profiled = |state: &&State| matches!(state, State::Profiled(_));
        if self.known.values().filter(profiled).count() >= MOST {
            if !std::mem::replace(&mut self.overflowing, true) {
                output::complain(&format!(
                    "{MOST} processes are profiled: others are taken when some of them have ended; \
                     name fewer with --name or -p"
                ));
            }
            return;
        }
        let pid = identity.pid;
        let state = match running::look(pid) {
            // It has ended: no more is to be said.
            Err(Refusal::None | Refusal::Zombie) => State::Done,
            Err(refusal) => self.refused(identity, name, &refusal),
            Ok(_) => match Child::start(|| {
                if let Some(standing) = self.standing.take() {
                    standing.leave();
                }
                session::run(&self.settings, pid, name, guard)
            }) {
                Ok(child) => {
                    self.taken += 1;
                    State::Profiled(child)
                }
                Err(error) => {
                    output::complain(&format!(
                        "process {pid} ({name}) is not profiled: fork: {error}"
                    ));
                    State::Done
                }
            },
        };
        self.known.insert(identity.clone(), state);
    }

    /// Reports why a process cannot be taken, once, and whether that may pass.
    fn refused(&self, identity: &Identity, name: &str, refusal: &Refusal) -> State {
        let passes = matches!(refusal, Refusal::Traced(..));
        let (since, told) = match self.known.get(identity) {
            Some(State::Waits(since, told)) => (*since, *told),
            _ => (Instant::now(), false),
        };
        let tells = !told && (!passes || since.elapsed() >= SOON);
        if tells {
            let now = if passes { " now" } else { "" };
            let pid = identity.pid;
            output::complain(&format!(
                "process {pid} ({name}) is not profiled{now}: {refusal}"
            ));
        }
        match passes {
            true => State::Waits(since, told || tells),
            false => State::Done,
        }
    }

    /// Takes note of sessions that have ended. A process that is there still is not taken again, unless its session was killed.
    fn reap(&mut self) {
        for (identity, state) in &mut self.known {
            let State::Profiled(child) = state else {
                continue;
            };
            let Some(ending) = child.ended() else {
                continue;
            };
            let killed = self.killed.entry(identity.clone()).or_default();
            *killed += u32::from(ending == Ending::Killed);
            let again = ending == Ending::Killed && *killed <= AGAIN;
            *state = if again { State::New } else { State::Done };
            if ending != Ending::Exited(0) && ending != Ending::Exited(session::TOLD.into()) {
                let pid = identity.pid;
                let then = if again {
                    "another is started"
                } else {
                    "the process runs on natively"
                };
                output::complain(&format!("the session of process {pid} was ended; {then}"));
            }
        }
    }

    /// Changes the queries of all sessions, as commands want it.
    fn answer(&mut self) {
        self.errands.retain(|errand| errand.ended().is_none());
        let Some(standing) = &mut self.standing else {
            return;
        };
        for errand in standing.errands() {
            let serving = |(identity, state): (&Identity, &State)| match state {
                State::Profiled(child) => Some(Serving {
                    session: child.id(),
                    pid: identity.pid,
                }),
                _ => None,
            };
            let sessions: Vec<Serving> = self.known.iter().filter_map(serving).collect();
            let run = || {
                errand.run(&sessions);
                0
            };
            match Child::start(run) {
                Ok(child) => self.errands.push(child),
                Err(error) => {
                    output::complain(&format!("sessions hear nothing of a change: fork: {error}"));
                }
            }
        }
    }

    /// Keeps the database within its size, in a process of its own: that takes a while.
    fn keep(&mut self) {
        if let Some(child) = &self.keeper
            && child.ended().is_some()
        {
            self.keeper = None;
        }
        let is_time = self.kept.is_none_or(|at| at.elapsed() >= KEEP);
        if self.keeper.is_some() || !is_time {
            return;
        }
        self.kept = Some(Instant::now());
        let Settings { database, host, .. } = &self.settings;
        let keep = || match database.keep(host, self.keep, session::now()) {
            Ok(_) => 0,
            Err(error) => {
                output::complain(&error.to_string());
                1
            }
        };
        self.keeper = Child::start(keep).ok();
    }

    /// Detaches from everything.
    fn leave(&mut self) {
        let began = Instant::now();
        for state in self.known.values() {
            if let State::Profiled(child) = state {
                child.ask();
            }
        }
        let mut asked: Vec<State> = self.known.drain().map(|(_, state)| state).collect();
        while began.elapsed() < PATIENCE && !asked.is_empty() {
            asked
                .retain(|state| matches!(state, State::Profiled(child) if child.ended().is_none()));
            std::thread::sleep(Duration::from_millis(5));
        }
        if !asked.is_empty() {
            output::complain(&format!("{} sessions have not ended yet", asked.len()));
        }
    }
}
