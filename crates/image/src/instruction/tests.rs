//! Tables of encodings with what they access, and laws between before and after.

use super::{Access, After, Flow, Instruction, SegmentBase};
use proptest::prelude::*;
use redhanded_model::{AccessKind, Avma, Bytes, Register, Registers, Vectors};

const AT: u64 = 0x40_1000;

fn decode(hex: &str) -> Instruction {
    let bytes: Vec<u8> = hex
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect();
    let instruction = Instruction::decode(&bytes, AT).unwrap_or_else(|| panic!("{hex} is invalid"));
    assert_eq!(instruction.len(), bytes.len(), "{hex}");
    assert_eq!(instruction.next(), AT + bytes.len() as u64);
    instruction
}

/// Distinct, recognisable values: rax 0x1000_0000, rcx 3, the others spread out.
fn registers() -> Registers {
    let mut registers = Registers {
        rip: AT,
        fs_base: 0x7000_0000_0000,
        gs_base: 0x7100_0000_0000,
        ..Registers::default()
    };
    for (number, value) in registers.gpr.iter_mut().enumerate() {
        *value = 0x1000_0000 * (number as u64 + 1);
    }
    registers.set(Register::Rcx, 3);
    registers
}

/// Each access as `kind size @ address`, `*` behind the stack engine's own.
fn describe(instruction: &Instruction) -> String {
    let registers = registers();
    let accesses: Vec<String> = instruction
        .accesses()
        .iter()
        .map(|access| {
            let bytes = access.bytes_before(&registers).unwrap();
            assert!(access.size == 0 || u64::from(access.size) == bytes.len);
            format!(
                "{} {} @ {:x}{}",
                access.kind.name(),
                bytes.len,
                bytes.start.0,
                if access.stack_engine { "*" } else { "" }
            )
        })
        .collect();
    let mut text = accesses.join(", ");
    if instruction.unsupported() {
        text.push_str("unsupported");
    }
    if instruction.locked() {
        text.push_str(" locked");
    }
    text
}

#[track_caller]
fn check(hex: &str, text: &str, expect: &str) {
    let instruction = decode(hex);
    assert_eq!(instruction.text(), text, "{hex}");
    assert_eq!(describe(&instruction), expect, "{text}");
}

#[test]
fn moves() {
    check("8b 00", "mov eax, dword ptr [rax]", "read 4 @ 10000000");
    check(
        "48 8b 43 08",
        "mov rax, qword ptr [rbx+8]",
        "read 8 @ 40000008",
    );
    check("88 07", "mov byte ptr [rdi], al", "write 1 @ 80000000");
    check("66 89 07", "mov word ptr [rdi], ax", "write 2 @ 80000000");
    check(
        "c7 07 01 00 00 00",
        "mov dword ptr [rdi], 1",
        "write 4 @ 80000000",
    );
    check("0f b6 07", "movzx eax, byte ptr [rdi]", "read 1 @ 80000000");
    check("0f bf 07", "movsx eax, word ptr [rdi]", "read 2 @ 80000000");
    check(
        "48 63 07",
        "movsxd rax, dword ptr [rdi]",
        "read 4 @ 80000000",
    );
    check(
        "48 8b 44 8a 10",
        "mov rax, qword ptr [rdx+rcx*4+0x10]",
        "read 8 @ 3000001c",
    );
    check(
        "0f 44 07",
        "cmove eax, dword ptr [rdi]",
        "read 4 @ 80000000",
    );
    check(
        "48 0f c3 07",
        "movnti qword ptr [rdi], rax",
        "write 8 @ 80000000",
    );
    check(
        "0f 38 f0 07",
        "movbe eax, dword ptr [rdi]",
        "read 4 @ 80000000",
    );
}

