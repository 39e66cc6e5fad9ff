//! Names and lines that are not in the program itself, or compressed there: the same as the whole program gives.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use trommel_profile::Module;
use trommel_symbol::elf::{self, Format};
use trommel_symbol::{DebugPlaces, Files, Location, Symbols};
use trommel_tuple::{ModuleId, Place, Vaddr};

const PROGRAM: &str = "
#include <cstdio>
static inline __attribute__((always_inline)) int inner(int x) { return x * 7 + (x >> 3); }
static __attribute__((noinline)) int hidden(int x) { return inner(x) + x; }
extern \"C\" __attribute__((noinline)) int outer(int x) { return hidden(x) + 1; }
struct Thing { __attribute__((noipa)) int act(int x) { std::puts(\"act\"); return x; } };
int main(int argc, char **) { Thing thing; return outer(argc) + thing.act(argc); }
";

/// A directory with a program, and a root of debug files that is not the system's.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = format!("trommel-separate-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(path);
        std::fs::create_dir_all(path.join("bin")).expect("temp dir");
        let dir = Self(path.canonicalize().expect("temp dir"));
        std::fs::write(dir.path("program.cpp"), PROGRAM).expect("source");
        dir
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn run(&self, command: &str) {
        let done = Command::new("sh")
            .args(["-ec", command])
            .current_dir(&self.0)
            .status();
        assert!(done.expect("a shell").success(), "{command}");
    }

    /// Names of all bytes of code of a file.
    fn names(&self, program: &str) -> Names {
        let places = DebugPlaces {
            root: self.path("debug"),
            cache: Some(self.path("cache")),
        };
        Names::of(&self.path(program), places)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Names of all bytes of code.
#[derive(PartialEq, Debug)]
struct Names(Vec<Rc<Location>>);

impl Names {
    fn of(path: &Path, places: DebugPlaces) -> Self {
        use std::os::unix::ffi::OsStrExt;
        let Ok(Format::Elf(image)) = elf::inspect(path) else {
            panic!("{}: not ELF", path.display());
        };
        let module = Module {
            id: ModuleId(1),
            path: path.as_os_str().as_bytes().to_vec(),
            build_id: image.build_id.clone(),
            ..Module::default()
        };
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &[module]).with_debug_places(places);
        let code = image.segments.iter().filter(|s| s.executable);
        let vaddrs = code.flat_map(|s| s.vaddr.0..s.vaddr.0 + s.file_size);
        let places = vaddrs.map(|vaddr| Place::new(ModuleId(1), Vaddr(vaddr)));
        Self(places.map(|place| symbols.locate(place)).collect())
    }

    fn has_lines(&self) -> bool {
        let inlined = |l: &Rc<Location>| l.inlined.iter().any(|f| f.function.starts_with("inner"));
        self.0.iter().any(inlined)
    }

    fn functions(&self) -> Vec<(Option<&str>, u64)> {
        let function = |l: &'_ Rc<Location>| l.offset;
        let name = self.0.iter().map(|l| l.function.as_deref());
        name.zip(self.0.iter().map(function)).collect()
    }

    fn has(&self, name: &str) -> bool {
        let is = |l: &Rc<Location>| l.function.as_deref().is_some_and(|f| f.starts_with(name));
        self.0.iter().any(is)
    }
}

/// Builds a program, and another one without its names that keeps them in `whole.debug`.
fn built(name: &str, build_id: &str) -> (Dir, Names) {
    let dir = Dir::new(name);
    dir.run(&format!(
        "g++ -O2 -g -rdynamic -Wl,--build-id={build_id} -o bin/whole program.cpp
         objcopy --only-keep-debug bin/whole whole.debug
         strip -o bin/bare bin/whole
         cp bin/bare bin/app
         objcopy --add-gnu-debuglink=whole.debug bin/app"
    ));
    let whole = dir.names("bin/whole");
    assert!(whole.has_lines() && whole.has("hidden"));
    for stripped in ["bin/bare", "bin/app"] {
        let names = dir.names(stripped);
        assert!(!names.has_lines() && !names.has("hidden"), "{stripped}");
        // Exported functions have names all the same.
        assert!(names.has("outer"), "{stripped}");
    }
    (dir, whole)
}

#[test]
fn a_link_is_followed_to_each_of_its_places() {
    let (dir, whole) = built("link", "none");
    let below = format!("debug{}/bin", dir.0.display());
    for place in ["bin", "bin/.debug", &below] {
        dir.run(&format!("mkdir -p {place}; cp whole.debug {place}"));
        assert_eq!(dir.names("bin/app"), whole, "{place}");
        // What is there but is another file is passed over.
        dir.run(&format!("printf x >> {place}/whole.debug"));
        assert!(!dir.names("bin/app").has("hidden"), "{place}");
        dir.run(&format!(": > {place}/whole.debug"));
        assert!(!dir.names("bin/app").has("hidden"), "{place}");
        // Without a link nothing is looked for.
        dir.run(&format!("cp whole.debug {place}"));
        assert!(!dir.names("bin/bare").has("hidden"), "{place}");
        dir.run(&format!("rm {place}/whole.debug"));
    }
    // Of a program that runs by a link to it, the directory of either is looked at.
    symlink("../bin/app", dir.path("debug/app")).expect("a link");
    dir.run("cp whole.debug bin");
    assert_eq!(dir.names("debug/app"), whole);
}

#[test]
fn a_build_id_finds_what_is_installed_or_cached() {
    let (dir, whole) = built("build-id", "0x0123456789abcdef");
    dir.run("mkdir -p debug/.build-id/01; cp whole.debug debug/.build-id/01/23456789abcdef.debug");
    assert_eq!(dir.names("bin/bare"), whole);
    assert_eq!(dir.names("bin/app"), whole);
    // The name of a file is not trusted.
    dir.run(
        "g++ -O2 -g -Wl,--build-id=0x01 -o other program.cpp
         cp other debug/.build-id/01/23456789abcdef.debug",
    );
    assert!(!dir.names("bin/bare").has("hidden"));
    dir.run("rm -r debug; mkdir -p cache/0123456789abcdef; cp whole.debug cache/0123456789abcdef/debuginfo");
    assert_eq!(dir.names("bin/bare"), whole);
    dir.run("cp other cache/0123456789abcdef/debuginfo");
    assert!(!dir.names("bin/bare").has("hidden"));
}

#[test]
fn symbols_that_are_packed_into_the_program_are_read() {
    let (dir, whole) = built("mini", "sha1");
    // As rpm makes them: all function symbols that are not exported, and nothing else.
    dir.run(
        "nm bin/whole --format=posix --defined-only | awk '$2 ~ /[tT]/ { print $1 }' | sort > keep
         nm -D bin/whole --format=posix --defined-only | awk '{ print $1 }' | sort > exported
         comm -23 keep exported > hidden
         objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=hidden whole.debug mini
         xz -k mini
         objcopy --add-section .gnu_debugdata=mini.xz bin/bare bin/fedora",
    );
    let names = dir.names("bin/fedora");
    assert_eq!(names.functions(), whole.functions());
    assert!(!names.has_lines());
    // A damaged one costs only its names.
    dir.run(
        "head -c 200 mini.xz > mini.cut; objcopy --add-section .gnu_debugdata=mini.cut bin/bare bin/cut",
    );
    assert_eq!(dir.names("bin/cut"), dir.names("bin/bare"));
    // Where there are debug files these tell more.
    dir.run("cp bin/fedora bin/both; objcopy --add-gnu-debuglink=whole.debug bin/both; cp whole.debug bin");
    assert_eq!(dir.names("bin/both"), whole);
}

#[test]
fn compressed_debug_sections_give_the_same_lines() {
    let (dir, whole) = built("packed", "sha1");
    for way in ["zlib", "zlib-gnu", "zstd"] {
        dir.run(&format!(
            "objcopy --compress-debug-sections={way} bin/whole bin/{way}"
        ));
        let sections = Command::new("readelf")
            .args(["-SW", "--"])
            .arg(dir.path(&format!("bin/{way}")))
            .output()
            .expect("readelf");
        let sections = String::from_utf8_lossy(&sections.stdout).into_owned();
        let packed = |line: &&str| {
            line.contains(".zdebug_info")
                || line.contains(".debug_info") && line.split_whitespace().any(|w| w == "C")
        };
        let info: Vec<&str> = sections.lines().filter(packed).collect();
        assert_eq!(info.len(), 1, "{way}: {sections}");
        assert_eq!(dir.names(&format!("bin/{way}")), whole, "{way}");
    }
}
