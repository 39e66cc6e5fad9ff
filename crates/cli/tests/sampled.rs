//! Events counted in generated code: `record -c SPEC` comes to the messages that `compress -c SPEC` makes of the
//! stream of another run which does the same, message for message, tuple for tuple and interval for interval; and exact counts are those of a run in
//! which each event is recorded.

#[path = "common/dir.rs"]
mod dir;

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use trommel_compress::{Seeds, Spec, Strata};
use trommel_profile::accuracy::{Interval, Options, evaluate};
use trommel_profile::intervals::Intervals;
use trommel_profile::{Counted, KindProfile, Profile};
use trommel_tuple::stream::{self, Block};
use trommel_tuple::{Kind, Message, Tuple};

use dir::Dir;

/// Runs `trommel record` so that the program does the same each time: at fixed addresses, in a small environment.
fn record(dir: &Dir, options: &[&str], program: &[&str]) -> Profile {
    record_under(dir, "", options, program)
}

/// Under stress, as `TROMMEL_STRESS` says.
fn record_under(dir: &Dir, stress: &str, options: &[&str], program: &[&str]) -> Profile {
    let trommel = env!("CARGO_BIN_EXE_trommel");
    let head = ["-R", trommel, "record", "--no-follow", "--quiet"];
    let out = Command::new("setarch")
        .args([&head, options, &["-o", "p.data", "--"], program].concat())
        .current_dir(&dir.0)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PERL_HASH_SEED", "0")
        // What is in the environment moves the stack.
        .env("TROMMEL_STRESS", stress)
        .env("PADDING", "-".repeat(40 - stress.len()))
        .stdin(Stdio::null())
        .output()
        .expect("setarch, of util-linux");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{options:?} {program:?}: {said}");
    let profiles = trommel_store::read(&dir.0.join("p.data")).expect("profile");
    let [profile] = &profiles[..] else {
        panic!("{} processes", profiles.len());
    };
    profile.clone()
}

type KindCounts = BTreeMap<trommel_tuple::Place, Vec<(u64, u64)>>;

/// Returns the number of messages and the counts of each kind that has messages.
fn told(kinds: &BTreeMap<Kind, KindProfile>) -> BTreeMap<Kind, (u64, &KindCounts)> {
    let some = kinds.iter().filter(|(_, k)| k.messages != 0);
    some.map(|(kind, k)| (*kind, (k.messages, &k.counts)))
        .collect()
}

/// Start, events and candidates of an interval.
type Ended<'a> = (u64, u64, &'a [Message]);

/// The intervals of a program of one thread.
fn each_of_profile(intervals: &Intervals) -> Vec<Ended<'_>> {
    let each = intervals
        .each()
        .map(|(_, i)| (i.start, i.events, &*i.candidates));
    each.collect()
}

fn each_of_stream(intervals: &[Interval]) -> Vec<Ended<'_>> {
    let each = intervals
        .iter()
        .map(|i| (i.start, i.events, &*i.candidates));
    each.collect()
}

/// Requires that what is counted in a run is what the stream of another has, with each compressor.
fn agrees(name: &str, program: &[&str], specs: &[(&str, &str)]) {
    for spec in specs {
        let done = agrees_now(name, program, *spec);
        done.unwrap_or_else(|differs| panic!("{differs}"));
    }
}

/// The same of Lua, in one of a few tries: the seed of its hash has the second in it, which no option fixes, and two
/// runs are compared. They agree when they begin in the same second. Counters that are wrong are wrong in each.
fn agrees_in_a_second(name: &str, program: &[&str], specs: &[(&str, &str)]) {
    const TRIES: usize = 6;
    for spec in specs {
        let mut differs = String::new();
        let done = (0..TRIES).any(|_| match agrees_now(name, program, *spec) {
            Ok(()) => true,
            Err(words) => {
                differs = words;
                false
            }
        });
        assert!(done, "{differs}");
    }
}

fn agrees_now(name: &str, program: &[&str], case: (&str, &str)) -> Result<(), String> {
    agrees_under(name, "", program, case)
}

