//! Records as messages of the target's sampler.

use crate::fold::messages::sums::Subject;

/// What a record is as a message.
#[derive(Clone, Copy)]
pub(super) enum MessageOf {
    /// It is none.
    No,
    /// It is about what is not selected.
    Nothing,
    /// It is about this, with this value.
    About(Subject, u64),
    /// The value is its word.
    Value(Subject),
    /// The value is the place of the address that is its word.
    Place(Subject),
}
