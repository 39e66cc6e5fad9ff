//! `trommel help`: the help of commands, and the manual, which the binary carries.
//!
//! The build script packs the documents, and the examples and headers that they name. An installed binary needs no files beside it. Where a
//! command and a document have one name, the help of the command comes first. Files are printed as they are, to be written somewhere.

mod block;
mod page;
mod table;

use std::io::{self, IsTerminal, Read, Write};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use flate2::read::ZlibDecoder;

use crate::args::{Arguments, HelpArgs};
use crate::output;

/// Documents as the build script packs them.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/topics.z"));

/// A document of the manual, or a file that one names.
struct Topic {
    name: String,
    text: String,
}

impl Topic {
    fn is_file(&self) -> bool {
        self.name.contains('.')
    }
}

/// Columns of a page where there is no terminal.
const COLUMNS: usize = 80;
/// Longer lines are hard to read.
const MOST_COLUMNS: usize = 100;

/// A document as it is shown.
fn shown(topic: &Topic, topics: &[Topic]) -> String {
    if topic.is_file() {
        return topic.text.clone();
    }
    let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
    page::shown(&topic.text, &names, columns())
}

/// Columns of help.
pub(crate) fn columns() -> usize {
    match output::width(&io::stdout()) {
        usize::MAX => COLUMNS,
        columns => columns.min(MOST_COLUMNS),
    }
}

/// Runs the command.
pub(crate) fn run(args: &HelpArgs) -> Result<ExitCode> {
    let mut words = args.of.iter().map(String::as_str);
    let mut command = Arguments::command().term_width(columns());
    command.build();
    let mut described = &mut command;
    let Some(first) = words.next() else {
        return show(&described.render_long_help().to_string());
    };
    if described.find_subcommand(first).is_none() {
        return topic(first, words.next());
    }
    let mut manual = String::new();
    let topics = topics()?;
    let of_command = topics.iter().find(|topic| topic.name == first);
    if let Some(topic) = of_command.filter(|_| args.of.len() == 1) {
        manual = format!("\n{}", shown(topic, &topics));
    }
    for word in std::iter::once(first).chain(words) {
        described = match described.find_subcommand_mut(word) {
            Some(found) => found,
            None => bail!("{word}: no such command; `trommel help` lists the commands"),
        };
    }
    show(&format!("{}{manual}", described.render_long_help()))
}

fn topic(name: &str, more: Option<&str>) -> Result<ExitCode> {
    let topics = topics()?;
    if let Some(more) = more {
        bail!("{name} {more}: name one topic; `trommel help topics` lists them");
    }
    if name == "topics" {
        let width = topics.iter().map(|topic| topic.name.len()).max();
        let width = width.unwrap_or_default();
        let line = |topic: &&Topic| format!("  {:<width$}  {}\n", topic.name, title(topic));
        let lines = |files: bool| -> String {
            let topics = topics.iter().filter(|topic| topic.is_file() == files);
            topics.map(|topic| line(&topic)).collect()
        };
        return show(&format!(
            "`trommel help TOPIC` shows one of these:\n{}\n`trommel help FILE > FILE` writes a file that these topics name:\n{}",
            lines(false),
            lines(true)
        ));
    }
    match topics.iter().find(|topic| topic.name == name) {
        Some(topic) => show(&shown(topic, &topics)),
        None => bail!(
            "{name}: neither a command nor a topic; see `trommel help` and `trommel help topics`"
        ),
    }
}

/// Returns all documents, in the order of their names.
fn topics() -> Result<Vec<Topic>> {
    const DAMAGED: &str = "the manual in this binary is damaged; build trommel again";
    let mut all = String::new();
    let mut packed = ZlibDecoder::new(PACKED);
    packed.read_to_string(&mut all).context(DAMAGED)?;
    let mut topics = Vec::new();
    let mut rest = all.as_str();
    while !rest.is_empty() {
        let (head, texts) = rest.split_once('\n').context(DAMAGED)?;
        let (name, length) = head.split_once(' ').context(DAMAGED)?;
        let length: usize = length.parse().context(DAMAGED)?;
        let (text, others) = texts.split_at_checked(length).context(DAMAGED)?;
        topics.push(Topic {
            name: name.to_owned(),
            text: text.to_owned(),
        });
        rest = others;
    }
    Ok(topics)
}

/// Returns the title of a document, and of a file the first sentence.
fn title(topic: &Topic) -> &str {
    let starts = if topic.is_file() { "/*" } else { "#" };
    let mut lines = topic.text.lines();
    let first = lines.find(|line| line.starts_with(starts)).unwrap_or("");
    let title = first.trim_matches(['#', ' ', '/', '*']);
    title
        .split_once(". ")
        .or(title.split_once(": "))
        .map_or(title, |(first, _)| first)
}

/// Prints a text, through the pager that the user has chosen where this is a terminal.
fn show(text: &str) -> Result<ExitCode> {
    let pager = std::env::var_os("PAGER").filter(|pager| !pager.is_empty());
    if let Some(pager) = pager.filter(|_| io::stdout().is_terminal()) {
        let mut command = Command::new("sh");
        command.arg("-c").arg(pager).stdin(Stdio::piped());
        if let Ok(mut child) = command.spawn() {
            if let Some(mut input) = child.stdin.take() {
                // The user may leave the pager before the end.
                let _ = input.write_all(text.as_bytes());
            }
            if child.wait()?.success() {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
    let mut out = output::verbatim();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_documents_are_there() {
        let topics = topics().expect("packed");
        for name in ["events", "json", "limits", "query", "specs", "values"] {
            let found = topics.iter().find(|topic| topic.name == name);
            let text = &found.expect(name).text;
            let path = format!("{}/../../docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
            assert_eq!(*text, std::fs::read_to_string(path).expect("a document"));
            assert!(!title(found.expect(name)).is_empty());
        }
    }

    /// All documents are read in a terminal, and only outputs and code of some are longer than its lines.
    #[test]
    fn pages_fit_a_terminal() {
        let topics = topics().expect("packed");
        let names: Vec<&str> = topics.iter().map(|topic| &*topic.name).collect();
        for topic in topics.iter().filter(|topic| !topic.is_file()) {
            let page = page::shown(&topic.text, &names, 80);
            let is_whole = ["query", "specs", "simulate", "lab"].contains(&&*topic.name);
            let long = page
                .lines()
                .filter(|line| {
                    let is_command = line.trim_start().starts_with("$ ");
                    is_whole || is_command || !line.starts_with("    ")
                })
                .find(|line| {
                    // A word may be longer than any line.
                    unicode_width::UnicodeWidthStr::width(*line) > 80 && line.trim().contains(' ')
                });
            assert_eq!(long, None, "{}", topic.name);
            assert!(!page.contains("examples/export"), "{}", topic.name);
        }
    }

    /// Names of topics in texts of help are those of documents, and no text names a file.
    #[test]
    fn help_names_topics_that_there_are() {
        fn check(command: &mut clap::Command, topics: &[Topic]) {
            let text = command.render_long_help().to_string();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(!text.contains("docs/"), "{text}");
            for name in text.split("`trommel help ").skip(1) {
                let name = name.split(['`', ' ', ')']).next().unwrap_or_default();
                let known = topics.iter().any(|topic| topic.name == name)
                    || ["COMMAND", "TOPIC", "topics", "record"].contains(&name);
                assert!(known, "{}: {name}", command.get_name());
            }
            for below in command.get_subcommands_mut() {
                check(below, topics);
            }
        }
        let mut command = Arguments::command();
        command.build();
        check(&mut command, &topics().expect("packed"));
    }
}
