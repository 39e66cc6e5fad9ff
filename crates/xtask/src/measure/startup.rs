//! Time that programs take to start: wall time natively, with the engine alone, with edges and calls, with the default events and with
//! these by a sampler, without and with fragments of the run before.
//!
//! Rounds are interleaved (each program natively, then each way, then again), as the machine's speed
//! changes from minute to minute. The median and the least of each are printed. The least is the work
//! itself, the median is what users meet. The time is that of the command, `trommel`'s own end included.

use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::{median, rounds, trommel};
use trommel_conformance::exec::{Scratch, which};

/// Arguments of `record`, each for a first run and for a later one.
const WAYS: [&[&str]; 4] = [
    &["-e", "none"],
    &["-e", "edge,call"],
    &[],
    &["-e", "edge,call,value", "-c", "H:crc[P256]2048+A16"],
];
/// Columns: natively, and each way twice.
const COLUMNS: usize = 1 + 2 * WAYS.len();

/// Commands that are started. `Hello` is compiled first, and `repo` made.
const PROGRAMS: [&str; 10] = [
    "/bin/true",
    "ls /usr",
    "git -C repo status -s",
    "perl -e 0",
    "/usr/bin/python3 -c 0",
    "gcc -O2 -c hello.c",
    "node -e 0",
    "java -version",
    "java -cp . Hello",
    "java -Xint -cp . Hello",
];

const PREPARE: &str = r#"
mkdir repo; cd repo; git init -q .; for i in $(seq 50); do echo $i >f$i; done; git add .; cd ..
printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >hello.c
command -v javac >/dev/null || exit 0
echo 'public class Hello { public static void main(String[] a) { System.out.println("hello"); } }' >Hello.java; javac Hello.java
"#;

/// Measures how long programs take to start.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure startup 5 perl 'gcc -O2'")]
pub(crate) struct Args {
    /// Interleaved rounds.
    #[arg(default_value = "11", value_parser = rounds)]
    rounds: usize,
    /// Parts of command lines of the programs; all if none is given.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let (rounds, chosen) = (args.rounds, &args.names);
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let made = Command::new("sh")
        .args(["-ec", PREPARE])
        .current_dir(scratch.dir())
        .status()
        .map_err(|e| format!("sh: {e}"))?;
    if !made.success() {
        return Err("cannot prepare the programs".into());
    }
    let programs: Vec<&str> = PROGRAMS
        .into_iter()
        .filter(|p| chosen.is_empty() || chosen.iter().any(|c| p.contains(c.as_str())))
        .filter(|p| {
            p.split(' ')
                .next()
                .is_some_and(|name| which(name).is_some())
        })
        .collect();
    let mut times = vec![[const { Vec::<f64>::new() }; COLUMNS]; programs.len()];
    // The first round fills the caches of the machine and is not counted.
    for round in 0..=rounds {
        for (program, times) in programs.iter().zip(&mut times) {
            for (column, times) in times.iter_mut().enumerate() {
                let took = started(program, column.checked_sub(1), &scratch)?;
                if round > 0 {
                    times.push(took);
                }
            }
        }
    }
    print(&programs, &mut times);
    println!(
        "\nWall time, median / least of {rounds} interleaved rounds (ratios of the medians, of the least)."
    );
    Ok(())
}

/// Starts a program natively or in a way, and returns the milliseconds until its end.
fn started(program: &str, way: Option<usize>, scratch: &Scratch) -> Result<f64, String> {
    let mut words = program.split(' ');
    let mut command = match way {
        None => Command::new(words.next().unwrap_or_default()),
        Some(way) => {
            let mut command = Command::new(trommel());
            command.args(["record", "--quiet", "-o"]);
            command.arg(scratch.path("data")).args(WAYS[way / 2]);
            command.args((way % 2 == 0).then_some("--no-persist"));
            command.arg("--");
            command
        }
    };
    let start = Instant::now();
    let status = command
        .args(words)
        .current_dir(scratch.dir())
        .env("XDG_CACHE_HOME", scratch.dir())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(|e| format!("{program}: {e}"))?;
    match status.success() {
        true => Ok(start.elapsed().as_secs_f64() * 1e3),
        false => Err(format!("{program}: {status}")),
    }
}

/// Prints a row for each program, with medians and least times.
fn print(programs: &[&str], times: &mut [[Vec<f64>; COLUMNS]]) {
    print!("| program | native ms |");
    for way in WAYS {
        let name = match way {
            [] => "default events".to_owned(),
            way => format!("`{}`", way.join(" ")),
        };
        print!(" {name}, first run | later runs |");
    }
    println!("\n|{}", "---|".repeat(1 + COLUMNS));
    for (program, times) in programs.iter().zip(times) {
        let [native, ways @ ..] = times.each_mut().map(|list| (median(list), list[0]));
        let time = |(m, least): (f64, f64)| format!("{m:.1} / {least:.1}");
        let ratio = |of: (f64, f64)| format!("{:.1}, {:.1}", of.0 / native.0, of.1 / native.1);
        print!("| `{program}` | {} |", time(native));
        for way in ways {
            print!(" {} ({}) |", time(way), ratio(way));
        }
        println!();
    }
}
