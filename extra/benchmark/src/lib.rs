//! Benchmarks whose result is a number of instructions, counted exactly by Trommel.
//!
//! **Problem.** Times of short functions differ from run to run by more than most changes of code. The number of instructions does not. A
//! count by valgrind takes some fifty times as long as the program itself.
//!
//! **Strategy.** A program of benchmarks runs itself again for each of them, under `trommel record -e context`. The benchmark is called
//! by one function, `measured`. All instructions of that function and of what it calls are the benchmark's.
//!
//! ```no_run
//! use trommel_benchmark::{benchmark, main};
//!
//! benchmark!(sort, || (0..1000u64).rev().collect::<Vec<_>>(), |mut numbers| {
//!     numbers.sort_unstable();
//!     numbers
//! });
//! main!(sort);
//! ```
//!
//! `Cargo.toml` has `[[bench]]` with `harness = false` for that file, and `cargo bench` runs it. Without the command `trommel` each benchmark
//! runs once, uncounted.
//!
//! **Invariants.**
//! * The setup, and dropping of what the benchmark returns, are not counted.
//! * A benchmark's count does not depend on which others run: each has a process of its own, with fixed addresses. A thread runs it, so
//!   that its stack does not depend on the environment.

mod baseline;
mod counted;
mod options;
mod output;
mod run;

use std::hint::black_box;

pub use run::harness;

/// A benchmark, as [`benchmark!`] makes it.
#[derive(Debug)]
pub struct Benchmark {
    name: &'static str,
    run: fn(),
}

impl Benchmark {
    /// Makes a benchmark of a function that calls [`once`].
    #[must_use]
    pub const fn new(name: &'static str, run: fn()) -> Self {
        Self { name, run }
    }
}

/// Runs a benchmark once. Only `body` is counted. The compiler knows nothing of what `setup` returns.
pub fn once<I, O>(setup: impl FnOnce() -> I, body: impl FnOnce(I) -> O) {
    let input = black_box(setup());
    let output = measured(input, body);
    drop(black_box(output));
}

/// The function that is counted, with all that it calls. It is found by its name.
#[inline(never)]
fn measured<I, O>(input: I, body: impl FnOnce(I) -> O) -> O {
    let output = body(input);
    // Without an effect the compiler would leave the call out where the body has none.
    black_box(());
    output
}

/// Defines a benchmark: `benchmark!(NAME, SETUP, BODY)`, or `benchmark!(NAME, BODY)` without an input.
///
/// `SETUP` is a closure without arguments; what it returns is the argument of `BODY`. Neither captures variables.
#[macro_export]
macro_rules! benchmark {
    ($visible:vis $name:ident, $setup:expr, $body:expr $(,)?) => {
        #[allow(non_upper_case_globals, clippy::redundant_closure_call)]
        $visible static $name: $crate::Benchmark =
            $crate::Benchmark::new(stringify!($name), || $crate::once($setup, $body));
    };
    ($visible:vis $name:ident, $body:expr $(,)?) => {
        $crate::benchmark!($visible $name, || (), |()| ($body)());
    };
}

/// Defines the `main` function of a program of benchmarks.
#[macro_export]
macro_rules! main {
    ($($name:path),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::harness(&[$(&$name),+])
        }
    };
}