fn agrees_under(
    name: &str,
    stress: &str,
    program: &[&str],
    (spec, mix): (&str, &str),
) -> Result<(), String> {
    let dir = Dir::new(name);
    let options = ["-e", mix, "-c", "exact", "--stream", "s.tstream"];
    record(&dir, &options, program);
    let what = format!("{name} {stress} -e {mix} -c {spec}");
    let parsed = [spec.parse().expect("spec")];
    let mut reader = stream::open(dir.0.join("s.tstream")).expect("stream");
    let options = Options {
        per_interval: true,
        ..Options::default()
    };
    let of_stream = evaluate(&parsed, options, &mut reader).expect("whole");
    let counted = record_under(&dir, stress, &["-e", mix, "-c", spec], program);
    assert_eq!(counted.counted, Counted::Code, "{what}");
    let (here, there) = (told(&counted.kinds), told(&of_stream[0].kinds));
    assert!(!here.is_empty(), "{what}");
    if here != there {
        return Err(format!("{what}: {here:?}\n{there:?}"));
    }
    let here = counted.intervals.as_ref().map(each_of_profile);
    let there = of_stream[0].interval.as_ref();
    let there = there.map(|found| each_of_stream(&found.each));
    if here != there {
        return Err(format!("{what}: intervals {here:?}\n{there:?}"));
    }
    // Counted and held are all events.
    let all = |kinds: &BTreeMap<Kind, KindProfile>| -> u64 { kinds.values().map(|k| k.seen).sum() };
    let (here, there) = (all(&counted.kinds), all(&of_stream[0].kinds));
    match here == there {
        true => Ok(()),
        false => Err(format!("{what}: {here} events and {there}")),
    }
}

#[test]
fn of_gzip() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs");
    let input = input.to_str().expect("UTF-8");
    agrees(
        "sampled-gzip",
        &["gzip", "-c", input],
        &[
            ("H[P256]2048+A16", "edge,call"),
            ("H[P3]64+A4", "edge,call"),
            ("H:crc[P10:phase]512", "edge,call"),
            ("P7", "edge"),
            ("P32", "edge,call"),
            ("P256", "edge"),
            ("P1000:phase+A4", "edge,call"),
            ("H:mul[P1000]8+A2", "edge"),
            ("H[P16]1024+A16", "call"),
            ("M4[10k,1%]2048:C1R0P1", "edge,call"),
            ("M2[1000,2%]64:C0R1P1", "edge,call"),
            ("M4:crc[300,5%]32:C1R1P1E2A3", "edge"),
            ("M1:mul[100..10k,3%]128:P1", "edge,call"),
        ],
    );
}

#[test]
fn of_interpreters() {
    let lua = "local t={} for i=1,1500 do t[i%97]=(t[i%97] or 0)+i end print(t[5])";
    let perl = "my %h; for (1..3000) { $h{$_ % 97} .= chr(65 + $_ % 26) } print length $h{5}";
    for (name, option, script) in [("lua5.4", "-e", lua), ("perl", "-e", perl)] {
        let check = match name {
            "perl" => agrees,
            _ => agrees_in_a_second,
        };
        check(
            &format!("sampled-{name}"),
            &[name, option, script],
            &[
                ("H[P256]2048+A16", "edge,call"),
                ("H[P5]256+A4", "edge,call"),
                ("P50+A8", "call"),
                ("P37", "edge,call"),
                ("P256+A16", "edge,call"),
                ("M4[10k,1%]2048:C1R0P1", "edge,call"),
                ("M3[500,1%]384:C1R1P0", "edge,call"),
            ],
        );
    }
}

