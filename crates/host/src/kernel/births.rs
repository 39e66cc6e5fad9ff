//! A cheap test for new threads and processes.
//!
//! # Problem
//! Threads and children that a program makes while it runs natively are found by listing directories of `/proc`. Most programs
//! make none for minutes. Listing costs more than windows do within a small budget.
//!
//! # Strategy
//! The kernel numbers tasks as it makes them and reports the last number (`/proc/loadavg`). While the number stays the same, there is no new
//! task that we could see.
//!
//! # Why no task is missed
//! A task has its number before it is in any list. So whoever sees a new number looks a second time, later. Some containers' file systems show
//! another system's numbers there. For those, everything is listed again every [`SURE`].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// From one look to the next at most, whatever the number says.
const SURE: Duration = Duration::from_secs(1);

/// The last task that was made, anywhere.
#[derive(Debug)]
pub struct Births {
    file: Option<File>,
    last: Option<u64>,
    sure: Instant,
    generation: u64,
}

impl Default for Births {
    fn default() -> Self {
        Self {
            file: File::open("/proc/loadavg").ok(),
            last: None,
            sure: Instant::now(),
            generation: 1,
        }
    }
}

impl Births {
    /// A number that is another if tasks may have been made since it was asked for last.
    pub fn generation(&mut self) -> u64 {
        let last = self.last_task();
        if last.is_none() || last != self.last || self.sure.elapsed() >= SURE {
            self.generation += 1;
            self.sure = Instant::now();
            self.last = last;
        }
        self.generation
    }

    fn last_task(&self) -> Option<u64> {
        let mut text = [0; 128];
        let n = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = str::from_utf8(&text[..n]).ok()?;
        text.split_ascii_whitespace().nth(4)?.parse().ok()
    }
}

/// State of one observer at its last look.
#[derive(Default, Debug)]
pub struct Seen {
    generation: u64,
    again: bool,
}

impl Seen {
    /// Returns whether there may be somebody new in this generation: it is another, or was at the last look.
    pub fn is_news(&mut self, generation: u64) -> bool {
        let other = generation != self.generation;
        self.generation = generation;
        std::mem::replace(&mut self.again, other) || other
    }

    /// Makes the next look worth it, whatever the generation.
    pub fn look_again(&mut self) {
        self.again = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_news_twice() {
        let (mut births, mut seen) = (Births::default(), Seen::default());
        assert!(births.file.is_some());
        let first = births.generation();
        assert!(seen.is_news(first) && seen.is_news(first));
        std::thread::spawn(|| {}).join().expect("ended");
        let second = births.generation();
        assert!(second != first);
        assert!(seen.is_news(second) && seen.is_news(second));
        assert!(!seen.is_news(second));
        seen.look_again();
        assert!(seen.is_news(second) && !seen.is_news(second));
    }

    #[test]
    fn what_tells_no_numbers_is_always_news() {
        let mut births = Births {
            file: None,
            ..Births::default()
        };
        assert!(births.generation() != births.generation());
    }
}
