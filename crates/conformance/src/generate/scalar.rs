//! Integer instructions of generated sequences.

use super::flow::{CONDITIONS, Flags, Writer};

const PTR: [&str; 4] = ["qword ptr", "dword ptr", "word ptr", "byte ptr"];
const BITS: [u64; 4] = [64, 32, 16, 8];

impl Writer {
    /// One integer instruction, or a few that belong together.
    pub(super) fn scalar(&mut self) {
        match self.random.below(22) {
            0..6 => self.arithmetic(),
            6 | 7 => self.shift(),
            8 => self.multiply(),
            9 => self.divide(),
            10 | 11 => self.moves(),
            12 | 13 => self.conditional(),
            14 => self.bits(),
            15 => self.exchange(),
            16 => self.strings(),
            17 | 18 if self.features.bmi => self.bmi(),
            19 => self.unary(),
            20 => self.flag_words(),
            _ => self.address(),
        }
    }

    fn width(&mut self) -> usize {
        self.random.pick(&[0, 0, 1, 1, 1, 2, 3])
    }

    fn operand(&mut self, width: usize, written: bool) -> String {
        if self.random.one_in(3) {
            let at = self.memory(BITS[width] / 8, written);
            format!("{} {at}", PTR[width])
        } else if written {
            self.dst(width).to_owned()
        } else {
            self.src(width).to_owned()
        }
    }

    fn arithmetic(&mut self) {
        let op = self.random.pick(&[
            "add", "sub", "adc", "sbb", "and", "or", "xor", "cmp", "test",
        ]);
        let width = self.width();
        if matches!(op, "adc" | "sbb") {
            self.reads(Flags::CF);
        }
        let to = self.operand(width, true);
        let from = match self.random.below(3) {
            0 => {
                let immediate = self.random.pick(&[1, 7, 100, -1, -128, 127, 0]);
                immediate.to_string()
            }
            1 if !to.contains('[') && op != "test" => {
                let at = self.memory(BITS[width] / 8, false);
                // The base of the operand may be the destination: that is fine, it is read first.
                format!("{} {at}", PTR[width])
            }
            _ => self.src(width).to_owned(),
        };
        self.line(format!("{op} {to}, {from}"));
        if matches!(op, "and" | "or" | "xor" | "test") {
            self.flags(Flags::ALL.but(Flags::AF), Flags::AF);
        } else {
            self.flags(Flags::ALL, Flags::NONE);
        }
    }

    fn unary(&mut self) {
        let op = self.random.pick(&["inc", "dec", "neg", "not"]);
        let width = self.width();
        let to = self.operand(width, true);
        self.line(format!("{op} {to}"));
        match op {
            "inc" | "dec" => self.flags(Flags::ALL.but(Flags::CF), Flags::NONE),
            "neg" => self.flags(Flags::ALL, Flags::NONE),
            _ => {}
        }
    }

    fn shift(&mut self) {
        let width = self.width();
        let op = self.random.pick(&[
            "shl", "shr", "sar", "rol", "ror", "rcl", "rcr", "shld", "shrd",
        ]);
        if matches!(op, "shld" | "shrd") {
            let width = width.min(1);
            let (to, from) = (self.operand(width, true), self.src(width));
            let n = 1 + self.random.below(BITS[width] - 1);
            self.line(format!("{op} {to}, {from}, {n}"));
            return self.flags(Flags::ALL, Flags::AF.and(Flags::OF));
        }
        let rotate = op.starts_with('r');
        if op.starts_with("rc") {
            self.reads(Flags::CF);
        }
        let to = self.operand(width, true);
        let loses = if rotate {
            Flags::OF
        } else {
            Flags::OF.and(Flags::AF)
        };
        if self.random.one_in(3) {
            // A count of zero leaves the flags alone: then what was undefined stays so.
            self.line(format!("{op} {to}, cl"));
            let loses = if width >= 2 {
                loses.and(Flags::CF)
            } else {
                loses
            };
            self.flags(Flags::NONE, loses);
        } else {
            let n = 1 + self.random.below(BITS[width] - 1);
            self.line(format!("{op} {to}, {n}"));
            let sets = if rotate { Flags::CF } else { Flags::ALL };
            self.flags(sets, loses);
        }
    }

    fn multiply(&mut self) {
        let width = self.random.pick(&[0, 1, 2]);
        let loses = Flags::ALL.but(Flags::CF).but(Flags::OF);
        match self.random.below(3) {
            0 if !self.is_reserved(0) && !self.is_reserved(3) => {
                let op = self.random.pick(&["mul", "imul"]);
                let from = self.operand(width, false);
                self.line(format!("{op} {from}"));
            }
            1 => {
                let (to, from) = (self.dst(width), self.operand(width, false));
                self.line(format!("imul {to}, {from}"));
            }
            _ => {
                let (to, from) = (self.dst(width), self.operand(width, false));
                self.line(format!("imul {to}, {from}, 77"));
            }
        }
        self.flags(Flags::ALL, loses);
    }

