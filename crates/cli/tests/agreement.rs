//! A recording and its stream agree: `record -c SPEC --stream FILE` has in its profile what
//! `compress -c SPEC FILE` makes of the stream, message for message and tuple for tuple.

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use trommel_profile::KindProfile;
use trommel_profile::accuracy::{Options, evaluate};
use trommel_tuple::{Kind, stream};

use common::Dir;

/// Kinds that had events.
fn met(kinds: &BTreeMap<Kind, KindProfile>) -> BTreeMap<Kind, &KindProfile> {
    kinds
        .iter()
        .filter(|(_, k)| k.seen != 0)
        .map(|(k, p)| (*k, p))
        .collect()
}

/// Records `program` once with each spec and all specs' streams are judged against the recordings.
fn agrees(name: &str, mix: &str, specs: &[&str], program: &[&str]) {
    let dir = Dir::new(name);
    for spec in specs {
        let what = format!("{name} -e {mix} -c {spec}");
        let options = [
            "record",
            "--no-follow",
            "--quiet",
            "-e",
            mix,
            "-c",
            spec,
            "-o",
            "p.data",
        ];
        let stream_to = ["--stream", "s.tstream", "--"];
        dir.trommel(&[&options[..], &stream_to, program].concat());
        let recorded = trommel_store::read(&dir.0.join("p.data")).expect("profile");
        let [recorded] = &recorded[..] else {
            panic!("{what}: {} processes", recorded.len());
        };

        // Each tuple of each kind, and the exact counts of the same events.
        let parsed = [spec.parse().expect("spec"), "exact".parse().expect("spec")];
        let mut reader = stream::open(dir.0.join("s.tstream")).expect("stream");
        let of_stream = evaluate(&parsed, Options::default(), &mut reader).expect("whole");
        assert_eq!(met(&recorded.kinds), met(&of_stream[0].kinds), "{what}");
        assert!(
            recorded
                .kinds
                .values()
                .all(|k| k.seen > 0 || mix.contains("type")),
            "{what}"
        );
        for (kind, exact) in &of_stream[1].kinds {
            let sum: u64 = exact.counts.values().flatten().map(|(_, n)| n).sum();
            assert_eq!(sum, recorded.kinds[kind].seen, "{what}: {kind}");
        }

        // What the commands show.
        let report = dir.json(&["report", "--json", "p.data"]);
        let list = dir.json(&[
            "compress",
            "-c",
            spec,
            "-c",
            "R256",
            "-c",
            "exact",
            "--json",
            "s.tstream",
        ]);
        let totals = |field: &str| -> u64 {
            let events = report["events"].as_object().expect("events");
            events.values().filter_map(|e| e[field].as_u64()).sum()
        };
        assert_eq!(list[0]["messages"], totals("messages"), "{what}");
        for evaluation in list.as_array().expect("a list") {
            assert_eq!(evaluation["events"], totals("seen"), "{what}");
        }
        for (kind, shown) in list[0]["kinds"].as_object().expect("kinds") {
            let event = &report["events"][kind];
            assert_eq!(
                (&shown["events"], &shown["messages"]),
                (&event["seen"], &event["messages"]),
                "{what}"
            );
        }
        let exact = &list[2]["kinds"];
        for (kind, shown) in exact.as_object().expect("kinds") {
            assert_eq!(shown["events"], shown["counted"], "{what}: {kind}");
        }
        assert_eq!(list[2]["error"], 0.0, "{what}");
    }
}

const STRATIFIED: &str = "H[P256]2048+A16";

#[test]
fn of_gzip() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs");
    let input = input.to_str().expect("UTF-8");
    let program = ["gzip", "-c", input];
    agrees(
        "gzip",
        "edge,call,value",
        &[STRATIFIED, "exact", "CR16", "H[CR64]256+A4"],
        &program,
    );
    agrees("gzip-value", "value", &[STRATIFIED, "R64"], &program);
}

#[test]
fn of_lua() {
    let script = "local t={} for i=1,1500 do t[i%97]=(t[i%97] or 0)+i end print(t[5])";
    let specs = [
        STRATIFIED,
        "T[64]512/2way/4bit",
        "M4[10k,1%]2048:C1R0P1",
        "D32+A8",
        "D8+H[P4:phase]512+A4",
        "M4[1k..64k,1%]2048:C1R0P1",
    ];
    agrees(
        "lua",
        "edge,call,value,type",
        &specs,
        &["lua5.4", "-e", script],
    );
    agrees(
        "lua-edge",
        "edge",
        &[STRATIFIED, "P7"],
        &["lua5.4", "-e", script],
    );
}

#[test]
fn of_a_program_of_our_own() {
    let dir = Dir::new("source");
    let text = "
#include <stdio.h>
struct shape { const struct table *table; long size; };
struct table { long (*area)(const struct shape *); };
static long square(const struct shape *s) { return s->size * s->size; }
static long circle(const struct shape *s) { return s->size * s->size * 3; }
static const struct table squares = { square }, circles = { circle };
int main(void) {
  long sum = 0;
  for (long i = 0; i < 20000; i++) {
    struct shape s = { i % 3 ? &squares : &circles, i & 31 };
    const struct shape *volatile at = &s;
    sum += at->table->area(at);
  }
  printf(\"%ld\\n\", sum);
}
";
    let (source, app) = (dir.0.join("app.c"), dir.0.join("app"));
    std::fs::write(&source, text).expect("source");
    let built = Command::new("cc")
        .arg("-O1")
        .arg("-o")
        .arg(&app)
        .arg(&source)
        .status();
    assert!(built.expect("a C compiler").success());
    let app = app.to_str().expect("UTF-8");
    let specs = [STRATIFIED, "R256", "H[R32]64+A16", "P256"];
    agrees("own", "edge,call,value,type", &specs, &[app]);
    agrees("own-type", "call,type", &[STRATIFIED], &[app]);
}
