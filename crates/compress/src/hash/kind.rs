//! Names of hash functions in specs.

use core::fmt;

/// The hash function that splits the stream: the name in the spec.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum HashKind {
    /// The papers' randomize, flip and xor-fold; no name in the spec.
    #[default]
    Paper,
    /// `:crc`, two CRC-32C.
    Crc,
    /// `:mul`, multiply-shift.
    Multiply,
}

impl HashKind {
    /// The name in the spec with its colon; empty for the papers' hash.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Paper => "",
            Self::Crc => ":crc",
            Self::Multiply => ":mul",
        }
    }
}

impl fmt::Display for HashKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.suffix())
    }
}
