//! Liveness of the app's flags.
//!
//! # Strategy
//! Instructions are looked at from an app address on, through direct jumps and calls. The walk ends at one that overwrites
//! all status flags but the carry, that reads one of them, or that leads to an unknown address. If the carry matters,
//! the walk goes on until an instruction does so with the carry, too. Only the encodings that programs mostly consist of
//! are known. All others count as reads.
//!
//! # Why it is correct
//! The code that is looked at belongs to files and is not writable. The fragment is listed under its pages, as if it
//! had been made from it; so it is retired before that code is other code (`cache/suspect.rs`). Where it is kept, that code is kept
//! with it, to be compared ([`persisted`](super::persisted)).

use super::{Site, Translator, readable};
use crate::base::address::AppPc;
use crate::base::decode::{Class, Insn, Reader};
use crate::memory::mapping::Nature;
use crate::memory::pages::page_of;
use crate::memory::region::Lookup;

/// Instructions that are looked at.
const FAR: usize = 12;

/// Use of the status flags but the carry, or of the carry, by an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// It gives all of them new values without a look at them.
    Overwrites,
    /// It looks at none of them.
    Ignores,
    /// It may look at them.
    Looks,
}

/// Flags that have not been overwritten yet.
#[derive(Clone, Copy)]
struct Left {
    /// Any but the carry.
    others: bool,
    carry: bool,
}

impl Left {
    /// Goes on after an instruction. `Some`: whether they all were overwritten.
    fn after(&mut self, bytes: &[u8]) -> Option<bool> {
        for (left, uses) in [
            (&mut self.others, uses as fn(&[u8]) -> Use),
            (&mut self.carry, uses_of_carry),
        ] {
            if *left {
                match uses(bytes) {
                    Use::Overwrites => *left = false,
                    Use::Looks => return Some(false),
                    Use::Ignores => {}
                }
            }
        }
        (!self.others && !self.carry).then_some(true)
    }
}

impl Translator {
    /// Returns true if the app's flags, the carry aside, are overwritten from `pc` on before they are read.
    pub(super) fn flags_are_dead(&mut self, site: &mut Site<'_>, pc: AppPc) -> bool {
        let left = Left {
            others: true,
            carry: false,
        };
        self.are_dead(site, pc, left)
    }

    /// Returns true if all of the app's flags are overwritten before they are read. The walk begins with the rest of
    /// the fragment's main line, which leads on to `end` or ends in a transfer.
    pub(super) fn all_flags_are_dead(
        &mut self,
        site: &mut Site<'_>,
        rest: &[Insn],
        end: Option<AppPc>,
    ) -> bool {
        let mut left = Left {
            others: true,
            carry: true,
        };
        for (n, insn) in rest.iter().enumerate() {
            if n == FAR {
                return false;
            }
            match insn.class {
                Class::Plain => {}
                Class::Jmp(_) => continue,
                Class::Call(to) => return self.are_dead(site, to, left),
                _ => return false,
            }
            if let Some(dead) = left.after(self.bytes_of(insn)) {
                return dead;
            }
        }
        end.is_some_and(|end| self.are_dead(site, end, left))
    }

    fn are_dead(&mut self, site: &mut Site<'_>, pc: AppPc, left: Left) -> bool {
        if self.job.from.made {
            return false;
        }
        let before = self.job.notes.looked.len();
        let dead = self.look(site, pc, left);
        if !dead {
            // What was seen there is of no consequence.
            self.job.notes.looked.truncate(before);
        }
        dead
    }

    fn look(&mut self, site: &mut Site<'_>, pc: AppPc, mut left: Left) -> bool {
        let mut pc = pc;
        let mut run = pc;
        let mut insn = Insn::plain();
        let mut reader: Option<Reader<'_>> = None;
        let mut code: &[u8] = &[];
        let mut first = pages_before(self);
        for _ in 0..FAR {
            if reader.is_none() {
                let (Lookup::Code(region), false) = site.regions.find(pc, site.pages) else {
                    break;
                };
                if site.regions.known[region].nature() != Nature::Fixed {
                    break;
                }
                let Some(bytes) = readable(site.regions, pc, region) else {
                    break;
                };
                code = bytes;
                reader = Some(Reader::new(bytes, pc));
            }
            let Some(reader_now) = reader.as_mut() else {
                break;
            };
            reader_now.read(&mut insn);
            let size = insn.size();
            if size == 0 || size > code.len() {
                break;
            }
            for page in [page_of(pc.0), page_of(insn.next().0 - 1)] {
                if first.last != page && !self.job.pages.contains(&page) {
                    self.job.pages.push(page);
                }
                first.last = page;
            }
            match insn.class {
                Class::Plain => {}
                Class::Jmp(to) | Class::Call(to) => {
                    self.note_look(run, insn.next());
                    (pc, run) = (to, to);
                    reader = None;
                    continue;
                }
                _ => break,
            }
            if let Some(dead) = left.after(&code[..size]) {
                self.note_look(run, insn.next());
                return dead;
            }
            code = &code[size..];
            pc = insn.next();
        }
        false
    }
}

