//! Fragments of earlier runs: used where they are of the same code, and of no consequence where they are not.

#[path = "common/dir.rs"]
mod dir;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use dir::Dir;

/// A program with a table of functions, whose answer is in its code.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int by(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
int main(int argc, char **argv) {
    char *words[400];
    for (int i = 0; i < 400; i++) {
        words[i] = malloc(32);
        snprintf(words[i], 32, "%d-%s", (i * 7919) % 1000 + ADDED, argc > 1 ? argv[1] : "");
    }
    qsort(words, 400, sizeof *words, by);
    for (int i = 0; i < 400; i += 50) puts(words[i]);
    if (argc > 2) printf("%s %.3f %e %ls\n", argv[2], strtod(argv[2], 0), atof(argv[2]) * 3, L"wide");
    return 3;
}
"#;

/// Compiles it, so that it adds a number.
fn compile(dir: &Dir, added: u32) -> PathBuf {
    let (source, program) = (dir.0.join("p.c"), dir.0.join("p"));
    fs::write(&source, PROGRAM).expect("a file");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", &format!("-DADDED={added}"), "-o"]);
    let done = gcc.arg(&program).arg(&source).status();
    assert!(done.expect("gcc runs").success());
    program
}

fn caches(dir: &Dir) -> PathBuf {
    dir.0.join("caches")
}

/// All files beside the images, and these.
fn files(dir: &Dir) -> Vec<PathBuf> {
    let entries = fs::read_dir(caches(dir).join("trommel/fragments"));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn images(dir: &Dir) -> Vec<PathBuf> {
    let is_image = |path: &PathBuf| path.extension().is_some_and(|e| e == "fragments");
    files(dir).into_iter().filter(is_image).collect()
}

fn native(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).output().expect("the program runs")
}

/// Runs it under `trommel run`, which must not show, and returns how many fragments it had and how many of them were kept.
fn run(dir: &Dir, program: &Path, options: &[&str]) -> (u64, u64) {
    run_with(dir, program, options, &[])
}

/// Runs it without traces.
fn run_without_traces(dir: &Dir, program: &Path) -> (u64, u64) {
    run_stressed("no-traces", dir, program, &[], &[])
}

fn run_with(dir: &Dir, program: &Path, options: &[&str], arguments: &[&str]) -> (u64, u64) {
    run_stressed("", dir, program, options, arguments)
}

fn run_stressed(
    stress: &str,
    dir: &Dir,
    program: &Path,
    options: &[&str],
    arguments: &[&str],
) -> (u64, u64) {
    let stats = dir.0.join("stats");
    let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["run", "--no-bail-out", "--stats"])
        .arg(&stats)
        .args(options)
        .arg("--")
        .arg(program)
        .args(arguments)
        .env("XDG_CACHE_HOME", caches(dir))
        .env("TROMMEL_STRESS", stress)
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs");
    let said = String::from_utf8_lossy(&out.stderr);
    let native = native(program, arguments);
    assert_eq!(out.status.code(), native.status.code(), "{said}");
    assert!(out.stdout == native.stdout && said.is_empty(), "{said}");
    let stats = fs::read(stats).expect("statistics");
    let stats: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
    let of = |name: &str| stats["processes"][0][name].as_u64().expect("a number");
    (of("fragments"), of("kept_fragments"))
}

#[test]
fn the_second_run_takes_fragments_of_the_first() {
    let dir = Dir::new("kept-second");
    let program = compile(&dir, 0);
    let (made, kept) = run(&dir, &program, &[]);
    assert!(made > 500 && kept == 0, "{made} {kept}");
    let (all, kept) = run(&dir, &program, &[]);
    assert!(kept > all * 9 / 10, "{kept} of {all}");
    assert_eq!(run(&dir, &program, &["--no-persist"]).1, 0);
    // What traces are made of is laid out otherwise.
    assert_eq!(run_without_traces(&dir, &program).1, 0);
    let (all, kept) = run_without_traces(&dir, &program);
    assert!(kept > all * 9 / 10, "{kept} of {all}");
    assert_eq!(images(&dir).len(), 2);
    let nobody = files(&dir).iter().all(|image| {
        let mode = fs::metadata(image).expect("there").permissions().mode();
        mode & 0o77 == 0
    });
    assert!(nobody, "others may read what is kept");
}

#[test]
fn what_many_runs_have_made_is_kept_in_the_end() {
    let dir = Dir::new("kept-many");
    let program = compile(&dir, 0);
    run(&dir, &program, &[]);
    let more = || run_with(&dir, &program, &[], &["words", "2.5"]);
    // Each of these makes some of its fragments anew: less than a quarter of what is kept.
    let (all, kept) = more();
    assert!(kept < all - all / 20, "{kept} of {all} were kept at first");
    let (all, kept) = more();
    assert!(kept < all - all / 20, "{kept} of {all} were kept after one");
    for _ in 0..6 {
        more();
    }
    let (all, kept) = more();
    assert!(kept > all - all / 20, "{kept} of {all} in the end");
}

