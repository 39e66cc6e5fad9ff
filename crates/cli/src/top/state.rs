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
    /// Candidates of the latest intervals.
    Candidates,
}

impl Shown {
    /// Tables of counts.
    pub(super) const COUNTS: [Self; 5] = [
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
            Self::Candidates => "candidates",
        }
    }

    /// Orders of its rows, the usual one first.
    pub(super) const fn orders(self) -> &'static [&'static str] {
        match self {
            Self::Functions => &["self", "calls", "name"],
            Self::Branches | Self::Calls => &["count", "name"],
            Self::Values => &["executions", "share", "name"],
            Self::Processes => &["time", "pid"],
            Self::Candidates => &["share", "thread", "name"],
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
    /// An interval profiler counts.
    of_intervals: bool,
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
    /// The choices at first. `of_intervals`: an interval profiler counts.
    pub(super) fn new(of_intervals: bool) -> Self {
        let mut state = Self {
            of_intervals,
            ..Self::default()
        };
        state.shown = state.tables()[0];
        state
    }

    /// Returns true if a screen has the time since something, which goes on.
    pub(super) const fn shows_time(&self) -> bool {
        self.of_intervals && !self.paused
    }

    /// Tables that there are.
    pub(super) const fn tables(&self) -> &'static [Shown] {
        match self.of_intervals {
            true => &[Shown::Candidates],
            false => &Shown::COUNTS,
        }
    }

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
            Action::Show(shown) if self.tables().contains(&shown) => self.show(shown),
            // There is no such table.
            Action::Show(_) => {}
            Action::Next => {
                let tables = self.tables();
                let at = tables.iter().position(|shown| *shown == self.shown);
                let next = at.map_or(0, |at| (at + 1) % tables.len());
                self.show(tables[next]);
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
        for _ in Shown::COUNTS {
            state.act(Action::Next, 3, 10);
        }
        assert_eq!(state.shown, Shown::Values);
    }

    #[test]
    fn with_an_interval_profiler_there_are_candidates_alone() {
        let mut state = State::new(true);
        assert_eq!(state.tables(), [Shown::Candidates]);
        for action in [Action::Next, Action::Show(Shown::Branches)] {
            state.act(action, 3, 10);
            assert_eq!(state.shown, Shown::Candidates);
        }
        state.act(Action::Sort, 3, 10);
        assert_eq!(state.order(), "thread");
        assert!(!State::new(false).tables().contains(&Shown::Candidates));
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
