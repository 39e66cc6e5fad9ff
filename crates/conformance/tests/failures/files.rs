//! Profiles and streams that are cut short or damaged.

use std::fs;
use std::path::Path;
use trommel_conformance::not_tested::not_tested;

use serde_json::Value;

use crate::Test;
use crate::harness::{Chance, Ended, Place, repository};

pub(crate) const TESTS: &[Test] = &[
    ("file: a profile cut short anywhere", cut_profile),
    ("file: a profile with a flipped byte", flipped_profile),
    ("file: a stream cut short anywhere", cut_stream),
    ("file: a stream with a flipped byte", flipped_stream),
    ("file: raw streams cut short and damaged", raw_streams),
    ("file: what cannot be read", unreadable),
];

const CUTS: u64 = 12;

/// A profile `p.data` and a stream `s.tstream` of several blocks.
fn recorded(bin: &Path) -> Result<Place, String> {
    let place = Place::new(bin)?;
    let input = repository("README.md");
    let input = input.to_string_lossy();
    let args = [
        "record",
        "--quiet",
        "-o",
        "p.data",
        "--stream",
        "s.tstream",
        "--",
        "gzip",
        "-c",
    ];
    let ended = place.trommel(&[&args[..], &[&*input]].concat())?;
    match ended.status.success() {
        true => Ok(place),
        false => Err(format!("record: {}", ended.stderr)),
    }
}

fn read(place: &Place, name: &str) -> Result<Vec<u8>, String> {
    fs::read(place.path(name)).map_err(|e| format!("{name}: {e}"))
}

/// Places to cut a file of `len` bytes: the first ones, the last ones, and some between.
fn cuts(len: usize, chance: &mut Chance) -> Vec<usize> {
    let mut all: Vec<usize> = (0..24).chain(len.saturating_sub(8)..len).collect();
    all.extend((0..CUTS).map(|_| chance.below(len as u64) as usize));
    all.sort_unstable();
    all.dedup();
    all
}

fn cut_profile(bin: &Path) -> Result<(), String> {
    let place = recorded(bin)?;
    let whole = read(&place, "p.data")?;
    for cut in cuts(whole.len(), &mut Chance::new()) {
        place.write("cut", &whole[..cut], 0o644)?;
        place
            .refused(&["report", "cut"], 1, &["cut"])
            .map_err(|e| format!("{cut} of {} bytes: {e}", whole.len()))?;
    }
    Ok(())
}

fn flipped_profile(bin: &Path) -> Result<(), String> {
    let place = recorded(bin)?;
    let whole = read(&place, "p.data")?;
    let mut chance = Chance::new();
    for at in cuts(whole.len(), &mut chance) {
        let mut bad = whole.clone();
        bad[at] ^= 1 << chance.below(8);
        place.write("bad", &bad, 0o644)?;
        place
            .refused(&["report", "--json", "bad"], 1, &["bad"])
            .map_err(|e| format!("byte {at}: {e}"))?;
    }
    Ok(())
}

fn events(ended: &Ended) -> Result<u64, String> {
    let info: Value = serde_json::from_slice(&ended.stdout).map_err(|e| e.to_string())?;
    info["events"].as_u64().ok_or("info has no events".into())
}

/// Checks that all before a cut is read, and no less of it the later the cut.
fn cut_stream(bin: &Path) -> Result<(), String> {
    let place = recorded(bin)?;
    let whole = read(&place, "s.tstream")?;
    let dump = place.trommel(&["stream", "dump", "s.tstream"])?.stdout;
    let total = events(&place.trommel(&["stream", "info", "--json", "s.tstream"])?)?;
    let (mut before, mut tried) = (0, 0);
    for cut in cuts(whole.len(), &mut Chance::new()) {
        place.write("cut.tstream", &whole[..cut], 0o644)?;
        let at = |e: String| format!("{cut} of {} bytes: {e}", whole.len());
        if cut < 8 {
            // Not even its beginning says what it is; the name does.
            let ended = place.trommel(&["stream", "info", "cut.tstream"])?;
            ended.one_error().map_err(at)?;
            continue;
        }
        let info = place.trommel(&["stream", "info", "--json", "cut.tstream"])?;
        info.one_error().map_err(at)?;
        let n = events(&info).map_err(at)?;
        if !info.status.success() || !info.stderr.contains("cut short") || n < before || n > total {
            return Err(at(format!(
                "{n} events after {before} of {total}: {info:?}"
            )));
        }
        before = n;
        tried += 1;
        if tried % 8 == 0 {
            let part = place.trommel(&["stream", "dump", "cut.tstream"])?;
            part.one_error().map_err(at)?;
            if !dump.starts_with(&part.stdout) {
                return Err(at(
                    "dump shows other events than the whole stream has".into()
                ));
            }
            let evaluated = place.trommel(&["compress", "-c", "P16", "--json", "cut.tstream"])?;
            evaluated.one_error().map_err(at)?;
            let list: Value =
                serde_json::from_slice(&evaluated.stdout).map_err(|e| e.to_string())?;
            if list[0]["events"].as_u64() != Some(n) {
                return Err(at(format!("compress saw {}, info {n}", list[0]["events"])));
            }
            place
                .trommel(&["stream", "convert", "cut.tstream", "new.tstream"])?
                .one_error()?;
            let again = place.trommel(&["stream", "info", "--json", "new.tstream"])?;
            if events(&again)? != n || !again.stderr.is_empty() {
                return Err(at("a converted part is not a whole stream".into()));
            }
        }
    }
    match before > 0 {
        true => Ok(()),
        false => Err("no cut left any event: the stream is too short for this test".into()),
    }
}

