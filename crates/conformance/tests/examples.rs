//! Examples are true: every command and script that README.md, docs/ and `--help` show runs as
//! written.
//!
//! Each document's commands run in order in one directory that has what they name. Commands of
//! `cargo` build or test this workspace; CI runs those itself, so they are only checked to exist.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::exec::{Scratch, trommel, workspace};

/// `cargo` and its words that documents may show.
const CARGO: [&str; 29] = [
    "cargo install --path crates/cli",
    "cargo run --release -- record -- ",
    "cargo test --workspace",
    "cargo test -p trommel-conformance --test ",
    "cargo test --release -p trommel-conformance --test ",
    "cargo xtask check ",
    "cargo xtask measure ",
    "cargo xtask corpus",
    "cargo xtask instructions",
    "cargo xtask bench",
    "cargo xtask budget",
    "cargo xtask accuracy",
    "cargo xtask served",
    "cargo xtask changes",
    "cargo xtask queries",
    "cargo xtask gc",
    "cargo xtask returns",
    "cargo xtask conform",
    "cargo xtask startup",
    "cargo xtask windows",
    "cargo xtask latency",
    "cargo xtask known",
    "cargo xtask retake",
    "cargo xtask long",
    "cargo xtask filters",
    "cargo xtask unoptimised",
    "cargo xtask callgrind ",
    "cargo bench -p trommel-compress ",
    "cargo bench -p trommel-runtime",
];

/// `annotate` first: of what the stage has recorded.
const COMMANDS: [&str; 14] = [
    "annotate",
    "record",
    "report",
    "values",
    "latency",
    "replay",
    "stream",
    "compress",
    "query",
    "query check",
    "query asm",
    "query disasm",
    "query fmt",
    "doctor",
];

fn main() {
    let args = Arguments::from_args();
    let mut trials = Vec::new();
    let mut documents = vec!["README.md".to_owned()];
    for entry in fs::read_dir(workspace().join("docs"))
        .into_iter()
        .flatten()
        .flatten()
    {
        documents.push(format!("docs/{}", entry.file_name().to_string_lossy()));
    }
    documents.sort();
    for name in documents.into_iter().filter(|name| name.ends_with(".md")) {
        trials.push(Trial::test(name.clone(), move || Ok(document(&name)?)));
    }
    trials.push(Trial::test("paths in documents", || Ok(paths()?)));
    trials.push(Trial::test("help", || Ok(help()?)));
    trials.push(Trial::test("completions and manual pages", || {
        Ok(generated()?)
    }));
    libtest_mimic::run(&args, trials).exit();
}

fn bin() -> Result<&'static Path, String> {
    trommel().ok_or_else(|| "this workspace has no crates/cli: set TROMMEL_BIN".into())
}