#[test]
fn addressing() {
    // rip-relative: the displacement counts from the next instruction.
    check(
        "8b 05 10 00 00 00",
        "mov eax, dword ptr [0x401016]",
        "read 4 @ 401016",
    );
    // 32-bit addresses wrap.
    check(
        "67 8b 40 ff",
        "mov eax, dword ptr [eax-1]",
        "read 4 @ fffffff",
    );
    check(
        "64 8b 07",
        "mov eax, dword ptr fs:[rdi]",
        "read 4 @ 700080000000",
    );
    check(
        "65 8b 07",
        "mov eax, dword ptr gs:[rdi]",
        "read 4 @ 710080000000",
    );
    check(
        "64 48 8b 04 25 28 00 00 00",
        "mov rax, qword ptr fs:[0x28]",
        "read 8 @ 700000000028",
    );
    check(
        "48 a1 88 77 66 55 44 33 00 00",
        "mov rax, qword ptr [0x334455667788]",
        "read 8 @ 334455667788",
    );
    check(
        "a2 88 77 66 55 44 33 00 00",
        "mov byte ptr [0x334455667788], al",
        "write 1 @ 334455667788",
    );
    check("8b 04 24", "mov eax, dword ptr [rsp]", "read 4 @ 50000000");
    let relative = decode("8b 05 10 00 00 00").accesses()[0];
    assert!(relative.operand.rip_relative);
    assert_eq!(relative.operand.constant(), Some(0x40_1016));
    let local = decode("64 8b 07").accesses()[0];
    assert_eq!(local.operand.segment, SegmentBase::Fs);
}

#[test]
fn updates() {
    check("83 07 01", "add dword ptr [rdi], 1", "update 4 @ 80000000");
    check("ff 07", "inc dword ptr [rdi]", "update 4 @ 80000000");
    check("80 0f 04", "or byte ptr [rdi], 4", "update 1 @ 80000000");
    check("f7 17", "not dword ptr [rdi]", "update 4 @ 80000000");
    check("d1 27", "shl dword ptr [rdi], 1", "update 4 @ 80000000");
    check("0f 94 07", "sete byte ptr [rdi]", "write 1 @ 80000000");
    check("83 3f 01", "cmp dword ptr [rdi], 1", "read 4 @ 80000000");
    check("84 07", "test byte ptr [rdi], al", "read 1 @ 80000000");
    check("03 07", "add eax, dword ptr [rdi]", "read 4 @ 80000000");
    check("f7 27", "mul dword ptr [rdi]", "read 4 @ 80000000");
    check(
        "0f b1 0f",
        "cmpxchg dword ptr [rdi], ecx",
        "update 4 @ 80000000",
    );
    check(
        "0f c1 07",
        "xadd dword ptr [rdi], eax",
        "update 4 @ 80000000",
    );
}

#[test]
fn locked_instructions() {
    check(
        "87 07",
        "xchg dword ptr [rdi], eax",
        "update 4 @ 80000000 locked",
    );
    check(
        "f0 0f c1 07",
        "lock xadd dword ptr [rdi], eax",
        "update 4 @ 80000000 locked",
    );
    check(
        "f0 ff 07",
        "lock inc dword ptr [rdi]",
        "update 4 @ 80000000 locked",
    );
    check(
        "f0 48 0f b1 0f",
        "lock cmpxchg qword ptr [rdi], rcx",
        "update 8 @ 80000000 locked",
    );
    check(
        "f0 48 0f c7 0f",
        "lock cmpxchg16b xmmword ptr [rdi]",
        "update 16 @ 80000000 locked",
    );
    check(
        "48 0f c7 0f",
        "cmpxchg16b xmmword ptr [rdi]",
        "update 16 @ 80000000",
    );
    assert!(!decode("87 c8").locked(), "xchg between registers");
}

#[test]
fn strings() {
    check(
        "a4",
        "movsb byte ptr [rdi], byte ptr [rsi]",
        "read 1 @ 70000000, write 1 @ 80000000",
    );
    check(
        "48 a5",
        "movsq qword ptr [rdi], qword ptr [rsi]",
        "read 8 @ 70000000, write 8 @ 80000000",
    );
    check(
        "f3 a5",
        "rep movsd dword ptr [rdi], dword ptr [rsi]",
        "read 12 @ 70000000, write 12 @ 80000000",
    );
    check(
        "f2 a4",
        "repne movsb byte ptr [rdi], byte ptr [rsi]",
        "read 3 @ 70000000, write 3 @ 80000000",
    );
    check(
        "64 a4",
        "movsb byte ptr es:[rdi], byte ptr fs:[rsi]",
        "read 1 @ 700070000000, write 1 @ 80000000",
    );
    check("aa", "stosb byte ptr [rdi]", "write 1 @ 80000000");
    check(
        "f3 48 ab",
        "rep stosq qword ptr [rdi]",
        "write 24 @ 80000000",
    );
    check("ac", "lodsb byte ptr [rsi]", "read 1 @ 70000000");
    // Only the first element is sure to be compared.
    check(
        "f3 a6",
        "repe cmpsb byte ptr [rsi], byte ptr [rdi]",
        "read 1 @ 70000000, read 1 @ 80000000",
    );
    check("f2 ae", "repne scasb byte ptr [rdi]", "read 1 @ 80000000");
    check("d7", "xlat byte ptr [rbx]", "read 1 @ 40000000");
    assert!(decode("f3 a5").is_repeated() && !decode("a5").is_repeated());
    assert!(!decode("f3 c3").is_repeated(), "rep ret");
}

