//! Value sampling table 2(a): what looking costs, by what is looked at.

use crate::Lab;
use crate::costs::Method;
use crate::experiment::{Experiment, Paper};
use crate::findings::{Findings, Verdict};
use crate::plan::Results;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "values-table2a",
    paper: Paper::Values,
    title: "Table 2(a): cost by what is captured",
    needs: Vec::new,
    run,
};

/// Rows of the ways, in the table's order.
const VALUES: usize = 1;
const REPLAY: usize = 3;

fn ways() -> Vec<Method> {
    vec![
        // Windows have an instruction at least: what interrupts, and going in and out, come to.
        Method::new(
            "no vprof: windows of one instruction, every interrupt",
            3.9,
            "-e none --rate 8000 --window 1 --skip 1",
        ),
        Method::new(
            "vprof: loaded values, 4 instructions every second interrupt",
            10.7,
            "-e value --rate 4000 --window 4 --skip 1",
        ),
        Method::new("vprof with context", 12.2, ""),
        Method::new(
            "vreplay: accesses, 128 instructions every 128th interrupt",
            5.9,
            "-e address --rate 62.5 --window 128 --skip 1",
        ),
        Method::new("vreplay with context", 6.8, ""),
        Method::new(
            "latencies, 4 instructions every second interrupt",
            f64::NAN,
            "-e latency --rate 4000 --window 4 --skip 1",
        ),
        Method::new(
            "all of edges, calls, values and types, likewise",
            f64::NAN,
            "-e edge,call,value,type --rate 4000 --window 4 --skip 1",
        ),
    ]
}

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let costs = lab.costs(&ways());
    let (values, replay) = (costs.means[VALUES], costs.means[REPLAY]);
    found.claim(
        "Value profiling costs about 10 %, much less than instrumentation.",
        format!(
            "{} for 4 instructions in every second of 8000 interrupts a second (rule: at most the paper's 10.7 %).",
            costs.shown(VALUES)
        ),
        Verdict::when(values.map(|values| values <= 10.7)),
    );
    found.claim(
        "Looking for accesses in each other's way costs less than values do: it is done rarely, for long.",
        format!(
            "{} against {} (rule: less).",
            costs.shown(REPLAY),
            costs.shown(VALUES)
        ),
        Verdict::when(values.zip(replay).map(|(values, replay)| replay < values)),
    );
    found.tables.push(costs.table);
    found.figures.push((String::new(), costs.figure));
    found.notes.push(costs.note);
    found.notes.push(
        "The paper interrupts every 62 000 instructions of a 500 MHz processor; here there are 8000 interrupts in a second of CPU time. Return addresses (its context) are \
         not captured. No instructions are passed before windows, as in the paper. CPU time of the program, and of trommel while it runs, against native runs of the same \
         round, medians of five rounds. Differences of a percent are noise."
            .into(),
    );
    found
}