/// A directory with everything that examples name.
fn stage() -> Result<Scratch, String> {
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    let script = r#"set -e
        printf 'int main(void) { volatile int n = 0; while (n < 1000) n = n + 1; return 0; }' > app.c
        cc -o app app.c
        sed s/1000/100000000/ app.c > server.c
        cc -o server server.c
        head -c 100000 /dev/urandom > big.tar
        trommel record --quiet --stream app.tstream -- ./app
        cp trommel.data other.data
        mkdir -p docs/lab
        trommel stream convert -e value app.tstream gcc.value.raw16.zst
        printf 'for opSTORE 1 always collect op1;\n    send 3 stop;\n' > stores.rpa
        trommel query asm -o stores.bin stores.rpa
        printf 'for opBRANCH * every 256 collect pc misc;\n    send 1 stop;\n' > edges.rpa
        ln -s "$WORKSPACE/include" "$WORKSPACE/examples" .
        cc -O2 -shared -fPIC -I include -o edges.so examples/service/edges.c
        cc -O2 -shared -fPIC -I include -o strides.so examples/module/strides.c"#;
    let ended = shell(script, scratch.dir())?;
    match ended.status.success() {
        true => Ok(scratch),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

/// Makes the files that examples of databases name beside that: one, and a process that goes on.
fn with_database(stage: &Scratch) -> Result<(), String> {
    let script = r#"set -e
        printf 'int main(void) { volatile long n = 0; while (n < 20000000000) n = n + 1; return 0; }' > busy.c
        cc -o redis-server busy.c
        timeout 60 ./redis-server > /dev/null 2>&1 &
        trap 'kill $!' ERR
        sleep 0.2
        timeout --preserve-status -s INT 4 trommel daemon --epoch 1s --db DIR --name redis-server"#;
    let ended = shell(script, stage.dir())?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

fn shell(script: &str, dir: &Path) -> Result<Output, String> {
    let bin = bin()?.parent().unwrap_or(Path::new(""));
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("timeout")
        .args(["300", "bash", "-c", script])
        .current_dir(dir)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("WORKSPACE", workspace())
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())
}

/// The same command on less: an experiment of the lab takes minutes with all its events.
fn shortened(line: &str) -> String {
    let mut words: Vec<_> = line.split(' ').collect();
    if line.starts_with("trommel lab ") && !line.ends_with(" list") {
        if let Some(at) = words.iter().position(|w| *w == "--events") {
            words.drain(at..at + 2);
        }
        words.splice(2..2, ["--events", "20k"]);
    }
    match line.starts_with("trommel daemon ") {
        // It goes on until it is interrupted.
        true => format!("timeout --preserve-status -s INT 4 {line}"),
        false => words.join(" "),
    }
}

/// Runs a command, its comment taken off.
fn runs(line: &str, dir: &Path) -> Result<(), String> {
    if line.starts_with("cargo ") || line.contains(" cargo ") {
        return match CARGO.iter().any(|words| line.contains(words.trim_end())) {
            true => Ok(()),
            false => Err(format!("`{line}` is not a command that this test knows of")),
        };
    }
    let ended = shell(&shortened(line), dir)?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(format!(
            "`{line}`: {}\n{}",
            ended.status,
            String::from_utf8_lossy(&ended.stderr)
        )),
    }
}

/// Returns true if `record --all` is allowed here, and prints a word where it is not.
fn may_sample_the_machine(stage: &Scratch) -> Result<bool, String> {
    let doctor = shell("trommel doctor", stage.dir())?;
    let refused = String::from_utf8_lossy(&doctor.stdout).contains("`record --all` is refused");
    if refused {
        eprintln!("examples of `record --all` are not run: this user may not sample the machine");
    }
    Ok(!refused)
}

fn document(name: &str) -> Result<(), String> {
    let text = fs::read_to_string(workspace().join(name)).map_err(|e| e.to_string())?;
    let commands = text.lines().filter_map(|line| line.strip_prefix("$ "));
    let commands: Vec<_> = commands
        .map(|line| line.split(" # ").next().unwrap_or(line).trim())
        .collect();
    let scripts: Vec<_> = text.split("```python\n").skip(1).collect();
    if commands.is_empty() && scripts.is_empty() {
        return Ok(());
    }
    let stage = stage()?;
    if name == "docs/machine.md" && !may_sample_the_machine(&stage)? {
        return Ok(());
    }
    if name == "docs/database.md" {
        with_database(&stage)?;
    }
    for script in scripts {
        let script = script.split("```").next().unwrap_or_default();
        fs::write(stage.path("example.py"), script).map_err(|e| e.to_string())?;
        runs(
            "trommel report --json > report.json; python3 example.py",
            stage.dir(),
        )?;
    }
    commands.iter().try_for_each(|line| runs(line, stage.dir()))
}

/// Checks that each file that the map and the pages of design name, or any document links to, exists.
fn paths() -> Result<(), String> {
    let mut missing = Vec::new();
    let design = markdown("docs/design");
    let named = design.iter().map(String::as_str);
    for name in named.clone().chain(["ARCHITECTURE.md", "CONTRIBUTING.md"]) {
        let text = fs::read_to_string(workspace().join(name)).map_err(|e| e.to_string())?;
        let files = text
            .lines()
            .flat_map(|line| line.split('`').skip(1).step_by(2));
        for file in files.filter(|file| is_path(file)) {
            let at_root = workspace().join(file).exists();
            if !at_root && !workspace().join("crates").join(file).exists() {
                missing.push(format!("{name}: `{file}`"));
            }
        }
    }
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned);
    for name in design.into_iter().chain(markdown("docs")).chain(others) {
        let text = fs::read_to_string(workspace().join(&name)).map_err(|e| e.to_string())?;
        let links = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'));
        let files = links.filter_map(|(link, _)| link.split('#').next());
        let folder = workspace().join(&name);
        for file in files.filter(|file| !file.is_empty() && !file.contains("://")) {
            if !folder
                .parent()
                .is_some_and(|folder| folder.join(file).exists())
            {
                missing.push(format!("{name}: ]({file})"));
            }
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!("no such file:\n  {}", missing.join("\n  "))),
    }
}

/// The Markdown files of a directory of this workspace.
fn markdown(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(workspace().join(directory))
        .into_iter()
        .flatten()
        .flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("{directory}/{name}"))
        .collect()
}

/// Returns true if a word in code quotes is meant as a file of this repository.
fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    word.contains('/')
        && !word.starts_with('/')
        && !word.starts_with('.')
        && word.chars().all(plain)
}

/// The commands below `Examples:`, each up to the gap before its explanation.
fn help() -> Result<(), String> {
    let mut examples = Vec::new();
    for command in COMMANDS {
        let ended = shell(&format!("trommel help {command}"), Path::new("/"))?;
        let text = String::from_utf8_lossy(&ended.stdout).into_owned();
        let Some((_, below)) = text.split_once("Examples:") else {
            continue;
        };
        let lines = below
            .lines()
            .filter_map(|line| line.strip_prefix("  trommel "));
        examples.extend(lines.map(|line| {
            let line = line.split("   ").next().unwrap_or(line);
            format!("trommel {}", line.trim())
        }));
    }
    if examples.len() < 10 {
        return Err(format!("only these examples: {examples:?}"));
    }
    let stage = stage()?;
    with_database(&stage)?;
    let machine = may_sample_the_machine(&stage)?;
    let mut examples = examples.iter();
    examples.try_for_each(|line| match line.contains("--all") && !machine {
        true => Ok(()),
        false => runs(line, stage.dir()),
    })
}

fn generated() -> Result<(), String> {
    let dir = workspace();
    for shell_name in ["bash", "zsh", "fish"] {
        let there = shell(&format!("command -v {shell_name}"), &dir)?
            .status
            .success();
        let check = match there {
            true => format!("set -o pipefail; trommel completions {shell_name} | {shell_name} -n"),
            false => format!("trommel completions {shell_name}"),
        };
        runs(&check, &dir)?;
    }
    // Verbs of a command are on its page.
    for command in COMMANDS.iter().filter(|c| !c.contains(' ')) {
        let page = shell(&format!("trommel man {command}"), &dir)?;
        let text = String::from_utf8_lossy(&page.stdout).into_owned();
        if !page.status.success() || !text.contains(".SH SYNOPSIS") {
            return Err(format!("trommel man {command}: {}", page.status));
        }
    }
    Ok(())
}