    fn divide(&mut self) {
        let by = self.free();
        if by == 0 || by == 3 || self.is_reserved(0) || self.is_reserved(3) {
            return;
        }
        let width = self.random.pick(&[0, 1]);
        let by = Self::name(by, width);
        self.line(format!("or {by}, 1"));
        if self.random.one_in(2) {
            self.line("xor edx, edx");
            self.line(format!("div {by}"));
        } else {
            self.line("shr rax, 33");
            self.line(if width == 0 { "cqo" } else { "cdq" });
            self.line(format!("idiv {by}"));
        }
        self.flags(Flags::NONE, Flags::ALL);
    }

    fn moves(&mut self) {
        match self.random.below(6) {
            0 => {
                let (to, width) = (self.dst(0), self.random.pick(&[2, 3]));
                let op = self.random.pick(&["movzx", "movsx"]);
                let from = self.operand(width, false);
                self.line(format!("{op} {to}, {from}"));
            }
            1 => {
                let (to, from) = (self.dst(0), self.operand(1, false));
                self.line(format!("movsxd {to}, {from}"));
            }
            2 => {
                let r = self.dst(0);
                let n = self.random.below(u64::from(u32::MAX)) << 31;
                self.line(format!("movabs {r}, {n}"));
            }
            3 => {
                let width = self.width();
                let (at, from) = (self.memory(BITS[width] / 8, true), self.src(width));
                self.line(format!("mov {} {at}, {from}", PTR[width]));
            }
            4 if self.features.bmi => {
                let (to, at) = (self.dst(1), self.memory(4, false));
                self.line(format!("movbe {to}, dword ptr {at}"));
            }
            _ => {
                let width = self.width();
                let (to, from) = (self.dst(width), self.operand(width, false));
                self.line(format!("mov {to}, {from}"));
            }
        }
    }

    fn conditional(&mut self) {
        let (cc, read) = self.random.pick(&CONDITIONS);
        if self.random.one_in(2) {
            let to = self.operand(3, true);
            self.reads(read);
            self.line(format!("set{cc} {to}"));
        } else {
            let width = self.random.pick(&[0, 1, 2]);
            let from = self.operand(width, false);
            self.reads(read);
            let to = self.dst(width);
            self.line(format!("cmov{cc} {to}, {from}"));
        }
    }

    fn bits(&mut self) {
        let width = self.random.pick(&[0, 1]);
        match self.random.below(4) {
            0 | 1 => {
                let op = self.random.pick(&["bt", "bts", "btr", "btc"]);
                let to = self.operand(width, true);
                if to.contains('[') || self.random.one_in(2) {
                    let n = self.random.below(32);
                    self.line(format!("{op} {to}, {n}"));
                } else {
                    let by = self.src(width);
                    self.line(format!("{op} {to}, {by}"));
                }
                let loses = Flags::OF.and(Flags::SF).and(Flags::AF).and(Flags::PF);
                self.flags(Flags::CF, loses);
            }
            2 => {
                let (from, to) = (self.dst(width), self.dst(width));
                let op = self.random.pick(&["bsf", "bsr"]);
                self.line(format!("or {from}, 8"));
                self.line(format!("{op} {to}, {from}"));
                self.flags(Flags::ZF, Flags::ALL.but(Flags::ZF));
            }
            _ => {
                let (to, from) = (self.dst(width), self.operand(width, false));
                self.line(format!("popcnt {to}, {from}"));
                self.flags(Flags::ALL, Flags::NONE);
            }
        }
    }

    fn exchange(&mut self) {
        let width = self.width();
        let lock = if self.random.one_in(2) { "lock " } else { "" };
        match self.random.below(5) {
            0 => {
                let (at, r) = (self.memory(BITS[width] / 8, true), self.dst(width));
                self.line(format!("xchg {} {at}, {r}", PTR[width]));
            }
            1 => {
                let (at, r) = (self.memory(BITS[width] / 8, true), self.dst(width));
                self.line(format!("{lock}xadd {} {at}, {r}", PTR[width]));
                self.flags(Flags::ALL, Flags::NONE);
            }
            2 if !self.is_reserved(0) => {
                let (at, r) = (self.memory(BITS[width] / 8, true), self.src(width));
                self.line(format!("{lock}cmpxchg {} {at}, {r}", PTR[width]));
                self.flags(Flags::ALL, Flags::NONE);
            }
            3 if !self.is_reserved(0) && !self.is_reserved(3) => {
                let at = self.random.below(250) * 16;
                self.line(format!("{lock}cmpxchg16b xmmword ptr [rip + buf + {at}]"));
                self.flags(Flags::ZF, Flags::NONE);
            }
            _ => {
                let r = self.dst(0);
                self.line(format!("bswap {r}"));
            }
        }
    }

