//! Processes that a signal stops: recordings of them end when they are asked to, and the processes stay stopped until SIGCONT.

// The changes of a child that is stopped are asked of the kernel.
#![allow(unsafe_code)]

use trommel_conformance::wait::until;

use super::*;

/// Longest time that the end of a recording may take.
const LONG: Duration = Duration::from_secs(5);

/// A recording that is ended when this is dropped.
pub(super) struct Recording(Child);

impl Recording {
    pub(super) fn start(scratch: &Scratch, way: &Way, pid: &str) -> Result<Self, String> {
        let mut command = Command::new(trommel());
        command
            .env("TROMMEL_STRESS", way.stress)
            .args(["record", "--quiet", "-p", pid, "-o"])
            .arg(scratch.path("data"))
            .args(way.options)
            .stderr(Stdio::piped());
        command.spawn().map(Self).map_err(text)
    }

    /// Waits until the runtime is in the process.
    pub(super) fn wait_for(&self, running: &Running) -> Result<(), String> {
        while !running.file("maps")?.contains("memfd:trommel") {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(Duration::from_millis(40));
        Ok(())
    }

    /// Asks it to end. It has nothing to say.
    fn end(self) -> Result<(), String> {
        match self.last_words()? {
            said if said.is_empty() => Ok(()),
            said => Err(said),
        }
    }

    /// Asks it to end. Returns what it says.
    pub(super) fn last_words(mut self) -> Result<String, String> {
        signal(&self.0.id().to_string(), "INT")?;
        let asked = Instant::now();
        while self.0.try_wait().map_err(text)?.is_none() {
            if asked.elapsed() > LONG {
                return Err("the recording does not end".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut said).map_err(text)?;
        }
        Ok(said)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A change that a parent is told.
#[derive(PartialEq, Eq, Debug)]
enum Change {
    None,
    Stopped,
    Continued,
    Ended,
}

impl Running {
    /// Returns the next change that its parent is told.
    fn change(&self, flags: i32) -> Result<Change, String> {
        let mut status = 0;
        // SAFETY: a valid place to write to.
        match unsafe { libc::waitpid(self.0.id() as i32, &raw mut status, flags) } {
            -1 => Err(text(std::io::Error::last_os_error())),
            0 => Ok(Change::None),
            _ if libc::WIFSTOPPED(status) => Ok(Change::Stopped),
            _ if libc::WIFCONTINUED(status) => Ok(Change::Continued),
            _ => Ok(Change::Ended),
        }
    }

    fn expect(&self, flags: i32, expected: Change) -> Result<(), String> {
        match self.change(flags)? {
            change if change == expected => Ok(()),
            change => Err(format!("its parent is told: {change:?}, not {expected:?}")),
        }
    }

    fn stop_by(&self, name: &str) -> Result<(), String> {
        signal(&self.pid(), name)?;
        self.expect(libc::WUNTRACED, Change::Stopped)
    }

    /// Waits until all of its threads are stopped: a thread that is released takes a moment. Its parent is told nothing of that again.
    fn is_stopped(&self) -> Result<(), String> {
        until("all threads stopped", || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.pid()));
            tasks.into_iter().flatten().flatten().all(|task| {
                let status = fs::read_to_string(task.path().join("status"));
                // One that ended just before has none.
                status.map_or(true, |s| s.contains("\nState:\tT (stopped)"))
            })
        })?;
        self.tells_nothing()
    }

    fn tells_nothing(&self) -> Result<(), String> {
        let all = libc::WUNTRACED | libc::WCONTINUED | libc::WNOHANG;
        self.expect(all, Change::None)
    }

    fn go_on(&self) -> Result<(), String> {
        signal(&self.pid(), "CONT")?;
        self.expect(libc::WCONTINUED, Change::Continued)
    }
}

/// A process of several threads that is stopped while it is attached, and one that is attached while it is stopped.
pub(super) fn stopped(way: &Way) -> Result<(), String> {
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "threads", "")?;
    let mut running = Running::start(&program, &["20", "2", "1"].map(str::to_owned))?;
    let pid = running.pid();
    // The number of its threads changes, so its stacks do.
    let left = |running: &Running| match running.file("maps")?.contains("memfd:trommel") {
        true => Err("the runtime is left in it".to_owned()),
        false => Ok(()),
    };
    for name in ["STOP", "TSTP", "TTIN"] {
        let recording = Recording::start(&scratch, way, &pid)?;
        recording.wait_for(&running)?;
        running.stop_by(name)?;
        let ended = recording.end();
        ended.map_err(|e| format!("{name} while it was attached: {e}"))?;
        running.is_stopped()?;
        left(&running)?;
        let recording = Recording::start(&scratch, way, &pid)?;
        recording.wait_for(&running)?;
        // Bursts that end run it for a moment.
        running.tells_nothing()?;
        let ended = recording.end();
        ended.map_err(|e| format!("{name} before it was attached: {e}"))?;
        running.is_stopped()?;
        left(&running)?;
        running.go_on()?;
    }
    running.stop()?;
    match running.output()?.trim() {
        "good" => Ok(()),
        other => Err(other.to_owned()),
    }
}

/// A program that stops itself is attached and detached at any moment: its parent is told of each stop once.
pub(super) fn stops_itself(way: &Way) -> Result<(), String> {
    const TIMES: u32 = 3;
    let scratch = Scratch::new().map_err(text)?;
    let program = build(&scratch, "stopping", "")?;
    let running = Running::start(&program, &["20".to_owned()])?;
    let pid = running.pid();
    let (mut times, mut told) = (0, 0);
    let mut recording: Option<(Recording, Instant)> = None;
    loop {
        running.expect(libc::WUNTRACED, Change::Stopped)?;
        told += 1;
        let over = recording.take_if(|(_, since)| since.elapsed() > Duration::from_millis(200));
        match over {
            // The process is stopped meanwhile.
            Some((over, _)) => over.end()?,
            None if recording.is_none() && times == TIMES => break,
            None => {}
        }
        if recording.is_none() && times < TIMES {
            times += 1;
            recording = Some((Recording::start(&scratch, way, &pid)?, Instant::now()));
        }
        signal(&pid, "CONT")?;
    }
    signal(&pid, "TERM")?;
    signal(&pid, "CONT")?;
    let stops = running.output()?;
    match stops.trim() == told.to_string() {
        true => Ok(()),
        false => Err(format!("{told} stops were told, of {stops}")),
    }
}
