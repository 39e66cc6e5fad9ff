//! Formats for compilers and for optimisers of binaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{output, trommel};

use super::{Test, llvm, llvms, run, said, text};
use trommel_conformance::recorded::{Recorded, source};

pub(super) const ALL: &[(&str, Test)] = &[
    ("bolt: llvm-bolt accepts all of an executable", || {
        bolt(false, &[])
    }),
    ("bolt: llvm-bolt accepts all of a PIE", || bolt(true, &[])),
    (
        "bolt: llvm-bolt accepts all of what a linker compiled",
        || bolt(true, &["-flto"]),
    ),
    ("bolt-preagg: perf2bolt finds no mismatch", || {
        preaggregated(false)
    }),
    ("bolt-preagg: perf2bolt finds no mismatch in a PIE", || {
        preaggregated(true)
    }),
    ("autofdo: as llvm-profgen makes it of profgen", autofdo),
    (
        "gcov-autofdo: gcc reads it and makes the program shorter",
        gcov,
    ),
];

/// The program as clang builds it for BOLT.
pub(super) fn by_clang(pie: bool, test: &str) -> Result<Option<Recorded>, String> {
    by_clang_with(pie, &[], test)
}

fn by_clang_with(pie: bool, more: &[&str], test: &str) -> Result<Option<Recorded>, String> {
    let (Some(clang), Some(lld)) = (llvm("clang", test), llvm("ld.lld", test)) else {
        return Ok(None);
    };
    let linker = format!("-fuse-ld={}", text(&lld));
    let kind = if pie {
        ["-fPIE", "-pie"]
    } else {
        ["-fno-pie", "-no-pie"]
    };
    let mut flags = vec![
        "-O2",
        "-g",
        "-fdebug-info-for-profiling",
        "-Wl,--emit-relocs",
        "-Wl,--build-id",
        &linker,
    ];
    flags.extend(kind);
    flags.extend(more);
    Recorded::new(&text(&clang), &flags).map(Some)
}

/// Taken branches of a program, by its own exact profile.
pub(super) fn taken(program: &Path, dir: &Path) -> Result<u64, String> {
    let data = dir.join("taken.data");
    let mut record = Command::new(trommel());
    output(
        record
            .args(["record", "-e", "edge,call", "-o"])
            .arg(&data)
            .arg("--")
            .arg(program),
    )?;
    let name = program
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let table = run(
        trommel(),
        &[
            "export",
            "-f",
            "csv",
            "-o",
            "-",
            "--module",
            &name,
            &text(&data),
        ],
        dir,
    )?;
    let is = |line: &&str| {
        ["taken,", "jump,", "indirect,", "call,"]
            .iter()
            .any(|way| line.starts_with(way))
    };
    let count = |line: &str| {
        line.trim_end_matches(',')
            .rsplit(',')
            .next()?
            .parse::<u64>()
            .ok()
    };
    Ok(table.lines().filter(is).filter_map(count).sum())
}

/// Rewrites the program, and requires that all of the profile is used. Returns the path of the new program.
pub(super) fn accepted(
    recorded: &Recorded,
    bolt: &Path,
    profile: &Path,
) -> Result<PathBuf, String> {
    let out = recorded.scratch.path("rewritten");
    let mut command = Command::new(bolt);
    command
        .arg(&recorded.program)
        .arg("-o")
        .arg(&out)
        .arg(format!("--data={}", text(profile)));
    command.args(["--reorder-blocks=ext-tsp", "--reorder-functions=hfsort"]);
    let printed = said(&mut command)?;
    let bad = ["stale", "invalid (possibly", "mismatch", "was ignored"];
    let is_bad = |line: &&str| {
        bad.iter().any(|word| line.contains(word)) && !line.contains("profile for 1 objects")
    };
    if let Some(line) = printed.lines().find(is_bad) {
        return Err(format!("{line}\n{printed}"));
    }
    if !printed.contains("non-empty execution profile") {
        return Err(format!("no function has a profile:\n{printed}"));
    }
    Ok(out)
}

/// Rewrites the program, and requires that it does the same, and takes fewer branches.
fn rewritten(recorded: &Recorded, bolt: &Path, profile: &Path) -> Result<(), String> {
    let out = accepted(recorded, bolt, profile)?;
    let dir = recorded.scratch.dir();
    let (before, after) = (run(&recorded.program, &[], dir)?, run(&out, &[], dir)?);
    if before != after {
        return Err(format!("it prints {after} in place of {before}"));
    }
    let (before, after) = (taken(&recorded.program, dir)?, taken(&out, dir)?);
    match after < before && after > 0 {
        true => Ok(()),
        false => Err(format!("{after} taken branches after, {before} before")),
    }
}

