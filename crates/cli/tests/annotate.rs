//! `trommel annotate`: a function of a program of ours, by its names, with its counts, values and errors. And `report` of the same program
//! without its debug information.

mod common;
#[path = "common/compile.rs"]
mod compile;

use std::process::{Command, Stdio};

use common::Dir;
use compile::compile;
use serde_json::Value;

const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct shape { double (*area)(struct shape *); double w, h; int mode; struct shape *next; };
static double square(struct shape *s) { return s->w * s->w; }
static double rectangle(struct shape *s) { return s->w * s->h; }
static inline int clamp(int v) { return v > 100 ? 100 : v; }
__attribute__((noinline, cold)) static void rarely(void) { puts("rarely"); }
__attribute__((noinline)) long work(struct shape *s, int n, const unsigned char *text) {
  long sum = 0;
  for (int i = 0; i < n; i++) {
    struct shape *p = &s[i % 16];
    sum += (long)p->area(p);
    if (p->next) sum += p->next->mode;
    if (p->mode == 3) sum += clamp(text[i & 7]);
    if (__builtin_expect(i == 5000, 0)) { rarely(); sum ^= i; }
  }
  return sum;
}
int main(void) {
  struct shape *s = calloc(16, sizeof *s);
  for (int i = 0; i < 16; i++)
    s[i] = (struct shape){ i % 4 ? square : rectangle, 2.5, i, i == 7 ? 1 : 3, &s[(i + 1) % 16] };
  printf("%ld\n", work(s, 10000, (const unsigned char *)"The fox."));
}
"#;

/// A directory with the program, and a profile of it.
fn recorded(name: &str, record: &[&str]) -> Dir {
    let dir = Dir::new(name);
    compile(&dir.0, "shapes", &["-O2", "-g"], SOURCE);
    dir.trommel(&[&["record", "--quiet"][..], record].concat());
    dir
}

/// Returns the message of a command that is refused.
fn refused(dir: &Dir, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(args)
        .current_dir(&dir.0)
        .stdin(Stdio::null())
        .output()
        .expect("trommel runs");
    assert_eq!((out.status.code(), &out.stdout[..]), (Some(1), &b""[..]));
    String::from_utf8(out.stderr).expect("UTF-8")
}

fn instructions(said: &Value) -> &[Value] {
    said["instructions"].as_array().expect("instructions")
}

/// The first instruction of this line that is so.
fn find<'v>(said: &'v Value, line: &str, is: impl Fn(&Value) -> bool) -> &'v Value {
    let number = 1 + SOURCE
        .lines()
        .position(|l| l.contains(line))
        .expect("a line");
    let found = instructions(said)
        .iter()
        .find(|i| i["at"]["line"] == number && is(i));
    found.unwrap_or_else(|| panic!("nothing in line {number}: {said:#}"))
}

