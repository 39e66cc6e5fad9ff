//! `trommel doctor`: what this machine and this user can and cannot do.
//!
//! Each check looks at one thing that has kept a program of this sort from working somewhere,
//! tries it where trying is harmless, and otherwise reads what the kernel says. A row names what
//! was found, what it means for Trommel, and what to do about it.

mod check;
mod checks;
mod limits;
mod probe;
mod surroundings;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use crate::args::DoctorArgs;
use crate::json::Json;
use crate::output;

use check::{Check, Status};
use limits::NOT_SUPPORTED;

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let checks = checks::all();
    if args.json {
        json(&checks)?;
    } else {
        text(&checks, args.limits)?;
    }
    let failed = checks.iter().any(|c| c.status == Status::Fail);
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn text(checks: &[Check], limits: bool) -> std::io::Result<()> {
    let colours = output::colours(&std::io::stdout());
    let mut out = output::stdout();
    let columns = output::width(&std::io::stdout());
    let width = checks.iter().map(|c| c.name.len()).max().unwrap_or(0);
    for check in checks {
        let colour = match (colours, check.status) {
            (false, _) => "",
            (true, Status::Ok) => "\x1b[32m",
            (true, Status::Warn) => "\x1b[33m",
            (true, Status::Fail) => "\x1b[31m",
        };
        let plain = if colours { "\x1b[0m" } else { "" };
        let (status, name) = (check.status.name(), check.name);
        let found = format!("{}; {}", output::printable(&check.found), check.means);
        // Where its text begins.
        let indent = 8 + width;
        let found = output::wrapped(&found, indent, indent, columns);
        writeln!(out, "{colour}{status:<4}{plain}  {name:<width$}  {found}")?;
        if check.status != Status::Ok && !check.fix.is_empty() {
            let fix = format!("fix: {}", check.fix);
            let fix = output::wrapped(&fix, indent, indent, columns);
            writeln!(out, "      {:width$}  {fix}", "")?;
        }
    }
    if limits {
        not_supported(&mut out, columns)?;
    }
    let count = |status| checks.iter().filter(|c| c.status == status).count();
    writeln!(
        out,
        "\n{}",
        match (count(Status::Fail), count(Status::Warn)) {
            (0, 0) => "Everything that trommel needs is there.".into(),
            (0, warnings) =>
                format!("Trommel works here, with {warnings} restriction(s) named above."),
            (failures, _) =>
                format!("Trommel cannot work here: {failures} problem(s) named above."),
        }
    )?;
    if !limits {
        writeln!(
            out,
            "What is not supported anywhere: trommel doctor --limits"
        )?;
    }
    out.flush()
}

fn not_supported(out: &mut impl Write, columns: usize) -> std::io::Result<()> {
    writeln!(out, "\nNot supported:")?;
    for section in NOT_SUPPORTED {
        writeln!(out, "  {}", section.heading.replace('`', ""))?;
        for (what, why) in section.rows {
            let text = format!("{what}: {why}");
            writeln!(out, "      {}", output::wrapped(&text, 6, 8, columns))?;
        }
    }
    Ok(())
}

fn json(checks: &[Check]) -> std::io::Result<()> {
    let mut json = Json::new(output::stdout());
    json.object()?;
    json.text("schema", "trommel.doctor/1")?;
    json.member_array("checks")?;
    for check in checks {
        json.object()?;
        json.text("name", check.name)?;
        json.text("status", check.status.name())?;
        json.text("found", &check.found)?;
        json.text("means", check.means)?;
        json.optional_text("fix", Some(check.fix).filter(|f| !f.is_empty()))?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("not_supported")?;
    for (what, why) in NOT_SUPPORTED.iter().flat_map(|section| section.rows) {
        json.object()?;
        json.text("what", what)?;
        json.text("why", why)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}
