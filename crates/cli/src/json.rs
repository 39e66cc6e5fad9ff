//! JSON, written as it is produced: reports can have millions of entries.
//!
//! The writer puts in commas and line ends. Objects and arrays are closed by whoever opened them;
//! tests read every document back with another implementation.

use std::io::{self, Write};

/// Writes one JSON document.
pub(crate) struct Json<W> {
    out: W,
    /// For each open object or array: whether something is in it.
    open: Vec<bool>,
}

impl<W: Write> Json<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            open: Vec::new(),
        }
    }

    /// Ends the document.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        debug_assert!(self.open.is_empty(), "an object or array was left open");
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn separate(&mut self) -> io::Result<()> {
        let depth = self.open.len();
        let Some(filled) = self.open.last_mut() else {
            return Ok(());
        };
        let comma = std::mem::replace(filled, true);
        if comma {
            self.out.write_all(b",")?;
        }
        // The outer levels on lines of their own, entries of lists in one line each.
        match (depth, comma) {
            (1 | 2, _) => write!(self.out, "\n{:1$}", "", depth),
            (_, true) => self.out.write_all(b" "),
            (_, false) => Ok(()),
        }
    }

    /// Opens an object as the next element of an array, or as the document.
    pub(crate) fn object(&mut self) -> io::Result<()> {
        self.separate()?;
        self.open.push(false);
        self.out.write_all(b"{")
    }

    pub(crate) fn end_object(&mut self) -> io::Result<()> {
        self.open.pop();
        self.out.write_all(b"}")
    }

    pub(crate) fn end_array(&mut self) -> io::Result<()> {
        self.open.pop();
        self.out.write_all(b"]")
    }

    fn key(&mut self, name: &str) -> io::Result<()> {
        self.separate()?;
        write_text(&mut self.out, name)?;
        self.out.write_all(b": ")
    }

    /// Opens an object as a member.
    pub(crate) fn member_object(&mut self, name: &str) -> io::Result<()> {
        self.key(name)?;
        self.open.push(false);
        self.out.write_all(b"{")
    }

    /// Opens an array as a member.
    pub(crate) fn member_array(&mut self, name: &str) -> io::Result<()> {
        self.key(name)?;
        self.open.push(false);
        self.out.write_all(b"[")
    }

    pub(crate) fn number(&mut self, name: &str, value: impl Into<i128>) -> io::Result<()> {
        self.key(name)?;
        write!(self.out, "{}", value.into())
    }

    /// A fraction; JSON has no infinities, so they are `null`.
    pub(crate) fn real(&mut self, name: &str, value: f64) -> io::Result<()> {
        self.key(name)?;
        if value.is_finite() {
            write!(self.out, "{value:.6}")
        } else {
            self.out.write_all(b"null")
        }
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.key(name)?;
        write_text(&mut self.out, value)
    }

    pub(crate) fn optional_text(&mut self, name: &str, value: Option<&str>) -> io::Result<()> {
        match value {
            Some(value) => self.text(name, value),
            None => self.null(name),
        }
    }

    pub(crate) fn boolean(&mut self, name: &str, value: bool) -> io::Result<()> {
        self.key(name)?;
        write!(self.out, "{value}")
    }

    pub(crate) fn null(&mut self, name: &str) -> io::Result<()> {
        self.key(name)?;
        self.out.write_all(b"null")
    }

    /// An array of texts as a member.
    pub(crate) fn texts<T: AsRef<str>>(
        &mut self,
        name: &str,
        all: impl IntoIterator<Item = T>,
    ) -> io::Result<()> {
        self.member_array(name)?;
        for text in all {
            self.element(text.as_ref())?;
        }
        self.end_array()
    }

    /// A text as the next element of an array.
    pub(crate) fn element(&mut self, value: &str) -> io::Result<()> {
        self.separate()?;
        write_text(&mut self.out, value)
    }
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.write_all(&text.as_bytes()[plain..at])?;
        plain = at + 1;
        match byte {
            b'"' | b'\\' => out.write_all(&[b'\\', byte])?,
            b'\n' => out.write_all(b"\\n")?,
            _ => write!(out, "\\u{byte:04x}")?,
        }
    }
    out.write_all(&text.as_bytes()[plain..])?;
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_read_back() {
        let mut bytes = Vec::new();
        let mut json = Json::new(&mut bytes);
        let strange = "a\"b\\c\nd\u{1}é\u{7f}";
        (|| {
            json.object()?;
            json.text(strange, strange)?;
            json.member_array("list")?;
            for n in 0..3_u64 {
                json.object()?;
                json.number("n", u64::MAX - n)?;
                json.real("share", 0.5)?;
                json.null("none")?;
                json.end_object()?;
            }
            json.element("x")?;
            json.end_array()?;
            json.member_object("empty")?;
            json.end_object()?;
            json.end_object()?;
            json.finish()
        })()
        .expect("memory");
        let value: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        assert_eq!(value[strange], strange);
        assert_eq!(value["list"][1]["n"], u64::MAX - 1);
        assert_eq!(value["list"].as_array().map(Vec::len), Some(4));
    }
}
