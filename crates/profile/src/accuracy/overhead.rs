//! Cost of messages to the program.
//!
//! Problem: a compressor's messages are folded by software that interrupts the program. Their cost
//! is needed in cycles, and as a share of the program's own.
//!
//! Strategy: the analytical model of the paper. An interrupt costs 214 cycles and brings at least 100
//! messages; folding one message takes 10 to 30 cycles, less the 3 that a convergence check would
//! need. The paper rounds the sum up to 30 cycles a message. The program's cycles come from a timing
//! model; where there is none, four cycles stand for an event, near the 17M instructions that the
//! paper's gcc needed for 4M events.
//!
//! Source: *Stratified Sampling*, section 5.3.2; `docs/papers.md`, "Samplers".

/// Cycles that software spends on a message, interrupts included.
pub const CYCLES_PER_MESSAGE: u64 = 30;

/// Cycles of the program for each event, where no cycle model is present.
pub const CYCLES_PER_EVENT: u64 = 4;

/// Cycles of an interrupt (Anderson et al., as the paper cites them).
pub const CYCLES_PER_INTERRUPT: u64 = 214;

/// Messages that an interrupt brings at least.
pub const MESSAGES_PER_INTERRUPT: u64 = 100;

/// A cost model: what a message and an event cost.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Cycles that software spends on a message, interrupts of [`MESSAGES_PER_INTERRUPT`] included.
    pub message: f64,
    /// Cycles of the program for each event.
    pub event: f64,
    /// Messages that an interrupt brings.
    pub buffer: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            message: CYCLES_PER_MESSAGE as f64,
            event: CYCLES_PER_EVENT as f64,
            buffer: MESSAGES_PER_INTERRUPT,
        }
    }
}

impl Model {
    /// Cycles a message with this buffer. Another one than the paper's changes the part of the interrupt alone,
    /// which is the least that a message costs.
    pub fn of_message(&self) -> f64 {
        let interrupt = |buffer: u64| cycles_per_message(buffer, 0);
        let folding = self.message - interrupt(MESSAGES_PER_INTERRUPT);
        folding.max(0.0) + interrupt(self.buffer)
    }

    /// Cycles that software spends on `messages`.
    pub fn cycles(&self, messages: u64) -> u64 {
        (self.of_message() * messages as f64).round() as u64
    }

    /// The same in percent of the program's cycles for `events` events; 0 without events.
    pub fn percent(&self, messages: u64, events: u64) -> f64 {
        let program = self.event * events as f64;
        match events {
            0 => 0.0,
            _ => 100.0 * self.of_message() * messages as f64 / program,
        }
    }
}

/// Cycles that software spends on `messages` under the paper's model.
pub const fn overhead_cycles(messages: u64) -> u64 {
    CYCLES_PER_MESSAGE * messages
}

/// The same in percent of `events` events of the program; 0 without events.
pub fn overhead_percent(messages: u64, events: u64) -> f64 {
    let cycles = CYCLES_PER_EVENT * events;
    100.0 * overhead_cycles(messages) as f64 / cycles.max(1) as f64
}

/// Cycles a message when interrupts bring `batch` messages and folding one takes `folding` cycles:
/// what the constant 30 is made of, for other machines.
pub fn cycles_per_message(batch: u64, folding: u64) -> f64 {
    CYCLES_PER_INTERRUPT as f64 / batch.max(1) as f64 + folding as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_model_is_the_paper_s() {
        let model = Model::default();
        for (messages, events) in [(0, 0), (7, 100), (123_456, 20_000_000)] {
            assert_eq!(model.cycles(messages), overhead_cycles(messages));
            let difference = model.percent(messages, events) - overhead_percent(messages, events);
            assert!(difference.abs() < 1e-9);
        }
        let one = Model { buffer: 1, ..model };
        assert!((one.of_message() - (30.0 + 214.0 - 2.14)).abs() < 1e-9);
    }

    #[test]
    fn the_paper_s_constant_bounds_its_own_parts() {
        for folding in 10 - 3..=30 - 3 {
            let parts = cycles_per_message(MESSAGES_PER_INTERRUPT, folding);
            assert!(parts <= CYCLES_PER_MESSAGE as f64, "{folding}: {parts}");
        }
        assert!(cycles_per_message(1, 10) > 200.0);
        assert_eq!(overhead_percent(0, 0), 0.0);
        // One message in 256 events of 4 cycles.
        assert!((overhead_percent(1000, 256_000) - 2.9297).abs() < 1e-4);
    }
}
