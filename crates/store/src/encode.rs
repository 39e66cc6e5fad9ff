//! From profiles to chunks.
//!
//! Counts are written place by place, as differences from the place before. A place with very many
//! values is written in several records, so that no chunk grows beyond measure. Values are differences
//! from the value before. The first one is the difference from the place itself where values are places.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use trommel_profile::call_tree::{CallTree, Lost};
use trommel_profile::callers::Callers;
use trommel_profile::intervals::{Interval, Intervals, Sequence};
use trommel_profile::queries::{Queries, Served};
use trommel_profile::samples::Samples;
use trommel_profile::simulated::Simulated;
use trommel_profile::windows::Windows;
use trommel_profile::{Profile, Scope, Threads};
use trommel_tuple::{Kind, Place};

use crate::chunk::{ChunkWriter, TARGET, Tag};
use crate::field::Field;
use crate::format::{MAGIC, VERSION};
use crate::items::Items;
use crate::layout::{put_site, short};
use crate::sorted::sorted;
use crate::varint::{put, put_signed};

/// Values in one record at most.
const VALUES_PER_RECORD: usize = 4096;

/// Writes a profile file.
pub(crate) fn encode<'a>(
    profiles: impl Iterator<Item = Cow<'a, Profile>>,
    mut out: impl Write,
) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut out = ChunkWriter::new(out);
    for profile in profiles {
        one(&profile, &mut out)?;
    }
    let mut raw = Vec::new();
    put(&mut raw, out.number().into());
    // The version at the beginning is under no checksum.
    put(&mut raw, VERSION.into());
    out.chunk(Tag::End, &raw)
}

fn one<W: Write>(profile: &Profile, out: &mut ChunkWriter<W>) -> io::Result<()> {
    field(Tag::Head, profile, out)?;
    if let Some(sum) = &profile.sum {
        field(Tag::Sum, sum, out)?;
    }
    field(Tag::Modules, &profile.modules, out)?;
    let mut codes = Items::new(Tag::Codes, Vec::new(), out);
    for (number, module) in profile.modules.iter().enumerate() {
        if let Some(code) = module.code {
            codes.add(|raw| {
                put(raw, number as u64);
                code.put(raw);
            })?;
        }
    }
    codes.finish()?;
    if profile.scope != Scope::default() {
        field(Tag::Scope, &profile.scope, out)?;
    }
    for (&kind, data) in &profile.kinds {
        let mut raw = vec![kind as u8];
        data.put(&mut raw);
        out.chunk(Tag::Kind, &raw)?;
        counts(kind, &data.counts, out)?;
    }
    let mut sites = Items::new(Tag::Sites, Vec::new(), out);
    for (place, site) in &profile.sites {
        let word = place.word();
        sites.at(word, |raw| put_site(site, word, raw))?;
    }
    sites.finish()?;
    if let Some(executed) = &profile.after_calls {
        let mut items = Items::new(Tag::AfterCalls, Vec::new(), out);
        for (place, count) in executed {
            items.at(place.word(), |raw| put(raw, *count))?;
        }
        items.finish_with_one()?;
    }
    by_place(Tag::Deliveries, &profile.deliveries, out)?;
    threads(&profile.threads, out)?;
    if let Some(data) = &profile.windows {
        windows(data, out)?;
    }
    for data in &profile.queries {
        queries(data, out)?;
    }
    if let Some(filter) = &profile.filter {
        field(Tag::Filter, filter, out)?;
        entries(Tag::Filtered, &filter.places, out)?;
    }
    if let Some(data) = &profile.samples {
        samples(data, out)?;
    }
    for tree in &profile.call_trees {
        paths(tree, out)?;
    }
    let mut items = Items::new(Tag::Compiled, Vec::new(), out);
    for function in &profile.compiled {
        items.add(|raw| function.put(raw))?;
    }
    items.finish()?;
    if let Some(data) = &profile.simulated {
        simulated(data, out)?;
    }
    match &profile.intervals {
        Some(data) => {
            let tags = [Tag::Intervals, Tag::Sequence, Tag::Interval];
            intervals(data, tags, out)
        }
        None => Ok(()),
    }
}

