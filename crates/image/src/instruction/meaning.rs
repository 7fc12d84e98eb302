//! Derives an instruction's memory accesses from iced's description of it.

use super::access::{Access, Recovery, RegisterPart, Repeat};
use super::operand::{Operand, SegmentBase};
use iced_x86::{
    Code, EncodingKind, Instruction, InstructionInfo, InstructionInfoFactory,
    InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register as Named,
};
use redhanded_model::{AccessKind, Register};
use std::cell::RefCell;

/// The widest single access: a cache line.
const WIDEST: usize = 64;

/// The instruction's accesses do not follow from general-purpose registers alone.
pub(super) struct Unsupported;

type Accesses = [Option<Access>; 2];

thread_local! {
    // Creating one allocates; using it does not.
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

/// What `instruction` accesses.
pub(super) fn accesses(instruction: &Instruction) -> Result<Accesses, Unsupported> {
    if instruction.is_string_instruction() {
        return string(instruction);
    }
    if instruction.mnemonic() == Mnemonic::Xlatb {
        return Ok([Some(xlat(instruction)), None]);
    }
    let explicit = explicit_operand(instruction);
    if explicit.is_none() {
        if is_implicit_unsupported(instruction.mnemonic()) {
            return Err(Unsupported);
        }
        if !instruction.is_stack_instruction() {
            return Ok([None, None]);
        }
    }
    if touches_nothing(instruction.mnemonic()) {
        return Ok([None, None]);
    }
    if explicit.is_some() && is_scattered(instruction) {
        return Err(Unsupported);
    }
    FACTORY.with_borrow_mut(|factory| {
        let info = factory.info_options(instruction, InstructionInfoOptions::NO_MEMORY_USAGE);
        let stack = stack(instruction)?;
        let Some(index) = explicit else {
            return Ok([stack, None]);
        };
        let explicit = explicit_access(instruction, index, info)?;
        // The processor reads the operand before it pushes it, and pops before it writes
        // the destination.
        Ok(if instruction.mnemonic() == Mnemonic::Pop {
            [stack, explicit]
        } else if explicit.is_none() {
            [stack, None]
        } else {
            [explicit, stack]
        })
    })
}

/// Whether it is a string instruction with a repeat prefix.
pub(super) fn is_repeated(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

/// Whether the first operand is a near branch target.
pub(super) fn is_near_branch(instruction: &Instruction) -> bool {
    matches!(
        instruction.op0_kind(),
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
    )
}

fn explicit_operand(instruction: &Instruction) -> Option<u32> {
    (0..instruction.op_count()).find(|i| instruction.op_kind(*i) == OpKind::Memory)
}

/// The general-purpose register that a register or part of one belongs to.
pub(crate) fn general(register: Named) -> Option<Register> {
    use Register as R;
    Some(match register.full_register() {
        Named::RAX => R::Rax,
        Named::RCX => R::Rcx,
        Named::RDX => R::Rdx,
        Named::RBX => R::Rbx,
        Named::RSP => R::Rsp,
        Named::RBP => R::Rbp,
        Named::RSI => R::Rsi,
        Named::RDI => R::Rdi,
        Named::R8 => R::R8,
        Named::R9 => R::R9,
        Named::R10 => R::R10,
        Named::R11 => R::R11,
        Named::R12 => R::R12,
        Named::R13 => R::R13,
        Named::R14 => R::R14,
        Named::R15 => R::R15,
        _ => return None,
    })
}

fn segment(register: Named) -> SegmentBase {
    match register {
        Named::FS => SegmentBase::Fs,
        Named::GS => SegmentBase::Gs,
        _ => SegmentBase::Flat,
    }
}

/// Prefetches, cache control and address computations, which load and store nothing that
/// another thread could see or change.
fn touches_nothing(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Lea
            | M::Nop
            | M::Fnop
            | M::Reservednop
            | M::Prefetch
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Clflush
            | M::Clflushopt
            | M::Clwb
            | M::Cldemote
            | M::Ud0
            | M::Ud1
            | M::Invlpg
            | M::Bndmk
            | M::Bndcl
            | M::Bndcu
            | M::Bndcn
    )
}

/// Instructions that access memory without an explicit memory operand.
fn is_implicit_unsupported(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Clzero
            | M::Enter
            | M::Retf
            | M::Iret
            | M::Iretd
            | M::Iretq
            | M::Uiret
            | M::Movdir64b
            | M::Enqcmd
            | M::Enqcmds
            | M::Xcryptecb
            | M::Xcryptcbc
            | M::Xcryptctr
            | M::Xcryptcfb
            | M::Xcryptofb
            | M::Montmul
            | M::Xsha1
            | M::Xsha256
            | M::Xstore
    )
}

