//! The *landing*: a stub in a program that has just been executed.
//!
//! # Problem
//! A process stopped after its `exec` has nothing of ours in it. It needs the file that it shares with us
//! and memory for the runtime, for which it must do system calls. Whoever traces it may be killed at any moment.
//! Then the kernel lets the process go on as it is. With a borrowed program counter or a poked
//! instruction, the program would be lost.
//!
//! # Strategy
//! The landing does all calls by itself. It lies after the end of the vDSO, in the rest of its last page,
//! which belongs to no program. One change of the registers redirects the process there. The landing maps what is needed,
//! and sends itself a signal that is ignored unless the process is traced: the *mark*. There
//! it stops for the host, which injects the runtime, and redirects it there with another change of the registers. After the mark the
//! landing gives back what it mapped and goes to the program.
//!
//! # Invariants
//! * At every moment the process, detached as it is, comes to its program with the registers, mask, memory and
//!   descriptors that the kernel gave it: before the first change it is there; then the landing leads
//!   there; after the second the runtime does, which finds out that there is no host.
//! * No signal of the process's is lost: only the mark is unblocked, and only meanwhile. One that is
//!   ignored by default and was blocked and pending counts as delivered.
// Instructions for another process, and its signal mask, which is not in `nix`.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use libc::user_regs_struct as Regs;
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::channel::image;
use crate::kernel::limits::Limits;
use crate::kernel::maps::mappings;
use crate::ptrace::tracee::other;

/// The signal that is the mark.
const MARK: i32 = libc::SIGURG;

std::arch::global_asm!(
    ".pushsection .rodata.trommel_landing, \"a\", @progbits",
    ".balign 16",
    ".globl trommel_landing",
    ".hidden trommel_landing",
    "trommel_landing:",
    "mov edi, {setmask}",
    "lea rsi, [rip + 5f]",
    "xor edx, edx",
    "mov r10d, 8",
    "mov eax, {rt_sigprocmask}",
    "syscall",
    "mov r12, [rip + 6f]",
    "test r12, r12",
    "jns trommel_landing_map",
    "lea rdi, [rip + 7f]",
    "mov esi, {cloexec}",
    "mov eax, {memfd_create}",
    "syscall",
    "mov r12, rax",
    ".globl trommel_landing_map",
    ".hidden trommel_landing_map",
    "trommel_landing_map:",
    "mov rdi, [rip + 4f]",
    "mov rsi, [rip + 4f + 8]",
    "mov edx, {rwx}",
    "mov r10, [rip + 4f + 16]",
    "mov r8, [rip + 4f + 24]",
    "mov r9, [rip + 4f + 32]",
    "mov eax, {mmap}",
    "syscall",
    "mov r13, rax",
    "mov eax, {getpid}",
    "syscall",
    "mov edi, eax",
    "mov esi, eax",
    "mov edx, {mark}",
    "mov eax, {tgkill}",
    "syscall",
    ".globl trommel_landing_marked",
    ".hidden trommel_landing_marked",
    "trommel_landing_marked:",
    // Nobody came. What was refused is refused again.
    "mov rdi, r13",
    "mov rsi, [rip + 4f + 8]",
    "mov eax, {munmap}",
    "syscall",
    "mov rdi, r12",
    "mov eax, {close}",
    "syscall",
    "mov edi, {setmask}",
    "lea rsi, [rip + 3f]",
    "xor edx, edx",
    "mov r10d, 8",
    "mov eax, {rt_sigprocmask}",
    "syscall",
    // As the kernel starts a program: no register is set, and no flag.
    "xor ecx, ecx",
    "xor esi, esi",
    "xor edi, edi",
    "xor r9d, r9d",
    "xor r8d, r8d",
    "xor r10d, r10d",
    "xor r11d, r11d",
    "xor r12d, r12d",
    "xor r13d, r13d",
    "mov ah, 2",
    "sahf",
    "mov eax, 0",
    "jmp [rip + 2f]",
    ".balign 8",
    ".globl trommel_landing_data",
    ".hidden trommel_landing_data",
    "trommel_landing_data:",
    "2: .quad 0",             // where the program starts
    "3: .quad 0",             // its signal mask
    "4: .quad 0, 0, 0, 0, 0", // what is mapped: address, length, flags, descriptor, offset
    "5: .quad 0",             // the mask up to the mark
    "6: .quad 0",             // the shared file, or -1
    "7: .asciz \"trommel\"",
    ".balign 8",
    ".globl trommel_landing_end",
    ".hidden trommel_landing_end",
    "trommel_landing_end:",
    ".popsection",
    setmask = const libc::SIG_SETMASK,
    rt_sigprocmask = const libc::SYS_rt_sigprocmask,
    cloexec = const libc::MFD_CLOEXEC,
    memfd_create = const libc::SYS_memfd_create,
    rwx = const libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
    mmap = const libc::SYS_mmap,
    getpid = const libc::SYS_getpid,
    tgkill = const libc::SYS_tgkill,
    mark = const MARK,
    munmap = const libc::SYS_munmap,
    close = const libc::SYS_close,
);

