//! Customisation modules: libraries that choose what windows capture and what is profiled of it (`include/trommel_module.h`).
//!
//! # Problem
//! *Value Sampling* (2.4) lets users choose what is captured of each instruction. They make pairs of an instruction and a value from a captured run of
//! instructions, and format the values. A module is foreign code: it may crash, hang, or be wrong. Neither the program that
//! is observed nor the collected data may suffer.
//!
//! # Strategy
//! *Capture* is a relational query. For each class of instructions that the module captures, one is built ([`Terms::question`]).
//! It has the runtime's probes send the facts of each execution, in windows only. So operands and results have one meaning.
//!
//! The library is loaded into a process of its own, the [`helper`], forked before the program starts. Each process that is observed has
//! an instance of the module. A window goes to its instance when it has ended, and the pairs come back when they are ready. Nobody
//! waits for the helper while the program runs: windows beyond a backlog are left out, and counted. When a process has ended we
//! wait, for a while.
//!
//! *Limits.* From one answer to the next the helper may use `MOST_CPU` of CPU time, and be silent for `MOST_SILENCE`. At the end of
//! a process it has [`MOST_AT_END`] for what waits, and as much again for texts. After that it is killed.
//!
//! # Invariants
//! * The helper has none of our descriptors but its socket: it keeps nothing of the program alive.
//! * Replies of the helper are not trusted: each length, text and number is checked, here or by its user.
//! * A helper that failed is gone, and the reason is known.
//!
//! **I26 (modules apart).** Nothing of a customisation module is executed in the process that observes. Nobody waits for its process while the program runs.

mod helper;
mod library;
mod link;
mod terms;
mod wire;

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use trommel_query::{FieldSet, Program};

use self::link::{BACKLOG, GONE, Helper, MOST_AT_END, UNREADABLE, ended};
use self::terms::EVERYTHING;
pub use self::terms::{CLASSES, Refusal, Terms};
use self::wire::{Met, Reply, Request};
use crate::channel::question::Question;

/// A module as it was named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its name in reports.
    pub name: String,
    /// The library.
    pub library: PathBuf,
    /// Argument of its instances.
    pub argument: CString,
}

/// Returns for each query instruction the class that it sends records of, and their fields.
pub fn classes(program: &Program) -> Vec<(u8, FieldSet)> {
    let mut classes = vec![(0, FieldSet::default()); program.code().len()];
    for query in program.queries() {
        let mut entries = query.entries.iter();
        if let Some(trommel_query::Subject::Class(class)) = entries.next().map(|e| e.subject()) {
            classes[query.code].fill((class.operation as u8, query.fields));
        }
    }
    classes
}

/// A module in its process.
pub struct Custom {
    /// Its name as the user gave it.
    pub named: Named,
    /// Terms that the library reports of itself.
    pub terms: Terms,
    /// The question that is put to the program for it.
    pub question: &'static Question,
    helper: RefCell<Helper>,
    /// The instance that was made at the start is nobody's yet.
    first: Cell<bool>,
}

impl Custom {
    /// Starts the helper and has it load the library and make an instance for the first process. Must be called while this process has one thread.
    ///
    /// # Errors
    /// Why there is no module.
    pub fn start(named: Named) -> Result<Rc<Self>, Refusal> {
        let path = std::fs::canonicalize(&named.library);
        let path = path.and_then(|path| std::fs::File::open(&path).map(|_| path));
        let path = path.map_err(|e| Refusal::File(e.to_string()))?;
        let mut helper = Helper::fork(&path, &named.argument)?;
        let deadline = Instant::now() + MOST_AT_END;
        let reply = helper.wait(0, deadline);
        let terms = match reply {
            Ok(Reply::Loaded(terms)) => terms,
            Ok(Reply::Failed(why)) | Err(why) => return Err(Refusal::Failed(why)),
            Ok(_) => return Err(Refusal::Failed(UNREADABLE.into())),
        };
        // Its own table is checked there; what comes of it is checked here.
        if terms.capture.iter().any(|bits| bits & !EVERYTHING != 0) {
            return Err(Refusal::Failed(UNREADABLE.into()));
        }
        let question = Box::leak(Box::new(terms.question()?));
        helper.instances = Custom::FIRST;
        helper.send(Custom::FIRST, &Request::Begin);
        match helper.wait(Custom::FIRST, deadline) {
            Ok(Reply::Done) => {}
            Ok(Reply::Failed(why)) | Err(why) => return Err(Refusal::Failed(why)),
            Ok(_) => return Err(Refusal::Failed(UNREADABLE.into())),
        }
        Ok(Rc::new(Self {
            named,
            terms,
            question,
            helper: RefCell::new(helper),
            first: Cell::new(true),
        }))
    }

