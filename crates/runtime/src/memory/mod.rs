//! The memory of the program: which of it is code, and which of it is writable.
//!
//! | module | what it does |
//! |---|---|
//! | [`pages`] | which of it is writable, and how stores to it are seen |
//! | [`region`] | what memory is code, and whose |

pub mod pages;
pub mod region;
