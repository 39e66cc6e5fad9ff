//! One program recorded from its first instruction to its end.
//!
//! The calling thread serves the queue: it takes chunks as the target's threads fill them, folds
//! each and gives it back, and sleeps when there is none. A second thread
//! waits for the program to end. What a thread had recorded and not published when the program ended
//! is read up to its write pointer, so nothing it delivered is lost, however it ended. The same is
//! done while the program runs when its code is about to change, as records must be understood while
//! the code that they name is what it was.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant, SystemTime};

use trommel_compress::Spec;
use trommel_profile::{Profile, Run, Threads};
use trommel_queue::{LetGo, State};
use trommel_symbol::launch::Program;
use trommel_tuple::KindSet;

use crate::failure;
use crate::fold::Folder;
use crate::interrupt::Guard;
use crate::launch::{Command, Ended, Inherited, LaunchFailure, has_ended, launch, wait};
use crate::only::{Only, Selection};
use crate::shared::{Damaged, Filled, SharedFile};
use crate::stream::Pending;

/// What to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// The program, found and checked.
    pub program: Program,
    /// Its argument vector, the name as typed first.
    pub arguments: Vec<OsString>,
    /// What the program is to find as we did.
    pub inherited: Inherited,
    /// Events to collect.
    pub kinds: KindSet,
    /// The compressor.
    pub compressor: Spec,
    /// Where every event goes, in order.
    pub stream: Option<PathBuf>,
    /// Ends the program once the stream has this many events.
    pub stream_limit: Option<u64>,
    /// What to observe; everything when empty.
    pub only: Vec<Only>,
    /// Stress options of the runtime, see `docs/testing.md`.
    pub stress: u64,
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What was collected.
    pub profile: Profile,
    /// How the program ended.
    pub ended: Ended,
    /// Whether we ended it, as its stream had all the events that were wanted.
    pub limited: bool,
    /// What the engine did.
    pub engine: Engine,
    /// Whether all of the stream, if one was wanted, is in its file.
    pub stream_whole: bool,
}

/// The engine's own figures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Engine {
    /// Fragments translated.
    pub fragments: u64,
    /// App instructions in them.
    pub instructions: u64,
    /// Returns to the dispatcher.
    pub dispatches: u64,
    /// Indirect branches that the inline lookup did not find.
    pub indirect_misses: u64,
    /// System calls the runtime handled.
    pub syscalls: u64,
    /// Signals delivered to handlers.
    pub signals: u64,
    /// Bytes of code cache.
    pub cache_bytes: u64,
    /// Times code was dropped because it changed or the cache was full.
    pub invalidations: u64,
    /// Children started, which ran natively.
    pub children: u64,
    /// Bytes of records.
    pub record_bytes: u64,
}

