//! Grounds of limits of profiles in bursts and in windows.

use trommel_profile::Profile;
use trommel_profile::confidence::{Basis, Confidence};
use trommel_profile::unit::Unit;
use trommel_profile::windows::Windows;

/// A profile of so many windows of a length, or bursts where that is 0.
fn profile(length: u32, counted: u64) -> Profile {
    Profile {
        windows: Some(Windows {
            length,
            counted,
            ..Windows::default()
        }),
        ..Profile::default()
    }
}

#[test]
fn one_burst_is_an_assumption_of_its_own() {
    for (length, counted, basis, unit) in [
        (0, 1, Basis::OneBurst, Unit::Instructions),
        (0, 2, Basis::Bursts, Unit::Instructions),
        (2048, 1, Basis::Windows, Unit::Cycles),
    ] {
        let profile = profile(length, counted);
        assert_eq!(Confidence::new(&profile).basis(), basis);
        assert_eq!(profile.unit(), unit);
    }
    assert_eq!(Profile::default().unit(), Unit::Instructions);
    assert_eq!(Basis::OneBurst.name(), Basis::Bursts.name());
    assert_ne!(Basis::OneBurst.assumes(), Basis::Bursts.assumes());
}
