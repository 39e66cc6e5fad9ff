//! Tests of the properties of decoded instructions, and of the agreement of both decoders.

use super::*;

fn read(code: &[u8], pc: u64) -> Insn {
    let mut insn = Insn::plain();
    Reader::new(code, AppPc(pc)).read(&mut insn);
    insn
}

fn class(code: &[u8]) -> Class {
    read(code, 0x1000).class
}

#[test]
fn every_way_to_leave_is_distinct() {
    assert_eq!(class(&[0x74, 0x10]), Class::Jcc(4, AppPc(0x1012)));
    assert_eq!(
        class(&[0x0f, 0x8f, 0, 1, 0, 0]),
        Class::Jcc(15, AppPc(0x1106))
    );
    assert_eq!(class(&[0xe2, 0xfe]), Class::ShortBranch(AppPc(0x1000)));
    assert_eq!(class(&[0xeb, 0x00]), Class::Jmp(AppPc(0x1002)));
    assert_eq!(class(&[0xe8, 0, 0, 0, 0]), Class::Call(AppPc(0x1005)));
    assert_eq!(class(&[0xff, 0xe0]), Class::JmpIndirect);
    assert_eq!(class(&[0xff, 0x10]), Class::CallIndirect);
    assert_eq!(class(&[0xc3]), Class::Ret(0));
    assert_eq!(class(&[0xf3, 0xc3]), Class::Ret(0));
    assert_eq!(class(&[0xc2, 8, 0]), Class::Ret(8));
    assert_eq!(class(&[0x0f, 0x05]), Class::Syscall);
    assert_eq!(class(&[0x0f, 0x34]), Class::Unsupported);
    assert_eq!(class(&[0xcd, 0x80]), Class::Unsupported);
    assert_eq!(class(&[0xcc]), Class::Plain);
    assert_eq!(class(&[0x0f, 0x0b]), Class::Plain);
    assert_eq!(class(&[0xf4]), Class::Plain);
    assert_eq!(class(&[0x06]), Class::Unknown);
    assert_eq!(class(&[0xcb]), Class::Unsupported);
    assert_eq!(
        class(&[0x65, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]),
        Class::Gs
    );
    assert_eq!(
        class(&[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0]),
        Class::Plain
    );
    // A GS prefix on an instruction without memory means nothing.
    assert_eq!(class(&[0x65, 0x90]), Class::Plain);
}

#[test]
fn the_displacement_of_a_rip_operand_is_found_before_an_immediate() {
    let i = read(&[0x48, 0xc7, 0x05, 1, 2, 3, 4, 5, 6, 7, 8], 0);
    assert_eq!((i.rip_disp, i.size()), (3, 11));
    assert_eq!(read(&[0x48, 0x89, 0xd8], 0).rip_disp, 0);
}

