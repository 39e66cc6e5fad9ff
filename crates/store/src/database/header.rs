//! Headers of a database's files, before the profile.
//!
//! ```text
//! magic 8 bytes | version u32 | length u32 | crc u32 | header | a profile file
//! ```
//! The CRC covers version, length and header. The header has the host, the program, its build id, and the names of files that this
//! one was made of.

use std::io::{self, Read, Write};

use crate::error::DecodeError;
use crate::field::{Field, record};
use crate::varint::Cursor;

/// First bytes of every file of a database.
pub(super) const MAGIC: [u8; 8] = *b"\x89TROEPOC";
const VERSION: u32 = 1;
/// Readers refuse more: a name for each of some hundred thousand files.
const MOST: usize = 64 << 20;

/// The header of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Header {
    /// The machine, as it calls itself.
    pub(super) host: String,
    /// The path of the program.
    pub(super) program: Vec<u8>,
    /// Its build id; empty where it has none.
    pub(super) build_id: Vec<u8>,
    /// Names of files that do not count where this one is.
    pub(super) replaces: Vec<String>,
}

record!(Header {
    host,
    program,
    build_id,
    replaces
});

impl Header {
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let mut raw = Vec::new();
        self.put(&mut raw);
        let length = u32::try_from(raw.len()).map_err(io::Error::other)?;
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&checksum(length, &raw).to_le_bytes())?;
        out.write_all(&raw)
    }

    pub(super) fn read(input: &mut impl Read) -> Result<Self, DecodeError> {
        let mut fixed = [0; 20];
        exactly(input, &mut fixed, 0)?;
        let word = |at: usize| {
            u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        if fixed[..8] != MAGIC {
            let what = "it does not start as epochs do".to_owned();
            return Err(DecodeError::NotAProfile(what));
        }
        if word(8) != VERSION {
            let what = format!("an epoch of another format, {}", word(8));
            return Err(DecodeError::NotAProfile(what));
        }
        let corrupt = |what: &str| DecodeError::Corrupt {
            at: 0,
            what: what.to_owned(),
        };
        let length = word(12) as usize;
        if length > MOST {
            return Err(corrupt("its header is too long"));
        }
        let mut raw = Vec::new();
        let got = input.take(length as u64).read_to_end(&mut raw);
        if got.map_err(DecodeError::Read)? < length {
            return Err(truncated(fixed.len() + raw.len()));
        }
        if checksum(length as u32, &raw) != word(16) {
            return Err(corrupt("the checksum of its header does not match"));
        }
        Self::decode(&mut Cursor(&raw)).map_err(corrupt)
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self, &'static str> {
        let header = Self::get(cursor)?;
        match cursor.is_empty() {
            true => Ok(header),
            false => Err("its header holds more than it should"),
        }
    }
}

fn checksum(length: u32, raw: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&VERSION.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(raw);
    hasher.finalize()
}

fn exactly(input: &mut impl Read, bytes: &mut [u8], at: usize) -> Result<(), DecodeError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => truncated(at),
        _ => DecodeError::Read(error),
    })
}

fn truncated(at: usize) -> DecodeError {
    DecodeError::Truncated {
        at: at as u64,
        what: "its header",
    }
}
