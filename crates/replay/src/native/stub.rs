//! Makes the stub for one instruction.

use super::allowed::has_memory_operand;
use super::area::{File, Native, Stub};
use iced_x86::{
    Code, Decoder, DecoderOptions, Encoder, EncodingKind, IcedError, Instruction, InstructionInfo,
    MemoryOperand, Mnemonic, OpAccess, Register, RflagsBits,
};
use std::mem::offset_of;

/// How wide the vector registers of this processor are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    Sse,
    Avx,
    Avx512,
}

impl Level {
    pub fn of_this_processor() -> Self {
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
        {
            Self::Avx512
        } else if is_x86_feature_detected!("avx") {
            Self::Avx
        } else {
            Self::Sse
        }
    }

    /// Whether such a processor could know the instruction at all, by how it is encoded. What it
    /// runs natively tells by itself; this is for what is done without it.
    pub fn has_encoding_of(self, instruction: &Instruction) -> bool {
        match instruction.code().encoding() {
            EncodingKind::EVEX => self >= Self::Avx512,
            EncodingKind::VEX => self >= Self::Avx,
            _ => true,
        }
    }
}

/// Registers the instruction does not use may carry the two pointers. Those without a REX
/// prefix come first: an instruction with `ah` cannot have one.
const FREE: [Register; 15] = [
    Register::RDI,
    Register::RSI,
    Register::RCX,
    Register::RDX,
    Register::RAX,
    Register::RBX,
    Register::RBP,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// What an instruction uses, by number.
#[derive(Default)]
struct Uses {
    general: Vec<(Register, bool)>,
    vectors: Vec<(usize, bool)>,
    masks: Vec<(usize, bool)>,
    x87: bool,
}

impl Uses {
    fn of(instruction: &Instruction, info: &InstructionInfo) -> Self {
        let mut uses = Self::default();
        let address = [
            instruction.memory_base().full_register(),
            instruction.memory_index().full_register(),
        ];
        for used in info.used_registers() {
            let register = used.register();
            let written = !matches!(
                used.access(),
                OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
            );
            if register.is_gpr() {
                let full = register.full_register();
                let addresses_only = !written
                    && has_memory_operand(instruction)
                    && address.contains(&full)
                    && !is_operand(instruction, info, full);
                if !addresses_only {
                    add(&mut uses.general, full, written);
                }
            } else if register.is_vector_register() {
                add(&mut uses.vectors, register.number(), written);
            } else if register.is_k() {
                add(&mut uses.masks, register.number(), written);
            } else if register.is_st() || register.is_mm() {
                uses.x87 = true;
            }
        }
        uses.x87 |= is_x87(instruction);
        uses
    }
}

/// Whether a register that addresses memory is an operand as well, explicit or implicit.
fn is_operand(instruction: &Instruction, info: &InstructionInfo, full: Register) -> bool {
    let explicit = (0..instruction.op_count()).any(|n| {
        instruction.op_kind(n) == iced_x86::OpKind::Register
            && instruction.op_register(n).full_register() == full
    });
    let narrow = info
        .used_registers()
        .iter()
        .any(|u| u.register() != full && u.register().full_register() == full);
    // Implicit operands are rax, rcx, rdx and rbx only.
    explicit || narrow || full.number() < 4
}

fn add<T: PartialEq + Copy>(list: &mut Vec<(T, bool)>, register: T, written: bool) {
    match list.iter_mut().find(|(r, _)| *r == register) {
        Some((_, w)) => *w |= written,
        None => list.push((register, written)),
    }
}

fn is_x87(instruction: &Instruction) -> bool {
    use iced_x86::CpuidFeature as F;
    instruction
        .cpuid_features()
        .iter()
        .any(|f| matches!(f, F::FPU | F::FPU287 | F::FPU387 | F::MMX))
        || instruction.fpu_stack_increment_info().writes_top()
}

/// Whether vector arithmetic may depend on its control register: all but moves and integers. A
/// conversion from memory to a general register does so without any vector.
fn uses_mxcsr(mnemonic: Mnemonic, vector: bool) -> bool {
    let name = format!("{mnemonic:?}");
    let without_v = name.strip_prefix('V').map(str::to_ascii_lowercase);
    let name = without_v.unwrap_or_else(|| name.to_ascii_lowercase());
    let moves = ["p", "mov", "xor"];
    (vector || name.starts_with("cvt")) && !moves.iter().any(|it| name.starts_with(it))
}

/// Whether it shifts or rotates: with a count of zero that leaves the flags alone, and with one
/// that comes to zero, as 17 does for 16 bits and the carry, only some of them.
fn shifts(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Rcl, Rcr, Rol, Ror, Sal, Sar, Shl, Shld, Shr, Shrd};
    matches!(
        mnemonic,
        Rcl | Rcr | Rol | Ror | Sal | Sar | Shl | Shld | Shr | Shrd
    )
}

