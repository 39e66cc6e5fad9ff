//! Builds the runtime that is injected into targets and turns it into a flat image.
//!
//! The runtime is a freestanding static-pie program with its own flags, so it is built by a cargo
//! of its own in a separate target directory. All profiles of a checkout share that directory.
//! A build of tests and a release build make the runtime once.
//!
//! Its loadable segments are laid out as they will be in
//! memory at its usual place, with a stack after them. Its relocations, which are all of the form
//! "base + addend", are applied for that place, and become a list of offsets for the host to correct
//! when the place is taken; nothing is left to do in the target.
//!
//! The shape of the program is checked here, so that a build that would not run does not exist: no
//! undefined symbol, no interpreter, no needed library, no thread-local storage.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::LittleEndian as Le;
use object::elf;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, Rela, SectionHeader, Sym};

const PAGE: u64 = 4096;
/// Address of the runtime, if nothing is there.
///
/// Away from where the kernel maps programs, so that everything of the app's is where it would be without us: below the
/// lowest address of a position-independent executable (0x5555_5555_4000), which leaves 341 GiB.
/// And where runtimes that divide the address space expect memory of the program: ThreadSanitizer (0x5500… to
/// 0x5680…, newer ones to 0x5a00…), MemorySanitizer (0x5100… to 0x6000…), AddressSanitizer (shadow up to 0x1000_7fff_8000, heap
/// from 0x5000… to 0x5400…, or from 0x6000… on), Go's race detector (0x2000… to 0x4000… is taken).
const BASE: u64 = 0x5500_0000_0000;
/// Bytes of the stack on which the runtime is started.
const STACK: u64 = 64 << 10;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Asked for now: what was compiled in would be the checkout that this one was copied from.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let root = Path::new(&here).join("../..");
    for watched in [
        "crates/runtime",
        "crates/aware",
        "crates/compress",
        "crates/query",
        "crates/queue",
        "crates/tuple",
        "Cargo.lock",
        "Cargo.toml",
    ] {
        // Relative, so that a checkout that was moved or copied watches its own files.
        println!("cargo:rerun-if-changed=../../{watched}");
    }
    let bytes = build(&root, &out);
    // A copy of this profile's: a build of another profile may replace the shared one.
    let elf = out.join("runtime.elf");
    fs::write(&elf, &bytes).expect("OUT_DIR can be written");
    let image = Image::from_elf(&bytes);
    fs::write(out.join("runtime.bin"), &image.bytes).expect("OUT_DIR can be written");
    let constants = format!(
        "const BASE: u64 = {BASE:#x};\nconst LEN: usize = {:#x};\nconst BUILD: u64 = {:#x};\nconst SYMBOLS: &[(u32, &str)] = &{:?};\nconst ENTRY: usize = {:#x};\nconst OWNED: usize = {:#x};\nconst TEXT: std::ops::Range<usize> = {:#x}..{:#x};\nconst RELOCATIONS: &[u32] = &{:?};\n",
        image.bytes.len(),
        digest(&image.bytes),
        symbols(&bytes),
        image.entry,
        owned(&bytes),
        image.text.0,
        image.text.1,
        image.relocations,
    );
    fs::write(out.join("runtime.rs"), constants).expect("OUT_DIR can be written");
    println!("cargo:rustc-env=TROMMEL_RUNTIME_ELF={}", elf.display());
}

/// FNV-1a: tells builds apart.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Its functions by offset in the image.
fn symbols(elf: &[u8]) -> Vec<(u32, String)> {
    use object::{Object, ObjectSymbol, SymbolKind};
    let file: ElfFile64<'_, Le> = ElfFile64::parse(elf).expect("the linker writes ELF");
    let mut all: Vec<_> = file
        .symbols()
        .filter(|s| s.kind() == SymbolKind::Text && s.address() != 0)
        .filter_map(|s| Some((s.address() as u32, s.name().ok()?.to_owned())))
        .collect();
    all.sort();
    all.dedup_by_key(|s| s.0);
    all
}

/// Address of the list of its mappings.
fn owned(elf: &[u8]) -> u64 {
    use object::{Object, ObjectSymbol};
    let file: ElfFile64<'_, Le> = ElfFile64::parse(elf).expect("the linker writes ELF");
    let list = file.symbol_by_name("trommel_owned");
    list.expect("the runtime lists its mappings").address()
}

