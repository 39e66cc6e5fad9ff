//! Starts of the runtime that fail: the process notices nothing, and the next one succeeds.

use trommel_conformance::wait::until;

use super::*;

const STARTING: &str = "the runtime failed there with signal";
/// Odd ones are failed assertions, even ones are faults of memory.
const PLACES: [&str; 3] = ["fail-start=1", "fail-start=2", "fail-start=3"];
const NO_ROOM: &str = "the runtime cannot start in it";

/// Records a process that it cannot, for this reason. The process is as it was.
fn fails(scratch: &Scratch, running: &Running, way: &Way, why: &str) -> Result<(), String> {
    let before = (running.traces()?, running.mappings()?);
    let pid = running.pid();
    let args = [way.options, &["--duration", way.duration, "-p", &pid]].concat();
    let output = record_by(scratch, way, &args)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !said.contains(why) {
        return Err(format!("{}: not `{why}`: {said}", way.stress));
    }
    let after = (running.traces()?, running.mappings()?);
    match before == after {
        true => Ok(()),
        false => Err(format!("{}: {before:?} became {after:?}", way.stress)),
    }
}

/// The runtime has a fault while it starts. Its signal is handled or ignored by the process.
pub(super) fn failed() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "faults", "")?;
    let mut running = Running::start(&program, &["60".to_owned()])?;
    let pid = running.pid();
    let windows = &["--budget", "5", "--windows"];
    for (options, places) in [(&[][..], &PLACES[..]), (windows, &PLACES[..2])] {
        for stress in places {
            let way = Way {
                options,
                stress,
                ..SHORT
            };
            fails(&scratch, &running, &way, STARTING)?;
        }
        let next = [options, &["--duration", "0.05", "-p", &pid]].concat();
        well(&record(&scratch, &next)?)?;
    }
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(other.to_owned()),
    }
}

/// Returns true if a process has nearly as many mappings as the kernel allows, and takes or gives back none for a while.
fn is_full(running: &Running) -> Result<bool, String> {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").map_err(text)?;
    let most: usize = most.trim().parse().map_err(text)?;
    let first = running.mappings()?;
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(20));
        if running.mappings()? != first {
            return Ok(false);
        }
    }
    Ok(first + 20 > most)
}

/// The process has no mappings left for the runtime, or only some.
pub(super) fn without_mappings() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "faults", "")?;
    for left in ["1", "12"] {
        let mut running = Running::start(&program, &["60".to_owned(), left.to_owned()])?;
        until("the process has mapped what it can", || {
            is_full(&running).unwrap_or(false)
        })?;
        fails(&scratch, &running, &SHORT, NO_ROOM)?;
        signal(&running.pid(), "USR1")?;
        let pid = running.pid();
        let are_few = || running.mappings().is_ok_and(|n| n < 1000);
        until("the process gives its mappings back", are_few)?;
        well(&record(&scratch, &["--duration", "0.05", "-p", &pid])?)?;
        running.stop()?;
        if running.output()?.trim() != "good" {
            return Err(format!("{left} mappings left: it has noticed"));
        }
    }
    Ok(())
}

/// No compressor asks the processor what it is: the process may have forbidden that to its threads.
pub(super) fn without_cpuid() -> Result<(), String> {
    const COMPRESSORS: [&str; 6] = [
        "H:crc[P256]2048+A16",
        "H:mul[P256]2048+A16",
        "T:crc[256]2048/2way/2bit",
        "M4:crc[10k,1%]2048:C1R0P1",
        "M4[10k,1%]2048:C1R0P1",
        "R256",
    ];
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "stampless", "")?;
    let mut running = Running::start(&program, &["60", "all"].map(str::to_owned))?;
    let pid = running.pid();
    for compressor in COMPRESSORS {
        let mut command = Command::new(trommel());
        command
            .args(["record", "--quiet", "-e", "call", "-c", compressor])
            .args(["--duration", "0.01", "-p", &pid, "-o"])
            .arg(scratch.path("data"));
        let output = command.output().map_err(text)?;
        well(&output).map_err(|e| format!("{compressor}: {e}"))?;
    }
    running.stop()?;
    running.output().map(drop)
}
