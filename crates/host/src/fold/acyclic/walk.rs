//! The walk of one thread along acyclic paths.

use trommel_queue::MOST_INTERRUPTED;
use trommel_queue::dict::TargetPc;
use trommel_tuple::{Ended, Kind, Outcomes, Place, Tuple};

use crate::channel::modules::Modules;
use crate::fold::dictionary::{Move, Start};

/// A path that a thread is on.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::fold) struct Open {
    pub(in crate::fold) start: Start,
    pub(in crate::fold) outcomes: Outcomes,
}

/// A path that a signal handler has interrupted.
pub(in crate::fold) struct Interrupted {
    /// The interrupted place, as a run-time address.
    pc: u64,
    /// The handler's frame.
    frame: u64,
    pub(in crate::fold) open: Option<Open>,
}

/// The walk of one thread.
#[derive(Default)]
pub(in crate::fold) struct Walk {
    /// Without `last`.
    pub(in crate::fold) open: Option<Open>,
    /// The transition that it has made last, whose end says what is open.
    pub(in crate::fold) last: Option<u32>,
    interrupted: Vec<Interrupted>,
}

/// A path that is over, if there is one.
pub(in crate::fold) fn finish(open: Option<Open>, end: Ended, mut made: impl FnMut(Kind, Tuple)) {
    if let Some(Open { start, outcomes }) = open
        && start.selected
    {
        made(Kind::Path, Tuple::new(start.at, outcomes.word(end)));
    }
}

impl Walk {
    /// Follows the thread; paths that end are `made`.
    pub(in crate::fold) fn go(
        &mut self,
        step: Move,
        word: Option<u64>,
        modules: &Modules,
        made: impl FnMut(Kind, Tuple),
    ) {
        match step {
            Move::Arrive(start) => self.arrive(start),
            Move::Resume(start, outcomes) => self.open = Some(Open { start, outcomes }),
            Move::Branch { taken, back, next } => self.branch((taken, back), next, made),
            Move::End => finish(self.open.take(), Ended::Whole, made),
            Move::Jump(from) => {
                let to = modules.place_at(TargetPc(word.unwrap_or_default()));
                self.jump(from, to, made);
            }
            Move::JumpTo(from, to) => self.jump(from, to, made),
            Move::Amid => self.open = None,
            Move::Stay | Move::Marked(_) => {}
        }
    }

    pub(in crate::fold) fn arrive(&mut self, start: Start) {
        self.open.get_or_insert(Open {
            start,
            outcomes: Outcomes::NONE,
        });
    }

    fn branch(&mut self, (taken, back): (bool, bool), next: Start, made: impl FnMut(Kind, Tuple)) {
        let Some(open) = &mut self.open else { return };
        let Some(end) = open.outcomes.branch(taken, back) else {
            return;
        };
        finish(self.open.take(), end, made);
        if end == Ended::Cut {
            self.arrive(next);
        }
    }

    fn jump(&mut self, from: Place, to: Place, made: impl FnMut(Kind, Tuple)) {
        let Some(open) = &mut self.open else { return };
        if let Some(end) = open.outcomes.indirect_jump(from.ahead(to)) {
            finish(self.open.take(), end, made);
        }
    }

    /// A handler is entered.
    pub(in crate::fold) fn interrupt(
        &mut self,
        [pc, frame]: [u64; 2],
        mut made: impl FnMut(Kind, Tuple),
    ) {
        if self.interrupted.len() == MOST_INTERRUPTED {
            finish(self.interrupted.remove(0).open, Ended::Left, &mut made);
        }
        let open = self.open.take();
        self.interrupted.push(Interrupted { pc, frame, open });
    }

    /// A handler is returned from. Those that it has interrupted and that it was not returned to are given up.
    pub(in crate::fold) fn back(
        &mut self,
        [pc, frame]: [u64; 2],
        mut made: impl FnMut(Kind, Tuple),
    ) {
        finish(self.open.take(), Ended::Left, &mut made);
        let entered = |before: &Interrupted| before.frame == frame;
        let Some(n) = self.interrupted.iter().rposition(entered) else {
            return;
        };
        for given_up in self.interrupted.drain(n + 1..) {
            finish(given_up.open, Ended::Left, &mut made);
        }
        if let Some(before) = self.interrupted.pop() {
            match before.pc == pc {
                true => self.open = before.open,
                false => finish(before.open, Ended::Left, &mut made),
            }
        }
    }

    /// The thread goes no further.
    pub(in crate::fold) fn end(self, mut made: impl FnMut(Kind, Tuple)) {
        for before in self.interrupted {
            finish(before.open, Ended::Left, &mut made);
        }
        finish(self.open, Ended::Left, made);
    }
}
