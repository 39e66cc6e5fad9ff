//! The runtime fails, or detaches, at any moment: the program does what it would have done.

use std::path::Path;

use trommel_conformance::program::all;

use crate::Test;
use crate::harness::{Chance, Ended, Place};

pub(crate) const TESTS: &[Test] = &[
    ("runtime: fails in the dispatcher", |bin| {
        fails(bin, "fail-dispatch", 1500)
    }),
    ("runtime: fails in the translator", |bin| {
        fails(bin, "fail-translate", 1200)
    }),
    ("runtime: fails with its first fragment", |bin| {
        fails(bin, "fail-translate", 1)
    }),
    ("runtime: fails after a system call", |bin| {
        fails(bin, "fail-syscall", 30)
    }),
    ("runtime: fails in its signal handler", dies),
    ("runtime: fails anywhere", |bin| {
        fails(bin, "fail-random", 0)
    }),
    ("runtime: detaches at any crossing", detaches),
    ("runtime: drops everything often", |bin| goes_on(bin, DROPS)),
    ("runtime: drops everything often, turned round", |bin| {
        goes_on(bin, [DROPS[1], DROPS[0]])
    }),
    ("runtime: the program limits its memory", limited_memory),
    (
        "runtime: a detached program locks its memory",
        locked_memory,
    ),
    ("runtime: is slow in the wrong places", |bin| {
        goes_on(bin, DELAYS)
    }),
    (
        "runtime: is slow in the wrong places, turned round",
        |bin| goes_on(bin, [DELAYS[1], DELAYS[0]]),
    ),
];

/// Tests of the nightly tier: each program under the option that it is not under in CI.
pub(crate) const NIGHTLY: [&str; 2] = [
    "runtime: drops everything often, turned round",
    "runtime: is slow in the wrong places, turned round",
];

const DROPS: [&str; 2] = ["evict=31", "evict=240,insns=3"];
const DELAYS: [&str; 2] = ["delay=20", "delay=50,insns=4"];

/// Programs with signals, threads, jumps, and code that they make, and their arguments.
const PROGRAMS: [(&str, &[&str]); 9] = [
    ("signal_async_delivery", &[]),
    ("signal_frames", &["nested"]),
    ("signal_frames", &["altstack"]),
    ("signal_storm", &[]),
    ("threads_signals", &[]),
    ("longjmp_deep", &[]),
    ("code_modifies_itself", &[]),
    ("code_jit_small", &[]),
    ("detached_memory", &["gs"]),
];

/// A shell that limits its address space, and then executes code that it has not executed before.
const LIMITED: &str = "ulimit -v 4000000; no_such_command 2>&1 | wc -l
for i in 1 2 3; do (echo $i); done; ls / | wc -l
f() { local a=(1 2 3); printf '%05d ' \"${a[@]}\"; echo \"${1//a/b}\" ${#a[@]}; }; f banana
case xyz in x*) echo $((3 ** 7 % 11));; esac; trap 'echo left' EXIT";

/// Checks that a limit on memory that the program sets counts nothing of ours: the shell does what it would have done, observed.
fn limited_memory(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let script = ["bash", "-c", LIMITED];
    let native = place.run(
        place
            .shell("exec \"$@\"")?
            .args([&["sh"][..], &script].concat()),
    )?;
    let options = ["record", "--no-persist", "-e", "none", "--"];
    let seen = place.run(&mut place.command(&[&options[..], &script].concat())?)?;
    if seen.stdout != native.stdout || seen.status != native.status {
        return Err(format!("{seen:?}\nin place of {native:?}"));
    }
    match seen.stderr.contains("nothing lost") && !seen.stderr.contains("internal error") {
        true => Ok(()),
        false => Err(seen.stderr),
    }
}

/// Locks all that it has, and prints whether that is less than two gigabytes.
const LOCKS: &str = "import ctypes, resource
ctypes.CDLL(None).mlockall(1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20)";

