//! Same behaviour at full size: every workload of the corpus, and tools that write files, with
//! outputs, exit status and all files compared, natively and as [`WAYS`] say, or with `--run` as [`TRACED`] do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use trommel_conformance::exec::Scratch;

use crate::common::trommel;
use crate::corpus::{names, script};
use crate::ways::{COUNTED, FROM_START, KEPT, LATE, Recorded, SAMPLED, STRESSED, Traced};

/// Ways to record each workload.
const WAYS: [Recorded; 5] = [
    ("", &["-e", "none"]),
    ("", &[]),
    ("", &["-e", "edge,call,value,type", "-c", "H[P256]2048+A16"]),
    COUNTED,
    SAMPLED,
];

/// Ways to run it under `run`.
const TRACED: [Traced; 6] = [
    FROM_START,
    LATE,
    KEPT,
    ("trace,evict=3989", KEPT.1),
    STRESSED,
    (
        "trace",
        &["--no-bail-out", "--opt", "aggressive", "--cache", "512k"],
    ),
];

/// Tools by name, as shell commands run in an empty directory: `$O` goes before the tool, `$C` is
/// the corpus. What they leave in the directory is compared.
const TOOLS: [(&str, &str); 15] = [
    ("ls", "$O ls -lR --time-style=+%s /usr > out"),
    ("gcc-c", "$O gcc -O2 -w -c -o sqlite.o \"$C\"/sqlite3.c"),
    (
        "cc1",
        "$O $(gcc -print-prog-name=cc1) -quiet -fpreprocessed \"$C\"/sq_part.i -w -O2 -o out.s",
    ),
    ("gzip-k", "cp \"$C\"/text4m.txt t; $O gzip -9 -n -k t"),
    (
        "gunzip-k",
        "gzip -n -c \"$C\"/text4m.txt > t.gz; $O gzip -dk t.gz",
    ),
    (
        "bzip2-k",
        "head -c 1000000 \"$C\"/text4m.txt > t; $O bzip2 -k t",
    ),
    (
        "xz-k",
        "head -c 300000 \"$C\"/text4m.txt > t; $O xz -T1 -6 -k t",
    ),
    (
        "zstd-k",
        "head -c 2000000 \"$C\"/text4m.txt > t; $O zstd --single-thread -q -12 t",
    ),
    ("sort-o", "$O sort --parallel=1 -o sorted \"$C\"/text4m.txt"),
    (
        "sha256sum",
        "$O sha256sum \"$C\"/*.txt \"$C\"/sqlite3.c > sums",
    ),
    (
        "gawk-f",
        "$O gawk '{ print $1 > \"words\"; n[length($0)]++ } END { for (i = 0; i < 200; i++) print i, n[i] > \"lengths\" }' \"$C\"/sqlite3.c",
    ),
    (
        "perl-f",
        "$O perl -e 'open O, \">\", \"out\"; while (<>) { print O scalar reverse }' \"$C\"/sqlite3.c",
    ),
    (
        "python-f",
        "$O /usr/bin/python3 -c 'import sys,json; json.dump(sorted(set(open(sys.argv[1]).read().split())), open(\"out\", \"w\"))' \"$C\"/sqlite3.c",
    ),
    (
        "lua-f",
        "$O lua5.4 -e 'local o = io.open(\"out\", \"w\"); for l in io.lines(arg[1]) do o:write(l:upper(), \"\\n\") end o:close() os.exit(3)' \"$C\"/sqlite3.c",
    ),
    (
        "sqlite-f",
        "$O sqlite3 -batch db.sqlite < \"$C\"/bench_s.sql > out; $O sqlite3 db.sqlite .dump > dump",
    ),
];

/// Stands for the profile's file.
const DATA: &str = "DATA";

