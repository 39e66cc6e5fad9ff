//! Examples are true: every command and script that README.md, docs/ and `--help` show runs as
//! written.
//!
//! Each document's commands run in order in one directory that has what they name. Commands of
//! `cargo` build or test this workspace; CI runs those itself, so they are only checked to exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Trial};
use trommel_conformance::built::kept;
use trommel_conformance::exec::{Scratch, cache_dir, trommel, workspace};
use trommel_conformance::not_tested::not_tested;

/// `cargo` and its words that documents may show.
const CARGO: [&str; 30] = [
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
    // Of a crate outside of the workspace: `cargo xtask check benchmark` runs it.
    "cargo bench --bench own",
];

/// `annotate`, `report` and `diff` first: of what the stage has recorded. Then `daemon`: of a process that the stage has started.
const COMMANDS: [&str; 31] = [
    "annotate",
    "report",
    "diff",
    "daemon",
    "record",
    "run",
    "stat",
    "top",
    "export",
    "merge",
    "values",
    "latency",
    "replay",
    "c2c",
    "model",
    "stream",
    "stream info",
    "stream dump",
    "stream convert",
    "compress",
    "query",
    "query check",
    "query asm",
    "query disasm",
    "query fmt",
    "query load",
    "query remove",
    "query list",
    "doctor",
    "lab",
    "help",
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
        let nightly = NIGHTLY.contains(&&*name);
        let trial = Trial::test(name.clone(), move || Ok(document(&name)?));
        trials.push(trial.with_ignored_flag(nightly));
    }
    trials.push(Trial::test("paths in documents", || Ok(paths()?)));
    for command in COMMANDS {
        let name = format!("help {command}");
        trials.push(Trial::test(name, move || Ok(help(command)?)));
    }
    trials.push(Trial::test("help of every command", || Ok(all_commands()?)));
    trials.push(Trial::test("completions and manual pages", || {
        Ok(generated()?)
    }));
    libtest_mimic::run(&args, trials).exit();
}

/// Checks that the examples of every command are run, also of commands of commands.
fn all_commands() -> Result<(), String> {
    let mut open = vec![String::new()];
    while let Some(command) = open.pop() {
        let words = command.split(' ').filter(|word| !word.is_empty());
        let help = Command::new(trommel()).args(words).arg("--help").output();
        let help = help.map_err(|e| e.to_string())?.stdout;
        let help = String::from_utf8_lossy(&help).into_owned();
        let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let commands = commands.take_while(|line| !line.is_empty());
        // What is said of a command may go on in lines that are indented further.
        for line in commands.filter(|line| !line.starts_with("    ")) {
            let name = line.split_whitespace().next().unwrap_or_default();
            let inner = format!("{command} {name}").trim().to_owned();
            if name == "help" && !command.is_empty() {
                continue;
            }
            if !COMMANDS.contains(&&*inner) {
                return Err(format!("the examples of `{inner}` are not run"));
            }
            open.push(inner);
        }
    }
    Ok(())
}

/// Documents whose commands take more than a minute.
const NIGHTLY: [&str; 1] = ["docs/lab.md"];

/// Command that docs/lab.md runs too, for a minute or more.
const IN_A_DOCUMENT: &str = "trommel lab all";

/// Tools of LLVM whose plain names Debian gives to no version.
const LLVM: &str = "/usr/lib/llvm-16/bin";

/// Documents whose commands need tools that a machine may lack.
const NEEDS: [(&str, &[&str]); 4] = [
    (
        "docs/bolt.md",
        &["clang", "ld.lld", "llvm-bolt", "perf2bolt"],
    ),
    (
        "docs/autofdo.md",
        &["clang", "llvm-profgen", "llvm-profdata"],
    ),
    ("docs/pprof.md", &["go"]),
    (
        "docs/kcachegrind.md",
        &["callgrind_annotate", "cg_annotate"],
    ),
];

