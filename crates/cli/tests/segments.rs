//! Code of every executable segment belongs to its file, also where segments lie far apart, as in what BOLT writes.

mod common;
#[path = "common/compile.rs"]
mod compile;

use common::Dir;
use compile::compile;

const SOURCE: &str = r#"
#include <stdio.h>
__attribute__((section(".far"), noinline)) int far_away(int x) {
  int sum = 0;
  for (int i = 0; i < x; i++) sum += i ^ (i & 3);
  return sum;
}
int main(void) {
  long sum = 0;
  for (int i = 0; i < 200; i++) sum += far_away(i);
  printf("%ld\n", sum);
}
"#;

#[test]
fn code_of_a_second_executable_segment_has_its_file_and_function() {
    let dir = Dir::new("segments");
    let far = "-Wl,--section-start=.far=0x10000000";
    for (name, kind) in [("fixed", "-no-pie"), ("moved", "-pie")] {
        compile(&dir.0, name, &["-O1", "-fPIE", kind, far], SOURCE);
        for events in ["edge,call", "edge", "edge,call,value,type"] {
            let program = format!("./{name}");
            dir.trommel(&["record", "--quiet", "-e", events, "--", &program]);
            let said = dir.json(&["report", "--json", "--top", "0"]);
            let path = dir.0.join(name).display().to_string();
            let modules = said["modules"].as_array().expect("modules");
            let ours = modules.iter().find(|m| m["path"] == path.as_str());
            let ours = &ours.expect("the program")["id"];
            let edges = said["edges"].as_array().expect("edges");
            let of_loop = edges
                .iter()
                .filter(|edge| edge["from"]["function"] == "far_away");
            let mut executions = 0;
            for edge in of_loop {
                assert_eq!(&edge["from"]["module"], ours, "{name} {events}: {edge}");
                executions += edge["count"].as_u64().expect("count");
            }
            // Its loop's branch, and the test before the loop.
            assert_eq!(executions, 199 * 200 / 2 + 200, "{name} {events}");
            dir.trommel(&["annotate", "far_away"]);
        }
    }
}

/// A jump into another segment after a branch: the flags are dead there, for which the code is looked at before any of it is executed.
const LOOKED_AT: &str = r#"
#include <unistd.h>
__asm__(
    ".pushsection .far, \"ax\", @progbits\n.type far_away, @function\n"
    "far_away: xor %eax, %eax\n mov $7, %edx\n1: add %edx, %eax\n dec %edx\n jnz 1b\n ret\n.size far_away, . - far_away\n"
    ".popsection\n.type near_by, @function\n"
    "near_by: dec %edi\n jz 1f\n jmp near_by\n1: mov %edi, %ecx\n jmp far_away\n.size near_by, . - near_by\n");
int near_by(int times);
int main(void) { _exit(near_by(5) + near_by(3) == 56 ? 0 : 1); }
"#;

#[test]
fn a_segment_that_was_looked_at_before_it_was_executed_has_its_file() {
    let dir = Dir::new("looked-at");
    let far = "-Wl,--section-start=.far=0x10000000";
    for (name, kind) in [("fixed", "-no-pie"), ("moved", "-pie")] {
        compile(&dir.0, name, &["-O1", "-fPIE", kind, far], LOOKED_AT);
        for events in ["edge,call", "edge", "edge,call,value"] {
            let program = format!("./{name}");
            dir.trommel(&["record", "--quiet", "-e", events, "--", &program]);
            let said = dir.json(&["report", "--json", "--top", "0"]);
            let edges = said["edges"].as_array().expect("edges");
            let of = |function: &str| {
                let own = edges.iter().filter(|e| e["from"]["function"] == function);
                own.map(|e| e["count"].as_u64().expect("count"))
                    .sum::<u64>()
            };
            assert_eq!((of("near_by"), of("far_away")), (8, 14), "{name} {events}");
            let nowhere = |end: &serde_json::Value| end["module"] == 0;
            let lost = edges
                .iter()
                .find(|e| nowhere(&e["from"]) || nowhere(&e["to"]));
            assert_eq!(lost, None, "{name} {events}");
        }
    }
}