#[test]
fn the_stack_engine() {
    check("50", "push rax", "write 8 @ 4ffffff8*");
    check("66 50", "push ax", "write 2 @ 4ffffffe*");
    check("6a 01", "push 1", "write 8 @ 4ffffff8*");
    check("58", "pop rax", "read 8 @ 50000000*");
    check("5c", "pop rsp", "read 8 @ 50000000*");
    check(
        "ff 37",
        "push qword ptr [rdi]",
        "read 8 @ 80000000, write 8 @ 4ffffff8*",
    );
    check(
        "8f 07",
        "pop qword ptr [rdi]",
        "read 8 @ 50000000*, write 8 @ 80000000",
    );
    // pop computes an rsp-based destination after it moved rsp.
    check(
        "8f 44 24 10",
        "pop qword ptr [rsp+0x10]",
        "read 8 @ 50000000*, write 8 @ 50000018",
    );
    check(
        "ff 74 24 10",
        "push qword ptr [rsp+0x10]",
        "read 8 @ 50000010, write 8 @ 4ffffff8*",
    );
    check("e8 00 00 00 00", "call 0x401005", "write 8 @ 4ffffff8*");
    check(
        "ff 10",
        "call qword ptr [rax]",
        "read 8 @ 10000000, write 8 @ 4ffffff8*",
    );
    check("ff d0", "call rax", "write 8 @ 4ffffff8*");
    check("ff 20", "jmp qword ptr [rax]", "read 8 @ 10000000");
    check("c3", "ret", "read 8 @ 50000000*");
    check("c2 10 00", "ret 0x10", "read 8 @ 50000000*");
    check("c9", "leave", "read 8 @ 60000000*");
    check("9c", "pushfq", "write 8 @ 4ffffff8*");
    check("9d", "popfq", "read 8 @ 50000000*");
}

#[test]
fn vectors_and_floats() {
    check(
        "0f 28 07",
        "movaps xmm0, xmmword ptr [rdi]",
        "read 16 @ 80000000",
    );
    check(
        "0f 29 07",
        "movaps xmmword ptr [rdi], xmm0",
        "write 16 @ 80000000",
    );
    check(
        "c5 fe 6f 07",
        "vmovdqu ymm0, ymmword ptr [rdi]",
        "read 32 @ 80000000",
    );
    check(
        "c5 fe 7f 07",
        "vmovdqu ymmword ptr [rdi], ymm0",
        "write 32 @ 80000000",
    );
    check(
        "62 f1 fe 48 6f 07",
        "vmovdqu64 zmm0, zmmword ptr [rdi]",
        "read 64 @ 80000000",
    );
    check(
        "f3 0f 10 07",
        "movss xmm0, dword ptr [rdi]",
        "read 4 @ 80000000",
    );
    check(
        "f2 0f 58 07",
        "addsd xmm0, qword ptr [rdi]",
        "read 8 @ 80000000",
    );
    check(
        "66 0f d6 07",
        "movq qword ptr [rdi], xmm0",
        "write 8 @ 80000000",
    );
    check(
        "0f 17 07",
        "movhps qword ptr [rdi], xmm0",
        "write 8 @ 80000000",
    );
    check(
        "66 0f 3a 14 07 01",
        "pextrb byte ptr [rdi], xmm0, 1",
        "write 1 @ 80000000",
    );
    check(
        "66 0f 38 31 07",
        "pmovzxbd xmm0, dword ptr [rdi]",
        "read 4 @ 80000000",
    );
    check(
        "c4 e2 7d 18 07",
        "vbroadcastss ymm0, dword ptr [rdi]",
        "read 4 @ 80000000",
    );
    // An embedded broadcast reads one element.
    check(
        "62 f1 7c 58 58 07",
        "vaddps zmm0, zmm0, dword ptr [rdi]{1to16}",
        "read 4 @ 80000000",
    );
    check("d9 07", "fld st, dword ptr [rdi]", "read 4 @ 80000000");
    check("db 2f", "fld st, tbyte ptr [rdi]", "read 10 @ 80000000");
    check("dd 1f", "fstp qword ptr [rdi], st", "write 8 @ 80000000");
    check("db 07", "fild st, dword ptr [rdi]", "read 4 @ 80000000");
    check("d9 2f", "fldcw word ptr [rdi]", "read 2 @ 80000000");
    check("0f ae 17", "ldmxcsr dword ptr [rdi]", "read 4 @ 80000000");
}

