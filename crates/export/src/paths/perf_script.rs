//! The text of `perf script`: a paragraph for each sample, innermost function first.
//!
//! It is what most converters of perf's samples read. Some add up periods, others count paragraphs, so each sample is one. When samples were taken is not
//! known: their times follow each other, in the order of the tree. Exact contexts are no samples, and are refused.

use std::io::Write;

use trommel_profile::call_tree::Basis;
use trommel_symbol::{Symbols, printable};

use super::apart::Owner;
use super::{CallPaths, PathFormat};
use crate::error::ExportError;

/// Samples that are written.
const MOST_SAMPLES: u64 = 10_000_000;
const SECOND: u64 = 1_000_000_000;

/// The format.
pub(super) const FORMAT: PathFormat = PathFormat {
    name: "perf-script",
    about: "samples with their stacks, as perf script prints them",
    extension: "perf.txt",
    next,
    most: u64::MAX,
    tells_processes: true,
    whole_paths: true,
    write,
};

fn next(file: &str, _basis: Basis) -> String {
    format!("inferno-collapse-perf {file} | inferno-flamegraph > flame.svg")
}

fn write(
    paths: &CallPaths<'_>,
    symbols: &mut Symbols<'_>,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    if paths.tree.basis != Basis::Stacks {
        return Err(ExportError::NoSamples {
            format: FORMAT.name,
        });
    }
    let samples = paths.total().times;
    if samples > MOST_SAMPLES {
        return Err(ExportError::ManySamples {
            format: FORMAT.name,
            samples,
        });
    }
    let mut time = 0;
    paths.each(symbols, |owner, own, symbols| {
        paragraphs(own, owner, symbols, &mut time, out)
    })
}

/// Writes the samples of a process.
fn paragraphs(
    paths: &CallPaths<'_>,
    owner: Owner<'_>,
    symbols: &mut Symbols<'_>,
    time: &mut u64,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let Owner { pid, tid, .. } = owner;
    let program = header(owner.program);
    let names: Vec<String> = paths.functions.iter().map(|f| function(&f.name)).collect();
    for (number, weight) in paths.shallow().into_iter().enumerate() {
        let times = weight.times;
        if times == 0 {
            continue;
        }
        let mut stack = String::new();
        for n in paths.path(number) {
            let PathNodeText { address, offset } = text(paths, symbols, n);
            let name = &names[paths.nodes[n].function];
            let module = match paths.nodes[n].inlined {
                true => "inlined".to_owned(),
                // It ends at the last space.
                false => one_word(&paths.module(paths.function(n).module)),
            };
            stack.push_str(&format!("\t{address:16x} {name}{offset} ({module})\n"));
        }
        for sample in 0..times {
            // The rest of the division belongs to the first samples.
            let extra = u64::from(sample < weight.own % times);
            let period = weight.own / times + extra;
            let (whole, part) = (*time / SECOND, *time % SECOND / 1000);
            writeln!(
                out,
                "{program} {pid}/{tid} {whole:5}.{part:06}: {period:10} cpu-clock:ppp: "
            )?;
            writeln!(out, "{stack}")?;
            *time = time.saturating_add(period);
        }
    }
    Ok(())
}

struct PathNodeText {
    address: u64,
    offset: String,
}

/// The run-time address of a node's place, and its distance from the function's start.
fn text(paths: &CallPaths<'_>, symbols: &mut Symbols<'_>, number: usize) -> PathNodeText {
    let node = &paths.nodes[number];
    let module = paths
        .profile
        .modules
        .iter()
        .find(|m| m.id == node.at.module());
    let bias = module
        .and_then(|m| m.loaded)
        .map_or(0, |loaded| loaded.bias);
    let offset = match node.inlined {
        true => String::new(),
        false => format!("+{:#x}", symbols.locate(node.at).offset),
    };
    PathNodeText {
        address: node.at.vaddr().0.wrapping_add(bias),
        offset,
    }
}

