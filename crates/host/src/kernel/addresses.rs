//! Addresses of programs: the same in each run, where that is wanted.
//!
//! The kernel places a program's stack, heap, libraries and vDSO at random. What a program does may depend on that: it hashes addresses, or
//! a table happens to lie on two pages. A setting of a process, which its children inherit, turns it off.

use std::io;

use nix::sys::personality::{self, Persona};

/// Turns it off for all programs that this process starts from now on.
///
/// # Errors
/// The system refuses, as some containers do.
pub fn fix() -> io::Result<()> {
    let now = personality::get()?;
    personality::set(now | Persona::ADDR_NO_RANDOMIZE)?;
    Ok(())
}
