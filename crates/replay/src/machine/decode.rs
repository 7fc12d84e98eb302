//! Decides how each instruction is run, and remembers it.

use super::Mode;
use super::operand::Operand;
use crate::native::{Built, Level, Native, NotBuilt, allowed, build};
use crate::outcome::{End, Fault, Trap};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use std::collections::HashMap;

/// How an instruction is run.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// By the real processor.
    Native(Built),
    /// It does nothing that matters here.
    Nothing,
    /// It ends the region.
    Ends(End),
    /// By the executor: control flow, the stack, strings and the like.
    Special,
}

/// One instruction, ready to be run often.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub instruction: Instruction,
    pub kind: Kind,
    pub operand: Option<Operand>,
    pub next: u64,
    /// A locked instruction, or an exchange with memory.
    pub locked: bool,
    /// It touches only the parts of its operand that a mask selects.
    pub masked: bool,
}

const SLOTS: usize = 4096;

/// The instructions of one memory.
pub(super) struct Code {
    pub entries: Vec<Decoded>,
    by_ip: HashMap<u64, u32>,
    found: Vec<(u64, u32)>,
}

impl Default for Code {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            by_ip: HashMap::new(),
            found: vec![(u64::MAX, 0); SLOTS],
        }
    }
}

impl Code {
    #[inline]
    pub fn find(&mut self, ip: u64) -> Option<usize> {
        let slot = &mut self.found[ip as usize % SLOTS];
        if slot.0 == ip {
            return Some(slot.1 as usize);
        }
        let index = *self.by_ip.get(&ip)?;
        *slot = (ip, index);
        Some(index as usize)
    }

    pub fn insert(&mut self, ip: u64, decoded: Decoded) -> usize {
        let index = self.entries.len();
        self.entries.push(decoded);
        self.by_ip.insert(ip, index as u32);
        index
    }

    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// All stubs have to go before one more can be made.
#[derive(Debug)]
pub(super) struct AreaFull;

/// Stubs made so far, by the bytes of their instruction. They outlive a job: most jobs meet
/// the same instructions again.
pub(crate) struct Stubs {
    built: HashMap<[u8; 15], Option<Built>>,
    level: Level,
    factory: InstructionInfoFactory,
}

impl Stubs {
    pub fn new() -> Self {
        Self {
            built: HashMap::new(),
            level: Level::of_this_processor(),
            factory: InstructionInfoFactory::new(),
        }
    }

    pub(super) fn forget(&mut self) {
        self.built.clear();
    }

