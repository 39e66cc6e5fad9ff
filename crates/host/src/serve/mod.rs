//! A session: all processes of a run, from their first record to their profiles.
//!
//! | module | what it does |
//! |---|---|
//! | [`audit`] | what of that is the program's own work |
//! | [`failure`] | where the runtime failed |
//! | [`persist`] |  |
//! | [`process`] | one process served, from its first record to its profile |
//! | [`progress`] | how fast the program gets on, natively and under control |
//! | [`record`] | all of it, for a program and what it starts |
//! | [`series`] | what an engine does over time |
//! | [`session`] | all processes of a run |
//! | [`stress`] | options for tests |

pub mod audit;
pub mod failure;
pub mod persist;
pub mod process;
pub mod progress;
pub mod record;
pub mod series;
pub mod session;
pub mod stress;
