//! Bursts of control within a budget: what they count, of running programs and of programs that are started.

use super::*;

/// Counts of bursts have the proportions of the program's, and add up to about as many as there were.
pub(super) fn burst_counts() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "steady", "")?;
    let mut running = Running::start(&program, &[])?;
    let mut lines = BufReader::new(running.0.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    lines.read_line(&mut line).map_err(text)?;
    let pid = running.pid();
    let mut recording = Command::new(trommel())
        .args(["record", "--quiet", "--budget", "20", "--bursts", "-p"])
        .args([&pid, "-o"])
        .arg(scratch.path("data"))
        .spawn()
        .map_err(text)?;
    while !running.file("maps")?.contains("memfd:trommel") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut stdin = running.0.stdin.take().ok_or("no input")?;
    stdin.write_all(b"x").map_err(text)?;
    line.clear();
    lines.read_line(&mut line).map_err(text)?;
    running.0.wait().map_err(text)?;
    if !recording.wait().map_err(text)?.success() {
        return Err("it was not recorded".to_owned());
    }
    let turns: f64 = line.trim().parse().map_err(text)?;
    let counts = counts_of(&scratch)?;
    let largest = counts.iter().map(|c| c.1).max().unwrap_or(0) as f64;
    if !(0.4..2.5).contains(&(largest / turns)) {
        return Err(format!("{counts:?} of {turns} turns"));
    }
    let parts: Vec<f64> = counts.iter().map(|c| c.1 as f64 / largest).collect();
    let near = |part: f64| parts.iter().any(|p| (p / part - 1.0).abs() < 0.02);
    match near(1.0 / 3.0) && near(2.0 / 3.0) {
        true => Ok(()),
        false => Err(format!("{counts:?}: no thirds")),
    }
}

/// Code that the program makes while it is native, at the place where other code was translated, is what it executes in the next burst.
pub(super) fn made_anew(words: &[&str]) -> Result<(), String> {
    const TIMES: usize = 3;
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "remade", "")?;
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let mut running = Running::start(&program, &words)?;
    for _ in 0..TIMES {
        let options = ["-p", &running.pid(), "--duration", "0.8"];
        let done = record_by(
            &scratch,
            &IN_BURSTS,
            &[IN_BURSTS.options, &options].concat(),
        )?;
        well(&done)?;
    }
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(other.to_owned()),
    }
}

/// A thread that was taken while it slept leaves at the end of a burst, also where that comes just before it sleeps again.
pub(super) fn naps() -> Result<(), String> {
    const TIMES: usize = 10;
    /// The end of control is waited for for much longer.
    const LONG: Duration = Duration::from_secs(4);
    const OFTEN: Way = Way {
        stress: "bursts=400",
        ..IN_BURSTS
    };
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "naps", "")?;
    let mut running = Running::start(&program, &["60".to_owned()])?;
    for time in 0..TIMES {
        let began = Instant::now();
        let options = ["-p", &running.pid(), "--duration", OFTEN.duration];
        well(&record_by(
            &scratch,
            &OFTEN,
            &[OFTEN.options, &options].concat(),
        )?)?;
        if began.elapsed() > LONG {
            return Err(format!("recording {time} took {:?}", began.elapsed()));
        }
    }
    running.stop()?;
    running.output().map(drop)
}

/// A program of many threads that is killed as its threads are led in or out ends at once, and so does its recording, which is whole.
pub(super) fn killed_in_bursts() -> Result<(), String> {
    const TIMES: u64 = 8;
    /// The keeper may have lost nothing but time.
    const LONG: Duration = Duration::from_secs(5);
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let args = ["20", "10", "0"].map(str::to_owned);
    for time in 0..TIMES {
        let mut running = Running::start(&program, &args)?;
        let mut recording = Command::new(trommel())
            .env("TROMMEL_STRESS", IN_BURSTS.stress)
            .args(["record", "--quiet", "-p", &running.pid(), "-o"])
            .arg(scratch.path("data"))
            .args(IN_BURSTS.options)
            .spawn()
            .map_err(text)?;
        while !running.file("maps")?.contains("memfd:trommel") {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(50 + 37 * time));
        running.0.kill().map_err(text)?;
        let killed = Instant::now();
        let status = loop {
            if let Some(status) = recording.try_wait().map_err(text)? {
                break status;
            }
            if killed.elapsed() > LONG {
                recording.kill().map_err(text)?;
                return Err(format!("time {time}: the recording does not end"));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if !status.success() {
            return Err(format!("time {time}: {status}"));
        }
        counts_of(&scratch)?;
    }
    Ok(())
}

/// A program that is started is counted in bursts from when it has earned them. Counts are of the right size, within the limits of the time that bursts
/// are taken to take.
pub(super) fn paced() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "paced", "")?;
    let (said, report) = in_bursts(&scratch, "20", &[&program.to_string_lossy(), "1500"])?;
    let rounds: f64 = String::from_utf8_lossy(&said.stdout)
        .trim()
        .parse()
        .map_err(text)?;
    let windows = &report["windows"];
    let functions = report["functions"].as_array().into_iter().flatten();
    let calls = functions
        .filter(|f| f["name"] == "turn")
        .find_map(|f| f["calls"].as_f64())
        .unwrap_or(0.0);
    let factor = (calls / rounds).max(rounds / calls.max(1.0));
    let is_known = windows["pacing"]
        .as_str()
        .is_some_and(|pacing| pacing.contains("1.5 times as long as native code"));
    // A factor of 1.3, and as much again for the differences between bursts.
    match is_known && windows["taken"].as_u64() > Some(0) && factor < 1.7 {
        true => Ok(()),
        false => Err(format!("{calls} calls of {rounds}: {windows}")),
    }
}

