//! Services in libraries: the C interface of `include/trommel_service.h`.
//!
//! # Problem
//! A library is foreign code: its table may be of another version, or incomplete, and it may fail at any time.
//! The program that is observed has to go on.
//!
//! # Strategy
//! A library's table is checked and copied when it is loaded, before the program starts. The library stays
//! loaded until we end. Each process has an *instance* of each service. An instance that reports a failure is
//! given nothing more, and the profile says why.
//!
//! # Invariants
//! * The serving thread calls the functions of a library, one at a time.
//! * What a library holds a pointer to, an [`Ours`], is after shared references only and changed through cells; none
//!   of them is borrowed while the library runs.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};

use trommel_profile::intervals as profile;
use trommel_profile::queries::Served;
use trommel_queue::dict::TargetPc;
use trommel_tuple::{ModuleId, Place, Vaddr};

use super::loading::Loading;
use super::message::{Message, Service};
use crate::channel::modules::Modules;
use crate::channel::question::Question;
use crate::channel::table::{Table, Wrong, text};

/// The version of the interface.
const VERSION: u32 = 1;
/// Words of a message, columns of a table.
const WORDS: usize = 7;
/// The symbol that a library exports.
const SYMBOL: &str = "trommel_service";
/// Bytes of its table.
const TABLE: usize = size_of::<RawService>();
/// Rows that an instance may have.
const MOST_ROWS: usize = 1 << 20;

/// `struct trommel_message`.
#[repr(C)]
struct RawMessage {
    size: u32,
    pid: u32,
    thread: u32,
    queue: u8,
    instruction: u8,
    words: u8,
    addresses: u8,
    word: [u64; WORDS],
    stands_for: u64,
    load: *const c_char,
}

/// `struct trommel_host`.
#[repr(C)]
struct RawHost {
    size: u32,
    version: u32,
    place: extern "C" fn(*const Ours, u64) -> u64,
    columns: unsafe extern "C" fn(*const Ours, *const *const c_char, usize, u32) -> c_int,
    row: unsafe extern "C" fn(*const Ours, *const u64, u64) -> c_int,
    fail: unsafe extern "C" fn(*const Ours, *const c_char),
    field: extern "C" fn(*const Ours, u32, u32) -> *const c_char,
    load: unsafe extern "C" fn(
        *const Ours,
        *const c_char,
        *const c_char,
        *mut c_char,
        usize,
    ) -> c_int,
    remove: unsafe extern "C" fn(*const Ours, *const c_char, *mut c_char, usize) -> c_int,
    module: unsafe extern "C" fn(*const Ours, u64, *mut u64) -> *const c_char,
}

/// `struct trommel_service`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawService {
    version: u32,
    size: u32,
    create: Option<unsafe extern "C" fn(*const Ours, *const c_char) -> *mut c_void>,
    message: Option<unsafe extern "C" fn(*mut c_void, *const RawMessage) -> c_int>,
    finish: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// Members of `struct trommel_service` after the first version's, if it is as large.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawMore {
    first: RawService,
    interrupt: Option<Interrupt>,
}

type Interrupt = unsafe extern "C" fn(*mut c_void, *const RawMessage, c_int) -> c_int;

/// The same, with those that came after these.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawMost {
    more: RawMore,
    interval: Option<Interval>,
}

type Interval = unsafe extern "C" fn(*mut c_void, *const RawInterval) -> c_int;

/// `struct trommel_candidate`.
#[repr(C)]
struct RawCandidate {
    word: [u64; 2],
    count: u64,
    kind: u32,
    places: u32,
}

/// `struct trommel_interval`.
#[repr(C)]
struct RawInterval {
    size: u32,
    pid: u32,
    thread: u32,
    stride: u32,
    number: u64,
    start: u64,
    events: u64,
    count: u64,
    candidates: *const RawCandidate,
}

/// The functions of a service, all there but for those that came later.
#[derive(Clone, Copy, Debug)]
struct Functions {
    create: unsafe extern "C" fn(*const Ours, *const c_char) -> *mut c_void,
    message: unsafe extern "C" fn(*mut c_void, *const RawMessage) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void),
    interrupt: Option<Interrupt>,
    interval: Option<Interval>,
}

