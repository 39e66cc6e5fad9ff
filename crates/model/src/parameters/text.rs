//! Machines as texts: a line for each number, so that users can have another machine.
//!
//! ```text
//! # A comment.
//! window = 64
//! second_cache = 512k/8/64
//! ```
//! What a text does not say is as in the machine that it is read for. [`write()`] writes all of a machine.

use std::fmt::Write as _;

use super::{Cheap, Geometry, Parameters, QueryEngine, SecondLevel, Translation, WrongPaths};
use crate::core::MAX_WINDOW;

/// An error in a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextError {
    /// The line, from 1.
    pub line: usize,
    /// The error, and what to write.
    pub what: String,
}

/// A number of a machine: its name, its range, and its place.
struct Number {
    name: &'static str,
    about: &'static str,
    range: std::ops::RangeInclusive<u64>,
    get: fn(&Parameters) -> u64,
    set: fn(&mut Parameters, u64),
}

macro_rules! number {
    ($name:literal, $range:expr, $($place:ident).+ $([$at:literal])?: $type:ty, $about:literal) => {
        Number {
            name: $name,
            about: $about,
            range: $range,
            get: |p| p.$($place).+$([$at])? as u64,
            set: |p, n| p.$($place).+$([$at])? = n as $type,
        }
    };
}

const NUMBERS: [Number; 17] = [
    number!("width", 1..=16, core.width: usize, "instructions in a cycle, in each stage"),
    number!("window", 1..=MAX_WINDOW as u64, core.window: usize, "instructions between dispatch and retirement"),
    number!("front_end", 1..=100, core.front_end: u64, "cycles from fetch to dispatch"),
    number!("redirect", 1..=100, core.redirect: u64, "cycles from a misprediction to the next fetch"),
    number!("integer_units", 1..=16, core.units[0]: usize, "units for integers"),
    number!("multipliers", 1..=16, core.units[1]: usize, "units for integer products and quotients"),
    number!("float_adders", 1..=16, core.units[2]: usize, "units for floating point sums"),
    number!("float_multipliers", 1..=16, core.units[3]: usize, "units for floating point products"),
    number!("ports", 1..=16, core.ports: usize, "memory accesses in a cycle"),
    number!("history", 1..=20, core.history: u32, "bits of history of the branch predictor"),
    number!("hit", 0..=20, core.hit: u32, "cycles of a hit in the first data cache, less 1"),
    number!("round_trip", 1..=200, core.round_trip: u32, "cycles where the second cache hits"),
    number!("networks", 1..=64, profiling.networks: usize, "profile networks"),
    number!("buffers", 1..=64, profiling.buffers: usize, "profile buffers"),
    number!("interrupt", 0..=200, profiling.interrupt: u32, "cycles without a fetch after an interrupt"),
    number!("message", 0..=64, profiling.message: u64, "cycles that a message takes to be written"),
    number!("period", 1..=1_000_000_000, profiling.period: u64, "cycles until `every auto` adapts its rates"),
];

/// Names of what is no number, and what it is.
const OTHERS: [(&str, &str); 9] = [
    ("code_cache", "first cache of instructions: bytes/ways/line"),
    ("data_cache", "first cache of data"),
    ("second_cache", "second cache, or perfect"),
    ("memory", "cycles of a second cache's miss beyond a hit"),
    ("tlb", "both TLBs: bytes of pages/ways/page, or perfect"),
    ("walk", "cycles of a miss of a TLB"),
    ("cheap", "needs no network: nothing, retirement or stores"),
    (
        "engine",
        "barrel or table: queries of one clause that sends",
    ),
    (
        "wrong_paths",
        "none, modelled, or profiled (squashed ones too)",
    ),
];

const CHEAP: [(&str, Cheap); 3] = [
    ("nothing", Cheap::Nothing),
    ("retirement", Cheap::Retirement),
    ("stores", Cheap::Stores),
];
const ENGINES: [(&str, QueryEngine); 2] = [
    ("barrel", QueryEngine::Barrel),
    ("table", QueryEngine::Table),
];
const WRONG_PATHS: [(&str, WrongPaths); 3] = [
    ("none", WrongPaths::None),
    ("modelled", WrongPaths::Modelled),
    ("profiled", WrongPaths::Profiled),
];

/// Bytes of a line at most, without its comment.
const LONGEST: usize = 200;

/// The value of a name.
fn named<T: Copy>(number: &str, name: &str, all: &[(&str, T)]) -> Result<T, String> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("{number}: `{name}` is none of {}", names.join(", "))
    })
}