    /// The number of the first process's instance.
    const FIRST: u32 = 1;

    /// An instance for a process.
    pub fn begin(self: &Rc<Self>) -> Instance {
        let mut helper = self.helper.borrow_mut();
        let mut number = Self::FIRST;
        if !self.first.replace(false) {
            helper.instances += 1;
            number = helper.instances;
            helper.send(number, &Request::Begin);
        }
        Instance {
            number,
            custom: Rc::clone(self),
        }
    }

    /// CPU time that the helper has used.
    pub fn cpu(&self) -> Duration {
        self.helper.borrow().cpu()
    }

    /// A child of ours has ended, with a status as in a profile.
    pub fn child_ended(&self, pid: Pid, status: Option<i32>) {
        let mut helper = self.helper.borrow_mut();
        if helper.pid == pid {
            helper.reaped = Some(status.map_or_else(|| GONE.into(), ended));
        }
    }
}

impl std::fmt::Debug for Custom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Custom").field(&self.named).finish()
    }
}

/// A process's side of a module.
pub struct Instance {
    number: u32,
    custom: Rc<Custom>,
}

/// An answer to a window, or the end of the instance.
pub enum Answer {
    /// Pairs of a window.
    Pairs(Vec<(u64, u64)>),
    /// The instance has failed, for this reason; nothing follows.
    Failed(String),
}

impl Instance {
    /// The module.
    pub fn custom(&self) -> &Rc<Custom> {
        &self.custom
    }

    /// Returns whether as much waits as may.
    pub fn lags(&self) -> bool {
        self.custom.helper.borrow().lags()
    }

    /// Tells of an instruction.
    pub fn meet(&self, number: u32, class: u8, pc: u64, code: &[u8]) {
        let met = Met {
            number,
            class,
            pc,
            code,
        };
        self.send(&Request::Met(met));
    }

    /// Hands a window of a thread of a process over: a number and words for each instruction.
    pub fn window(&self, (pid, thread): (u32, u32), tuples: &[u8]) {
        self.send(&Request::Window(pid, thread, tuples));
    }

    fn send(&self, request: &Request<'_>) {
        self.custom.helper.borrow_mut().send(self.number, request);
    }

    /// The next answer, if it is there; with a deadline it is waited for.
    pub fn answer(&self, deadline: Option<Instant>) -> Option<Answer> {
        let mut helper = self.custom.helper.borrow_mut();
        loop {
            let reply = match deadline {
                Some(deadline) => helper.wait(self.number, deadline),
                None => helper.look(self.number)?,
            };
            return Some(match reply {
                Ok(Reply::Done) => continue,
                Ok(Reply::Pairs(pairs)) => Answer::Pairs(pairs),
                Ok(Reply::Failed(why)) | Err(why) => Answer::Failed(why),
                Ok(Reply::Loaded(_) | Reply::Text(_)) => Answer::Failed(UNREADABLE.into()),
            });
        }
    }

    /// Texts of values of instructions, in their order.
    ///
    /// # Errors
    /// Why there are no more; what there is comes with it.
    pub fn texts(&self, values: &[(u32, u64)]) -> (Vec<Option<String>>, Option<String>) {
        let deadline = Instant::now() + MOST_AT_END;
        let mut texts = Vec::with_capacity(values.len());
        let mut asked = values.iter();
        let mut helper = self.custom.helper.borrow_mut();
        let mut waits = 0;
        loop {
            while waits < BACKLOG.1
                && let Some(&(number, value)) = asked.next()
            {
                helper.send(self.number, &Request::Format(number, value));
                waits += 1;
            }
            if waits == 0 {
                return (texts, None);
            }
            match helper.wait(self.number, deadline) {
                Ok(Reply::Text(text)) => texts.push(text),
                Ok(Reply::Failed(why)) | Err(why) => return (texts, Some(why)),
                Ok(_) => return (texts, Some(UNREADABLE.into())),
            }
            waits -= 1;
        }
    }

    /// Returns the time by which all that waits should have been answered.
    pub fn deadline() -> Instant {
        Instant::now() + MOST_AT_END
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.send(&Request::End);
    }
}
