//! Functions of C++ that share a name: constructors, instances of a template, static functions of two files, lambdas.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use trommel_conformance::exec::{Scratch, output};
use trommel_conformance::recorded::Recorded;

use super::{Test, llvm, run, text};

pub(super) const ALL: &[(&str, Test)] = &[
    (
        "names: lcov has the functions, lines and counts of gcov",
        lcov,
    ),
    ("names: autofdo has those of llvm-profgen", profgen),
    (
        "names: lcov counts functions that ran only inlined",
        inlined,
    ),
    (
        "names: autofdo has the executions of llvm-profgen where a line has several calls",
        several_calls,
    ),
    (
        "names: autofdo has linkage names where gcc gives none",
        linkage,
    ),
];

const FIRST: &str = r"
extern int other(int);
static volatile int sink, out;
struct B { int x; B(int v); virtual ~B(); };
B::B(int v) { x = v; }
B::~B() { x = 0; }
struct V : virtual B { V(int v); ~V(); };
V::V(int v) : B(v) { x++; }
V::~V() { x--; }
struct W : V { W() : B(7), V(3) {} };
template <typename T> __attribute__((noinline)) T twice(T a) { sink += (int)a; return a + a; }
namespace { __attribute__((noinline)) int anon(int a) { sink += a; return a * 3; } }
__attribute__((noinline)) static int dup(int a) { sink += a; return a + 1; }
template <typename T, typename A = long> struct Cell { T v; };
template <typename C> __attribute__((noinline)) static int held(const C &c) { return (int)c.v; }
namespace { struct Own { int x; explicit Own(int v) : x(v) {} ~Own() { sink += x; } }; }
static inline int inner(int a) { sink ^= a; return a - 1; }
int main() {
  int s = 0;
  for (int i = 0; i < 5; i++) { V v(i); s += v.x; }
  for (int i = 0; i < 3; i++) { W w; s += w.x; }
  for (int i = 0; i < 4; i++) { Own own(i); s += held(Cell<int>{i}) + held(Cell<char>{1}); }
  auto lambda = [](int a) __attribute__((noinline)) { sink += 5; return a * 2; };
  for (int i = 0; i < 500; i++)
    s += anon(i) + twice(2) + (int)twice(2.5) + lambda(4) + dup(s) + inner(s) + other(i);
  out = s;
}
";

const SECOND: &str = r"
static volatile int sink;
__attribute__((noinline)) static int dup(int a) { sink -= a; return a + 2; }
namespace { __attribute__((noinline)) int anon(int a) { sink -= 2 * a; return a * 5; } }
int other(int i) { return dup(i) + anon(i); }
";

/// Compiles both files to a program in a directory.
fn compiled(dir: &Path, compiler: &str, flags: &[&str]) -> Result<(), String> {
    for (name, code) in [("first.cc", FIRST), ("second.cc", SECOND)] {
        fs::write(dir.join(name), code).map_err(|e| e.to_string())?;
    }
    let mut build = Command::new(compiler);
    build
        .args(flags)
        .args(["./first.cc", "second.cc", "-o", "app"]);
    output(build.current_dir(dir)).map(drop)
}

fn recorded(compiler: &str, flags: &[&str]) -> Result<Recorded, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    compiled(scratch.dir(), compiler, flags)?;
    let program = scratch.path("app");
    Recorded::of(scratch, program, &["-e", "edge,call"])
}

/// A file, and a function or a line.
type Key = (String, String);

/// Calls of functions and executions of lines of these files. A line that is there again counts in addition, as `lcov` reads it.
fn tracefile(info: &str) -> BTreeMap<Key, u64> {
    let mut all = BTreeMap::new();
    let mut file = String::new();
    for line in info.lines() {
        let (kind, rest) = line.split_once(':').unwrap_or_default();
        if kind == "SF" {
            file = rest.rsplit('/').next().unwrap_or_default().to_owned();
        }
        if !matches!(&*file, "first.cc" | "second.cc") {
            continue;
        }
        let pair = rest.split_once(',').unwrap_or_default();
        let (name, count) = match kind {
            "FNDA" => (pair.1, pair.0),
            "DA" => pair,
            _ => continue,
        };
        let sum: &mut u64 = all.entry((file.clone(), name.to_owned())).or_default();
        *sum += count.parse::<u64>().unwrap_or_default();
    }
    all
}