/// Whether the bytes depend on masks or on vectors of addresses.
fn is_scattered(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    instruction.is_vsib()
        || instruction.has_op_mask()
        || instruction.encoding() == EncodingKind::MVEX
        || instruction.is_save_restore_instruction()
        || matches!(
            instruction.mnemonic(),
            M::Vmaskmovps
                | M::Vmaskmovpd
                | M::Vpmaskmovd
                | M::Vpmaskmovq
                | M::Movdir64b
                | M::Enqcmd
                | M::Enqcmds
                | M::Bndldx
                | M::Bndstx
                | M::Tileloadd
                | M::Tileloaddt1
                | M::Tilestored
                | M::Aesenc128kl
                | M::Aesenc256kl
                | M::Aesdec128kl
                | M::Aesdec256kl
                | M::Aesencwide128kl
                | M::Aesencwide256kl
                | M::Aesdecwide128kl
                | M::Aesdecwide256kl
        )
        || matches!(
            instruction.code(),
            Code::Call_m1616 | Code::Call_m1632 | Code::Call_m1664
        )
}

fn kind(access: OpAccess) -> Option<AccessKind> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(AccessKind::Read),
        OpAccess::Write | OpAccess::CondWrite => Some(AccessKind::Write),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(AccessKind::Update),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

pub(super) fn operand(instruction: &Instruction) -> Operand {
    let base = instruction.memory_base();
    let index = instruction.memory_index();
    let rip_relative = instruction.is_ip_rel_memory_operand();
    let narrow = matches!(base, Named::EIP)
        || [base, index]
            .iter()
            .any(|r| *r != Named::None && r.is_gpr32());
    Operand {
        base: general(base),
        index: general(index),
        scale: u8::try_from(instruction.memory_index_scale()).unwrap_or(1),
        displacement: instruction.memory_displacement64(),
        segment: segment(instruction.memory_segment()),
        rip_relative,
        narrow: narrow || is_narrow_absolute(instruction),
        byte_index: false,
        bit: bit_register(instruction),
    }
}

/// `[disp32]` with a 32-bit address size, which no register reveals.
fn is_narrow_absolute(instruction: &Instruction) -> bool {
    instruction.memory_base() == Named::None
        && instruction.memory_index() == Named::None
        && instruction.memory_displ_size() == 4
}

/// Bit tests with a register as second operand: it takes part in the address.
fn bit_register(instruction: &Instruction) -> Option<(Register, u8)> {
    use Mnemonic as M;
    if !matches!(instruction.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc)
        || instruction.op1_kind() != OpKind::Register
    {
        return None;
    }
    let named = instruction.op1_register();
    Some((general(named)?, u8::try_from(named.size()).ok()?))
}

fn explicit_access(
    instruction: &Instruction,
    index: u32,
    info: &InstructionInfo,
) -> Result<Option<Access>, Unsupported> {
    let Some(kind) = kind(info.op_access(index)) else {
        return Ok(None);
    };
    let size = instruction.memory_size().size();
    if size == 0 || size > WIDEST {
        return Err(Unsupported);
    }
    let mut operand = operand(instruction);
    let mut recovery = Recovery::Same;
    if operand.base == Some(Register::Rsp) && instruction.is_stack_instruction() {
        let moved = i64::from(instruction.stack_pointer_increment()) as u64;
        if instruction.mnemonic() == Mnemonic::Pop {
            // pop computes its destination with the updated stack pointer.
            operand.displacement = operand.displacement.wrapping_add(moved);
        }
        recovery = Recovery::Moved(moved.wrapping_neg());
    } else if overwrites(info, &operand) {
        recovery = Recovery::Lost(loaded(instruction, &operand, kind, size));
    }
    Ok(Some(Access {
        kind,
        size: u32::try_from(size).unwrap_or(0),
        stack_engine: false,
        operand,
        recovery,
    }))
}

fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}

/// Whether the instruction changes a register that `operand` depends on.
fn overwrites(info: &InstructionInfo, operand: &Operand) -> bool {
    info.used_registers()
        .iter()
        .filter(|used| writes(used.access()))
        .filter_map(|used| general(used.register()))
        .any(|written| operand.registers().any(|needed| needed == written))
}

/// Where a plain load put its value, if that is the only register of the address that it
/// overwrote.
fn loaded(
    instruction: &Instruction,
    operand: &Operand,
    kind: AccessKind,
    size: usize,
) -> Option<RegisterPart> {
    use Mnemonic as M;
    let plain = matches!(
        instruction.mnemonic(),
        M::Mov | M::Movzx | M::Movsx | M::Movsxd
    );
    if !plain || kind != AccessKind::Read || instruction.op0_kind() != OpKind::Register {
        return None;
    }
    let named = instruction.op0_register();
    let part = part(named, size)?;
    operand
        .registers()
        .any(|register| register == part.register)
        .then_some(part)
}

