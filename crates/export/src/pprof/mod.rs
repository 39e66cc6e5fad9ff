//! pprof's format: a gzipped protocol buffer of samples, for `go tool pprof` and viewers of it.
//!
//! [`code`] has samples of instructions, and `paths::stacks` those of call paths. Mappings have build ids, so symbols can be found later.
//!
//! Strategy: messages are small, so the encoder is a few lines: a field is a key, then a number or bytes with a length. They are packed as
//! they are made, and no more than some kilobytes of them are kept. The lowest level of compression is a fifth larger, and takes a fifth of the time.

mod code;

use std::collections::HashMap;
use std::io::{self, Write};
use std::rc::Rc;

use flate2::Compression;
use flate2::write::GzEncoder;
use trommel_profile::{Module, Profile};
use trommel_symbol::printable;

use crate::error::ExportError;
use crate::process::Process;

pub(crate) use code::Pprof;

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
        let length = |value: &u64| u64::from((64 - (value | 1).leading_zeros()).div_ceil(7));
        self.varint(field << 3 | 2);
        self.varint(values.iter().map(length).sum());
        values.iter().for_each(|value| self.varint(*value));
    }
}

/// A function at a location.
pub(crate) struct Line<'a> {
    pub(crate) function: &'a str,
    pub(crate) file: &'a str,
    /// 0: not known.
    pub(crate) line: u64,
}

/// Labels of samples, as they are written.
pub(crate) struct Labels(Vec<u8>);

/// A profile as it is written.
pub(crate) struct Builder<'o> {
    packed: GzEncoder<&'o mut dyn Write>,
    /// Messages that are not packed yet.
    out: Message,
    /// The first error of the output.
    failed: Option<io::Error>,
    texts: HashMap<Rc<str>, u64>,
    /// In the order of their numbers.
    table: Vec<Rc<str>>,
    /// By the numbers of their names and files.
    functions: HashMap<(u64, u64), u64>,
    locations: u64,
    /// Distances of addresses from vaddrs, by mapping.
    biases: HashMap<u64, u64>,
    /// Messages within others, whose memory is used again.
    inner: [Message; 2],
}

/// The greatest value of a sample: it has a sign.
pub(crate) const MOST: u64 = i64::MAX as u64;

/// Bytes that are packed at a time.
const MANY: usize = 64 << 10;

impl<'o> Builder<'o> {
    /// An empty profile, which is written to `out`.
    pub(crate) fn new(out: &'o mut dyn Write) -> Self {
        let mut builder = Self {
            packed: GzEncoder::new(out, Compression::fast()),
            out: Message::default(),
            failed: None,
            texts: HashMap::new(),
            table: Vec::new(),
            functions: HashMap::new(),
            locations: 0,
            biases: HashMap::new(),
            inner: Default::default(),
        };
        builder.text("");
        builder
    }

    /// Packs what is there.
    fn pack(&mut self) {
        if self.failed.is_none() {
            self.failed = self.packed.write_all(&self.out.0).err();
        }
        self.out.0.clear();
    }

