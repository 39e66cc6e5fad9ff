//! Same counts: edges, calls and loads of the main executable against two independent oracles.
//!
//! * `stepper …`: our own small programs, single-stepped; edges, calls and loaded values.
//! * `callgrind …`: real programs and two of our own; edges and calls.
//! * `functions …`: what each function executed, of the same programs, against callgrind.
//! * `threads …`: a program's threads against the same work in one thread, and against callgrind.
//! * `counters …`: paths, and events by a sampler, counted in generated code against records of them, in the same
//!   program, with code dropped, cut up and moved. Four fifths of the pairs of a program and options are in the nightly tier (ignored
//!   trials).
//! * `oracles …`: the two oracles against each other, with no trommel at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::counts::{
    Counts, compare, compare_transfers, recorded_by, recorded_once, reported_by,
};
use trommel_conformance::elf::Image;
use trommel_conformance::exec::{Scratch, required, trommel};
use trommel_conformance::{callgrind, program, settled, stepper};

/// Programs whose counts are compared: no threads, signals or unwinding, and deterministic. The first ones are tried in CI, the others in the
/// nightly tier.
const SMALL: [&str; 8] = [
    "branches_small@-O2",
    "call_forms@-O2-static",
    "redzone_leaf@-O2-static",
    "branches_small@-O2-static",
    "return_tricks@-O2-static",
    "code_in_data@-O2-static-w",
    "flags_adc_chain@-O2",
    "jump_tables@-O2",
];
const SMALL_IN_CI: usize = 4;

/// Programs whose functions are compared: their calls return, as is assumed.
const FUNCTIONS: [&str; 7] = [
    "branches_small@-O2-no-pie",
    "branches_small@-O2",
    "call_forms@-O2",
    "flags_adc_chain@-O2",
    "jump_tables@-O2",
    "redzone_leaf@-O2",
    "threads_counts@-O2-pthread",
];

fn main() {
    settled::settle();
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    for (n, name) in SMALL.into_iter().enumerate() {
        let trial = Trial::test(format!("stepper {name}"), move || Ok(by_stepper(name)?));
        trials.push(trial.with_ignored_flag(n >= SMALL_IN_CI));
    }
    for name in [
        "branches_small@-O2-no-pie",
        "branches_small@-O2",
        "call_forms@-O2",
        "flags_adc_chain@-O2",
        "flags_loop_jrcxz@-O2",
        "jump_tables@-O2",
        "redzone_leaf@-O2",
        "return_tricks@-O2",
    ] {
        trials.push(Trial::test(format!("oracles {name}"), move || {
            Ok(oracles(name)?)
        }));
        trials.push(Trial::test(format!("callgrind {name}"), move || {
            Ok(by_callgrind(&[program::named(name)?
                .to_string_lossy()
                .as_ref()])?)
        }));
    }
    for (name, words) in [
        ("gzip", vec!["gzip", "-9", "-c", "INPUT"]),
        ("bzip2", vec!["bzip2", "-c", "INPUT"]),
        ("lua5.4", vec!["lua5.4", "-e", LUA]),
        ("perl", vec!["perl", "-e", program::PERL]),
    ] {
        trials.push(Trial::test(format!("callgrind {name}"), move || {
            Ok(by_callgrind(&words)?)
        }));
    }
    for name in FUNCTIONS {
        trials.push(Trial::test(format!("functions {name}"), move || {
            let program = program::named(name)?;
            Ok(functions(&[program.to_string_lossy().as_ref()])?)
        }));
    }
    for (name, words) in [
        ("gzip", vec!["gzip", "-9", "-c", "INPUT"]),
        ("bzip2", vec!["bzip2", "-c", "INPUT"]),
        ("perl", vec!["perl", "-e", program::PERL]),
    ] {
        trials.push(Trial::test(format!("functions {name}"), move || {
            Ok(functions(&words)?)
        }));
    }
    for name in [
        "threads_counts@-O2-pthread",
        "threads_counts@-O1-pthread-no-pie",
    ] {
        trials.push(Trial::test(format!("threads {name}"), move || {
            Ok(threads(name)?)
        }));
        trials.push(Trial::test(format!("callgrind {name}"), move || {
            Ok(by_callgrind(&[program::named(name)?
                .to_string_lossy()
                .as_ref()])?)
        }));
    }
    for (n, (name, argument)) in COUNTED.into_iter().enumerate() {
        for (m, stress) in SAMPLED_UNDER.into_iter().enumerate() {
            let title = title("sampled", name, argument, stress);
            let trial = Trial::test(title, move || Ok(sampled(name, argument, stress)?));
            trials.push(trial.with_ignored_flag(is_nightly(n, m)));
        }
        for (m, stress) in COUNTED_UNDER.into_iter().enumerate() {
            let title = title("counters", name, argument, stress);
            let trial = Trial::test(title, move || Ok(counters(name, argument, stress)?));
            trials.push(trial.with_ignored_flag(is_nightly(n, m)));
        }
    }
    libtest_mimic::run(&args, trials).exit();
}

