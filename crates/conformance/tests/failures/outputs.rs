//! Full disks, closed outputs, wrong specs.

use std::fs;
use std::path::Path;
use trommel_conformance::not_tested::not_tested;

use crate::Test;
use crate::harness::{Place, program};

pub(crate) const TESTS: &[Test] = &[
    ("output: a full device for the profile", full_profile),
    ("output: a full device for the stream", full_stream),
    ("output: a full file system", full_file_system),
    ("output: stdout closed or full", closed_stdout),
    (
        "output: a program that does not start costs no file",
        files_stay,
    ),
    ("output: wrong specs are pointed at", specs),
];

fn full_profile(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let temporary = place.path("elsewhere");
    fs::create_dir(&temporary).map_err(|e| e.to_string())?;
    let mut command = place.command(&[
        "record",
        "--quiet",
        "-o",
        "/dev/full",
        "--",
        "echo",
        "hello",
    ])?;
    let ended = place.run(command.env("TMPDIR", &temporary))?;
    if ended.status.code() != Some(1) || ended.stdout != b"hello\n" {
        return Err(format!("{ended:?}"));
    }
    let saved = fs::read_dir(&temporary)
        .map_err(|e| e.to_string())?
        .flatten()
        .next()
        .ok_or("the profile is nowhere")?
        .path();
    let saved = saved.to_string_lossy();
    if !ended.stderr.contains("No space left") || !ended.stderr.contains(&*saved) {
        return Err(format!("does not tell where it is: {}", ended.stderr));
    }
    place.report(&saved).map(drop)
}

/// The stream is lost, and that is reported. The profile is whole.
fn full_stream(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let app = program("turns", TURNS)?;
    let app = app.to_string_lossy();
    for name in ["/dev/full", "plain.tstream"] {
        let args = [
            "record", "--quiet", "-o", "p.data", "--stream", name, "--", &app,
        ];
        let ended = place.trommel(&args)?;
        if name == "/dev/full" {
            let told = ended
                .one_error()
                .and(match ended.stderr.contains("No space left") {
                    true => Ok(()),
                    false => Err(ended.stderr.clone()),
                });
            told.map_err(|e| format!("record --stream {name}: {e}"))?;
        }
        if ended.status.success() != (name != "/dev/full") {
            return Err(format!("--stream {name}: {}", ended.status));
        }
    }
    let (with, without) = (place.report("p.data.old")?, place.report("p.data")?);
    // Where the stack lies differs from run to run, and with it what the C library does.
    match (turns(&with), turns(&without)) {
        (200_000, 200_000) => Ok(()),
        (with, without) => Err(format!(
            "{with} calls with a full disk, {without} without, of 200000"
        )),
    }
}

