//! Call frames: where the return address of a function is, at each of its instructions.
//!
//! # Problem
//! A function's return address is on the stack, but how far from the stack pointer differs from instruction to instruction, and only
//! some code keeps a frame pointer. *Value Sampling* (section 2.3) captures the two words where it mostly was on an Alpha, and leaves it to
//! the object file's unwinding information which of them is valid.
//!
//! # Strategy
//! Compilers describe frames in `.eh_frame`, for exceptions (DWARF 5, section 6.4; the x86-64 psABI, section 4.2.4), and linkers put a sorted
//! table of functions before it, `.eh_frame_hdr`. Both are copied when the file is opened: a file that is cut short while it is
//! looked at harms nobody.
//!
//! # Invariants
//! * *Nothing wrong rather than something*: a frame that is described otherwise than by `rsp` or `rbp` and a distance, one of a signal handler,
//!   and one whose return address is not right below it have no rule. A file with another build id has none at all.
//! * No panic and no endless loop for any content of any file.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use addr2line::gimli::{CfaRule, Register, RegisterRule, UnwindContext, X86_64};

use crate::described::{Described, range};
use crate::elf::Image;
use crate::files::Files;
use crate::object_file::ObjectFile;

/// Bases of a distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Base {
    /// The stack pointer.
    Rsp,
    /// The frame pointer.
    Rbp,
}

/// A frame, as it is before one instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The vaddrs of the code that has it: a function, or a part of one.
    pub function: Range<u64>,
    /// Distance of the frame's *top* from a register. The stack pointer was at the top before the call. The return address is the word
    /// below.
    pub top: (Base, i64),
    /// Distance of the caller's `rbp` from the top; `None`: in `rbp`.
    pub rbp: Option<i64>,
}

/// The frames of a file.
#[derive(Debug)]
pub struct Frames {
    file: File,
    image: Image,
    described: Described,
}

impl Frames {
    /// Reads the sections of the file at `path`, which `image` was found to be; `None` where it has none, or is another file by now.
    pub fn of(path: &Path, image: &Image) -> Option<Self> {
        let files = Files::new();
        let found = ObjectFile::parse(files.map(path).ok()?)?;
        if found.build_id() != image.build_id {
            return None;
        }
        Some(Self {
            file: File::open(path).ok()?,
            image: image.clone(),
            described: Described::of(&found)?,
        })
    }

    /// The code that has one description with the instruction at a vaddr: its function, or a part of it.
    pub fn function(&self, vaddr: u64) -> Option<Range<u64>> {
        self.described
            .with_entry(vaddr, |entry, _, _| Some(range(entry)))
    }

    /// The frame before the instruction at a vaddr.
    pub fn frame(&self, vaddr: u64) -> Option<Frame> {
        self.described.with_entry(vaddr, |entry, frames, bases| {
            if entry.is_signal_trampoline() {
                return None;
            }
            let mut context = UnwindContext::new();
            let row = entry.unwind_info_for_address(frames, bases, &mut context, vaddr);
            let row = row.ok()?;
            let top = match *row.cfa() {
                CfaRule::RegisterAndOffset { register, offset } => (base(register)?, offset),
                CfaRule::Expression(_) => return None,
            };
            match row.register(X86_64::RA) {
                RegisterRule::Offset(-8) => {}
                _ => return None,
            }
            let rbp = match row.register(X86_64::RBP) {
                // What is not told of is the caller's.
                RegisterRule::Undefined | RegisterRule::SameValue => None,
                RegisterRule::Offset(offset) => Some(offset),
                _ => return None,
            };
            let function = range(entry);
            Some(Frame { function, top, rbp })
        })
    }

