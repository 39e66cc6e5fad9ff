//! From profiles to bytes.
//!
//! Counts are written place by place, as differences from the place before. A place with very many
//! values is written in several records, so no chunk grows beyond measure; values are differences
//! from the value before, the first one from the place itself where values are places.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use trommel_profile::arguments::{Argument, Passed};
use trommel_profile::callers::Callers;
use trommel_profile::custom::Custom;
use trommel_profile::filter::Filter;
use trommel_profile::memory::Levels;
use trommel_profile::queries::{Acted, Queries, Served, Told};
use trommel_profile::windows::Windows;
use trommel_profile::{Counted, Origin, Profile, Run, Site, Threads};
use trommel_tuple::{Kind, Place};

use crate::chunk::{TARGET, Tag, Writer};
use crate::fields::{put_real, put_sampled};
use crate::format::{MAGIC, VERSION};
use crate::samples;
use crate::varint::{put, put_bytes, put_signed};

/// Values in one record at most.
const VALUES_PER_RECORD: usize = 4096;

pub(crate) fn encode<'a>(
    profiles: impl Iterator<Item = Cow<'a, Profile>>,
    mut out: impl Write,
) -> io::Result<()> {
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    let mut out = Writer::new(out);
    for profile in profiles {
        one(&profile, &mut out)?;
    }
    let mut raw = Vec::new();
    put(&mut raw, out.number().into());
    out.chunk(Tag::End, &raw)
}

fn one<W: Write>(profile: &Profile, out: &mut Writer<W>) -> io::Result<()> {
    out.chunk(Tag::Head, &head(profile))?;
    out.chunk(Tag::Modules, &modules(profile))?;
    for (&kind, data) in &profile.kinds {
        let mut raw = vec![kind as u8];
        put(&mut raw, data.seen);
        put(&mut raw, data.messages);
        out.chunk(Tag::Kind, &raw)?;
        counts(kind, &data.counts, out)?;
    }
    sites(&profile.sites, out)?;
    threads(&profile.threads, out)?;
    if let Some(data) = &profile.windows {
        windows(data, out)?;
    }
    if let Some(data) = &profile.queries {
        queries(data, out)?;
    }
    if let Some(data) = &profile.filter {
        filter(data, out)?;
    }
    match &profile.samples {
        Some(data) => samples::encode(data, out),
        None => Ok(()),
    }
}

fn filter<W: Write>(filter: &Filter, out: &mut Writer<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    put_real(&mut raw, filter.limit);
    put(&mut raw, filter.rounds);
    put(&mut raw, filter.tables);
    out.chunk(Tag::Filter, &raw)?;
    raw.clear();
    for (place, filtered) in &filter.places {
        put(&mut raw, place.word());
        put(&mut raw, filtered.outs);
        put(&mut raw, filtered.changes);
        raw.push(u8::from(filtered.settled) | u8::from(filtered.unprofiled.is_some()) << 1);
        if let Some(unprofiled) = filtered.unprofiled {
            put(&mut raw, unprofiled);
        }
        if raw.len() >= TARGET {
            out.chunk(Tag::Filtered, &raw)?;
            raw.clear();
        }
    }
    match raw.is_empty() {
        true => Ok(()),
        false => out.chunk(Tag::Filtered, &raw),
    }
}

fn queries<W: Write>(queries: &Queries, out: &mut Writer<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    put_bytes(&mut raw, &queries.program);
    put_bytes(&mut raw, &queries.places);
    put(&mut raw, queries.untabulated);
    put(&mut raw, queries.unmet.len() as u64);
    for rule in &queries.unmet {
        put(&mut raw, (*rule).into());
    }
    put(&mut raw, queries.seen.len() as u64);
    for (entry, seen) in &queries.seen {
        raw.push(*entry);
        for number in [seen.executed, seen.profiled, seen.acted] {
            put(&mut raw, number);
        }
    }
    put(&mut raw, queries.done.len() as u64);
    for done in &queries.done {
        let Acted {
            sent,
            served,
            dropped,
            counted,
            counted_for,
            interrupted,
        } = *done;
        for number in [sent, served, dropped, counted, counted_for, interrupted] {
            put(&mut raw, number);
        }
    }
    out.chunk(Tag::Queries, &raw)?;
    raw.clear();
    for (Told { at, queue, words }, count) in &queries.messages {
        raw.extend([*at, *queue, words.len() as u8]);
        for word in words {
            put(&mut raw, *word);
        }
        put(&mut raw, count.messages);
        put(&mut raw, count.executions);
        if raw.len() >= TARGET {
            out.chunk(Tag::Messages, &raw)?;
            raw.clear();
        }
    }
    if !raw.is_empty() {
        out.chunk(Tag::Messages, &raw)?;
    }
    queries.services.iter().try_for_each(|of| served(of, out))
}

