//! Outputs that may be pipes.
//!
//! # Problem
//! `open` of a named pipe waits for a reader, and `write` waits for one that reads. While a program runs, signals that ask for an
//! end are the program's: they end neither wait.
//!
//! # Strategy
//! An [`Outlet`] never waits to be opened: a pipe without a reader is refused. The command waits for readers before anything
//! starts, where a signal ends it ([`reader`]). What is no regular file is written without blocking. While there is no room the
//! outlet looks whether a signal has come ([`interrupt`]), and then gives the reader one more second.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Time that a reader has after a signal.
const GRACE: Duration = Duration::from_secs(1);
/// Milliseconds between two looks for signals, of which another thread may have got the last.
const LOOK: u16 = 100;

/// Signals so far that asked for an end.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// Notes a signal that asks for an end. Async-signal-safe.
pub fn interrupt() {
    INTERRUPTS.fetch_add(1, Relaxed);
}

/// Opens a named pipe for writing, so that its reader sees no end before this is dropped. `wait` is called before a wait for a reader.
/// Returns `None` for what is no named pipe.
///
/// # Errors
/// Those of the system.
pub fn reader(path: &Path, wait: impl FnOnce()) -> io::Result<Option<File>> {
    if !path.metadata().is_ok_and(|m| m.file_type().is_fifo()) {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    options.write(true);
    let at_once = options.clone().custom_flags(NONBLOCK).open(path);
    match at_once {
        Err(error) if is_unread(&error) => {
            wait();
            options.open(path).map(Some)
        }
        other => other.map(Some),
    }
}

const NONBLOCK: i32 = OFlag::O_NONBLOCK.bits();

fn is_unread(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENXIO as i32)
}

/// A file, a device or a pipe that is written. See the module's header.
#[derive(Debug)]
pub struct Outlet {
    file: File,
    /// The reader may be waited for.
    waits: bool,
    /// It was waited for in vain: buffers that are flushed later must not wait again.
    gave_up: bool,
}

impl Outlet {
    /// Opens what is at `path`, as `options` say.
    ///
    /// # Errors
    /// Those of the system, and a pipe without a reader.
    pub fn open(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let opened = options.clone().custom_flags(NONBLOCK).open(path);
        let file = opened.map_err(|error| match is_unread(&error) {
            true => io::Error::new(
                io::ErrorKind::BrokenPipe,
                "nobody reads this pipe; start its reader first",
            ),
            false => error,
        })?;
        Ok(Self {
            waits: !file.metadata()?.is_file(),
            file,
            gave_up: false,
        })
    }

    /// Opens the file at `path` in place of an earlier one.
    ///
    /// # Errors
    /// As [`Outlet::open`].
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        Self::open(path, options.write(true).create(true).truncate(true))
    }

    /// Opens the same once more.
    ///
    /// # Errors
    /// Those of the system.
    pub fn try_clone(&self) -> io::Result<Self> {
        let file = self.file.try_clone()?;
        Ok(Self { file, ..*self })
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Write for Outlet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Of the kind `Interrupted`, it would be tried again.
        let interrupted = || io::Error::other("interrupted, as its reader does not read");
        if self.gave_up {
            return Err(interrupted());
        }
        let before = INTERRUPTS.load(Relaxed);
        let mut until = None;
        loop {
            match self.file.write(bytes) {
                Err(error) if self.waits && error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let mut asked = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
            // A signal ends it, too.
            let _ = poll(&mut asked, PollTimeout::from(LOOK));
            if INTERRUPTS.load(Relaxed) == before {
                continue;
            }
            let now = Instant::now();
            if now >= *until.get_or_insert(now + GRACE) {
                self.gave_up = true;
                return Err(interrupted());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::io::Read;
    use std::string::ToString;
    use std::thread;
    use std::vec::Vec;

    fn pipe(name: &str) -> std::path::PathBuf {
        let name = format!("trommel-outlet-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        path
    }

    #[test]
    fn a_pipe_without_a_reader_is_refused_and_one_with_a_reader_is_written() {
        let path = pipe("read");
        let error = Outlet::create(&path).expect_err("nobody reads");
        assert!(error.to_string().contains("nobody reads"), "{error}");
        let waited = std::cell::Cell::new(false);
        thread::scope(|scope| {
            let text = scope.spawn(|| {
                // The writer is to come first.
                thread::sleep(Duration::from_millis(50));
                let mut text = Vec::new();
                let mut file = File::open(&path).expect("opened");
                file.read_to_end(&mut text).expect("read");
                text.len()
            });
            let held = reader(&path, || waited.set(true)).expect("a reader");
            assert!(held.is_some() && waited.get());
            let mut outlet = Outlet::create(&path).expect("it is read");
            // More than there is room for.
            outlet.write_all(&[7; 1 << 20]).expect("written");
            drop((outlet, held));
            assert_eq!(text.join().expect("the reader"), 1 << 20);
        });
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn a_signal_ends_the_wait_for_a_reader_that_does_not_read() {
        let path = pipe("unread");
        let _reader = File::options()
            .read(true)
            .custom_flags(NONBLOCK)
            .open(&path)
            .expect("opened");
        let mut outlet = Outlet::create(&path).expect("it has a reader");
        let began = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                interrupt();
            });
            let error = outlet.write_all(&[7; 1 << 20]).expect_err("interrupted");
            assert!(error.to_string().contains("interrupted"), "{error}");
        });
        assert!(began.elapsed() >= GRACE);
        // No other signal has to come.
        outlet.write_all(b"more").expect_err("it was given up");
        std::fs::remove_file(path).expect("removed");
    }

    #[test]
    fn files_are_created_and_waited_for_by_nobody() {
        let name = format!("trommel-outlet-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let wait = || panic!("no pipe");
        assert!(reader(&path, wait).expect("no file").is_none());
        Outlet::create(&path)
            .and_then(|mut outlet| outlet.write_all(b"text"))
            .expect("written");
        assert!(reader(&path, wait).expect("a file").is_none());
        assert_eq!(std::fs::read(&path).expect("read"), b"text");
        std::fs::remove_file(path).expect("removed");
    }
}
