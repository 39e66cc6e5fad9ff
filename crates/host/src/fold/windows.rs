//! Windows found among the records of a thread, and counted when they have ended ([`super::windowed`]).

mod records;

use trommel_queue::END_MARK;
use trommel_queue::queries::{Header, MESSAGE_WORDS, WindowCount};

use crate::channel::shared::{Damaged, Shared};
use crate::fold::folder::{Folder, Mode};
use crate::fold::windowed::Windowed;
use records::{Record, Records};

/// A window that waits for its end, in bytes. Longer ones are damage.
const MOST: usize = 16 << 20;

impl Folder {
    /// The way of windows.
    pub(super) fn windows(
        &mut self,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
    ) -> Result<(), Damaged> {
        // Taken out while the paths are worked on, and back whatever happens.
        let Some(mut windowed) = self.take_windowed() else {
            return Ok(());
        };
        let mut open = windowed.open.remove(&thread).unwrap_or_default();
        open.extend_from_slice(bytes);
        let done = self.whole_windows(&mut windowed, shared, thread, &open);
        if let Ok(used) = done {
            open.drain(..used);
            windowed.open.insert(thread, open);
        }
        self.mode = Mode::Windowed(windowed);
        done.map(drop)
    }

    /// Counts the windows that have ended; how many bytes they take.
    fn whole_windows(
        &mut self,
        windowed: &mut Windowed,
        shared: &Shared,
        thread: u32,
        bytes: &[u8],
    ) -> Result<usize, Damaged> {
        let mut used = 0;
        let mut begins = None;
        let mut records = Records(bytes);
        loop {
            match records.next(self, shared)? {
                Record::Part if bytes.len() - used > MOST => return Err(Damaged::path(END_MARK)),
                Record::Part => return Ok(used),
                Record::Path(..) | Record::Message(..) | Record::Stack(_) | Record::Counts(_) => {}
                Record::Capture([own]) => begins = Some((records.0, own)),
                Record::End(words) => {
                    if let Some((from, own)) = begins.take().filter(|_| words[0] != 0) {
                        windowed.own = own;
                        let weight = windowed.begin(words);
                        self.count_window(windowed, shared, (thread, Records(from)), weight)?;
                    }
                    used = bytes.len() - records.0.len();
                }
            }
        }
    }

    /// A query has sent a message in the window that is counted.
    fn message_in_window(
        &mut self,
        windowed: &mut Windowed,
        (thread, header): (u32, Header),
        words: &[u8],
        weight: f64,
    ) {
        let Some(answers) = &mut self.answers else {
            return;
        };
        let mut all = [0; MESSAGE_WORDS];
        for (to, from) in all.iter_mut().zip(words.as_chunks::<8>().0) {
            *to = u64::from_le_bytes(*from);
        }
        let words = &all[..usize::from(header.words).min(MESSAGE_WORDS)];
        let window = (windowed.counted, weight);
        windowed.queried.message(header, words, window);
        let modules = &self.dictionary.modules;
        answers.message_in_window(thread, header, words, weight, modules);
    }

    fn count_window(
        &mut self,
        windowed: &mut Windowed,
        shared: &Shared,
        (thread, mut records): (u32, Records<'_>),
        weight: f64,
    ) -> Result<(), Damaged> {
        windowed.accesses.begin();
        if let Some(callers) = &mut windowed.callers {
            callers.begin();
        }
        // Of what has not been left yet when a message comes nothing is known.
        let mut messages = Vec::new();
        loop {
            let (met, words) = match records.next(self, shared)? {
                Record::Path(met, words) => (met, words),
                Record::Message(header, words) if windowed.custom.is_some() => {
                    messages.push((header, words));
                    continue;
                }
                Record::Message(header, words) => {
                    self.message_in_window(windowed, (thread, header), words, weight);
                    continue;
                }
                Record::Counts(words) => {
                    let words = words.as_chunks::<8>().0.iter();
                    let counts = words.map(|word| u64::from_le_bytes(*word));
                    for count in counts.filter_map(WindowCount::decode) {
                        let window = (windowed.counted, weight);
                        windowed.queried.count(count, window);
                    }
                    continue;
                }
                Record::Stack(words) => {
                    let words = words.as_chunks::<8>().0.iter();
                    let mut words = words.map(|word| u64::from_le_bytes(*word));
                    let count = usize::try_from(words.next().unwrap_or(0));
                    if let (Some(callers), Ok(count)) = (&mut windowed.callers, count) {
                        callers.stack(words.take(count));
                    }
                    continue;
                }
                _ => break,
            };
            while windowed.paths.len() <= met {
                let path = &self.paths[windowed.paths.len()];
                let steps = self.dictionary.steps(path).iter().chain(&path.tail);
                windowed.learn(steps.copied());
            }
            if let Some(callers) = &mut windowed.callers {
                callers.learn(&self.dictionary.instructions);
            }
            if windowed.custom.is_none() && !windowed.no_accesses {
                windowed.accesses.learn(&self.dictionary.instructions);
            }
            windowed.path(met, words, weight, &self.dictionary.modules);
        }
        if let Some(custom) = &mut windowed.custom {
            let all = &self.dictionary.instructions;
            custom.learn(all);
            for (header, words) in messages {
                custom.captured(header, words, all);
            }
            custom.window(thread, (windowed.counted, weight));
            custom.look(all, &self.dictionary.modules);
        }
        windowed.accesses.end();
        Ok(())
    }
}
