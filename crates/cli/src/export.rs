//! `trommel export`: a profile in the format of another tool.
//!
//! The formats are in `trommel_export`. This file chooses the profile and the output, and says which command comes next.

mod choose;
mod mains;
mod notes;

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_code::Program;
use trommel_export::{
    CallPaths, ExportError, FORMATS, Format, Input, Modules, Next, PATH_FORMATS, PathFormat,
    Process,
};
use trommel_profile::call_tree as tree;
use trommel_profile::confidence::{Basis, Confidence};
use trommel_profile::{Module, Profile};
use trommel_symbol::Files;

use crate::args::{ExportArgs, SelectArgs};
use crate::exit;
use crate::load;
use crate::output;
use crate::pipes;
use crate::report::processes::Row;

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode> {
    exit::survive_file_limit();
    if args.list {
        list(&mut output::stdout())?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.format.as_deref().unwrap_or_default();
    known(name)?;
    let select = SelectArgs {
        since: args.since,
        until: args.until,
        module: Vec::new(),
        build_id: Vec::new(),
    };
    let mut loaded = load::profiles(&args.file, &select)?;
    loaded.only(&args.file, &args.pid)?;
    let formats = (trommel_export::find_paths(name), trommel_export::find(name));
    let tells_processes = match formats {
        (Some(format), _) => format.tells_processes,
        (None, format) => format.is_some_and(Format::tells_processes),
    };
    let apart = loaded.database.is_some();
    let each = tells_processes.then(|| loaded.profiles.clone());
    let (profile, rows, _) = loaded.merge()?;
    let each = Process::all(&profile, each.unwrap_or_default(), apart);
    let has_paths = profile.call_trees.iter().any(|t| !t.nodes().is_empty());
    match formats {
        (Some(format), _) if has_paths => {
            paths(args, format, &profile, (&each[..], &rows[..], apart))
        }
        (_, Some(format)) => {
            let confidence = Confidence::of_processes(&profile, rows.len());
            let processes = (&each[..], &rows[..], apart);
            code(args, format, &profile, processes, confidence)
        }
        (Some(format), None) => {
            let format = format.name;
            Err(of_file(&args.file, &ExportError::NoPaths { format }))
        }
        (None, None) => bail!("{name}: no such format"),
    }
}

/// Writes what was executed of the code of files.
fn code(
    args: &ExportArgs,
    format: &dyn Format,
    profile: &Profile,
    (processes, rows, apart): (&[Process], &[Row], bool),
    mut confidence: Confidence,
) -> Result<ExitCode> {
    if args.off_cpu {
        let name = format.name();
        bail!(
            "--off-cpu is for formats of call paths, and {name} is none: use folded or speedscope"
        );
    }
    Input::check(profile).map_err(|error| of_file(&args.file, &error))?;
    let exact = confidence.basis() == Basis::Exact;
    check(args, format, profile, exact)?;
    let files = Files::new();
    let mut symbols = load::symbols(&files, profile);
    let Some(program) = Program::new(profile, &symbols, &mut confidence) else {
        bail!("{}: holds no branches or calls", args.file.display());
    };
    let mut input = Input {
        profile,
        program: &program,
        symbols: &mut symbols,
        processes,
        modules: Vec::new(),
        infer: (args.infer && !exact).then(Default::default),
    };
    choose::check_files(args, &input, exact)?;
    let chosen = choose::modules(args, format, (rows, apart), &input)?;
    input.modules.clone_from(&chosen.modules);
    if format.promises_exact()
        && !args.estimates
        && let Some(left) = notes::left_early(&input)
    {
        bail!(
            "{}: {left}, and {} says what was not executed; record with -e edge,call, or add --estimates",
            args.file.display(),
            format.name()
        );
    }
    let gone = gone(args, format, &input)?;
    if let (Modules::One, &[only]) = (format.modules(), &input.modules[..])
        && let Err(error) = format.check(&input, only)
    {
        bail!("{}: {error}{}", args.file.display(), chosen.instead());
    }
    let only = match input.modules[..] {
        [one] => input.module(one).map_or(&b""[..], |module| &module.path),
        _ => b"",
    };
    let named = match format.modules() {
        Modules::One => only,
        Modules::All => called(profile, rows),
    };
    let out = destination(args, format.extension(), named);
    check_output(args, profile, &out)?;
    let only = only.to_vec();
    let old = write(&args.file, &out, |file| format.write(&mut input, file))?;
    for (_, why) in &gone {
        output::complain(&format!("left out, so sums are without it: {why}"));
    }
    if format.modules() == Modules::All {
        notes::anonymous(&input)
            .iter()
            .for_each(|n| output::complain(n));
    }
    let notes = [
        format.left_out(&input),
        notes::lineless(format, &input),
        notes::partly_lineless(format, &mut input),
        notes::stripped(format, &input),
        notes::left_early(&input),
        notes::inexact(format, &input),
    ];
    notes.iter().flatten().for_each(|n| output::complain(n));
    let of_counts = (!exact).then(|| notes::of_counts(&input));
    let of: Vec<String> = of_counts
        .into_iter()
        .chain(notes::in_part(profile))
        .collect();
    if out == Path::new("-") {
        of.iter().for_each(|note| output::complain(note));
        return Ok(ExitCode::SUCCESS);
    }
    say_next(
        format,
        &mut input,
        (&out, old.as_deref()),
        (&chosen.among(), &of),
        &only,
    );
    Ok(ExitCode::SUCCESS)
}

/// Says where the file is, and the next command of the tool that reads it. `old`: where the file is that was there before. `among`: modules beside the
/// one whose path is `only`, in words. `of`: what the counts are of.
fn say_next(
    format: &dyn Format,
    input: &mut Input<'_, '_>,
    (out, old): (&Path, Option<&Path>),
    (among, of): (&str, &[String]),
    only: &[u8],
) {
    let (own, debug) = match input.modules[..] {
        [one] => (
            input.symbols.own_tables(one),
            input.symbols.separate_debug(one),
        ),
        _ => (None, None),
    };
    let debug = debug.map(|path| output::command_line(&[path.as_os_str().as_bytes().to_vec()]));
    let base = Path::new(std::ffi::OsStr::from_bytes(only)).file_name();
    let made = base.map_or(Vec::new(), |base| base.as_bytes().to_vec());
    let [module, made] = [only.to_vec(), made].map(|name| output::command_line(&[name]));
    let mut more = match format.modules() {
        Modules::One => format!(" of {module}{among}"),
        Modules::All => String::new(),
    };
    of.iter().for_each(|note| more += &format!("; {note}"));
    let (source, language) = choose::source(input);
    let sources_missing = format.opens_sources() && choose::lacks_sources(input);
    let next = |file: &str| {
        format.next(&Next {
            sources_missing,
            source: source.as_deref(),
            language,
            debug: debug.as_deref(),
            stripped: own.is_some_and(|own| !own.symbols),
            file,
            module: &module,
            made: &made,
            unit: input.profile.unit(),
            library: base.is_some_and(choose::is_library),
            relocations: own.is_some_and(|own| own.relocations),
            rewritten: own.is_some_and(|own| own.rewritten),
        })
    };
    say(format.name(), out, &more, old, next);
}

/// Refuses what a format would say wrongly, and options that mean nothing to it.
fn check(args: &ExportArgs, format: &dyn Format, profile: &Profile, exact: bool) -> Result<()> {
    let (file, name) = (args.file.display(), format.name());
    if args.infer && !format.is_for_optimisers() {
        bail!("--infer is for formats of optimisers, and {name} is none: leave it out");
    }
    if !format.promises_exact() || args.estimates {
        return Ok(());
    }
    if !exact {
        bail!(
            "{file}: holds estimates, in which code that was not seen may have been executed, and {name} says what was not; \
             record without sampling, or add --estimates"
        );
    }
    if let Some(part) = notes::in_part(profile) {
        bail!(
            "{file}: {part}; other code may have been executed, and {name} says what was not; \
             record the whole run, or add --estimates"
        );
    }
    Ok(())
}

/// Files that are left out as they are gone, or others.
fn gone(
    args: &ExportArgs,
    format: &dyn Format,
    input: &Input<'_, '_>,
) -> Result<choose::WithoutCode> {
    if format.modules() == Modules::One {
        return Ok(Vec::new());
    }
    let gone = input.gone();
    let own = Input::program_of(input.profile).map(|m| m.id);
    let is_meant = |id| Some(id) == own || !args.module.is_empty() || !args.build_id.is_empty();
    match gone.iter().find(|(id, _)| is_meant(*id)) {
        Some((_, why)) => {
            let why = why.clone();
            Err(of_file(&args.file, &ExportError::NoCode { why }))
        }
        None => Ok(gone),
    }
}

/// Writes call paths.
fn paths(
    args: &ExportArgs,
    format: &PathFormat,
    profile: &Profile,
    (processes, rows, apart): (&[Process], &[Row], bool),
) -> Result<ExitCode> {
    let name = format.name;
    if !args.module.is_empty() || !args.build_id.is_empty() {
        bail!(
            "--module and --build-id choose code, and {name} holds whole call paths: leave them out"
        );
    }
    if args.infer {
        bail!("--infer is for branches and calls, and {name} holds call paths: leave it out");
    }
    let files = Files::new();
    let mut symbols = load::symbols(&files, profile);
    let found = match args.off_cpu {
        true => CallPaths::off_cpu(profile, &mut symbols),
        false => CallPaths::new(profile, &mut symbols),
    };
    if args.off_cpu && found.is_none() {
        bail!(
            "{}: holds no waits; record them with `trommel record --off-cpu`",
            args.file.display()
        );
    }
    let Some(mut paths) = found else {
        return Err(of_file(&args.file, &ExportError::NoPaths { format: name }));
    };
    paths.processes = processes;
    paths.main = mains::Mains::of(profile, rows, apart).first;
    let out = destination(args, format.extension, called(profile, rows));
    check_output(args, profile, &out)?;
    let old = write(&args.file, &out, |file| {
        (format.write)(&paths, &mut symbols, file)
    })?;
    for note in notes::of_paths(format, &paths, &symbols) {
        output::complain(&note);
    }
    if out != Path::new("-") {
        let basis = paths.tree.basis;
        let mut more = match basis {
            tree::Basis::Stacks => "; from sampled stacks",
            tree::Basis::Contexts => "; from exact contexts",
            tree::Basis::Waits => "; of waits",
            tree::Basis::WaitSamples => "; of sampled waits",
        }
        .to_owned();
        if basis == tree::Basis::Contexts {
            notes::in_part(profile)
                .iter()
                .for_each(|n| more += &format!("; {n}"));
        }
        say(name, &out, &more, old.as_deref(), |file| {
            (format.next)(file, basis)
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn of_file(file: &Path, error: &ExportError) -> anyhow::Error {
    anyhow::anyhow!("{}: {error}", file.display())
}

/// Prints the formats, one line each.
fn list(out: &mut impl Write) -> io::Result<()> {
    for format in FORMATS {
        writeln!(out, "{:18} {}", format.name(), format.about())?;
    }
    let more = |format: &&PathFormat| trommel_export::find(format.name).is_none();
    for format in PATH_FORMATS.iter().filter(more) {
        writeln!(out, "{:18} {}", format.name, format.about)?;
    }
    out.flush()
}

/// Checks that there is a format of this name.
fn known(name: &str) -> Result<()> {
    if trommel_export::find(name).is_some() || trommel_export::find_paths(name).is_some() {
        return Ok(());
    }
    if let Some(why) = trommel_export::why_not(name) {
        bail!("{name}: {why}");
    }
    let mut names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
    names.extend(PATH_FORMATS.iter().map(|format| format.name));
    names.sort_unstable();
    names.dedup();
    bail!("{name}: no such format; there are {}", names.join(", "))
}

/// Refuses an output that would take the place of what it is made of.
fn check_output(args: &ExportArgs, profile: &Profile, out: &Path) -> Result<()> {
    let same = |a: &Path, b: &Path| match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    let mut earlier = out.as_os_str().to_owned();
    earlier.push(".old");
    if same(out, &args.file) || same(Path::new(&earlier), &args.file) {
        bail!(
            "{}: is the profile itself, or would take its place; choose another --output",
            out.display()
        );
    }
    let path = |m: &Module| PathBuf::from(std::ffi::OsStr::from_bytes(&m.path));
    if profile.modules.iter().any(|m| same(out, &path(m))) {
        bail!(
            "{}: is a file whose code was executed; choose another --output",
            out.display()
        );
    }
    Ok(())
}

/// The program of a profile, or of all its processes, by which a file is called. Empty of several.
fn called<'p>(profile: &'p Profile, rows: &'p [Row]) -> &'p [u8] {
    let mut names = rows.iter().filter_map(|row| row.command.first());
    let of_processes = names
        .next()
        .filter(|first| names.all(|name| name == *first));
    let name = profile.command.first().or(of_processes);
    name.map_or(&b""[..], |name| mains::untitled(name))
}

fn destination(args: &ExportArgs, extension: &str, only: &[u8]) -> PathBuf {
    if let Some(output) = &args.output {
        return output.clone();
    }
    let path = Path::new(std::ffi::OsStr::from_bytes(only));
    let name = path.file_name().unwrap_or("trommel".as_ref());
    let mut file = name.to_owned();
    file.push(".");
    file.push(extension);
    file.into()
}

/// Writes a file, whole or not at all. Returns the path of an earlier one.
fn write(
    from: &Path,
    out: &Path,
    export: impl FnOnce(&mut dyn Write) -> Result<(), ExportError>,
) -> Result<Option<PathBuf>> {
    let mut refused = None;
    let export = |file: &mut dyn Write| {
        export(file).map_err(|error| match error {
            ExportError::Write(error) => error,
            other => {
                refused = Some(other);
                io::Error::other("refused")
            }
        })
    };
    let done = if out == Path::new("-") {
        let mut stdout = output::verbatim();
        let done = export(&mut stdout).and_then(|()| stdout.flush());
        done.map(|()| None).map_err(anyhow::Error::from)
    } else {
        let _read = pipes::wait(out)?;
        trommel_store::write_file(out, export)
            .map(|written| written.old)
            .map_err(anyhow::Error::from)
    };
    match refused {
        Some(why) => Err(of_file(from, &why)),
        None => done,
    }
}

/// Says what was written, and the command that reads it.
fn say(
    format: &str,
    out: &Path,
    more: &str,
    old: Option<&Path>,
    next: impl FnOnce(&str) -> String,
) {
    // A name that begins as an option does is a path then.
    let bytes = out.as_os_str().as_bytes();
    let file = match bytes.starts_with(b"-") {
        true => [b"./", bytes].concat(),
        false => bytes.to_vec(),
    };
    let file = output::command_line(&[file]);
    let next = next(&file);
    let earlier = old.map_or(String::new(), |old| {
        format!("; the earlier one is {}", old.display())
    });
    output::complain(&format!("wrote {file}, format {format}{more}{earlier}"));
    output::complain(&format!("next: {next}"));
}
