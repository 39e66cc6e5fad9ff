//! Events counted in generated code: `record -c SPEC` comes to the messages that `compress -c SPEC` makes of the
//! stream of another run which does the same, message for message and tuple for tuple.

#[path = "common/dir.rs"]
mod dir;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use trommel_profile::accuracy::{Options, evaluate};
use trommel_profile::{Counted, KindProfile, Profile};
use trommel_tuple::{Kind, stream};

use dir::Dir;

/// Runs `trommel record` so that the program does the same each time: at fixed addresses, in a small environment.
fn record(dir: &Dir, options: &[&str], program: &[&str]) -> Profile {
    let trommel = env!("CARGO_BIN_EXE_trommel");
    let head = ["-R", trommel, "record", "--no-follow", "--quiet"];
    let out = Command::new("setarch")
        .args([&head, options, &["-o", "p.data", "--"], program].concat())
        .current_dir(&dir.0)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PERL_HASH_SEED", "0")
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

/// What the messages say.
fn told(kinds: &BTreeMap<Kind, KindProfile>) -> BTreeMap<Kind, (u64, &KindCounts)> {
    let some = kinds.iter().filter(|(_, k)| k.messages != 0);
    some.map(|(kind, k)| (*kind, (k.messages, &k.counts)))
        .collect()
}

/// As [`agrees_now`], in one of a few tries: what some programs execute depends on the second and on where they
/// are loaded, and two runs are compared. Counters that are wrong are wrong in each.
fn agrees(name: &str, program: &[&str], specs: &[(&str, &str)]) {
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

fn agrees_now(name: &str, program: &[&str], (spec, mix): (&str, &str)) -> Result<(), String> {
    let dir = Dir::new(name);
    let options = ["-e", mix, "-c", "exact", "--stream", "s.tstream"];
    record(&dir, &options, program);
    let what = format!("{name} -e {mix} -c {spec}");
    let parsed = [spec.parse().expect("spec")];
    let mut reader = stream::open(dir.0.join("s.tstream")).expect("stream");
    let of_stream = evaluate(&parsed, Options::default(), &mut reader).expect("whole");
    let counted = record(&dir, &["-e", mix, "-c", spec], program);
    assert_eq!(counted.counted, Counted::Code, "{what}");
    let (here, there) = (told(&counted.kinds), told(&of_stream[0].kinds));
    assert!(!here.is_empty(), "{what}");
    if here != there {
        return Err(format!("{what}: {here:?}\n{there:?}"));
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
            ("H:mul[P1000]8+A2", "edge"),
            ("H[P16]1024+A16", "call"),
        ],
    );
}

#[test]
fn of_interpreters() {
    let lua = "local t={} for i=1,1500 do t[i%97]=(t[i%97] or 0)+i end print(t[5])";
    let perl = "my %h; for (1..3000) { $h{$_ % 97} .= chr(65 + $_ % 26) } print length $h{5}";
    for (name, option, script) in [("lua5.4", "-e", lua), ("perl", "-e", perl)] {
        if Command::new(name).arg("-v").output().is_err() {
            eprintln!("skipped: {name} is not installed");
            continue;
        }
        agrees(
            &format!("sampled-{name}"),
            &[name, option, script],
            &[
                ("H[P256]2048+A16", "edge,call"),
                ("H[P5]256+A4", "edge,call"),
                ("P50+A8", "call"),
            ],
        );
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

/// Each thread has counters of its own: the same work gives the same messages in each, and what is
/// counted and held is what the threads did.
#[test]
fn of_threads() {
    let dir = Dir::new("sampled-threads");
    std::fs::write(dir.0.join("app.c"), THREADS).expect("source");
    let built = Command::new("cc")
        .args(["-O1", "-pthread", "-o", "app", "app.c"])
        .current_dir(&dir.0)
        .status();
    assert!(built.expect("a C compiler").success());
    let events = ["-e", "edge,call", "-c"];
    let exact = record(&dir, &[&events[..], &["exact"]].concat(), &["./app"]);
    let each = |profile: &Profile| -> Vec<u64> {
        let threads = profile.threads.each.iter();
        threads.map(|t| t.seen.values().sum()).collect()
    };
    assert_eq!(each(&exact).len(), 4);
    for spec in ["H[P256]2048+A16", "H[P7]64", "P1"] {
        let counted = record(&dir, &[&events[..], &[spec]].concat(), &["./app"]);
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
        // Three threads with the same messages each, of as many events each.
        let rate: u64 = if spec == "P1" {
            1
        } else if spec == "H[P7]64" {
            7
        } else {
            256
        };
        assert!(hot.iter().all(|n| n % (3 * rate) == 0), "{spec}: {hot:?}");
    }
}
