//! SSE, AVX, AVX-512 and x87 instructions of generated sequences.

use super::flow::{Flags, Writer};

/// Two-operand SSE instructions and their AVX three-operand forms.
const PACKED: [&str; 28] = [
    "paddb",
    "paddw",
    "paddd",
    "paddq",
    "psubb",
    "psubd",
    "pmullw",
    "pmuludq",
    "pand",
    "por",
    "pxor",
    "pandn",
    "pcmpeqb",
    "pcmpgtd",
    "pmaxub",
    "pminsw",
    "punpcklbw",
    "punpckhdq",
    "packuswb",
    "pshufb",
    "phaddd",
    "pmulhuw",
    "pavgb",
    "addps",
    "mulpd",
    "subps",
    "maxpd",
    "unpcklps",
];

/// Forms that AVX-512 has with masks, 32-bit lanes.
const MASKED: [&str; 10] = [
    "vpaddd", "vpsubd", "vpandd", "vpord", "vpxord", "vpmulld", "vpmaxsd", "vpminud", "vaddps",
    "vmulps",
];

impl Writer {
    /// One vector or x87 instruction, or a few that belong together.
    pub(super) fn vector(&mut self) {
        match self.random.below(12) {
            0..3 => self.sse(),
            3..6 if self.features.avx2 => self.avx(),
            6..9 if self.features.avx512 => self.avx512(),
            9 => self.x87(),
            10 => self.convert(),
            _ => self.vector_moves(),
        }
    }

    fn number(&mut self) -> u64 {
        self.random.below(16)
    }

    fn sse(&mut self) {
        let op = self.random.pick(&PACKED);
        let to = self.number();
        if self.random.one_in(3) {
            let at = self.memory(16, false);
            self.line(format!("{op} xmm{to}, xmmword ptr {at}"));
        } else {
            let from = self.number();
            self.line(format!("{op} xmm{to}, xmm{from}"));
        }
    }

    fn avx(&mut self) {
        let op = self.random.pick(&PACKED);
        let (to, a, b) = (self.number(), self.number(), self.number());
        match self.random.below(10) {
            0..3 => self.line(format!("v{op} ymm{to}, ymm{a}, ymm{b}")),
            3 | 4 => {
                let at = self.memory(32, false);
                self.line(format!("v{op} ymm{to}, ymm{a}, ymmword ptr {at}"));
            }
            5 => self.line(format!("v{op} xmm{to}, xmm{a}, xmm{b}")),
            6 => self.line(format!("vpermq ymm{to}, ymm{a}, {}", b * 13)),
            7 => self.line(format!("vinserti128 ymm{to}, ymm{a}, xmm{b}, 1")),
            8 => {
                let at = self.memory(8, false);
                self.line(format!("vpbroadcastq ymm{to}, qword ptr {at}"));
            }
            _ if self.random.one_in(6) => self.line("vzeroupper"),
            _ => self.line(format!("vfmadd231pd ymm{to}, ymm{a}, ymm{b}")),
        }
    }

    fn avx512(&mut self) {
        let n = |w: &mut Self| w.random.below(32);
        let (to, a, b) = (n(self), n(self), n(self));
        let k = 1 + self.random.below(7);
        let zero = self.random.pick(&["", "{z}"]);
        let op = self.random.pick(&MASKED);
        match self.random.below(12) {
            0..3 => self.line(format!("{op} zmm{to}{{k{k}}}{zero}, zmm{a}, zmm{b}")),
            3 => {
                let at = self.memory(64, false);
                self.line(format!(
                    "{op} zmm{to}{{k{k}}}{zero}, zmm{a}, zmmword ptr {at}"
                ));
            }
            4 => {
                let at = self.memory(4, false);
                self.line(format!("{op} zmm{to}, zmm{a}, dword ptr {at}{{1to16}}"));
            }
            5 => self.line(format!("vpcmpud k{k}, zmm{a}, zmm{b}, {}", to % 8)),
            6 => self.line(format!("vpternlogd zmm{to}, zmm{a}, zmm{b}, {}", k * 31)),
            7 => {
                let r = self.dst(0);
                self.line(format!("kmovq {r}, k{k}"));
            }
            8 => {
                let r = self.src(1);
                self.line(format!("kmovd k{k}, {r}"));
            }
            9 => {
                self.line(format!("kortestw k{k}, k{}", to % 8));
                self.flags(Flags::ALL, Flags::NONE);
            }
            10 => self.line(format!("vpcompressd zmm{to}{{k{k}}}{zero}, zmm{a}")),
            _ => {
                let at = self.memory(64, true);
                self.line(format!("vmovdqu32 zmmword ptr {at}{{k{k}}}, zmm{a}"));
            }
        }
    }

    fn vector_moves(&mut self) {
        let (to, from) = (self.number(), self.number());
        match self.random.below(6) {
            0 => {
                let at = self.memory(16, true);
                self.line(format!("movups xmmword ptr {at}, xmm{from}"));
            }
            1 => {
                let at = self.memory(16, false);
                self.line(format!("movaps xmm{to}, xmmword ptr {at}"));
            }
            2 => {
                let r = self.dst(0);
                self.line(format!("movq {r}, xmm{from}"));
            }
            3 => {
                let r = self.src(0);
                self.line(format!("movq xmm{to}, {r}"));
            }
            4 => {
                let at = self.memory(8, false);
                self.line(format!("movsd xmm{to}, qword ptr {at}"));
            }
            _ => self.line(format!("pshufd xmm{to}, xmm{from}, {}", to * 17)),
        }
    }

    fn convert(&mut self) {
        let (to, from) = (self.number(), self.number());
        match self.random.below(7) {
            0 => {
                let r = self.src(0);
                self.line(format!("cvtsi2sd xmm{to}, {r}"));
            }
            1 => {
                let r = self.dst(0);
                self.line(format!("cvttsd2si {r}, xmm{from}"));
            }
            2 => {
                let op = self.random.pick(&["ucomisd", "comiss"]);
                self.line(format!("{op} xmm{to}, xmm{from}"));
                self.flags(Flags::ALL, Flags::NONE);
            }
            3 => {
                let r = self.dst(1);
                self.line(format!("pmovmskb {r}, xmm{from}"));
            }
            4 => {
                self.line(format!("ptest xmm{to}, xmm{from}"));
                self.flags(Flags::ALL, Flags::NONE);
            }
            5 => self.line(format!("divsd xmm{to}, xmm{from}")),
            _ => self.line(format!("cvtsd2ss xmm{to}, xmm{from}")),
        }
    }

    /// A balanced x87 computation.
    fn x87(&mut self) {
        let (a, b) = (self.memory_plain(), self.memory_plain());
        self.line(format!("fld qword ptr {a}"));
        self.line(format!("fild dword ptr {b}"));
        let op = self.random.pick(&["fadd", "fmul", "fsub", "fdivr"]);
        self.line(format!("{op} st, st(1)"));
        match self.random.below(4) {
            0 => self.line("fxch st(1)"),
            1 => self.line("fsqrt"),
            2 => {
                self.line("fcomi st, st(1)");
                self.flags(Flags::ALL, Flags::NONE);
            }
            _ => self.line(format!("fmul qword ptr {b}")),
        }
        let to = self.memory_plain();
        self.line(format!("fstp qword ptr {to}"));
        self.line(format!("fstp dword ptr {a}"));
    }

    fn memory_plain(&mut self) -> String {
        format!("[rip + buf + {}]", self.random.below(500) * 8)
    }
}
