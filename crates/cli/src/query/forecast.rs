//! Cost of countdowns, before a program runs.
//!
//! # Problem
//! `every auto` makes records as rare as its budget wants, and counts down all executions in between. No rate makes that cheaper, so a query on
//! most instructions of a program costs many times its budget.
//!
//! # Strategy
//! The parts of all instructions that each class has in usual programs, times the cost of a countdown. That is off by a factor of two either way,
//! and so it is said only where it is far above the budget. `record` says at its end what it was.

use trommel_query::program::Query;
use trommel_query::{Operation, Sampling, Subject};

/// Nanoseconds of a countdown: `docs/query.md` has 0.24 to 0.68.
const COUNTDOWN: f64 = 0.45;
/// Nanoseconds of an instruction.
const INSTRUCTION: f64 = 0.3;
/// Times its budget that a query is estimated to take, from which on that is said.
const FAR: f64 = 2.0;

/// Executions of a class among 100 instructions.
const fn share(operation: Operation) -> f64 {
    match operation {
        Operation::Load => 26.0,
        Operation::Store => 13.0,
        Operation::Branch => 15.0,
        Operation::Jump => 5.0,
        Operation::Alu => 36.0,
        Operation::Float => 4.0,
        Operation::Multiply => 0.9,
        Operation::System => 0.1,
    }
}

/// Executions among 100 instructions that the queries count down. Tags select a part that is not known before: none is reckoned with.
fn counted(queries: &[Query]) -> f64 {
    let auto = queries.iter().filter(|query| is_auto(query));
    let entries = auto.flat_map(|query| query.entries.iter());
    let classes = entries.filter_map(|entry| match entry.subject() {
        // Without a rule an instruction has tag 0.
        Subject::Class(class) if class.tag() == 0 => Some(share(class.operation)),
        _ => None,
    });
    classes.sum()
}

fn is_auto(query: &Query) -> bool {
    query.sampling.rate().is_none()
}

/// Percent of the time that the budgets of these queries come to; `common`: that of all together.
fn budget(queries: &[Query], common: Option<f64>) -> f64 {
    let own = queries.iter().filter_map(|query| match query.sampling {
        Sampling::Auto(budget) => Some(f64::from(budget.percent())),
        Sampling::Every(_) => None,
    });
    let own: f64 = own.sum();
    common.map_or(own, |common| common.min(own))
}

/// Returns the sentence about queries whose countdowns alone take far more than their budget.
pub(crate) fn of(queries: &[Query], common: Option<f64>) -> Option<String> {
    let counted = counted(queries);
    let cost = COUNTDOWN * counted / 100.0;
    let percent = 100.0 * cost / (INSTRUCTION + cost);
    let budget = budget(queries, common);
    (percent > FAR * budget).then(|| {
        format!(
            "`every auto` counts down each execution, {counted:.0} of 100 instructions: that alone takes some {percent:.0} % of the time, \
             and the budget is {budget} %; {REMEDY}"
        )
    })
}

/// Remedies for a cost above the budget.
const REMEDY: &str = "select fewer classes, select code by a tag, count with `always` and one or two comparisons, or \
                      sample windows with `every N` and `record --budget`";

/// Returns the sentence about queries with `every auto` that took so many percent of the time, where that is far above their budget.
pub(crate) fn after(took: f64, queries: &[Query], common: Option<f64>) -> Option<String> {
    let budget = budget(queries, common);
    (took > FAR * budget).then(|| {
        let remedy = match of(queries, common) {
            // It was said before the program began.
            Some(_) => String::new(),
            None => format!("; {REMEDY}"),
        };
        format!(
            "queries with `every auto` took {took:.1} % of the time, and their budget is {budget} %: most of it is countdowns{remedy}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(text: &str) -> Vec<Query> {
        let assembly = trommel_query::assemble(text).expect("queries");
        assembly.program.queries()
    }

    fn said(text: &str, common: Option<f64>) -> Option<String> {
        of(&queries(text), common)
    }

    #[test]
    fn countdowns_far_above_a_budget_are_foreseen() {
        let loads = "for opLOAD * every auto collect pc; send 1 stop;\n";
        let branches = "for opBRANCH * every auto collect pc; send 2 stop;\n";
        let both = format!("{loads}{branches}");
        for (text, common) in [
            (loads, None),
            (branches, None),
            (&both, None),
            (&both, Some(3.0)),
        ] {
            let said = said(text, common).expect(text);
            let budget = common.unwrap_or(5.0 * text.lines().count() as f64);
            assert!(said.contains(&format!("budget is {budget} %")), "{said}");
        }
        // A larger share of the program's instructions takes more.
        let percent = |text: &str| {
            let said = said(text, None).expect(text);
            let before = said.split(" % of the time").next().expect("a number");
            before
                .rsplit(' ')
                .next()
                .expect("it")
                .parse::<u32>()
                .expect("it")
        };
        assert!(percent(branches) < percent(loads) && percent(loads) < percent(&both));
    }

    #[test]
    fn nothing_is_said_of_what_may_keep_its_budget() {
        for text in [
            "for opLOAD * every 64 collect pc; send 1 stop;",
            "for opLOAD * always collect pc; count stop;",
            "for opLOAD * every auto 40% collect pc; send 1 stop;",
            "for opMULT * every auto collect pc; send 1 stop;",
            "tag 1 symbol \"f\"; for opLOAD 1 every auto collect pc; send 1 stop;",
        ] {
            assert_eq!(said(text, None), None, "{text}");
        }
    }

    #[test]
    fn what_was_taken_is_compared_with_the_budget_in_force() {
        let two = queries(
            "for opLOAD * every auto collect pc; send 1 stop; for opSTORE * every auto 20% collect pc; send 1 stop;",
        );
        assert!(after(49.9, &two, None).is_none() && after(50.1, &two, None).is_some());
        assert!(after(50.1, &two, Some(30.0)).is_some());
        let said = after(7.0, &two, Some(3.0)).expect("far above");
        assert!(
            said.contains("7.0 %") && said.contains("budget is 3 %"),
            "{said}"
        );
    }
}