    /// String instructions with a bounded count, both directions.
    fn strings(&mut self) {
        if [0, 2, 4, 5].iter().any(|&r| self.is_reserved(r)) {
            return;
        }
        let (suffix, size) = self.random.pick(&[("b", 1), ("w", 2), ("d", 4), ("q", 8)]);
        let down = self.random.one_in(3);
        let from = 1024 + self.random.below(128) * 8;
        let to = 2048 + self.random.below(128) * 8;
        self.line(format!("lea rsi, [rip + buf + {from}]"));
        self.line(format!("lea rdi, [rip + buf + {to}]"));
        if down {
            self.line("std");
        }
        let n = self.random.below(600 / size / 4);
        let op = self.random.pick(&["movs", "stos", "lods", "cmps", "scas"]);
        if self.random.one_in(4) {
            self.line(format!("{op}{suffix}"));
        } else {
            self.line(format!("mov ecx, {n}"));
            let prefix = match op {
                "cmps" | "scas" => self.random.pick(&["repe", "repne"]),
                _ => "rep",
            };
            self.line(format!("{prefix} {op}{suffix}"));
        }
        if matches!(op, "cmps" | "scas") && n > 0 {
            self.flags(Flags::ALL, Flags::NONE);
        }
        if down {
            self.line("cld");
        }
    }

    fn flag_words(&mut self) {
        match self.random.below(5) {
            0 if !self.is_reserved(0) => {
                self.reads(Flags::ALL.but(Flags::OF));
                self.line("lahf");
            }
            1 => {
                self.line("sahf");
                self.flags(Flags::ALL.but(Flags::OF), Flags::NONE);
            }
            2 => {
                self.reads(Flags::CF);
                self.line("cmc");
            }
            _ => {
                let op = self.random.pick(&["stc", "clc"]);
                self.line(op);
                self.flags(Flags::CF, Flags::NONE);
            }
        }
    }

    fn address(&mut self) {
        let (to, base, index) = (self.dst(0), self.src(0), self.src(0));
        let scale = self.random.pick(&[1, 2, 4, 8]);
        match self.random.below(5) {
            0 => self.line(format!("lea {to}, [rip + buf + {scale}]")),
            1 => self.line(format!("lea {to}, [rsp - {scale}]")),
            2 => self.line(format!("mov {to}, rsp")),
            _ => self.line(format!("lea {to}, [{base} + {index}*{scale} - 77]")),
        }
    }

    fn bmi(&mut self) {
        let width = self.random.pick(&[0, 1]);
        let (to, by, from) = (self.dst(width), self.src(width), self.operand(width, false));
        let af_pf = Flags::AF.and(Flags::PF);
        match self.random.below(9) {
            0 => {
                self.line(format!("andn {to}, {by}, {from}"));
                self.flags(Flags::ALL, af_pf);
            }
            1 => {
                let op = self.random.pick(&["blsi", "blsr", "blsmsk"]);
                self.line(format!("{op} {to}, {from}"));
                self.flags(Flags::ALL, af_pf);
            }
            2 => {
                let op = self.random.pick(&["pdep", "pext"]);
                self.line(format!("{op} {to}, {by}, {from}"));
            }
            3 => self.line(format!("rorx {to}, {from}, 13")),
            4 => {
                let op = self.random.pick(&["shlx", "shrx", "sarx"]);
                self.line(format!("{op} {to}, {from}, {by}"));
            }
            5 => {
                let op = self.random.pick(&["lzcnt", "tzcnt"]);
                self.line(format!("{op} {to}, {from}"));
                let sets = Flags::CF.and(Flags::ZF);
                self.flags(sets, Flags::ALL.but(sets));
            }
            6 => {
                self.line(format!("bzhi {to}, {from}, {by}"));
                self.flags(Flags::ALL, af_pf);
            }
            7 => {
                let high = self.dst(width);
                if high != to {
                    self.line(format!("mulx {high}, {to}, {from}"));
                }
            }
            _ => {
                let (op, flag) = self
                    .random
                    .pick(&[("adcx", Flags::CF), ("adox", Flags::OF)]);
                self.reads(flag);
                self.line(format!("{op} {to}, {from}"));
            }
        }
    }
}