/// The reason why a library is not a service.
#[derive(Debug, thiserror::Error)]
pub enum NotLoaded {
    /// No file.
    #[error("cannot read it: {0}")]
    File(io::Error),
    /// The loader refuses it.
    #[error("it is not a library that can be loaded: {0}; build it with -shared -fPIC")]
    Library(String),
    /// Another kind of library.
    #[error(
        "it is a library, but no service: it does not export the function {SYMBOL}, see include/trommel_service.h"
    )]
    Symbol,
    /// No table.
    #[error("its function {SYMBOL} returned no table")]
    Table,
    /// Another version.
    #[error(
        "it is built for version {0} of the interface for services, and this trommel has version {VERSION}: build it \
         with this trommel's include/trommel_service.h"
    )]
    Version(u32),
    /// A table that is too small.
    #[error(
        "its table has {0} bytes and should have {TABLE}: set `size` to sizeof(struct trommel_service)"
    )]
    Size(u32),
    /// A missing function.
    #[error("its table has no function `{0}`")]
    Null(&'static str),
    /// It has no queue, and nothing else to be given.
    #[error(
        "its table has no function `interval`, which a service without a queue is for: write QUEUE=LIB to give it messages"
    )]
    NoIntervals,
}

impl From<Wrong> for NotLoaded {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Library(why) => Self::Library(why),
            Wrong::Symbol => Self::Symbol,
            Wrong::None => Self::Table,
            Wrong::Version(version) => Self::Version(version),
            Wrong::Size(size) => Self::Size(size),
        }
    }
}

/// A service in a library, loaded.
#[derive(Clone, Debug)]
pub struct Foreign {
    name: String,
    queue: Option<u8>,
    argument: CString,
    functions: Functions,
}

impl Foreign {
    /// Loads the library at `path`, for good. The report calls it `name`; it is to have messages of `queue`.
    /// Without a queue it has intervals alone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(
        path: &Path,
        name: String,
        queue: Option<u8>,
        argument: CString,
    ) -> Result<Self, NotLoaded> {
        // The loader would look for a name without a slash elsewhere.
        let path = std::fs::canonicalize(path).map_err(NotLoaded::File)?;
        std::fs::File::open(&path).map_err(NotLoaded::File)?;
        // SAFETY: whoever names it here wants what it does; they are told in docs/query.md what it may do. The rest is the
        // contract of the name.
        let table = unsafe { Table::load(&path, SYMBOL, VERSION) }?;
        let functions = functions(&table)?;
        if queue.is_none() && functions.interval.is_none() {
            return Err(NotLoaded::NoIntervals);
        }
        Ok(Self {
            name,
            queue,
            argument,
            functions,
        })
    }

    /// Returns its name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// The functions in a library's table.
fn functions(table: &Table) -> Result<Functions, NotLoaded> {
    // SAFETY: the table is of this version; entries may be null.
    let raw = unsafe { table.read::<RawService>() }?;
    // SAFETY: likewise.
    let more = unsafe { table.read::<RawMore>() };
    let interrupt = more.ok().and_then(|more| more.interrupt);
    // SAFETY: likewise.
    let most = unsafe { table.read::<RawMost>() };
    let interval = most.ok().and_then(|most| most.interval);
    Ok(Functions {
        create: raw.create.ok_or(NotLoaded::Null("create"))?,
        message: raw.message.ok_or(NotLoaded::Null("message"))?,
        finish: raw.finish.ok_or(NotLoaded::Null("finish"))?,
        destroy: raw.destroy.ok_or(NotLoaded::Null("destroy"))?,
        interrupt,
        interval,
    })
}

/// State that an instance has a pointer to: a `struct trommel_host`, and after it our own.
#[repr(C)]
struct Ours {
    host: RawHost,
    /// The process's modules, while a function is called that may ask for them.
    modules: Cell<*const Modules>,
    loading: Loading,
    /// The failure of the called function, as it reports it.
    said: RefCell<Option<String>>,
    columns: RefCell<Vec<String>>,
    places: Cell<u8>,
    rows: RefCell<BTreeMap<Vec<u64>, u64>>,
    /// Counts of rows that were not kept.
    lost: Cell<u64>,
}

