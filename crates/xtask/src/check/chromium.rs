//! Chromium's renderer, in its own sandbox: filters of system calls (seccomp), namespaces, an empty root.
//!
//! A page computes, generates code and starts workers, and says what it gets after each step. What it says does not depend on its speed, so
//! each step natively and under observation can be compared. The browser is an ordinary user's; the command is root's, outside of any filter.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use trommel_conformance::exec::{Scratch, trommel};

/// Records the renderer of a sandboxed Chromium, again and again, and compares what its page computes with a native run.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask check chromium\n\nRoot is needed, and chromium and setpriv. Debian: apt-get install chromium"
)]
pub(crate) struct Args {
    /// Times that the renderer is attached to in each way.
    #[arg(long, default_value_t = 3)]
    cycles: u32,
}

/// The page. A step takes some ten milliseconds natively.
const PAGE: &str = r#"<!doctype html><title>steps</title><script>
let step = 0;
function mix(x, n) { for (let i = 0; i < n; i++) x = (Math.imul(x, 1103515245) + 12345 ^ x >>> 7) >>> 0; return x; }
function generated(n) { const f = new Function('x', 'let s = 0; for (let i = 0; i < 2000; i++) s = (s + x * ' + n + ' + i) % 65521; return s;'); return f(step % 97 + 1); }
const objects = [];
const worker = new Worker(URL.createObjectURL(new Blob([mix.toString() + 'onmessage = e => postMessage(mix(e.data, 300000));'])));
worker.onmessage = e => {
  let sum = e.data;
  for (let i = 0; i < 40; i++) sum = (sum + generated(step * 40 + i)) >>> 0;
  for (let i = 0; i < 5000; i++) objects[i % 1000] = { a: i, b: [i, sum & 255], c: 'x' + i };
  try { null.x; } catch (error) { sum = mix(sum ^ objects.length, 300000); }
  console.log('step ' + step + ' ' + sum);
  step++;
  worker.postMessage(step);
};
worker.postMessage(0);
</script>"#;

/// Ways of observing: a name, and the words of the command.
const WAYS: [(&str, &str); 3] = [
    ("record", "record --quiet -e edge,call"),
    ("values", "record --quiet -e edge,call,value --exact-values"),
    ("bursts", "record --quiet -e edge --budget 30 --bursts"),
];

/// Results of the page, by step.
type Steps = BTreeMap<u64, String>;

/// A browser, which is ended when this is dropped.
struct Browser {
    child: Child,
    steps: Arc<Mutex<Steps>>,
}

impl Browser {
    /// Starts it with the page, as `nobody`.
    fn start(scratch: &Scratch) -> Result<Self, String> {
        const NOBODY: u32 = 65534;
        let home = scratch.path("home");
        fs::create_dir_all(&home).map_err(|e| e.to_string())?;
        for path in [scratch.dir(), &home] {
            chown(path, Some(NOBODY), Some(NOBODY)).map_err(|e| e.to_string())?;
        }
        let page = scratch.path("page.html");
        fs::write(&page, PAGE).map_err(|e| e.to_string())?;
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
            .args([
                "chromium",
                "--headless=new",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args(["--enable-logging=stderr", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", home.join("data").display()))
            .arg(format!("file://{}", page.display()))
            .env("HOME", &home)
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("setpriv: {e}"))?;
        let steps = Arc::new(Mutex::new(Steps::new()));
        let said = child.stderr.take().ok_or("no output")?;
        let into = Arc::clone(&steps);
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                if let (Some((step, sum)), Ok(mut steps)) = (step_of(&line), into.lock()) {
                    steps.insert(step, sum);
                }
            }
        });
        Ok(Self { child, steps })
    }

    fn said(&self) -> Steps {
        self.steps
            .lock()
            .map(|steps| steps.clone())
            .unwrap_or_default()
    }

