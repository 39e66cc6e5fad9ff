//! Every form decodes to what its method is named for.

use super::*;
use alloc::string::String;
use iced_x86::{Decoder, DecoderOptions, Instruction};

#[test]
fn loads_of_every_operand_decode_to_it() {
    use iced_x86::Register as R;
    let registers = || (0..16).map(|n| Some(Reg(n))).chain([None]);
    for base in registers() {
        for index in registers().filter(|r| *r != Some(Reg::RSP)) {
            for (n, disp) in [0, 8, -128, 127, 128, i32::MIN].into_iter().enumerate() {
                let (to, size) = (Reg((n * 3) as u8), 1 << (n & 3));
                let mem = Mem {
                    base,
                    index: index.map(|r| (r, n as u8 & 3)),
                    disp,
                    fs: n == 2,
                    short: n == 3,
                };
                let mut bytes = [0; 256];
                let mut c = Code::new(CachePc(0x1000), &mut bytes);
                c.load_mem(to, size, &mem);
                let i = Decoder::with_ip(64, c.bytes(), 0x1000, DecoderOptions::NONE).decode();
                assert_eq!(i.len(), c.here(), "{mem:?} {:x?}", c.bytes());
                let first = if mem.short { R::EAX } else { R::RAX };
                let name = |r: Option<Reg>| r.map_or(R::None, |r| first + u32::from(r.0));
                assert_eq!(i.memory_base(), name(base), "{mem:?}");
                assert_eq!(i.memory_index(), name(index), "{mem:?}");
                if index.is_some() {
                    assert_eq!(i.memory_index_scale(), 1 << (n & 3), "{mem:?}");
                }
                assert_eq!(i.memory_displacement64() as i32, disp, "{mem:?}");
                assert_eq!(i.segment_prefix() == R::FS, mem.fs);
                assert_eq!(i.op0_register().full_register(), R::RAX + u32::from(to.0));
                assert!(i.op0_register().size() >= 4);
                assert_eq!(i.memory_size().size(), usize::from(size));
                let mut bytes = [0; 256];
                let mut c = Code::new(CachePc(0x1000), &mut bytes);
                c.prefetch(n % 2 == 1, &mem);
                let p = Decoder::with_ip(64, c.bytes(), 0x1000, DecoderOptions::NONE).decode();
                let code = match n % 2 {
                    0 => iced_x86::Code::Prefetcht0_m8,
                    _ => iced_x86::Code::Prefetchw_m8,
                };
                assert_eq!((p.code(), p.len()), (code, c.here()), "{mem:?}");
                let parts = |i: &Instruction| {
                    let scale = i.memory_index_scale();
                    let disp = i.memory_displacement64();
                    (
                        i.memory_base(),
                        i.memory_index(),
                        scale,
                        disp,
                        i.segment_prefix(),
                    )
                };
                assert_eq!(parts(&p), parts(&i), "{mem:?}");
            }
        }
    }
    for (size, to) in [(1, 3), (2, 11), (4, 0), (8, 9)] {
        let mut bytes = [0; 256];
        let mut c = Code::new(CachePc(0x1000), &mut bytes);
        assert!(c.load_rip(Reg(to), size, 0x7fff_0000));
        let i = Decoder::with_ip(64, c.bytes(), 0x1000, DecoderOptions::NONE).decode();
        assert_eq!(i.ip_rel_memory_address(), 0x7fff_0000);
        assert_eq!(i.memory_size().size(), usize::from(size));
        assert!(!c.load_rip(Reg(to), size, 0x1_8000_2000));
    }
}

