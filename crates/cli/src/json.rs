//! JSON, written as it is produced: reports can have millions of entries.
//!
//! The writer puts in commas and line ends. Objects and arrays are closed by whoever opened them;
//! tests read every document back with another implementation.
//!
//! A fixed set of members is a structure that derives `Serialize`: [`Json::members`]. Lists that may be long are written
//! entry by entry.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};
use trommel_code::Count;
use trommel_symbol::in_json;

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

    /// Writes a count of executions, with its limits where it has some.
    pub(crate) fn count(&mut self, name: &str, count: &Count) -> io::Result<()> {
        self.number(name, count.times.round() as u64)?;
        if let Some(limits) = count.limits {
            self.number(&format!("{name}_low"), limits.low.floor() as u64)?;
            self.number(&format!("{name}_high"), limits.high.ceil() as u64)?;
        }
        Ok(())
    }

    /// Ends the document.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        debug_assert!(self.open.is_empty(), "an object or array was left open");
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn separate(&mut self) -> io::Result<()> {
        separate(&mut self.out, &mut self.open)
    }

    /// Writes the members of a structure into the object that is open.
    pub(crate) fn members(&mut self, of: &impl Serialize) -> io::Result<()> {
        let layout = Layout {
            open: &mut self.open,
            depth: 0,
        };
        of.serialize(&mut Serializer::with_formatter(&mut self.out, layout))?;
        Ok(())
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

    /// An array of numbers as a member.
    pub(crate) fn numbers(&mut self, name: &str, all: &[u64]) -> io::Result<()> {
        self.member_array(name)?;
        for number in all {
            self.separate()?;
            write!(self.out, "{number}")?;
        }
        self.end_array()
    }

    /// A number as the next element of an array.
    pub(crate) fn element_number(&mut self, value: impl Into<i128>) -> io::Result<()> {
        self.separate()?;
        write!(self.out, "{}", value.into())
    }

    /// A text as the next element of an array.
    pub(crate) fn element(&mut self, value: &str) -> io::Result<()> {
        self.separate()?;
        write_text(&mut self.out, value)
    }
}

/// Members with names that are found out, in order.
pub(crate) struct Named<'a, T>(pub(crate) Vec<(&'a str, T)>);

impl<T: Serialize> Serialize for Named<'_, T> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Writes what is between two members or elements. `open`: for each open object or array, whether something is in it.
fn separate(out: &mut (impl Write + ?Sized), open: &mut [bool]) -> io::Result<()> {
    let depth = open.len();
    let Some(filled) = open.last_mut() else {
        return Ok(());
    };
    let comma = std::mem::replace(filled, true);
    if comma {
        out.write_all(b",")?;
    }
    // The outer levels on lines of their own, entries of lists in one line each.
    match (depth, comma) {
        (1 | 2, _) => write!(out, "\n{:1$}", "", depth),
        (_, true) => out.write_all(b" "),
        (_, false) => Ok(()),
    }
}

/// Layout of what serialises itself: as everything else of the document is laid out. The outermost object is the one that is open.
struct Layout<'a> {
    open: &'a mut Vec<bool>,
    /// Objects and arrays opened within, the outermost included.
    depth: usize,
}

impl Layout<'_> {
    fn begin<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        if self.depth == 1 {
            return Ok(());
        }
        self.open.push(false);
        out.write_all(bracket)
    }

    fn end<W: Write + ?Sized>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.depth == 0 {
            return Ok(());
        }
        self.open.pop();
        out.write_all(bracket)
    }
}

impl Formatter for Layout<'_> {
    fn write_f64<W: Write + ?Sized>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        write!(out, "{value:.6}")
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(in_json(fragment).as_bytes())
    }

    fn write_char_escape<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        match escape {
            CharEscape::Quote => out.write_all(b"\\\""),
            CharEscape::ReverseSolidus => out.write_all(b"\\\\"),
            CharEscape::Solidus => out.write_all(b"/"),
            CharEscape::LineFeed => out.write_all(b"\\n"),
            CharEscape::Backspace => out.write_all(b"\\u0008"),
            CharEscape::FormFeed => out.write_all(b"\\u000c"),
            CharEscape::CarriageReturn => out.write_all(b"\\u000d"),
            CharEscape::Tab => out.write_all(b"\\u0009"),
            CharEscape::AsciiControl(byte) => write!(out, "\\u{byte:04x}"),
        }
    }

    fn begin_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, _: bool) -> io::Result<()> {
        separate(out, self.open)
    }

    fn begin_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, _: bool) -> io::Result<()> {
        separate(out, self.open)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    out.write_all(in_json(text).as_bytes())?;
    out.write_all(b"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_structure_look_like_others() {
        #[derive(Serialize)]
        struct Inner {
            n: u64,
        }
        #[derive(Serialize)]
        struct Outer {
            text: &'static str,
            real: f64,
            nothing: Option<u64>,
            never: f64,
            inner: Inner,
            list: Vec<Inner>,
            words: Vec<&'static str>,
            empty: [u64; 0],
        }
        const STRANGE: &str = "a\"b\\c\nd\u{1}é\u{7f}\t\r\u{8}\u{c}/";
        let document = |depth: usize, write: &dyn Fn(&mut Json<&mut Vec<u8>>) -> io::Result<()>| {
            let mut bytes = Vec::new();
            let mut json = Json::new(&mut bytes);
            let all = (|| {
                json.object()?;
                json.text("first", "before")?;
                for _ in 0..depth {
                    json.member_object("deeper")?;
                }
                write(&mut json)?;
                json.text("last", "after")?;
                for _ in 0..=depth {
                    json.end_object()?;
                }
                json.finish()
            })();
            all.expect("written");
            String::from_utf8(bytes).expect("text")
        };
        for depth in 0..4 {
            let by_hand = document(depth, &|json| {
                json.text("text", STRANGE)?;
                json.real("real", 0.25)?;
                json.null("nothing")?;
                json.null("never")?;
                json.member_object("inner")?;
                json.number("n", 7_u64)?;
                json.end_object()?;
                json.member_array("list")?;
                for n in [1_u64, 2] {
                    json.object()?;
                    json.number("n", n)?;
                    json.end_object()?;
                }
                json.end_array()?;
                json.texts("words", ["x", "y"])?;
                json.numbers("empty", &[])
            });
            let derived = document(depth, &|json| {
                json.members(&Outer {
                    text: STRANGE,
                    real: 0.25,
                    nothing: None,
                    never: f64::INFINITY,
                    inner: Inner { n: 7 },
                    list: vec![Inner { n: 1 }, Inner { n: 2 }],
                    words: vec!["x", "y"],
                    empty: [],
                })
            });
            assert_eq!(by_hand, derived);
        }
    }

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
