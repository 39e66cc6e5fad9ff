//! Convergence: how fast a profile becomes good, and when it has stopped changing.
//!
//! Source: *Stratified Sampling*, section 5.4: a compressor *reaches* an error at the first checkpoint at or below
//! it, and *settles* there at the first one from which the error stays at or below it. A checkpoint at
//! which the filter selects no tuple has no error to speak of and does not count.

use super::Point;

/// The points that judge at least one tuple.
fn judged(points: &[Point]) -> impl DoubleEndedIterator<Item = &Point> {
    points.iter().filter(|p| p.tuples > 0)
}

/// Events at the first point whose error is at most `limit` percent.
pub fn reaches(points: &[Point], limit: f64) -> Option<u64> {
    judged(points).find(|p| p.error <= limit).map(|p| p.events)
}

/// Events at the first point from which on `near` holds to the end.
fn for_good(points: &[Point], near: impl Fn(&Point) -> bool) -> Option<u64> {
    let steady = judged(points).rev().take_while(|p| near(p));
    steady.last().map(|p| p.events)
}

/// Events at the first point from which on the error is at most `limit` percent to the end.
pub fn settles(points: &[Point], limit: f64) -> Option<u64> {
    for_good(points, |p| p.error <= limit)
}

/// Events at the first point from which on the error is within `share` of the last one: the profile
/// has converged to its final error. `None` without points.
pub fn converges(points: &[Point], share: f64) -> Option<u64> {
    let last = judged(points).next_back()?.error;
    for_good(points, |p| (p.error - last).abs() <= share * last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(errors: &[f64]) -> Vec<Point> {
        let point = |(n, error): (usize, &f64)| Point {
            events: 100 * (n as u64 + 1),
            messages: 0,
            error: *error,
            tuples: 1,
            loads: 1,
            coverage: 50.0,
        };
        errors.iter().enumerate().map(point).collect()
    }

    #[test]
    fn reaching_is_not_staying() {
        let curve = points(&[9.0, 4.0, 6.0, 5.0, 4.5]);
        assert_eq!(
            (reaches(&curve, 5.0), settles(&curve, 5.0)),
            (Some(200), Some(400))
        );
        assert_eq!((reaches(&curve, 1.0), settles(&curve, 1.0)), (None, None));
        assert_eq!((settles(&curve, 9.0), settles(&[], 9.0)), (Some(100), None));
    }

    #[test]
    fn what_judges_nothing_does_not_count() {
        let mut curve = points(&[0.0, 6.0, 4.0]);
        curve[0].tuples = 0;
        assert_eq!(
            (reaches(&curve, 5.0), settles(&curve, 7.0)),
            (Some(300), Some(200))
        );
    }

    #[test]
    fn convergence_is_relative_to_the_last_error() {
        let curve = points(&[9.0, 4.4, 6.0, 4.2, 4.0]);
        assert_eq!(converges(&curve, 0.1), Some(400));
        assert_eq!(converges(&curve, 2.0), Some(100));
        assert_eq!(converges(&[], 0.1), None);
    }
}