fn served<W: Write>(of: &Served, out: &mut Writer<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    put_bytes(&mut raw, of.name.as_bytes());
    for texts in [&of.columns, &of.failures] {
        put(&mut raw, texts.len() as u64);
        for text in texts {
            put_bytes(&mut raw, text.as_bytes());
        }
    }
    raw.push(of.places);
    put(&mut raw, of.messages);
    put(&mut raw, of.lost);
    out.chunk(Tag::Service, &raw)?;
    raw.clear();
    for (words, count) in &of.rows {
        raw.push(words.len() as u8);
        for word in words {
            put(&mut raw, *word);
        }
        put(&mut raw, *count);
        if raw.len() >= TARGET {
            out.chunk(Tag::Rows, &raw)?;
            raw.clear();
        }
    }
    match raw.is_empty() {
        true => Ok(()),
        false => out.chunk(Tag::Rows, &raw),
    }
}

fn windows<W: Write>(windows: &Windows, out: &mut Writer<W>) -> io::Result<()> {
    let Windows {
        budget,
        taken,
        counted,
        whole,
        calls,
        signals,
        refused,
        skipped,
        instructions,
        length,
        rate,
        cpu,
        wall,
        in_windows,
        in_kernel,
        host,
        covered,
        pacing,
        sites,
        pairs,
        arguments,
        callers,
        levels,
        custom,
    } = windows;
    let mut raw = Vec::new();
    for number in [
        taken,
        counted,
        whole,
        calls,
        signals,
        refused,
        skipped,
        instructions,
        cpu,
        wall,
        in_windows,
        in_kernel,
        host,
        covered,
    ] {
        put(&mut raw, *number);
    }
    put(&mut raw, (*length).into());
    put_real(&mut raw, *budget);
    put_real(&mut raw, *rate);
    put_bytes(&mut raw, pacing.as_bytes());
    out.chunk(Tag::Windows, &raw)?;
    for (kind, sites) in sites {
        let mut raw = vec![*kind as u8];
        let mut before = 0;
        for (place, sampled) in sites {
            let word = place.word();
            put(&mut raw, word - before);
            before = word;
            put_sampled(&mut raw, sampled);
            if is_cut(Tag::Sampled, &mut raw, out)? {
                before = 0;
            }
        }
        if raw.len() > 1 {
            out.chunk(Tag::Sampled, &raw)?;
        }
    }
    let mut raw = Vec::new();
    for (pair, sampled) in pairs {
        raw.push(pair.conflict as u8);
        put(&mut raw, pair.store.word());
        put_signed(
            &mut raw,
            pair.load.word().wrapping_sub(pair.store.word()) as i64,
        );
        put_sampled(&mut raw, sampled);
        if raw.len() >= TARGET {
            out.chunk(Tag::Pairs, &raw)?;
            raw.clear();
        }
    }
    if !raw.is_empty() {
        out.chunk(Tag::Pairs, &raw)?;
    }
    self::arguments(arguments, out)?;
    if let Some(callers) = callers {
        self::callers(callers, out)?;
    }
    if let Some(levels) = levels {
        out.chunk(Tag::Levels, &self::levels(levels))?;
    }
    match custom {
        Some(custom) => self::custom(custom, out),
        None => Ok(()),
    }
}

fn arguments<W: Write>(
    arguments: &BTreeMap<Passed, Argument>,
    out: &mut Writer<W>,
) -> io::Result<()> {
    let mut raw = Vec::new();
    for (passed, argument) in arguments {
        raw.push(passed.register);
        put(&mut raw, passed.target.word());
        raw.push(passed.call.is_some().into());
        if let Some(call) = passed.call {
            put(&mut raw, call.word());
        }
        put_values(&mut raw, argument);
        if raw.len() >= TARGET {
            out.chunk(Tag::Arguments, &raw)?;
            raw.clear();
        }
    }
    match raw.is_empty() {
        true => Ok(()),
        false => out.chunk(Tag::Arguments, &raw),
    }
}

