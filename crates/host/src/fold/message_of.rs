//! Records as messages of the target's sampler.

use crate::fold::messages::sums::Subject;

/// The meaning of a record as a message.
#[derive(Clone, Copy)]
pub(super) enum MessageOf {
    /// The record is no message.
    No,
    /// The message is about something that is not selected.
    Nothing,
    /// The message is about this, with this value.
    About(Subject, u64),
    /// The value is its word.
    Value(Subject),
    /// The value is the place of the address that is its word.
    Place(Subject),
}
