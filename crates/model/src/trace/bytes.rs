//! Executions as bytes.
//!
//! An execution is a head, followed by what the head announces. Its bits:
//!
//! ```text
//! 0         the instruction is not the one that followed last time
//! 1         taken
//! 2         repetitions differ from 1
//! 3, 4      an address differs from the last one of the instruction
//! 5 to 12   a word differs
//! ```
//! What is announced follows in that order: the instruction, repetitions, and differences with the sign in bit 0.
//! Each number has seven bits a byte.

use super::execution::{Execution, History};

const ELSEWHERE: u64 = 1;
const TAKEN: u64 = 1 << 1;
const REPEATS: u64 = 1 << 2;
const ADDRESS: u32 = 3;
const WORD: u32 = 5;

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn get_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

const fn folded(difference: u64) -> u64 {
    let signed = difference as i64;
    ((signed << 1) ^ (signed >> 63)) as u64
}

const fn unfolded(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

/// Keeps an execution as the last one of its instruction.
fn remember(history: &mut [History], at: &mut usize, execution: &Execution) {
    if let Some(before) = history.get_mut(*at) {
        before.next = execution.code;
    }
    *at = execution.code as usize;
    history[*at].last = *execution;
}

/// Writes an execution.
pub(super) fn put(
    out: &mut Vec<u8>,
    history: &mut [History],
    at: &mut usize,
    execution: &Execution,
) {
    let last = history[execution.code as usize].last;
    let elsewhere = history[*at].next != execution.code;
    let mut head = if elsewhere { ELSEWHERE } else { 0 };
    head |= if execution.taken { TAKEN } else { 0 };
    head |= if execution.repeats == 1 { 0 } else { REPEATS };
    let addresses = execution.addresses.iter().zip(last.addresses);
    let words = execution.words.iter().zip(last.words);
    let differ =
        |from: u32, n: usize, new: u64, old: u64| u64::from(new != old) << (from + n as u32);
    for (n, (new, old)) in addresses.clone().enumerate() {
        head |= differ(ADDRESS, n, *new, old);
    }
    for (n, (new, old)) in words.clone().enumerate() {
        head |= differ(WORD, n, *new, old);
    }
    put_number(out, head);
    if elsewhere {
        put_number(out, execution.code.into());
    }
    if execution.repeats != 1 {
        put_number(out, execution.repeats.into());
    }
    for (new, old) in addresses.chain(words) {
        if *new != old {
            put_number(out, folded(new.wrapping_sub(old)));
        }
    }
    remember(history, at, execution);
}

/// Reads an execution; none where the bytes are none.
pub(super) fn get(bytes: &mut &[u8], history: &mut [History], at: &mut usize) -> Option<Execution> {
    let head = get_number(bytes)?;
    let code = match head & ELSEWHERE {
        0 => history.get(*at)?.next,
        _ => u32::try_from(get_number(bytes)?).ok()?,
    };
    let mut execution = history.get(code as usize)?.last;
    execution.code = code;
    execution.taken = head & TAKEN != 0;
    execution.repeats = match head & REPEATS {
        0 => 1,
        _ => u32::try_from(get_number(bytes)?).ok()?,
    };
    let values = (execution.addresses.iter_mut()).chain(&mut execution.words);
    for (n, value) in values.enumerate() {
        if head >> (ADDRESS + n as u32) & 1 != 0 {
            *value = value.wrapping_add(unfolded(get_number(bytes)?));
        }
    }
    remember(history, at, &execution);
    Some(execution)
}
