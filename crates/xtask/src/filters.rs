//! What `trommel run` makes of filters: programs of the system that call small functions of shared libraries for each
//! character or line, as they are installed.
//!
//! CPU time of the whole against the program's alone, both at the same time, on a processor each ([`crate::beside`]). The first column is the
//! program beside itself, which tells what the others are worth.

use std::process::Command;

use trommel_conformance::exec::which;

use crate::bench::median;
use crate::beside::{self, Chosen};
use crate::budget::corpus;

/// Programs, their options, and how often they are given the text of 24 MB for some seconds of work.
const FILTERS: [(&str, &[&str], usize); 14] = [
    ("rev", &[], 8),
    ("wc", &["-m"], 30),
    ("wc", &["-w"], 30),
    ("wc", &["-L"], 30),
    ("cut", &["-c", "3-20"], 60),
    ("expand", &[], 60),
    ("fold", &["-w", "60"], 50),
    ("strings", &[], 25),
    ("unexpand", &["-a"], 20),
    ("fmt", &[], 12),
    ("nl", &[], 50),
    ("pr", &[], 16),
    ("od", &["-c"], 2),
    ("sed", &["y/abc/xyz/"], 6),
];
/// Options; none: natively.
const CONFIGURATIONS: [&str; 3] = ["", "run", "run --after 0 --no-bail-out"];

/// `[--rounds N] [--configuration OPTIONS]… [PROGRAM…]`
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let Chosen {
        rounds,
        given,
        configurations,
    } = Chosen::of(args, &CONFIGURATIONS)?;
    let text = corpus()?.join("text24m.txt");
    let title = |options: &&str| match *options {
        "" => "natively".to_owned(),
        options => format!("`{options}`"),
    };
    let titles: Vec<String> = configurations.iter().map(title).collect();
    println!("| program | native s | {} |", titles.join(" | "));
    println!("|{}", "---|".repeat(configurations.len() + 2));
    for (name, options, times) in FILTERS {
        if !given.is_empty() && !given.contains(&name) {
            continue;
        }
        if which(name).is_none() {
            println!("| {name} | not installed |");
            continue;
        }
        let command = |way: &str| -> Result<Command, String> {
            let mut command = match way {
                "" => Command::new(name),
                _ => {
                    let mut command = Command::new(super::trommel()?);
                    command.args(way.split(' ')).arg("--").arg(name);
                    command
                }
            };
            command.args(options).args(vec![&text; times]);
            command.env("LC_ALL", "C.UTF-8");
            Ok(command)
        };
        let mut native = Vec::new();
        let mut row = String::new();
        for way in &configurations {
            let mut ratios = Vec::new();
            for _ in 0..rounds {
                let pair = beside::pair(&command("")?, &command(way)?)?;
                ratios.push(pair.ratio);
                native.push(pair.first);
            }
            let middle = median(&mut ratios);
            row += &format!(
                " {middle:.2} ({:.2}–{:.2}) |",
                ratios[0],
                ratios[ratios.len() - 1]
            );
        }
        let words = [&[name][..], options].concat().join(" ");
        println!("| `{words}` | {:.2} |{row}", median(&mut native));
    }
    println!(
        "\nCPU time over native, trommel's own included: medians of {rounds} pairs there and back, in brackets all."
    );
    Ok(())
}
