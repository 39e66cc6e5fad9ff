//! The service of `examples/service/edges.c` in Rust: how often each branch was taken, and how often not.
//!
//! ```text
//! for opBRANCH * every 256 collect pc misc;
//!     send 1 stop;
//! ```
//!
//! `cargo build --release` makes `target/release/libedges.so`. The structures are those of
//! `include/trommel_service.h`.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};

const VERSION: u32 = 1;

#[repr(C)]
struct Message {
    size: u32,
    pid: u32,
    thread: u32,
    queue: u8,
    instruction: u8,
    words: u8,
    addresses: u8,
    word: [u64; 7],
}

#[repr(C)]
struct Host {
    size: u32,
    version: u32,
    place: unsafe extern "C" fn(*const Host, u64) -> u64,
    columns: unsafe extern "C" fn(*const Host, *const *const c_char, usize, u32) -> c_int,
    row: unsafe extern "C" fn(*const Host, *const u64, u64) -> c_int,
    fail: unsafe extern "C" fn(*const Host, *const c_char),
}

#[repr(C)]
pub struct Service {
    version: u32,
    size: u32,
    create: unsafe extern "C" fn(*const Host, *const c_char) -> *mut c_void,
    message: unsafe extern "C" fn(*mut c_void, *const Message) -> c_int,
    finish: unsafe extern "C" fn(*mut c_void) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_void),
}

/// Trommel's side. It is kept as a pointer: what trommel knows of it follows it in memory.
#[derive(Clone, Copy)]
struct Trommel(*const Host);

impl Trommel {
    fn place(self, address: u64) -> u64 {
        // SAFETY: valid until the instance is destroyed; called within its functions only.
        unsafe { ((*self.0).place)(self.0, address) }
    }

    fn columns(self, titles: [&CStr; 2], places: u32) {
        let titles = titles.map(CStr::as_ptr);
        // SAFETY: as above; so many titles.
        unsafe { ((*self.0).columns)(self.0, titles.as_ptr(), titles.len(), places) };
    }

    fn row(self, words: [u64; 2], count: u64) {
        // SAFETY: as above; a word for each column.
        unsafe { ((*self.0).row)(self.0, words.as_ptr(), count) };
    }

    fn fail(self, why: &CStr) {
        // SAFETY: as above.
        unsafe { ((*self.0).fail)(self.0, why.as_ptr()) }
    }
}

/// By place, and whether the branch was taken.
struct Edges {
    trommel: Trommel,
    counts: HashMap<(u64, bool), u64>,
}

impl Edges {
    fn message(&mut self, words: &[u64], addresses: u8) -> c_int {
        let (&[pc, misc], 1) = (words, addresses) else {
            self.trommel
                .fail(c"the query should be on opBRANCH and collect pc and misc");
            return -1;
        };
        let edge = (self.trommel.place(pc), misc & 1 != 0);
        *self.counts.entry(edge).or_default() += 1;
        0
    }

    fn finish(&self) {
        for ((place, taken), count) in &self.counts {
            self.trommel.row([*place, (*taken).into()], *count);
        }
    }
}

unsafe extern "C" fn create(host: *const Host, argument: *const c_char) -> *mut c_void {
    let trommel = Trommel(host);
    // SAFETY: a text that ends in a 0, valid during the call.
    if !unsafe { CStr::from_ptr(argument) }.is_empty() {
        trommel.fail(c"it takes no argument");
        return std::ptr::null_mut();
    }
    trommel.columns([c"branch", c"taken"], 1);
    let counts = HashMap::new();
    Box::into_raw(Box::new(Edges { trommel, counts })).cast()
}

unsafe extern "C" fn message(this: *mut c_void, message: *const Message) -> c_int {
    // SAFETY: what `create` returned, used by one call at a time; a message valid during the call.
    let (this, message) = unsafe { (&mut *this.cast::<Edges>(), &*message) };
    this.message(&message.word[..message.words.into()], message.addresses)
}

unsafe extern "C" fn finish(this: *mut c_void) -> c_int {
    // SAFETY: as above.
    unsafe { &*this.cast::<Edges>() }.finish();
    0
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    // SAFETY: what `create` returned, for the last time.
    drop(unsafe { Box::from_raw(this.cast::<Edges>()) });
}

/// Returns the table of this library.
#[unsafe(no_mangle)]
pub extern "C" fn trommel_service() -> *const Service {
    static SERVICE: Service = Service {
        version: VERSION,
        size: size_of::<Service>() as u32,
        create,
        message,
        finish,
        destroy,
    };
    &SERVICE
}