fn bolt(pie: bool, more: &[&str]) -> Result<(), String> {
    let all = llvms("llvm-bolt", "bolt");
    let (false, Some(recorded)) = (all.is_empty(), by_clang_with(pie, more, "bolt")?) else {
        return Ok(());
    };
    let profile = recorded.export("bolt", &[])?;
    for bolt in all {
        rewritten(&recorded, &bolt, &profile).map_err(|e| format!("{}: {e}", bolt.display()))?;
    }
    Ok(())
}

fn preaggregated(pie: bool) -> Result<(), String> {
    let test = "bolt-preagg";
    let all = llvms("perf2bolt", test);
    let (false, Some(recorded)) = (all.is_empty(), by_clang(pie, test)?) else {
        return Ok(());
    };
    let profile = recorded.export(test, &[])?;
    let out = recorded.scratch.path("converted.fdata");
    for perf2bolt in all {
        let of = |e| format!("{}: {e}", perf2bolt.display());
        let mut command = Command::new(&perf2bolt);
        command
            .arg("-pa")
            .arg("-p")
            .arg(&profile)
            .arg("-o")
            .arg(&out);
        let printed = said(command.arg(&recorded.program)).map_err(of)?;
        let wanted = "traces mismatching disassembled function contents: 0";
        if !printed.contains(wanted) {
            return Err(of(printed));
        }
        rewritten(&recorded, &perf2bolt.with_file_name("llvm-bolt"), &out).map_err(of)?;
    }
    Ok(())
}

fn autofdo() -> Result<(), String> {
    let test = "autofdo";
    let (Some(profgen), Some(profdata)) = (llvm("llvm-profgen", test), llvm("llvm-profdata", test))
    else {
        return Ok(());
    };
    let (Some(clang), Some(recorded)) = (llvm("clang", test), by_clang(true, test)?) else {
        return Ok(());
    };
    let dir = recorded.scratch.dir();
    let unsymbolised = recorded.export("profgen", &[])?;
    run(
        &profgen,
        &[
            &format!("--unsymbolized-profile={}", text(&unsymbolised)),
            &format!("--binary={}", text(&recorded.program)),
            "--output=theirs.prof",
        ],
        dir,
    )?;
    for format in ["autofdo", "autofdo-extbinary"] {
        let ours = text(&recorded.export(format, &[])?);
        run(
            &profdata,
            &["merge", "--sample", &ours, "-o", "merged.prof"],
            dir,
        )?;
        let printed = run(
            &profdata,
            &["overlap", "--sample", "theirs.prof", &ours],
            dir,
        )?;
        let overlap = printed
            .lines()
            .find_map(|line| line.trim().strip_prefix("Whole program sample overlap: "));
        let overlap = overlap.and_then(|text| text.trim_end_matches('%').parse::<f64>().ok());
        if overlap.is_none_or(|overlap| overlap < 98.0) {
            return Err(format!("{format}: overlap {overlap:?}\n{printed}"));
        }
        let use_it = format!("-fprofile-sample-use={ours}");
        let mut build = Command::new(&clang);
        build
            .args(["-O2", "-g", &use_it, "-o"])
            .arg(recorded.scratch.path("rebuilt"))
            .arg(source());
        let printed = said(&mut build)?;
        if printed.contains("warning") {
            return Err(format!("{format}: {printed}"));
        }
        let (before, after) = (
            run(&recorded.program, &[], dir)?,
            run(&recorded.scratch.path("rebuilt"), &[], dir)?,
        );
        if before != after {
            return Err(format!("{format}: it prints {after} in place of {before}"));
        }
    }
    Ok(())
}

fn gcov() -> Result<(), String> {
    let recorded = Recorded::new("gcc", &["-O2", "-g"])?;
    let profile = recorded.export("gcov-autofdo", &[])?;
    let out = recorded.scratch.path("rebuilt");
    let mut build = Command::new("gcc");
    build
        .args([
            "-O2",
            "-g",
            &format!("-fauto-profile={}", text(&profile)),
            "-o",
        ])
        .arg(&out)
        .arg(source());
    let printed = said(&mut build)?;
    if !printed.is_empty() {
        return Err(printed);
    }
    let dir = recorded.scratch.dir();
    let (before, after) = (taken(&recorded.program, dir)?, taken(&out, dir)?);
    let size = fs::metadata(&profile).map_err(|e| e.to_string())?.len();
    match after < before && size > 100 {
        true => Ok(()),
        false => Err(format!(
            "{after} taken branches after, {before} before; {size} bytes"
        )),
    }
}
