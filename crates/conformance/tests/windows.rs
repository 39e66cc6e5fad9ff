//! Windows: threads that are under control for N instructions at a time, a thousand times in a second of CPU
//! time, and native in between (the stress option `window=N`).
//!
//! * `same …`: each program of `tests/programs` behaves as natively. `TROMMEL_WINDOWS=64,1024` gives the
//!   lengths of windows; natively and with two mixes of events. Further builds of a program are tried in the nightly tier
//!   (ignored trials).
//! * `state …`: random instruction sequences end in the same registers, flags and memory, on an alternate stack: signals change
//!   what is below the stack pointer.
//! * `exact …`: each window of a program that does the same again and again, of which one turn is
//!   single-stepped, goes exactly as far as it says.
//! * `part …`: what is counted in windows is part of what the whole run counts.
//! * `with …`: with other stress options.
//! * `locked`: a program that locks all its memory locks little of the runtime's.
//!
//! Where the kernel allows this user no perf events there are no windows, and nothing is tested.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::counts::{Counts, Transfers};
use trommel_conformance::exec::{Job, Outcome, Scratch, need_windows, trommel};
use trommel_conformance::generate::{on_alternate_stack, seeds};
use trommel_conformance::program::{self, Variant, all};
use trommel_conformance::stepper;

/// Lengths of windows that come to their end exactly.
const EXACT: [u32; 14] = [
    1, 2, 3, 7, 15, 16, 17, 31, 64, 100, 1000, 4095, 4096, 20_000,
];
/// Kinds to collect: latencies do not go with values.
const MIXES: [&str; 2] = ["edge,call,value,type", "edge,call,type,address,latency"];
const LIMIT: Duration = Duration::from_secs(60);

/// Programs that, native between windows, see what docs/limits.md names: some megabytes more where 6 MB may be locked, places that are taken,
/// a record of the x87 unit that a window left, the runtime's handlers while another thread is in a window, and system calls of the runtime's that are dispatched to the program.
const SEE_WINDOWS: [&str; 6] = [
    "detached_memory@",
    "dispatch_of_calls@",
    "locked_memory@",
    "x87_record_stored@",
    "signal_x87_record@",
    "signal_own_status@",
];

/// Programs that CI tries, each in its first build. The nightly tier has all.
const IN_CI: [&str; 34] = [
    "alloca_recursion",
    "aware_requests",
    "code_guarded",
    "code_kernel_writes_late",
    "code_modifies_itself",
    "code_read_into",
    "counted_traces",
    "exit_codes",
    "flags_across_transfers",
    "flags_adc_chain",
    "flags_alignment_check",
    "limits_on_files",
    "paths_forms",
    "processes_attached",
    "processes_killed",
    "processes_shared_memory",
    "push_pop_rsp",
    "seccomp_reported",
    "shadow_stack_asked",
    "signal_eintr_classes",
    "signal_flags_kept",
    "signal_frames",
    "signal_mprotect_retry",
    "signal_sent_synchronous",
    "signal_synchronous",
    "signal_timer_compute",
    "signal_traps",
    "threads_basic",
    "threads_counts",
    "threads_end",
    "threads_detached",
    "threads_outlive_main",
    "threads_traced_beside",
    "ucontext_swap",
];

