//! A program that is stopped under `ptrace`, as what observes instructions looks at it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use iced_x86::Register;
use nix::sys::ptrace;
use nix::unistd::Pid;
use trommel_query::observe::{Machine, Segment};

/// Registers of the stopped program, and its memory.
pub struct Stopped {
    pid: Pid,
    /// Its general registers.
    pub general: libc::user_regs_struct,
    vectors: Option<Box<[[u64; 2]; 16]>>,
    memory: Rc<File>,
}

impl Stopped {
    /// Reads the general registers. `memory` is its `/proc/PID/mem`.
    ///
    /// # Errors
    /// It is not stopped by us.
    pub fn of(pid: i32, memory: &Rc<File>) -> io::Result<Self> {
        let pid = Pid::from_raw(pid);
        Ok(Self {
            pid,
            general: ptrace::getregs(pid)?,
            vectors: None,
            memory: Rc::clone(memory),
        })
    }

    /// Reads the vector registers, which are 0 until then.
    ///
    /// # Errors
    /// It is not stopped by us.
    pub fn read_vectors(&mut self) -> io::Result<()> {
        if self.vectors.is_some() {
            return Ok(());
        }
        let state = ptrace::getregset::<ptrace::regset::NT_PRFPREG>(self.pid)?;
        let mut vectors = [[0; 2]; 16];
        for (vector, words) in vectors.iter_mut().zip(state.xmm_space.chunks(4)) {
            let half = |n: usize| u64::from(words[n]) | u64::from(words[n + 1]) << 32;
            *vector = [half(0), half(2)];
        }
        self.vectors = Some(Box::new(vectors));
        Ok(())
    }

    /// Returns what a memory operand of the next instruction addresses.
    pub fn address(&self, memory: &iced_x86::UsedMemory) -> u64 {
        let value = |register: Register, _, _| {
            Some(match register {
                Register::FS => self.general.fs_base,
                Register::GS => self.general.gs_base,
                r if r.is_gpr32() => self.general(r.number() as u8) & 0xffff_ffff,
                r if r.is_gpr() => self.general(r.full_register().number() as u8),
                _ => 0,
            })
        };
        memory.virtual_address(0, value).unwrap_or(0)
    }
}

impl Machine for Stopped {
    fn general(&self, number: u8) -> u64 {
        let r = &self.general;
        [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ][usize::from(number)]
    }

    fn vector(&self, number: u8) -> [u64; 2] {
        (self.vectors.as_ref()).map_or([0; 2], |v| v[usize::from(number)])
    }

    fn flags(&self) -> u64 {
        self.general.eflags
    }

    fn segment(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.general.fs_base,
            Segment::Gs => self.general.gs_base,
        }
    }

    fn memory(&self, address: u64, size: u8) -> Option<u64> {
        let mut bytes = [0; 8];
        let wanted = &mut bytes[..usize::from(size)];
        self.memory.read_exact_at(wanted, address).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}
