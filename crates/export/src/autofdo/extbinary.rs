//! LLVM's sample profile as sections: a summary, names, offsets of functions, and their samples.
//!
//! Numbers are LEB128, those of the section table 64-bit little-endian. The compiler reads only the functions that it compiles, which it
//! finds by their offsets.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;

use trommel_tuple::ModuleId;

use super::text::ordered;
use super::{Compiler, Functions, Samples, samples};
use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;

/// The format.
pub(crate) struct Extbinary;

/// `SPROF42`, and the number of the format.
const MAGIC: u64 = u64::from_be_bytes(*b"SPROF42\x04");
const VERSION: u64 = 103;
const SUMMARY: u64 = 1;
const NAMES: u64 = 2;
const OFFSETS: u64 = 4;
const SAMPLES: u64 = 32;
/// Parts of a million, for which the summary has the least count.
const CUTOFFS: [u64; 16] = [
    10_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000,
    950_000, 990_000, 999_000, 999_900, 999_990, 999_999,
];

impl Format for Extbinary {
    fn name(&self) -> &'static str {
        "autofdo-extbinary"
    }

    fn about(&self) -> &'static str {
        "a sample profile as sections, smaller and sooner read"
    }

    fn modules(&self) -> Modules {
        Modules::One
    }

    fn is_for_optimisers(&self) -> bool {
        true
    }

    fn needs_lines(&self) -> bool {
        true
    }

    fn extension(&self) -> &'static str {
        "extbinary"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!(
            "llvm-profdata show --sample {file}  # then {}",
            next.compiler(file)
        )
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_compiler(module, self.name())?;
        input.check_lines(module, self.name())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let functions = samples(input, self.name(), Compiler::Llvm)?;
        let mut names = BTreeMap::new();
        for (name, samples) in &functions {
            names.insert(&name[..], 0);
            add_names(samples, &mut names);
        }
        for (number, entry) in names.values_mut().enumerate() {
            *entry = number as u64;
        }
        let (offsets, bodies) = bodies(&functions, &names);
        let sections = [
            (SUMMARY, summary(&functions)),
            (NAMES, table(&names)),
            (OFFSETS, offsets),
            (SAMPLES, bodies),
        ];
        let mut header = Vec::new();
        leb(MAGIC, &mut header);
        leb(VERSION, &mut header);
        header.extend((sections.len() as u64).to_le_bytes());
        let mut offset = (header.len() + sections.len() * 32) as u64;
        for (kind, bytes) in &sections {
            for word in [*kind, 0, offset, bytes.len() as u64] {
                header.extend(word.to_le_bytes());
            }
            offset += bytes.len() as u64;
        }
        out.write_all(&header)?;
        for (_, bytes) in &sections {
            out.write_all(bytes)?;
        }
        Ok(())
    }
}

fn leb(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

type Names<'f> = BTreeMap<&'f [u8], u64>;

fn add_names<'f>(samples: &'f Samples, names: &mut Names<'f>) {
    for position in samples.body.values() {
        names.extend(position.targets.keys().map(|name| (&name[..], 0)));
    }
    for ((_, name), inlined) in &samples.inlined {
        names.insert(name, 0);
        add_names(inlined, names);
    }
}

fn table(names: &Names<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    leb(names.len() as u64, &mut out);
    for name in names.keys() {
        out.extend(*name);
        out.push(0);
    }
    out
}

/// Offsets of functions, and their samples.
fn bodies(functions: &Functions, names: &Names<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut offsets, mut out) = (Vec::new(), Vec::new());
    leb(functions.len() as u64, &mut offsets);
    for (name, samples) in ordered(functions) {
        leb(names[name], &mut offsets);
        leb(out.len() as u64, &mut offsets);
        leb(samples.head, &mut out);
        body(name, samples, names, &mut out);
    }
    (offsets, out)
}

fn body(name: &[u8], samples: &Samples, names: &Names<'_>, out: &mut Vec<u8>) {
    leb(names[name], out);
    leb(samples.total, out);
    leb(samples.body.len() as u64, out);
    for ((lines, discriminator), position) in &samples.body {
        leb((*lines).into(), out);
        leb((*discriminator).into(), out);
        leb(position.count, out);
        leb(position.targets.len() as u64, out);
        for (target, count) in &position.targets {
            leb(names[&target[..]], out);
            leb(*count, out);
        }
    }
    leb(samples.inlined.len() as u64, out);
    for (((lines, discriminator), name), inlined) in &samples.inlined {
        leb((*lines).into(), out);
        leb((*discriminator).into(), out);
        body(name, inlined, names, out);
    }
}

fn add_counts(samples: &Samples, counts: &mut Vec<u64>) {
    counts.extend(samples.body.values().map(|position| position.count));
    samples
        .inlined
        .values()
        .for_each(|inlined| add_counts(inlined, counts));
}

/// Sum, largest and number of counts, and for each cutoff the least count of those that make up that part of the sum.
fn summary(functions: &Functions) -> Vec<u8> {
    let mut counts = Vec::new();
    functions
        .values()
        .for_each(|samples| add_counts(samples, &mut counts));
    counts.sort_unstable_by_key(|count| Reverse(*count));
    let total = counts
        .iter()
        .fold(0_u64, |sum, count| sum.saturating_add(*count));
    let head = functions
        .values()
        .map(|samples| samples.head)
        .max()
        .unwrap_or(0);
    let mut out = Vec::new();
    for number in [
        total,
        counts.first().copied().unwrap_or(0),
        head,
        counts.len() as u64,
        functions.len() as u64,
        CUTOFFS.len() as u64,
    ] {
        leb(number, &mut out);
    }
    let (mut sum, mut seen, mut least) = (0_u64, 0, 0);
    for cutoff in CUTOFFS {
        let wanted = u128::from(total) * u128::from(cutoff) / 1_000_000;
        while u128::from(sum) < wanted && seen < counts.len() {
            least = counts[seen];
            sum = sum.saturating_add(least);
            seen += 1;
        }
        for number in [cutoff, least, seen as u64] {
            leb(number, &mut out);
        }
    }
    out
}
