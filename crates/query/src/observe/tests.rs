//! Tests of the facts of single instructions, with the values that the manual promises written out.

use std::collections::BTreeMap;
use std::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};

use super::*;

#[derive(Clone, Default)]
struct Fixed {
    general: [u64; 16],
    vector: [[u64; 2]; 16],
    flags: u64,
    fs: u64,
    memory: BTreeMap<u64, u8>,
}

impl Machine for Fixed {
    fn general(&self, number: u8) -> u64 {
        self.general[usize::from(number)]
    }

    fn vector(&self, number: u8) -> [u64; 2] {
        self.vector[usize::from(number)]
    }

    fn flags(&self) -> u64 {
        self.flags
    }

    fn segment(&self, segment: Segment) -> u64 {
        assert_eq!(segment, Segment::Fs);
        self.fs
    }

    fn memory(&self, address: u64, size: u8) -> Option<u64> {
        let bytes = (0..u64::from(size)).map(|n| self.memory.get(&(address + n)).copied());
        let mut value = 0;
        for (n, byte) in bytes.enumerate() {
            value |= u64::from(byte?) << (8 * n);
        }
        Some(value)
    }
}

const PC: u64 = 0x40_1000;

/// Register n holds 0x1000 · n + 0x11; memory from 0x1000 to 0xffff its address's low byte.
fn before() -> Fixed {
    let mut machine = Fixed {
        fs: 0x7000,
        ..Fixed::default()
    };
    for n in 0..16 {
        machine.general[n] = 0x1000 * n as u64 + 0x11;
        machine.vector[n] = [0x100 + n as u64, 0x200 + n as u64];
    }
    machine.memory = (0x1000..0x1_0000).map(|a| (a, a as u8)).collect();
    machine
}

fn observation(bytes: &[u8], fields: FieldSet) -> Observation {
    let i = Decoder::with_ip(64, bytes, PC, DecoderOptions::NONE).decode();
    Observation::of(&mut InstructionInfoFactory::new(), &i, fields)
}

fn every() -> FieldSet {
    let known = Field::ALL.into_iter().filter(|f| !f.is_of_pipeline());
    known.collect()
}

/// The facts of an execution that makes `after` of [`before`].
fn facts(bytes: &[u8], after: impl Fn(&mut Fixed)) -> Facts {
    let of = observation(bytes, every());
    let first = before();
    let mut second = before();
    after(&mut second);
    match of.when() {
        When::Before => of.early(&first),
        When::After => of.late(&second, of.early(&second)),
        When::Both => of.late(&second, of.early(&first)),
    }
}

fn check(text: &str, facts: &Facts, expected: &[(Field, u64)]) {
    for field in every().iter().filter(|f| *f != Field::Pc) {
        let wanted = expected.iter().find(|(f, _)| *f == field);
        let wanted = wanted.map_or(0, |(_, value)| *value);
        assert_eq!(facts.get(field), wanted, "{} of {text}", field.name());
    }
    assert_eq!(facts.get(Field::Pc), PC);
}

