//! A module's library, loaded and called: the C interface of `include/trommel_module.h`, in the helper.
//!
//! # Invariants
//! * Nothing of this is executed in the process that observes: the library may do anything there.
//! * What the library holds pointers to stays where it is until its instance is destroyed.
#![allow(unsafe_code)] // reason: the interface is C's.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::NonNull;

use iced_x86::{Decoder, DecoderOptions};

use super::terms::{CLASSES, EVERYTHING, Refusal, SYMBOL, TABLE, Terms, VERSION};
use super::wire::{Met, Reply};
use crate::channel::table::{MOST_TEXT, Table, text};

/// Pairs of a window.
pub(super) const MOST_PAIRS: usize = 1 << 16;

/// `struct trommel_instruction`.
#[repr(C)]
struct RawInstruction {
    size: u32,
    number: u32,
    pc: u64,
    code: *const u8,
    mnemonic: *const c_char,
    length: u8,
    kind: u8,
}

/// `struct trommel_tuple`.
#[repr(C)]
struct RawTuple {
    instruction: *const RawInstruction,
    op: [u64; 3],
    result: u64,
    address: u64,
    taken: u64,
}

/// `struct trommel_window`.
#[repr(C)]
struct RawWindow {
    size: u32,
    pid: u32,
    thread: u32,
    stride: u32,
    count: usize,
    tuples: *const RawTuple,
}

/// `struct trommel_module_host`.
#[repr(C)]
struct RawHost {
    size: u32,
    version: u32,
    pair: extern "C" fn(*const Ours, u64, u64) -> c_int,
    fail: unsafe extern "C" fn(*const Ours, *const c_char),
}

type Format =
    unsafe extern "C" fn(*mut c_void, *const RawInstruction, u64, *mut c_char, usize) -> c_int;

/// `struct trommel_module`.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawModule {
    version: u32,
    size: u32,
    title: *const c_char,
    values: u32,
    capture: [u32; CLASSES],
    create: Option<unsafe extern "C" fn(*const Ours, *const c_char) -> *mut c_void>,
    window: Option<unsafe extern "C" fn(*mut c_void, *const RawWindow) -> c_int>,
    format: Option<Format>,
    destroy: Option<unsafe extern "C" fn(*mut c_void)>,
}

/// A module, loaded for good.
pub(super) struct Module {
    pub(super) terms: Terms,
    create: unsafe extern "C" fn(*const Ours, *const c_char) -> *mut c_void,
    window: unsafe extern "C" fn(*mut c_void, *const RawWindow) -> c_int,
    format: Option<Format>,
    destroy: unsafe extern "C" fn(*mut c_void),
}

impl Module {
    /// Loads the library at an absolute path.
    pub(super) fn load(path: &Path) -> Result<Self, Refusal> {
        // SAFETY: this process is there for whatever it does; the rest is the contract of the name.
        let table = unsafe { Table::load(path, SYMBOL, VERSION) }?;
        // SAFETY: the table is of this version; entries may be null.
        Self::of(unsafe { table.read::<RawModule>() }?)
    }

    fn of(table: RawModule) -> Result<Self, Refusal> {
        // SAFETY: the contract of the interface: a text, or nothing.
        let title = unsafe { text(table.title) };
        let title = title.filter(|title| !title.trim().is_empty());
        if table.values > 1 {
            return Err(Refusal::Values(table.values));
        }
        if let Some(class) = table
            .capture
            .iter()
            .position(|bits| bits & !EVERYTHING != 0)
        {
            return Err(Refusal::Capture(class));
        }
        if table.capture.iter().all(|bits| *bits == 0) {
            return Err(Refusal::Nothing);
        }
        Ok(Self {
            terms: Terms {
                title: title.ok_or(Refusal::Null("title"))?,
                places: table.values == 1,
                capture: table.capture,
            },
            create: table.create.ok_or(Refusal::Null("create"))?,
            window: table.window.ok_or(Refusal::Null("window"))?,
            format: table.format,
            destroy: table.destroy.ok_or(Refusal::Null("destroy"))?,
        })
    }
}

/// State that an instance holds a pointer to.
#[repr(C)]
struct Ours {
    host: RawHost,
    said: RefCell<Option<String>>,
    pairs: RefCell<Vec<(u64, u64)>>,
    /// Pairs that there was no room for.
    over: Cell<bool>,
}

/// An instruction, and what its structure points to.
struct Known {
    raw: RawInstruction,
    _code: Box<[u8]>,
    _mnemonic: CString,
}

/// An instance of a module: of a process.
pub(super) struct Instance<'m> {
    of: &'m Module,
    ours: NonNull<Ours>,
    this: NonNull<c_void>,
    /// Instructions by number. They stay where they are: tuples point to them.
    known: BTreeMap<u32, Box<Known>>,
    tuples: Vec<RawTuple>,
}

impl<'m> Instance<'m> {
    /// Another; or why there is none.
    pub(super) fn begin(of: &'m Module, argument: &CStr) -> Result<Self, String> {
        let ours = Box::new(Ours {
            host: RawHost {
                size: size_of::<RawHost>() as u32,
                version: VERSION,
                pair,
                fail,
            },
            said: RefCell::default(),
            pairs: RefCell::default(),
            over: Cell::new(false),
        });
        let ours = NonNull::from(Box::leak(ours));
        // SAFETY: the function is the library's own, `ours` is there until `drop`, the argument ends in a 0.
        let this = unsafe { (of.create)(ours.as_ptr(), argument.as_ptr()) };
        let Some(this) = NonNull::new(this) else {
            // SAFETY: it was leaked above, and there is no instance that may use it.
            let ours = unsafe { Box::from_raw(ours.as_ptr()) };
            let said = ours.said.take();
            return Err(said.unwrap_or_else(|| "its function create returned NULL".into()));
        };
        Ok(Self {
            of,
            ours,
            this,
            known: BTreeMap::new(),
            tuples: Vec::new(),
        })
    }