/// A service at work for one process.
pub struct Instance {
    of: Foreign,
    ours: NonNull<Ours>,
    /// The library's part, unless it could not be created.
    this: Option<NonNull<c_void>>,
    /// Messages that it was given, or intervals where it has no queue.
    messages: u64,
    failed: Option<String>,
}

impl Instance {
    /// Creates one, in a session that asks `question`. `changes`: it may change that. It may have failed at once.
    pub fn begin(of: &Foreign, question: Option<&'static Question>, changes: bool) -> Self {
        let host = RawHost {
            size: size_of::<RawHost>() as u32,
            version: VERSION,
            place,
            columns,
            row,
            fail,
            field,
            load,
            remove,
            module,
        };
        let ours = Box::new(Ours {
            host,
            modules: Cell::new(ptr::null()),
            loading: Loading::new(question, changes),
            said: RefCell::default(),
            columns: RefCell::default(),
            places: Cell::new(0),
            rows: RefCell::default(),
            lost: Cell::new(0),
        });
        let ours = NonNull::from(Box::leak(ours));
        // SAFETY: the function is the library's own, `ours` is there until `drop`, the argument ends in a 0.
        let this = unsafe { (of.functions.create)(ours.as_ptr(), of.argument.as_ptr()) };
        let mut instance = Self {
            of: of.clone(),
            ours,
            this: NonNull::new(this),
            messages: 0,
            failed: None,
        };
        if instance.this.is_none() {
            instance.failed = Some(instance.reason("create", None));
        }
        instance
    }

    /// Returns why it is given nothing more, if it has failed.
    pub fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    fn ours(&self) -> &Ours {
        // SAFETY: it is there until `drop`, and nobody has a mutable reference to it.
        unsafe { self.ours.as_ref() }
    }

    fn reason(&self, function: &str, returned: Option<c_int>) -> String {
        let said = self.ours().said.take();
        let returned = || match returned {
            Some(number) => format!("{number}"),
            None => "NULL".into(),
        };
        said.unwrap_or_else(|| format!("its function {function} returned {}", returned()))
    }

    /// Calls one of its functions, with `modules` to ask. It fails when the function returns another number than 0.
    fn call(
        &mut self,
        name: &str,
        modules: &Modules,
        function: impl FnOnce(&Functions, *mut c_void) -> c_int,
    ) {
        let (Some(this), None) = (self.this, &self.failed) else {
            return;
        };
        self.ours().modules.set(modules);
        self.ours().said.take();
        let returned = function(&self.of.functions, this.as_ptr());
        self.ours().modules.set(ptr::null());
        self.ours().loading.rest();
        if returned != 0 {
            self.failed = Some(self.reason(name, Some(returned)));
        }
    }

    /// Returns true if it has a function for intervals.
    pub const fn takes_intervals(&self) -> bool {
        self.of.functions.interval.is_some()
    }

    /// An interval has ended of a process and its thread.
    pub fn interval(
        &mut self,
        (pid, thread): (u32, u32),
        interval: &profile::Interval,
        modules: &Modules,
    ) {
        let Some(function) = self.of.functions.interval.filter(|_| self.failed.is_none()) else {
            return;
        };
        self.messages += u64::from(self.of.queue.is_none());
        let candidates: Vec<_> = interval.candidates.iter().map(candidate).collect();
        let raw = RawInterval {
            size: size_of::<RawInterval>() as u32,
            pid,
            thread,
            stride: size_of::<RawCandidate>() as u32,
            number: interval.number,
            start: interval.start,
            events: interval.events,
            count: candidates.len() as u64,
            candidates: candidates.as_ptr(),
        };
        self.call("interval", modules, |_, this| {
            // SAFETY: the instance was created, has not failed, and is not destroyed yet. The function is the library's own.
            unsafe { function(this, &raw) }
        });
    }

