//! `trommel model`: events and facts of a pipeline about real programs, what machines change, and what is refused.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

#[path = "common/compile.rs"]
mod compile;

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("trommel-model-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp dir");
        Self(dir)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const QUERIES: &str = "for evL2DMISS * always collect pc res2; send 1 stop;\n\
     for evITLBMISS * always collect pc; count stop;\n\
     for opBRANCH * always collect pc misc wlat; if misc bset 0x2 then send 3 stop else stop;\n\
     for opLOAD * every auto 5% collect pc; send 4 stop;\n";

fn trommel(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    command.args(arguments).output().expect("started")
}

/// Answers of the model about `/bin/echo`, whose output is beside it.
fn modelled(dir: &Dir, queries: &str, options: &[&str]) -> Value {
    let queries = dir.file("queries.rpa", queries);
    let result = dir.0.join("result");
    let [queries, to] = [&queries, &result].map(|path| path.to_str().expect("UTF-8"));
    let common = ["model", "-q", queries, "--json", "--output", to];
    let options = match options.contains(&"--instructions") {
        true => options.to_vec(),
        false => [options, &["--instructions", "60k"]].concat(),
    };
    let program = ["--", "/bin/echo", "hello"];
    let done = trommel(&[&common[..], &options, &program].concat());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    assert_eq!(done.stdout, b"hello\n", "{said}");
    let text = std::fs::read_to_string(result).expect("a result");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn events_and_facts_of_the_pipeline_are_answered() {
    let dir = Dir::new("events");
    let told = modelled(&dir, QUERIES, &[]);
    let number = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("{name}"));
    assert_eq!(told["schema"], "trommel.model/1");
    assert_eq!(
        (number(&told, "status"), number(&told, "instructions")),
        (0, 60_000)
    );
    assert!(number(&told, "cycles") >= number(&told, "cycles_without_queries"));
    let queries = told["queries"].as_array().expect("queries");
    let of = |header: &str| {
        let mut all = queries.iter();
        let found = all.find(|q| q["header"].as_str().is_some_and(|h| h.contains(header)));
        found.unwrap_or_else(|| panic!("{header}"))
    };
    let [misses, pages, branches, loads] =
        ["evL2DMISS", "evITLBMISS", "opBRANCH", "opLOAD"].map(of);
    assert!(number(misses, "sent") > 100 && number(pages, "counted") > 5);
    // Each misprediction of a branch is a message, and the core counts those of other transfers beside.
    let wrong = number(branches, "sent");
    assert!(
        wrong > 100 && wrong <= number(&told, "mispredicted"),
        "{wrong}"
    );
    assert_eq!(number(branches, "profiled"), number(branches, "executed"));
    let filtered = number(branches, "filtered") + wrong;
    assert_eq!(filtered, number(branches, "profiled"));
    // Messages of a throttled query stand for its executions, as far as they were profiled.
    let stands_for = loads["messages"].as_array().expect("messages").iter();
    let stands_for: u64 = stands_for.map(|m| number(m, "stands_for")).sum();
    let executed = number(loads, "executed");
    assert!(
        stands_for.abs_diff(executed) * 2 < executed,
        "{stands_for} {executed}"
    );
    assert!(!told["throttled"].as_array().expect("rates").is_empty());
    // Equal recordings give equal answers.
    let pcs = misses["messages"].as_array().expect("messages");
    assert!(pcs.iter().any(|m| m["pc"]["function"].is_string()));
}

/// Instructions that are enough where it is not about numbers.
const SHORT: [&str; 2] = ["--instructions", "15k"];

