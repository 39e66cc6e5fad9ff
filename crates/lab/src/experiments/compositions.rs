//! Compositions of the papers' components, found by search and judged on programs that were not searched on.
//!
//! The stratified paper leaves a systematic study of other compositions to future work (section 6). Here a search ([`crate::search`]) puts
//! components together in the bytes of `H[P256]2048`, and others in those of the multi-hash paper's best. It sees some programs only; what it found is held
//! against the papers' best in the same bytes on the others.

use trommel_compress::Spec;
use trommel_profile::accuracy::Evaluation;

use super::compressors::{H, R, SEEDS};
use crate::experiment::{Experiment, Paper, exceptions};
use crate::findings::{Findings, Table, Verdict};
use crate::plan::{Need, Results};
use crate::plot::{Axis, Bar, Bars, Content, Figure, Group, Panel};
use crate::runs::geomean;
use crate::search::{Extent, Found, Space, search};
use crate::streams::Feed;
use crate::{Lab, LabError};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "compositions",
    paper: Paper::Ours,
    title: "Compositions found by search, on programs that were not searched on",
    // It evaluates what it finds as it finds it.
    needs: Vec::new,
    run,
};

const FEED: Feed = Feed::Values;
/// Programs that are searched on.
const SEARCHED: [&str; 4] = ["gcc", "perl", "python", "sqlite"];
/// Programs that what was found is judged on.
const HELD_OUT: [&str; 4] = ["lua", "gawk", "gzip", "bzip2"];
/// Events of each program that are searched on, at most.
const LENGTH: u64 = 2_000_000;
/// Seeds of each spec in the search.
const SEARCH_SEEDS: u64 = 2;
/// Added to errors in percent before they are divided: below it nobody cares.
const FLOOR: f64 = 0.01;
/// Messages may cost so much of what the rival's cost.
const COST: f64 = 1.05;

/// One search.
struct Study {
    name: &'static str,
    what: &'static str,
    space: Space,
    /// The papers' best first, and others of the same bytes or fewer.
    rivals: &'static [&'static str],
    claims: [&'static str; 2],
}

const STUDIES: [Study; 2] = [
    Study {
        name: "samplers",
        what: "samplers in 2 KB",
        space: Space {
            choices: &[5, 3, 3, 4, 4, 4, 5, 4, 4, 3, 7, 5, 3, 4, 3, 3, 2, 3],
            known: &[
                // H[P256]2048
                &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 4, 1, 0, 0, 0, 0, 0, 0],
                // D16+H[P16:phase]4096
                &[0, 0, 0, 0, 0, 3, 4, 1, 1, 0, 5, 1, 0, 0, 0, 0, 0, 0],
            ],
            text: sampler,
            // A first sampler's counter fits in, too.
            bytes: 2048 + 16,
        },
        rivals: &[H, R, "T[256]1024/2way/2bit", "D16+H[P16:phase]4096"],
        claims: [
            "A search over compositions of samplers finds one that errs less than H[P256]2048 in its bytes, at the cost of its messages, on programs that it has not seen.",
            "What the search gains on its own programs it gains on the others.",
        ],
    },
    Study {
        name: "intervals",
        what: "interval profilers in 7.5 KB",
        space: Space {
            choices: &[6, 6, 4, 3, 8, 2, 2, 2, 4, 4, 2],
            known: &[
                // M4[10k,1%]2048:C1R0P1
                &[0, 3, 0, 0, 5, 1, 0, 1, 0, 0, 0],
                // S12[10k,1%]1536:P1
                &[2, 4, 0, 0, 3, 0, 0, 1, 0, 0, 0],
            ],
            text: profiler,
            bytes: 7544,
        },
        rivals: &[
            "M4[10k,1%]2048:C1R0P1",
            "M2[10k,1%]2048:C1R1P1",
            "S12[10k,1%]1536:P1",
        ],
        claims: [
            "A search over interval profilers finds one that errs less than M4[10k,1%]2048 in its bytes, on programs that it has not seen.",
            "What the search gains on its own programs it gains on the others.",
        ],
    },
];

