//! Words about what an output lacks, and about counts that are not what they seem.

use trommel_export::view::MOST_EXACT;
use trommel_export::{CallPaths, Format, Input, MOST_DEEP, PathFormat};
use trommel_profile::Profile;
use trommel_symbol::Symbols;
use trommel_tuple::{Kind, ModuleId};

use crate::output::{grouped, printable};

/// Says that the run was not observed as a whole, where it was not.
pub(super) fn in_part(profile: &Profile) -> Option<String> {
    let reasons = profile.unobserved();
    let reasons = printable(&reasons.join("; "));
    (!reasons.is_empty()).then(|| format!("the run was observed in part: {reasons}"))
}

/// Says what counts that are not exact are.
pub(super) fn of_counts(input: &Input<'_, '_>) -> String {
    match &input.infer {
        Some(inferred) => format!("its counts are inferred: estimates {}", inferred.get()),
        None => "its counts are estimates".to_owned(),
    }
}

/// Says that code in no file is left out, where some was executed.
pub(super) fn anonymous(input: &Input<'_, '_>) -> Option<String> {
    let code = input.program.modules.get(&ModuleId::ANON)?;
    let control = code.blocks.transfers.control.values();
    let executed: f64 = control.map(|count| count.times).sum();
    (executed > 0.0).then(|| {
        format!(
            "left out, so sums are without it: code in no file ([anon]), such as that of a JIT compiler, with {} branches and calls",
            grouped(executed.round() as u64)
        )
    })
}

/// Says what is lost as functions have no symbols, where some have none.
pub(super) fn stripped(format: &dyn Format, input: &Input<'_, '_>) -> Option<String> {
    let lost = format.lost_without_symbols()?;
    let number = input.modules.iter().map(|m| input.without_symbols(*m));
    let number: usize = number.sum();
    (number > 0).then(|| format!("{number} executed functions have no symbol, and {lost}"))
}

/// Says that the program, or the first file that was chosen, has no source lines, where the format has such.
pub(super) fn lineless(format: &dyn Format, input: &Input<'_, '_>) -> Option<String> {
    let first = *input.modules.first().filter(|_| format.has_lines())?;
    let own = input.symbols.own_tables(first)?;
    let has_debug = own.debug || input.symbols.separate_debug(first).is_some();
    (!has_debug).then(|| {
        format!(
            "{} has no debug information, so {} has no source lines of it: compile with -g",
            printable(&input.path(first)),
            format.name()
        )
    })
}

/// Says which share of the instructions no source line is known of, where the only file was compiled with debug information in part.
pub(super) fn partly_lineless(format: &dyn Format, input: &mut Input<'_, '_>) -> Option<String> {
    /// Percent that code of the compiler's own and a few stubs may have.
    const FEW: f64 = 5.0;
    let &[only] = &input.modules[..] else {
        return None;
    };
    let functions = input.program.functions.iter();
    let functions = functions.filter(|f| f.module == only && !f.stub && format.needs_lines());
    let (mut all, mut without) = (0.0, 0.0);
    for function in functions {
        let times = function.executed.times;
        all += times;
        let start = function.start();
        if start.is_some_and(|start| input.symbols.line(start).is_none()) {
            without += times;
        }
    }
    let share = 100.0 * without / f64::max(all, 1.0);
    (share >= FEW).then(|| {
        format!(
            "{} has no debug information of functions with {share:.0} % of its instructions, and {} has none of these: compile all of it with -g",
            printable(&input.path(only)),
            format.name()
        )
    })
}

/// Says that calls were left early, where some were and count as if they had come back.
pub(super) fn left_early(input: &Input<'_, '_>) -> Option<String> {
    let times = input.program.left_early(input.profile);
    (times > 0).then(|| {
        format!(
            "{} exceptions and longjmps ended calls, which count as if they had come back: code right after such a call is counted too often",
            grouped(times)
        )
    })
}

/// Says that counts, or their sums, may be greater than what the format holds.
pub(super) fn inexact(format: &dyn Format, input: &Input<'_, '_>) -> Option<String> {
    // Events of code that is in no file are in no sum of instructions.
    let events = [Kind::Edge, Kind::Call].map(|kind| input.profile.kinds.get(&kind));
    let events = events.into_iter().flatten();
    let events = events.flat_map(|kind| kind.counts.values().flatten());
    let events: f64 = events.map(|(_, count)| *count as f64).sum();
    let sum = input.program.executed().times.max(events);
    let most = format.most();
    (sum > most as f64).then(|| too_great(sum, most, "limited to it"))
}

fn too_great(sum: f64, most: u64, what: &str) -> String {
    format!("counts add up to {sum:.3e}, and those above {most} are {what}")
}

/// Says what call paths lack in a format: exact sums, deep paths, names.
pub(super) fn of_paths(
    format: &PathFormat,
    paths: &CallPaths<'_>,
    symbols: &Symbols<'_>,
) -> Vec<String> {
    let mut all = Vec::new();
    let sum = paths.sum();
    if sum > format.most.into() {
        let rounded = format.most == MOST_EXACT;
        let what = if rounded {
            "rounded by readers of JSON"
        } else {
            "limited to it"
        };
        all.push(too_great(sum as f64, format.most, what));
    }
    if format.whole_paths && paths.depth() > MOST_DEEP {
        all.push(format!(
            "{} has paths of up to {MOST_DEEP} functions, and there are paths of {}: the last function has the costs of all further in; \
             speedscope and firefox have them whole",
            format.name,
            paths.depth()
        ));
    }
    let files = paths.profile.modules.iter();
    let files = files.filter(|module| module.path.starts_with(b"/"));
    let problems = files.filter_map(|module| symbols.problem(module.id));
    all.extend(problems.map(|problem| format!("functions without names: {}", printable(problem))));
    all
}
