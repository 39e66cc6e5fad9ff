//! Requests of a program that knows of us about queries (`trommel_load_queries`), answered.
//!
//! What the program has written is believed as far as it cannot lead astray: lengths are cut to what there is room for, and the texts are
//! checked as those of a file.

use std::sync::atomic::Ordering::Relaxed;

use trommel_queue::queries::Posted;

use crate::ask::loads;
use crate::channel::question::Question;

/// Does what a request asks for. `loads`: queries may come.
///
/// # Errors
/// Why not, in words.
pub(super) fn answer(question: &Question, posted: &Posted, loads: bool) -> Result<(), String> {
    if !question.may_change() {
        return Err("the queries of this session stay as they are".to_owned());
    }
    let name = (posted.name.load(Relaxed) as usize).min(Posted::BYTES);
    let text = (posted.text.load(Relaxed) as usize).checked_sub(1);
    let bytes = text.unwrap_or(0).min(Posted::BYTES - name);
    let bytes: Vec<u8> = (0..name + bytes).map(|n| posted.byte(n)).collect();
    let (name, queries) = bytes.split_at(name);
    match text {
        None => loads::remove(question, &String::from_utf8_lossy(name)).map(drop),
        Some(_) if !loads => Err(
            "a session that gives messages to a compressor loads nothing, as that knows the queries of the start only"
                .to_owned(),
        ),
        Some(_) => loads::load_text(question, name, queries),
    }
}
