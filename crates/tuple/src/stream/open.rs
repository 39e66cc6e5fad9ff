//! Opening a stream of any format.

use std::boxed::Box;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::vec::Vec;

use super::{Block, End, Error, Module, Problem, raw16, tstream};
use crate::Kind;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The form of a stream file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Our own.
    Tstream,
    /// Packed words.
    Raw16,
}

type Source = Box<dyn Read + Send>;

enum Inner {
    Tstream(tstream::Reader<Source>),
    Raw16(raw16::Reader<Source>),
}

/// Reads a stream of any format.
pub struct Reader {
    inner: Inner,
    path: Option<std::path::PathBuf>,
}

/// Opens a stream file: what begins as a `.tstream` file is one, plain or compressed with zstd;
/// anything else must be named `.raw16` or `.raw16.zst`.
pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
    let path = path.as_ref();
    let io = |e| Error::new(0, Problem::Io(e)).in_file(path);
    let file = File::open(path).map_err(io)?;
    if file.metadata().map_err(io)?.is_dir() {
        return Err(io(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let mut reader = read(Box::new(file), name).map_err(|e| e.in_file(path))?;
    reader.path = Some(path.to_path_buf());
    Ok(reader)
}

/// Opens a stream from anything that reads, under a file name; see [`open`].
pub fn read(from: Box<dyn Read + Send>, name: &[u8]) -> Result<Reader, Error> {
    let (mut head, mut source) = peek(from)?;
    let mut name = name;
    if head.starts_with(&ZSTD_MAGIC) && !named(name, b".raw16") {
        let decoder = zstd::Decoder::new(source).map_err(|e| Error::new(0, Problem::Io(e)))?;
        name = name.strip_suffix(b".zst").unwrap_or(name);
        (head, source) = peek(Box::new(decoder))?;
    }
    let inner = if tstream::begins(&head) || named(name, b".tstream") {
        Inner::Tstream(tstream::Reader::new(source)?)
    } else if named(name, b".raw16") {
        Inner::Raw16(raw16::Reader::new(source, Kind::Value))
    } else {
        return Err(Error::new(0, Problem::NotAStream));
    };
    Ok(Reader { inner, path: None })
}

fn named(name: &[u8], extension: &[u8]) -> bool {
    name.ends_with(extension)
}

/// The first bytes, and a source that still gives them.
fn peek(mut from: Source) -> Result<(Vec<u8>, Source), Error> {
    let mut head = Vec::new();
    match from.by_ref().take(8).read_to_end(&mut head) {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
        Err(e) => return Err(Error::new(0, Problem::Io(e))),
    }
    let again = io::Cursor::new(head.clone()).chain(from);
    Ok((head, Box::new(BufReader::with_capacity(1 << 16, again))))
}

impl Reader {
    /// The format.
    pub const fn format(&self) -> Format {
        match &self.inner {
            Inner::Tstream(_) => Format::Tstream,
            Inner::Raw16(_) => Format::Raw16,
        }
    }

    /// The next events into `block`; `false` at the end.
    pub fn next_block(&mut self, block: &mut Block) -> Result<bool, Error> {
        let result = match &mut self.inner {
            Inner::Tstream(reader) => reader.next_block(block),
            Inner::Raw16(reader) => reader.next_block(block),
        };
        result.map_err(|e| match &self.path {
            Some(path) => e.in_file(path),
            None => e,
        })
    }

    /// The modules named so far.
    pub fn modules(&self) -> &[Module] {
        match &self.inner {
            Inner::Tstream(reader) => reader.modules(),
            Inner::Raw16(_) => &[],
        }
    }

    /// Returns how the stream ended, once it has.
    pub const fn end(&self) -> Option<End> {
        match &self.inner {
            Inner::Tstream(reader) => reader.end(),
            Inner::Raw16(reader) => reader.end(),
        }
    }
}
