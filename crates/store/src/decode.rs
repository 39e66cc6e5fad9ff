//! From bytes to profiles. The inverse of `encode`, believing nothing.

use std::collections::BTreeMap;
use std::io::Read;

use trommel_profile::arguments::{Argument, Passed, REGISTERS};
use trommel_profile::callers::Called;
use trommel_profile::custom::{Custom, Value, Valued};
use trommel_profile::filter::{Filter, Filtered};
use trommel_profile::memory::{Cache, Conflict, Level, Levels, Pair};
use trommel_profile::queries::{Acted, Count, Queries, Seen, Served, Told};
use trommel_profile::windows::Windows;
use trommel_profile::{Counted, KindProfile, Loaded, Module, Origin, Profile, Run, Site, Thread};
use trommel_tuple::{Kind, ModuleId, Place};

use crate::chunk::{Chunk, Reader, Tag};
use crate::error::DecodeError;
use crate::fields::{Inside, flag, of_samples, real, text};
use crate::format::{MAGIC, VERSION};
use crate::samples;
use crate::varint::Cursor;

pub(crate) fn decode(input: impl Read) -> Result<Vec<Profile>, DecodeError> {
    let mut input = Reader::new(input);
    start(&mut input)?;
    let mut profiles: Vec<Profile> = Vec::new();
    loop {
        let Chunk { tag, at, raw } = input.chunk()?;
        let corrupt = |what: &str| DecodeError::Corrupt {
            at,
            what: what.to_owned(),
        };
        if tag == Tag::Head {
            profiles.push(Profile::default());
        }
        let Some(profile) = profiles.last_mut() else {
            return Err(corrupt("the head is not where it should be"));
        };
        let mut cursor = Cursor(&raw);
        match tag {
            Tag::Head => head(&mut cursor, profile),
            Tag::Modules => modules(&mut cursor, profile),
            Tag::Kind => kind_totals(&mut cursor, profile),
            Tag::Counts => counts(&mut cursor, profile),
            Tag::Sites => sites(&mut cursor, profile),
            Tag::Threads => threads(&mut cursor, profile),
            Tag::Windows => windows(&mut cursor, profile),
            Tag::Sampled => sampled(&mut cursor, profile),
            Tag::Queries => queries(&mut cursor, profile),
            Tag::Messages => messages(&mut cursor, profile),
            Tag::Service => service(&mut cursor, profile),
            Tag::Rows => rows(&mut cursor, profile),
            Tag::Pairs => pairs(&mut cursor, profile),
            Tag::Arguments => arguments(&mut cursor, profile),
            Tag::Callers => callers(&mut cursor, profile),
            Tag::Levels => levels(&mut cursor, profile),
            Tag::Custom => custom(&mut cursor, profile),
            Tag::Valued => valued(&mut cursor, profile),
            Tag::Samples => samples::head(&mut cursor, profile),
            Tag::Found => samples::found(&mut cursor, profile),
            Tag::Functions => samples::functions(&mut cursor, profile),
            Tag::Filter => filter(&mut cursor, profile),
            Tag::Filtered => filtered(&mut cursor, profile),
            Tag::End => end(&mut cursor, input.number()),
        }
        .map_err(corrupt)?;
        if !cursor.is_empty() {
            return Err(corrupt("a chunk holds more than it should"));
        }
        if tag == Tag::End {
            break;
        }
    }
    match input.up_to(1)?.is_empty() {
        true => Ok(profiles),
        false => Err(DecodeError::Corrupt {
            at: input.position(),
            what: "there are bytes after its end".into(),
        }),
    }
}