/// Every form of load, in a program that does the same each time.
#[test]
fn of_all_loads() {
    let dir = Dir::new("sampled-loads");
    let program = built(&dir, "loads");
    let program = [&program[..]];
    const ALL: &str = "edge,call,value,type";
    for (stress, spec, mix) in [
        ("", "H:crc[P256]2048+A16", ALL),
        ("", "H:crc[P3]64+A4", "value"),
        ("", "H:mul[P10]128", ALL),
        ("", "H:mul[P5:phase]2048", "value,type"),
        ("", "H:crc[P7:phase]65536+A2", "call,value"),
        ("", "H:crc[P2]256", "type"),
        ("", "H:mul[P1]2", "value"),
        ("", "P11", "value"),
        ("", "P3+A16", ALL),
        ("insns=1", "H:crc[P5]512", ALL),
        ("insns=2,pages=8", "H:crc[P9]2048", ALL),
        ("insns=3,evict=50", "H:mul[P9]1024", "value"),
        ("far", "H:crc[P4]1024", "value,type"),
        ("guard", "H:crc[P6]32", ALL),
        ("guard,insns=4", "P2", "value"),
        ("trace", "H:crc[P3]64+A4", ALL),
        ("trace", "H:crc[P5]2048", "value"),
        ("trace", "H:mul[P4]256", "edge,value,type"),
        ("trace", "P3", "value"),
        ("", "P32", ALL),
        ("", "P61:phase+A16", "value"),
        ("", "P256", "call,value"),
        ("insns=1", "P33", ALL),
        ("insns=2,pages=8", "P40", "value,type"),
        ("insns=3,evict=50", "P57", ALL),
        ("far", "P47", ALL),
        ("guard", "P39", ALL),
        ("guard,insns=4", "P100", "edge,value"),
        ("delay=20", "P64", ALL),
        ("trace", "P32", ALL),
        ("trace", "P53:phase", "value"),
        ("trace", "P64", "edge,type"),
        ("trace", "P100+A4", "edge,call"),
        ("trace", "P1000", ALL),
        ("trace,flush=5", "P33", ALL),
        ("trace,insns=3,evict=50", "P41", "edge,value"),
        ("trace,insns=1", "P45", ALL),
        ("trace,far", "P35", ALL),
        ("trace,delay=20", "P48", "value,type"),
        ("trace,flush=5", "H:crc[P6]512", ALL),
        ("trace,insns=3,evict=50", "H:mul[P9]1024", "value"),
        ("trace,far", "H:crc[P4]1024", "value,type"),
        ("", "M4:crc[1000,0.5%]2048:C1R0P1", ALL),
        ("", "M2:mul[2000,0.4%]512:C0R1P1", ALL),
        ("", "M1:mul[500,1%]128:C1R1P1A5", "value"),
        ("", "M3:crc[700,0.6%]768:C1R0P0E3", "type,value"),
        ("", "M4:mul[300..5000,1%]512:P1", "call,value"),
        ("", "M4[100,5%]64:C1R0P1", "edge,call"),
        ("insns=1", "M4:crc[1000,0.5%]2048:C1R0P1", ALL),
        ("insns=2,pages=8", "M4:mul[3000,0.3%]4096:E2", ALL),
        ("insns=3,evict=50", "M2:crc[100,4%]128:C0", "value"),
        ("far", "M4:crc[100,4%]64", "value,type"),
        ("guard", "M1:crc[40,9%]32", ALL),
        ("guard,insns=4", "M4[40,9%]32", "edge,call"),
        ("trace", "M4:crc[1000,0.5%]2048:C1R0P1", ALL),
        ("trace", "M2:mul[2000,0.4%]512:C0R1P1", "edge,value,type"),
        ("trace", "M4[100,5%]64:C1R0P1", "edge,call"),
        ("trace,flush=5", "M4:mul[300..5000,1%]512:P1", ALL),
        ("trace,insns=3,evict=50", "M4:mul[3000,0.3%]4096", "value"),
        ("trace,far", "M3:crc[700,0.6%]768:C1R0P0E3", "value,type"),
    ] {
        let done = agrees_under("sampled-all-loads", stress, &program, (spec, mix));
        done.unwrap_or_else(|differs| panic!("{differs}"));
    }
}

/// Loads that fault in the midst of what is counted at once, or by itself.
#[test]
fn of_faults() {
    let dir = Dir::new("sampled-faults");
    let program = built(&dir, "faults");
    let program = [&program[..]];
    const ALL: &str = "edge,call,value,type";
    for stress in ["", "trace", "insns=2", "trace,flush=5", "trace,insns=5"] {
        for (spec, mix) in [
            ("P32", "value"),
            ("P40", ALL),
            ("P256+A4", ALL),
            ("P1000", "edge,call"),
            ("P3", ALL),
            ("H:crc[P16]64", ALL),
        ] {
            let done = agrees_under("sampled-all-faults", stress, &program, (spec, mix));
            done.unwrap_or_else(|differs| panic!("{differs}"));
        }
    }
}

