//! Services that receive the messages of queries.

mod compressed;
mod foreign;
mod loading;
mod message;
mod names;

use std::collections::BTreeMap;
use std::io::{self, BufWriter};
use std::path::Path;

use rustc_hash::FxHashMap;
use trommel_profile::queries::{Count, Sent};
use trommel_queue::dict::TargetPc;
use trommel_queue::queries::{Header, MESSAGE_WORDS, Sort};
use trommel_tuple::stream::outlet::Outlet;

use crate::channel::modules::Modules;

pub use compressed::{Chosen, Compressed, NotChosen};
pub use foreign::{Foreign, Instance, NotLoaded};
pub use message::{Message, Service};

type Words = [u64; MESSAGE_WORDS];

/// Counts equal messages.
#[derive(Default)]
pub struct Tabulate {
    /// Counts of messages with run-time addresses.
    counts: FxHashMap<(Header, u8, Words), Count>,
    /// Counts of messages with places instead of addresses.
    settled: BTreeMap<Sent, Count>,
    untabulated: u64,
}

impl Tabulate {
    /// Different messages that are kept apart; of others only the number is known. They take some 100 MB.
    pub const MOST: usize = 1 << 20;

    /// Gives what names addresses its places.
    pub fn settle(&mut self, modules: &Modules) {
        for ((header, places, words), count) in self.counts.drain() {
            let mut words = words[..usize::from(header.words)].to_vec();
            for (n, word) in words.iter_mut().enumerate() {
                if places >> n & 1 != 0 {
                    *word = modules.place_at(TargetPc(*word)).word();
                }
            }
            let told = Sent {
                at: header.at,
                queue: header.queue,
                words,
            };
            self.settled.entry(told).or_default().add(count);
        }
    }

    /// Returns the counts, and the number of messages that were not kept apart.
    pub fn into_counts(self) -> (BTreeMap<Sent, Count>, u64) {
        (self.settled, self.untabulated)
    }
}

impl Service for Tabulate {
    fn message(&mut self, message: &Message<'_>, _: &Modules) {
        let mut words = Words::default();
        for (to, from) in words.iter_mut().zip(message.words) {
            *to = *from;
        }
        // Whatever the rate was in force.
        let header = Header {
            rank: 0,
            ..message.header
        };
        let key = (header, message.places, words);
        let one = Count {
            messages: 1,
            executions: message.stands_for,
        };
        if let Some(count) = self.counts.get_mut(&key) {
            count.add(one);
        } else if self.counts.len() + self.settled.len() < Self::MOST {
            self.counts.insert(key, one);
        } else {
            self.untabulated += 1;
        }
    }

    /// Ignores interrupts: they are counted where they happen.
    fn interrupt(&mut self, _: &Message<'_>, _: bool, _: &Modules) {}
}

/// Writes messages to a file, a line of JSON each.
pub struct Write {
    out: BufWriter<Outlet>,
    /// The reason why nothing is written any more.
    error: Option<io::Error>,
}

impl Write {
    /// Creates the file at `path`.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            out: BufWriter::new(Outlet::create(path)?),
            error: None,
        })
    }

    /// All is written.
    ///
    /// # Errors
    /// What went wrong on the way.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => io::Write::flush(&mut self.out),
        }
    }

    fn line(&mut self, message: &Message<'_>, modules: &Modules) -> io::Result<()> {
        use io::Write as _;
        let Message {
            pid,
            thread,
            header,
            load: (_, load),
            stands_for,
            ..
        } = message;
        let out = &mut self.out;
        let to = match header.sort {
            Sort::Message => format!("\"queue\":{}", header.queue),
            Sort::Interrupt => "\"interrupt\":\"async\"".to_owned(),
            Sort::Synchronous => "\"interrupt\":\"sync\"".to_owned(),
        };
        write!(
            out,
            "{{\"pid\":{pid},\"thread\":{thread},\"load\":\"{load}\",{to},\"instruction\":{},\"stands_for\":{stands_for},\"words\":{{",
            header.at
        )?;
        let words = message.words.iter().enumerate();
        for ((n, word), name) in words.zip(message.names) {
            if n > 0 {
                out.write_all(b",")?;
            }
            match message.places >> n & 1 {
                0 => write!(out, "\"{name}\":{word}")?,
                _ => {
                    let place = modules.place_at(TargetPc(*word));
                    let (module, vaddr) = (place.module().0, place.vaddr().0);
                    write!(
                        out,
                        "\"{name}\":{{\"address\":{word},\"module\":{module},\"vaddr\":{vaddr}}}"
                    )?;
                }
            }
        }
        out.write_all(b"}}\n")
    }
}

impl Service for Write {
    fn message(&mut self, message: &Message<'_>, modules: &Modules) {
        if self.error.is_none()
            && let Err(error) = self.line(message, modules)
        {
            self.error = Some(error);
        }
    }

    fn interrupt(&mut self, message: &Message<'_>, _: bool, modules: &Modules) {
        self.message(message, modules);
    }
}
