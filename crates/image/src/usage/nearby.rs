//! Locks and barriers near an access.

use super::walk::writes;
use crate::{Image, Instruction};
use iced_x86::{FlowControl, InstructionInfoFactory, Mnemonic, OpKind};
use redhanded_model::{LockCall, Svma, lock_call};

/// How many instructions away a barrier is still near.
const NEAR: usize = 12;

/// Whether an instruction orders memory.
pub fn is_barrier(raw: &iced_x86::Instruction) -> bool {
    raw.has_lock_prefix()
        || matches!(raw.mnemonic(), Mnemonic::Mfence | Mnemonic::Sfence)
        || (raw.mnemonic() == Mnemonic::Xchg && raw.memory_base() != iced_x86::Register::None)
}

/// Whether an instruction writes to memory that it names.
fn stores(raw: &iced_x86::Instruction) -> bool {
    let mut info = InstructionInfoFactory::new();
    raw.op0_kind() == OpKind::Memory && writes(info.info(raw).op0_access())
}

impl Image {
    /// The function by which the code before `at` took a lock that it has not given back, as
    /// far as the order of instructions tells.
    #[must_use]
    pub fn lock_before(&self, at: Svma) -> Option<String> {
        let function = self.function_at(at)?;
        let mut held: Option<String> = None;
        for raw in self.instructions(function) {
            if raw.ip() >= at.0 {
                break;
            }
            if raw.flow_control() == FlowControl::Return {
                held = None;
            }
            let called = match raw.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => {
                    self.called_name(&Instruction::explain(raw))
                }
                // A lock is taken by a locked instruction, and may be given back by any that
                // stores. Others of the same function were perhaps only moved here.
                _ if is_barrier(&raw) || held.is_some() && stores(&raw) => {
                    self.inlined_lock(Svma(raw.ip()))
                }
                _ => None,
            };
            match called.as_deref().and_then(lock_call) {
                Some(LockCall::Takes) => held = called,
                Some(LockCall::Gives) => held = None,
                None => {}
            }
        }
        held
    }

    /// The function that takes or gives back a lock and was inlined there.
    fn inlined_lock(&self, at: Svma) -> Option<String> {
        let frames = self.debug().frames(at).into_iter();
        let inlined = frames.filter(|frame| frame.inlined);
        let mut names = inlined.filter_map(|frame| frame.function);
        names.find(|name| lock_call(name).is_some())
    }

    /// A barrier or a locked instruction near `at`, as text.
    #[must_use]
    pub fn barrier_near(&self, at: Svma) -> Option<String> {
        let function = self.function_at(at)?;
        let code: Vec<_> = self.instructions(function).collect();
        let position = code.iter().position(|raw| raw.ip() == at.0)?;
        let near = code.get(position.saturating_sub(NEAR)..(position + NEAR).min(code.len()))?;
        let found = near
            .iter()
            .find(|raw| raw.ip() != at.0 && is_barrier(raw))?;
        Some(Instruction::explain(*found).text())
    }
}
