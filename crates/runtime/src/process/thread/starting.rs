//! Signals around a call that starts a thread or a process.
//!
//! All are blocked. But where a filter may have the call reported to a handler, SIGSYS must come: the kernel ends a program for a
//! reported call whose signal it blocks. A handler of the runtime's that runs meanwhile is told the app's mask by `true_mask`.

use crate::base::signals::{self, SIG_UNBLOCK, SIGSYS, bit};
use crate::base::sys;
use crate::engine::signals::StartMask;
use crate::engine::state::Thread;

impl Thread {
    /// Blocks all signals, but for that of a reported call.
    pub fn block_for_start(&mut self) -> StartMask {
        let kernel = signals::block_all();
        let app = self.signals.app_mask(kernel);
        let opens = sys::may_report_calls() && app & bit(SIGSYS) == 0;
        let shows = opens && self.signals.true_mask.is_none();
        if opens {
            self.signals.true_mask = Some(app);
            signals::change_mask(SIG_UNBLOCK, Some(&bit(SIGSYS)));
        }
        StartMask { kernel, app, shows }
    }

    /// Undoes it, unless a signal is kept since.
    pub fn unblock_after_start(&mut self, before: StartMask) {
        if self.call.reported.is_some() {
            return;
        }
        if before.shows {
            self.signals.true_mask = None;
        }
        signals::set_mask(before.kernel);
    }
}