#[test]
fn a_function_has_its_counts_targets_and_values() {
    let dir = recorded(
        "annotated",
        &["-e", "edge,call,value", "--exact-values", "--", "./shapes"],
    );
    let said = dir.json(&["annotate", "--json", "work"]);
    assert_eq!(said["schema"], "trommel.annotate/1");
    assert_eq!(said["entered"]["executions"], 1);
    assert_eq!(said["callers"][0]["from"]["function"], "main");
    // The part that is rarely executed is elsewhere, and belongs to it.
    assert!(
        said["ranges"].as_array().expect("ranges").len() >= 2,
        "{}",
        said["ranges"]
    );
    let call = find(&said, "p->area(p)", |i| i["targets"].is_array());
    assert_eq!(
        (&call["executions"], &call["known"]),
        (&10_000.into(), &"counted".into())
    );
    let targets: Vec<_> = (call["targets"].as_array().expect("targets").iter())
        .map(|t| {
            (
                t["to"]["function"].as_str().expect("a name"),
                t["count"].as_u64(),
            )
        })
        .collect();
    assert_eq!(targets, [("square", Some(7500)), ("rectangle", Some(2500))]);
    let rare = find(&said, "rarely(); sum", |i| {
        i["text"].as_str().expect("text").starts_with("call")
    });
    assert_eq!(rare["executions"], 1);
    let branch = find(&said, "p->mode == 3", |i| !i["taken"].is_null());
    let taken = branch["taken"]["count"].as_u64().expect("a count");
    assert!(taken == 625 || taken == 9375, "{branch}");
    // Values as the code uses them: an address of the heap, and a character of an inlined function's argument.
    let next = find(&said, "if (p->next)", |i| i["values"].is_array());
    let shown = next["values"][0]["shown"].as_str().expect("words");
    assert!(shown.starts_with("0x") && !shown.contains(' '), "{shown}");
    assert_eq!(next["distinct"], 16);
    let character = find(&said, "clamp(text", |i| i["values"].is_array());
    assert!(
        character["values"][0]["shown"]
            .as_str()
            .expect("words")
            .contains('\''),
        "{character}"
    );
    let inlined = instructions(&said)
        .iter()
        .find(|i| i["at"]["inlined"][0] == "clamp");
    assert_eq!(inlined.expect("clamp")["executions"], 9375);
    // The values of a method that is floating point.
    let said = dir.json(&["annotate", "--json", "rectangle"]);
    let loads: Vec<_> = instructions(&said)
        .iter()
        .filter(|i| i["values"].is_array())
        .collect();
    let shown = |i: &Value| i["values"][0]["shown"].as_str().map(str::to_owned);
    assert_eq!(loads.len(), 2);
    assert!(
        loads.iter().any(|i| shown(i).as_deref() == Some("2.5")),
        "{loads:?}"
    );
    assert!(loads.iter().all(|i| i["executions"] == 2500));
    // In words, with the source.
    let text =
        String::from_utf8(dir.trommel(&["annotate", "trommel.data", "work"])).expect("UTF-8");
    for part in [
        "→ square 75.0%, rectangle 25.0%",
        "[clamp]",
        "10 000",
        "shapes.c:13  sum += (long)",
        "⋮",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // What is hot comes first: lines, then a block of the loop, before the function's first instruction.
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    let lines = at("# lines ");
    let block = at("# hottest block: ");
    let entry = at("# all of it");
    assert!(
        lines < block && block < entry && entry < at("push   r1"),
        "{text}"
    );
    let share: f64 = (text[block..].split(' ').nth(3))
        .and_then(|share| share.parse().ok())
        .expect("a share");
    assert!((20.0..95.0).contains(&share), "{text}");
    assert!(text[block..entry].contains(" 10 000 ") && text[block..entry].contains("█████"));
    // What is not executed is left out, and there when it is asked for.
    let main = |more: &[&str]| {
        let out = dir.trommel(&[&["annotate", "ptmalloc_init.part.0"][..], more].concat());
        String::from_utf8(out).expect("UTF-8")
    };
    assert!(main(&[]).contains(" instructions, not executed"));
    assert!(!main(&["--cold"]).contains(" instructions, not executed"));
    // What comes before names what comes next.
    let report = String::from_utf8(dir.trommel(&["report"])).expect("UTF-8");
    assert!(
        report.contains("# next        trommel annotate "),
        "{report}"
    );
    let values = String::from_utf8(dir.trommel(&["values"])).expect("UTF-8");
    assert!(values.contains("# next: trommel annotate "), "{values}");
}

#[test]
fn all_functions_have_what_each_has() {
    let dir = recorded(
        "annotated-all",
        &["-e", "edge,call,value", "--exact-values", "--", "./shapes"],
    );
    let all = dir.json(&["annotate", "--all", "--json"]);
    assert_eq!(all["schema"], "trommel.annotations/1");
    let functions = all["functions"].as_array().expect("functions");
    assert_eq!(functions[0]["function"], "work");
    assert_eq!(all["left_out"], Value::Array(Vec::new()));
    // Hottest first, and together they are the program's instructions.
    let executed = |f: &Value| f["instructions_executed"].as_u64().expect("a number");
    assert!(functions.is_sorted_by_key(|f| std::cmp::Reverse(executed(f))));
    let report = dir.json(&["report", "--json"]);
    let of_report: u64 = (report["functions"].as_array().expect("functions").iter())
        .map(|f| f["self"].as_u64().expect("a number"))
        .sum();
    let sum: u64 = functions.iter().map(executed).sum();
    assert!(
        of_report.abs_diff(sum) * 1000 < of_report,
        "{of_report} {sum}"
    );
    // Each has what it has by itself; places are in one table.
    for name in ["work", "main", "square"] {
        let alone = dir.json(&["annotate", "--json", &format!("shapes:{name}")]);
        let among = functions.iter().find(|f| f["function"] == name);
        let among = among.expect("the function");
        for member in ["ranges", "entered", "instructions_executed"] {
            assert_eq!(among[member], alone[member], "{name} {member}");
        }
        assert_eq!(instructions(among).len(), instructions(&alone).len());
        for (one, other) in instructions(among).iter().zip(instructions(&alone)) {
            let at = one["at"].as_u64().expect("a number") as usize;
            assert_eq!(all["places"][at]["vaddr"], other["at"]["vaddr"]);
            for member in ["text", "executions", "known", "values", "taken"] {
                assert_eq!(one[member], other[member], "{name} {member}");
            }
        }
    }
    let text = String::from_utf8(dir.trommel(&["annotate", "--all", "--module", "shapes"]));
    let text = text.expect("UTF-8");
    assert!(
        text.starts_with("# work ") && text.contains("\n# square "),
        "{text}"
    );
    assert!(!text.contains("libc.so.6 0x"), "{text}");
    let said = refused(&dir, &["annotate", "--all", "trommel.data", "main"]);
    assert!(said.contains("name no function"), "{said}");
}

#[test]
fn processes_are_added_up_and_windows_give_limits() {
    let dir = recorded(
        "annotated-twice",
        &[
            "-e",
            "edge,call,value",
            "--exact-values",
            "--",
            "sh",
            "-c",
            "./shapes; ./shapes",
        ],
    );
    let said = dir.json(&["annotate", "--json", "shapes:work"]);
    let call = find(&said, "p->area(p)", |i| i["targets"].is_array());
    assert_eq!(
        (&call["executions"], &said["entered"]["executions"]),
        (&20_000.into(), &2.into())
    );
    // By a sampler: estimates, with limits around the truth or near it.
    dir.trommel(&[
        "record", "--quiet", "-c", "R16", "-o", "sampled", "--", "./shapes",
    ]);
    let said = dir.json(&["annotate", "--json", "sampled", "work"]);
    let call = find(&said, "p->area(p)", |i| i["targets"].is_array());
    let number = |name: &str| {
        call[name]
            .as_f64()
            .unwrap_or_else(|| panic!("{name}: {call}"))
    };
    assert!((7000.0..13_000.0).contains(&number("executions")), "{call}");
    assert!(number("executions_low") < number("executions"), "{call}");
    assert!(number("executions_high") > number("executions"), "{call}");
    let plain = instructions(&said)
        .iter()
        .filter(|i| i["known"] == "derived" && i["executions"].as_u64() > Some(0));
    for line in plain {
        assert!(
            line["executions_low"].as_u64() <= line["executions"].as_u64(),
            "{line}"
        );
    }
}

#[test]
fn errors_say_what_to_do() {
    let dir = recorded("annotate-errors", &["--", "./shapes"]);
    for (function, parts) in [
        (
            "wrok",
            &["no function of this name", "near it: ", "work"][..],
        ),
        ("rec", &[]),
        ("rarelys", &["no function", "near it: rarely"]),
        (
            "_start",
            &[
                "several functions match",
                "shapes:_start",
                "ld-linux-x86-64.so.2:_start",
            ],
        ),
        ("20-10", &["the range is empty"]),
        (
            "shapes:0x10-0x20",
            &["holds no events", "trommel record --only"],
        ),
        (
            "libc.so.6:qsort",
            &["holds no events of qsort", "was not executed"],
        ),
    ] {
        if parts.is_empty() {
            // The beginning of one name is enough.
            dir.trommel(&["annotate", function]);
            continue;
        }
        let said = refused(&dir, &["annotate", function]);
        for part in parts {
            assert!(said.contains(part), "{function}: {said}");
        }
    }
    // Without symbols addresses are enough.
    let said = dir.json(&["annotate", "--json", "work"]);
    let range = &said["ranges"][0];
    let range = format!(
        "{:#x}-{:#x}",
        range["start"].as_u64().expect("start"),
        range["end"].as_u64().expect("end")
    );
    let counts = |said: &Value, most: usize| -> Vec<Value> {
        instructions(said)
            .iter()
            .take(most)
            .map(|i| i["executions"].clone())
            .collect()
    };
    let stripped = Command::new("strip")
        .arg("shapes")
        .current_dir(&dir.0)
        .status();
    assert!(stripped.expect("strip").success());
    let named = refused(&dir, &["annotate", "work"]);
    assert!(named.contains("no function of this name"), "{named}");
    let by_range = dir.json(&["annotate", "--json", &format!("shapes:{range}")]);
    let number = instructions(&by_range).len();
    assert_eq!(counts(&by_range, number), counts(&said, number));
    // Another program in its place, and none.
    let other = SOURCE.replace("i == 7", "i == 8");
    compile(&dir.0, "shapes", &["-O2", "-g"], &other);
    let said = refused(&dir, &["annotate", &format!("shapes:{range}")]);
    assert!(
        said.contains("changed since the recording") && said.contains("record again"),
        "{said}"
    );
    let said = refused(&dir, &["annotate", "work"]);
    assert!(said.contains("changed since the recording"), "{said}");
    std::fs::remove_file(dir.0.join("shapes")).expect("removed");
    let said = refused(&dir, &["annotate", &format!("shapes:{range}")]);
    assert!(
        said.contains("No such file") && said.contains("put that back"),
        "{said}"
    );
}

#[test]
fn a_report_without_debug_information_has_the_same_counts_and_no_lines() {
    let dir = recorded("bare", &["-e", "edge,call", "--", "./shapes"]);
    let whole = dir.json(&["report", "--json", "trommel.data"]);
    let bare = dir.json(&["report", "--json", "--no-debug-info", "trommel.data"]);
    let list = |report: &Value, name: &str| report[name].as_array().expect("a list").clone();
    let counts = |report: &Value, name: &str| -> Vec<(Value, Value)> {
        let rows = list(report, name);
        let row = |row: &Value| (row["from"]["vaddr"].clone(), row["count"].clone());
        rows.iter().map(row).collect()
    };
    for name in ["edges", "calls"] {
        assert_eq!(counts(&whole, name), counts(&bare, name));
        assert_ne!(counts(&whole, name), []);
    }
    let lines = |report: &Value| {
        let edges = list(report, "edges");
        edges
            .iter()
            .filter(|e| !e["from"]["line"].is_null())
            .count()
    };
    assert_ne!(lines(&whole), 0);
    assert_eq!(lines(&bare), 0);
    // Functions have their names from the symbol table.
    let work = |report: &Value| {
        let all = list(report, "functions");
        let work = all.iter().find(|f| f["name"] == "work");
        work.map(|f| f["self"].clone()).expect("it is there")
    };
    assert_eq!(work(&whole), work(&bare));
    let said = refused(&dir, &["report", "--by", "line", "--no-debug-info"]);
    assert!(said.contains("--no-debug-info"), "{said}");
}
