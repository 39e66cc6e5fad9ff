//! Files that `trommel help FILE` writes, as an installed user has them: they are built by the commands in them, without warnings.

mod common;

use std::process::Command;

use common::Dir;

const EXAMPLES: [&str; 4] = ["edges.c", "follow.c", "hot.c", "strides.c"];
const HEADERS: [&str; 3] = ["trommel.h", "trommel_module.h", "trommel_service.h"];

/// A directory with the examples and headers, and a program.
fn stage(name: &str) -> Dir {
    let dir = Dir::new(name);
    for file in EXAMPLES {
        std::fs::write(dir.0.join(file), dir.trommel(&["help", file])).expect("a file");
    }
    for (file, text) in [
        ("app.c", APP),
        (
            "loads.rpa",
            "for opLOAD * every 256 collect pc; send 1 stop;",
        ),
        (
            "auto.rpa",
            "for opLOAD opBRANCH * every auto collect pc; send 1 stop;",
        ),
    ] {
        let text = text.replace("opLOAD opBRANCH", "opLOAD * opBRANCH");
        std::fs::write(dir.0.join(file), text).expect("a file");
    }
    shell(&dir, "cc -O1 -g -o app app.c");
    dir
}

/// Loads at two places, most of what it does.
const APP: &str = "
static volatile int a[256], b;
__attribute__((noinline)) int much(int n) { return a[n & 255] + b; }
int main(void) {
  int sum = 0;
  for (int n = 0; n < 4000000; n++) sum += much(n);
  return sum == 1;
}
";

/// Executes a line with this `trommel`, and returns what it says on standard error.
fn shell(dir: &Dir, line: &str) -> String {
    let command = env!("CARGO_BIN_EXE_trommel");
    let line = line.replace("trommel help", &format!("{command} help"));
    let ended = dir.ended(Command::new("sh").args(["-c", &line]));
    String::from_utf8(ended.stderr).expect("UTF-8")
}

fn trommel(dir: &Dir, args: &str) -> String {
    shell(dir, &format!("{} {args}", env!("CARGO_BIN_EXE_trommel")))
}

#[test]
fn examples_are_built_by_the_commands_in_them_without_warnings() {
    let dir = stage("shipped");
    for file in EXAMPLES {
        let text = std::fs::read_to_string(dir.0.join(file)).expect("a file");
        let comment = text.split("*/").next().expect("a comment");
        let lines = comment
            .lines()
            .filter_map(|line| line.strip_prefix(" *   "));
        let lines: Vec<&str> = lines
            .filter(|line| line.starts_with("trommel help ") || line.starts_with("cc "))
            .collect();
        assert_eq!(lines.len(), 2, "{file}: {lines:?}");
        for line in lines {
            let strict = "cc -Wall -Wextra -Wpedantic -Werror -std=c11 ";
            shell(&dir, &line.replace("cc ", strict));
        }
        let library = file.replace(".c", ".so");
        assert!(dir.0.join(library).exists(), "{file}");
    }
    for file in HEADERS {
        std::fs::write(dir.0.join(file), dir.trommel(&["help", file])).expect("a file");
        for (compiler, language) in [("cc -std=c11", "c"), ("c++ -std=c++11", "c++")] {
            let strict = "-Wall -Wextra -Wpedantic -Werror -fsyntax-only";
            shell(
                &dir,
                &format!("echo '#include \"{file}\"' | {compiler} {strict} -I . -x {language} -"),
            );
        }
    }
    for file in EXAMPLES.into_iter().chain(HEADERS) {
        let text = String::from_utf8(dir.trommel(&["help", file])).expect("UTF-8");
        assert!(
            !text.contains("docs/") && !text.contains("-I include"),
            "{file}"
        );
    }
    let said = trommel(
        &dir,
        "record -o h -e edge,call -c 'M4[10k,1%]2048' --service ./hot.so:changes -- ./app",
    );
    let says = |line: &&str| line.starts_with("process ") && line.contains("/app+0x");
    assert!(said.lines().any(|line| says(&line)), "{said}");
}

/// Queries that a service has loaded are told apart by their names, and by the instruction that each is of.
#[test]
fn loads_have_their_names_and_the_places_of_their_tags() {
    let dir = stage("loads");
    shell(&dir, "trommel help trommel_service.h > trommel_service.h");
    shell(&dir, "cc -shared -fPIC -I . -o follow.so follow.c");
    let said = trommel(
        &dir,
        "record -o f -q loads.rpa --service 1=./follow.so -- ./app",
    );
    assert!(
        said.contains("  load   ") && said.contains("load0"),
        "{said}"
    );
    assert!(said.contains(": for opLOAD 1 every 16"), "{said}");
    let report = String::from_utf8(dir.trommel(&["report", "f"])).expect("UTF-8");
    let rule = report
        .lines()
        .find(|line| line.starts_with("#   tag 1 pc 0x"));
    let rule = rule.unwrap_or_else(|| panic!("{report}"));
    assert!(
        rule.contains(": much") && rule.ends_with("(app.c:3)"),
        "{rule}"
    );
    assert!(report.contains("  source"), "{report}");
}

/// The cost of countdowns is said before, and their part of the time at the end.
#[test]
fn a_budget_that_cannot_be_kept_is_said() {
    let dir = stage("budget");
    let check = String::from_utf8(dir.trommel(&["query", "check", "auto.rpa"])).expect("UTF-8");
    assert!(
        check.contains("`every auto` counts down each execution, 41 of 100"),
        "{check}"
    );
    let said = trommel(&dir, "record -o a --query-budget 1 -q auto.rpa -- ./app");
    for wanted in [
        "some 38 % of the time, and the budget is 1 %",
        "queries with `every auto` took ",
        "and their budget is 1 %: most of it is countdowns",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let taken = dir.json(&["report", "--json", "a"])["queries"][0]["paid_percent"].clone();
    assert!(taken.as_f64() > Some(2.0), "{taken}");
    // One that keeps its budget is not spoken of.
    let said = trommel(&dir, "record -o l -q loads.rpa -- ./app");
    assert!(
        !said.contains("budget") && !said.contains("countdowns"),
        "{said}"
    );
}