    /// The number of a text, which is written printable.
    fn text(&mut self, text: &str) -> u64 {
        let text = &*printable(text);
        if let Some(known) = self.texts.get(text) {
            return *known;
        }
        let number = self.table.len() as u64;
        let text: Rc<str> = text.into();
        self.table.push(Rc::clone(&text));
        self.texts.insert(text, number);
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

    /// Adds a module by the number that locations refer to. The first one is the program.
    pub(crate) fn mapping(&mut self, module: Option<&Module>, path: &str, number: u64) {
        let mut message = Message::default();
        let space = Space::of(module, path, number);
        self.biases.insert(number, space.bias);
        message.number(1, number);
        message.number(2, space.start);
        message.number(3, space.end);
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
        let (name, file) = (self.text(name), self.text(file));
        let next = self.functions.len() as u64 + 1;
        let number = *self.functions.entry((name, file)).or_insert(next);
        if number == next {
            let mut message = Message::default();
            message.number(1, number);
            message.number(2, name);
            message.number(3, name);
            message.number(4, file);
            self.out.bytes(5, &message.0);
        }
        number
    }

    /// Adds a vaddr of a module with its functions, innermost first; returns its number.
    pub(crate) fn location(&mut self, mapping: u64, vaddr: u64, lines: &[Line<'_>]) -> u64 {
        self.locations += 1;
        let bias = self.biases.get(&mapping).copied().unwrap_or(0);
        let address = vaddr.wrapping_add(bias);
        let [mut message, mut of_line] = std::mem::take(&mut self.inner);
        message.0.clear();
        message.number(1, self.locations);
        message.number(2, mapping);
        message.number(3, address);
        for line in lines {
            of_line.0.clear();
            of_line.number(1, self.function(line.function, line.file));
            of_line.number(2, line.line);
            message.bytes(4, &of_line.0);
        }
        self.out.bytes(4, &message.0);
        self.inner = [message, of_line];
        self.locations
    }

    /// Labels by their keys, for samples.
    pub(crate) fn labels(&mut self, labels: &[(&str, &str)]) -> Labels {
        let mut all = Message::default();
        for (key, text) in labels {
            let mut label = Message::default();
            label.number(1, self.text(key));
            label.number(2, self.text(text));
            all.bytes(3, &label.0);
        }
        Labels(all.0)
    }

    /// Adds a stack of locations, innermost first.
    pub(crate) fn sample(&mut self, stack: &[u64], values: &[u64], labels: &Labels) {
        let [sample, _] = &mut self.inner;
        sample.0.clear();
        sample.numbers(1, stack);
        let values: Vec<u64> = values.iter().map(|value| (*value).min(MOST)).collect();
        sample.numbers(2, &values);
        sample.0.extend(&labels.0);
        self.out.bytes(2, &sample.0);
        if self.out.0.len() >= MANY {
            self.pack();
        }
    }

    /// Ends the profile. `usual` is the value that viewers begin with.
    pub(crate) fn finish(
        mut self,
        (profile, processes): (&Profile, &[Process]),
        usual: (&str, &str),
        period: u64,
    ) -> Result<(), ExportError> {
        let comments = commands(profile, processes);
        let comments: Vec<u64> = comments.iter().map(|c| self.text(c)).collect();
        let period_type = self.value_type(usual);
        let usual = self.text(usual.0);
        self.out.number(9, profile.run.started);
        self.out.number(10, profile.run.wall);
        self.out.bytes(11, &period_type);
        self.out.number(12, period);
        self.out.numbers(13, &comments);
        self.out.number(14, usual);
        for text in std::mem::take(&mut self.table) {
            self.out.bytes(6, text.as_bytes());
        }
        self.pack();
        match self.failed {
            Some(error) => Err(error.into()),
            None => Ok(self.packed.finish().map(drop)?),
        }
    }
}

/// The addresses of a module.
///
/// `go tool pprof` looks addresses up in a file as they are, so those of the program are the file's own: it can disassemble a position-independent
/// one. Readers tell files apart by address, so all others are where they were in memory, or somewhere by themselves where that is not known.
struct Space {
    start: u64,
    end: u64,
    bias: u64,
}

impl Space {
    fn of(module: Option<&Module>, path: &str, number: u64) -> Self {
        const ROOM: u32 = 40;
        let whole = Self {
            start: 0,
            end: u64::MAX,
            bias: 0,
        };
        match module.and_then(|module| module.loaded) {
            _ if number == 1 || !path.starts_with('/') => whole,
            Some(loaded) => Self {
                start: loaded.start,
                end: loaded.end,
                bias: loaded.bias,
            },
            None => Self {
                start: number << ROOM,
                end: (number + 1) << ROOM,
                bias: number << ROOM,
            },
        }
    }
}

/// The command of a profile and those of its processes, each once.
fn commands(profile: &Profile, processes: &[Process]) -> Vec<String> {
    /// Commands of processes that are named.
    const MOST: usize = 50;
    let command = |words: &Vec<Vec<u8>>| {
        let words = words.iter().map(|w| String::from_utf8_lossy(w));
        format!("command: {}", words.collect::<Vec<_>>().join(" "))
    };
    let of_processes = processes.iter().map(|process| &process.command);
    let all = [&profile.command].into_iter().chain(of_processes);
    let mut comments: Vec<String> = Vec::new();
    for words in all.filter(|words| !words.is_empty()) {
        let comment = command(words);
        if !comments.contains(&comment) && comments.len() <= MOST {
            comments.push(comment);
        }
    }
    comments
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