#[test]
fn bit_strings_are_addressed_by_the_bit_number() {
    // ecx is 3: the first unit. rsi is 0x7000_0000 bits further.
    check("0f a3 0f", "bt dword ptr [rdi], ecx", "read 4 @ 80000000");
    check(
        "0f ab 0f",
        "bts dword ptr [rdi], ecx",
        "update 4 @ 80000000",
    );
    check(
        "48 0f a3 37",
        "bt qword ptr [rdi], rsi",
        "read 8 @ 8e000000",
    );
    check(
        "0f ba 2f 28",
        "bts dword ptr [rdi], 0x28",
        "update 4 @ 80000000",
    );
    let mut registers = registers();
    registers.set(Register::Rcx, (-1i64) as u64);
    let access = decode("0f a3 0f").accesses()[0];
    let bytes = access.bytes_before(&registers);
    assert_eq!(bytes, Some(Bytes::new(Avma(0x7fff_fffc), 4)));
}

#[test]
fn what_touches_no_data() {
    for (hex, text) in [
        ("48 8d 47 08", "lea rax, [rdi+8]"),
        ("0f 1f 44 00 00", "nop dword ptr [rax+rax]"),
        ("0f 18 0f", "prefetcht0 byte ptr [rdi]"),
        ("0f 0d 0f", "prefetchw byte ptr [rdi]"),
        ("0f ae 3f", "clflush byte ptr [rdi]"),
        ("66 0f ae 3f", "clflushopt byte ptr [rdi]"),
        ("0f ae f0", "mfence"),
        ("f3 0f 1e fa", "endbr64"),
        ("89 c8", "mov eax, ecx"),
        ("0f 05", "syscall"),
    ] {
        check(hex, text, "");
    }
}

#[test]
fn what_masks_gathers_and_saved_state_access_is_not_one_run_of_bytes() {
    for (hex, text) in [
        (
            "c4 e2 75 90 04 17",
            "vpgatherdd ymm0, dword ptr [rdi+ymm2], ymm1",
        ),
        ("62 f1 fe 49 6f 07", "vmovdqu64 zmm0{k1}, zmmword ptr [rdi]"),
        ("c4 e2 75 8c 07", "vpmaskmovd ymm0, ymm1, ymmword ptr [rdi]"),
        ("c4 e2 75 2e 07", "vmaskmovps ymmword ptr [rdi], ymm1, ymm0"),
        ("66 0f f7 c1", "maskmovdqu xmm0, xmm1"),
        ("0f ae 07", "fxsave [rdi]"),
        ("0f ae 27", "xsave [rdi]"),
        ("0f c7 27", "xsavec [rdi]"),
        ("dd 37", "fnsave [rdi]"),
        ("c8 10 00 00", "enter 0x10, 0"),
        ("6c", "insb byte ptr [rdi], dx"),
    ] {
        check(hex, text, "unsupported");
    }
}