    /// The process `pid` has ended: what the service has come to.
    pub fn finish(mut self, pid: u32, modules: &Modules) -> Served {
        self.call("finish", modules, |functions, this| {
            // SAFETY: the instance was created, has not failed, and is not destroyed yet.
            unsafe { (functions.finish)(this) }
        });
        let given = match self.of.queue {
            Some(_) => "messages",
            None => "intervals",
        };
        let told = |why| format!("after {} {given} of process {pid}: {why}", self.messages);
        let failures = self.failed.take().map(told).into_iter().collect();
        let ours = self.ours();
        Served {
            name: self.of.name.clone(),
            messages: self.messages,
            columns: ours.columns.take(),
            places: ours.places.get(),
            rows: ours.rows.take(),
            lost: ours.lost.get(),
            failures,
            intervals: None,
        }
    }
}

/// A candidate as the interface has it.
fn candidate(message: &trommel_tuple::Message) -> RawCandidate {
    RawCandidate {
        word: [message.tuple.pc.word(), message.tuple.value],
        count: message.count,
        kind: message.kind as u32,
        places: match message.kind.value_is_place() {
            true => 3,
            false => 1,
        },
    }
}

impl Instance {
    /// A message as the interface has it, which is given next.
    fn raw(&self, message: &Message<'_>) -> RawMessage {
        let mut word = [0; WORDS];
        for (to, from) in word.iter_mut().zip(message.words) {
            *to = *from;
        }
        RawMessage {
            size: size_of::<RawMessage>() as u32,
            pid: message.pid,
            thread: message.thread,
            queue: message.header.queue,
            instruction: message.header.at,
            words: message.words.len().min(WORDS) as u8,
            addresses: message.places,
            word,
            stands_for: message.stands_for,
            load: self.ours().loading.give(message.load.0),
        }
    }
}

impl Service for Instance {
    fn message(&mut self, message: &Message<'_>, modules: &Modules) {
        if Some(message.header.queue) != self.of.queue || self.failed.is_some() {
            return;
        }
        let raw = self.raw(message);
        self.messages += 1;
        self.call("message", modules, |functions, this| {
            // SAFETY: the instance was created, has not failed, and is not destroyed yet.
            unsafe { (functions.message)(this, &raw) }
        });
    }

    fn interrupt(&mut self, message: &Message<'_>, sync: bool, modules: &Modules) {
        let Some(interrupt) = self.of.functions.interrupt else {
            return;
        };
        let raw = self.raw(message);
        self.call("interrupt", modules, |_, this| {
            // SAFETY: as above, and the function is the library's own.
            unsafe { interrupt(this, &raw, sync.into()) }
        });
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(this) = self.this {
            // SAFETY: the instance was created, and this is the last call for it.
            unsafe { (self.of.functions.destroy)(this.as_ptr()) };
        }
        // SAFETY: it was leaked in `begin`; the library may not use it any more.
        drop(unsafe { Box::from_raw(self.ours.as_ptr()) });
    }
}

extern "C" fn place(ours: *const Ours, address: u64) -> u64 {
    // SAFETY: a library has the pointer from `create`, and may use it until `destroy` returns.
    let ours = unsafe { &*ours };
    // SAFETY: set while a function is called, for which `call` has a reference.
    let place = match unsafe { ours.modules.get().as_ref() } {
        Some(modules) => modules.place_at(TargetPc(address)),
        None => Place::new(ModuleId::ANON, Vaddr(address)),
    };
    place.word()
}

unsafe extern "C" fn columns(
    ours: *const Ours,
    titles: *const *const c_char,
    count: usize,
    places: u32,
) -> c_int {
    // SAFETY: as in `place`.
    let ours = unsafe { &*ours };
    let mut columns = ours.columns.borrow_mut();
    if !columns.is_empty()
        || titles.is_null()
        || !(1..=WORDS).contains(&count)
        || places >> count != 0
    {
        return -1;
    }
    // SAFETY: the contract of `columns`: so many pointers to texts.
    let given = (0..count).map(|n| unsafe { text(titles.add(n).read()) });
    let Some(given) = given.collect::<Option<Vec<String>>>() else {
        return -1;
    };
    // The report has a count beside them, and each once.
    let wrong = |(n, title): (usize, &String)| {
        title.is_empty() || title == "count" || given[..n].contains(title)
    };
    if given.iter().enumerate().any(wrong) {
        return -1;
    }
    *columns = given;
    ours.places.set(places as u8);
    0
}

