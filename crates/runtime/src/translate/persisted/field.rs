//! Kinds of fields of code that depend on addresses and numbers of one run.

/// A field of a fragment's code that depends on addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(in crate::translate) enum Field {
    /// 32 bits: an address of the app, relative to the code.
    Relative = 0,
    /// 64 bits: an address of the app.
    Absolute = 1,
    /// 64 bits: the negative of one.
    Negative = 2,
    /// 32 bits: an address of the app that is less than two to the power of 31.
    Low = 3,
    /// 32 bits: the number of an exit.
    Exit = 4,
    /// 32 bits: where a path is counted. In a record, which of the fragment's paths.
    Counter = 5,
    /// 32 bits: the key of the indirect branch that is counted. In a record, 0.
    Key = 6,
    /// 32 bits: the number of the path that messages name. In a record, which of the fragment's paths.
    Message = 7,
    /// 32 bits: the sampler's counter of the event of such a path. In a record, which of the fragment's paths.
    Stratum = 8,
    /// 32 bits: what the sampler's hash makes of the place of the value that such a path is about. In a record, which of the fragment's paths.
    Sum = 9,
    /// 32 bits: what the index of a value counter of such a path begins with. In a record, which of the fragment's paths.
    ValueCounter = 10,
}

impl Field {
    pub(super) const ALL: [Self; 11] = [
        Self::Relative,
        Self::Absolute,
        Self::Negative,
        Self::Low,
        Self::Exit,
        Self::Counter,
        Self::Key,
        Self::Message,
        Self::Stratum,
        Self::Sum,
        Self::ValueCounter,
    ];
}
