//! Programs in sandboxes, whose filters refuse most calls of the runtime's: they are observed, and as they were afterwards.

use super::refusals::reads_filters;
use super::*;

/// Fates of other calls, by the program's words.
pub(super) const HOWS: [&str; 4] = ["kill", "errno", "trap", "stacked"];

/// A program that is in its sandbox when it is attached to.
pub(super) fn sandboxed(how: &str, way: &Way) -> Result<(), String> {
    if !reads_filters() {
        not_tested(format_args!("sandboxes: no right to read filters"));
        return Ok(());
    }
    cycles("sandboxed", "", &["{}", how], way)
}

/// A program that goes into its sandbox while it is observed. It is observed on, and attached to again.
pub(super) fn late() -> Result<(), String> {
    // It may have to be built, for longer than the program runs.
    let _ = trommel();
    if !reads_filters() {
        not_tested(format_args!("sandboxes: no right to read filters"));
        return Ok(());
    }
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "sandboxed", "")?;
    let mut running = Running::start(&program, &["60", "late"].map(str::to_owned))?;
    let pid = running.pid();
    let before = running.traces()?;
    let recording = Command::new(trommel())
        .args(["record", "--quiet", "-e", "edge,call", "--duration", "1"])
        .args(["-p", &pid, "-o"])
        .arg(scratch.path("data"))
        .stderr(Stdio::piped())
        .spawn()
        .map_err(text)?;
    wait::until("a program is observed", || {
        running.traces().is_ok_and(|now| now != before)
    })?;
    std::thread::sleep(Duration::from_millis(300));
    signal(&pid, "USR2")?;
    wait::until("a program is in its sandbox", || {
        running
            .file("status")
            .is_ok_and(|s| s.contains("Seccomp:\t2"))
    })?;
    well(&recording.wait_with_output().map_err(text)?)?;
    if running.traces()? != before {
        return Err(format!("left behind: {}", running.traces()?));
    }
    well(&record(&scratch, &["-p", &pid, "--duration", "0.3"])?)?;
    if !report_of(&scratch)?.contains("\"taken\"") {
        return Err("nothing was seen in the sandbox".to_owned());
    }
    if running.traces()? != before {
        return Err(format!("left behind: {}", running.traces()?));
    }
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(format!("the program has noticed: {other}")),
    }
}
