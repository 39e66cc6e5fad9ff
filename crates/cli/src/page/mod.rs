//! `report --html`: a profile as one page for a browser.
//!
//! # Problem
//! A table in a terminal shows a few functions. People want to look around: sort, search, see who called whom, and open the code.
//! The page goes to others, by mail or as an artifact of a build, so it must need nothing else.
//!
//! # Strategy
//! The page is a frame (`page.html`), a style (`page.css`) and scripts (`page.js`, `flame.js`), put together here with the
//! profile's facts as JSON. The scripts draw from these. [`facts`] writes functions and call paths, [`code`] the hottest functions
//! instruction by instruction.
//!
//! # Invariants
//! * The page loads nothing: its content policy forbids that.
//! * Names come from the program and may be hostile. In the JSON `<` is written as an escape, so no name ends the script that it is
//!   in; the scripts show text only as text.
//! * Size is bounded: [`facts`] and [`code`] each have limits, and what was left out is said on the page.

mod code;
mod facts;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_export::CallPaths;
use trommel_profile::confidence::Confidence;
use trommel_symbol::Files;

use crate::args::{ReportArgs, SelectArgs};
use crate::exit;
use crate::json::Json;
use crate::load;
use crate::output;
use crate::pipes;
use crate::report::view::View;

const FRAME: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const TABLES: &str = include_str!("page.js");
const FLAME: &str = include_str!("flame.js");

/// Runs `report --html`.
pub(crate) fn run(args: &ReportArgs, to: &Path) -> Result<ExitCode> {
    exit::survive_file_limit();
    let mut loaded = load::profiles(&args.source.file, &args.source.select)?;
    loaded.only(&args.source.file, &args.pid)?;
    write(loaded, to, args.off_cpu)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a profile file.
pub(crate) fn of_file(file: &Path, to: &Path) -> Result<()> {
    let select = SelectArgs {
        since: None,
        until: None,
        module: Vec::new(),
        build_id: Vec::new(),
    };
    write(load::profiles(file, &select)?, to, false)
}

/// Checks that a page can be written there.
///
/// # Errors
/// It cannot, or the name is none of a file.
pub(crate) fn check(to: &Path) -> Result<()> {
    if to == Path::new("-") {
        bail!("--html needs the name of a file, such as report.html");
    }
    Ok(trommel_store::check_destination(to)?)
}

/// Writes a page, of waits if it is about time off CPU.
fn write(loaded: load::Loaded, to: &Path, off_cpu: bool) -> Result<()> {
    check(to)?;
    let _read = pipes::wait(to)?;
    let (profile, rows, _) = loaded.merge()?;
    let confidence = Confidence::of_processes(&profile, rows.len());
    let files = Files::new();
    let mut symbols = load::symbols(&files, &profile);
    let paths = match off_cpu {
        true => CallPaths::off_cpu(&profile, &mut symbols),
        false => CallPaths::new(&profile, &mut symbols),
    };
    if off_cpu && paths.is_none() {
        bail!("the profile holds no waits; record them with `trommel record --off-cpu`");
    }
    let mut view = View::new(&profile, symbols, confidence);
    let program = view.program();
    let mut json = Vec::new();
    facts::write(&mut json, &mut view, program.as_ref(), paths.as_ref())?;
    let page = page(&String::from_utf8_lossy(&json));
    trommel_store::write_file(to, |file| file.write_all(page.as_bytes()))?;
    output::complain(&format!(
        "wrote {}; open it in a browser",
        output::printable(&to.display().to_string())
    ));
    Ok(())
}

/// The page with its facts.
fn page(json: &str) -> String {
    let mut page = String::with_capacity(json.len() + FRAME.len() + STYLE.len());
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("{{") {
        page.push_str(before);
        let Some((name, after)) = after.split_once("}}") else {
            break;
        };
        match name {
            "style" => page.push_str(STYLE),
            "scripts" => {
                page.push_str(FLAME);
                page.push_str(TABLES);
            }
            _ => page.push_str(&json.replace('<', "\\u003c")),
        }
        rest = after;
    }
    page.push_str(rest);
    page
}

/// Numbers as an array member.
fn numbers<W: Write>(
    json: &mut Json<W>,
    name: &str,
    all: impl IntoIterator<Item = i128>,
) -> io::Result<()> {
    json.member_array(name)?;
    for number in all {
        json.element_number(number)?;
    }
    json.end_array()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_the_script() {
        let page = page("{\"name\": \"</script><script>alert(1)</script><!--\"}");
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("\\u003c/script>\\u003cscript>"));
        assert!(!page.contains("{{"));
    }

    #[test]
    fn nothing_is_loaded() {
        for part in [FRAME, STYLE, TABLES, FLAME] {
            for word in [
                "http:",
                "https:",
                "src=",
                "href=",
                "@import",
                "url(",
                "innerHTML",
            ] {
                assert!(!part.contains(word), "{word}");
            }
        }
    }
}
