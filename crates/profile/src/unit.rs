//! Units of how much code was executed.

use crate::profile::Profile;

/// Unit of sums over executed code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Instructions that were counted, or estimated from counts.
    Instructions,
    /// Cycles of the time stamp counter that the program spent on its CPUs.
    ///
    /// Windows come at moments of CPU time and stand for the time since the last one. So they share out time, and the number of
    /// instructions that were executed in it is not known.
    Cycles,
}

impl Unit {
    /// The name, in the plural.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Cycles => "cycles",
        }
    }

    /// Words for it in a heading.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Cycles => "cycles of CPU time",
        }
    }
}

impl Profile {
    /// Unit of what the profile's code executed.
    pub fn unit(&self) -> Unit {
        match &self.windows {
            Some(windows) if !windows.are_bursts() => Unit::Cycles,
            _ => Unit::Instructions,
        }
    }
}