#[test]
fn a_program_that_was_made_anew_is_what_is_executed() {
    let dir = Dir::new("kept-anew");
    let program = compile(&dir, 0);
    run(&dir, &program, &[]);
    let before = native(&program, &[]);
    // In place, so that it has the inode of the old one.
    let other = Dir::new("kept-other");
    let new = compile(&other, 1000);
    fs::write(&program, fs::read(new).expect("there")).expect("written");
    assert!(native(&program, &[]).stdout != before.stdout);
    let (all, kept) = run(&dir, &program, &[]);
    assert!(
        0 < kept && kept < all,
        "libraries are the same: {kept} of {all}"
    );
    let (all, kept) = run(&dir, &program, &[]);
    assert!(kept > all * 9 / 10, "{kept} of {all}");
}

/// Records a program with its memory where it always is, and returns how often its edges, its calls, and its loads and calls by method
/// tables were executed.
fn counted(dir: &Dir, program: &Path, options: &[&str], stress: &str) -> [serde_json::Value; 4] {
    let data = dir.0.join("data");
    let trommel = |arguments: &[&str]| {
        let mut command = Command::new("setarch");
        command.arg("-R").arg(env!("CARGO_BIN_EXE_trommel"));
        command.args(arguments).arg(&data);
        command.env("XDG_CACHE_HOME", caches(dir));
        command.env("TROMMEL_STRESS", stress).stdin(Stdio::null());
        command
    };
    let out = trommel(&["record", "--quiet", "-o"])
        .args(options)
        .arg("--")
        .arg(program)
        .args(["words", "2.5"])
        .output()
        .expect("trommel runs");
    let native = native(program, &["words", "2.5"]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), native.status.code(), "{said}");
    assert!(out.stdout == native.stdout, "{said}");
    let out = trommel(&["report", "--json", "--no-debug-info"])
        .output()
        .expect("trommel runs");
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(report["run"]["dropped"], 0);
    // What a load finds may be another in each run, as a number of the process.
    let places = |list: &serde_json::Value| {
        let places = list.as_array().into_iter().flatten();
        let mut places: Vec<serde_json::Value> = places
            .map(|place| {
                serde_json::json!([
                    place["at"]["vaddr"],
                    place["at"]["module"],
                    place["executions"]
                ])
            })
            .collect();
        places.sort_by_key(ToString::to_string);
        serde_json::Value::from(places)
    };
    let [values, types] = ["values", "types"].map(|kind| places(&report[kind]));
    [
        report["edges"].clone(),
        report["calls"].clone(),
        values,
        types,
    ]
}

#[test]
fn what_is_kept_counts_as_what_is_made() {
    let dir = Dir::new("kept-counts");
    let program = compile(&dir, 0);
    let inodes = || {
        let of = |path: PathBuf| fs::metadata(path).expect("there").ino();
        images(&dir).into_iter().map(of).collect::<Vec<_>>()
    };
    // All have one length: the program counts the characters of its environment.
    let usual = "pages=4095,evict=4095";
    let stresses = [
        usual,
        "pages=4095,evict=0097",
        "pages=0040,evict=4095",
        "counters,pages=004095",
        "turn=031,delay=000009",
    ];
    let asked = [
        ("edge,call", "exact"),
        ("call", "exact"),
        ("edge,call", "H[P7]2048+A16"),
        ("edge,call", "H:crc[P256]1024"),
        ("edge", "P300"),
        // Each event is a message.
        ("edge,call,value,type", "H:crc[P1]64"),
        ("value", "H:crc[P1]2048+A16"),
        ("value", "P1"),
        // In value counters.
        ("edge,call,value", "exact"),
        ("value,type", "exact"),
    ];
    for (n, (kinds, spec)) in asked.into_iter().enumerate() {
        let asked = ["-e", kinds, "-c", spec];
        let options = [&asked[..], &["--no-persist"]].concat();
        let made = counted(&dir, &program, &options, usual);
        assert_eq!(inodes().len(), n);
        if kinds.contains("value") {
            assert!(made[2].as_array().is_some_and(|all| all.len() > 1000));
        }
        assert!(counted(&dir, &program, &asked, usual) == made, "{asked:?}");
        let kept = inodes();
        assert_eq!(kept.len(), n + 1, "nothing is kept");
        // Each kind in two ways of the five, each way with four kinds.
        for stress in [0, 1].map(|k| stresses[(2 * n + k) % stresses.len()]) {
            // With few counters what a sampler counts is recorded from some time on, and counted beside.
            if spec != "exact" && stress.contains("counters") {
                continue;
            }
            let again = counted(&dir, &program, &asked, stress);
            assert!(again == made, "{asked:?} under {stress}");
        }
        // Had they not been used, others would have taken their place.
        assert_eq!(inodes(), kept);
    }
}

