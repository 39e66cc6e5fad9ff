//! Services in libraries that are given intervals.
//!
//! A service of a query's queue is among the answers of queries, and is given intervals there. One without a queue is here.

use trommel_profile::queries::Queries;

use super::intervals::Ended;
use crate::ask::service::Instance;
use crate::channel::modules::Modules;

/// Services of a process without a queue.
pub(super) struct Listeners {
    services: Vec<Instance>,
    pid: u32,
}

impl Listeners {
    /// Services of the process `pid`.
    pub(super) const fn new(services: Vec<Instance>, pid: u32) -> Self {
        Self { services, pid }
    }

    /// Gives them an interval that has ended.
    pub(super) fn interval(&mut self, ended: &Ended, modules: &Modules) {
        for service in &mut self.services {
            service.interval((self.pid, ended.thread), &ended.interval, modules);
        }
    }

    /// Returns what they have come to, beside no queries.
    pub(super) fn finish(self, modules: &Modules) -> Queries {
        let pid = self.pid;
        let services = self.services.into_iter();
        Queries {
            services: services.map(|s| s.finish(pid, modules)).collect(),
            ..Queries::default()
        }
    }
}
