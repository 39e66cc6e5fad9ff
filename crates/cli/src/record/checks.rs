//! Options of `record` that go together, and those that do not.

use anyhow::{Result, bail};
use trommel_compress::{Spec, Strata};
use trommel_host::ask::answerable;
use trommel_host::ask::custom::Named;
use trommel_host::fold::is_exact;
use trommel_host::kernel::running::only_descendants;
use trommel_host::serve::options::RecordOptions;
use trommel_query::Program;
use trommel_tuple::{Kind, KindSet};

use crate::args::{RecordArgs, SKIP};
use crate::output;

/// Returns whether a budget is spent on bursts: where that was asked for, and for edges and calls where nothing asks for windows.
/// `given`: the kinds that are named.
pub(super) fn in_bursts(args: &RecordArgs, given: Option<KindSet>) -> Result<bool> {
    let counted: KindSet = super::CHEAP_KINDS.into_iter().collect();
    let other = given.and_then(|kinds| kinds.iter().find(|kind| !counted.has(*kind)));
    if args.bursts {
        if let Some(kind) = other {
            bail!("--bursts counts edges and calls: leave it out to sample `{kind}` in windows");
        }
        return match no_bursts(args.pid) {
            Some(why) => bail!("--bursts is not possible: {why}; leave it out for windows"),
            None => Ok(true),
        };
    }
    let for_windows = args.windows
        || args.rate.is_some()
        || args.window.is_some()
        || args.skip != SKIP
        || args.by_caller
        || args.query.is_some()
        || args.module_lib.is_some()
        || given.is_some_and(|kinds| kinds.is_empty())
        || other.is_some();
    if args.budget.is_none() || for_windows {
        return Ok(false);
    }
    let why = no_bursts(args.pid);
    if let Some(why) = &why {
        output::complain(&format!(
            "the budget is spent on windows, which see less than bursts: {why}"
        ));
    }
    Ok(why.is_none())
}

/// Returns why a process cannot be controlled in bursts, as far as it is known now. `pid`: it is running.
fn no_bursts(pid: Option<i32>) -> Option<String> {
    match pid {
        // A burst is begun by a process of our own that is no ancestor of the program: it is to outlive us.
        None if only_descendants() => Some(
            "the program cannot be traced, as kernel.yama.ptrace_scope is not 0 and you are not root"
                .into(),
        ),
        Some(pid) if !RecordOptions::check_bursts(pid) => Some(format!(
            "process {pid} has more than {} threads, and not all of them could count",
            RecordOptions::MOST_THREADS
        )),
        _ => None,
    }
}

/// Says so if no query has a part in the common budget.
pub(super) fn tell_idle_budget(question: Option<&Program>) {
    let mut queries = question.into_iter().flat_map(Program::queries);
    if queries.all(|query| query.sampling.rate().is_some()) {
        output::complain(
            "no query has `every auto`: --query-budget is for those that are loaded later",
        );
    }
}

/// Percent by which shares of known values differ at most, where nothing is said.
const USUAL_LIMIT: f64 = 2.0;

/// Percent by which shares of values may differ that are known, if loads are profiled until then. Values converge unless
/// something else was asked for that decides how they are counted.
pub(super) fn converge(
    args: &RecordArgs,
    spec: &Spec,
    kinds: KindSet,
    in_windows: bool,
) -> Result<Option<f64>> {
    if args.exact_values && !kinds.has(Kind::Value) {
        bail!("--exact-values needs values: collect value, as in -e value --exact-values");
    }
    if args.converge.is_some() {
        check_converge(spec, kinds, in_windows)?;
        return Ok(args.converge);
    }
    let otherwise = args.exact_values
        || args.compressor.is_some()
        || args.stream.is_some()
        || args.query.is_some()
        || args.module_lib.is_some()
        || args.pid.is_some()
        || in_windows
        || kinds.has(Kind::Path)
        || kinds.iter().any(Kind::is_simulated);
    Ok((kinds.has(Kind::Value) && !otherwise).then_some(USUAL_LIMIT))
}

/// Checks that what is collected can end where values are known.
fn check_converge(spec: &Spec, kinds: KindSet, in_windows: bool) -> Result<()> {
    if ![Kind::Value, Kind::Type].into_iter().any(|k| kinds.has(k)) {
        bail!("--converge needs values: collect value or type, as in -e value --converge");
    }
    if kinds.has(Kind::Path) {
        bail!("--converge does not go with the kind path: record paths by a run of their own");
    }
    if in_windows {
        bail!("--converge does not go with windows: leave out --budget, --rate and --window");
    }
    let sampler = Strata::of(spec).filter(|strata| strata.is_cheap());
    if !is_exact(spec) && sampler.is_none() {
        bail!(
            "--converge goes with counts that the program's code makes: -c exact, P256, or H with a cheap hash, \
             as in -c 'H:crc[P256]2048+A16'; {spec} is none of these"
        );
    }
    Ok(())
}