#[test]
fn what_is_damaged_is_made_anew() {
    let dir = Dir::new("kept-damaged");
    let program = compile(&dir, 0);
    run(&dir, &program, &[]);
    let image = images(&dir).pop().expect("kept");
    let whole = fs::read(&image).expect("there");
    let mut x = 7_u64;
    let mut some = 0;
    let times = std::env::var("TROMMEL_DAMAGES");
    let times = times.map_or(40, |n| n.parse().expect("a number"));
    for n in 0..times {
        let mut bytes = whole.clone();
        // A few bits anywhere, many in the front, or the end cut off.
        for _ in 0..1 << (n % 7) {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let range = if n % 2 == 0 { bytes.len() } else { 4096 };
            bytes[(x >> 20) as usize % range] ^= 1 << (x >> 60 & 7);
        }
        if n % 5 == 4 {
            bytes.truncate((x >> 20) as usize % whole.len());
        }
        // A new file each time, as who keeps them makes one.
        fs::remove_file(&image).expect("there");
        fs::write(&image, bytes).expect("written");
        fs::set_permissions(&image, fs::Permissions::from_mode(0o600)).expect("ours");
        some += u64::from(run(&dir, &program, &[]).1 > 0);
    }
    assert!(some > 5, "what is whole is used: {some}");
}

#[test]
fn what_others_can_write_to_is_not_used() {
    let dir = Dir::new("kept-others");
    let program = compile(&dir, 0);
    run(&dir, &program, &[]);
    let image = images(&dir).pop().expect("kept");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    mode(&image, 0o622);
    assert_eq!(run(&dir, &program, &[]).1, 0);
    let image = images(&dir).pop().expect("kept");
    mode(&image, 0o600);
    assert!(run(&dir, &program, &[]).1 > 0);
    let directory = image.parent().expect("it has one").to_owned();
    mode(&directory, 0o777);
    assert_eq!(run(&dir, &program, &[]).1, 0);
    mode(&directory, 0o700);
    // A link to an image is none.
    let elsewhere = dir.0.join("elsewhere");
    fs::rename(&image, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &image).expect("a link");
    assert_eq!(run(&dir, &program, &[]).1, 0);
    // No directory can be made.
    let file = Dir::new("kept-file");
    fs::write(caches(&file), "").expect("written");
    assert_eq!(run(&file, &program, &[]).1, 0);
}

/// Runs a script, and returns how many fragments each process of `program` in it had from earlier runs.
fn kept_in(dir: &Dir, script: &str, program: &Path) -> Vec<u64> {
    let stats = dir.0.join("stats");
    let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["run", "--no-bail-out", "--stats"])
        .arg(&stats)
        .args(["--", "sh", "-c", script])
        .env("XDG_CACHE_HOME", caches(dir))
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs");
    assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
    let stats = fs::read(&stats).expect("statistics");
    let stats: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
    let processes = stats["processes"].as_array().expect("a list");
    let of = |p: &serde_json::Value| p["kept_fragments"].as_u64().expect("a number");
    let by_program = |p: &&serde_json::Value| {
        let word = p["command"][0].as_str().expect("a word");
        Path::new(word) == program
    };
    processes.iter().filter(by_program).map(of).collect()
}

#[test]
fn children_have_fragments_of_their_own_programs() {
    let dir = Dir::new("kept-children");
    let program = compile(&dir, 0);
    let script = format!("{} a; {} b; true", program.display(), program.display());
    let first = kept_in(&dir, &script, &program);
    let second = kept_in(&dir, &script, &program);
    // The second child of the first run has those of the first child.
    assert!(first.iter().max() > Some(&100), "{first:?}");
    assert!(
        second.iter().filter(|&&n| n > 100).count() >= 2,
        "{second:?}"
    );
}

#[test]
fn nothing_is_kept_of_a_child_with_other_rights() {
    let dir = Dir::new("kept-rights");
    let program = compile(&dir, 0);
    let script = format!("setpriv --no-new-privs {} a; true", program.display());
    for _ in 0..2 {
        let kept = kept_in(&dir, &script, &program);
        assert!(!kept.is_empty() && kept.iter().all(|&n| n == 0), "{kept:?}");
    }
}
