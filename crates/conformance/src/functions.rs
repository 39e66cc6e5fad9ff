//! Self instructions of functions, as `report --json` has them, against callgrind's.
//!
//! Callgrind counts each round of a repeated string instruction. One such instruction is one execution to Trommel, so its executions are taken
//! as those of the instruction before it; where something else leads to it, its function is not compared.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use serde_json::Value;

use crate::elf::Image;

/// A function of the program: its parts, and what it executed.
#[derive(Debug)]
pub struct Executed {
    /// Its name, or its start; empty of code outside of all functions.
    pub name: String,
    /// Its parts.
    pub parts: Vec<Range<u64>>,
    /// Instructions.
    pub own: u64,
}

/// Reads the functions of the module at `main` in a report.
pub fn from_report(json: &str, main: &Path) -> Result<Vec<Executed>, String> {
    let report: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
    let modules = report["modules"].as_array().ok_or("no modules")?;
    let is_main = |m: &&Value| m["path"].as_str().map(Path::new) == Some(main);
    let id = &modules.iter().find(is_main).ok_or("no such module")?["id"];
    let number = |v: &Value| v.as_u64().ok_or_else(|| format!("{v} is no number"));
    let range = |v: &Value| -> Result<Range<u64>, String> {
        let start = number(&v["start"])?;
        Ok(start..start + number(&v["size"])?)
    };
    let all = report["functions"].as_array().ok_or("no functions")?;
    let here = all.iter().filter(|f| f["module"] == *id);
    here.map(|f| {
        if f["start"].is_null() {
            return Ok(Executed {
                name: String::new(),
                parts: Vec::new(),
                own: number(&f["self"])?,
            });
        }
        let parts = f["parts"].as_array().ok_or("no parts")?;
        let parts: Result<Vec<_>, String> = parts.iter().map(range).collect();
        let parts = parts?;
        let mut whole = range(f)?;
        // The size is that of all parts.
        whole.end -= parts.iter().map(|p| p.end - p.start).sum::<u64>();
        Ok(Executed {
            name: match f["linkage_name"].as_str() {
                Some(name) => name.to_owned(),
                None => format!("{:#x}", whole.start),
            },
            parts: std::iter::once(whole).chain(parts).collect(),
            own: number(&f["self"])?,
        })
    })
    .collect()
}

/// Compares with executions of each instruction. Returns in words what was compared.
pub fn compare(
    image: &Image,
    expected: &BTreeMap<u64, u64>,
    got: &[Executed],
) -> Result<String, String> {
    let mut wrong = Vec::new();
    let (mut functions, mut instructions, mut left_out) = (0, 0, 0);
    let mut rest = expected.clone();
    for function in got.iter().filter(|f| !f.parts.is_empty()) {
        let mut sum = Some(0_u64);
        for part in &function.parts {
            for (&at, &times) in expected.range(part.clone()) {
                rest.remove(&at);
                let own = once(image, expected, at, times);
                sum = sum.zip(own).map(|(sum, own)| sum + own);
            }
        }
        match sum {
            None => left_out += 1,
            Some(sum) if sum == function.own => {
                functions += 1;
                instructions += sum;
            }
            Some(sum) => wrong.push(format!("{}: {} of {sum}", function.name, function.own)),
        }
    }
    // Code outside of all functions is one entry, without parts.
    let outside = got.iter().find(|f| f.parts.is_empty()).map_or(0, |f| f.own);
    let sum: u64 = rest.values().sum();
    if sum != outside {
        let places: Vec<String> = rest.keys().map(|at| format!("{at:#x}")).collect();
        wrong.push(format!(
            "outside of functions: {outside} of {sum} ({})",
            places.join(", ")
        ));
    }
    if wrong.len() > 20 {
        let more = wrong.len() - 20;
        wrong.truncate(20);
        wrong.push(format!("and {more} more"));
    }
    match wrong.is_empty() && functions > 0 {
        true => Ok(format!(
            "{functions} functions with {instructions} instructions are equal, {left_out} left out"
        )),
        false => Err(format!("{functions} are equal; not: {}", wrong.join("; "))),
    }
}

/// Executions of an instruction, a repeated one as one; `None` where that is not known.
fn once(image: &Image, all: &BTreeMap<u64, u64>, at: u64, times: u64) -> Option<u64> {
    let decode = |at: u64| -> Option<Instruction> {
        let i = Decoder::with_ip(64, image.code(at)?, at, DecoderOptions::NONE).decode();
        (!i.is_invalid()).then_some(i)
    };
    let Some(instruction) = decode(at) else {
        return Some(times);
    };
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if !(repeats && instruction.is_string_instruction()) {
        return Some(times);
    }
    let (&before, &executed) = all.range(..at).next_back()?;
    let leads =
        decode(before).is_some_and(|i| i.next_ip() == at && i.flow_control() == FlowControl::Next);
    leads.then_some(executed)
}
