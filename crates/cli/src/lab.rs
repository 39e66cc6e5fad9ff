//! `trommel lab`: the papers' experiments.
//!
//! Names are checked before anything is done. Progress is one line that is written over, on a
//! terminal only. Results are written experiment by experiment.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use trommel_host::kernel::addresses;
use trommel_lab::{EXPERIMENTS, Experiment, Findings, Lab, Report, make_private, named};
use trommel_symbol::launch;

use crate::args::LabArgs;
use crate::caches;
use crate::find;
use crate::output;

/// Streams simulated for each point, as in the paper.
const TRIALS: u32 = 2500;

/// Runs the command.
pub(crate) fn run(args: &LabArgs) -> Result<ExitCode> {
    if args.names.iter().any(|n| n == "list") {
        if args.names.len() > 1 {
            bail!("`list` stands alone: trommel lab list");
        }
        return list();
    }
    let all = args.names.iter().any(|n| n == "all");
    let experiments: Vec<&'static Experiment> = match all {
        true => EXPERIMENTS.iter().collect(),
        false => args.names.iter().map(|n| find(n)).collect::<Result<_>>()?,
    };
    if all && args.names.len() > 1 {
        bail!("`all` stands alone: trommel lab all");
    }
    let (programs, own) = match &args.program {
        None => (&trommel_lab::PROGRAMS[..], None),
        Some(text) => {
            let command = words(text)?;
            let path = std::env::var_os("PATH");
            launch::resolve(command[0].as_os_str(), path.as_deref())?;
            let cache = Scratch::new(&cache()?)?;
            (trommel_lab::own(command), Some(cache))
        }
    };
    let experiments = match args.program {
        None => experiments,
        Some(_) => of_programs(experiments, all)?,
    };
    // What is measured may depend on where the kernel places a program: the same in each run. Where that is refused, results differ more.
    if let Err(error) = addresses::fix() {
        output::complain(&format!(
            "results may differ from run to run, as programs get random addresses: the system refuses fixed ones: {error}"
        ));
    }
    let terminal = std::io::stderr().is_terminal();
    let clear = if terminal { "\r\x1b[K" } else { "" };
    let progress = |text: &str| {
        if terminal {
            let _ = write!(
                std::io::stderr(),
                "{clear}trommel: {}",
                output::printable(text)
            );
        }
    };
    let say = |text: &str| {
        let _ = write!(std::io::stderr(), "{clear}");
        output::complain(text);
    };
    let lab = Lab {
        trommel: Some(std::env::current_exe().context("cannot find this program to record with")?),
        cache: match &own {
            Some(own) => own.0.clone(),
            None => cache()?,
        },
        events: args.events.unwrap_or(trommel_lab::EVENTS),
        // Of a program of the user's own all of it is wanted.
        skip: if own.is_some() { 0 } else { trommel_lab::SKIP },
        trials: TRIALS,
        programs,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        say: &say,
        progress: &progress,
    };
    let place = || {
        format!(
            "{}: results cannot be written there; name another directory with --out",
            args.out.display()
        )
    };
    let mut report =
        Report::new(&lab, &args.out, all || args.html, experiments.len()).with_context(place)?;
    let interrupted = |done: usize| {
        let there = match done {
            0 => "nothing was written yet".to_owned(),
            n => format!(
                "{n} of {} are whole, in {}",
                output::number_of(experiments.len() as u64, "experiment"),
                args.out.display()
            ),
        };
        let kept = match &own {
            Some(_) => "",
            None => ". Recordings so far are kept, so the same command is quicker now",
        };
        output::last_words(&format!("interrupted: {there}{kept}"));
    };
    let mut done = 0;
    interrupted(done);
    lab.run_each(&experiments, |experiment, found| {
        report.add(experiment, found)?;
        done += 1;
        interrupted(done);
        Ok(())
    })?;
    let (done, written) = report.finish();
    let _ = write!(std::io::stderr(), "{clear}");
    let mut out = output::stdout();
    for (experiment, found) in &done {
        shown(&mut out, experiment, found)?;
    }
    let shown = |path: &std::path::Path| output::printable(&path.display().to_string());
    match &written.page {
        Some(page) => writeln!(
            out,
            "wrote {} files; open {}",
            written.files.len(),
            shown(page)
        )?,
        None => writeln!(
            out,
            "wrote {} files in {}",
            written.files.len(),
            shown(&args.out)
        )?,
    }
    out.flush()?;
    match &args.program {
        Some(program) if !done.iter().any(|(_, found)| found.is_of_anything()) => bail!(
            "--program {program:?}: nothing is known of it: it did not run, or it is too short for these figures; give it more work"
        ),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Writes the claims of an experiment, in lines that fit.
fn shown(out: &mut impl Write, experiment: &Experiment, found: &Findings) -> io::Result<()> {
    // Verdicts that are none are in parentheses.
    let verdicts = if found.weak.is_some() { 15 } else { 13 };
    let margin = verdicts + 3;
    let columns = output::width(&io::stdout());
    let title = format!("{}: {}", experiment.name, experiment.title);
    writeln!(out, "{}", output::wrapped(&title, 0, 2, columns))?;
    for claim in &found.claims {
        let verdict = found.verdict_of(claim);
        for (verdict, text) in [(&*verdict, claim.paper), ("", &*claim.ours)] {
            let text = output::wrapped(text, margin, margin, columns);
            writeln!(out, "  {verdict:<verdicts$} {text}")?;
        }
    }
    if let Some(why) = &found.weak {
        writeln!(out, "  {}", output::wrapped(why, 2, 2, columns))?;
    }
    // Without claims the reason is a note.
    for note in found.notes.iter().filter(|_| found.claims.is_empty()) {
        writeln!(out, "  {}", output::wrapped(note, 2, 2, columns))?;
    }
    Ok(())
}

/// Those of the experiments that can be of the user's own program. One that is named and cannot is refused.
fn of_programs(
    experiments: Vec<&'static Experiment>,
    all: bool,
) -> Result<Vec<&'static Experiment>> {
    let refused = experiments
        .iter()
        .find_map(|e| Some((e.name, e.own_refused()?)));
    if let Some((name, why)) = refused.filter(|_| !all) {
        bail!("`{name}` cannot be of a program of yours: {why}");
    }
    let able = experiments
        .into_iter()
        .filter(|e| e.own_refused().is_none());
    Ok(able.collect())
}

