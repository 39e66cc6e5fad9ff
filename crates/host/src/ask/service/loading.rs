//! Queries that a service loads while a program runs, and the names of what they send.
//!
//! # Problem
//! A service that finds a hot load asks for its addresses next. (In *Relational Profiling*, section 3.4, software does so by the
//! instruction SET_PCR.) It is in the middle of being given messages when it asks. Messages of several programs come to it then, and the
//! number of an instruction does not say which words a message has.
//!
//! # Strategy
//! What a service asks for is checked at once and put to the session's question, as `trommel query load` does. The session makes it in its
//! next turn, when no service is being called. While a message is given, names are those of the program that sent it.
//!
//! # Invariants
//! Texts that a library was given stay where they are until its instance is dropped.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::rc::Rc;

use trommel_query::Program;

use crate::ask::loads;
use crate::channel::question::Question;

/// Programs of queries as a service knows them.
pub(super) struct Loading {
    question: Option<&'static Question>,
    /// Queries may come and go.
    changes: bool,
    known: RefCell<BTreeMap<u32, Rc<Known>>>,
    given: RefCell<Option<Rc<Known>>>,
    paths: RefCell<BTreeMap<Vec<u8>, CString>>,
}

/// A load.
struct Known {
    id: u32,
    name: CString,
    /// Names of the words of messages, by the instruction that sends them.
    fields: Vec<Vec<CString>>,
}

impl Known {
    fn of(id: u32, name: &str, program: &Program) -> Self {
        let mut fields = vec![Vec::new(); program.code().len()];
        for query in program.queries() {
            fields[query.code.clone()].fill(query.names().map(zero_ended).collect());
        }
        let name = zero_ended(name);
        Self { id, name, fields }
    }
}

/// Names hold no 0.
fn zero_ended(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

impl Loading {
    /// Creates it for a session that asks `question`. `changes`: services may change it.
    pub(super) fn new(question: Option<&'static Question>, changes: bool) -> Self {
        Self {
            question,
            changes,
            known: RefCell::default(),
            given: RefCell::default(),
            paths: RefCell::default(),
        }
    }

    /// A message of this load is given next. Returns the name of the load.
    pub(super) fn give(&self, id: u32) -> *const c_char {
        let mut given = self.given.borrow_mut();
        if given.as_ref().is_none_or(|known| known.id != id) {
            *given = self.find(id);
        }
        given
            .as_ref()
            .map_or(ptr::null(), |known| known.name.as_ptr())
    }

    /// The message was given.
    pub(super) fn rest(&self) {
        self.given.take();
    }

    fn find(&self, id: u32) -> Option<Rc<Known>> {
        let mut known = self.known.borrow_mut();
        if let Some(known) = known.get(&id) {
            return Some(Rc::clone(known));
        }
        let loads = self.question?.loads();
        let load = loads.iter().find(|load| load.id == id)?;
        let found = Rc::new(Known::of(id, &load.name, &load.program));
        known.insert(id, Rc::clone(&found));
        Some(found)
    }

    /// Returns the name of a word of the messages that an instruction sends: of the load whose message is given, else of the first.
    pub(super) fn field(&self, instruction: u32, word: u32) -> *const c_char {
        const FIRST: u32 = 1;
        let given = self.given.borrow().as_ref().map(Rc::clone);
        let known = given.or_else(|| self.find(FIRST));
        let name = known.as_ref().and_then(|known| {
            let names = known.fields.get(instruction as usize)?;
            names.get(word as usize)
        });
        name.map_or(ptr::null(), |name| name.as_ptr())
    }

    /// Returns a path that stays where it is.
    pub(super) fn path(&self, path: &[u8]) -> *const c_char {
        let mut paths = self.paths.borrow_mut();
        let kept = paths
            .entry(path.to_vec())
            .or_insert_with(|| CString::new(path).unwrap_or_default());
        kept.as_ptr()
    }

    /// Loads the queries of a text.
    ///
    /// # Errors
    /// Why they cannot be.
    pub(super) fn load(&self, name: &CStr, text: &CStr) -> Result<(), String> {
        let question = self.question()?;
        loads::load_text(question, name.to_bytes(), text.to_bytes())
    }

    /// Removes queries, as `trommel query remove` does.
    ///
    /// # Errors
    /// There are none.
    pub(super) fn remove(&self, what: &CStr) -> Result<(), String> {
        loads::remove(self.question()?, &what.to_string_lossy()).map(drop)
    }

    fn question(&self) -> Result<&'static Question, String> {
        self.question.filter(|_| self.changes).ok_or_else(|| {
            "the queries of this session stay as they are: it has a compressor of messages, or no queries"
                .to_owned()
        })
    }
}