/// Programs that do the same in every run, however they end: with an argument, if it is not empty.
const COUNTED: [(&str, &str); 13] = [
    ("branches_small@-O2", ""),
    ("call_forms@-O2", ""),
    ("counted_traces@-O0", ""),
    ("counted_traces@-O2", ""),
    ("exceptions_deep@-O2", ""),
    ("flags_across_transfers@-O2", ""),
    ("flags_adc_chain@-O2", ""),
    ("jump_tables@-O2", ""),
    ("return_tricks@-O2", ""),
    ("signal_skip_fault@-O2", ""),
    ("signal_synchronous@-O2", ""),
    ("exit_by_signal@-O2", "segv"),
    ("threads_ended@-O2-pthread-Wl,-z,now", ""),
];

/// Options that programs of [`COUNTED`] are under when counters are compared with records.
const COUNTED_UNDER: [&str; 17] = [
    "",
    "insns=1",
    "insns=3",
    "evict=97",
    "turn=7",
    "insns=2,pages=24",
    "far",
    "trace",
    "trace,evict=97",
    "trace,flush=3",
    "trace,insns=3",
    "trace,pages=24",
    "counters",
    "counters,insns=1,evict=97",
    "trace,counters,flush=30",
    "arena=1",
    "trace,arena=3,evict=97",
];

/// Options that they are under when samples are. As long a word in the environment as [`SAMPLES_OF`], where it can be: the dynamic
/// linker looks at each letter.
const SAMPLED_UNDER: [&str; 8] = [
    "far=0000",
    "insns=03",
    "trace=01",
    "evict=97",
    "turn=007",
    "insns=2,pages=24",
    "trace,evict=97",
    "trace,flush=3",
];
const SAMPLES_OF: &str = "events,,";

/// Returns true for four fifths of the pairs of programs and options: each program has pairs in CI, and so has each option.
const fn is_nightly(program: usize, options: usize) -> bool {
    !(program + options).is_multiple_of(5)
}

/// The name of a trial.
fn title(what: &str, name: &str, argument: &str, stress: &str) -> String {
    let program = format!("{what} {name} {argument}");
    match stress {
        "" => program.trim_end().to_owned(),
        stress => format!("{} under {stress}", program.trim_end()),
    }
}

const LUA: &str = "local t={} for i=1,2000 do t[i%97]=(t[i%97] or 0)+i*3%7 end \
    local s='' for k=1,50 do s=s..tostring(t[k]) end print(#s, s:gsub('1','x'))";
/// Returns what `report --json` says of a run of `argv`, with `env` added to its environment.
fn recorded(
    bin: &Path,
    argv: &[String],
    mix: &str,
    env: Vec<(OsString, OsString)>,
    dir: &Path,
) -> Result<Counts, String> {
    recorded_to(bin, argv, mix, env, dir, Some(0))
}

/// The same, of a run that ends with this code, or by a signal.
fn recorded_to(
    bin: &Path,
    argv: &[String],
    mix: &str,
    env: Vec<(OsString, OsString)>,
    dir: &Path,
    code: Option<i32>,
) -> Result<Counts, String> {
    recorded_by(bin, argv, (mix, "exact"), env, dir, code)
}

