//! The test programs of `tests/programs`: how each is built and run, read from its first lines.
//!
//! ```text
//! // build: FLAGS | FLAGS …      one variant each; `-march=native` and the like are allowed
//! // shared: FILE                also build FILE as NAME.so next to the program
//! // needs: FEATURE …            as in /proc/cpuinfo; without them the program is skipped
//! // run: ARGS                   one case each; one case without arguments when absent
//! ```
//! A file without a `build:` line is part of another program. What was built is kept in the target
//! directory and built again when its source or flags change.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::exec::{cache_dir, workspace};

/// One way to build one source file.
#[derive(Clone, Debug)]
pub struct Variant {
    /// `NAME` or `NAME@FLAGS`.
    pub name: String,
    /// The source file.
    pub source: PathBuf,
    /// Compiler flags.
    pub flags: Vec<String>,
    /// Source of the library built beside it.
    pub shared: Option<PathBuf>,
    /// Processor features it needs.
    pub needs: Vec<String>,
    /// Argument lists to run it with.
    pub runs: Vec<Vec<String>>,
    /// True for the first of its program's builds.
    pub first: bool,
}

/// Every variant of every program, sorted by name.
pub fn all() -> Vec<Variant> {
    let dir = workspace().join("tests/programs");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("a directory entry").path())
        .collect();
    files.sort();
    files.iter().flat_map(|file| variants(file)).collect()
}

/// Builds the variant of that name.
///
/// # Errors
/// That there is none, or what the compiler says.
pub fn named(name: &str) -> Result<PathBuf, String> {
    let found = all().into_iter().find(|variant| variant.name == name);
    found.ok_or_else(|| format!("no program {name}"))?.build()
}

/// An argument of perl's `-e`: hashes, strings and a sort, the same each time with `PERL_HASH_SEED=0`.
pub const PERL: &str = "my %h; for (1..2000) { $h{$_ % 97} .= chr(65 + $_ % 26) } \
    print join(',', map { length $h{$_} } sort { $a <=> $b } keys %h), \"\\n\"";

fn variants(source: &Path) -> Vec<Variant> {
    let text = fs::read_to_string(source).unwrap_or_default();
    let all = |key: &str| -> Vec<String> {
        let key = format!("// {key}:");
        text.lines()
            .take(40)
            .filter_map(|line| line.strip_prefix(&key))
            .map(|rest| rest.trim().to_owned())
            .collect()
    };
    let words = |s: &String| -> Vec<String> { s.split_whitespace().map(str::to_owned).collect() };
    let stem = source.file_stem().unwrap_or_default().to_string_lossy();
    let mut runs: Vec<Vec<String>> = all("run").iter().map(words).collect();
    if runs.is_empty() {
        runs.push(Vec::new());
    }
    let builds = all("build");
    let Some(build) = builds.first() else {
        return Vec::new();
    };
    build
        .split('|')
        .enumerate()
        .map(|(n, flags)| Variant {
            name: format!(
                "{stem}@{}",
                flags.split_whitespace().collect::<Vec<_>>().join("")
            ),
            source: source.to_path_buf(),
            flags: flags.split_whitespace().map(str::to_owned).collect(),
            shared: all("shared").first().map(|f| source.with_file_name(f)),
            needs: all("needs").iter().flat_map(words).collect(),
            runs: runs.clone(),
            first: n == 0,
        })
        .collect()
}

impl Variant {
    /// Features it needs that this processor has not.
    pub fn missing(&self) -> Vec<String> {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let flags = info.lines().find(|l| l.starts_with("flags")).unwrap_or("");
        let have: Vec<&str> = flags.split_whitespace().collect();
        self.needs
            .iter()
            .filter(|need| !have.contains(&need.as_str()))
            .cloned()
            .collect()
    }

    /// Builds it unless it is there; the path of the program, or what the compiler said.
    pub fn build(&self) -> Result<PathBuf, String> {
        let dir = cache_dir().join("programs");
        fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let out = dir.join(&self.name);
        compile(&self.source, &self.flags, &out)?;
        if let Some(lib) = &self.shared {
            let mut path = out.clone().into_os_string();
            path.push(".so");
            let flags = ["-O2", "-shared", "-fPIC"].map(str::to_owned);
            compile(lib, &flags, Path::new(&path))?;
        }
        Ok(out)
    }
}

/// A program of one file, by its path in the workspace, made with these flags under a name of the caller's: where it is, without links.
///
/// # Errors
/// What the compiler says, or the system.
pub fn built(source: &str, name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let source = workspace().join(source);
    let room = source.parent().and_then(Path::file_name);
    let dir = cache_dir().join(room.ok_or("no file")?);
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let out = dir.join(name);
    let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
    compile(&source, &flags, &out)?;
    fs::canonicalize(out).map_err(|e| e.to_string())
}

/// The headers in directories that flags name, in a fixed order.
fn headers(flags: &[String]) -> Vec<Vec<u8>> {
    let dirs = flags.iter().filter_map(|flag| flag.strip_prefix("-I"));
    let files = dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let mut paths: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .filter_map(|path| fs::read(path).ok())
        .collect()
}

/// Compiles one file with gcc or g++, unless `out` was made from the same text, headers and flags.
pub fn compile(source: &Path, flags: &[String], out: &Path) -> Result<(), String> {
    let text = fs::read(source).map_err(|e| format!("{}: {e}", source.display()))?;
    let mut hash = DefaultHasher::new();
    (text, headers(flags), flags).hash(&mut hash);
    let stamp = format!("{:016x}", hash.finish());
    let beside = |ending: &str| {
        let mut name = out.to_path_buf().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    let stamp_file = beside(".stamp");
    // One builder at a time, in this process or another: replacing a program that another test
    // runs already would show there, as `/proc/self/exe (deleted)`.
    let lock = fs::File::create(beside(".lock")).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    if out.exists() && fs::read_to_string(&stamp_file).is_ok_and(|old| old == stamp) {
        return Ok(());
    }
    let plus = source.extension().is_some_and(|e| e == "cpp");
    let compiler = if plus { "g++" } else { "gcc" };
    // Built under another name and moved: a build cut short leaves nothing that looks done.
    let part = beside(".part");
    let done = Command::new(compiler)
        .args(["-w", "-g"])
        .arg("-o")
        .arg(&part)
        .arg(source)
        .args(flags)
        .output()
        .map_err(|e| format!("{compiler}: {e}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{compiler} {}: {said}", source.display()));
    }
    fs::rename(&part, out).map_err(|e| e.to_string())?;
    fs::write(&stamp_file, stamp).map_err(|e| e.to_string())
}
