//! Formats that cannot be made of what a profile holds, and why.

/// Returns why a known format is not written, and the format to use instead; `None` of names that mean nothing here.
pub fn why_not(name: &str) -> Option<&'static str> {
    Some(match name {
        "profdata" | "profraw" | "indexed" | "llvm-instr" => {
            "needs the hashes of the compiler's control-flow graphs, which are in no program; use autofdo or profgen with -fprofile-sample-use"
        }
        "gcda" | "gcno" => {
            "needs the checksums of the compiler's control-flow graphs, which are in no program; use gcov-autofdo with -fauto-profile, or lcov for coverage"
        }
        "parquet" => "is written by the tool in extra/parquet; csv has the same tables",
        "perf" | "perf-data" => {
            "needs the kernel's samples; bolt-preagg and profgen hold the same branches for perf2bolt and llvm-profgen"
        }
        _ => return None,
    })
}