unsafe extern "C" fn row(ours: *const Ours, words: *const u64, count: u64) -> c_int {
    // SAFETY: as in `place`.
    let ours = unsafe { &*ours };
    let columns = ours.columns.borrow().len();
    if columns == 0 || words.is_null() {
        return -1;
    }
    // SAFETY: the contract of `row`: a word for each column.
    let words: Vec<u64> = (0..columns)
        .map(|n| unsafe { words.add(n).read() })
        .collect();
    let mut rows = ours.rows.borrow_mut();
    if rows.len() >= MOST_ROWS && !rows.contains_key(&words) {
        ours.lost.set(ours.lost.get().saturating_add(count));
        return 1;
    }
    let sum = rows.entry(words).or_default();
    *sum = sum.saturating_add(count);
    0
}

extern "C" fn field(ours: *const Ours, instruction: u32, word: u32) -> *const c_char {
    // SAFETY: as in `place`.
    let ours = unsafe { &*ours };
    ours.loading.field(instruction, word)
}

unsafe extern "C" fn load(
    ours: *const Ours,
    name: *const c_char,
    queries: *const c_char,
    why: *mut c_char,
    room: usize,
) -> c_int {
    if name.is_null() || queries.is_null() {
        return -1;
    }
    // SAFETY: as in `place`; the contract of `load` says that both texts end in a 0.
    let (ours, name, queries) = unsafe { (&*ours, CStr::from_ptr(name), CStr::from_ptr(queries)) };
    // SAFETY: the contract of `load` says how much room there is.
    unsafe { told(ours.loading.load(name, queries), why, room) }
}

unsafe extern "C" fn remove(
    ours: *const Ours,
    what: *const c_char,
    why: *mut c_char,
    room: usize,
) -> c_int {
    if what.is_null() {
        return -1;
    }
    // SAFETY: as in `load`.
    let (ours, what) = unsafe { (&*ours, CStr::from_ptr(what)) };
    // SAFETY: as in `load`.
    unsafe { told(ours.loading.remove(what), why, room) }
}

/// Returns 0, or -1 with the reason.
///
/// # Safety
/// `why` is null, or has so many bytes of room.
unsafe fn told(done: Result<(), String>, why: *mut c_char, room: usize) -> c_int {
    let Err(said) = done else { return 0 };
    if !why.is_null() && room > 0 {
        let fits = (0..room.min(said.len() + 1))
            .rev()
            .find(|&n| said.is_char_boundary(n));
        let bytes = &said.as_bytes()[..fits.unwrap_or(0)];
        // SAFETY: as the caller says; the 0 has room, too.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), why.cast(), bytes.len());
            why.add(bytes.len()).write(0);
        }
    }
    -1
}

unsafe extern "C" fn module(ours: *const Ours, place: u64, address: *mut u64) -> *const c_char {
    // SAFETY: as in `place`.
    let ours = unsafe { &*ours };
    let place = Place::from_word(place);
    // SAFETY: set while a function is called, for which `call` has a reference.
    let modules = unsafe { ours.modules.get().as_ref() };
    let of = modules.and_then(|modules| modules.list.get(usize::from(place.module().0)));
    if !address.is_null() {
        // SAFETY: the contract of `module`.
        unsafe { address.write(place.vaddr().0) };
    }
    match of {
        Some(module) if place.module() != ModuleId::ANON => ours.loading.path(&module.path),
        _ => ptr::null(),
    }
}

unsafe extern "C" fn fail(ours: *const Ours, said: *const c_char) {
    // SAFETY: as in `place`; the contract of `fail` says what `said` is.
    let (ours, said) = unsafe { (&*ours, text(said)) };
    ours.said.replace(said);
}
