//! `trommel export`: a profile in the format of another tool.
//!
//! The formats are in `trommel_export`. This file chooses the profile, the modules and the output, and says which command comes next.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_code::Program;
use trommel_export::view::MOST_EXACT;
use trommel_export::{
    CallPaths, ExportError, FORMATS, Format, Input, MOST_DEEP, Modules, Next, PATH_FORMATS,
    PathFormat,
};
use trommel_profile::call_tree as tree;
use trommel_profile::confidence::{Basis, Confidence};
use trommel_profile::{Module, Profile};
use trommel_symbol::Files;
use trommel_tuple::{Kind, ModuleId};

use crate::args::{ExportArgs, SelectArgs};
use crate::load;
use crate::output;

/// Runs the command.
pub(crate) fn run(args: &ExportArgs) -> Result<ExitCode> {
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
    let (profile, rows, _) = loaded.merge()?;
    let has_paths = profile.call_trees.iter().any(|t| !t.nodes().is_empty());
    let format = match (trommel_export::find_paths(name), trommel_export::find(name)) {
        (Some(format), _) if has_paths => return paths(args, format, &profile),
        (_, Some(format)) => format,
        (Some(format), None) => {
            let format = format.name;
            return Err(of_file(&args.file, &ExportError::NoPaths { format }));
        }
        (None, None) => bail!("{name}: no such format"),
    };
    Input::check(&profile).map_err(|error| of_file(&args.file, &error))?;
    let mut confidence = Confidence::of_processes(&profile, rows.len());
    let exact = confidence.basis() == Basis::Exact;
    if format.promises_exact() && !exact && !args.estimates {
        bail!(
            "{}: holds estimates, in which code that was not seen may have been executed, and {} says what was not; \
             record without sampling, or add --estimates",
            args.file.display(),
            format.name()
        );
    }
    let files = Files::new();
    let mut symbols = load::symbols(&files, &profile);
    let Some(program) = Program::new(&profile, &symbols, &mut confidence) else {
        bail!("{}: holds no branches or calls", args.file.display());
    };
    let modules = modules(args, format, &profile, &program)?;
    let path = |id: &ModuleId| {
        profile
            .modules
            .iter()
            .find(|m| m.id == *id)
            .map(|m| &m.path[..])
    };
    let only = match &modules[..] {
        [one] => path(one).unwrap_or_default().to_vec(),
        _ => Vec::new(),
    };
    let infer = args.infer && !exact;
    if args.infer && !format.is_for_optimisers() {
        bail!(
            "--infer is for formats of optimisers, and {} is none: leave it out",
            format.name()
        );
    }
    let mut input = Input {
        profile: &profile,
        program: &program,
        symbols: &mut symbols,
        modules,
        infer: infer.then(Default::default),
    };
    let gone = match format.modules() {
        Modules::One => Vec::new(),
        Modules::All => input.gone(),
    };
    let own = Input::program_of(&profile).map(|m| m.id);
    let is_meant = |id: &ModuleId| Some(*id) == own || !args.module.is_empty();
    if let Some((_, why)) = gone.iter().find(|(id, _)| is_meant(id)) {
        let why = why.clone();
        return Err(of_file(&args.file, &ExportError::NoCode { why }));
    }
    let named = match format.modules() {
        Modules::One => &only[..],
        Modules::All => profile.command.first().map_or(&b""[..], |name| name),
    };
    let out = destination(args, format.extension(), named);
    check_output(args, &profile, &out)?;
    let old = write(&args.file, &out, |file| format.write(&mut input, file))?;
    for (_, why) in &gone {
        output::complain(&format!("left out, so sums are without it: {why}"));
    }
    // Events of code that is in no file are in no sum of instructions.
    let events = [Kind::Edge, Kind::Call].map(|kind| profile.kinds.get(&kind));
    let events = events
        .into_iter()
        .flatten()
        .flat_map(|kind| kind.counts.values().flatten());
    let events: f64 = events.map(|(_, count)| *count as f64).sum();
    let sum = program.executed().times.max(events);
    if sum > MOST_EXACT as f64 {
        output::complain(&too_great(sum, MOST_EXACT));
    }
    if out == Path::new("-") && !exact {
        output::complain(&of_counts(&input));
    }
    if out != Path::new("-") {
        let relocations = match input.modules[..] {
            [one] => input.symbols.own_tables(one),
            _ => None,
        };
        let relocations = relocations.is_some_and(|own| own.relocations);
        let base = Path::new(std::ffi::OsStr::from_bytes(&only)).file_name();
        let made = base.map_or(Vec::new(), |base| base.as_bytes().to_vec());
        let [module, made] = [only, made].map(|name| output::command_line(&[name]));
        let estimates = match exact {
            true => String::new(),
            false => format!("; {}", of_counts(&input)),
        };
        let of = match format.modules() {
            Modules::One => format!(" of {module}{}", hotter(args, &input)),
            Modules::All => String::new(),
        };
        say(
            format.name(),
            &out,
            &(of + &estimates + &earlier(old.as_deref())),
            |file| {
                format.next(&Next {
                    file,
                    module: &module,
                    made: &made,
                    relocations,
                })
            },
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Says which file executed most of the instructions, where that is another one than the program.
fn hotter(args: &ExportArgs, input: &Input<'_, '_>) -> String {
    let [own] = input.modules[..] else {
        return String::new();
    };
    let executed = executed_by(input.program);
    let all: f64 = executed.values().sum();
    let share = |id: &ModuleId| 100.0 * executed.get(id).unwrap_or(&0.0) / all.max(1.0);
    let Some(module) = hottest(&executed)
        .and_then(|id| input.module(id))
        .filter(|m| m.id != own)
    else {
        return String::new();
    };
    if !args.module.is_empty() || !args.build_id.is_empty() {
        return String::new();
    }
    format!(
        ", which executed {:.0} % of the instructions (--module {}: {:.0} %)",
        share(&own),
        names(std::iter::once(module)),
        share(&module.id)
    )
}

/// Says that counts may be greater than those that are exact.
fn too_great(sum: f64, most: u64) -> String {
    format!(
        "counts add up to {sum:.3e}, and those above {most} are not exact: they are rounded, or limited to the greatest number of the format"
    )
}

/// Says what counts that are not exact are.
fn of_counts(input: &Input<'_, '_>) -> String {
    match &input.infer {
        Some(inferred) => format!("its counts are inferred: estimates {}", inferred.get()),
        None => "its counts are estimates".to_owned(),
    }
}

/// Writes call paths.
fn paths(args: &ExportArgs, format: &PathFormat, profile: &Profile) -> Result<ExitCode> {
    if !args.module.is_empty() || !args.build_id.is_empty() {
        bail!(
            "--module and --build-id choose code, and {} holds whole call paths: leave them out",
            format.name
        );
    }
    let files = Files::new();
    let mut symbols = load::symbols(&files, profile);
    let Some(paths) = CallPaths::new(profile, &mut symbols) else {
        let format = format.name;
        return Err(of_file(&args.file, &ExportError::NoPaths { format }));
    };
    let program = profile.command.first().map_or(&b""[..], |name| name);
    let out = destination(args, format.extension, program);
    check_output(args, profile, &out)?;
    let old = write(&args.file, &out, |file| {
        (format.write)(&paths, &mut symbols, file)
    })?;
    let sum = paths.sum();
    if sum > format.most.into() {
        output::complain(&too_great(sum as f64, format.most));
    }
    if format.whole_paths && paths.depth() > MOST_DEEP {
        output::complain(&format!(
            "{} has paths of up to {MOST_DEEP} functions, and there are paths of {}: the last function has the costs of all further in; \
             speedscope and firefox have them whole",
            format.name,
            paths.depth()
        ));
    }
    if out != Path::new("-") {
        let basis = paths.tree.basis;
        let words = match basis {
            tree::Basis::Stacks => "; from sampled stacks",
            tree::Basis::Contexts => "; from exact contexts",
        };
        let words = words.to_owned() + &earlier(old.as_deref());
        say(format.name, &out, &words, |file| (format.next)(file, basis));
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

/// The modules that are written.
fn modules(
    args: &ExportArgs,
    format: &dyn Format,
    profile: &Profile,
    program: &Program,
) -> Result<Vec<ModuleId>> {
    let executed = |module: &&Module| program.modules.contains_key(&module.id);
    let is_file = |module: &&Module| executed(module) && module.id != ModuleId::ANON;
    if !profile.modules.iter().any(|module| is_file(&module)) {
        bail!(
            "{}: no executed code of any file is known; where samples or windows were too few to see any, record for longer, \
             or with a greater --budget or --rate",
            args.file.display()
        );
    }
    if !args.module.is_empty() || !args.build_id.is_empty() {
        let wanted = |m: &&Module| load::is_wanted(m, &args.module, &args.build_id);
        let found: Vec<&Module> = profile.modules.iter().filter(wanted).collect();
        let is_known = |names: &[String], ids: &[String]| {
            profile
                .modules
                .iter()
                .any(|m| load::is_wanted(m, names, ids))
        };
        let one = std::slice::from_ref::<String>;
        let names_missing = args.module.iter().filter(|name| !is_known(one(name), &[]));
        let ids_missing = args.build_id.iter().filter(|id| !is_known(&[], one(id)));
        let missing = names_missing.chain(ids_missing);
        let missing: Vec<&str> = missing.map(String::as_str).collect();
        if !missing.is_empty() {
            bail!(
                "{}: no module is called {}; there are {}",
                args.file.display(),
                missing.join(" or "),
                names(profile.modules.iter().filter(executed))
            );
        }
        if format.modules() == Modules::One && found.len() > 1 {
            let paths = found.iter().map(|m| String::from_utf8_lossy(&m.path));
            bail!(
                "{}: {} describes one file, and {} modules are chosen; name one by its whole path: {}",
                args.file.display(),
                format.name(),
                found.len(),
                paths.collect::<Vec<_>>().join(", ")
            );
        }
        return Ok(found.iter().map(|m| m.id).collect());
    }
    let own = Input::program_of(profile).filter(executed).map(|m| m.id);
    if format.modules() == Modules::All {
        let all = profile.modules.iter().filter(is_file).map(|m| m.id);
        // The program first: some readers take the first file for it.
        let others = all.filter(|id| Some(*id) != own);
        return Ok(own.into_iter().chain(others).collect());
    }
    if let Some(own) = own {
        return Ok(vec![own]);
    }
    // Run by another name: through a link, or a #! line. Then it is the file that executed most.
    let linked = linked(profile).filter(|id| program.modules.contains_key(id));
    Ok(linked
        .or_else(|| hottest(&executed_by(program)))
        .into_iter()
        .collect())
}

/// The module that the command is a link to.
fn linked(profile: &Profile) -> Option<ModuleId> {
    let command = Path::new(std::ffi::OsStr::from_bytes(profile.command.first()?));
    let file = command.canonicalize().ok()?;
    let is = |m: &&Module| m.path == file.as_os_str().as_bytes();
    profile.modules.iter().find(is).map(|m| m.id)
}

/// Instructions that each module executed.
fn executed_by(program: &Program) -> BTreeMap<ModuleId, f64> {
    let mut executed: BTreeMap<ModuleId, f64> = BTreeMap::new();
    for function in &program.functions {
        *executed.entry(function.module).or_default() += function.executed.times;
    }
    executed
}

/// The file that executed most of them.
fn hottest(executed: &BTreeMap<ModuleId, f64>) -> Option<ModuleId> {
    let files = executed.iter().filter(|(id, _)| **id != ModuleId::ANON);
    let most = files.max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map(|(id, _)| *id)
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

fn names<'m>(modules: impl Iterator<Item = &'m Module>) -> String {
    let base = |m: &Module| {
        String::from_utf8_lossy(&m.path)
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    modules.map(base).collect::<Vec<_>>().join(", ")
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

/// Words about the file that was there before.
fn earlier(old: Option<&Path>) -> String {
    old.map_or(String::new(), |old| {
        format!("; the earlier one is {}", old.display())
    })
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
        let mut stdout = output::stdout();
        let done = export(&mut stdout).and_then(|()| stdout.flush());
        done.map(|()| None).map_err(anyhow::Error::from)
    } else {
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
fn say(format: &str, out: &Path, more: &str, next: impl FnOnce(&str) -> String) {
    let file = output::command_line(&[out.as_os_str().as_bytes().to_vec()]);
    let next = next(&file);
    output::complain(&format!(
        "wrote {file}, format {format}{more}; next: {next}"
    ));
}