/// Whether the stub takes the flags in.
fn loads_flags(instruction: &Instruction) -> bool {
    use Mnemonic::{And, Or, Test, Xor};
    let mnemonic = instruction.mnemonic();
    let undefined = if matches!(mnemonic, And | Or | Xor | Test) {
        RflagsBits::NONE
    } else {
        instruction.rflags_undefined()
    };
    shifts(mnemonic) || instruction.rflags_read() != 0 || undefined != 0
}

/// A stub, and what it does to the flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Built {
    pub stub: Stub,
    /// Bits of the flags that it leaves in `flags_out`.
    pub flags: u64,
}

/// Why there is no stub.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotBuilt {
    /// The area is full.
    Full,
    /// The instruction cannot be encoded so, or needs registers this processor lacks.
    Cannot,
}

struct Writer {
    encoder: Encoder,
    base: Register,
    failed: bool,
}

impl Writer {
    fn put(&mut self, instruction: &Result<Instruction, IcedError>) {
        // A stub is position-independent, so the address is of no matter.
        match instruction {
            Ok(i) if self.encoder.encode(i, 0).is_ok() => {}
            _ => self.failed = true,
        }
    }

    fn field(&self, offset: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(self.base, offset as i64, 1)
    }

    fn load(&mut self, code: Code, register: Register, offset: usize) {
        let i = Instruction::with2(code, register, self.field(offset));
        self.put(&i);
    }

    fn store(&mut self, code: Code, offset: usize, register: Register) {
        let i = Instruction::with2(code, self.field(offset), register);
        self.put(&i);
    }

    fn on(&mut self, code: Code, offset: usize) {
        let i = Instruction::with1(code, self.field(offset));
        self.put(&i);
    }

    fn plain(&mut self, code: Code) {
        self.put(&Ok(Instruction::with(code)));
    }

    fn copy(&mut self, to: Register, from: Register) {
        if to != from {
            let i = Instruction::with2(Code::Mov_r64_rm64, to, from);
            self.put(&i);
        }
    }
}

fn general(register: Register) -> usize {
    offset_of!(File, general) + register.number() * 8
}

/// Makes the stub for an instruction that [`super::allowed`] has allowed.
pub(crate) fn build(
    native: &mut Native,
    level: Level,
    instruction: &Instruction,
    info: &InstructionInfo,
) -> Result<Built, NotBuilt> {
    let uses = Uses::of(instruction, info);
    let evex = instruction.code().op_code().encoding() == EncodingKind::EVEX;
    if (evex || !uses.masks.is_empty()) && level < Level::Avx512 {
        return Err(NotBuilt::Cannot);
    }
    let mut free = FREE
        .into_iter()
        .filter(|r| uses.general.iter().all(|(used, _)| used != r));
    let (Some(base), Some(operand)) = (free.next(), free.next()) else {
        return Err(NotBuilt::Cannot);
    };
    let mut own = *instruction;
    own.set_has_lock_prefix(false);
    own.set_has_xacquire_prefix(false);
    own.set_has_xrelease_prefix(false);
    if has_memory_operand(instruction) {
        without_offset_form(&mut own);
        own.set_segment_prefix(Register::None);
        own.set_memory_base(operand);
        own.set_memory_index(Register::None);
        own.set_memory_index_scale(1);
        own.set_memory_displacement64(0);
        own.set_memory_displ_size(1);
    }
    if !is_still(instruction, &own, operand) {
        return Err(NotBuilt::Cannot);
    }

    let loads = loads_flags(instruction);
    let modified = instruction.rflags_modified() != 0 || shifts(instruction.mnemonic());
    let vector = !uses.vectors.is_empty();
    let mxcsr = uses_mxcsr(instruction.mnemonic(), vector);
    let stack = uses.general.iter().find(|(r, _)| *r == Register::RSP);
    let mut w = Writer {
        encoder: Encoder::new(64),
        base,
        failed: false,
    };
    // The operand pointer arrives in rsi and the file in rdi. `base` comes first in the
    // list, so it is never rsi unless rdi is taken, and then rsi has to move before.
    w.copy(operand, Register::RSI);
    w.copy(base, Register::RDI);
    if loads {
        w.on(Code::Push_rm64, offset_of!(File, flags_in));
        w.plain(Code::Popfq);
    }
    if uses.x87 {
        w.on(Code::Fxrstor64_m512byte, offset_of!(File, x87));
    }
    for (number, _) in &uses.vectors {
        let at = offset_of!(File, zmm) + number * 64;
        let (code, register) = match level {
            Level::Avx512 => (Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, Register::ZMM0),
            Level::Avx => (Code::VEX_Vmovdqu_ymm_ymmm256, Register::YMM0),
            Level::Sse => (Code::Movdqu_xmm_xmmm128, Register::XMM0),
        };
        w.load(code, register + *number as u32, at);
    }
    for (number, _) in &uses.masks {
        let at = offset_of!(File, masks) + number * 8;
        w.load(Code::VEX_Kmovq_kr_km64, Register::K0 + *number as u32, at);
    }
    if mxcsr {
        w.on(Code::Stmxcsr_m32, offset_of!(File, host_mxcsr));
        w.on(Code::Ldmxcsr_m32, offset_of!(File, mxcsr));
    }
    for (register, _) in &uses.general {
        if *register != Register::RSP {
            w.load(Code::Mov_r64_rm64, *register, general(*register));
        }
    }
    if stack.is_some() {
        w.load(Code::Mov_r64_rm64, Register::RSP, general(Register::RSP));
    }
    w.put(&Ok(own));
    if let Some((_, written)) = stack {
        if *written {
            w.store(Code::Mov_rm64_r64, general(Register::RSP), Register::RSP);
        }
        w.load(Code::Mov_r64_rm64, Register::RSP, offset_of!(File, host_sp));
    }
    if modified {
        w.plain(Code::Pushfq);
        w.on(Code::Pop_rm64, offset_of!(File, flags_out));
    }
    for (register, written) in &uses.general {
        if *written && *register != Register::RSP {
            w.store(Code::Mov_rm64_r64, general(*register), *register);
        }
    }
    for (number, written) in &uses.vectors {
        let at = offset_of!(File, zmm) + number * 64;
        let (code, register) = match level {
            Level::Avx512 => (Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm, Register::ZMM0),
            Level::Avx => (Code::VEX_Vmovdqu_ymmm256_ymm, Register::YMM0),
            Level::Sse => (Code::Movdqu_xmmm128_xmm, Register::XMM0),
        };
        if *written {
            w.store(code, at, register + *number as u32);
        }
    }
    for (number, written) in &uses.masks {
        if *written {
            let at = offset_of!(File, masks) + number * 8;
            w.store(Code::VEX_Kmovq_m64_kr, at, Register::K0 + *number as u32);
        }
    }
    if mxcsr {
        w.on(Code::Stmxcsr_m32, offset_of!(File, mxcsr));
        w.on(Code::Ldmxcsr_m32, offset_of!(File, host_mxcsr));
    }
    if vector && level > Level::Sse {
        w.plain(Code::VEX_Vzeroupper);
    }
    if uses.x87 {
        w.on(Code::Fxsave64_m512byte, offset_of!(File, x87));
        w.plain(Code::Fninit);
    }
    if stack.is_some() {
        w.on(Code::Jmp_rm64, offset_of!(File, host_ip));
    } else {
        w.plain(Code::Retnq);
    }
    if w.failed {
        return Err(NotBuilt::Cannot);
    }
    let code = w.encoder.take_buffer();
    let stub = native.add(&code).ok_or(NotBuilt::Full)?;
    let mask = match (modified, loads) {
        (false, _) => 0,
        (true, true) => crate::state::flag::STATUS,
        (true, false) => rflags(instruction.rflags_modified()),
    };
    Ok(Built { stub, flags: mask })
}

