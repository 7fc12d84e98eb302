//! Which bytes of memory an x86-64 instruction accesses, computed from the registers before
//! it runs or from those after it ran.

mod access;
mod gather;
mod meaning;
mod operand;
#[cfg(test)]
mod tests;

pub use access::{Access, After};
pub use gather::Gather;
pub use operand::{Operand, SegmentBase};

pub(crate) use meaning::general;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Formatter, IntelFormatter, MemorySizeOptions, OpKind,
};
use redhanded_model::{AccessKind, Registers};

/// Where execution goes after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// To the next instruction.
    Next,
    /// To another place, always; with the target if it is a constant.
    Jump(Option<u64>),
    /// To this target or to the next instruction.
    Branch(u64),
    /// Into a function and back; with the function if it is a constant.
    Call(Option<u64>),
    /// Back to the caller.
    Return,
    /// Into the kernel or a signal handler: interrupts, undefined instructions.
    Trap,
}

/// A decoded instruction at its address.
///
/// Addresses are plain numbers here: an instruction decoded from a file has file addresses,
/// one decoded from a target has live ones.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    raw: iced_x86::Instruction,
    accesses: [Access; 2],
    count: u8,
    unsupported: bool,
}

impl Instruction {
    /// Decodes the first instruction of `bytes`; `None` if they are invalid or too few.
    #[must_use]
    pub fn decode(bytes: &[u8], address: u64) -> Option<Self> {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let raw = decoder.decode();
        (!raw.is_invalid()).then(|| Self::explain(raw))
    }

    /// Determines what an already decoded instruction accesses.
    pub(crate) fn explain(raw: iced_x86::Instruction) -> Self {
        let mut instruction = Self {
            raw,
            accesses: [Access::NONE; 2],
            count: 0,
            unsupported: false,
        };
        match meaning::accesses(&raw) {
            Ok(found) => {
                for (slot, access) in instruction
                    .accesses
                    .iter_mut()
                    .zip(found.into_iter().flatten())
                {
                    *slot = access;
                    instruction.count += 1;
                }
            }
            Err(meaning::Unsupported) => instruction.unsupported = true,
        }
        instruction
    }

    pub(crate) const fn raw(&self) -> &iced_x86::Instruction {
        &self.raw
    }

