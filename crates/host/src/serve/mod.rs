//! Sessions: all processes of a run, from their first record to their profiles.
//!
//! [`record`] and [`attached`] begin a run. [`session`] serves it. [`news`] comes out while it goes on,
//! and a [`recording`] at its end.
//!
//! | module | holds |
//! |---|---|
//! | [`options`] | options of a run |
//! | [`stress`] | stress options, for tests |
//! | [`record`] | a program run from its first instruction, with the processes that it starts |
//! | [`attached`] | a program recorded that runs already |
//! | [`session`] | all processes of a run, served in one thread |
//! | [`process`] | one process, from its first record to its profile |
//! | [`identity`] | who a process is, and how it ends |
//! | [`news`] | what the user should know, as it happens |
//! | [`unobserved`] | reasons why something was not observed |
//! | [`failure`] | failures of a run, and of the runtime |
//! | [`recording`] | results of a process and of a run |
//! | [`epochs`] | profiles given away while a run goes on |
//! | [`engine`] | figures of the engine |
//! | [`series`] | the same over time |
//! | [`turns`] | when and why a process came under control |
//! | [`audit`] | samples that tell whether control pays |
//! | [`progress`] | the speed of a program, natively and under control |
//! | [`control`] | commands that change the queries of a session |
//! | [`persist`] | fragments kept for later runs |

pub mod attached;
pub mod audit;
pub mod control;
pub mod engine;
pub mod epochs;
pub mod failure;
pub mod identity;
pub mod news;
pub mod options;
pub mod persist;
pub mod process;
pub mod progress;
pub mod record;
pub mod recording;
pub mod series;
pub mod session;
pub mod stress;
pub mod turns;
pub mod unobserved;
