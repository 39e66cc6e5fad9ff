//! Chores that measure costs and accuracy. Their tables are in `docs/performance.md`.

mod accuracy;
mod bench;
mod beside;
mod changes;
mod exact;
mod filters;
mod instructions;
mod known;
mod latency;
mod pairs;
mod payoff;
mod queries;
mod returns;
mod served;
mod startup;
mod unoptimised;
mod windows;

use clap::Subcommand;

use crate::gc;

/// Measurements: time is a ratio to native in the same run.
#[derive(Subcommand)]
pub(crate) enum Chore {
    Bench(bench::Args),
    Pairs(pairs::Args),
    Accuracy(accuracy::Args),
    Unoptimised(unoptimised::Args),
    Startup(startup::Args),
    Served(served::Args),
    Windows(windows::Args),
    Payoff(payoff::Args),
    Queries(queries::Args),
    Gc(gc::Table),
    Latency(latency::Args),
    Changes(changes::Args),
    Returns(returns::Args),
    Instructions(instructions::Args),
}

impl Chore {
    pub(crate) fn run(&self) -> Result<(), String> {
        match self {
            Chore::Bench(args) => bench::run(args),
            Chore::Pairs(args) => pairs::run(args),
            Chore::Accuracy(args) => accuracy::run(args),
            Chore::Unoptimised(args) => unoptimised::run(args),
            Chore::Startup(args) => startup::run(args),
            Chore::Served(args) => served::run(args),
            Chore::Windows(_) => windows::run(),
            Chore::Payoff(args) => payoff::run(args),
            Chore::Queries(_) => queries::run(),
            Chore::Gc(args) => gc::measure(args),
            Chore::Latency(args) => latency::run(args),
            Chore::Changes(_) => changes::run(),
            Chore::Returns(_) => returns::run(),
            Chore::Instructions(_) => instructions::run(),
        }
    }
}
