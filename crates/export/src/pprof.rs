//! pprof's format: a gzipped protocol buffer of samples, for `go tool pprof` and viewers of it.
//!
//! A sample is the instructions of one source position: their number and, as `executions`, how often the straight line was executed.
//! Its stack is the functions inlined there. Callers are not known: a profile with call paths has samples of these instead. Mappings have build ids, so symbols can be found later.
//!
//! Strategy: messages are small, so the encoder is a few lines: a field is a key, then a number or bytes with a length.

use std::collections::HashMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use trommel_profile::{Module, Profile};
use trommel_symbol::Location;
use trommel_tuple::{ModuleId, Place, Vaddr};

use crate::error::ExportError;
use crate::format::{Format, Modules, Next};
use crate::input::Input;
use crate::lines::{Lines, instructions, name, span_of};

/// The format.
pub(crate) struct Pprof;

impl Format for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn about(&self) -> &'static str {
        "instructions of functions and lines, for go tool pprof"
    }

    fn modules(&self) -> Modules {
        Modules::All
    }

    fn extension(&self) -> &'static str {
        "pb.gz"
    }

    fn next(&self, next: &Next<'_>) -> String {
        let file = next.file;
        format!("go tool pprof -top {file}")
    }

    fn write(&self, input: &mut Input<'_, '_>, out: &mut dyn Write) -> Result<(), ExportError> {
        let mut builder = Builder::new();
        let types = [("instructions", "count"), ("executions", "count")];
        builder.sample_types(&types);
        for (number, (module, code, flow)) in input.flows(self.name())?.into_iter().enumerate() {
            let mapping = number as u64 + 1;
            let path = input.path(module);
            builder.mapping(input.module(module), &path, mapping);
            let lines = Lines::of(input.symbols, &flow);
            for line in &flow.lines {
                // Instructions of one position are one sample.
                let mut open: Option<(u64, Option<u32>, u64)> = None;
                let mut add = |(start, _, number)| {
                    let at = (module, mapping);
                    sample(&mut builder, input, at, start, number, line.count);
                };
                for instruction in instructions(&code, line) {
                    let at = instruction.ip();
                    let here = lines.at(at).map(|(_, line)| line);
                    match &mut open {
                        Some((_, position, number)) if *position == here => *number += 1,
                        _ => {
                            open.replace((at, here, 1)).map(&mut add);
                        }
                    }
                }
                open.map(add);
            }
        }
        builder.finish(input.profile, types[0], 1, out)
    }
}

/// A message as it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.varint(field << 3);
            self.varint(value);
        }
    }

    fn bytes(&mut self, field: u64, value: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn numbers(&mut self, field: u64, values: &[u64]) {
        let mut packed = Self::default();
        values.iter().for_each(|value| packed.varint(*value));
        self.bytes(field, &packed.0);
    }
}

/// A function at a location.
pub(crate) struct Line<'a> {
    pub(crate) function: &'a str,
    pub(crate) file: &'a str,
    /// 0: not known.
    pub(crate) line: u64,
}

/// A profile as it is written.
#[derive(Default)]
pub(crate) struct Builder {
    out: Message,
    texts: HashMap<String, u64>,
    /// In the order of their numbers.
    table: Vec<String>,
    functions: HashMap<(String, String), u64>,
    locations: u64,
}

impl Builder {
    /// An empty profile.
    pub(crate) fn new() -> Self {
        let mut builder = Self::default();
        builder.text("");
        builder
    }

    fn text(&mut self, text: &str) -> u64 {
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.table.len() as u64;
        self.table.push(text.to_owned());
        self.texts.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, (name, unit): (&str, &str)) -> Vec<u8> {
        let mut message = Message::default();
        message.number(1, self.text(name));
        message.number(2, self.text(unit));
        message.0
    }

    /// The names and units of a sample's values.
    pub(crate) fn sample_types(&mut self, types: &[(&str, &str)]) {
        for value in types {
            let message = self.value_type(*value);
            self.out.bytes(1, &message);
        }
    }

    /// Adds a module by the number that locations refer to.
    pub(crate) fn mapping(&mut self, module: Option<&Module>, path: &str, number: u64) {
        let mut message = Message::default();
        let loaded = module.and_then(|m| m.loaded);
        message.number(1, number);
        message.number(2, loaded.map_or(0, |l| l.start));
        message.number(3, loaded.map_or(u64::MAX >> 1, |l| l.end));
        message.number(5, self.text(path));
        let id = module.map_or(&[][..], |m| &m.build_id);
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        message.number(6, self.text(&id));
        for named in 7..=10 {
            message.number(named, 1);
        }
        self.out.bytes(3, &message.0);
    }

