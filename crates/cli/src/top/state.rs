//! Choices of whoever looks: which table, in which order, of which time.

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Shown {
    #[default]
    Functions,
    Branches,
    Calls,
    Values,
    Processes,
}

impl Shown {
    pub(super) const ALL: [Self; 5] = [
        Self::Functions,
        Self::Branches,
        Self::Calls,
        Self::Values,
        Self::Processes,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Functions => "functions",
            Self::Branches => "branches",
            Self::Calls => "calls",
            Self::Values => "values",
            Self::Processes => "processes",
        }
    }

    /// Orders of its rows, the usual one first.
    pub(super) const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Functions => &["self", "calls", "name"],
            Self::Branches | Self::Calls => &["count", "name"],
            Self::Values => &["executions", "share", "name"],
            Self::Processes => &["time", "pid"],
        }
    }
}

/// Effect of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Quit,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Show(Shown),
    Next,
    Sort,
    Whole,
    Pause,
    Help,
}

/// Choices so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) shown: Shown,
    order: usize,
    /// Number of the chosen row.
    pub(super) chosen: usize,
    /// Sums of the whole time are shown.
    pub(super) whole: bool,
    pub(super) paused: bool,
    pub(super) help: bool,
    /// Nothing new comes.
    pub(super) ended: bool,
    pub(super) quits: bool,
}

impl State {
    /// The order of rows.
    pub(super) fn order(&self) -> &'static str {
        let orders = self.shown.orders();
        orders[self.order % orders.len()]
    }

    /// Does what a key asks for, on a screen with so many of `rows`.
    pub(super) fn act(&mut self, action: Action, rows: usize, page: usize) {
        let last = rows.saturating_sub(1);
        match action {
            Action::Quit if self.help => self.help = false,
            Action::Quit => self.quits = true,
            Action::Up => self.chosen = self.chosen.saturating_sub(1),
            Action::Down => self.chosen = (self.chosen + 1).min(last),
            Action::PageUp => self.chosen = self.chosen.saturating_sub(page.max(1)),
            Action::PageDown => self.chosen = (self.chosen + page.max(1)).min(last),
            Action::First => self.chosen = 0,
            Action::Last => self.chosen = last,
            Action::Show(shown) => self.show(shown),
            Action::Next => {
                let at = Shown::ALL.iter().position(|shown| *shown == self.shown);
                let next = at.map_or(0, |at| (at + 1) % Shown::ALL.len());
                self.show(Shown::ALL[next]);
            }
            Action::Sort => self.order = (self.order + 1) % self.shown.orders().len(),
            Action::Whole => self.whole = !self.whole,
            Action::Pause => self.paused = !self.paused,
            Action::Help => self.help = !self.help,
        }
    }

    fn show(&mut self, shown: Shown) {
        if shown != self.shown {
            (self.shown, self.order, self.chosen) = (shown, 0, 0);
        }
        self.help = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_move_within_the_rows() {
        let mut state = State::default();
        state.act(Action::Up, 3, 10);
        assert_eq!(state.chosen, 0);
        state.act(Action::PageDown, 3, 10);
        assert_eq!(state.chosen, 2);
        state.act(Action::Down, 3, 10);
        assert_eq!(state.chosen, 2);
        state.act(Action::First, 0, 10);
        state.act(Action::Last, 0, 10);
        assert_eq!(state.chosen, 0);
    }

    #[test]
    fn another_table_begins_at_its_hottest_row() {
        let mut state = State::default();
        state.act(Action::Sort, 3, 10);
        state.act(Action::Down, 3, 10);
        assert_eq!((state.order(), state.chosen), ("calls", 1));
        state.act(Action::Show(Shown::Values), 3, 10);
        assert_eq!((state.order(), state.chosen), ("executions", 0));
        for _ in Shown::ALL {
            state.act(Action::Next, 3, 10);
        }
        assert_eq!(state.shown, Shown::Values);
    }

    #[test]
    fn quitting_help_shows_the_table_again() {
        let mut state = State::default();
        state.act(Action::Help, 3, 10);
        state.act(Action::Quit, 3, 10);
        assert!(!state.help && !state.quits);
        state.act(Action::Quit, 3, 10);
        assert!(state.quits);
    }
}
