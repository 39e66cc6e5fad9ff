//! Ways in which the recipes run programs under `trommel run` and `record`, to compare their results.

/// Stress options, and arguments of `run`.
pub(crate) type Traced = (&'static str, &'static [&'static str]);

/// The usual `run`, but from the first instruction on.
pub(crate) const FROM_START: Traced = ("", &["--after", "0"]);
/// Everything that is not over at once is attached to while it runs.
pub(crate) const LATE: Traced = ("", &["--after", "0.01"]);
/// Kept where traces do not pay.
pub(crate) const KEPT: Traced = ("", &["--no-bail-out"]);
/// Kept, and optimised as far as may be.
pub(crate) const AGGRESSIVE: Traced = ("", &["--no-bail-out", "--opt", "aggressive"]);
/// The same, with traces of whatever is executed twice, dropped again and again.
pub(crate) const STRESSED: Traced = ("trace,flush=1000", AGGRESSIVE.1);

/// Stress options, and arguments of `record`.
pub(crate) type Recorded = Traced;

/// Edges and calls counted exactly in traces of whatever is executed twice, dropped again and again.
pub(crate) const COUNTED: Recorded = ("trace,flush=1000", &["-e", "edge,call"]);
/// The same with values, by a sampler.
pub(crate) const SAMPLED: Recorded = (
    "trace,flush=1000",
    &["-e", "edge,call,value", "-c", "H:crc[P256]2048+A16"],
);