    fn function(&mut self, name: &str, file: &str) -> u64 {
        let key = (name.to_owned(), file.to_owned());
        if let Some(known) = self.functions.get(&key) {
            return *known;
        }
        let number = self.functions.len() as u64 + 1;
        let mut message = Message::default();
        message.number(1, number);
        message.number(2, self.text(name));
        message.number(3, self.text(name));
        message.number(4, self.text(file));
        self.functions.insert(key, number);
        self.out.bytes(5, &message.0);
        number
    }

    /// Adds a run-time address with its functions, innermost first; returns its number.
    pub(crate) fn location(&mut self, mapping: u64, address: u64, lines: &[Line<'_>]) -> u64 {
        self.locations += 1;
        let mut message = Message::default();
        message.number(1, self.locations);
        message.number(2, mapping);
        message.number(3, address);
        for line in lines {
            let function = self.function(line.function, line.file);
            let mut of_line = Message::default();
            of_line.number(1, function);
            of_line.number(2, line.line);
            message.bytes(4, &of_line.0);
        }
        self.out.bytes(4, &message.0);
        self.locations
    }

    /// Adds a stack of locations, innermost first.
    pub(crate) fn sample(&mut self, stack: &[u64], values: &[u64]) {
        let mut sample = Message::default();
        sample.numbers(1, stack);
        sample.numbers(2, values);
        self.out.bytes(2, &sample.0);
    }

    /// Writes the profile. `usual` is the value that viewers begin with.
    pub(crate) fn finish(
        mut self,
        profile: &Profile,
        usual: (&str, &str),
        period: u64,
        out: &mut dyn Write,
    ) -> Result<(), ExportError> {
        let words = profile.command.iter().map(|w| String::from_utf8_lossy(w));
        let command = words.collect::<Vec<_>>().join(" ");
        let comment = self.text(&format!("command: {command}"));
        let period_type = self.value_type(usual);
        let usual = self.text(usual.0);
        self.out.number(9, profile.run.started);
        self.out.number(10, profile.run.wall);
        self.out.bytes(11, &period_type);
        self.out.number(12, period);
        self.out.numbers(13, &[comment]);
        self.out.number(14, usual);
        for text in std::mem::take(&mut self.table) {
            self.out.bytes(6, text.as_bytes());
        }
        let mut packed = GzEncoder::new(out, Compression::default());
        packed.write_all(&self.out.0)?;
        packed.finish()?;
        Ok(())
    }
}

/// Instructions of one position as a sample.
fn sample(
    builder: &mut Builder,
    input: &mut Input<'_, '_>,
    (module, mapping): (ModuleId, u64),
    at: u64,
    instructions: u64,
    times: u64,
) {
    let found = input.symbols.locate(Place::new(module, Vaddr(at)));
    let outer = function_name(input, module, at);
    let loaded = input.module(module).and_then(|m| m.loaded);
    let address = at.wrapping_add(loaded.map_or(0, |l| l.bias));
    let frames = frames(&found, &outer);
    let lines: Vec<Line<'_>> = frames
        .iter()
        .map(|(function, file, line)| Line {
            function,
            file,
            line: *line,
        })
        .collect();
    let location = builder.location(mapping, address, &lines);
    builder.sample(&[location], &[instructions.saturating_mul(times), times]);
}

/// The function that a place is in, not those inlined there.
fn function_name(input: &Input<'_, '_>, module: ModuleId, at: u64) -> String {
    let spans = &input.program.modules[&module].spans;
    name(spans, span_of(spans, at))
}

/// Functions at a place with file and line, the innermost first.
fn frames(found: &Location, outer: &str) -> Vec<(String, String, u64)> {
    let mut frames: Vec<(String, String, u64)> = Vec::new();
    for frame in &found.inlined {
        let file = frame.file.as_deref().unwrap_or_default();
        frames.push((
            frame.function.to_string(),
            file.into(),
            frame.line.unwrap_or(0).into(),
        ));
    }
    let file = found.outer_file.as_deref().unwrap_or_default();
    let line = found.outer_line.unwrap_or(0);
    frames.push((outer.to_owned(), file.into(), line.into()));
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        let mut message = Message::default();
        message.number(1, 300);
        message.number(2, 0);
        message.bytes(3, b"ab");
        message.numbers(4, &[0, 128]);
        let wanted = [0x08, 0xac, 0x02, 0x1a, 2, b'a', b'b', 0x22, 3, 0, 0x80, 1];
        assert_eq!(message.0, wanted);
    }
}
