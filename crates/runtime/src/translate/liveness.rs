//! Whether anybody looks at the app's flags.
//!
//! # Strategy
//! From an app address on, instructions are looked at one after the other, through direct jumps and calls, until one gives
//! all status flags but the carry new values, or looks at one of them, or leads to where nobody knows. Only the encodings
//! that programs mostly consist of are known; all others count as ones that look.
//!
//! # Why it is correct
//! The code that is looked at belongs to files and is not writable. The fragment is listed under its pages, as if it
//! had been made from it; so it is retired before that code is other code (`cache/suspect.rs`).

use super::{Site, Translator, readable};
use crate::cache::AppPc;
use crate::decode::{Class, Insn, Reader};
use crate::pages::page_of;
use crate::region::{Lookup, Nature};

/// Instructions that are looked at.
const FAR: usize = 12;

/// What an instruction has to do with the status flags but the carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// It gives all of them new values without a look at them.
    Overwrites,
    /// It looks at none of them.
    Ignores,
    /// It may look at them.
    Looks,
}

impl Translator {
    /// Whether the app's flags, the carry aside, are overwritten from `pc` on before they are looked at.
    pub(super) fn flags_are_dead(&mut self, site: &mut Site<'_>, pc: AppPc) -> bool {
        if self.from.made {
            return false;
        }
        let mut pc = pc;
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
                if first.last != page && !self.pages.contains(&page) {
                    self.pages.push(page);
                }
                first.last = page;
            }
            match insn.class {
                Class::Plain => {}
                Class::Jmp(to) | Class::Call(to) => {
                    pc = to;
                    reader = None;
                    continue;
                }
                _ => break,
            }
            match uses(&code[..size]) {
                Use::Overwrites => return true,
                Use::Looks => break,
                Use::Ignores => {}
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
        last: translator.pages.last().copied().unwrap_or(u64::MAX),
    }
}

/// What a plain instruction does.
fn uses(bytes: &[u8]) -> Use {
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
    let Some((&opcode, rest)) = rest.split_first() else {
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

    /// What is said of an instruction holds for what another decoder says of it.
    #[test]
    fn nothing_is_said_that_another_decoder_denies() {
        let (mut overwrites, mut ignores) = (0, 0);
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
                    let new = i.rflags_written()
                        | i.rflags_cleared()
                        | i.rflags_set()
                        | i.rflags_undefined();
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
    }
}
