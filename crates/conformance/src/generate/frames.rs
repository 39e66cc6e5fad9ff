//! Generated loops over variables of a stack frame, as unoptimised code has them.
//!
//! Each function has a frame, fills its slots, and goes round a loop whose body reads, writes and changes them:
//! with the operands and sizes that compilers use, through the frame pointer and the stack pointer, in callees, and through
//! pointers of which no translator can know whether they point into the frame. Some bodies branch, and some walk into a page that
//! cannot be accessed yet, whose handler takes down every register. The driver is `loops.c`.

use std::fmt::Write;

use super::Random;

/// Registers by width, those that bodies use.
const REGISTERS: [[&str; 4]; 8] = [
    ["rax", "eax", "ax", "al"],
    ["rcx", "ecx", "cx", "cl"],
    ["rdx", "edx", "dx", "dl"],
    ["rbx", "ebx", "bx", "bl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["r8", "r8d", "r8w", "r8b"],
    ["r13", "r13d", "r13w", "r13b"],
];
const SIZES: [&str; 4] = ["qword", "dword", "word", "byte"];
/// Bytes of a frame; the counter is in the last four, the walking pointer before it.
const FRAME: u64 = 96;

struct Body {
    random: Random,
    text: String,
    side: String,
    labels: u32,
    /// Slots: distance below the frame pointer and width.
    slots: Vec<(u64, usize)>,
    /// Number of [`REGISTERS`] that it uses.
    registers: usize,
    /// Bytes that are pushed at this place.
    pushed: u64,
    /// It stores through no pointer, so variables that it does not name keep their values.
    calm: bool,
}

impl Body {
    fn line(&mut self, text: impl AsRef<str>) {
        self.text.push('\t');
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    fn register(&mut self, width: usize) -> &'static str {
        let n = self.random.below(self.registers as u64);
        REGISTERS[usize::try_from(n).unwrap_or(0)][width]
    }

    /// A slot's operand, by either pointer, and its width; a part of it now and then.
    fn slot(&mut self) -> (String, usize) {
        let slots = self.slots.clone();
        let (mut at, mut width) = self.random.pick(&slots);
        if self.random.one_in(12) {
            let other = usize::try_from(self.random.below(4)).unwrap_or(0);
            // Not into the walking pointer.
            if at > 16 + (8 >> other) {
                (at, width) = (at - self.random.below(2), other);
            }
        }
        (self.operand(at, width), width)
    }

    fn operand(&mut self, at: u64, width: usize) -> String {
        let size = SIZES[width];
        match self.random.below(5) {
            0 => format!("{size} ptr [rsp + {}]", FRAME + self.pushed - at),
            _ => format!("{size} ptr [rbp - {at}]"),
        }
    }

    fn constant(&mut self, width: usize) -> u64 {
        match width {
            3 => self.random.below(128),
            _ => self.random.below(30000),
        }
    }

    fn instruction(&mut self) {
        const TWO: [&str; 5] = ["add", "sub", "and", "or", "xor"];
        const CC: [&str; 8] = ["z", "nz", "c", "nc", "l", "ge", "g", "be"];
        let (m, width) = self.slot();
        let r = self.register(width);
        let op = self.random.pick(&TWO);
        let cc = self.random.pick(&CC);
        match self.random.below(24) {
            0..=3 => self.line(format!("mov {r}, {m}")),
            4..=6 => self.line(format!("mov {m}, {r}")),
            7 | 8 => self.line(format!("{op} {r}, {m}")),
            9 | 10 => self.line(format!("{op} {m}, {r}")),
            11..=13 => {
                let c = self.constant(width);
                self.line(format!("{op} {m}, {c}"));
            }
            14 => {
                let c = self.constant(width);
                self.line(format!("cmp {m}, {c}"));
                let r = self.register(3);
                self.line(format!("set{cc} {r}"));
            }
            15 => {
                let c = self.constant(width);
                self.line(format!("mov {m}, {c}"));
            }
            16 => {
                let to = self.register(1);
                match width {
                    0 => self.line(format!("test {m}, {r}")),
                    1 => {
                        let to = self.register(0);
                        self.line(format!("movsxd {to}, {m}"));
                    }
                    _ => {
                        let op = self.random.pick(&["movzx", "movsx"]);
                        self.line(format!("{op} {to}, {m}"));
                    }
                }
            }
            17 => {
                let op = self.random.pick(&["inc", "dec", "neg", "not"]);
                self.line(format!("{op} {m}"));
            }
            18 if width < 3 => {
                self.line(format!("cmp {r}, {m}"));
                let to = self.register(width);
                self.line(format!("cmov{cc} {to}, {m}"));
            }
            19 if width < 2 => {
                self.line(format!("imul {r}, {m}"));
                self.line(format!("test {r}, {r}"));
            }
            20 => {
                let op = self.random.pick(&["shl", "shr", "sar"]);
                self.line(format!("{op} {m}, 1"));
                self.line(format!("cmp {r}, 77"));
            }
            21 => self.line(format!("add {r}, 5\n\tadc {m}, 3")),
            _ => {
                let to = self.register(0);
                self.line(format!("lea {to}, [{to} + 3]"));
            }
        }
    }

    /// An index as compilers without optimisation make it: of one variable, extended, copied and multiplied, and then that of
    /// another, or a constant, added.
    fn index(&mut self) {
        let words: Vec<_> = (self.slots.iter().filter(|s| s.1 <= 1).copied()).collect();
        if words.is_empty() {
            return self.instruction();
        }
        let pick = |b: &mut Self| {
            let n = b.random.below(b.registers as u64);
            usize::try_from(n).unwrap_or(0)
        };
        let (part, whole, to) = (pick(self), pick(self), pick(self));
        let [_, half, ..] = REGISTERS[part];
        let (whole, wide) = (REGISTERS[whole][0], REGISTERS[whole][1]);
        let to = REGISTERS[to][0];
        let (at, _) = self.random.pick(&words);
        let m = self.operand(at, 1);
        self.line(format!("mov {half}, {m}"));
        self.line(format!("movsxd {whole}, {half}"));
        self.line(format!("mov {to}, {whole}"));
        for _ in 0..1 + self.random.below(5) {
            match self.random.below(12) {
                0 | 1 => {
                    let by = self.random.below(7);
                    let op = self.random.pick(&["shl", "sar", "shr", "rol"]);
                    self.line(format!("{op} {to}, {by}"));
                }
                2 | 3 => self.line(format!("add {to}, {whole}")),
                4 => self.line(format!("sub {to}, {whole}")),
                5 => self.line(format!("lea {to}, [{whole} + 4*{to} + 5]")),
                6 => self.line(format!("imul {to}, {whole}, 640")),
                7 => self.line(format!("xor {wide}, {wide}")),
                8 => self.line(format!("mov {wide}, 77")),
                9 => self.line("cdqe"),
                10 => self.line(format!("not {to}")),
                _ => self.line(format!("imul {to}, {whole}")),
            }
        }
        match self.random.below(3) {
            0 => {
                let m = self.slot().0;
                if m.starts_with("qword") {
                    self.line(format!("add {to}, {m}"));
                }
            }
            1 => {
                let from = self.register(0);
                self.line(format!("add {to}, {from}"));
            }
            _ => {}
        }
        if self.random.one_in(2) {
            let r = self.register(1);
            self.line("mov rdi, qword ptr [rbp - 16]");
            self.line(format!("add {r}, dword ptr [rdi]"));
        }
    }

    fn statement(&mut self, depth: u32) {
        if self.random.one_in(5) {
            return self.index();
        }
        match self.random.below(16) {
            0 | 1 | 6 if self.calm => self.index(),
            0 => {
                // Into the frame or beside it, which only the program knows.
                let r = self.register(0);
                let at = 8 * self.random.below(4);
                self.line(format!("mov {r}, [rip + pointers + {at}]"));
                let width = usize::try_from(self.random.below(4)).unwrap_or(0);
                let from = self.register(width);
                let op = self.random.pick(&["mov", "add", "xor"]);
                self.line(format!("{op} {} ptr [{r}], {from}", SIZES[width]));
            }
            1 => {
                let r = self.register(0);
                let (at, width) = self.random.pick(&self.slots.clone());
                self.line(format!("lea {r}, [rbp - {at}]"));
                self.line(format!("add {} ptr [{r}], 7", SIZES[width]));
            }
            2 if depth == 0 => {
                let label = self.label();
                let cc = self.random.pick(&["z", "nz", "c", "ns", "l", "g"]);
                self.line(format!("j{cc} {label}"));
                self.instruction();
                self.instruction();
                let _ = writeln!(self.text, "{label}:");
            }
            3 if depth == 0 => self.call(),
            4 if self.pushed == 0 => {
                let r = self.register(0);
                self.line(format!("push {r}"));
                self.pushed = 8;
                self.statement(1);
                self.pushed = 0;
                let r = self.register(0);
                self.line(format!("pop {r}"));
            }
            5 => {
                let r = self.register(1);
                self.line("mov rdi, qword ptr [rbp - 16]");
                self.line(format!("add {r}, dword ptr [rdi]"));
            }
            6 => {
                let r = self.register(1);
                self.line("mov rdi, qword ptr [rbp - 16]");
                self.line(format!("mov dword ptr [rdi + 4], {r}"));
            }
            7 => {
                self.line("add qword ptr [rbp - 16], 64");
            }
            _ => self.instruction(),
        }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!(".L{}", self.labels)
    }

    /// A function with a frame of its own, which may change the caller's through a pointer.
    fn call(&mut self) {
        let name = self.label();
        self.line(format!("call {name}"));
        let wild = !self.calm && self.random.one_in(3);
        let mut s =
            format!("{name}:\n\tpush rbp\n\tmov rbp, rsp\n\tmov qword ptr [rbp - 8], rdi\n");
        if wild {
            s.push_str("\tmov rax, [rip + pointers + 16]\n\tadd dword ptr [rax], 9\n");
        }
        s.push_str("\tmov rax, qword ptr [rbp - 8]\n\tadd eax, 3\n\tpop rbp\n\tret\n");
        self.side.push_str(&s);
    }
}

/// The assembly text of `count` functions from `seed`.
pub fn loops(seed: u64, count: u64) -> String {
    let mut b = Body {
        random: Random::new(seed ^ 0x6c6f_6f70),
        text: String::new(),
        side: String::new(),
        labels: 0,
        slots: Vec::new(),
        registers: 0,
        pushed: 0,
        calm: false,
    };
    let mut out = String::from("\t.intel_syntax noprefix\n\t.text\n");
    out.push_str(&frame());
    for n in 0..count {
        b.registers = 4 + usize::try_from(b.random.below(5)).unwrap_or(0);
        b.slots.clear();
        b.calm = b.random.one_in(2);
        let mut at = 16;
        while at < FRAME - 16 && b.slots.len() < 8 {
            let width = usize::try_from(b.random.below(4))
                .unwrap_or(1)
                .saturating_sub(1);
            at = (at + (8 >> width)).next_multiple_of(8 >> width);
            b.slots.push((at, width));
        }
        let _ = writeln!(b.text, "seq_{n}:");
        b.line("push rbp");
        b.line("mov rbp, rsp");
        b.line(format!("sub rsp, {FRAME}"));
        for k in 0..FRAME / 8 - 1 {
            let r = REGISTERS[usize::try_from(k % 8).unwrap_or(0)][0];
            b.line(format!("mov qword ptr [rsp + {}], {r}", 8 * k));
        }
        // Two of the pointers lead into the frame.
        for (slot, target) in [(0, "rbp - 24"), (2, "rbp - 40")] {
            b.line(format!("lea rax, [{target}]"));
            b.line(format!("mov [rip + pointers + {}], rax", 8 * slot));
        }
        let ahead = 64 * b.random.below(60);
        b.line(format!("lea rax, [rip + pages + 4096 - {ahead}]"));
        b.line("mov qword ptr [rbp - 16], rax");
        let trips = 6 + b.random.below(40);
        b.line(format!("mov dword ptr [rbp - 4], {trips}"));
        let head = b.label();
        let _ = writeln!(b.text, "{head}:");
        for _ in 0..4 + b.random.below(14) {
            b.statement(0);
        }
        if b.random.one_in(2) {
            b.line("add qword ptr [rbp - 16], 64");
        }
        match b.random.below(3) {
            0 => {
                b.line("sub dword ptr [rbp - 4], 1");
                b.line(format!("jnz {head}"));
            }
            1 => {
                b.line("mov eax, dword ptr [rbp - 4]");
                b.line("lea edx, [rax - 1]");
                b.line("mov dword ptr [rbp - 4], edx");
                b.line("cmp eax, 1");
                b.line(format!("jg {head}"));
            }
            _ => {
                let over = b.label();
                b.line("dec dword ptr [rbp - 4]");
                b.line("cmp dword ptr [rbp - 4], 0");
                b.line(format!("jle {over}"));
                b.line(format!("jmp {head}"));
                let _ = writeln!(b.text, "{over}:");
            }
        }
        b.line("leave");
        b.line("ret");
        out.push_str(&std::mem::take(&mut b.text));
        out.push_str(&std::mem::take(&mut b.side));
    }
    let _ = writeln!(
        out,
        "\t.data\n\t.globl sequences, sequence_count\nsequence_count:\n\t.quad {count}\nsequences:"
    );
    for n in 0..count {
        let _ = writeln!(out, "\t.quad seq_{n}");
    }
    out.push_str("\t.section .note.GNU-stack,\"\",@progbits\n");
    out
}

/// `run_sequence`: loads the general registers and the flags, calls `fn_slot`, stores them.
fn frame() -> String {
    const ALL: [&str; 15] = [
        "rax", "rcx", "rdx", "rbx", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ];
    let mut s = String::from("\t.globl run_sequence\nrun_sequence:\n");
    for r in ["rbx", "rbp", "r12", "r13", "r14", "r15"] {
        let _ = writeln!(s, "\tpush {r}");
    }
    s.push_str("\tmov [rip + host_rsp], rsp\n\tlea rsp, [rip + app_stack + 8000]\n");
    s.push_str("\tpush qword ptr [rip + st_in + 120]\n\tpopfq\n");
    for (n, r) in ALL.iter().enumerate() {
        let _ = writeln!(s, "\tmov {r}, [rip + st_in + {}]", n * 8);
    }
    s.push_str("\tcall qword ptr [rip + fn_slot]\n");
    for (n, r) in ALL.iter().enumerate() {
        let _ = writeln!(s, "\tmov [rip + st_out + {}], {r}", n * 8);
    }
    s.push_str("\tmov rsp, [rip + host_rsp]\n\tpushfq\n\tpop qword ptr [rip + st_out + 120]\n");
    for r in ["r15", "r14", "r13", "r12", "rbp", "rbx"] {
        let _ = writeln!(s, "\tpop {r}");
    }
    s.push_str("\tret\n\t.bss\n\t.balign 4096\n\t.globl st_in, st_out, app_stack, fn_slot, pages, pointers\n");
    s.push_str("pages: .skip 32768\napp_stack: .skip 8192\nst_in: .skip 128\nst_out: .skip 128\n");
    s.push_str("pointers: .skip 32\nfn_slot: .skip 8\nhost_rsp: .skip 8\n\t.text\n");
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_one_program() {
        assert_eq!(loops(3, 10), loops(3, 10));
        assert_ne!(loops(3, 10), loops(4, 10));
    }
}
