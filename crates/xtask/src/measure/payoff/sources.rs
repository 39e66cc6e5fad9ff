//! The programs of the table: where their sources are, and what they are run with.
//!
//! Sources of sqlite and Lua are those in crates that bring them along, fetched once by cargo.

use std::path::PathBuf;

use trommel_conformance::exec::workspace;

use crate::common::cargo;

/// A program of the table.
pub(super) struct Subject {
    pub(super) name: &'static str,
    work: Work,
    pub(super) flags: &'static [&'static str],
    /// Built as a library, which a driver uses.
    pub(super) library: bool,
    train: &'static [&'static str],
    reference: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Words,
    Sqlite,
    Lua,
    Shapes,
}

const FIXED: &[&str] = &["-fno-pie", "-no-pie"];
// Training takes some seconds, which budgets need; callgrind takes fifty times as long as a run.
const SQLITE_TRAIN: &[&str] = &["80", "4000", "0"];
const SQLITE_REFERENCE: &[&str] = &["10", "5000", "1"];

const fn sqlite(name: &'static str, flags: &'static [&'static str], library: bool) -> Subject {
    Subject {
        name,
        work: Work::Sqlite,
        flags,
        library,
        train: SQLITE_TRAIN,
        reference: SQLITE_REFERENCE,
    }
}

pub(super) const SUBJECTS: [Subject; 6] = [
    sqlite("sqlite", FIXED, false),
    sqlite("sqlite-pie", &["-fPIE", "-pie"], false),
    sqlite("sqlite-so", &["-fPIC"], true),
    Subject {
        name: "lua",
        work: Work::Lua,
        flags: FIXED,
        library: false,
        train: &["1000", "0"],
        reference: &["100", "1"],
    },
    Subject {
        name: "shapes (C++)",
        work: Work::Shapes,
        flags: FIXED,
        library: false,
        train: &["20000", "0"],
        reference: &["3000", "1"],
    },
    Subject {
        name: "words",
        work: Work::Words,
        flags: FIXED,
        library: false,
        train: &["4000"],
        reference: &["100"],
    },
];

impl Subject {
    /// The name on the command line.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name.split(' ').next() == Some(name)
    }

    pub(super) fn compiler(&self) -> &'static str {
        match self.work {
            Work::Shapes => "clang++",
            _ => "clang",
        }
    }

    /// Source files of what is optimised, then those of its driver.
    pub(super) fn sources(&self) -> Result<(Vec<PathBuf>, Vec<PathBuf>), String> {
        let here = workspace().join("crates/xtask/src/measure/payoff");
        Ok(match self.work {
            Work::Words => (
                Vec::new(),
                vec![workspace().join("examples/export/words.c")],
            ),
            Work::Shapes => (Vec::new(), vec![here.join("shapes.cpp")]),
            Work::Sqlite => {
                let source = fetched()?.join("libsqlite3-sys/sqlite3/sqlite3.c");
                (vec![source], vec![here.join("sqlite.c")])
            }
            Work::Lua => {
                let files = std::fs::read_dir(lua()?).map_err(|e| e.to_string())?;
                let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
                files.retain(|file| file.extension().is_some_and(|e| e == "c"));
                files.sort();
                (files, vec![here.join("lua.c")])
            }
        })
    }

    /// Options of the compiler that the sources need.
    pub(super) fn options(&self) -> Result<Vec<String>, String> {
        Ok(match self.work {
            Work::Sqlite => vec![
                "-DSQLITE_THREADSAFE=0".into(),
                "-DSQLITE_OMIT_LOAD_EXTENSION".into(),
            ],
            Work::Lua => vec!["-DLUA_USE_POSIX".into(), format!("-I{}", lua()?.display())],
            _ => Vec::new(),
        })
    }

    /// Arguments of training, with so many times as many rounds as usual.
    pub(super) fn train(&self, times: u32) -> Vec<String> {
        self.arguments(self.train, times)
    }

    pub(super) fn reference(&self) -> Vec<String> {
        self.arguments(self.reference, 1)
    }

    /// The first of `given` says how many rounds.
    fn arguments(&self, given: &[&str], times: u32) -> Vec<String> {
        let script = workspace().join("crates/xtask/src/measure/payoff/work.lua");
        let script = (self.work == Work::Lua).then(|| script.to_string_lossy().into_owned());
        let given = given.iter().enumerate().map(|(n, argument)| {
            let rounds = argument.parse::<u32>().ok().filter(|_| n == 0);
            rounds.map_or((*argument).to_owned(), |rounds| {
                (rounds * times).to_string()
            })
        });
        script.into_iter().chain(given).collect()
    }
}

fn lua() -> Result<PathBuf, String> {
    Ok(fetched()?.join("lua-src/lua-5.4.9"))
}

/// The crates with sources, unpacked.
fn fetched() -> Result<PathBuf, String> {
    let dir = workspace().join("target/payoff");
    let vendor = dir.join("vendor");
    if vendor.join("lua-src").is_dir() {
        return Ok(vendor);
    }
    std::fs::create_dir_all(dir.join("src")).map_err(|e| e.to_string())?;
    let manifest = "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\n\n[workspace]\n\n\
                    [dependencies]\nlibsqlite3-sys = \"=0.30.1\"\nlua-src = \"=551.1.0\"\n";
    for (name, text) in [("Cargo.toml", manifest), ("src/lib.rs", "")] {
        std::fs::write(dir.join(name), text).map_err(|e| e.to_string())?;
    }
    cargo(&dir, "vendor --quiet vendor", &[])?;
    Ok(vendor)
}
