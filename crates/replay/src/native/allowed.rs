//! Which instructions may run natively: those that only compute.
//!
//! Everything must be allowed explicitly: the feature it belongs to, the registers it
//! uses, and the memory it touches. What is known to do more than its operands say is
//! left out by name.

use iced_x86::{
    CpuidFeature, FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register,
    UsedRegister,
};

/// Why an instruction does not run natively.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused;

/// Whether the instruction only computes, with at most its one explicit memory operand.
pub(crate) fn allowed(instruction: &Instruction, info: &InstructionInfo) -> Result<(), Refused> {
    let code = instruction.code();
    let plain = code.flow_control() == FlowControl::Next
        && !instruction.is_privileged()
        && !instruction.is_stack_instruction()
        && !instruction.is_save_restore_instruction()
        && !instruction.is_string_instruction()
        && !instruction.is_vsib();
    let known = instruction.cpuid_features().iter().all(|f| is_known(*f));
    let registers = info
        .used_registers()
        .iter()
        .all(|used| is_ordinary(used.register()) || is_segment_of_address(*used, instruction));
    if plain
        && known
        && registers
        && !is_left_out(instruction.mnemonic())
        && touches_its_operand_only(instruction, info)
    {
        Ok(())
    } else {
        Err(Refused)
    }
}

/// A segment register that only addresses memory is gone after re-encoding. One that is loaded
/// is not, even if no operand names it, as with `lfs`.
fn is_segment_of_address(used: UsedRegister, instruction: &Instruction) -> bool {
    used.register().is_segment_register()
        && matches!(used.access(), OpAccess::Read | OpAccess::CondRead)
        && has_memory_operand(instruction)
        && (0..instruction.op_count()).all(|n| {
            instruction.op_kind(n) != OpKind::Register
                || !instruction.op_register(n).is_segment_register()
        })
}

fn is_ordinary(register: Register) -> bool {
    register.is_gpr()
        || register.is_vector_register()
        || register.is_k()
        || register.is_st()
        || register.is_mm()
        || register.is_ip()
}

pub(super) fn has_memory_operand(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory)
}

fn touches_its_operand_only(instruction: &Instruction, info: &InstructionInfo) -> bool {
    let kinds = || (0..instruction.op_count()).map(|n| instruction.op_kind(n));
    let implicit = kinds().any(|kind| {
        !matches!(
            kind,
            OpKind::Register
                | OpKind::Memory
                | OpKind::Immediate8
                | OpKind::Immediate8_2nd
                | OpKind::Immediate16
                | OpKind::Immediate32
                | OpKind::Immediate64
                | OpKind::Immediate8to16
                | OpKind::Immediate8to32
                | OpKind::Immediate8to64
                | OpKind::Immediate32to64
        )
    });
    if implicit {
        return false;
    }
    if !has_memory_operand(instruction) {
        return info.used_memory().is_empty();
    }
    let size = instruction.memory_size().size();
    info.used_memory().len() == 1
        && info.used_memory()[0].memory_size().size() <= 64
        && (1..=64).contains(&size)
}

/// Instructions that do more than their operands say, or other than compute.
fn is_left_out(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Bound
            | M::Cld
            | M::Cli
            | M::Cpuid
            | M::Enter
            | M::Fldenv
            | M::Fnsave
            | M::Fnstenv
            | M::Frstor
            | M::Fsave
            | M::Fstenv
            | M::Fxrstor
            | M::Fxrstor64
            | M::Fxsave
            | M::Fxsave64
            | M::Hlt
            | M::Lar
            | M::Ldmxcsr
            | M::Lea
            | M::Leave
            | M::Lsl
            | M::Maskmovdqu
            | M::Maskmovq
            | M::Pause
            | M::Rdpid
            | M::Rdpmc
            | M::Rdrand
            | M::Rdseed
            | M::Rdtsc
            | M::Rdtscp
            | M::Rsm
            | M::Sgdt
            | M::Sidt
            | M::Sldt
            | M::Smsw
            | M::Std
            | M::Sti
            | M::Stmxcsr
            | M::Str
            | M::Ud0
            | M::Ud1
            | M::Ud2
            | M::Verr
            | M::Verw
            | M::Vldmxcsr
            | M::Vmaskmovdqu
            | M::Vstmxcsr
            | M::Vzeroall
            | M::Vzeroupper
            | M::Wait
            | M::Xlatb
    )
}

