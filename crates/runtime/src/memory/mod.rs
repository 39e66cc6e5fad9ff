//! The memory of the program: which of it is code, and which of it is writable.
//!
//! | module | what it does |
//! |---|---|
//! | [`files`] | files that may change while code of them is mapped |
//! | [`functions`] | extents of functions, as unwind information has them |
//! | [`locking`] | memory that the program locks |
//! | [`mapping`] | entries of the kernel's list of mappings |
//! | [`maybe`] | pages that may be protected, whenever a thread is killed |
//! | [`pages`] | which of it is writable, and how stores to it are seen |
//! | [`region`] | what memory is code, and whose |

pub mod files;
pub mod functions;
pub mod locking;
pub mod mapping;
pub mod maybe;
pub mod pages;
pub mod region;
