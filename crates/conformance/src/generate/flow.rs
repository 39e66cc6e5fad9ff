//! Control flow of generated sequences, flag bookkeeping, and the file around them.

use std::fmt::Write;

use super::{Features, Random};

/// The six status flags, as a set of those that hold no defined value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) const NONE: Self = Self(0);
    pub(super) const CF: Self = Self(1);
    pub(super) const PF: Self = Self(2);
    pub(super) const AF: Self = Self(4);
    pub(super) const ZF: Self = Self(8);
    pub(super) const SF: Self = Self(16);
    pub(super) const OF: Self = Self(32);
    pub(super) const ALL: Self = Self(63);

    pub(super) const fn and(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    pub(super) const fn but(self, less: Self) -> Self {
        Self(self.0 & !less.0)
    }

    const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Conditions with the flags they read.
pub(super) const CONDITIONS: [(&str, Flags); 16] = [
    ("o", Flags::OF),
    ("no", Flags::OF),
    ("c", Flags::CF),
    ("nc", Flags::CF),
    ("z", Flags::ZF),
    ("nz", Flags::ZF),
    ("be", Flags::CF.and(Flags::ZF)),
    ("a", Flags::CF.and(Flags::ZF)),
    ("s", Flags::SF),
    ("ns", Flags::SF),
    ("p", Flags::PF),
    ("np", Flags::PF),
    ("l", Flags::SF.and(Flags::OF)),
    ("ge", Flags::SF.and(Flags::OF)),
    ("le", Flags::ZF.and(Flags::SF).and(Flags::OF)),
    ("g", Flags::ZF.and(Flags::SF).and(Flags::OF)),
];

/// General registers by width: 64, 32, 16, 8 bits. The stack pointer is not among them.
const REGISTERS: [[&str; 4]; 15] = [
    ["rax", "eax", "ax", "al"],
    ["rbx", "ebx", "bx", "bl"],
    ["rcx", "ecx", "cx", "cl"],
    ["rdx", "edx", "dx", "dl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["rbp", "ebp", "bp", "bpl"],
    ["r8", "r8d", "r8w", "r8b"],
    ["r9", "r9d", "r9w", "r9b"],
    ["r10", "r10d", "r10w", "r10b"],
    ["r11", "r11d", "r11w", "r11b"],
    ["r12", "r12d", "r12w", "r12b"],
    ["r13", "r13d", "r13w", "r13b"],
    ["r14", "r14d", "r14w", "r14b"],
    ["r15", "r15d", "r15w", "r15b"],
];

/// Writes one program.
pub(super) struct Writer {
    pub(super) random: Random,
    pub(super) features: Features,
    /// The function being written.
    text: String,
    /// Functions called by it.
    side: String,
    /// Jump tables and pointer slots.
    data: String,
    labels: u32,
    undefined: Flags,
    /// Registers that hold loop counters.
    reserved: Vec<usize>,
    depth: u32,
}

impl Writer {
    pub(super) fn line(&mut self, text: impl AsRef<str>) {
        self.text.push('\t');
        self.text.push_str(text.as_ref());
        self.text.push('\n');
    }

    /// Notes what an instruction did to the flags: defined those of `sets`, left `loses` undefined.
    pub(super) fn flags(&mut self, sets: Flags, loses: Flags) {
        self.undefined = self.undefined.but(sets).and(loses);
    }

    /// Makes sure that these flags are defined.
    pub(super) fn reads(&mut self, flags: Flags) {
        if self.undefined.meets(flags) {
            let (a, b) = (self.any(), self.any());
            let width = usize::from(self.random.one_in(2));
            self.line(format!(
                "cmp {}, {}",
                REGISTERS[a][width], REGISTERS[b][width]
            ));
            self.undefined = Flags::NONE;
        }
    }

    /// Any register's number: to read.
    pub(super) fn any(&mut self) -> usize {
        usize::try_from(self.random.below(15)).unwrap_or(0)
    }

    /// A register's number: to write.
    pub(super) fn free(&mut self) -> usize {
        loop {
            let r = self.any();
            if !self.reserved.contains(&r) {
                return r;
            }
        }
    }

    /// A register to write, at width 0 (64 bits) to 3 (8 bits).
    pub(super) fn dst(&mut self, width: usize) -> &'static str {
        REGISTERS[self.free()][width]
    }

    /// A register to read.
    pub(super) fn src(&mut self, width: usize) -> &'static str {
        REGISTERS[self.any()][width]
    }

    pub(super) fn is_reserved(&self, r: usize) -> bool {
        self.reserved.contains(&r)
    }

    pub(super) const fn name(r: usize, width: usize) -> &'static str {
        REGISTERS[r][width]
    }

    /// A memory operand of `size` bytes, aligned to it; may first load a base register.
    pub(super) fn memory(&mut self, size: u64, written: bool) -> String {
        let at = self.random.below(4096 / size - 4) * size;
        match self.random.below(if size <= 8 { 6 } else { 4 }) {
            0 | 1 => format!("[rip + buf + {at}]"),
            2 => {
                let base = self.dst(0);
                let off = self.random.below(64) * 8;
                self.line(format!("lea {base}, [rip + buf + {at} + {off}]"));
                format!("[{base} - {off}]")
            }
            3 => {
                let base = self.free();
                let index = self.free();
                if base == index {
                    return format!("[buf + {at}]");
                }
                let (b, i) = (REGISTERS[base][0], REGISTERS[index][0]);
                let n = self.random.below(4);
                self.line(format!("mov {}, {n}", REGISTERS[index][1]));
                self.line(format!("lea {b}, [rip + buf + {at}]"));
                match size {
                    1 | 2 | 4 | 8 => format!("[{b} + {i}*{size}]"),
                    _ => format!("[{b} + {i}*8 - {}]", n * 8),
                }
            }
            // The red zone; reads may also look at return addresses.
            _ if written || self.random.one_in(2) => {
                format!("[rsp - {}]", 8 + self.random.below(15) * 8)
            }
            _ => format!("[rsp + {}]", self.random.below(8) * 8),
        }
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!(".L{}", self.labels)
    }

    fn place(&mut self, label: &str) {
        let _ = writeln!(self.text, "{label}:");
    }

    /// `n` random instructions or constructs.
    fn block(&mut self, n: u64) {
        for _ in 0..n {
            match self.random.below(100) {
                0..12 if self.depth < 4 => self.construct(),
                12..60 => self.scalar(),
                _ => self.vector(),
            }
        }
    }

    fn construct(&mut self) {
        self.depth += 1;
        match self.random.below(10) {
            0..4 => self.branch(),
            4 => self.jump(),
            5 => self.table(),
            6 => self.repeat(),
            7 => self.stack_pair(),
            _ => self.call(),
        }
        self.depth -= 1;
    }

    fn some(&mut self) -> u64 {
        1 + self.random.below(4)
    }

    /// A forward conditional branch, short, or with an else part.
    fn branch(&mut self) {
        let (end, n) = (self.label(), self.some());
        if self.random.one_in(8) {
            self.line(format!("jrcxz {end}"));
            let before = self.undefined;
            let r = self.dst(0);
            self.line(format!("lea {r}, [{r} + rcx]"));
            self.undefined = before;
        } else {
            let (cc, read) = self.random.pick(&CONDITIONS);
            self.reads(read);
            self.line(format!("j{cc} {end}"));
            let taken = self.undefined;
            self.block(n);
            self.undefined = self.undefined.and(taken);
        }
        self.place(&end);
    }

    /// An unconditional jump over a trap: direct, by register, by memory, by `ret`.
    fn jump(&mut self) {
        let to = self.label();
        match self.random.below(5) {
            0 => self.line(format!("jmp {to}")),
            1 => {
                let r = self.dst(0);
                self.line(format!("lea {r}, [rip + {to}]"));
                self.line(format!("jmp {r}"));
            }
            2 => {
                let slot = self.slot(std::slice::from_ref(&to));
                self.line(format!("jmp qword ptr [rip + {slot}]"));
            }
            3 => {
                let r = self.dst(0);
                self.line(format!("lea {r}, [rip + {to}]"));
                self.line(format!("mov [rsp - 40], {r}"));
                self.line("jmp qword ptr [rsp - 40]");
            }
            _ => {
                let r = self.dst(0);
                self.line(format!("lea {r}, [rip + {to}]"));
                self.line(format!("push {r}"));
                self.line("ret");
            }
        }
        self.line("ud2");
        self.place(&to);
    }

    fn slot(&mut self, targets: &[String]) -> String {
        let name = self.label();
        let _ = writeln!(self.data, "{name}: .quad {}", targets.join(", "));
        name
    }

    /// A jump through a table of four, by an index from live bits.
    fn table(&mut self) {
        let (end, cases) = (self.label(), [0; 4].map(|_| self.label()));
        let slot = self.slot(&cases);
        let index = self.free();
        let (wide, narrow) = (REGISTERS[index][0], REGISTERS[index][1]);
        self.line(format!("and {narrow}, 3"));
        self.flags(Flags::ALL.but(Flags::AF), Flags::AF);
        self.line(format!("jmp qword ptr [{slot} + {wide}*8]"));
        let entry = self.undefined;
        let mut out = Flags::NONE;
        for case in &cases {
            self.place(case);
            self.undefined = entry;
            let n = self.some();
            self.block(n);
            out = out.and(self.undefined);
            self.line(format!("jmp {end}"));
        }
        self.undefined = out;
        self.place(&end);
    }

    /// A counted loop: `loop`, `dec; jnz` or `sub; jnz`.
    fn repeat(&mut self) {
        let counter = if self.random.one_in(3) {
            2
        } else {
            self.free()
        };
        if self.reserved.contains(&counter) {
            return;
        }
        let (head, n) = (self.label(), self.some());
        let times = 1 + self.random.below(6);
        self.line(format!("mov {}, {times}", REGISTERS[counter][1]));
        self.reserved.push(counter);
        self.place(&head);
        self.undefined = Flags::ALL;
        self.block(n);
        match (counter, self.random.below(2)) {
            (2, _) => {
                // `loop` reaches 128 bytes: it goes back in two steps.
                let (back, out) = (self.label(), self.label());
                self.line(format!("loop {back}"));
                self.line(format!("jmp {out}"));
                self.place(&back);
                self.line(format!("jmp {head}"));
                self.place(&out);
            }
            (_, 0) => {
                self.line(format!("dec {}", REGISTERS[counter][0]));
                self.flags(Flags::ALL.but(Flags::CF), Flags::NONE);
                self.line(format!("jnz {head}"));
            }
            _ => {
                self.line(format!("sub {}, 1", REGISTERS[counter][1]));
                self.flags(Flags::ALL, Flags::NONE);
                self.line(format!("jnz {head}"));
            }
        }
        self.reserved.pop();
    }

    fn stack_pair(&mut self) {
        let n = self.some();
        match self.random.below(4) {
            0 => {
                self.reads(Flags::ALL);
                self.line("pushfq");
            }
            1 => {
                let at = self.memory(8, false);
                self.line(format!("push qword ptr {at}"));
            }
            2 => self.line(format!("push {}", self.labels % 2000)),
            _ => {
                let r = self.src(0);
                self.line(format!("push {r}"));
            }
        }
        self.block(n);
        match self.random.below(3) {
            0 => self.line(format!(
                "pop qword ptr [rip + buf + {}]",
                self.labels % 500 * 8
            )),
            1 => self.line("lea rsp, [rsp + 8]"),
            _ => {
                let r = self.dst(0);
                self.line(format!("pop {r}"));
            }
        }
    }

    /// A call of a function made here: direct, by register, by memory, over the stack.
    fn call(&mut self) {
        let name = self.label();
        let popped = self.random.below(3) * 8;
        for n in 0..popped / 8 {
            self.line(format!("push {}", n + 7));
        }
        match self.random.below(5) {
            0 | 1 => self.line(format!("call {name}")),
            2 => {
                let r = self.dst(0);
                self.line(format!("lea {r}, [rip + {name}]"));
                self.line(format!("call {r}"));
            }
            3 => {
                let slot = self.slot(std::slice::from_ref(&name));
                self.line(format!("call qword ptr [rip + {slot}]"));
            }
            _ => {
                let r = self.dst(0);
                self.line(format!("lea {r}, [rip + {name}]"));
                self.line(format!("mov [rsp - 16], {r}"));
                self.line("call qword ptr [rsp - 16]");
            }
        }
        let caller = std::mem::take(&mut self.text);
        self.place(&name);
        let n = self.some() + 2;
        self.block(n);
        if popped > 0 {
            self.line(format!("ret {popped}"));
        } else {
            self.line("ret");
        }
        let body = std::mem::replace(&mut self.text, caller);
        self.side.push_str(&body);
    }
}