fn one_word(text: &str) -> String {
    printable(text).replace(char::is_whitespace, "_")
}

/// A program's name as readers find it in a line: they put it before frames with semicolons. A word of digits would be the process, and what begins
/// with `#` a comment.
fn header(program: &str) -> String {
    let name = one_word(program).replace(';', ":");
    match name.starts_with('#') || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

/// A function's name as readers find it in a line. They leave out a name that begins with a bracket, and take an arrow for an inlined call.
fn function(name: &str) -> String {
    let name = printable(name).replace("->", "- >");
    let name = name.trim();
    match name.strip_prefix('(') {
        Some(rest) => format!("{{{}", rest.replacen(')', "}", 1)),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{profile, written};
    use super::*;

    #[test]
    fn each_sample_is_a_paragraph() {
        let samples = profile(Basis::Stacks, &[(&[1, 2], 5), (&[3], 8)]);
        let bytes = written(&FORMAT, &samples).expect("perf script");
        let text = String::from_utf8(bytes).expect("text");
        let paragraphs: Vec<&str> = text.split("\n\n").filter(|p| !p.is_empty()).collect();
        assert_eq!(paragraphs.len(), 4);
        assert!(paragraphs[0].contains("app 0/0     0.000000:          3 cpu-clock"));
        let inner = paragraphs[0].lines().nth(1).expect("a frame");
        assert_eq!(inner.trim(), "2 [m;2]+0x0 ([m;2])");
    }

    #[test]
    fn names_of_files_end_no_lines() {
        let mut samples = profile(Basis::Stacks, &[(&[1, 2], 5)]);
        samples.command = vec![b"/bin/a;b\nc".to_vec()];
        for module in &mut samples.modules {
            module.path = b"/bin/a;b\nc".to_vec();
        }
        let text = String::from_utf8(written(&FORMAT, &samples).expect("perf script"));
        let text = text.expect("text");
        let (first, frames) = text.split_once('\n').expect("lines");
        assert!(first.starts_with("a:b\\nc 0/0 "), "{first}");
        let frames = frames.split_once("\n\n").expect("an end").0;
        assert_eq!(frames.matches("(/bin/a;b\\nc)").count(), 2, "{frames}");
        assert_eq!(frames.lines().count(), 2, "{frames}");
    }

    #[test]
    fn a_deep_sample_has_the_outermost_functions() {
        use super::super::shallow::MOST_DEEP;
        let path: Vec<u16> = (0..MOST_DEEP as u16 + 5)
            .map(|n| n.min(1) + n % 2)
            .collect();
        let samples = profile(Basis::Stacks, &[(&path, 5)]);
        let text = String::from_utf8(written(&FORMAT, &samples).expect("perf script"));
        let text = text.expect("text");
        let frames: Vec<&str> = text.lines().filter(|l| l.starts_with('\t')).collect();
        assert_eq!(frames.len(), MOST_DEEP * text.matches("cpu-clock").count());
        let ends = [frames[0], frames[MOST_DEEP - 1]].map(|f| f.split_whitespace().last());
        assert_eq!(ends, [Some("([m;2])"), Some("([m;0])")]);
    }

    #[test]
    fn more_samples_than_anybody_takes_are_refused() {
        let mut samples = profile(Basis::Stacks, &[(&[1], 5)]);
        let weight = trommel_profile::call_tree::Weight {
            times: MOST_SAMPLES,
            own: 1,
        };
        samples
            .call_tree_mut(Basis::Stacks)
            .weigh(trommel_profile::call_tree::NodeId(0), weight);
        let why = written(&FORMAT, &samples).expect_err("refused");
        assert!(why.contains("10000002 samples"), "{why}");
    }

    #[test]
    fn contexts_are_refused() {
        let exact = profile(Basis::Contexts, &[(&[1], 5)]);
        let why = written(&FORMAT, &exact).expect_err("refused");
        assert!(why.contains("folded"), "{why}");
    }
}
