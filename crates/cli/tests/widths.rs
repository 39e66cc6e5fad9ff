//! Every table fits the terminal that it is written to, at 80, 120 and 200 columns and a word of a message is whole.
//!
//! Rows begin with a space, and the facts above them with `#`. Other lines are sentences: a terminal wraps these.

mod common;
#[path = "common/pty.rs"]
mod pty;

use std::process::{Command, Stdio};

use common::Dir;
use pty::Pty;
use unicode_width::UnicodeWidthStr;

/// Long names, which no table has room for, and enough of each kind of event.
const SOURCE: &str = r#"
#include <cstdio>
#include <map>
#include <string>
namespace a_namespace_with_a_long_name { namespace another_one_inside {
template <class T> struct Container_of_things {
  std::map<std::string, T> all;
  __attribute__((noinline)) T find_something_by_its_name(const std::string &name) { return all.at(name); }
};
struct Shape { virtual ~Shape() {} virtual double area_of_the_shape() const = 0; };
struct Square_with_equal_sides : Shape { double w = 2.5; double area_of_the_shape() const override { return w * w; } };
struct Rectangle_with_other_sides : Shape { double w = 2.5, h = 3; double area_of_the_shape() const override { return w * h; } };
} }
using namespace a_namespace_with_a_long_name::another_one_inside;
int main() {
  Container_of_things<long> things;
  for (int i = 0; i < 100; i++) things.all["name" + std::to_string(i)] = i;
  Shape *shapes[2] = { new Square_with_equal_sides, new Rectangle_with_other_sides };
  double sum = 0;
  long n = 0;
  for (int i = 0; i < 20000; i++) {
    sum += shapes[i % 3 == 0]->area_of_the_shape();
    n += things.find_something_by_its_name("name42");
  }
  return sum + n == 0;
}
"#;
const PROGRAM: &str = "./a_program_with_a_long_name";

/// Recordings, each with the name of its file.
const RECORDED: [(&str, &str); 11] = [
    ("values", "-e edge,call,value"),
    ("types", "-e edge,call,type"),
    ("paths", "-e path"),
    ("contexts", "-e context"),
    ("divided", "-e edge,call,context"),
    ("one", "--stream s.tstream --stream-limit 20000"),
    ("queries", "-q queries.rpa"),
    ("pairs", "-q pairs.rpa"),
    ("seven", "-q seven.rpa"),
    (
        "tuples",
        "-q pairs.rpa -c P16 --tuple pc,second.pc,distance",
    ),
    ("missed", "-e miss,llmiss,mispredict"),
];

const COMMANDS: [&str; 36] = [
    "report values",
    "report values --no-debug-info",
    "report values --by event",
    "report values --by line",
    "report values --by loop",
    "report values --by module",
    "report values --by process",
    "report values -e value",
    "report types -e type",
    "report paths",
    "report contexts",
    "report contexts --tree",
    "report contexts --inlined",
    "report divided --inlined",
    "report divided --tree --inlined",
    "values values",
    "annotate values main",
    "annotate values --all --module a_program_with_a_long_name",
    "diff values one",
    "export --list",
    "compress -c P256 -c H[P256]2048+A16 s.tstream",
    "stream info s.tstream",
    "doctor",
    "doctor --limits",
    "lab list",
    "stat -- ./a_program_with_a_long_name",
    "record -e edge,call,value -o other -- ./a_program_with_a_long_name",
    "report queries",
    "report pairs",
    "report seven",
    "report tuples",
    "report missed",
    "record -q seven.rpa -o other -- ./a_program_with_a_long_name",
    "record -e miss,mispredict -o other -- ./a_program_with_a_long_name",
    "model -q pairs.rpa --instructions 20k -- ./a_program_with_a_long_name",
    "model -q pipeline.rpa --instructions 20k -- ./a_program_with_a_long_name",
];

/// Queries, each in a file of a name.
const QUERIES: [(&str, &str); 4] = [
    (
        "queries.rpa",
        "for opLOAD * every 64 collect pc op1; send 1 stop; for opBRANCH * always collect pc; count stop;",
    ),
    (
        "pairs.rpa",
        "for opLOAD * opSTORE * every 100 pair 16 collect pc op1 res2; send 1 stop;",
    ),
    (
        "seven.rpa",
        "for opSTORE * every 64 collect pc thread op1 op2 op3 res1 res2; send 1 stop;",
    ),
    (
        "pipeline.rpa",
        "for evL2DMISS * always collect pc res2 rtime; send 1 stop;\
         for opBRANCH * every 16 collect pc misc ftime drate wlat elat rrate; send 2 stop;",
    ),
];