#[test]
fn loads_are_those_of_the_definition() {
    let cases: &[(&str, &[u8], Option<Load>)] = &[
        (
            "mov rax,[rdi]",
            &[0x48, 0x8b, 0x07],
            Some(Load::After(Reg::RAX)),
        ),
        (
            "mov r9d,[rdi]",
            &[0x44, 0x8b, 0x0f],
            Some(Load::After(Reg(9))),
        ),
        ("mov al,[rdi]", &[0x8a, 0x07], Some(Load::Before(1))),
        ("mov ax,[rdi]", &[0x66, 0x8b, 0x07], Some(Load::Before(2))),
        (
            "movzx eax,byte[rdi]",
            &[0x0f, 0xb6, 0x07],
            Some(Load::After(Reg::RAX)),
        ),
        (
            "movsx eax,byte[rdi]",
            &[0x0f, 0xbe, 0x07],
            Some(Load::Before(1)),
        ),
        (
            "movsxd rax,[rdi]",
            &[0x48, 0x63, 0x07],
            Some(Load::Before(4)),
        ),
        (
            "cmove eax,[rdi]",
            &[0x0f, 0x44, 0x07],
            Some(Load::Before(4)),
        ),
        ("pop rbx", &[0x5b], Some(Load::After(Reg::RBX))),
        ("pop rsp", &[0x5c], Some(Load::BeforeStack(8))),
        ("leave", &[0xc9], Some(Load::After(Reg::RBP))),
        ("add rax,[rdi]", &[0x48, 0x03, 0x07], Some(Load::Before(8))),
        (
            "imul qword[rdi]",
            &[0x48, 0xf7, 0x2f],
            Some(Load::Before(8)),
        ),
        ("div dword[rdi]", &[0xf7, 0x37], Some(Load::Before(4))),
        (
            "xchg [rdi],rax",
            &[0x48, 0x87, 0x07],
            Some(Load::After(Reg::RAX)),
        ),
        ("xchg [rdi],al", &[0x86, 0x07], Some(Load::Before(1))),
        (
            "xadd [rdi],rax",
            &[0x48, 0x0f, 0xc1, 0x07],
            Some(Load::After(Reg::RAX)),
        ),
        (
            "movups xmm1,[rdi]",
            &[0x0f, 0x10, 0x0f],
            Some(Load::AfterXmm(1)),
        ),
        (
            "movsd xmm1,[rdi]",
            &[0xf2, 0x0f, 0x10, 0x0f],
            Some(Load::AfterXmm(1)),
        ),
        (
            "movhps xmm1,[rdi]",
            &[0x0f, 0x16, 0x0f],
            Some(Load::Before(8)),
        ),
        (
            "addss xmm1,[rdi]",
            &[0xf3, 0x0f, 0x58, 0x0f],
            Some(Load::Before(4)),
        ),
        (
            "vpaddd ymm1,ymm0,[rdi]",
            &[0xc5, 0xfd, 0xfe, 0x0f],
            Some(Load::Before(8)),
        ),
        ("fld dword[rdi]", &[0xd9, 0x07], Some(Load::Before(4))),
        ("fld tbyte[rdi]", &[0xdb, 0x2f], Some(Load::Before(8))),
        ("fadd qword[rdi]", &[0xdc, 0x07], Some(Load::Before(8))),
        ("lodsb", &[0xac], Some(Load::AfterPartRax(1))),
        ("lodsq", &[0x48, 0xad], Some(Load::After(Reg::RAX))),
        ("xlat", &[0xd7], Some(Load::Xlat)),
        (
            "paddd mm0,[rdi]",
            &[0x0f, 0xfe, 0x07],
            Some(Load::Before(8)),
        ),
        (
            "crc32 eax,dword[rdi]",
            &[0xf2, 0x0f, 0x38, 0xf1, 0x07],
            Some(Load::Before(4)),
        ),
        ("cmp rax,[rdi]", &[0x48, 0x3b, 0x07], None),
        ("test [rdi],eax", &[0x85, 0x07], None),
        ("bt [rdi],1", &[0x0f, 0xba, 0x27, 1], None),
        ("add [rdi],rax", &[0x48, 0x01, 0x07], None),
        ("cmpxchg [rdi],rcx", &[0x48, 0x0f, 0xb1, 0x0f], None),
        ("push [rdi]", &[0xff, 0x37], None),
        ("pop [rdi]", &[0x8f, 0x07], None),
        ("mov [rdi],rax", &[0x48, 0x89, 0x07], None),
        ("lea rax,[rdi]", &[0x48, 0x8d, 0x07], None),
        ("nop [rdi]", &[0x0f, 0x1f, 0x07], None),
        ("ret", &[0xc3], None),
        ("call [rdi]", &[0xff, 0x17], None),
        ("movsq", &[0x48, 0xa5], None),
        ("rep cmpsb", &[0xf3, 0xa6], None),
        ("scasb", &[0xae], None),
        ("ucomiss xmm1,[rdi]", &[0x0f, 0x2e, 0x0f], None),
        ("ptest xmm1,[rdi]", &[0x66, 0x0f, 0x38, 0x17, 0x0f], None),
        ("fcom dword[rdi]", &[0xd8, 0x17], None),
        ("fldcw [rdi]", &[0xd9, 0x2f], None),
        ("ldmxcsr [rdi]", &[0x0f, 0xae, 0x17], None),
        ("prefetcht0 [rdi]", &[0x0f, 0x18, 0x0f], None),
        ("vgatherdps", &[0xc4, 0xe2, 0x69, 0x92, 0x0c, 0x07], None),
        ("popfq", &[0x9d], None),
        ("mov ds,[rdi]", &[0x8e, 0x1f], None),
    ];
    for (name, code, expect) in cases {
        let load = read(code, 0x1000).load;
        assert_eq!(load, *expect, "{name}");
    }
}

