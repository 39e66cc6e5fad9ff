//! The queries of a daemon: a change is made in all its sessions, and in those to come.
//!
//! # Problem
//! Each session of a daemon is a process of its own, with queries of its own. Who changes what the daemon asks means all of them. A session may
//! take seconds to answer, and the daemon must go on looking for processes.
//!
//! # Strategy
//! The daemon listens as a session does, under its own process number. It keeps the queries in force, and a session begins with them. A change is
//! made to what is kept. Then an [`Errand`] asks the sessions that there are, all at the same time, in a process of its own, and answers the caller.
//!
//! # Why no session is forgotten
//! The daemon has one thread: a session was begun before the change was kept, and is asked, or after it, and has the change from its start. One
//! that does not listen yet is waited for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::kill;
use nix::unistd::Pid;
use trommel_query::Program;

use super::client::{Ask, NotAsked, ask_session};
use super::directory::NoDirectory;
use super::{Call, Control, Wish};
use crate::ask::loads;
use crate::channel::question::Question;

/// Time within which a session that has begun listens.
const PATIENCE: Duration = Duration::from_secs(5);
/// From one look whether it does to the next.
const OFTEN: Duration = Duration::from_millis(50);
/// Numbers in a line of a list, the last of which is a time.
const NUMBERS: usize = 7;

/// A session of the daemon.
#[derive(Clone, Copy, Debug)]
pub struct Serving {
    /// Its process number.
    pub session: i32,
    /// That of the process that it serves.
    pub pid: i32,
}

/// The daemon's socket, and the queries that it keeps.
pub struct Standing {
    control: Control,
    question: &'static Question,
}

impl Standing {
    /// Listens.
    ///
    /// # Errors
    /// There is no directory for the socket, or the system refuses.
    pub fn open(question: &'static Question) -> Result<Self, NoDirectory> {
        let control = Control::open()?;
        Ok(Self { control, question })
    }

    /// Closes the socket in a child of the daemon, which goes on listening.
    pub fn leave(self) {
        self.control.leave();
    }

    /// Makes the changes that are wanted to what is kept. Returns errands that make them elsewhere.
    pub fn errands(&mut self) -> Vec<Errand> {
        let mut errands = Vec::new();
        for (call, request) in self.control.requests() {
            if request.pid != std::process::id() as i32 {
                call.other();
                continue;
            }
            match change(self.question, request.wish) {
                Ok((errand, done)) => errands.push(Errand { call, errand, done }),
                Err(why) => call.refuse(&why),
            }
        }
        errands
    }
}

/// Makes a change to what is kept. Returns what is to be asked of sessions, and what is to be said.
fn change(question: &Question, wish: Wish) -> Result<(Asked, String), String> {
    match wish {
        Wish::List => {
            let loads = question.loads();
            let mut text = String::new();
            for load in loads.iter().filter(|load| load.is_wanted()) {
                for line in loads::rows(load, None, 0) {
                    let _ = writeln!(text, "{line}");
                }
            }
            Ok((Asked::List, text))
        }
        Wish::Load { name, program } => {
            let program = Arc::new(*program);
            let done = loads::load(question, name.clone(), Arc::clone(&program))?;
            Ok((Asked::Load(name, program), done))
        }
        Wish::Remove(what) => {
            let done = loads::remove(question, &what)?;
            Ok((Asked::Remove(what), done))
        }
    }
}

/// A question to each session.
enum Asked {
    List,
    Load(String, Arc<Program>),
    Remove(String),
}

/// A change to be made in the sessions that there are.
pub struct Errand {
    call: Call,
    errand: Asked,
    done: String,
}

impl Errand {
    /// Asks the sessions, and answers the caller. For a process of its own: it takes seconds, and threads.
    pub fn run(self, sessions: &[Serving]) {
        let ask = match &self.errand {
            Asked::List => Ask::List,
            Asked::Load(name, program) => Ask::Load(name, program),
            Asked::Remove(what) => Ask::Remove(what),
        };
        let answers: Vec<(Serving, Result<String, NotAsked>)> = std::thread::scope(|scope| {
            let one = |serving: &Serving| {
                let (serving, ask) = (*serving, &ask);
                scope.spawn(move || (serving, patiently(serving, ask)))
            };
            let threads: Vec<_> = sessions.iter().map(one).collect();
            threads.into_iter().filter_map(|t| t.join().ok()).collect()
        });
        let answer = match self.errand {
            Asked::List => {
                let lists = answers
                    .iter()
                    .filter_map(|(_, answer)| answer.as_deref().ok());
                summed(std::iter::once(self.done.as_str()).chain(lists))
            }
            Asked::Load(..) | Asked::Remove(_) => told(&self.done, &answers),
        };
        self.call.done(&answer);
    }
}

