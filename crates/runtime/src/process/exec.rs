//! The app becomes another program.
//!
//! # Problem
//! `execve` takes away everything: the runtime, its memory, and the mapping of the file that it
//! shares with the host. For the new program to be observed the host must stop it after its `exec`,
//! as it does at launch, so it must trace the thread before. But the kernel takes privileges from a
//! program that is traced, so some programs must not be. Most calls fail: programs are looked for in
//! one directory after the other.
//!
//! # Strategy
//! [`judge`] looks at the file as the app's process sees it, as the kernel will: whether there is
//! one, whether it can be run, what it is, and whether it has privileges; through scripts to their
//! interpreters. A call that will fail is passed on at once. For others the host is asked
//! ([`request`]). When the host traces the thread, the call is made. If the call fails after all, the host is
//! asked to release the thread.
//!
//! All signals are blocked while that is arranged. The call is made with the app's own mask, which the new program inherits, and
//! only if no signal came before: that is delivered first. One that comes later is the new program's, or is delivered when the
//! call has failed.
//!
//! # Invariants
//! * A program that gets privileges from its file, and one that may not be read, is never traced.
//! * What the app gets is the kernel's answer to its own call.
//!
//! **I33 (privileges).** A program that gains privileges from its file, or may not be read, is never traced.
#![allow(unsafe_code)] // reason: makes the app's system calls, and writes to shared memory.

use crate::base::signals;
use core::sync::atomic::Ordering::{Relaxed, Release};

use linux_raw_sys::general as nr;
use trommel_queue::{State, Unfollowed};

use crate::base::area::Context;
use crate::base::limits;
use crate::base::sys;
use crate::crossing::arch;
use crate::engine::native;
use crate::engine::state::Thread;
use crate::process::request;

const AT_FDCWD: u64 = -100_i64 as u64;
const AT_EMPTY_PATH: u64 = 0x1000;
/// The kernel follows this many scripts to an interpreter.
const MAX_SCRIPTS: usize = 5;
const HEAD: usize = 256;

/// Treatment of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// It can be observed.
    Observe,
    /// It runs, natively.
    Native(Unfollowed),
    /// The kernel refuses it, or finds out itself what it is.
    Unknown,
}

/// Identity of the caller.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The effective user.
    pub user: u32,
    /// The effective group.
    pub group: u32,
}

/// Properties of a program's file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// `st_mode`
    pub mode: u32,
    /// Its owner.
    pub user: u32,
    /// Its group.
    pub group: u32,
    /// True if it has capabilities of its own.
    pub capabilities: bool,
    /// The file system gives no privileges.
    pub nosuid: bool,
}

impl File {
    /// Returns whether a program runs with privileges that its caller does not have. A caller that is the
    /// owner gains none.
    pub fn is_privileged(&self, caller: Caller) -> bool {
        const SETUID: u32 = 0o4000;
        const SETGID: u32 = 0o2000;
        const GROUP_EXECUTES: u32 = 0o10;
        let user = self.mode & SETUID != 0 && self.user != caller.user;
        // Without the right to execute the bit means something else.
        let group = self.mode & SETGID != 0
            && self.mode & GROUP_EXECUTES != 0
            && self.group != caller.group;
        !self.nosuid && (user || group || self.capabilities)
    }
}

/// Format of a file by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format<'a> {
    /// A 64-bit x86 program.
    Native,
    /// A program for another processor, or 32-bit.
    Foreign,
    /// A script, with the path of its interpreter.
    Script(&'a [u8]),
    /// Something else.
    Unknown,
}

/// Recognises a file by its first bytes.
pub fn format(head: &[u8]) -> Format<'_> {
    const X86_64: u8 = 62;
    const CLASS_64: u8 = 2;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&c| c == b'\n').next().unwrap_or(line);
        let blank = |c: &u8| *c == b' ' || *c == b'\t';
        let start = line.iter().position(|c| !blank(c)).unwrap_or(line.len());
        let line = &line[start..];
        let end = line.iter().position(|c| blank(c) || *c == 0);
        let path = &line[..end.unwrap_or(line.len())];
        return match path.is_empty() {
            true => Format::Unknown,
            false => Format::Script(path),
        };
    }
    if !head.starts_with(b"\x7fELF") || head.len() < 20 {
        return Format::Unknown;
    }
    match head[4] == CLASS_64 && head[18] == X86_64 && head[19] == 0 {
        true => Format::Native,
        false => Format::Foreign,
    }
}

/// An open file.
struct Open(i32);

impl Drop for Open {
    fn drop(&mut self) {
        sys::close(self.0);
    }
}

/// A system call of ours.
fn ask(number: u32, args: [u64; 6]) -> Result<u64, sys::Errno> {
    // SAFETY: callers pass addresses of their own, or of the app's, which the kernel checks; nothing
    // is asked but what files are.
    unsafe { sys::checked(number, args) }
}

