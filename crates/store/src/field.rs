//! Fields: values that know their bytes, in both directions.
//!
//! A struct's bytes are those of its fields, in the order in which [`record!`] names them. The order is the file format:
//! writing and reading share one description, so that they cannot differ.

use std::collections::BTreeMap;

use trommel_tuple::{Kind, ModuleId, Place};

use crate::varint::{Cursor, put};

/// A value, or the reason why bytes are none.
pub(crate) type Inside<T> = Result<T, &'static str>;

/// A value with a form in bytes.
pub(crate) trait Field: Sized {
    /// Appends the bytes of the value.
    fn put(&self, raw: &mut Vec<u8>);

    /// Reads a value, and believes nothing.
    fn get(cursor: &mut Cursor<'_>) -> Inside<Self>;
}

impl Field for u8 {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(*self);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        cursor.byte()
    }
}

impl Field for u64 {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, *self);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        cursor.number()
    }
}

impl Field for u32 {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, (*self).into());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Self::try_from(cursor.number()?).map_err(|_| "a number has more than 32 bits")
    }
}

impl Field for u16 {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, (*self).into());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Self::try_from(cursor.number()?).map_err(|_| "a number has more than 16 bits")
    }
}

impl Field for bool {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push((*self).into());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        match cursor.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err("a yes or no is malformed"),
        }
    }
}

/// Numbers that are not negative.
impl Field for f64 {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, self.to_bits());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let real = Self::from_bits(cursor.number()?);
        match real.is_finite() && real.is_sign_positive() {
            true => Ok(real),
            false => Err("a number is malformed"),
        }
    }
}

impl Field for String {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, self.len() as u64);
        raw.extend_from_slice(self.as_bytes());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Self::from_utf8(cursor.bytes()?.to_vec()).map_err(|_| "a text is not UTF-8")
    }
}

impl Field for Place {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, self.word());
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        cursor.number().map(Self::from_word)
    }
}

impl Field for Kind {
    fn put(&self, raw: &mut Vec<u8>) {
        raw.push(*self as u8);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        Self::from_number(cursor.byte()?).ok_or("an event kind that does not exist")
    }
}

impl Field for ModuleId {
    fn put(&self, raw: &mut Vec<u8>) {
        self.0.put(raw);
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        u16::get(cursor).map(Self)
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, raw: &mut Vec<u8>) {
        self.is_some().put(raw);
        if let Some(value) = self {
            value.put(raw);
        }
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        bool::get(cursor)?.then(|| T::get(cursor)).transpose()
    }
}

/// Memory grows with what is there, not with the length that is claimed.
impl<T: Field> Field for Vec<T> {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, self.len() as u64);
        for item in self {
            item.put(raw);
        }
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let mut items = Self::new();
        for _ in 0..cursor.number()? {
            items.push(T::get(cursor)?);
        }
        Ok(items)
    }
}

impl<K: Field + Ord, V: Field> Field for BTreeMap<K, V> {
    fn put(&self, raw: &mut Vec<u8>) {
        put(raw, self.len() as u64);
        for (key, value) in self {
            key.put(raw);
            value.put(raw);
        }
    }

    fn get(cursor: &mut Cursor<'_>) -> Inside<Self> {
        let mut items = Self::new();
        for _ in 0..cursor.number()? {
            insert(&mut items, K::get(cursor)?, V::get(cursor)?)?;
        }
        Ok(items)
    }
}

/// Adds an entry that must be new.
pub(crate) fn insert<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: V) -> Inside<()> {
    match map.insert(key, value) {
        None => Ok(()),
        Some(_) => Err("an entry is there twice"),
    }
}

/// Sets a part that must be new.
pub(crate) fn set<T>(part: &mut Option<T>, value: T) -> Inside<()> {
    match part.replace(value) {
        None => Ok(()),
        Some(_) => Err("a part is there twice"),
    }
}

/// Describes the bytes of a struct: its fields in order.
///
/// `field as form` writes a field by the functions `put` and `get` of the module `form`. Fields in the second braces are
/// not in the bytes: other chunks hold them.
macro_rules! record {
    ($type:ident { $($field:ident $(as $form:ident)?),* $(,)? } $(and { $($other:ident),* $(,)? })?) => {
        impl $crate::field::Field for $type {
            fn put(&self, raw: &mut Vec<u8>) {
                let Self { $($field,)* $($($other: _,)*)? } = self;
                $($crate::field::record!(@put raw, $field $(, $form)?);)*
            }

            fn get(cursor: &mut $crate::varint::Cursor<'_>) -> $crate::field::Inside<Self> {
                $(let $field = $crate::field::record!(@get cursor $(, $form)?);)*
                Ok(Self { $($field,)* $($($other: Default::default(),)*)? })
            }
        }
    };
    (@put $raw:ident, $field:ident) => { $crate::field::Field::put($field, $raw) };
    (@put $raw:ident, $field:ident, $form:ident) => { $form::put($field, $raw) };
    (@get $cursor:ident) => { $crate::field::Field::get($cursor)? };
    (@get $cursor:ident, $form:ident) => { $form::get($cursor)? };
}
pub(crate) use record;
