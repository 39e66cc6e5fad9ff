//! Samples of the whole machine, to bytes and back.
//!
//! A process has a chunk with its threads and, in the first of a recording, what is told of all; then what was found at its places, each as the
//! difference from the place before, and the kernel's functions.

use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::samples::{At, Function, Held, Machine, Operand, Samples, Thread};
use trommel_tuple::Place;

use crate::chunk::{TARGET, Tag, Writer};
use crate::fields::{Inside, flag, of_samples, put_real, put_sampled, real, text};
use crate::varint::{Cursor, put, put_bytes};

pub(crate) fn encode<W: Write>(samples: &Samples, out: &mut Writer<W>) -> io::Result<()> {
    let Samples {
        machine,
        places,
        entered,
        threads,
    } = samples;
    let mut raw = Vec::new();
    raw.push(machine.is_some().into());
    if let Some(machine) = machine {
        of_machine(machine, &mut raw);
    }
    put(&mut raw, threads.len() as u64);
    for (tid, Thread { name, sampled }) in threads {
        put(&mut raw, (*tid).into());
        put_bytes(&mut raw, name);
        put_sampled(&mut raw, sampled);
    }
    put(&mut raw, entered.len() as u64);
    for (place, sampled) in entered {
        put(&mut raw, place.word());
        put_sampled(&mut raw, sampled);
    }
    out.chunk(Tag::Samples, &raw)?;
    raw.clear();
    let mut before = 0;
    for (place, At { sampled, operands }) in places {
        let word = place.word();
        put(&mut raw, word - before);
        before = word;
        put_sampled(&mut raw, sampled);
        raw.push(operands.len() as u8);
        for (operand, Held { sampled, values }) in operands {
            raw.push(operand.number());
            put_sampled(&mut raw, sampled);
            put(&mut raw, values.len() as u64);
            let mut last = 0;
            for (value, count) in values {
                put(&mut raw, value - last);
                put(&mut raw, *count);
                last = *value;
            }
        }
        if raw.len() >= TARGET {
            out.chunk(Tag::Found, &raw)?;
            raw.clear();
            before = 0;
        }
    }
    if !raw.is_empty() {
        out.chunk(Tag::Found, &raw)?;
    }
    raw.clear();
    let functions = machine.iter().flat_map(|machine| &machine.functions);
    for function in functions {
        let Function {
            module,
            start,
            size,
            name,
            code,
        } = function;
        put_bytes(&mut raw, module);
        put(&mut raw, *start);
        put(&mut raw, *size);
        put_bytes(&mut raw, name);
        put_bytes(&mut raw, code);
        if raw.len() >= TARGET {
            out.chunk(Tag::Functions, &raw)?;
            raw.clear();
        }
    }
    match raw.is_empty() {
        true => Ok(()),
        false => out.chunk(Tag::Functions, &raw),
    }
}

fn of_machine(machine: &Machine, raw: &mut Vec<u8>) {
    let Machine {
        budget,
        rate,
        wall,
        toll,
        host,
        taken,
        lost,
        throttled,
        kernel,
        deferred,
        decoded,
        unknown,
        processors,
        missing,
        functions: _,
    } = machine;
    put_real(raw, *budget);
    put_real(raw, *rate);
    for number in [
        wall, toll, host, taken, lost, throttled, kernel, deferred, decoded, unknown,
    ] {
        put(raw, *number);
    }
    put(raw, processors.len() as u64);
    for (number, sampled) in processors {
        put(raw, (*number).into());
        put_sampled(raw, sampled);
    }
    put(raw, missing.len() as u64);
    for why in missing {
        put_bytes(raw, why.as_bytes());
    }
}

fn small(cursor: &mut Cursor<'_>) -> Inside<u32> {
    u32::try_from(cursor.number()?).map_err(|_| "a number of samples is too large")
}

pub(crate) fn head(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let mut samples = Samples::default();
    if flag(cursor)? {
        samples.machine = Some(machine(cursor)?);
    }
    for _ in 0..cursor.number()? {
        let tid = small(cursor)?;
        let thread = Thread {
            name: cursor.bytes()?.to_vec(),
            sampled: of_samples(cursor)?,
        };
        if samples.threads.insert(tid, thread).is_some() {
            return Err("the samples of a thread are there twice");
        }
    }
    for _ in 0..cursor.number()? {
        let place = Place::from_word(cursor.number()?);
        if samples.entered.insert(place, of_samples(cursor)?).is_some() {
            return Err("a way into the kernel is there twice");
        }
    }
    match profile.samples.replace(samples) {
        None => Ok(()),
        Some(_) => Err("samples are there twice"),
    }
}

fn machine(cursor: &mut Cursor<'_>) -> Inside<Machine> {
    let mut machine = Machine {
        budget: real(cursor)?,
        rate: real(cursor)?,
        ..Machine::default()
    };
    for field in [
        &mut machine.wall,
        &mut machine.toll,
        &mut machine.host,
        &mut machine.taken,
        &mut machine.lost,
        &mut machine.throttled,
        &mut machine.kernel,
        &mut machine.deferred,
        &mut machine.decoded,
        &mut machine.unknown,
    ] {
        *field = cursor.number()?;
    }
    for _ in 0..cursor.number()? {
        let number = small(cursor)?;
        let sampled = of_samples(cursor)?;
        if machine.processors.insert(number, sampled).is_some() {
            return Err("a processor is there twice");
        }
    }
    for _ in 0..cursor.number()? {
        machine.missing.push(text(cursor)?);
    }
    Ok(machine)
}

pub(crate) fn found(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let samples = profile.samples.as_mut();
    let samples = samples.ok_or("what was found comes before the samples")?;
    let mut before = 0_u64;
    while !cursor.is_empty() {
        let word = before.checked_add(cursor.number()?);
        before = word.ok_or("a place is too large")?;
        let mut at = At {
            sampled: of_samples(cursor)?,
            ..At::default()
        };
        for _ in 0..cursor.byte()? {
            let operand = Operand::from_number(cursor.byte()?);
            let operand = operand.ok_or("an operand that does not exist")?;
            if at.operands.insert(operand, held(cursor)?).is_some() {
                return Err("an operand is there twice");
            }
        }
        let place = Place::from_word(before);
        if samples.places.insert(place, at).is_some() {
            return Err("the samples of a place are there twice");
        }
    }
    Ok(())
}

fn held(cursor: &mut Cursor<'_>) -> Inside<Held> {
    let mut held = Held {
        sampled: of_samples(cursor)?,
        ..Held::default()
    };
    let mut last = 0_u64;
    for _ in 0..cursor.number()? {
        let value = last.checked_add(cursor.number()?);
        last = value.ok_or("a value is too large")?;
        if held.values.insert(last, cursor.number()?).is_some() {
            return Err("a value of an operand is there twice");
        }
    }
    Ok(held)
}

pub(crate) fn functions(cursor: &mut Cursor<'_>, profile: &mut Profile) -> Inside<()> {
    let machine = profile.samples.as_mut().and_then(|s| s.machine.as_mut());
    let machine = machine.ok_or("functions come before their machine")?;
    while !cursor.is_empty() {
        machine.functions.push(Function {
            module: cursor.bytes()?.to_vec(),
            start: cursor.number()?,
            size: cursor.number()?,
            name: cursor.bytes()?.to_vec(),
            code: cursor.bytes()?.to_vec(),
        });
    }
    Ok(())
}