/// Every form decodes to the instruction its method names.
#[test]
fn forms_decode_as_named() {
    let mut seen = String::new();
    let mut check = |emit: &dyn Fn(&mut Code), code: iced_x86::Code, len: Option<usize>| {
        let mut bytes = [0; 256];
        let mut c = Code::new(CachePc(0x1000), &mut bytes);
        emit(&mut c);
        let i: Instruction = Decoder::with_ip(64, c.bytes(), 0x1000, DecoderOptions::NONE).decode();
        assert_eq!(i.code(), code, "{:x?}", c.bytes());
        assert_eq!(i.len(), len.unwrap_or(c.here()), "{:x?}", c.bytes());
        seen.push('.');
        i
    };
    use iced_x86::{Code as C, Register as R};
    for n in 0..16u8 {
        let full = R::RAX + u32::from(n);
        let i = check(
            &|c| c.store_gs(GsOffset(0x1234), Reg(n)),
            C::Mov_rm64_r64,
            None,
        );
        assert_eq!(
            (
                i.op1_register(),
                i.segment_prefix(),
                i.memory_displacement64()
            ),
            (full, R::GS, 0x1234)
        );
        let i = check(
            &|c| c.load_gs(Reg(n), GsOffset(0x1234)),
            C::Mov_r64_rm64,
            None,
        );
        assert_eq!(i.op0_register(), full);
        for disp in [0, 4, 127, 128, 250] {
            let i = check(
                &|c| c.store(Reg(n), disp, Reg(15 - n)),
                C::Mov_rm64_r64,
                None,
            );
            assert_eq!(
                (i.memory_base(), i.memory_displacement32(), i.memory_index()),
                (full, disp as u32, R::None)
            );
            let i = check(&|c| c.store_imm32(Reg(n), disp, 7), C::Mov_rm32_imm32, None);
            assert_eq!((i.memory_base(), i.immediate32()), (full, 7));
            let i = check(
                &|c| c.store_xmm_low(Reg(n), disp, n),
                C::Movq_xmmm64_xmm,
                None,
            );
            assert_eq!(
                (i.memory_base(), i.op1_register()),
                (full, R::XMM0 + u32::from(n))
            );
            let i = check(&|c| c.lea(Reg(15 - n), Reg(n), disp), C::Lea_r64_m, None);
            assert_eq!(
                (i.memory_base(), i.op0_register()),
                (full, R::RAX + u32::from(15 - n))
            );
            check(
                &|c| c.load(Reg(15 - n), Reg(n), disp),
                C::Mov_r64_rm64,
                None,
            );
        }
        let i = check(&|c| c.mov(Reg(n), Reg(3)), C::Mov_rm64_r64, None);
        assert_eq!((i.op0_register(), i.op1_register()), (full, R::RBX));
        check(&|c| c.pop(Reg(n)), C::Pop_r64, None);
        let i = check(&|c| c.mov_imm(Reg(n), 5), C::Mov_r32_imm32, None);
        assert_eq!(i.immediate(1), 5);
        check(&|c| c.mov_imm(Reg(n), u64::MAX), C::Mov_rm64_imm32, None);
        check(&|c| c.mov_imm(Reg(n), 1 << 40), C::Mov_r64_imm64, None);
    }
    check(
        &|c| c.store_gs_imm32(GsOffset(8), 9),
        C::Mov_rm32_imm32,
        None,
    );
    check(&|c| c.jmp_gs(GsOffset(8)), C::Jmp_rm64, None);
    let i = check(&|c| c.jmp_gs_rdx8(GsOffset(8)), C::Jmp_rm64, None);
    assert_eq!((i.memory_index(), i.memory_index_scale()), (R::RDX, 8));
    check(&|c| c.load_byte_gs_rcx(GsOffset(8)), C::Movzx_r32_rm8, None);
    check(&|c| c.add_rdx_to_rcx(), C::Lea_r64_m, None);
    check(&|c| c.low16_of_rcx_to_rdx(), C::Movzx_r32_rm16, None);
    check(&|c| c.low16_of_rdx(), C::Movzx_r32_rm16, None);
    check(&|c| c.rcx_and_offset_to_edx(9), C::Lea_r32_m, None);
    let slot = GsOffset(0x1234);
    check(&|c| c.increment_gs(slot), C::Inc_rm64, None);
    check(&|c| c.low16_of_rax_to_rcx(), C::Movzx_r32_rm16, None);
    let i = check(&|c| c.second_byte_of_rcx(), C::Movzx_r32_rm8, None);
    assert_eq!(i.op1_register(), R::CH);
    check(&|c| c.push_imm32(-1), C::Pushq_imm32, None);
    check(
        &|c| {
            c.push_rip();
        },
        C::Push_rm64,
        None,
    );
    check(
        &|c| {
            c.lea_rcx_rip();
        },
        C::Lea_r64_m,
        None,
    );
    check(
        &|c| {
            c.jmp();
        },
        C::Jmp_rel32_64,
        None,
    );
    check(
        &|c| {
            c.jcc(4);
        },
        C::Je_rel32_64,
        None,
    );
    check(
        &|c| {
            c.jrcxz();
        },
        C::Jrcxz_rel8_64,
        None,
    );
    check(&|c| c.jmp_far(1), C::Jmp_rm64, Some(6));
    assert!(seen.len() > 200);
}

#[test]
fn what_is_kept_whole_touches_no_boundary() {
    for start in 0..64 {
        for len in 1..32 {
            let mut bytes = [0; 256];
            let mut c = Code::new(CachePc(0x1000 + start), &mut bytes);
            c.keep_whole(len);
            let gap = c.here();
            let (from, to) = (start as usize + gap, start as usize + gap + len);
            // In one line; its last byte is not the line's, unless nothing is before it.
            assert!(from % 32 == 0 || to / 32 == from / 32, "{start} {len}");
            let mut decoder = Decoder::with_ip(64, c.bytes(), 0, DecoderOptions::NONE);
            let all: alloc::vec::Vec<Instruction> = decoder.iter().collect();
            assert!(all.iter().all(|i| i.mnemonic() == iced_x86::Mnemonic::Nop));
            assert!(all.len() <= gap.div_ceil(9));
        }
    }
}