/// Script that makes everything that examples name, but for processes. The programs have no library: what single-steps them is soon
/// through, and a library's start is most of what such a program executes.
const STAGE: &str = r#"set -e
        printf 'int main(void) { volatile int n = 0; while (n < 1000) n = n + 1; return 0; }' > app.c
        printf '__asm__(".globl _start\\n_start: call main\\n mov %%eax, %%edi\\n mov $231, %%eax\\n syscall");' > start.c
        cc -static -nostdlib -o app app.c start.c
        # It lasts for many ticks of the kernel's clock, by which `model --every` counts CPU time, on a loaded machine too.
        sed s/1000/150000000/ app.c > server.c
        cc -static -nostdlib -o server server.c start.c
        # Its values come again and again, as those of a program that is studied do.
        printf 'static volatile int t[16]; int main(void) { int s = 0; for (int n = 0; n < 30000; n++) { t[n %% 16] = n %% 3; s += t[n %% 7]; } return s == 1; }' > studied.c
        cc -static -nostdlib -o studied studied.c start.c
        head -c 100000 /dev/urandom > big.tar
        trommel record --quiet --stream app.tstream -- ./app
        trommel record --quiet -e context -o contexts.data -- ./app
        trommel record --quiet -c 'M4[10k,1%]2048' -o m4.data -- ./app
        # With modules.
        mkdir dynamic
        cc -o dynamic/app app.c
        trommel record --quiet --stream other.tstream -o other.data -- dynamic/app
        cp trommel.data before.data
        cp trommel.data after.data
        mkdir -p docs/lab
        trommel stream convert -e value app.tstream gcc.value.raw16.zst
        printf 'for opSTORE 1 always collect op1;\n    send 3 stop;\n' > stores.rpa
        trommel query asm -o stores.bin stores.rpa
        printf 'for opBRANCH * every 256 collect pc misc;\n    send 1 stop;\n' > edges.rpa
        printf 'for opLOAD * every 256 collect pc;\n    send 1 stop;\n' > loads.rpa
        printf 'for evL2DMISS * always collect pc res2;\n    send 1 stop;\n' > misses.rpa
        printf 'for opLOAD * opSTORE * every 1k pair 16 collect pc res2;\n    if res2 = second.res2 then send 1 stop else count stop;\n' > near.rpa
        printf 'window = 32\n' > small.machine
        ln -s "$WORKSPACE/include" "$WORKSPACE/examples" .
        cc -O2 -shared -fPIC -I include -o edges.so examples/service/edges.c
        cc -O2 -shared -fPIC -I include -o hot.so examples/service/hot.c
        cc -O2 -shared -fPIC -I include -o strides.so examples/module/strides.c"#;

/// Makes the database that examples read, of a process of the name that they give.
const DATABASE: &str =
    "timeout --preserve-status -s INT 3 trommel daemon --epoch 1s --db DIR -p $(cat PID)";

/// A directory with everything that examples name: a copy of one that is made once for a command.
fn stage() -> Result<Scratch, String> {
    static MADE: OnceLock<Result<String, String>> = OnceLock::new();
    let from = MADE.get_or_init(|| {
        let bin = fs::metadata(trommel()).and_then(|bin| Ok((bin.len(), bin.modified()?)));
        let stamp = format!("{bin:?} {STAGE} {DATABASE} {}", workspace().display());
        kept("stage", "examples", &stamp, || {
            let dir = cache_dir().join("examples");
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
            prepared(&dir, STAGE)?;
            let _server = with_process(&dir, SERVER)?;
            prepared(&dir, DATABASE)?;
            Ok(dir.to_string_lossy().into_owned())
        })
    });
    let scratch = Scratch::new().map_err(|e| e.to_string())?;
    prepared(scratch.dir(), &format!("cp -a '{}/.' .", from.clone()?))?;
    Ok(scratch)
}

/// Name of the process that examples of the daemon name.
const SERVER: &str = "redis-server";

/// The same, of this test alone: a daemon takes all processes of a name, also those of other tests.
fn server() -> String {
    format!("redis-{}", std::process::id())
}

/// A process that goes on until this is dropped.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process that goes on, under a name of its own: a daemon attaches to all processes of a name.
fn with_process(dir: &Path, name: &str) -> Result<Busy, String> {
    let script = r#"set -e
        printf '#include <unistd.h>\nint main(void) { for (alarm(120);;) {
            for (volatile int n = 0; n < 1000000; n = n + 1) ; usleep(7000); } }' > busy.c
        cc -o NAME busy.c"#;
    prepared(dir, &script.replace("NAME", name))?;
    let mut command = Command::new(dir.join(name));
    let command = command.current_dir(dir).stdin(Stdio::null());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let busy = Busy(command.spawn().map_err(|e| format!("{name}: {e}"))?);
    let number = format!("{}\n", busy.0.id());
    fs::write(dir.join("PID"), number).map_err(|e| e.to_string())?;
    Ok(busy)
}

fn prepared(dir: &Path, script: &str) -> Result<(), String> {
    let ended = shell(script, dir)?;
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

fn shell(script: &str, dir: &Path) -> Result<Output, String> {
    let bin = trommel().parent().unwrap_or(Path::new(""));
    let path = std::env::var("PATH").unwrap_or_default();
    Command::new("timeout")
        .args(["300", "bash", "-c", script])
        .current_dir(dir)
        .env("PATH", format!("{}:{path}:{LLVM}", bin.display()))
        .env("WORKSPACE", workspace())
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())
}

/// The same command on less: an experiment of the lab takes minutes with all its events.
fn shortened(line: &str) -> String {
    let line = &*line.replace(SERVER, &server());
    let mut words: Vec<_> = line.split(' ').collect();
    if line.starts_with("trommel lab ") && !line.ends_with(" list") {
        if let Some(at) = words.iter().position(|w| *w == "--events") {
            words.drain(at..at + 2);
        }
        words.splice(2..2, ["--events", "20k"]);
        return words.join(" ").replace("./app", "./studied");
    }
    if line.starts_with("trommel top ") {
        return watched(line);
    }
    if let Some(asks) = line.strip_prefix("trommel query ")
        && line.contains(" -p ")
    {
        return in_session(line, asks);
    }
    if !line.starts_with("trommel daemon ") {
        return words.join(" ");
    }
    // It goes on until it is interrupted.
    let line = format!("timeout --preserve-status -s INT 2 {line}");
    match words.contains(&"--user") {
        // It attaches to all processes of this user. In a namespace of its own there is one.
        true => format!(
            "unshare --user --map-root-user --pid --fork --mount-proc bash -c './{} & {line}; ended=$?; kill $!; exit $ended'",
            server()
        ),
        false => line,
    }
}

