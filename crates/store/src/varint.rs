//! Numbers in as few bytes as they need: seven bits a byte, least significant first.

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a difference, small in both directions.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads what the functions above wrote. Errors say what was expected.
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn remaining(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.0.split_first().ok_or("a byte is missing")?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn number(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte().map_err(|_| "a number has no end")?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a number has more than 64 bits")
    }

    pub(crate) fn signed(&mut self) -> Result<i64, &'static str> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let length = self.number()?;
        let length = usize::try_from(length).map_err(|_| "a text is too long")?;
        let (bytes, rest) = self
            .0
            .split_at_checked(length)
            .ok_or("a text is cut short")?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for value in [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::MAX >> 1, u64::MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put_signed(&mut bytes, value as i64);
            let mut cursor = Cursor(&bytes);
            assert_eq!(cursor.number(), Ok(value));
            assert_eq!(cursor.signed(), Ok(value as i64));
            assert!(cursor.is_empty());
        }
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert!(Cursor(&[0xff; 11]).number().is_err());
        assert!(
            Cursor(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2])
                .number()
                .is_err()
        );
        assert!(Cursor(&[0x80]).number().is_err());
    }
}