fn part(named: Named, size: usize) -> Option<RegisterPart> {
    let high = matches!(named, Named::AH | Named::BH | Named::CH | Named::DH);
    Some(RegisterPart {
        register: general(named)?,
        shift: if high { 8 } else { 0 },
        bytes: u8::try_from(named.size().min(size)).ok()?,
    })
}

/// The implicit access of push, pop, call, ret and leave.
fn stack(instruction: &Instruction) -> Result<Option<Access>, Unsupported> {
    use Mnemonic as M;
    if !instruction.is_stack_instruction() {
        return Ok(None);
    }
    let moved = i64::from(instruction.stack_pointer_increment());
    let access = |kind, size: u64, operand, recovery| {
        Ok(Some(Access {
            kind,
            size: u32::try_from(size).unwrap_or(0),
            stack_engine: true,
            operand,
            recovery,
        }))
    };
    let size = moved.unsigned_abs();
    match instruction.mnemonic() {
        M::Push | M::Pushf | M::Pushfd | M::Pushfq | M::Call => access(
            AccessKind::Write,
            size,
            Operand::at(Register::Rsp, moved as u64),
            Recovery::FromStack(0),
        ),
        M::Pop | M::Popf | M::Popfd | M::Popfq => {
            let into_rsp = instruction.op0_kind() == OpKind::Register
                && general(instruction.op0_register()) == Some(Register::Rsp);
            access(
                AccessKind::Read,
                size,
                Operand::at(Register::Rsp, 0),
                if into_rsp {
                    Recovery::Lost(part(instruction.op0_register(), size as usize))
                } else {
                    Recovery::FromStack(size.wrapping_neg())
                },
            )
        }
        M::Ret => access(
            AccessKind::Read,
            8,
            Operand::at(Register::Rsp, 0),
            Recovery::FromStack(size.wrapping_neg()),
        ),
        M::Leave => access(
            AccessKind::Read,
            8,
            Operand::at(Register::Rbp, 0),
            Recovery::FromStack(8u64.wrapping_neg()),
        ),
        _ => Err(Unsupported),
    }
}

fn xlat(instruction: &Instruction) -> Access {
    let mut operand = Operand::at(Register::Rbx, 0);
    operand.index = Some(Register::Rax);
    operand.byte_index = true;
    operand.segment = segment(instruction.memory_segment());
    operand.narrow = instruction.memory_base() == Named::EBX;
    Access {
        kind: AccessKind::Read,
        size: 1,
        stack_engine: false,
        operand,
        // al is both index and destination.
        recovery: Recovery::Lost(part(Named::AL, 1)),
    }
}

fn string(instruction: &Instruction) -> Result<Accesses, Unsupported> {
    use Mnemonic as M;
    let compares = match instruction.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq => false,
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => false,
        M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => false,
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq => true,
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => true,
        // ins and outs access devices.
        _ => return Err(Unsupported),
    };
    let element = u8::try_from(instruction.memory_size().size()).map_err(|_| Unsupported)?;
    let repeat = match (is_repeated(instruction), compares) {
        (false, _) => Repeat::Once,
        (true, false) => Repeat::Counted,
        (true, true) => Repeat::Compared,
    };
    let mut found = [None, None];
    let mut count = 0;
    for i in 0..instruction.op_count() {
        let (base, narrow, source) = match instruction.op_kind(i) {
            OpKind::MemorySegRSI => (Register::Rsi, false, true),
            OpKind::MemorySegESI => (Register::Rsi, true, true),
            OpKind::MemoryESRDI => (Register::Rdi, false, false),
            OpKind::MemoryESEDI => (Register::Rdi, true, false),
            _ => continue,
        };
        let mut operand = Operand::at(base, 0);
        operand.narrow = narrow;
        if source {
            operand.segment = segment(instruction.memory_segment());
        }
        let access = Access {
            kind: if source || compares {
                AccessKind::Read
            } else {
                AccessKind::Write
            },
            size: match repeat {
                Repeat::Counted => 0,
                Repeat::Once | Repeat::Compared => u32::from(element),
            },
            stack_engine: false,
            operand,
            recovery: Recovery::String { element, repeat },
        };
        if let Some(slot) = found.get_mut(count) {
            *slot = Some(access);
            count += 1;
        }
    }
    // movs reads before it writes, regardless of the order of its operands.
    found.sort_by_key(|access| access.map_or(2, |a: Access| u8::from(a.kind.writes())));
    Ok(found)
}
