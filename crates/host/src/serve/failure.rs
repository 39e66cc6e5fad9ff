//! A failure of the runtime, in names: it tells where it failed in offsets of its code.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::channel::image;
use crate::channel::shared::Shared;

/// Where the runtime failed, in names.
pub fn words(shared: &Shared) -> Option<String> {
    let failure = &shared.control().failure;
    let signal = failure.signal.load(Acquire);
    if signal == 0 {
        return None;
    }
    let name = |offset: u64| match image::function(offset) {
        Some((name, behind)) => format!("{name}+{behind:#x}"),
        None => format!("{offset:#x}"),
    };
    let at = name(failure.offset.load(Relaxed));
    let callers = failure.stack.iter().map(|s| s.load(Relaxed));
    let from: String = callers
        .take_while(|offset| *offset != 0)
        .map(|offset| format!(", from {}", name(offset)))
        .collect();
    Some(format!(
        "the runtime raised signal {signal} in {at}{from} (build {:x})",
        image::build()
    ))
}
