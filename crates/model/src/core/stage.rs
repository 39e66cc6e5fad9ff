//! Rates: how busy a stage was when an instruction went through it (section 3.2, example d).

/// One of the four stages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Instructions in this cycle.
    n: u16,
    /// Cycles before it in which there was none, and why.
    idle: u32,
    reason: Reason,
}

/// Reasons why nothing went through a stage: of several, the one farthest down the pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(super) enum Reason {
    /// Nothing kept it.
    None = 0,
    /// Instructions are on their way from memory, or through the front end.
    Supply = 1,
    /// A mispredicted branch, or an interrupt.
    Control = 2,
    /// No room in what comes next.
    Room = 3,
    /// Profile hardware.
    Profile = 4,
    /// Registers or units.
    Operands = 5,
    /// The oldest instruction has been issued and is not done.
    Execution = 6,
}

impl Stage {
    pub(super) const fn new() -> Self {
        Self {
            n: 0,
            idle: 0,
            reason: Reason::None,
        }
    }

    /// An instruction goes through. Returns true if it is the first one in this cycle.
    pub(super) const fn count(&mut self) -> bool {
        self.n += 1;
        self.n == 1
    }

    /// The word of an instruction that went through in this cycle, when the cycle is over: the cycles in which none
    /// did belong to the first one.
    pub(super) const fn rate(&self, first: bool) -> u64 {
        let (idle, reason) = match first {
            true => (self.idle as u64, self.reason as u64),
            false => (0, 0),
        };
        self.n as u64 | reason << 16 | idle << 32
    }

    /// Ends a cycle. If nothing went through it was for this reason.
    pub(super) const fn end(&mut self, reason: Reason) {
        match self.n {
            0 => {
                self.idle = self.idle.saturating_add(1);
                self.reason = reason;
            }
            _ => {
                self.idle = 0;
                self.reason = Reason::None;
            }
        }
        self.n = 0;
    }
}

pub(super) const FETCH: usize = 0;
pub(super) const DISPATCH: usize = 1;
pub(super) const ISSUE: usize = 2;
pub(super) const RETIRE: usize = 3;
