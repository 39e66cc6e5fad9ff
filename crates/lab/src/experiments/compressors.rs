//! The compressors of stratified section 5.4, and their curves over a run.

use trommel_profile::accuracy::Point;

use crate::Lab;
use crate::plan::{Need, Results};
use crate::plot::Line;
use crate::streams::Feed;

/// Conventional random sampling.
pub(super) const R: &str = "R256";
/// Periodic sampling.
pub(super) const P: &str = "P256";
/// The stratified periodic sampler.
pub(super) const H: &str = "H[P256]2048";
/// The same at half the rate.
pub(super) const H512: &str = "H[P512]2048";
/// The 2-bit tagged compressor, 2-way, 8-bit hit counters.
pub(super) const T: &str = "T[256]2048/2way/2bit";

/// All five, as the paper's figures 7 and 8 show them.
pub(super) const FIVE: [&str; 5] = [R, P, H, H512, T];

/// Seeds over which curves are averaged: of random numbers for R, of hash tables for the others.
pub(super) const SEEDS: u64 = 3;

pub(super) fn needs() -> Vec<Need> {
    vec![
        Need::of(Feed::Values, [R, H, H512, T]).seeds(SEEDS),
        Need::of(Feed::Values, [P]),
    ]
}

/// The curve of a spec on a program, the mean over the seeds, without checkpoints at which no tuple
/// passed the filter; empty where the program is missing.
pub(super) fn curve(results: &Results, program: &str, spec: &str) -> Vec<Point> {
    let seeds = if spec == P { 1 } else { SEEDS };
    let mut curve: Vec<Point> = Vec::new();
    for seed in 1..=seeds {
        let Some(evaluation) = results.get(program, Feed::Values, spec, seed) else {
            return Vec::new();
        };
        if curve.is_empty() {
            curve.clone_from(&evaluation.points);
        } else {
            for (sum, point) in curve.iter_mut().zip(&evaluation.points) {
                sum.error += point.error;
                sum.messages += point.messages;
            }
        }
    }
    for point in &mut curve {
        point.error /= seeds as f64;
        point.messages /= seeds;
    }
    curve.retain(|p| p.tuples > 0);
    curve
}

/// The reason why a program has no curve, in words.
pub(super) fn missing(lab: &Lab<'_>, results: &Results, program: &str) -> String {
    match results.programs(Feed::Values).contains(&program) {
        true => format!(
            "No tuple of {program} passes the filter after {} events, so there is nothing to show: ask for more (`--events 2M`).",
            crate::plot::short(lab.events as f64)
        ),
        false => format!("{program} was not recorded: there is nothing to show."),
    }
}

/// The points up to `limit` events.
pub(super) fn up_to(curve: &[Point], limit: u64) -> &[Point] {
    let n = curve.iter().take_while(|p| p.events <= limit).count();
    &curve[..n]
}

/// Error over events, as a line.
pub(super) fn error_line(label: &str, curve: &[Point]) -> Line {
    Line {
        label: label.into(),
        points: curve.iter().map(|p| (p.events as f64, p.error)).collect(),
        marked: false,
    }
}
