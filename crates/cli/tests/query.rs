//! `trommel query` as people and scripts meet it.

mod common;

use std::process::{Command, Output, Stdio};

use common::Dir;

const STORES: &str = "\
tag 1 symbol \"store_reference\";

for opSTORE 1 always collect op1 op2 op3;
    if op1 <> 0 then send 3 stop else stop;
";

fn run(dir: &Dir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    command
        .arg("query")
        .args(args)
        .current_dir(&dir.0)
        .stdin(Stdio::null());
    command.output().expect("trommel runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A directory with a file `q.rpa`.
fn with(name: &str, query: &str) -> Dir {
    let dir = Dir::new(&format!("query-{name}"));
    std::fs::write(dir.0.join("q.rpa"), query).expect("written");
    dir
}

#[test]
fn what_is_assembled_is_disassembled() {
    let dir = with("asm", STORES);
    assert!(
        dir.trommel(&["query", "asm", "-o", "q.bin", "q.rpa"])
            .is_empty()
    );
    assert_eq!(text(&dir.trommel(&["query", "disasm", "q.bin"])), STORES);
    let listing = text(&dir.trommel(&["query", "asm", "q.rpa"]));
    assert_eq!(
        listing,
        "# profile control registers; all others are 0\n\
         pcr 26  00080054  opSTORE 1: always, op1 op2 op3\n\
         pcr 27  00000000  query at 0\n\
         # query instructions\n  \
         0  00334000000000e2  if op1 <> 0 then send 3 stop else stop  # line 4\n"
    );
    let json = dir.json(&["query", "asm", "--json", "q.rpa"]);
    assert_eq!(json["schema"], "trommel.query/1");
    assert_eq!(json["instructions"][0]["word"], "00334000000000e2");
    assert_eq!(json["registers"][0]["number"], 26);
    assert_eq!(json["registers"][0]["value"], 0x80054);
    assert_eq!(json["tags"][0]["symbol"], "store_reference");
    assert_eq!(json["queries"][0]["entries"][0], "opSTORE 1");
    assert_eq!(json["queries"][0]["line"], 3);
}

#[test]
fn mistakes_are_shown_with_their_place_and_the_fix() {
    let dir = with(
        "mistake",
        "for opLOAD * always collect pc;\n\tif op1 <> 0 then send 1 stop else stop;\n",
    );
    for verb in ["check", "asm"] {
        let out = run(&dir, &[verb, "q.rpa"]);
        assert_eq!(out.status.code(), Some(1));
        assert!(out.stdout.is_empty());
        assert_eq!(
            text(&out.stderr),
            "q.rpa:2:5: error: `op1` is not collected by this query\n\
             2 |  if op1 <> 0 then send 1 stop else stop;\n  \
             |     ^^^\n  \
             = fix: add `op1` to `collect` in its header\n\
             trommel: q.rpa: 1 error\n"
        );
    }
    let out = run(&dir, &["check", "--json", "q.rpa"]);
    assert_eq!(out.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let file = &json["files"][0];
    assert_eq!(
        (&file["valid"], &file["queries"]),
        (&false.into(), &serde_json::Value::Null)
    );
    let place =
        ["line", "column", "end_line", "end_column"].map(|k| file["diagnostics"][0][k].as_u64());
    assert_eq!(place, [2, 5, 2, 8].map(Some));
}

#[test]
fn checks_tell_what_is_asked_for() {
    let dir = with(
        "check",
        "for evL2DMISS * always collect pc res2;\nsend 2 stop;\n\
         for opALU * opMULT 3 every 1024 collect pc rrate;\nsend 4 stop; stop;\n",
    );
    let out = run(&dir, &["check", "q.rpa"]);
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(
        text(&out.stdout),
        "q.rpa: 2 queries, 3 of 128 instructions\n  \
         line 1: evL2DMISS *, always, collects pc res2\n    \
         only the hardware model knows evL2DMISS\n  \
         line 3: opALU *, opMULT 3, every 1024, collects pc rrate\n    \
         only the hardware model knows rrate\n"
    );
    let said = text(&out.stderr);
    for warning in [
        "q.rpa:3:13: warning: `opMULT 3` selects nothing",
        "q.rpa:4:14: warning: no record comes to this clause\n",
    ] {
        assert!(said.contains(warning), "{said}");
    }
}

#[test]
fn formatting_prints_writes_or_checks() {
    let dir = with("fmt", "for opLOAD * ALWAYS collect PC;stop;");
    let normal = "for opLOAD * always collect pc;\n    stop;\n";
    assert_eq!(text(&dir.trommel(&["query", "fmt", "q.rpa"])), normal);
    let out = run(&dir, &["fmt", "--check", "q.rpa"]);
    assert_eq!(
        (out.status.code(), text(&out.stdout)),
        (Some(1), "q.rpa\n".to_owned())
    );
    assert!(
        dir.trommel(&["query", "fmt", "--write", "q.rpa"])
            .is_empty()
    );
    assert_eq!(
        std::fs::read_to_string(dir.0.join("q.rpa")).expect("read"),
        normal
    );
    assert!(
        dir.trommel(&["query", "fmt", "--check", "q.rpa"])
            .is_empty()
    );
    let files = std::fs::read_dir(&dir.0).expect("listed").count();
    assert_eq!(files, 1, "a temporary file is left");
}

#[test]
fn wrong_files_are_refused_in_words() {
    let dir = with("wrong", STORES);
    dir.trommel(&["query", "asm", "-o", "q.bin", "q.rpa"]);
    let mut cut = std::fs::read(dir.0.join("q.bin")).expect("read");
    cut.truncate(300);
    std::fs::write(dir.0.join("cut"), cut).expect("written");
    std::fs::write(dir.0.join("bytes"), b"# \n\xff\xfe").expect("written");
    std::fs::write(dir.0.join("large"), " ".repeat(2 << 20)).expect("written");
    for (args, words) in [
        (
            &["check", "none.rpa"][..],
            "none.rpa: cannot be read: No such file",
        ),
        (&["check", "q.bin"], "`trommel query disasm q.bin`"),
        (&["fmt", "bytes"], "bytes:2: is not UTF-8 (at byte 3)"),
        (&["asm", "large"], "longer than 1048576 bytes"),
        (
            &["disasm", "q.rpa"],
            "`trommel query asm -o FILE` makes a program",
        ),
        (
            &["disasm", "cut"],
            "cut: not an assembled query: it is cut short (at byte 300)",
        ),
        (
            &["asm", "q.rpa", "-o", "no/where"],
            "cannot write there; name a file elsewhere",
        ),
    ] {
        let out = run(&dir, args);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {said}");
        assert!(
            out.stdout.is_empty() && said.contains(words),
            "{args:?}: {said}"
        );
    }
    let marked = format!("\u{feff}{STORES}");
    std::fs::write(dir.0.join("marked"), marked).expect("written");
    assert_eq!(text(&dir.trommel(&["query", "fmt", "marked"])), STORES);
    let out = run(&dir, &["fmt", "-"]);
    assert!(
        out.status.success() && out.stdout.is_empty(),
        "nothing is in normal form"
    );
}

#[test]
fn help_manual_and_completions_know_the_verbs() {
    let dir = Dir::new("query-help");
    for args in [
        &["query", "--help"][..],
        &["man", "query"],
        &["completions", "bash"],
    ] {
        let shown = text(&dir.trommel(args));
        for verb in ["check", "asm", "disasm", "fmt"] {
            assert!(shown.contains(verb), "{args:?} does not know {verb}");
        }
    }
    let help = text(&dir.trommel(&["query", "--help"]));
    let example = help.split("profile tag 1:\n").nth(1).expect("an example");
    let query = example.split("\n\n").next().expect("an example");
    std::fs::write(dir.0.join("q.rpa"), query).expect("written");
    dir.trommel(&["query", "check", "q.rpa"]);
}
