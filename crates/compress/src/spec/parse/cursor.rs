//! Tokens of a spec: literals, numbers and shares, with an error at the column where reading stopped.

use alloc::format;
use alloc::string::{String, ToString};

use super::{MAX_ENTRIES, Result};
use crate::hash::HashKind;
use crate::spec::{Percent, SpecError};

pub(super) struct Cursor<'a> {
    pub(super) text: &'a str,
    /// Bytes that were read.
    pub(super) position: usize,
    /// The hash function that was named.
    pub(super) hash: HashKind,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            position: 0,
            hash: HashKind::Paper,
        }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    pub(super) fn error_at(&self, position: usize, message: &str) -> SpecError {
        SpecError {
            column: self.text[..position].chars().count() + 1,
            message: message.to_string(),
        }
    }

    pub(super) fn error(&self, message: &str) -> SpecError {
        self.error_at(self.position, message)
    }

    pub(super) fn found(&self) -> String {
        match self.rest().chars().next() {
            Some(c) => format!("{c:?}"),
            None => "the end".to_string(),
        }
    }

    pub(super) fn take(&mut self, literal: &str) -> bool {
        let found = self.rest().starts_with(literal);
        if found {
            self.position += literal.len();
        }
        found
    }

    /// The literal, or an error at its first character that differs.
    pub(super) fn expect(&mut self, literal: &str, form: &str) -> Result<()> {
        for c in literal.chars() {
            if !self.rest().starts_with(c) {
                let found = self.found();
                return Err(self.error(&format!("expected {c:?}, found {found}; {form}")));
            }
            self.position += c.len_utf8();
        }
        Ok(())
    }

    pub(super) fn digits(&mut self, what: &str) -> Result<u64> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            let found = self.found();
            return Err(self.error(&format!("expected a number ({what}), found {found}")));
        }
        let value = self.rest()[..digits].parse().unwrap_or(u64::MAX);
        self.position += digits;
        Ok(value)
    }

    pub(super) fn number(&mut self, what: &str, least: u64, most: u64) -> Result<u32> {
        let start = self.position;
        let mut value = self.digits(what)?;
        if self.take("k") {
            value = value.saturating_mul(1000);
        } else if self.take("M") {
            value = value.saturating_mul(1_000_000);
        }
        if (least..=most).contains(&value) {
            Ok(value as u32)
        } else {
            let message = format!("the {what} must be between {least} and {most}");
            Err(self.error_at(start, &message))
        }
    }

    /// A number of entries that an index of whole bits can address.
    pub(super) fn power(&mut self, what: &str) -> Result<u32> {
        let start = self.position;
        let n = self.number(what, 1, MAX_ENTRIES)?;
        self.whole_bits(start, what, n, 1)?;
        Ok(n)
    }

    pub(super) fn whole_bits(&self, start: usize, what: &str, n: u32, parts: u32) -> Result<()> {
        if n.is_multiple_of(parts) && (n / parts).is_power_of_two() {
            return Ok(());
        }
        // The next numbers below and above that will do.
        let each = (n / parts).max(1);
        let below = (1 << each.ilog2()) * parts;
        let above = below.saturating_mul(2);
        let take = match n < below || u64::from(above) > MAX_ENTRIES {
            true => below.to_string(),
            false => format!("{below} or {above}"),
        };
        let split = if parts == 1 {
            String::new()
        } else {
            format!(" divided by {parts}")
        };
        let message = format!(
            "the {what} ({n}){split} must be a power of two, as the hash folds to an index of \
             whole bits; take {take}"
        );
        Err(self.error_at(start, &message))
    }

    pub(super) fn percent(&mut self, what: &str) -> Result<Percent> {
        let start = self.position;
        let whole = self.digits(what)?;
        let mut millionths = whole.saturating_mul(1_000_000);
        if self.take(".") {
            let decimals = self.rest().bytes().take_while(u8::is_ascii_digit).count();
            if decimals == 0 || decimals > 6 {
                return Err(self.error("one to six decimals follow the point"));
            }
            let part: u64 = self.rest()[..decimals].parse().unwrap_or(0);
            millionths = millionths.saturating_add(part * 10u64.pow(6 - decimals as u32));
            self.position += decimals;
        }
        self.expect("%", "a share is written 1% or 0.1%")?;
        if millionths == 0 || millionths > u64::from(Percent::WHOLE.0) {
            let message = format!("the {what} must be above 0% and at most 100%");
            return Err(self.error_at(start, &message));
        }
        Ok(Percent(millionths as u32))
    }
}