fn by_stepper(name: &str) -> Result<(), String> {
    let path = program::named(name)?;
    let expected = stepper::count(&[&path], 20_000_000).map_err(|e| e.to_string())?;
    if expected.branches.is_empty() {
        return Err("the stepper counted nothing".into());
    }
    let bin = trommel();
    let argv = [path.to_string_lossy().into_owned()];
    let got = recorded(bin, &argv, "edge,call,value", Vec::new(), Path::new("/"))?;
    same(&expected, &got)?;
    // The same again, counted where it is executed.
    let counted = recorded(bin, &argv, "edge,call", Vec::new(), Path::new("/"))?;
    same(&expected, &counted)?;
    // Each load's executions; then the values themselves, but for loads of what the kernel draws
    // at random for each process (stack canary, pointer guard), which differ between two steppings.
    let executions = |counts: &Counts| {
        let mut sums = BTreeMap::new();
        for ((at, _), count) in &counts.values {
            *sums.entry(*at).or_insert(0) += count;
        }
        sums
    };
    let said = compare("loads", &executions(&expected), &executions(&got), |at| {
        format!("{at:#x}")
    })?;
    eprintln!("{name}: {said}");
    let again = stepper::count(&[&path], 20_000_000).map_err(|e| e.to_string())?;
    let drawn: BTreeSet<u64> = (expected.values.iter())
        .filter(|(row, n)| again.values.get(row) != Some(n))
        .map(|((at, _), _)| *at)
        .collect();
    if drawn.len() * 5 > executions(&expected).len() {
        return Err(format!("{} loads differ between steppings", drawn.len()));
    }
    let steady = |counts: Counts| -> BTreeMap<(u64, u64), u64> {
        let rows = counts.values.into_iter();
        rows.filter(|((at, _), _)| !drawn.contains(at)).collect()
    };
    compare("values", &steady(expected), &steady(got), |(at, value)| {
        format!("{at:#x} loads {value:#x}")
    })
    .map(|said| eprintln!("{name}: {said}"))
}

