//! From bytes to profiles. The inverse of `encode`, believing nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use trommel_profile::arguments::{Passed, REGISTERS};
use trommel_profile::call_tree::{Basis, Lost, NodeId};
use trommel_profile::intervals::{Interval, Intervals, Sequence};
use trommel_profile::memory::{Level, Levels};
use trommel_profile::queries::{Served, Windowed};
use trommel_profile::{KindProfile, Module, Profile, Scope};
use trommel_tuple::{Kind, ModuleId, Place};

use crate::chunk::{Chunk, Reader, Tag};
use crate::error::DecodeError;
use crate::field::{Field, Inside, insert, set};
use crate::format::{MAGIC, OLDEST, VERSION};
use crate::items::word;
use crate::layout::{few, get_site, short};
use crate::varint::Cursor;

pub(crate) fn decode(input: impl Read) -> Result<Vec<Profile>, DecodeError> {
    let mut input = Reader::new(input);
    let version = start(&mut input)?;
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
        part(tag, &mut cursor, profile, input.number()).map_err(corrupt)?;
        if tag == Tag::End && version > OLDEST && cursor.number() != Ok(version.into()) {
            return Err(corrupt("its version is not that of its beginning"));
        }
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

/// Returns the version of a file, if it is one that is read.
fn start<R: Read>(input: &mut Reader<R>) -> Result<u32, DecodeError> {
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
        version @ OLDEST..=VERSION => Ok(version),
        other => Err(DecodeError::Version(other)),
    }
}

/// Reads a chunk into the profile that it is of; `chunks`: how many there were.
fn part(tag: Tag, cursor: &mut Cursor<'_>, profile: &mut Profile, chunks: u32) -> Inside<()> {
    match tag {
        Tag::Head => *profile = Profile::get(cursor)?,
        Tag::Sum => set(&mut profile.sum, Field::get(cursor)?)?,
        Tag::Modules => modules(cursor, profile)?,
        Tag::Codes => all(cursor, |cursor| {
            let number = usize::try_from(cursor.number()?).unwrap_or(usize::MAX);
            let module = profile.modules.get_mut(number);
            let module = module.ok_or("a checksum comes before its module")?;
            set(&mut module.code, Field::get(cursor)?)
        })?,
        Tag::Scope => match std::mem::replace(&mut profile.scope, Field::get(cursor)?) {
            before if before == Scope::default() => {}
            _ => return Err("a part is there twice"),
        },
        Tag::Kind => insert(&mut profile.kinds, Kind::get(cursor)?, Field::get(cursor)?)?,
        Tag::Counts => counts(cursor, profile)?,
        Tag::Sites => sites(cursor, profile)?,
        Tag::AfterCalls => {
            by_place(cursor, profile.after_calls.get_or_insert_default())?;
        }
        Tag::Deliveries => by_place(cursor, &mut profile.deliveries)?,
        Tag::Threads => {
            profile.threads.started = Field::get(cursor)?;
            all(cursor, |cursor| {
                profile.threads.each.push(Field::get(cursor)?);
                Ok(())
            })?;
        }
        Tag::Windows => set(&mut profile.windows, Field::get(cursor)?)?,
        Tag::Sampled
        | Tag::Edges
        | Tag::Rare
        | Tag::Pairs
        | Tag::Arguments
        | Tag::Callers
        | Tag::Levels
        | Tag::Custom
        | Tag::Valued => {
            of_windows(tag, cursor, profile)?;
        }
        Tag::Queries => profile.queries.push(Field::get(cursor)?),
        Tag::Messages
        | Tag::Service
        | Tag::Rows
        | Tag::Active
        | Tag::Paid
        | Tag::Windowed
        | Tag::WindowedSent
        | Tag::MessageIntervals
        | Tag::MessageSequence
        | Tag::MessageInterval => of_queries(tag, cursor, profile)?,
        Tag::Samples => set(&mut profile.samples, Field::get(cursor)?)?,
        Tag::Found => {
            let samples = profile.samples.as_mut();
            let samples = samples.ok_or("what was found comes before the samples")?;
            let mut before = 0;
            all(cursor, |cursor| {
                let place = Place::from_word(word(cursor, &mut before)?);
                insert(&mut samples.places, place, Field::get(cursor)?)
            })?;
        }
        Tag::Functions => {
            let machine = profile.samples.as_mut().and_then(|s| s.machine.as_mut());
            let machine = machine.ok_or("functions come before their machine")?;
            all(cursor, |cursor| {
                machine.functions.push(Field::get(cursor)?);
                Ok(())
            })?;
        }
        Tag::Paths => paths(cursor, profile)?,
        Tag::Compiled => all(cursor, |cursor| {
            profile.compiled.push(Field::get(cursor)?);
            Ok(())
        })?,
        Tag::Simulated => set(&mut profile.simulated, Field::get(cursor)?)?,
        Tag::Accesses | Tag::Branches => {
            let simulated = profile.simulated.as_mut();
            let simulated = simulated.ok_or("executions come before what was simulated")?;
            by_place(
                cursor,
                match tag {
                    Tag::Accesses => &mut simulated.accesses,
                    _ => &mut simulated.branches,
                },
            )?;
        }
        Tag::Lines => {
            let simulated = profile.simulated.as_mut();
            let simulated = simulated.ok_or("shared lines come before what was simulated")?;
            let sharing = simulated.sharing.get_or_insert_default();
            let untracked = sharing.untracked.checked_add(cursor.number()?);
            sharing.untracked = untracked.ok_or("the number of accesses is too large")?;
            all(cursor, |cursor| {
                sharing.lines.push(Field::get(cursor)?);
                Ok(())
            })?;
        }
        Tag::Intervals => set(&mut profile.intervals, Field::get(cursor)?)?,
        Tag::Sequence => sequence(cursor, profile.intervals.as_mut())?,
        Tag::Interval => each_interval(cursor, profile.intervals.as_mut())?,
        Tag::Filter => set(&mut profile.filter, Field::get(cursor)?)?,
        Tag::Filtered => {
            let filter = profile.filter.as_mut();
            let filter = filter.ok_or("filtered places come before their filter")?;
            all(cursor, |cursor| {
                insert(&mut filter.places, Field::get(cursor)?, Field::get(cursor)?)
            })?;
        }
        Tag::End => match cursor.number()? {
            n if n.checked_add(1) == Some(chunks.into()) => {}
            _ => return Err("chunks are missing"),
        },
    }
    Ok(())
}