/// The elements that a gather or scatter is about to access, and those that it may have
/// accessed, as distances from rdi. Index i is i * i - 4.
#[track_caller]
fn gathers(hex: &str, text: &str, kind: AccessKind, mask: u64, before: &[i64], after: &[i64]) {
    let instruction = decode(hex);
    assert_eq!(instruction.text(), text);
    let gather = instruction.gather().expect(text);
    assert_eq!(gather.kind, kind, "{text}");
    let mut vectors = Vectors::default();
    let quadwords = text.contains("rq") || text.contains("gatherq");
    for lane in 0..16usize {
        let index = (lane * lane) as i64 - 4;
        if !quadwords {
            vectors.zmm[2][lane * 4..][..4].copy_from_slice(&(index as i32).to_le_bytes());
        } else if lane < 8 {
            vectors.zmm[2][lane * 8..][..8].copy_from_slice(&index.to_le_bytes());
        }
        if mask >> lane & 1 != 0 {
            let element = usize::from(gather.element);
            if (lane + 1) * element <= 64 {
                vectors.zmm[1][(lane + 1) * element - 1] = 0x80;
            }
        }
    }
    vectors.masks[1] = mask;
    let registers = registers();
    let distances = |elements: Vec<Bytes>| -> Vec<i64> {
        elements
            .iter()
            .map(|bytes| {
                assert_eq!(bytes.len, u64::from(gather.element));
                bytes.start.0 as i64 - registers.get(Register::Rdi) as i64
            })
            .collect()
    };
    assert_eq!(
        distances(gather.before(&registers, &vectors)),
        before,
        "{text}"
    );
    assert_eq!(
        distances(gather.after(&registers, &vectors)),
        after,
        "{text}"
    );
}

#[test]
fn gathers_and_scatters_access_the_elements_in_their_mask() {
    gathers(
        "c4 e2 75 90 04 17",
        "vpgatherdd ymm0, dword ptr [rdi+ymm2], ymm1",
        AccessKind::Read,
        0b1000_0101,
        &[-4, 0, 45],
        &[-4, -3, 0, 5, 12, 21, 32, 45],
    );
    // Four indices of eight bytes select four elements of four.
    gathers(
        "c4 e2 75 91 04 17",
        "vpgatherqd xmm0, dword ptr [rdi+ymm2], xmm1",
        AccessKind::Read,
        0b1010,
        &[-3, 5],
        &[-4, -3, 0, 5],
    );
    gathers(
        "c4 e2 f5 92 04 17",
        "vgatherdpd ymm0, qword ptr [rdi+xmm2], ymm1",
        AccessKind::Read,
        0b0001,
        &[-4],
        &[-4, -3, 0, 5],
    );
    let all: Vec<i64> = (0..16).map(|lane| (lane * lane - 4) * 4).collect();
    gathers(
        "62 f2 7d 49 90 04 97",
        "vpgatherdd zmm0, k1, dword ptr [rdi+zmm2*4]",
        AccessKind::Read,
        1 << 15 | 1,
        &[-16, 884],
        &all,
    );
    gathers(
        "62 f2 7d 49 a0 04 97",
        "vpscatterdd dword ptr [rdi+zmm2*4], k1, zmm0",
        AccessKind::Write,
        1 << 2,
        &[0],
        &all,
    );
    assert_eq!(decode("8b 07").gather(), None);
}

#[test]
fn masked_moves_access_the_elements_in_their_mask() {
    gathers(
        "c4 e2 75 2e 07",
        "vmaskmovps ymmword ptr [rdi], ymm1, ymm0",
        AccessKind::Write,
        0b1000_0101,
        &[0, 8, 28],
        &[0, 8, 28],
    );
    gathers(
        "c4 e2 f1 8c 07",
        "vpmaskmovq xmm0, xmm1, xmmword ptr [rdi]",
        AccessKind::Read,
        0b10,
        &[8],
        &[8],
    );
    // The loaded value has replaced the mask.
    gathers(
        "c4 e2 f1 8c 0f",
        "vpmaskmovq xmm1, xmm1, xmmword ptr [rdi]",
        AccessKind::Read,
        0b10,
        &[8],
        &[],
    );
    gathers(
        "62 f1 fe 49 7f 07",
        "vmovdqu64 zmmword ptr [rdi]{k1}, zmm0",
        AccessKind::Write,
        1 << 7,
        &[56],
        &[56],
    );
    assert_eq!(decode("62 f1 fe 48 7f 07").gather(), None, "no mask");
}

