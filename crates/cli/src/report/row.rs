//! Lines of tables of functions.

use trommel_code::{Count, Function};
use trommel_tuple::{ModuleId, Place};

/// A line: a function, or several that are folded.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) module: ModuleId,
    /// Start of a function; of one that was only inlined, its hottest instruction.
    pub(super) place: Option<Place>,
    /// There is such a function by itself.
    pub(super) stands: bool,
    pub(super) executed: Count,
    /// The part of these that was inlined into other functions.
    pub(super) inlined: Count,
    pub(super) at_least: bool,
    pub(super) calls: Count,
    pub(super) folded: bool,
}

impl Row {
    /// A line of a function, or of the first one that is folded into it.
    pub(super) fn new(name: String, function: &Function, folded: bool) -> Self {
        Self {
            name,
            module: function.module,
            place: function.start(),
            stands: true,
            executed: function.executed,
            inlined: Count::of_events(0.0, None),
            at_least: function.at_least,
            calls: function.calls,
            folded,
        }
    }

    /// A line of a function that was inlined everywhere.
    pub(super) fn inlined(name: String, module: ModuleId) -> Self {
        let nothing = Count::of_events(0.0, None);
        Self {
            name,
            module,
            place: None,
            stands: false,
            executed: nothing,
            inlined: nothing,
            at_least: false,
            calls: nothing,
            folded: false,
        }
    }
}
