//! Cost of a recording, in one line before the program starts, where that is much.
//!
//! Factors are means of `docs/performance.md`. A program may be far above or below.

use trommel_compress::interval::Shield;
use trommel_compress::{Spec, Strata};
use trommel_host::fold::is_exact;
use trommel_tuple::{Kind, KindSet};

use crate::args::RecordArgs;

/// Parties that count events one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counting {
    /// The program's own code, by counters of paths.
    Paths,
    /// The same, with a table of values.
    Values,
    /// The program's own code, by a stratified sampler.
    Strata,
    /// The program's own code, by a multi-hash profiler.
    Intervals,
    /// Trommel's thread, which is sent each event.
    Service,
}

/// Returns the sentence about a recording that costs much; none where it costs about as much as counting branches.
pub(super) fn of(
    args: &RecordArgs,
    spec: &Spec,
    kinds: KindSet,
    converge: Option<f64>,
    in_windows: bool,
) -> Option<String> {
    if in_windows || kinds.is_empty() || converge.is_some() || args.budget.is_some() {
        return None;
    }
    if args.stream.is_some() {
        return Some(
            "each event is written to the stream, in order: 20 times the CPU time and more; \
             --stream-limit N ends the program after N events"
                .to_owned(),
        );
    }
    if kinds.iter().any(Kind::is_simulated) {
        return Some(
            "caches and predictors are simulated, access by access: tens of times the CPU time"
                .to_owned(),
        );
    }
    let transfers = kinds.iter().all(Kind::value_is_place);
    match counting(spec, kinds) {
        Counting::Paths => None,
        Counting::Values => Some(format!(
            "each loaded value is counted: 9 times the CPU time, more where values do not repeat; {}",
            instead(args)
        )),
        // Strides are the cheapest way to see values.
        Counting::Strata if !transfers => None,
        Counting::Strata => Some(format!(
            "-c {spec} costs 2 times the CPU time for branches and calls; exact counts, without -c, cost 1.5"
        )),
        Counting::Intervals if transfers => Some(format!(
            "-c {spec} costs 3.6 times the CPU time for branches and calls; exact counts, without -c, cost 1.5"
        )),
        Counting::Intervals => Some(format!(
            "-c {spec} costs 9 times the CPU time for values; -c P257 costs 2"
        )),
        Counting::Service => Some(format!(
            "each event is sent to trommel and counted there: 10 times the CPU time and more; {}",
            match kinds.has(Kind::Path) {
                true => "paths alone, or with edge and call, cost 1.5",
                false => "-c P257 counts in the program's code and costs 2",
            }
        )),
    }
}

/// Advice on what costs less than exact values.
fn instead(args: &RecordArgs) -> &'static str {
    match (args.pid, args.exact_values) {
        (Some(_), _) => "--budget 1 samples them",
        (None, true) => "without --exact-values loads are profiled until their values are known",
        (None, false) => "without -c loads are profiled until their values are known",
    }
}

/// The party that counts, as `docs/specs.md` has it.
fn counting(spec: &Spec, kinds: KindSet) -> Counting {
    let transfers = kinds.iter().all(Kind::value_is_place);
    let path = kinds.has(Kind::Path);
    let beside: KindSet = [Kind::Edge, Kind::Call, Kind::Path].into_iter().collect();
    if path && !kinds.is_within(beside) {
        return Counting::Service;
    }
    if is_exact(spec) {
        return match kinds.has(Kind::Value) {
            true => Counting::Values,
            false => Counting::Paths,
        };
    }
    match (Strata::of(spec), Shield::of(spec)) {
        _ if path => Counting::Service,
        (Some(strata), _) if transfers || strata.is_cheap() => Counting::Strata,
        (_, Some(shield)) if transfers || shield.is_cheap() => Counting::Intervals,
        _ => Counting::Service,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::checks;
    use super::*;
    use crate::args::{Arguments, Command};

    /// The line before a recording with these options, and the limit that its values converge to.
    fn asked(options: &str) -> (Option<String>, Option<f64>) {
        let words = format!("trommel record {options} -- true");
        let parsed = Arguments::try_parse_from(words.split(' ')).expect("options");
        let Command::Record(args) = parsed.command else {
            panic!("{options}: no recording")
        };
        let spec = args.compressor.as_deref().unwrap_or("exact");
        let spec: Spec = spec.parse().expect("a spec");
        let kinds = args.events.expect("kinds").kinds;
        let in_windows = args.budget.is_some() || args.rate.is_some() || args.window.is_some();
        let converge = checks::converge(&args, &spec, kinds, in_windows).expect("they go together");
        (of(&args, &spec, kinds, converge, in_windows), converge)
    }

    #[test]
    fn what_costs_much_is_said_with_what_costs_less() {
        for (options, cost, instead) in [
            (
                "-e value --exact-values",
                "9 times",
                "without --exact-values",
            ),
            ("-e edge,value -c exact", "9 times", "without -c"),
            ("-e edge -c M4[10k,1%]2048", "3.6 times", "without -c"),
            ("-e value -c M4:crc[10k,1%]2048", "9 times", "-c P257"),
            ("-e edge,call -c H[P256]2048", "2 times", "without -c"),
            ("-e value -c H[P256]2048", "10 times", "-c P257"),
            ("-e path -c R16", "10 times", "paths alone"),
            ("-e value,path", "10 times", "paths alone"),
            ("-e edge --stream s", "20 times", "--stream-limit"),
        ] {
            let said = asked(options)
                .0
                .unwrap_or_else(|| panic!("{options}: nothing said"));
            assert!(
                said.contains(cost) && said.contains(instead),
                "{options}: {said}"
            );
        }
    }

    #[test]
    fn nothing_is_said_of_what_costs_little() {
        for options in [
            "-e edge,call",
            "-e path",
            "-e value",
            "-e edge,call,value,type",
            "-e value -c P257",
            "-e value --budget 1",
            "-e value --rate 100",
            "-e none",
            "-e type",
        ] {
            assert_eq!(asked(options).0, None, "{options}");
        }
    }

    #[test]
    fn values_converge_unless_it_is_said_how_they_are_counted() {
        for options in [
            "-e value",
            "-e edge,call,value,type",
            "-e value --only main",
        ] {
            assert_eq!(asked(options).1, Some(2.0), "{options}");
        }
        assert_eq!(asked("-e value --converge=1").1, Some(1.0));
        for options in [
            "-e edge,call",
            "-e type",
            "-e value --exact-values",
            "-e value -c exact",
            "-e value -c P257",
            "-e value --stream s",
            "-e value --budget 1",
            "-e value --rate 100",
            "-e value --window 100",
            "-e value,path",
        ] {
            assert_eq!(asked(options).1, None, "{options}");
        }
    }
}
