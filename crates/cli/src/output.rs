//! Writing to people: stdout that may close, text that may hold anything, numbers that are read.

mod folded;

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trommel_symbol::is_obeyed;
use unicode_width::UnicodeWidthStr;

/// Buffered stdout, whose lines of facts fit its columns.
pub(crate) type Stdout = folded::Folded<BufWriter<Open>>;

pub(crate) use folded::{fitted, folded};

/// Stdout as it was given to this process. Rust opens `/dev/null` in the place of a closed one: what is written there is lost.
pub(crate) struct Open(StdoutLock<'static>);

impl Write for Open {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_open()?;
        self.0.write(bytes).map_err(of_stdout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(of_stdout)
    }
}

/// An error of standard output, which it names.
pub(crate) fn of_stdout(error: io::Error) -> io::Error {
    let words = format!("standard output: cannot write: {error}");
    io::Error::new(error.kind(), words)
}

/// Refuses a stdout that was closed when this process began.
pub(crate) fn check_open() -> io::Result<()> {
    match crate::inherited::is_closed(1) {
        true => Err(io::Error::other("standard output is closed")),
        false => Ok(()),
    }
}

/// Refuses a stderr that was closed when this process began, where results go there.
pub(crate) fn check_stderr() -> io::Result<()> {
    match crate::inherited::is_closed(2) {
        true => Err(io::Error::other("standard error is closed")),
        false => Ok(()),
    }
}

/// Returns [`Stdout`]. Flush it: what is lost when it is dropped is lost without an error.
pub(crate) fn stdout() -> Stdout {
    let columns = width(&io::stdout());
    let out = BufWriter::with_capacity(64 << 10, Open(io::stdout().lock()));
    folded::Folded::new(out, columns)
}

/// Stderr, likewise.
pub(crate) fn stderr() -> folded::Folded<io::Stderr> {
    folded::Folded::new(io::stderr(), width(&io::stderr()))
}

/// Returns true if the reader of our standard output has gone away. Another pipe that was to be written is no such output.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let mut io_errors = error.chain().filter_map(|e| e.downcast_ref::<io::Error>());
    io_errors.any(|e| e.kind() == io::ErrorKind::BrokenPipe) && is_stdout_unread()
}

