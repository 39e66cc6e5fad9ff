//! Losses of a recording: its end and the head of its report say the same.

use trommel_profile::Profile;

use super::queries;
use crate::output::grouped;

/// Numbers of what was lost, each with its words: at the end of a recording, and in a report with the reason.
fn parts(profile: &Profile) -> [(u64, &'static str, &'static str); 3] {
    let custom = profile.windows.as_ref().and_then(|w| w.custom.as_ref());
    let not_given = custom.map_or(0, |custom| custom.lost);
    [
        (
            profile.run.dropped,
            "EVENTS LOST",
            "events, of values that were rarely seen",
        ),
        (
            queries::dropped(profile),
            "MESSAGES DROPPED",
            "messages of queries, which found no room",
        ),
        (
            not_given,
            "WINDOWS NOT GIVEN TO THE MODULE",
            "windows, which the customisation module was not given",
        ),
    ]
}

/// The end of a sentence about the run.
pub(super) fn at_the_end(profile: &Profile) -> String {
    let parts = parts(profile).map(|(n, what, _)| (n, what));
    joined(&parts, ", ").unwrap_or_else(|| "nothing lost".to_owned())
}

/// The losses with their reasons.
pub(super) fn with_reasons(profile: &Profile) -> String {
    let parts = parts(profile).map(|(n, _, why)| (n, why));
    joined(&parts, "; ").unwrap_or_else(|| "none".to_owned())
}

/// Numbers other than 0 with their words; `None` if there is none.
fn joined(parts: &[(u64, &str)], between: &str) -> Option<String> {
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts
        .map(|(n, what)| format!("{} {what}", grouped(*n)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(between))
}
