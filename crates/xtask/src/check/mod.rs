//! Chores that compare behaviour or counts with an oracle, and fail on a difference.

mod benchmark;
mod chromium;
mod conform;
mod containers;
mod corpus;
mod counts;
mod long;
mod parquet;
mod real;

use clap::Subcommand;

use crate::gc;

/// Checks against oracles, beyond the tests of `ci`.
#[derive(Subcommand)]
pub(crate) enum Chore {
    Corpus(corpus::Args),
    Counts(counts::Args),
    Real(real::Args),
    Conform(conform::Args),
    Containers(containers::Args),
    Chromium(chromium::Args),
    Gc(gc::Stress),
    Long(long::Args),
    Parquet(parquet::Args),
    Benchmark(benchmark::Args),
}

impl Chore {
    pub(crate) fn run(&self) -> Result<(), String> {
        match self {
            Chore::Corpus(args) => corpus::run(args),
            Chore::Counts(args) => counts::run(args),
            Chore::Real(args) => real::run(args),
            Chore::Conform(args) => conform::run(args),
            Chore::Containers(args) => containers::run(args),
            Chore::Chromium(args) => chromium::run(args),
            Chore::Gc(args) => gc::stress(args),
            Chore::Long(args) => long::run(args),
            Chore::Parquet(args) => parquet::run(args),
            Chore::Benchmark(args) => benchmark::run(args),
        }
    }
}
