//! Loss of a server that is attached to: requests a second and latencies of redis-server under redis-benchmark,
//! natively and within each budget, in turns.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{median, rounds, trommel};
use trommel_conformance::exec::{Scratch, output};

/// Options of `record`; none: natively.
const CONFIGURATIONS: [&str; 5] = [
    "",
    "--budget 1",
    "--budget 3",
    "--budget 10",
    "--budget 1 --windows",
];
/// Requests of each kind: some seconds.
const REQUESTS: &str = "200000";
/// Requests a second, and milliseconds that half and 99 of 100 take at most.
type Figures = [f64; 3];

/// A process that is ended when this is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures what `record --budget -p` costs redis-server: requests a second and latencies.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask measure served --rounds 3")]
pub(crate) struct Args {
    /// Rounds, in turns.
    #[arg(long, value_name = "N", default_value = "3", value_parser = rounds)]
    rounds: usize,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let rounds = args.rounds;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let socket = scratch.path("socket");
    let data = scratch.path("data");
    let mut server = Command::new("redis-server");
    server.args(["--port", "0", "--save", "", "--unixsocket"]);
    let server = server.arg(&socket).stdout(Stdio::null()).spawn();
    let server = Ended(server.map_err(|e| format!("redis-server: {e}"))?);
    sleep(Duration::from_millis(500));
    let mut all = vec![[const { Vec::new() }; 3]; CONFIGURATIONS.len()];
    for _ in 0..rounds {
        for (options, all) in CONFIGURATIONS.iter().zip(&mut all) {
            let printed = once(options, &server.0, &socket, &data)?;
            for (figure, list) in figures(&printed)?.into_iter().zip(all) {
                list.push(figure);
            }
        }
    }
    print(&mut all);
    println!(
        "\nMeans of set, get and lrange_100, 20 clients; medians of {rounds}; in parentheses to native."
    );
    Ok(())
}

/// Loads the server once, attached to with these options if there are any, and returns what the clients print.
fn once(options: &str, server: &Child, socket: &Path, data: &Path) -> Result<String, String> {
    let mut attached = None;
    if !options.is_empty() {
        let mut command = Command::new(trommel());
        command.args(["record", "--quiet", "-o"]).arg(data);
        command.args(options.split(' '));
        command.args(["-p", &server.id().to_string()]);
        attached = Some(command.spawn().map_err(|e| e.to_string())?);
        sleep(Duration::from_millis(300));
    }
    let mut clients = Command::new("redis-benchmark");
    clients.args(["--csv", "-c", "20", "-n", REQUESTS]);
    clients.args(["-t", "set,get,lrange_100", "-s"]).arg(socket);
    let printed = output(&mut clients)?;
    if let Some(attached) = attached {
        // Ctrl-C: the server is detached.
        let pid = attached.id().to_string();
        let _ = Command::new("kill").args(["-INT", &pid]).status();
        let done = attached.wait_with_output().map_err(|e| e.to_string())?;
        if !done.status.success() {
            return Err(format!("record {options}: {}", done.status));
        }
    }
    Ok(printed)
}

/// Prints the medians, and their ratios to native.
fn print(all: &mut [[Vec<f64>; 3]]) {
    println!(
        "| redis-server | requests a second | half within ms | 99 % within ms |\n|---|---|---|---|"
    );
    let mut native: Option<Figures> = None;
    for (options, lists) in CONFIGURATIONS.iter().zip(all) {
        let these = lists.each_mut().map(|list| median(list));
        let base = *native.get_or_insert(these);
        let of = |n: usize| format!("{:.3} ({:.3})", these[n], these[n] / base[n]);
        let name = if options.is_empty() {
            "natively"
        } else {
            options
        };
        println!(
            "| {name} | {:.0} ({:.3}) | {} | {} |",
            these[0],
            these[0] / base[0],
            of(1),
            of(2)
        );
    }
}

/// The means over the kinds of requests.
fn figures(printed: &str) -> Result<Figures, String> {
    let rows = printed.lines().skip(1).map(|line| {
        let words: Vec<&str> = line.split(',').map(|word| word.trim_matches('"')).collect();
        let number = |n: usize| words.get(n)?.parse::<f64>().ok();
        Some([number(1)?, number(4)?, number(6)?])
    });
    let rows: Option<Vec<Figures>> = rows.collect();
    let rows = rows.filter(|rows| !rows.is_empty());
    let rows = rows.ok_or_else(|| format!("redis-benchmark said: {printed}"))?;
    let mean = |n: usize| rows.iter().map(|row| row[n]).sum::<f64>() / rows.len() as f64;
    Ok([mean(0), mean(1), mean(2)])
}
