//! Counts beyond 2^32 from the profile to what is printed, and a stream of more than 2^32 events.

mod common;

use std::process::Command;

use trommel_profile::{KindProfile, Profile, Site};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

use common::Dir;

/// Not a number of a double.
const ODD: u64 = (1 << 53) + 1;
const MANY: u64 = (1 << 32) + 5;

fn profile(compressor: &str) -> Profile {
    let at = |vaddr| Place::new(ModuleId(1), Vaddr(vaddr));
    let kind = |counts: Vec<(Place, Vec<(u64, u64)>)>| KindProfile {
        seen: counts.iter().flat_map(|(_, v)| v).map(|(_, n)| n).sum(),
        messages: MANY,
        counts: counts.into_iter().collect(),
    };
    let edges = vec![(
        at(0x10),
        vec![(at(0x14).word(), MANY), (at(0x20).word(), ODD)],
    )];
    let calls = vec![(at(0x18), vec![(at(0x80).word(), MANY)])];
    let values = vec![(at(0x30), vec![(7, ODD), (u64::MAX, MANY)])];
    let site = Site::Conditional {
        taken: at(0x20),
        fallthrough: at(0x14),
    };
    Profile {
        compressor: compressor.into(),
        kinds: [
            (Kind::Edge, kind(edges)),
            (Kind::Call, kind(calls)),
            (Kind::Value, kind(values)),
        ]
        .into(),
        sites: [(at(0x10), site), (at(0x18), Site::DirectCall)].into(),
        ..Profile::default()
    }
}

#[test]
fn counts_of_64_bits_are_stored_and_reported_exactly() {
    for compressor in [
        "exact",
        "H[P256]2048",
        "D16+H[P16:phase]4096",
        "M4[1M,0.1%]2048",
    ] {
        let dir = Dir::new("report");
        let written = profile(compressor);
        let file = dir.0.join("trommel.data");
        trommel_store::write(&file, std::slice::from_ref(&written)).expect("written");
        assert_eq!(trommel_store::read(&file).expect("read"), [written]);

        let json = dir.json(&["report", "--json"]);
        assert_eq!(json["edges"][0]["count"], ODD, "{compressor}");
        assert_eq!(json["edges"][1]["count"], MANY);
        assert_eq!(json["calls"][0]["count"], MANY);
        assert_eq!(json["values"][0]["executions"], ODD + MANY);
        assert_eq!(json["values"][0]["top"][0]["count"], ODD);
        assert_eq!(json["values"][0]["top"][1]["value"], u64::MAX);
        assert_eq!(json["events"]["edge"]["seen"], ODD + MANY);
        assert_eq!(json["events"]["edge"]["messages"], MANY);
        if let Some(low) = json["edges"][0]["low"].as_f64() {
            let high = json["edges"][0]["high"].as_f64().expect("both");
            assert!(
                low <= ODD as f64 && ODD as f64 <= high && low > 0.0,
                "{low} {high}"
            );
        }
        let text = String::from_utf8(dir.trommel(&["report", "--by", "event"])).expect("UTF-8");
        for count in ["9 007 199 254 740 993", "4 294 967 301"] {
            assert!(text.contains(count), "{compressor}: {count} in {text}");
        }
    }
}

/// 2 to the power of `TROMMEL_SCALE`, and a few. At 32 it takes half an hour: 64 GiB before compression.
#[test]
fn a_long_stream_is_evaluated() {
    let dir = Dir::new("stream");
    let bits: u32 = std::env::var("TROMMEL_SCALE")
        .map_or(21, |bits| bits.parse().expect("TROMMEL_SCALE is a number"));
    let events: u64 = (1 << bits) + (1 << 20);
    let interval = (1_u64 << bits) - 1;
    let script = format!(
        "head -c {} /dev/zero | zstd -q -1 -o s.raw16.zst",
        events * 16
    );
    let made = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&dir.0)
        .status();
    assert!(made.expect("sh, head and zstd").success());
    let specs = [
        "exact",
        "H[P256]2048",
        "D16+H[P16]4096+A16",
        &format!("M4[{interval},1%]64"),
    ];
    let mut args = vec!["compress", "--json"];
    args.extend(specs.iter().flat_map(|s| ["-c", s]));
    args.push("s.raw16.zst");
    let list = dir.json(&args);
    for (evaluation, spec) in list.as_array().expect("a list").iter().zip(specs) {
        assert_eq!(evaluation["events"], events, "{spec}");
        assert_eq!(evaluation["error"], 0.0, "{spec}");
        let kinds = evaluation["kinds"].as_object().expect("kinds");
        assert!(
            kinds.values().all(|k| k["events"] == events),
            "{spec}: {evaluation}"
        );
    }
    assert_eq!(list[0]["counted"], events);
    assert_eq!(list[0]["messages"], events);
    let held = list[1]["held"].as_u64().expect("a number");
    assert_eq!(list[1]["counted"].as_u64().map(|n| n + held), Some(events));
    assert_eq!(list[3]["intervals"], 1);
    assert_eq!(list[3]["counted"], interval);
}
