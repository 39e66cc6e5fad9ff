//! `trommel stream`: look at event streams and convert them.
//!
//! Streams can be larger than memory and are read block by block. One that was cut short (its
//! writer was killed, or still runs) is read as far as it is whole, with a line on stderr.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trommel_tuple::stream::{self, Block, End, Format, Module, Reader, Writer, raw16};
use trommel_tuple::{Ended, Events, Kind, Outcomes, Place, Tuple};

use crate::args::{StreamArgs, StreamCommand};
use crate::json::Json;
use crate::output::{self, grouped, printable};
use crate::pipes;

/// Runs the command.
pub(crate) fn run(args: &StreamArgs) -> Result<ExitCode> {
    match &args.command {
        StreamCommand::Info { file, json } => info(file, *json)?,
        StreamCommand::Dump { file, count, event } => dump(file, *count, *event)?,
        StreamCommand::Convert { file, out, event } => convert(file, out, *event)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Calls `each` with every block until it says `false`.
pub(crate) fn for_each_block(
    reader: &mut Reader,
    path: &Path,
    mut each: impl FnMut(&Block, &[Module]) -> Result<bool>,
) -> Result<()> {
    let mut block = Block::default();
    while reader.next_block(&mut block)? {
        if !each(&block, reader.modules())? {
            return Ok(());
        }
    }
    if let Some(End::CutShort { offset }) = reader.end() {
        output::complain(&format!(
            "{}: cut short after byte {offset}; what is before it was read",
            path.display()
        ));
    }
    Ok(())
}

/// Opens a stream that must be there.
pub(crate) fn open(path: &Path) -> Result<Reader> {
    if !path.exists() {
        bail!(
            "{}: no such stream; `trommel record --stream FILE` writes one",
            path.display()
        );
    }
    Ok(stream::open(path)?)
}

fn info(path: &Path, json: bool) -> Result<()> {
    let mut reader = open(path)?;
    let mut counts = [0_u64; Kind::ALL.len()];
    for_each_block(&mut reader, path, |block, _| {
        block
            .events()
            .for_each(|kind, _| counts[kind as usize] += 1);
        Ok(true)
    })?;
    let known_kinds = reader.format() == Format::Tstream;
    let format = if known_kinds { "tstream" } else { "raw16" };
    let complete = reader.end() == Some(End::Complete);
    let total: u64 = counts.iter().sum();
    let size = fs::metadata(path).map_or(0, |m| m.len());
    let kinds = || {
        Kind::ALL
            .into_iter()
            .zip(counts)
            .filter(|(_, n)| known_kinds && *n > 0)
    };
    if json {
        let mut json = Json::new(output::stdout());
        json.object()?;
        json.text("schema", "trommel.stream/1")?;
        json.text("format", format)?;
        json.text("end", if complete { "complete" } else { "cut short" })?;
        json.number("bytes", size)?;
        json.number("events", total)?;
        json.member_object("kinds")?;
        for (kind, count) in kinds() {
            json.number(kind.name(), count)?;
        }
        json.end_object()?;
        json.member_array("modules")?;
        for module in reader.modules() {
            json.object()?;
            json.number("id", module.id.0)?;
            json.text("path", &String::from_utf8_lossy(&module.path))?;
            json.end_object()?;
        }
        json.end_array()?;
        json.end_object()?;
        return Ok(json.finish()?);
    }
    let mut out = output::stdout();
    let end = if complete { "" } else { ", cut short" };
    writeln!(out, "format   {format}{end}")?;
    let each = if total == 0 {
        0.0
    } else {
        size as f64 / total as f64
    };
    writeln!(
        out,
        "size     {} bytes, {each:.2} for each event",
        grouped(size)
    )?;
    writeln!(out, "events   {}", grouped(total))?;
    for (kind, count) in kinds() {
        writeln!(out, "  {kind:<8} {}", grouped(count))?;
    }
    if !known_kinds {
        writeln!(out, "  (raw16 files do not say of which kind)")?;
    }
    for module in reader.modules() {
        let path = String::from_utf8_lossy(&module.path);
        writeln!(out, "module   {:<5} {}", module.id.0, printable(&path))?;
    }
    Ok(out.flush()?)
}

fn dump(path: &Path, count: Option<u64>, only: Option<Kind>) -> Result<()> {
    let mut reader = open(path)?;
    let only_kind = only.filter(|_| reader.format() == Format::Tstream);
    let shown_kind = only.filter(|_| reader.format() == Format::Raw16);
    let mut left = count.unwrap_or(u64::MAX);
    let mut out = output::stdout();
    for_each_block(&mut reader, path, |block, _| {
        let mut written = Ok(());
        block.events().for_each(|kind, tuple| {
            if left > 0 && written.is_ok() && only_kind.is_none_or(|k| k == kind) {
                left -= 1;
                written = line(&mut out, shown_kind.unwrap_or(kind), tuple);
            }
        });
        written?;
        Ok(left > 0)
    })?;
    Ok(out.flush()?)
}

/// One event: `kind module:address value`; what is a place is written as one.
fn line(out: &mut impl Write, kind: Kind, tuple: Tuple) -> io::Result<()> {
    let place = |place: Place| format!("{}:{:#x}", place.module().0, place.vaddr());
    write!(out, "{kind} {} ", place(tuple.pc))?;
    match (kind.value_is_place(), Outcomes::from_word(tuple.value)) {
        (true, _) => writeln!(out, "{}", place(Place::from_word(tuple.value))),
        (false, Some((outcomes, end))) if kind == Kind::Path => {
            let end = match end {
                Ended::Whole => "",
                Ended::Cut => " cut",
                Ended::Left => " left",
            };
            writeln!(out, "{:#x} [{outcomes}]{end}", tuple.value)
        }
        (false, _) => writeln!(out, "{:#x}", tuple.value),
    }
}

/// The forms that can be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Tstream,
    Raw16,
    PackedRaw16,
}

fn target(out: &Path) -> Result<Target> {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".raw16") {
        Ok(Target::Raw16)
    } else if name.ends_with(".raw16.zst") {
        Ok(Target::PackedRaw16)
    } else if name.ends_with(".tstream") {
        Ok(Target::Tstream)
    } else {
        bail!(
            "{}: its name does not give the format; end it in .raw16, .raw16.zst or .tstream",
            out.display()
        )
    }
}