/// Text of a composition of samplers.
fn sampler(d: &[usize]) -> String {
    let filter = match [0, 16, 32, 64, 96][d[0]] {
        0 => String::new(),
        entries => format!(
            "F[{},{}]{entries}:K{}N{}+",
            ["1%", "2%", "5%"][d[1]],
            [16, 32, 64][d[2]],
            [0, 3, 7, 15][d[3]],
            [0, 15, 63, 255][d[4]]
        ),
    };
    let first = [1, 2, 4, 8, 16][d[6]];
    let thinning = match ["", "P", "R", "D"][d[5]] {
        _ if first == 1 => String::new(),
        "" => String::new(),
        rule => format!("{rule}{first}+"),
    };
    let all = [128, 256, 384, 512][d[7]];
    let rate = if thinning.is_empty() {
        all
    } else {
        all / first
    };
    let rule = match d[8] {
        0 => format!("P{rate}"),
        1 => format!("P{rate}:phase"),
        2 => format!("D{rate}"),
        _ => format!("R{rate}"),
    };
    let hash = ["", ":mul", ":crc"][d[9]];
    let size = 128_u32 << d[10];
    let level = match d[11] {
        0 => rule,
        1 | 2 => format!("H{hash}[{rule}]{size}"),
        3 => {
            let outer = [2, 4, 16][d[12]];
            format!("H{hash}[H[{rule}]{}]{outer}", size / outer)
        }
        _ => format!(
            "T{hash}[{rate}]{size}/{}way/{}bit:E{}R{}",
            [1, 2, 4][d[12]],
            [1, 2, 4, 6][d[13]],
            [2, 4, 8][d[14]],
            [4, 8, 16][d[15]]
        ),
    };
    let table = match d[16] {
        0 => String::new(),
        _ => format!("+A{}", [4, 8, 16][d[17]]),
    };
    format!("{filter}{thinning}{level}{table}")
}

/// Text of an interval profiler.
fn profiler(d: &[usize]) -> String {
    let name = ["M", "M", "S", "CM", "HK", "SS"][d[0]];
    let tables = match name {
        "S" => [4, 6, 8, 10, 12, 16][d[1]],
        "CM" | "HK" => [1, 1, 2, 2, 3, 4][d[1]],
        _ => [1, 2, 3, 4, 6, 8][d[1]],
    };
    let hash = ["", ":mul", ":crc", ":mul"][d[2]];
    let [c, r, p] = [d[5], d[6], d[7]];
    let early = [1, 2, 3, 4][d[8]];
    let entries = ["", "A40", "A70", "A140"][d[9]];
    let cells = tables << (4 + d[4]);
    match name {
        "SS" => format!("SS[10k,1%]{}:P{p}", [100, 300, 538][d[3]]),
        "M" => format!("M{tables}{hash}[10k,1%]{cells}:C{c}R{r}P{p}E{early}{entries}"),
        "CM" => format!("CM{tables}{hash}[10k,1%]{cells}:C{c}P{p}{entries}"),
        "HK" => format!("HK{tables}{hash}[10k,1%]{cells}:P{p}{entries}"),
        _ => format!("S{tables}{hash}[10k,1%]{cells}:P{p}E{early}{entries}"),
    }
}

/// Cycles that software spends on the messages: a filter's checks take 3 more on each (*Stratified Sampling*, section 5.3.2).
fn cycles(e: &Evaluation) -> f64 {
    let checks = if e.spec.filter.is_some() { 3 } else { 0 };
    e.overhead_cycles() as f64 + (checks * e.messages) as f64
}

/// Error in percent, and cycles of messages, over seeds.
fn figures(results: &Results, program: &str, spec: &str, seeds: u64) -> Option<(f64, f64)> {
    let error = |e: &Evaluation| e.error.unwrap_or(f64::NAN);
    let error = results.mean(program, FEED, spec, seeds, error)?;
    let cost = results.mean(program, FEED, spec, seeds, cycles)?;
    error.is_finite().then_some((error, cost))
}