/// iced's bits of the flags as the processor has them.
pub(crate) fn rflags(bits: u32) -> u64 {
    use crate::state::flag;
    [
        (RflagsBits::OF, flag::OF),
        (RflagsBits::SF, flag::SF),
        (RflagsBits::ZF, flag::ZF),
        (RflagsBits::AF, flag::AF),
        (RflagsBits::CF, flag::CF),
        (RflagsBits::PF, flag::PF),
    ]
    .into_iter()
    .filter(|(theirs, _)| bits & theirs != 0)
    .fold(0, |all, (_, ours)| all | ours)
}

/// `mov rax, [64-bit address]` has no base register to replace: takes the ordinary form.
fn without_offset_form(instruction: &mut Instruction) {
    let code = match instruction.code() {
        Code::Mov_AL_moffs8 => Code::Mov_r8_rm8,
        Code::Mov_AX_moffs16 => Code::Mov_r16_rm16,
        Code::Mov_EAX_moffs32 => Code::Mov_r32_rm32,
        Code::Mov_RAX_moffs64 => Code::Mov_r64_rm64,
        Code::Mov_moffs8_AL => Code::Mov_rm8_r8,
        Code::Mov_moffs16_AX => Code::Mov_rm16_r16,
        Code::Mov_moffs32_EAX => Code::Mov_rm32_r32,
        Code::Mov_moffs64_RAX => Code::Mov_rm64_r64,
        other => other,
    };
    instruction.set_code(code);
}

/// Whether what will run is the instruction that was allowed, with the operand replaced:
/// encodes it, and decodes the result.
fn is_still(instruction: &Instruction, own: &Instruction, operand: Register) -> bool {
    let mut encoder = Encoder::new(64);
    if encoder.encode(own, 0).is_err() {
        return false;
    }
    let bytes = encoder.take_buffer();
    let again = Decoder::new(64, &bytes, DecoderOptions::NONE).decode();
    let memory = has_memory_operand(instruction);
    again.len() == bytes.len()
        && again.mnemonic() == instruction.mnemonic()
        && again.op_count() == instruction.op_count()
        && has_memory_operand(&again) == memory
        && (!memory
            || again.memory_base() == operand
                && again.memory_index() == Register::None
                && again.memory_displacement64() == 0
                && again.memory_segment() != Register::FS
                && again.memory_segment() != Register::GS
                && again.memory_size() == instruction.memory_size())
}
