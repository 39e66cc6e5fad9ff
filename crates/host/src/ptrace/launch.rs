//! A program started, attached or natively.
//!
//! The child is made as `fork` would make it, with the same descriptors, environment, signal
//! dispositions and mask, and executes the program. It only asks to be traced, so that it stops after
//! its `exec`. Until then it shares our memory, on a stack of its own. To copy our page tables, and
//! every page that either of us then writes, would take longer than the `exec` itself. The child is
//! a process, not a thread of ours: the kernel waits for it, signals and traces it by itself.
//!
//! A native child does not ask. It reports in that memory what kept it from its `exec`.
// What a child may do before `exec` cannot be expressed safely.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::SeqCst;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::channel::image;
use crate::kernel::inherited::Inherited;
use crate::kernel::interrupt::Guard;
use crate::ptrace::inject::inject;
use crate::ptrace::landing::{ImageFile, Landing, set_mask};

/// A program to start.
pub struct Command<'a> {
    /// The file to execute.
    pub file: &'a Path,
    /// Its arguments, the name it was called by first.
    pub args: Vec<&'a OsStr>,
    /// Inherited state that it must find as its parent did.
    pub inherited: Inherited,
    /// Dispositions of ours that it must not find.
    pub guard: &'a Guard,
}

/// The reason why a program could not be started attached.
#[derive(Debug, thiserror::Error)]
pub enum LaunchFailure {
    /// The kernel would not execute it.
    #[error("cannot execute it: {}", .0.desc())]
    Exec(Errno),
    /// It did not come as far as its first instruction.
    #[error("it ended before its first instruction, by {0}")]
    Ended(Signal),
    /// The same, in a way that processes do not end.
    #[error("it did not reach its first instruction: {0:?}")]
    Lost(WaitStatus),
    /// It is no 64-bit program.
    #[error("it is not a 64-bit x86 program")]
    NotNative,
    /// The system refuses ptrace.
    #[error("it may not be traced; `trommel doctor` tells what is in the way")]
    NotTraced,
    /// The system refused something.
    #[error("{what}: {error}; `trommel doctor` tells what is in the way")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The answer.
        error: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> LaunchFailure {
    move |error| LaunchFailure::System { what, error }
}

/// Exit status of a child that may not be traced; no error of `exec` has this number.
const NOT_TRACED: i32 = 255;

/// In the child: a number for the shared file that the app will not miss.
const HIGH_FD: i32 = 200;

/// Bytes of the child's stack. What is not touched takes no memory.
const CHILD_STACK: usize = 256 << 10;

/// Terms of the child: memory of its parent, which waits until the child is done with it.
struct Child<'a> {
    command: &'a Command<'a>,
    file: &'a CStr,
    /// Pointers to the arguments, and a null one.
    args: &'a [*const libc::c_char],
    host: Pid,
    /// The error number of a native program's failed `exec`.
    native: Option<&'a AtomicI32>,
}

