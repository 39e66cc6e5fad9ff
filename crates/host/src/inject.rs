//! The runtime into a stopped process.
//!
//! The process is stopped by ptrace right behind its `exec`: the program is mapped, nothing has
//! run. The host borrows its program counter for a system call (a `syscall` instruction
//! poked over the first one, stepped, and put back), so that the process itself maps the
//! runtime's image; writes what is not the same everywhere; and sets the registers so that the runtime
//! starts. The runtime goes on to the app's first instruction by itself.
//!
//! Such a call costs two changes of process, so there is one only: the memory may be written and
//! executed at first, and the runtime itself takes back what each part of it does not
//! need.
//!
//! Signals that are sent to the process meanwhile wait until it runs: a traced process would stop
//! for them, even for those that it ignores.
// The signal mask of a traced process is not in `nix`.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::image;

/// Bytes at the end of the runtime's stack in which a path may lie before it starts.
const PATH_ROOM: u64 = 4096 + 64;

/// What the runtime's `start` is told; the same layout as its `StartArgs`.
#[repr(C)]
struct StartArgs {
    file: u64,
    image_file: u64,
    app_pc: u64,
    app_sp: u64,
    entry: u64,
    image_start: u64,
    image_end: u64,
    base: u64,
    stack_top: u64,
    threads: u64,
    kept_file: u64,
}

impl StartArgs {
    fn bytes(&self) -> Vec<u8> {
        [
            self.file,
            self.image_file,
            self.app_pc,
            self.app_sp,
            self.entry,
            self.image_start,
            self.image_end,
            self.base,
            self.stack_top,
            self.threads,
            self.kept_file,
        ]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect()
    }
}

/// What the runtime is told.
pub(crate) struct Start {
    /// The shared file's descriptor in the target.
    pub(crate) file: i32,
    /// Our executable's there, or -1.
    pub(crate) image_file: i32,
    /// Where the app starts.
    pub(crate) app_pc: u64,
    /// Its stack pointer there.
    pub(crate) app_sp: u64,
    /// Where the program starts, behind its dynamic linker, or 0.
    pub(crate) entry: u64,
    /// Threads of a process that has been running, else 0.
    pub(crate) threads: usize,
    /// The image of kept fragments there, or -1.
    pub(crate) kept_file: i32,
}

impl Start {
    /// What to write for a runtime at `base`, and where, which is its stack pointer too.
    pub(crate) fn place(&self, base: u64) -> (Vec<u8>, u64) {
        let text = image::text();
        let stack_top = base + image::bytes().len() as u64;
        let args = StartArgs {
            file: self.file as u64,
            image_file: i64::from(self.image_file) as u64,
            app_pc: self.app_pc,
            app_sp: self.app_sp,
            entry: self.entry,
            image_start: base + text.start as u64,
            image_end: base + text.end as u64,
            base,
            stack_top,
            threads: self.threads as u64,
            kept_file: i64::from(self.kept_file) as u64,
        }
        .bytes();
        let args_at = (stack_top - args.len() as u64 - 64) & !15;
        (args, args_at)
    }
}

fn other(e: nix::Error) -> io::Error {
    io::Error::from_raw_os_error(e as i32)
}

/// The files that a program is to share with us.
pub enum File<'a> {
    /// Descriptors of the target: of the shared file, and of kept fragments, if there are any.
    Inherited(i32, Option<i32>),
    /// The target makes an empty one; this is given our descriptor, before the runtime starts. It may name a file of
    /// kept fragments.
    Made(&'a mut dyn FnMut(OwnedFd) -> io::Result<Option<Kept>>),
}

/// A file of kept fragments, as the target is to find it.
#[derive(Debug)]
pub struct Kept {
    /// Where it is.
    pub path: CString,
    /// Its device and inode.
    pub is: (u64, u64),
}

