//! The command's side: it finds the session of a process, and asks it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::unistd::Pid;
use trommel_query::{Program, image};

use super::directory::{self, NoDirectory};
use crate::ask::loads;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of an answer at most.
const MOST: u64 = 1 << 20;

/// A question to a session.
#[derive(Debug)]
pub enum Ask<'a> {
    /// A list of all queries.
    List,
    /// A program to load.
    Load(&'a str, &'a Program),
    /// The queries of a name, or those that send to a queue, away.
    Remove(&'a str),
}

/// The reason why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum NotAsked {
    /// No session.
    #[error(
        "no session asks queries of process {0}: begin one with `trommel record -q FILE -p {0}`"
    )]
    NoSession(i32),
    /// No process.
    #[error("no process has the number {0}")]
    NoProcess(i32),
    /// The session has ended.
    #[error("the session of process {0} has ended")]
    Ended(i32),
    /// Sockets are not where they should be.
    #[error(transparent)]
    Directory(#[from] NoDirectory),
    /// The session refuses.
    #[error("{0}")]
    Refused(String),
    /// The system fails.
    #[error("the session of process {0} does not answer: {1}")]
    System(i32, io::Error),
    /// A session says nothing, such as one that is stopped.
    #[error(
        "session {1} does not answer, and may be that of process {0}: resume it if it is stopped (kill -CONT {1})"
    )]
    Silent(i32, String),
}

/// Returns true if a load may have this name.
pub fn is_name(name: &str) -> bool {
    loads::is_name(name)
}

/// Returns the name of a load from a file's: with other characters than a name may have replaced.
pub fn name_of(file: &Path) -> String {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    let stem = stem.unwrap_or_default();
    let one = |c: char| match c.is_ascii_alphanumeric() || c == '_' || c == '-' {
        true => c,
        false => '_',
    };
    let name: String = stem.chars().take(60).map(one).collect();
    match is_name(&name) {
        true => name,
        false => format!("q{name}"),
    }
}

/// Asks the session that observes process `pid`. Returns its answer.
///
/// # Errors
/// Why there is none.
pub fn ask(pid: i32, what: &Ask<'_>) -> Result<String, NotAsked> {
    let answer = match directory::there()? {
        Some(directory) => ask_in(&directory, pid, &request(pid, what)),
        None => Err(NotAsked::NoSession(pid)),
    };
    match answer {
        Err(NotAsked::NoSession(_)) if kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) => {
            Err(NotAsked::NoProcess(pid))
        }
        answer => answer,
    }
}

/// Asks the session whose own process number is `session`, which serves process `pid`. Returns its answer.
///
/// # Errors
/// Why there is none. It may be that the session does not listen yet.
pub(super) fn ask_session(session: i32, pid: i32, what: &Ask<'_>) -> Result<String, NotAsked> {
    let none = || NotAsked::NoSession(pid);
    let directory = directory::there()?.ok_or_else(none)?;
    let socket = directory.join(format!("{session}.sock"));
    let asked = Asked::new(&socket, &request(session, what));
    answered(vec![asked.map_err(|_| none())?], pid)
}

/// A request in the bytes that sessions read.
fn request(pid: i32, what: &Ask<'_>) -> Vec<u8> {
    match what {
        Ask::List => format!("trommel 1 list {pid}\n").into_bytes(),
        Ask::Remove(what) => format!("trommel 1 remove {pid} {what}\n").into_bytes(),
        Ask::Load(name, program) => {
            let image = image::encode(program);
            let line = format!("trommel 1 load {pid} {name} {}\n", image.len());
            [line.into_bytes(), image].concat()
        }
    }
}

/// A session that was asked, and its answer so far.
struct Asked {
    /// Its process number.
    session: String,
    stream: UnixStream,
    answer: Vec<u8>,
}

impl Asked {
    /// Sends a request to a session.
    fn new(socket: &Path, request: &[u8]) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        // One that has ended meanwhile says so when its answer is read.
        let _ = stream.write_all(request);
        stream.set_nonblocking(true)?;
        let session = socket.file_stem().map(|stem| stem.to_string_lossy());
        Ok(Self {
            session: session.unwrap_or_default().into_owned(),
            stream,
            answer: Vec::new(),
        })
    }

    /// Reads what there is. Returns the answer when it is whole, or cannot be.
    fn read(&mut self, pid: i32) -> Option<Result<Option<String>, NotAsked>> {
        let mut buffer = [0; 4096];
        while self.answer.len() as u64 <= MOST {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => self.answer.extend_from_slice(&buffer[..n]),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return None,
                    ErrorKind::Interrupted => {}
                    // It has ended just now.
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => break,
                    _ => return Some(Err(NotAsked::System(pid, error))),
                },
            }
        }
        Some(read(pid, &String::from_utf8_lossy(&self.answer)))
    }
}

/// Asks all sessions of a directory until one answers for the process.
fn ask_in(directory: &Path, pid: i32, request: &[u8]) -> Result<String, NotAsked> {
    let entries = fs::read_dir(directory);
    let entries = entries.map_err(|error| NoDirectory::System(directory.to_owned(), error))?;
    let mut all = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "sock") {
            continue;
        }
        match Asked::new(&path, request) {
            Ok(asked) => all.push(asked),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                // Its session was killed, or is just about to listen.
                if !is_of_process(&path) {
                    let _ = fs::remove_file(&path);
                }
            }
            Err(_) => {}
        }
    }
    answered(all, pid)
}