impl Child<'_> {
    /// The child, up to its `exec`. Only async-signal-safe functions are called, nothing is
    /// allocated, and only `errno`, which the waiting parent does not look at, is written.
    fn run(&self) -> ! {
        let failed = |status: i32| -> ! {
            // SAFETY: ends the child at once, with none of what its parent would do at its end.
            unsafe { libc::_exit(status) }
        };
        if self.native.is_none() {
            if ptrace::traceme().is_err() {
                failed(NOT_TRACED)
            }
            // Killed meanwhile: another process would be the tracer, and never detach it.
            if nix::unistd::getppid() != self.host {
                failed(0)
            }
        }
        self.command.guard.restore();
        self.command.inherited.restore(self.native.is_none());
        // SAFETY: strings that end with a NUL byte, and a list of such that ends with a null pointer.
        unsafe { libc::execv(self.file.as_ptr(), self.args.as_ptr()) };
        if let Some(why) = self.native {
            why.store(Errno::last_raw(), SeqCst);
        }
        failed(Errno::last_raw())
    }

    extern "C" fn start(of: *mut libc::c_void) -> i32 {
        // SAFETY: `spawn` passes one, which lives until the child has executed the program or ended.
        let child = unsafe { &*of.cast::<Child<'_>>() };
        child.run()
    }

    /// Starts the child. A native one has executed the program, or ended, when this returns.
    ///
    /// # Safety
    /// Until the child has executed the program or ended, nothing that it works with may change or
    /// go, the stack included.
    unsafe fn spawn(&self, stack: &memmap2::MmapRaw) -> nix::Result<Pid> {
        self.command.guard.expect_program();
        // No handler of ours may run in the child, and no signal come before its program is named.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let waits = self.native.map_or(0, |_| libc::CLONE_VFORK);
        let flags = libc::CLONE_VM | libc::SIGCHLD | waits;
        // SAFETY: the stack is as long as said, and page-aligned as it should be; the rest is the
        // caller's.
        let pid = unsafe {
            let top = stack.as_mut_ptr().add(stack.len()).cast();
            libc::clone(
                Self::start,
                top,
                flags,
                ptr::from_ref(self).cast_mut().cast(),
            )
        };
        let pid = Errno::result(pid).map(Pid::from_raw);
        if let Ok(pid) = pid {
            self.command.guard.program(pid);
        }
        before.thread_set_mask()?;
        pid
    }
}

/// Starts a program, stops it at its first instruction, puts the runtime in, and lets it run. It shares a file with us,
/// and is given `kept`, fragments of an earlier run. Does
/// `meanwhile` while the kernel loads the program.
///
/// Must be called while the process has one thread, which then is the tracer.
pub fn launch(
    command: &Command<'_>,
    shared: BorrowedFd<'_>,
    kept: Option<BorrowedFd<'_>>,
    meanwhile: impl FnOnce(),
) -> Result<Pid, LaunchFailure> {
    let (file, args) = strings(command)?;
    let pointers = pointers(&args);
    // The runtime reads there what is code; told now, and not by a program that runs unobserved.
    std::fs::File::open("/proc/self/maps").map_err(system("reading /proc/self/maps"))?;
    let stack = stack()?;
    let inherited = inheritable(shared).map_err(system("a descriptor for the target"))?;
    let kept = kept.and_then(|file| inheritable(file).ok());
    // Without it the image is written.
    let image = image::file().and_then(|(file, at)| Some((inheritable(file.as_fd()).ok()?, at)));
    let child = Child {
        command,
        file: &file,
        args: &pointers,
        host: nix::unistd::getpid(),
        native: None,
    };
    // SAFETY: all of it lives and stays as it is to the end of this function, and before that the
    // child stops after its `exec`, or has ended.
    let pid = unsafe { child.spawn(&stack) };
    let shared = inherited.as_raw_fd();
    let kept_file = kept.as_ref().map(AsRawFd::as_raw_fd);
    let image_file = image.as_ref().map(|(fd, offset)| ImageFile {
        fd: fd.as_raw_fd(),
        offset: *offset,
    });
    drop((inherited, image, kept));
    let pid = pid.map_err(|e| system("a new process")(e.into()))?;
    meanwhile();
    let blocked = command.inherited.blocked;
    let started = take_over(pid, blocked, (shared, kept_file), image_file);
    if started.is_err() {
        // It has not run anything yet; nobody will miss it.
        let _ = ptrace::kill(pid);
        let _ = waitpid(pid, None);
        command.guard.ended();
    }
    started.map(|()| pid)
}

/// Starts a program natively.
pub fn start(command: &Command<'_>) -> Result<Pid, LaunchFailure> {
    let (file, args) = strings(command)?;
    let why = AtomicI32::new(0);
    let child = Child {
        command,
        file: &file,
        args: &pointers(&args),
        host: nix::unistd::getpid(),
        native: Some(&why),
    };
    let stack = stack()?;
    // SAFETY: all of it lives to the end of this function, and this thread waits until the child is done with it.
    let pid = unsafe { child.spawn(&stack) }.map_err(|e| system("a new process")(e.into()))?;
    match why.load(SeqCst) {
        0 => Ok(pid),
        error => {
            let _ = waitpid(pid, None);
            command.guard.ended();
            Err(LaunchFailure::Exec(Errno::from_raw(error)))
        }
    }
}

