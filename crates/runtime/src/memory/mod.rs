//! The memory of the program: which of it is code, which of it is writable, and when code changes.
//!
//! | module | what it does |
//! |---|---|
//! | [`change`] | code that changes |
//! | [`kernel_writes`] | those that write where we have protected pages |
//! | [`pages`] | which of it is writable, and how stores to it are seen |
//! | [`region`] | what memory is code, and whose |

pub mod change;
pub mod kernel_writes;
pub mod pages;
pub mod region;