/// Tests the flags where events are counted: dead ones are destroyed, and the carry may live when all others are dead.
#[test]
fn the_carry_lives_on_where_events_are_counted() {
    let dir = Dir::new("sampled-carry");
    let program = built(&dir, "carry");
    let native = Command::new(&program).status().expect("it runs").code();
    for stress in ["", "trace", "insns=1", "trace,flush=3", "guard"] {
        for spec in [
            "exact",
            "H[P3]64",
            "P32",
            "M4[1000,3%]64",
            "M2:crc[100,5%]32:C0",
        ] {
            let status = Command::new(env!("CARGO_BIN_EXE_trommel"))
                .args(["record", "--quiet", "-e", "edge", "-c", spec])
                .args(["-o", "p.data", "--", &program])
                .current_dir(&dir.0)
                .env("TROMMEL_STRESS", stress)
                .status();
            assert_eq!(status.expect("it runs").code(), native, "{spec} {stress}");
        }
    }
}

/// Loads of one place whose values want the same value counter: sums with and without `D` agree in the bits that tell it. Some come and some go,
/// so that a value counter is one value's, then contested, then another's.
const CONTESTED: &str = "
#define D 0x1caeaul
static volatile unsigned long values[8] = {5, 5 ^ D, 5 ^ 0x2da1a, 77, 9, 9 ^ D, 5, 77};
__attribute__((noinline)) static unsigned long look(long n) { return values[n]; }
void _start(void) {
  unsigned long sum = 0;
  for (long round = 0; round < 400; round++) {
    long most = round / 25 % 8 + 1;
    for (long n = 0; n < 50; n++) sum += look((n * n + round) % most);
  }
  __asm__ volatile (\"syscall\" : : \"a\" (231), \"D\" (sum == 1));
}
";

#[test]
fn of_values_that_want_the_same_value_counter() {
    let dir = Dir::new("sampled-contested-app");
    let flags = ["-O1", "-nostdlib", "-static", "-no-pie"];
    let app = compiled(&dir, CONTESTED, &flags);
    agrees(
        "sampled-contested",
        &[&app],
        &[
            ("M4:crc[500,2%]1024:C1R0P1", "value"),
            ("M4:crc[100,2%]256:C1R0P1A3", "value"),
            ("M2:mul[300,1%]512:R1E2", "edge,value"),
        ],
    );
}

/// Builds a program of `tests/common` that has no library.
fn built(dir: &Dir, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/common/{name}.S"));
    let program = dir.0.join(name);
    let built = Command::new("cc")
        .args(["-nostdlib", "-static", "-no-pie", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("a C compiler").success());
    program.to_str().expect("UTF-8").to_owned()
}

/// Exact counts of every form of load, and of more values than there are value counters.
#[test]
fn exact_values_are_those_that_are_recorded() {
    const ALL: &str = "edge,call,value,type";
    let dir = Dir::new("tallied");
    for (name, stress, mix) in [
        ("loads", "", ALL),
        ("loads", "", "value"),
        ("loads", "", "type"),
        ("loads", "", "call,value"),
        ("loads", "insns=1", ALL),
        ("loads", "insns=2,pages=8", ALL),
        ("loads", "insns=3,evict=50", "edge,value"),
        ("loads", "turn=5", ALL),
        ("loads", "far", "value,type"),
        ("loads", "guard", ALL),
        ("loads", "guard,insns=4", "value"),
        ("loads", "delay=20", ALL),
        ("loads", "trace", ALL),
        ("loads", "trace", "value"),
        ("loads", "trace,insns=3", "edge,value"),
        ("loads", "trace,flush=5", ALL),
        ("loads", "trace,far", "value,type"),
        ("loads", "counters", ALL),
        ("many", "counters,insns=1", "edge,value"),
        ("many", "trace,counters", "edge,value"),
        ("many", "trace", "edge,value"),
        ("many", "", "edge,value"),
        ("many", "insns=3", "value"),
        ("many", "evict=20", "value"),
    ] {
        let program = built(&dir, name);
        let run = |stress: &str| {
            record_under(&dir, stress, &["-c", "exact", "-e", mix], &[&program]).kinds
        };
        let recorded = run(&match stress {
            "" => "events".to_owned(),
            stress => format!("events,{stress}"),
        });
        let counted_values = run(stress);
        for (kind, expected) in &recorded {
            let got = &counted_values[kind];
            let what = format!("{name} {stress} {mix}: {kind:?}");
            assert!(expected.seen > 0, "{what}");
            assert_eq!(got.seen, expected.seen, "{what}");
            assert!(got.counts == expected.counts, "{what}");
        }
        assert_eq!(recorded.len(), counted_values.len());
    }
}

/// Tests that hot code becomes traces, whatever is counted, and where values are known as well.
#[test]
fn traces_are_made_where_events_are_counted() {
    let dir = Dir::new("counted-traces");
    let script = "my %h; for (1..500000) { $h{$_ % 97} += $_ % 26 } print $h{5}";
    for options in [
        &["-e", "none"][..],
        &["-e", "edge,call"],
        &["-e", "edge,call,value,type", "--exact-values"],
        &["-e", "edge,call", "-c", "H[P256]2048+A16"],
        &["-e", "value", "-c", "H:crc[P256]2048+A16"],
        &["-e", "value", "--converge"],
        &["-e", "value", "-c", "H:crc[P256]2048+A16", "--converge"],
        &["-e", "value", "--exact-values", "--only", "perl"],
    ] {
        let asked = [options, &["--stats", "stats.json"]].concat();
        record(&dir, &asked, &["perl", "-e", script]);
        let stats = std::fs::read(dir.0.join("stats.json")).expect("written");
        let stats: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
        let traces = stats["processes"][0]["traces"].as_u64();
        assert!(
            traces.is_some_and(|traces| traces > 5),
            "{options:?}: {traces:?}"
        );
    }
}

/// The module of the program file.
fn main_module(profile: &Profile) -> trommel_tuple::ModuleId {
    let typed = Path::new(std::ffi::OsStr::from_bytes(&profile.command[0]));
    let name = typed.file_name().expect("a name").as_bytes();
    let is = |m: &&trommel_profile::Module| m.path.rsplit(|b| *b == b'/').next() == Some(name);
    profile.modules.iter().find(is).expect("the program").id
}

/// The range of addresses of the program in which the middle half of the places are that have events, as an argument.
fn middle(profile: &Profile) -> String {
    let main = main_module(profile);
    let mut all: Vec<u64> = (profile.kinds.values())
        .flat_map(|k| k.counts.keys())
        .filter(|place| place.module() == main)
        .map(|place| place.vaddr().0)
        .collect();
    all.sort_unstable();
    all.dedup();
    let [low, high] = [1, 3].map(|n| all[all.len() * n / 4]);
    format!("{low:x}-{high:x}")
}

/// Code that is not selected has no events, whoever counts: what is counted is what selected code has of the counts of all.
#[test]
fn exact_counts_of_what_is_selected_are_those_of_all() {
    const ALL: &str = "edge,call,value,type";
    let dir = Dir::new("selected-exact");
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs");
    let gzip = ["gzip", "-c", input.to_str().expect("UTF-8")];
    let loads = [&built(&dir, "loads")[..]];
    let programs: [(&[&str], &[&str]); 2] = [
        (
            &loads,
            &[
                "",
                "insns=1",
                "insns=2,pages=8",
                "trace",
                "trace,flush=5",
                "trace,far",
                "turn=5",
                "guard",
                "counters",
                "events",
            ],
        ),
        (&gzip, &["", "trace", "trace,evict=97", "events"]),
    ];
    for (program, stresses) in programs {
        // Values of a program with libraries differ from run to run.
        let mix = if program.len() == 1 { ALL } else { "edge,call" };
        let all = record(&dir, &["-e", mix, "-c", "exact"], program);
        let (main, middle) = (main_module(&all), middle(&all));
        for stress in stresses {
            let options = ["-e", mix, "-c", "exact", "--only", &middle];
            let selected = record_under(&dir, stress, &options, program);
            let bounds = middle.split_once('-').expect("two");
            let number = |hex| u64::from_str_radix(hex, 16).expect("a number");
            let range = number(bounds.0)..number(bounds.1);
            let mut places = 0;
            for (kind, expected) in &all.kinds {
                let what = format!("{program:?} {stress} --only {middle}: {kind:?}");
                let is = |place: &&trommel_tuple::Place| {
                    place.module() == main && range.contains(&place.vaddr().0)
                };
                let expected: BTreeMap<_, _> =
                    expected.counts.iter().filter(|(p, _)| is(p)).collect();
                let got: BTreeMap<_, _> = selected.kinds[kind].counts.iter().collect();
                places += expected.len();
                assert!(got == expected, "{what}");
            }
            assert!(places > 20, "{places}");
        }
    }
}

/// A function is selected by its name.
#[test]
fn counts_of_a_function_are_what_it_has_of_those_of_all() {
    let dir = Dir::new("selected-function");
    let app = threads(&dir);
    let symbols = Command::new("nm").args(["-S", &app]).output().expect("nm");
    let symbols = String::from_utf8(symbols.stdout).expect("UTF-8");
    let line = symbols
        .lines()
        .find(|line| line.ends_with(" work"))
        .expect("it has one");
    let numbers = line
        .split(' ')
        .filter_map(|word| u64::from_str_radix(word, 16).ok());
    let [start, size] = numbers.take(2).collect::<Vec<_>>()[..] else {
        panic!("{line}");
    };
    let all = record(&dir, &["-e", "edge,call,value", "--exact-values"], &[&app]);
    let main = main_module(&all);
    // Values are addresses of stacks, too.
    let by_place = |profile: &Profile| -> BTreeMap<(Kind, u64), u64> {
        let all = profile
            .kinds
            .iter()
            .flat_map(|(kind, k)| k.counts.iter().map(move |(p, v)| (kind, p, v)));
        let own = all
            .filter(|(_, p, _)| p.module() == main && (start..start + size).contains(&p.vaddr().0));
        own.map(|(kind, p, v)| ((*kind, p.vaddr().0), v.iter().map(|(_, n)| n).sum()))
            .collect()
    };
    let expected = by_place(&all);
    assert!(expected.len() > 4, "{expected:?}");
    for stress in ["", "trace", "insns=1", "events"] {
        let options = ["-e", "edge,call,value", "--exact-values", "--only", "work"];
        let selected = record_under(&dir, stress, &options, &[&app]);
        assert_eq!(by_place(&selected), expected, "{stress}");
        let seen: u64 = selected.kinds.values().map(|k| k.seen).sum();
        assert_eq!(
            seen,
            expected.values().sum::<u64>(),
            "nothing else is counted"
        );
    }
}

/// Tests that a sampler's messages of selected code are those that it makes of the stream of this code.
#[test]
fn messages_of_what_is_selected_are_those_of_its_stream() {
    let dir = Dir::new("selected-sampled");
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs");
    let gzip = ["gzip", "-c", input.to_str().expect("UTF-8")];
    let loads = [&built(&dir, "loads")[..]];
    let middle = middle(&record(
        &dir,
        &["-e", "edge,call,value,type", "--exact-values"],
        &loads,
    ));
    for (program, stress, spec, mix, only) in [
        (
            &loads[..],
            "",
            "H:crc[P3]64+A4",
            "edge,call,value,type",
            &middle[..],
        ),
        (
            &loads,
            "insns=2,pages=8",
            "H:crc[P9]2048",
            "edge,value",
            &middle,
        ),
        (&loads, "trace", "H:crc[P5]2048", "value", &middle),
        (&loads, "trace,flush=5", "P3+A16", "edge,call", &middle),
        (&loads, "trace", "P34", "edge,call,value,type", &middle),
        (&gzip, "", "P100+A16", "edge,call", "gzip"),
        (&gzip, "trace", "P77", "edge,call", "gzip"),
        (&loads, "trace", "M4:crc[500,1%]1024", "edge,value", &middle),
        (&gzip, "", "M4[1000,1%]2048", "edge,call", "gzip"),
        (&gzip, "trace", "M4[500,2%]256:R1", "edge,call", "gzip"),
        (&gzip, "", "H[P64]2048+A16", "edge,call", "gzip"),
        (&gzip, "trace", "H[P16]2048+A16", "edge,call", "gzip"),
    ] {
        let options = [
            "-e",
            mix,
            "-c",
            "exact",
            "--stream",
            "s.tstream",
            "--only",
            only,
        ];
        let what = format!("{program:?} {stress} -e {mix} -c {spec} --only {only}");
        record(&dir, &options, program);
        let mut reader = stream::open(dir.0.join("s.tstream")).expect("stream");
        let parsed = [spec.parse().expect("spec")];
        let of_stream = evaluate(&parsed, Options::default(), &mut reader).expect("whole");
        let asked = ["-e", mix, "-c", spec, "--only", only];
        let counted = record_under(&dir, stress, &asked, program);
        assert_eq!(counted.counted, Counted::Code, "{what}");
        let (here, there) = (told(&counted.kinds), told(&of_stream[0].kinds));
        assert!(!here.is_empty(), "{what}");
        assert_eq!(here, there, "{what}");
    }
}

/// Returns, of each substream of a stream, the number of events and a number that depends on their order.
fn substreams(dir: &Dir, spec: &Spec) -> Vec<(u64, u64)> {
    let strata = Strata::of(spec).expect("a stratified sampler");
    let mut hash = strata.hash(Seeds::default());
    let mut all = vec![(0, 0_u64); strata.substreams as usize];
    let mut reader = stream::open(dir.0.join("s.tstream")).expect("stream");
    let mut block = Block::default();
    while reader.next_block(&mut block).expect("whole") {
        block.events().for_each(|kind, tuple| {
            let (count, order) = &mut all[hash.index(tuple) as usize];
            *count += 1;
            for word in [kind as u64, tuple.pc.word(), tuple.value] {
                *order = (*order ^ word)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29);
            }
        });
    }
    all
}

/// Programs that load what differs from run to run (the time, what the kernel gives for random): when they are counted in
/// code, messages differ from those of a stream in no more substreams than the streams of two runs do.
#[test]
fn of_values_of_programs() {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs");
    let input = input.to_str().expect("UTF-8");
    let perl = "my %h; for (1..3000) { $h{$_ % 97} .= chr(65 + $_ % 26) } print length $h{5}";
    // Lua hashes with a seed of the time.
    let sql = "with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)
        select sum(x), max(x % 97) from c;";
    for (program, spec, mix) in [
        (&["gzip", "-c", input][..], "H:crc[P10]2048", "value"),
        (&["sort", input], "H:crc[P10]2048", "edge,call,value,type"),
        (
            &["perl", "-e", perl],
            "H:crc[P7]4096",
            "edge,call,value,type",
        ),
        (
            &["sqlite3", ":memory:", sql],
            "H:mul[P20]4096",
            "value,type",
        ),
    ] {
        let dir = Dir::new(&format!("sampled-values-{}", program[0]));
        let what = format!("{} -e {mix} -c {spec}", program[0]);
        let parsed: Spec = spec.parse().expect("spec");
        let options = ["-e", mix, "-c", "exact", "--stream", "s.tstream"];
        record(&dir, &options, program);
        let first = substreams(&dir, &parsed);
        let mut reader = stream::open(dir.0.join("s.tstream")).expect("stream");
        let of_stream = evaluate(
            std::slice::from_ref(&parsed),
            Options::default(),
            &mut reader,
        );
        let of_stream = of_stream.expect("whole");
        let counted = record(&dir, &["-e", mix, "-c", spec], program);
        assert_eq!(counted.counted, Counted::Code, "{what}");
        record(&dir, &options, program);
        let second = substreams(&dir, &parsed);
        let strata = Strata::of(&parsed).expect("a stratified sampler");
        let mut hash = strata.hash(Seeds::default());
        // By substream, what was told.
        let mut told = |kinds: &BTreeMap<Kind, KindProfile>| {
            let mut told = vec![Vec::new(); first.len()];
            for (kind, k) in kinds {
                for (pc, values) in &k.counts {
                    for (value, count) in values {
                        let tuple = Tuple::new(*pc, *value);
                        told[hash.index(tuple) as usize].push((*kind, tuple, *count));
                    }
                }
            }
            told
        };
        let (here, there) = (told(&counted.kinds), told(&of_stream[0].kinds));
        let differ = first.iter().zip(&second).filter(|(a, b)| a != b).count();
        let wrong = here.iter().zip(&there).filter(|(a, b)| a != b).count();
        let tuples: usize = here.iter().map(Vec::len).sum();
        let what = format!("{what}: {tuples} tuples, {differ} and {wrong} substreams");
        assert!(tuples > 1000 && differ < first.len() / 2, "{what}");
        assert!(wrong <= differ + differ / 4 + 8, "{what}");
    }
}

/// Threads that do the same, one after the other.
const THREADS: &str = "
#include <pthread.h>
#include <stdio.h>
static volatile long sum;
__attribute__((noinline)) static long add(long a, long b) { return a + b; }
static void *work(void *arg) {
  for (long i = 0; i < 30000; i++) sum = i % 3 ? add(sum, i) : sum + (long)arg;
  return 0;
}
int main(void) {
  for (long n = 0; n < 3; n++) {
    pthread_t t;
    pthread_create(&t, 0, work, (void *)n);
    pthread_join(t, 0);
  }
  printf(\"%ld\\n\", sum);
}
";

/// Builds them.
fn threads(dir: &Dir) -> String {
    compiled(dir, THREADS, &["-O1", "-pthread"])
}

/// Builds the program `app` of a C source.
fn compiled(dir: &Dir, source: &str, flags: &[&str]) -> String {
    std::fs::write(dir.0.join("app.c"), source).expect("source");
    let built = Command::new("cc")
        .args(flags)
        .args(["-o", "app", "app.c"])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("a C compiler").success());
    dir.0.join("app").to_str().expect("UTF-8").to_owned()
}

/// Each thread has counters of its own: the same work gives the same messages in each, and what is
/// counted and held is what the threads did.
#[test]
fn of_threads() {
    let dir = Dir::new("sampled-threads");
    threads(&dir);
    for events in ["edge,call", "edge,call,value,type"] {
        threads_agree(&dir, ["-e", events, "-c"]);
    }
}

fn threads_agree(dir: &Dir, events: [&str; 3]) {
    let exact = record(dir, &[&events[..], &["exact"]].concat(), &["./app"]);
    let each = |profile: &Profile| -> Vec<u64> {
        let threads = profile.threads.each.iter();
        threads.map(|t| t.seen.values().sum()).collect()
    };
    assert_eq!(each(&exact).len(), 4);
    for spec in [
        "H:crc[P256]2048+A16",
        "H:mul[P7]64",
        "P1",
        "P256",
        "M4:crc[1000,1%]1024",
    ] {
        let counted = record(dir, &[&events[..], &[spec]].concat(), &["./app"]);
        assert_eq!(counted.counted, Counted::Code);
        // The first one waits for the others, and what that takes depends on when they end.
        assert_eq!(each(&counted)[1..], each(&exact)[1..], "{spec}");
        let main = |place: &trommel_tuple::Place| {
            let module = &counted.modules[usize::from(place.module().0)];
            module.path.ends_with(b"/app")
        };
        let of_app = |profile: &Profile| -> Vec<_> {
            let counts = |(kind, k): (&Kind, &KindProfile)| {
                let rows = k.counts.clone().into_iter();
                (*kind, rows.filter(|(p, _)| main(p)).collect::<Vec<_>>())
            };
            profile.kinds.iter().map(counts).collect()
        };
        if spec == "P1" {
            assert_eq!(of_app(&counted), of_app(&exact), "all is told");
        }
        let edges = counted.kinds[&Kind::Edge].counts.iter();
        let rows = edges.filter(|(place, _)| main(place)).flat_map(|(_, v)| v);
        let hot: Vec<u64> = rows.map(|(_, n)| *n).filter(|n| *n > 10_000).collect();
        assert!(!hot.is_empty(), "{spec}");
        if events[1].contains("value") && spec != "P1" {
            // The threads load different values, and edges share counters with those.
            continue;
        }
        // Three threads with the same messages each, of as many events each.
        let rate: u64 = if spec == "P1" || spec.starts_with('M') {
            1
        } else if spec == "H:mul[P7]64" {
            7
        } else {
            256
        };
        assert!(hot.iter().all(|n| n % (3 * rate) == 0), "{spec}: {hot:?}");
    }
}
