//! Fragments that earlier runs of the program left for this one, and that this one leaves for later ones.
//!
//! # Problem
//! Most of the code that a short program executes runs once. Translating it takes longer than executing it. The next run
//! makes the same fragments, at other addresses.
//!
//! # Strategy
//! Each fragment that can be used again is written to the slot as a record, without addresses
//! (`translate/persisted.rs`). The host keeps records in a file, the image, which the program's next run maps
//! (`trommel_queue::persist`). The dispatcher looks there before it translates. Records lie in the order in which
//! fragments were made. So a record is taken together with those that were made after it.
//!
//! # Why it is correct
//! * A record is found by the file of its code. It must be the file that the record was made from, by device, inode, size
//!   and time of the last change. The record holds the bytes of that code, which are compared when it is used.
//! * A fragment depends on these bytes, on the addresses of both, and on how this runtime translates. A record contains no
//!   addresses. The build and `Shape` stand in the image.
//! * A damaged record is recognised by its digest, and each number in it is checked before it is used. The program
//!   cannot write to the image.
#![allow(unsafe_code)] // reason: memory shared with the host.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};

use linux_raw_sys::general as nr;
use trommel_queue::MADE_OFFSET;
use trommel_queue::persist::{
    Head, Image, MADE_RECORDS, MAX_MODULES, MODULE_BYTES, Made, Module, PERSIST_BYTES, digest,
};

use crate::base::address::AppPc;
use crate::base::address::Range;
use crate::base::sys;
use crate::channel::slot::Mapped;
use crate::memory::mapping::{Mapping, Nature};

/// Origin of code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The file, by its number.
    pub module: u32,
    /// Address of its first byte, if all of it were mapped like this code.
    pub base: u64,
}

impl Origin {
    /// Returns the offset of an address in the file.
    pub fn offset(&self, pc: AppPc) -> Option<u32> {
        u32::try_from(pc.0.wrapping_sub(self.base)).ok()
    }

    /// The address of an offset in the file.
    pub fn address(&self, offset: u32) -> AppPc {
        AppPc(self.base.wrapping_add(offset.into()))
    }
}

/// A region that was looked into.
struct Known {
    range: Range,
    offset: u64,
    inode: u64,
    origin: Option<Origin>,
}

/// Records, where they are in use.
pub struct Persist {
    mapped: Mapped,
    image: Option<Image<'static>>,
    /// Modules by number: those of the image, then those that this run has added.
    modules: Vec<Module>,
    /// Number of modules of the image.
    kept: usize,
    known: Vec<Known>,
    /// Bytes of records written, in the process that executed the program.
    written: Option<usize>,
}

/// Maps an image, and closes its descriptor; nothing where that cannot be.
pub fn map(file: i32) -> &'static [u8] {
    let mapped = sys::map_file(file, PERSIST_BYTES);
    sys::close(file);
    let Ok((at, len)) = mapped else { return &[] };
    // SAFETY: mapped for good, for reading. Who keeps images replaces their files and never writes to one.
    unsafe { core::slice::from_raw_parts(at as *const u8, len) }
}

/// [`map`] of the file at a path, if it is the one with that device and inode.
///
/// # Safety
/// `path` must be the address of a string that ends with a NUL byte.
pub unsafe fn map_path(path: u64, is: [u64; 2]) -> &'static [u8] {
    let flags = u64::from(nr::O_RDONLY | nr::O_CLOEXEC | nr::O_NOFOLLOW);
    // SAFETY: the caller's.
    let Ok(file) = (unsafe { sys::checked(nr::__NR_open, [path, flags, 0, 0, 0, 0]) }) else {
        return &[];
    };
    let mut stat = [0_u64; 18];
    let args = [file, stat.as_mut_ptr() as u64, 0, 0, 0, 0];
    // SAFETY: room for what the kernel writes.
    let status = unsafe { sys::checked(nr::__NR_fstat, args) };
    if status.is_err() || stat[..2] != is {
        sys::close(file as i32);
        return &[];
    }
    map(file as i32)
}

impl Persist {
    /// Opens what was `kept`, with room for what is made. Returns `None` where nothing is kept.
    pub fn open(mapped: Mapped, shape: u32, kept: &'static [u8]) -> Option<Self> {
        let control = mapped.control();
        if control.setup.persist.load(Relaxed) == 0 {
            return None;
        }
        control.process.persist_shape.store(shape, Relaxed);
        let image = Image::read(kept, [control.identity.build.load(Relaxed), shape.into()]);
        let modules = image.and_then(|image| image.modules().collect::<Option<Vec<_>>>());
        let image = image.filter(|_| modules.is_some());
        let modules = modules.unwrap_or_default();
        Some(Self {
            mapped,
            image,
            kept: modules.len(),
            modules,
            known: Vec::new(),
            written: Some(0),
        })
    }