#[test]
fn flow() {
    assert_eq!(decode("eb 02").flow(), Flow::Jump(Some(AT + 4)));
    assert_eq!(decode("ff e0").flow(), Flow::Jump(None));
    assert_eq!(decode("74 02").flow(), Flow::Branch(AT + 4));
    assert_eq!(decode("e8 00 00 00 00").flow(), Flow::Call(Some(AT + 5)));
    assert_eq!(decode("ff 10").flow(), Flow::Call(None));
    assert_eq!(decode("c3").flow(), Flow::Return);
    assert_eq!(decode("0f 0b").flow(), Flow::Trap);
    assert_eq!(decode("0f 05").flow(), Flow::Trap);
    assert_eq!(decode("90").flow(), Flow::Next);
    assert!(decode("0f 05").is_syscall() && decode("cd 80").is_syscall());
    assert!(!decode("e8 00 00 00 00").is_syscall() && decode("ff 10").is_call());
}

#[test]
fn too_few_or_invalid_bytes_decode_to_nothing() {
    for bytes in [&[][..], &[0x48], &[0x8b], &[0x06], &[0xff, 0xff]] {
        assert!(Instruction::decode(bytes, AT).is_none(), "{bytes:x?}");
    }
}

#[track_caller]
fn destroyed(hex: &str, value: Option<u64>) {
    let mut after = registers();
    for register in [Register::Rax, Register::Rbx, Register::Rsp] {
        after.set(register, 0x1122_3344_5566_7788);
    }
    let instruction = decode(hex);
    assert_eq!(
        instruction.accesses()[0].bytes_after(&after),
        After::Destroyed { value },
        "{}",
        instruction.text()
    );
}

#[test]
fn a_load_over_its_own_address_leaves_its_value() {
    destroyed("48 8b 00", Some(0x1122_3344_5566_7788)); // mov rax,[rax]
    destroyed("8b 00", Some(0x5566_7788)); // mov eax,[rax]
    destroyed("8a 00", Some(0x88)); // mov al,[rax]
    destroyed("8a 20", Some(0x77)); // mov ah,[rax]
    destroyed("0f b6 00", Some(0x88)); // movzx eax,byte [rax]
    destroyed("48 63 00", Some(0x5566_7788)); // movsxd rax,[rax]
    destroyed("48 8b 04 07", Some(0x1122_3344_5566_7788)); // mov rax,[rdi+rax]
    destroyed("03 00", None); // add eax,[rax]
    destroyed("f7 20", None); // mul dword [rax]
    destroyed("0f 44 00", None); // cmove eax,[rax]
    destroyed("0f b1 08", None); // cmpxchg [rax],ecx
    destroyed("5c", Some(0x1122_3344_5566_7788)); // pop rsp
    destroyed("d7", Some(0x88)); // xlatb
}

#[test]
fn a_repeated_string_instruction_is_near_its_pointer() {
    let mut registers = registers();
    let [read, write] = decode("f3 48 a5").accesses().try_into().unwrap();
    let (read, write): (Access, Access) = (read, write);
    assert_eq!(read.kind, AccessKind::Read);
    let recent = |start| After::Recent(Bytes::new(Avma(start), 64));
    assert_eq!(write.bytes_after(&registers), recent(0x8000_0000 - 64));
    registers.rflags |= 1 << 10;
    assert_eq!(write.bytes_after(&registers), recent(0x8000_0008));
    assert_eq!(
        write.bytes_before(&registers),
        Some(Bytes::new(Avma(0x8000_0000 - 16), 24))
    );
    registers.set(Register::Rcx, 0);
    assert_eq!(write.bytes_before(&registers).map(|b| b.len), Some(0));
    registers.set(Register::Rcx, u64::MAX);
    assert_eq!(write.bytes_before(&registers), None);
}

/// What the machine does to the registers an address is made of.
fn run(hex: &str, before: &Registers) -> Registers {
    let mut after = *before;
    let mut add = |register: Register, by: i64| {
        after.set(register, after.get(register).wrapping_add_signed(by));
    };
    let step = if before.direction_down() { -1 } else { 1 };
    match hex {
        "50" | "ff 37" | "ff 74 24 10" | "e8 00 00 00 00" | "ff 10" => add(Register::Rsp, -8),
        "66 50" => add(Register::Rsp, -2),
        "58" | "8f 07" | "8f 44 24 10" | "c3" | "9d" => add(Register::Rsp, 8),
        "c2 10 00" => add(Register::Rsp, 24),
        "c9" => {
            after.set(Register::Rsp, before.get(Register::Rbp).wrapping_add(8));
            after.set(Register::Rbp, 0x1234);
        }
        "a4" => {
            add(Register::Rsi, step);
            add(Register::Rdi, step);
        }
        "48 ab" => add(Register::Rdi, step * 8),
        "ad" => {
            add(Register::Rsi, step * 4);
            after.set(Register::Rax, 0);
        }
        "8b 07" | "48 8b 44 8a 10" => after.set(Register::Rax, 0x5678),
        _ => {}
    }
    after
}