/// What is known of values, and these.
fn put_values(raw: &mut Vec<u8>, values: &Argument) {
    put_sampled(raw, &values.sampled);
    let counts = sorted(&values.counts);
    put(raw, counts.len() as u64);
    let mut last = 0;
    for &(value, count) in &*counts {
        put(raw, value.wrapping_sub(last));
        put(raw, count);
        last = value;
    }
}

/// Each chunk begins with the samples of callers that were given up; there is one at least.
fn callers<W: Write>(callers: &Callers, out: &mut Writer<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    put(&mut raw, callers.dropped);
    for (called, values) in &callers.lists {
        raw.push(called.kind as u8);
        put(&mut raw, called.at.word());
        raw.push(called.call.is_some().into());
        if let Some(call) = called.call {
            put(&mut raw, call.word());
        }
        put_values(&mut raw, values);
        if raw.len() >= TARGET {
            out.chunk(Tag::Callers, &raw)?;
            raw.clear();
            put(&mut raw, 0);
        }
    }
    out.chunk(Tag::Callers, &raw)
}

fn custom<W: Write>(custom: &Custom, out: &mut Writer<W>) -> io::Result<()> {
    let Custom {
        name,
        title,
        places,
        windows,
        lost,
        pairs,
        sites,
        failures,
    } = custom;
    let mut raw = Vec::new();
    put_bytes(&mut raw, name.as_bytes());
    put_bytes(&mut raw, title.as_bytes());
    raw.push((*places).into());
    for number in [windows, lost, pairs] {
        put(&mut raw, *number);
    }
    put(&mut raw, failures.len() as u64);
    for why in failures {
        put_bytes(&mut raw, why.as_bytes());
    }
    out.chunk(Tag::Custom, &raw)?;
    raw.clear();
    for (place, valued) in sites {
        put(&mut raw, place.word());
        put_sampled(&mut raw, &valued.sampled);
        put(&mut raw, valued.values.len() as u64);
        for (value, known) in &valued.values {
            put(&mut raw, *value);
            put(&mut raw, known.count);
            raw.push(known.text.is_some().into());
            if let Some(text) = &known.text {
                put_bytes(&mut raw, text.as_bytes());
            }
        }
        if raw.len() >= TARGET {
            out.chunk(Tag::Valued, &raw)?;
            raw.clear();
        }
    }
    match raw.is_empty() {
        true => Ok(()),
        false => out.chunk(Tag::Valued, &raw),
    }
}

fn levels(levels: &Levels) -> Vec<u8> {
    let mut raw = Vec::new();
    put(&mut raw, levels.own);
    put_real(&mut raw, levels.cycle);
    for level in &levels.levels {
        raw.push(level.cache as u8);
        put(&mut raw, level.typical);
        put(&mut raw, level.below);
        put_real(&mut raw, level.mistaken);
    }
    raw
}

/// Ends a chunk that is long enough, and begins another with its first byte. Whether it was.
fn is_cut<W: Write>(tag: Tag, raw: &mut Vec<u8>, out: &mut Writer<W>) -> io::Result<bool> {
    let long = raw.len() >= TARGET;
    if long {
        out.chunk(tag, raw)?;
        raw.truncate(1);
    }
    Ok(long)
}

fn head(profile: &Profile) -> Vec<u8> {
    let mut raw = Vec::new();
    let Origin { pid, parent, exec } = profile.origin;
    put(&mut raw, pid.into());
    put(&mut raw, parent.into());
    raw.push(exec.into());
    put(&mut raw, profile.command.len() as u64);
    for argument in &profile.command {
        put_bytes(&mut raw, argument);
    }
    put_bytes(&mut raw, profile.compressor.as_bytes());
    raw.push((profile.counted == Counted::Code).into());
    let Run {
        started,
        wall,
        target_cpu,
        host_cpu,
        status,
        dropped,
        undercount,
        waits,
        wait_time,
        detach,
    } = &profile.run;
    for number in [
        started, wall, target_cpu, host_cpu, dropped, undercount, waits, wait_time,
    ] {
        put(&mut raw, *number);
    }
    raw.push(status.is_some().into());
    put_signed(&mut raw, status.unwrap_or(0).into());
    put(&mut raw, detach.len() as u64);
    for reason in detach {
        put_bytes(&mut raw, reason.as_bytes());
    }
    raw
}

