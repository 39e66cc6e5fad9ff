//! Fields that several chunks have, to bytes and back.

use trommel_profile::sampled::Sampled;

use crate::varint::{Cursor, put};

pub(crate) type Inside<T> = Result<T, &'static str>;

pub(crate) fn of_samples(cursor: &mut Cursor<'_>) -> Inside<Sampled> {
    Ok(Sampled {
        samples: cursor.number()?,
        executions: real(cursor)?,
        variance: real(cursor)?,
        probability: real(cursor)?,
    })
}

pub(crate) fn flag(cursor: &mut Cursor<'_>) -> Inside<bool> {
    match cursor.byte()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("whether something is so is malformed"),
    }
}

/// A number that is not negative.
pub(crate) fn real(cursor: &mut Cursor<'_>) -> Inside<f64> {
    let real = f64::from_bits(cursor.number()?);
    match real.is_finite() && real.is_sign_positive() {
        true => Ok(real),
        false => Err("a number is malformed"),
    }
}

pub(crate) fn text(cursor: &mut Cursor<'_>) -> Inside<String> {
    String::from_utf8(cursor.bytes()?.to_vec()).map_err(|_| "a text is not UTF-8")
}

pub(crate) fn put_sampled(raw: &mut Vec<u8>, sampled: &Sampled) {
    put(raw, sampled.samples);
    for real in [sampled.executions, sampled.variance, sampled.probability] {
        put_real(raw, real);
    }
}

pub(crate) fn put_real(raw: &mut Vec<u8>, real: f64) {
    put(raw, real.to_bits());
}
