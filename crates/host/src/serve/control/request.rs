//! Requests as they come: bytes of whoever has connected.

use trommel_query::{Program, image};

use crate::ask::answerable;
use crate::ask::loads::{is_name, is_word};

/// Bytes of a request at most.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// Bytes of its first line at most.
const MOST_LINE: usize = 256;

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    /// A process of the session, or the session's own.
    pub(crate) pid: i32,
    /// The wish.
    pub(crate) wish: Wish,
}

/// Wish of a caller.
#[derive(Debug)]
pub(crate) enum Wish {
    /// A list of all queries.
    List,
    /// A program.
    Load {
        /// Its name.
        name: String,
        /// The program.
        program: Box<Program>,
    },
    /// The queries of a name, or those that send to a queue, away.
    Remove(String),
}

/// Returns the request, if it is whole.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Request>, String> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        return match bytes.len() > MOST_LINE {
            true => Err("the request has no end of line".to_owned()),
            false => Ok(None),
        };
    };
    let line = std::str::from_utf8(&bytes[..end.min(MOST_LINE)]);
    let line = line.map_err(|_| "the request is not text".to_owned())?;
    let words: Vec<&str> = line.split(' ').collect();
    let of = |pid: &str, wish: Wish| {
        let pid = pid.parse().ok().filter(|pid| *pid > 0);
        let pid = pid.ok_or_else(|| format!("{pid:?} is no process number"))?;
        Ok(Some(Request { pid, wish }))
    };
    match words[..] {
        ["trommel", "1", "list", pid] => of(pid, Wish::List),
        ["trommel", "1", "remove", pid, what] if is_word(what) => {
            of(pid, Wish::Remove(what.to_owned()))
        }
        ["trommel", "1", "load", pid, name, length] if is_name(name) => {
            let length: usize = length.parse().unwrap_or(usize::MAX);
            if length > MOST_BYTES - MOST_LINE {
                return Err("the program is too long".to_owned());
            }
            let image = &bytes[end + 1..];
            if image.len() < length {
                return Ok(None);
            }
            let program = image::decode(&image[..length]);
            let program = program.map_err(|error| format!("not an assembled query: {error}"))?;
            answerable::check(&program).map_err(|why| why.to_string())?;
            let (name, program) = (name.to_owned(), Box::new(program));
            of(pid, Wish::Load { name, program })
        }
        ["trommel", "1", ..] => Err(format!("{line:?} is no request")),
        ["trommel", version, ..] => Err(format!(
            "this session speaks version 1, and not {version}: use the trommel that it was started with"
        )),
        _ => Err(format!("{line:?} is no request")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn load(text: &str) -> Vec<u8> {
        let program = trommel_query::assemble(text).expect("good").program;
        let image = image::encode(&program);
        let mut request = format!("trommel 1 load 7 edges {}\n", image.len()).into_bytes();
        request.extend(image);
        request
    }

    #[test]
    fn requests_are_read_when_they_are_whole() {
        let whole = load("for opBRANCH * always collect pc; count stop;");
        for n in 0..whole.len() {
            assert!(matches!(parse(&whole[..n]), Ok(None)), "{n}");
        }
        let request = parse(&whole).expect("good").expect("whole");
        assert!(matches!(request.wish, Wish::Load { name, .. } if name == "edges"));
        let removes = parse(b"trommel 1 remove 9 edges:2\n").expect("good");
        assert!(matches!(removes.expect("whole").wish, Wish::Remove(what) if what == "edges:2"));
    }

    #[test]
    fn what_record_cannot_answer_is_refused() {
        let events = load("for evL2DMISS * always collect pc; count stop;");
        assert!(parse(&events).is_err_and(|why| why.contains("only a model")));
        for wrong in [
            &b"GET / HTTP/1.1\n"[..],
            b"trommel 2 list 1\n",
            b"trommel 1 list -1\n",
            b"trommel 1 remove 1 ../etc\n",
            b"trommel 1 load 1 3 4\nabcd",
            b"trommel 1 load 1 a 99999999999\n",
            b"\xff\xfe\n",
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn damaged_requests_do_no_harm(at in 0_usize..400, to in any::<u8>(), cut in 0_usize..400) {
            let mut request = load("tag 1 symbol f; for opLOAD 1 every 4 collect pc op1; if op1 <> 0 then send 3 stop else stop;");
            let len = request.len();
            request[at % len] = to;
            request.truncate(len.saturating_sub(cut % 20));
            let _ = parse(&request);
        }

        #[test]
        fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse(&bytes);
        }
    }
}
