//! The values of arguments, from their texts.
//!
//! A text that means nothing gets an error that says what to write; clap puts the argument's name before it.

use std::path::PathBuf;
use std::time::Duration;

use trommel_profile::simulated::Caches;
use trommel_query::Field;
use trommel_query::pair::Word;
use trommel_tuple::{Kind, KindSet};

/// Part of a program to observe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Only {
    /// A module (file name or path) or a symbol.
    Name(String),
    /// Addresses as `objdump -d` prints them, the last one excluded.
    Range(u64, u64),
}

/// A budget in percent.
pub(super) fn budget(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|p| (0.1..=50.0).contains(p));
    percent.ok_or_else(|| "give percent, from 0.1 to 50".to_owned())
}

pub(super) fn limit(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|p| (0.1..=50.0).contains(p));
    percent.ok_or_else(|| "give percent, from 0.1 to 50, as in --converge=2".to_owned())
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    let percent = percent.filter(|p| (0.0..=100.0).contains(p));
    percent.ok_or_else(|| "give percent, from 0 to 100".to_owned())
}

pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.parse().ok();
    let rate = rate.filter(|r| (1.0..=20_000.0).contains(r));
    rate.ok_or_else(|| "give a number from 1 to 20000".to_owned())
}

pub(super) fn epoch(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(86_400);
    crate::time::parse_length(text)
        .filter(|length| (LEAST..=MOST).contains(length))
        .ok_or_else(|| "give a length of time from 1s to 1d, such as 60s, 5m or 1h".to_owned())
}

pub(super) fn moment(text: &str) -> Result<u64, String> {
    crate::time::parse_moment(text).ok_or_else(|| {
        "give a length of time ago, such as 30s, 5m, 2h or 7d, or a time in UTC, such as 2026-11-22T18:05".to_owned()
    })
}

/// Seconds, or none.
pub(super) fn after(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0.0) => Ok(Duration::ZERO),
        _ => seconds(text),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| *s > 0.0);
    seconds
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| "give a number of seconds, such as 0.5".to_owned())
}

/// From one screen to the next.
pub(super) fn delay(text: &str) -> Result<Duration, String> {
    seconds(text)
        .ok()
        .filter(|delay| (0.2..=60.0).contains(&delay.as_secs_f64()))
        .ok_or_else(|| "give a number of seconds, from 0.2 to 60".to_owned())
}

/// A whole number with one of these letters after it, or none.
fn scaled(text: &str, units: &[(char, u64)]) -> Option<u64> {
    let unit = units.iter().find(|(letter, _)| text.ends_with(*letter));
    let (digits, unit) = unit.map_or((text, 1), |(_, unit)| (&text[..text.len() - 1], *unit));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A number of bytes with k or K, M or G after it for powers of 1024, or none.
fn bytes_from(least: u64, text: &str) -> Option<u64> {
    let units = [
        ('k', 1 << 10),
        ('K', 1 << 10),
        ('M', 1 << 20),
        ('G', 1 << 30),
    ];
    scaled(text, &units).filter(|bytes| *bytes >= least)
}

/// Bytes of memory, at least a megabyte.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    bytes_from(1 << 20, text)
        .ok_or_else(|| "give a number of bytes, such as 512M or 4G, at least 1M".to_owned())
}

/// Bytes of a code cache, or of a database.
pub(super) fn size(text: &str) -> Result<u64, String> {
    bytes_from(64 << 10, text)
        .ok_or_else(|| "give a number of bytes, such as 512k or 4M, at least 64k".to_owned())
}

/// A number above 0, with k or M after it for thousands and millions.
pub(super) fn number(text: &str) -> Result<u64, String> {
    scaled(text, &[('k', 1000), ('M', 1_000_000)])
        .filter(|n| *n > 0)
        .ok_or_else(|| format!("`{text}` is no number above 0, such as 500k or 20M"))
}

