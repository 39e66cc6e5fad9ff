//! Benchmarks of this crate's own: what an empty one counts, arithmetic without calls of libraries, memory, and sorting.

use trommel_benchmark::{benchmark, main};

fn fibonacci(n: u64) -> u64 {
    match n {
        0 | 1 => n,
        _ => fibonacci(n - 1) + fibonacci(n - 2),
    }
}

/// Numbers in no order, always the same.
fn numbers(count: u64) -> Vec<u64> {
    let next = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(1), next)
        .take(count as usize)
        .collect()
}

benchmark!(nothing, || ());
benchmark!(recursion, || 16, fibonacci);
benchmark!(sieve, || vec![true; 2000], |mut prime: Vec<bool>| {
    for n in 2..prime.len() {
        if prime[n] {
            (n * n..prime.len())
                .step_by(n)
                .for_each(|of| prime[of] = false);
        }
    }
    prime
});
benchmark!(sorting, || numbers(1000), |mut all| {
    all.sort();
    all
});
benchmark!(copying, || numbers(1000), |all| (all.clone(), all));
benchmark!(panicking, || std::env::var_os("PANIC"), |wanted| {
    assert!(wanted.is_none(), "as PANIC asks for");
});

main!(nothing, recursion, sieve, sorting, copying, panicking);