/// Queries change after the instruction that is said, and each load has the answers to its part of the run.
#[test]
fn queries_are_loaded_in_place_of_others() {
    let dir = Dir::new("loads");
    let branches = "for opBRANCH * always collect pc; count stop;";
    let counted = |told: &Value, n: usize| told["queries"][n]["counted"].as_u64();
    let all = counted(&modelled(&dir, branches, &SHORT), 0).expect("counted");
    let other = dir.file("other.rpa", "for opLOAD * always collect pc; count stop;");
    let again = dir.file("again.rpa", branches);
    let [other, again] = [other, again].map(|file| file.display().to_string());
    let loads = [
        "--load",
        &format!("5k:{other}"),
        "--load",
        &format!("8k:{again}"),
        "--load",
        &format!("1M:{other}"),
    ];
    let told = modelled(&dir, branches, &[&SHORT[..], &loads].concat());
    let [first, between, last] = [0, 1, 2].map(|n| counted(&told, n).expect("counted"));
    assert!(
        first > 100 && last > 100 && between > 100,
        "{first} {between} {last}"
    );
    let asked: u64 = ["5k", "8k"]
        .iter()
        .map(|n| {
            let short = modelled(&dir, branches, &["--instructions", n]);
            counted(&short, 0).expect("counted")
        })
        .fold(0, |before, now| now - before);
    // Those of the three thousand instructions in between are not counted.
    assert_eq!(first + last + asked, all, "{first} {last} {asked}");
    let loaded: Vec<_> = told["loads"]
        .as_array()
        .expect("loads")
        .iter()
        .map(|load| load["loaded"].clone())
        .collect();
    assert_eq!(loaded, [true, true, true, false]);
    let queries = dir.file("q.rpa", branches);
    let late = format!("1k:{other}");
    let refused = trommel(&[
        "model",
        "-q",
        queries.to_str().expect("UTF-8"),
        "--load",
        &late,
        "--load",
        &late,
        "--",
        "/bin/true",
    ]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("in the order"),
        "{said}"
    );
}

#[test]
fn squashed_instructions_are_modelled_where_the_machine_says_so() {
    let dir = Dir::new("wrong-paths");
    let queries =
        "for opLOAD * always collect pc misc; if misc bset 0x8 then send 1 stop else count stop;";
    let told = |paths: &str| {
        let file = dir.file("machine", &format!("wrong_paths = {paths}\n"));
        let told = modelled(
            &dir,
            queries,
            &[&SHORT[..], &["--machine", file.to_str().expect("UTF-8")]].concat(),
        );
        let number = |value: &Value| value.as_u64().expect("a number");
        let query = &told["queries"][0];
        [&told["squashed"], &query["sent"], &query["counted"]].map(number)
    };
    let [none, modelled, profiled] = ["none", "modelled", "profiled"].map(told);
    assert_eq!((none[0], none[1]), (0, 0));
    assert!(modelled[0] > 300 && modelled[1] == 0, "{modelled:?}");
    assert!(
        profiled[1] > 30 && profiled[1] < profiled[0],
        "{profiled:?}"
    );
    assert_eq!([modelled[2], profiled[2]], [none[2]; 2]);
}

#[test]
fn a_machine_of_another_size_has_other_misses() {
    let dir = Dir::new("machine");
    let queries = "for evL2DMISS * always collect pc; count stop;";
    let misses = |machine: &str, instructions: &str| {
        let file = dir.file("machine", machine);
        let file = file.to_str().expect("UTF-8");
        let told = modelled(
            &dir,
            queries,
            &["--machine", file, "--instructions", instructions],
        );
        told["queries"][0]["counted"].as_u64().expect("counted")
    };
    let (usual, tiny) = (misses("", "30k"), misses("second_cache = 1k/1/64\n", "30k"));
    assert!(tiny > usual, "{tiny} {usual}");
    assert_eq!(misses("second_cache = perfect\n", "3k"), 0);
}

#[test]
fn the_machine_that_is_shown_is_the_one_that_is_used() {
    let dir = Dir::new("shown");
    let shown = trommel(&["model", "--show-machine"]);
    assert!(shown.status.success());
    let text = String::from_utf8(shown.stdout).expect("UTF-8");
    let told = modelled(
        &dir,
        QUERIES,
        // Some editors begin a text with a byte-order mark.
        &[
            "--machine",
            dir.file("m", &format!("\u{feff}{text}"))
                .to_str()
                .expect("UTF-8"),
            "--instructions",
            "1k",
        ],
    );
    assert_eq!(told["machine"], text);
}