/// The page that was noted last.
struct Noted {
    last: u64,
}

fn pages_before(translator: &Translator) -> Noted {
    Noted {
        last: translator.job.pages.last().copied().unwrap_or(u64::MAX),
    }
}

/// The opcode of a plain instruction, and what follows it.
fn opcode_of(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let mut rest = bytes;
    let mut legacy = true;
    while let [first, after @ ..] = rest {
        match first {
            0x66 | 0x67 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0xf0 | 0xf2 | 0xf3 if legacy => {}
            0x40..=0x4f if legacy => legacy = false,
            _ => break,
        }
        rest = after;
    }
    rest.split_first().map(|(opcode, rest)| (*opcode, rest))
}

/// Returns true if an instruction neither reads nor writes any status flag.
pub(super) fn leaves_flags(bytes: &[u8]) -> bool {
    let Some((opcode, rest)) = opcode_of(bytes) else {
        return false;
    };
    match opcode {
        // Moves and hints; movzx, movsx, bswap.
        0x0f => matches!(
            rest.first(),
            Some(0x10..=0x17 | 0x1f | 0x28 | 0x29 | 0x6e | 0x6f | 0x7e | 0x7f | 0xb6 | 0xb7)
                | Some(0xbe | 0xbf | 0xc8..=0xcf | 0xd6)
        ),
        // push, pop, movsxd, push, xchg, mov, lea, nop, cbw, cwd
        0x50..=0x5f | 0x63 | 0x68 | 0x6a | 0x86..=0x8b | 0x8d | 0x90..=0x99 => true,
        // movs, stos, lods, mov, leave
        0xa4 | 0xa5 | 0xaa..=0xad | 0xb0..=0xbf | 0xc6 | 0xc7 | 0xc9 => true,
        _ => false,
    }
}

/// Returns the use of the carry by a plain instruction.
fn uses_of_carry(bytes: &[u8]) -> Use {
    let Some((opcode, rest)) = opcode_of(bytes) else {
        return Use::Looks;
    };
    let modrm = rest.first().copied().unwrap_or_default();
    let field = modrm >> 3 & 7;
    match (opcode, uses(bytes)) {
        (_, Use::Looks) => Use::Looks,
        // cmovb, cmovae, setb, setae
        (0x0f, _) if matches!(modrm, 0x42 | 0x43 | 0x92 | 0x93) => Use::Looks,
        // adc, sbb
        (0x10..=0x1f, _) => Use::Looks,
        (0x80 | 0x81 | 0x83, _) if matches!(field, 2 | 3) => Use::Looks,
        // rcl, rcr
        (0xc0 | 0xc1 | 0xd0..=0xd3, _) if matches!(field, 2 | 3) => Use::Looks,
        // inc, dec
        (0xfe | 0xff, _) => Use::Ignores,
        (_, uses) => uses,
    }
}

/// Returns the use of all flags but the carry by a plain instruction.
fn uses(bytes: &[u8]) -> Use {
    let Some((opcode, rest)) = opcode_of(bytes) else {
        return Use::Looks;
    };
    let modrm = rest.first().copied().unwrap_or_default();
    let field = modrm >> 3 & 7;
    match opcode {
        0x0f => uses_0f(rest),
        // add, or, adc, sbb, and, sub, xor, cmp
        0x00..=0x3f if opcode & 7 < 6 => Use::Overwrites,
        0x80 | 0x81 | 0x83 => Use::Overwrites,
        // test
        0x84 | 0x85 | 0xa8 | 0xa9 => Use::Overwrites,
        // push, pop, movsxd, push, imul
        0x50..=0x5f | 0x63 | 0x68..=0x6b => Use::Ignores,
        // xchg, mov, lea, pop, nop, cbw, cwd
        0x86..=0x8b | 0x8d | 0x8f | 0x90..=0x99 => Use::Ignores,
        // movs, stos, lods, mov
        0xa4 | 0xa5 | 0xaa..=0xad | 0xb0..=0xbf | 0xc6 | 0xc7 | 0xc9 => Use::Ignores,
        // Shifts and rotations, which look at the carry alone.
        0xc0 | 0xc1 | 0xd0..=0xd3 => Use::Ignores,
        // VEX
        0xc4 | 0xc5 => Use::Ignores,
        // x87, but for fcmov
        0xd8 | 0xd9 | 0xdc..=0xdf => Use::Ignores,
        0xda | 0xdb if modrm < 0xc0 => Use::Ignores,
        // test, neg; not, mul, div
        0xf6 | 0xf7 if matches!(field, 0 | 1 | 3) => Use::Overwrites,
        0xf6 | 0xf7 => Use::Ignores,
        // inc, dec; push
        0xfe | 0xff if field < 2 => Use::Overwrites,
        0xff if field == 6 => Use::Ignores,
        _ => Use::Looks,
    }
}