unsafe extern "C" {
    static trommel_landing: u8;
    static trommel_landing_map: u8;
    static trommel_landing_marked: u8;
    static trommel_landing_data: u8;
    static trommel_landing_end: u8;
}

/// Returns the offset of a label in the landing.
fn offset(label: *const u8) -> usize {
    label.addr() - (&raw const trommel_landing).addr()
}

fn code() -> &'static [u8] {
    let len = offset(&raw const trommel_landing_end);
    // SAFETY: all that is between the two labels, which is never written.
    unsafe { std::slice::from_raw_parts(&raw const trommel_landing, len) }
}

/// Returns the room for the landing in the vDSO, judged by ours: the kernel has only one.
fn room() -> Option<u64> {
    static ROOM: OnceLock<Option<u64>> = OnceLock::new();
    *ROOM.get_or_init(|| {
        let maps = std::fs::read("/proc/self/maps").ok()?;
        let vdso = mappings(&maps)
            .find(|mapping| mapping.path == b"[vdso]")?
            .range;
        let (start, end) = (vdso.start as usize, vdso.end as usize);
        let at = (end.checked_sub(code().len())?) & !15;
        if at < start {
            return None;
        }
        // SAFETY: inside the mapping, which stays and is never written.
        let there = unsafe { std::slice::from_raw_parts(at as *const u8, end - at) };
        there
            .iter()
            .all(|&byte| byte == 0)
            .then(|| (at - start) as u64)
    })
}

/// A process's signal mask.
fn mask(pid: Pid) -> io::Result<u64> {
    const GETSIGMASK: libc::c_uint = 0x420a;
    let mut mask = 0_u64;
    // SAFETY: the kernel writes a mask of the size said, which lives here.
    let failed =
        unsafe { libc::ptrace(GETSIGMASK, pid.as_raw(), size_of::<u64>(), &raw mut mask) == -1 };
    match failed {
        true => Err(io::Error::last_os_error()),
        false => Ok(mask),
    }
}

