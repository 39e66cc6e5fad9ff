//! Customisation modules: libraries that say what windows capture and what is profiled of it (`include/trommel_module.h`).
//!
//! # Problem
//! Seed 003 (2.4) lets users say what is captured of each instruction, make pairs of an instruction and a value of what a run of
//! instructions captured, and format the values. What they write is another's code: it may crash, hang, or be wrong, and neither the program that
//! is observed nor what was collected may suffer.
//!
//! # Strategy
//! *Capture* is a relational query: for each class of instructions that the module wants something of, one that is made up of it ([`Terms::question`])
//! and has the runtime's probes send the facts of each execution, in windows only. So there is one meaning of operands and results.
//!
//! The library is in a process of its own, the [`helper`], forked before the program starts, and is loaded there. Each process that is observed has
//! an instance of the module; a window goes to its instance when it has ended, and the pairs come back when they are there. Nobody
//! waits for the helper while the program runs: what it is given beyond some windows is left out, and counted. When a process has ended we
//! wait, for a while.
//!
//! *Limits.* From one answer to the next the helper may use [`MOST_CPU`] of CPU time, and be silent for [`MOST_SILENCE`]. At the end of
//! a process it has [`MOST_AT_END`] for what waits, and as much again for texts. Beyond, it is killed.
//!
//! # Invariants
//! * The helper has none of our descriptors but its socket: it keeps nothing of the program alive.
//! * What comes from it is another's: each length, text and number is checked, here or by who uses it.
//! * Once it has failed it is gone, and why is known.
#![allow(unsafe_code)] // reason: forks.

mod helper;
mod library;
mod wire;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use trommel_query::{FieldSet, Operation, Program, assemble};

use self::library::{SYMBOL, TABLE, VERSION};
use self::wire::{Met, Reply, Request};
use crate::queries::Question;
use crate::series::cpu_of;

/// Classes of instructions of which something can be captured: those of queries but for system calls, in front of which windows end.
pub const CLASSES: usize = 7;
/// Bits of a class's capture.
const OPERANDS: u32 = 2;
const RESULT: u32 = 4;
const ADDRESS: u32 = 8;
const OUTCOME: u32 = 16;
/// All of them, and the one for the instruction itself.
const EVERYTHING: u32 = 31;

/// CPU time from one answer to the next.
const MOST_CPU: Duration = Duration::from_secs(1);
/// Time from one answer to the next.
const MOST_SILENCE: Duration = Duration::from_secs(10);
/// Time for all answers that wait when a process has ended.
const MOST_AT_END: Duration = Duration::from_secs(20);
/// Bytes and answers that may wait while the program runs.
const BACKLOG: (usize, usize) = (4 << 20, 64);

/// What a library says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// What its pairs are called.
    pub title: String,
    /// Its values are addresses of code.
    pub places: bool,
    /// By class, what is captured.
    pub capture: [u32; CLASSES],
}

/// Why a library is no module.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// No file.
    #[error("cannot read it: {0}")]
    File(String),
    /// The loader refuses it.
    #[error("it is not a library that can be loaded: {0}; build it with -shared -fPIC")]
    Library(String),
    /// Another kind of library.
    #[error(
        "it is a library, but no customisation module: it does not export the function {SYMBOL}, see \
         include/trommel_module.h"
    )]
    Symbol,
    /// No table.
    #[error("its function {SYMBOL} returned no table")]
    Table,
    /// Another version.
    #[error(
        "it is built for version {0} of the interface for customisation modules, and this trommel has version \
         {VERSION}: build it with this trommel's include/trommel_module.h"
    )]
    Version(u32),
    /// A table that is too small.
    #[error(
        "its table has {0} bytes and should have {TABLE}: set `size` to sizeof(struct trommel_module)"
    )]
    Size(u32),
    /// A missing member.
    #[error("its table has no `{0}`")]
    Null(&'static str),
    /// Values of no kind.
    #[error("its table has {0} in `values`, which is neither TROMMEL_NUMBERS nor TROMMEL_PLACES")]
    Values(u32),
    /// More is to be captured than there is.
    #[error("its table has bits in `capture[{0}]` that this trommel does not know")]
    Capture(usize),
    /// Nothing is to be captured.
    #[error("its table captures nothing: `capture` is 0 for all classes")]
    Nothing,
    /// It failed, or has brought the helper down.
    #[error("{0}")]
    Failed(String),
}

