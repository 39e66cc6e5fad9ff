//! Records of a thread in windows: paths with their words, messages, and marks.
//!
//! Nothing in it is trusted. A number that is none of these is damage, and a record that has not come as a whole waits for its rest.

use trommel_queue::queries::Header;
use trommel_queue::{
    CAPTURE_MARK, CAPTURE_WORDS, COUNT_MARK, END_MARK, END_WORDS, MAX_PATHS, MOST_COUNTS,
    STACK_MARK, STACK_WORDS,
};

use crate::channel::shared::{Damaged, Shared};
use crate::fold::folder::Folder;

/// Recorded bytes of a thread, record by record.
pub(super) struct Records<'a>(pub(super) &'a [u8]);

/// A record.
pub(super) enum Record<'a> {
    Path(usize, &'a [u8]),
    Message(Header, &'a [u8]),
    Capture([u64; CAPTURE_WORDS]),
    End([u64; END_WORDS]),
    /// Words of the stack where the window begins.
    Stack(&'a [u8]),
    /// Counts of queries.
    Counts(&'a [u8]),
    /// The rest is still to come.
    Part,
}

impl<'a> Records<'a> {
    pub(super) fn next(
        &mut self,
        folder: &mut Folder,
        shared: &Shared,
    ) -> Result<Record<'a>, Damaged> {
        let Some((number, after)) = self.0.split_first_chunk::<4>() else {
            return Ok(Record::Part);
        };
        let number = u32::from_le_bytes(*number);
        let (record, after) = match number {
            CAPTURE_MARK => match words(after) {
                Some((words, after)) => (Record::Capture(words), after),
                None => return Ok(Record::Part),
            },
            END_MARK => match words(after) {
                Some((words, after)) => (Record::End(words), after),
                None => return Ok(Record::Part),
            },
            STACK_MARK => match after.split_at_checked(8 * STACK_WORDS) {
                Some((words, after)) => (Record::Stack(words), after),
                None => return Ok(Record::Part),
            },
            COUNT_MARK => {
                let Some(([count], after)) = words::<1>(after) else {
                    return Ok(Record::Part);
                };
                if count > MOST_COUNTS as u64 {
                    return Err(Damaged::path(number));
                }
                match after.split_at_checked(8 * count as usize) {
                    Some((words, after)) => (Record::Counts(words), after),
                    None => return Ok(Record::Part),
                }
            }
            _ if number >= MAX_PATHS as u32 => {
                let header = Header::decode(number).filter(|_| folder.has_queries());
                let header = header.ok_or_else(|| Damaged::path(number))?;
                let bytes = 8 * usize::from(header.words);
                let Some((words, after)) = after.split_at_checked(bytes) else {
                    return Ok(Record::Part);
                };
                (Record::Message(header, words), after)
            }
            _ => {
                let met = folder.path(shared, number)?;
                let bytes = 8 * usize::from(folder.paths[met].values);
                let Some((words, after)) = after.split_at_checked(bytes) else {
                    return Ok(Record::Part);
                };
                (Record::Path(met, words), after)
            }
        };
        self.0 = after;
        Ok(record)
    }
}

/// The first words of some bytes, and the rest of these.
fn words<const N: usize>(bytes: &[u8]) -> Option<([u64; N], &[u8])> {
    let (words, after) = bytes.split_at_checked(8 * N)?;
    let words = words.as_chunks::<8>().0;
    let word = |n: usize| words.get(n).map_or(0, |w| u64::from_le_bytes(*w));
    Some((std::array::from_fn(word), after))
}