/// The name of the file, and the arguments, as the kernel wants them.
fn strings(command: &Command<'_>) -> Result<(CString, Vec<CString>), LaunchFailure> {
    let nul = |e: std::ffi::NulError| {
        system("an argument")(io::Error::new(io::ErrorKind::InvalidInput, e))
    };
    let file = CString::new(command.file.as_os_str().as_bytes()).map_err(nul)?;
    let args = command.args.iter().map(|a| CString::new(a.as_bytes()));
    let args = args.collect::<Result<_, _>>().map_err(nul)?;
    Ok((file, args))
}

/// Pointers to them, and a null one. They are valid as long as `args` is.
fn pointers(args: &[CString]) -> Vec<*const libc::c_char> {
    let pointers = args.iter().map(|a| a.as_ptr());
    pointers.chain([ptr::null()]).collect()
}

/// A child's.
fn stack() -> Result<memmap2::MmapRaw, LaunchFailure> {
    let stack = memmap2::MmapOptions::new().len(CHILD_STACK).map_anon();
    Ok(memmap2::MmapRaw::from(stack.map_err(system("memory"))?))
}

/// A copy of a descriptor that a child inherits. The runtime closes it before the app starts.
fn inheritable(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let number = nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD(HIGH_FD))
        .or_else(|_| nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD(3)))?;
    // SAFETY: just made, nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Waits until the child is stopped for a signal for which `wanted` says so. Others it gets as it would without a tracer.
fn wait_for(child: Pid, mut wanted: impl FnMut(Signal) -> bool) -> Result<(), LaunchFailure> {
    loop {
        match waitpid(child, None).map_err(|e| system("waiting for the program")(e.into()))? {
            WaitStatus::Stopped(_, signal) if wanted(signal) => return Ok(()),
            WaitStatus::Stopped(_, signal) => {
                ptrace::cont(child, signal).map_err(|e| system("starting the program")(e.into()))?
            }
            WaitStatus::Exited(_, NOT_TRACED) => return Err(LaunchFailure::NotTraced),
            WaitStatus::Exited(_, errno) => {
                return Err(LaunchFailure::Exec(Errno::from_raw(errno)));
            }
            WaitStatus::Signaled(_, signal, _) => return Err(LaunchFailure::Ended(signal)),
            status => return Err(LaunchFailure::Lost(status)),
        }
    }
}

/// Waits for the program's `exec`, puts the runtime in, and lets it run. `files` are the shared file and that of kept
/// fragments in the child.
fn take_over(
    child: Pid,
    blocked: u64,
    files: (i32, Option<i32>),
    image_file: Option<ImageFile>,
) -> Result<(), LaunchFailure> {
    wait_for(child, |signal| signal == Signal::SIGTRAP)?;
    set_mask(child, blocked).map_err(system("setting the signal mask"))?;
    const CODE_SEGMENT_64: u64 = 0x33;
    let regs = ptrace::getregs(child).map_err(|e| system("reading registers")(e.into()))?;
    if regs.cs != CODE_SEGMENT_64 {
        return Err(LaunchFailure::NotNative);
    }
    const PUTTING: &str = "putting the runtime into the program";
    let mut landing =
        Landing::begin(child, Some(files.0), image_file, None).map_err(system(PUTTING))?;
    loop {
        ptrace::cont(child, None).map_err(|e| system("starting the program")(e.into()))?;
        wait_for(child, |signal| landing.is_at_mark(signal as i32))?;
        match inject(landing, files.1, None).map_err(system(PUTTING))? {
            None => return Ok(()),
            Some(again) => landing = again,
        }
    }
}
