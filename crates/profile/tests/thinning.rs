//! Sums of profiles keep few values of a register at a call, as of an instruction, and say what that costs.

use trommel_profile::Profile;
use trommel_profile::arguments::{Argument, Passed};
use trommel_profile::sampled::Sampled;
use trommel_profile::thin::thin;
use trommel_profile::windows::Windows;
use trommel_tuple::Place;

/// A register that holds 100 values, one of them in half of the calls.
fn argument() -> Argument {
    let count = |n| if n == 7 { 99_000 } else { 1000 };
    Argument {
        sampled: Sampled {
            samples: 1980,
            executions: 198_000.0,
            variance: 198_000.0 * 100.0,
            probability: 1.0,
            factor_error: 0.0,
        },
        counts: (0..100).map(|n| (n, count(n))).collect(),
    }
}

#[test]
fn arguments_are_thinned_as_values_are() {
    let passed = |call: Option<u64>, register| Passed {
        target: Place::from_word(1),
        call: call.map(Place::from_word),
        register,
    };
    let all = [passed(None, 0), passed(Some(9), 0), passed(None, 1)];
    let before = argument();
    let few = Argument {
        counts: before.counts[..16].to_vec(),
        ..argument()
    };
    let mut windows = Windows {
        arguments: all.map(|key| (key, argument())).into(),
        ..Windows::default()
    };
    windows.arguments.insert(passed(None, 5), few.clone());
    let mut profile = Profile {
        windows: Some(windows),
        ..Profile::default()
    };
    thin(&mut profile, 16);
    let mut after = profile.windows.expect("windows").arguments;
    assert_eq!(
        after.remove(&passed(None, 5)),
        Some(few),
        "few are left alone"
    );
    for (key, argument) in &after {
        let counts = &argument.counts;
        assert!((15..=16).contains(&counts.len()), "{key:?}: {counts:?}");
        assert!(counts.contains(&(7, 99_000)), "what is frequent stays");
        let sum: u64 = counts.iter().map(|(_, count)| count).sum();
        assert!(sum.abs_diff(198_000) < 8000, "{sum}");
        // By chance others may be gone: limits are wider.
        let (now, then) = (argument.sampled.share(0.5), before.sampled.share(0.5));
        assert!(
            now.low < then.low && now.high > then.high,
            "{now:?} {then:?}"
        );
    }
    // Independent coins for each call and register.
    let kept: std::collections::BTreeSet<_> = after.into_values().map(|a| a.counts).collect();
    assert_eq!(kept.len(), 3);
}
