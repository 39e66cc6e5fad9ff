//! The result of merging, as lines on stderr and as JSON.

use std::io::{self, Write};

use trommel_profile::Profile;
use trommel_profile::confidence::Basis;

use super::builds::OneBuild;
use super::{Merge, events};
use crate::args::MergeArgs;
use crate::json::Json;
use crate::output::{command_line, complain, grouped};

/// Digits of a build id that people are shown.
const DIGITS: usize = 8;

/// Writes lines for people.
pub(super) fn text(args: &MergeArgs, merge: &Merge, profile: &Profile) {
    let estimated = match merge.basis {
        Basis::Exact => "",
        _ => " (estimated)",
    };
    let path = args.output.display().to_string();
    let plural = |n: u64, one: &str, many: &str| match n {
        1 => format!("1 {one}"),
        n => format!("{} {many}", grouped(n)),
    };
    complain(&format!(
        "wrote {path}: {}, {}, {} events{estimated}",
        plural(merge.sum.recordings, "recording", "recordings"),
        plural(merge.sum.processes, "process", "processes"),
        grouped(events(profile)),
    ));
    for program in &merge.programs {
        complain(&format!(
            "{}: {} builds, kept apart as modules of their own; --build-id chooses one",
            program.name,
            program.builds.len()
        ));
        for build in &program.builds {
            complain(&format!("  {}", line(build)));
        }
    }
    let file = command_line(&[path.as_bytes().to_vec()]);
    complain(&format!("next: trommel report {file}"));
}

fn line(build: &OneBuild) -> String {
    let id = match build.build_id.get(..DIGITS) {
        Some(digits) => digits,
        None if build.build_id.is_empty() => "without build id",
        None => &build.build_id,
    };
    let fits = match &build.fits {
        None => "the newest".to_owned(),
        Some(Ok(share)) => format!(
            "{:.1} % of them in functions of the same name and size in the newest",
            100.0 * share
        ),
        Some(Err(why)) => format!("how much of it fits the newest is not known: {why}"),
    };
    let events = grouped(build.events);
    format!("{id} ({}): {events} branches and calls, {fits}", build.path)
}

/// Writes the summary for programs.
pub(super) fn json(
    out: &mut impl Write,
    args: &MergeArgs,
    merge: &Merge,
    profile: &Profile,
) -> io::Result<()> {
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", "trommel.merge/1")?;
    json.text("output", &args.output.display().to_string())?;
    json.number("bytes", merge.written.bytes)?;
    let old = merge
        .written
        .old
        .as_ref()
        .map(|old| old.display().to_string());
    json.optional_text("old", old.as_deref())?;
    json.number("recordings", merge.sum.recordings)?;
    json.number("processes", merge.sum.processes)?;
    json.text("compressor", &profile.compressor)?;
    json.text("basis", merge.basis.name())?;
    json.member_array("inputs")?;
    for input in &merge.inputs {
        json.object()?;
        json.text("path", &input.path.display().to_string())?;
        json.boolean("database", input.database)?;
        json.number("recordings", input.sum.recordings)?;
        json.number("processes", input.sum.processes)?;
        json.texts("skipped", &input.left_out)?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_object("events")?;
    for (kind, data) in &profile.kinds {
        json.member_object(kind.name())?;
        json.number("seen", data.seen)?;
        json.number("messages", data.messages)?;
        json.end_object()?;
    }
    json.end_object()?;
    json.number("modules", profile.modules.len() as u64)?;
    json.member_array("builds")?;
    for program in &merge.programs {
        for build in &program.builds {
            json.object()?;
            json.text("module", &program.name)?;
            one_build(&mut json, build)?;
            json.end_object()?;
        }
    }
    json.end_array()?;
    json.end_object()?;
    json.finish()
}

fn one_build<W: Write>(json: &mut Json<W>, build: &OneBuild) -> io::Result<()> {
    json.text("path", &build.path)?;
    json.text("build_id", &build.build_id)?;
    json.number("events", build.events)?;
    json.boolean("newest", build.fits.is_none())?;
    let (fits, why) = match &build.fits {
        Some(Ok(share)) => (Some(*share), None),
        Some(Err(why)) => (None, Some(why.as_str())),
        None => (None, None),
    };
    match fits {
        Some(share) => json.real("fits", share)?,
        None => json.null("fits")?,
    }
    json.optional_text("fits_unknown", why)
}
