//! Processes that are not attached, and limits that must not be in the way.

use super::*;

pub(super) fn refusals() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let refused = |pid: &str, words: &str| {
        let output = record(&scratch, &["-p", pid])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        match !output.status.success() && said.contains(words) {
            true => Ok(()),
            false => Err(format!(
                "-p {pid}: `{words}` expected, {}: {said}",
                output.status
            )),
        }
    };
    refused("2147483646", "no such process")?;
    refused(&std::process::id().to_string(), "waits for it")?;
    let mut zombie = Command::new("true").spawn().map_err(text)?;
    std::thread::sleep(Duration::from_millis(100));
    refused(&zombie.id().to_string(), "zombie")?;
    zombie.wait().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let running = Running::start(&program, &["20", "1", "0"].map(str::to_owned))?;
    let pid = running.pid();
    let thread = fs::read_dir(format!("/proc/{pid}/task"))
        .map_err(text)?
        .flatten()
        .map(|t| t.file_name().to_string_lossy().into_owned())
        .find(|t| *t != pid);
    refused(&thread.ok_or("no thread")?, &format!("give -p {pid}"))?;
    let bin = trommel();
    let mut other = Command::new(bin)
        .args(["record", "--quiet", "-p", &pid, "--duration", "3", "-o"])
        .arg(scratch.path("other"))
        .spawn()
        .map_err(text)?;
    std::thread::sleep(Duration::from_millis(500));
    let twice = refused(&pid, "recorded already");
    signal(&other.id().to_string(), "INT")?;
    other.wait().map_err(text)?;
    twice?;
    if Path::new("/usr/bin/gdb").exists() {
        let mut gdb = Command::new("gdb")
            .args(["-q", "-batch", "-p", &pid, "-ex", "shell sleep 3"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(text)?;
        std::thread::sleep(Duration::from_millis(2000));
        let traced = refused(&pid, "traces it already");
        gdb.wait().map_err(text)?;
        traced?;
    }
    Ok(())
}

/// Returns whether we may read filters of others.
pub(super) fn reads_filters() -> bool {
    const SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let effective = u64::from_str_radix(&field("CapEff:"), 16).unwrap_or(0);
    effective >> SYS_ADMIN & 1 == 1 && field("Seccomp:") == "0"
}

/// A program whose filters allow what the runtime cannot do without is attached to, as far as they can be read; one that refuses some of that
/// is refused. Filters that a container gives to all, us too, do not count.
pub(super) fn filters() -> Result<(), String> {
    const REFUSED: &str = "restricted its";
    const SIGNALS: &str = "rt_tgsigqueueinfo";
    let scratch = Scratch::new().map_err(text)?;
    build(&scratch, "filtered", "")?;
    build(&scratch, "threads", "")?;
    let bin = trommel();
    let script = |before: &str| {
        format!(
            "{before} ./threads 20 1 0 > /dev/null & p=$!; sleep 0.3; \
             '{}' record --quiet -e edge --duration 0.3 -o data -p $p; r=$?; \
             kill $p; wait $p || exit 9; exit $r",
            bin.display()
        )
    };
    let run = |command: &mut Command| command.current_dir(scratch.dir()).output().map_err(text);
    let filtered = scratch.path("filtered");
    let inside = |script: &str| run(Command::new(&filtered).args(["bash", "-c", script]));
    let outside = |script: &str| run(Command::new("bash").args(["-c", script]));
    well(&inside(&script(""))?)?;
    let refused = |output: &Output, words: &str| {
        let said = String::from_utf8_lossy(&output.stderr);
        match !output.status.success() && said.contains(words) {
            true => Ok(()),
            false => Err(format!("`{words}` expected: {}: {said}", output.status)),
        }
    };
    refused(&inside(&script("./filtered"))?, REFUSED)?;
    let alone = outside(&script("./filtered"))?;
    // A call that the runtime cannot do without, and one that it has another way for.
    let needed = outside(&script(&format!(
        "./filtered -{}",
        libc::SYS_rt_tgsigqueueinfo
    )))?;
    let narrow = format!("./filtered +{}", libc::SYS_process_vm_readv);
    let narrow = outside(&script(&narrow))?;
    if !reads_filters() {
        refused(&alone, REFUSED)?;
        refused(&needed, REFUSED)?;
        return refused(&narrow, REFUSED);
    }
    well(&alone)?;
    refused(&needed, SIGNALS)?;
    well(&narrow)?;
    // Service managers end a process for this call, and allow all others that the runtime makes.
    let ending = format!("./filtered +{}", libc::SYS_mincore);
    well(&outside(&script(&ending))?)?;
    windows_in_filters(&scratch, &outside)?;
    let record = format!("'{}' record --quiet -e edge -o data", bin.display());
    well(&outside(&format!(
        "{record} -- {ending} ./threads 0.3 1 0"
    ))?)
}

/// Windows begin where filters allow all calls that they need, in a program that runs and in one that is started.
fn windows_in_filters(
    scratch: &Scratch,
    outside: &dyn Fn(&str) -> Result<Output, String>,
) -> Result<(), String> {
    const REFUSED: &str = "no windows: it has restricted its own system calls";
    let bin = trommel();
    let record = format!(
        "'{}' record --budget 50 --windows -e edge -o data",
        bin.display()
    );
    let started = |filtered: &str| format!("{record} -- {filtered} ./threads 1.5 1 0");
    let running = |filtered: &str| {
        format!(
            "{filtered} ./threads 20 1 0 > /dev/null & p=$!; sleep 0.3; {record} --duration 2 -p $p; r=$?; kill $p; wait $p || exit 9; exit $r"
        )
    };
    // It ends the process for a call that windows can do without.
    let ending = format!("./filtered +{}", libc::SYS_timer_create);
    for (script, begin) in [
        (started("./filtered"), true),
        (running("./filtered"), true),
        (started(&ending), false),
        (running(&ending), false),
    ] {
        let output = outside(&script)?;
        if !output.status.success() {
            return Err(format!("{script}: {output:?}"));
        }
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains(REFUSED) == begin {
            return Err(format!("{script}: {said}"));
        }
        // One that is started has executed something before it had a filter.
        if begin && !report_of(scratch)?.contains("\"taken\"") {
            return Err(format!("{script}: no edges seen"));
        }
    }
    Ok(())
}

/// A program whose filter has calls reported to it is attached to, several times and in bursts, and notices nothing.
pub(super) fn reported() -> Result<(), String> {
    // It may have to be built, for longer than the program runs.
    let _ = trommel();
    if !reads_filters() {
        not_tested(format_args!("reported calls: no right to read filters"));
        return Ok(());
    }
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "reported", "")?;
    let running = Running::start(&program, &[])?;
    std::thread::sleep(Duration::from_millis(200));
    for way in [&SHORT, &SHORT, &IN_BURSTS] {
        let shortly = ["-p", &running.pid(), "--duration", "0.5"];
        let output = record_by(&scratch, way, &[way.options, &shortly].concat())?;
        well(&output)?;
    }
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(format!("the program has noticed: {other}")),
    }
}