/// Reads modules. Places refer to them by number, so each number is there once.
fn modules(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let mut known: BTreeSet<ModuleId> = profile.modules.iter().map(|module| module.id).collect();
    for _ in 0..cursor.number()? {
        let module = Module::get(cursor)?;
        if !known.insert(module.id) {
            return Err("a module is there twice");
        }
        profile.modules.push(module);
    }
    Ok(())
}

/// Reads items up to the end of the chunk.
fn all(cursor: &mut Cursor<'_>, mut item: impl FnMut(&mut Cursor<'_>) -> Inside<()>) -> Inside<()> {
    while !cursor.is_empty() {
        item(cursor)?;
    }
    Ok(())
}

/// Reads how often something was executed, by place.
fn by_place(cursor: &mut Cursor<'_>, counts: &mut BTreeMap<Place, u64>) -> Inside<()> {
    let mut before = 0;
    all(cursor, |cursor| {
        let place = Place::from_word(word(cursor, &mut before)?);
        insert(counts, place, cursor.number()?)
    })
}

/// Reads nodes of a tree. Trees come one after the other, in the order of their bases.
fn paths(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let basis = Basis::get(cursor)?;
    if profile
        .call_trees
        .last()
        .is_some_and(|last| last.basis > basis)
    {
        return Err("call paths are out of order");
    }
    let tree = profile.call_tree_mut(basis);
    let lost = Lost::get(cursor)?;
    if tree.nodes().is_empty() {
        tree.lost = lost;
    } else if lost != Lost::default() {
        return Err("a part is there twice");
    }
    all(cursor, |cursor| {
        let parent: Option<NodeId> = Field::get(cursor)?;
        let made = tree.nodes().len();
        let id = tree.child(parent, Field::get(cursor)?);
        let id = id.ok_or("a call path comes before its beginning")?;
        if tree.nodes().len() == made {
            return Err("an entry is there twice");
        }
        tree.weigh(id, Field::get(cursor)?);
        Ok(())
    })
}

