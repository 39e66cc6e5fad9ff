//! Commands and outputs of documents, in a terminal.
//!
//! # Strategy
//! A block is indented, less where its lines need the room. A command that is too wide goes on in the next line after a `\`, so it can be pasted as
//! it is shown, and what is said of it stands above it. Outputs and code stay as they are.

use unicode_width::UnicodeWidthStr;

/// Columns by which a block is indented, and those that are tried after that.
const INDENTS: [usize; 3] = [4, 2, 0];
/// The mark of a command.
const PROMPT: &str = "$ ";
/// Columns by which the rest of a command is indented more than its first line.
const FURTHER: usize = 4;

/// Lines of a block of a language, in at most `width` columns where that is possible.
pub(super) fn shown(language: &str, lines: &[&str], width: usize) -> Vec<String> {
    let is_shell = language == "sh";
    let is_command = |line: &str| is_shell || (language == "console" && line.starts_with(PROMPT));
    let others = lines.iter().filter(|line| !is_command(line));
    let widest = others.map(|line| line.width()).max().unwrap_or(0);
    let fits = |indent: &&usize| widest + **indent <= width;
    let indent = INDENTS.iter().find(fits).copied().unwrap_or(INDENTS[0]);
    let margin = " ".repeat(indent);
    let mut out = Vec::new();
    for line in lines {
        if is_command(line) && line.width() + indent > width {
            let (command, about) = without_comment(line);
            out.extend(about.map(|about| format!("{margin}{about}")));
            out.extend(continued(command, &margin, width));
        } else {
            out.push(format!("{margin}{line}").trim_end().to_owned());
        }
    }
    out
}

/// A command, and the comment after it.
fn without_comment(line: &str) -> (&str, Option<&str>) {
    let comment = words(line).find(|(at, word)| *at > 0 && word.starts_with('#'));
    match comment {
        Some((at, _)) => (line[..at].trim_end(), Some(&line[at..])),
        None => (line, None),
    }
}

/// Words of a command with their places. What is in quotation marks is no end of a word.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut starts = Vec::new();
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        if quote.is_none() && before == ' ' && c != ' ' {
            starts.push(at);
        }
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(mark), c) if mark == c => quote = None,
            _ => {}
        }
        before = c;
    }
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([line.len()]).collect();
    let each = starts.into_iter().zip(ends);
    each.map(move |(start, end)| (start, line[start..end].trim_end()))
}

/// Words of a command, an option with the word after it.
fn groups(command: &str) -> Vec<String> {
    let mut groups: Vec<String> = Vec::new();
    let mut is_option = false;
    for (_, word) in words(command) {
        let begins = word.starts_with('-');
        match groups.last_mut().filter(|_| is_option && !begins) {
            Some(option) => option.extend([" ", word]),
            None => groups.push(word.to_owned()),
        }
        is_option = begins;
    }
    groups
}

/// A command in lines that end with `\`, but for the last.
fn continued(command: &str, margin: &str, width: usize) -> Vec<String> {
    const MARK: &str = " \\";
    let mut out = Vec::new();
    let mut line = margin.to_owned();
    let mut is_first = true;
    for word in groups(command) {
        let fits = line.width() + 1 + word.width() + MARK.len() <= width;
        match (is_first, fits) {
            (true, _) => {}
            (false, true) => line.push(' '),
            (false, false) => {
                let next = margin.to_owned() + &" ".repeat(FURTHER);
                out.push(std::mem::replace(&mut line, next) + MARK);
            }
        }
        line.push_str(&word);
        is_first = false;
    }
    out.push(line);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_command_goes_on_after_a_backslash_and_its_comment_is_above() {
        let line = "$ trommel record -c 'a  b # c' --tuple pc,op1 -- ./app   # what it does";
        let wanted = [
            "    # what it does",
            "    $ trommel record \\",
            "        -c 'a  b # c' \\",
            "        --tuple pc,op1 \\",
            "        -- ./app",
        ];
        assert_eq!(shown("console", &[line, "its output"], 24)[..5], wanted);
        assert_eq!(shown("console", &[line], 80), [format!("    {line}")]);
        // A shell reads it as it was.
        let joined = wanted[1..]
            .join("\n")
            .replace("\\\n", " ")
            .replace("$ ", "");
        let words = |text: &str| {
            words(text)
                .map(|(_, word)| word.to_owned())
                .collect::<Vec<_>>()
        };
        let (command, _) = without_comment(&line[2..]);
        assert_eq!(words(&joined), words(command));
    }

    #[test]
    fn other_blocks_are_indented_less_and_stay_as_they_are() {
        let lines = ["x".repeat(77), "  y".to_owned()];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let told = |width| shown("text", &lines, width);
        assert!(told(81)[1] == "      y" && told(79)[1] == "    y" && told(77)[1] == "  y");
        // Where it helps nothing it is not done.
        assert_eq!(told(70)[1], "      y");
    }
}