    /// Records there are, at most.
    pub fn records(&self) -> usize {
        self.image.map_or(0, |image| image.most_records())
    }

    /// Goes on in the slot of a forked child, which makes fragments for itself alone.
    pub fn in_new_slot(&mut self) {
        self.written = None;
    }

    /// Returns the origin of a region's code, if fragments of it can be used again.
    pub fn origin(&mut self, mapping: &Mapping) -> Option<Origin> {
        let same = |k: &&Known| {
            let of = (mapping.range, mapping.offset, mapping.inode);
            (k.range, k.offset, k.inode) == of
        };
        if let Some(known) = self.known.iter().rev().find(same) {
            return known.origin;
        }
        let origin = self.identify(mapping).map(|module| Origin {
            module,
            base: mapping.range.start.wrapping_sub(mapping.offset),
        });
        self.known.push(Known {
            range: mapping.range,
            offset: mapping.offset,
            inode: mapping.inode,
            origin,
        });
        origin
    }

    /// The number of a region's file.
    fn identify(&mut self, mapping: &Mapping) -> Option<u32> {
        if mapping.nature() != Nature::Fixed || !mapping.has_file() {
            return None;
        }
        let mut path = mapping.path.clone();
        path.push(0);
        let mut stat = [0_u64; 18];
        let args = [path.as_ptr() as u64, stat.as_mut_ptr() as u64, 0, 0, 0, 0];
        // SAFETY: a string that ends with a NUL byte, and room for what the kernel writes.
        unsafe { sys::checked(nr::__NR_stat, args) }.ok()?;
        // As `struct stat` has them: device, inode; size; seconds and nanoseconds of the last change.
        let [device, inode, size] = [stat[0], stat[1], stat[6]];
        let changed = stat[13].wrapping_mul(1_000_000_000).wrapping_add(stat[14]);
        // Another file may have the name by now.
        if inode != mapping.inode {
            return None;
        }
        let module = Module::new([device, inode], size, changed, &mapping.path)?;
        if let Some(number) = self.modules.iter().position(|m| *m == module) {
            return Some(number as u32);
        }
        let new = self.modules.len() - self.kept;
        if self.modules.len() == MAX_MODULES || self.written.is_none() {
            return None;
        }
        self.write(size_of::<Made>() + new * MODULE_BYTES, &module.bytes());
        self.modules.push(module);
        self.made().modules.store(new as u32 + 1, Release);
        Some(self.modules.len() as u32 - 1)
    }

    fn made(&self) -> &'static Made {
        // SAFETY: inside the mapping, which is ours for good, aligned; all atomics.
        unsafe { &*((self.mapped.base() + MADE_OFFSET as u64) as *const Made) }
    }

    /// Writes to what this run makes.
    ///
    /// # Panics
    /// When there is no room, which callers see to.
    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset + bytes.len() <= PERSIST_BYTES,
            "what is made has a limit"
        );
        let at = self.mapped.base() + (MADE_OFFSET + offset) as u64;
        // SAFETY: inside the mapping; the host reads only what it was told is complete.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
    }

    /// Returns the place of the record of an address.
    pub fn find(&self, origin: Origin, pc: AppPc) -> Option<usize> {
        self.image?.find(origin.module, origin.offset(pc)?)
    }

    /// Returns the offset in its file of a record's code.
    pub fn offset(&self, at: usize) -> Option<u32> {
        Some(self.image?.record(at)?.0.at)
    }

    /// A record by where it is: what it is of, what follows its head if that is whole, and where the next is.
    pub fn record(&self, at: usize) -> Option<(Head, Option<&'static [u8]>, usize)> {
        let (head, rest, next) = self.image?.record(at)?;
        let whole = digest(head.module, head.at, rest) == head.digest;
        Some((head, whole.then_some(rest), next))
    }

    /// Appends a record, if there is room. `bytes` begins with room for its head.
    pub fn keep(&mut self, origin: Origin, at: u32, bytes: &mut Vec<u8>) {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let Some(written) = self.written else {
            return;
        };
        let offset = MADE_RECORDS + written;
        if offset + bytes.len() > PERSIST_BYTES {
            return;
        }
        let head = Head {
            len: bytes.len() as u32,
            module: origin.module,
            at,
            digest: digest(origin.module, at, &bytes[Head::BYTES..]),
        };
        bytes[..Head::BYTES].copy_from_slice(&head.bytes());
        self.write(offset, bytes);
        let written = written + bytes.len();
        self.written = Some(written);
        self.made().bytes.store(written as u32, Release);
    }
}
