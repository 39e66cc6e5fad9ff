//! `trommel model`: queries put to a program on a modelled processor.
//!
//! The program is started and single-stepped for as many instructions as are wanted. What it executed goes through the machine of
//! *Relational Profiling* (`trommel_model`) twice: with the queries and without them, so that their cost is known. The program
//! itself runs to its end.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use trommel_host::channel::modules::{Images, Modules};
use trommel_model::barrel::fits_table;
use trommel_model::parameters::{QueryEngine, text};
use trommel_model::profile::{Answers, Load};
use trommel_model::trace::record::{Recording, RecordingSettings, record_with};
use trommel_model::{Parameters, Program, RunFigures};
use trommel_profile::Profile;
use trommel_profile::confidence::Confidence;
use trommel_profile::queries::{Acted, Queries, Seen, Sent};
use trommel_query::engine::Effect;
use trommel_query::tag::{Located, Rule, Where, tag};
use trommel_query::{Program as Asked, image};

use trommel_symbol::{Files, Symbols, is_named, launch};

use crate::args::{LaterLoad, ModelArgs};
use crate::exit::{self, ProgramEnd};
use crate::json::Json;
use crate::output::{self, grouped, printable};
use crate::pipes;
use crate::query;
use crate::report::place::{modules, place};
use crate::report::queries;
use crate::report::table::Style;
use crate::report::view::View;

/// Instructions of a stretch, where there are several.
const STRETCH: u64 = 40_000;
/// Messages of a query that people are shown unless they ask for more.
const DEFAULT_TOP: usize = 20;
/// The schema's name. Fields may be added to it; none is removed or changed.
const SCHEMA: &str = "trommel.model/1";

/// Both runs on the machine.
struct Figures {
    asked: RunFigures,
    alone: RunFigures,
}

/// Queries of a file, and the number of instructions after which they are loaded.
struct Question {
    name: String,
    after: u64,
    queries: Asked,
}

