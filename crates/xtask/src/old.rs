//! Chores by the names that they had before they were grouped, which keep working.

use std::ffi::OsString;

/// First words of a command line, and what they stand for today.
const NAMES: [(&[&str], &[&str]); 28] = [
    (&["gc", "stress"], &["check", "gc"]),
    (&["corpus"], &["check", "corpus"]),
    (&["callgrind"], &["check", "counts"]),
    (&["stepper"], &["check", "counts", "--stepper"]),
    (&["real"], &["check", "real"]),
    (&["conform"], &["check", "conform"]),
    (&["long"], &["check", "long"]),
    (&["parquet"], &["check", "parquet"]),
    (&["bench"], &["measure", "bench"]),
    (&["pairs"], &["measure", "pairs"]),
    (&["budget"], &["measure", "pairs"]),
    (&["measure", "budget"], &["measure", "pairs"]),
    (&["filters"], &["measure", "pairs", "--filters"]),
    (&["accuracy"], &["measure", "accuracy"]),
    (&["known"], &["measure", "accuracy", "--converge"]),
    (&["unoptimised"], &["measure", "unoptimised"]),
    (&["retake"], &["measure", "unoptimised", "--retake"]),
    (&["startup"], &["measure", "startup"]),
    (&["served"], &["measure", "served"]),
    (&["windows"], &["measure", "windows"]),
    (&["payoff"], &["measure", "payoff"]),
    (&["queries"], &["measure", "queries"]),
    (&["gc"], &["measure", "gc"]),
    (&["latency"], &["measure", "latency"]),
    (&["changes"], &["measure", "changes"]),
    (&["returns"], &["measure", "returns"]),
    (&["instructions"], &["measure", "instructions"]),
    (&["counts"], &["check", "counts"]),
];

/// The command line with today's names. Its first word is the program.
pub(crate) fn renamed(mut line: Vec<OsString>) -> Vec<OsString> {
    let matches =
        |old: &[&str]| line.len() > old.len() && old.iter().zip(&line[1..]).all(|(a, b)| b == a);
    if let Some((old, new)) = NAMES.iter().find(|(old, _)| matches(old)) {
        line.splice(1..=old.len(), new.iter().map(OsString::from));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_stand_for_todays_chores() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        for (old, new) in [
            ("x bench --rounds 3", "x measure bench --rounds 3"),
            ("x conform gcc --run", "x check conform gcc --run"),
            ("x known lua", "x measure accuracy --converge lua"),
            ("x gc stress 5", "x check gc 5"),
            ("x gc --rounds 1", "x measure gc --rounds 1"),
            ("x check corpus", "x check corpus"),
            ("x ci --all", "x ci --all"),
        ] {
            assert_eq!(renamed(words(old)), words(new));
        }
    }
}