/// Writes intervals, sequence by sequence.
fn intervals<W: Write, C>(
    data: &Intervals<C>,
    [all, each_sequence, each]: [Tag; 3],
    out: &mut ChunkWriter<W>,
) -> io::Result<()>
where
    Intervals<C>: Field,
    Sequence<C>: Field,
    Interval<C>: Field,
{
    field(all, data, out)?;
    for sequence in &data.sequences {
        field(each_sequence, sequence, out)?;
        let mut items = Items::new(each, Vec::new(), out);
        for interval in &sequence.each {
            items.add(|raw| interval.put(raw))?;
        }
        items.finish()?;
    }
    Ok(())
}

/// Writes the results of simulation. Each chunk of lines begins with accesses that were not tracked, of which the first has all.
fn simulated<W: Write>(data: &Simulated, out: &mut ChunkWriter<W>) -> io::Result<()> {
    field(Tag::Simulated, data, out)?;
    by_place(Tag::Accesses, &data.accesses, out)?;
    by_place(Tag::Branches, &data.branches, out)?;
    let Some(sharing) = &data.sharing else {
        return Ok(());
    };
    let start = |untracked: u64| {
        let mut raw = Vec::new();
        untracked.put(&mut raw);
        raw
    };
    let mut raw = start(sharing.untracked);
    for line in &sharing.lines {
        line.put(&mut raw);
        if raw.len() >= TARGET {
            out.chunk(Tag::Lines, &raw)?;
            raw = start(0);
        }
    }
    out.chunk(Tag::Lines, &raw)
}

/// Each chunk begins with the basis of the tree, and paths that are not whole, of which the first has all.
fn paths<W: Write>(tree: &CallTree, out: &mut ChunkWriter<W>) -> io::Result<()> {
    let start = |lost: Lost| {
        let mut raw = Vec::new();
        tree.basis.put(&mut raw);
        lost.put(&mut raw);
        raw
    };
    let mut raw = start(tree.lost);
    for node in tree.nodes() {
        node.parent.put(&mut raw);
        node.frame.put(&mut raw);
        node.weight.put(&mut raw);
        if raw.len() >= TARGET {
            out.chunk(Tag::Paths, &raw)?;
            raw = start(Lost::default());
        }
    }
    out.chunk(Tag::Paths, &raw)
}

/// Writes how often something was executed, by place.
fn by_place<W: Write>(
    tag: Tag,
    counts: &BTreeMap<Place, u64>,
    out: &mut ChunkWriter<W>,
) -> io::Result<()> {
    let mut items = Items::new(tag, Vec::new(), out);
    for (place, count) in counts {
        items.at(place.word(), |raw| put(raw, *count))?;
    }
    items.finish()
}

/// Writes a chunk of one field.
fn field<W: Write>(tag: Tag, field: &impl Field, out: &mut ChunkWriter<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    field.put(&mut raw);
    out.chunk(tag, &raw)
}

/// Writes the entries of a map.
fn entries<W: Write, K: Field, V: Field>(
    tag: Tag,
    map: &BTreeMap<K, V>,
    out: &mut ChunkWriter<W>,
) -> io::Result<()> {
    let mut items = Items::new(tag, Vec::new(), out);
    for (key, value) in map {
        items.add(|raw| {
            key.put(raw);
            value.put(raw);
        })?;
    }
    items.finish()
}

fn counts<W: Write>(
    kind: Kind,
    counts: &BTreeMap<Place, Vec<(u64, u64)>>,
    out: &mut ChunkWriter<W>,
) -> io::Result<()> {
    let mut items = Items::new(Tag::Counts, vec![kind as u8], out);
    for (place, values) in counts {
        let word = place.word();
        let values = &*sorted(values);
        // A place without values is kept too: one record with none.
        let first: &[(u64, u64)] = &values[..values.len().min(VALUES_PER_RECORD)];
        let rest = values[first.len()..].chunks(VALUES_PER_RECORD);
        for record in std::iter::once(first).chain(rest) {
            items.at(word, |raw| {
                put(raw, record.len() as u64);
                let mut last = if kind.value_is_place() { word } else { 0 };
                for &(value, count) in record {
                    put_signed(raw, value.wrapping_sub(last) as i64);
                    put(raw, count);
                    last = value;
                }
            })?;
        }
    }
    items.finish()
}

/// Each chunk begins with the number of threads started.
fn threads<W: Write>(threads: &Threads, out: &mut ChunkWriter<W>) -> io::Result<()> {
    if *threads == Threads::default() {
        return Ok(());
    }
    let mut start = Vec::new();
    threads.started.put(&mut start);
    let mut items = Items::new(Tag::Threads, start, out);
    for thread in &threads.each {
        items.add(|raw| thread.put(raw))?;
    }
    items.finish_with_one()
}