fn file(open: &Open) -> Option<File> {
    const ST_NOSUID: u64 = 2;
    let fd = open.0 as u64;
    let mut stat = [0_u64; 18];
    ask(nr::__NR_fstat, [fd, stat.as_mut_ptr() as u64, 0, 0, 0, 0]).ok()?;
    let mut fs = [0_u64; 15];
    let flags = match ask(nr::__NR_fstatfs, [fd, fs.as_mut_ptr() as u64, 0, 0, 0, 0]) {
        Ok(_) => fs[10],
        Err(_) => 0,
    };
    let name = c"security.capability".as_ptr() as u64;
    let capabilities = ask(nr::__NR_fgetxattr, [fd, name, 0, 0, 0, 0]).is_ok();
    // As `struct stat` has them: the mode and the user in one word, the group in the next.
    Some(File {
        mode: stat[3] as u32,
        user: (stat[3] >> 32) as u32,
        group: stat[4] as u32,
        capabilities,
        nosuid: flags & ST_NOSUID != 0,
    })
}

/// Decides the treatment of the program at a path, or of the open file itself when `flags` say so. `lock` is held while the program may have
/// more descriptors.
fn judge<G>(lock: impl Fn() -> G, directory: u64, path: u64, flags: u64) -> Treatment {
    const ENFILE: sys::Errno = sys::Errno(23);
    const EXECUTE: u64 = 1;
    const AT_EACCESS: u64 = 0x200;
    const REGULAR: u32 = 0o100_000;
    const FORMAT: u32 = 0o170_000;
    const LINK_BYTES: usize = 32;
    let id = |number| ask(number, [0; 6]).unwrap_or(0) as u32;
    let caller = Caller {
        user: id(nr::__NR_geteuid),
        group: id(nr::__NR_getegid),
    };
    let mut interpreter = [0_u8; HEAD + 1];
    let mut link = [0_u8; LINK_BYTES];
    let (mut directory, mut path, mut flags) = (directory, path, flags & AT_EMPTY_PATH);
    for _ in 0..=MAX_SCRIPTS {
        let mut stat = [0_u64; 18];
        let at = [directory, path, stat.as_mut_ptr() as u64, flags, 0, 0];
        if ask(nr::__NR_newfstatat, at).is_err() || stat[3] as u32 & FORMAT != REGULAR {
            return Treatment::Unknown;
        }
        let at = [directory, path, EXECUTE, AT_EACCESS | flags, 0, 0];
        const ENOSYS: sys::Errno = sys::Errno(38);
        if ask(nr::__NR_faccessat2, at).is_err_and(|e| e != ENOSYS) {
            return Treatment::Unknown;
        }
        let mut first = [0_u8; 1];
        let empty = flags != 0 && sys::copy_checked(path, &mut first) && first[0] == 0;
        if empty {
            descriptor_link(directory, &mut link);
            path = link.as_ptr() as u64;
            directory = AT_FDCWD;
        }
        let how = u64::from(nr::O_RDONLY | nr::O_CLOEXEC | nr::O_NONBLOCK | nr::O_NOCTTY);
        let opened = || ask(nr::__NR_openat, [directory, path, how, 0, 0, 0]);
        let opened = match opened() {
            Err(sys::Errno::EMFILE) => {
                let _others = lock();
                limits::with_a_file(opened)
            }
            opened => opened,
        };
        let open = match opened {
            Ok(fd) => Open(fd as i32),
            Err(sys::Errno::EMFILE | ENFILE) => {
                return Treatment::Native(Unfollowed::NoDescriptor);
            }
            Err(_) => return Treatment::Native(Unfollowed::Unreadable),
        };
        let Some(known) = file(&open) else {
            return Treatment::Unknown;
        };
        let mut head = [0_u8; HEAD];
        let n = sys::read(open.0, &mut head).unwrap_or(0);
        match format(&head[..n]) {
            Format::Native if known.is_privileged(caller) => {
                return Treatment::Native(Unfollowed::Privileged);
            }
            Format::Native => return Treatment::Observe,
            Format::Foreign => return Treatment::Native(Unfollowed::Foreign),
            Format::Unknown => return Treatment::Unknown,
            Format::Script(path) => {
                interpreter[..path.len()].copy_from_slice(path);
                interpreter[path.len()] = 0;
            }
        }
        (directory, path, flags) = (AT_FDCWD, interpreter.as_ptr() as u64, 0);
    }
    Treatment::Unknown
}

/// The path under which an open file can be opened again.
fn descriptor_link(fd: u64, link: &mut [u8; 32]) {
    let prefix = b"/proc/self/fd/";
    link[..prefix.len()].copy_from_slice(prefix);
    let mut digits = [0_u8; 12];
    let (mut n, mut rest) = (0, fd as u32);
    while n == 0 || rest != 0 {
        digits[n] = b'0' + (rest % 10) as u8;
        rest /= 10;
        n += 1;
    }
    for (to, digit) in link[prefix.len()..]
        .iter_mut()
        .zip(digits[..n].iter().rev())
    {
        *to = *digit;
    }
    link[prefix.len() + n] = 0;
}