/// Checks that windows are taken for a customisation module, and of nothing that is recorded otherwise.
pub(super) fn check_custom(custom: &Named, kinds: KindSet, by_windows: bool) -> Result<()> {
    let name = output::printable(&custom.name);
    if !by_windows {
        bail!(
            "--module-lib {name}: a customisation module needs windows: give them a budget, as in --budget 3"
        );
    }
    if let Some(kind) = kinds.iter().find(|kind| !kind.value_is_place()) {
        bail!(
            "--module-lib goes with the kinds edge and call only: have the module capture what `{kind}` is about, or \
             record it by a run of its own"
        );
    }
    Ok(())
}

/// Checks that the kinds go with queries, if there are any.
pub(crate) fn check_query_kinds(queries: bool, kinds: KindSet) -> Result<()> {
    if queries && [Kind::Value, Kind::Type].into_iter().any(|k| kinds.has(k)) {
        bail!(
            "--query goes with the kinds edge and call only: ask for loaded values with a query on \
             opLOAD that collects pc and res1, or record them by a run of their own"
        );
    }
    if queries && kinds.has(Kind::Path) {
        bail!("--query goes with the kinds edge and call only: record paths by a run of their own");
    }
    Ok(())
}

/// Checks that queries can be answered by windows, with what the messages are given to.
pub(super) fn check_query(program: &Program, args: &RecordArgs) -> Result<()> {
    answerable::check_in_windows(program)?;
    if !args.service.is_empty() {
        bail!(
            "--service gets the messages of all executions: read those of windows with --messages, or leave out \
             --budget, --rate and --window"
        );
    }
    Ok(())
}

/// Number of times that a function may be on a path, if contexts are counted. They are of all that is executed, and beside nothing that counts in another way.
pub(super) fn contexts(args: &RecordArgs, compressor: &Spec) -> Result<u32> {
    let Some(events) = args.events.filter(|events| events.contexts) else {
        return Ok(0);
    };
    if let Some(kind) = events
        .kinds
        .iter()
        .find(|k| ![Kind::Edge, Kind::Call].contains(k))
    {
        bail!(
            "context goes with the kinds edge and call only: record `{kind}` by a run of its own"
        );
    }
    let refused = [
        (
            args.pid.is_some(),
            "-p",
            "how a running program came where it is is not known",
        ),
        (
            !args.only.is_empty(),
            "--only",
            "calls lead through all code",
        ),
        (args.query.is_some(), "--query", "both change the same code"),
        (
            args.module_lib.is_some(),
            "--module-lib",
            "it is given windows",
        ),
        (
            args.stream.is_some(),
            "--stream",
            "contexts are counted, not written in order",
        ),
        (args.converge.is_some(), "--converge", "it is about values"),
        (!is_exact(compressor), "-c", "contexts are exact"),
        (
            args.budget.is_some() || args.rate.is_some() || args.window.is_some(),
            "--budget, --rate and --window",
            "contexts are of the whole run",
        ),
    ];
    for (given, option, why) in refused {
        if given {
            bail!("-e context does not go with {option}: {why}; make two recordings");
        }
    }
    Ok(args.context_depth)
}

/// Checks that there are values to tell apart, and windows to see them in.
pub(crate) fn check_callers(kinds: KindSet, by_windows: bool) -> Result<()> {
    if !by_windows {
        bail!("--by-caller needs windows: give them a budget, as in --budget 3");
    }
    let valued = [Kind::Value, Kind::Type, Kind::Address];
    if !valued.into_iter().any(|kind| kinds.has(kind)) {
        bail!(
            "--by-caller separates values, and none are recorded: add value, type or address to -e"
        );
    }
    Ok(())
}

/// Checks that the kinds go together, and with how the program is looked at.
pub(crate) fn check_kinds(kinds: KindSet, in_windows: bool, in_part: bool) -> Result<()> {
    let memory = [Kind::Address, Kind::Latency];
    if let Some(kind) = memory
        .into_iter()
        .find(|kind| kinds.has(*kind) && !in_windows)
    {
        bail!("`{kind}` is recorded in windows only: give them a budget, as in --budget 3");
    }
    let simulated = kinds.iter().find(|kind| kind.is_simulated());
    if let Some(kind) = simulated.filter(|_| in_windows) {
        bail!(
            "`{kind}` is of caches and predictors that see all of a run: record without --budget, --rate and --window"
        );
    }
    if kinds.has(Kind::Path) && in_windows {
        bail!(
            "`path` is not recorded in windows: they begin and end in the middle of paths; record all of the run, without \
             --budget, --rate and --window, or edges in windows"
        );
    }
    if kinds.has(Kind::Latency) && kinds.has(Kind::Value) {
        bail!(
            "latency and value do not go together: some values are loaded a second time to be recorded, \
             and found in the cache then; make two recordings"
        );
    }
    if kinds.has(Kind::Address) && in_part {
        bail!(
            "--only does not go with the kind address: what a load meets may have been stored elsewhere; \
             record all of the program, and look at the part in the report"
        );
    }
    Ok(())
}
