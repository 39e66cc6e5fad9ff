//! `stream` and `compress` on streams of each format, whole, cut short and damaged.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use trommel_tuple::stream::{Module, Writer};
use trommel_tuple::{Kind, ModuleId, Place, Tuple, Vaddr};

struct Dir(PathBuf);

impl Dir {
    /// A directory with a stream of 30 000 events, `s.tstream`.
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("trommel-streams-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("temp dir");
        let mut writer = Writer::new(Vec::new()).expect("memory");
        let module = Module {
            id: ModuleId(1),
            path: b"/bin/app".to_vec(),
            build_id: Vec::new(),
        };
        writer.module(&module).expect("memory");
        let at = |vaddr| Place::new(ModuleId(1), Vaddr(vaddr));
        for n in 0..10_000_u64 {
            writer
                .push(Kind::Value, Tuple::new(at(0x100), n / 5000))
                .expect("memory");
            writer
                .push(Kind::Value, Tuple::new(at(0x108), n))
                .expect("memory");
            writer
                .push(Kind::Edge, Tuple::new(at(0x110), at(0x100).word()))
                .expect("memory");
        }
        std::fs::write(path.join("s.tstream"), writer.finish().expect("memory")).expect("stream");
        Self(path)
    }

    fn trommel(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        command
            .args(args)
            .current_dir(&self.0)
            .output()
            .expect("trommel runs")
    }

    fn text(&self, args: &[&str]) -> String {
        let out = self.trommel(args);
        assert!(
            out.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).expect("UTF-8")
    }