fn stage() -> Dir {
    let dir = Dir::new("widths");
    std::fs::write(dir.0.join("long.cc"), SOURCE).expect("a file");
    let built = Command::new("c++")
        .args(["-O1", "-g", "-o", PROGRAM, "long.cc"])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("c++").success());
    for (file, text) in QUERIES {
        std::fs::write(dir.0.join(file), text).expect("a file");
    }
    for (file, options) in RECORDED {
        let options: Vec<&str> = options.split(' ').collect();
        let words = [
            &["record", "--quiet", "-o", file],
            &options[..],
            &["--", PROGRAM],
        ];
        dir.trommel(&words.concat());
    }
    dir
}

/// Returns what a command writes to a terminal of so many columns, without its colours.
fn written(dir: &Dir, command: &str, columns: u16) -> String {
    let pty = Pty::new((columns, 50));
    let output = pty.output();
    let ended = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(command.split(' '))
        .current_dir(&dir.0)
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(pty.stream())
        .stderr(pty.stream())
        .status();
    assert!(ended.expect("runs").success(), "{command}");
    // All that it has written is there, and nobody else has the terminal.
    let text: Vec<u8> = output.iter().flatten().collect();
    let text = String::from_utf8(text).expect("UTF-8").replace('\r', "");
    let mut plain = String::new();
    for (n, part) in text.split("\x1b[").enumerate() {
        plain.push_str(match (n, part.split_once('m')) {
            (1.., Some((_, after))) => after,
            _ => part,
        });
    }
    plain
}

/// Returns what a command writes into a pipe, where `COLUMNS` is set or not.
fn piped(dir: &Dir, command: &str, columns: Option<&str>) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_trommel"));
    child.args(command.split(' ')).current_dir(&dir.0);
    child.env_remove("COLUMNS").stdin(Stdio::null());
    child.envs(columns.map(|columns| ("COLUMNS", columns)));
    let output = child.output().expect("runs");
    assert!(output.status.success(), "{command}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A pipe has no width, but for the one that somebody asks for. What may be kept in a file is the same at any width.
fn a_pipe_is_as_wide_as_columns_says(dir: &Dir) {
    for command in ["report pairs", "report missed", "report values", "lab list"] {
        let widest = |text: &str| text.lines().map(|line| line.width()).max();
        let wide = piped(dir, command, None);
        assert!(widest(&wide) > Some(100), "{command}:\n{wide}");
        for nothing in ["0", "", "wide"] {
            assert_eq!(piped(dir, command, Some(nothing)), wide, "{command}");
        }
        let narrow = piped(dir, command, Some("80"));
        let all = |line: &&str| !line.starts_with("# next");
        let narrow: Vec<&str> = narrow.lines().filter(all).collect();
        assert!(
            narrow.iter().all(|line| line.width() <= 80),
            "{command}: {narrow:?}"
        );
    }
    for command in [
        "query fmt queries.rpa",
        "help edges.c",
        "model --show-machine",
        "report --json pairs",
        "export --format callgrind values",
    ] {
        let narrow = piped(dir, command, Some("40"));
        assert_eq!(narrow, piped(dir, command, None), "{command}");
    }
}

#[test]
fn every_table_fits_its_terminal() {
    let dir = stage();
    let recorded = dir.json(&["report", "--json", "values"]);
    assert_eq!(recorded["schema"], "trommel.report/1");
    for command in COMMANDS {
        for columns in [80, 200] {
            let text = written(&dir, command, columns);
            let lines: Vec<&str> = text.lines().collect();
            let row = |line: &&str| line.starts_with(' ');
            // Each line of these is a row.
            let all = ["doctor", "lab", "export", "stream"];
            let all = all.iter().any(|start| command.starts_with(start));
            assert!(all || lines.iter().any(row), "{command}: no table\n{text}");
            let cut = lines.iter().flat_map(|line| line.split_whitespace());
            let mut cut = cut.filter(|word| word.starts_with("0x") && word.contains('…'));
            // A list of values is cut: more of them are in `--json`.
            if command.contains(".rpa") || text.contains("# for op") {
                assert_eq!(cut.next(), None, "{command}: {text}");
            }
            for line in &lines {
                // A command to be pasted stays whole.
                let fact = line.starts_with('#') && !line.starts_with("# next");
                if all || row(line) || fact {
                    let width = line.width();
                    assert!(
                        width <= columns.into(),
                        "{command}: {width} of {columns}:\n{line}"
                    );
                }
            }
        }
    }
    a_pipe_is_as_wide_as_columns_says(&dir);
}