/// The words of a command: blanks separate, quotation marks and backslashes keep together. No shell reads it.
fn words(text: &str) -> Result<Vec<PathBuf>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '|' | '<' | '>' | ';' | '&') => {
                bail!(
                    "--program {text:?}: `{c}` is for a shell; put such a command into a script, and name that"
                )
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(mark) = quote {
        bail!("--program {text:?}: a {mark} is missing at the end");
    }
    words.extend(word);
    if words.is_empty() {
        bail!("--program: name a program and its arguments, as in --program './app 100'");
    }
    Ok(words.into_iter().map(PathBuf::from).collect())
}

/// A directory for recordings of the user's own program: it may be another one the next time. It is removed at the end, or by the next
/// command if this one is killed.
struct Scratch(PathBuf);

impl Scratch {
    fn new(caches: &Path) -> Result<Self> {
        make_private(caches)?;
        for entry in std::fs::read_dir(caches)?.flatten() {
            let name = entry.file_name();
            let of = name.to_str().and_then(|name| name.strip_prefix("own-"));
            if of.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let dir = caches.join(format!("own-{}", std::process::id()));
        make_private(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn list() -> Result<ExitCode> {
    let columns = output::width(&std::io::stdout());
    let mut out = output::stdout();
    for experiment in &EXPERIMENTS {
        let text = format!("{}: {}", experiment.paper.title(), experiment.title);
        let text = output::wrapped(&text, 15, 15, columns);
        writeln!(out, "{:<14} {text}", experiment.name)?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static Experiment> {
    named(name).ok_or_else(|| {
        let names = EXPERIMENTS.iter().map(|e| e.name).chain(["all"]);
        let near = find::nearest(name, names);
        let near = match near.is_empty() {
            true => String::new(),
            false => format!("did you mean {}? ", near.join(" or ")),
        };
        let what = format!(
            "there is no experiment `{name}`: {near}`trommel lab list` says what each is about; these are all:"
        );
        output::with_lines(what, groups(output::width(&io::stderr())))
    })
}

/// The names of all experiments, those of a paper in a paragraph.
fn groups(columns: usize) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for experiment in &EXPERIMENTS {
        let paper = experiment.paper.title();
        match groups.iter_mut().find(|(title, _)| *title == paper) {
            Some((_, names)) => names.push(experiment.name),
            None => groups.push((paper, vec![experiment.name])),
        }
    }
    let widest = groups.iter().map(|(title, _)| title.len()).max();
    let indent = widest.unwrap_or_default() + 4;
    let lines = groups.into_iter().flat_map(|(title, names)| {
        let names = output::wrapped(&names.join(" "), indent, indent, columns);
        let text = format!("  {title:<width$}  {names}", width = indent - 4);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

/// The lab's part of the user's cache directory.
fn cache() -> Result<PathBuf> {
    let caches = caches::directory()
        .context("neither XDG_CACHE_HOME nor HOME is set: where should recordings be kept?")?;
    Ok(caches.join("lab"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_apart_as_a_shell_would() {
        let of =
            |text| words(text).map(|all| all.iter().map(|w| w.display().to_string()).collect());
        let told: [(&str, &[&str]); 4] = [
            ("./app  1 2", &["./app", "1", "2"]),
            (
                "a 'b  c' \"d \\\" e\" f\\ g",
                &["a", "b  c", "d \" e", "f g"],
            ),
            ("a ''", &["a", ""]),
            ("  a\tb ", &["a", "b"]),
        ];
        for (text, expected) in told {
            let found: Vec<String> = of(text).expect(text);
            assert_eq!(found, expected, "{text}");
        }
        for wrong in ["", "  ", "a 'b", "a | b", "a > b", "a; b"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_name_has_the_nearest_and_all_by_paper() {
        for (wrong, wanted) in [
            ("stratified7", "did you mean stratified-7"),
            ("rpafig7", "rpa-fig7"),
            ("convergance", "did you mean convergence?"),
            ("al", "did you mean all?"),
        ] {
            let error = find(wrong).expect_err("no name").to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let error = find("zzzzzzzzzzzz").expect_err("no name").to_string();
        assert!(!error.contains("did you mean"), "{error}");
        let lines = groups(80);
        assert!(lines.iter().all(|line| line.len() <= 80), "{lines:?}");
        let words: Vec<&str> = lines.iter().flat_map(|l| l.split(' ')).collect();
        for experiment in &EXPERIMENTS {
            let times = words.iter().filter(|word| **word == experiment.name);
            assert_eq!(times.count(), 1, "{}", experiment.name);
        }
    }

    #[test]
    fn what_cannot_be_of_ones_own_program_is_refused_with_what_can() {
        let named = |name| of_programs(vec![find(name).expect("there")], false);
        assert!(named("stratified-8").is_ok() && named("rpa-fig7").is_ok());
        let error = named("values-table1")
            .expect_err("its own programs")
            .to_string();
        assert!(
            error.contains("`values-table2a`") && !error.contains("stratified-4"),
            "{error}"
        );
        let all = of_programs(EXPERIMENTS.iter().collect(), true).expect("those that can");
        assert!(all.len() > 20 && all.len() < EXPERIMENTS.len());
    }
}
