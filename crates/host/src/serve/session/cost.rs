//! Our own cost.

use std::time::Duration;

use crate::ask::custom::Custom;
use crate::kernel::clocks;
use crate::serve::epochs::Epochs;

/// Our CPU time so far, with that of the process of a module.
pub(super) fn cpu_with(custom: Option<&Custom>) -> Duration {
    host_cpu() + custom.map_or(Duration::ZERO, Custom::cpu)
}

/// The same with that of the process that shows what is given away.
pub(super) fn cost(custom: Option<&Custom>, epochs: Option<&Epochs<'_>>) -> Duration {
    cpu_with(custom) + epochs.map_or(Duration::ZERO, Epochs::cpu_beside)
}

/// The part of our CPU time that a process is charged, which has used so much of what `all` have.
pub(super) fn part(used: Duration, all: Duration) -> f64 {
    match all.is_zero() {
        true => 1.0,
        false => used.as_secs_f64() / all.as_secs_f64(),
    }
}

/// Our CPU time so far.
pub(super) fn host_cpu() -> Duration {
    clocks::process_cpu()
}
