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