/// Runs the command.
pub(crate) fn run(args: &ModelArgs) -> Result<ExitCode> {
    let machine = machine(args.machine.as_deref())?;
    if args.show_machine {
        let mut out = output::verbatim();
        out.write_all(text::write(&machine).as_bytes())?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(file) = &args.query else {
        bail!("name a file with queries, as in -q misses.rpa");
    };
    let questions = questions(file, &args.load, &machine)?;
    if let Some(to) = &args.output {
        trommel_store::check_destination(to)?;
    }
    let _read = args.output.as_deref().map(pipes::wait).transpose()?;
    let name = args.program.first().map(|name| name.to_string_lossy());
    let recording_of = format!(
        "{} was recorded instruction by instruction",
        name.unwrap_or_default()
    );
    output::last_words(&format!(
        "interrupted while {recording_of}: nothing was reported; --instructions N records fewer"
    ));
    let (recording, main) = recorded(args)?;
    output::last_words(&format!(
        "interrupted after {recording_of}, while the machine executed that: nothing was reported; --instructions N records fewer"
    ));
    if recording.trace.is_empty() {
        bail!(
            "no instruction was recorded: the program ended before; leave out --every to begin at its first instruction"
        );
    }
    let modules = Modules::of_maps(Images::default(), recording.maps.as_bytes());
    let status = recording.status;
    let (program, met) = tagged(recording, &questions[0].queries, &modules, &main);
    let loads = questions.iter().map(|question| Load {
        after: question.after,
        queries: &question.queries,
    });
    let loads: Vec<Load<'_>> = loads.collect();
    let figures = Figures {
        asked: program.run_loads(machine, loads[0], &loads[1..], &[], true),
        alone: program.run(machine, &Asked::default(), &[], false),
    };
    let profile = Profile {
        command: (args.program.iter())
            .map(|word| word.as_bytes().to_vec())
            .collect(),
        compressor: "exact".into(),
        queries: (questions.iter().zip(&figures.asked.loads).zip(1..))
            .map(|((question, told), load)| answers(question, load, told, &modules, &met))
            .collect(),
        modules: modules.list,
        ..Profile::default()
    };
    show(args, &questions, &profile, &figures, &machine, status)?;
    Ok(exit::like(match status {
        Some(status) if status < 0 => ProgramEnd::Signaled(-status),
        Some(status) => ProgramEnd::Exited(status as u8),
        None => ProgramEnd::Exited(1),
    }))
}

/// The queries of all loads.
fn questions(first: &Path, later: &[LaterLoad], machine: &Parameters) -> Result<Vec<Question>> {
    let later = later.iter().map(|load| (load.after, &*load.file));
    let mut questions: Vec<Question> = Vec::new();
    for (after, file) in std::iter::once((0, first)).chain(later) {
        let name = printable(&file.display().to_string());
        let queries = query::assembled(file)?;
        if machine.profiling.engine == QueryEngine::Table
            && let Err(why) = fits_table(&queries)
        {
            bail!("{name}: {why}; leave `engine = table` out of the machine");
        }
        if let Some(before) = questions.last() {
            if before.after >= after {
                bail!("{name}: name loads in the order of their instructions");
            }
            if before.queries.tags() != queries.tags() {
                bail!(
                    "{name}: its tag rules are not those of {}; a modelled program has the same tags in all loads",
                    before.name
                );
            }
        }
        questions.push(Question {
            name,
            after,
            queries,
        });
    }
    Ok(questions)
}

/// The machine of a file, or the usual one.
fn machine(file: Option<&Path>) -> Result<Parameters> {
    let usual = Parameters::WITH_EVENTS;
    let Some(file) = file else {
        return Ok(usual);
    };
    let name = printable(&file.display().to_string());
    let text = query::machine_text(file)?;
    text::read(&text, usual)
        .with_context(|| format!("{name}: no machine; `trommel model --show-machine` writes one"))
}

/// Runs the program, and records it. Gives the file of the program, too.
fn recorded(args: &ModelArgs) -> Result<(Recording, Vec<u8>)> {
    let path = std::env::var_os("PATH");
    let mut words = args.program.clone();
    let program = launch::resolve_command(&mut words, path.as_deref())?;
    let settings = match args.every {
        None => RecordingSettings {
            every: Duration::ZERO,
            stretches: 1,
            instructions: args.instructions,
            finish: true,
        },
        Some(every) => RecordingSettings {
            every: Duration::from_millis(every),
            stretches: u32::try_from(args.instructions.div_ceil(STRETCH)).unwrap_or(u32::MAX),
            instructions: STRETCH.min(args.instructions),
            finish: true,
        },
    };
    let mut command = Command::new(&program.path);
    command.arg0(&words[0]).args(&words[1..]);
    let name = printable(&program.path.display().to_string());
    let recording = record_with(&mut command, &settings)
        .with_context(|| format!("{name}: cannot be recorded instruction by instruction"))?;
    let elf = fs::canonicalize(&program.elf).unwrap_or(program.elf);
    Ok((recording, elf.as_os_str().as_bytes().to_vec()))
}

/// Rules whose modules have the names of their files: a user may name a link to one.
fn real_names(rules: &[Rule], modules: &Modules) -> Vec<Rule> {
    let real = |name: &String| {
        let mut all = modules.list.iter();
        let found = all.find(|module| is_named(&module.path, name));
        found.map_or_else(
            || name.clone(),
            |module| String::from_utf8_lossy(&module.path).into_owned(),
        )
    };
    let renamed = rules.iter().map(|rule| Rule {
        tag: rule.tag,
        place: match &rule.place {
            Where::Module(name) => Where::Module(real(name)),
            Where::Symbol(name) => Where::Symbol(name.clone()),
            Where::Range { from, to, module } => Where::Range {
                from: *from,
                to: *to,
                module: module.as_ref().map(real),
            },
        },
    });
    renamed.collect()
}

/// Gives instructions their tags. Returns for each rule whether code was met that it is about.
fn tagged(
    recording: Recording,
    asked: &Asked,
    modules: &Modules,
    main: &[u8],
) -> (Program, Vec<bool>) {
    let rules = real_names(asked.tags(), modules);
    let rules = &*rules;
    let mut met = vec![false; rules.len()];
    let files = Files::new();
    let mut symbols = Symbols::new(&files, &modules.list).with_debug_limit(0);
    let program = Program::with_tags(recording.trace, |pc| {
        if rules.is_empty() {
            return 0;
        }
        let at = modules.of_address(pc);
        let module = modules.list.get(usize::from(at.module().0));
        let path = module.map_or(&b""[..], |module| &module.path);
        let text = String::from_utf8_lossy(path);
        let location = symbols.locate(at);
        let located = Located {
            module: &text,
            is_program: path == main,
            vaddr: at.vaddr().0,
            symbol: location.function.as_deref(),
        };
        for (met, rule) in met.iter_mut().zip(rules) {
            *met |= rule.place.has(&located);
        }
        tag(rules, &located)
    });
    (program, met)
}

/// Results of the queries of a load, as of a program that ran.
fn answers(
    question: &Question,
    load: u32,
    run: &Answers,
    modules: &Modules,
    met: &[bool],
) -> Queries {
    let asked = &question.queries;
    let mut answers = Queries {
        name: question.name.clone(),
        load,
        program: image::encode(asked),
        places: vec![0; asked.code().len()],
        unmet: (met.iter().zip(0..))
            .filter_map(|(met, n)| (!met).then_some(n))
            .collect(),
        done: vec![Acted::default(); asked.code().len()],
        ..Queries::default()
    };
    let mut words = vec![0; asked.code().len()];
    for query in asked.queries() {
        answers.places[query.code.clone()].fill(query.code_words());
        words[query.code.clone()].fill(query.layout().len());
        let acted = run.acted[0].get(query.code.start).copied();
        let mut acted = acted.unwrap_or_default();
        for seen in run.seen.iter().filter(|seen| query.entries.has(seen.entry)) {
            // What was acted on is known of the query as a whole.
            let number = seen.entry.number() as u8;
            answers.seen.insert(
                number,
                Seen {
                    executed: seen.executed,
                    profiled: seen.profiled,
                    acted: std::mem::take(&mut acted),
                },
            );
        }
    }
    let log = run.log.iter().flat_map(|log| &log.0);
    for (effect, detail) in log.zip(&run.details) {
        match *effect {
            Effect::Message {
                at, queue, record, ..
            } => {
                let done = &mut answers.done[at.number()];
                if detail.dropped {
                    done.dropped += 1;
                    continue;
                }
                done.sent += 1;
                let (places, count) = (answers.places[at.number()], words[at.number()]);
                let word = |(n, word): (usize, &u64)| match places >> n & 1 {
                    0 => *word,
                    _ => modules.of_address(*word).word(),
                };
                let told = Sent {
                    at: at.number() as u8,
                    queue,
                    words: record.0.iter().take(count).enumerate().map(word).collect(),
                };
                let sum = answers.messages.entry(told).or_default();
                sum.messages += 1;
                sum.executions += detail.stands_for;
            }
            Effect::Interrupt { at, .. } => answers.done[at.number()].interrupted += 1,
            Effect::Counted { at, records } => answers.done[at.number()].counted += records,
        }
    }
    for (done, counted_for) in answers.done.iter_mut().zip(&run.acted[1]) {
        done.counted_for = *counted_for;
    }
    answers
}

fn show(
    args: &ModelArgs,
    questions: &[Question],
    profile: &Profile,
    figures: &Figures,
    machine: &Parameters,
    status: Option<i32>,
) -> Result<()> {
    let files = Files::new();
    let symbols = Symbols::new(&files, &profile.modules);
    let mut view = View::new(profile, symbols, Confidence::of_processes(profile, 1));
    let top = match (args.top, args.json) {
        (Some(0), _) | (None, true) => usize::MAX,
        (Some(n), _) => n,
        (None, false) => DEFAULT_TOP,
    };
    let mut whole = Vec::new();
    match args.json {
        true => json(
            &mut whole,
            (&mut view, questions),
            figures,
            machine,
            status,
            top,
        )?,
        false => {
            let style = match &args.output {
                Some(_) => Style::new(false),
                None => Style::of(&io::stdout()),
            };
            shown(&mut whole, &view, figures, args)?;
            loaded(&mut whole, questions, figures)?;
            queries::write(&mut whole, &mut view, top, style)?;
        }
    }
    match &args.output {
        Some(to) => {
            trommel_store::write_file(to, |out| out.write_all(&whole))?;
        }
        None => {
            let mut out = output::stdout();
            out.write_all(&whole)?;
            out.flush()?;
        }
    }
    Ok(())
}

/// Part of a whole, in percent.
fn part(of: u64, whole: u64) -> f64 {
    output::percent(of, whole)
}

fn shown(
    out: &mut impl Write,
    view: &View<'_>,
    figures: &Figures,
    args: &ModelArgs,
) -> io::Result<()> {
    let Figures { asked, alone } = figures;
    let core = &asked.core;
    let command = output::command_line(&view.profile.command);
    writeln!(out, "# {}", printable(&command))?;
    let from = match args.every {
        None => "from the first one on".to_owned(),
        Some(every) => format!("in stretches, one in each {every} ms of CPU time"),
    };
    writeln!(
        out,
        "# modelled    {} instructions, {from}",
        grouped(core.instructions)
    )?;
    writeln!(
        out,
        "# cycles      {}, {:.2} instructions in each; {:.2} % more than without queries",
        grouped(core.cycles),
        asked.ipc(),
        100.0 * asked.slowdown(alone),
    )?;
    writeln!(
        out,
        "# stalled     {:.2} % of cycles for a network, {:.2} % for a buffer",
        part(core.stalled[0], core.cycles),
        part(core.stalled[1], core.cycles),
    )?;
    writeln!(
        out,
        "# program     {} branches mispredicted; first caches missed {} times for code, {} for data",
        grouped(core.mispredicted),
        grouped(core.misses[0]),
        grouped(core.misses[1]),
    )?;
    writeln!(
        out,
        "# records     {}; {} of events lost for want of a buffer; {} messages dropped",
        grouped(asked.profile.records),
        grouped(asked.profile.lost),
        grouped(asked.engine[2]),
    )?;
    if core.squashed != 0 {
        writeln!(
            out,
            "# squashed    {} instructions of wrong paths",
            grouped(core.squashed)
        )?;
    }
    for (selector, rate) in throttled(asked) {
        writeln!(out, "# throttle    {selector}: every {rate} at the end")?;
    }
    Ok(())
}

/// Says when queries were loaded, where they were more than once.
fn loaded(out: &mut impl Write, questions: &[Question], figures: &Figures) -> io::Result<()> {
    if questions.len() == 1 {
        return Ok(());
    }
    for (n, question) in questions.iter().enumerate() {
        let Question { name, after, .. } = question;
        let after = grouped(*after);
        match n {
            0 => writeln!(out, "# loaded      {name} at the beginning")?,
            _ if n < figures.asked.loads.len() => {
                writeln!(out, "# loaded      {name} after {after} instructions")?;
            }
            _ => writeln!(
                out,
                "# never       {name}: it was to be loaded after {after} instructions"
            )?,
        }
    }
    let core = &figures.asked.core;
    writeln!(
        out,
        "# loading     {:.2} % of cycles, in which nothing was dispatched",
        part(core.loading, core.cycles)
    )
}

/// Entries of `every auto`, and their rates at the end.
fn throttled(run: &RunFigures) -> Vec<(String, u32)> {
    let seen = run.loads.iter().flat_map(|answers| &answers.seen);
    let auto = seen.filter(|seen| seen.throttled && seen.executed != 0);
    let told = auto.map(|seen| (seen.entry.to_string(), seen.rate.one_in()));
    told.collect()
}

fn json(
    out: &mut impl Write,
    (view, questions): (&mut View<'_>, &[Question]),
    figures: &Figures,
    machine: &Parameters,
    status: Option<i32>,
    top: usize,
) -> io::Result<()> {
    let Figures { asked, alone } = figures;
    let mut json = Json::new(out);
    json.object()?;
    json.text("schema", SCHEMA)?;
    let command = view.profile.command.iter();
    json.texts("command", command.map(|word| String::from_utf8_lossy(word)))?;
    match status {
        Some(status) => json.number("status", status)?,
        None => json.null("status")?,
    }
    json.text("machine", &text::write(machine))?;
    for (name, number) in [
        ("instructions", asked.core.instructions),
        ("cycles", asked.core.cycles),
        ("cycles_without_queries", alone.core.cycles),
        ("stalled_for_networks", asked.core.stalled[0]),
        ("stalled_for_buffers", asked.core.stalled[1]),
        ("mispredicted", asked.core.mispredicted),
        ("code_misses", asked.core.misses[0]),
        ("data_misses", asked.core.misses[1]),
        ("squashed", asked.core.squashed),
        ("loading", asked.core.loading),
        ("records", asked.profile.records),
        ("lost", asked.profile.lost),
        ("dropped", asked.engine[2]),
    ] {
        json.number(name, number)?;
    }
    json.member_array("loads")?;
    for (n, question) in questions.iter().enumerate() {
        json.object()?;
        json.text("name", &question.name)?;
        json.number("after", question.after)?;
        json.boolean("loaded", n < asked.loads.len())?;
        json.end_object()?;
    }
    json.end_array()?;
    json.member_array("throttled")?;
    for (selector, rate) in throttled(asked) {
        json.object()?;
        json.text("selector", &selector)?;
        json.number("rate", rate)?;
        json.end_object()?;
    }
    json.end_array()?;
    modules(&mut json, view.profile)?;
    queries::json(&mut json, view, top, place)?;
    json.end_object()?;
    json.finish()
}
