//! Names of functions: as tables show them, and as `annotate` takes them.

mod common;

use std::process::Command;

use common::Dir;

/// Functions with template arguments, parameters, and others inlined at their start.
const SOURCE: &str = r#"
#include <algorithm>
#include <map>
#include <string>
#include <vector>
namespace shop {
template <class T> struct Shelf {
  std::map<std::string, T> all;
  __attribute__((noinline)) T price_of(const std::string &name) { return all.find(name)->second; }
};
__attribute__((noinline)) unsigned long code_of(const std::string &name) {
  unsigned long code = 5381;
  for (int round = 0; round < 20; round++)
    for (unsigned char letter : name) code = code * 33 + letter;
  return code;
}
template <class T> __attribute__((noinline)) void turn(std::vector<T> &all) {
  for (unsigned long n = 0; n < all.size() / 2; n++) std::swap(all[n], all[all.size() - 1 - n]);
}
}
int main() {
  shop::Shelf<long> shelf;
  for (int n = 0; n < 50; n++) shelf.all["name" + std::to_string(n)] = n;
  std::vector<double> list(100);
  unsigned long sum = 0;
  for (int n = 0; n < 20000; n++) {
    sum += shelf.price_of("name42") + shop::code_of("name42");
    shop::turn(list);
  }
  return sum == 0;
}
"#;

fn stage(name: &str) -> Dir {
    let dir = Dir::new(name);
    std::fs::write(dir.0.join("shop.cc"), SOURCE).expect("a file");
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-g", "-std=c++17", "-o", "shop", "shop.cc"]);
    let built = compiler.current_dir(&dir.0).status();
    assert!(built.expect("c++").success());
    dir.trommel(&["record", "--quiet", "-o", "data", "--", "./shop"]);
    dir
}

#[test]
fn annotate_takes_each_name_that_the_report_shows() {
    let dir = stage("names-shown");
    let report = dir.trommel(&["report", "--top", "12", "data"]);
    let report = String::from_utf8(report).expect("UTF-8");
    let table = report
        .lines()
        .skip_while(|l| !l.contains("Functions of the program"));
    let titles = table.clone().nth(1).expect("titles");
    let at = titles.find("function").expect("a column");
    let rows = table.skip(2).take_while(|line| line.starts_with("  "));
    let names: Vec<&str> = rows
        .map(|row| row[at..].split("  ").next().unwrap_or_default())
        .filter(|name| name.contains("shop::"))
        .collect();
    for wanted in ["shop::Shelf::price_of", "shop::code_of", "shop::turn"] {
        let there = names.iter().any(|name| name.starts_with(wanted));
        assert!(there, "{names:?}\n{report}");
    }
    for name in names {
        let shown = dir.trommel(&["annotate", "data", name]);
        assert!(
            String::from_utf8_lossy(&shown).contains("# counts"),
            "{name}"
        );
    }
    let next = report.lines().find(|line| line.starts_with("# next"));
    let next = next.expect("a next command");
    assert!(!next.contains(['<', '(']), "{next}");
}

#[test]
fn a_function_is_where_its_source_is_whatever_is_inlined_at_its_start() {
    let dir = stage("names-source");
    let json = dir.json(&["report", "--json", "data"]);
    let functions = json["functions"].as_array().expect("functions");
    for name in ["price_of", "code_of", "turn"] {
        let is = |f: &&serde_json::Value| f["name"].as_str().is_some_and(|n| n.contains(name));
        let found = functions.iter().find(is).expect("there");
        let file = found["file"].as_str().unwrap_or_default();
        assert!(file.ends_with("shop.cc"), "{name}: {file}");
    }
}

#[test]
fn inlined_functions_have_names_without_parameters() {
    let dir = stage("names-inlined");
    let shown = dir.trommel(&["annotate", "data", "shop::turn"]);
    let shown = String::from_utf8(shown).expect("UTF-8");
    // Its mangled name has an expression in it, as gcc writes them.
    assert!(shown.contains("[std::swap"), "{shown}");
    let sources = shown
        .lines()
        .filter_map(|l| l.split_once(" [")?.1.split_once(']'));
    for (names, _) in sources.filter(|(names, _)| names.contains("::")) {
        assert!(
            !names.contains(['(', '<', ')']) && !names.contains("_Z"),
            "{names}"
        );
    }
}