/// Why a run could not be recorded at all.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program did not start.
    #[error("{}: {failure}", .program.display())]
    Launch {
        /// The program.
        program: PathBuf,
        /// Why.
        failure: LaunchFailure,
    },
    /// No shared memory.
    #[error(
        "cannot make the memory shared with the program: {0}; `trommel doctor` tells what is in the way"
    )]
    Shared(std::io::Error),
    /// The program has no room for the runtime, or may not have it.
    #[error("{}: the runtime cannot start in it: a limit or a sandbox refuses it memory; `trommel doctor` tells which", .program.display())]
    NotStarted {
        /// The program; nothing of it has run.
        program: PathBuf,
    },
    /// No stream file.
    #[error("{}: cannot write the event stream: {error}", .path.display())]
    Stream {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Runs the program and collects its events. `notice` gets, as it happens, what the user should
/// know: one line each. While it runs, `guard` gives it the interrupts; who writes the profile keeps
/// the guard until that is done.
pub fn record(
    options: &RecordOptions,
    guard: &Guard,
    notice: &mut dyn FnMut(&str),
) -> Result<Recording, RecordError> {
    let shared = SharedFile::new(options.kinds, options.stress).map_err(RecordError::Shared)?;
    let stream = match &options.stream {
        Some(path) => {
            let file = Pending::open(path).map_err(|error| RecordError::Stream {
                path: path.clone(),
                error,
            })?;
            Some((file, options.stream_limit))
        }
        None => None,
    };
    let selection = Selection::new(options.only.clone(), &options.program.elf);
    let started = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let clock = Instant::now();
    let args: Vec<&OsStr> = options.arguments.iter().map(OsString::as_os_str).collect();
    let command = Command {
        file: &options.program.path,
        args,
        inherited: options.inherited,
        guard,
    };
    let pid =
        launch(&command, shared.fd(), || shared.warm()).map_err(|failure| RecordError::Launch {
            program: options.program.path.clone(),
            failure,
        })?;
    guard.program(pid);
    let stream = stream.map(|(file, limit)| (file.begin(), limit));
    let mut folder = Folder::new(&options.compressor, stream, selection);
    let mut served = Served::default();
    let over = AtomicBool::new(false);
    let (folded, (ended, wall)) = std::thread::scope(|scope| {
        let waiter = std::thread::Builder::new().spawn_scoped(scope, || {
            let ended = (wait(pid), clock.elapsed());
            over.store(true, SeqCst);
            shared.wake();
            ended
        });
        match waiter {
            Ok(waiter) => {
                let over = || over.load(SeqCst) || shared.is_ending();
                let target = Target { pid, over: &over };
                serve(&shared, &mut folder, &mut served, notice, &target);
                // While the kernel takes the process apart.
                let folded = folder.finish(options.kinds);
                (folded, waiter.join().unwrap_or_default())
            }
            // The limit for processes is reached: its end is seen a little later then.
            Err(_) => {
                let over = || has_ended(pid);
                let target = Target { pid, over: &over };
                serve(&shared, &mut folder, &mut served, notice, &target);
                let ended = (wait(pid), clock.elapsed());
                (folder.finish(options.kinds), ended)
            }
        }
    });
    guard.ended();
    let control = shared.control();
    let mut let_go = served.let_go;
    match State::from_number(control.state.load(Relaxed)) {
        Some(State::Exec) => {
            let_go.push("it became another program (exec), which ran natively".to_owned());
        }
        Some(State::Fresh) if ended.status == Some(NOT_STARTED) => {
            return Err(RecordError::NotStarted {
                program: options.program.path.clone(),
            });
        }
        Some(State::Fresh) => let_go.push("the runtime did not start".to_owned()),
        _ => {}
    }
    let limited = served.limited && ended.status == Some(-libc::SIGKILL);
    if limited {
        let_go.push("it was ended when the stream had all the events that were wanted".to_owned());
    }
    let children = u64::from(control.children.load(Relaxed));
    if children != 0 {
        let_go.push(format!("{children} child processes, which ran natively"));
    }
    if let Some(error) = &folded.stream_error {
        served.stream_failed = true;
        notice(&format!(
            "{error}; the stream is cut short, the profile is not"
        ));
    }
    let run = Run {
        started: started.as_nanos() as u64,
        wall: wall.as_nanos() as u64,
        target_cpu: ended.cpu.as_nanos() as u64,
        host_cpu: host_cpu().as_nanos() as u64,
        status: ended.status,
        dropped: 0,
        waits: control.waits.load(Relaxed),
        wait_time: control.wait_nanos.load(Relaxed),
        let_go,
    };
    let engine = Engine {
        fragments: control.fragments.load(Relaxed),
        instructions: control.instructions.load(Relaxed),
        dispatches: control.dispatches.load(Relaxed),
        indirect_misses: control.indirect_misses.load(Relaxed),
        syscalls: control.syscalls.load(Relaxed),
        signals: control.signals.load(Relaxed),
        cache_bytes: control.cache_bytes.load(Relaxed),
        invalidations: control.invalidations.load(Relaxed),
        children,
        record_bytes: served.bytes,
    };
    let command = options
        .arguments
        .iter()
        .map(|a| a.as_bytes().to_vec())
        .collect();
    let compressor = options.compressor.to_string();
    let started = u64::from(control.threads.load(Relaxed));
    let threads = Threads {
        started: if started > 1 { started } else { 0 },
        each: folded.threads,
    };
    let profile = Profile {
        command,
        compressor,
        modules: folded.modules.list,
        kinds: folded.kinds,
        sites: folded.sites,
        run,
        threads,
    };
    Ok(Recording {
        profile,
        ended,
        limited,
        engine,
        stream_whole: !served.stream_failed,
    })
}

/// The exit status of a program whose runtime could not start.
const NOT_STARTED: i32 = 126;

/// CPU time of this process so far.
fn host_cpu() -> Duration {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    usage.map_or(Duration::ZERO, |u| {
        let t = |v: nix::sys::time::TimeVal| {
            Duration::new(v.tv_sec() as u64, v.tv_usec() as u32 * 1000)
        };
        t(u.user_time()) + t(u.system_time())
    })
}

#[derive(Default)]
struct Served {
    bytes: u64,
    let_go: Vec<String>,
    failed: bool,
    /// The runtime has failed, and that was told.
    told: bool,
    stream_failed: bool,
    limited: bool,
}

/// The program as the queue's server sees it.
struct Target<'a> {
    pid: nix::unistd::Pid,
    over: &'a dyn Fn() -> bool,
}

