//! CPU time of programs beside themselves: what windows cost within budgets and at fixed rates, and what `run` makes of filters.
//!
//! The cost is that of the whole: the program's CPU time and trommel's, against the program's alone. Both run at the same time, on
//! a processor each ([`super::beside`]): on a virtual machine whose speed changes by half within a minute, runs after each other
//! show nothing of a few percent. The first column is the program beside itself, which shows what the others are worth.

use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{Scratch, which};

use crate::common::{median, report, rounds, trommel};
use crate::corpus::{LONG_RUNS, directory};

use super::beside;
use super::filters::FILTERS;

/// Options of `record`; none: natively.
const BUDGETS: [&str; 6] = [
    "",
    "--budget 1",
    "--budget 3",
    "--budget 10",
    // The paper's: 8000 interrupts a second, 4 instructions in every second of them; and an eighth of that.
    "--rate 4000 --window 4 --skip 1",
    "--rate 500 --window 4 --skip 1",
];

/// Commands of `trommel`; none: natively.
const RUNS: [&str; 3] = ["", "run", "run --after 0 --no-bail-out"];

/// Measures CPU time beside native: long runs within budgets, or filters under `run`.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask measure pairs --rounds 1 --configuration '--budget 1' lua\n  cargo xtask measure pairs --filters wc cut"
)]
pub(crate) struct Args {
    /// Measure programs that call shared libraries often, under `run`.
    #[arg(long)]
    filters: bool,
    /// Pairs of each, there and back.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
    /// Options of `record`, or with `--filters` a command of trommel; the usual ones if none is given.
    #[arg(
        long = "configuration",
        value_name = "OPTIONS",
        allow_hyphen_values = true
    )]
    configurations: Vec<String>,
    /// Programs; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// A program to measure.
struct Program {
    name: &'static str,
    words: Vec<String>,
    dir: PathBuf,
}

/// Figures of a program in one configuration.
#[derive(Default)]
struct Cell {
    ratios: Vec<f64>,
    /// Percent that the profile itself reports.
    paid: Vec<f64>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let usual: &[&str] = if args.filters { &RUNS } else { &BUDGETS };
    let mut configurations: Vec<&str> = args.configurations.iter().map(String::as_str).collect();
    if configurations.is_empty() {
        configurations = usual.to_vec();
    }
    let titles = configurations.iter().map(|options| match *options {
        "" => "natively".to_owned(),
        options => format!("`{options}`"),
    });
    println!(
        "| program | native s | {} |",
        titles.collect::<Vec<_>>().join(" | ")
    );
    println!("|{}", "---|".repeat(configurations.len() + 2));
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); configurations.len()];
    for program in programs(args.filters)? {
        if !args.names.is_empty() && !args.names.iter().any(|name| name == program.name) {
            continue;
        }
        let first = &program.words[0];
        if !program.dir.join(first).exists() && which(first).is_none() {
            println!("| {} | not installed |", program.name);
            continue;
        }
        let (mut native, mut row) = (Vec::new(), String::new());
        for (options, costs) in configurations.iter().zip(&mut costs) {
            let before = before(options, args.filters, &data)?;
            let mut cell = cell(&program, &before, args.rounds, &data, &mut native)?;
            let ratio = median(&mut cell.ratios);
            costs.push(100.0 * (ratio - 1.0));
            row += &cell.shown();
        }
        println!(
            "| {} | {:.2} |{row}",
            program.label(args.filters),
            median(&mut native)
        );
    }
    let medians = costs.iter_mut().filter(|list| !list.is_empty());
    let medians: String = medians
        .map(|list| format!(" **{:.1}** |", median(list)))
        .collect();
    println!(
        "| **median** | |{medians}\n\nPercent of native CPU time, trommel's own included: medians of {} pairs there and back, \
         in brackets the least and the most, and what the profile itself reports.",
        args.rounds
    );
    Ok(())
}

/// Programs of the corpus, or filters, each given the text of 24 MB as often as makes some seconds.
fn programs(filters: bool) -> Result<Vec<Program>, String> {
    let dir = directory()?;
    let owned = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    if !filters {
        let all = LONG_RUNS.iter().map(|(name, words)| Program {
            name,
            words: owned(words),
            dir: dir.clone(),
        });
        return Ok(all.collect());
    }
    let text = dir.join("text24m.txt").to_string_lossy().into_owned();
    let all = FILTERS.iter().map(|(name, options, times)| Program {
        name,
        words: [
            vec![(*name).to_owned()],
            owned(options),
            vec![text.clone(); *times],
        ]
        .concat(),
        dir: dir.clone(),
    });
    Ok(all.collect())
}

/// The words before a program.
fn before(options: &str, filters: bool, data: &Path) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    if options.is_empty() {
        return Ok(words);
    }
    words.push(trommel().to_string_lossy().into_owned());
    if !filters {
        let data = data.to_string_lossy();
        words.extend(["record", "--quiet", "-o", &data].map(str::to_owned));
    }
    words.extend(options.split(' ').map(str::to_owned));
    words.push("--".to_owned());
    Ok(words)
}

/// Measures a program in one configuration.
fn cell(
    program: &Program,
    before: &[String],
    rounds: usize,
    data: &Path,
    native: &mut Vec<f64>,
) -> Result<Cell, String> {
    let mut cell = Cell::default();
    for _ in 0..rounds {
        let pair = beside::pair(&program.command(&[]), &program.command(before))?;
        cell.ratios.push(pair.ratio);
        native.push(pair.first);
        if before.get(1).is_some_and(|word| word == "record") {
            let paid = report(data, "1")?["windows"]["paid_percent"].as_f64();
            cell.paid.extend(paid);
        }
    }
    Ok(cell)
}

impl Program {
    fn command(&self, before: &[String]) -> Command {
        let words = [before, &self.words].concat();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .current_dir(&self.dir)
            .env("LC_ALL", "C.UTF-8");
        command
    }

    /// The program's name, of a filter with its options.
    fn label(&self, filters: bool) -> String {
        let options = self.words[1..]
            .iter()
            .take_while(|w| filters && !w.ends_with(".txt"));
        let options: String = options.map(|w| format!(" {w}")).collect();
        format!("{}{options}", self.name)
    }
}

impl Cell {
    /// Percent over native, the least and the most, and what the profile reports. Ratios are sorted.
    fn shown(&mut self) -> String {
        let percent = |ratio: Option<&f64>| 100.0 * (ratio.copied().unwrap_or(1.0) - 1.0);
        let middle = percent(self.ratios.get(self.ratios.len() / 2));
        let (least, most) = (percent(self.ratios.first()), percent(self.ratios.last()));
        let paid = match self.paid.is_empty() {
            true => String::new(),
            false => format!("; {:.1}", median(&mut self.paid)),
        };
        format!(" {middle:.1} ({least:.1} to {most:.1}{paid}) |")
    }
}