#[test]
fn the_program_ends_as_it_would_and_what_is_wrong_is_said() {
    let dir = Dir::new("ends");
    let queries = dir.file("q.rpa", "for opBRANCH * always collect pc; count stop;");
    let queries = queries.to_str().expect("UTF-8");
    let short = ["model", "-q", queries, "--instructions", "5k", "--"];
    let with = |program: &[&str]| trommel(&[&short[..], program].concat());
    let done = with(&["/bin/sh", "-c", "exit 7"]);
    assert_eq!(done.status.code(), Some(7));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        text.contains("# stalled") && text.contains("opBRANCH"),
        "{text}"
    );
    assert!(
        text.lines().take(6).all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert_eq!(with(&["/no/such/program"]).status.code(), Some(127));
    let machine = dir.file("bad", "windows = 8\n");
    let machine = ["model", "--machine", machine.to_str().expect("UTF-8")];
    let done = trommel(&[&machine[..], &["-q", queries, "--", "true"]].concat());
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        !done.status.success() && said.contains("line 1") && said.contains("no `windows`"),
        "{said}"
    );
}

#[test]
fn code_of_a_program_that_ends_has_names() {
    let dir = Dir::new("names");
    compile::compile(
        &dir.0,
        "ends",
        &["-O1", "-static"],
        "int main(void) { return 0; }",
    );
    let query = dir.file(
        "q.rpa",
        "for opBRANCH * always collect pc misc; send 3 stop;",
    );
    let [query, program] =
        [query, dir.0.join("ends")].map(|path| path.into_os_string().into_string().expect("UTF-8"));
    // More instructions than it executes.
    let model = [
        "model",
        "-q",
        &query,
        "--json",
        "--instructions",
        "3M",
        "--",
        &program,
    ];
    let done = trommel(&model);
    let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let branches = told["queries"][0]["messages"].as_array().expect("messages");
    let named = branches.iter().filter(|m| m["pc"]["module"] != "[anon]");
    assert!(
        branches.len() > 10 && named.count() == branches.len(),
        "{told}"
    );
}

/// Executes what its arguments name, or ends after some hundred turns.
const THROUGH: &str = r#"
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin");
static long ask(long number, const void *a, const void *b, const void *c)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
void begin(long *stack)
{
    char **words = (char **)(stack + 1);
    if (*stack > 1) ask(59, words[1], words + 1, words + *stack + 1);
    for (volatile int n = 0; n < 400; n = n + 1) ;
    ask(60, 0, 0, 0);
}
"#;

#[test]
fn a_program_that_is_executed_by_another_is_modelled() {
    let dir = Dir::new("executed");
    let query = dir.file("q.rpa", "for opALU * always collect pc; send 1 stop;");
    let query = query.to_str().expect("UTF-8");
    let modelled = |program: &[&str]| -> (u64, u64) {
        let model = ["model", "-q", query, "--json", "--"];
        let done = trommel(&[&model[..], program].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        let told: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let number = |name: &str| told[name].as_u64().expect("a number");
        (
            number("instructions"),
            told["queries"][0]["executed"].as_u64().expect("a number"),
        )
    };
    // Each instruction is a signal: without a library there are few of them.
    compile::compile(&dir.0, "through", &["-O1", "-static", "-nostdlib"], THROUGH);
    let [program, link] = ["through", "executed"].map(|name| dir.0.join(name));
    std::fs::hard_link(&program, &link).expect("a name");
    let [through, executed] = [&program, &link].map(|path| path.to_str().expect("UTF-8"));
    let (alone, arithmetic) = modelled(&[executed]);
    let (instructions, executed) = modelled(&[through, executed]);
    // Their environment differs a little.
    assert!(
        instructions.abs_diff(alone) * 50 < alone,
        "{instructions} {alone}"
    );
    assert!(
        executed.abs_diff(arithmetic) * 50 < arithmetic,
        "{executed} {arithmetic}"
    );
}
