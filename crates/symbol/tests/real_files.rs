//! Names and lines of programs compiled here, against what binutils say.

use std::path::{Path, PathBuf};
use std::process::Command;

use trommel_profile::Module;
use trommel_symbol::elf::{self, Format};
use trommel_symbol::{Files, Symbols, build_id_of, own_vdso};
use trommel_tuple::{ModuleId, Place, Vaddr};

const PROGRAM: &str = "
#include <stdio.h>
#include <string.h>
static inline __attribute__((always_inline)) int inner(int x) {
    return x * 7 + (x >> 3);
}
__attribute__((noinline)) int outer(int x) {
    return inner(x) + 1;
}
namespace space { struct Thing { __attribute__((noipa)) int act(int x) { puts(\"act\"); return x; } }; }
int main(int argc, char **argv) {
    space::Thing thing;
    return outer(argc) + thing.act((int)strlen(argv[0]));
}
";

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("trommel-symbol-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("temp dir");
        Self(path)
    }

    fn compile(&self, name: &str, flags: &[&str]) -> PathBuf {
        let source = self.0.join("program.cpp");
        std::fs::write(&source, PROGRAM).expect("source");
        let out = self.0.join(name);
        let done = Command::new("g++")
            .args(flags)
            .arg("-o")
            .arg(&out)
            .arg(&source)
            .status();
        assert!(done.expect("a C++ compiler").success());
        out
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn module(path: &Path) -> Module {
    use std::os::unix::ffi::OsStrExt;
    Module {
        id: ModuleId(1),
        path: path.as_os_str().as_bytes().to_vec(),
        ..Module::default()
    }
}

fn at(vaddr: u64) -> Place {
    Place::new(ModuleId(1), Vaddr(vaddr))
}

/// Instructions of a program as `objdump -d` prints them: address and function.
fn disassembly(path: &Path) -> Vec<(u64, String)> {
    let out = Command::new("objdump")
        .args(["-d", "-C"])
        .arg(path)
        .output()
        .expect("objdump");
    let mut function = String::new();
    let mut lines = Vec::new();
    for line in String::from_utf8_lossy(&out.stdout).lines() {
        if let Some((_, name)) = line.strip_suffix(">:").and_then(|l| l.split_once(" <")) {
            function = name.to_owned();
        } else if let Some((address, _)) = line.split_once(":\t") {
            let address = u64::from_str_radix(address.trim(), 16).expect("address");
            lines.push((address, function.clone()));
        }
    }
    lines
}

#[test]
fn functions_are_those_of_objdump() {
    let dir = Dir::new("objdump");
    for flags in [
        &["-O2", "-g"][..],
        &["-O1", "-no-pie"],
        &["-O2", "-fcf-protection=full"],
    ] {
        let path = dir.compile("program", flags);
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &[module(&path)]);
        let mut compared = 0;
        for (address, function) in disassembly(&path) {
            let location = symbols.locate(at(address));
            // objdump goes on with the last symbol in gaps; we say nothing there.
            if let Some(ours) = &location.function {
                assert_eq!(&**ours, function, "at {address:#x}");
                compared += 1;
            }
        }
        assert!(compared > 30, "only {compared} instructions had names");
        for wanted in [
            "main",
            "outer(int)",
            "space::Thing::act(int)",
            "puts@plt",
            "_start",
        ] {
            let found = disassembly(&path).into_iter().find(|(_, f)| f == wanted);
            let (address, _) = found.unwrap_or_else(|| panic!("objdump shows no {wanted}"));
            assert_eq!(
                symbols.locate(at(address)).function.as_deref(),
                Some(wanted)
            );
        }
    }
}

#[test]
fn lines_are_those_of_addr2line_with_inlined_frames() {
    let dir = Dir::new("lines");
    for flags in [
        &["-O2", "-g"][..],
        &["-O2", "-g", "-gz"],
        &["-O2", "-gdwarf-4"],
    ] {
        let path = dir.compile("program", flags);
        let files = Files::new();
        let mut symbols = Symbols::new(&files, &[module(&path)]);
        let mut inlined = 0;
        for (address, _) in disassembly(&path) {
            let ours = symbols.locate(at(address));
            let theirs = Command::new("addr2line")
                .args([
                    "-e",
                    path.to_str().expect("utf-8"),
                    &format!("{address:#x}"),
                ])
                .output()
                .expect("addr2line");
            let theirs = String::from_utf8_lossy(&theirs.stdout).into_owned();
            let theirs = theirs
                .split_whitespace()
                .next()
                .unwrap_or("??:0")
                .to_owned();
            let text = match (&ours.file, ours.line) {
                (Some(file), Some(line)) => format!("{file}:{line}"),
                _ => continue,
            };
            assert_eq!(text, theirs, "at {address:#x}");
            inlined += usize::from(ours.inlined.iter().any(|f| f.function.starts_with("inner")));
        }
        assert!(
            inlined > 0,
            "no instruction of the inlined function was found"
        );
        let limited = &mut Symbols::new(&files, &[module(&path)]).with_debug_limit(10);
        let main = disassembly(&path)
            .into_iter()
            .find(|(_, f)| f == "main")
            .expect("main")
            .0;
        assert!(limited.locate(at(main)).file.is_none());
        assert!(symbols.locate(at(main)).file.is_some());
    }
}

#[test]
fn a_program_built_again_gives_no_wrong_names() {
    let dir = Dir::new("changed");
    let path = dir.compile("program", &["-O2", "-Wl,--build-id=sha1"]);
    let main = disassembly(&path)
        .into_iter()
        .find(|(_, f)| f == "main")
        .expect("main")
        .0;
    let files = Files::new();
    let mut changed = module(&path);
    changed.build_id = vec![1; 20];
    let mut symbols = Symbols::new(&files, &[changed]);
    assert_eq!(symbols.locate(at(main)).function, None);
    assert!(
        symbols
            .problem(ModuleId(1))
            .is_some_and(|p| p.contains("changed"))
    );
    let Format::Elf(image) = elf::inspect(&path).expect("a program") else {
        panic!("not ELF");
    };
    let mut same = module(&path);
    same.build_id = image.build_id;
    let mut symbols = Symbols::new(&files, &[same]);
    assert_eq!(symbols.locate(at(main)).function.as_deref(), Some("main"));
}

#[test]
fn the_vdso_has_names() {
    let image = own_vdso().expect("a vDSO");
    assert!(!build_id_of(&image).is_empty());
    let files = Files::new();
    let mut symbols = Symbols::new(&files, &[module(Path::new("[vdso]"))]);
    let names: std::collections::HashSet<String> = (0..image.len() as u64)
        .filter_map(|a| symbols.locate(at(a)).function.as_deref().map(str::to_owned))
        .collect();
    assert!(
        names.iter().any(|n| n.contains("clock_gettime")),
        "{names:?}"
    );
}

#[test]
fn libc_is_quick() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if !path.exists() {
        return;
    }
    let start = std::time::Instant::now();
    let files = Files::new();
    let mut symbols = Symbols::new(&files, &[module(path)]).with_debug_limit(1 << 20);
    for address in (0x28000..0x100_000).step_by(0x8000) {
        let _ = symbols.locate(at(address));
    }
    // A few milliseconds in release builds; the bound catches parsing of all its DWARF.
    assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    println!("libc: {:?}", start.elapsed());
}

#[test]
fn offsets_map_to_vaddrs_as_readelf_says() {
    let dir = Dir::new("offsets");
    for (flags, pie, fixed) in [
        (&["-O1"][..], true, false),
        (&["-O1", "-no-pie"], false, false),
        (&["-O1", "-static"], false, true),
        (&["-O1", "-static-pie"], true, true),
    ] {
        let path = dir.compile("program", flags);
        let Ok(Format::Elf(image)) = elf::inspect(&path) else {
            panic!("not ELF");
        };
        assert_eq!((image.pie, image.is_static()), (pie, fixed), "{flags:?}");
        let code = image.segments.iter().find(|s| s.executable).expect("code");
        assert_eq!(
            image.vaddr_of_offset(code.offset + 5),
            Some(Vaddr(code.vaddr.0 + 5))
        );
        assert_eq!(image.code_vaddr_of_offset(code.offset), Some(code.vaddr));
        assert_eq!(image.vaddr_of_offset(1 << 40), None);
        let start = disassembly(&path)
            .into_iter()
            .find(|(_, f)| f == "_start")
            .expect("_start")
            .0;
        assert_eq!(image.entry.0, start);
    }
}

/// Whoever shows a program while it runs has symbols for each moment.
#[test]
fn functions_of_a_file_are_looked_for_once() {
    let files = Files::new();
    let modules = [module(Path::new("/proc/self/exe"))];
    let [one, two] = [0; 2].map(|_| Symbols::new(&files, &modules).spans(ModuleId(1)));
    assert!(!one.all().is_empty() && std::rc::Rc::ptr_eq(&one, &two));
}

#[test]
fn builds_without_a_build_id_are_told_apart_by_their_code() {
    let dir = Dir::new("code");
    let none = ["-O2", "-g", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"];
    let path = dir.compile("program", &none);
    let sum = elf::code_checksum(&path);
    let module = Module {
        code: sum,
        ..module(&path)
    };
    let names = |path: &Path| {
        let files = Files::new();
        let module = Module {
            path: self::module(path).path,
            ..module.clone()
        };
        let symbols = Symbols::new(&files, std::slice::from_ref(&module));
        let functions = symbols.functions(ModuleId(1)).len();
        (functions, symbols.problem(ModuleId(1)).map(str::to_owned))
    };
    // A copy, and one without symbols, have the same code.
    let copy = dir.0.join("copy");
    std::fs::copy(&path, &copy).expect("copied");
    assert_eq!(elf::code_checksum(&copy), sum);
    assert!(names(&copy).0 > 5 && names(&copy).1.is_none());
    for all in ["-g", "-s"] {
        let stripped = Command::new("strip").arg(all).arg(&copy).status();
        assert!(stripped.expect("strip").success());
        assert_eq!(elf::code_checksum(&copy), sum, "strip {all}");
        assert_eq!(names(&copy).1, None);
    }
    // One byte of code differs.
    let Ok(Format::Elf(image)) = elf::inspect(&path) else {
        panic!("no program");
    };
    let code = image.segments.iter().find(|s| s.executable).expect("code");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[(code.offset + code.file_size) as usize - 1] ^= 1;
    std::fs::write(&copy, bytes).expect("written");
    assert!(sum.is_some() && elf::code_checksum(&copy) != sum);
    let (functions, problem) = names(&copy);
    assert_eq!(functions, 0);
    assert!(problem.is_some_and(|p| p.contains("other code")));
}