/// Returns true if standard output is a pipe without a reader.
fn is_stdout_unread() -> bool {
    let stdout = io::stdout();
    let mut asked = [PollFd::new(&stdout, PollFlags::OUT)];
    let at_once = Timespec::default();
    poll(&mut asked, Some(&at_once)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
}

/// Lines below an error's message, such as a list: its cause.
#[derive(Debug)]
struct Below(Vec<String>);

impl fmt::Display for Below {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for Below {}

/// An error with lines below its message.
pub(crate) fn with_lines(message: String, lines: Vec<String>) -> anyhow::Error {
    anyhow::Error::new(Below(lines)).context(message)
}

/// Says what went wrong and why.
pub(crate) fn complain_of(error: &anyhow::Error) {
    complain(&with_causes(error));
    let below = error
        .downcast_ref::<Below>()
        .map_or(&[][..], |below| &below.0);
    for line in below {
        let _ = writeln!(io::stderr(), "{}", printable(line));
    }
}

/// An error with its causes, each once: a message may have its cause's words already.
fn with_causes(error: &anyhow::Error) -> String {
    let mut words = String::new();
    let causes = error.chain().filter(|cause| !cause.is::<Below>());
    for cause in causes.map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// Says what went wrong, in lines that fit the terminal. When even stderr is gone there is nobody to tell.
pub(crate) fn complain(what: &str) {
    let _ = io::stderr().write_all(said(what, &io::stderr()).as_bytes());
}

/// Has this said when Ctrl-C ends the command, in place of what was to be said before.
pub(crate) fn last_words(what: &str) {
    let stderr = io::stderr();
    // A terminal shows the keys, and there may be a line of progress.
    let begins = if stderr.is_terminal() { "\n" } else { "" };
    trommel_host::kernel::interrupt::last_words(&format!("{begins}{}", said(what, &stderr)));
}

/// A sentence of this command, in lines that fit a stream. Each is ended.
pub(crate) fn said(what: &str, stream: &(impl IsTerminal + AsFd)) -> String {
    const NAME: &str = "trommel: ";
    let what = printable(&without_numbers(what));
    let columns = width(stream);
    let text = in_lines(pieces(&what).into_iter(), NAME.len(), NAME.len(), columns);
    format!("{NAME}{text}\n")
}

/// A text without the numbers that the standard library adds to the words for errors of the system.
fn without_numbers(text: &str) -> String {
    const MARK: &str = " (os error ";
    let mut parts = text.split(MARK);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let after = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match after.strip_prefix(')').filter(|_| after.len() < part.len()) {
            Some(after) => out.push_str(after),
            None => out.extend([MARK, part]),
        }
    }
    out
}

/// Words of a text. What stands in backquotes is one: a command that is to be pasted stays in one line, which the terminal wraps.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        match c {
            '`' => is_quoted = !is_quoted,
            ' ' if !is_quoted => {
                pieces.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(&text[start..]);
    pieces
}

/// Returns true if colours are used on this stream.
pub(crate) fn colours(stream: &impl IsTerminal) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb");
    stream.is_terminal() && !set("NO_COLOR") && !dumb
}

/// Stdout for a text that may be kept in a file: no line of it is folded. Flush it.
pub(crate) fn verbatim() -> Stdout {
    let out = BufWriter::with_capacity(64 << 10, Open(io::stdout().lock()));
    folded::Folded::new(out, usize::MAX)
}

/// Columns of a stream: those that `COLUMNS` asks for, else those of its terminal. Without both, no line is too wide.
///
/// Shells set `COLUMNS` for themselves and do not export it, so a command has it where somebody asked for it.
pub(crate) fn width(stream: &(impl IsTerminal + AsFd)) -> usize {
    let asked = std::env::var("COLUMNS").ok();
    columns_asked(asked.as_deref()).unwrap_or_else(|| terminal_width(stream))
}

/// Columns of a stream's terminal, for what moves its cursor.
pub(crate) fn terminal_width(stream: &(impl IsTerminal + AsFd)) -> usize {
    let size = (stream.is_terminal()).then(|| terminal_size::terminal_size_of(stream));
    size.flatten()
        .map_or(usize::MAX, |(width, _)| width.0.into())
}

/// Columns that a text asks for. 0 and other words ask for none.
fn columns_asked(text: Option<&str>) -> Option<usize> {
    text?.trim().parse().ok().filter(|columns| *columns > 0)
}

/// `text` without what a terminal obeys, in one line: names come from files.
pub(crate) fn printable(text: &str) -> String {
    trommel_symbol::printable(text).into_owned()
}

/// The same of a text of several lines.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines = text.split('\n').map(trommel_symbol::printable);
    lines.collect::<Vec<_>>().join("\n")
}

/// A text in lines of at most `width` columns, of which `before` are taken in the first one and `indent` are left free in all others.
pub(crate) fn wrapped(text: &str, before: usize, indent: usize, width: usize) -> String {
    in_lines(words(text).into_iter(), before, indent, width)
}

/// Words of a text. The groups of digits of a number are one.
pub(crate) fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut before) = (0, "");
    let mut at = 0;
    for word in text.split(' ') {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let goes_on = digits == 3 && before.ends_with(|c: char| c.is_ascii_digit());
        if at > 0 && !goes_on {
            words.push(&text[start..at - 1]);
            start = at;
        }
        at += word.len() + 1;
        before = word;
    }
    words.push(&text[start..]);
    words
}

fn in_lines<'t>(
    words: impl Iterator<Item = &'t str>,
    before: usize,
    indent: usize,
    width: usize,
) -> String {
    let mut out = String::new();
    let mut column = before;
    for (n, word) in words.enumerate() {
        let columns = UnicodeWidthStr::width(word);
        let fits = column.saturating_add(1 + columns) <= width;
        match (n, fits) {
            (0, _) => {}
            (_, true) => {
                out.push(' ');
                column += 1;
            }
            (_, false) => {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                column = indent;
            }
        }
        out.push_str(word);
        column += columns;
    }
    out
}

/// `number` with a thin gap between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

/// A number with its noun.
pub(crate) fn number_of(n: u64, noun: &str) -> String {
    match n {
        1 => format!("1 {noun}"),
        n => format!("{} {noun}s", grouped(n)),
    }
}

/// Number of repetitions.
pub(crate) fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{} times", grouped(n)),
    }
}

/// `part` of `whole` in percent.
pub(crate) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 * 100.0 / whole as f64
}

/// A time that people can compare.
pub(crate) fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0..1_000_000 => format!("{:.0} µs", seconds * 1e6),
        1_000_000..1_000_000_000 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

