//! A customisation module: for each load, the store that wrote what it reads.
//!
//! This is the example of *Value Sampling*, section 2.4: addresses of loads and stores become pairs (p, v) "where v is the PC of another instruction
//! accessing the same address as the instruction at p". A load whose bytes mostly come from one store nearby might take them from a register.
//!
//! `cargo build --release` makes `target/release/libstores.so`; then `trommel record --budget 3 --module-lib target/release/libstores.so -- ./app`.
//! The structures are those of `include/trommel_module.h`.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};

const VERSION: u32 = 1;
const PLACES: u32 = 1;
const CLASSES: usize = 7;
const LOAD: u8 = 2;
const STORE: u8 = 3;
const ADDRESS: u32 = 8;

#[repr(C)]
struct Instruction {
    size: u32,
    number: u32,
    pc: u64,
    code: *const u8,
    mnemonic: *const c_char,
    length: u8,
    kind: u8,
}

#[repr(C)]
struct Tuple {
    instruction: *const Instruction,
    op: [u64; 3],
    result: u64,
    address: u64,
    taken: u64,
}

#[repr(C)]
struct Window {
    size: u32,
    pid: u32,
    thread: u32,
    stride: u32,
    count: usize,
    tuples: *const u8,
}

#[repr(C)]
struct Host {
    size: u32,
    version: u32,
    pair: unsafe extern "C" fn(*const Host, u64, u64) -> c_int,
    fail: unsafe extern "C" fn(*const Host, *const c_char),
}

type Format = unsafe extern "C" fn(*mut c_void, *const Instruction, u64, *mut c_char, usize) -> c_int;

#[repr(C)]
pub struct Module {
    version: u32,
    size: u32,
    title: *const c_char,
    values: u32,
    capture: [u32; CLASSES],
    create: unsafe extern "C" fn(*const Host, *const c_char) -> *mut c_void,
    window: unsafe extern "C" fn(*mut c_void, *const Window) -> c_int,
    format: Option<Format>,
    destroy: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: nothing in it changes, and what it points to is there for good.
unsafe impl Sync for Module {}

/// Trommel's side. It is kept as a pointer: what trommel knows of it follows it in memory.
#[derive(Clone, Copy)]
struct Trommel(*const Host);

impl Trommel {
    fn pair(self, pc: u64, value: u64) {
        // SAFETY: valid until the instance is destroyed; called within its functions only.
        unsafe { ((*self.0).pair)(self.0, pc, value) };
    }

    fn fail(self, why: &CStr) {
        // SAFETY: as above.
        unsafe { ((*self.0).fail)(self.0, why.as_ptr()) }
    }
}

struct Stores {
    trommel: Trommel,
    /// By address, the store of this window that wrote there last.
    last: HashMap<u64, u64>,
}

impl Stores {
    /// An access, by an instruction at `pc`.
    fn access(&mut self, kind: u8, pc: u64, address: u64) {
        match kind {
            // No memory is accessed.
            _ if address == 0 => {}
            STORE => {
                self.last.insert(address, pc);
            }
            _ => {
                if let Some(store) = self.last.get(&address) {
                    self.trommel.pair(pc, *store);
                }
            }
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
    let last = HashMap::new();
    Box::into_raw(Box::new(Stores { trommel, last })).cast()
}

unsafe extern "C" fn window(this: *mut c_void, window: *const Window) -> c_int {
    // SAFETY: what `create` returned, used by one call at a time; a window valid during the call.
    let (this, window) = unsafe { (&mut *this.cast::<Stores>(), &*window) };
    // What was stored between two windows is not known.
    this.last.clear();
    for n in 0..window.count {
        // SAFETY: there are `count` tuples, `stride` bytes apart, and each has an instruction.
        let (tuple, instruction) = unsafe {
            let tuple = &*window.tuples.add(n * window.stride as usize).cast::<Tuple>();
            (tuple, &*tuple.instruction)
        };
        this.access(instruction.kind, instruction.pc, tuple.address);
    }
    0
}

unsafe extern "C" fn destroy(this: *mut c_void) {
    // SAFETY: what `create` returned, for the last time.
    drop(unsafe { Box::from_raw(this.cast::<Stores>()) });
}

/// Returns the table of this library.
#[unsafe(no_mangle)]
pub extern "C" fn trommel_module() -> *const Module {
    static MODULE: Module = {
        let mut capture = [0; CLASSES];
        capture[LOAD as usize] = ADDRESS;
        capture[STORE as usize] = ADDRESS;
        Module {
            version: VERSION,
            size: size_of::<Module>() as u32,
            title: c"stores that wrote what a load reads".as_ptr(),
            values: PLACES,
            capture,
            create,
            window,
            format: None,
            destroy,
        }
    };
    &MODULE
}