#[test]
fn registers_are_overwritten_by_what_does_not_read_them() {
    let of = |code: &[u8]| read(code, 0).overwrites;
    let cases: &[(&str, &[u8], Option<Reg>)] = &[
        ("mov ecx,eax", &[0x89, 0xc1], Some(Reg::RCX)),
        ("mov rcx,[rdx]", &[0x48, 0x8b, 0x0a], Some(Reg::RCX)),
        ("mov rcx,[rcx]", &[0x48, 0x8b, 0x09], None),
        ("mov rcx,[rax+rcx]", &[0x48, 0x8b, 0x0c, 0x08], None),
        ("mov cl,al", &[0x88, 0xc1], None),
        ("mov cx,ax", &[0x66, 0x89, 0xc1], None),
        ("mov [rcx],rdx", &[0x48, 0x89, 0x11], None),
        ("mov edx,1", &[0xba, 1, 0, 0, 0], Some(Reg::RDX)),
        ("movzx edx,cl", &[0x0f, 0xb6, 0xd1], Some(Reg::RDX)),
        ("movzx edx,dl", &[0x0f, 0xb6, 0xd2], None),
        ("movsx rdx,dh", &[0x0f, 0xbe, 0xd6], None),
        (
            "lea rdx,[rip]",
            &[0x48, 0x8d, 0x15, 0, 0, 0, 0],
            Some(Reg::RDX),
        ),
        ("pop rdx", &[0x5a], Some(Reg::RDX)),
        ("xor edx,edx", &[0x31, 0xd2], Some(Reg::RDX)),
        ("xor edx,ecx", &[0x31, 0xca], None),
        ("add edx,ecx", &[0x01, 0xca], None),
        ("cmove edx,ecx", &[0x0f, 0x44, 0xd1], None),
        ("xchg rcx,rdx", &[0x48, 0x87, 0xca], None),
    ];
    for (name, code, expect) in cases {
        assert_eq!(of(code), *expect, "{name}");
    }
}

#[test]
fn method_tables_are_bases_of_calls() {
    let of = |code: &[u8]| read(code, 0).method_table();
    assert_eq!(of(&[0xff, 0x50, 0x10]), Some(Reg::RAX));
    assert_eq!(of(&[0x41, 0xff, 0x53, 0x10]), Some(Reg(11)));
    assert_eq!(of(&[0xff, 0x54, 0x24, 0x10]), None);
    assert_eq!(of(&[0xff, 0x15, 0, 0, 0, 0]), None);
    assert_eq!(of(&[0xff, 0xd0]), None);
    assert_eq!(of(&[0xff, 0x14, 0xc7]), None);
}

