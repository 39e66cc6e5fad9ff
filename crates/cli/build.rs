//! Compresses the documents into one file, which `trommel help TOPIC` shows.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Files that documents name, from the root of the repository: people who have the program alone can print them.
const FILES: [&str; 8] = [
    "examples/export/words.c",
    "examples/module/strides.c",
    "examples/service/edges.c",
    "examples/service/follow.c",
    "examples/service/hot.c",
    "include/trommel.h",
    "include/trommel_module.h",
    "include/trommel_service.h",
];

/// Documents for people who work on Trommel itself.
const INTERNAL: [&str; 3] = ["conformance", "testing", "README"];

fn main() {
    if let Err(error) = pack() {
        panic!("the documents cannot be packed: {error}");
    }
}

/// Writes each document as its name, its length in bytes and its text, all compressed together.
fn pack() -> Result<(), Box<dyn std::error::Error>> {
    let docs = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("../../docs");
    // Relative, so that a checkout that was moved or copied watches its own files.
    println!("cargo::rerun-if-changed=../../docs");
    let mut names = Vec::new();
    for entry in fs::read_dir(&docs)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        if path.extension().is_some_and(|kind| kind == "md")
            && let Some(name) = name
            && !INTERNAL.contains(&name)
        {
            names.push((name.to_owned(), path));
        }
    }
    for file in FILES {
        println!("cargo::rerun-if-changed=../../{file}");
        let path = docs.join("..").join(file);
        let name = path.file_name().and_then(|name| name.to_str());
        names.push((name.unwrap_or(file).to_owned(), path));
    }
    names.sort();
    let out = Path::new(&std::env::var("OUT_DIR")?).join("topics.z");
    let mut out = ZlibEncoder::new(fs::File::create(out)?, Compression::best());
    for (name, path) in names {
        let text = fs::read_to_string(path)?;
        writeln!(out, "{name} {}", text.len())?;
        out.write_all(text.as_bytes())?;
    }
    out.finish()?;
    Ok(())
}