/// Sets the signal mask of a stopped process.
pub(crate) fn set_mask(pid: Pid, mask: u64) -> io::Result<()> {
    const SETSIGMASK: libc::c_uint = 0x420b;
    // SAFETY: the kernel reads a mask of the size said, which lives here.
    let failed =
        unsafe { libc::ptrace(SETSIGMASK, pid.as_raw(), size_of::<u64>(), &raw const mask) == -1 };
    match failed {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// Returns the kernel's value for a key in a program's auxiliary vector.
fn told(vector: &[u8], key: u64) -> Option<u64> {
    let words = vector.as_chunks::<8>().0.as_chunks::<2>().0;
    let word = |bytes: [u8; 8]| u64::from_le_bytes(bytes);
    let found = words.iter().find(|[k, _]| word(*k) == key);
    found.map(|[_, value]| word(*value))
}

/// Writes to memory of a stopped process that it may not write itself, word by word.
fn poke(pid: Pid, bytes: &[u8], at: u64) -> io::Result<()> {
    for (n, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let to = (at + 8 * n as u64) as ptrace::AddressType;
        ptrace::write(pid, to, i64::from_le_bytes(*word)).map_err(other)?;
    }
    Ok(())
}

/// Our executable as the stopped process has it open, and where in it the image is.
#[derive(Clone, Copy, Debug)]
pub struct ImageFile {
    /// Its descriptor there.
    pub fd: i32,
    /// Offset of the image.
    pub offset: u64,
}

/// A process on the landing.
#[derive(Debug)]
pub struct Landing {
    pid: Pid,
    /// Its registers where the program starts.
    app: Regs,
    /// Address at which the program starts after its dynamic linker, or 0.
    entry: u64,
    mask: u64,
    /// Address of the landing.
    at: u64,
    memory: File,
    /// The file that the image is mapped from, if it is not written.
    image: Option<ImageFile>,
    /// The program's own limits. The kernel's are higher until the runtime has started.
    limits: Limits,
    /// The runtime was started.
    left: bool,
}

/// File and memory that a process at the mark has.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// The descriptor of the shared file.
    pub file: i32,
    /// Address of the memory for the image.
    pub base: u64,
}

impl Landing {
    /// Leads `pid` to the landing, which is stopped after its `exec`; it runs when it is let. It makes the file that it
    /// shares with us, or has inherited one as descriptor `file`. Without `image` the image is to be written. `reported`: limits that the
    /// program before had, by its own account.
    ///
    /// # Errors
    /// Why it cannot be. It was not changed then, and nor is it when we are killed.
    pub fn begin(
        pid: Pid,
        file: Option<i32>,
        image: Option<ImageFile>,
        reported: Option<Limits>,
    ) -> io::Result<Self> {
        const CODE_SEGMENT_64: u64 = 0x33;
        let app = ptrace::getregs(pid).map_err(other)?;
        if app.cs != CODE_SEGMENT_64 {
            return Err(io::Error::other("it is not a 64-bit x86 program"));
        }
        let vector = std::fs::read(format!("/proc/{pid}/auxv"))?;
        let room = told(&vector, libc::AT_SYSINFO_EHDR).zip(room());
        let (vdso, room) = room.ok_or_else(|| io::Error::other("the vDSO has no room after it"))?;
        let entry = told(&vector, libc::AT_ENTRY).filter(|&at| at != app.rip);
        let kernel = Limits::of(pid)?;
        let limits = reported.map_or(kernel, |limits| limits.within(&kernel));
        let landing = Self {
            pid,
            app,
            entry: entry.unwrap_or(0),
            mask: mask(pid)?,
            at: vdso + room,
            memory: OpenOptions::new()
                .write(true)
                .open(format!("/proc/{pid}/mem"))?,
            image,
            limits,
            left: false,
        };
        limits.make_room(pid)?;
        let mut code = code().to_vec();
        let data = offset(&raw const trommel_landing_data);
        let file = i64::from(file.unwrap_or(-1)) as u64;
        let until_mark = landing.mask & !(1 << (MARK - 1));
        let words = [landing.app.rip, landing.mask];
        let words = words
            .into_iter()
            .chain(landing.mapped())
            .chain([until_mark, file]);
        for (word, to) in words.zip(code[data..].as_chunks_mut::<8>().0) {
            *to = word.to_le_bytes();
        }
        landing.write(&code, landing.at)?;
        landing.lead_to(landing.at, landing.app.rsp, 0)?;
        Ok(landing)
    }

    /// Returns the arguments of the mapping for the image.
    fn mapped(&self) -> [u64; 5] {
        let (flags, fd, offset) = match self.image {
            Some(image) => (0, image.fd as u64, image.offset),
            None => (libc::MAP_ANONYMOUS, u64::MAX, 0),
        };
        let flags = (flags | libc::MAP_PRIVATE) as u64;
        [
            image::base(),
            image::bytes().len() as u64,
            flags,
            fd,
            offset,
        ]
    }

    /// Writes whole words. A kernel may refuse that by way of the file (`proc_mem.force_override`).
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let written = self.memory.write_all_at(bytes, at);
        written.or_else(|_| poke(self.pid, bytes, at))
    }

    fn lead_to(&self, pc: u64, sp: u64, argument: u64) -> io::Result<()> {
        let mut regs = self.app;
        regs.rip = pc;
        regs.rsp = sp;
        regs.rdi = argument;
        // Or the kernel takes the exec for an interrupted call to restart.
        regs.orig_rax = u64::MAX;
        ptrace::setregs(self.pid, regs).map_err(other)
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The program's own limits.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns whether the process, stopped, is at the mark.
    pub fn is_at_mark(&self, signal: i32) -> bool {
        let marked = self.at + offset(&raw const trommel_landing_marked) as u64;
        signal == MARK && ptrace::getregs(self.pid).is_ok_and(|regs| regs.rip == marked)
    }

    /// Returns the program's start: its first instruction, its stack, and the entry after its dynamic linker.
    pub fn start(&self) -> (u64, u64, u64) {
        (self.app.rip, self.app.rsp, self.entry)
    }

    /// Descriptor of what the image is mapped from.
    pub fn image_file(&self) -> Option<i32> {
        self.image.map(|image| image.fd)
    }

    /// Returns what the process has at the mark. `None`: memory is available only without the image's file, and the process goes
    /// on to the mark once more when it is resumed.
    ///
    /// # Errors
    /// The system call that the kernel refused the process.
    pub fn taken(&mut self) -> io::Result<Option<Taken>> {
        let regs = ptrace::getregs(self.pid).map_err(other)?;
        let refused = |result: u64| (-4095..0).contains(&(result as i64));
        if refused(regs.r13) && self.image.take().is_some() {
            let bytes: Vec<u8> = self.mapped().iter().flat_map(|w| w.to_le_bytes()).collect();
            let at = offset(&raw const trommel_landing_data) + 2 * size_of::<u64>();
            self.write(&bytes, self.at + at as u64)?;
            let mut again = regs;
            again.rip = self.at + offset(&raw const trommel_landing_map) as u64;
            ptrace::setregs(self.pid, again).map_err(other)?;
            return Ok(None);
        }
        match [regs.r12, regs.r13].into_iter().find(|&r| refused(r)) {
            Some(error) if error == regs.r13 && error as i64 == -i64::from(libc::EACCES) => {
                Err(io::Error::other(
                    "it may map no memory that is writable and executable: PR_SET_MDWE, or a sandbox",
                ))
            }
            Some(error) => Err(io::Error::from_raw_os_error(-(error as i64) as i32)),
            None => Ok(Some(Taken {
                file: regs.r12 as i32,
                base: regs.r13,
            })),
        }
    }

    /// Leads the process from the mark to the runtime, with the app's mask, and lets it run untraced.
    ///
    /// # Errors
    /// What the system says; then it goes to the program when it is let run.
    pub fn finish(mut self, pc: u64, argument: u64) -> io::Result<()> {
        set_mask(self.pid, self.mask)?;
        self.lead_to(pc, argument, argument)?;
        // Nobody looks there, but as it was found is best.
        let _ = self.write(&vec![0; code().len()], self.at);
        self.left = true;
        ptrace::detach(self.pid, None).map_err(other)
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if !self.left {
            self.limits.restore(self.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

    use super::*;

    /// A program stopped after its `exec`, with a signal mask of its own.
    fn executed(words: &[&str]) -> (Child, Pid) {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdout(Stdio::piped());
        // SAFETY: only system calls.
        unsafe {
            command.pre_exec(|| {
                let mut mask = nix::sys::signal::SigSet::empty();
                mask.add(Signal::SIGURG);
                mask.add(Signal::SIGUSR2);
                mask.thread_set_mask()?;
                ptrace::traceme().map_err(other)
            });
        }
        let child = command.spawn().expect("the program is there");
        let pid = Pid::from_raw(child.id() as i32);
        let stopped = waitpid(pid, None).expect("a child");
        assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGTRAP)));
        (child, pid)
    }

    fn output(mut child: Child) -> String {
        let mut text = String::new();
        let mut out = child.stdout.take().expect("piped");
        out.read_to_string(&mut text).expect("text");
        assert!(child.wait().expect("a child").success());
        text
    }

    /// Executes one instruction. Signals are delivered.
    fn step(pid: Pid, signal: Option<Signal>) -> Option<Signal> {
        ptrace::step(pid, signal).expect("stopped");
        match waitpid(pid, Some(WaitPidFlag::__WALL)).expect("a child") {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => None,
            WaitStatus::Stopped(_, signal) => Some(signal),
            other => panic!("it has come to {other:?}"),
        }
    }

    #[test]
    fn after_the_mark_it_comes_to_the_program_as_the_kernel_starts_it() {
        let (child, pid) = executed(&["/bin/true"]);
        let before = ptrace::getregs(pid).expect("stopped");
        let landing = Landing::begin(pid, None, None, None).expect("there is room");
        let (mut signal, mut marks) = (None, 0);
        while ptrace::getregs(pid).expect("stopped").rip != before.rip {
            signal = step(pid, signal);
            marks += u32::from(signal.is_some_and(|s| landing.is_at_mark(s as i32)));
        }
        assert_eq!(marks, 1);
        let mut after = ptrace::getregs(pid).expect("stopped");
        after.orig_rax = before.orig_rax;
        after.eflags &= !0x100;
        assert_eq!(format!("{after:?}"), format!("{before:?}"));
        ptrace::detach(pid, None).expect("stopped");
        output(child);
    }

    #[test]
    fn detach_anywhere_it_is_the_program_and_nothing_of_ours_is_left() {
        // SIGURG and SIGUSR2.
        let mask = "SigBlk:\t0000000000400800";
        let looks: [&[&str]; 3] = [
            &["/bin/cat", "/proc/self/status"],
            &["/bin/cat", "/proc/self/maps"],
            &["/bin/ls", "-l", "/proc/self/fd"],
        ];
        for n in 0..80 {
            for words in looks {
                let (child, pid) = executed(words);
                let begun = Landing::begin(pid, None, None, None).expect("there is room");
                let mut signal = None;
                for _ in 0..n {
                    signal = step(pid, signal);
                }
                ptrace::detach(pid, signal).expect("stopped");
                drop(begun);
                let text = output(child);
                match *words.last().expect("words") {
                    "/proc/self/status" => assert!(text.contains(mask), "{n}: {text}"),
                    _ => assert!(
                        !text.contains("trommel (deleted)") && !text.contains("rwx"),
                        "{n}: {text}"
                    ),
                }
            }
        }
    }

    #[test]
    fn both_ways_of_writing_lead_there() {
        let (child, pid) = executed(&["/bin/true"]);
        let landing = Landing::begin(pid, None, None, None).expect("there is room");
        let read = |at: u64| ptrace::read(pid, at as ptrace::AddressType).expect("stopped");
        let words = code().len() as u64 / 8;
        let written: Vec<_> = (0..words).map(|n| read(landing.at + 8 * n)).collect();
        let bytes: Vec<u8> = written.iter().flat_map(|word| word.to_le_bytes()).collect();
        landing
            .write(&vec![0; bytes.len()], landing.at)
            .expect("stopped");
        assert_eq!(read(landing.at), 0);
        poke(pid, &bytes, landing.at).expect("stopped");
        let poked: Vec<_> = (0..words).map(|n| read(landing.at + 8 * n)).collect();
        assert_eq!(poked, written);
        ptrace::detach(pid, None).expect("stopped");
        output(child);
    }

    #[test]
    fn at_the_mark_it_has_what_it_needs() {
        let (mut child, pid) = executed(&["/bin/true"]);
        let image = ImageFile { fd: 99, offset: 0 };
        let mut landing = Landing::begin(pid, None, Some(image), None).expect("there is room");
        let to_mark = || {
            ptrace::cont(pid, None).expect("stopped");
            let stopped = waitpid(pid, None).expect("a child");
            assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGURG)));
        };
        to_mark();
        assert!(landing.is_at_mark(MARK));
        // It has no such descriptor.
        assert!(landing.taken().expect("memory").is_none());
        to_mark();
        assert!(landing.is_at_mark(MARK));
        let taken = landing.taken().expect("memory").expect("memory");
        let file = std::fs::read_link(format!("/proc/{pid}/fd/{}", taken.file)).expect("a file");
        assert_eq!(file.to_string_lossy(), "/memfd:trommel (deleted)");
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
        assert!(maps.contains(&format!("{:x}-", taken.base)));
        ptrace::detach(pid, None).expect("stopped");
        assert!(child.wait().expect("a child").success());
    }
}
