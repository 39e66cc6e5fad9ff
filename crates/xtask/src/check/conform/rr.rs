//! rr's test programs: how they end, and what they print.
//!
//! `--from` names a source tree of rr (its test programs are in `src/test`). Each is built once, as rr's own build does.
//! What rr would record of it is no matter here. A name is a program (`signal_frame`, `x86/cpuid`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trommel_conformance::exec::cache_dir;

use super::program::{self, Program};
use super::{Way, all, compile, shell};
use crate::common::trommel;

/// Longest time of a native run. Some programs wait for a tracer.
const LIMIT: Duration = Duration::from_secs(8);
/// Programs that change the whole machine, or start processes for ever where they have no arguments.
const SKIPPED: [&str; 3] = ["mmap_shared_extern", "reboot", "sysctl"];
/// Call by which programs end who has started them: here that is this command.
const KILLS_PARENT: &str = "kill(getppid()";

struct Test {
    /// `.`, or the directory for this processor.
    group: &'static str,
    name: String,
}

impl Test {
    fn label(&self) -> String {
        match self.group {
            "." => self.name.clone(),
            group => format!("{group}/{}", self.name),
        }
    }
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let tree = from.ok_or("--from DIR: a source tree of rr")?;
    let sources = tree.join("src/test");
    let mut tests = Vec::new();
    for group in [".", "x86"] {
        let dir = sources.join(group);
        let entries = fs::read_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let stem = path.file_stem().unwrap_or_default();
            let name = stem.to_string_lossy().into_owned();
            let test = Test { group, name };
            let text = fs::read(&path).unwrap_or_default();
            let kills = String::from_utf8_lossy(&text).contains(KILLS_PARENT);
            let wanted = match names.is_empty() {
                true => !kills && !SKIPPED.contains(&test.name.as_str()),
                false => names.contains(&test.label()),
            };
            if path.extension().is_some_and(|e| e == "c") && wanted {
                tests.push(test);
            }
        }
    }
    tests.sort_by_key(Test::label);
    let built = cache_dir().join("conform/rr");
    generate(&tree, &built)?;
    let group = |test: &Test| match test.group {
        "." => "programs".to_owned(),
        group => format!("of {group}"),
    };
    let label = |test: &Test| (group(test), test.label());
    all(&tests, 2, label, |test| {
        let program = Program {
            path: build(test, &sources, &built)?,
            arguments: Vec::new(),
            limit: LIMIT,
        };
        program::judge(bin, ways, &program)
    })
}

/// Makes the headers that rr's build makes, unless they are there.
fn generate(tree: &Path, built: &Path) -> Result<(), String> {
    shell(
        r#"mkdir -p "$2" && cd "$2" && for f in SyscallEnumsForTestsX64 SyscallEnumsX64; do
           [ -e $f.generated ] || python3 "$1/src/generate_syscalls.py" $f.generated; done"#,
        &[tree.as_os_str(), built.as_os_str()],
    )
    .map(drop)
}

/// Builds a program unless it is there.
fn build(test: &Test, sources: &Path, built: &Path) -> Result<PathBuf, String> {
    let out = built.join(test.label().replace('/', "-"));
    if out.exists() {
        return Ok(out);
    }
    let tree = sources.join("../..");
    compile(
        |gcc| {
            gcc.args(["-O0", "-g", "-std=gnu11", "-pthread"])
                .args(["-msse2", "-D__MMX__", "-D__SSE__", "-D__SSE2__"])
                .arg("-D_FILE_OFFSET_BITS=64");
            for dir in ["src/test", "include", "src", "src/preload"] {
                gcc.arg("-I").arg(tree.join(dir));
            }
            gcc.arg("-I")
                .arg(built)
                .arg(sources.join(test.group).join(format!("{}.c", test.name)))
                .args(["-lrt", "-ldl", "-lutil", "-lm"]);
        },
        &out,
    )?;
    Ok(out)
}
