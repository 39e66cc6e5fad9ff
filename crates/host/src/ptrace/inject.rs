//! The runtime, injected into a process on the landing.
//!
//! The process was stopped after its `exec`: the program is mapped, nothing has run. On the landing
//! (`crate::ptrace::landing`) it has made what it shares with us and mapped memory for the runtime's image. Here the host writes
//! the bytes that are missing or differ from place to place. Then it redirects the process to the runtime, which goes on to the app's first instruction.
//!
//! The memory may be written and executed at first. The runtime itself removes the rights that a part of it does
//! not need.

use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

use nix::sys::uio::{RemoteIoVec, process_vm_readv, process_vm_writev};
use nix::unistd::Pid;

use crate::channel::image;
use crate::kernel::limits::Limits;
use crate::ptrace::landing::Landing;
use crate::ptrace::tracee::other;

/// Bytes above the runtime's stack pointer in which a path may lie when it starts.
const PATH_ROOM: u64 = 4096;

/// Arguments of the runtime's `start`; the same layout as its `StartArgs`.
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
    kept_path: u64,
    kept_device: u64,
    kept_inode: u64,
    limits: Limits,
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
            self.kept_path,
            self.kept_device,
            self.kept_inode,
        ]
        .iter()
        .chain(self.limits.0.iter().flatten())
        .flat_map(|w| w.to_le_bytes())
        .collect()
    }
}

/// Arguments for the runtime.
pub(crate) struct Start {
    /// The shared file's descriptor in the target.
    pub(crate) file: i32,
    /// Our executable's there, or -1.
    pub(crate) image_file: i32,
    /// Address of the app's first instruction.
    pub(crate) app_pc: u64,
    /// Its stack pointer there.
    pub(crate) app_sp: u64,
    /// Address at which the program starts, after its dynamic linker, or 0.
    pub(crate) entry: u64,
    /// Threads of a process that has been running, else 0.
    pub(crate) threads: usize,
    /// The image of kept fragments there, or -1.
    pub(crate) kept_file: i32,
    /// Device and inode of such an image whose path follows the arguments.
    pub(crate) kept_is: Option<(u64, u64)>,
    /// The program's own limits.
    pub(crate) limits: Limits,
}

impl Start {
    /// Returns the bytes to write for a runtime at `base`, and their address, which is its stack pointer too.
    pub(crate) fn place(&self, base: u64) -> (Vec<u8>, u64) {
        let text = image::text();
        let stack_top = base + image::bytes().len() as u64;
        let bytes = size_of::<StartArgs>() as u64;
        let args_at = (stack_top - PATH_ROOM - bytes - 64) & !15;
        let (kept_device, kept_inode) = self.kept_is.unwrap_or_default();
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
            kept_path: self.kept_is.map_or(0, |_| args_at + bytes),
            kept_device,
            kept_inode,
            limits: self.limits,
        }
        .bytes();
        (args, args_at)
    }
}

/// A file of kept fragments, as the target is to find it.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its path.
    pub path: CString,
    /// Its device and inode: another file may have that path in the target.
    pub is: (u64, u64),
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

/// Injects the runtime into a process at the mark, and lets it run. `prepare` is given our descriptor of
/// the file that the process made, if it made one, before the runtime starts. It may name a file of kept fragments. `kept` is the descriptor
/// of one that the process inherited. A returned landing comes to the mark once more when it is resumed.
///
/// # Errors
/// Why it cannot be. Let run, the process goes to its program natively.
pub fn inject(
    mut landing: Landing,
    kept: Option<i32>,
    prepare: Option<&mut dyn FnMut(OwnedFd) -> io::Result<Option<Kept>>>,
) -> io::Result<Option<Landing>> {
    let Some(taken) = landing.taken()? else {
        return Ok(Some(landing));
    };
    let pid = landing.pid();
    let by_path = match prepare {
        None => None,
        Some(prepare) => {
            let path = format!("/proc/{pid}/fd/{}", taken.file);
            let opened = std::fs::File::options().read(true).write(true).open(path)?;
            prepare(opened.into())?
        }
    };
    let by_path = by_path.filter(|kept| kept.path.as_bytes_with_nul().len() as u64 <= PATH_ROOM);
    let base = taken.base;
    if landing.image_file().is_none() {
        write(pid, image::bytes(), base)?;
    }
    if let Some(moved) = image::moved(base) {
        write(pid, &moved.bytes, base + moved.offset as u64)?;
    }
    let (app_pc, app_sp, entry) = landing.start();
    let start = Start {
        file: taken.file,
        image_file: landing.image_file().unwrap_or(-1),
        app_pc,
        app_sp,
        entry,
        threads: 0,
        kept_file: kept.unwrap_or(-1),
        kept_is: by_path.as_ref().map(|kept| kept.is),
        limits: landing.limits(),
    };
    let (args, args_at) = start.place(base);
    write(pid, &args, args_at)?;
    if let Some(kept) = by_path {
        let at = args_at + args.len() as u64;
        write(pid, kept.path.as_bytes_with_nul(), at)?;
    }
    // The runtime reads the app's memory so: a sandbox that refuses it would leave it blind.
    let mut back = [0; 8];
    let own = RemoteIoVec {
        base: args_at as usize,
        len: back.len(),
    };
    process_vm_readv(pid, &mut [IoSliceMut::new(&mut back)], &[own]).map_err(other)?;
    landing.finish(base + image::entry() as u64, args_at)?;
    Ok(None)
}