/// A module as it was named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// What the report calls it.
    pub name: String,
    /// The library.
    pub library: PathBuf,
    /// What its instances are given.
    pub argument: CString,
}

impl Terms {
    /// The fields that a record of a class has.
    fn fields(bits: u32) -> String {
        let named = [
            (OPERANDS, " op1 op2 op3"),
            (RESULT, " res1"),
            (ADDRESS, " res2"),
            (OUTCOME, " misc"),
        ];
        let wanted = named.iter().filter(|(bit, _)| bits & bit != 0);
        std::iter::once("pc")
            .chain(wanted.map(|(_, fields)| *fields))
            .collect()
    }

    /// What is asked of the program.
    ///
    /// # Errors
    /// A defect of ours, in words: every capture has a query.
    fn question(&self) -> Result<Question, Refusal> {
        let query = |(operation, bits): (&Operation, &u32)| {
            let (class, fields) = (operation.name(), Self::fields(*bits));
            format!("for {class} * always collect {fields}; send 0 stop;\n")
        };
        let classes = Operation::ALL.iter().zip(&self.capture);
        let text: String = classes.filter(|(_, bits)| **bits != 0).map(query).collect();
        let assembly = assemble(&text);
        let program = assembly.map_err(|e| Refusal::Failed(format!("no query: {e:?}")))?;
        Ok(Question {
            program: program.program,
            seed: 1,
            rehearsed: false,
        })
    }
}

/// By query instruction, the class that it sends records of, and their fields.
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
    /// As it was named.
    pub named: Named,
    /// What it says of itself.
    pub terms: Terms,
    /// What is asked of the program for it.
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

    /// Whether as much waits as may.
    pub fn is_behind(&self) -> bool {
        self.custom.helper.borrow().is_behind()
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

    /// When all that waits should have been answered.
    pub fn deadline() -> Instant {
        Instant::now() + MOST_AT_END
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.send(&Request::End);
    }
}

const UNREADABLE: &str = "what its process sends cannot be read";
const GONE: &str = "its process has ended";

/// How a process ended, given a status as in a profile.
fn ended(status: i32) -> String {
    match status {
        ..0 => {
            let signal = Signal::try_from(-status).map_or("a signal", Signal::as_str);
            format!("it crashed: its process was ended by {signal}")
        }
        _ => format!("it ended its process, with status {status}"),
    }
}

/// The other process, as we see it.
struct Helper {
    socket: UnixStream,
    pid: Pid,
    instances: u32,
    /// What is still to be sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// What has come, and is no whole frame yet.
    input: Vec<u8>,
    /// Instances in the order in which they will be answered.
    waiting: VecDeque<u32>,
    answers: BTreeMap<u32, VecDeque<Reply>>,
    /// When the last answer came, or what is asked now was, and the CPU time then.
    since: (Instant, Duration),
    /// CPU time used so far.
    used: Duration,
    /// Who reaps children has found that it has ended, and how.
    reaped: Option<String>,
    /// Why it is gone.
    failed: Option<String>,
}

impl Helper {
    fn fork(path: &Path, argument: &CString) -> Result<Self, Refusal> {
        let failed = |e: io::Error| Refusal::Failed(format!("no process for it: {e}"));
        let (ours, its) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        // SAFETY: there is one thread, so the child may do whatever it likes.
        match unsafe { fork() }.map_err(|e| failed(e.into()))? {
            ForkResult::Child => {
                drop(ours);
                helper::live(its, path, argument);
                // SAFETY: ends this process, which shares its exit handlers with its parent.
                unsafe { libc::_exit(0) }
            }
            ForkResult::Parent { child } => Ok(Self {
                socket: ours,
                pid: child,
                instances: 0,
                out: Vec::new(),
                sent: 0,
                input: Vec::new(),
                // That the library is loaded.
                waiting: [0].into(),
                answers: BTreeMap::new(),
                since: (Instant::now(), Duration::ZERO),
                used: Duration::ZERO,
                reaped: None,
                failed: None,
            }),
        }
    }

    fn cpu(&self) -> Duration {
        match self.failed {
            None => cpu_of(self.pid).unwrap_or(self.used).max(self.used),
            Some(_) => self.used,
        }
    }

    fn is_behind(&self) -> bool {
        self.out.len() - self.sent > BACKLOG.0 || self.waiting.len() >= BACKLOG.1
    }

