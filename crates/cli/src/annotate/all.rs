//! `annotate --all`: each function that a profile has something of, hottest first.
//!
//! What is known of a module is gathered once for all its functions, so that a whole program takes little longer than one function.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_code::Program;
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, demangle};
use trommel_tuple::{Kind, ModuleId, Place};

use super::annotated::{Annotated, LeftOut};
use super::known::Known;
use super::{annotated_as, json, only_paths, text, top};
use crate::args::AnnotateArgs;
use crate::arguments;
use crate::find::{self, FunctionMatch};
use crate::load;
use crate::output;
use crate::report::table::Style;
use crate::report::view::View;

/// Runs the command.
pub(super) fn run(args: &AnnotateArgs) -> Result<ExitCode> {
    let file = match &args.what[..] {
        [] => PathBuf::from(trommel_store::DEFAULT_FILE),
        [file] => PathBuf::from(file),
        _ => bail!(
            "--all shows all functions: name no function, as in trommel annotate --all [FILE]"
        ),
    };
    let mut loaded = load::profiles(&file, &args.select)?;
    // What comes into a function comes from all modules.
    if let Some(whole) = loaded.whole.take() {
        loaded.profiles = whole;
    }
    let (profile, rows, _) = loaded.merge()?;
    only_paths(&profile, &file)?;
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let symbols = load::symbols(&files, &profile);
    let mut view = View::new(&profile, symbols, confidence);
    let wanted = match args.select.module.is_empty() && args.select.build_id.is_empty() {
        true => profile.modules.iter().map(|module| module.id).collect(),
        false => load::wanted(&profile, &args.select),
    };
    let (mut known, left_out) = known(&mut view, &wanted);
    if known.is_empty() && left_out.is_empty() {
        bail!(
            "{}: holds no events of any function; `trommel report` shows what it holds",
            file.display()
        );
    }
    let heat = |(found, known): &(FunctionMatch, Known)| match known.time(&profile, found.module) {
        Some(time) => time.executions,
        None => known.executed(),
    };
    let mut order: Vec<(f64, _)> = known.drain(..).map(|one| (heat(&one), one)).collect();
    let key = |found: &FunctionMatch| (found.module, found.entry());
    order.sort_by(|(a, (f, _)), (b, (g, _))| b.total_cmp(a).then_with(|| key(f).cmp(&key(g))));
    let functions = order.into_iter().map(|(_, one)| one);
    write(args, &mut view, functions, &left_out)?;
    Ok(ExitCode::SUCCESS)
}

fn write<'p>(
    args: &AnnotateArgs,
    view: &mut View<'p>,
    functions: impl Iterator<Item = (FunctionMatch, Known)>,
    left_out: &[LeftOut],
) -> Result<()> {
    let mut passed = arguments::by_call(view, |_| true);
    let top = top(args);
    let mut each = functions;
    let mut next = |view: &mut View<'p>| -> Option<Result<Annotated<'p>>> {
        let (found, known) = each.next()?;
        Some(annotated_as(view, found, known, &mut passed, top))
    };
    let mut out = output::stdout();
    if args.json {
        view.places = Some(Default::default());
        json::write_all(&mut out, view, &mut next, left_out)?;
    } else {
        let style = Style::of(&std::io::stdout());
        while let Some(function) = next(view) {
            text::write(&mut out, view, &function?, style, args.cold)?;
            writeln!(out)?;
        }
        for left in left_out {
            let why = output::printable(&left.why);
            writeln!(out, "# left out: {} functions of {why}", left.functions)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// The functions of the modules that the profile has something of, and the modules whose code is not there.
fn known(view: &mut View<'_>, wanted: &[ModuleId]) -> (Vec<(FunctionMatch, Known)>, Vec<LeftOut>) {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    let program = view.program();
    for module in wanted.iter().copied() {
        let found = functions(view, program.as_ref(), module);
        if found.is_empty() {
            continue;
        }
        match view.symbols().code(module) {
            Ok(code) => {
                let known = Known::of(view, module, &code, &found).into_iter();
                let there = found.into_iter().zip(known);
                all.extend(there.filter(|(_, known)| !known.body.lines().is_empty()));
            }
            Err(why) => {
                let of = view.profile.module(module);
                let name = of.map_or_else(String::new, find::file_name);
                left_out.push(LeftOut {
                    module,
                    functions: found.len() as u64,
                    why: match why.contains(&name) {
                        true => why,
                        false => format!("{name}: {why}"),
                    },
                });
            }
        }
    }
    (all, left_out)
}

/// The functions of a module that were executed, or where that is not known, in which something was seen.
fn functions(view: &View<'_>, program: Option<&Program>, module: ModuleId) -> Vec<FunctionMatch> {
    if let Some(program) = program {
        let here = program.functions.iter().filter(|f| f.module == module);
        return here
            .filter(|f| !f.ranges.is_empty())
            .map(|f| named(module, &f.name, f.ranges.clone()))
            .collect();
    }
    let spans = view.symbols().spans(module);
    let seen = seen(view, module);
    let found: BTreeSet<usize> = (seen.into_iter())
        .filter_map(|at| spans.find(at))
        .map(|n| spans.whole(n))
        .collect();
    found
        .into_iter()
        .map(|n| named(module, &spans.all()[n].name, spans.parts(n)))
        .collect()
}

fn named(module: ModuleId, name: &[u8], ranges: Vec<std::ops::Range<u64>>) -> FunctionMatch {
    FunctionMatch {
        module,
        name: match (name.is_empty(), ranges.first()) {
            (true, Some(range)) => format!("{:#x}-{:#x}", range.start, range.end),
            _ => demangle(name),
        },
        ranges,
    }
}

/// Addresses of a module that the profile has something of.
fn seen(view: &View<'_>, module: ModuleId) -> BTreeSet<u64> {
    let profile = view.profile;
    let is_here = |place: &Place| place.module() == module;
    let mut all = BTreeSet::new();
    for (kind, data) in &profile.kinds {
        let places = data.counts.keys().copied().filter(is_here);
        all.extend(places.map(|place| place.vaddr().0));
        if matches!(kind, Kind::Edge | Kind::Call) {
            let targets = data.counts.values().flatten();
            let targets = targets.map(|(to, _)| Place::from_word(*to)).filter(is_here);
            all.extend(targets.map(|place| place.vaddr().0));
        }
    }
    if let Some(samples) = &profile.samples {
        let places = samples.places.keys().filter(|place| is_here(place));
        all.extend(places.map(|place| place.vaddr().0));
    }
    all
}