    /// Waits for so many further steps.
    fn waits_for(&self, more: usize) -> Result<(), String> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let before = self.said().len();
        let began = Instant::now();
        while self.said().len() < before + more {
            if began.elapsed() > PATIENCE {
                return Err(format!(
                    "the page stands still at step {}",
                    self.said().len()
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The renderer of the page: the one that has worked most.
    fn renderer(&self) -> Result<i32, String> {
        let processes = fs::read_dir("/proc").map_err(|e| e.to_string())?;
        let numbers = processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let is_renderer = |pid: &i32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("--type=renderer") && self.is_ancestor_of(*pid)
        };
        let busiest = numbers.filter(is_renderer).max_by_key(|pid| worked(*pid));
        busiest.ok_or_else(|| "no renderer".to_owned())
    }

    fn is_ancestor_of(&self, pid: i32) -> bool {
        let parent = |pid: i32| -> Option<i32> {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find_map(|l| l.strip_prefix("PPid:"))?;
            line.trim().parse().ok()
        };
        let mut up = std::iter::successors(Some(pid), |pid| parent(*pid)).take(20);
        up.any(|pid| pid == self.child.id() as i32)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the step and its result of a line of the log.
fn step_of(line: &str) -> Option<(u64, String)> {
    let rest = line.split_once("\"step ")?.1;
    let (step, rest) = rest.split_once(' ')?;
    Some((step.parse().ok()?, rest.split('"').next()?.to_owned()))
}

/// CPU time of a process, in ticks.
fn worked(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let words = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let words: Vec<&str> = words.split(' ').collect();
    let of = |n: usize| {
        words
            .get(n)
            .and_then(|w| w.parse::<u64>().ok())
            .unwrap_or(0)
    };
    of(11) + of(12)
}

/// Looks for memory of ours in a process that was detached.
fn left_behind(pid: i32) -> Result<(), String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|e| e.to_string())?;
    match maps.lines().find(|line| line.contains("memfd:trommel")) {
        Some(line) => Err(format!("left behind: {line}")),
        None => Ok(()),
    }
}

/// Observes the renderer in one way. Returns the edges that were seen.
fn observe(browser: &Browser, data: &Path, words: &str) -> Result<usize, String> {
    let pid = browser.renderer()?;
    let _ = fs::remove_file(data);
    let before = browser.said().len();
    let output = Command::new(trommel())
        .args(words.split(' '))
        .args(["--duration", "3", "-p", &pid.to_string(), "-o"])
        .arg(data)
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() || said.contains("natively because") {
        return Err(format!("{}: {}", output.status, said.trim()));
    }
    if browser.said().len() == before {
        return Err("the page stood still".to_owned());
    }
    left_behind(pid)?;
    browser.waits_for(10)?;
    let report = Command::new(trommel())
        .args(["report", "--json"])
        .arg(data)
        .output();
    let report = report.map_err(|e| e.to_string())?.stdout;
    match String::from_utf8_lossy(&report)
        .matches("\"taken\"")
        .count()
    {
        0 => Err("nothing was seen".to_owned()),
        seen => Ok(seen),
    }
}

/// Returns the filters of a process, as its status says.
fn filters_of(pid: i32) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let lines = status.lines().filter(|l| l.starts_with("Seccomp"));
    lines.collect::<Vec<_>>().join(" ").replace('\t', " ")
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    // It may have to be built, for longer than the page is waited for.
    let _ = trommel();
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let browser = Browser::start(&scratch)?;
    browser.waits_for(20)?;
    println!("renderer: {}", filters_of(browser.renderer()?));
    let data = scratch.path("trommel.data");
    let mut failed = 0;
    for (way, words) in WAYS {
        for cycle in 1..=args.cycles {
            let result = observe(&browser, &data, words);
            failed += usize::from(result.is_err());
            let result = result.map_or_else(|why| why, |seen| format!("observed, {seen} edges"));
            println!("{way} | {cycle} | {result}");
        }
    }
    let observed = browser.said();
    drop(browser);
    let native = Browser::start(&scratch)?;
    while native.said().len() < observed.len() {
        native.waits_for(1)?;
    }
    let native = native.said();
    let mut differ = observed
        .iter()
        .filter(|(step, sum)| native.get(step) != Some(sum));
    if let Some((step, sum)) = differ.next() {
        return Err(format!(
            "step {step} is {sum}, and natively {:?}",
            native.get(step)
        ));
    }
    println!("{} steps, as natively", observed.len());
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of them not observed")),
    }
}
