//! Account of what was served of a process.

use std::mem;

use crate::channel::shared::Damaged;
use crate::fold::Folder;
use crate::serve::news::News;
use crate::serve::unobserved::Unobserved;

/// Account of what was served of a process. Each news is told once.
#[derive(Default)]
pub(super) struct Served {
    /// Bytes of records.
    pub(super) bytes: u64,
    /// Reasons why parts of its life were not observed.
    pub(super) unobserved: Vec<Unobserved>,
    /// Its records are damaged.
    pub(super) failed: bool,
    /// The end of its stream is missing.
    pub(super) stream_failed: bool,
    /// A failure of the runtime was told.
    pub(super) failure_told: bool,
    /// Children that run natively were told.
    pub(super) children_told: bool,
    /// Dropped values were told.
    pub(super) drops_told: bool,
    news: Vec<News>,
}

impl Served {
    /// Adds news.
    pub(super) fn tell(&mut self, news: News) {
        self.news.push(news);
    }

    /// Returns the news since the last call.
    pub(super) fn news(&mut self) -> Vec<News> {
        mem::take(&mut self.news)
    }

    /// Tells what went wrong when records were folded.
    pub(super) fn report(&mut self, done: Result<(), Damaged>, folder: &mut Folder) {
        if let Err(damaged) = done {
            self.damaged(damaged);
        }
        if let Some(error) = folder.stream_error() {
            self.stream_failed = true;
            self.tell(News::StreamCut {
                error: error.to_string(),
                goes_on: true,
            });
        }
    }

    /// Notes that no more of its records can be read, in the profile too.
    fn damaged(&mut self, damaged: Damaged) {
        if !mem::replace(&mut self.failed, true) {
            self.unobserved
                .push(Unobserved::Damaged(damaged.to_string()));
            self.tell(News::Damaged(damaged));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_and_kept_once() {
        let mut served = Served::default();
        for number in [7, 8] {
            let what = "an exit number";
            served.damaged(Damaged { what, number });
        }
        let kept: Vec<String> = served.unobserved.iter().map(ToString::to_string).collect();
        assert!(kept.len() == 1 && kept[0].contains("an exit number 7"));
        assert_eq!(served.news().len(), 1);
    }
}
