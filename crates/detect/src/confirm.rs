//! Confirmation: a hit becomes a collision only if the instruction that just ran
//! really touched the sampled bytes, in conflict.
//!
//! The number that comes with a hit says which window it belongs to, but the
//! kernel fills it in at delivery, so a hit that was under way while its debug
//! register was moved carries the wrong one. The machine's state does not lie:
//! the instruction before the pc, decoded from its function's start, with the
//! registers as they are now, names the bytes it accessed.

use crate::system_call;
use redhanded_image::{After, Instruction};
use redhanded_model::{
    AccessKind, Avma, Bytes, Hit, Loss, Region, SpaceId, ThreadName, WindowRecord,
};
use redhanded_target::{Module, Target, module_at};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Functions of the C library that read whole vectors but only bytes they were
/// asked for. The others of their kind read past the end of a string, which the
/// program's author did not do.
const EXACT: &[&str] = &[
    "memcpy",
    "memmove",
    "mempcpy",
    "memcmp",
    "bcmp",
    "__memcpy_chk",
    "__memmove_chk",
];

/// The conflicting access, as it was made out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Confirmed {
    /// The instruction.
    pub pc: Avma,
    /// What it did.
    pub kind: AccessKind,
    /// To which bytes.
    pub bytes: Bytes,
    /// Whether it synchronises by itself.
    pub locked: bool,
    /// As text.
    pub instruction: String,
    /// The system call that did it for the thread.
    pub system_call: Option<String>,
    /// Whether no compiler would use such an instruction for an atomic access.
    pub never_atomic: bool,
}

/// A collision with everything that must be read while both threads stand.
#[derive(Clone, Debug)]
pub struct Collision {
    /// The window.
    pub record: WindowRecord,
    /// The sampled thread and its stack.
    pub sampled: (ThreadName, Vec<Avma>),
    /// The other access with its thread and stack; `None` if only the bytes are
    /// known to have changed.
    pub other: Option<(Confirmed, ThreadName, Vec<Avma>)>,
    /// Where the bytes are.
    pub region: Region,
    /// What was mapped.
    pub modules: Vec<Arc<Module>>,
    /// Who may have changed the bytes, where nobody was caught.
    pub suspects: Vec<String>,
    /// The bytes at the sampled instruction.
    pub sampled_code: Vec<u8>,
}

impl Collision {
    /// The sampled instruction.
    #[must_use]
    pub fn sampled_instruction(&self) -> Option<Instruction> {
        Instruction::decode(&self.sampled_code, self.record.pc.0)
    }
}

/// Whether the instruction that is there now is about to access what the window is
/// about: it was read earlier, and code changes.
pub fn is_access_of(code: &[u8], record: &WindowRecord) -> bool {
    let Some(instruction) = Instruction::decode(code, record.pc.0) else {
        return false;
    };
    instruction.sampled_access().is_some_and(|access| {
        let bytes = access.bytes_before(&record.registers);
        access.kind == record.kind
            && bytes.is_some_and(|b| b.intersection(record.bytes) == Some(record.bytes))
    })
}

/// Makes out the access behind `hit`.
///
/// # Errors
/// The loss to count when it cannot be confirmed.
pub fn confirm(
    target: &mut dyn Target,
    record: &WindowRecord,
    hit: &Hit,
) -> Result<Confirmed, Loss> {
    let rip = Avma(hit.registers.rip);
    // An interrupted string instruction stands on itself.
    if let Some(instruction) = decode(target, record.space, rip)
        && instruction.is_repeated()
        && let Ok(confirmed) = check(&instruction, rip, record, hit)
    {
        return Ok(confirmed);
    }
    let mut loss = Loss::UnknownInstruction;
    if let Some(pc) = target.instruction_before(record.space, rip)
        && let Some(instruction) = decode(target, record.space, pc)
    {
        if instruction.is_syscall() {
            return in_kernel(target, pc, &instruction, record, hit);
        }
        match check(&instruction, pc, record, hit) {
            Ok(confirmed) => return over_read(target, confirmed, record.space, hit),
            Err(reason) => loss = reason,
        }
    }
    // A call is behind us, but where it came from is on the stack.
    let mut word = [0; 8];
    if target.read(record.space, Avma(hit.registers.stack_pointer()), &mut word)
        && let back = Avma(u64::from_le_bytes(word))
        && let Some(pc) = target.instruction_before(record.space, back)
        && let Some(instruction) = decode(target, record.space, pc)
        && instruction.is_call()
        && let Ok(confirmed) = check(&instruction, pc, record, hit)
    {
        return Ok(confirmed);
    }
    Err(loss)
}

/// Decodes the instruction at `pc` of the target, breakpoints hidden.
fn decode(target: &mut dyn Target, space: SpaceId, pc: Avma) -> Option<Instruction> {
    Instruction::decode(&code_at(target, space, pc), pc.0)
}

/// The bytes at `pc`, enough for one instruction if there are so many.
pub fn code_at(target: &mut dyn Target, space: SpaceId, pc: Avma) -> Vec<u8> {
    let mut code = vec![0; 15];
    let readable = (1..=code.len())
        .rev()
        .find(|len| target.read(space, pc, &mut code[..*len]));
    code.truncate(readable.unwrap_or(0));
    code
}

