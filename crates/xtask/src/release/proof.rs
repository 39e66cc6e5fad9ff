//! Proof of a release: packages are unpacked, what is in them is run, and two builds are compared.

use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_conformance::exec::{Scratch, output, which};

use super::Product;

/// Unpacks a package or tarball, and runs the program that is in it, if there is one.
pub(super) fn unpacked(package: &Path) -> Result<(), String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let deb = package.extension().is_some_and(|e| e == "deb");
    if deb && which("dpkg-deb").is_none() {
        println!("no dpkg-deb here: {} is not unpacked", package.display());
        return Ok(());
    }
    let mut unpack = Command::new(if deb { "dpkg-deb" } else { "tar" });
    unpack
        .args(if deb { ["-x"] } else { ["-xzf"] })
        .arg(package);
    unpack
        .args(if deb { &[][..] } else { &["-C"] })
        .arg(scratch.dir());
    output(&mut unpack)?;
    let Some(program) = program(scratch.dir(), deb) else {
        return Ok(());
    };
    let version = output(Command::new(&program).arg("--version"))?;
    let mut record = Command::new(&program);
    record.args(["record", "-o"]).arg(scratch.path("data"));
    output(record.args(["--", "true"]).current_dir(scratch.dir()))?;
    println!(
        "{}: {}, and `record -- true` works",
        package.display(),
        version.trim()
    );
    Ok(())
}

/// The program below `dir`.
fn program(dir: &Path, deb: bool) -> Option<PathBuf> {
    let top = match deb {
        true => dir.join("usr"),
        false => std::fs::read_dir(dir).ok()?.flatten().next()?.path(),
    };
    Some(top.join("bin/trommel")).filter(|path| path.exists())
}

/// Compares the products of two builds.
pub(super) fn same(first: &[Product], second: &[Product]) -> Result<(), String> {
    for ((name, one), (_, other)) in first.iter().zip(second) {
        if one != other {
            let at = one.iter().zip(other).position(|(a, b)| a != b);
            return Err(format!(
                "{name} differs between two builds, from byte {} of {} and {}",
                at.unwrap_or(one.len().min(other.len())),
                one.len(),
                other.len()
            ));
        }
    }
    Ok(())
}