fn main() {
    let args = Arguments::from_args();
    let lengths = std::env::var("TROMMEL_WINDOWS").unwrap_or("1024".to_owned());
    let lengths: Vec<u32> = lengths
        .split(',')
        .map(|n| n.parse().expect("TROMMEL_WINDOWS: numbers"))
        .collect();
    need_windows();
    let mut trials = Vec::new();
    let sees = |name: &str| SEE_WINDOWS.iter().any(|of| name.starts_with(of));
    for variant in all().into_iter().filter(|v| !sees(&v.name)) {
        let of = variant.name.split('@').next().unwrap_or_default();
        let in_ci = variant.first && IN_CI.contains(&of);
        for run in variant.runs.clone() {
            for length in lengths.clone() {
                let variant = variant.clone();
                let words = [&[variant.name.clone()][..], &run].concat();
                let name = format!("same {length} {}", words.join(" "));
                let run = run.clone();
                let trial = Trial::test(name, move || {
                    Ok(same(&variant, &run, &format!("window={length}"))?)
                });
                trials.push(trial.with_ignored_flag(!in_ci));
            }
        }
    }
    for seed in seeds().take(3) {
        trials.push(Trial::test(format!("state {seed}"), move || {
            Ok(state(seed)?)
        }));
    }
    for (n, length) in EXACT.into_iter().enumerate() {
        for fault in [false, true] {
            let name = format!("exact {length}{}", if fault { " fault" } else { "" });
            let trial = Trial::test(name, move || Ok(exact(length, fault)?));
            // In CI each length is tried, every other one with faults.
            trials.push(trial.with_ignored_flag(fault != (n % 2 == 1)));
        }
    }
    for length in [16, 1024, 4096] {
        trials.push(Trial::test(format!("part {length}"), move || {
            Ok(part(length)?)
        }));
    }
    for stress in [
        "window=100,insns=3",
        "window=1000,evict=100",
        "window=1000,pages=16",
        "window=300,delay=20",
        "window=100,far",
    ] {
        trials.push(Trial::test(format!("with {stress}"), move || {
            Ok(with(stress)?)
        }));
    }
    trials.push(Trial::test("locked", || Ok(locked()?)));
    libtest_mimic::run(&args, trials).exit();
}

fn same(variant: &Variant, run: &[String], stress: &str) -> Result<(), String> {
    if !variant.missing().is_empty() {
        return Ok(());
    }
    let program = variant.build()?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut job = Job::new([program], scratch.dir());
    job.argv.extend(run.iter().map(Into::into));
    // Natively too: programs look at their environment.
    job.env.push(("TROMMEL_STRESS".into(), stress.into()));
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    let native = told(native);
    for mix in MIXES {
        let seen = job
            .record(bin(), mix, &scratch.path("data"), LIMIT)
            .map_err(|e| e.to_string())?;
        native
            .compare(&told(seen))
            .map_err(|differs| format!("{mix}: {differs}"))?;
    }
    Ok(())
}

fn state(seed: u64) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let job = on_alternate_stack(seed, &scratch)?;
    let native = job.native(LIMIT).map_err(|e| e.to_string())?;
    for (mix, window) in MIXES
        .into_iter()
        .zip(["pace=100,window=300", "pace=100,window=60000"])
    {
        let mut job = job.clone();
        job.env.push(("TROMMEL_STRESS".into(), window.into()));
        let seen = job
            .record(bin(), mix, &scratch.path("data"), LIMIT)
            .map_err(|e| e.to_string())?;
        native
            .compare(&seen)
            .map_err(|differs| format!("{mix}: {differs}"))?;
    }
    Ok(())
}

/// The signal of windows is ignored in programs that `posix_spawn` starts, and not in those that they
/// execute natively: the kernel takes away its handler then. That shows in `/proc/PID/status` alone.
fn told(outcome: Outcome) -> Outcome {
    const OF_WINDOWS: u64 = 1 << 31;
    let text = String::from_utf8_lossy(&outcome.stdout);
    if !text.contains("SigIgn:") {
        return outcome;
    }
    let line = |line: &str| match line.strip_prefix("SigIgn:\t") {
        Some(mask) => match u64::from_str_radix(mask.trim_end(), 16) {
            Ok(mask) => format!("SigIgn:\t{:016x}\n", mask & !OF_WINDOWS),
            Err(_) => line.to_owned(),
        },
        None => line.to_owned(),
    };
    let stdout: String = text.split_inclusive('\n').map(line).collect();
    Outcome {
        stdout: stdout.into_bytes(),
        ..outcome
    }
}

fn bin() -> &'static Path {
    trommel()
}

/// A program of `tests/windows`, linked statically.
fn built(name: &str) -> Result<PathBuf, String> {
    let source = format!("tests/windows/{name}.c");
    program::built(&source, name, &["-O2", "-static"])
}

/// Account of a run's windows.
#[derive(Default)]
struct Windows {
    counts: BTreeMap<String, u64>,
    /// From, to, instructions.
    last: Vec<(u64, u64, usize)>,
    /// All that was said.
    said: String,
}

