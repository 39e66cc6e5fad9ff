//! One line on the terminal about a run that goes on.
//!
//! # Problem
//! A program under observation may take long and print nothing. Its user wants to know that it goes on. But the terminal is the
//! program's: nothing that it writes may be harmed.
//!
//! # Strategy
//! The line stands below the cursor, and the cursor stays where the program left it. Erasing clears from the cursor to the end of
//! the screen, so what the program wrote stays whatever it was. A program that writes to this terminal has it for itself:
//!
//! * Where the program's output goes to the terminal, there is no line after a second in which bytes were written.
//! * After [`ENOUGH`] such seconds there is no line any more.
//! * A program that reads keys one by one (an editor) has the whole screen. There is no line while it does.
//!
//! Without a terminal there is no line.
#![allow(unsafe_code)] // reason: asks for the mode of a terminal.

use std::io::{self, IsTerminal, Write};
use std::mem;
use std::os::fd::AsRawFd;
use std::time::Duration;

use trommel_host::serve::news::Progress;

use crate::output;

/// Seconds in which the program wrote, after which it has the terminal for itself.
const ENOUGH: u32 = 3;
/// A run that is over sooner shows nothing.
const SOON: Duration = Duration::from_millis(1500);
/// A program that waited for this part of the time is told so.
const PART: u32 = 10;

/// The line below the cursor.
pub(crate) struct Status {
    /// The program's standard output is the terminal.
    shared: bool,
    shown: bool,
    /// Bytes that the program had written when it was looked at last.
    written: u64,
    /// Seconds in which it wrote.
    wrote: u32,
}

impl Status {
    /// Returns the line, if standard error is a terminal that can move its cursor.
    pub(crate) fn of_terminal() -> Option<Self> {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        (io::stderr().is_terminal() && !dumb).then(|| Self {
            shared: io::stdout().is_terminal(),
            shown: false,
            written: 0,
            wrote: 0,
        })
    }

    /// Shows the state of the run, if the terminal is free.
    pub(crate) fn show(&mut self, state: &Progress) {
        let before = mem::replace(&mut self.written, state.written);
        if self.shared && before != state.written {
            self.wrote += 1;
            return self.erase();
        }
        if state.wall < SOON || self.wrote >= ENOUGH || takes_keys() {
            return self.erase();
        }
        let width = output::terminal_width(&io::stderr());
        let line = format!("trommel: {}", sentence(state));
        let line: String = line.chars().take(width.saturating_sub(1)).collect();
        // Room below the cursor, made without a change of its column; there the line; and back.
        let text = format!("\x1b[J\x0b\x1b[A\x1b7\x1b[B\r{line}\x1b8");
        self.shown = io::stderr().write_all(text.as_bytes()).is_ok();
    }

    /// Takes the line away.
    pub(crate) fn erase(&mut self) {
        if mem::take(&mut self.shown) {
            let _ = io::stderr().write_all(b"\x1b[J");
        }
    }
}

/// Returns true if a program reads single keys from the terminal.
fn takes_keys() -> bool {
    // SAFETY: all-zero is a valid mode.
    let mut mode: libc::termios = unsafe { mem::zeroed() };
    // SAFETY: a place to write to.
    let read = unsafe { libc::tcgetattr(io::stderr().as_raw_fd(), &raw mut mode) } == 0;
    read && mode.c_lflag & libc::ICANON == 0
}

/// The state of a run, in few words.
pub(crate) fn sentence(state: &Progress) -> String {
    let seconds = |time: Duration| format!("{:.1} s", time.as_secs_f64());
    let mut text = format!(
        "{:.0} s; CPU time {} of the program, {} of trommel",
        state.wall.as_secs_f64(),
        seconds(state.program),
        seconds(state.host)
    );
    if state.processes > 1 {
        text += &format!("; {} processes", state.processes);
    }
    if state.waited * PART > state.wall {
        text += &format!("; waited {}", seconds(state.waited));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_shown_where_it_matters() {
        let mut state = Progress {
            wall: Duration::from_secs(10),
            program: Duration::from_millis(8500),
            host: Duration::from_millis(740),
            processes: 1,
            ..Progress::default()
        };
        let usual = "10 s; CPU time 8.5 s of the program, 0.7 s of trommel";
        assert_eq!(sentence(&state), usual);
        state.waited = Duration::from_millis(900);
        assert_eq!(sentence(&state), usual);
        state.waited = Duration::from_millis(4200);
        state.processes = 3;
        assert_eq!(
            sentence(&state),
            format!("{usual}; 3 processes; waited 4.2 s")
        );
    }
}
