//! Coding of the events of one block.
//!
//! Problem: 17 bytes an event are too many to write at the speed of a program, and a general
//! compressor is too slow on them.
//!
//! Strategy: programs repeat themselves. A block has a dictionary of its *sites* (kind and pc); the
//! site of an event is predicted to be the one that followed its predecessor last time, and its
//! value is first looked for among the last two values of its site and the continued stride. An
//! event becomes one token byte, zero in the best case, and runs of equal tokens are then left to
//! zstd:
//!
//! ```text
//! payload = sites varint, { kind u8, pc as zigzag varint from the site before },
//!           token u8 × events, length of numbers u32, numbers, literals
//! token   = bits 0..5: value code; bit 5: the site was not predicted, its number follows in `numbers`
//! value   = 0 as last time; 1 as the time before; 2 last + stride;
//!           3 + n: n + 1 literal bytes, zigzag difference to the last value;
//!           11 + n: n + 1 literal bytes, the value itself
//! ```
//! Sites are numbered in the order of their first events; numbers are varints.
//!
//! Invariant: coder and decoder go through the same [`Site`] states; decoding any bytes ends in a
//! block or a message, and takes memory for the events of the block and its sites only.

use std::vec;
use std::vec::Vec;

use super::Block;
use crate::{Kind, Place, Tuple};

const SAME: u8 = 0;
const BEFORE: u8 = 1;
const STRIDE: u8 = 2;
const DIFFERENCE: u8 = 3;
const LITERAL: u8 = 11;
const CODES: u8 = 19;
const NEW_SITE: u8 = 1 << 5;

#[derive(Clone, Copy, Debug)]
struct Site {
    pc: Place,
    kind: Kind,
    /// The site that followed last time.
    next: u32,
    last: u64,
    before: u64,
}

impl Site {
    const fn new(kind: Kind, pc: Place) -> Self {
        Self {
            pc,
            kind,
            next: 0,
            last: 0,
            before: 0,
        }
    }

    const fn strided(&self) -> u64 {
        self.last.wrapping_add(self.last.wrapping_sub(self.before))
    }

    #[inline]
    const fn saw(&mut self, value: u64) {
        self.before = self.last;
        self.last = value;
    }
}

const fn zigzag(n: u64) -> u64 {
    n << 1 ^ (n as i64 >> 63) as u64
}

const fn unzigzag(n: u64) -> u64 {
    n >> 1 ^ (n & 1).wrapping_neg()
}

fn put_varint(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn bytes_of(n: u64) -> usize {
    (8 - n.leading_zeros() as usize / 8).max(1)
}

/// Codes events as they come.
pub(super) struct Encoder {
    sites: Vec<Site>,
    /// Site number + 1 by hash; 0 where there is none.
    index: Vec<u32>,
    /// The site of the event before.
    at: usize,
    tokens: Vec<u8>,
    numbers: Vec<u8>,
    literals: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            sites: Vec::new(),
            index: vec![0; 1024],
            at: 0,
            tokens: Vec::new(),
            numbers: Vec::new(),
            literals: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    #[inline]
    pub(super) fn push(&mut self, kind: Kind, tuple: Tuple) {
        let mut token = 0;
        let predicted = self.sites.get(self.at).map_or(0, |s| s.next as usize);
        let number = match self.sites.get(predicted) {
            Some(site) if site.pc == tuple.pc && site.kind == kind => predicted,
            _ => {
                token = NEW_SITE;
                self.unpredicted(kind, tuple.pc)
            }
        };
        self.at = number;
        let site = &mut self.sites[number];
        let value = tuple.value;
        token |= if value == site.last {
            SAME
        } else if value == site.before {
            BEFORE
        } else if value == site.strided() {
            STRIDE
        } else {
            let difference = zigzag(value.wrapping_sub(site.last));
            let (base, n) = if bytes_of(difference) < bytes_of(value) {
                (DIFFERENCE, difference)
            } else {
                (LITERAL, value)
            };
            let length = bytes_of(n);
            self.literals.extend_from_slice(&n.to_le_bytes()[..length]);
            base + length as u8 - 1
        };
        if token & !NEW_SITE != SAME {
            site.saw(value);
        }
        self.tokens.push(token);
    }

    /// The number of a site that was not predicted, written; it becomes the prediction.
    fn unpredicted(&mut self, kind: Kind, pc: Place) -> usize {
        let number = self.find(kind, pc);
        if let Some(site) = self.sites.get_mut(self.at) {
            site.next = number as u32;
        }
        put_varint(&mut self.numbers, number as u64);
        number
    }

    fn bucket(&self, kind: Kind, pc: Place) -> usize {
        let mixed = (pc.word() ^ (kind as u64) << 60).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.index.len() - 1)
    }

    fn find(&mut self, kind: Kind, pc: Place) -> usize {
        let mut at = self.bucket(kind, pc);
        while let Some(number) = (self.index[at] as usize).checked_sub(1) {
            let site = &self.sites[number];
            if site.pc == pc && site.kind == kind {
                return number;
            }
            at = (at + 1) & (self.index.len() - 1);
        }
        self.sites.push(Site::new(kind, pc));
        self.index[at] = self.sites.len() as u32;
        if self.sites.len() * 2 > self.index.len() {
            self.grow();
        }
        self.sites.len() - 1
    }

    #[cold]
    fn grow(&mut self) {
        self.index = vec![0; self.index.len() * 2];
        for number in 0..self.sites.len() {
            let mut at = self.bucket(self.sites[number].kind, self.sites[number].pc);
            while self.index[at] != 0 {
                at = (at + 1) & (self.index.len() - 1);
            }
            self.index[at] = number as u32 + 1;
        }
    }

    /// Puts the payload into `payload` and starts afresh.
    pub(super) fn take(&mut self, payload: &mut Vec<u8>) {
        payload.clear();
        put_varint(payload, self.sites.len() as u64);
        let mut pc = 0;
        for site in &self.sites {
            payload.push(site.kind as u8);
            put_varint(payload, zigzag(site.pc.word().wrapping_sub(pc)));
            pc = site.pc.word();
        }
        payload.extend_from_slice(&self.tokens);
        payload.extend_from_slice(&(self.numbers.len() as u32).to_le_bytes());
        payload.extend_from_slice(&self.numbers);
        payload.extend_from_slice(&self.literals);
        self.sites.clear();
        self.index.fill(0);
        self.at = 0;
        self.tokens.clear();
        self.numbers.clear();
        self.literals.clear();
    }
}