/// Error and cost of a spec against those of a rival: geometric means over programs. Nothing without a program that has both.
fn against(
    results: &Results,
    programs: &[&str],
    spec: &str,
    rival: &str,
    seeds: u64,
) -> Option<(f64, f64)> {
    let of = |program: &&str| {
        let (error, cost) = figures(results, program, spec, seeds)?;
        let (other, its) = figures(results, program, rival, seeds)?;
        Some((
            (error + FLOOR) / (other + FLOOR),
            (cost + 1.0) / (its + 1.0),
        ))
    };
    let all: Vec<_> = programs.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| {
        (
            geomean(all.iter().map(|r| r.0)),
            geomean(all.iter().map(|r| r.1)),
        )
    })
}

/// Result of a study: what was found and its ratio on the programs that were searched on, and evaluations on the others.
struct Outcome {
    found: Vec<Found>,
    judged: Results,
}

/// Searches, and evaluates the best on the other programs.
fn study(lab: &Lab<'_>, study: &Study) -> Result<Option<Outcome>, LabError> {
    // Recorded in full now, so that the search does not record less.
    let mut any = false;
    for program in lab.programs.iter().filter(|p| SEARCHED.contains(&p.name)) {
        any |= lab.stream(program, FEED)?.is_some();
    }
    if !any {
        return Ok(None);
    }
    let short = Lab {
        trommel: lab.trommel.clone(),
        cache: lab.cache.clone(),
        events: lab.events.min(LENGTH),
        ..*lab
    };
    let extent = Extent {
        seed: 1,
        rounds: if lab.is_quick() { 2 } else { 5 },
        specs: if lab.is_quick() { 16 } else { 20 },
        kept: 6,
    };
    let rival = study.rivals[0];
    let found = search(&study.space, extent, |specs: &[Spec]| {
        let all = specs.iter().map(Spec::to_string).chain([rival.to_owned()]);
        let need = Need::of(FEED, all).seeds(SEARCH_SEEDS).on(&SEARCHED);
        let results = short.evaluate(&[need])?;
        let score = |spec: &Spec| {
            let spec = spec.to_string();
            match against(&results, &SEARCHED, &spec, rival, SEARCH_SEEDS) {
                Some((error, cost)) if cost <= COST => error,
                _ => f64::NAN,
            }
        };
        Ok::<_, LabError>(specs.iter().map(score).collect())
    })?;
    let best = found.iter().take(SHOWN).map(|f| f.spec.to_string());
    let rivals = study.rivals.iter().map(|r| (*r).to_owned());
    let need = Need::of(FEED, best.chain(rivals))
        .seeds(SEEDS)
        .on(&HELD_OUT);
    let judged = lab.evaluate(&[need])?;
    Ok(Some(Outcome { found, judged }))
}

/// The best ones that are shown.
const SHOWN: usize = 2;

fn run(lab: &Lab<'_>, _: &Results) -> Findings {
    let mut found = Findings::default();
    let mut panels = Vec::new();
    for of in &STUDIES {
        let outcome = study(lab, of).unwrap_or_else(|error| {
            (lab.say)(&error.to_string());
            None
        });
        let mut table = Table::new(
            of.name,
            &[
                "program",
                "spec",
                "origin",
                "bytes",
                "messages",
                "cycles of messages",
                "error in %",
            ],
        );
        if let Some(outcome) = &outcome {
            panels.push(shown(&mut table, of, outcome));
        }
        found.tables.push(table);
        judge(&mut found, of, outcome.as_ref());
    }
    found.figures.push((
        String::new(),
        Figure {
            title: "Errors on programs that were not searched on".into(),
            panels,
            columns: 1,
            height: 260.0,
        },
    ));
    found.notes.push(format!(
        "Searched on the first {} values of {}, with {SEARCH_SEEDS} seeds; judged on all events of {}, with {SEEDS}. Ratios are geometric means over programs, with {FLOOR} % added to errors. \
         Messages of a sampler may cost {:.0} % more than those of {H}, at 30 cycles each and 33 after a filter.",
        crate::plot::short(lab.events.min(LENGTH) as f64),
        SEARCHED.join(", "),
        HELD_OUT.join(", "),
        100.0 * (COST - 1.0),
    ));
    found
}