    pub(super) fn decode(
        &mut self,
        native: &mut Native,
        mode: Mode,
        ip: u64,
        bytes: &[u8],
    ) -> Result<Decoded, AreaFull> {
        let instruction = decode_at(ip, bytes);
        let mut decoded = Decoded {
            instruction,
            kind: Kind::Special,
            operand: None,
            next: instruction.next_ip(),
            locked: is_locked(&instruction),
            masked: is_masked(&instruction),
        };
        let memory =
            (0..instruction.op_count()).find(|n| instruction.op_kind(*n) == OpKind::Memory);
        if let Some(n) = memory {
            let mut operand = Operand::of(&instruction);
            let access = self.factory.info(&instruction).op_access(n);
            operand.read = matches!(
                access,
                OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
            );
            operand.write = matches!(
                access,
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            decoded.operand = Some(operand);
        }
        if !self.level.has_encoding_of(&instruction) {
            decoded.kind = Kind::Ends(unsupported(&instruction));
            return Ok(decoded);
        }
        if let Some(kind) = known(&instruction, mode) {
            let branches = instruction.flow_control() != FlowControl::Next;
            decoded.kind = if branches && matches!(kind, Kind::Special) && is_ambiguous(bytes) {
                Kind::Ends(unsupported(&instruction))
            } else {
                kind
            };
            return Ok(decoded);
        }
        decoded.kind = match self.stub(native, &instruction, bytes)? {
            Some(built) => Kind::Native(built),
            None => Kind::Ends(unsupported(&instruction)),
        };
        Ok(decoded)
    }

    fn stub(
        &mut self,
        native: &mut Native,
        instruction: &Instruction,
        bytes: &[u8],
    ) -> Result<Option<Built>, AreaFull> {
        let mut key = [0; 15];
        let length = instruction.len();
        key[..length].copy_from_slice(&bytes[..length]);
        if let Some(built) = self.built.get(&key) {
            return Ok(*built);
        }
        let info = self.factory.info(instruction);
        let built = match allowed(instruction, info) {
            Ok(()) => match build(native, self.level, instruction, info) {
                Ok(built) => Some(built),
                Err(NotBuilt::Cannot) => None,
                Err(NotBuilt::Full) => return Err(AreaFull),
            },
            Err(_) => None,
        };
        self.built.insert(key, built);
        Ok(built)
    }
}

/// Decodes one instruction.
pub(crate) fn decode_at(ip: u64, bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE).decode()
}

pub(super) fn unsupported(instruction: &Instruction) -> End {
    End::Unsupported(format!("{:?}", instruction.mnemonic()).to_ascii_lowercase())
}

fn is_locked(instruction: &Instruction) -> bool {
    instruction.has_lock_prefix()
        || instruction.mnemonic() == Mnemonic::Xchg
            && (0..instruction.op_count()).any(|n| instruction.op_kind(n) == OpKind::Memory)
}

fn is_masked(instruction: &Instruction) -> bool {
    use Mnemonic::{Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq};
    instruction.op_mask() != Register::None
        || matches!(
            instruction.mnemonic(),
            Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq
        )
}

/// What is not for the real processor.
fn known(instruction: &Instruction, mode: Mode) -> Option<Kind> {
    use Mnemonic as M;
    let ends = |end| Some(Kind::Ends(end));
    if instruction.is_invalid() {
        // Perhaps one that is newer than the decoder, or that goes on behind what is known.
        return ends(End::Unsupported(
            "bytes that are no known instruction".into(),
        ));
    }
    if instruction.is_vsib() || instruction.is_string_instruction() {
        return Some(Kind::Special);
    }
    let kind = match instruction.mnemonic() {
        // Nothing on some processors, invalid on others.
        M::Reservednop if format!("{:?}", instruction.code()).ends_with("0F0D") => {
            Kind::Ends(unsupported(instruction))
        }
        M::Nop
        | M::Endbr64
        | M::Endbr32
        | M::Pause
        | M::Lfence
        | M::Wait
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
        | M::Cldemote => Kind::Nothing,
        M::Mfence | M::Sfence | M::Serialize => Kind::Ends(End::Fence),
        M::Syscall | M::Sysenter => Kind::Ends(End::SystemCall),
        M::Int if instruction.immediate8() == 0x80 => Kind::Ends(End::SystemCall),
        M::Cpuid | M::Xgetbv => Kind::Ends(End::Cpuid),
        M::Rdtsc | M::Rdtscp | M::Rdpid | M::Rdpmc => Kind::Ends(End::Clock),
        M::Rdrand | M::Rdseed => Kind::Ends(End::Random),
        M::Ud2 | M::Ud1 | M::Ud0 => Kind::Ends(End::Trap(Trap::Ud2)),
        M::Int3 => Kind::Ends(End::Trap(Trap::Breakpoint)),
        M::Int | M::Int1 => Kind::Ends(End::Trap(Trap::Interrupt)),
        M::Cli | M::Sti | M::Stac | M::Clac if mode == Mode::Kernel => Kind::Special,
        // A program may use it too, to change its registers all at once.
        M::Iret | M::Iretd | M::Iretq if mode == Mode::User => Kind::Ends(unsupported(instruction)),
        M::Iret
        | M::Iretd
        | M::Iretq
        | M::Hlt
        | M::Sysret
        | M::Sysretq
        | M::Sysexit
        | M::Sysexitq
        | M::Swapgs
        | M::In
        | M::Out
        | M::Vmcall
        | M::Vmmcall => privileged(mode),
        M::Cld
        | M::Std
        | M::Xlatb
        | M::Lea
        | M::Rdfsbase
        | M::Rdgsbase
        | M::Ldmxcsr
        | M::Vldmxcsr
        | M::Stmxcsr
        | M::Vstmxcsr
        | M::Vzeroupper
        | M::Vzeroall
        | M::Leave
        | M::Pushfq
        | M::Popfq
        | M::Loop
        | M::Loope
        | M::Loopne => Kind::Special,
        M::Push | M::Pop if !uses_segment(instruction) => Kind::Special,
        M::Bt | M::Bts | M::Btr | M::Btc if is_bit_string(instruction) => Kind::Special,
        _ if instruction.is_privileged() => privileged(mode),
        _ => match instruction.flow_control() {
            FlowControl::UnconditionalBranch
            | FlowControl::ConditionalBranch
            | FlowControl::Call
            | FlowControl::IndirectBranch
            | FlowControl::IndirectCall
            | FlowControl::Return
                if is_near(instruction) =>
            {
                Kind::Special
            }
            _ => return None,
        },
    };
    Some(kind)
}

const fn privileged(mode: Mode) -> Kind {
    Kind::Ends(match mode {
        Mode::Kernel => End::Privileged,
        Mode::User => End::Fault(Fault::Protection),
    })
}

/// A bit string: the register chooses bits beyond the operand.
fn is_bit_string(instruction: &Instruction) -> bool {
    instruction.op_kind(0) == OpKind::Memory && instruction.op_kind(1) == OpKind::Register
}

fn uses_segment(instruction: &Instruction) -> bool {
    instruction.op_kind(0) == OpKind::Register && instruction.op_register(0).is_segment_register()
}

fn is_near(instruction: &Instruction) -> bool {
    instruction.is_jcc_short_or_near()
        || instruction.is_jmp_short_or_near()
        || instruction.is_jmp_near_indirect()
        || instruction.is_call_near()
        || instruction.is_call_near_indirect()
        || instruction.is_jcx_short()
        || instruction.mnemonic() == Mnemonic::Ret
}

/// Whether a branch has an operand-size prefix that counts: makers of processors differ on
/// what it means. REX.W overrides it, if it is the last prefix.
fn is_ambiguous(bytes: &[u8]) -> bool {
    let is_prefix = |b: &&u8| {
        matches!(
            b,
            0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x40
                ..=0x4f
        )
    };
    let length = bytes.iter().take_while(is_prefix).count();
    let prefixes = &bytes[..length];
    let rex_w = prefixes.last().is_some_and(|b| b & 0xf8 == 0x48);
    prefixes.contains(&0x66) && !rex_w
}
