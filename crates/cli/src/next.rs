//! The last lines of a recording: what was written, and the next command.

use std::io::Write;
use std::path::Path;

use trommel_store::Written;

use crate::output;

/// Writes which files there are, and the command that shows the profile.
pub(crate) fn next_steps(
    out: &mut impl Write,
    path: &Path,
    written: &Written,
    stream: Option<&Path>,
    command: &str,
) -> std::io::Result<()> {
    let shown = output::printable(&path.display().to_string());
    let old = written
        .old
        .as_deref()
        .map(|old| format!("; the earlier one is {}", old.display()));
    let old = output::printable(&old.unwrap_or_default());
    writeln!(out, "trommel: wrote {shown} ({}){old}", size(written.bytes))?;
    if let Some(stream) = stream {
        writeln!(
            out,
            "trommel: wrote {}: trommel stream info {0}",
            output::printable(&stream.display().to_string())
        )?;
    }
    let argument = match path == Path::new(trommel_store::DEFAULT_FILE) {
        true => String::new(),
        false => format!(
            " {}",
            output::command_line(&[path.as_os_str().as_encoded_bytes().to_vec()])
        ),
    };
    writeln!(out, "trommel: next: trommel {command}{argument}")
}

/// A size in three digits or so.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{} bytes", output::grouped(bytes)),
        10_000..10_000_000 => format!("{} kB", output::grouped(bytes / 1000)),
        _ => format!("{} MB", output::grouped(bytes / 1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_is_one_that_works() {
        let written = Written {
            bytes: 1234,
            old: Some("x.data.old".into()),
        };
        let mut text = Vec::new();
        next_steps(&mut text, Path::new("my x.data"), &written, None, "report").expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(
            text.contains("1 234 bytes") && text.contains("x.data.old"),
            "{text}"
        );
        assert!(text.ends_with("trommel report 'my x.data'\n"), "{text}");
    }
}
