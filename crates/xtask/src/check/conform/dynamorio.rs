//! DynamoRIO's test programs: how they end, and what they print.
//!
//! `--from` names a checkout of DynamoRIO. The programs in `suite/tests` that need no client of its own are built once, with its library
//! of tools for tests. Many have a part in assembly in the same file. A name is a path without its ending (`linux/signal0000`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trommel_conformance::exec::cache_dir;

use super::program::{self, Program};
use super::{Way, all, compile, shell};
use crate::common::trommel;

const DIRS: [&str; 5] = [
    "common",
    "linux",
    "pthreads",
    "security-common",
    "security-linux",
];
/// Directories with headers.
const HEADERS: [&str; 10] = [
    "common",
    "core",
    "core/lib",
    "core/include",
    "core/arch",
    "core/arch/x86",
    "core/drlibc",
    "core/ir",
    "core/unix",
    "suite/tests",
];
/// Macros that say what the build would find out about the machine.
const MACHINE: [&str; 11] = [
    "DYNAMORIO_INTERNAL",
    "DR__Bool_EXISTS",
    "UNIX",
    "LINUX",
    "X64",
    "X86",
    "X86_64",
    "DR_HOST_X86",
    "DR_HOST_X64",
    "HAVE_RSEQ",
    "ASSEMBLE_WITH_GAS",
];
/// Parts of programs, programs for other processors, and programs that go on until something ends them.
const PARTS: [&str; 12] = [
    "common/fake_ctr_dic",
    "common/nativeexec",
    "common/nativeexec.appdll",
    "common/nzcv",
    "linux/attach_state",
    "linux/fib_attach",
    "linux/infloop",
    "linux/mangle_pauth",
    "linux/signal_translate",
    "linux/synchall-restore.dll",
    "linux/syscall-records-attach",
    "security-linux/stacktest",
];
/// The program that has addresses of 32 bits in its code.
const LOW: &str = "security-common/vbjmp-rac-test";
/// Longest time of a native run.
const LIMIT: Duration = Duration::from_secs(60);
/// The program that some others start.
const STARTED: &str = "linux/execve-sub";
/// Assembles the second part of a file: `sh SOURCE OUT FLAGS…`.
const ASSEMBLE: &str = r#"set -e; source=$1 out=$2; shift 2
   gcc "$@" -DCPP2ASM -DASM_CODE_ONLY -x assembler-with-cpp -E "$source" | sed 's/@N@/\n/g' >"$out.s"
   as --noexecstack -mmnemonic=intel -msyntax=intel -mnaked-reg -o "$out" "$out.s""#;
/// Compiles the tools, and what DynamoRIO's assembly calls if it has gone wrong: `sh SOURCE DIR FLAGS…`.
const TOOLS: &str = r#"set -e; source=$1; cd "$2"; shift 2; gcc -w "$@" -c "$source" -o tools.o
   echo 'void abort(void); void unexpected_return(void) { abort(); }' | gcc -x c -c - -o wrong.o"#;

struct Test {
    dir: &'static str,
    name: String,
    source: PathBuf,
}

impl Test {
    fn label(&self) -> String {
        format!("{}/{}", self.dir, self.name)
    }
}

struct Tree {
    built: PathBuf,
    flags: Vec<OsString>,
}

pub(super) fn run(ways: &[Way], from: Option<PathBuf>, names: &[String]) -> Result<(), String> {
    let bin = trommel();
    let from = from.ok_or("--from DIR: a checkout of DynamoRIO")?;
    let suite = from.join("suite/tests");
    let mut tests = Vec::new();
    for dir in DIRS {
        tests.extend(listed(&suite, dir)?);
    }
    tests.sort_by_key(Test::label);
    let tree = tools(&from)?;
    let started = match tests.iter().find(|test| test.label() == STARTED) {
        Some(test) => build(test, &tree)?,
        None => return Err(format!("no {STARTED} in {}", suite.display())),
    };
    tests.retain(|test| match names.is_empty() {
        true => !PARTS.contains(&test.label().as_str()),
        false => names.contains(&test.label()),
    });
    let label = |test: &Test| (test.dir.to_owned(), test.label());
    all(&tests, 2, label, |test| {
        let arguments = match test.name.as_str() {
            "execv" | "execve" | "execve-null" | "vfork" => vec![started.clone().into()],
            "readlink" => vec!["exec".into()],
            _ => Vec::new(),
        };
        let program = Program {
            path: build(test, &tree)?,
            arguments,
            limit: LIMIT,
        };
        program::judge(bin, ways, &program)
    })
}

fn listed(suite: &Path, dir: &'static str) -> Result<Vec<Test>, String> {
    let path = suite.join(dir);
    let entries = fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let sources = entries.flatten().map(|entry| entry.path());
    let is_source = |path: &PathBuf| path.extension().is_some_and(|e| e == "c" || e == "cpp");
    let test = |source: PathBuf| Test {
        dir,
        name: source
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        source,
    };
    Ok(sources.filter(is_source).map(test).collect())
}

/// Builds what is part of each program.
fn tools(from: &Path) -> Result<Tree, String> {
    let built = cache_dir().join("conform/dynamorio");
    fs::create_dir_all(&built).map_err(|e| format!("{}: {e}", built.display()))?;
    // All of it is on the command line.
    fs::write(built.join("configure.h"), "").map_err(|e| e.to_string())?;
    let mut flags: Vec<OsString> = vec!["-O0".into(), "-g".into(), "-I".into(), (&built).into()];
    for dir in HEADERS {
        flags.extend(["-I".into(), from.join(dir).into()]);
    }
    flags.extend(MACHINE.iter().map(|name| format!("-D{name}").into()));
    let tree = Tree { built, flags };
    let source = from.join("suite/tests/tools.c");
    tree.shell(TOOLS, &source, &tree.built)?;
    tree.assemble(&source, "tools-asm.o")?;
    tree.assemble(&from.join("core/drlibc/drlibc_x86.asm"), "drlibc.o")?;
    Ok(tree)
}

impl Tree {
    fn shell(&self, command: &str, source: &Path, out: &Path) -> Result<(), String> {
        let mut args: Vec<&OsStr> = vec![source.as_os_str(), out.as_os_str()];
        args.extend(self.flags.iter().map(OsString::as_os_str));
        shell(command, &args).map(drop)
    }

    fn assemble(&self, source: &Path, out: &str) -> Result<PathBuf, String> {
        let out = self.built.join(out);
        self.shell(ASSEMBLE, source, &out)?;
        Ok(out)
    }
}

/// Builds a program unless it is there.
fn build(test: &Test, tree: &Tree) -> Result<PathBuf, String> {
    let name = test.label().replace('/', "-");
    let out = tree.built.join(&name);
    if out.exists() {
        return Ok(out);
    }
    let text = fs::read_to_string(&test.source).map_err(|e| e.to_string())?;
    let mut objects = ["tools.o", "tools-asm.o", "drlibc.o", "wrong.o"]
        .map(|object| tree.built.join(object))
        .to_vec();
    if text.contains("ifndef ASM_CODE_ONLY") {
        objects.push(tree.assemble(&test.source, &(name + ".o"))?);
    }
    let is_plus = test.source.extension().is_some_and(|e| e == "cpp");
    compile(
        |gcc| {
            gcc.args(&tree.flags)
                .args(["-pthread", "-rdynamic"])
                .arg(&test.source)
                .args(&objects)
                .args(["-lm", "-ldl"])
                .args((test.label() == LOW).then_some("-no-pie"))
                .args(is_plus.then_some("-lstdc++"));
        },
        &out,
    )?;
    Ok(out)
}
