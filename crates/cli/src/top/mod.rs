//! `trommel top`: hot functions, branches and values of what runs, while it runs, within a budget.
//!
//! A child collects ([`collect`]): a process in windows, or the machine by samples. This process has the terminal, adds up
//! what comes ([`history`]), and shows it ([`screen`]). Without a terminal it writes one screen as text, or lines of JSON.

mod collect;
mod history;
mod intervals;
mod screen;
mod snapshot;
mod state;
mod tables;
#[cfg(feature = "top")]
mod terminal;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child as Program, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use trommel_compress::note;
use trommel_host::kernel::interrupt::{self, Guard};
use trommel_host::serve::record::check_windows;
use trommel_host::takeover::children::{self, Child};
use trommel_symbol::launch;
use trommel_tuple::{Kind, KindSet};

use crate::args::TopArgs;
use crate::compress;
use crate::output;
use crate::pipes;
use crate::record::CHEAP_KINDS;
use crate::report::table::Style;
use collect::{Profiler, Settings};
use history::History;
use snapshot::Snapshot;
use state::State;

/// Time that collecting may take to end, and the program too.
const PATIENCE: Duration = Duration::from_secs(30);
/// Moments that one screen is of: the first one is short.
const ONCE: usize = 2;
/// Time in which a process must do something to be on one screen.
const IDLE: Duration = Duration::from_secs(8);
/// Rows of each table of one screen.
const ROWS: usize = 12;

/// Events that an interval profiler counts.
const COUNTED: [Kind; 5] = [Kind::Edge, Kind::Call, Kind::Value, Kind::Type, Kind::Path];

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode> {
    let on_screen = !args.once && !args.json;
    if on_screen {
        check_terminal()?;
    }
    let intervals = profiler(args)?;
    if !args.all && intervals.is_none() {
        check_windows()?;
    }
    let mut program = match args.program.is_empty() {
        true => None,
        false => Some(start(args)?),
    };
    let of_intervals = intervals.is_some();
    let pid = args.pid.or(program.as_ref().map(|p| p.id() as i32));
    let settings = Settings {
        pid,
        budget: args.budget,
        delay: args.delay,
        shown_by: std::process::id() as i32,
        intervals,
    };
    let guard = interrupt::guard();
    let (reader, writer) = io::pipe().context("cannot make a pipe")?;
    let mut writer = Some(File::from(std::os::fd::OwnedFd::from(writer)));
    let child = Child::start(|| match writer.take() {
        Some(to) => collect::run(settings, to, &guard),
        None => 1,
    });
    let child = child.context("cannot start a process that collects")?;
    drop(writer);
    let moments = moments(reader);
    let done = match (args.json, args.once) {
        (true, _) => lines(&moments, args.count, &guard),
        (_, true) => once(&moments, State::new(of_intervals), args.delay, &guard),
        _ => on_terminal(&moments, State::new(of_intervals), &guard),
    };
    let is_interrupted = guard.asked();
    let by_itself = program.as_mut().and_then(|p| p.try_wait().ok().flatten());
    child.ask();
    let ended = wait(|| child.ended().is_some());
    if let Some(program) = &mut program {
        end(program);
    }
    drop(guard);
    if !ended {
        bail!("what was watched has not been detached yet");
    }
    let (history, quits) = done?;
    match (history.last(), by_itself, history.news.front()) {
        (Some(_), ..) => Ok(ExitCode::SUCCESS),
        (None, Some(status), _) => bail!(
            "the program ended ({status}) before anything was counted: `trommel record` counts programs from their first instruction"
        ),
        (None, None, Some(why)) => bail!("{why}"),
        // Who looked has seen that there was nothing yet.
        (None, None, None) if quits => Ok(ExitCode::SUCCESS),
        (None, None, None) if is_interrupted => bail!("interrupted before anything was counted"),
        (None, None, None) => bail!(
            "nothing was counted: what is watched ended, or sleeps; try again when it runs, or with a larger --budget"
        ),
    }
}

/// The interval profiler that was asked for.
fn profiler(args: &TopArgs) -> Result<Option<Profiler>> {
    let Some(text) = &args.compressor else {
        return Ok(None);
    };
    let spec = compress::parse(text)?;
    if let Some(warning) = note(&spec) {
        output::complain(&warning);
    }
    if spec.interval().is_none() {
        bail!(
            "-c {spec}: top shows what an interval profiler finds: name one, as in -c 'M4[10k,1%]2048' (`trommel help specs`), \
             or leave it out to sample"
        );
    }
    let kinds = match args.events {
        None => CHEAP_KINDS.into_iter().collect(),
        Some(events) if events.stacks || events.contexts || events.sharing => bail!(
            "-e: an interval profiler counts no contexts, sharing or stacks: name edge, call, value, type or path"
        ),
        Some(events) if events.kinds.is_empty() => {
            bail!("-e none: an interval profiler needs events, such as -e edge,call")
        }
        Some(events) => events.kinds,
    };
    let counted: KindSet = COUNTED.into_iter().collect();
    if let Some(kind) = kinds.iter().find(|kind| !counted.has(*kind)) {
        bail!(
            "-e {kind}: an interval profiler counts edge, call, value, type and path: name some of these"
        );
    }
    Ok(Some(Profiler { spec, kinds }))
}

