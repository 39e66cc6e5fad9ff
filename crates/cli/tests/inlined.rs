//! `report --inlined`: instructions of inlined functions, against `addr2line -i` for each instruction.

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use common::Dir;
use serde_json::Value;

/// Functions inlined into each other, into several others, and one that also stands by itself.
const SOURCE: &str = r#"
#define INLINED static inline __attribute__((always_inline))
INLINED unsigned innermost(unsigned n) { return (n * 2654435761u) ^ (n >> 7); }
INLINED unsigned middle(unsigned n) {
  unsigned sum = 0;
  for (unsigned i = 0; i < (n & 15); i++) sum += innermost(sum + i) % 13;
  return sum;
}
__attribute__((noinline)) unsigned callee(unsigned n) { volatile unsigned v = n; return v * 3; }
template <class T> INLINED T outer(T n) { return n % 3 == 0 ? callee(middle(n)) : middle(n + 1); }
__attribute__((noinline)) unsigned hot(unsigned n) { return outer<unsigned>(n) + innermost(n); }
__attribute__((noinline)) unsigned other(unsigned n) { return hot(n + 1) ^ 5; }
unsigned standing(unsigned n) { return innermost(n) % 11; }
unsigned (*volatile by_pointer)(unsigned) = standing;
int main() {
  unsigned sum = 0;
  for (unsigned n = 0; n < 300; n++) sum += (n % 4 ? hot(n) : other(n)) + by_pointer(n) + standing(n);
  return sum == 0;
}
"#;

/// Functions of the lines of the source.
const LINES: [(std::ops::Range<usize>, &str); 7] = [
    (3..4, "innermost"),
    (4..9, "middle"),
    (9..10, "callee"),
    (10..11, "outer<unsigned int>"),
    (11..12, "hot"),
    (13..14, "standing"),
    (15..20, "main"),
];

/// The program, recorded.
fn stage(name: &str) -> Dir {
    let dir = Dir::new(name);
    std::fs::write(dir.0.join("nested.cc"), SOURCE).expect("a file");
    let built = Command::new("c++")
        .args(["-O2", "-g", "-o", "nested", "nested.cc"])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("c++").success());
    let record = ["record", "--quiet", "-e", "edge,call,context", "-o", "data"];
    dir.trommel(&[&record[..], &["--", "./nested"]].concat());
    dir
}

/// Functions at each of these addresses, innermost first, the one that they were inlined into last.
fn by_addr2line(dir: &Dir, addresses: &[u64]) -> Vec<Vec<String>> {
    let out = Command::new("addr2line")
        .args(["-a", "-f", "-i", "-C", "-e", "nested"])
        .args(addresses.iter().map(|at| format!("{at:#x}")))
        .current_dir(&dir.0)
        .output()
        .expect("addr2line");
    let text = String::from_utf8(out.stdout).expect("UTF-8");
    // An address, and then a line with a name and one with a position for each function.
    let mut all: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        match (line.starts_with("0x"), all.last_mut()) {
            (true, _) | (_, None) => all.push(Vec::new()),
            (false, Some(lines)) => lines.push(line.to_owned()),
        }
    }
    let names = |lines: Vec<String>| {
        let mut names: Vec<String> = lines.iter().step_by(2).cloned().collect();
        // The name of the innermost may be another one's. Its line is right.
        let line = lines[1].split([':', ' ']).nth(1);
        let line: usize = line.and_then(|line| line.parse().ok()).expect("a line");
        let (_, name) = (LINES.iter().find(|(lines, _)| lines.contains(&line))).expect("known");
        names[0] = (*name).to_owned();
        names
    };
    all.into_iter().map(names).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn texts(value: &Value) -> Vec<String> {
    let text = |text: &Value| text.as_str().expect("a text").to_owned();
    list(value).iter().map(text).collect()
}

/// A name without its parameters: some tools write them for inlined functions, and some do not.
fn plain(name: &str) -> String {
    name.split('(').next().unwrap_or(name).to_owned()
}

#[test]
fn instructions_are_those_of_the_functions_that_addr2line_names() {
    let dir = stage("inlined-json");
    let report = dir.json(&["report", "--json", "--inlined", "data"]);
    let before = dir.json(&["report", "--json", "data"]);
    for name in ["hot(unsigned int)", "main", "standing(unsigned int)"] {
        let of = |report: &Value| {
            let found = list(&report["functions"])
                .iter()
                .find(|f| f["name"] == name);
            found.expect(name).clone()
        };
        let function = of(&report);
        assert_eq!(function["self"], of(&before)["self"]);
        let code = dir.json(&["annotate", "--json", "data", name]);
        let executed: Vec<(u64, u64)> = list(&code["instructions"])
            .iter()
            .map(|one| (number(&one["at"]["vaddr"]), number(&one["executions"])))
            .collect();
        let addresses: Vec<u64> = executed.iter().map(|(at, _)| *at).collect();
        let mut wanted: BTreeMap<Vec<String>, u64> = BTreeMap::new();
        for ((_, times), mut names) in executed.iter().zip(by_addr2line(&dir, &addresses)) {
            names.pop();
            let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
            if !names.is_empty() {
                *wanted.entry(names).or_default() += times;
            }
        }
        let parts = list(&function["inlined"]).iter();
        let parts = parts.map(|part| {
            let names = texts(&part["functions"]);
            (
                names.iter().map(|name| plain(name)).collect(),
                number(&part["self"]),
            )
        });
        let parts: BTreeMap<Vec<String>, u64> = parts.collect();
        assert_eq!(parts, wanted, "{name}");
        assert!(wanted.keys().any(|names| names.len() == 2) || name.starts_with("standing"));
    }
}

