//! The runtime's bytes, as `build.rs` laid them out: the image for its usual place, and its first
//! stack.
//!
//! The bytes lie in whole pages of our own executable, so the target can map them from there. Nothing is
//! copied, and pages of code share the kernel's page cache. That takes a descriptor of the
//! executable. Where it cannot be opened (it may be executable and not readable), or the target may
//! not map it, the host writes the bytes into memory of the target.
// Asks the C library where our executable was loaded.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::fs::FileExt;

include!(concat!(env!("OUT_DIR"), "/runtime.rs"));

#[repr(C, align(4096))]
struct Pages([u8; LEN]);

/// Its name is what profilers show for the runtime's code in a target, which has these pages mapped.
// SAFETY: no other symbol has this name.
#[unsafe(export_name = "trommel_runtime")]
static PAGES: Pages = Pages(*include_bytes!(concat!(env!("OUT_DIR"), "/runtime.bin")));

/// A difference from the image for the usual place.
pub struct Moved {
    /// Its offset in the image.
    pub offset: usize,
    /// The bytes to write there.
    pub bytes: Vec<u8>,
}

/// Its usual place.
pub const fn base() -> u64 {
    BASE
}

/// Tells this build of the runtime from others.
pub const fn build() -> u64 {
    BUILD
}

/// Returns the function at an offset in its code, and the distance from the function's start.
pub fn function(offset: u64) -> Option<(String, u64)> {
    let offset = offset.checked_add(TEXT.start as u64)?;
    let n = SYMBOLS.partition_point(|s| u64::from(s.0) <= offset);
    let (start, name) = SYMBOLS.get(n.checked_sub(1)?)?;
    let name = trommel_symbol::demangle(name.as_bytes());
    (offset < LEN as u64).then(|| (name, offset - u64::from(*start)))
}

/// The image for its usual place, and room for a stack after it.
pub fn bytes() -> &'static [u8] {
    &PAGES.0
}

/// Offset of its first instruction.
pub const fn entry() -> usize {
    ENTRY
}

/// Offset of the list of its mappings ([`trommel_queue::thread_page::Owned`]).
pub const fn owned() -> usize {
    OWNED
}

/// Offsets of its code, whole pages.
pub const fn text() -> std::ops::Range<usize> {
    TEXT
}

/// Returns the differences of the image for `base`. `None` for the usual place.
pub fn moved(base: u64) -> Option<Moved> {
    if base == BASE {
        return None;
    }
    // The linker puts what has addresses in it together, at the end.
    let places = RELOCATIONS.iter().map(|&at| at as usize);
    let (offset, last) = (places.clone().min()?, places.clone().max()?);
    let mut bytes = PAGES.0[offset..last + 8].to_vec();
    for at in places {
        let slot = &mut bytes[at - offset..at - offset + 8];
        let mut usual = [0; 8];
        usual.copy_from_slice(slot);
        let here = u64::from_le_bytes(usual)
            .wrapping_sub(BASE)
            .wrapping_add(base);
        slot.copy_from_slice(&here.to_le_bytes());
    }
    Some(Moved { offset, bytes })
}

/// Our executable, and where in it the image is. `None` if it cannot be read, or if the image is
/// elsewhere.
pub fn file() -> Option<(File, u64)> {
    let offset = offset()?;
    let file = File::open("/proc/self/exe").ok()?;
    // Started by something that loads programs itself, it may be another file.
    let mut start = [0; 64];
    let read = file.read_exact_at(&mut start, offset + TEXT.start as u64);
    (read.is_ok() && start == PAGES.0[TEXT.start..][..64]).then_some((file, offset))
}