    /// The address of the instruction.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.raw.ip()
    }

    /// Its length in bytes: 1 to 15.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "an instruction is never empty")]
    pub const fn len(&self) -> usize {
        self.raw.len()
    }

    /// The address of the next instruction.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.raw.next_ip()
    }

    /// Whether it moves its operand only if a condition holds, and reads it in any case.
    #[must_use]
    pub fn is_conditional_move(&self) -> bool {
        self.raw.condition_code() != iced_x86::ConditionCode::None
            && self.raw.op1_kind() == OpKind::Memory
    }

    /// Whether it takes one of two values, by a condition or by a mask.
    #[must_use]
    pub fn chooses(&self) -> bool {
        use iced_x86::Mnemonic as M;
        let by_condition =
            self.raw.condition_code() != iced_x86::ConditionCode::None && self.raw.op_count() == 2;
        let by_mask = matches!(
            self.raw.mnemonic(),
            M::Andps
                | M::Andpd
                | M::Andnps
                | M::Andnpd
                | M::Pand
                | M::Pandn
                | M::Vandps
                | M::Vandpd
                | M::Vandnps
                | M::Vandnpd
                | M::Vpand
                | M::Vpandn
                | M::Blendps
                | M::Blendpd
                | M::Blendvps
                | M::Blendvpd
                | M::Pblendvb
                | M::Pblendw
                | M::Vblendps
                | M::Vblendpd
                | M::Vblendvps
                | M::Vblendvpd
                | M::Vpblendvb
                | M::Vpblendw
                | M::Vpblendd
                | M::Vpternlogd
                | M::Vpternlogq
        );
        by_condition || by_mask || self.raw.has_op_mask()
    }

    /// Whether it reads a number of floating point, alone or as an operand.
    #[must_use]
    pub fn reads_float(&self) -> bool {
        self.raw.op0_register().is_vector_register()
            && self.sampled_access().is_some_and(|access| {
                access.kind == AccessKind::Read && matches!(access.size, 4 | 8)
            })
    }

    /// Whether the condition of a conditional move holds: if not, its operand is read for
    /// nothing.
    #[must_use]
    pub fn condition_holds(&self, registers: &Registers) -> Option<bool> {
        use iced_x86::ConditionCode as Code;
        if !self.is_conditional_move() {
            return None;
        }
        let flag = |bit: u32| registers.rflags & (1 << bit) != 0;
        let (carry, parity, zero, sign, overflow) = (flag(0), flag(2), flag(6), flag(7), flag(11));
        Some(match self.raw.condition_code() {
            Code::None => return None,
            Code::o => overflow,
            Code::no => !overflow,
            Code::b => carry,
            Code::ae => !carry,
            Code::e => zero,
            Code::ne => !zero,
            Code::be => carry || zero,
            Code::a => !carry && !zero,
            Code::s => sign,
            Code::ns => !sign,
            Code::p => parity,
            Code::np => !parity,
            Code::l => sign != overflow,
            Code::ge => sign == overflow,
            Code::le => zero || sign != overflow,
            Code::g => !zero && sign == overflow,
        })
    }

    /// Its text in Intel syntax, with rip-relative operands as absolute addresses.
    #[must_use]
    pub fn text(&self) -> String {
        let mut formatter = IntelFormatter::new();
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_small_hex_numbers_in_decimal(true);
        options.set_space_after_operand_separator(true);
        options.set_branch_leading_zeros(false);
        options.set_rip_relative_addresses(false);
        options.set_show_branch_size(false);
        options.set_memory_size_options(MemorySizeOptions::Always);
        let mut text = String::new();
        formatter.format(&self.raw, &mut text);
        text
    }

    /// Whether it is atomic: `lock`-prefixed, or an exchange with memory.
    #[must_use]
    pub fn locked(&self) -> bool {
        self.raw.has_lock_prefix()
            || (self.raw.mnemonic() == iced_x86::Mnemonic::Xchg
                && (self.raw.op0_kind() == OpKind::Memory || self.raw.op1_kind() == OpKind::Memory))
    }

    /// Whether it makes a system call.
    #[must_use]
    pub fn is_syscall(&self) -> bool {
        match self.raw.mnemonic() {
            iced_x86::Mnemonic::Syscall | iced_x86::Mnemonic::Sysenter => true,
            iced_x86::Mnemonic::Int => self.raw.immediate8() == 0x80,
            _ => false,
        }
    }

    /// Whether it calls a function, directly or through memory or a register.
    #[must_use]
    pub fn is_call(&self) -> bool {
        matches!(self.flow(), Flow::Call(_))
    }

    /// Whether it is a repeated string instruction. Until it is done, the pc of an
    /// interrupted thread points to it, not past it.
    #[must_use]
    pub fn is_repeated(&self) -> bool {
        meaning::is_repeated(&self.raw)
    }

    /// Where execution goes after it.
    #[must_use]
    pub fn flow(&self) -> Flow {
        let target = || self.raw.near_branch_target();
        match self.raw.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::UnconditionalBranch if meaning::is_near_branch(&self.raw) => {
                Flow::Jump(Some(target()))
            }
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => Flow::Jump(None),
            FlowControl::ConditionalBranch | FlowControl::XbeginXabortXend => {
                if meaning::is_near_branch(&self.raw) {
                    Flow::Branch(target())
                } else {
                    Flow::Next
                }
            }
            FlowControl::Return => Flow::Return,
            // iced counts system calls as calls. They return to the next instruction, and
            // the memory operands are untouched.
            FlowControl::Call if self.is_syscall() => Flow::Trap,
            FlowControl::Call if meaning::is_near_branch(&self.raw) => Flow::Call(Some(target())),
            FlowControl::Call | FlowControl::IndirectCall => Flow::Call(None),
            FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
        }
    }

    /// Every access to data in memory, including the implicit ones of push, call, movs and
    /// the like, in the order in which the processor performs them.
    ///
    /// Empty if the instruction only computes an address or gives a hint (lea, nop,
    /// prefetch, cache control), and if it is [unsupported](Self::unsupported).
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        self.accesses
            .get(..usize::from(self.count))
            .unwrap_or_default()
    }

    /// Its explicit memory operand, also if it only computes the address.
    pub(crate) fn memory_operand(&self) -> Option<Operand> {
        let mut kinds = (0..self.raw.op_count()).map(|at| self.raw.op_kind(at));
        kinds
            .any(|kind| kind == OpKind::Memory)
            .then(|| meaning::operand(&self.raw))
    }

    /// The access that a window watches if this instruction is sampled. If there are several
    /// (`movs`, `cmps`), it is the one that writes, or else the first. Implicit stack
    /// accesses do not count.
    #[must_use]
    pub fn sampled_access(&self) -> Option<&Access> {
        let data = || self.accesses().iter().filter(|access| !access.stack_engine);
        data()
            .find(|access| access.kind.writes())
            .or_else(|| data().next())
    }

    /// What it accesses if it is a gather, a scatter or a masked move. It has no other accesses
    /// then, and is [unsupported](Self::unsupported) otherwise.
    #[must_use]
    pub fn gather(&self) -> Option<Gather> {
        let operand = || meaning::operand(&self.raw);
        if self.raw.is_vsib() {
            return gather::gather(&self.raw, operand());
        }
        if !self.raw.op_kinds().any(|kind| kind == OpKind::Memory) {
            return None;
        }
        gather::masked_move(&self.raw, operand())
    }

    /// Whether its accesses cannot be described: the bytes depend on more than
    /// general-purpose registers (masks, vectors of addresses, saved state), are not
    /// contiguous, or are more than 64.
    #[must_use]
    pub const fn unsupported(&self) -> bool {
        self.unsupported
    }
}