/// Returns the first answer for the process. Nobody waits for another's session, and what befalls that is no answer.
fn answered(mut all: Vec<Asked>, pid: i32) -> Result<String, NotAsked> {
    let until = Instant::now() + PATIENCE;
    let mut failed = None;
    while let Some(first) = all.first() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            failed = Some(NotAsked::Silent(pid, first.session.clone()));
            break;
        }
        wait(&all, left);
        let mut others = Vec::new();
        for mut asked in all {
            match asked.read(pid) {
                None => others.push(asked),
                Some(Ok(Some(answer))) => return Ok(answer),
                Some(Ok(None)) => {}
                Some(Err(refused @ NotAsked::Refused(_))) => return Err(refused),
                // It may be the one that was meant, if no other is.
                Some(Err(error)) => failed = Some(error),
            }
        }
        all = others;
    }
    Err(failed.unwrap_or(NotAsked::NoSession(pid)))
}

/// Waits until there is something to read.
fn wait(asked: &[Asked], most: Duration) {
    let watched = asked.iter().map(|one| one.stream.as_fd());
    let mut watched: Vec<PollFd<'_>> = watched
        .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
        .collect();
    let most = PollTimeout::try_from(most).unwrap_or(PollTimeout::MAX);
    // An error is that of the next read, too.
    let _ = poll(&mut watched, most);
}

/// Returns true if the process is there whose number a socket has.
fn is_of_process(socket: &Path) -> bool {
    let number = socket.file_stem().and_then(|stem| stem.to_str());
    number.is_some_and(|number| Path::new("/proc").join(number).exists())
}

/// Returns what an answer says; `None`: the process is of another session.
fn read(pid: i32, answer: &str) -> Result<Option<String>, NotAsked> {
    let Some((line, text)) = answer.split_once('\n') else {
        return Err(NotAsked::Ended(pid));
    };
    let is_whole = |length: &str| length.parse() == Ok(text.len());
    match line.split_once(' ') {
        None if line == "other" => Ok(None),
        Some(("ok", length)) if is_whole(length) => Ok(Some(text.to_owned())),
        Some(("error", length)) if is_whole(length) => Err(NotAsked::Refused(text.to_owned())),
        _ => Err(NotAsked::Ended(pid)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn files_give_names() {
        let name = |file: &str| name_of(Path::new(file));
        assert_eq!(name("/tmp/edges.rpa"), "edges");
        assert_eq!(name("my stores.rpa"), "my_stores");
        assert_eq!(name("12.rpa"), "q12");
        assert_eq!(name("-"), "-");
        assert!(is_name(&name("")));
    }

    /// A directory of sockets, by name, each with what its session says to one caller; without words nobody listens.
    fn sessions(name: &str, all: &[(&str, Option<&'static str>)]) -> std::path::PathBuf {
        let directory = std::env::temp_dir().join(format!("trommel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).expect("a directory");
        for (file, says) in all {
            let listener = UnixListener::bind(directory.join(file)).expect("a socket");
            let Some(says) = *says else { continue };
            std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a caller");
                let mut request = [0; 64];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(says.as_bytes());
            });
        }
        directory
    }

    #[test]
    fn what_befalls_other_sessions_is_no_answer() {
        let others = [
            ("1.sock", Some("")),
            ("2.sock", Some("other\n")),
            ("3.sock", Some("ok 9\ncut")),
        ];
        let directory = sessions(
            "others",
            &[&others[..], &[("4.sock", Some("ok 3\nyes"))]].concat(),
        );
        let answer = ask_in(&directory, 7, b"trommel 1 list 7\n");
        assert!(matches!(answer, Ok(text) if text == "yes"));
        let directory = sessions("others", &others);
        let answer = ask_in(&directory, 7, b"trommel 1 list 7\n");
        assert!(matches!(answer, Err(NotAsked::Ended(7))));
        let directory = sessions("others", &others[1..2]);
        let answer = ask_in(&directory, 7, b"trommel 1 list 7\n");
        assert!(matches!(answer, Err(NotAsked::NoSession(7))));
        fs::remove_dir_all(directory).expect("removed");
    }

    /// A session that is stopped: who asks for the process of another one does not wait for it.
    #[test]
    fn a_silent_session_keeps_nobody_waiting() {
        let directory = sessions("silent", &[("2.sock", Some("ok 3\nyes"))]);
        let silent = UnixListener::bind(directory.join("1.sock")).expect("a socket");
        let began = Instant::now();
        let answer = ask_in(&directory, 7, b"trommel 1 list 7\n");
        assert!(matches!(answer, Ok(text) if text == "yes"));
        assert!(began.elapsed() < PATIENCE / 2);
        drop(silent);
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn sockets_without_a_process_are_taken_away_and_no_others() {
        let own = format!("{}.sock", std::process::id());
        let directory = sessions("left", &[(&own, None), ("4294967295.sock", None)]);
        assert!(ask_in(&directory, 7, b"trommel 1 list 7\n").is_err());
        assert!(directory.join(own).exists());
        assert!(!directory.join("4294967295.sock").exists());
        fs::remove_dir_all(directory).expect("removed");
    }

    #[test]
    fn an_answer_that_is_cut_is_none() {
        assert!(matches!(read(1, "other\n"), Ok(None)));
        assert!(matches!(read(1, "ok 3\nyes"), Ok(Some(text)) if text == "yes"));
        assert!(matches!(read(1, "ok 9\nyes"), Err(NotAsked::Ended(1))));
        assert!(matches!(read(1, ""), Err(NotAsked::Ended(1))));
        assert!(matches!(read(1, "error 2\nno"), Err(NotAsked::Refused(why)) if why == "no"));
    }
}