/// Queries that are loaded later.
#[derive(Clone, Debug)]
pub(crate) struct LaterLoad {
    /// Instructions before.
    pub(crate) after: u64,
    /// The file with the queries.
    pub(crate) file: PathBuf,
}

/// A load, such as `500k:misses.rpa`.
pub(super) fn load(text: &str) -> Result<LaterLoad, String> {
    let parts = text.split_once(':').filter(|(_, file)| !file.is_empty());
    let (after, file) =
        parts.ok_or_else(|| format!("`{text}` is no load, such as 500k:misses.rpa"))?;
    Ok(LaterLoad {
        after: number(after)?,
        file: file.into(),
    })
}

/// Cycles of a cost model.
pub(super) fn cycles(text: &str) -> Result<f64, String> {
    let cycles = text.parse().ok().filter(|n| (0.1..=1e6).contains(n));
    cycles.ok_or_else(|| format!("`{text}` is no number of cycles from 0.1 to 1000000"))
}

pub(super) fn kind(text: &str) -> Result<Kind, String> {
    text.parse::<Kind>().map_err(|e| e.to_string())
}

/// A service named on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ServiceSpec {
    /// The name as written.
    pub(crate) name: String,
    /// None: it is given intervals alone.
    pub(crate) queue: Option<u8>,
    pub(crate) library: PathBuf,
    pub(crate) argument: String,
}

pub(super) fn service(text: &str) -> Result<ServiceSpec, String> {
    let form =
        "write QUEUE=LIB or QUEUE=LIB:ARGUMENT, such as 1=./edges.so, or LIB alone for intervals";
    let (queue, rest) = match text.split_once('=') {
        Some((queue, rest)) if !queue.contains([':', '/']) => (Some(queue), rest),
        _ => (None, text),
    };
    let number = |queue: &str| {
        let number = queue.parse::<u8>();
        number.map_err(|_| format!("`{queue}` is not the number of a queue, 0 to 255: {form}"))
    };
    let queue = queue.map(number).transpose()?;
    let (library, argument) = rest.split_once(':').unwrap_or((rest, ""));
    match library {
        "" => Err(format!("no library is named: {form}")),
        _ => Ok(ServiceSpec {
            name: text.to_owned(),
            queue,
            library: library.into(),
            argument: argument.to_owned(),
        }),
    }
}

/// A word of the messages of queries.
pub(super) fn word(text: &str) -> Result<Word, String> {
    Word::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Field::ALL.iter().map(|field| field.name()).collect();
        format!(
            "fields are {}; of pairs also second.FIELD and distance",
            names.join(", ")
        )
    })
}

/// A customisation module named on the command line.
#[derive(Clone, Debug)]
pub(crate) struct ModuleSpec {
    /// The name as written.
    pub(crate) name: String,
    pub(crate) library: PathBuf,
    pub(crate) argument: String,
}

pub(super) fn module(text: &str) -> Result<ModuleSpec, String> {
    let (library, argument) = text.split_once(':').unwrap_or((text, ""));
    match library {
        "" => Err("no library is named: write LIB or LIB:ARGUMENT, such as ./strides.so".into()),
        _ => Ok(ModuleSpec {
            name: text.to_owned(),
            library: library.into(),
            argument: argument.to_owned(),
        }),
    }
}

/// Events that `record` collects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Events {
    pub(crate) kinds: KindSet,
    /// Call paths, by samples.
    pub(crate) stacks: bool,
    /// Calling contexts.
    pub(crate) contexts: bool,
    /// Lines that threads share.
    pub(crate) sharing: bool,
}

