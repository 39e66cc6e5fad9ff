//! Processes that another program traces when their recording ends.
// The trial is that other program.
#![allow(unsafe_code)]

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
    until("traced", || request(libc::PTRACE_SEIZE, tid).is_ok())?;
    let said = recording.last_words()?;
    if !said.contains(&format!(") traces thread {pid}; it is detached")) {
        return Err(format!("not the words: {said}"));
    }
    if !scratch.path("data").exists() {
        return Err("no profile".to_owned());
    }
    request(libc::PTRACE_INTERRUPT, tid)?;
    // SAFETY: a null pointer stands for no status.
    unsafe { libc::waitpid(tid, std::ptr::null_mut(), libc::__WALL) };
    request(libc::PTRACE_DETACH, tid)?;
    until("nothing left", || running.traces().as_ref() == Ok(&before))?;
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(other.to_owned()),
    }
}

fn request(request: libc::c_uint, tid: i32) -> Result<(), String> {
    // SAFETY: no memory is involved.
    match unsafe { libc::ptrace(request, tid, 0_u64, 0_u64) } {
        -1 => Err(text(std::io::Error::last_os_error())),
        _ => Ok(()),
    }
}
