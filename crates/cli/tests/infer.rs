//! `export --infer`: exact counts stay what they are, sampled ones become consistent, and others than optimisers are refused.

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use common::Dir;

/// One function with a loop and two branches, of which samples see each with another error.
const SOURCE: &str = r#"
    static volatile unsigned sum;
    int main(void) {
        unsigned state = 1;
        for (int n = 0; n < 300000; n++) {
            state = state * 1664525 + 1013904223;
            if (state & 1 << 20) sum += 3; else sum ^= n;
            if (state >> 29 == 5) sum *= 7;
        }
        return 0;
    }"#;

/// Ways within `main`, by offsets.
fn ways(dir: &Dir, options: &[&str], file: &str) -> BTreeMap<(u64, u64), u64> {
    let head = ["export", "--format", "bolt", "-o", "-"];
    let text = String::from_utf8(dir.trommel(&[&head, options, &[file]].concat())).expect("text");
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        if words[1] == "main" && words[4] == "main" {
            let offset = |word: &str| u64::from_str_radix(word, 16).expect("offset");
            let count = words[7].parse().expect("count");
            all.insert((offset(words[2]), offset(words[5])), count);
        }
    }
    all
}

/// The largest difference between the ways into a block and the ways out of it.
fn most_apart(ways: &BTreeMap<(u64, u64), u64>) -> u64 {
    let mut out: BTreeMap<u64, u64> = BTreeMap::new();
    let mut into: BTreeMap<u64, u64> = BTreeMap::new();
    for ((from, to), count) in ways {
        *out.entry(*from).or_default() += count;
        *into.entry(*to).or_default() += count;
    }
    // A block is entered at its start, and left at the first way out after it.
    let blocks = into.iter().filter_map(|(start, entered)| {
        let (last, left) = out.range(start..).next()?;
        let cut = into.range(start + 1..=*last).next().is_some();
        (!cut).then(|| entered.abs_diff(*left))
    });
    blocks.max().expect("blocks")
}

#[test]
fn sampled_counts_become_consistent_and_exact_ones_stay() {
    let dir = Dir::new("infer");
    std::fs::write(dir.0.join("app.c"), SOURCE).expect("source");
    let done = Command::new("cc")
        .args(["-O1", "-fno-if-conversion", "-o", "app", "app.c"])
        .current_dir(&dir.0)
        .status();
    assert!(done.expect("cc").success());
    let record = ["record", "--quiet", "-e", "edge,call"];
    dir.trommel(&[&record[..], &["-o", "exact.data", "--", "./app"]].concat());
    dir.trommel(
        &[
            &record[..],
            &["-c", "R509", "-o", "sampled.data", "--", "./app"],
        ]
        .concat(),
    );
    let exact = ways(&dir, &[], "exact.data");
    assert_eq!(ways(&dir, &["--infer"], "exact.data"), exact);
    let sampled = ways(&dir, &[], "sampled.data");
    let inferred = ways(&dir, &["--infer"], "sampled.data");
    assert!(most_apart(&sampled) > 100, "{sampled:?}");
    // The function is entered and left once, which no sample says.
    assert!(most_apart(&inferred) <= 1, "{inferred:?}");
    let said = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["export", "--format", "bolt", "--infer", "-o", "app.fdata"])
        .arg("sampled.data")
        .current_dir(&dir.0)
        .output()
        .expect("trommel runs");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("estimates made consistent in "), "{said}");
    assert!(!said.contains("as they were"), "{said}");
    // The profile is what it was.
    let report = dir.json(&["report", "--json", "sampled.data"]);
    assert_eq!(report["coverage"]["complete"], false);
    let refused = Command::new(env!("CARGO_BIN_EXE_trommel"))
        .args(["export", "--format", "callgrind", "--infer", "sampled.data"])
        .current_dir(&dir.0)
        .output()
        .expect("trommel runs");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--infer"));
}
