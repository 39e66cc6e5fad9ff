//! Stratified figure 4: estimating the frequency of one tuple in streams of random order.
//!
//! As the paper: t = 0.3·N copies of a tuple among N, in random order, sampled one in 10; the mean of
//! |100·(t − EST) ÷ EST| over 2500 streams for each N. The paper leaves open what the other 70 % are
//! and how many substreams there were: all different, and 4, give the lengths that it prints.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use trommel_compress::random::SplitMix64;
use trommel_compress::{FirstLevel, Seeds, Spec};
use trommel_profile::accuracy::Estimator;
use trommel_profile::accuracy::theory::{Length, sampling_error};
use trommel_tuple::{Events, Kind, Message, ModuleId, Place, Tuple, Vaddr};

use crate::Lab;
use crate::experiment::{Experiment, Paper, mean, percent};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::Results;
use crate::plot::{Axis, Content, Figure, Line, Panel};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "stratified-4",
    paper: Paper::Stratified,
    title: "Figure 4: error of estimating the frequency of a tuple, by stream length",
    needs: Vec::new,
    run,
};

const SAMPLERS: [&str; 7] = [
    "R10", "H[R10]4", "P10", "CR10", "H[P10]4", "H[CR10]4", "CR10:sum",
];
const STEP: u64 = 1000;
const LENGTHS: u64 = 20;

/// The mean error of each sampler at a length, over `trials` streams.
fn errors(length: u64, trials: u32) -> Vec<f64> {
    let place = |n: u64| Place::new(ModuleId(1), Vaddr(0x40_0000 + 4 * n));
    let specs = SAMPLERS.map(|s| s.parse::<Spec>().unwrap_or_else(|e| panic!("{s}: {e}")));
    let hot = length * 3 / 10;
    let mut sums = vec![0.0; SAMPLERS.len()];
    let mut tried = vec![0.0; SAMPLERS.len()];
    for trial in 0..u64::from(trials) {
        let mut random = SplitMix64::new(length << 32 | trial);
        let one = Tuple::new(place(0), 7);
        let mut stream: Vec<Tuple> = (0..length)
            .map(|n| match n {
                n if n < hot => one,
                n => Tuple::new(place(n % 512 + 1), n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            })
            .collect();
        for i in (1..stream.len()).rev() {
            stream.swap(i, random.below(i as u64 + 1) as usize);
        }
        for (index, spec) in specs.iter().enumerate() {
            let seeds = Seeds {
                hash: trial % 64 + 1,
                random: random.draw(),
            };
            let mut estimator = Estimator::new(spec, seeds);
            let mut sampler = FirstLevel::new(spec, seeds);
            let mut sink = |message: Message| {
                estimator.message(&message, usize::from(message.tuple != one));
            };
            sampler.events(Events::of_kind(Kind::Value, &stream), &mut sink);
            let estimate = estimator.estimate(0);
            if estimate > 0.0 {
                sums[index] += 100.0 * (hot as f64 - estimate).abs() / estimate;
                tried[index] += 1.0;
            }
        }
    }
    sums.iter().zip(&tried).map(|(s, n)| s / n).collect()
}

/// Returns where a falling curve crosses `error`, between its points.
fn crossing(curve: &[(f64, f64)], error: f64) -> f64 {
    let pair = curve.windows(2).find(|w| w[0].1 > error && w[1].1 <= error);
    pair.map_or(f64::NAN, |w| {
        w[0].0 + (w[1].0 - w[0].0) * (w[0].1 - error) / (w[0].1 - w[1].1)
    })
}

fn simulate(lab: &Lab<'_>) -> Vec<Vec<f64>> {
    let next = AtomicUsize::new(0);
    let rows = Mutex::new(vec![Vec::new(); LENGTHS as usize]);
    std::thread::scope(|scope| {
        for _ in 0..lab.threads.max(1) {
            scope.spawn(|| {
                loop {
                    // The longest first.
                    let n = next.fetch_add(1, Relaxed) as u64;
                    if n >= LENGTHS {
                        return;
                    }
                    let row = errors((LENGTHS - n) * STEP, lab.trials);
                    (lab.progress)(&format!("stratified-4: {} of {LENGTHS} lengths", n + 1));
                    let mut rows = rows
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    rows[(LENGTHS - 1 - n) as usize] = row;
                }
            });
        }
    });
    rows.into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let rows = simulate(lab);
    let mut found = Findings::default();
    let mut columns = vec!["events"];
    columns.extend(SAMPLERS);
    columns.extend(["theory of R10", "theory of P10"]);
    let mut table = Table::new("", &columns);
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); SAMPLERS.len()];
    for (n, row) in rows.iter().enumerate() {
        let length = ((n as u64 + 1) * STEP) as f64;
        for (curve, error) in curves.iter_mut().zip(row) {
            curve.push((length, *error));
        }
        let theory = |of| sampling_error(of, 10.0, 0.3 * length, 0.3);
        let mut cells = vec![length.into()];
        cells.extend(row.iter().map(|e| (*e).into()));
        cells.extend([
            theory(Length::Estimated).into(),
            theory(Length::Counted).into(),
        ]);
        table.row(cells);
    }
    found.tables.push(table);
    let lines = SAMPLERS.iter().zip(&curves).map(|(name, curve)| Line {
        label: (*name).into(),
        points: curve.clone(),
        marked: true,
    });
    found.figures.push((
        String::new(),
        Figure {
            title: format!(
                "Mean error of the estimated frequency of a tuple, {} streams a point",
                lab.trials
            ),
            panels: vec![Panel {
                title: String::new(),
                x: Axis::linear("events in the stream"),
                y: Axis::linear("mean error in %").up_to(16.0),
                content: Content::Lines(lines.collect()),
                marks: vec![(4.0, "4 %".into())],
            }],
            columns: 1,
            height: 380.0,
        },
    ));
    judge(&mut found, &curves);
    found
}