#[test]
fn calls_are_inside_of_the_functions_that_addr2line_names() {
    let dir = stage("inlined-calls");
    let report = dir.json(&["report", "--json", "--inlined", "data"]);
    let nodes = list(&report["contexts"]["nodes"]).iter();
    let callees: Vec<&Value> = nodes
        .filter(|n| n["function"] == "callee(unsigned int)")
        .collect();
    assert_eq!(callees.len(), 2, "hot is reached in two ways");
    for node in callees {
        let call = number(&node["call"]["vaddr"]);
        let names = &by_addr2line(&dir, &[call])[0];
        assert_eq!(names.len(), 2, "{names:?}");
        let inlined = texts(&node["call"]["inlined"]);
        assert_eq!(
            inlined.iter().map(|n| plain(n)).collect::<Vec<_>>(),
            [plain(&names[0])]
        );
    }
}

#[test]
fn the_table_has_a_line_for_each_inlined_function_and_the_same_sum() {
    let dir = stage("inlined-text");
    let json = dir.json(&["report", "--json", "--inlined", "data"]);
    let mut innermost = 0;
    for function in list(&json["functions"]) {
        let parts = list(&function["inlined"]).iter();
        let parts = parts.filter(|part| part["functions"][0] == "innermost");
        innermost += parts.map(|part| number(&part["self"])).sum::<u64>();
    }
    // Names and own instructions of the program's functions, and what they add up to.
    let table = |options: &[&str]| {
        let words = [
            &["report", "--top", "0", "--module", "nested"],
            options,
            &["data"],
        ];
        let text = String::from_utf8(dir.trommel(&words.concat())).expect("UTF-8");
        let lines = text
            .lines()
            .skip_while(|l| !l.starts_with("# Functions of the program"));
        let lines = lines.skip(2).take_while(|line| line.starts_with(' '));
        let row = |line: &str| -> (u64, String) {
            let cells: Vec<&str> = line
                .split("  ")
                .map(str::trim)
                .filter(|c| !c.is_empty())
                .collect();
            let own = cells[0].replace(' ', "").parse().expect("a number");
            (own, line.to_owned())
        };
        let rows: Vec<(u64, String)> = lines.map(row).collect();
        let sum: u64 = rows.iter().map(|(own, _)| own).sum();
        (rows, sum, text)
    };
    let (plain, plain_sum, _) = table(&[]);
    let (rows, sum, text) = table(&["--inlined"]);
    assert_eq!(sum, plain_sum, "{text}");
    let of = |rows: &[(u64, String)], name: &str| {
        let found = rows
            .iter()
            .find(|(_, line)| line.contains(&format!("  {name}  ")));
        found.cloned().unwrap_or_else(|| panic!("{name}: {text}"))
    };
    let (own, line) = of(&rows, "innermost");
    assert_eq!(own, innermost, "{text}");
    assert!(line.contains("100.0%"), "{line}");
    assert!(plain.iter().all(|(_, line)| !line.contains("innermost")));
    // It is called by itself, and inlined into main.
    let (all, line) = of(&rows, "standing");
    assert!(line.contains(" 300 ") && line.contains('%'), "{line}");
    assert!(all != of(&plain, "standing").0, "{line}");
}

#[test]
fn the_tree_has_inlined_functions_below_those_that_they_are_in() {
    let dir = stage("inlined-tree");
    let tree = |options: &[&str]| {
        let words = [&["report", "--tree", "--top", "0"], options, &["data"]].concat();
        String::from_utf8(dir.trommel(&words)).expect("UTF-8")
    };
    let text = tree(&["--inlined"]);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    // Share, own share, calls, and then the name, indented by its depth.
    const NAME: usize = 33;
    let (mut path, mut paths) = (Vec::new(), Vec::new());
    for line in lines {
        let name = line.get(NAME..).unwrap_or_else(|| panic!("{line}"));
        path.truncate(name.len() - name.trim_start().len());
        path.push(name.trim_start());
        paths.push((path.join("/"), line));
    }
    let own = |end: &str| {
        let (_, line) = (paths.iter().find(|(path, _)| path.ends_with(end)))
            .unwrap_or_else(|| panic!("{end}: {text}"));
        line[..17]
            .trim_end()
            .rsplit(' ')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    // Reached in one way, so its parts are exact; and in two, so that they are proportions.
    let standing = "main/standing/innermost (inlined)";
    assert!(!own(standing).starts_with('~'), "{text}");
    for caller in ["main/", "main/other/"] {
        let inside = "hot/outer (inlined)/middle (inlined)/innermost (inlined)";
        assert!(own(&format!("{caller}{inside}")).starts_with('~'), "{text}");
        assert!(!own(&format!("{caller}hot/outer (inlined)/callee")).starts_with('~'));
    }
    assert!(text.contains("# ~ self"), "{text}");
    assert!(!tree(&[]).contains("inlined"));
}
