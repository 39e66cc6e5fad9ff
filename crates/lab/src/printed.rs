//! Commands that are run to their end. What they print is compared, and may be more than memory holds.

use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::process::{Command, ExitStatus, Stdio};

/// Bytes of the last complaint that are kept.
const KEPT: usize = 4096;

/// Length and hash of what was printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Printed {
    bytes: u64,
    hash: u64,
}

/// End of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The status.
    pub(crate) status: ExitStatus,
    /// The standard output.
    pub(crate) printed: Printed,
    /// The last line of the standard error.
    pub(crate) complaint: Option<String>,
}

/// Runs a command to its end.
///
/// # Errors
/// It cannot be started, or its output cannot be read.
pub(crate) fn run(command: &mut Command) -> io::Result<Ended> {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    let complaint = std::thread::spawn(move || errors.map(last_line));
    let printed = out.map_or(Ok(Printed::default()), all);
    let status = child.wait()?;
    let complaint = complaint.join().ok().flatten().transpose()?.flatten();
    Ok(Ended {
        status,
        printed: printed?,
        complaint,
    })
}

fn all(mut from: impl Read) -> io::Result<Printed> {
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                // A hash of the bytes, whatever pieces they come in.
                hasher.write(&buffer[..n]);
                bytes += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let hash = hasher.finish();
    Ok(Printed { bytes, hash })
}

/// The last line that says anything, of which the end is kept.
fn last_line(mut from: impl Read) -> io::Result<Option<String>> {
    let mut kept = Vec::new();
    let mut buffer = [0; KEPT];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                kept.extend_from_slice(&buffer[..n]);
                let most = kept.len().min(KEPT);
                kept.drain(..kept.len() - most);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let text = String::from_utf8_lossy(&kept);
    let mut lines = text.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty());
    Ok(line.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &str) -> Ended {
        run(Command::new("sh").args(["-c", script])).expect("sh")
    }

    #[test]
    fn outputs_are_compared_by_what_was_printed() {
        let whole = of("printf abcdef");
        assert_eq!(
            whole.printed,
            of("printf abc; sleep 0.01; printf def").printed
        );
        assert_ne!(whole.printed, of("printf abcdeg").printed);
        assert_ne!(whole.printed, of("printf abcde").printed);
        assert!(whole.status.success() && whole.complaint.is_none());
    }

    #[test]
    fn the_last_complaint_is_kept_and_no_more() {
        let ended = of("yes x | head -c 300000 >&2; echo why >&2; echo >&2; exit 3");
        assert_eq!(ended.complaint.as_deref(), Some("why"));
        assert_eq!(ended.status.code(), Some(3));
        let long = last_line(io::repeat(b'x').take(100_000)).expect("memory");
        assert_eq!(long.map(|line| line.len()), Some(KEPT));
    }
}
