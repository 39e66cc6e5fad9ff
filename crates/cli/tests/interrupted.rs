//! Ctrl-C ends each wait for the reader of a named pipe, and long commands say what they leave.

#[path = "common/dir.rs"]
mod dir;
#[path = "common/started.rs"]
mod started;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use dir::Dir;

const STORES: &str = "for opSTORE * always collect pc op1; send 1 stop;\n";

/// A directory with a pipe, a query and a profile.
fn with_pipe(name: &str) -> Dir {
    let dir = Dir::new(name);
    let made = Command::new("mkfifo").arg(dir.0.join("p")).status();
    assert!(made.expect("mkfifo").success());
    fs::write(dir.0.join("q.rpa"), STORES).expect("written");
    dir
}

/// Starts a command as a shell does, in a process group of its own.
fn start(dir: &Dir, line: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
    command.args(line.split(' ')).current_dir(&dir.0);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let started = command.stderr(Stdio::piped()).process_group(0).spawn();
    started.expect("trommel runs")
}

/// Presses Ctrl-C, as often as `times` says, until the command has ended.
fn interrupt(command: &mut Child, times: usize) -> ExitStatus {
    let group = format!("-{}", command.id());
    for _ in 0..times {
        let sent = Command::new("kill").args(["-INT", "--", &group]).status();
        assert!(sent.expect("kill").success());
        let clock = Instant::now();
        while clock.elapsed() < Duration::from_secs(10) {
            if let Some(status) = command.try_wait().expect("a child") {
                return status;
            }
            sleep(Duration::from_millis(10));
        }
    }
    command.kill().expect("killed");
    panic!("it waits and cannot be interrupted");
}

#[test]
fn a_pipe_without_a_reader_is_waited_for_and_a_signal_ends_the_wait() {
    let dir = with_pipe("unread");
    let recorded = start(&dir, "record --quiet -- true").wait();
    assert!(recorded.expect("recorded").success());
    for line in [
        "record -q q.rpa --messages p -- true",
        "record -o p -- true",
        "record --stream p -- true",
        "record --html p -- true",
        "record --stats p -- true",
        "run --stats p -- true",
        "stat -o p -- true",
        "export -f csv -o p",
        "report --html p",
        "merge -o p trommel.data",
        "top --once -o p -- true",
        "model -q q.rpa -o p -- true",
        "query asm -o p q.rpa",
    ] {
        let mut command = start(&dir, line);
        let mut errors = BufReader::new(command.stderr.take().expect("piped"));
        let mut said = String::new();
        // A warning may come first.
        while !said.contains("Ctrl-C ends the wait") {
            assert!(
                errors.read_line(&mut said).expect("read") > 0,
                "{line}: {said}"
            );
        }
        assert!(said.contains("p: waits for somebody"), "{line}: {said}");
        assert_eq!(interrupt(&mut command, 1).signal(), Some(2), "{line}");
    }
}

#[test]
fn a_reader_of_a_pipe_gets_all_of_it() {
    let dir = with_pipe("read");
    for (line, begins) in [
        ("record --quiet -q q.rpa --messages p -- true", "{\"pid\":"),
        ("record --quiet --stream p -- true", "tstream"),
        ("record --quiet -o p -- true", "\u{fffd}TROMMEL"),
    ] {
        let path = dir.0.join("p");
        // As `reader < p &` does, which may be late.
        let reader = thread::spawn(move || {
            sleep(Duration::from_millis(50));
            fs::read(path).expect("read")
        });
        let done = start(&dir, line).wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{line}: {said}");
        let read = reader.join().expect("the reader");
        let first = String::from_utf8_lossy(&read);
        assert!(first.starts_with(begins), "{line}");
    }
}

#[test]
fn a_reader_that_does_not_read_is_given_up_after_a_signal() {
    let dir = with_pipe("stuck");
    const NONBLOCK: i32 = 0o4000;
    let _reader = File::options()
        .read(true)
        .custom_flags(NONBLOCK)
        .open(dir.0.join("p"))
        .expect("opened");
    // Far more messages than there is room for.
    let mut command = start(&dir, "record -q q.rpa --messages p -- yes");
    sleep(Duration::from_millis(500));
    interrupt(&mut command, 2);
    let mut said = String::new();
    let mut errors = command.stderr.take().expect("piped");
    errors.read_to_string(&mut said).expect("text");
    assert!(said.contains("p: interrupted"), "{said}");
}

#[test]
fn a_long_command_says_what_was_interrupted_and_what_there_is() {
    let dir = with_pipe("long");
    for (line, said) in [
        (
            "model -q q.rpa -- sleep 60",
            "trommel: interrupted while sleep was recorded instruction by instruction: nothing was reported",
        ),
        (
            "lab stratified-7 --program sleep\u{a0}60",
            "trommel: interrupted: nothing was written yet",
        ),
    ] {
        let words = line.split(' ').map(|word| word.replace('\u{a0}', " "));
        let mut command = Command::new(env!("CARGO_BIN_EXE_trommel"));
        command.args(words).current_dir(&dir.0);
        command.env("XDG_CACHE_HOME", dir.0.join("cache"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let started = command.stderr(Stdio::piped()).process_group(0).spawn();
        let mut command = started.expect("trommel runs");
        started::wait_for(
            &command,
            if line.starts_with("lab") {
                "trommel"
            } else {
                "sleep"
            },
        );
        assert_eq!(interrupt(&mut command, 1).signal(), Some(2), "{line}");
        let mut words = String::new();
        let mut errors = command.stderr.take().expect("piped");
        errors.read_to_string(&mut words).expect("text");
        assert!(words.contains(said), "{words}");
    }
}