fn judge(found: &mut Findings, curves: &[Vec<(f64, f64)>]) {
    // Ratios of errors are steady over the length: their mean is what is compared.
    let ratio = |a: usize, b: usize| mean(curves[a].iter().zip(&curves[b]).map(|(a, b)| a.1 / b.1));
    let within = [ratio(1, 0), ratio(3, 2), ratio(5, 4)];
    let between = [ratio(0, 2), ratio(2, 4)];
    let classes =
        within.iter().all(|r| (0.93..1.07).contains(r)) && between.iter().all(|r| *r > 1.1);
    found.claim(
        "Three classes, from worst to best: {R, H[R]}, {P, CR}, {H[P], H[CR]}.",
        format!(
            "Within classes errors differ by {:.0}, {:.0} and {:.0} % (rule: below 7 %), between them by {:.0} \
             and {:.0} % (rule: above 10 %); CR and H[CR] with the ratio estimator.",
            100.0 * (within[0] - 1.0).abs(),
            100.0 * (within[1] - 1.0).abs(),
            100.0 * (within[2] - 1.0).abs(),
            100.0 * (between[0] - 1.0),
            100.0 * (between[1] - 1.0),
        ),
        Verdict::when(between[0].is_finite().then_some(classes)),
    );
    let (r, h) = (crossing(&curves[0], 4.0), crossing(&curves[4], 4.0));
    let near = |ours: f64, paper: f64| (ours / paper - 1.0).abs() < 0.1;
    found.claim(
        "At 4 % error R needs 12000 events, H[P] 4600: almost three times fewer.",
        format!(
            "R {r:.0}, H[P] {h:.0}: {:.1} times fewer (rule: both within 10 % of the paper's).",
            r / h
        ),
        Verdict::when(
            (r.is_finite() && h.is_finite()).then(|| near(r, 12_000.0) && near(h, 4600.0)),
        ),
    );
    let literal = mean(curves[6].iter().map(|p| p.1));
    let (worst, counted) = (
        mean(curves[0].iter().map(|p| p.1)),
        mean(curves[3].iter().map(|p| p.1)),
    );
    found.claim(
        "With a counter the estimate is the sum of the counts of the messages that hold the tuple.",
        format!(
            "Read so, CR has {} on average, worse than R without a counter ({}); when the counts tell the \
             length of the stream, samples of the tuple ÷ samples × length, it has {} (rule: the literal \
             reading is no worse than R).",
            percent(literal),
            percent(worst),
            percent(counted)
        ),
        Verdict::when(literal.is_finite().then_some(literal <= worst)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_is_met() {
        let found = errors(6000, 300);
        for (index, of) in [(0, Length::Estimated), (2, Length::Counted)] {
            let theory = sampling_error(of, 10.0, 1800.0, 0.3);
            let off = found[index] / theory;
            assert!((0.85..1.15).contains(&off), "{}: {off}", SAMPLERS[index]);
        }
    }

    #[test]
    fn crossings_lie_between_points() {
        let curve = [(1.0, 8.0), (2.0, 6.0), (3.0, 2.0)];
        assert!((crossing(&curve, 4.0) - 2.5).abs() < 1e-12);
        assert!(crossing(&curve, 1.0).is_nan());
    }
}