/// A command as one would type it, on one line.
pub(crate) fn command_line(arguments: &[Vec<u8>]) -> String {
    let quoted = arguments.iter().map(|argument| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
        match str::from_utf8(argument) {
            Ok(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
            Ok(text) if !text.contains(is_obeyed) => {
                format!("'{}'", text.replace('\'', r"'\''"))
            }
            _ => escaped(argument),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// An argument with control characters, or bytes that are no text, in the quotes that bash and POSIX 2024 have for it.
fn escaped(argument: &[u8]) -> String {
    let mut out = "$'".to_owned();
    for chunk in argument.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out += r"\n",
                '\t' => out += r"\t",
                '\r' => out += r"\r",
                '\'' | '\\' => out.extend(['\\', c]),
                // Octal digits end after three; hexadecimal ones would take the next letters along.
                c if is_obeyed(c) => {
                    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                        out += &format!("\\{byte:03o}");
                    }
                }
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out += &format!("\\{byte:03o}");
        }
    }
    out + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_wrapped_at_words() {
        let text = "one two three four";
        assert_eq!(wrapped(text, 0, 2, usize::MAX), text);
        assert_eq!(wrapped(text, 3, 2, 11), "one two\n  three\n  four");
        assert_eq!(wrapped("longer_than_all", 2, 2, 5), "longer_than_all");
        // Numbers stay whole.
        assert_eq!(
            words("of 1 234 567, in 12 345 s"),
            ["of", "1 234 567,", "in", "12 345", "s"]
        );
        assert_eq!(words(" a  1 2345 678"), ["", "a", "", "1", "2345 678"]);
        assert_eq!(words(""), [""]);
        assert_eq!(
            wrapped("by 1 747 instructions", 0, 0, 5),
            "by\n1 747\ninstructions"
        );
    }

    #[test]
    fn only_a_number_asks_for_columns() {
        let asked = [
            Some("80"),
            Some(" 120 "),
            Some("0"),
            Some(""),
            Some("wide"),
            Some("-1"),
            None,
        ];
        let columns = [Some(80), Some(120), None, None, None, None, None];
        assert_eq!(asked.map(columns_asked), columns);
    }

    #[test]
    fn commands_stay_in_one_line() {
        assert_eq!(
            pieces("use `trommel report FILE` or `-q`: both"),
            ["use", "`trommel report FILE`", "or", "`-q`:", "both"]
        );
        assert_eq!(pieces("it`s no quote"), ["it`s no quote"]);
        assert_eq!(pieces(""), [""]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            (number_of(1, "row"), times(1)),
            ("1 row".into(), "once".into())
        );
        assert_eq!(
            (number_of(0, "row"), number_of(1234, "row"), times(1234)),
            ("0 rows".into(), "1 234 rows".into(), "1 234 times".into())
        );
    }

    #[test]
    fn errors_of_the_system_are_words_alone() {
        for (text, wanted) in [
            (
                "f: No such file or directory (os error 2)",
                "f: No such file or directory",
            ),
            (
                "a (os error 27) (nothing was written)",
                "a (nothing was written)",
            ),
            ("a (os error 1): b (os error 22), c", "a: b, c"),
            ("(os error x) and (os error ", "(os error x) and (os error "),
            ("x (os error ) y (os error 3", "x (os error ) y (os error 3"),
        ] {
            assert_eq!(without_numbers(text), wanted);
        }
    }

    #[test]
    fn numbers_and_times_read_well() {
        assert_eq!(
            (grouped(7), grouped(1234), grouped(1_234_567)),
            ("7".into(), "1 234".into(), "1 234 567".into())
        );
        assert_eq!(
            (
                duration(1_500),
                duration(2_500_000),
                duration(61_000_000_000)
            ),
            ("2 µs".into(), "2.5 ms".into(), "61.00 s".into())
        );
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(printable("a\x1b[31mb\r\n"), "a\\u{1b}[31mb\\r\\n");
        assert_eq!(printable_lines("a\tb\nc"), "a\\tb\nc");
        assert_eq!(
            command_line(&[b"ls".to_vec(), b"it's".to_vec(), Vec::new()]),
            r"ls 'it'\''s' ''"
        );
    }

    #[test]
    fn a_command_is_on_one_line_and_bash_reads_it_as_it_was() {
        for argument in [
            &b"two\nlines\t\r"[..],
            b"it's \\ \x1b[31m7\x7f",
            b"\xff\xc3(",
            "\u{85}\u{e9}\n\u{202e}".as_bytes(),
        ] {
            let line = command_line(&[b"printf".to_vec(), b"%s".to_vec(), argument.to_vec()]);
            assert!(!line.contains(is_obeyed), "{line:?}");
            let said = std::process::Command::new("bash")
                .args(["-c", &line])
                .output();
            assert_eq!(said.expect("bash").stdout, argument, "{line}");
        }
    }
}
