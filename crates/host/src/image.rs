//! The runtime's bytes, as `build.rs` laid them out.

include!(concat!(env!("OUT_DIR"), "/runtime.rs"));

static BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/runtime.bin"));

/// The runtime, ready for one base address.
pub struct Relocated {
    /// What to write at the base: what is the same everywhere. Most of it, so it is not copied.
    pub fixed: &'static [u8],
    /// What to write behind that.
    pub moved: Vec<u8>,
    /// Where it starts.
    pub entry: u64,
    /// Offsets of its code, whole pages.
    pub text: std::ops::Range<usize>,
}

/// Tells this build of the runtime from others.
pub const fn build() -> u64 {
    BUILD
}

/// The function at an offset in its code, and how far behind its start that is.
pub fn function(offset: u64) -> Option<(String, u64)> {
    let offset = offset.checked_add(TEXT.start as u64)?;
    let n = SYMBOLS.partition_point(|s| u64::from(s.0) <= offset);
    let (start, name) = SYMBOLS.get(n.checked_sub(1)?)?;
    let name = trommel_symbol::demangle(name.as_bytes());
    (offset < len() as u64).then(|| (name, offset - u64::from(*start)))
}

/// Bytes of the image.
pub fn len() -> usize {
    BYTES.len()
}

/// The image for `base`.
pub fn relocate(base: u64) -> Relocated {
    // The linker puts what has addresses in it together, at the end.
    let first = RELOCATIONS
        .iter()
        .min()
        .map_or(BYTES.len(), |&at| at as usize);
    let (fixed, moved) = BYTES.split_at(first);
    let mut moved = moved.to_vec();
    for &at in RELOCATIONS {
        let at = at as usize - first;
        let slot = &mut moved[at..at + 8];
        let mut addend = [0; 8];
        addend.copy_from_slice(slot);
        slot.copy_from_slice(&u64::from_le_bytes(addend).wrapping_add(base).to_le_bytes());
    }
    Relocated {
        fixed,
        moved,
        entry: base + ENTRY as u64,
        text: TEXT,
    }
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
    }

    #[test]
    fn functions_have_names() {
        let (name, behind) = function((ENTRY - TEXT.start) as u64 + 1).expect("a function");
        assert_eq!((name.as_str(), behind), ("_start", 1));
        assert!(SYMBOLS.iter().any(|s| s.1.contains("dispatch")));
        assert_eq!(function(u64::MAX), None);
    }

    #[test]
    fn relocation_adds_the_base() {
        let (a, b) = (relocate(0), relocate(0x1_0000));
        assert_eq!(a.fixed.len() + a.moved.len(), len());
        assert!(a.moved.len() < len() / 4);
        let changed = a.moved.iter().zip(&b.moved).filter(|(x, y)| x != y).count();
        assert!(changed >= RELOCATIONS.len());
    }
}
