//! Service of one process: its queue folded, its requests answered, its news told.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use trommel_queue::{Detached, State};

use super::Process;
use crate::ask::queries::RANGES;
use crate::channel::bell::IDLE;
use crate::fold::exact::Lost;
use crate::kernel::clocks;
use crate::serve::failure::RuntimeFailure;
use crate::serve::identity::End;
use crate::serve::news::{News, Who};
use crate::serve::turns::Moment;
use crate::serve::unobserved::Unobserved;
use crate::takeover::detach;

impl Process {
    /// Does what there is to do now. Returns the news.
    pub fn serve(&mut self) -> Vec<News> {
        self.map.serve(&self.shared, self.identity.pid);
        self.sample();
        self.compiled.look();
        self.fold();
        self.children_news();
        self.detached_news();
        self.other_news();
        if self.end != End::No {
            let done = self.folder.end(&self.shared);
            self.served.report(done, &mut self.folder);
        }
        self.served.news()
    }

    /// Looks at what its engine does, and at what part of its time is its own work.
    fn sample(&mut self) {
        let control = self.shared.control();
        if let Some(series) = &mut self.series {
            series.look(self.identity.pid, control);
        }
        if let Some(audit) = &mut self.audit
            && self.shared.state() == Some(State::Controlled)
            && audit.look(control)
        {
            // Refused: who traces it keeps it as it is.
            let _ = detach::fetch(self.identity.pid);
        }
    }

    /// Folds what was recorded, and answers what the target asks.
    pub(super) fn fold(&mut self) {
        // Only convergence asks what folding costs.
        let began = (self.folder.converge_pause()).map(|_| clocks::own_cpu());
        self.fold_now();
        if let Some(began) = began {
            self.folder.worked(clocks::own_cpu().saturating_sub(began));
        }
    }

    fn fold_now(&mut self) {
        let over = self.end != End::No;
        let early = self.pause() < IDLE
            || self.hurried
            || self.folder.converge_pause().is_some()
            || self.folder.keeps_latest()
            || self.folder.serves_intervals();
        let Self {
            shared,
            folder,
            queue,
            served,
            ..
        } = self;
        let asked = shared.settle_asked();
        let interrupts = shared.interrupts_asked();
        // All of its messages are published.
        let round = shared.prefetch().rounds.load(Acquire);
        // No further: threads may publish as fast as this folds.
        let until = shared.published_count();
        while queue.taken < until && queue.take(shared, over, folder, served) {
            if folder.is_full() && !over {
                break;
            }
        }
        if !over && shared.state() == Some(State::Controlled) {
            folder.answer(shared, round);
        }
        if over || asked.is_some() || interrupts.is_some() || early {
            // What was not published, or only just: for each thread the chunk it has, or had when it
            // asked or ended.
            for chunk in shared.oldest(queue.taken) {
                if let Some(filled) = shared.filled(chunk) {
                    queue.rest(shared, filled, folder, served);
                }
            }
        }
        match shared.state() {
            Some(State::Controlled) if !over => folder.converge(shared),
            Some(State::Fresh) => {}
            _ => folder.quiet(),
        }
        if let Some(asked) = interrupts {
            shared.interrupts_answered(asked);
        }
        if let Some(asked) = shared.post_asked() {
            folder.reply(shared);
            shared.post_answered(asked);
        }
        let mut done = Ok(());
        if let Some(asked) = asked {
            done = folder.asked(shared);
            shared.settled(asked);
        }
        served.report(done, folder);
    }

    /// Time that it waited for the host to catch up, so far.
    pub fn waited(&self) -> Duration {
        let chunks = &self.shared.control().chunks;
        Duration::from_nanos(chunks.wait_nanos.load(Relaxed))
    }

    fn who(&self) -> Who {
        match self.first {
            true => Who::Program,
            false => Who::Process(self.identity.clone()),
        }
    }

    /// Children run natively although they were to be observed.
    fn children_news(&mut self) {
        let control = self.shared.control();
        let natively =
            control.process.children.load(Relaxed) != 0 && control.setup.follow.load(Relaxed) != 0;
        if natively && !self.served.children_told {
            self.served.children_told = true;
            self.served.tell(News::ChildrenUnobserved(self.who()));
        }
    }

    /// It was detached.
    fn detached_news(&mut self) {
        if self.shared.state() != Some(State::Native) || !self.served.unobserved.is_empty() {
            return;
        }
        let control = self.shared.control();
        let why = Detached::from_number(control.process.detach.load(Relaxed));
        let at = control.process.detach_pc.load(Relaxed);
        let mut reason = Unobserved::Detached { why, at };
        self.turns.detach = Some(Moment::now(self.run, self.identity.pid));
        if let Some(audit) = &mut self.audit {
            audit.stop();
            if audit.is_proving() {
                reason = Unobserved::Proving;
            }
        }
        // Nothing is wrong where control does not pay, or where the program asked for it.
        if !matches!(why, Some(Detached::BailOut | Detached::Asked)) {
            let who = self.who();
            self.served.tell(News::Detached(who, reason.clone()));
        }
        self.served.unobserved.push(reason);
    }

    /// Something failed, or there was no room for it.
    fn other_news(&mut self) {
        if !self.served.failure_told
            && let Some(failure) = RuntimeFailure::find(&self.shared)
        {
            self.served.failure_told = true;
            self.served.tell(News::RuntimeFailed(failure));
        }
        if !self.served.drops_told && self.folder.lost() != Lost::default() {
            self.served.drops_told = true;
            self.served.tell(News::ValuesDropped(self.who()));
        }
        if let Some(why) = self.folder.news_of_custom() {
            self.served.tell(News::ModuleFailed(why));
        }
        if self.folder.is_unobserved() {
            self.served.tell(News::UnselectedRanges(RANGES));
        }
        if self.folder.is_overflowing() {
            self.served.tell(News::UntaggedRanges(RANGES));
        }
    }
}