fn uses_0f(rest: &[u8]) -> Use {
    let Some((&opcode, rest)) = rest.split_first() else {
        return Use::Looks;
    };
    match opcode {
        // ucomis, comis
        0x2e | 0x2f => Use::Overwrites,
        // Moves of vectors, hints, conversions.
        0x10..=0x18 | 0x1e..=0x1f | 0x28..=0x2d => Use::Ignores,
        // cmovb, cmovae, setb, setae
        0x42 | 0x43 | 0x92 | 0x93 => Use::Ignores,
        0x50..=0x76 | 0x7e | 0x7f => Use::Ignores,
        // bt and so on, shld, shrd, imul, movzx, movsx, bsf, bsr, popcnt, bswap
        0xa3..=0xa5 | 0xab..=0xad | 0xaf | 0xb3 | 0xb6..=0xb8 | 0xba..=0xbf => Use::Ignores,
        0xc2 | 0xc4..=0xc6 | 0xc8..=0xcf | 0xd0..=0xfe => Use::Ignores,
        // cmpxchg, xadd
        0xb0 | 0xb1 | 0xc0 | 0xc1 => Use::Overwrites,
        // All but adcx and adox.
        0x38 if rest.first() != Some(&0xf6) => Use::Ignores,
        0x3a => Use::Ignores,
        _ => Use::Looks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Decoder, DecoderOptions, RflagsBits};

    const STATUS: u32 =
        RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::PF;

    /// Uses of instructions agree with those that another decoder reports.
    #[test]
    fn nothing_is_said_that_another_decoder_denies() {
        let (mut overwrites, mut ignores, mut leaves, mut carry) = (0, 0, 0, 0);
        for start in 0..=0xffff_u16 {
            for (prefix, third) in [
                (&[][..], 0x12),
                (&[], 0xc3),
                (&[], 0xe8),
                (&[0x48], 0xe9),
                (&[0x66], 7),
                (&[0xf3], 0xc1),
                (&[0xf2, 0x41], 0x44),
            ] {
                for fourth in [0x11, 0xc0, 0xf7] {
                    let mut bytes = [0x11; 20];
                    bytes[..prefix.len()].copy_from_slice(prefix);
                    let at = prefix.len();
                    bytes[at..at + 2].copy_from_slice(&start.to_le_bytes());
                    bytes[at + 2] = third;
                    bytes[at + 3] = fourth;
                    let i = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).decode();
                    if i.is_invalid() || i.code() == Code::Nopd {
                        continue;
                    }
                    let said = uses(&bytes[..i.len()]);
                    if leaves_flags(&bytes[..i.len()]) {
                        leaves += 1;
                        let touched = i.rflags_modified() | i.rflags_read();
                        assert!(touched & (STATUS | RflagsBits::CF) == 0, "{bytes:x?}");
                    }
                    let new = i.rflags_written()
                        | i.rflags_cleared()
                        | i.rflags_set()
                        | i.rflags_undefined();
                    match uses_of_carry(&bytes[..i.len()]) {
                        Use::Looks => {}
                        Use::Overwrites => {
                            carry += 1;
                            assert!(new & RflagsBits::CF != 0, "{bytes:x?}");
                            assert!(i.rflags_read() & RflagsBits::CF == 0, "{bytes:x?}");
                        }
                        Use::Ignores => {
                            assert!(i.rflags_read() & RflagsBits::CF == 0, "{bytes:x?}");
                        }
                    }
                    match said {
                        Use::Looks => continue,
                        Use::Overwrites => {
                            overwrites += 1;
                            assert!(new & STATUS == STATUS, "{bytes:x?}");
                        }
                        Use::Ignores => ignores += 1,
                    }
                    assert!(i.rflags_read() & STATUS == 0, "{said:?} {bytes:x?}");
                }
            }
        }
        assert!(
            overwrites > 20_000 && ignores > 50_000,
            "{overwrites} {ignores}"
        );
        assert!(leaves > 20_000 && carry > 20_000, "{leaves} {carry}");
    }
}
