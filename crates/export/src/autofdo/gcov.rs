//! GCC's sample profile, for `-fauto-profile`: words of 32 bits, in sections as `gcov` files have them.
//!
//! GCC 10 to 14 read version 2, strings with their length in bytes since GCC 12. A position is the line's distance from the
//! function's first line, times 2^16.

use std::collections::BTreeMap;
use std::io::Write;

use trommel_tuple::ModuleId;

use super::text::ordered;
use super::{Compiler, Functions, Samples, samples};
use crate::error::ExportError;
use crate::format::{Format, Language, Modules, Next};
use crate::input::Input;

/// The format.
pub(crate) struct Gcov;

const MAGIC: u32 = u32::from_be_bytes(*b"gcda");
const VERSION: u32 = 2;
const NAMES: u32 = 0xaa00_0000;
const FUNCTIONS: u32 = 0xac00_0000;
const MODULES: u32 = 0xae00_0000;
/// GCC's number for targets of indirect calls; it is read and not looked at.
const INDIRECT_CALL: u32 = 0;

impl Format for Gcov {
    fn name(&self) -> &'static str {
        "gcov-autofdo"
    }

    fn about(&self) -> &'static str {
        "a sample profile, for gcc -fauto-profile (GCC 12 and later)"
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
        "afdo"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let Next { file, made, .. } = next;
        let flags = format!("{} -fauto-profile={file}", next.flags());
        match next.source {
            _ if next.language == Language::Rust => {
                format!(
                    "# gcc compiles no Rust: the profile is of use for C and C++ in {}",
                    next.module
                )
            }
            Some(source) => {
                format!("gcc {flags} -c {source} -o {made}.o  # and the other sources likewise")
            }
            None => format!("# compile the sources with gcc {flags}"),
        }
    }

    fn check(&self, input: &Input<'_, '_>, module: ModuleId) -> Result<(), ExportError> {
        input.check_compiler(module, self.name())?;
        input.check_lines(module, self.name())
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let functions = samples(input, self.name(), Compiler::Gcc)?;
        out.write_all(&file(&functions))?;
        Ok(())
    }
}

type Names = BTreeMap<Vec<u8>, u32>;

fn file(functions: &Functions) -> Vec<u8> {
    let mut names = Names::new();
    for (name, samples) in functions {
        names.insert(original(name), 0);
        add_names(samples, &mut names);
    }
    // Number 0 is no function.
    for (number, entry) in names.values_mut().enumerate() {
        *entry = number as u32 + 1;
    }
    let mut strings = Vec::new();
    word(names.len() as u32 + 1, &mut strings);
    string(b"", &mut strings);
    names.keys().for_each(|name| string(name, &mut strings));
    let mut bodies = Vec::new();
    word(functions.len() as u32, &mut bodies);
    for (name, samples) in ordered(functions) {
        counter(samples.head, &mut bodies);
        body(name, samples, &names, &mut bodies);
    }
    let mut out = Vec::new();
    for number in [MAGIC, VERSION, 0] {
        word(number, &mut out);
    }
    section(NAMES, &strings, &mut out);
    section(FUNCTIONS, &bodies, &mut out);
    section(MODULES, &0_u32.to_le_bytes(), &mut out);
    out
}

/// The name without what compilers add to copies of functions.
fn original(name: &[u8]) -> Vec<u8> {
    name.split(|c| *c == b'.').next().unwrap_or(name).to_vec()
}

fn add_names(samples: &Samples, names: &mut Names) {
    for position in samples.body.values() {
        names.extend(position.targets.keys().map(|name| (original(name), 0)));
    }
    for ((_, name), inlined) in &samples.inlined {
        names.insert(original(name), 0);
        add_names(inlined, names);
    }
}

fn word(value: u32, out: &mut Vec<u8>) {
    out.extend(value.to_le_bytes());
}

fn counter(value: u64, out: &mut Vec<u8>) {
    out.extend(value.to_le_bytes());
}

fn string(text: &[u8], out: &mut Vec<u8>) {
    word(text.len() as u32 + 1, out);
    out.extend(text);
    out.push(0);
}

fn section(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    word(tag, out);
    word(bytes.len() as u32, out);
    out.extend(bytes);
}

fn body(name: &[u8], samples: &Samples, names: &Names, out: &mut Vec<u8>) {
    word(names[&original(name)], out);
    word(samples.body.len() as u32, out);
    word(samples.inlined.len() as u32, out);
    for ((lines, _), position) in &samples.body {
        word(lines << 16, out);
        word(position.targets.len() as u32, out);
        counter(position.count, out);
        for (target, count) in &position.targets {
            word(INDIRECT_CALL, out);
            counter(names[&original(target)].into(), out);
            counter(*count, out);
        }
    }
    for (((lines, _), name), inlined) in &samples.inlined {
        word(lines << 16, out);
        body(name, inlined, names, out);
    }
}