/// Makes the stopped process open a file for reading. `path_at`: memory of the runtime's.
fn open_kept(pid: Pid, kept: &Kept, path_at: u64) -> Option<i32> {
    let path = kept.path.as_bytes_with_nul();
    if path.len() as u64 > PATH_ROOM {
        return None;
    }
    write(pid, path, path_at).ok()?;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW) as u64;
    let fd = remote_call(pid, libc::SYS_open, [path_at, flags, 0, 0, 0, 0]).ok()?;
    // It may see another file there.
    let there = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
    match there.is_ok_and(|file| (file.dev(), file.ino()) == kept.is) {
        true => i32::try_from(fd).ok(),
        false => {
            let _ = remote_call(pid, libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
            None
        }
    }
}

/// Makes the stopped process make a file; its descriptor there, and ours. `name_at`: memory of the
/// runtime's.
fn make_file(pid: Pid, name_at: u64) -> io::Result<(i32, OwnedFd)> {
    const NAME: &[u8] = b"trommel\0";
    write(pid, NAME, name_at)?;
    let flags = u64::from(libc::MFD_CLOEXEC);
    let fd = remote_call(pid, libc::SYS_memfd_create, [name_at, flags, 0, 0, 0, 0])? as i32;
    let path = format!("/proc/{pid}/fd/{fd}");
    let opened = std::fs::File::options().read(true).write(true).open(path);
    match opened {
        Ok(file) => Ok((fd, file.into())),
        Err(error) => {
            let _ = remote_call(pid, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
            Err(error)
        }
    }
}

/// Exchanges the signal mask of the stopped process.
pub(crate) fn set_mask(pid: Pid, mask: u64) -> io::Result<u64> {
    const GETSIGMASK: libc::c_uint = 0x420a;
    const SETSIGMASK: libc::c_uint = 0x420b;
    let mut old = 0_u64;
    let bytes = size_of::<u64>();
    // SAFETY: the kernel writes and reads a mask of the size said, which lives here.
    let failed = unsafe {
        libc::ptrace(GETSIGMASK, pid.as_raw(), bytes, &raw mut old) == -1
            || libc::ptrace(SETSIGMASK, pid.as_raw(), bytes, &raw const mask) == -1
    };
    match failed {
        true => Err(io::Error::last_os_error()),
        false => Ok(old),
    }
}

/// Makes the stopped process do a system call.
fn remote_call(pid: Pid, number: i64, args: [u64; 6]) -> io::Result<u64> {
    const SYSCALL: i64 = 0x050f;
    let saved = ptrace::getregs(pid).map_err(other)?;
    let at = saved.rip as ptrace::AddressType;
    let word = ptrace::read(pid, at).map_err(other)?;
    ptrace::write(pid, at, word & !0xffff | SYSCALL).map_err(other)?;
    let mut regs = saved;
    regs.rax = number as u64;
    // Or the kernel takes the exec for an interrupted call to restart.
    regs.orig_rax = u64::MAX;
    [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = args;
    ptrace::setregs(pid, regs).map_err(other)?;
    ptrace::step(pid, None).map_err(other)?;
    match waitpid(pid, None).map_err(other)? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
        status => {
            return Err(io::Error::other(format!(
                "the new process stopped unexpectedly: {status:?}"
            )));
        }
    }
    let result = ptrace::getregs(pid).map_err(other)?.rax as i64;
    ptrace::write(pid, at, word).map_err(other)?;
    ptrace::setregs(pid, saved).map_err(other)?;
    if (-4095..0).contains(&result) {
        return Err(io::Error::from_raw_os_error(-result as i32));
    }
    Ok(result as u64)
}

/// Where the program starts, as the kernel tells its dynamic linker.
fn entry(pid: Pid) -> Option<u64> {
    let vector = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let words = vector.as_chunks::<8>().0.as_chunks::<2>().0;
    let word = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
    let found = words.iter().find(|[key, _]| word(*key) == libc::AT_ENTRY);
    found.map(|[_, value]| word(*value))
}

/// Copies bytes into the stopped process.
fn write(pid: Pid, bytes: &[u8], at: u64) -> io::Result<()> {
    let remote = RemoteIoVec {
        base: at as usize,
        len: bytes.len(),
    };
    let n = process_vm_writev(pid, &[IoSlice::new(bytes)], &[remote]).map_err(other)?;
    match n == bytes.len() {
        true => Ok(()),
        false => Err(io::Error::other(
            "the new process took only part of the runtime",
        )),
    }
}

/// Our executable as the stopped process has it open, and where in it the image is.
#[derive(Clone, Copy, Debug)]
pub struct ImageFile {
    /// Its descriptor there.
    pub fd: i32,
    /// Offset of the image.
    pub offset: u64,
}

/// Brings the image into the stopped process, to its usual place or another, which is returned. For
/// a start it may be read, written and executed.
fn bring(pid: Pid, image_file: Option<ImageFile>) -> io::Result<u64> {
    let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
    let len = image::bytes().len() as u64;
    let map = |flags: i32, fd: u64, offset: u64| {
        let flags = (flags | libc::MAP_PRIVATE) as u64;
        remote_call(
            pid,
            libc::SYS_mmap,
            [image::base(), len, prot, flags, fd, offset],
        )
    };
    if let Some(ImageFile { fd, offset }) = image_file
        && let Ok(base) = map(0, fd as u64, offset)
    {
        return Ok(base);
    }
    let base = map(libc::MAP_ANONYMOUS, u64::MAX, 0)?;
    write(pid, image::bytes(), base)?;
    Ok(base)
}

/// Puts the runtime into `pid`, stopped behind its `exec`, and lets it run, with `mask` as its signal
/// mask or the one it has. Without `image_file` the image is written.
pub fn inject(
    pid: Pid,
    file: File<'_>,
    image_file: Option<ImageFile>,
    mask: Option<u64>,
) -> io::Result<()> {
    const CODE_SEGMENT_64: u64 = 0x33;
    let app = ptrace::getregs(pid).map_err(other)?;
    if app.cs != CODE_SEGMENT_64 {
        return Err(io::Error::other("it is not a 64-bit x86 program"));
    }
    let own_mask = set_mask(pid, u64::MAX)?;
    let mask = mask.unwrap_or(own_mask);
    let base = bring(pid, image_file)?;
    if let Some(moved) = image::moved(base) {
        write(pid, &moved.bytes, base + moved.offset as u64)?;
    }
    let stack_top = base + image::bytes().len() as u64;
    let (file, kept) = match file {
        File::Inherited(fd, kept) => (fd, kept),
        File::Made(take) => {
            let (fd, file) = make_file(pid, stack_top - 64)?;
            match take(file) {
                Ok(kept) => {
                    let at = stack_top - PATH_ROOM;
                    (fd, kept.and_then(|kept| open_kept(pid, &kept, at)))
                }
                Err(error) => {
                    remote_call(pid, libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0])?;
                    return Err(error);
                }
            }
        }
    };
    let start = Start {
        file,
        image_file: image_file.map_or(-1, |image| image.fd),
        app_pc: app.rip,
        app_sp: app.rsp,
        entry: entry(pid).filter(|&at| at != app.rip).unwrap_or(0),
        threads: 0,
        kept_file: kept.unwrap_or(-1),
    };
    let (args, args_at) = start.place(base);
    write(pid, &args, args_at)?;
    // The runtime reads the app's memory so: a sandbox that refuses it would leave it blind.
    let mut back = [0; 8];
    let own = RemoteIoVec {
        base: args_at as usize,
        len: back.len(),
    };
    process_vm_readv(pid, &mut [IoSliceMut::new(&mut back)], &[own]).map_err(other)?;
    let mut regs = app;
    regs.rip = base + image::entry() as u64;
    regs.rsp = args_at;
    regs.rdi = args_at;
    regs.orig_rax = u64::MAX;
    ptrace::setregs(pid, regs).map_err(other)?;
    set_mask(pid, mask)?;
    ptrace::detach(pid, None).map_err(other)
}
