//! The table that a library returns, for any version of an interface.
//!
//! # Strategy
//! A library exports a function, which returns a table. A table begins with its version and its size, in every version of every
//! interface. What follows is read only where both say that it is there. A larger table is of a later trommel that added to it.
#![allow(unsafe_code)] // reason: the interfaces are C's.

use std::error::Error;
use std::ffi::{CStr, c_char};
use std::mem::ManuallyDrop;
use std::path::Path;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// The beginning of a table.
#[repr(C)]
struct Head {
    version: u32,
    size: u32,
}

/// The reason why there is no table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// The loader refuses the library, in its words.
    Library(String),
    /// The library does not export the function.
    Symbol,
    /// The function returns none.
    None,
    /// It is of this version.
    Version(u32),
    /// It has so many bytes, which are too few.
    Size(u32),
}

/// Bytes of a library's text that are read.
pub const MOST_TEXT: usize = 1 << 10;

/// A text of a library's, cut off where it is too long.
///
/// # Safety
/// It is null, or ends in a 0.
pub unsafe fn text(from: *const c_char) -> Option<String> {
    if from.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let bytes = unsafe { CStr::from_ptr(from) }.to_bytes();
    let bytes = &bytes[..bytes.len().min(MOST_TEXT)];
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// A table of a library that is loaded for good.
pub struct Table {
    at: *const Head,
    size: u32,
}

impl Table {
    /// Loads the library at an absolute path and asks the function `symbol` for its table, of a version.
    ///
    /// # Errors
    /// There is none of that version.
    ///
    /// # Safety
    /// The caller accepts whatever the library does when it is loaded. A function of that name has no parameters. It returns null, or a
    /// table that is as large as it says and stays.
    pub unsafe fn load(path: &Path, symbol: &str, version: u32) -> Result<Self, Wrong> {
        // SAFETY: its initialisers run, as the caller wants.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        // What it has started or registered may outlive any use of ours.
        let library = ManuallyDrop::new(library.map_err(|e| Wrong::Library(said(&e)))?);
        // SAFETY: the function has this type, as the caller says.
        let exported =
            unsafe { library.get::<unsafe extern "C" fn() -> *const Head>(symbol.as_bytes()) };
        let exported = exported.map_err(|_| Wrong::Symbol)?;
        // SAFETY: as above; it has no preconditions.
        let at = unsafe { exported() };
        if at.is_null() {
            return Err(Wrong::None);
        }
        // SAFETY: these two numbers are there; unaligned, as the table is another's.
        let head = unsafe { at.read_unaligned() };
        match head.version == version {
            true => Ok(Self {
                at,
                size: head.size,
            }),
            false => Err(Wrong::Version(head.version)),
        }
    }

    /// A copy of it, head and all.
    ///
    /// # Errors
    /// It is smaller.
    ///
    /// # Safety
    /// A table of that version, if it is as large, is a `T`.
    pub unsafe fn read<T: Copy>(&self) -> Result<T, Wrong> {
        if (self.size as usize) < size_of::<T>() {
            return Err(Wrong::Size(self.size));
        }
        // SAFETY: it says that it is that large, and is what the caller says.
        Ok(unsafe { self.at.cast::<T>().read_unaligned() })
    }
}

/// Returns the loader's message.
fn said(error: &libloading::Error) -> String {
    let said = error.source().map(ToString::to_string);
    said.unwrap_or_else(|| error.to_string())
}
