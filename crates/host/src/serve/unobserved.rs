//! Reasons why a process, or a part of its life, was not observed; profiles keep their words.

use trommel_queue::Detached;

/// A reason why something was not observed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unobserved {
    /// The runtime has left the process.
    #[error("{}{}", reason(*.why), place(*.at))]
    Detached {
        /// Its reason.
        why: Option<Detached>,
        /// The address at which it left; 0: at several.
        at: u64,
    },
    /// The process is timed natively.
    #[error("it is found out how fast it is natively")]
    Proving,
    /// The process could not be reattached.
    #[error("it could not be reattached: {0}")]
    NotReattached(String),
    /// The process executed another program, natively.
    #[error("it became another program (exec), which ran natively")]
    Exec,
    /// So many children of the process.
    #[error("{0} child processes, which ran natively")]
    Children(u64),
    /// The program has stopped the collection so many times.
    #[error("it stopped the observation itself{}", times(*.0))]
    Stopped(u64),
    /// The process outlived the run.
    #[error("it went on when the first program had ended")]
    Outlived,
    /// The runtime did not start in the process.
    #[error("the runtime did not start")]
    NotStarted,
    /// Its records could not be read any more.
    #[error("the rest of its records could not be read: {0}")]
    Damaged(String),
    /// The process was killed, as its stream was complete.
    #[error("it was ended when the stream had all the events that were wanted")]
    Limited,
}

fn place(at: u64) -> String {
    match at {
        0 => String::new(),
        at => format!(" (at {at:#x})"),
    }
}

fn reason(why: Option<Detached>) -> &'static str {
    why.map_or("for a reason it did not report", Detached::words)
}

fn times(n: u64) -> String {
    match n {
        1 => String::new(),
        n => format!(", {n} times"),
    }
}