    fn ours(&self) -> &Ours {
        // SAFETY: it is there until `drop`, and nobody has a mutable reference to it.
        unsafe { self.ours.as_ref() }
    }

    /// An instruction that windows will tell of.
    pub(super) fn meet(&mut self, met: Met<'_>) {
        let code: Box<[u8]> = met.code.into();
        let decoded = Decoder::with_ip(64, &code, met.pc, DecoderOptions::NONE).decode();
        let mnemonic = format!("{:?}", decoded.mnemonic()).to_ascii_lowercase();
        let mnemonic = CString::new(mnemonic).unwrap_or_default();
        let raw = RawInstruction {
            size: size_of::<RawInstruction>() as u32,
            number: met.number,
            pc: met.pc,
            code: code.as_ptr(),
            mnemonic: mnemonic.as_ptr(),
            length: code.len() as u8,
            kind: met.class,
        };
        let known = Known {
            raw,
            _code: code,
            _mnemonic: mnemonic,
        };
        self.known.insert(met.number, Box::new(known));
    }

    /// Hands over what a thread of a process executed, as [`super::wire::Request::Window`] has it. None: it is malformed.
    pub(super) fn window(&mut self, (pid, thread): (u32, u32), mut bytes: &[u8]) -> Option<Reply> {
        let mut tuples = std::mem::take(&mut self.tuples);
        tuples.clear();
        while !bytes.is_empty() {
            let (number, mut rest) = bytes.split_first_chunk::<4>()?;
            let known = self.known.get(&u32::from_le_bytes(*number))?;
            let capture = self.of.terms.capture.get(usize::from(known.raw.kind))?;
            let mut word = |wanted: bool| {
                if !wanted {
                    return Some(0);
                }
                let (word, left) = rest.split_first_chunk::<8>()?;
                rest = left;
                Some(u64::from_le_bytes(*word))
            };
            let has = |bit| capture & bit != 0;
            let operands = has(super::terms::OPERANDS);
            let tuple = RawTuple {
                instruction: &raw const known.raw,
                op: [word(operands)?, word(operands)?, word(operands)?],
                result: word(has(super::terms::RESULT))?,
                address: word(has(super::terms::ADDRESS))?,
                taken: word(has(super::terms::OUTCOME))? & 1,
            };
            bytes = rest;
            tuples.push(tuple);
        }
        let window = RawWindow {
            size: size_of::<RawWindow>() as u32,
            pid,
            thread,
            stride: size_of::<RawTuple>() as u32,
            count: tuples.len(),
            tuples: tuples.as_ptr(),
        };
        let ours = self.ours();
        ours.said.take();
        // SAFETY: the instance was created and is not destroyed yet; the window is valid during the call.
        let returned = unsafe { (self.of.window)(self.this.as_ptr(), &raw const window) };
        let pairs = ours.pairs.take();
        let reply = if ours.over.get() {
            Reply::Failed(format!(
                "it gave more than {MOST_PAIRS} pairs for a window of {} instructions",
                tuples.len()
            ))
        } else if returned != 0 {
            let said = ours.said.take();
            Reply::Failed(
                said.unwrap_or_else(|| format!("its function window returned {returned}")),
            )
        } else {
            Reply::Pairs(pairs)
        };
        self.tuples = tuples;
        Some(reply)
    }

    /// The text of a value of an instruction's.
    pub(super) fn format(&self, number: u32, value: u64) -> Option<String> {
        let format = self.of.format?;
        let known = self.known.get(&number)?;
        let mut buffer = [MaybeUninit::<c_char>::zeroed(); MOST_TEXT];
        let to = buffer.as_mut_ptr().cast::<c_char>();
        // SAFETY: the instance is there; the instruction is, and so many bytes.
        let returned = unsafe {
            format(
                self.this.as_ptr(),
                &raw const known.raw,
                value,
                to,
                MOST_TEXT,
            )
        };
        if returned != 0 {
            return None;
        }
        // SAFETY: in the buffer, whose bytes are all initialised.
        unsafe { to.add(MOST_TEXT - 1).write(0) };
        // SAFETY: it ends in a 0 at the latest there.
        unsafe { text(to) }
    }
}

impl Drop for Instance<'_> {
    fn drop(&mut self) {
        // SAFETY: the instance was created, and this is the last call for it.
        unsafe { (self.of.destroy)(self.this.as_ptr()) };
        // SAFETY: it was leaked in `begin`; the library may not use it any more.
        drop(unsafe { Box::from_raw(self.ours.as_ptr()) });
    }
}

extern "C" fn pair(ours: *const Ours, pc: u64, value: u64) -> c_int {
    // SAFETY: a library has the pointer from `create`, and may use it until `destroy` returns.
    let ours = unsafe { &*ours };
    let mut pairs = ours.pairs.borrow_mut();
    if pairs.len() >= MOST_PAIRS {
        ours.over.set(true);
        return -1;
    }
    pairs.push((pc, value));
    0
}

unsafe extern "C" fn fail(ours: *const Ours, said: *const c_char) {
    // SAFETY: as in `pair`; the contract of `fail` says what `said` is.
    let (ours, said) = unsafe { (&*ours, text(said)) };
    ours.said.replace(said);
}

const _: () = assert!(size_of::<RawModule>() == TABLE && size_of::<RawTuple>() == 56);
