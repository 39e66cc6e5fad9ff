//! Values in words: as code uses them, and where nothing tells that, by what they look like.

use trommel_code::Use;
use trommel_symbol::{fit, readable};

/// Longer names are cut in tables.
const MAX_NAME: usize = 48;

/// Names of addresses, as far as they are known.
pub(crate) trait Addresses {
    /// The name of what is at an address: a method table, a function, an object.
    fn name_of_address(&mut self, address: u64) -> Option<String>;

    /// The constant text at an address.
    fn text_at(&self, address: u64) -> Option<String>;
}

/// A value that was loaded as `used` says.
pub(crate) fn shown(known: &mut impl Addresses, value: u64, used: Option<Use>) -> String {
    match used {
        Some(Use::Integer { bytes, signed }) => integer(value, bytes, signed),
        Some(Use::Character) => character(value),
        Some(Use::Float32) => format!("{:?}", f32::from_bits(value as u32)),
        Some(Use::Float64) => format!("{:?}", f64::from_bits(value)),
        Some(Use::Float32s) => format!(
            "({:?}, {:?})",
            f32::from_bits(value as u32),
            f32::from_bits((value >> 32) as u32)
        ),
        Some(Use::Pointer) => address(known, value).unwrap_or_else(|| format!("{value:#x}")),
        None => by_looks(known, value, true),
        Some(Use::Unknown { bytes: 8, general }) => by_looks(known, value, !general),
        Some(Use::Unknown { bytes, .. }) => match as_text(value) {
            Some(text) => format!("{value:#x} {text:?}"),
            None => integer(
                value,
                bytes,
                value >> (8 * u32::from(bytes).clamp(1, 8) - 4) == 0xf,
            ),
        },
    }
}

/// An address with the name of what is there, or the text.
fn address(known: &mut impl Addresses, value: u64) -> Option<String> {
    if let Some(name) = known.name_of_address(value) {
        return Some(format!("{value:#x} <{}>", readable(&name)));
    }
    let text = known.text_at(value)?;
    Some(format!("{value:#x} {}", quoted(&text)))
}

/// A text in quotation marks, cut where it is long.
pub(crate) fn quoted(text: &str) -> String {
    const LONG: usize = 32;
    match text.chars().count() > LONG {
        true => format!("{:?}…", text.chars().take(LONG).collect::<String>()),
        false => format!("{text:?}"),
    }
}

/// A number; small ones in decimal alone.
fn integer(value: u64, bytes: u8, signed: bool) -> String {
    let free = 64 - 8 * u32::from(bytes.clamp(1, 8));
    let value = value << free >> free;
    let number = match signed {
        true => i128::from((value << free) as i64 >> free),
        false => i128::from(value),
    };
    match number {
        -9..=9 => number.to_string(),
        _ => format!("{value:#x} {number}"),
    }
}

fn character(value: u64) -> String {
    match value as u8 {
        byte @ (b' '..=b'~' | b'\t' | b'\n' | b'\r') => format!("{byte:#x} {:?}", char::from(byte)),
        byte @ 0..=9 => byte.to_string(),
        byte => format!("{byte:#x} {byte}"),
    }
}

/// An address with a name, text, or a number; `floats`: it may be a floating-point number.
fn by_looks(known: &mut impl Addresses, value: u64, floats: bool) -> String {
    if let Some(address) = address(known, value) {
        return address;
    }
    if let Some(text) = as_text(value) {
        return format!("{value:#x} {text:?}");
    }
    let float = f64::from_bits(value);
    let plausible = floats && float.is_finite() && (1e-6..1e9).contains(&float.abs());
    match value {
        // What is not a small number nor an address that programs have is one.
        _ if plausible && value >> 52 != 0 && value >> 48 != 0xffff => {
            format!("{value:#x} {float}")
        }
        0..=0xffff_ffff => integer(value, 8, false),
        _ => match value as i64 {
            -0x8000_0000..0 => integer(value, 8, true),
            _ => format!("{value:#x}"),
        },
    }
}

/// The bytes of a value that are printable up to the end or a zero, if there are four or more.
fn as_text(value: u64) -> Option<String> {
    const FEW: usize = 4;
    let bytes = value.to_le_bytes();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let rest = bytes.get(end..).unwrap_or_default();
    let printable = |b: &u8| b.is_ascii_graphic() || *b == b' ';
    let is = end >= FEW && bytes[..end].iter().all(printable) && rest.iter().all(|b| *b == 0);
    is.then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// `name`, cut where it is too long: of a path the last parts stay.
pub(crate) fn short(name: &str) -> String {
    fit(name, MAX_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        let name = format!("{}{}", "a".repeat(60), "z".repeat(60));
        let cut = short(&name);
        assert!(cut.chars().count() == MAX_NAME && cut.starts_with("aaa") && cut.ends_with("zzz"));
    }

    #[test]
    fn text_is_told_from_numbers() {
        assert_eq!(
            as_text(u64::from_le_bytes(*b"select\0\0")).as_deref(),
            Some("select")
        );
        assert_eq!(as_text(u64::from_le_bytes(*b"ab\0\0\0\0\0\0")), None);
        assert_eq!(as_text(u64::from_le_bytes(*b"abcd\0x\0\0")), None);
        assert_eq!(as_text(0), None);
    }

    #[test]
    fn numbers_have_the_width_of_their_load() {
        assert_eq!(integer(0xffff_fffe, 4, true), "-2");
        assert_eq!(integer(0xffff_fffe, 4, false), "0xfffffffe 4294967294");
        assert_eq!(integer(0xff9c, 2, true), "0xff9c -100");
        assert_eq!(integer(u64::MAX, 8, true), "-1");
        assert_eq!(integer(7, 8, false), "7");
        assert_eq!(integer(300, 1, false), "0x2c 44");
        assert_eq!(character(0x41), "0x41 'A'");
        assert_eq!(character(10), r"0xa '\n'");
        assert_eq!(character(0x80), "0x80 128");
    }
}
