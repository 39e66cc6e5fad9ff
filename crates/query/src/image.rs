//! Programs as bytes: what `trommel query asm -o` writes. Numbers are little-endian.
//!
//! ```text
//! 8 bytes    "TROMRPA1"
//! 280 bytes  the 70 profile control registers, 32 bits each
//! 4 + 4      instructions; rules
//! 8 each     the query instructions
//! rules      tag (1), kind (1: 0 module, 1 symbol, 2 range), bytes of the name (2);
//!            of a range, first address and the one after the last (8 + 8); the name
//! ```
//! A range without a name is in the program itself. Reading believes nothing: what is accepted is
//! written again to the same bytes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::class::TAGS;
use crate::control::{REGISTERS, Table};
use crate::instruction::Instruction;
use crate::pc::MAX_INSTRUCTIONS;
use crate::program::Program;
use crate::tag::{Rule, Where};

/// First bytes of an assembled program.
pub const MAGIC: [u8; 8] = *b"TROMRPA1";
/// Bytes of a program at most.
pub const MAX_IMAGE: usize = 1 << 18;
/// Bytes of its rules at most, so that what is assembled is never larger.
pub(crate) const MAX_RULES: usize = MAX_IMAGE - 4096;

/// Bytes that a rule takes, from its name and whether it is a range.
pub(crate) const fn rule_bytes(name: usize, is_range: bool) -> usize {
    4 + name + if is_range { 16 } else { 0 }
}

/// Reasons why bytes are no program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ImageError {
    /// The byte where it was noticed.
    pub at: usize,
    /// The problem.
    pub what: String,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.what, self.at)
    }
}

impl core::error::Error for ImageError {}

/// The bytes of a program.
pub fn encode(program: &Program) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
    for register in program.table().registers() {
        put(&register.to_le_bytes());
    }
    put(&(program.code().len() as u32).to_le_bytes());
    put(&(program.tags().len() as u32).to_le_bytes());
    for instruction in program.code() {
        put(&instruction.encode().to_le_bytes());
    }
    for Rule { tag, place } in program.tags() {
        let (kind, range, name) = match place {
            Where::Module(name) => (0, None, name.as_str()),
            Where::Symbol(name) => (1, None, name.as_str()),
            Where::Range { from, to, module } => {
                (2, Some([*from, *to]), module.as_deref().unwrap_or(""))
            }
        };
        put(&[*tag, kind]);
        put(&(name.len() as u16).to_le_bytes());
        for address in range.into_iter().flatten() {
            put(&address.to_le_bytes());
        }
        put(name.as_bytes());
    }
    out
}

/// The program of bytes.
///
/// # Errors
/// When they are no program, with the byte where that was noticed.
pub fn decode(bytes: &[u8]) -> Result<Program, ImageError> {
    let mut reader = Reader { bytes, at: 0 };
    if bytes.len() > MAX_IMAGE {
        return reader.error(format!("a program has at most {MAX_IMAGE} bytes"));
    }
    if !bytes.starts_with(&MAGIC) {
        return reader.error(match core::str::from_utf8(bytes) {
            _ if bytes.is_empty() => "it is empty".to_string(),
            Ok(_) => {
                "it is a text; `trommel query asm -o FILE` makes a program of a text".to_string()
            }
            Err(_) => "it does not start as an assembled query does".to_string(),
        });
    }
    reader.at = MAGIC.len();
    let mut registers = [0; REGISTERS];
    for register in &mut registers {
        *register = u32::from_le_bytes(reader.take()?);
    }
    let table = Table::from_registers(&registers).or_else(|(entry, what)| {
        reader.at = MAGIC.len() + 8 * entry.number();
        reader.error(format!("the registers of {entry} are malformed: {what}"))
    })?;
    let instructions = u32::from_le_bytes(reader.take()?) as usize;
    let rules = u32::from_le_bytes(reader.take()?);
    if instructions > MAX_INSTRUCTIONS {
        return reader.error(format!(
            "it has {instructions} instructions, and {MAX_INSTRUCTIONS} is the limit"
        ));
    }
    let first = reader.at;
    let mut code = Vec::with_capacity(instructions);
    for number in 0..instructions {
        let at = reader.at;
        let instruction = Instruction::decode(u64::from_le_bytes(reader.take()?));
        code.push(instruction.map_err(|what| ImageError {
            at,
            what: format!("instruction {number} is malformed: {what}"),
        })?);
    }
    let mut tags = Vec::new();
    for _ in 0..rules {
        tags.push(reader.rule()?);
    }
    if reader.at != bytes.len() {
        return reader.error("there are bytes after its end".into());
    }
    Program::new(table, code, tags).map_err(|invalid| match invalid.at {
        Some(number) => ImageError {
            at: first + 8 * number,
            what: format!("instruction {number} is invalid: {}", invalid.what),
        },
        None => ImageError {
            at: 0,
            what: invalid.what,
        },
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn error<T>(&self, what: String) -> Result<T, ImageError> {
        Err(ImageError { at: self.at, what })
    }

    fn some(&mut self, length: usize) -> Result<&[u8], ImageError> {
        let Some(bytes) = self.bytes.get(self.at..self.at + length) else {
            self.at = self.bytes.len();
            return self.error("it is cut short".into());
        };
        self.at += length;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        let mut out = [0; N];
        out.copy_from_slice(self.some(N)?);
        Ok(out)
    }

    fn rule(&mut self) -> Result<Rule, ImageError> {
        let at = self.at;
        let malformed = |what: &str| {
            Err(ImageError {
                at,
                what: format!("a rule for tags is malformed: {what}"),
            })
        };
        let [tag, kind] = self.take()?;
        if tag >= TAGS {
            return malformed("tags are 0 to 3");
        }
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let range = match kind {
            0 | 1 => None,
            2 => Some((
                u64::from_le_bytes(self.take()?),
                u64::from_le_bytes(self.take()?),
            )),
            _ => return malformed("its kind does not exist"),
        };
        let Ok(name) = String::from_utf8(self.some(length)?.to_vec()) else {
            return malformed("its name is not UTF-8");
        };
        if name.chars().any(char::is_control) {
            return malformed("its name holds control characters");
        }
        if name.is_empty() && range.is_none() {
            return malformed("its name is empty");
        }
        let place = match (range, kind) {
            (Some((from, to)), _) if from < to => Where::Range {
                from,
                to,
                module: (!name.is_empty()).then_some(name),
            },
            (Some(_), _) => return malformed("its range is empty"),
            (None, 0) => Where::Module(name),
            (None, _) => Where::Symbol(name),
        };
        Ok(Rule { tag, place })
    }
}