const RECOVERABLE: [&str; 26] = [
    "50",
    "ff 37",
    "ff 74 24 10",
    "e8 00 00 00 00",
    "ff 10",
    "66 50",
    "58",
    "8f 07",
    "8f 44 24 10",
    "c3",
    "9d",
    "c2 10 00",
    "c9",
    "a4",
    "48 ab",
    "ad",
    "8b 07",
    "48 8b 44 8a 10",
    "83 07 01",
    "87 0f",
    "c5 fe 6f 07",
    "0f ab 0f",
    "67 8b 40 ff",
    "64 89 07",
    "88 05 10 00 00 00",
    "f0 48 0f c1 0f",
];

proptest! {
    #[test]
    fn after_the_instruction_its_bytes_are_found_where_they_were(
        which in 0..RECOVERABLE.len(),
        gpr in prop::array::uniform16(0x1000u64..0x7fff_0000_0000),
        down: bool, fs_base in 0u64..0x7fff_0000_0000,
    ) {
        // A register that both addresses and is exchanged would be lost.
        let hex = RECOVERABLE[which];
        let instruction = decode(hex);
        let mut before = Registers { gpr, fs_base, rip: AT, ..Registers::default() };
        if down {
            before.rflags = 1 << 10;
        }
        if hex == "0f ab 0f" {
            before.set(Register::Rcx, before.get(Register::Rcx) & 0xffff);
        }
        let mut after = run(hex, &before);
        after.rip = instruction.next();
        for access in instruction.accesses() {
            if hex == "48 8b 44 8a 10" || hex == "67 8b 40 ff" {
                // rax is loaded; it addresses only in the second.
                let lost = hex == "67 8b 40 ff";
                prop_assert_eq!(
                    matches!(access.bytes_after(&after), After::Destroyed { .. }), lost);
                continue;
            }
            let bytes = access.bytes_before(&before).unwrap();
            prop_assert_eq!(access.bytes_after(&after), After::Exact(bytes), "{}", instruction.text());
        }
    }

    #[test]
    fn no_bytes_and_no_registers_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..20),
        address: u64,
        gpr in prop::array::uniform16(any::<u64>()),
        rflags: u64, fs_base: u64,
    ) {
        let registers = Registers { gpr, rflags, fs_base, ..Registers::default() };
        if let Some(instruction) = Instruction::decode(&bytes, address) {
            prop_assert!(instruction.len() <= bytes.len());
            prop_assert!(!instruction.text().is_empty());
            let _ = instruction.flow();
            for access in instruction.accesses() {
                prop_assert!(access.size <= 64);
                let _ = access.bytes_before(&registers);
                let _ = access.bytes_after(&registers);
            }
        }
    }
}

#[test]
fn a_conditional_move_tells_whether_it_is_taken() {
    // cmovne eax, [rdi]; cmovl eax, [rdi]; mov eax, [rdi]
    let decode = |code: &[u8]| Instruction::decode(code, 0).unwrap();
    let (zero, sign, overflow) = (1 << 6, 1 << 7, 1 << 11);
    let holds = |code: &[u8], rflags| {
        let registers = Registers {
            rflags,
            ..Registers::default()
        };
        decode(code).condition_holds(&registers)
    };
    assert_eq!(holds(&[0x0f, 0x45, 0x07], 0), Some(true));
    assert_eq!(holds(&[0x0f, 0x45, 0x07], zero), Some(false));
    assert_eq!(holds(&[0x0f, 0x4c, 0x07], sign), Some(true));
    assert_eq!(holds(&[0x0f, 0x4c, 0x07], sign | overflow), Some(false));
    assert_eq!(holds(&[0x8b, 0x07], zero), None);
}