/// Checks that what was reserved and never used is not made present when a detached program locks all memory: it is 13 GB.
fn locked_memory(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let words = [
        "record",
        "--quiet",
        "-e",
        "none",
        "--",
        "/usr/bin/python3",
        "-Sc",
        LOCKS,
    ];
    let seen = place.run(place.command(&words)?.env("TROMMEL_STRESS", "leave=50"))?;
    let detached = seen.stderr.contains("stress option");
    match detached && seen.stdout == b"True\n" {
        true => Ok(()),
        false => Err(format!("{seen:?}")),
    }
}

/// Each of the programs natively, and under trommel with some stress.
fn each(
    bin: &Path,
    mut stress: impl FnMut(usize) -> String,
    check: impl Fn(&Ended, &Ended) -> Result<(), String>,
) -> Result<(), String> {
    for (n, (name, args)) in PROGRAMS.into_iter().enumerate() {
        let variant = (all().into_iter())
            .find(|v| v.source.file_stem().is_some_and(|s| s == name))
            .ok_or("a program is gone")?;
        let program = variant.build()?.to_string_lossy().into_owned();
        let place = Place::new(bin)?;
        let native = place.run(
            place
                .shell("exec \"$@\"")?
                .args([&["sh", &program], args].concat()),
        )?;
        let stress = stress(n);
        let words = [&["record", "--quiet", "--", &program], args].concat();
        let seen = place.run(place.command(&words)?.env("TROMMEL_STRESS", &stress))?;
        check(&native, &seen).map_err(|e| format!("{name} {args:?}, {stress}: {e}"))?;
    }
    Ok(())
}

fn same(native: &Ended, seen: &Ended) -> Result<(), String> {
    if (native.status, &native.stdout) == (seen.status, &seen.stdout) {
        return Ok(());
    }
    let text = |e: &Ended| format!("{} {}", e.status, String::from_utf8_lossy(&e.stdout));
    Err(format!(
        "{} became {}\n{}",
        text(native),
        text(seen),
        seen.stderr
    ))
}

/// Half of them by a fault, half by an assertion.
fn fails(bin: &Path, option: &str, most: u64) -> Result<(), String> {
    let mut chance = Chance::new();
    let stress = |n: usize| match most {
        0 => format!("{option}={}", [30, 300, 3000][n % 3]),
        _ => format!("{option}={}", 1 + chance.below(most)),
    };
    each(bin, stress, |native, seen| {
        same(native, seen)?;
        let told = seen.stderr.contains("internal error");
        let named = ["runtime raised signal", "+0x", "build ", "please report"];
        match named
            .iter()
            .find(|word| told && !seen.stderr.contains(**word))
        {
            Some(word) => Err(format!("does not say `{word}`: {}", seen.stderr)),
            None if !told && option == "fail-dispatch" => Err("nothing failed".into()),
            None => Ok(()),
        }
    })
}

/// Checks that the program ends by a signal where nothing can be saved, and that the reason is printed.
fn dies(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let variant = all()
        .into_iter()
        .find(|v| v.name.starts_with("signal_async_delivery"));
    let program = variant.ok_or("a program is gone")?.build()?;
    for (stress, signal) in [("fail-deliver=2", 11), ("fail-deliver=3", 4)] {
        let mut command =
            place.command(&["record", "--quiet", "--", &program.to_string_lossy()])?;
        let ended = place.run(command.env("TROMMEL_STRESS", stress))?;
        if ended.signal() != Some(signal) || !ended.stderr.contains("nothing can be saved") {
            return Err(format!("{stress}: {ended:?}"));
        }
    }
    Ok(())
}

fn detaches(bin: &Path) -> Result<(), String> {
    let mut chance = Chance::new();
    for most in [1, 900, 1500, 4000] {
        let stress = |_| format!("leave={}", 1 + chance.below(most));
        each(bin, stress, same)?;
    }
    Ok(())
}

/// Half of the programs under each of these options, by turns.
fn goes_on(bin: &Path, stress: [&str; 2]) -> Result<(), String> {
    each(bin, |n| stress[n % 2].to_owned(), same)
}