const TURNS: &str = "
#include <stdio.h>
__attribute__((noipa)) static int turn(int x) { return x * 3 + 1; }
int main(void) { int x = 1; for (int i = 0; i < 200000; i++) x = turn(x); printf(\"%d\\n\", x); return 0; }
";

/// Returns how often the function `turn` was called.
fn turns(report: &serde_json::Value) -> u64 {
    let calls = report["calls"].as_array().cloned().unwrap_or_default();
    calls
        .iter()
        .filter(|c| c["to"]["function"] == "turn")
        .filter_map(|c| c["count"].as_u64())
        .sum()
}

fn full_file_system(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let mut probe =
        place.shell("unshare -m sh -c 'mkdir -p t && mount -t tmpfs -o size=64k none t'")?;
    if !place.run(&mut probe)?.status.success() {
        not_tested("a full file system: none can be mounted here");
        return Ok(());
    }
    // An earlier profile and stream, then no room for the next ones; `others` shows what is left.
    let script = r#"
        unshare -m bash -c '
            mount -t tmpfs -o size=64k none t || exit 90
            cd t
            "$T" record --quiet -e call -o p.data -- true || exit 91
            cp p.data ../earlier.data
            dd if=/dev/zero of=filler bs=1k 2>/dev/null
            "$T" record --quiet -o p.data -- sh -c "exit 0" 2>../told
            [ $? = 1 ] || exit 92
            cmp p.data ../earlier.data || exit 93
            [ "$(ls -A)" = "$(printf "filler\np.data")" ] || exit 94
            rm filler
            "$T" record --quiet --stream s.tstream -o ../after.data -- sh -c "while read -r line; do :; done" <../input 2>../told-stream
            [ $? = 1 ] || exit 95
            "$T" stream info s.tstream >/dev/null 2>../cut || exit 96
            cd ..
        '"#;
    place.write(
        "input",
        "some words in a line\n".repeat(20_000).as_bytes(),
        0o644,
    )?;
    let mut command = place.shell(script)?;
    let temporary = place.path("elsewhere");
    fs::create_dir(&temporary).map_err(|e| e.to_string())?;
    let ended = place.run(command.env("TMPDIR", &temporary))?;
    let read = |name| fs::read_to_string(place.path(name)).unwrap_or_default();
    let (told, told_stream, cut) = (read("told"), read("told-stream"), read("cut"));
    if !ended.status.success() {
        return Err(format!(
            "{}: {told} {told_stream} {cut} {}",
            ended.status, ended.stderr
        ));
    }
    if !told.contains("o space left")
        || !told_stream.contains("o space left")
        || !cut.contains("cut short")
    {
        return Err(format!("not told: {told:?} {told_stream:?} {cut:?}"));
    }
    place.report("after.data").map(drop)
}

fn closed_stdout(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let made = place.trommel(&[
        "record",
        "--quiet",
        "--stream",
        "s.tstream",
        "--",
        "ls",
        "/",
    ])?;
    if !made.status.success() {
        return Err(made.stderr);
    }
    let commands = [
        "report",
        "report --json",
        "stream dump s.tstream",
        "stream info s.tstream",
        "compress -c exact s.tstream",
        "doctor",
        "man record",
        "completions bash",
        "--help",
    ];
    for command in commands {
        // `head` reads a line and goes; PIPESTATUS is trommel's.
        let script = format!("\"$T\" {command} | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}");
        let ended = place.run(&mut place.shell(&script)?)?;
        if !ended.status.success() || !ended.stderr.is_empty() {
            return Err(format!("{script}: {} {}", ended.status, ended.stderr));
        }
        // What is written there is lost, and a script must hear of it.
        for (to, why) in [("/dev/full", "No space left"), ("&-", "output is closed")] {
            let script = format!("\"$T\" {command} >{to}");
            let ended = place.run(&mut place.shell(&script)?)?;
            if ended.status.success() || !ended.stderr.contains(why) {
                return Err(format!("{script}: {} {}", ended.status, ended.stderr));
            }
        }
    }
    // A program finds its descriptors closed as it would without us, and its profile is written.
    let script =
        "ls -l /proc/self/fd >&- 2>err; echo $?; \"$T\" record --quiet -- ls / >&- 2>&-; echo $?";
    let ended = place.run(&mut place.shell(script)?)?;
    place.report("trommel.data")?;
    let codes: Vec<_> = ended.stdout.split(|b| *b == b'\n').collect();
    match codes[0] == codes[1] {
        true => Ok(()),
        false => Err(format!("{:?}", String::from_utf8_lossy(&ended.stdout))),
    }
}

fn files_stay(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    let args = |program| ["record", "--quiet", "--stream", "s.tstream", "--", program];
    let made = place.trommel(&args("true"))?;
    if !made.status.success() {
        return Err(made.stderr);
    }
    let read = |name| fs::read(place.path(name)).map_err(|e| format!("{name}: {e}"));
    let (data, stream) = (read("trommel.data")?, read("s.tstream")?);
    // As far as we can tell a program; the kernel does not think so.
    let mut broken = fs::read("/bin/true").map_err(|e| e.to_string())?;
    broken.truncate(64 + 56);
    place.write("broken", &broken, 0o755)?;
    place.write("text", b"#!/no/such/interpreter\n", 0o755)?;
    for program in ["./broken", "./text", "./missing"] {
        let ended = place.trommel(&args(program))?;
        if ended.status.success() || read("trommel.data")? != data || read("s.tstream")? != stream {
            return Err(format!("{program} cost an earlier file: {}", ended.status));
        }
    }
    let script = "ulimit -v 1300000; \"$T\" record --quiet --stream s.tstream -- true";
    let ended = place.run(&mut place.shell(script)?)?;
    let same = read("trommel.data")? == data;
    match ended.status.success() || same {
        true => Ok(()),
        false => Err("a runtime without memory cost an earlier profile".into()),
    }
}

fn specs(bin: &Path) -> Result<(), String> {
    let place = Place::new(bin)?;
    place.trommel(&["record", "--quiet", "--stream", "s.tstream", "--", "true"])?;
    let wrong = [
        ("", 1),
        ("Q", 1),
        ("P0", 2),
        ("P", 2),
        ("H[P256]2047", 8),
        ("H[P256", 7),
        ("H[Q]16", 3),
        ("P256+", 6),
        ("P256+A", 7),
        ("P256+A0", 7),
        ("P256 ", 5),
        ("T[256]2048/2way/99bit", 17),
        ("M4[10k,1%]2048:C1R0P", 21),
        ("P99999999999999999999", 2),
        ("exact+B", 7),
        ("P\u{e9}", 2),
    ];
    for (spec, column) in wrong {
        for args in [
            &["record", "--quiet", "-c", spec, "--", "true"][..],
            &["compress", "-c", spec, "s.tstream"],
        ] {
            let ended = place.trommel(args)?;
            let at = |e: String| format!("-c '{spec}': {e}");
            ended.refused(1, &["wrong compressor spec"]).map_err(at)?;
            let caret = ended.stderr.lines().last().and_then(|l| l.find('^'));
            if caret != Some(4 + column - 1) {
                return Err(at(format!("not at column {column}: {}", ended.stderr)));
            }
        }
    }
    Ok(())
}
