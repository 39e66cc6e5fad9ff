//! Header of a report on a database: times, machines, programs, and what is not there any more.

use std::io::{self, Write};

use crate::json::Json;
use crate::load::About;
use crate::output::{grouped, printable};
use crate::time::shown;

/// Returns how many, with the right form of what.
fn number(n: usize, one: &str, many: &str) -> String {
    format!("{} {}", grouped(n as u64), if n == 1 { one } else { many })
}

/// Lines before the report's header.
pub(super) fn write(out: &mut impl Write, about: &About) -> io::Result<()> {
    writeln!(
        out,
        "# database    {}: {} of {} on {}, {} to {}",
        printable(&about.path.display().to_string()),
        number(about.files as usize, "file", "files"),
        number(about.programs.len(), "program", "programs"),
        number(about.hosts.len(), "machine", "machines"),
        shown(about.span.from),
        shown(about.span.to),
    )?;
    for dropped in &about.dropped {
        writeln!(
            out,
            "# dropped     on {}: {} of {} bytes, {} to {}, to make room",
            printable(&dropped.host),
            number(dropped.files as usize, "file", "files"),
            grouped(dropped.bytes),
            shown(dropped.from),
            shown(dropped.to),
        )?;
    }
    match about.skipped.len() {
        0 => Ok(()),
        n => writeln!(
            out,
            "# left out    {} that cannot be read, see stderr",
            number(n, "file", "files")
        ),
    }
}

/// The member `database`.
pub(super) fn json<W: Write>(json: &mut Json<W>, about: &About) -> io::Result<()> {
    json.member_object("database")?;
    json.text("path", &about.path.display().to_string())?;
    json.number("files", about.files)?;
    json.number("from_ms", about.span.from)?;
    json.number("to_ms", about.span.to)?;
    json.texts("hosts", &about.hosts)?;
    json.member_array("programs")?;
    for (path, build_id) in &about.programs {
        json.object()?;
        json.text("path", &String::from_utf8_lossy(path))?;
        let hex: String = build_id.iter().map(|b| format!("{b:02x}")).collect();
        json.optional_text("build_id", Some(&*hex).filter(|h| !h.is_empty()))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.texts("skipped", &about.skipped)?;
    json.member_array("dropped")?;
    for dropped in &about.dropped {
        json.object()?;
        json.text("host", &dropped.host)?;
        json.number("files", dropped.files)?;
        json.number("bytes", dropped.bytes)?;
        json.number("from_ms", dropped.from)?;
        json.number("to_ms", dropped.to)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()
}