/// Asks a session, which may not listen yet.
fn patiently(serving: Serving, ask: &Ask<'_>) -> Result<String, NotAsked> {
    let began = Instant::now();
    loop {
        let answer = ask_session(serving.session, serving.pid, ask);
        let is_there = || kill(Pid::from_raw(serving.session), None).is_ok();
        match answer {
            Err(NotAsked::NoSession(_)) if began.elapsed() < PATIENCE && is_there() => {
                std::thread::sleep(OFTEN);
            }
            answer => return answer,
        }
    }
}

/// Answer to who wants a change.
fn told(done: &str, answers: &[(Serving, Result<String, NotAsked>)]) -> String {
    let made = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    let processes = match made {
        1 => "1 process".to_owned(),
        n => format!("{n} processes"),
    };
    let mut text = format!("{done} It holds for {processes}, and for those to come.");
    for (serving, answer) in answers {
        match answer {
            // What has ended is asked nothing.
            Ok(_) | Err(NotAsked::NoSession(_) | NotAsked::Ended(_)) => {}
            Err(why) => {
                let _ = write!(text, "\nNot for process {}: {why}", serving.pid);
            }
        }
    }
    text
}

/// Lists added up: a line for each query, in the order in which they come. The time is the longest.
fn summed<'a>(lists: impl Iterator<Item = &'a str>) -> String {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut sums: Vec<(&str, [u64; NUMBERS])> = Vec::new();
    for line in lists.flat_map(str::lines) {
        // Name, header and queues, and numbers.
        let Some((place, _)) = line.match_indices('\t').nth(2) else {
            continue;
        };
        let (query, numbers) = (&line[..place], &line[place + 1..]);
        let mut numbers = numbers.split('\t').map(|n| n.parse().unwrap_or(0));
        let numbers: [u64; NUMBERS] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
        let key = query.split_once('\t').unwrap_or((query, ""));
        let n = *places.entry(key).or_insert_with(|| {
            sums.push((query, [0; NUMBERS]));
            sums.len() - 1
        });
        let sum = &mut sums[n].1;
        for (sum, number) in sum.iter_mut().zip(&numbers[..NUMBERS - 1]) {
            *sum = sum.saturating_add(*number);
        }
        sum[NUMBERS - 1] = sum[NUMBERS - 1].max(numbers[NUMBERS - 1]);
    }
    let mut text = String::new();
    for (query, numbers) in sums {
        let numbers = numbers.map(|n| n.to_string()).join("\t");
        let _ = writeln!(text, "{query}\t{numbers}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_added_up_by_query() {
        let all = [
            "a:1\tfor x\t1,2\t0\t0\t0\t0\t0\t0\t0\n",
            "a:1\tfor x\t1,2\t9\t8\t7\t0\t5\t4\t30\nb:1\tfor y\t\t1\t1\t1\t1\t1\t1\t1\n",
            "a:1\tfor x\t1,2\t1\t1\t1\t1\t1\t1\t20\nnonsense\n",
        ];
        let sum = "a:1\tfor x\t1,2\t10\t9\t8\t1\t6\t5\t30\nb:1\tfor y\t\t1\t1\t1\t1\t1\t1\t1\n";
        assert_eq!(summed(all.into_iter()), sum);
        let most = format!("a:1\tfor x\t{0}\t0\t0\t0\t0\t0\t{0}\n", u64::MAX);
        let twice = summed([most.as_str(), most.as_str()].into_iter());
        assert!(twice.contains(&u64::MAX.to_string()), "{twice}");
    }

    #[test]
    fn a_change_is_told_with_those_who_refuse_it() {
        let of = |pid: i32| Serving {
            session: pid + 1,
            pid,
        };
        let all = [
            (of(10), Ok("a is loaded.".to_owned())),
            (of(20), Err(NotAsked::Refused("it is full".to_owned()))),
            (of(30), Err(NotAsked::Ended(30))),
        ];
        assert_eq!(
            told("a is loaded.", &all),
            "a is loaded. It holds for 1 process, and for those to come.\nNot for process 20: it is full"
        );
    }
}