const IDLE: Duration = Duration::from_millis(100);

/// Serves the queue until the program has ended and everything is folded.
fn serve(
    shared: &SharedFile,
    folder: &mut Folder,
    served: &mut Served,
    notice: &mut dyn FnMut(&str),
    target: &Target<'_>,
) {
    let mut queue = Queue::default();
    loop {
        // Asked before looking, so that what was published before the end is seen.
        let over = (target.over)();
        let asked = shared.settle_asked();
        // No further: threads may publish as fast as this folds.
        let until = shared.published_count();
        while queue.taken < until && queue.take(shared, over, folder, served, notice) {
            if folder.is_full() && !served.limited && !over {
                served.limited = true;
                let _ = nix::sys::signal::kill(target.pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
        if over || asked.is_some() {
            // What was not published, or only just: for each thread the chunk it had when it asked
            // or ended.
            for chunk in shared.oldest(queue.taken) {
                if let Some(filled) = shared.filled(chunk) {
                    queue.rest(shared, filled, folder, served, notice);
                }
            }
        }
        if let Some(asked) = asked {
            shared.settled(asked);
        }
        if let Some(words) = let_go(shared)
            && served.let_go.is_empty()
        {
            notice(&format!(
                "not observed from here on: the program runs natively because {words}"
            ));
            served.let_go.push(words);
        }
        if !served.told
            && let Some(words) = failure::words(shared)
        {
            notice(&words);
            served.told = true;
        }
        if over {
            let done = folder.end(shared);
            report(done, folder, served, notice);
            return;
        }
        shared.sleep(queue.taken, IDLE, target.over);
    }
}

/// How far the queue has been read.
#[derive(Default)]
struct Queue {
    /// Published chunks given back.
    taken: u64,
    /// By chunk: bytes that were folded before it was published.
    folded: Vec<usize>,
    bytes: Vec<u8>,
}

impl Queue {
    /// Folds the next published chunk; whether there was one.
    fn take(
        &mut self,
        shared: &SharedFile,
        over: bool,
        folder: &mut Folder,
        served: &mut Served,
        notice: &mut dyn FnMut(&str),
    ) -> bool {
        match shared.published(&mut self.taken, over) {
            Ok(None) => false,
            Ok(Some(filled)) => {
                self.rest(shared, filled, folder, served, notice);
                self.folded[filled.chunk as usize] = 0;
                // Only now: until it is folded, the runtime may not write there.
                shared.give_back(filled.chunk, &mut self.taken);
                true
            }
            Err(damaged) => {
                if !served.failed {
                    served.failed = true;
                    notice(&format!("the profile is incomplete: {damaged}"));
                }
                false
            }
        }
    }

    /// Folds what a chunk holds beyond what was folded of it before.
    fn rest(
        &mut self,
        shared: &SharedFile,
        filled: Filled,
        folder: &mut Folder,
        served: &mut Served,
        notice: &mut dyn FnMut(&str),
    ) {
        let at = filled.chunk as usize;
        if self.folded.len() <= at {
            self.folded.resize(at + 1, 0);
        }
        let before = std::mem::replace(&mut self.folded[at], filled.bytes);
        if before >= filled.bytes {
            return;
        }
        shared.copy_chunk(filled.chunk, before..filled.bytes, &mut self.bytes);
        served.bytes += self.bytes.len() as u64;
        if !served.failed {
            let done = folder.chunk(shared, &filled, &self.bytes);
            report(done, folder, served, notice);
        }
    }
}

/// Tells, once, what went wrong.
fn report(
    done: Result<(), Damaged>,
    folder: &mut Folder,
    served: &mut Served,
    notice: &mut dyn FnMut(&str),
) {
    if let Err(error) = done
        && !std::mem::replace(&mut served.failed, true)
    {
        notice(&format!("the profile is incomplete: {error}"));
    }
    if let Some(error) = folder.stream_error() {
        served.stream_failed = true;
        notice(&format!(
            "{error}; the stream ends there, the profile does not"
        ));
    }
}

fn let_go(shared: &SharedFile) -> Option<String> {
    let control = shared.control();
    if State::from_number(control.state.load(Relaxed)) != Some(State::Native) {
        return None;
    }
    let why = LetGo::from_number(control.let_go.load(Relaxed));
    let at = control.let_go_pc.load(Relaxed);
    Some(format!(
        "{} (at {at:#x})",
        why.map_or("of a reason it did not tell", LetGo::words)
    ))
}
