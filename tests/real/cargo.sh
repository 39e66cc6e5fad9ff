# needs: cargo rustc
# cargo builds and tests a small crate, with rustc, its build script and the linker.
export CARGO_HOME=$PWD/home RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup} CARGO_TERM_QUIET=true
mkdir -p c/src; cd c
printf '[package]\nname = "c"\nversion = "0.1.0"\nedition = "2021"\nbuild = "build.rs"\n[workspace]\n' >Cargo.toml
echo 'fn main() { println!("cargo:rustc-env=X=built"); }' >build.rs
cat >src/main.rs <<'S'
use std::collections::BTreeMap; use std::sync::mpsc; use std::thread;
fn main() {
    let (tx, rx) = mpsc::channel();
    for n in 0..6u64 { let tx = tx.clone(); thread::spawn(move || tx.send((n, (0..100_000u64).fold(n, |a, x| a.wrapping_mul(31) ^ x))).unwrap()); }
    drop(tx); let all: BTreeMap<_, _> = rx.into_iter().collect(); println!("{} {all:?}", env!("X"));
    println!("{}", std::panic::catch_unwind(|| { let v: Vec<u8> = vec![]; v[0] }).is_err());
}
#[test] fn works() { assert_eq!(1 + 1, 2) }
S
t cargo build --offline 2>/dev/null; ./target/debug/c 2>/dev/null
t cargo test --offline 2>/dev/null | grep 'test ' | sed 's|; finished.*||'
t ./target/debug/c 2>/dev/null
