//! Vocabulary and tools that every other room uses: addresses, decoding, encoding, memory, locks, raw system calls.
//!
//! | module | what it does |
//! |---|---|
//! | [`address`] | addresses of code, and ranges of them |
//! | [`area`] | the per-thread block that GS points to |
//! | [`bytes`] |  |
//! | [`decode`] | app instructions, reduced to what the translator asks about them |
//! | [`emit`] | machine code, written |
//! | [`heap`] |  |
//! | [`knock`] |  |
//! | [`lock`] | what threads use one at a time |
//! | [`own`] | the runtime's memory, listed |
//! | [`phase`] | when the working set changes |
//! | [`prefix`] | what tells fragments of one address apart |
//! | [`stress`] |  |
//! | [`sys`] |  |
//! | [`tags`] |  |

pub mod address;
pub mod area;
pub mod bytes;
pub mod decode;
pub mod emit;
pub mod heap;
pub mod knock;
pub mod lock;
pub mod own;
pub mod phase;
pub mod prefix;
pub mod stress;
pub mod sys;
pub mod tags;