    fn send(&mut self, instance: u32, request: &Request<'_>) {
        if self.failed.is_some() {
            return;
        }
        if request.is_answered() {
            if self.waiting.is_empty() {
                self.since = (Instant::now(), self.cpu());
            }
            self.waiting.push_back(instance);
        }
        request.write(instance, &mut self.out);
        self.pump();
    }

    /// The next reply to an instance if it is there.
    fn look(&mut self, instance: u32) -> Option<Result<Reply, String>> {
        self.pump();
        self.impatient();
        let found = self.answers.get_mut(&instance);
        if let Some(reply) = found.and_then(VecDeque::pop_front) {
            return Some(Ok(reply));
        }
        self.failed.clone().map(Err)
    }

    /// Waits for the next reply to an instance.
    fn wait(&mut self, instance: u32, deadline: Instant) -> Result<Reply, String> {
        const OFTEN: u16 = 20;
        loop {
            if let Some(reply) = self.look(instance) {
                return reply;
            }
            if Instant::now() >= deadline {
                let seconds = MOST_AT_END.as_secs();
                self.fail(format!(
                    "it took more than {seconds} s for what waited at the end of a process"
                ));
                continue;
            }
            let flags = match self.sent < self.out.len() {
                true => PollFlags::POLLIN | PollFlags::POLLOUT,
                false => PollFlags::POLLIN,
            };
            let mut polled = [PollFd::new(self.socket.as_fd(), flags)];
            // Interrupted: as if nothing had come.
            let _ = poll(&mut polled, PollTimeout::from(OFTEN));
        }
    }

    /// Sends and reads what can be without waiting.
    fn pump(&mut self) {
        while self.failed.is_none() && self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // What it said before is read below.
                Err(_) => break,
            }
        }
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        let mut buffer = [0; 1 << 16];
        while self.failed.is_none() {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.gone(),
                Ok(n) => self.came(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.gone(),
            }
        }
    }

    fn came(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let mut used = 0;
        loop {
            let Ok(split) = wire::split(&self.input[used..]) else {
                return self.fail(UNREADABLE.into());
            };
            let Some((frame, length)) = split else {
                break;
            };
            let (Some(reply), Some(instance)) = (Reply::read(frame), self.waiting.pop_front())
            else {
                return self.fail(UNREADABLE.into());
            };
            self.answers.entry(instance).or_default().push_back(reply);
            used += length;
        }
        if used != 0 {
            self.input.drain(..used);
            self.since = (Instant::now(), self.cpu());
        }
    }

    /// It has taken too long.
    fn impatient(&mut self) {
        let (when, used) = self.since;
        if self.failed.is_some() || self.waiting.is_empty() || when.elapsed() < MOST_CPU {
            return;
        }
        if self.cpu().saturating_sub(used) >= MOST_CPU {
            let seconds = MOST_CPU.as_secs();
            self.fail(format!(
                "a call of it did not return within {seconds} s of CPU time"
            ));
        } else if when.elapsed() >= MOST_SILENCE {
            let seconds = MOST_SILENCE.as_secs();
            self.fail(format!("a call of it did not return within {seconds} s"));
        }
    }

    /// It has closed its end.
    fn gone(&mut self) {
        self.used = self.cpu();
        // What has crashed has a status already; else it is still there.
        let _ = kill(self.pid, Signal::SIGKILL);
        let how = self.reap();
        self.failed = Some(how);
    }

    fn fail(&mut self, why: String) {
        self.used = self.cpu();
        let _ = kill(self.pid, Signal::SIGKILL);
        self.reap();
        self.failed = Some(why);
    }

    /// Waits until it has ended, which it is about to; how it has.
    fn reap(&mut self) -> String {
        if let Some(how) = self.reaped.take() {
            return how;
        }
        loop {
            return match waitpid(self.pid, None) {
                Ok(WaitStatus::Exited(_, status)) => ended(status),
                Ok(WaitStatus::Signaled(_, signal, _)) => ended(-(signal as i32)),
                Ok(_) | Err(Errno::EINTR) => continue,
                Err(_) => GONE.into(),
            };
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        const MOMENT: Duration = Duration::from_millis(200);
        if self.failed.is_some() {
            return;
        }
        // It destroys what instances there are, and ends.
        let deadline = Instant::now() + MOMENT;
        while self.sent < self.out.len() && Instant::now() < deadline && self.failed.is_none() {
            self.pump();
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        while self.failed.is_none() && Instant::now() < deadline {
            self.pump();
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.failed.is_none() {
            self.fail(String::new());
        }
    }
}
