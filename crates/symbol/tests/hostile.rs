//! Damaged files: an answer or none, but never a panic, a hang or a huge allocation.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use proptest::prelude::*;
use trommel_profile::Module;
use trommel_symbol::{Files, Symbols, elf};
use trommel_tuple::{ModuleId, Place, Vaddr};

/// A small program with everything in it: symbols, stubs, DWARF, notes.
fn program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("trommel-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp dir");
        let (source, out) = (dir.join("p.c"), dir.join("p"));
        let text = "#include <stdio.h>\nstatic inline int f(int x) { return x * 3; }\n\
                    int g(int x) { return f(x); }\nint main(int c, char **v) { puts(v[0]); return g(c); }\n";
        std::fs::write(&source, text).expect("source");
        let flags = ["-O2", "-g", "-Wl,--build-id"];
        let done = Command::new("cc").args(flags).arg("-o").arg(&out).arg(&source).status();
        assert!(done.expect("a C compiler").success());
        let bytes = std::fs::read(&out).expect("program");
        let _ = std::fs::remove_dir_all(&dir);
        bytes
    })
}

/// The same with compressed debug sections, and with symbols packed as Fedora packs them.
fn packed_program() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = std::env::temp_dir().join(format!("trommel-packed-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("temp dir");
        std::fs::write(dir.join("p"), program()).expect("program");
        let command = "objcopy --only-keep-debug p mini && xz mini && objcopy --compress-debug-sections=zstd p z \
                       && strip --strip-all --keep-section='.debug*' z -o y \
                       && objcopy --add-section .gnu_debugdata=mini.xz y q";
        let done = Command::new("sh").args(["-ec", command]).current_dir(&dir).status();
        assert!(done.expect("a shell").success());
        let bytes = std::fs::read(dir.join("q")).expect("program");
        let _ = std::fs::remove_dir_all(&dir);
        bytes
    })
}

fn look_everywhere(bytes: Vec<u8>) {
    let files = Files::new();
    let module = Module {
        id: ModuleId(1),
        path: b"/nowhere".to_vec(),
        ..Module::default()
    };
    let mut symbols = Symbols::new(&files, &[module]);
    symbols.set_image(ModuleId(1), bytes);
    let _ = symbols.sources(ModuleId(1));
    for vaddr in (0..0x5000).step_by(61).chain([u64::MAX >> 16, 1 << 40]) {
        let _ = symbols.locate(Place::new(ModuleId(1), Vaddr(vaddr)));
    }
}

fn inspect(bytes: &[u8], name: &str) {
    let path: PathBuf = std::env::temp_dir().join(format!("trommel-{name}-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("file");
    let _ = elf::inspect(Path::new(&path)).map_err(|e| e.to_string());
    let _ = std::fs::remove_file(&path);
}

#[test]
fn truncated_at_every_length() {
    let whole = program();
    for length in (0..whole.len()).step_by(97).chain(0..200) {
        look_everywhere(whole[..length].to_vec());
    }
    for length in 0..700 {
        inspect(&whole[..length], "cut");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn bytes_changed_anywhere(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = program().to_vec();
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        look_everywhere(bytes);
    }

    #[test]
    fn packed_bytes_changed_anywhere(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..40)) {
        let mut bytes = packed_program().to_vec();
        for (at, value) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *value;
        }
        look_everywhere(bytes);
    }

    #[test]
    fn words_changed_in_headers(changes in prop::collection::vec((0_usize..0x400, prop::sample::select(vec![0_u32, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0x1000])), 1..6)) {
        let mut bytes = program().to_vec();
        let sections = u64::from_le_bytes(*bytes[40..].first_chunk().expect("header")) as usize;
        for (at, value) in &changes {
            bytes[*at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        inspect(&bytes, "words");
        look_everywhere(bytes.clone());
        bytes.copy_from_slice(program());
        for (at, value) in &changes {
            let at = sections + at;
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        look_everywhere(bytes);
    }

    #[test]
    fn debug_sections_full_of_noise(seed: u64) {
        let mut bytes = program().to_vec();
        // Everything after the code is data, DWARF, symbols and names.
        let (from, mut state) = (bytes.len() / 4, seed | 1);
        let to = bytes.len() - 3000;
        for byte in &mut bytes[from..to] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state % 50 == 0 {
                *byte = (state >> 32) as u8;
            }
        }
        look_everywhere(bytes);
    }

    #[test]
    fn any_name_can_be_demangled(name in "(_Z|_R|_ZN|__Z)?[a-zA-Z0-9_]{0,60}") {
        let _ = trommel_symbol::demangle(name.as_bytes());
    }
}

/// A function that would end beyond all addresses.
#[test]
fn a_size_that_overflows_is_left_out() {
    let dir = std::env::temp_dir().join(format!("trommel-beyond-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temp dir");
    let text = "
        .text
        .globl _start
        _start: ret
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 1, 0x03, 0x08, 0, 0
        .byte 2, 0x2e, 0, 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
        .byte 0
        .section .debug_info,\"\",@progbits
        .long 2f - 1f
        1: .short 4
        .long 0
        .byte 8
        .byte 1
        .asciz \"unit\"
        .byte 2
        .asciz \"beyond\"
        .quad 0xfffffffffffffff0, 0x20
        .byte 2
        .asciz \"within\"
        .quad 0x1000, 0x20
        .byte 0
        2:
    ";
    std::fs::write(dir.join("p.s"), text).expect("source");
    let mut build = Command::new("cc");
    build
        .args(["-nostdlib", "-static", "p.s", "-o", "p"])
        .current_dir(&dir);
    assert!(build.status().expect("a C compiler").success());
    let bytes = std::fs::read(dir.join("p")).expect("program");
    let _ = std::fs::remove_dir_all(&dir);
    let files = Files::new();
    let module = Module {
        id: ModuleId(1),
        path: b"/nowhere".to_vec(),
        ..Module::default()
    };
    let mut symbols = Symbols::new(&files, &[module]);
    symbols.set_image(ModuleId(1), bytes);
    let sources = symbols.sources(ModuleId(1)).expect("the other function");
    assert_eq!(sources.function_at(0x1000), Some(&b"within"[..]));
    assert_eq!(sources.function_at(0xffff_ffff_ffff_fff0), None);
}