pub(super) fn events(text: &str) -> Result<Events, String> {
    const STACK: &str = "stack";
    const CONTEXT: &str = "context";
    const SHARING: &str = "sharing";
    let stacks = text.split(',').any(|name| name == STACK);
    if stacks && text != STACK {
        return Err(
            "`stack` is by samples, and cannot be combined with other events: make two recordings"
                .into(),
        );
    }
    let others = text
        .split(',')
        .filter(|name| ![CONTEXT, SHARING].contains(name));
    let others: Vec<&str> = others.collect();
    let [contexts, sharing] = [CONTEXT, SHARING].map(|name| text.split(',').any(|n| n == name));
    if (contexts || sharing) && others.contains(&"none") {
        return Err("`none` cannot be combined with other events".into());
    }
    let kinds = match stacks || others.is_empty() {
        true => KindSet::NONE,
        false => kinds(&others.join(","))?,
    };
    Ok(Events {
        kinds,
        stacks,
        contexts,
        sharing,
    })
}

pub(super) fn kinds(text: &str) -> Result<KindSet, String> {
    if text == "none" {
        return Ok(KindSet::NONE);
    }
    let mut set = KindSet::NONE;
    for name in text.split(',') {
        match name.parse() {
            Ok(Kind::Result) => {
                return Err(
                    "`result` cannot be recorded without a query; use edge, call, value, type, path, miss, llmiss, mispredict, \
                     none, or in windows address and latency"
                        .into(),
                );
            }
            Ok(kind) => set = set.with(kind),
            Err(_) if name == "none" => {
                return Err("`none` cannot be combined with other events".into());
            }
            Err(_) => {
                return Err(format!(
                    "`{name}` is no event; use edge, call, value, type, path, miss, llmiss, mispredict or none, in windows also \
                     address and latency, separated by commas; `record` also takes stack, context and sharing"
                ));
            }
        }
    }
    Ok(set)
}

/// Caches to simulate.
pub(super) fn caches(text: &str) -> Result<Caches, String> {
    text.parse()
}

pub(super) fn only(text: &str) -> Result<Only, String> {
    let hex = |s: &str| {
        let digits = s.strip_prefix("0x").unwrap_or(s);
        u64::from_str_radix(digits, 16).ok()
    };
    if text.is_empty() {
        return Err("name a module, a symbol or a range LO-HI".into());
    }
    if let Some((low, high)) = text.split_once('-')
        && let (Some(low), Some(high)) = (hex(low), hex(high))
    {
        if low >= high {
            return Err(format!(
                "the range is empty: {low:#x} is not below {high:#x}"
            ));
        }
        return Ok(Only::Range(low, high));
    }
    Ok(Only::Name(text.to_owned()))
}

#[cfg(test)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_sets() {
        assert_eq!(kinds("none"), Ok(KindSet::NONE));
        assert_eq!(
            kinds("call,edge"),
            Ok(KindSet::NONE.with(Kind::Edge).with(Kind::Call))
        );
        for wrong in ["", "edges", "edge,", "edge,none", "result"] {
            assert!(kinds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stacks_are_recorded_alone() {
        let stacks = |text| events(text).map(|events| (events.stacks, events.kinds.is_empty()));
        assert_eq!(stacks("stack"), Ok((true, true)));
        assert_eq!(stacks("edge,call"), Ok((false, false)));
        for wrong in ["stack,edge", "stacks", "none,stack", "context,stack"] {
            assert!(events(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn contexts_go_with_kinds() {
        let both = |text| events(text).map(|events| (events.contexts, events.kinds));
        let edges = KindSet::NONE.with(Kind::Edge);
        assert_eq!(both("context"), Ok((true, KindSet::NONE)));
        assert_eq!(both("edge,context"), Ok((true, edges)));
        assert_eq!(both("edge"), Ok((false, edges)));
        for wrong in ["context,none", "contexts", "context,", ""] {
            assert!(events(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_are_hex_and_the_rest_are_names() {
        assert_eq!(only("0x10-20"), Ok(Only::Range(0x10, 0x20)));
        assert_eq!(only("libfoo-1.so"), Ok(Only::Name("libfoo-1.so".into())));
        assert!(only("20-10").is_err() && only("").is_err());
    }
}
