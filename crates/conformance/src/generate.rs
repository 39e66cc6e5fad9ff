//! Random instruction sequences: the same state, natively and in the code cache.
//!
//! One seed makes one assembly file of many functions, linked with a driver (`driver.c`) into a
//! native program. The driver sets every register, flag and memory byte from the seed, runs a
//! function on a stack of its own and prints a hash of all that is left. The program is linked
//! without PIE and its stack and buffer are static, so that even code and stack addresses are part
//! of the state that must be equal.
//!
//! Flags that the manuals leave undefined are tracked ([`flow::Flags`]): before anything that reads
//! one, and at the end, a `cmp` defines them all again. Every loop has a counted bound, every
//! other jump goes forward, every call is to a function made for that site.

use std::fs;
use std::path::PathBuf;

use crate::exec::{Job, Scratch, cache_dir, workspace};
use crate::program::compile;

mod flow;
mod frames;
mod scalar;
mod vector;

pub use flow::program;
pub use frames::loops;

/// Instruction sets that this processor has beyond x86-64 itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// BMI1, BMI2, LZCNT, ADX and MOVBE.
    pub bmi: bool,
    /// AVX2 and FMA.
    pub avx2: bool,
    /// AVX-512 F, BW, DQ, VL.
    pub avx512: bool,
}

impl Features {
    /// Returns those of this machine.
    pub fn here() -> Self {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma");
        Self {
            bmi: has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("adx") && has!("movbe"),
            avx2,
            avx512: avx2
                && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512dq")
                && has!("avx512vl"),
        }
    }
}

/// The seeds that are always tested, and that of `TROMMEL_SEQUENCE_SEED`.
pub fn seeds() -> impl Iterator<Item = u64> {
    let own = std::env::var("TROMMEL_SEQUENCE_SEED").ok();
    (1..=8).chain(own.and_then(|s| s.parse().ok()))
}

/// Writes, assembles and links the program of a seed: generated assembly and the C that drives it.
/// `kind` tells programs of one seed apart.
pub fn build(kind: &str, seed: u64, assembly: &str, driver: &str) -> Result<PathBuf, String> {
    let dir = cache_dir().join(kind);
    let io = |e: std::io::Error| e.to_string();
    fs::create_dir_all(&dir).map_err(io)?;
    let text = dir.join(format!("seed{seed}.S"));
    fs::write(&text, assembly).map_err(io)?;
    let main = dir.join(format!("driver{seed}.c"));
    fs::write(&main, driver).map_err(io)?;
    let out = dir.join(format!("seed{seed}"));
    // The stamp of `compile` sees the flags: the text of the assembly goes in by its hash.
    let hash = |h: u64, b: u8| h.wrapping_mul(31).wrapping_add(b.into());
    let sum = assembly.bytes().fold(0, hash);
    let flags = [
        text.to_string_lossy().into_owned(),
        "-no-pie".into(),
        "-O1".into(),
        format!("-DTEXT={sum}"),
    ];
    compile(&main, &flags, &out)?;
    Ok(out)
}

/// The program of a seed, so that windows can be taken of it: signals come to an alternate stack, as they change what is below the stack
/// pointer.
///
/// # Errors
/// What the compiler or the system says.
pub fn on_alternate_stack(seed: u64, scratch: &Scratch) -> Result<Job, String> {
    const EACH: u64 = 500;
    let text = program(seed, EACH, Features::here());
    let binary = build("sequences", seed, &text, include_str!("driver.c"))?;
    let dir = cache_dir().join("windows");
    fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
    let alternate = dir.join(format!("alternate{seed}.so"));
    let source = workspace().join("tests/windows/alternate.c");
    let flags = ["-shared", "-fPIC"].map(str::to_owned);
    compile(&source, &flags, &alternate)?;
    let alternate = fs::canonicalize(alternate).map_err(|e| e.to_string())?;
    let mut job = Job::new([binary], scratch.dir());
    job.argv.push(seed.to_string().into());
    job.env.push(("LD_PRELOAD".into(), alternate.into()));
    Ok(job)
}

/// xorshift64*: reproducible everywhere.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_program() {
        let features = Features::here();
        let text = program(7, 20, features);
        assert_eq!(text, program(7, 20, features));
        assert_ne!(text, program(8, 20, features));
        assert_eq!(text.matches("\nseq_").count(), 20);
    }
}
