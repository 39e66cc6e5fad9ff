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

/// An answer of the symbols of a file, of which an address was asked.
fn asked<T>(bytes: Vec<u8>, answer: impl Fn(&Symbols<'_>) -> T) -> T {
    let files = Files::new();
    let mut symbols = of_image(&files, bytes);
    let place = Place::new(ModuleId(1), Vaddr(0x1000));
    let _ = (symbols.locate(place), symbols.line(place));
    answer(&symbols)
}

/// Sections that promise another size than they have.
#[test]
fn what_cannot_be_unpacked_is_said() {
    let missing = |bytes| asked(bytes, |symbols| symbols.missing_lines(ModuleId(1)));
    let mut bytes = packed_program().to_vec();
    assert_eq!(missing(bytes.clone()), None);
    // The header of a section has its way and its size, and stands before the magic number of zstd.
    let heads = bytes.windows(28).enumerate();
    let is_head = |head: &[u8]| {
        head[..8] == [2, 0, 0, 0, 0, 0, 0, 0] && head[24..] == [0x28, 0xb5, 0x2f, 0xfd]
    };
    let heads: Vec<usize> = heads
        .filter(|(_, head)| is_head(head))
        .map(|(at, _)| at)
        .collect();
    assert!(heads.len() > 2, "{heads:?}");
    for size in [1 << 40, u64::MAX, 1] {
        for head in &heads {
            bytes[head + 8..head + 16].copy_from_slice(&size.to_le_bytes());
        }
        let why = missing(bytes.clone()).expect("a reason");
        assert!(why.contains("damaged or unpacks to far more"), "{why}");
    }
}

/// Symbols that are packed in an xz file, which is damaged.
#[test]
fn symbols_that_cannot_be_unpacked_are_said_to_be_missing() {
    let missing = |bytes| asked(bytes, |symbols| symbols.missing_names(ModuleId(1)));
    let mut bytes = packed_program().to_vec();
    assert_eq!(missing(bytes.clone()), None);
    let is_xz = |magic: &[u8]| magic == b"\xfd7zXZ\0";
    let at = bytes.windows(6).position(is_xz).expect("an xz file");
    bytes[at + 40] ^= 0xff;
    let why = missing(bytes).expect("a reason");
    assert!(why.contains(".gnu_debugdata"), "{why}");
}

/// A function that would end beyond all addresses.
#[test]
fn a_size_that_overflows_is_left_out() {
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
    let bytes = assembled("beyond", text, "-Wl,-Ttext=0x401000");
    let files = Files::new();
    let symbols = of_image(&files, bytes);
    let sources = symbols.sources(ModuleId(1)).expect("the other function");
    assert_eq!(sources.function_at(0x1000), Some(&b"within"[..]));
    assert_eq!(sources.function_at(0xffff_ffff_ffff_fff0), None);
}

/// Assembles a program, with its code where the option says.
fn assembled(name: &str, text: &str, place: &str) -> Vec<u8> {
    let dir = std::env::temp_dir().join(format!("trommel-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("temp dir");
    std::fs::write(dir.join("p.s"), text).expect("source");
    let mut build = Command::new("cc");
    build.args(["-nostdlib", "-static", place, "p.s", "-o", "p"]);
    let built = build.current_dir(&dir).status();
    assert!(built.expect("a C compiler").success());
    let bytes = std::fs::read(dir.join("p")).expect("program");
    let _ = std::fs::remove_dir_all(&dir);
    bytes
}

/// Symbols of one module, which is this file.
fn of_image(files: &Files, bytes: Vec<u8>) -> Symbols<'_> {
    let module = Module {
        id: ModuleId(1),
        path: b"/nowhere".to_vec(),
        ..Module::default()
    };
    let mut symbols = Symbols::new(files, &[module]);
    symbols.set_image(ModuleId(1), bytes);
    symbols
}

/// Assembles debug information, and looks names up in it.
fn looked_up(name: &str, sections: &str) -> Option<String> {
    let text = format!(".text\n.globl _start\n_start: .skip 0x4000, 0x90\nret\n{sections}");
    let files = Files::new();
    let mut symbols = of_image(&files, assembled(name, &text, "-Wl,-Ttext=0x1000"));
    for vaddr in (0x1000..0x5000).step_by(64) {
        let place = Place::new(ModuleId(1), Vaddr(vaddr));
        let _ = symbols.locate(place);
        let _ = symbols.line(place);
    }
    let _ = symbols.sources(ModuleId(1));
    let function = symbols.locate(Place::new(ModuleId(1), Vaddr(0x1000)));
    assert_eq!(function.function.as_deref(), Some("_start"), "{name}");
    symbols.missing_lines(ModuleId(1))
}

/// A unit of DWARF 4 with this content, so many times over.
fn units(times: u32, content: &str) -> String {
    format!(
        ".section .debug_info,\"\",@progbits\n.rept {times}\n.long 2f - 1f\n1: .short 4\n.long 0\n.byte 8\n{content}\n2:\n.endr\n"
    )
}

/// Kilobytes that would become gigabytes, or a recursion without end.
#[test]
fn what_refers_to_the_same_bytes_again_and_again_is_not_read() {
    let shared_lines = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 0, 0x11, 1, 0x12, 6, 0x10, 0x17, 0, 0, 0
        .section .debug_line,\"\",@progbits
        .long 2f - 1f
        1: .short 4
        .long 4f - 3f
        3: .byte 1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0
        .asciz \"f.c\"
        .byte 0, 0, 0, 0
        4: .byte 0, 9, 2
        .quad 0x1000
        .fill 300000, 1, 0x20
        .byte 0, 1, 1
        2:
    ";
    let lined = units(2000, ".byte 1\n.quad 0x1000\n.long 0x4000, 0");
    let shared_ranges = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 0, 0x11, 1, 0x55, 0x17, 0, 0, 0
        .section .debug_ranges,\"\",@progbits
        .rept 20000
        .quad 0x1000, 0x1004
        .endr
        .quad 0, 0
    ";
    let ranged = units(5000, ".byte 1\n.quad 0\n.long 0");
    let many_attributes = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 1
        .fill 200000, 1, 0x19
        .byte 0, 0, 0
    ";
    let empty = units(1, ".fill 200000, 1, 1\n.byte 0");
    let overlapping = "
        .section .debug_abbrev,\"\",@progbits
        .rept 60000
        .byte 1, 0x11, 0, 0x25, 0x08, 0, 0
        .endr
        .byte 0
        .section .debug_info,\"\",@progbits
        .set table, 0
        .rept 3000
        .long 12
        .short 4
        .long table
        .byte 8, 1, 0, 0, 0, 0
        .set table, table + 7
        .endr
    ";
    let nested = "
        .section .debug_abbrev,\"\",@progbits
        .byte 1, 0x11, 1, 0x11, 1, 0x12, 6, 0, 0
        .byte 2, 0x2e, 1, 0x11, 1, 0x12, 6, 3, 8, 0, 0
        .byte 3, 0x1d, 1, 0x11, 1, 0x12, 6, 0, 0, 0
    ";
    let inlined = ".byte 1\n.quad 0x1000\n.long 0x4000\n.byte 2\n.quad 0x1000\n.long 0x4000\n.asciz \"_start\"\n\
                   .rept 100000\n.byte 3\n.quad 0x1000\n.long 0x4000\n.endr";
    for (name, sections) in [
        ("lines", lined + shared_lines),
        ("ranges", ranged + shared_ranges),
        ("attributes", empty + many_attributes),
        ("abbreviations", overlapping.to_owned()),
        ("nested", units(1, inlined) + nested),
    ] {
        let missing = looked_up(name, &sections);
        let missing = missing.unwrap_or_else(|| panic!("{name}: nothing is said"));
        assert!(missing.contains("again and again"), "{name}: {missing}");
    }
}

/// Sound debug information is read to its end, also all of a large program.
#[test]
fn the_bounds_are_above_what_compilers_write() {
    let dir = std::env::temp_dir().join(format!("trommel-compiled-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let (source, program) = (dir.join("many.c"), dir.join("many"));
    let mut text = "static inline int twice(int n) { return n * 2 + 1; }\n".to_owned();
    for n in 0..600 {
        text += &format!(
            "int f{n}(int n) {{ for (int i = 0; i < n; i++) n += twice(i) / {}; return twice(n); }}\n",
            n + 1
        );
    }
    text += "int main(void) { return f7(3); }\n";
    std::fs::write(&source, text).expect("written");
    let mut cc = std::process::Command::new("gcc");
    let built = cc
        .args(["-O1", "-g", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(built.expect("gcc").success());
    let files = Files::new();
    let module = Module {
        id: ModuleId(1),
        path: program.into_os_string().into_encoded_bytes(),
        ..Module::default()
    };
    let mut symbols = Symbols::new(&files, &[module]);
    let functions = symbols.functions(ModuleId(1));
    assert!(functions.len() > 500);
    let mut with_line = 0;
    for function in functions {
        let place = Place::new(ModuleId(1), Vaddr(function.range.start));
        with_line += u32::from(symbols.locate(place).line.is_some());
    }
    assert!(with_line > 500, "{with_line}");
    assert!(symbols.sources(ModuleId(1)).is_some());
    assert_eq!(symbols.missing_lines(ModuleId(1)), None);
    let _ = std::fs::remove_dir_all(dir);
}

/// Code of terabytes, of which the file has nothing, is not added up.
#[test]
fn code_that_cannot_be_has_no_checksum() {
    let path = std::env::temp_dir().join(format!("trommel-sparse-{}", std::process::id()));
    for (segments, size) in [(1, 1_u64 << 40), (1000, 1 << 30)] {
        let mut bytes = program()[..64].to_vec();
        bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
        bytes[54..58].copy_from_slice(&[56, 0, segments as u8, (segments >> 8) as u8]);
        for _ in 0..segments {
            // To be loaded, and executable.
            bytes.extend(1_u32.to_le_bytes());
            bytes.extend(5_u32.to_le_bytes());
            for word in [0, 0, 0, size, size, 4096] {
                bytes.extend(word.to_le_bytes());
            }
        }
        std::fs::write(&path, &bytes).expect("file");
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|file| file.set_len(size + 4096))
            .expect("a file with a hole");
        assert!(elf::inspect(&path).is_ok());
        assert_eq!(elf::code_checksum(&path), None);
    }
    std::fs::remove_file(&path).expect("removed");
}