fn name_of<T: Copy + PartialEq>(value: T, all: &[(&str, T)]) -> String {
    let found = all.iter().find(|(_, known)| *known == value);
    found.map_or_else(String::new, |(name, _)| (*name).to_owned())
}

/// A cache as it is written.
fn geometry(of: Geometry) -> String {
    let size = match of.bytes {
        n if n % (1 << 20) == 0 => format!("{}M", n >> 20),
        n if n % (1 << 10) == 0 => format!("{}k", n >> 10),
        n => n.to_string(),
    };
    format!("{size}/{}/{}", of.ways, of.line)
}

fn read_geometry(text: &str) -> Result<Geometry, String> {
    const LARGEST: u64 = 1 << 34;
    // Each takes memory of ours.
    const MOST_LINES: u64 = 1 << 24;
    let wrong = || format!("`{text}` is no cache: write bytes/ways/line, as in 32k/2/32");
    let parts: Vec<&str> = text.split('/').collect();
    let [size, ways, line] = parts[..] else {
        return Err(wrong());
    };
    let (digits, unit) = match size.char_indices().last() {
        Some((at, 'k')) => (&size[..at], 1 << 10),
        Some((at, 'M')) => (&size[..at], 1 << 20),
        _ => (size, 1),
    };
    let bytes = digits.parse().ok().and_then(|n: u64| n.checked_mul(unit));
    let (Some(bytes), Ok(ways), Ok(line)) = (bytes, ways.parse::<u64>(), line.parse::<u64>())
    else {
        return Err(wrong());
    };
    let lines = bytes / line.max(1);
    if lines > MOST_LINES {
        return Err(format!(
            "`{text}` has {lines} lines: a cache has {MOST_LINES} at most"
        ));
    }
    let set = ways.saturating_mul(line);
    let possible = (1..=64).contains(&ways)
        && line.is_power_of_two()
        && (8..=1 << 30).contains(&line)
        && bytes <= LARGEST
        && bytes >= set
        && bytes % set == 0;
    match possible {
        true => Ok(Geometry {
            bytes,
            ways: ways as usize,
            line,
        }),
        false => Err(format!(
            "`{text}`: 1 to 64 ways, a line of a power of two of bytes, and sets of {set} bytes that make up the size"
        )),
    }
}

/// Reads a text: the numbers that it gives take the place of those of `base`.
///
/// # Errors
/// The first line that says nothing of a machine.
pub fn read(text: &str, base: Parameters) -> Result<Parameters, TextError> {
    let mut machine = base;
    // Latencies of parts that may be perfect wait until it is known whether they are.
    let mut memory = base.core.second.map_or(80, |second| second.memory);
    let mut walk = base.core.translation.map_or(30, |tlb| tlb.walk);
    let mut known: Vec<String> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let wrong = |what: String| TextError { line: n + 1, what };
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        if line.len() > LONGEST {
            return Err(wrong(format!(
                "it is longer than {LONGEST} bytes: write NAME = VALUE"
            )));
        }
        let (name, value) = line
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
            .ok_or_else(|| wrong(format!("`{line}` gives nothing: write NAME = VALUE")))?;
        if known.iter().any(|other| other == name) {
            return Err(wrong(format!("`{name}` is there twice")));
        }
        known.push(name.to_owned());
        one(&mut machine, (&mut memory, &mut walk), name, value).map_err(wrong)?;
    }
    if let Some(second) = &mut machine.core.second {
        second.memory = memory;
    }
    if let Some(tlb) = &mut machine.core.translation {
        tlb.walk = walk;
    }
    Ok(machine)
}

fn whole(name: &str, value: &str, range: &std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let number = value.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| {
        let (low, high) = (range.start(), range.end());
        format!("{name}: `{value}` is no number from {low} to {high}")
    })
}

