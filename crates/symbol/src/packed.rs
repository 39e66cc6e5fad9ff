//! Compressed parts of ELF files, unpacked within bounds.
//!
//! # Problem
//! Debug sections are compressed in three ways: zlib and zstd as the gABI describes, and GNU's older `.zdebug_` sections. Fedora's symbols
//! are an xz file in a section. A few bytes of any of these can promise, or become, terabytes.
//!
//! # Strategy
//! Output is read piece by piece up to a bound, so memory grows only with bytes that are there. A part may grow [`MAX_RATIO`] times, to
//! [`MAX_UNPACKED`] bytes. All parts of an arena together have a bound too ([`Files::room`]). Dictionaries of zstd and xz have limits.
//!
//! # Invariants
//! Output has exactly the promised size, where one is promised. Anything else is no output.

use std::io::Read;

use object::elf;

use crate::files::Files;

/// No debug section of a program that people run is larger once unpacked.
const MAX_UNPACKED: u64 = 4 << 30;
/// Debug information and symbols become a tenth, or a thirtieth where they repeat each other. What was packed better is none.
const MAX_RATIO: u64 = 100;
/// A part may have so many bytes whatever it was packed to: tables of a small program are mostly zeros.
const LITTLE: u64 = 1 << 20;
/// Dictionary of an xz file at most, and what the decoder needs besides: `xz -9` takes 65 MiB.
const XZ_MEMORY: u64 = 128 << 20;
/// Exponent of the largest window of zstd: its own default limit.
const ZSTD_WINDOW: u32 = 27;

/// Ways of compression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Zlib,
    Zstd,
    Xz,
    Unknown,
}

/// A compressed part of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    way: Way,
    /// The promised size; `None` where the format promises none.
    size: Option<u64>,
    bytes: &'a [u8],
}

impl<'a> Packed<'a> {
    /// A section compressed as the gABI describes, which its flags say, or in GNU's older way; `None` where it is not compressed.
    pub(crate) fn of(name: &[u8], flags: u64, raw: &'a [u8]) -> Option<Self> {
        if flags & u64::from(elf::SHF_COMPRESSED) != 0 {
            let (header, bytes) = raw.split_at_checked(24).unwrap_or((&[0; 24], &[]));
            let (way, size) = (header.first_chunk()?, header[8..].first_chunk()?);
            let way = match u32::from_le_bytes(*way) {
                elf::ELFCOMPRESS_ZLIB => Way::Zlib,
                elf::ELFCOMPRESS_ZSTD => Way::Zstd,
                _ => Way::Unknown,
            };
            let size = Some(u64::from_le_bytes(*size));
            return Some(Self { way, size, bytes });
        }
        if !name.starts_with(b".zdebug_") {
            return None;
        }
        let (size, bytes) = raw.strip_prefix(b"ZLIB")?.split_first_chunk()?;
        Some(Self {
            way: Way::Zlib,
            size: Some(u64::from_be_bytes(*size)),
            bytes,
        })
    }

    /// An xz file.
    pub(crate) const fn xz(bytes: &'a [u8]) -> Self {
        Self {
            way: Way::Xz,
            size: None,
            bytes,
        }
    }

    /// The promised size; 0 where there is none.
    pub(crate) fn size(&self) -> u64 {
        self.size.unwrap_or(0)
    }