    /// The code in a range of vaddrs.
    pub fn code(&self, range: Range<u64>) -> Option<Vec<u8>> {
        /// Larger functions are looked into by nobody.
        const MOST: u64 = 4 << 20;
        let len = range.end.checked_sub(range.start).filter(|n| *n <= MOST)?;
        let segment = self.image.segments.iter().find(|s| {
            let start = range.start.wrapping_sub(s.vaddr.0);
            s.executable && start < s.file_size && len <= s.file_size - start
        })?;
        let mut bytes = vec![0; len as usize];
        let at = segment.offset + (range.start - segment.vaddr.0);
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

fn base(register: Register) -> Option<Base> {
    match register {
        X86_64::RSP => Some(Base::Rsp),
        X86_64::RBP => Some(Base::Rbp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assembled::{assembled, damages};
    use crate::elf::{Format, inspect};

    const SOURCE: &str = r#"
        .globl _start, leaf, pushes, points
        _start: call leaf; call pushes; call points; ud2
        .type leaf, @function
        leaf: .cfi_startproc
            lea eax, [rdi + 1]
            ret
            .cfi_endproc
        .type pushes, @function
        pushes: .cfi_startproc
            push rbx
            .cfi_adjust_cfa_offset 8
            sub rsp, 32
            .cfi_adjust_cfa_offset 32
            nop
            add rsp, 32
            .cfi_adjust_cfa_offset -32
            pop rbx
            .cfi_adjust_cfa_offset -8
            ret
            .cfi_endproc
        .type points, @function
        points: .cfi_startproc
            push rbp
            .cfi_adjust_cfa_offset 8
            .cfi_offset rbp, -16
            mov rbp, rsp
            .cfi_def_cfa_register rbp
            sub rsp, 64
            leave
            .cfi_def_cfa rsp, 8
            ret
            .cfi_endproc
        .type expression, @function
        expression: .cfi_startproc
            .cfi_escape 0x0f, 0x03, 0x77, 0x08, 0x06
            nop
            .cfi_endproc
        .section .note.GNU-stack,"",@progbits
    "#;

    /// The program of the source, and the addresses of its functions.
    fn program(name: &str) -> (std::path::PathBuf, Image, impl Fn(&str) -> u64) {
        let options = "--build-id,--eh-frame-hdr";
        let (out, at) = assembled(format!("frames-{name}"), SOURCE, options);
        let Format::Elf(image) = inspect(&out).expect("a program") else {
            panic!("no ELF file");
        };
        (out, image, at)
    }

    #[test]
    fn frames_are_what_the_directives_say_at_each_instruction() {
        let (path, image, at) = program("each");
        let frames = Frames::of(&path, &image).expect("frames");
        let top = |vaddr| frames.frame(vaddr).map(|f| (f.top, f.rbp));
        let leaf = at("leaf");
        assert_eq!(top(leaf), Some(((Base::Rsp, 8), None)));
        assert_eq!(top(leaf + 3), Some(((Base::Rsp, 8), None)));
        assert_eq!(frames.function(leaf + 3), Some(leaf..leaf + 4));
        let pushes = at("pushes");
        // push 1 byte, sub 4, nop 1, add 4, pop 1, ret.
        for (offset, distance) in [(0, 8), (1, 16), (5, 48), (6, 48), (10, 16), (11, 8)] {
            assert_eq!(
                top(pushes + offset),
                Some(((Base::Rsp, distance), None)),
                "{offset}"
            );
        }
        let points = at("points");
        // push 1 byte, mov 3, sub 4, leave 1, ret.
        assert_eq!(top(points), Some(((Base::Rsp, 8), None)));
        assert_eq!(top(points + 1), Some(((Base::Rsp, 16), Some(-16))));
        for offset in [4, 8] {
            assert_eq!(top(points + offset), Some(((Base::Rbp, 16), Some(-16))));
        }
        assert_eq!(
            frames.code(leaf..leaf + 4).as_deref(),
            Some(&[0x8d, 0x47, 1, 0xc3][..])
        );
    }

    #[test]
    fn what_is_not_described_so_has_no_frame() {
        let (path, image, at) = program("none");
        let frames = Frames::of(&path, &image).expect("frames");
        assert_eq!(frames.frame(at("expression")), None);
        for outside in [0, at("_start"), at("_start") - 1, u64::MAX] {
            assert_eq!(frames.frame(outside), None, "{outside:#x}");
        }
        assert_eq!(frames.code(0..16), None);
        assert_eq!(frames.code(at("leaf")..u64::MAX), None);
        let other = Image {
            build_id: vec![1; 20],
            ..image
        };
        assert!(Frames::of(&path, &other).is_none());
    }

    #[test]
    fn a_damaged_file_has_no_frames_or_others_and_nothing_worse() {
        let (path, image, at) = program("damaged");
        let mut frames = Frames::of(&path, &image).expect("frames");
        let places = ["leaf", "pushes", "points", "expression"].map(&at);
        for table in [true, false] {
            let part = |frames: &mut Frames| match table {
                true => std::mem::take(&mut frames.described.table.bytes),
                false => std::mem::take(&mut frames.described.frames.bytes),
            };
            let whole = part(&mut frames);
            let mut put = |bytes: Vec<u8>| {
                match table {
                    true => frames.described.table.bytes = bytes,
                    false => frames.described.frames.bytes = bytes,
                }
                for place in places {
                    let _ = frames.frame(place + 1);
                    let _ = frames.function(place);
                }
            };
            damages(&whole).for_each(&mut put);
            put(whole);
        }
    }
}