/// Checks that there is a terminal to show screens on.
fn check_terminal() -> Result<()> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !io::stdout().is_terminal() || dumb {
        bail!(
            "top shows screens, and this is no terminal for that: --once writes one screen as text, --json writes lines"
        );
    }
    match cfg!(feature = "top") {
        true => Ok(()),
        false => bail!("this build shows no screens: use --once or --json"),
    }
}

/// Starts the program, whose output does not disturb the screen.
fn start(args: &TopArgs) -> Result<Program> {
    let path = std::env::var_os("PATH");
    let mut words = args.program.clone();
    let file = launch::resolve_command(&mut words, path.as_deref())?.path;
    let [out, errors] = match &args.output {
        None => [Stdio::null(), Stdio::null()],
        Some(to) => {
            let file = pipes::create(to);
            let file = file.with_context(|| format!("{}: cannot be written", to.display()))?;
            [file.try_clone()?.into(), file.into()]
        }
    };
    let mut command = Command::new(&file);
    command.arg0(&words[0]).args(&words[1..]);
    if io::stdin().is_terminal() {
        // Keys are for the screen.
        command.stdin(Stdio::null());
    }
    let started = command.stdout(out).stderr(errors).spawn();
    started.with_context(|| format!("{}: cannot be started", file.display()))
}

/// Asks the program to end, and then makes it.
fn end(program: &mut Program) {
    children::ask(program);
    if !wait(|| !matches!(program.try_wait(), Ok(None))) {
        let _ = program.kill();
        let _ = program.wait();
    }
}

/// Waits until something is so. Returns false if it takes too long.
fn wait(mut so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Snapshots as they come.
fn moments(from: PipeReader) -> Receiver<Snapshot> {
    let (to, moments) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).split(b'\n') {
            let Ok(line) = line else {
                break;
            };
            let moment = match serde_json::from_slice(&line) {
                Ok(moment) => moment,
                Err(error) => Snapshot::said(format!("counts that cannot be read: {error}")),
            };
            if to.send(moment).is_err() {
                break;
            }
        }
    });
    moments
}

/// The next moment; `None` where none comes any more, or none in time.
fn next(moments: &Receiver<Snapshot>, guard: &Guard, until: Option<Instant>) -> Option<Snapshot> {
    const LOOK: Duration = Duration::from_millis(100);
    while !guard.asked() && until.is_none_or(|until| Instant::now() < until) {
        match moments.recv_timeout(LOOK) {
            Ok(moment) => return Some(moment),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

/// History that was seen, and whether somebody at the terminal wanted to see no more.
type Seen = (History, bool);

/// Writes each moment as a line of JSON.
fn lines(moments: &Receiver<Snapshot>, count: Option<u64>, guard: &Guard) -> Result<Seen> {
    let mut history = History::default();
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0
        && let Some(moment) = next(moments, guard, None)
    {
        if moment.wall_ns > 0 {
            let mut out = io::stdout().lock();
            serde_json::to_writer(&mut out, &moment)?;
            out.write_all(b"\n")?;
            left -= 1;
        }
        history.add(moment);
    }
    Ok((history, false))
}

/// Writes one screen as text.
fn once(
    moments: &Receiver<Snapshot>,
    state: State,
    delay: Duration,
    guard: &Guard,
) -> Result<Seen> {
    let mut history = History::default();
    let mut counted = 0;
    let until = Some(Instant::now() + IDLE + 2 * delay);
    while counted < ONCE
        && let Some(moment) = next(moments, guard, until)
    {
        counted += usize::from(moment.has_counts());
        history.add(moment);
    }
    let Some(last) = history.last().filter(|_| counted > 0) else {
        // What was said is all there is.
        return Ok((history.without_counts(), false));
    };
    let style = Style::of(&io::stdout());
    let mut out = output::stdout();
    let sum = history.sum(true);
    writeln!(out, "# {}", output::printable(&last.command))?;
    let facts = screen::facts(&state, &history, &sum);
    writeln!(out, "#{facts}")?;
    for &shown in state.tables() {
        let of = (shown, shown.orders()[0]);
        let table = tables::lines(&history, &sum, &state, of, style.width);
        if table.rows.is_empty() {
            if history
                .intervals()
                .is_some_and(|found| !found.latest.is_empty())
            {
                writeln!(out, "#{}", screen::nothing(&state, &history))?;
            }
            continue;
        }
        writeln!(out, "\n# {}", style.strong(shown.name()))?;
        writeln!(out, "#{}", &table.head[1..])?;
        for row in table.rows.iter().take(ROWS) {
            writeln!(out, "{row}")?;
        }
    }
    out.flush()?;
    Ok((history, false))
}

#[cfg(feature = "top")]
fn on_terminal(moments: &Receiver<Snapshot>, state: State, guard: &Guard) -> Result<Seen> {
    terminal::run(moments, state, guard)
}

#[cfg(not(feature = "top"))]
fn on_terminal(_: &Receiver<Snapshot>, _: State, _: &Guard) -> Result<Seen> {
    check_terminal().map(|()| (History::default(), false))
}