/// Decodes blocks.
pub(super) struct Decoder {
    sites: Vec<Site>,
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], &'static str> {
        self.0.split_off(..n).ok_or("a block of events ends early")
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err("a number in a block of events does not end")
    }
}

impl Decoder {
    pub(super) const fn new() -> Self {
        Self { sites: Vec::new() }
    }

    /// Appends the `events` events of a payload to `block`.
    pub(super) fn decode(
        &mut self,
        payload: &[u8],
        events: usize,
        block: &mut Block,
    ) -> Result<(), &'static str> {
        let mut rest = Bytes(payload);
        let sites = rest.varint()?;
        if sites > events as u64 {
            return Err("a block has more sites than events");
        }
        self.sites.clear();
        let mut pc = 0u64;
        for _ in 0..sites {
            let kind = Kind::from_number(rest.byte()?).ok_or("an event has an unknown kind")?;
            pc = pc.wrapping_add(unzigzag(rest.varint()?));
            self.sites.push(Site::new(kind, Place::from_word(pc)));
        }
        let tokens = rest.take(events)?;
        let numbers = u32::from_le_bytes(rest.take(4)?.try_into().expect("four bytes"));
        let mut numbers = Bytes(rest.take(numbers as usize)?);
        let mut at = 0;
        for token in tokens {
            let number = if token & NEW_SITE == 0 {
                self.sites.get(at).map_or(0, |s| s.next as usize)
            } else {
                let number = numbers.varint()? as usize;
                if let Some(site) = self.sites.get_mut(at) {
                    site.next = number as u32;
                }
                number
            };
            let Some(site) = self.sites.get_mut(number) else {
                return Err("an event refers to a site that does not exist");
            };
            at = number;
            let code = token & !NEW_SITE;
            let value = match code {
                SAME => site.last,
                BEFORE => site.before,
                STRIDE => site.strided(),
                DIFFERENCE..CODES => {
                    let length = usize::from((code - DIFFERENCE) % 8) + 1;
                    let mut bytes = [0; 8];
                    bytes[..length].copy_from_slice(rest.take(length)?);
                    let n = u64::from_le_bytes(bytes);
                    if code < LITERAL {
                        site.last.wrapping_add(unzigzag(n))
                    } else {
                        n
                    }
                }
                _ => return Err("an event has an unknown value code"),
            };
            if code != SAME {
                site.saw(value);
            }
            block.push(site.kind, Tuple::new(site.pc, value));
        }
        if numbers.0.is_empty() && rest.0.is_empty() {
            Ok(())
        } else {
            Err("a block of events has bytes to spare")
        }
    }
}