#[test]
fn operands_and_results_are_where_the_manual_says() {
    use Field as F;
    type Case = (
        &'static str,
        &'static [u8],
        fn(&mut Fixed),
        &'static [(Field, u64)],
    );
    let nothing: fn(&mut Fixed) = |_| {};
    // The little-endian words of memory at 0x7011 and 0x7021.
    const AT_7011: u64 = 0x1817_1615_1413_1211;
    let cases: &[Case] = &[
        (
            "mov rax, [rdi]",
            &[0x48, 0x8b, 0x07],
            |m| m.general[0] = AT_7011,
            &[(F::Op2, 0x7011), (F::Res1, AT_7011), (F::Res2, 0x7011)],
        ),
        (
            "mov edi, [rdi + rbx*4 + 8]",
            &[0x8b, 0x7c, 0x9f, 0x08],
            |m| m.general[7] = 1,
            &[
                (F::Op2, 0x7019),
                (F::Op3, 0xc044),
                (F::Res2, 0x1_305d),
                (F::Res1, 0),
            ],
        ),
        (
            "add ax, [rdi]",
            &[0x66, 0x03, 0x07],
            |m| m.general[0] = 0x1222,
            &[
                (F::Op1, 0x11),
                (F::Op2, 0x7011),
                (F::Res1, 0x1211),
                (F::Res2, 0x7011),
            ],
        ),
        (
            "cmp [rdi], ah",
            &[0x38, 0x27],
            nothing,
            &[
                (F::Op1, 0),
                (F::Op2, 0x7011),
                (F::Res1, 0x11),
                (F::Res2, 0x7011),
            ],
        ),
        (
            "mov rax, fs:[0x10]",
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0x10, 0, 0, 0],
            nothing,
            &[
                (F::Op2, 0x7010),
                (F::Res1, 0x1716_1514_1312_1110),
                (F::Res2, 0x7010),
            ],
        ),
        (
            "mov rax, [rip + 0]",
            &[0x48, 0x8b, 0x05, 0, 0, 0, 0],
            nothing,
            &[(F::Op2, PC + 7), (F::Res2, PC + 7)],
        ),
        (
            "pop rbx",
            &[0x5b],
            |m| {
                m.general[3] = 5;
                m.general[4] += 8;
            },
            &[(F::Op2, 0x4011), (F::Res1, AT_7011), (F::Res2, 0x4011)],
        ),
        (
            "movups xmm1, [rdi]",
            &[0x0f, 0x10, 0x0f],
            nothing,
            &[
                (F::Op2, 0x7011),
                (F::Res1, AT_7011),
                (F::Res1Up, 0x201f_1e1d_1c1b_1a19),
                (F::Res2, 0x7011),
            ],
        ),
        (
            "mov [rdi], cx",
            &[0x66, 0x89, 0x0f],
            nothing,
            &[(F::Op1, 0x1011), (F::Op2, 0x7011), (F::Res2, 0x7011)],
        ),
        (
            "mov dword [rdi], -2",
            &[0xc7, 0x07, 0xfe, 0xff, 0xff, 0xff],
            nothing,
            &[(F::Op1, 0xffff_fffe), (F::Op2, 0x7011), (F::Res2, 0x7011)],
        ),
        (
            "add [rdi], rcx",
            &[0x48, 0x01, 0x0f],
            |m| {
                m.memory.insert(0x7011, 0xff);
            },
            &[
                (F::Op1, AT_7011 | 0xff),
                (F::Op2, 0x7011),
                (F::Res2, 0x7011),
            ],
        ),
        (
            "push rsp",
            &[0x54],
            |m| m.general[4] -= 8,
            &[(F::Op1, 0x4011), (F::Op2, 0x4009), (F::Res2, 0x4009)],
        ),
        (
            "push -1",
            &[0x6a, 0xff],
            |m| m.general[4] -= 8,
            &[(F::Op1, u64::MAX), (F::Op2, 0x4009), (F::Res2, 0x4009)],
        ),
        (
            "rep stosb",
            &[0xf3, 0xaa],
            |m| {
                m.general[7] += 3;
                m.memory.insert(0x7011, 9);
            },
            &[(F::Op1, 9), (F::Op2, 0x7011), (F::Res2, 0x7011)],
        ),
        (
            "add rax, rcx",
            &[0x48, 0x01, 0xc8],
            |m| m.general[0] = 7,
            &[(F::Op1, 0x11), (F::Op2, 0x1011), (F::Res1, 7)],
        ),
        (
            "add eax, -1",
            &[0x83, 0xc0, 0xff],
            |m| m.general[0] = 7,
            &[(F::Op1, 0x11), (F::Op2, 0xffff_ffff), (F::Res1, 7)],
        ),
        (
            "cmp rcx, rdx",
            &[0x48, 0x39, 0xd1],
            nothing,
            &[(F::Op1, 0x1011), (F::Op2, 0x2011)],
        ),
        (
            "lea rdi, [rdi + rbx*2 + 1]",
            &[0x48, 0x8d, 0x7c, 0x5f, 0x01],
            |m| m.general[7] = 3,
            &[(F::Op1, 0x7012), (F::Op2, 0x6022), (F::Res1, 3)],
        ),
        (
            "xchg rcx, rdx",
            &[0x48, 0x87, 0xd1],
            |m| m.general.swap(1, 2),
            &[
                (F::Op1, 0x1011),
                (F::Op2, 0x2011),
                (F::Res1, 0x2011),
                (F::Res1Up, 0x1011),
            ],
        ),
        ("cqo", &[0x48, 0x99], |m| m.general[2] = 0, &[(F::Res1, 0)]),
        (
            "mul rcx",
            &[0x48, 0xf7, 0xe1],
            |m| (m.general[0], m.general[2]) = (3, 4),
            &[
                (F::Op1, 0x1011),
                (F::Op2, 0x11),
                (F::Res1, 3),
                (F::Res1Up, 4),
            ],
        ),
        (
            "div rcx",
            &[0x48, 0xf7, 0xf1],
            |m| (m.general[0], m.general[2]) = (3, 4),
            &[
                (F::Op1, 0x1011),
                (F::Op2, 0x11),
                (F::Op3, 0x2011),
                (F::Res1, 3),
                (F::Res1Up, 4),
            ],
        ),
        (
            "paddq xmm1, xmm2",
            &[0x66, 0x0f, 0xd4, 0xca],
            |m| m.vector[1] = [8, 9],
            &[
                (F::Op1, 0x101),
                (F::Op1Up, 0x201),
                (F::Op2, 0x102),
                (F::Op2Up, 0x202),
                (F::Res1, 8),
                (F::Res1Up, 9),
            ],
        ),
        (
            "jmp rcx",
            &[0xff, 0xe1],
            nothing,
            &[(F::Op1, 0x1011), (F::Res1, 0x1011), (F::Misc, 1)],
        ),
        (
            "call [rdi + 8]",
            &[0xff, 0x57, 0x08],
            nothing,
            &[
                (F::Op1, AT_7011 + 0x0808_0808_0808_0808),
                (F::Op2, 0x7019),
                (F::Res1, AT_7011 + 0x0808_0808_0808_0808),
                (F::Res2, 0x7019),
                (F::Misc, 1),
            ],
        ),
        (
            "ret",
            &[0xc3],
            nothing,
            &[
                (F::Op1, AT_7011),
                (F::Op2, 0x4011),
                (F::Res1, AT_7011),
                (F::Res2, 0x4011),
                (F::Misc, 1),
            ],
        ),
        (
            "call +2",
            &[0xe8, 2, 0, 0, 0],
            nothing,
            &[(F::Res1, PC + 7), (F::Misc, 1)],
        ),
        ("je +2", &[0x74, 2], nothing, &[(F::Res1, PC + 2)]),
        (
            "jne +2",
            &[0x75, 2],
            nothing,
            &[(F::Res1, PC + 4), (F::Misc, 1)],
        ),
        (
            "loop +2",
            &[0xe2, 2],
            nothing,
            &[(F::Res1, PC + 4), (F::Misc, 1)],
        ),
        ("jrcxz +2", &[0xe3, 2], nothing, &[(F::Res1, PC + 2)]),
        (
            "syscall",
            &[0x0f, 0x05],
            nothing,
            &[(F::Op1, 0x11), (F::Op2, 0x7011), (F::Op3, 0x6011)],
        ),
    ];
    for (text, bytes, after, expected) in cases {
        check(text, &facts(bytes, after), expected);
    }
}