/// Builds the runtime: its bytes.
fn build(root: &Path, out: &Path) -> Vec<u8> {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let flags = [
        "-Crelocation-model=pie",
        "-Ctarget-feature=+crt-static",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static-pie",
        "-Clink-arg=-Wl,--no-dynamic-linker",
        "-Clink-arg=-Wl,-z,norelro",
        "-Clink-arg=-Wl,-z,separate-code",
        "-Clink-arg=-Wl,--build-id=none",
    ];
    // A release maps paths of the machine away, in the runtime too.
    let outer = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mapped = outer
        .split('\x1f')
        .filter(|flag| flag.starts_with("--remap-path-prefix="));
    let flags: Vec<&str> = flags.into_iter().chain(mapped).collect();
    let target_dir = shared(root, out);
    fs::create_dir_all(&target_dir).unwrap_or_else(|e| panic!("{}: {e}", target_dir.display()));
    // Held until the file is read: another profile's build may replace it.
    let lock = fs::File::create(target_dir.join("lock")).expect("the directory can be written");
    lock.lock().expect("the file can be locked");
    let status = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"))
        .current_dir(root)
        .args([
            "build",
            "--quiet",
            "--package",
            "trommel-runtime",
            "--bin",
            "trommel-runtime",
        ])
        .args([
            "--features",
            "blob",
            "--profile",
            "blob",
            "--target",
            TARGET,
            "--target-dir",
        ])
        .arg(&target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"))
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_PROFILE_BLOB_DEBUG")
        .status()
        .unwrap_or_else(|e| panic!("cargo for the runtime: {e}"));
    assert!(status.success(), "the runtime does not build: {status}");
    let elf = target_dir.join(TARGET).join("blob/trommel-runtime");
    fs::read(&elf).unwrap_or_else(|e| panic!("{}: {e}", elf.display()))
}

/// The directory where the runtime is built: beside the profiles' own, one for each checkout.
///
/// Cargo takes sources of another checkout for what it has built when they lie at the same paths from their roots.
fn shared(root: &Path, out: &Path) -> PathBuf {
    let place = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let place = digest(place.as_os_str().as_encoded_bytes());
    // OUT_DIR is TARGET/PROFILE/build/PACKAGE/out.
    let target = out.ancestors().nth(4).unwrap_or(out);
    target.join(format!("runtime-{place:x}"))
}

struct Image {
    bytes: Vec<u8>,
    entry: u64,
    text: (u64, u64),
    relocations: Vec<u32>,
}

impl Image {
    fn from_elf(bytes: &[u8]) -> Self {
        let file: ElfFile64<'_, Le> = ElfFile64::parse(bytes).expect("the linker writes ELF");
        let headers = file
            .elf_header()
            .program_headers(Le, bytes)
            .expect("program headers");
        let mut image = Vec::new();
        let mut text = (0, 0);
        for h in headers {
            match h.p_type(Le) {
                elf::PT_INTERP => panic!("the runtime wants an interpreter"),
                elf::PT_TLS => panic!("the runtime has thread-local storage"),
                elf::PT_LOAD => {
                    let (start, end) = (h.p_vaddr(Le), h.p_vaddr(Le) + h.p_memsz(Le));
                    image.resize(image.len().max(end as usize), 0);
                    let data = h.data(Le, bytes).expect("segment data");
                    image[start as usize..start as usize + data.len()].copy_from_slice(data);
                    if h.p_flags(Le) & elf::PF_X != 0 {
                        assert_eq!(text, (0, 0), "the runtime has two code segments");
                        text = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
                    }
                }
                elf::PT_DYNAMIC => {
                    for d in h
                        .dynamic(Le, bytes)
                        .expect("dynamic section")
                        .unwrap_or_default()
                    {
                        assert_ne!(
                            d.tag32(Le),
                            Some(elf::DT_NEEDED),
                            "the runtime needs a library"
                        );
                    }
                }
                _ => {}
            }
        }
        let sections = file.elf_section_table();
        let mut relocations = Vec::new();
        for section in sections.iter() {
            if let Some((relas, _)) = section.rela(Le, bytes).expect("relocations") {
                for r in relas {
                    assert_eq!(
                        r.r_type(Le, false),
                        elf::R_X86_64_RELATIVE,
                        "a relocation needs a symbol"
                    );
                    let at = r.r_offset(Le) as usize;
                    image[at..at + 8]
                        .copy_from_slice(&(BASE as i64 + r.r_addend(Le)).to_le_bytes());
                    relocations.push(at as u32);
                }
            }
        }
        let symbols = sections
            .symbols(Le, bytes, elf::SHT_SYMTAB)
            .expect("symbols");
        for symbol in symbols.iter().skip(1) {
            let name =
                String::from_utf8_lossy(symbol.name(Le, symbols.strings()).unwrap_or_default());
            assert!(!symbol.is_undefined(Le), "undefined in the runtime: {name}");
        }
        image.resize(
            image.len().next_multiple_of(PAGE as usize) + STACK as usize,
            0,
        );
        Self {
            bytes: image,
            entry: file.elf_header().e_entry(Le),
            text,
            relocations,
        }
    }
}
