//! Frames between us and the process that a module runs in.
//!
//! A frame is its length (4 bytes, of the rest), a tag, and numbers, all little-endian. The helper trusts requests:
//! it was forked from us. Replies come from a process in which foreign code runs. Nothing in them is trusted, and an unreadable
//! reply ends the helper.

use super::terms::{CLASSES, Terms};
use crate::channel::table::MOST_TEXT;

/// Longer frames are damage: a window of the longest is shorter.
pub(super) const LONGEST: usize = 16 << 20;

/// A captured instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Met<'a> {
    pub(super) number: u32,
    pub(super) class: u8,
    pub(super) pc: u64,
    pub(super) code: &'a [u8],
}

/// Requests to the helper, for an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Request<'a> {
    /// Creates the instance. Answered by [`Reply::Done`].
    Begin,
    /// Not answered.
    Met(Met<'a>),
    /// Instructions that a thread of a process executed: their numbers, and for each instruction its number (4 bytes) and the words that are captured of its
    /// class. Answered by [`Reply::Pairs`].
    Window(u32, u32, &'a [u8]),
    /// A value of an instruction is to be formatted. Answered by [`Reply::Text`].
    Format(u32, u64),
    /// The process has ended. Not answered.
    End,
}

/// Replies of the helper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reply {
    /// The module is loaded.
    Loaded(Terms),
    /// The request was done.
    Done,
    /// Pairs of an address and a value.
    Pairs(Vec<(u64, u64)>),
    /// A value's text, if it has one.
    Text(Option<String>),
    /// The request failed, and why.
    Failed(String),
}

/// Bytes written one after the other.
struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        // After everything else: its length is that of the frame.
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Appends a frame.
fn frame(to: &mut Vec<u8>, tag: u8, write: impl FnOnce(&mut Out<'_>)) {
    let at = to.len();
    to.extend_from_slice(&[0; 4]);
    to.push(tag);
    write(&mut Out(to));
    let length = (to.len() - at - 4) as u32;
    to[at..at + 4].copy_from_slice(&length.to_le_bytes());
}

/// The first frame of what has come, and how many bytes it takes.
///
/// # Errors
/// It is longer than any can be.
pub(super) fn split(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, ()> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if !(1..=LONGEST).contains(&length) {
        return Err(());
    }
    Ok(rest.get(..length).map(|frame| (frame, 4 + length)))
}

/// Numbers read one after the other.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*first))
    }

    fn u64(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    fn text(&mut self) -> String {
        let bytes = self.rest();
        String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_TEXT)]).into_owned()
    }
}

impl Request<'_> {
    /// Returns whether there is a reply to it.
    pub(super) const fn is_answered(&self) -> bool {
        matches!(self, Self::Begin | Self::Window(..) | Self::Format(..))
    }

    /// Appends it.
    pub(super) fn write(&self, instance: u32, to: &mut Vec<u8>) {
        let tag = match self {
            Self::Begin => b'b',
            Self::Met(_) => b'm',
            Self::Window(..) => b'w',
            Self::Format(..) => b'f',
            Self::End => b'e',
        };
        frame(to, tag, |out| {
            out.u32(instance);
            match *self {
                Self::Met(met) => {
                    out.u32(met.number);
                    out.0.push(met.class);
                    out.u64(met.pc);
                    out.0.extend_from_slice(met.code);
                }
                Self::Window(pid, thread, tuples) => {
                    out.u32(pid);
                    out.u32(thread);
                    out.0.extend_from_slice(tuples);
                }
                Self::Format(number, value) => {
                    out.u32(number);
                    out.u64(value);
                }
                Self::Begin | Self::End => {}
            }
        });
    }
}

impl<'a> Request<'a> {
    /// Reads a frame: the instance, and what is to be done for it.
    pub(super) fn read(frame: &'a [u8]) -> Option<(u32, Self)> {
        let mut input = In(frame);
        let tag = input.u8()?;
        let instance = input.u32()?;
        let request = match tag {
            b'b' => Self::Begin,
            b'm' => Self::Met(Met {
                number: input.u32()?,
                class: input.u8()?,
                pc: input.u64()?,
                code: input.rest(),
            }),
            b'w' => Self::Window(input.u32()?, input.u32()?, input.rest()),
            b'f' => Self::Format(input.u32()?, input.u64()?),
            b'e' => Self::End,
            _ => return None,
        };
        Some((instance, request)).filter(|_| input.0.is_empty())
    }
}