fn windows<W: Write>(windows: &Windows, out: &mut ChunkWriter<W>) -> io::Result<()> {
    field(Tag::Windows, windows, out)?;
    for (kind, sites) in &windows.sites {
        let mut items = Items::new(Tag::Sampled, vec![*kind as u8], out);
        for (place, sampled) in sites {
            items.at(place.word(), |raw| sampled.put(raw))?;
        }
        items.finish()?;
    }
    if let Some(rare) = &windows.rare {
        field(Tag::Edges, rare, out)?;
        entries(Tag::Rare, &rare.edges, out)?;
    }
    entries(Tag::Pairs, &windows.pairs, out)?;
    entries(Tag::Arguments, &windows.arguments, out)?;
    if let Some(data) = &windows.callers {
        callers(data, out)?;
    }
    if let Some(levels) = &windows.levels {
        let mut raw = Vec::new();
        levels.put(&mut raw);
        for level in &levels.levels {
            level.put(&mut raw);
        }
        out.chunk(Tag::Levels, &raw)?;
    }
    match &windows.custom {
        None => Ok(()),
        Some(custom) => {
            field(Tag::Custom, custom, out)?;
            entries(Tag::Valued, &custom.sites, out)
        }
    }
}

/// Each chunk begins with the samples of callers that were given up, of which the first has all; there is one chunk at least.
fn callers<W: Write>(callers: &Callers, out: &mut ChunkWriter<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    callers.dropped.put(&mut raw);
    for (called, values) in &callers.lists {
        called.put(&mut raw);
        values.put(&mut raw);
        if raw.len() >= TARGET {
            out.chunk(Tag::Callers, &raw)?;
            raw.clear();
            put(&mut raw, 0);
        }
    }
    out.chunk(Tag::Callers, &raw)
}

fn queries<W: Write>(queries: &Queries, out: &mut ChunkWriter<W>) -> io::Result<()> {
    field(Tag::Queries, queries, out)?;
    if queries.load != 0 {
        let mut raw = Vec::new();
        queries.name.put(&mut raw);
        queries.load.put(&mut raw);
        queries.active.put(&mut raw);
        out.chunk(Tag::Active, &raw)?;
    }
    if !queries.paid.is_empty() {
        let mut raw = Vec::new();
        queries.paid.put(&mut raw);
        out.chunk(Tag::Paid, &raw)?;
    }
    entries(Tag::Messages, &queries.messages, out)?;
    if let Some(windowed) = &queries.windowed {
        let mut raw = Vec::new();
        windowed.executed.put(&mut raw);
        windowed.counted.put(&mut raw);
        out.chunk(Tag::Windowed, &raw)?;
        entries(Tag::WindowedSent, &windowed.sent, out)?;
    }
    queries.services.iter().try_for_each(|of| served(of, out))
}

fn served<W: Write>(of: &Served, out: &mut ChunkWriter<W>) -> io::Result<()> {
    field(Tag::Service, of, out)?;
    let mut items = Items::new(Tag::Rows, Vec::new(), out);
    for (words, count) in &of.rows {
        items.add(|raw| {
            short::put(words, raw);
            count.put(raw);
        })?;
    }
    items.finish()?;
    match &of.intervals {
        Some(data) => {
            let tags = [
                Tag::MessageIntervals,
                Tag::MessageSequence,
                Tag::MessageInterval,
            ];
            intervals(data, tags, out)
        }
        None => Ok(()),
    }
}

/// Samples of the whole machine. A process has a chunk with its threads and, in the first of a recording, the machine; then
/// what was found at its places, and the functions of the kernel.
fn samples<W: Write>(samples: &Samples, out: &mut ChunkWriter<W>) -> io::Result<()> {
    field(Tag::Samples, samples, out)?;
    let mut items = Items::new(Tag::Found, Vec::new(), out);
    for (place, at) in &samples.places {
        items.at(place.word(), |raw| at.put(raw))?;
    }
    items.finish()?;
    let mut items = Items::new(Tag::Functions, Vec::new(), out);
    for function in samples
        .machine
        .iter()
        .flat_map(|machine| &machine.functions)
    {
        items.add(|raw| function.put(raw))?;
    }
    items.finish()
}