    /// The content, kept in `files`; `None` where it is damaged or too large.
    pub(crate) fn unpack(self, files: &'a Files) -> Option<&'a [u8]> {
        let promised = (self.size, self.way as u32);
        files.unpacked(self.bytes, promised, || self.content(files.room()))
    }

    /// The content, where it has at most so many bytes.
    fn content(self, room: u64) -> Option<Vec<u8>> {
        let possible = LITTLE + (self.bytes.len() as u64).saturating_mul(MAX_RATIO);
        let most = MAX_UNPACKED.min(possible).min(room);
        if self.size.is_some_and(|size| size > most) {
            return None;
        }
        match self.way {
            Way::Zlib => self.read(flate2::read::ZlibDecoder::new(self.bytes), most),
            Way::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(self.bytes).ok()?;
                decoder.window_log_max(ZSTD_WINDOW).ok()?;
                self.read(decoder, most)
            }
            Way::Xz => {
                let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, 0).ok()?;
                let decoder = liblzma::bufread::XzDecoder::new_stream(self.bytes, stream);
                self.read(decoder, most)
            }
            Way::Unknown => None,
        }
    }

    /// All that a decoder gives, which is at most `most` bytes.
    fn read(&self, decoder: impl Read, most: u64) -> Option<Vec<u8>> {
        let wanted = self.size.unwrap_or(most);
        let mut out = Vec::with_capacity(self.size.unwrap_or(0) as usize);
        // One more byte than there may be tells what is too large.
        let mut limited = decoder.take(wanted.saturating_add(1));
        limited.read_to_end(&mut out).ok()?;
        let length = out.len() as u64;
        let whole = self.size.map_or(length <= most, |size| length == size);
        whole.then_some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(way: Way, size: Option<u64>, bytes: &[u8]) -> Packed<'_> {
        Packed { way, size, bytes }
    }

    fn in_xz(content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = liblzma::read::XzEncoder::new(content, 9);
        encoder.read_to_end(&mut out).expect("packed");
        out
    }

    /// Noise among zeros, so that the ratio is that of a file and not of a bomb.
    fn content() -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state & 3 == 0 { state as u8 } else { 0 }
        };
        (0..40_000).map(|_| next()).collect()
    }

    #[test]
    fn what_was_packed_comes_back_in_each_way() {
        let content = content();
        let size = Some(content.len() as u64);
        let mut zlib = Vec::new();
        let level = flate2::Compression::best();
        flate2::read::ZlibEncoder::new(&content[..], level)
            .read_to_end(&mut zlib)
            .expect("packed");
        let zstd = zstd::encode_all(&content[..], 3).expect("packed");
        let xz = in_xz(&content);
        let files = Files::new();
        for one in [
            packed(Way::Zlib, size, &zlib),
            packed(Way::Zstd, size, &zstd),
            packed(Way::Xz, None, &xz),
        ] {
            assert_eq!(one.unpack(&files), Some(&content[..]), "{:?}", one.way);
            // Another size than promised, and half of the bytes.
            for wrong in [39_999, 40_001, 0, u64::MAX] {
                let one = packed(one.way, Some(wrong), one.bytes);
                assert_eq!(one.unpack(&files), None, "{:?} {wrong}", one.way);
            }
            let half = packed(one.way, one.size, &one.bytes[..one.bytes.len() / 2]);
            assert_eq!(half.unpack(&files), None, "{:?} cut", one.way);
        }
        assert_eq!(packed(Way::Unknown, size, &content).unpack(&files), None);
    }

    #[test]
    fn what_grows_too_much_is_no_content() {
        let zeros = vec![0; 8 << 20];
        let size = Some(zeros.len() as u64);
        let zstd = zstd::encode_all(&zeros[..], 3).expect("packed");
        let xz = in_xz(&zeros);
        // Both are so small that their ratio is above the limit.
        let files = Files::new();
        assert!((zstd.len() as u64) * MAX_RATIO < zeros.len() as u64);
        assert_eq!(packed(Way::Zstd, size, &zstd).unpack(&files), None);
        assert!((xz.len() as u64) * MAX_RATIO < zeros.len() as u64);
        assert_eq!(packed(Way::Xz, None, &xz).unpack(&files), None);
    }

    #[test]
    fn an_arena_has_room_for_so_much_and_no_more() {
        let files = Files::with_room(100_000);
        // Bytes that are there already would take no room.
        let is_unpacked = |first: u8| {
            let mut content = content();
            content[0] = first;
            let xz = in_xz(&content);
            packed(Way::Xz, None, &xz).unpack(&files).is_some()
        };
        assert!(is_unpacked(1) && is_unpacked(2));
        assert!(!is_unpacked(3), "{} left", files.room());
    }
}