    fn refused(&self, args: &[&str], words: &[&str]) {
        let out = self.trommel(args);
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{args:?}: {text}");
        assert!(!text.contains("panicked"), "{text}");
        for word in words {
            assert!(
                text.contains(word),
                "{args:?}: `{text}` does not say `{word}`"
            );
        }
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn info_counts_and_names() {
    let dir = Dir::new("info");
    let text = dir.text(&["stream", "info", "s.tstream"]);
    for wanted in [
        "tstream",
        "30 000",
        "value    20 000",
        "edge     10 000",
        "/bin/app",
    ] {
        assert!(text.contains(wanted), "no `{wanted}` in\n{text}");
    }
    let json: Value =
        serde_json::from_str(&dir.text(&["stream", "info", "--json", "s.tstream"])).expect("JSON");
    assert_eq!(
        (&json["schema"], &json["events"]),
        (&"trommel.stream/1".into(), &30_000.into())
    );
    assert_eq!(
        json["kinds"],
        serde_json::json!({"edge": 10_000, "value": 20_000})
    );
}

#[test]
fn dump_prints_one_event_a_line() {
    let dir = Dir::new("dump");
    let text = dir.text(&["stream", "dump", "-n", "3", "s.tstream"]);
    assert_eq!(
        text,
        "value 1:0x100 0x0\nvalue 1:0x108 0x0\nedge 1:0x110 1:0x100\n"
    );
    assert_eq!(
        dir.text(&["stream", "dump", "-e", "edge", "s.tstream"])
            .lines()
            .count(),
        10_000
    );
}

#[test]
fn conversions_lose_nothing_but_kinds() {
    let dir = Dir::new("convert");
    for out in ["s.raw16", "s.raw16.zst"] {
        dir.text(&["stream", "convert", "-e", "value", "s.tstream", out]);
        let back = format!("{out}.back.tstream");
        dir.text(&["stream", "convert", "-e", "value", out, &back]);
        let values = dir.text(&["stream", "dump", "-e", "value", "s.tstream"]);
        assert_eq!(dir.text(&["stream", "dump", &back]), values);
    }
    assert_eq!(
        std::fs::metadata(dir.0.join("s.raw16"))
            .expect("file")
            .len(),
        20_000 * 16
    );
    dir.text(&[
        "stream",
        "convert",
        "-e",
        "call",
        "s.raw16",
        "calls.tstream",
    ]);
    assert!(
        dir.text(&["stream", "info", "calls.tstream"])
            .contains("call     20 000")
    );
    dir.refused(
        &["stream", "convert", "s.tstream", "s.csv"],
        &["s.csv", ".raw16.zst or .tstream"],
    );
    dir.refused(
        &["stream", "convert", "s.tstream", "s.tstream"],
        &["both input and output"],
    );
    dir.refused(
        &["stream", "convert", "s.tstream", "no/s.raw16"],
        &["no/s.raw16", "cannot write"],
    );
}

#[test]
fn compressors_are_compared() {
    let dir = Dir::new("compress");
    let args = [
        "compress",
        "-c",
        "exact",
        "-c",
        "H[P16]64+A16",
        "-c",
        "R16",
        "s.tstream",
    ];
    let text = dir.text(&args);
    assert!(
        text.contains("H[P16]64+A16") && text.contains("30 000 events"),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(&dir.text(&[&args[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(3));
    assert_eq!(json[0]["messages"], 30_000);
    assert_eq!(json[0]["error"], 0.0);
    assert_eq!(json[1]["spec"], "H[P16]64+A16");
}

/// Text and JSON of what has no error.
#[test]
fn no_error_is_not_zero() {
    let dir = Dir::new("none");
    let run = |args: &[&str]| dir.text(&[&["compress", "s.tstream"], args].concat());
    for (args, reason) in [
        (
            &["-c", "M4[1M,1%]2048"][..],
            "shorter than an interval of 1000000",
        ),
        (
            &[
                "-c",
                "P16",
                "--filter",
                "executions=1000000,tuple=10%,load=40%",
            ],
            "no tuple passes the filter",
        ),
    ] {
        let text = run(args);
        let row = text.lines().find(|l| l.trim_start().starts_with("- "));
        assert!(row.is_some() && !text.contains("0.00%  "), "{text}");
        assert!(text.contains(reason), "{text}");
        let json: Value = serde_json::from_str(&run(&[args, &["--json"]].concat())).expect("JSON");
        assert!(json[0]["error"].is_null(), "{json}");
        assert!(
            json[0]["no_error"]
                .as_str()
                .is_some_and(|r| r.contains(reason))
        );
    }
}

#[test]
fn wrong_specs_and_filters_are_pointed_at() {
    let dir = Dir::new("specs");
    dir.refused(
        &["compress", "-c", "H[Q256]2048", "s.tstream"],
        &["wrong compressor spec", "H[Q256]2048\n      ^"],
    );
    dir.refused(
        &["record", "-c", "P0", "--", "true"],
        &["wrong compressor spec", "    P0\n     ^"],
    );
    dir.refused(
        &[
            "compress",
            "-c",
            "exact",
            "--filter",
            "executions",
            "s.tstream",
        ],
        &["wrong filter", "^"],
    );
}

#[test]
fn damaged_and_foreign_streams_are_named() {
    let dir = Dir::new("damaged");
    let good = std::fs::read(dir.0.join("s.tstream")).expect("stream");
    std::fs::write(dir.0.join("cut.tstream"), &good[..good.len() * 3 / 4]).expect("file");
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 0x10;
    std::fs::write(dir.0.join("bad.tstream"), bad).expect("file");
    std::fs::write(dir.0.join("text"), "hello").expect("file");
    let out = dir.trommel(&["stream", "info", "cut.tstream"]);
    assert!(out.status.success());
    assert!(String::from_utf8_lossy(&out.stderr).contains("cut short"));
    for command in ["info", "dump"] {
        dir.refused(
            &["stream", command, "bad.tstream"],
            &["bad.tstream", "corrupt"],
        );
        dir.refused(&["stream", command, "text"], &["text", "not a stream"]);
        dir.refused(
            &["stream", command, "missing"],
            &["missing", "no such stream", "--stream"],
        );
        dir.refused(&["stream", command, "."], &["directory"]);
    }
    dir.refused(
        &["compress", "-c", "exact", "bad.tstream"],
        &["bad.tstream", "corrupt"],
    );
    dir.refused(
        &["stream", "convert", "bad.tstream", "out.raw16"],
        &["out.raw16: not written", "corrupt"],
    );
    assert!(!dir.0.join("out.raw16").exists());
    assert_eq!(
        std::fs::read_dir(&dir.0).expect("dir").count(),
        4,
        "a temporary file was left"
    );
}
