//! The terminal: keys in, screens out. Whatever happens, it is left as it was.
//!
//! A terminal that is gone (its window closed, its connection lost) is at its end of file for ever, where crossterm would read again and
//! again and never come back. So keys are waited for here, and crossterm is asked only for those that are there.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::Result;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode, size,
};
use crossterm::{execute, queue};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use trommel_host::kernel::interrupt::Guard;

use super::Seen;
use super::history::History;
use super::screen::{Look, Screen, screen};
use super::snapshot::Snapshot;
use super::state::{Action, Shown, State};
use crate::output;

/// From one look at the pipe to the next, at least.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Puts the terminal back when dropped.
struct Raw;

impl Raw {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let raw = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(raw)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

/// Shows what comes until whoever looks quits. Returns what was seen, and true if it was for that.
///
/// # Errors
/// The terminal is gone.
pub(super) fn run(moments: &Receiver<Snapshot>, mut state: State, guard: &Guard) -> Result<Seen> {
    let mut history = History::default();
    let mut held = Vec::new();
    let keys = keys()?;
    let raw = Raw::enter()?;
    let mut drawn = Vec::new();
    // Rows and page of the screen that is shown, and its room.
    let mut shown = (0, 0, (0, 0));
    // Sums are made for each screen, and are paid from the budget: where nothing changed there is none.
    let mut changed = true;
    while !state.quits && !guard.asked() {
        changed |= receive(moments, &mut state, &mut held);
        if !state.paused {
            held.drain(..).for_each(|moment| history.add(moment));
        }
        if state.ended && history.last().is_none() {
            // The reason is for whoever started this.
            break;
        }
        let (width, height) = size()?;
        let room = (usize::from(width), usize::from(height));
        if changed || state.shows_time() || shown.2 != room {
            let now = screen(&state, &history, room);
            draw(&now, &mut drawn, room)?;
            shown = (now.rows, now.page, room);
        }
        changed = false;
        if !wait(&keys)? {
            break;
        }
        while event::poll(Duration::ZERO)? {
            changed = true;
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => {
                    if let Some(action) = action(key) {
                        state.act(action, shown.0, shown.1);
                    }
                }
                // Other columns: nothing of what is there holds.
                Event::Resize(..) => drawn.clear(),
                _ => {}
            }
        }
    }
    drop(raw);
    Ok((history, state.quits || guard.asked()))
}

/// Takes the moments that have come. Returns true if that changes what is to be shown.
fn receive(moments: &Receiver<Snapshot>, state: &mut State, held: &mut Vec<Snapshot>) -> bool {
    let before = (held.len(), state.ended);
    loop {
        match moments.try_recv() {
            Ok(moment) => held.push(moment),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Disconnected) => {
                state.ended = true;
                break;
            }
        }
    }
    before != (held.len(), state.ended)
}

/// The terminal that keys come from, as crossterm chooses it.
fn keys() -> io::Result<OwnedFd> {
    match io::stdin().is_terminal() {
        true => io::stdin().as_fd().try_clone_to_owned(),
        false => Ok(File::open("/dev/tty")?.into()),
    }
}

/// Waits for a key, for a moment. Returns false if the terminal is gone.
fn wait(keys: &OwnedFd) -> io::Result<bool> {
    let mut all = [PollFd::new(keys, PollFlags::IN)];
    match poll(&mut all, Some(&LOOK)) {
        Ok(_) => Ok(!all[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Returns what a key asks for.
fn action(key: KeyEvent) -> Option<Action> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c' | 'd') if control => Action::Quit,
        KeyCode::Char('q') | KeyCode::Esc => Action::Quit,
        KeyCode::Up | KeyCode::Char('k') => Action::Up,
        KeyCode::Down | KeyCode::Char('j') => Action::Down,
        KeyCode::PageUp => Action::PageUp,
        KeyCode::PageDown => Action::PageDown,
        KeyCode::Home | KeyCode::Char('g') => Action::First,
        KeyCode::End | KeyCode::Char('G') => Action::Last,
        KeyCode::Char('f') => Action::Show(Shown::Functions),
        KeyCode::Char('b') => Action::Show(Shown::Branches),
        KeyCode::Char('c') => Action::Show(Shown::Calls),
        KeyCode::Char('v') => Action::Show(Shown::Values),
        KeyCode::Char('p') => Action::Show(Shown::Processes),
        KeyCode::Tab => Action::Next,
        KeyCode::Char('s') => Action::Sort,
        KeyCode::Char('t') => Action::Whole,
        KeyCode::Char(' ') => Action::Pause,
        KeyCode::Char('h' | '?') => Action::Help,
        _ => return None,
    })
}

/// Writes the lines that are others than those `drawn`.
fn draw(
    screen: &Screen,
    drawn: &mut Vec<(Look, String)>,
    (width, height): (usize, usize),
) -> io::Result<()> {
    let colours = output::colours(&io::stdout());
    let mut out = Vec::new();
    if drawn.len() != height {
        queue!(out, Clear(ClearType::All))?;
        *drawn = vec![(Look::Plain, String::new()); height];
    }
    for (y, (line, before)) in screen.lines.iter().zip(drawn.iter_mut()).enumerate() {
        if line == before {
            continue;
        }
        let (look, text) = line;
        queue!(out, MoveTo(0, y as u16))?;
        let attribute = match look {
            Look::Plain => None,
            Look::Strong => Some(Attribute::Bold),
            Look::Head | Look::Chosen => Some(Attribute::Reverse),
        };
        match attribute.filter(|_| colours) {
            Some(attribute) => queue!(
                out,
                SetAttribute(attribute),
                Print(text),
                SetAttribute(Attribute::Reset)
            )?,
            None => queue!(out, Print(text))?,
        }
        // A full line has nothing after it, and clearing there would take its last character.
        if unicode_width::UnicodeWidthStr::width(&**text) < width {
            queue!(out, Clear(ClearType::UntilNewLine))?;
        }
        *before = line.clone();
    }
    let mut to = io::stdout().lock();
    to.write_all(&out)?;
    to.flush()
}
