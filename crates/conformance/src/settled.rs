//! Runs that are the same each time: fixed addresses, a small environment, steady seeds, one input.

use std::ffi::OsString;
use std::process::Command;

use crate::built::{listing, trommel};
use crate::not_tested::VARIABLE;

/// The variable that names a directory `node_modules`, with packages of npm that tests need.
pub const PACKAGES: &str = "TROMMEL_NODE_MODULES";

/// Runs this test again with fixed addresses and a small environment, so that loaded values, and
/// loops over the environment, are the same in every run.
pub fn settle() {
    const SETTLED: &str = "TROMMEL_COUNTS_SETTLED";
    if std::env::var_os(SETTLED).is_some() || listing() {
        return;
    }
    // The binary is built, if need be, with the whole environment.
    let bin = trommel();
    let kept = [
        "PATH",
        "HOME",
        "TMPDIR",
        "TROMMEL_STRESS",
        VARIABLE,
        PACKAGES,
        "RUSTUP_HOME",
        "CARGO_HOME",
        // Where `.ci/run` puts modules of Python.
        "PYTHONPATH",
    ];
    let status = Command::new("setarch")
        .arg("-R")
        .arg(std::env::current_exe().expect("own path"))
        .args(std::env::args_os().skip(1))
        .env_clear()
        .envs(kept.iter().filter_map(|k| Some((k, std::env::var_os(k)?))))
        .env("TROMMEL_BIN", bin)
        .envs(steady())
        .env(SETTLED, "1")
        .status()
        .expect("setarch, of util-linux");
    std::process::exit(status.code().unwrap_or(1));
}

/// The environment that makes hash seeds and locales the same in every run.
pub fn steady() -> Vec<(OsString, OsString)> {
    [
        ("PERL_HASH_SEED", "0"),
        ("PERL_PERTURB_KEYS", "0"),
        ("LC_ALL", "C"),
    ]
    .map(|(k, v)| (k.into(), v.into()))
    .into()
}

/// Some text with repetition in it.
pub fn sample() -> Vec<u8> {
    let mut x = 12345_u64;
    let mut text = Vec::new();
    while text.len() < 60_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.extend_from_slice(format!("line {} of {}\n", x >> 52, x >> 60).as_bytes());
    }
    text
}
