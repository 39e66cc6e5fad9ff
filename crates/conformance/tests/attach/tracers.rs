//! Processes that another program traces when their recording ends.

use trommel_conformance::traced::Traced;
use trommel_conformance::wait::until;

use super::stops::Recording;
use super::*;

/// The recording ends with words about who traces the process, and nothing is left in it when nobody traces it any more.
pub(super) fn traced(way: &Way) -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let mut running = Running::start(&program, &["20", "2", "0"].map(str::to_owned))?;
    let pid = running.pid();
    let before = running.traces()?;
    let recording = Recording::start(&scratch, way, &pid)?;
    recording.wait_for(&running)?;
    let tid = running.0.id() as i32;
    // The recording itself traces it where a burst begins or ends.
    let mut traced = None;
    until("traced", || {
        traced = Traced::seize(tid);
        traced.is_some()
    })?;
    let said = recording.last_words()?;
    if !said.contains(&format!(") traces thread {pid}; it is detached")) {
        return Err(format!("not the words: {said}"));
    }
    if !scratch.path("data").exists() {
        return Err("no profile".to_owned());
    }
    drop(traced);
    until("nothing left", || running.traces().as_ref() == Ok(&before))?;
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(other.to_owned()),
    }
}