impl Reply {
    /// Appends it.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        match self {
            Self::Loaded(terms) => frame(to, b'l', |out| {
                out.u32(terms.places.into());
                terms.capture.iter().for_each(|bits| out.u32(*bits));
                out.text(&terms.title);
            }),
            Self::Done => frame(to, b'd', |_| ()),
            Self::Pairs(pairs) => frame(to, b'p', |out| {
                for (pc, value) in pairs {
                    out.u64(*pc);
                    out.u64(*value);
                }
            }),
            Self::Text(text) => frame(to, b't', |out| {
                out.0.push(text.is_some().into());
                out.text(text.as_deref().unwrap_or_default());
            }),
            Self::Failed(why) => frame(to, b'x', |out| out.text(why)),
        }
    }

    /// Reads a frame.
    pub(super) fn read(frame: &[u8]) -> Option<Self> {
        let mut input = In(frame);
        let reply = match input.u8()? {
            b'l' => {
                let places = match input.u32()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let mut capture = [0; CLASSES];
                for bits in &mut capture {
                    *bits = input.u32()?;
                }
                let title = input.text();
                Self::Loaded(Terms {
                    title,
                    places,
                    capture,
                })
            }
            b'd' => Self::Done,
            b'p' => {
                let words = input.rest();
                let (pairs, []) = words.as_chunks::<16>() else {
                    return None;
                };
                let pair = |bytes: &[u8; 16]| {
                    let mut pair = In(bytes);
                    Some((pair.u64()?, pair.u64()?))
                };
                Self::Pairs(pairs.iter().filter_map(pair).collect())
            }
            b't' => match input.u8()? {
                0 => Self::Text(None),
                1 => Self::Text(Some(input.text())),
                _ => return None,
            },
            b'x' => Self::Failed(input.text()),
            _ => return None,
        };
        Some(reply).filter(|_| input.0.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reply() -> impl Strategy<Value = Reply> {
        let capture = any::<[u32; CLASSES]>();
        prop_oneof![
            (".{0,20}", any::<bool>(), capture).prop_map(|(title, places, capture)| {
                Reply::Loaded(Terms {
                    title,
                    places,
                    capture,
                })
            }),
            Just(Reply::Done),
            prop::collection::vec(any::<(u64, u64)>(), 0..20).prop_map(Reply::Pairs),
            prop::option::of(".{0,20}").prop_map(Reply::Text),
            ".{0,20}".prop_map(Reply::Failed),
        ]
    }

    proptest! {
        #[test]
        fn replies_come_back_one_by_one(replies in prop::collection::vec(reply(), 0..8), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            replies.iter().for_each(|reply| reply.write(&mut bytes));
            let mut rest = &bytes[..];
            for reply in replies {
                let (frame, used) = split(rest).expect("ours").expect("whole");
                prop_assert_eq!(Reply::read(frame), Some(reply));
                // What has not come whole is waited for.
                prop_assert_eq!(split(&rest[..cut.index(used)]), Ok(None));
                rest = &rest[used..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn requests_come_back(instance: u32, a: u32, b: u64, class: u8, bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let met = Met { number: a, class, pc: b, code: &bytes };
            for request in [
                Request::Begin,
                Request::Met(met),
                Request::Window(a, !a, &bytes),
                Request::Format(a, b),
                Request::End,
            ] {
                let mut out = Vec::new();
                request.write(instance, &mut out);
                let (frame, used) = split(&out).expect("ours").expect("whole");
                prop_assert_eq!(used, out.len());
                prop_assert_eq!(Request::read(frame), Some((instance, request)));
            }
        }

        #[test]
        fn noise_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Reply::read(&bytes);
            if let Ok(Some((frame, used))) = split(&bytes) {
                prop_assert!(frame.len() + 4 == used && used <= bytes.len());
            }
        }
    }
}
