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
        if let Err(damaged) = done
            && !mem::replace(&mut self.failed, true)
        {
            self.tell(News::Damaged(damaged));
        }
        if let Some(error) = folder.stream_error() {
            self.stream_failed = true;
            self.tell(News::StreamCut {
                error: error.to_string(),
                goes_on: true,
            });
        }
    }
}