fn one(
    machine: &mut Parameters,
    (memory, walk): (&mut u32, &mut u32),
    name: &str,
    value: &str,
) -> Result<(), String> {
    if let Some(number) = NUMBERS.iter().find(|number| number.name == name) {
        (number.set)(machine, whole(name, value, &number.range)?);
        return Ok(());
    }
    let perfect = value == "perfect";
    match name {
        "code_cache" => machine.core.first[0] = read_geometry(value)?,
        "data_cache" => machine.core.first[1] = read_geometry(value)?,
        "second_cache" if perfect => machine.core.second = None,
        "second_cache" => {
            machine.core.second = Some(SecondLevel {
                cache: read_geometry(value)?,
                memory: 0,
            });
        }
        "memory" => *memory = whole(name, value, &(0..=10_000))? as u32,
        "tlb" if perfect => machine.core.translation = None,
        "tlb" => {
            machine.core.translation = Some(Translation {
                pages: read_geometry(value)?,
                walk: 0,
            });
        }
        "walk" => *walk = whole(name, value, &(0..=10_000))? as u32,
        "cheap" => machine.profiling.cheap = named(name, value, &CHEAP)?,
        "engine" => machine.profiling.engine = named(name, value, &ENGINES)?,
        "wrong_paths" => machine.core.wrong_paths = named(name, value, &WRONG_PATHS)?,
        _ => {
            let numbers = NUMBERS.iter().map(|number| number.name);
            let names: Vec<&str> = numbers.chain(OTHERS.map(|(name, _)| name)).collect();
            return Err(format!(
                "a machine has no `{name}`; it has {}",
                names.join(", ")
            ));
        }
    }
    Ok(())
}

/// Writes a machine, with what each line means.
pub fn write(machine: &Parameters) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str, about: &str| {
        let pair = format!("{name} = {value}");
        let _ = writeln!(out, "{pair:<28} # {about}");
    };
    for number in &NUMBERS {
        line(
            number.name,
            &(number.get)(machine).to_string(),
            number.about,
        );
    }
    let core = &machine.core;
    let perfect = || "perfect".to_owned();
    for (name, about) in OTHERS {
        let value = match name {
            "code_cache" => geometry(core.first[0]),
            "data_cache" => geometry(core.first[1]),
            "second_cache" => core.second.map_or_else(perfect, |s| geometry(s.cache)),
            "memory" => core.second.map_or(80, |s| s.memory).to_string(),
            "tlb" => core.translation.map_or_else(perfect, |t| geometry(t.pages)),
            "walk" => core.translation.map_or(30, |t| t.walk).to_string(),
            "cheap" => name_of(machine.profiling.cheap, &CHEAP),
            "engine" => name_of(machine.profiling.engine, &ENGINES),
            _ => name_of(core.wrong_paths, &WRONG_PATHS),
        };
        line(name, &value, about);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_as_it_is_written() {
        let mut astray = Parameters::TABLE_5;
        astray.core.wrong_paths = WrongPaths::Profiled;
        for machine in [Parameters::TABLE_5, Parameters::WITH_EVENTS, astray] {
            let text = write(&machine);
            assert_eq!(read(&text, Parameters::TABLE_5), Ok(machine), "{text}");
            assert_eq!(read(&text, Parameters::WITH_EVENTS), Ok(machine), "{text}");
            assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        }
    }

    #[test]
    fn what_a_text_does_not_say_stays() {
        let text = "# smaller\nwindow = 32\n\n  second_cache=64k/4/32 # tiny\nmemory = 7\ncheap = stores\nengine = table\n";
        let machine = read(text, Parameters::TABLE_5).expect("a machine");
        let mut expected = Parameters::TABLE_5;
        expected.core.window = 32;
        expected.core.second = Some(SecondLevel {
            cache: Geometry {
                bytes: 64 << 10,
                ways: 4,
                line: 32,
            },
            memory: 7,
        });
        expected.profiling.cheap = Cheap::Stores;
        expected.profiling.engine = QueryEngine::Table;
        assert_eq!(machine, expected);
    }

    #[test]
    fn what_is_no_machine_is_refused_with_its_line() {
        for (text, line, word) in [
            ("window = 129", 1, "from 1 to 128"),
            ("\nwindow", 2, "NAME = VALUE"),
            ("width = 8\nwidth = 8", 2, "twice"),
            ("windows = 8", 1, "no `windows`"),
            ("tlb = 64/4", 1, "bytes/ways/line"),
            ("data_cache = 33/2/32", 1, "sets of 64"),
            ("second_cache = 16384M/1/8", 1, "16777216 at most"),
            ("tlb = 99999999999M/4/0", 1, "lines"),
            (&"x".repeat(100_000), 1, "longer than 200 bytes"),
            ("cheap = all", 1, "none of"),
            ("engine = steam", 1, "none of barrel, table"),
            ("wrong_paths = both", 1, "none of none, modelled, profiled"),
        ] {
            let error = read(text, Parameters::TABLE_5).expect_err(text);
            assert_eq!(error.line, line, "{text}");
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