/// Compares the two decoders at the start of `code`. Gives whether the quick one took it.
fn compare(code: &[u8; quick::WINDOW]) -> bool {
    let pc = AppPc(0x5555_0000_1000);
    let mut quick = Insn::plain();
    if !quick::decode(code, pc, &mut quick) {
        return false;
    }
    let mut full = full::decode(code, pc);
    if full.class == Class::Unknown {
        // The copy is refused by the CPU as the original is; nothing else is done with it.
        assert!(matches!(quick.class, Class::Plain), "{quick:?} {code:x?}");
        return true;
    }
    assert_eq!(
        quick.used & full.used,
        full.used,
        "{quick:?} {full:?} {code:x?}"
    );
    full.used = quick.used;
    // What ModRM names matters for memory and for the targets of branches.
    if full.class == Class::Plain && matches!(full.rm, Rm::Register(_)) {
        full.rm = Rm::None;
    }
    // The displacement is asked for to load the operand only.
    if let (Rm::Memory(a), Rm::Memory(b), None) = (quick.rm, &mut full.rm, quick.load) {
        b.disp = if quick.class == Class::Plain && quick.rip_disp == 0 {
            a.disp
        } else {
            b.disp
        };
    }
    assert_eq!(quick, full, "{code:x?}");
    true
}

#[test]
fn both_decoders_agree_on_every_opcode() {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let escapes: &[&[u8]] = &[
        &[],
        &[0x0f],
        &[0x0f, 0x38],
        &[0x0f, 0x3a],
        &[0xc5, 0xff],
        &[0xc4, 0xff, 0xff],
        &[0x62, 0xff, 0xff, 0xff],
    ];
    let prefixes: &[&[u8]] = &[
        &[],
        &[],
        &[0x66],
        &[0xf3],
        &[0xf2],
        &[0xf0],
        &[0x64],
        &[0x2e],
        &[0x3e],
        &[0x65],
        &[0x67],
        &[0x66, 0xf3],
        &[0x66, 0x2e],
        &[0xf3, 0x64],
    ];
    let mut taken = 0;
    for _ in 0..120 {
        for escape in escapes {
            for prefix in prefixes {
                for opcode in 0..=255_u8 {
                    let mut code = [0_u8; quick::WINDOW];
                    for chunk in code.chunks_mut(8) {
                        chunk.copy_from_slice(&random().to_le_bytes());
                    }
                    let mut at = prefix.len();
                    code[..at].copy_from_slice(prefix);
                    let bits = random() as u8;
                    if !matches!(escape.first(), Some(0xc4 | 0xc5 | 0x62)) && bits & 3 != 0 {
                        code[at] = 0x40 | bits >> 4;
                        at += 1;
                    }
                    for byte in *escape {
                        code[at] = *byte & if *byte == 0xff { random() as u8 } else { 0xff };
                        at += 1;
                    }
                    // The map, which random bytes rarely name; and no third operand, mostly.
                    match escape.first() {
                        Some(0xc4) => {
                            code[at - 2] = code[at - 2] & 0xe0 | (bits & 3);
                            if bits & 4 != 0 {
                                code[at - 1] |= 0x78;
                            }
                        }
                        Some(0xc5) if bits & 4 != 0 => code[at - 1] |= 0x78,
                        Some(0x62) => {
                            code[at - 3] = code[at - 3] & 0xf0 | (bits & 3);
                            code[at - 2] |= 4;
                            if bits & 4 != 0 {
                                code[at - 2] |= 0x78;
                                code[at - 1] = code[at - 1] & 0x60 | 8;
                            }
                        }
                        _ => {}
                    }
                    code[at] = opcode;
                    taken += usize::from(compare(&code));
                }
            }
        }
    }
    assert!(taken > 200_000, "{taken}");
}

#[test]
fn both_decoders_agree_on_a_library() {
    extern crate std;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    let library = maps
        .lines()
        .filter_map(|l| l.split_whitespace().nth(5))
        .find(|path| path.contains("libc.so"))
        .expect("this test is linked with a C library");
    let bytes = std::fs::read(library).expect("readable");
    let taken = bytes
        .windows(quick::WINDOW)
        .filter_map(|code| code.first_chunk())
        .filter(|code| compare(code))
        .count();
    assert!(taken > bytes.len() / 3, "{taken} of {}", bytes.len());
}
