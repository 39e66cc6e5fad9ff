//! Messages of counters that are still to be written: what the ways leave for the end of a fragment.

use super::values::Value;
use crate::base::address::CachePc;
use crate::base::emit::{GsOffset, Reg, Rel32};
use crate::base::ids::ExitNumber;
use crate::channel::shields::Counters;

/// A message that is written after a fragment.
#[derive(Clone, Copy)]
pub(in crate::translate) struct Pending {
    /// The jump that is executed at the counter's end.
    pub(in crate::translate) from: Rel32,
    /// The app's `rcx` is in its slot.
    pub(in crate::translate) spilled: bool,
    pub(in crate::translate) of: Sends,
    /// Place at which the code goes on.
    pub(in crate::translate) back: CachePc,
}

/// Content of a message.
#[derive(Clone, Copy)]
pub(in crate::translate) enum Sends {
    /// Known numbers.
    Known(Known),
    /// A value, too.
    Value(ValueMessage),
    /// A value, by a routine of the runtime.
    ByRoutine(Routine),
    /// An event that is not shielded.
    Unshielded(Unshielded),
}

/// An event whose way leads out of line where it is not shielded, and where its interval has ended.
#[derive(Clone, Copy)]
pub(in crate::translate) struct Unshielded {
    pub(super) subject: u32,
    pub(super) of: Of,
    /// Executed where the interval has ended, and where the code goes on then.
    pub(super) ended: Rel32,
    pub(super) after: CachePc,
    /// `rcx` is not the app's, and needed afterwards.
    pub(super) holds: bool,
}

/// Origin of the event's tuple, and the way of counting it.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// The tuple, and nobody looks at the flags: on the spot.
    Here(Counters),
    /// The tuple: by the routine.
    Known,
    /// The place: by the routine, which hashes the value.
    Value(Unmet),
}

/// A value that no value counter is of.
#[derive(Clone, Copy)]
pub(super) struct Unmet {
    pub(super) value: Value,
    /// Says which value counter it would be in, where the value is in a register; else it is in its slot already.
    pub(super) index: Reg,
    /// The second jump where it is not met.
    pub(super) other: Rel32,
    pub(super) entry: GsOffset,
}

/// A message without a value.
#[derive(Clone, Copy)]
pub struct Known {
    /// The counter that has come to its end.
    pub counter: GsOffset,
    /// Number of the message in the dictionary.
    pub path: ExitNumber,
    /// Start value of the counter.
    pub start: u32,
}

/// A message about a value.
#[derive(Clone, Copy)]
pub(in crate::translate) struct ValueMessage {
    /// Says which counter it was, and is free; nothing is where there is but one.
    pub(super) counter: Option<Reg>,
    /// Start value of that counter.
    pub(super) start: u16,
    pub(super) value: Value,
    pub(super) path: ExitNumber,
    /// `rcx` is not the app's, and needed afterwards.
    pub(super) holds: bool,
}

/// A message about a value that a routine of the runtime sends.
#[derive(Clone, Copy)]
pub(in crate::translate) struct Routine {
    /// The slot of the routine.
    pub(in crate::translate) entry: GsOffset,
    /// The register that says which value counter it was, and the jumps that are executed where that is another's.
    pub(in crate::translate) value_counter: (Reg, [Rel32; 2]),
    pub(in crate::translate) value: Value,
    pub(in crate::translate) path: ExitNumber,
    /// `rcx` is not the app's, and needed afterwards.
    pub(in crate::translate) holds: bool,
}
