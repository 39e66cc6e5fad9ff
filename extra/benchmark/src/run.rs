//! A run of a program of benchmarks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::Benchmark;
use crate::baseline::{self, Baseline, LAST};
use crate::counted::{self, Counts, Trommel};
use crate::options::{HELP, Options};
use crate::output::{self, Compared};

/// Exit status where a benchmark has more instructions than is allowed. `trommel stat` has the same.
const WORSE: u8 = 3;

/// Runs the benchmarks that the command line chooses. [`main!`](crate::main) calls it.
#[must_use]
pub fn harness(benchmarks: &[&'static Benchmark]) -> ExitCode {
    let done = Options::parse(std::env::args().skip(1)).and_then(|options| {
        unique(benchmarks)?;
        run(benchmarks, &options)
    });
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Refuses two benchmarks of one name.
fn unique(benchmarks: &[&'static Benchmark]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    match benchmarks.iter().find(|one| !names.insert(one.name)) {
        Some(one) => Err(format!("two benchmarks have the name {}", one.name)),
        None => Ok(()),
    }
}

fn run(benchmarks: &[&'static Benchmark], options: &Options) -> Result<ExitCode, String> {
    if options.help {
        println!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(name) = &options.counted {
        let one = benchmarks.iter().find(|one| one.name == name);
        return alone(one.ok_or_else(|| format!("there is no benchmark {name}"))?);
    }
    let chosen = benchmarks.iter().filter(|one| options.choose(one.name));
    let chosen: Vec<&'static Benchmark> = chosen.copied().collect();
    if options.list {
        chosen
            .iter()
            .for_each(|one| println!("{}: benchmark", one.name));
        return Ok(ExitCode::SUCCESS);
    }
    if chosen.is_empty() && !options.filters.is_empty() && !options.ignored {
        let names = options.filters.join(" ");
        return Err(format!("no benchmark is called {names}; --list shows all"));
    }
    if options.uncounted() {
        return Ok(uncounted(&chosen, "cargo bench counts them"));
    }
    match Trommel::find()? {
        Some(trommel) => count(&trommel, &chosen, options),
        None if options.needs_counts() => {
            Err("the command `trommel` is not in PATH; TROMMEL can name it".into())
        }
        None => Ok(uncounted(&chosen, "`trommel` is not in PATH to count them")),
    }
}

/// Runs one benchmark, as the command counts it. The thread's stack is at the same place whatever the environment is.
fn alone(benchmark: &Benchmark) -> Result<ExitCode, String> {
    let thread = std::thread::Builder::new().name(benchmark.name.to_owned());
    let thread = thread.spawn(benchmark.run);
    let done = thread.map_err(|e| format!("no thread: {e}"))?.join();
    // The thread has said why it panicked.
    Ok(done.map_or(ExitCode::from(101), |()| ExitCode::SUCCESS))
}

/// Runs each benchmark once, and says why they are not counted.
fn uncounted(chosen: &[&'static Benchmark], why: &str) -> ExitCode {
    for benchmark in chosen {
        (benchmark.run)();
        println!("{}: ran once", benchmark.name);
    }
    eprintln!("{} benchmarks ran, uncounted: {why}", chosen.len());
    ExitCode::SUCCESS
}

/// The counts to compare with, and their name.
fn before(program: &Path, options: &Options) -> Result<(String, Baseline), String> {
    let name = options.baseline.as_deref().unwrap_or(LAST);
    let path = baseline::file(program, name);
    let baseline = match (baseline::read(&path), options.baseline.is_some()) {
        (Ok(Some(baseline)), _) => baseline,
        (Ok(None), true) => {
            let shown = path.display();
            return Err(format!(
                "{shown}: there is no such baseline; make it with --save-baseline {name}"
            ));
        }
        (Err(error), true) => return Err(error),
        // What the run before left may be of another version.
        (_, false) => Baseline::new(),
    };
    Ok((name.to_owned(), baseline))
}

/// A file that goes when it is no longer needed.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Counts the benchmarks, compares, keeps and writes the counts.
fn count(
    trommel: &Trommel,
    chosen: &[&'static Benchmark],
    options: &Options,
) -> Result<ExitCode, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program: {e}"))?;
    let (name, baseline) = before(&program, options)?;
    if !counted::fix_addresses() {
        eprintln!("the system refuses fixed addresses, so counts may differ from run to run");
    }
    let scratch = Temporary(counted::scratch());
    let (mut all, mut failed) = (Vec::new(), 0);
    for one in chosen {
        match trommel.count(one.name, &scratch.0) {
            Ok(counts) => all.push(Compared {
                name: one.name,
                counts,
                before: baseline.get(one.name).copied(),
            }),
            Err(error) => {
                failed += 1;
                eprintln!("error: {}: {error}", one.name);
            }
        }
    }
    let counts: Vec<(&str, Counts)> = all.iter().map(|one| (one.name, one.counts)).collect();
    if options.baseline.is_none() {
        baseline::save(&baseline::file(&program, LAST), &counts)?;
    }
    if let Some(name) = &options.save {
        baseline::save(&baseline::file(&program, name), &counts)?;
    }
    match options.json {
        true => {
            let own = baseline::program_name(&program);
            println!("{:#}", output::document(&all, &own, &name));
        }
        false => print!("{}", output::table(&all, &name)),
    }
    Ok(match (failed, worse(&all, options.fail_above)) {
        (0, false) => ExitCode::SUCCESS,
        (0, true) => ExitCode::from(WORSE),
        _ => ExitCode::FAILURE,
    })
}

/// Names the benchmarks that have more instructions than is allowed. Returns true if there are some.
fn worse(all: &[Compared], most: Option<f64>) -> bool {
    let mut any = false;
    for one in all {
        if let Some((change, most)) = one.change().zip(most)
            && change > most
        {
            any = true;
            eprintln!(
                "{}: {change:+.3} %, more than --fail-above {most}",
                one.name
            );
        }
    }
    any
}