/// Features whose instructions compute, apart from those left out above.
fn is_known(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    matches!(
        feature,
        F::INTEL8086
            | F::INTEL186
            | F::INTEL386
            | F::INTEL486
            | F::X64
            | F::CMOV
            | F::CX8
            | F::CMPXCHG16B
            | F::MOVBE
            | F::POPCNT
            | F::LZCNT
            | F::BMI1
            | F::BMI2
            | F::ADX
            | F::TBM
            | F::FPU
            | F::FPU287
            | F::FPU387
            | F::MMX
            | F::SSE
            | F::SSE2
            | F::SSE3
            | F::SSSE3
            | F::SSE4_1
            | F::SSE4_2
            | F::SSE4A
            | F::AES
            | F::PCLMULQDQ
            | F::SHA
            | F::GFNI
            | F::VAES
            | F::VPCLMULQDQ
            | F::AVX
            | F::AVX2
            | F::AVX_VNNI
            | F::AVX_IFMA
            | F::AVX_VNNI_INT8
            | F::AVX_NE_CONVERT
            | F::F16C
            | F::FMA
            | F::AVX512F
            | F::AVX512VL
            | F::AVX512BW
            | F::AVX512CD
            | F::AVX512DQ
            | F::AVX512_IFMA
            | F::AVX512_VBMI
            | F::AVX512_VBMI2
            | F::AVX512_VNNI
            | F::AVX512_BITALG
            | F::AVX512_VPOPCNTDQ
            | F::AVX512_BF16
            | F::AVX512_FP16
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};

    fn may_run(code: &[u8]) -> bool {
        let instruction = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode();
        assert_eq!(instruction.len(), code.len(), "{instruction:?}");
        allowed(
            &instruction,
            InstructionInfoFactory::new().info(&instruction),
        )
        .is_ok()
    }

    #[test]
    fn what_computes_may_run() {
        for code in [
            &[0x48, 0x01, 0xd8][..],                     // add rax, rbx
            &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0], // mov rax, fs:[0]
            &[0x0f, 0x28, 0x07],                         // movaps xmm0, [rdi]
            &[0x62, 0xf1, 0x7d, 0x48, 0xfe, 0x07],       // vpaddd zmm0, zmm0, [rdi]
            &[0xd9, 0xf0],                               // f2xm1
            &[0x48, 0x83, 0xec, 0x18],                   // sub rsp, 24
            &[0x48, 0xf7, 0x37],                         // div qword [rdi]
        ] {
            assert!(may_run(code), "{code:x?}");
        }
    }

    #[test]
    fn what_does_more_may_not() {
        for code in [
            &[0x0f, 0x05][..],                           // syscall
            &[0x0f, 0x01, 0xef],                         // wrpkru
            &[0x0f, 0xae, 0x2f],                         // xrstor [rdi]
            &[0x8e, 0xd8],                               // mov ds, eax
            &[0x8c, 0xd8],                               // mov eax, ds
            &[0x0f, 0xb2, 0x07],                         // lss eax, [rdi]
            &[0x0f, 0xb4, 0x07],                         // lfs eax, [rdi]
            &[0x48, 0x0f, 0xb5, 0x07],                   // lgs rax, [rdi]
            &[0xf3, 0x0f, 0xae, 0xd0],                   // wrfsbase eax
            &[0xc7, 0xf8, 0, 0, 0, 0],                   // xbegin
            &[0xf4],                                     // hlt
            &[0xcc],                                     // int3
            &[0x0f, 0x31],                               // rdtsc
            &[0x0f, 0xa2],                               // cpuid
            &[0xe4, 0x10],                               // in al, 16
            &[0x0f, 0x22, 0xd8],                         // mov cr3, rax
            &[0x66, 0x0f, 0xf7, 0xc1],                   // maskmovdqu: memory it does not name
            &[0xa4],                                     // movsb
            &[0x50],                                     // push rax
            &[0xc3],                                     // ret
            &[0xff, 0xe0],                               // jmp rax
            &[0x0f, 0xae, 0x17],                         // ldmxcsr [rdi]
            &[0xd9, 0x27],                               // fldenv [rdi]
            &[0x0f, 0x01, 0x07],                         // sgdt [rdi]
            &[0x0f, 0x01, 0xd0],                         // xgetbv
            &[0x62, 0xf2, 0x7d, 0x49, 0x90, 0x04, 0x0f], // vpgatherdd zmm0{k1}, [rdi+zmm1]
        ] {
            assert!(!may_run(code), "{code:x?}");
        }
    }
}