/// Makes the app's `execve` or `execveat`: the kernel's answer, if it comes back. `None`: a signal
/// was faster, and nothing has been done.
pub fn exec(thread: &mut Thread, context: &mut Context, number: u32, a: &[u64; 6]) -> Option<i64> {
    let process = thread.process;
    let (directory, path, flags) = match number {
        nr::__NR_execve => (AT_FDCWD, a[0], 0),
        _ => (a[0], a[1], a[4]),
    };
    let follows = process.queue.control().setup.follow.load(Relaxed) != 0 && !process.is_leaving();
    let verdict = match follows {
        true => judge(|| process.runtime.lock(), directory, path, flags),
        false => Treatment::Unknown,
    };
    let mask = signals::block_all();
    // SAFETY: a word of the context, which a handler of this thread may just have written.
    if unsafe { (&raw const context.pending).read_volatile() } != 0 {
        signals::set_mask(mask);
        return None;
    }
    let asked = match verdict {
        Treatment::Unknown => false,
        Treatment::Observe => request::program(thread, path, None),
        Treatment::Native(why) => request::program(thread, path, Some(why)),
    };
    if thread.spawned.is_some() {
        process.queue.hand_in(&mut thread.writer);
    }
    let ignored = |thread: &mut Thread, back| {
        let mut runtime = process.runtime.lock();
        runtime.actions_of(thread).hand_over_ignored(back);
    };
    ignored(thread, false);
    // A process that shares this one's memory has limits of its own.
    let has_limits = thread.spawned.is_none() && !process.is_leaving();
    let limited = |change: &dyn Fn()| {
        if has_limits {
            let _runtime = process.runtime.lock();
            change();
        }
    };
    match verdict {
        _ if asked => limited(&|| limits::before_exec(process.queue.control())),
        // The call will fail.
        Treatment::Unknown if follows => {}
        _ => limited(&limits::exact),
    }
    if !asked && thread.spawned.is_none() {
        let state = &process.queue.control().process.state;
        state.store(State::Exec as u32, Release);
    }
    // The new program's, too.
    signals::set_mask(thread.signals.app_mask(mask));
    // SAFETY: the app's own call with its own arguments; the word is the context's.
    let result = unsafe { arch::unless_pending(number.into(), a, &raw const context.pending) };
    // Not the app's any more, if a signal is kept.
    let after = signals::block_all();
    ignored(thread, true);
    limited(&limits::settle);
    if asked {
        request::failed(thread);
    } else if thread.spawned.is_none() && !process.is_leaving() {
        let state = &process.queue.control().process.state;
        state.store(State::Controlled as u32, Release);
    }
    if thread.spawned.is_some() && process.queue.take(&mut thread.writer).is_err() {
        native::host_gone(thread, context);
    }
    // What a kept signal has blocked stays blocked.
    signals::set_mask(thread.signals.blocked.get().to_kernel(after));
    (result != arch::CALLED_OFF).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: Caller = Caller {
        user: 1000,
        group: 1000,
    };

    fn of(mode: u32, user: u32, group: u32) -> File {
        File {
            mode,
            user,
            group,
            capabilities: false,
            nosuid: false,
        }
    }

    #[test]
    fn programs_with_privileges_of_their_own_are_recognised() {
        for (file, privileged) in [
            (of(0o100_755, 0, 0), false),
            (of(0o104_755, 0, 0), true),
            (of(0o104_755, 1000, 1000), false),
            (of(0o102_755, 0, 0), true),
            (of(0o102_755, 0, 1000), false),
            // Mandatory locking, once.
            (of(0o102_745, 0, 0), false),
        ] {
            assert_eq!(file.is_privileged(CALLER), privileged, "{file:?}");
            let with = File {
                capabilities: true,
                ..file
            };
            assert!(with.is_privileged(CALLER));
            let nosuid = File {
                nosuid: true,
                ..with
            };
            assert!(!nosuid.is_privileged(CALLER));
        }
    }

    #[test]
    fn files_are_what_their_first_bytes_say() {
        let mut elf = [0; 64];
        elf[..4].copy_from_slice(b"\x7fELF");
        (elf[4], elf[18]) = (2, 62);
        assert_eq!(format(&elf), Format::Native);
        elf[4] = 1;
        assert_eq!(format(&elf), Format::Foreign);
        (elf[4], elf[18]) = (2, 183);
        assert_eq!(format(&elf), Format::Foreign);
        assert_eq!(format(&elf[..19]), Format::Unknown);
        assert_eq!(format(b"#! /bin/sh -e\nx"), Format::Script(b"/bin/sh"));
        assert_eq!(format(b"#!/bin/sh"), Format::Script(b"/bin/sh"));
        for none in [&b"#!\n/bin/sh"[..], b"#!  \t", b"echo", b""] {
            assert_eq!(format(none), Format::Unknown);
        }
    }

    #[test]
    fn programs_of_this_machine_are_judged() {
        let judged = |path: &core::ffi::CStr| judge(|| (), AT_FDCWD, path.as_ptr() as u64, 0);
        assert_eq!(judged(c"/proc/self/exe"), Treatment::Observe);
        assert_eq!(judged(c"/bin/sh"), Treatment::Observe);
        for none in [c"/no/such/program", c"/etc/passwd", c"/", c"/dev/null"] {
            assert_eq!(judged(none), Treatment::Unknown, "{none:?}");
        }
    }
}