/// The same of a command for a session that runs: one that asks other queries than the command loads.
fn in_session(line: &str, asks: &str) -> String {
    let asked = match asks.starts_with("load stores.rpa") {
        true => "edges.rpa",
        false => "stores.rpa",
    };
    let line = line.replace(" -p 1234", " -p $P");
    // One process, which ends by itself. `timeout` leaves its child to go on if a signal meets it before it knows the child's number.
    format!(
        "trommel record --quiet -q {asked} -o asked.data -- bash -c 'while [ $SECONDS -lt 30 ]; do :; done' & P=$!
        for n in $(seq 400); do trommel query list -p $P > /dev/null 2>&1 && break; sleep 0.05; done
        {line}
        ended=$?; kill $(pgrep -P $P); wait $P; exit $ended"
    )
}

/// The process that examples of `top` watch.
const WATCHED: &str = "watched";

/// The same of `top`, which has no terminal here, on a process that goes on.
fn watched(line: &str) -> String {
    let line = line.replace(" PID", " $(cat PID)");
    let line = line.replace(" ./app", &format!(" ./{WATCHED}"));
    match line.contains("--once") || line.contains("--json") {
        true => line,
        false => line.replacen("trommel top ", "trommel top --once ", 1),
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
        not_tested("examples of `record --all`: this user may not sample the machine");
    }
    Ok(!refused)
}

/// Returns true if processes of a test's own can be told from all others of this user, and prints a word where not.
fn may_make_namespaces(stage: &Scratch) -> Result<bool, String> {
    let script = "unshare --user --map-root-user --pid --fork --mount-proc true";
    let may = shell(script, stage.dir())?.status.success();
    if !may {
        not_tested("an example of `daemon --user`: this user may make no namespaces");
    }
    Ok(may)
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
    let needs = NEEDS.iter().find(|(document, _)| *document == name);
    for tool in needs.iter().flat_map(|(_, tools)| tools.iter()) {
        if !shell(&format!("command -v {tool}"), stage.dir())?
            .status
            .success()
        {
            not_tested(format!("examples of {name}: {tool} is not installed"));
            return Ok(());
        }
    }
    let busy = match name {
        "docs/database.md" | "docs/query.md" => Some(server()),
        "docs/top.md" => Some(WATCHED.to_owned()),
        _ => None,
    };
    let _busy = match busy {
        Some(name) => Some(with_process(stage.dir(), &name)?),
        None => None,
    };
    for script in scripts {
        let script = script.split("```").next().unwrap_or_default();
        fs::write(stage.path("example.py"), script).map_err(|e| e.to_string())?;
        runs(
            "trommel report --json > report.json; python3 example.py",
            stage.dir(),
        )?;
    }
    // Shortened, runs of the lab are the same.
    let mut done = BTreeSet::new();
    commands
        .iter()
        .filter(|line| !line.starts_with("trommel lab ") || done.insert(shortened(line)))
        .try_for_each(|line| runs(line, stage.dir()))
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

/// Runs the commands below `Examples:` of a command's help, each up to the gap before its explanation.
fn help(command: &str) -> Result<(), String> {
    let ended = shell(&format!("trommel help {command}"), Path::new("/"))?;
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let (_, below) = text
        .split_once("Examples:")
        .ok_or_else(|| format!("`trommel help {command}` shows no examples"))?;
    // To the next empty line: a page that follows has sentences that begin with the command's name.
    let lines = (below.lines().skip(1))
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.strip_prefix("  trommel "));
    let examples: Vec<String> = lines
        .map(|line| {
            let line = line.split("  ").next().unwrap_or(line);
            format!("trommel {}", line.trim())
        })
        .collect();
    if examples.is_empty() {
        return Err(format!("no example of `trommel help {command}` was found"));
    }
    let examples: Vec<_> = examples
        .into_iter()
        .filter(|line| !line.starts_with(IN_A_DOCUMENT))
        .collect();
    let stage = stage()?;
    let any = |word: &str| examples.iter().any(|line| line.contains(word));
    let served = any("trommel daemon ") && any(SERVER);
    let watched = any("trommel top ").then(|| WATCHED.to_owned());
    let names = served.then(server).into_iter().chain(watched);
    let _busy: Vec<Busy> = names
        .map(|name| with_process(stage.dir(), &name))
        .collect::<Result<_, _>>()?;
    let machine = !any("--all") || may_sample_the_machine(&stage)?;
    let namespaces = !any("--user") || may_make_namespaces(&stage)?;
    let mut examples = examples.iter();
    examples.try_for_each(|line| {
        let refused = line.contains("--all") && !machine || line.contains("--user") && !namespaces;
        match refused {
            true => Ok(()),
            false => runs(line, stage.dir()),
        }
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