fn lcov() -> Result<(), String> {
    let recorded = recorded("g++", &["-O0", "-g"])?;
    let ours = recorded.export("lcov", &[])?;
    let ours = fs::read_to_string(ours).map_err(|e| e.to_string())?;
    // Tracefiles of lcov have no such paths, and are added up by them.
    if ours.contains("/./") {
        return Err(ours);
    }
    let ours = tracefile(&ours);
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let dir = scratch.dir();
    compiled(dir, "g++", &["-O0", "--coverage"])?;
    output(Command::new(dir.join("app")).current_dir(dir))?;
    let notes = ["app-first.gcda", "app-second.gcda"];
    let printed = run(
        Path::new("gcov"),
        &["--json-format", "-t", notes[0], notes[1]],
        dir,
    )?;
    let mut theirs = BTreeMap::new();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let read: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
        for file in read["files"].as_array().into_iter().flatten() {
            let name = file["file"].as_str().unwrap_or_default();
            let name = name.trim_start_matches("./");
            let functions = file["functions"].as_array().into_iter().flatten();
            let functions = functions.map(|f| (f["name"].clone(), &f["execution_count"]));
            let lines = file["lines"].as_array().into_iter().flatten();
            let lines = lines.map(|l| (l["line_number"].to_string().into(), &l["count"]));
            for (key, count) in functions.chain(lines) {
                let key = key.as_str().unwrap_or_default().to_owned();
                let sum: &mut u64 = theirs.entry((name.to_owned(), key)).or_default();
                *sum += count.as_u64().unwrap_or_default();
            }
        }
    }
    match ours == theirs && ours.len() >= 40 {
        true => Ok(()),
        false => Err(format!("{ours:#?}\nby gcov: {theirs:#?}")),
    }
}

/// Names of functions, inlined calls and targets of a sample profile, each line without its numbers.
fn names(profile: &str) -> Vec<String> {
    let word = |word: &str| {
        let name = word.rsplit(':').find(|part| part.parse::<u64>().is_err());
        name.filter(|name| name.starts_with(|c: char| c.is_alphabetic() || c == '_'))
            .map(str::to_owned)
    };
    let mut all: Vec<String> = profile.split_whitespace().filter_map(word).collect();
    all.sort();
    all
}

/// The sample profile that we write, and that of llvm-profgen, as text.
fn by_both(recorded: &Recorded, profgen: &Path) -> Result<[String; 2], String> {
    let branches = text(&recorded.export("profgen", &[])?);
    let options = [
        &*format!("--unsymbolized-profile={branches}"),
        &format!("--binary={}", text(&recorded.program)),
        "--format=text",
        "--output=theirs.prof",
    ];
    run(profgen, &options, recorded.scratch.dir())?;
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| e.to_string());
    let ours = read(&recorded.export("autofdo", &[])?)?;
    Ok([ours, read(&recorded.scratch.path("theirs.prof"))?])
}

fn profgen() -> Result<(), String> {
    let test = "names";
    let (Some(profgen), Some(clang)) = (llvm("llvm-profgen", test), llvm("clang++", test)) else {
        return Ok(());
    };
    let flags = ["-O2", "-g", "-fdebug-info-for-profiling"];
    for more in ["-fno-pie", "-funique-internal-linkage-names"] {
        let flags = [&flags[..], &["-no-pie", more]].concat();
        let recorded = recorded(&text(&clang), &flags)?;
        let [ours, theirs] = by_both(&recorded, &profgen)?;
        let [ours, theirs] = [ours, theirs].map(|profile| names(&profile));
        if ours != theirs || !ours.iter().any(|name| name.starts_with("_ZL3dupi")) {
            return Err(format!("{more}: {ours:#?}\nby llvm-profgen: {theirs:#?}"));
        }
    }
    Ok(())
}

