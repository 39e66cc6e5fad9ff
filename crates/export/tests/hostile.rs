//! Files and profiles from anywhere: each format ends with an output or an error, and never panics.
//!
//! A small program with debug information is damaged byte by byte, and its profile holds any places and counts. Seeds are fixed, so a
//! failure can be repeated.

use std::process::Command;
use std::sync::LazyLock;

use trommel_code::Program;
use trommel_export::{FORMATS, Input};
use trommel_profile::confidence::Confidence;
use trommel_profile::{KindProfile, Module, Profile};
use trommel_symbol::{Files, Symbols};
use trommel_tuple::{Kind, ModuleId, Place, Vaddr};

const SOURCE: &str = "static inline int twice(int x) { return x > 3 ? x * 2 : x; }\n\
    static __attribute__((noinline)) int f(int x) { for (int i = 0; i < x; i++) x += twice(i); return x; }\n\
    int g(int x) { switch (x) { case 1: return f(x); case 2: return 7; case 5: return f(9); default: return twice(x); } }\n\
    void _start(void) { g(4); for (;;) { } }\n";

/// A program without libraries: a few kilobytes with all that formats ask for. It is built once for all tests.
fn program() -> Vec<u8> {
    static BUILT: LazyLock<Vec<u8>> = LazyLock::new(built);
    BUILT.clone()
}

fn built() -> Vec<u8> {
    let dir = std::env::temp_dir().join(format!("trommel-export-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let (source, out) = (dir.join("a.c"), dir.join("a"));
    std::fs::write(&source, SOURCE).expect("written");
    let built = Command::new("cc")
        .args([
            "-O2",
            "-g",
            "-nostdlib",
            "-static",
            "-fno-stack-protector",
            "-o",
        ])
        .args([&out, &source])
        .status();
    assert!(built.expect("cc").success());
    let bytes = std::fs::read(&out).expect("built");
    std::fs::remove_dir_all(&dir).expect("removed");
    bytes
}

/// Numbers that are the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A profile of any places around the code.
fn profile(random: &mut Random) -> Profile {
    let place = |random: &mut Random| {
        let at = match random.below(8) {
            0 => random.next(),
            _ => 0x40_1000 + random.below(0x120),
        };
        Place::new(ModuleId(random.below(3) as u16), Vaddr(at))
    };
    let mut kinds = std::collections::BTreeMap::new();
    for kind in [Kind::Edge, Kind::Call] {
        let mut data = KindProfile::default();
        for _ in 0..random.below(30) {
            let from = place(random);
            let to = place(random).word();
            let count = if random.below(9) == 0 {
                u64::MAX
            } else {
                random.below(1000)
            };
            data.counts.entry(from).or_default().push((to, count));
        }
        data.counts.values_mut().for_each(|all| all.sort_unstable());
        kinds.insert(kind, data);
    }
    let module = |id, path: &str| Module {
        id: ModuleId(id),
        path: path.into(),
        ..Module::default()
    };
    Profile {
        compressor: "exact".into(),
        command: vec![b"a\n,\"".to_vec()],
        modules: vec![
            module(0, "[anon]"),
            module(1, "/a\n,\"b"),
            module(2, "/absent"),
        ],
        kinds,
        ..Profile::default()
    }
}

/// Writes a profile in all formats. Returns the number of those that were written.
fn all_formats(profile: &Profile, image: Vec<u8>) -> usize {
    let files = Files::new();
    let mut symbols = Symbols::new(&files, &profile.modules);
    symbols.set_image(ModuleId(1), image);
    let mut confidence = Confidence::of_processes(profile, 1);
    let Some(program) = Program::new(profile, &symbols, &mut confidence) else {
        return 0;
    };
    let mut written = 0;
    for format in FORMATS {
        for modules in [
            vec![ModuleId(1)],
            vec![ModuleId(0), ModuleId(1), ModuleId(2)],
            Vec::new(),
        ] {
            let mut input = Input {
                infer: (written % 2 == 0).then(Default::default),
                profile,
                program: &program,
                symbols: &mut symbols,
                processes: &[],
                modules,
            };
            let mut out = Vec::new();
            match format.write(&mut input, &mut out) {
                Ok(()) => written += 1,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    assert_eq!(out, b"", "{}: a refusal wrote something", format.name());
                }
            }
        }
    }
    written
}

#[test]
fn any_profile_of_a_whole_file_is_written_or_refused() {
    let image = program();
    let mut random = Random(1);
    let written: usize = (0..40)
        .map(|_| all_formats(&profile(&mut random), image.clone()))
        .sum();
    assert!(written > 300, "{written}");
}

#[test]
fn damaged_files_are_written_of_or_refused() {
    let image = program();
    let mut random = Random(2);
    for _ in 0..400 {
        let mut damaged = image.clone();
        for _ in 0..1 + random.below(20) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.next() as u8;
        }
        if random.below(4) == 0 {
            damaged.truncate(random.below(image.len() as u64) as usize);
        }
        let _ = all_formats(&profile(&mut random), damaged);
    }
}

#[test]
fn damaged_debug_information_is_written_of_or_refused() {
    let image = program();
    // The latter part of the file is debug information; its headers are whole.
    let start = image.len() as u64 / 4;
    let mut random = Random(3);
    for _ in 0..400 {
        let mut damaged = image.clone();
        for _ in 0..1 + random.below(40) {
            let at = start + random.below(image.len() as u64 * 5 / 8 - start);
            damaged[at as usize] = random.next() as u8;
        }
        let _ = all_formats(&profile(&mut random), damaged);
    }
}