/// Puts errors into the table, and makes a panel of them.
fn shown(table: &mut Table, of: &Study, outcome: &Outcome) -> Panel {
    let best: Vec<String> = outcome
        .found
        .iter()
        .take(SHOWN)
        .map(|f| f.spec.to_string())
        .collect();
    let specs: Vec<&str> = best
        .iter()
        .map(String::as_str)
        .chain(of.rivals.iter().copied())
        .collect();
    let mut groups = Vec::new();
    for program in outcome.judged.programs(FEED) {
        let mut bars = Vec::new();
        for (n, spec) in specs.iter().enumerate() {
            let Some((error, cost)) = figures(&outcome.judged, program, spec, SEEDS) else {
                continue;
            };
            let messages = outcome
                .judged
                .mean(program, FEED, spec, SEEDS, |e| e.messages as f64);
            table.row([
                program.into(),
                (*spec).into(),
                if n < best.len() { "found" } else { "known" }.into(),
                spec.parse::<Spec>().ok().and_then(|s| s.bytes()).into(),
                messages.into(),
                cost.into(),
                error.into(),
            ]);
            bars.push(Bar {
                label: String::new(),
                parts: vec![(n, error)],
            });
        }
        groups.push(Group {
            label: program.into(),
            bars,
        });
    }
    Panel {
        title: of.what.into(),
        x: Axis::linear(""),
        y: Axis::linear("error in %"),
        content: Content::Bars(Bars {
            series: specs.iter().map(|s| (*s).to_owned()).collect(),
            groups,
            numbers: false,
        }),
        marks: Vec::new(),
    }
}

fn judge(found: &mut Findings, of: &Study, outcome: Option<&Outcome>) {
    let best = outcome.and_then(|o| Some((o, o.found.first()?)));
    let ratio = best.and_then(|(o, best)| {
        let spec = best.spec.to_string();
        let all = of
            .rivals
            .iter()
            .map(|rival| against(&o.judged, &HELD_OUT, &spec, rival, SEEDS));
        Some((o, best, spec.clone(), all.collect::<Option<Vec<_>>>()?))
    });
    let Some((o, best, spec, ratios)) = ratio else {
        for claim in of.claims {
            found.claim(claim, "", Verdict::NoData);
        }
        return;
    };
    let cases: Vec<_> = HELD_OUT
        .iter()
        .filter_map(|program| {
            let (error, _) = figures(&o.judged, program, &spec, SEEDS)?;
            let (other, _) = figures(&o.judged, program, of.rivals[0], SEEDS)?;
            Some((*program, error <= other + FLOOR))
        })
        .collect();
    let (n, not) = exceptions(&cases);
    let words = of.rivals.iter().zip(&ratios);
    let words: Vec<_> = words
        .map(|(rival, (error, cost))| format!("{error:.2} of {rival} at {cost:.2} of its cost"))
        .collect();
    let (error, cost) = ratios[0];
    let verdict = Verdict::of_cases(n, cases.len());
    found.claim(
        of.claims[0],
        format!(
            "{spec}, {} bytes: on {} its error is {}; not above that of {} on {n} of {}{not} (rule: on all, and at {COST} times the cost at most).",
            best.spec.bytes().unwrap_or(0),
            HELD_OUT.join(", "),
            words.join(", "),
            of.rivals[0],
            cases.len(),
        ),
        match verdict {
            Verdict::Holds | Verdict::Partly if error >= 1.0 || cost > COST => Verdict::Fails,
            verdict => verdict,
        },
    );
    found.claim(
        of.claims[1],
        format!(
            "{:.2} of the error of {} on {}, {error:.2} on {} (rule: at most a fifth more).",
            best.score,
            of.rivals[0],
            SEARCHED.join(", "),
            HELD_OUT.join(", "),
        ),
        Verdict::when(Some(error <= 1.2 * best.score)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_begins_with_the_best_that_are_known() {
        for study in &STUDIES {
            for draft in study.space.known {
                let spec: Spec = (study.space.text)(draft).parse().expect("a spec");
                let is_it = |rival: &&str| rival.parse() == Ok(spec);
                assert!(study.rivals.iter().any(is_it), "{spec}");
                assert!(spec.bytes() <= Some(study.space.bytes), "{spec}");
            }
        }
    }
}