/// The assembly text of `count` sequences from `seed`.
pub fn program(seed: u64, count: u64, features: Features) -> String {
    let mut w = Writer {
        random: Random::new(seed),
        features,
        text: String::new(),
        side: String::new(),
        data: String::new(),
        labels: 0,
        undefined: Flags::NONE,
        reserved: Vec::new(),
        depth: 0,
    };
    let mut out = String::from("\t.intel_syntax noprefix\n\t.text\n");
    out.push_str(&frame(features));
    for n in 0..count {
        w.undefined = Flags::NONE;
        w.place(&format!("seq_{n}"));
        let size = 10 + w.random.below(40);
        w.block(size);
        w.reads(Flags::ALL);
        w.line("ret");
        out.push_str(&std::mem::take(&mut w.text));
        out.push_str(&std::mem::take(&mut w.side));
    }
    out.push_str("\t.data\n\t.balign 64\n");
    out.push_str(&w.data);
    out.push_str("\t.globl sequences, sequence_count\nsequence_count:\n");
    let _ = writeln!(out, "\t.quad {count}\nsequences:");
    for n in 0..count {
        let _ = writeln!(out, "\t.quad seq_{n}");
    }
    out.push_str("\t.section .note.GNU-stack,\"\",@progbits\n");
    out
}