/// Whether an access of `instruction`, which just ran, conflicts with the
/// sampled one.
fn check(
    instruction: &Instruction,
    pc: Avma,
    record: &WindowRecord,
    hit: &Hit,
) -> Result<Confirmed, Loss> {
    if instruction.unsupported() {
        return Err(Loss::UnknownInstruction);
    }
    let mut loss = Loss::NotOverlapping;
    for access in instruction.accesses() {
        if !access.kind.conflicts(record.kind) {
            continue;
        }
        let bytes = match access.bytes_after(&hit.registers) {
            After::Exact(bytes) => bytes.overlaps(record.bytes).then_some(bytes),
            // Of a string instruction it is known that it got here, and the watch
            // says that it touched this piece.
            After::Recent(recent) => recent
                .intersection(hit.watched)
                .and_then(|bytes| bytes.intersection(record.bytes)),
            After::Destroyed { value } => {
                let loaded = loaded_from(value, access.size, record, hit);
                if loaded.is_none() {
                    loss = Loss::AddressDestroyed;
                }
                loaded
            }
        };
        if let Some(bytes) = bytes {
            let size = u64::from(access.size);
            return Ok(Confirmed {
                pc,
                kind: access.kind,
                bytes,
                locked: instruction.locked(),
                instruction: instruction.text(),
                system_call: None,
                never_atomic: instruction.is_repeated() || size > 8 || !size.is_power_of_two(),
            });
        }
    }
    Err(loss)
}

/// The bytes a load came from that overwrote its own address: those watched, if
/// size and value say so.
fn loaded_from(value: Option<u64>, size: u32, record: &WindowRecord, hit: &Hit) -> Option<Bytes> {
    let value = value?.to_le_bytes();
    let size = size as usize;
    let bytes = record.bytes.intersection(hit.watched)?;
    let same = |memory: &[u8]| {
        let from = (bytes.start.0 - record.bytes.start.0) as usize;
        memory.get(from..from + bytes.len as usize) == value.get(..bytes.len as usize)
    };
    (size == bytes.len as usize && (same(&hit.bytes_now) || same(&record.before))).then_some(bytes)
}

/// The kernel touched the bytes during a system call: if its arguments say so.
fn in_kernel(
    target: &mut dyn Target,
    pc: Avma,
    instruction: &Instruction,
    record: &WindowRecord,
    hit: &Hit,
) -> Result<Confirmed, Loss> {
    let mut read_word = |at: Avma| {
        let mut word = [0; 8];
        target
            .read(record.space, at, &mut word)
            .then(|| u64::from_le_bytes(word))
    };
    let access = system_call::access(&hit.registers, record.bytes, &mut read_word);
    match access {
        Some((name, kind, bytes)) if kind.conflicts(record.kind) => Ok(Confirmed {
            pc,
            kind,
            bytes,
            locked: false,
            instruction: instruction.text(),
            system_call: Some(name.to_owned()),
            never_atomic: true,
        }),
        _ => Err(Loss::KernelAccess),
    }
}

/// Rejects vector reads of string functions that may go past their data.
fn over_read(
    target: &mut dyn Target,
    confirmed: Confirmed,
    space: SpaceId,
    hit: &Hit,
) -> Result<Confirmed, Loss> {
    if confirmed.kind.writes() || confirmed.bytes.len <= 8 {
        return Ok(confirmed);
    }
    let mut modules = target.modules();
    modules.retain(|module| module.space == space);
    let Some(module) = module_at(&modules, confirmed.pc) else {
        return Ok(confirmed);
    };
    if !redhanded_image::is_runtime(Path::new(&module.name)) {
        return Ok(confirmed);
    }
    // The variants of string functions have no symbols in a stripped library;
    // the call that led here names what was asked for.
    let stack = target.stack(hit.task, &hit.registers);
    let name = stack.get(1).and_then(|back| {
        let caller = module_at(&modules, *back)?;
        caller.image.as_ref()?.call_target_name(caller.svma(*back))
    });
    match name {
        Some(name) if EXACT.contains(&name.as_str()) => Ok(confirmed),
        _ => Err(Loss::OverRead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::{ModuleId, Register, Registers, Svma, TaskId, WindowEnd, WindowId};

    #[test]
    fn other_code_at_the_place_is_not_what_was_sampled() {
        let mut registers = Registers::default();
        registers.set(Register::Rdi, 0x1000);
        registers.set(Register::Rsi, 0x2000);
        let record = WindowRecord {
            id: WindowId(1),
            space: SpaceId::default(),
            module: ModuleId(0),
            svma: Svma(0x400),
            pc: Avma(0x400),
            task: TaskId(1),
            registers,
            bytes: Bytes::new(Avma(0x1000), 4),
            kind: AccessKind::Read,
            before: vec![0; 4],
            after: vec![0; 4],
            hit: None,
            end: WindowEnd::Elapsed,
            held: std::time::Duration::ZERO,
            losses: Vec::new(),
        };
        let is = |code: &[u8]| is_access_of(code, &record);
        assert!(is(&[0x8b, 0x07]), "mov eax, [rdi]");
        assert!(!is(&[0x8b, 0x06]), "mov eax, [rsi]");
        assert!(!is(&[0x89, 0x07]), "mov [rdi], eax");
        assert!(!is(&[0x8a, 0x07]), "mov al, [rdi]");
        assert!(!is(&[0x90]), "nop");
        assert!(!is(&[]), "nothing can be read");
    }
}
