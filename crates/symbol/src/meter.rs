//! Debug information that is read within bounds.
//!
//! # Problem
//! Debug information is full of references. A thousand units may share one line program, one list of ranges or one table of
//! abbreviations, so a file of 300 kB becomes gigabytes of tables, or hours of work. Nesting in it is recursion in the library that reads it.
//!
//! # Strategy
//! The library reads bytes through [`Metered`], which counts. Each section may be read several times over, and no more
//! ([`Meter`]). After that, reading fails. The stack has a bound too.
//!
//! # Invariants
//! Time and memory are bounded by the size of the sections. Debug information that was not read to its end is reported:
//! [`Meter::is_spent`].

use std::borrow::Cow;
use std::cell::Cell;

use addr2line::gimli::{self, EndianSlice, LittleEndian, Reader, ReaderOffsetId};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Bytes of stack that one question may take. A call that is inlined in another one takes about 500.
const STACK: usize = 512 << 10;

/// Numbers and bytes of texts that may still be read.
#[derive(Debug)]
pub(crate) struct Meter {
    left: Cell<u64>,
    spent: Cell<bool>,
    /// An address on the stack from which its use is counted.
    stack: Cell<usize>,
}

impl Meter {
    pub(crate) fn new(left: u64) -> Self {
        Self {
            left: Cell::new(left),
            spent: Cell::new(false),
            stack: Cell::new(0),
        }
    }

    /// Says whether more was to be read than may be.
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.get()
    }

    /// Allows no more.
    pub(crate) fn spend(&self) {
        self.left.set(0);
        self.spent.set(true);
    }

    /// Begins a question: the stack is counted from here.
    pub(crate) fn begin(&self) {
        self.stack.set(here());
    }

    #[inline]
    fn take(&self, amount: usize) -> gimli::Result<()> {
        let left = self.left.get().checked_sub(amount as u64);
        let deep = self.stack.get().saturating_sub(here()) > STACK;
        match left.filter(|_| !deep) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                // The rest would be read in vain.
                self.spend();
                Err(gimli::Error::Io)
            }
        }
    }
}

/// An address on the stack.
#[inline]
fn here() -> usize {
    let place = 0_u8;
    std::ptr::from_ref(&place).addr()
}

/// Bytes of a section, and how many of them may be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metered<'a> {
    bytes: Slice<'a>,
    meter: &'a Meter,
}

impl<'a> Metered<'a> {
    pub(crate) fn new(bytes: &'a [u8], meter: &'a Meter) -> Self {
        let bytes = Slice::new(bytes, LittleEndian);
        Self { bytes, meter }
    }

    /// The bytes themselves.
    pub(crate) fn slice(&self) -> &'a [u8] {
        self.bytes.slice()
    }

    fn whole(&self) -> gimli::Result<()> {
        self.meter.take(self.bytes.len())
    }
}

impl Reader for Metered<'_> {
    type Endian = LittleEndian;
    type Offset = usize;

    #[inline]
    fn endian(&self) -> LittleEndian {
        LittleEndian
    }

    #[inline]
    fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn empty(&mut self) {
        self.bytes.empty();
    }

    #[inline]
    fn truncate(&mut self, len: usize) -> gimli::Result<()> {
        self.bytes.truncate(len)
    }

    #[inline]
    fn offset_from(&self, base: &Self) -> usize {
        self.bytes.offset_from(base.bytes)
    }

    #[inline]
    fn offset_id(&self) -> ReaderOffsetId {
        self.bytes.offset_id()
    }

    #[inline]
    fn lookup_offset_id(&self, id: ReaderOffsetId) -> Option<usize> {
        self.bytes.lookup_offset_id(id)
    }

    #[inline]
    fn find(&self, byte: u8) -> gimli::Result<usize> {
        let found = Reader::find(&self.bytes, byte);
        self.meter.take(found.unwrap_or(self.bytes.len()))?;
        found
    }

    #[inline]
    fn skip(&mut self, len: usize) -> gimli::Result<()> {
        self.meter.take(1)?;
        self.bytes.skip(len)
    }

    #[inline]
    fn split(&mut self, len: usize) -> gimli::Result<Self> {
        self.meter.take(1)?;
        let bytes = self.bytes.split(len)?;
        Ok(Self { bytes, ..*self })
    }

    fn to_slice(&self) -> gimli::Result<Cow<'_, [u8]>> {
        self.whole()?;
        self.bytes.to_slice()
    }

    fn to_string(&self) -> gimli::Result<Cow<'_, str>> {
        self.whole()?;
        Reader::to_string(&self.bytes)
    }

    fn to_string_lossy(&self) -> gimli::Result<Cow<'_, str>> {
        self.whole()?;
        Reader::to_string_lossy(&self.bytes)
    }

    #[inline]
    fn read_slice(&mut self, buffer: &mut [u8]) -> gimli::Result<()> {
        self.meter.take(1)?;
        Reader::read_slice(&mut self.bytes, buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_ends_where_the_meter_does() {
        let meter = Meter::new(6);
        meter.begin();
        let whole = Metered::new(b"abc\0def\0", &meter);
        let mut text = whole;
        assert_eq!(text.read_null_terminated_slice().map(|t| t.len()), Ok(3));
        assert!(!meter.is_spent());
        let mut again = whole;
        assert!(again.read_null_terminated_slice().is_err());
        assert!(meter.is_spent() && again.read_u8().is_err());
    }

    #[test]
    fn the_stack_has_a_bound() {
        fn deep(bytes: Metered<'_>, times: usize) -> bool {
            let ballast = [times as u8; 1024];
            let mut bytes = bytes;
            let read = bytes.read_u8().is_ok();
            let more = times == 0 || deep(bytes, times - 1);
            read && more && std::hint::black_box(ballast)[0] == times as u8
        }
        let meter = Meter::new(1 << 20);
        meter.begin();
        let bytes = Metered::new(&[0; 4096], &meter);
        assert!(deep(bytes, 50) && !meter.is_spent());
        assert!(!deep(bytes, 600) && meter.is_spent());
    }
}