/// `gcov` counts calls of these in a program of `-O0`.
const INLINED: &str = "
static volatile int sink, times = 10;
struct S { int x; int get() const { return x + sink; } };
int both(int n) { sink++; return n * 2; }
int main() {
  int s = 0;
  for (int i = 0; i < times; i++) {
    S v{i};
    s += v.get() + both(i);
  }
  sink = s;
}
";

fn inlined() -> Result<(), String> {
    let compilers = ["g++".to_owned()].into_iter();
    let compilers = compilers.chain(llvm("clang++", "names").map(|path| text(&path)));
    for compiler in compilers {
        let scratch = Scratch::new().map_err(|e| e.to_string())?;
        let (source, program) = (scratch.path("inlined.cc"), scratch.path("app"));
        fs::write(&source, INLINED).map_err(|e| e.to_string())?;
        let mut build = Command::new(&compiler);
        build.args(["-O2", "-g", "-o"]).arg(&program);
        output(build.arg(&source))?;
        let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
        let ours = recorded.export("lcov", &[])?;
        let ours = fs::read_to_string(ours).map_err(|e| e.to_string())?;
        for wanted in [
            "FNDA:10,_Z4bothi",
            "FNDA:10,_ZNK1S3getEv",
            "FN:3,_ZNK1S3getEv",
        ] {
            if !ours.lines().any(|line| line == wanted) {
                return Err(format!("{compiler}: no {wanted} in\n{ours}"));
            }
        }
    }
    Ok(())
}

/// Without discriminators, a line has all its calls at one position.
const CALLS: &str = "
static volatile int sink;
#define ALONE __attribute__((noinline)) static int
ALONE f(int n) { sink += n; return sink; }
ALONE g(int n) { sink -= n; return sink; }
static inline int inlined(int n) { return f(n) + f(n + 1) + g(n); }
ALONE by(int n) { int s = 0; if (n % 3) { s = f(n) + g(n); } return s + f(s) + f(s + 1) + g(s); }
int main(void) { int s = 0; for (int i = 0; i < 1000; i++) s += by(i) + inlined(i); return s & 1; }
";

fn several_calls() -> Result<(), String> {
    let test = "names";
    let (Some(profgen), Some(clang)) = (llvm("llvm-profgen", test), llvm("clang", test)) else {
        return Ok(());
    };
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let (source, program) = (scratch.path("calls.c"), scratch.path("app"));
    fs::write(&source, CALLS).map_err(|e| e.to_string())?;
    let mut build = Command::new(clang);
    build.args(["-O2", "-g", "-o"]).arg(&program);
    output(build.arg(&source))?;
    let recorded = Recorded::of(scratch, program, &["-e", "edge,call"])?;
    let [ours, theirs] = by_both(&recorded, &profgen)?;
    let positions = |profile: String| {
        let is_position = |line: &&str| line.starts_with(' ');
        let mut all: Vec<String> = (profile.lines().filter(is_position))
            .map(str::to_owned)
            .collect();
        all.sort();
        all
    };
    let [ours, theirs] = [ours, theirs].map(positions);
    match ours == theirs
        && ours
            .iter()
            .any(|line| line.contains(": 4332 f:2666 g:1666"))
    {
        true => Ok(()),
        false => Err(format!("{ours:#?}\nby llvm-profgen: {theirs:#?}")),
    }
}

fn linkage() -> Result<(), String> {
    let recorded = recorded("g++", &["-O2", "-g"])?;
    let profile = recorded.export("autofdo", &[])?;
    let profile = fs::read_to_string(profile).map_err(|e| e.to_string())?;
    let names = names(&profile);
    let of = |name: &str| names.iter().filter(|n| *n == name).count();
    // Each is a function, and called from main and from the other file.
    let wanted = [
        ("_ZL3dupi", 3),
        ("_ZN12_GLOBAL__N_14anonEi", 3),
        ("_ZZ4mainENKUliE_clEi", 2),
    ];
    match wanted.iter().all(|(name, times)| of(name) == *times) && of("dup") == 0 {
        true => Ok(()),
        false => Err(profile),
    }
}
