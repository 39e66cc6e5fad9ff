//! Bad input, full disks, closed outputs, interrupts and kills: each gives one clear error or a
//! usable partial profile; never a panic, a hang, or a finished file lost.
//!
//! | module | what goes wrong |
//! |---|---|
//! | `programs` | what cannot be run, and limits it cannot run under |
//! | `files` | profiles and streams cut short and damaged |
//! | `outputs` | full disks, closed stdout, wrong specs |
//! | `runtime` | the runtime itself fails, or detaches, at any moment |
//! | `interrupts` | Ctrl-C, SIGTERM, kill -9 of the program and of trommel, at random moments |

mod files;
mod harness;
mod interrupts;
mod outputs;
mod programs;
mod runtime;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::trommel;

/// A test: its name and what it does.
type Test = (&'static str, fn(&std::path::Path) -> Result<(), String>);

fn main() {
    trommel_conformance::signals::of_a_terminal();
    let args = Arguments::from_args();
    let tests = [
        programs::TESTS,
        files::TESTS,
        outputs::TESTS,
        interrupts::TESTS,
        runtime::TESTS,
    ];
    let trials = tests
        .concat()
        .into_iter()
        .map(|(name, test)| {
            let trial = Trial::test(name, move || {
                let bin = trommel();
                Ok(test(bin)?)
            });
            trial.with_ignored_flag(runtime::NIGHTLY.contains(&name))
        })
        .collect();
    libtest_mimic::run(&args, trials).exit();
}
