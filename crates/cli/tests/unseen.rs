//! The expected unseen mass of a sampled profile, against an exact profile of the same work.

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use common::Dir;
use serde_json::Value;

/// A place by module, and its address.
type Place = (String, u64);

/// A program whose branches are executed from once to a million times: a list of functions, each called half as often as the one before.
const SOURCE: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
    int main(void) {
        static int numbers[20000];
        char text[64];
        unsigned long sum = 0, state = 1;
        for (int n = 0; n < 20000; n++) {
            state = state * 6364136223846793005ul + 1442695040888963407ul;
            numbers[n] = state >> 40;
            switch (state >> 58) {
            case 0: sum += snprintf(text, sizeof text, "%lx", state); break;
            case 1: sum += strlen(text); break;
            case 2: sum ^= strtoul("1234", 0, 10); break;
            case 3: if (state >> 48 & 1) sum++; break;
            case 4: if (!(state >> 40 & 255)) sum += atoi("77"); break;
            }
        }
        qsort(numbers, 20000, sizeof *numbers, compare);
        printf("%lu %d\n", sum, numbers[7]);
        return 0;
    }"#;

/// Edges of a report with their counts.
fn edges(report: &Value) -> BTreeMap<(Place, Place), u64> {
    let place = |at: &Value| {
        let module = &report["modules"][at["module"].as_u64().expect("module") as usize];
        let path = module["path"].as_str().expect("path");
        (path.to_owned(), at["vaddr"].as_u64().expect("vaddr"))
    };
    let lists = ["edges", "calls"].map(|name| report[name].as_array().expect("list"));
    let entries = lists.into_iter().flatten();
    let edge = |e: &Value| {
        let count = e["count"].as_u64().expect("count");
        ((place(&e["from"]), place(&e["to"])), count)
    };
    entries.map(edge).collect()
}

fn report(dir: &Dir, options: &[&str]) -> Value {
    let head = ["record", "--quiet", "-e", "edge,call"];
    let tail = ["-o", "p.data", "--", "./app"];
    dir.trommel(&[&head, options, &tail].concat());
    dir.json(&["report", "--json", "p.data"])
}

#[test]
fn the_unseen_mass_is_within_its_limits() {
    let dir = Dir::new("unseen");
    std::fs::write(dir.0.join("app.c"), SOURCE).expect("source");
    let done = Command::new("cc")
        .args(["-O1", "-o", "app", "app.c"])
        .current_dir(&dir.0)
        .status();
    assert!(done.expect("cc").success());
    let exact = report(&dir, &[]);
    let coverage = &exact["coverage"];
    assert_eq!(coverage["complete"], true);
    assert!(coverage["unseen"].is_null() && coverage["draw"].is_null());
    let truth = edges(&exact);
    assert_eq!(coverage["edges"], truth.len());
    let all: u64 = truth.values().sum();

    let mut held = 0;
    let specs = [
        "R31",
        "R127",
        "R509",
        "R1021",
        "R4093",
        "R9973",
        "D257",
        "D2053",
        "P127",
        "H[R251]64",
    ];
    for spec in specs {
        let sampled = report(&dir, &["-c", spec]);
        let coverage = &sampled["coverage"];
        let figure = |name: &str| coverage[name].as_f64().expect("known");
        assert_eq!(
            (&coverage["complete"], &coverage["draw"]),
            (&false.into(), &"event".into())
        );
        let seen = edges(&sampled);
        assert_eq!(coverage["edges"], seen.len());
        let unseen = truth.iter().filter(|(edge, _)| !seen.contains_key(*edge));
        let unseen = unseen.map(|(_, count)| *count).sum::<u64>() as f64 / all as f64;
        let (low, high) = (figure("unseen_low"), figure("unseen_high"));
        assert!(0.0 <= low && low <= figure("unseen") && figure("unseen") <= high && high <= 1.0);
        // Half of what limits may be off by at most: they mean something.
        assert!(high - low < 0.4, "{spec}: {coverage}");
        assert!((0.0..=1.0).contains(&figure("known")));
        held += usize::from((low..=high).contains(&unseen));
    }
    assert!(held >= specs.len() - 1, "{held} of {}", specs.len());
    let text = String::from_utf8(dir.trommel(&["report", "p.data"])).expect("UTF-8");
    assert!(
        text.lines()
            .any(|line| line.starts_with("# seen  ") && line.contains("draws of one event")),
        "{text}"
    );
    // Counts of this compressor do not say which were sampled once.
    let unknown = report(&dir, &["-c", "CR61"]);
    assert!(
        unknown["coverage"]["unseen"].is_null()
            && unknown["coverage"]["unknown_because"].is_string()
    );
}

/// Windows have a draw of their own, and say so.
#[test]
fn windows_are_draws() {
    let dir = Dir::new("unseen-windows");
    let source = SOURCE.replace(
        "for (int n = 0; n < 20000",
        "for (int r = 0; r < 200; r++) for (int n = 0; n < 20000",
    );
    std::fs::write(dir.0.join("app.c"), source).expect("source");
    let done = Command::new("cc")
        .args(["-O1", "-o", "app", "app.c"])
        .current_dir(&dir.0)
        .status();
    assert!(done.expect("cc").success());
    let sampled = report(&dir, &["--rate", "1000", "--window", "500"]);
    let coverage = &sampled["coverage"];
    assert_eq!(coverage["draw"], "window", "{coverage}");
    let draws = coverage["draws"].as_f64().expect("draws");
    let counted = sampled["windows"]["counted"].as_f64().expect("windows");
    assert!(1.0 <= draws && draws <= counted + 0.5, "{draws} {counted}");
    assert!(coverage["edges_once"].as_u64() <= coverage["edges"].as_u64());
    // What is shown of one module does not say which windows saw it.
    let part = dir.json(&["report", "--json", "--module", "app", "p.data"]);
    assert!(part["coverage"]["unseen"].is_null());
    // A sum has the windows of both.
    std::fs::copy(dir.0.join("p.data"), dir.0.join("a.data")).expect("file");
    dir.trommel(&["merge", "a.data", "p.data", "-o", "sum.data"]);
    let sum = dir.json(&["report", "--json", "sum.data"]);
    assert_eq!(sum["coverage"]["edges_once"], 0, "each is in both");
    let both = sum["coverage"]["draws"].as_f64().expect("draws");
    assert!((both - 2.0 * draws).abs() < 1e-3 * draws, "{both} {draws}");
}