/// Edges, calls and loads in the function `part` of `threads_counts`: in four threads, with
/// signals, in a process that is killed, in one thread, and in a process for each.
fn threads(name: &str) -> Result<(), String> {
    let path = program::named(name)?;
    let program = path.to_string_lossy().into_owned();
    let listed = Command::new("nm")
        .args(["-S", &program])
        .output()
        .map_err(|e| format!("nm: {e}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let hex = |s: &str| u64::from_str_radix(s, 16).map_err(|e| e.to_string());
    let line = listed.lines().find(|l| l.ends_with(" part"));
    let mut words = line.ok_or("no function part")?.split(' ');
    let start = hex(words.next().unwrap_or(""))?;
    let end = start + hex(words.next().unwrap_or(""))?;
    let bin = trommel();
    // Without values paths are counted where they are executed.
    for mix in ["edge,call,value", "edge,call"] {
        threads_with(bin, &program, start..end, mix).map_err(|e| format!("{mix}: {e}"))?;
    }
    Ok(())
}

fn threads_with(
    bin: &Path,
    program: &str,
    part: std::ops::Range<u64>,
    mix: &str,
) -> Result<(), String> {
    let run = |argument: &str, code| -> Result<Counts, String> {
        let argv: Vec<String> = [program, argument]
            .into_iter()
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let mut counts = recorded_to(bin, &argv, mix, settled::steady(), Path::new("/"), code)?;
        for list in [&mut counts.branches, &mut counts.jumps, &mut counts.calls] {
            list.retain(|(from, _), _| part.contains(from));
        }
        counts.values.retain(|(at, _), _| part.contains(at));
        Ok(counts)
    };
    let alone = run("all", Some(0))?;
    let values = |counts: &Counts| -> BTreeMap<u64, u64> {
        let mut sums = BTreeMap::new();
        for ((at, _), count) in &counts.values {
            *sums.entry(*at).or_insert(0) += count;
        }
        sums
    };
    let valued = mix.contains("value");
    if alone.branches.len() < 10 || values(&alone).is_empty() == valued {
        return Err("nothing was counted".into());
    }
    let mut sum = Counts::default();
    for n in 0..4 {
        let one = run(&n.to_string(), Some(0))?;
        for (to, from) in [
            (&mut sum.branches, one.branches),
            (&mut sum.jumps, one.jumps),
            (&mut sum.calls, one.calls),
        ] {
            for (key, count) in from {
                *to.entry(key).or_default() += count;
            }
        }
        for (key, count) in one.values {
            *sum.values.entry(key).or_default() += count;
        }
    }
    // With no code, as it ends by a signal.
    for (what, got) in [
        ("threads", run("", Some(0))?),
        ("signals", run("ticking", Some(0))?),
        ("killed", run("killed", None)?),
        ("one by one", sum),
    ] {
        same(&alone, &got).map_err(|e| format!("{what}: {e}"))?;
        if !valued {
            continue;
        }
        let said = compare("loads", &values(&alone), &values(&got), |at| {
            format!("{at:#x}")
        });
        eprintln!("{what}: {}", said.map_err(|e| format!("{what}: {e}"))?);
    }
    Ok(())
}

/// A program of ours with its argument, if it has one, and what it exits with.
fn command(name: &str, argument: &str, stress: &str) -> Result<(Vec<String>, Option<i32>), String> {
    // Deep recursion, translated again and again, takes minutes.
    let again = ["evict", "flush", "pages", "turn"].map(|option| stress.contains(option));
    let argument = match (name.starts_with("exceptions_deep"), again.contains(&true)) {
        (true, true) => "20",
        (true, false) => "200",
        (false, _) => argument,
    };
    let path = program::named(name)?.to_string_lossy().into_owned();
    let argv = [path.as_str(), argument].into_iter();
    let argv = argv.filter(|word| !word.is_empty()).map(str::to_owned);
    Ok((argv.collect(), (argument != "segv").then_some(0)))
}

/// Compares counts made in generated code with those of records.
fn counters(name: &str, argument: &str, stress: &str) -> Result<(), String> {
    let bin = trommel();
    let (argv, code) = command(name, argument, stress)?;
    let expected = recorded_once(bin, &argv, ("edge,call", "exact"), "events", code)?;
    if expected.branches.is_empty() && expected.calls.is_empty() {
        return Err("nothing was recorded".into());
    }
    let env = vec![("TROMMEL_STRESS".into(), stress.into())];
    let got = recorded_to(bin, &argv, "edge,call", env, Path::new("/"), code)?;
    same(&expected, &got)
}

/// Compares what a sampler in generated code reports with what it makes of the events that would have been recorded. One that
/// reports every event reports what was executed.
fn sampled(name: &str, argument: &str, stress: &str) -> Result<(), String> {
    let bin = trommel();
    let (argv, code) = command(name, argument, stress)?;
    let run = |spec: &str| {
        let env = vec![("TROMMEL_STRESS".into(), stress.into())];
        recorded_by(bin, &argv, ("edge,call", spec), env, Path::new("/"), code)
    };
    let every = recorded_once(bin, &argv, ("edge,call", "exact"), "events", code)?;
    if every.branches.is_empty() && every.calls.is_empty() {
        return Err("nothing was recorded".into());
    }
    same(&every, &run("H[P1]64")?)?;
    // Of several threads each has counters of its own.
    if name.contains("pthread") || stress.len() != SAMPLES_OF.len() {
        return Ok(());
    }
    let spec = "H[P3]64+A4";
    let some = recorded_once(bin, &argv, ("edge,call", spec), SAMPLES_OF, code)?;
    same(&some, &run(spec)?).map_err(|e| format!("{spec}: {e}"))
}

/// A program, and its words, one of which may be an input.
fn words_of(words: &[&str], scratch: &Scratch) -> Result<Vec<String>, String> {
    let input = scratch.path("input");
    fs::write(&input, settled::sample()).map_err(|e| e.to_string())?;
    let program = fs::canonicalize(required(words[0])?).map_err(|e| e.to_string())?;
    let mut argv = vec![program.to_string_lossy().into_owned()];
    argv.extend(words[1..].iter().map(|w| match *w {
        "INPUT" => input.to_string_lossy().into_owned(),
        w => w.to_owned(),
    }));
    Ok(argv)
}

/// Self instructions of each function of a program against callgrind.
fn functions(words: &[&str]) -> Result<(), String> {
    required("valgrind")?;
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let argv = words_of(words, &scratch)?;
    let main = Path::new(&argv[0]);
    let image = Image::read(main).ok_or("not ELF")?;
    let expected = callgrind::instructions(&argv, &[], scratch.dir())?;
    let added = callgrind::added_environment(scratch.dir())?;
    let how = ("edge,call", "exact");
    let text = reported_by(trommel(), &argv, how, added, scratch.dir(), Some(0))?;
    let got = trommel_conformance::functions::from_report(&text, main)?;
    eprintln!(
        "{}",
        trommel_conformance::functions::compare(&image, &expected, &got)?
    );
    Ok(())
}

fn by_callgrind(words: &[&str]) -> Result<(), String> {
    required("valgrind")?;
    let by_chance = words[0].starts_with("lua") || words[0] == "perl";
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let argv = words_of(words, &scratch)?;
    let program = Path::new(&argv[0]).to_owned();
    let bin = trommel();
    let image = Image::read(&program).ok_or("not ELF")?;
    let once = || {
        let mut expected = callgrind::count(&argv, &[], scratch.dir())?;
        if expected.branches.is_empty() {
            return Err("callgrind counted nothing".into());
        }
        let added = callgrind::added_environment(scratch.dir())?;
        let got = recorded(bin, &argv, "edge,call", added, scratch.dir())?;
        let mut got = callgrind::comparable(&got, &image);
        if by_chance {
            without_chance(&argv, &mut expected, &mut got)?;
        }
        same(&expected, &got)
    };
    // Lua's seed comes of addresses and of the second, which no option fixes. A seed that none of the runs had may show a
    // branch that all of them agreed on. A wrong count is wrong each time.
    match words[0].starts_with("lua") {
        true => once().or_else(|_| once()).or_else(|_| once()),
        false => once(),
    }
}

/// Lua seeds its string hash from the clock and from addresses, which valgrind changes: how long
/// its chains are is chance, natively too. Perl walks over its environment byte by byte. Leaves out
/// every branch whose counts differ between runs of callgrind with other seeds, and fails when
/// those are many.
fn without_chance(argv: &[String], expected: &mut Counts, got: &mut Counts) -> Result<(), String> {
    const RUNS: usize = 8;
    let mut chance = BTreeSet::new();
    for n in 0..RUNS {
        // The seed changes with where the stack begins.
        let moved = (
            format!("MOVED{}", n * 7).into(),
            "x".repeat(1 + 977 * n).into(),
        );
        let other = callgrind::count(argv, &[moved], Path::new("/"))?;
        for (a, b) in [
            (&expected.branches, &other.branches),
            (&expected.jumps, &other.jumps),
            (&expected.calls, &other.calls),
        ] {
            let rows = a.keys().chain(b.keys());
            chance.extend(rows.filter(|k| a.get(k) != b.get(k)).map(|(from, _)| *from));
        }
    }
    let all: BTreeSet<u64> = expected.branches.keys().map(|(from, _)| *from).collect();
    if chance.len() * 10 > all.len() {
        return Err(format!(
            "{} of {} branches are chance",
            chance.len(),
            all.len()
        ));
    }
    eprintln!("left to chance: {} of {} branches", chance.len(), all.len());
    for counts in [expected, got] {
        for table in [&mut counts.branches, &mut counts.jumps, &mut counts.calls] {
            table.retain(|(from, _), _| !chance.contains(from));
        }
    }
    Ok(())
}

fn oracles(name: &str) -> Result<(), String> {
    required("valgrind")?;
    let path = program::named(name)?;
    let image = Image::read(&path).ok_or("not ELF")?;
    let stepped = stepper::count(&[&path], 20_000_000).map_err(|e| e.to_string())?;
    let counted = callgrind::count(&[&path], &[], Path::new("/"))?;
    same(&callgrind::comparable(&stepped, &image), &counted)
}

fn same(expected: &Counts, got: &Counts) -> Result<(), String> {
    for (what, a, b) in [
        ("conditional branches", &expected.branches, &got.branches),
        ("indirect jumps", &expected.jumps, &got.jumps),
        ("calls", &expected.calls, &got.calls),
    ] {
        eprintln!("{}", compare_transfers(what, a, b)?);
    }
    Ok(())
}