/// `run_sequence`: loads the state, calls `fn_slot`, stores the state.
fn frame(features: Features) -> String {
    let order = [
        "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    let (count, reg, mov) = match (features.avx512, features.avx2) {
        (true, _) => (32, "zmm", "vmovdqu64"),
        (false, true) => (16, "ymm", "vmovdqu"),
        _ => (16, "xmm", "movdqu"),
    };
    let mut s = String::from("\t.globl run_sequence\nrun_sequence:\n");
    for r in ["rbx", "rbp", "r12", "r13", "r14", "r15"] {
        let _ = writeln!(s, "\tpush {r}");
    }
    s.push_str(
        "\tmov [host_rsp], rsp\n\tstmxcsr [host_mxcsr]\n\tldmxcsr [st_in + 136]\n\tfninit\n",
    );
    for n in 0..count {
        let _ = writeln!(s, "\t{mov} {reg}{n}, [st_in + {}]", 208 + n * 64);
    }
    if features.avx512 {
        for n in 0..8 {
            let _ = writeln!(s, "\tkmovq k{n}, [st_in + {}]", 144 + n * 8);
        }
    }
    s.push_str("\tlea rsp, [app_stack + 8000]\n\tpush qword ptr [st_in + 128]\n\tpopfq\n");
    for (n, r) in order.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
        let _ = writeln!(s, "\tmov {r}, [st_in + {}]", n * 8);
    }
    s.push_str("\tcall qword ptr [fn_slot]\n");
    for (n, r) in order.iter().enumerate() {
        let r = if r.is_empty() { "rsp" } else { r };
        let _ = writeln!(s, "\tmov [st_out + {}], {r}", n * 8);
    }
    s.push_str("\tmov rsp, [host_rsp]\n\tpushfq\n\tpop qword ptr [st_out + 128]\n\tcld\n\tstmxcsr [st_out + 136]\n");
    if features.avx512 {
        for n in 0..8 {
            let _ = writeln!(s, "\tkmovq [st_out + {}], k{n}", 144 + n * 8);
        }
    }
    for n in 0..count {
        let _ = writeln!(s, "\t{mov} [st_out + {}], {reg}{n}", 208 + n * 64);
    }
    if features.avx2 {
        s.push_str("\tvzeroupper\n");
    }
    // The x87 image without its instruction and data pointers, which are not the program's to keep.
    s.push_str("\tfnsave [st_out + 2256]\n");
    for at in [12, 16, 20, 24] {
        let _ = writeln!(s, "\tmov dword ptr [st_out + 2256 + {at}], 0");
    }
    s.push_str("\tldmxcsr [host_mxcsr]\n");
    for r in ["r15", "r14", "r13", "r12", "rbp", "rbx"] {
        let _ = writeln!(s, "\tpop {r}");
    }
    s.push_str("\tret\n\t.bss\n\t.balign 64\n\t.globl st_in, st_out, buf, app_stack, fn_slot\n");
    s.push_str("buf: .skip 4096\napp_stack: .skip 8192\nst_in: .skip 2368\nst_out: .skip 2368\n");
    s.push_str("fn_slot: .skip 8\nhost_rsp: .skip 8\nhost_mxcsr: .skip 8\n\t.text\n");
    s
}