impl Windows {
    fn of(stderr: &str) -> Result<Self, String> {
        let line = stderr.lines().find_map(|l| l.split_once("windows: "));
        let (_, line) = line.ok_or_else(|| format!("no word of windows:\n{stderr}"))?;
        let (counts, last) = line.split_once("; last ").ok_or("no last windows")?;
        let mut windows = Self {
            said: stderr.to_owned(),
            ..Self::default()
        };
        for word in counts.split(", ") {
            let (name, n) = word.split_once(' ').ok_or("a count")?;
            let n = n.parse().map_err(|_| format!("a number: {word}"))?;
            windows.counts.insert(name.to_owned(), n);
        }
        for word in last.split_whitespace() {
            let parse = || {
                let (from, rest) = word.split_once('-')?;
                let (to, n) = rest.split_once(':')?;
                let hex = |s| u64::from_str_radix(s, 16).ok();
                Some((hex(from)?, hex(to)?, n.parse().ok()?))
            };
            windows
                .last
                .push(parse().ok_or_else(|| format!("a window: {word}"))?);
        }
        Ok(windows)
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

/// Records a program with stress: its output, and what became of windows.
fn record(
    program: &Path,
    args: &[&str],
    stress: &str,
    kinds: &str,
    data: &Path,
) -> Result<(String, Windows), String> {
    // With addresses that are the same each time: the C library's string functions branch by them.
    let mut command = Command::new("setarch");
    command.arg("-R").arg(bin());
    command.args(["record", "-e", kinds, "-c", "exact", "-o"]);
    command.arg(data);
    command.arg("--").arg(program).args(args);
    command.env("TROMMEL_STRESS", stress);
    let done = command.output().map_err(|e| e.to_string())?;
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    if !done.status.success() {
        return Err(format!("{}:\n{stderr}", done.status));
    }
    let windows = match stress.contains("window") {
        true => Windows::of(&stderr)?,
        false => Windows::default(),
    };
    Ok((String::from_utf8_lossy(&done.stdout).into_owned(), windows))
}

/// Turns in one run that is recorded. A window begins each millisecond of user time: these are some 100 windows, six times [`ENOUGH`].
const TURNS: u64 = 4_000_000;
/// The same, where each causes a fault: some 40 windows.
const FAULTS: u64 = 120_000;
/// Windows that a run has at least.
const ENOUGH: usize = 16;

/// Runs with more work each time, until there are as many windows as that. The host makes the events that begin them: there are none before
/// it has got a processor, which can take as long as a short program does.
fn until<T>(
    least: u64,
    mut work: u64,
    run: impl Fn(&str) -> Result<(T, Windows), String>,
) -> Result<(T, Windows), String> {
    let most = 16 * work;
    loop {
        let done = run(&work.to_string())?;
        if done.1.count("ended") >= least || work >= most {
            return Ok(done);
        }
        work *= 4;
    }
}

fn exact(length: u32, fault: bool) -> Result<(), String> {
    let program = built("period")?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let stress = format!("window={length}");
    let turns = if fault { FAULTS } else { TURNS };
    let (out, windows) = until(ENOUGH as u64, turns, |turns| {
        let args = [turns, "fault"];
        let args = &args[..1 + usize::from(fault)];
        record(&program, args, &stress, "none", &scratch.path("data"))
    })?;
    let start = u64::from_str_radix(out.trim(), 16).map_err(|e| format!("{out:?}: {e}"))?;
    let mut argv = vec![program.as_os_str(), "3".as_ref()];
    argv.extend(fault.then_some(std::ffi::OsStr::new("fault")));
    let turn = stepper::turn(&argv, start, 1_000_000).map_err(|e| e.to_string())?;
    let mut judged = 0;
    let (mut whole, mut cut) = (0, 0);
    for &(from, to, n) in &windows.last {
        if !turn.contains(&from) || !turn.contains(&to) {
            continue;
        }
        judged += 1;
        let led = (0..turn.len()).any(|i| turn[i] == from && turn[(i + n) % turn.len()] == to);
        if !led {
            return Err(format!(
                "{n} instructions from {from:#x} do not lead to {to:#x}"
            ));
        }
        match n == length as usize {
            true => whole += 1,
            false => cut += 1,
        }
    }
    let all = windows.last.len();
    let said = format!(
        "{judged} of {all} windows judged, {whole} whole, {cut} not:\n{}",
        windows.said
    );
    if !fault && cut > 0 {
        return Err(said);
    }
    // The last ones may follow the loop.
    if 2 * judged < all.max(ENOUGH) {
        return Err(said);
    }
    if windows.count("refused") != 0 || !fault && windows.count("signals") != 0 {
        return Err(format!("{:?}", windows.counts));
    }
    let most = u64::from(length) * windows.count("ended");
    let all = windows.count("instructions");
    let at_least = u64::from(length) * windows.count("whole");
    if all > most || all < at_least {
        return Err(format!("{:?}", windows.counts));
    }
    Ok(())
}

fn counts(program: &Path, data: &Path) -> Result<Counts, String> {
    let mut command = Command::new(bin());
    command
        .args(["report", "--json", "--no-debug-info"])
        .arg(data);
    let report = command.output().map_err(|e| e.to_string())?;
    Counts::from_report(&String::from_utf8_lossy(&report.stdout), program)
}

/// Checks that the counts of windows are part of what happens.
fn part(length: u32) -> Result<(), String> {
    let program = built("work")?;
    let program = std::fs::canonicalize(program).map_err(|e| e.to_string())?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let kinds = "edge,call";
    let stress = format!("window={length}");
    // What the C library does with the environment is the same if that is as long.
    let usual = format!("insns={:0>1$}", "48", stress.len() - "insns=".len());
    let ((whole, some), windows) = until(50, 30, |rounds| {
        let (expected, _) = record(&program, &[rounds], &usual, kinds, &data)?;
        let whole = counts(&program, &data)?;
        let (out, windows) = record(&program, &[rounds], &stress, kinds, &data)?;
        if out != expected {
            return Err(format!("{out:?} in place of {expected:?}"));
        }
        Ok(((whole, counts(&program, &data)?), windows))
    })?;
    let mut events = 0;
    for (what, whole, some) in [
        ("branches", &whole.branches, &some.branches),
        ("jumps", &whole.jumps, &some.jumps),
        ("calls", &whole.calls, &some.calls),
    ] {
        events += within(what, whole, some)?;
    }
    let executed = windows.count("instructions");
    // Between a third and a thirtieth of all instructions of this program are events.
    if windows.count("ended") < 50 || events * 30 < executed || events * 3 > executed {
        return Err(format!("{events} events; {:?}", windows.counts));
    }
    Ok(())
}

fn within(what: &str, whole: &Transfers, some: &Transfers) -> Result<u64, String> {
    for (transfer, n) in some {
        let all = whole.get(transfer).copied().unwrap_or(0);
        if *n > all {
            return Err(format!(
                "{what} {transfer:x?}: {n} in windows, {all} in all"
            ));
        }
    }
    Ok(some.values().sum())
}

/// Checks that locking all memory takes no time and little memory.
fn locked() -> Result<(), String> {
    let program = built("locked")?;
    let native = Command::new(&program).output();
    let native = native.map_err(|e| e.to_string())?.stdout;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let (out, _) = record(&program, &[], "window=1024", "edge,call,value", &data)?;
    match out.as_bytes() == native {
        true => Ok(()),
        false => Err(format!(
            "{out:?} in place of {:?}",
            String::from_utf8_lossy(&native)
        )),
    }
}

fn with(stress: &str) -> Result<(), String> {
    let program = built("work")?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let data = scratch.path("data");
    let kinds = "edge,call,value,type";
    let ((), windows) = until(20, 20, |rounds| {
        let native = Command::new(&program).arg(rounds).output();
        let native = native.map_err(|e| e.to_string())?;
        let expected = String::from_utf8_lossy(&native.stdout).into_owned();
        let (out, windows) = record(&program, &[rounds], stress, kinds, &data)?;
        if out != expected {
            return Err(format!("{out:?} in place of {expected:?}"));
        }
        Ok(((), windows))
    })?;
    match windows.count("whole") >= 20 {
        true => Ok(()),
        false => Err(format!("{:?}", windows.counts)),
    }
}