/// Processes that a started program starts are counted in bursts, too; programs that are over before they have earned one are not, and are the same as
/// unobserved.
pub(super) fn family_in_bursts() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "paced", "")?;
    let program = program.to_string_lossy();
    let (said, report) = in_bursts(&scratch, "50", &[&program, "300", "2"])?;
    if said.status.code() != Some(7) || said.stdout.iter().filter(|&&b| b == b'\n').count() != 2 {
        return Err(format!("{said:?}"));
    }
    let of = |process: &serde_json::Value| process["events"]["edge"]["seen"].as_u64().unwrap_or(0);
    let counted = report["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|p| of(p) > 0);
    if counted.count() != 2 {
        return Err(format!("processes: {}", report["processes"]));
    }
    let alone = [&*program, "300", "2"];
    let mut command = Command::new(trommel());
    command.args(["record", "--no-follow", "--budget", "50", "--bursts", "-o"]);
    let alone = command
        .arg(scratch.path("alone"))
        .arg("--")
        .args(alone)
        .output();
    let alone = String::from_utf8_lossy(&alone.map_err(text)?.stderr).into_owned();
    if !alone.contains("no burst began") {
        return Err(alone);
    }
    let mut export = Command::new(trommel());
    export.args(["export", "--format", "csv"]);
    let refused = export.arg(scratch.path("alone")).output().map_err(text)?;
    let why = String::from_utf8_lossy(&refused.stderr);
    if refused.status.success() || !why.contains("no burst or window began") {
        return Err(format!("exported: {why}"));
    }
    let (said, report) = in_bursts(&scratch, "5", &["sh", "-c", "exit 3"])?;
    let windows = &report["windows"];
    match said.status.code() == Some(3) && windows["taken"] == 0 && windows["paid_percent"] == 0.0 {
        true => Ok(()),
        false => Err(format!("{said:?} {windows}")),
    }
}

/// A thread that waits in a vfork cannot be stopped. It goes on once the vfork is over, whether a burst was to begin or to end in it.
pub(super) fn vforks() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "vforks", "")?;
    let (said, report) = in_bursts(&scratch, "50", &[&program.to_string_lossy(), "4"])?;
    let taken = report["windows"]["taken"].as_u64();
    match said.status.code() == Some(0) && said.stdout == b"done\n" && taken > Some(0) {
        true => Ok(()),
        false => Err(format!("{said:?} {taken:?}")),
    }
}

/// Records a program in bursts. Returns what it said, and the report.
fn in_bursts(
    scratch: &Scratch,
    budget: &str,
    program: &[&str],
) -> Result<(Output, serde_json::Value), String> {
    let data = scratch.path("data");
    let mut command = Command::new(trommel());
    command.args(["record", "--quiet", "--budget", budget, "--bursts", "-o"]);
    let said = command
        .arg(&data)
        .arg("--")
        .args(program)
        .output()
        .map_err(text)?;
    let report = output(
        Command::new(trommel())
            .args(["report", "--json"])
            .arg(&data),
    )?;
    Ok((said, serde_json::from_str(&report).map_err(text)?))
}

/// Other kinds are refused, with the way that samples them.
pub(super) fn other_kinds() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "sleepers", "")?;
    let running = Running::start(&program, &["1", "1"].map(str::to_owned))?;
    let output = Command::new(trommel())
        .args(["record", "-e", "value", "--budget", "5", "--bursts", "-p"])
        .args([&running.pid(), "-o"])
        .arg(scratch.path("data"))
        .output()
        .map_err(text)?;
    let said = String::from_utf8_lossy(&output.stderr);
    match !output.status.success() && said.contains("leave it out to sample `value` in windows") {
        true => running.output().map(drop),
        false => Err(said.into_owned()),
    }
}
