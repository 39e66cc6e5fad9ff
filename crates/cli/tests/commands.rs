//! The commands as people and scripts meet them: outputs, statuses, and each error in words.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use trommel_profile::{KindProfile, Loaded, Module, Profile, Run, Site, Threads};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trommel-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("file");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("mode");
        path
    }

    fn trommel(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("trommel runs")
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        command
            .args(args)
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .env_remove("NO_COLOR");
        command
    }

    /// Runs a command that must fail with one clear message.
    fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        let out = self.trommel(args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {text}");
        assert!(out.stdout.is_empty(), "{args:?} wrote to stdout");
        assert!(!text.contains("panicked"), "{text}");
        for word in words {
            assert!(
                text.contains(word),
                "{args:?}: `{text}` does not say `{word}`"
            );
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn at(vaddr: u64) -> Place {
    Place::new(ModuleId(1), Vaddr(vaddr))
}

/// A profile of /bin/true with one branch of each sort.
fn profile() -> Profile {
    let edges = BTreeMap::from([
        (
            at(0x100),
            vec![(at(0x106).word(), 30), (at(0x200).word(), 70)],
        ),
        (at(0x300), vec![(at(0x400).word(), 5)]),
    ]);
    let calls = BTreeMap::from([
        (at(0x500), vec![(at(0x600).word(), 11)]),
        (
            at(0x510),
            vec![(at(0x600).word(), 2), (at(0x700).word(), 9)],
        ),
    ]);
    let values = BTreeMap::from([(at(0x800), vec![(0, 91), (8, 4), (u64::MAX, 5)])]);
    let kind = |counts: BTreeMap<Place, Vec<(u64, u64)>>| {
        let seen = counts.values().flatten().map(|(_, count)| count).sum();
        KindProfile {
            seen,
            messages: seen,
            counts,
        }
    };
    Profile {
        origin: Default::default(),
        windows: None,
        queries: Vec::new(),
        samples: None,
        filter: None,
        call_trees: Vec::new(),
        compiled: Vec::new(),
        sum: None,
        simulated: None,
        intervals: None,
        scope: Default::default(),
        after_calls: None,
        deliveries: Default::default(),
        command: vec![b"/bin/true".to_vec(), b"two words".to_vec()],
        compressor: "exact".into(),
        counted: trommel_profile::Counted::Code,
        modules: vec![
            Module {
                path: b"[anon]".to_vec(),
                ..Module::default()
            },
            Module {
                id: ModuleId(1),
                path: b"/nowhere/app\x1b[31m".to_vec(),
                build_id: vec![0xab, 0xcd],
                ..Module::default()
            },
        ],
        kinds: [
            (Kind::Edge, kind(edges)),
            (Kind::Call, kind(calls)),
            (Kind::Value, kind(values)),
        ]
        .into(),
        sites: [
            (
                at(0x100),
                Site::Conditional {
                    taken: at(0x200),
                    fallthrough: at(0x106),
                },
            ),
            (at(0x300), Site::IndirectJump),
            (at(0x500), Site::DirectCall),
            (at(0x510), Site::IndirectCall),
        ]
        .into(),
        run: Run {
            status: Some(0),
            wall: 1_500_000_000,
            ..Run::default()
        },
        threads: Threads::default(),
    }
}

fn with_profile(name: &str) -> Dir {
    let dir = Dir::new(name);
    trommel_store::write(&dir.0.join("trommel.data"), &[profile()]).expect("written");
    dir
}

fn text(out: &Output) -> String {
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout.clone()).expect("UTF-8")
}

#[test]
fn the_report_shows_each_kind_hottest_first() {
    let dir = with_profile("report");
    let report = text(&dir.trommel(&["report", "--by", "event"]));
    for wanted in [
        "/bin/true 'two words'",
        "1.50 s wall",
        "exit status 0",
        "none: every event is counted",
        "66.67%",
        "taken",
        " 0 91.0%",
        "# no names: /nowhere/app",
    ] {
        assert!(report.contains(wanted), "no `{wanted}` in\n{report}");
    }
    assert!(
        !report.contains('\x1b'),
        "control characters of a module's name reached the output"
    );
    let row = |count: &str| {
        report
            .lines()
            .position(|l| l.trim_start().starts_with(count))
    };
    assert!(row("70 ") < row("30 ") && row("30 ") < row("5 "));
    let only = text(&dir.trommel(&["report", "-e", "call", "--top", "1"]));
    assert!(
        only.contains("and 2 more") && !only.contains("Loaded values"),
        "{only}"
    );
    // The other kinds are in the profile, so functions are known.
    assert!(!only.contains("not known without"), "{only}");
}

#[test]
fn json_holds_every_entry_as_documented() {
    let dir = with_profile("json");
    let json: Value =
        serde_json::from_str(&text(&dir.trommel(&["report", "--json"]))).expect("JSON");
    assert_eq!(json["schema"], "trommel.report/1");
    assert_eq!(
        json["command"],
        serde_json::json!(["/bin/true", "two words"])
    );
    assert_eq!(json["compressor"], "exact");
    assert_eq!(json["modules"][1]["id"], 1);
    assert_eq!(json["modules"][1]["build_id"], "abcd");
    assert_eq!(json["modules"][0]["build_id"], Value::Null);
    assert_eq!(
        json["events"]["edge"],
        serde_json::json!({"seen": 105, "messages": 105})
    );
    let edges: Vec<_> = json["edges"]
        .as_array()
        .expect("edges")
        .iter()
        .map(|e| {
            assert_eq!(e["from"]["module"], 1);
            (
                e["from"]["vaddr"].as_u64(),
                e["to"]["vaddr"].as_u64(),
                e["kind"].as_str(),
                e["count"].as_u64(),
            )
        })
        .collect();
    assert_eq!(
        edges,
        [
            (Some(0x100), Some(0x200), Some("taken"), Some(70)),
            (Some(0x100), Some(0x106), Some("fallthrough"), Some(30)),
            (Some(0x300), Some(0x400), Some("indirect"), Some(5)),
        ]
    );
    let calls: Vec<_> = json["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|e| (e["kind"].as_str(), e["count"].as_u64()))
        .collect();
    assert_eq!(
        calls,
        [
            (Some("direct"), Some(11)),
            (Some("indirect"), Some(9)),
            (Some("indirect"), Some(2))
        ]
    );
    let value = &json["values"][0];
    assert_eq!(
        (value["executions"].as_u64(), value["distinct"].as_u64()),
        (Some(100), Some(3))
    );
    assert_eq!(value["at"]["function"], Value::Null);
    assert_eq!(
        value["top"][0],
        serde_json::json!({"value": 0, "count": 91, "share": 0.91})
    );
    assert_eq!(value["top"][1]["value"], u64::MAX);
    let one: Value = serde_json::from_str(&text(&dir.trommel(&["report", "--json", "--top", "1"])))
        .expect("JSON");
    assert_eq!(one["edges"].as_array().map(Vec::len), Some(1));
}

#[test]
fn files_that_are_no_profiles_are_named() {
    let dir = with_profile("files");
    let good = std::fs::read(dir.0.join("trommel.data")).expect("profile");
    dir.file("cut", &good[..good.len() / 2], 0o644);
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 4;
    dir.file("bad", &bad, 0o644);
    dir.file("empty", b"", 0o644);
    dir.file("text", b"hello, world\n", 0o644);
    dir.refused(
        &["report", "missing.data"],
        1,
        &["missing.data", "no such file", "trommel record"],
    );
    dir.refused(&["report", "cut"], 1, &["cut", "cut short", "record again"]);
    dir.refused(&["report", "bad"], 1, &["bad", "corrupt", "record again"]);
    dir.refused(&["report", "empty"], 1, &["empty", "not a profile"]);
    dir.refused(&["report", "text"], 1, &["text", "not a profile"]);
    dir.refused(&["report", "."], 1, &["directory"]);
    dir.refused(
        &["report", "-e", "type"],
        1,
        &["no `type` events", "edge, call, value", "record -e type"],
    );
    dir.refused(
        &["report", "-e", "edges"],
        2,
        &["edges", "not an event kind"],
    );
}

#[test]
fn programs_that_cannot_run_are_named_before_anything_starts() {
    let dir = Dir::new("programs");
    let real = std::fs::read("/bin/true").expect("/bin/true");
    let patched = |at: usize, bytes: &[u8]| {
        let mut copy = real.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        copy
    };
    dir.file("plain", &real, 0o644);
    dir.file("i386", &patched(4, &[1, 1, 1]), 0o755);
    dir.file("arm", &patched(18, &[183, 0]), 0o755);
    dir.file("cut", &real[..real.len() / 2], 0o755);
    dir.file("data", b"hell\0\n", 0o755);
    dir.refused(
        &["record", "--", "no-such-program-here"],
        127,
        &["no-such-program-here", "command not found"],
    );
    dir.refused(
        &["record", "--", "./missing"],
        127,
        &["./missing", "no such file"],
    );
    dir.refused(&["record", "--", "/"], 126, &["/: is a directory"]);
    dir.refused(
        &["record", "--", "./plain"],
        126,
        &["./plain", "not executable", "chmod +x"],
    );
    dir.refused(&["record", "--", "./i386"], 126, &["./i386", "32-bit"]);
    dir.refused(&["record", "--", "./arm"], 126, &["./arm", "AArch64"]);
    dir.refused(&["record", "--", "./cut"], 126, &["./cut", "corrupt"]);
    dir.refused(
        &["record", "--", "./data"],
        126,
        &["./data", "neither an ELF program nor a script"],
    );
    assert_eq!(
        std::fs::read_dir(&dir.0).expect("dir").count(),
        5,
        "a file was left behind"
    );
}

#[test]
fn wrong_arguments_are_explained() {
    let dir = Dir::new("arguments");
    dir.refused(&["record"], 2, &["PROGRAM"]);
    dir.refused(
        &["record", "-e", "jumps", "--", "true"],
        2,
        &["jumps", "edge, call, value, type"],
    );
    dir.refused(
        &["record", "-e", "result", "--", "true"],
        2,
        &["result", "query"],
    );
    dir.refused(
        &["record", "-e", "latency", "--", "true"],
        1,
        &["latency", "windows", "--budget"],
    );
    dir.refused(
        &["record", "--only", "20-10", "--", "true"],
        2,
        &["empty", "0x20"],
    );
    dir.refused(
        &["record", "-o", "no/where", "--", "true"],
        1,
        &["no/where", "does not exist", "name another file"],
    );
    dir.refused(&["record", "-o", ".", "--", "true"], 1, &["is a directory"]);
    dir.refused(&["recrod"], 2, &["recrod", "record"]);
    dir.refused(&["man", "nothing"], 1, &["nothing", "no such command"]);
}

#[test]
fn a_closed_stdout_is_no_error() {
    let dir = with_profile("closed");
    for args in [
        &["report"][..],
        &["report", "--json"],
        &["doctor"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
    ] {
        let mut child = dir
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("trommel runs");
        drop(child.stdout.take());
        let out = child.wait_with_output().expect("ends");
        assert_eq!(String::from_utf8_lossy(&out.stderr), "", "{args:?}");
    }
}

/// Words of a command that must fail.
fn refused(dir: &Dir, args: &[&str]) -> String {
    let out = dir.command(args).output().expect("trommel runs");
    assert!(!out.status.success(), "{args:?}");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
fn a_cause_is_said_once() {
    let dir = with_profile("once");
    let text = refused(&dir, &["report", "trommel.data/below"]);
    assert_eq!(text.matches("Not a directory").count(), 1, "{text}");
}

/// Results go to an output that was closed: the program is not run for them.
#[test]
fn what_was_asked_for_is_not_lost_in_a_closed_output() {
    let dir = Dir::new("asked");
    let trommel = env!("CARGO_BIN_EXE_trommel");
    for (args, closed, wanted) in [
        ("run --stats - -- touch ran", 1, "standard output is closed"),
        (
            "record --stats - -- touch ran",
            1,
            "standard output is closed",
        ),
        ("stat -- touch ran", 2, ""),
    ] {
        let line = format!("exec {trommel} {args} {closed}>&-");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &line]).current_dir(&dir.0);
        let out = shell.output().expect("a shell");
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && said.contains(wanted),
            "{args}: {said}"
        );
        assert!(!dir.0.join("ran").exists(), "{args}");
    }
    // Its result is a file, and what it says besides may be lost.
    let line = format!("exec {trommel} record -- true 2>&-");
    let mut shell = std::process::Command::new("sh");
    let done = shell.args(["-c", &line]).current_dir(&dir.0).status();
    assert!(done.expect("a shell").success() && dir.0.join("trommel.data").exists());
}

#[test]
fn a_pipe_for_a_profile_is_refused_and_not_waited_for() {
    let dir = with_profile("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(dir.0.join("fifo"))
        .status();
    assert!(made.expect("mkfifo").success());
    for args in [
        &["report", "fifo"][..],
        &["diff", "trommel.data", "fifo"],
        &["export", "-f", "csv", "-o", "-", "fifo"],
    ] {
        let text = refused(&dir, args);
        assert!(text.contains("no regular file"), "{args:?}: {text}");
    }
}

#[test]
fn a_module_without_a_name_is_refused() {
    let dir = with_profile("nameless");
    let text = refused(&dir, &["report", "--module", ""]);
    assert!(text.contains("a value is required for '--module"), "{text}");
}

#[test]
fn an_earlier_export_is_kept_and_named() {
    let dir = Dir::new("earlier");
    dir.trommel(&["record", "--quiet", "--", "/bin/true"]);
    let export = ["export", "-f", "csv", "-o", "out.csv"];
    dir.trommel(&export);
    let out = dir.command(&export).output().expect("trommel runs");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("the earlier one is out.csv.old"), "{text}");
    assert!(dir.0.join("out.csv.old").exists());
}

/// Exports the profile of the directory as text; returns it with what was said.
#[test]
fn an_export_takes_the_place_of_nothing_that_it_is_made_of() {
    let dir = Dir::new("place");
    std::fs::copy("/bin/true", dir.0.join("app")).expect("a program");
    for name in ["first.data", "first.data.old"] {
        dir.trommel(&["record", "--quiet", "-o", name, "--", "./app"]);
    }
    let before = std::fs::read(dir.0.join("first.data.old")).expect("a profile");
    let export = |out, from| refused(&dir, &["export", "-f", "csv", "-o", out, from]);
    for out in ["first.data.old", "./first.data"] {
        let text = export(out, "first.data.old");
        assert!(text.contains("choose another --output"), "{text}");
    }
    assert!(export("app", "first.data").contains("app: is a file whose code was executed"));
    let after = std::fs::read(dir.0.join("first.data.old")).expect("a profile");
    assert!(before == after);
}

#[test]
fn modules_that_there_are_not_are_named_and_links_are_followed() {
    let dir = Dir::new("linked");
    std::os::unix::fs::symlink("/bin/true", dir.0.join("link")).expect("a link");
    dir.trommel(&["record", "--quiet", "--", "./link"]);
    let known = [
        "export", "-f", "csv", "--module", "true", "--module", "nosuch",
    ];
    let text = refused(&dir, &known);
    assert!(
        text.contains("no module is called nosuch; there are"),
        "{text}"
    );
    let text = refused(&dir, &["export", "-f", "bolt"]);
    assert!(text.contains("bin/true"), "not of the program: {text}");
}

fn exported(dir: &Dir, format: &str) -> (String, String) {
    let args = ["export", "-f", format, "-o", "-"];
    let out = dir.command(&args).output().expect("trommel runs");
    let [text, said] = [out.stdout, out.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    assert!(out.status.success(), "{format}: {said}");
    (text, said)
}

#[test]
fn counts_that_a_format_cannot_hold_are_said() {
    let dir = Dir::new("great");
    let file = dir.0.join("trommel.data");
    dir.trommel(&["record", "--quiet", "-e", "edge,call", "--", "/bin/true"]);
    for format in ["csv", "callgrind"] {
        assert!(!exported(&dir, format).1.contains("limited"), "{format}");
    }
    let mut profiles = trommel_store::read(&file).expect("a profile");
    let counts = profiles[0]
        .kinds
        .values_mut()
        .flat_map(|k| k.counts.values_mut());
    counts
        .flatten()
        .for_each(|(_, count)| *count = (1 << 60) + 1);
    trommel_store::write(&file, &profiles).expect("written");
    for format in [
        "csv",
        "callgrind",
        "pprof",
        "drcov",
        "cachegrind",
        "bolt-preagg",
    ] {
        let said = exported(&dir, format).1;
        let most = match format {
            "pprof" => i64::MAX as u64,
            _ => u64::MAX,
        };
        assert!(
            said.contains(&format!("above {most} are limited to it")),
            "{format}: {said}"
        );
    }
}

#[test]
fn costs_of_paths_are_exact_or_that_they_are_not_is_said() {
    let dir = Dir::new("costs");
    let file = dir.0.join("trommel.data");
    let most = (1 << 53) - 1_u64;
    for (own, exact, limited) in [
        (
            most - 1,
            &["folded", "speedscope", "firefox", "pprof"][..],
            &[][..],
        ),
        (most + 2, &["folded", "pprof"], &["speedscope", "firefox"]),
        (
            u64::MAX - 1,
            &["folded"],
            &["speedscope", "firefox", "pprof"],
        ),
    ] {
        let mut profile = profile();
        let tree = profile.call_tree_mut(trommel_profile::call_tree::Basis::Contexts);
        let frame = trommel_profile::call_tree::Frame {
            at: at(0x500),
            call: None,
        };
        let weight = trommel_profile::call_tree::Weight { times: 1, own };
        assert!(tree.add_stack([frame], weight));
        trommel_store::write(&file, std::slice::from_ref(&profile)).expect("written");
        for format in exact {
            let (text, said) = exported(&dir, format);
            assert!(!said.contains("counts add up"), "{format} {own}: {said}");
            assert!(
                text.contains(&own.to_string()) || *format == "pprof",
                "{format}: {text}"
            );
        }
        for format in limited {
            let how = match *format {
                "pprof" => "limited to it",
                _ => "rounded by readers of JSON",
            };
            let said = exported(&dir, format).1;
            assert!(said.contains(how), "{format} {own}: {said}");
        }
    }
}

#[test]
fn paths_that_are_cut_are_said() {
    let dir = Dir::new("deep");
    let mut profile = profile();
    let tree = profile.call_tree_mut(trommel_profile::call_tree::Basis::Contexts);
    let frames = (0..1500).map(|n| trommel_profile::call_tree::Frame {
        at: at(n),
        call: None,
    });
    let weight = trommel_profile::call_tree::Weight { times: 1, own: 7 };
    assert!(tree.add_stack(frames, weight));
    trommel_store::write(&dir.0.join("trommel.data"), std::slice::from_ref(&profile))
        .expect("written");
    for format in ["folded", "pprof"] {
        let said = exported(&dir, format).1;
        assert!(
            said.contains("paths of up to 1000 functions"),
            "{format}: {said}"
        );
    }
    assert_eq!(exported(&dir, "folded").0.matches(';').count(), 1000);
    // All of it is there, but for names: these were in a file that is gone.
    let said = exported(&dir, "speedscope").1;
    let gone = said.contains("functions without names: /nowhere/app");
    assert!(gone && said.lines().count() == 1, "{said}");
}

#[test]
fn a_full_stdout_is_an_error() {
    let dir = with_profile("full");
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let out = dir
        .command(&["report"])
        .stdout(full)
        .output()
        .expect("trommel runs");
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(
        !out.status.success() && text.contains("No space left"),
        "{text}"
    );
}

#[test]
fn the_doctor_has_a_row_for_each_matter() {
    let dir = Dir::new("doctor");
    let json: Value =
        serde_json::from_slice(&dir.trommel(&["doctor", "--json"]).stdout).expect("JSON");
    assert_eq!(json["schema"], "trommel.doctor/1");
    let checks = json["checks"].as_array().expect("checks");
    for name in [
        "ptrace",
        "FSGSBASE",
        "rseq",
        "memfd",
        "vector state",
        "seccomp",
    ] {
        let check = checks
            .iter()
            .find(|c| c["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"));
        assert!(["ok", "warn", "fail"].contains(&check["status"].as_str().expect("status")));
    }
    let out = dir.trommel(&["doctor"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(
        said.contains("doctor --limits") && !said.contains("Not supported"),
        "{said}"
    );
    let out = dir.trommel(&["doctor", "--limits"]);
    assert!(String::from_utf8_lossy(&out.stdout).contains("Not supported"));
}

#[test]
fn help_completions_and_manual_pages_are_there() {
    let dir = Dir::new("help");
    assert!(text(&dir.trommel(&["record", "--help"])).contains("Examples:"));
    assert!(text(&dir.trommel(&["completions", "bash"])).contains("_trommel"));
    assert!(text(&dir.trommel(&["man", "record"])).contains("trommel\\-record"));
    assert!(text(&dir.trommel(&["--version"])).starts_with("trommel "));
}

#[test]
fn names_come_from_the_program_that_was_recorded() {
    let dir = Dir::new("names");
    let source = dir.file(
        "app.c",
        b"int twice(int x) { return 2 * x; }\nint main(int c, char **v) { return twice(c) - 2; }\n",
        0o644,
    );
    let app = dir.0.join("app");
    let done = Command::new("cc")
        .args(["-g", "-O0", "-o"])
        .arg(&app)
        .arg(&source)
        .status();
    assert!(done.expect("a C compiler").success());
    let symbols = Command::new("nm").arg(&app).output().expect("nm");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let twice = symbols
        .lines()
        .find_map(|l| l.strip_suffix(" T twice"))
        .expect("twice");
    let twice = u64::from_str_radix(twice, 16).expect("hex");
    let mut profile = profile();
    profile.modules[1].path = app.to_str().expect("UTF-8").into();
    profile.modules[1].build_id.clear();
    let counts = BTreeMap::from([(at(twice), vec![(7, 100)])]);
    profile.kinds.get_mut(&Kind::Value).expect("values").counts = counts;
    trommel_store::write(&dir.0.join("trommel.data"), std::slice::from_ref(&profile))
        .expect("written");
    let json: Value =
        serde_json::from_str(&text(&dir.trommel(&["report", "--json"]))).expect("JSON");
    let place = &json["values"][0]["at"];
    assert_eq!(
        (place["function"].as_str(), place["line"].as_u64()),
        (Some("twice"), Some(1))
    );
    assert!(Path::new(place["file"].as_str().expect("file")).ends_with("app.c"));
}

#[test]
fn receiver_types_are_named_by_their_class() {
    let dir = Dir::new("types");
    let text_of = "struct Shape { virtual int area() { return 1; } }; Shape shape; int main() { return shape.area() - 1; }\n";
    let source = dir.file("app.cpp", text_of.as_bytes(), 0o644);
    let app = dir.0.join("app");
    let done = Command::new("g++")
        .args(["-O0", "-o"])
        .arg(&app)
        .arg(&source)
        .status();
    assert!(done.expect("a C++ compiler").success());
    let symbols = Command::new("nm").arg(&app).output().expect("nm");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let table = symbols
        .lines()
        .find_map(|l| l.strip_suffix(" V _ZTV5Shape"))
        .expect("method table");
    let table = u64::from_str_radix(table, 16).expect("hex");
    let bias = 0x5555_5555_4000;
    let mut profile = profile();
    profile.modules[1] = Module {
        id: ModuleId(1),
        path: app.to_str().expect("UTF-8").into(),
        loaded: Some(Loaded {
            start: bias,
            end: bias + 0x10000,
            bias,
        }),
        ..Module::default()
    };
    let counts = BTreeMap::from([(at(0x500), vec![(1, 2), (bias + table + 16, 9)])]);
    let kind = KindProfile {
        seen: 11,
        messages: 11,
        counts,
    };
    profile.kinds.insert(Kind::Type, kind);
    trommel_store::write(&dir.0.join("trommel.data"), std::slice::from_ref(&profile))
        .expect("written");
    let report = text(&dir.trommel(&["report", "-e", "type"]));
    assert!(report.contains("Shape 81.8%, 0x1 18.2%"), "{report}");
    let json: Value =
        serde_json::from_str(&text(&dir.trommel(&["report", "--json"]))).expect("JSON");
    assert_eq!(json["types"][0]["top"][0]["class"], "Shape");
    assert_eq!(json["types"][0]["top"][1]["class"], Value::Null);
}

#[test]
fn a_recording_ends_as_its_program_and_can_be_reported() {
    use std::os::unix::process::ExitStatusExt;
    let dir = Dir::new("record");
    let script = "echo out; echo err >&2; exit 7";
    let out = dir.trommel(&["record", "-e", "edge,call,value", "--", "sh", "-c", script]);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(
        (out.status.code(), &out.stdout[..]),
        (Some(7), &b"out\n"[..]),
        "{errors}"
    );
    assert!(
        errors.starts_with("err\n") && errors.contains("next: trommel values"),
        "{errors}"
    );
    let report = text(&dir.trommel(&["report"]));
    assert!(
        report.contains("exit status 7") && report.contains("Functions of the program"),
        "{report}"
    );
    let json: Value =
        serde_json::from_str(&text(&dir.trommel(&["report", "--json"]))).expect("JSON");
    assert_eq!(json["run"]["status"], 7);
    let counted = |list: &str, field: &str| -> u64 {
        json[list]
            .as_array()
            .expect(list)
            .iter()
            .filter_map(|e| e[field].as_u64())
            .sum()
    };
    assert_eq!(json["events"]["edge"]["seen"], counted("edges", "count"));
    assert_eq!(json["events"]["call"]["seen"], counted("calls", "count"));
    assert_eq!(
        json["events"]["value"]["seen"],
        counted("values", "executions")
    );
    let killed = dir.trommel(&["record", "--quiet", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.signal(), Some(15));
    assert!(
        killed.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&killed.stderr)
    );
    assert!(text(&dir.trommel(&["report"])).contains("ended by signal 15"));
    assert!(dir.0.join("trommel.data.old").exists());
}