/// Reads a sequence of intervals, without these.
fn sequence<C>(cursor: &mut Cursor<'_>, intervals: Option<&mut Intervals<C>>) -> Inside<()>
where
    Sequence<C>: Field,
{
    let intervals = intervals.ok_or("a sequence comes before the rate of its intervals")?;
    intervals.sequences.push(Field::get(cursor)?);
    Ok(())
}

/// Reads intervals of the last sequence.
fn each_interval<C>(cursor: &mut Cursor<'_>, intervals: Option<&mut Intervals<C>>) -> Inside<()>
where
    Interval<C>: Field,
{
    let sequence = intervals.and_then(|intervals| intervals.sequences.last_mut());
    let sequence = sequence.ok_or("intervals come before their sequence")?;
    all(cursor, |cursor| {
        let interval: Interval<C> = Field::get(cursor)?;
        follows(sequence, &interval)?;
        sequence.each.push(interval);
        Ok(())
    })
}

/// Checks that an interval is one of its sequence, after those that are there.
fn follows<C>(sequence: &Sequence<C>, interval: &Interval<C>) -> Inside<()> {
    let (number, start) = match sequence.each.last() {
        Some(last) => (last.number, last.start.saturating_add(last.events)),
        None => (0, 0),
    };
    if interval.number <= number || interval.start < start {
        return Err("intervals are out of order");
    }
    let end = interval.start.checked_add(interval.events);
    if interval.number > sequence.ended || end.is_none_or(|end| end > sequence.events) {
        return Err("an interval is not in its sequence");
    }
    match interval.events {
        0 => Err("an interval has no events"),
        _ => Ok(()),
    }
}

fn of_windows(tag: Tag, cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let windows = profile.windows.as_mut();
    let windows = windows.ok_or("what windows saw comes before the windows")?;
    match tag {
        Tag::Sampled => {
            let sites = windows.sites.entry(Kind::get(cursor)?).or_default();
            let mut before = 0;
            all(cursor, |cursor| {
                let place = Place::from_word(word(cursor, &mut before)?);
                insert(sites, place, Field::get(cursor)?)
            })
        }
        Tag::Edges => set(&mut windows.rare, Field::get(cursor)?),
        Tag::Rare => {
            let rare = windows.rare.as_mut();
            let rare = rare.ok_or("edges come before the events of all")?;
            all(cursor, |cursor| {
                insert(&mut rare.edges, Field::get(cursor)?, few(cursor)?)
            })
        }
        Tag::Pairs => all(cursor, |cursor| {
            insert(&mut windows.pairs, Field::get(cursor)?, Field::get(cursor)?)
        }),
        Tag::Arguments => all(cursor, |cursor| {
            let passed = Passed::get(cursor)?;
            if usize::from(passed.register) >= REGISTERS.len() {
                return Err("a register that passes no argument");
            }
            insert(&mut windows.arguments, passed, Field::get(cursor)?)
        }),
        Tag::Callers => {
            let callers = windows.callers.get_or_insert_default();
            let dropped = callers.dropped.checked_add(cursor.number()?);
            callers.dropped = dropped.ok_or("the number of samples is too large")?;
            all(cursor, |cursor| {
                insert(&mut callers.lists, Field::get(cursor)?, Field::get(cursor)?)
            })
        }
        Tag::Levels => {
            let mut levels = Levels::get(cursor)?;
            all(cursor, |cursor| {
                levels.levels.push(Level::get(cursor)?);
                Ok(())
            })?;
            set(&mut windows.levels, levels)
        }
        Tag::Custom => set(&mut windows.custom, Field::get(cursor)?),
        _ => {
            let custom = windows.custom.as_mut();
            let custom = custom.ok_or("pairs come before their customisation module")?;
            all(cursor, |cursor| {
                insert(&mut custom.sites, Field::get(cursor)?, Field::get(cursor)?)
            })
        }
    }
}

fn of_queries(tag: Tag, cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let queries = profile.queries.last_mut();
    let queries = queries.ok_or("what queries sent comes before the queries")?;
    match tag {
        Tag::Messages => all(cursor, |cursor| {
            insert(
                &mut queries.messages,
                Field::get(cursor)?,
                Field::get(cursor)?,
            )
        }),
        Tag::Active => {
            if queries.load != 0 {
                return Err("a part is there twice");
            }
            queries.name = Field::get(cursor)?;
            queries.load = Field::get(cursor)?;
            queries.active = Field::get(cursor)?;
            match queries.load {
                0 => Err("a load has no number"),
                _ => Ok(()),
            }
        }
        Tag::Paid => {
            if !queries.paid.is_empty() {
                return Err("a part is there twice");
            }
            queries.paid = Field::get(cursor)?;
            Ok(())
        }
        Tag::Windowed => {
            let windowed = Windowed {
                executed: Field::get(cursor)?,
                counted: Field::get(cursor)?,
                sent: BTreeMap::new(),
            };
            set(&mut queries.windowed, windowed)
        }
        Tag::WindowedSent => {
            let windowed = queries.windowed.as_mut();
            let windowed = windowed.ok_or("estimates of messages come before the others")?;
            all(cursor, |cursor| {
                insert(&mut windowed.sent, Field::get(cursor)?, Field::get(cursor)?)
            })
        }
        Tag::Service => {
            queries.services.push(Field::get(cursor)?);
            Ok(())
        }
        _ => {
            let served = queries.services.last_mut();
            let served = served.ok_or("rows come before their service")?;
            of_service(tag, cursor, served)
        }
    }
}

/// Reads a part of what a service came to.
fn of_service(tag: Tag, cursor: &mut Cursor<'_>, served: &mut Served) -> Inside<()> {
    let intervals = served.intervals.as_mut();
    match tag {
        Tag::MessageIntervals => set(&mut served.intervals, Field::get(cursor)?),
        Tag::MessageSequence => sequence(cursor, intervals),
        Tag::MessageInterval => each_interval(cursor, intervals),
        _ => all(cursor, |cursor| {
            insert(&mut served.rows, short::get(cursor)?, Field::get(cursor)?)
        }),
    }
}

fn counts(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let kind = Kind::get(cursor)?;
    let data: Option<&mut KindProfile> = profile.kinds.get_mut(&kind);
    let data = data.ok_or("counts come before their kind")?;
    let mut before = 0;
    while !cursor.is_empty() {
        let word = word(cursor, &mut before)?;
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
    let mut before = 0;
    all(cursor, |cursor| {
        let word = word(cursor, &mut before)?;
        let site = get_site(word, cursor)?;
        profile.sites.insert(Place::from_word(word), site);
        Ok(())
    })
}