fn convert(path: &Path, out: &Path, event: Option<Kind>) -> Result<()> {
    let target = target(out)?;
    let mut reader = open(path)?;
    if let (Ok(from), Ok(to)) = (fs::canonicalize(path), fs::canonicalize(out))
        && from == to
    {
        bail!(
            "{}: is both input and output; name another output",
            out.display()
        );
    }
    if fs::metadata(out).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let file = pipes::create(out);
        let file = file.with_context(|| format!("{}: cannot write there", out.display()))?;
        let done = write_all(&mut reader, path, BufWriter::new(file), target, event);
        return done.with_context(|| format!("{}: not written", out.display()));
    }
    // Written under another name: a conversion that fails must leave no half of a stream.
    let mut temporary = out.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    let file = File::create(temporary).with_context(|| {
        format!(
            "{}: cannot write there; name a file elsewhere",
            out.display()
        )
    })?;
    let done = write_all(&mut reader, path, BufWriter::new(file), target, event)
        .and_then(|()| Ok(fs::rename(temporary, out)?));
    if done.is_err() {
        let _ = fs::remove_file(temporary);
    }
    done.map_err(|error| {
        let io_error = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let hint = match io_error == Some(io::ErrorKind::StorageFull) {
            true => "; free some space or name a file elsewhere",
            false => "",
        };
        error.context(format!("{}: not written{hint}", out.display()))
    })
}

fn write_all(
    reader: &mut Reader,
    path: &Path,
    file: BufWriter<File>,
    target: Target,
    event: Option<Kind>,
) -> Result<()> {
    // A raw16 file has no kinds; `-e` says which it holds. In other files it selects.
    let from_raw = reader.format() == Format::Raw16;
    let select = move |block: &Block, chosen: &mut Vec<Tuple>, kinds: &mut Vec<Kind>| {
        chosen.clear();
        kinds.clear();
        block.events().for_each(|kind, tuple| {
            let kind = event.filter(|_| from_raw).unwrap_or(kind);
            if event.is_none_or(|e| e == kind) {
                chosen.push(tuple);
                kinds.push(kind);
            }
        });
    };
    let (mut tuples, mut kinds) = (Vec::new(), Vec::new());
    match target {
        Target::Tstream => {
            let mut writer = Writer::new(file)?;
            let mut named = 0;
            for_each_block(reader, path, |block, modules| {
                for module in &modules[named..] {
                    writer.module(module)?;
                }
                named = modules.len();
                select(block, &mut tuples, &mut kinds);
                if let Some(events) = Events::new(&tuples, &kinds) {
                    writer.events(events)?;
                }
                Ok(true)
            })?;
            writer.finish()?.into_inner().map_err(io::Error::from)?;
        }
        Target::Raw16 => {
            let mut file = file;
            write_raw(reader, path, &mut file, |block| {
                select(block, &mut tuples, &mut kinds);
                std::mem::take(&mut tuples)
            })?;
            file.flush()?;
        }
        Target::PackedRaw16 => {
            let mut packed = raw16::compressed(file)?;
            write_raw(reader, path, &mut packed, |block| {
                select(block, &mut tuples, &mut kinds);
                std::mem::take(&mut tuples)
            })?;
            packed.finish()?.flush()?;
        }
    }
    Ok(())
}

fn write_raw(
    reader: &mut Reader,
    path: &Path,
    out: &mut impl Write,
    mut select: impl FnMut(&Block) -> Vec<Tuple>,
) -> Result<()> {
    for_each_block(reader, path, |block, _| {
        raw16::write(&mut *out, Events::of_kind(Kind::Value, &select(block)))?;
        Ok(true)
    })
}
