//! `trommel report`: a profile for people ([`text`]) and for programs ([`json`]).

mod json;
pub(crate) mod summary;
pub(crate) mod text;
mod view;

use std::process::ExitCode;

use anyhow::{Result, bail};
use trommel_profile::confidence::Confidence;
use trommel_symbol::{Files, Symbols};

use crate::args::ReportArgs;
use crate::output;
use view::View;

/// Entries of each kind that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let mut profile = trommel_store::read(&args.file)?;
    // Of all kinds together: they went through one compressor.
    let confidence = Confidence::new(&profile);
    if let Some(kind) = args.event {
        if !profile.kinds.contains_key(&kind) {
            let there: Vec<_> = profile.kinds.keys().map(|k| k.name()).collect();
            bail!(
                "{}: holds no `{kind}` events, only: {}; record them with `trommel record -e {kind}`",
                args.file.display(),
                if there.is_empty() {
                    "none".into()
                } else {
                    there.join(", ")
                }
            );
        }
        profile.kinds.retain(|k, _| *k == kind);
    }
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let files = Files::new();
    let mut view = View::new(&profile, Symbols::new(&files, &profile.modules), confidence);
    let mut out = output::stdout();
    if args.json {
        json::write(&mut out, &mut view, top)?;
    } else {
        let style = text::Style::new(output::colours(&std::io::stdout()));
        text::write(&mut out, &mut view, top, style)?;
    }
    Ok(ExitCode::SUCCESS)
}
