//! Acyclic paths as people and scripts meet them: a loop of known paths, recorded, reported and dumped; and what is refused.

mod common;

use std::process::{Command, Stdio};

use common::Dir;

/// Ten times around: odd counts take the branch, and the last time leads on to the end.
const LOOP: &str = "
.globl _start
_start: mov $10, %ecx
again:  test $1, %cl
        jne odd
        nop
odd:    dec %ecx
        jnz again
        mov $60, %eax
        xor %edi, %edi
        syscall
";

fn build(dir: &Dir) {
    std::fs::write(dir.0.join("loop.S"), LOOP).expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-nostdlib", "-static", "-no-pie", "-o", "loop", "loop.S"]);
    assert!(cc.current_dir(&dir.0).status().expect("cc").success());
}

#[test]
fn the_paths_of_a_loop_are_told_with_their_code() {
    let dir = Dir::new("paths");
    build(&dir);
    dir.trommel(&[
        "record",
        "-e",
        "path",
        "--stream",
        "s.tstream",
        "--",
        "./loop",
    ]);
    let json = dir.json(&["report", "--json"]);
    let paths = json["paths"].as_array().expect("paths");
    let shown = paths.iter().map(|path| {
        let at = &path["at"];
        format!(
            "{} {}+{} {} {} {} blocks {} instructions {}",
            path["executions"],
            at["function"].as_str().expect("a function"),
            at["vaddr"].as_u64().expect("a vaddr") % 16,
            path["outcomes"].as_str().expect("outcomes"),
            path["end"].as_str().expect("an end"),
            path["ends_with"].as_str().expect("an ending"),
            path["blocks"].as_array().expect("blocks").len(),
            path["instructions"],
        )
    });
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            "4 again+5 NT whole backward branch blocks 2 instructions 5",
            "4 again+5 TT whole backward branch blocks 2 instructions 4",
            "1 _start+0 NT whole backward branch blocks 2 instructions 6",
            "1 again+5 TN left left blocks 2 instructions 4",
        ]
    );
    let text = String::from_utf8(dir.trommel(&["report"])).expect("UTF-8");
    let row = text
        .lines()
        .find(|line| line.contains("TT"))
        .expect("a row");
    for word in ["4", "40.00%", "again", "backward branch at", "loop"] {
        assert!(row.contains(word), "{text}");
    }
    let dumped = String::from_utf8(dir.trommel(&["stream", "dump", "s.tstream"])).expect("UTF-8");
    let lines: Vec<&str> = dumped.lines().collect();
    assert_eq!(lines.len(), 10);
    assert!(lines[0].ends_with("0x5 [NT]"), "{dumped}");
    assert!(
        lines[9].ends_with("0x8000000000000006 [TN] left"),
        "{dumped}"
    );
}

#[test]
fn other_code_is_not_taken_for_that_of_a_path() {
    let dir = Dir::new("paths-other");
    build(&dir);
    dir.trommel(&["record", "-e", "path", "--", "./loop"]);
    std::fs::remove_file(dir.0.join("loop")).expect("removed");
    let json = dir.json(&["report", "--json"]);
    let path = &json["paths"][0];
    assert_eq!(
        (&path["executions"], &path["outcomes"]),
        (&4.into(), &"NT".into())
    );
    assert!(path.get("blocks").is_none() && path.get("ends_with").is_none());
}

#[test]
fn what_paths_do_not_go_with_is_refused() {
    let dir = Dir::new("paths-refused");
    build(&dir);
    dir.trommel(&["record", "-e", "path", "--", "./loop"]);
    for (words, said) in [
        (
            &["record", "-e", "path", "--budget", "3", "--", "./loop"][..],
            "not recorded in windows",
        ),
        (
            &[
                "record",
                "-e",
                "edge,path",
                "--window",
                "99",
                "--",
                "./loop",
            ],
            "not recorded in windows",
        ),
        (
            &["daemon", "--db", "d", "-e", "path", "-p", "1"],
            "trommel record -e path -p PID",
        ),
        (&["annotate", "again"], "record -e path,edge,call"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        let out = command
            .args(words)
            .current_dir(&dir.0)
            .stdin(Stdio::null())
            .output();
        let out = out.expect("trommel runs");
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && text.contains(said),
            "{words:?}: {text}"
        );
    }
}