fn start<R: Read>(input: &mut Reader<R>) -> Result<(), DecodeError> {
    let magic = input.up_to(MAGIC.len())?;
    if magic != MAGIC {
        if !magic.is_empty() && MAGIC.starts_with(&magic) {
            return Err(DecodeError::Truncated {
                at: input.position(),
                what: "its first bytes",
            });
        }
        return Err(DecodeError::NotAProfile(match &magic[..] {
            [] => "it is empty".into(),
            b"\x89TROEPOC" => {
                "it is an epoch of a database: name the directory that its own is in".into()
            }
            b"PERFILE2" => "it is a profile of perf".into(),
            [0x7f, b'E', b'L', b'F', ..] => "it is a program".into(),
            [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is a compressed file".into(),
            [b'{' | b'[', ..] => "it looks like JSON".into(),
            other => {
                let bytes: Vec<String> = other.iter().map(|b| format!("{b:02x}")).collect();
                format!("it starts with {}", bytes.join(" "))
            }
        }));
    }
    let version = input.up_to(4)?;
    let Ok(version) = <[u8; 4]>::try_from(version) else {
        return Err(DecodeError::Truncated {
            at: input.position(),
            what: "its version",
        });
    };
    match u32::from_le_bytes(version) {
        VERSION => Ok(()),
        other => Err(DecodeError::Version(other)),
    }
}

fn head(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let number = |n: u64| u32::try_from(n).map_err(|_| "the number of a process is too large");
    profile.origin = Origin {
        pid: number(cursor.number()?)?,
        parent: number(cursor.number()?)?,
        exec: match cursor.byte()? {
            0 => false,
            1 => true,
            _ => return Err("how a process ended is malformed"),
        },
    };
    for _ in 0..cursor.number()? {
        profile.command.push(cursor.bytes()?.to_vec());
    }
    profile.compressor = text(cursor)?;
    profile.counted = match cursor.byte()? {
        0 => Counted::Service,
        1 => Counted::Code,
        _ => return Err("who counted is malformed"),
    };
    let mut run = Run::default();
    for field in [
        &mut run.started,
        &mut run.wall,
        &mut run.target_cpu,
        &mut run.host_cpu,
        &mut run.dropped,
        &mut run.undercount,
        &mut run.waits,
        &mut run.wait_time,
    ] {
        *field = cursor.number()?;
    }
    let ended = cursor.byte()?;
    let status = i32::try_from(cursor.signed()?).map_err(|_| "an exit status is too large")?;
    run.status = match ended {
        0 if status == 0 => None,
        1 => Some(status),
        _ => return Err("the exit status is malformed"),
    };
    for _ in 0..cursor.number()? {
        run.detach.push(text(cursor)?);
    }
    profile.run = run;
    Ok(())
}

fn modules(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    for _ in 0..cursor.number()? {
        let id = cursor.number()?;
        profile.modules.push(Module {
            id: ModuleId(u16::try_from(id).map_err(|_| "a module number is too large")?),
            path: cursor.bytes()?.to_vec(),
            build_id: cursor.bytes()?.to_vec(),
            loaded: loaded(cursor)?,
        });
    }
    Ok(())
}

fn loaded(cursor: &mut Cursor<'_>) -> Inside<Option<Loaded>> {
    match cursor.byte()? {
        0 => Ok(None),
        1 => Ok(Some(Loaded {
            start: cursor.number()?,
            end: cursor.number()?,
            bias: cursor.number()?,
        })),
        _ => Err("the place of a module is malformed"),
    }
}

fn kind_totals(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let kind = kind(cursor)?;
    let totals = KindProfile {
        seen: cursor.number()?,
        messages: cursor.number()?,
        ..KindProfile::default()
    };
    match profile.kinds.insert(kind, totals) {
        None => Ok(()),
        Some(_) => Err("a kind is there twice"),
    }
}

fn counts(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let kind = kind(cursor)?;
    let data = profile
        .kinds
        .get_mut(&kind)
        .ok_or("counts come before their kind")?;
    let mut before = 0_u64;
    while !cursor.is_empty() {
        let word = before
            .checked_add(cursor.number()?)
            .ok_or("a place is too large")?;
        before = word;
        let length = cursor.number()?;
        let mut last = if kind.value_is_place() { word } else { 0 };
        let values = data.counts.entry(Place::from_word(word)).or_default();
        // A value and its count take two bytes at least.
        let possible = (cursor.remaining() / 2) as u64;
        if length > possible {
            return Err("a place has more values than there are bytes");
        }
        values.reserve_exact(length as usize);
        for _ in 0..length {
            let value = last.wrapping_add_signed(cursor.signed()?);
            if values.last().is_some_and(|(earlier, _)| *earlier >= value) {
                return Err("values are out of order");
            }
            values.push((value, cursor.number()?));
            last = value;
        }
    }
    Ok(())
}

fn sites(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let mut before = 0_u64;
    while !cursor.is_empty() {
        let word = before
            .checked_add(cursor.number()?)
            .ok_or("a place is too large")?;
        before = word;
        let site = match cursor.byte()? {
            0 => Site::Conditional {
                taken: Place::from_word(word.wrapping_add_signed(cursor.signed()?)),
                fallthrough: Place::from_word(word.wrapping_add_signed(cursor.signed()?)),
            },
            1 => Site::IndirectJump,
            2 => Site::DirectCall,
            3 => Site::IndirectCall,
            _ => return Err("a branch of an unknown type"),
        };
        profile.sites.insert(Place::from_word(word), site);
    }
    Ok(())
}

fn threads(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let small = |n: u64| u32::try_from(n).map_err(|_| "a thread's number is too large");
    profile.threads.started = cursor.number()?;
    while !cursor.is_empty() {
        let mut thread = Thread {
            number: small(cursor.number()?)?,
            tid: small(cursor.number()?)?,
            ..Thread::default()
        };
        for _ in 0..cursor.number()? {
            let kind = kind(cursor)?;
            thread.seen.insert(kind, cursor.number()?);
        }
        profile.threads.each.push(thread);
    }
    Ok(())
}

fn windows(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let mut windows = Windows::default();
    for field in [
        &mut windows.taken,
        &mut windows.counted,
        &mut windows.whole,
        &mut windows.calls,
        &mut windows.signals,
        &mut windows.refused,
        &mut windows.skipped,
        &mut windows.instructions,
        &mut windows.cpu,
        &mut windows.wall,
        &mut windows.in_windows,
        &mut windows.in_kernel,
        &mut windows.host,
        &mut windows.covered,
    ] {
        *field = cursor.number()?;
    }
    windows.length =
        u32::try_from(cursor.number()?).map_err(|_| "the length of a window is too large")?;
    windows.budget = real(cursor)?;
    windows.rate = real(cursor)?;
    windows.pacing = text(cursor)?;
    match profile.windows.replace(windows) {
        None => Ok(()),
        Some(_) => Err("windows are there twice"),
    }
}

fn sampled(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let kind = kind(cursor)?;
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("samples come before their windows")?;
    let sites = windows.sites.entry(kind).or_default();
    let mut before = 0_u64;
    while !cursor.is_empty() {
        let word = before
            .checked_add(cursor.number()?)
            .ok_or("a place is too large")?;
        before = word;
        let sampled = of_samples(cursor)?;
        if sites.insert(Place::from_word(word), sampled).is_some() {
            return Err("the samples of a place are there twice");
        }
    }
    Ok(())
}

fn filter(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let filter = Filter {
        limit: real(cursor)?,
        rounds: cursor.number()?,
        tables: cursor.number()?,
        places: BTreeMap::new(),
    };
    match profile.filter.replace(filter) {
        None => Ok(()),
        Some(_) => Err("what was filtered is there twice"),
    }
}

fn filtered(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let filter = profile.filter.as_mut();
    let filter = filter.ok_or("filtered places come before their filter")?;
    while !cursor.is_empty() {
        let place = Place::from_word(cursor.number()?);
        let (outs, changes) = (cursor.number()?, cursor.number()?);
        let flags = cursor.byte()?;
        if flags > 3 {
            return Err("how a place was filtered is malformed");
        }
        let filtered = Filtered {
            outs,
            changes,
            settled: flags & 1 != 0,
            unprofiled: match flags & 2 {
                0 => None,
                _ => Some(cursor.number()?),
            },
        };
        if filter.places.insert(place, filtered).is_some() {
            return Err("a filtered place is there twice");
        }
    }
    Ok(())
}

fn pairs(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("pairs come before their windows")?;
    while !cursor.is_empty() {
        let conflict = Conflict::from_number(cursor.byte()?);
        let store = cursor.number()?;
        let pair = Pair {
            conflict: conflict.ok_or("a conflict that does not exist")?,
            store: Place::from_word(store),
            load: Place::from_word(store.wrapping_add_signed(cursor.signed()?)),
        };
        let sampled = of_samples(cursor)?;
        if windows.pairs.insert(pair, sampled).is_some() {
            return Err("a pair is there twice");
        }
    }
    Ok(())
}

fn arguments(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("arguments come before their windows")?;
    while !cursor.is_empty() {
        let register = cursor.byte()?;
        if usize::from(register) >= REGISTERS.len() {
            return Err("a register that passes no argument");
        }
        let passed = Passed {
            register,
            target: Place::from_word(cursor.number()?),
            call: flag(cursor)?
                .then(|| cursor.number())
                .transpose()?
                .map(Place::from_word),
        };
        let argument = values(cursor)?;
        if windows.arguments.insert(passed, argument).is_some() {
            return Err("an argument is there twice");
        }
    }
    Ok(())
}

/// What is known of values, and these.
fn values(cursor: &mut Cursor<'_>) -> Inside<Argument> {
    let sampled = of_samples(cursor)?;
    let length = cursor.number()?;
    // A value and its count take two bytes at least.
    if length > (cursor.remaining() / 2) as u64 {
        return Err("there are more values than bytes");
    }
    let mut counts: Vec<(u64, u64)> = Vec::with_capacity(length as usize);
    for _ in 0..length {
        let last = counts.last().map_or(0, |(value, _)| *value);
        let value = last.checked_add(cursor.number()?);
        let value = value.ok_or("a value is too large")?;
        if value == last && !counts.is_empty() {
            return Err("a value is there twice");
        }
        counts.push((value, cursor.number()?));
    }
    Ok(Argument { sampled, counts })
}

fn callers(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("callers come before their windows")?;
    let callers = windows.callers.get_or_insert_default();
    let dropped = callers.dropped.checked_add(cursor.number()?);
    callers.dropped = dropped.ok_or("the number of samples is too large")?;
    while !cursor.is_empty() {
        let called = Called {
            kind: kind(cursor)?,
            at: Place::from_word(cursor.number()?),
            call: flag(cursor)?
                .then(|| cursor.number())
                .transpose()?
                .map(Place::from_word),
        };
        let values = values(cursor)?;
        if callers.lists.insert(called, values).is_some() {
            return Err("the values of a caller are there twice");
        }
    }
    Ok(())
}

fn levels(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("levels come before their windows")?;
    let mut levels = Levels {
        own: cursor.number()?,
        cycle: real(cursor)?,
        levels: Vec::new(),
    };
    while !cursor.is_empty() {
        let cache = Cache::from_number(cursor.byte()?);
        levels.levels.push(Level {
            cache: cache.ok_or("a level that does not exist")?,
            typical: cursor.number()?,
            below: cursor.number()?,
            mistaken: real(cursor)?,
        });
    }
    match windows.levels.replace(levels) {
        None => Ok(()),
        Some(_) => Err("levels are there twice"),
    }
}

fn custom(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("a customisation module comes before its windows")?;
    let mut custom = Custom {
        name: text(cursor)?,
        title: text(cursor)?,
        places: flag(cursor)?,
        windows: cursor.number()?,
        lost: cursor.number()?,
        pairs: cursor.number()?,
        ..Custom::default()
    };
    for _ in 0..cursor.number()? {
        custom.failures.push(text(cursor)?);
    }
    match windows.custom.replace(custom) {
        None => Ok(()),
        Some(_) => Err("a customisation module is there twice"),
    }
}

fn valued(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let custom = profile.windows.as_mut().and_then(|w| w.custom.as_mut());
    let custom = custom.ok_or("pairs come before their customisation module")?;
    while !cursor.is_empty() {
        let place = Place::from_word(cursor.number()?);
        let mut valued = Valued {
            sampled: of_samples(cursor)?,
            ..Valued::default()
        };
        for _ in 0..cursor.number()? {
            let value = cursor.number()?;
            let count = cursor.number()?;
            let text = flag(cursor)?.then(|| text(cursor)).transpose()?;
            if valued.values.insert(value, Value { count, text }).is_some() {
                return Err("a value of a pair is there twice");
            }
        }
        if custom.sites.insert(place, valued).is_some() {
            return Err("the pairs of a place are there twice");
        }
    }
    Ok(())
}

fn queries(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let mut queries = Queries {
        program: cursor.bytes()?.to_vec(),
        places: cursor.bytes()?.to_vec(),
        untabulated: cursor.number()?,
        ..Queries::default()
    };
    for _ in 0..cursor.number()? {
        let rule = cursor.number()?;
        let rule = u16::try_from(rule).map_err(|_| "the number of a rule is too large")?;
        queries.unmet.push(rule);
    }
    for _ in 0..cursor.number()? {
        let entry = cursor.byte()?;
        let seen = Seen {
            executed: cursor.number()?,
            profiled: cursor.number()?,
            acted: cursor.number()?,
        };
        if queries.seen.insert(entry, seen).is_some() {
            return Err("a table entry is there twice");
        }
    }
    for _ in 0..cursor.number()? {
        queries.done.push(Acted {
            sent: cursor.number()?,
            served: cursor.number()?,
            dropped: cursor.number()?,
            counted: cursor.number()?,
            counted_for: cursor.number()?,
            interrupted: cursor.number()?,
        });
    }
    match profile.queries.replace(queries) {
        None => Ok(()),
        Some(_) => Err("queries are there twice"),
    }
}

fn messages(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let queries = profile.queries.as_mut();
    let queries = queries.ok_or("messages come before their queries")?;
    while !cursor.is_empty() {
        let (at, queue, length) = (cursor.byte()?, cursor.byte()?, cursor.byte()?);
        let mut words = Vec::with_capacity(length.into());
        for _ in 0..length {
            words.push(cursor.number()?);
        }
        let told = Told { at, queue, words };
        let count = Count {
            messages: cursor.number()?,
            executions: cursor.number()?,
        };
        if queries.messages.insert(told, count).is_some() {
            return Err("a message is there twice");
        }
    }
    Ok(())
}

fn service(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    fn text(cursor: &mut Cursor<'_>) -> Inside<String> {
        let text = cursor.bytes()?.to_vec();
        String::from_utf8(text).map_err(|_| "a text of a service is malformed")
    }
    let mut served = Served {
        name: text(cursor)?,
        ..Served::default()
    };
    for texts in [&mut served.columns, &mut served.failures] {
        for _ in 0..cursor.number()? {
            texts.push(text(cursor)?);
        }
    }
    served.places = cursor.byte()?;
    served.messages = cursor.number()?;
    served.lost = cursor.number()?;
    let queries = profile.queries.as_mut();
    let queries = queries.ok_or("a service comes before its queries")?;
    queries.services.push(served);
    Ok(())
}

fn rows(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let services = profile.queries.as_mut().map(|q| &mut q.services);
    let served = services.and_then(|s| s.last_mut());
    let served = served.ok_or("rows come before their service")?;
    while !cursor.is_empty() {
        let length = cursor.byte()?;
        let mut words = Vec::with_capacity(length.into());
        for _ in 0..length {
            words.push(cursor.number()?);
        }
        if served.rows.insert(words, cursor.number()?).is_some() {
            return Err("a row is there twice");
        }
    }
    Ok(())
}

fn end(cursor: &mut Cursor<'_>, chunks: u32) -> Inside<()> {
    match cursor.number()? {
        n if n.checked_add(1) == Some(chunks.into()) => Ok(()),
        _ => Err("chunks are missing"),
    }
}

fn kind(cursor: &mut Cursor<'_>) -> Inside<Kind> {
    Kind::from_number(cursor.byte()?).ok_or("an event kind that does not exist")
}