/// Damage is reported. What is before it can be read all the same.
fn flipped_stream(bin: &Path) -> Result<(), String> {
    let place = recorded(bin)?;
    let whole = read(&place, "s.tstream")?;
    let dump = place.trommel(&["stream", "dump", "s.tstream"])?.stdout;
    let mut chance = Chance::new();
    let mut shown = 0;
    for (n, at) in cuts(whole.len(), &mut chance).into_iter().enumerate() {
        let mut bad = whole.clone();
        bad[at] ^= 1 << chance.below(8);
        place.write("bad.tstream", &bad, 0o644)?;
        let what = |e: String| format!("byte {at} of {}: {e}", whole.len());
        place
            .refused(&["stream", "info", "bad.tstream"], 1, &["bad.tstream"])
            .map_err(what)?;
        // What takes longer, by turns.
        let rest = [
            &["compress", "-c", "exact", "bad.tstream"][..],
            &["stream", "convert", "bad.tstream", "new.raw16"],
        ];
        if let Some(args) = rest.get(n % 3) {
            place.refused(args, 1, &["bad.tstream"]).map_err(what)?;
            continue;
        }
        let part = place.trommel(&["stream", "dump", "bad.tstream"])?;
        part.one_error().map_err(what)?;
        if !dump.starts_with(&part.stdout) {
            return Err(what("dump shows events that never were".into()));
        }
        shown = shown.max(part.stdout.len());
    }
    if place.path("new.raw16").exists() {
        return Err("a stream was made of a damaged one".into());
    }
    match shown > 0 {
        true => Ok(()),
        false => Err("no damage left any event before it".into()),
    }
}

fn raw_streams(bin: &Path) -> Result<(), String> {
    let place = recorded(bin)?;
    let mut chance = Chance::new();
    for name in ["s.raw16", "s.raw16.zst"] {
        place.trommel(&["stream", "convert", "-e", "value", "s.tstream", name])?;
        let whole = read(&place, name)?;
        let dump = |name| place.trommel(&["stream", "dump", name]);
        let bad = format!("bad-{name}");
        for at in cuts(whole.len(), &mut chance) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << chance.below(8);
            for bytes in [&whole[..at], &flipped] {
                place.write(&bad, bytes, 0o644)?;
                let ended = place.trommel(&["stream", "info", &bad])?;
                let fine = ended.status.success() && ended.stderr.is_empty();
                // Plain words have no checksum: any of them are events. Some bits of a frame's head
                // tell the reader nothing that changes what it reads.
                let right = match name.ends_with(".zst") {
                    _ if !fine => true,
                    false => bytes.len() % 16 == 0,
                    true => bytes.is_empty() || dump(name)?.stdout == dump(&bad)?.stdout,
                };
                match fine {
                    true if right => Ok(()),
                    true => Err("damage is not told".to_owned()),
                    false => ended.one_error(),
                }
                .map_err(|e| format!("{bad}, {} bytes, at {at}: {e}", bytes.len()))?;
            }
        }
    }
    Ok(())
}

fn unreadable(bin: &Path) -> Result<(), String> {
    let place = recorded(bin)?;
    for args in [
        &["report", "x"][..],
        &["stream", "info", "x"],
        &["compress", "-c", "exact", "x"],
    ] {
        place.refused(args, 1, &["x: no such"])?;
    }
    for args in [
        &["report", "."][..],
        &["stream", "info", "."],
        &["compress", "-c", "exact", "."],
    ] {
        place.refused(args, 1, &["directory"])?;
    }
    place.refused(&["report", "s.tstream"], 1, &["s.tstream", "not a profile"])?;
    place.refused(
        &["stream", "info", "p.data"],
        1,
        &["p.data", "not a stream"],
    )?;
    place.refused(&["report", "/dev/null"], 1, &["/dev/null", "not a profile"])?;
    place.refused(&["stream", "info", "/dev/null"], 1, &["/dev/null"])?;
    // Endless input.
    place.refused(&["report", "/dev/zero"], 1, &["/dev/zero", "not a profile"])?;
    place.refused(
        &["stream", "info", "/dev/zero"],
        1,
        &["/dev/zero", "not a stream"],
    )?;
    place.write("locked", &read(&place, "p.data")?, 0)?;
    if fs::read(place.path("locked")).is_ok() {
        not_tested("a file that may not be read: this user may read everything");
        return Ok(());
    }
    place.refused(&["report", "locked"], 1, &["locked", "ermission denied"])?;
    place.refused(
        &["stream", "info", "locked"],
        1,
        &["locked", "ermission denied"],
    )
}