fn modules(profile: &Profile) -> Vec<u8> {
    let mut raw = Vec::new();
    put(&mut raw, profile.modules.len() as u64);
    for module in &profile.modules {
        put(&mut raw, module.id.0.into());
        put_bytes(&mut raw, &module.path);
        put_bytes(&mut raw, &module.build_id);
        raw.push(module.loaded.is_some().into());
        if let Some(loaded) = module.loaded {
            for address in [loaded.start, loaded.end, loaded.bias] {
                put(&mut raw, address);
            }
        }
    }
    raw
}

fn counts<W: Write>(
    kind: Kind,
    counts: &BTreeMap<Place, Vec<(u64, u64)>>,
    out: &mut Writer<W>,
) -> io::Result<()> {
    let mut raw = vec![kind as u8];
    let mut before = 0;
    for (place, values) in counts {
        let word = place.word();
        let values = &*sorted(values);
        // A place without values is kept too: one record with none.
        let first: &[(u64, u64)] = &values[..values.len().min(VALUES_PER_RECORD)];
        let rest = values[first.len()..].chunks(VALUES_PER_RECORD);
        for record in std::iter::once(first).chain(rest) {
            put(&mut raw, word - before);
            before = word;
            put(&mut raw, record.len() as u64);
            let mut last = if kind.value_is_place() { word } else { 0 };
            for &(value, count) in record {
                put_signed(&mut raw, value.wrapping_sub(last) as i64);
                put(&mut raw, count);
                last = value;
            }
            if is_cut(Tag::Counts, &mut raw, out)? {
                before = 0;
            }
        }
    }
    if raw.len() > 1 {
        out.chunk(Tag::Counts, &raw)?;
    }
    Ok(())
}

/// In as many chunks as it takes, each with the number of threads started.
fn threads<W: Write>(threads: &Threads, out: &mut Writer<W>) -> io::Result<()> {
    if *threads == Threads::default() {
        return Ok(());
    }
    let start = || {
        let mut raw = Vec::new();
        put(&mut raw, threads.started);
        raw
    };
    let mut raw = start();
    for thread in &threads.each {
        put(&mut raw, thread.number.into());
        put(&mut raw, thread.tid.into());
        put(&mut raw, thread.seen.len() as u64);
        for (&kind, &seen) in &thread.seen {
            raw.push(kind as u8);
            put(&mut raw, seen);
        }
        if raw.len() >= TARGET {
            out.chunk(Tag::Threads, &raw)?;
            raw = start();
        }
    }
    out.chunk(Tag::Threads, &raw)
}

/// The values in order, each once: readers insist on it, and a run must not be lost over it.
fn sorted(values: &[(u64, u64)]) -> Cow<'_, [(u64, u64)]> {
    if values.is_sorted_by(|a, b| a.0 < b.0) {
        return Cow::Borrowed(values);
    }
    let mut merged = BTreeMap::new();
    for &(value, count) in values {
        let sum: &mut u64 = merged.entry(value).or_default();
        *sum = sum.saturating_add(count);
    }
    Cow::Owned(merged.into_iter().collect())
}

fn sites<W: Write>(sites: &BTreeMap<Place, Site>, out: &mut Writer<W>) -> io::Result<()> {
    let mut raw = Vec::new();
    let mut before = 0;
    for (place, site) in sites {
        let word = place.word();
        put(&mut raw, word - before);
        before = word;
        let relative = |raw: &mut Vec<u8>, other: &Place| {
            put_signed(raw, other.word().wrapping_sub(word) as i64);
        };
        match site {
            Site::Conditional { taken, fallthrough } => {
                raw.push(0);
                relative(&mut raw, taken);
                relative(&mut raw, fallthrough);
            }
            Site::IndirectJump => raw.push(1),
            Site::DirectCall => raw.push(2),
            Site::IndirectCall => raw.push(3),
        }
        if raw.len() >= TARGET {
            out.chunk(Tag::Sites, &raw)?;
            raw.clear();
            before = 0;
        }
    }
    if !raw.is_empty() {
        out.chunk(Tag::Sites, &raw)?;
    }
    Ok(())
}
