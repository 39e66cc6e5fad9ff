//! `record --memory`: exact as long as the memory is enough, and honest where it is not.

use std::collections::BTreeMap;

mod common;

use common::Dir;

#[test]
fn values_that_memory_is_too_small_for_are_lost_and_said_to_be() {
    let dir = Dir::new("memory");
    // Half a million loaded values, nearly all of them different.
    let bytes: Vec<u8> = (0_u32..60_000)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes())
        .collect();
    std::fs::write(dir.0.join("data"), bytes).expect("a file");
    let record = |memory: &str, file: &str| {
        let args = [
            "record",
            "--quiet",
            "-e",
            "edge,value",
            "--exact-values",
            "--memory",
            memory,
            "-o",
            file,
        ];
        dir.trommel(&[&args[..], &["--", "sha256sum", "data"]].concat());
        let report = dir.json(&["report", "--json", file]);
        let of_edges: u64 = report["edges"]
            .as_array()
            .expect("edges")
            .iter()
            .filter_map(|e| e["count"].as_u64())
            .sum();
        assert_eq!(report["events"]["edge"]["seen"], of_edges);
        let number = |v: &serde_json::Value| v.as_u64().expect("a number");
        let run = &report["run"];
        (
            of_edges,
            number(&report["events"]["value"]["seen"]),
            number(&run["dropped"]),
            number(&run["undercount"]),
        )
    };
    let (all_edges, all, none, exact) = record("1G", "whole");
    assert_eq!((none, exact), (0, 0));
    let (edges, seen, lost, off) = record("1M", "small");
    assert!(lost > all / 4 && off > 0, "{lost} of {all}, {off}");
    // Addresses differ between the runs, and with them a few steps of the dynamic linker.
    assert!(edges.abs_diff(all_edges) < 1000, "{edges} {all_edges}");
    assert!((seen + lost).abs_diff(all) < 1000, "{seen} + {lost}, {all}");
    let text = String::from_utf8(dir.trommel(&["report", "small"])).expect("UTF-8");
    assert!(text.contains("too low each, as memory was short"), "{text}");
}

/// Paths are counted by what leads from one to the next, and those that there is no room for by themselves: both ways come to the same.
#[test]
fn paths_are_counted_alike_with_less_memory() {
    const PERL: &str = "my %h; for (1..2000) { $h{$_ % 97} .= chr(65 + $_ % 26) } \
        print join(',', map { length $h{$_} } sort { $a <=> $b } keys %h), \"\\n\"";
    let dir = Dir::new("memory-paths");
    let record = |memory: &str| {
        let options = ["record", "--quiet", "-e", "path", "--only", "perl"];
        let rest = ["--memory", memory, "-o", memory];
        let program = ["--", "env", "PERL_HASH_SEED=0", "perl", "-e", PERL];
        dir.trommel(&[&options[..], &rest, &program].concat());
        let all = dir.json(&["report", "--json", "--top", "1000000", memory]);
        let paths = all["paths"].as_array().expect("paths").iter();
        let paths: BTreeMap<String, u64> = paths
            .map(|path| {
                let which = (&path["at"]["vaddr"], &path["outcomes"], &path["end"]);
                (
                    format!("{which:?}"),
                    path["executions"].as_u64().expect("a count"),
                )
            })
            .collect();
        assert_eq!(all["events"]["path"]["seen"], paths.values().sum::<u64>());
        (paths, all["run"]["dropped"].as_u64())
    };
    let (paths, dropped) = record("1G");
    assert!(paths.len() > 2500 && dropped == Some(0), "{}", paths.len());
    let (again, dropped) = record("1500k");
    assert_eq!(dropped, Some(0));
    let other = paths.iter().filter(|(path, n)| again.get(*path) != Some(n));
    assert!(paths == again, "{:?}", other.take(9).collect::<Vec<_>>());
}