/// Returns the offset of the image in our executable.
fn offset() -> Option<u64> {
    // SAFETY: no more than asking; 0 where there is no answer.
    let (at, count) = unsafe {
        (
            libc::getauxval(libc::AT_PHDR),
            libc::getauxval(libc::AT_PHNUM),
        )
    };
    if at == 0 {
        return None;
    }
    // SAFETY: the kernel tells where our program headers are mapped, and how many there are.
    let headers =
        unsafe { std::slice::from_raw_parts(at as *const libc::Elf64_Phdr, count as usize) };
    let own = headers.iter().find(|h| h.p_type == libc::PT_PHDR)?;
    let image = (PAGES.0.as_ptr() as u64).wrapping_sub(at.wrapping_sub(own.p_vaddr));
    headers.iter().find_map(|h| {
        let within = image.checked_sub(h.p_vaddr)?;
        let loaded = h.p_type == libc::PT_LOAD && within + LEN as u64 <= h.p_filesz;
        loaded.then_some(h.p_offset + within)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// `build.rs` refuses to make an image of a program that is not freestanding; this asks a
    /// second judge.
    #[test]
    fn the_runtime_is_freestanding() {
        let readelf = |what: &str| {
            let out = Command::new("readelf")
                .args([what, "-W", env!("TROMMEL_RUNTIME_ELF")])
                .output();
            String::from_utf8_lossy(&out.expect("binutils").stdout).into_owned()
        };
        let headers = readelf("-l");
        assert!(
            headers.contains("LOAD") && !headers.contains("INTERP") && !headers.contains("TLS"),
            "{headers}"
        );
        assert!(!readelf("-d").contains("NEEDED"));
        let symbols = readelf("-s");
        let undefined: Vec<_> = symbols
            .lines()
            .filter(|l| l.contains(" UND ") && l.split_whitespace().count() > 7)
            .collect();
        assert!(undefined.is_empty(), "{undefined:?}");
        assert!(
            readelf("-r")
                .lines()
                .filter(|l| l.contains("R_X86_64"))
                .all(|l| l.contains("RELATIVE"))
        );
        // No AVX: the runtime saves the low halves of vector registers only.
        let out = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn", env!("TROMMEL_RUNTIME_ELF")])
            .output();
        let text = String::from_utf8_lossy(&out.expect("binutils").stdout).into_owned();
        assert!(text.lines().count() > 1000);
        // VEX and EVEX mnemonics begin with v; so do these few others.
        let others = ["verr", "verw", "vmcall"];
        let vex = |line: &str| {
            let name = line.split('\t').nth(1).unwrap_or_default();
            name.starts_with('v') && !others.iter().any(|o| name.starts_with(o))
        };
        let wide: Vec<_> = text.lines().filter(|l| vex(l)).collect();
        assert!(wide.is_empty(), "{wide:?}");
        // A program may have taken `cpuid` away: it is executed at the start alone, where it is given back.
        let mut asking = Vec::new();
        let mut function = "";
        for line in text.lines() {
            match line.split_once('<').filter(|_| line.ends_with(">:")) {
                Some((_, name)) => function = name,
                None if line.split('\t').nth(1).is_some_and(|i| i.trim() == "cpuid") => {
                    asking.push(function);
                }
                None => {}
            }
        }
        let may = |name: &&str| name.contains("9processor") || name.contains("ask_processor");
        assert!(!asking.is_empty() && asking.iter().all(may), "{asking:?}");
    }

    #[test]
    fn functions_have_names() {
        let (name, offset) = function((ENTRY - TEXT.start) as u64 + 1).expect("a function");
        assert_eq!((name.as_str(), offset), ("_start", 1));
        assert!(SYMBOLS.iter().any(|s| s.1.contains("dispatch")));
        assert_eq!(function(u64::MAX), None);
    }

    /// A target has these pages mapped from our executable, whose symbols name them.
    #[test]
    fn profilers_name_the_runtime() {
        let out = Command::new("readelf")
            .args(["-s", "-W"])
            .arg(std::env::current_exe().expect("a path"))
            .output();
        let text = String::from_utf8_lossy(&out.expect("binutils").stdout).into_owned();
        let mut symbols = text
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>());
        let named = symbols.find(|words| words.last() == Some(&"trommel_runtime"));
        // Large sizes are hexadecimal.
        let size = named.and_then(|words| {
            let text = words.get(2)?;
            match text.strip_prefix("0x") {
                Some(digits) => usize::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            }
        });
        assert_eq!(size, Some(LEN.next_multiple_of(4096)));
    }

    #[test]
    fn relocation_adds_the_base() {
        assert!(moved(BASE).is_none());
        let (a, b) = (moved(0).expect("moved"), moved(0x1_0000).expect("moved"));
        assert_eq!((a.offset, a.bytes.len()), (b.offset, b.bytes.len()));
        assert!(a.bytes.len() < LEN / 4);
        for at in RELOCATIONS.iter().map(|&at| at as usize) {
            let word = |bytes: &[u8], at: usize| {
                u64::from_le_bytes(*bytes[at..].first_chunk().expect("a word"))
            };
            let offset = word(&PAGES.0, at) - BASE;
            assert!((offset as usize) < LEN);
            assert_eq!(word(&a.bytes, at - a.offset), offset);
            assert_eq!(word(&b.bytes, at - b.offset), offset + 0x1_0000);
        }
    }

    #[test]
    fn the_executable_holds_the_image() {
        let (file, offset) = file().expect("a readable executable");
        assert!(offset.is_multiple_of(4096));
        let mut bytes = vec![0; LEN];
        file.read_exact_at(&mut bytes, offset).expect("all of it");
        assert!(bytes == PAGES.0);
    }
}