/// A program whose system calls are dispatched to itself is refused, and goes on.
pub(super) fn dispatched() -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "dispatched", "")?;
    let running = Running::start(&program, &[])?;
    let output = record(&scratch, &["-p", &running.pid()])?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() || !said.contains("dispatched to itself") {
        return Err(format!("not refused: {}: {said}", output.status));
    }
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(format!("the program has noticed: {other}")),
    }
}

/// Limits that leave no room, for memory or descriptors: the process is attached to, and has the same limits afterwards.
pub(super) fn limited() -> Result<(), String> {
    // It may have to be built, for longer than the program runs.
    let _ = trommel();
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    for limit in [
        "--nofile=1:1024",
        "--nofile=4:1024",
        "--as=1000000000:",
        "--data=500000000:",
    ] {
        let running = Running::start(&program, &["60", "1", "0"].map(str::to_owned))?;
        let pid = running.pid();
        let set = Command::new("prlimit")
            .args(["--pid", &pid, limit])
            .status();
        if !set.map_err(text)?.success() {
            return Err(format!("no {limit}"));
        }
        let before = (running.file("limits")?, running.traces()?);
        for options in [
            &["--duration", "0.2"][..],
            &["--duration", "0.2", "--budget", "5"],
            &["--duration", "0.2", "--budget", "5", "--windows"],
        ] {
            well(&record(&scratch, &[options, &["-p", &pid]].concat())?)?;
            if (running.file("limits")?, running.traces()?) != before {
                return Err(format!("{limit}: changed: {}", running.file("limits")?));
            }
        }
    }
    Ok(())
}

/// Limits just above what a program uses: it may map what it could natively while it is attached, between bursts and afterwards, and has the same limits
/// then.
pub(super) fn narrow() -> Result<(), String> {
    // It may have to be built, for longer than the program runs.
    let _ = trommel();
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "narrow", "")?;
    for what in ["as", "data"] {
        let mut running = Running::start(&program, &["60", what].map(str::to_owned))?;
        let pid = running.pid();
        let before = (running.file("limits")?, running.traces()?);
        for way in [&SHORT, &IN_BURSTS] {
            let shortly = ["-p", &pid, "--duration", "0.1"];
            let output = record_by(&scratch, way, &[way.options, &shortly].concat())?;
            well(&output).map_err(|e| format!("{what}: {e}"))?;
            if (running.file("limits")?, running.traces()?) != before {
                return Err(format!("{what}: changed: {}", running.file("limits")?));
            }
        }
        running.stop()?;
        let said = running.output()?;
        if said.trim() != "good" {
            return Err(format!("{what}: {said}"));
        }
    }
    Ok(())
}

/// Processes with limits that may not be raised are refused with the reason, also to a superuser without the right to raise limits.
pub(super) fn without_descriptor() -> Result<(), String> {
    // It may have to be built, for longer than the program runs.
    let bin = trommel();
    if which("setpriv").is_none() {
        not_tested(format_args!("limits that may not be raised: no setpriv"));
        return Ok(());
    }
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    for (limit, why) in [
        ("--nofile=1:1", "as many descriptors as it may"),
        ("--as=300000000:300000000", "needs CAP_SYS_RESOURCE"),
        ("--data=300000000:300000000", "needs CAP_SYS_RESOURCE"),
    ] {
        let running = Running::start(&program, &["60", "1", "0"].map(str::to_owned))?;
        let pid = running.pid();
        let set = Command::new("prlimit")
            .args(["--pid", &pid, limit])
            .status();
        if !set.map_err(text)?.success() {
            return Err("no limit".to_owned());
        }
        let before = (running.file("limits")?, running.traces()?);
        let done = Command::new("setpriv")
            .args(["--inh-caps=-sys_resource", "--bounding-set=-sys_resource"])
            .arg(bin)
            .args(["record", "--quiet", "--duration", "0.2", "-p", &pid, "-o"])
            .arg(scratch.path("data"))
            .output()
            .map_err(text)?;
        let said = String::from_utf8_lossy(&done.stderr);
        if done.status.success() || !said.contains(why) {
            return Err(format!("{limit}: not refused: {}: {said}", done.status));
        }
        if (running.file("limits")?, running.traces()?) != before {
            return Err(format!("{limit}: changed: {}", running.file("limits")?));
        }
    }
    Ok(())
}