#[test]
fn once_is_enough_where_nothing_that_is_wanted_is_overwritten() {
    let fields = |list: &[Field]| list.iter().copied().collect::<FieldSet>();
    let cases: &[(&[u8], &[Field], When)] = &[
        // mov rax, [rax]
        (&[0x48, 0x8b, 0x00], &[Field::Pc], When::After),
        (&[0x48, 0x8b, 0x00], &[Field::Res1], When::Both),
        // mov rax, [rdi]
        (
            &[0x48, 0x8b, 0x07],
            &[Field::Res1, Field::Res2],
            When::After,
        ),
        // mov [rdi], rax; push rax; pop rax
        (&[0x48, 0x89, 0x07], &[Field::Op1, Field::Res2], When::After),
        (&[0x50], &[Field::Op1, Field::Res2], When::After),
        (&[0x58], &[Field::Res1, Field::Res2], When::After),
        // add rax, rcx
        (&[0x48, 0x01, 0xc8], &[Field::Op2, Field::Res1], When::After),
        (&[0x48, 0x01, 0xc8], &[Field::Op1], When::Both),
        // je
        (&[0x74, 2], &[Field::Pc], When::Before),
    ];
    for (bytes, list, when) in cases {
        let of = observation(bytes, fields(list));
        assert_eq!(of.when(), *when, "{bytes:x?} {list:?}");
    }
}

#[test]
fn conditions_are_those_of_the_processor() {
    // jo to jg, and flags: overflow, sign, zero, parity, carry.
    let taken = |condition: u8, flags: u64| {
        let of = observation(&[0x70 | condition, 2], every());
        let machine = Fixed { flags, ..before() };
        of.early(&machine).get(Field::Misc) == 1
    };
    let all: Vec<u64> = (0..32)
        .map(|n| {
            (n & 1) | (n >> 1 & 1) << 2 | (n >> 2 & 1) << 6 | (n >> 3 & 1) << 7 | (n >> 4) << 11
        })
        .collect();
    for flags in all {
        let (c, p, z) = (flags & 1 != 0, flags & 4 != 0, flags & 0x40 != 0);
        let (s, o) = (flags & 0x80 != 0, flags & 0x800 != 0);
        let even = [o, c, z, c | z, s, p, s != o, z | (s != o)];
        for (n, holds) in even.into_iter().enumerate() {
            let condition = 2 * n as u8;
            assert_eq!(taken(condition, flags), holds, "{condition} {flags:x}");
            assert_eq!(taken(condition + 1, flags), !holds, "{condition} {flags:x}");
        }
    }
}

proptest::proptest! {
    /// The checker warns of comparisons with fields that it takes to be 0: they are, of whatever instruction.
    #[test]
    fn fields_that_the_checker_takes_for_zero_are(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 15)) {
        let i = Decoder::with_ip(64, &bytes, PC, DecoderOptions::NONE).decode();
        // The machine has one segment.
        if !i.is_invalid() && i.segment_prefix() != iced_x86::Register::GS {
            let of = observation(&bytes, every());
            let machine = before();
            let facts = of.late(&machine, of.early(&machine));
            for field in Field::ALL {
                let zero = crate::check::bounds::is_zero(of.operation, field);
                proptest::prop_assert!(!zero || facts.get(field) == 0, "{:?}: {}", i.code(), field.name());
            }
        }
    }
}