/// Results of a run.
#[derive(PartialEq, Eq)]
struct Left {
    status: ExitStatus,
    /// Standard output and error, and every file of the directory.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Compares full-size workloads and tools: same output, files and exit status.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask check corpus --run gzip gcc-c")]
pub(crate) struct Args {
    /// Run them under `trommel run` instead of `trommel record`.
    #[arg(long)]
    run: bool,
    /// Workloads and tools; all if none is named.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &Args) -> Result<(), String> {
    let bin = trommel().to_string_lossy().into_owned();
    let mut failed = Vec::new();
    let mut all = args.names.clone();
    let words = |list: &[&str]| -> Vec<String> { list.iter().map(|s| (*s).to_owned()).collect() };
    let (all_ways, command): (&[Traced], _) = match args.run {
        true => (&TRACED, words(&[&bin, "run"])),
        false => (&WAYS, words(&[&bin, "record", "--quiet", "-o", DATA])),
    };
    let way = |(stress, options): &Traced| {
        let stress = format!("TROMMEL_STRESS={stress}");
        let name = format!("{} {} {stress}", command[1], options.join(" "));
        let prefix = [words(&["env", &stress]), command.clone(), words(options)];
        (name, prefix.concat())
    };
    let ways: Vec<(String, Vec<String>)> = all_ways.iter().map(way).collect();
    if all.is_empty() {
        let threads = |n: &str| matches!(n, "xz_T2" | "zstd_T2" | "node" | "java");
        all = names(&[], |n| !n.ends_with("_s") && !threads(n))?;
        all.extend(TOOLS.iter().map(|(name, _)| (*name).to_owned()));
    }
    for name in &all {
        let (native, took) = leave(name, &[])?;
        for (way, prefix) in &ways {
            let data = Scratch::new().map_err(|e| e.to_string())?;
            let data = data.path("data").to_string_lossy().into_owned();
            let filled = prefix.iter().map(|word| match word == DATA {
                true => data.clone(),
                false => word.clone(),
            });
            let prefix: Vec<String> = filled.chain(["--".to_owned()]).collect();
            let (seen, slower) = leave(name, &prefix)?;
            let difference = difference(&native, &seen);
            println!(
                "{name:<12} {:<9} {took:>6.2} s native, {slower:>6.2} s with {way}",
                if difference.is_none() {
                    "same"
                } else {
                    "DIFFERENT"
                },
            );
            failed.extend(difference.map(|d| format!("{name} {way}: {d}")));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n  ")),
    }
}

/// Runs a workload or tool in a directory of its own; also gives the seconds it took.
fn leave(name: &str, prefix: &[String]) -> Result<(Left, f64), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let mut command = Command::new("timeout");
    command.arg("1800");
    match TOOLS.iter().find(|(n, _)| *n == name) {
        Some((_, line)) => {
            let home = std::env::var("HOME").unwrap_or_default();
            let corpus = std::env::var("TROMMEL_CORPUS")
                .unwrap_or_else(|_| format!("{home}/.cache/trommel-corpus"));
            command.args(["bash", "-c", line]).env("C", corpus);
            command
                .env("O", prefix.join(" "))
                .current_dir(scratch.dir());
        }
        None => {
            command.arg(script()?).arg(name).args(prefix);
            command.env("CORPUS_OUT", scratch.path("stdout"));
        }
    }
    let errors = fs::File::create(scratch.path("stderr")).map_err(|e| e.to_string())?;
    let started = Instant::now();
    let status = command
        .env("PERL_HASH_SEED", "0")
        .env("PYTHONHASHSEED", "0")
        .env("LC_ALL", "C")
        .stderr(errors)
        .status()
        .map_err(|e| e.to_string())?;
    let took = started.elapsed().as_secs_f64();
    let mut files = BTreeMap::new();
    contents(scratch.dir(), scratch.dir(), &mut files)?;
    // Marked lines are ours, such as that children run natively.
    if let Some(text) = files.get_mut(Path::new("stderr")) {
        let theirs = text.split_inclusive(|b| *b == b'\n');
        let theirs = theirs.filter(|line| !line.starts_with(b"trommel:"));
        *text = theirs.flatten().copied().collect();
    }
    Ok((Left { status, files }, took))
}

fn contents(top: &Path, dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> Result<(), String> {
    for entry in fs::read_dir(dir).map_err(|e| e.to_string())?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            contents(top, &path, files)?;
            continue;
        }
        let bytes = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.strip_prefix(top).unwrap_or(&path).to_path_buf();
        files.insert(name, bytes);
    }
    Ok(())
}

fn difference(native: &Left, seen: &Left) -> Option<String> {
    if native.status != seen.status {
        return Some(format!("native {}, here {}", native.status, seen.status));
    }
    let names = native.files.keys().chain(seen.files.keys());
    let mut other = names.filter(|name| native.files.get(*name) != seen.files.get(*name));
    other
        .next()
        .map(|name| format!("{} differs", name.display()))
}
