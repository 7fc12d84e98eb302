//! Confirmation: a hit becomes a collision only if the instruction that just ran
//! touched the sampled bytes, and the two accesses conflict.
//!
//! The number that comes with a hit says which window it belongs to, but the
//! kernel fills it in at delivery, so a hit that was under way while its debug
//! register was moved carries the wrong one. The machine's state does not lie:
//! the instruction before the pc, decoded from its function's start, with the
//! registers as they are now, names the bytes it accessed.

use crate::around::Around;
use crate::capture::Replay;
use crate::over_read;
use redhanded_image::{After, Gather, Instruction};
use redhanded_model::system_call::{self, Progress};
use redhanded_model::{
    AccessKind, Analysed, Avma, Bytes, Change, Form, Hit, Loss, ModuleId, Region, Registers,
    SpaceId, Suspect, ThreadName, Vectors, WindowEnd, WindowRecord,
};
use redhanded_target::{Holds, Inspect, Mapping, Module, module_at};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// SIGSEGV in a set of signals.
const SEGMENTATION_FAULT: u64 = 1 << 10;

/// The conflicting access, confirmed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Confirmed {
    /// The instruction.
    pub pc: Avma,
    /// What it did.
    pub kind: AccessKind,
    /// The bytes it touched.
    pub bytes: Bytes,
    /// Whether it synchronises by itself.
    pub locked: bool,
    /// The instruction as text.
    pub instruction: String,
    /// The system call that made the access for the thread.
    pub system_call: Option<String>,
    /// How the instruction accesses memory.
    #[serde(default)]
    pub form: Form,
    /// The bytes that it found, where the instruction tells.
    #[serde(default)]
    pub found: Option<Vec<u8>>,
    /// If it is locked, whether it changed the bytes that meet.
    #[serde(default)]
    pub change: Change,
    /// The function that gave the bytes back: then there is no access of the program's, and the
    /// instruction is its call.
    #[serde(default)]
    pub freed_by: Option<String>,
}

/// A collision with everything that must be read while both threads are stopped.
/// It is plain data: modules are numbers, and whoever judges it has the files.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
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
    /// The modules that were mapped.
    pub modules: Vec<ModuleId>,
    /// Who may have changed the bytes, where nobody was caught.
    pub suspects: Vec<Suspect>,
    /// The bytes at the sampled instruction.
    pub sampled_code: Vec<u8>,
    /// What else was read of the target.
    #[serde(default)]
    pub around: Around,
    /// What replaying it came to, if that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<Replay>,
    /// What an analysis says of it, if it comes from a recording. Registers and values are then
    /// not known, and code only as far as its file has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysed: Option<Analysed>,
}

impl Collision {
    /// The sampled instruction.
    #[must_use]
    pub fn sampled_instruction(&self) -> Option<Instruction> {
        Instruction::decode(&self.sampled_code, self.record.pc.0)
    }

    /// The registers of the sampled thread, where they are known.
    #[must_use]
    pub fn registers(&self) -> Option<&Registers> {
        self.analysed.is_none().then_some(&self.record.registers)
    }

    /// Fills in what the files say of the two instructions, if it comes from a recording.
    pub fn complete(&mut self, modules: &[Arc<Module>]) {
        if self.analysed.is_none() {
            return;
        }
        let code = |pc: Avma| {
            let module = module_at(modules, pc)?;
            let image = module.image.as_ref()?;
            let instruction = image.instruction_at(module.svma(pc))?;
            let length = usize::try_from(instruction.next().checked_sub(module.svma(pc).0)?);
            let bytes = image.bytes_at(module.svma(pc), length.ok()?)?;
            Some((instruction, bytes.to_vec()))
        };
        if let Some((_, bytes)) = code(self.record.pc) {
            self.sampled_code = bytes;
        }
        if let Some((confirmed, ..)) = &mut self.other
            && confirmed.system_call.is_none()
            && let Some((instruction, _)) = code(confirmed.pc)
        {
            confirmed.form = instruction.form();
            confirmed.instruction = instruction.text();
            confirmed.locked = instruction.locked();
            if let Some(part) = part_of(confirmed.bytes, self.record.bytes) {
                confirmed.change = instruction.changes(part);
            }
        }
    }
}

/// Whether the instruction in `code` makes the access that the window is about. The
/// site was decoded earlier, and code changes. `vectors` are the registers of its task.
pub fn is_access_of(
    code: &[u8],
    record: &WindowRecord,
    vectors: impl FnOnce() -> Option<Box<Vectors>>,
) -> bool {
    let Some(instruction) = Instruction::decode(code, record.pc.0) else {
        return false;
    };
    if let Some(gather) = instruction.gather() {
        return gather.kind == record.kind
            && vectors().is_some_and(|vectors| {
                gather
                    .before(&record.registers, &vectors)
                    .contains(&record.bytes)
            });
    }
    instruction.sampled_access().is_some_and(|access| {
        let bytes = access.bytes_before(&record.registers);
        access.kind == record.kind
            && bytes.is_some_and(|b| b.intersection(record.bytes) == Some(record.bytes))
    })
}

/// Whether the sampled access was asked for one of the bytes that changed.
pub fn is_asked_for(target: &mut dyn Inspect, record: &WindowRecord) -> bool {
    let changed: Vec<u64> = (0u64..)
        .zip(record.before.iter().zip(&record.after))
        .filter(|(_, (before, after))| before != after)
        .map(|(at, _)| at)
        .collect();
    let (Some(first), Some(last)) = (changed.first(), changed.last()) else {
        return true;
    };
    let changed = Bytes::new(record.bytes.start.offset(*first), last + 1 - first);
    over_read::asked_for(target, &sampled_reader(record), changed)
}

/// Whether the sampled access would fault, as its memory is mapped now. It is then not made before
/// a handler of the program has let it, and so comes after what was caught: memory that is filled
/// when it is first used, or copied when it is first written.
pub fn would_fault(mappings: &[Mapping], record: &WindowRecord) -> bool {
    let at = record.bytes.start.0;
    let mapping = mappings.iter().find(|one| one.range.contains(&at));
    mapping.is_some_and(|mapping| match mapping.holds {
        Holds::Nothing => true,
        Holds::Bytes => record.kind.writes() && !mapping.writable,
        Holds::Stack | Holds::Clock | Holds::Unknown => false,
    })
}

/// Whether the sampled access finds nothing at its address, and the program handles the fault: it
/// may do so on purpose.
pub fn is_handled(target: &mut dyn Inspect, record: &WindowRecord) -> bool {
    let handled = |target: &mut dyn Inspect| target.handled_signals(record.space);
    record.end == WindowEnd::Unmapped && handled(target) & SEGMENTATION_FAULT != 0
}

/// The held task at its access.
fn sampled_reader(record: &WindowRecord) -> over_read::Reader<'_> {
    over_read::Reader {
        space: record.space,
        pc: record.pc,
        registers: &record.registers,
        ran: false,
        access: (record.kind, record.bytes),
    }
}

/// Finds the access behind `hit`, and that both sides were asked for the bytes.
///
/// # Errors
/// The loss to count when it cannot be confirmed.
pub fn confirm(
    target: &mut dyn Inspect,
    record: &WindowRecord,
    hit: &Hit,
) -> Result<Confirmed, Loss> {
    let confirmed = find(target, record, hit)?;
    let other = over_read::Reader {
        space: record.space,
        pc: confirmed.pc,
        registers: &hit.registers,
        ran: true,
        access: (confirmed.kind, confirmed.bytes),
    };
    // A system call reads exactly what its arguments say.
    let asked_for =
        confirmed.system_call.is_some() || over_read::asked_for(target, &other, record.bytes);
    if asked_for && over_read::asked_for(target, &sampled_reader(record), confirmed.bytes) {
        Ok(confirmed)
    } else {
        Err(Loss::OverRead)
    }
}

fn find(target: &mut dyn Inspect, record: &WindowRecord, hit: &Hit) -> Result<Confirmed, Loss> {
    let rip = Avma(hit.registers.rip);
    // The pc of an interrupted string instruction is that instruction's own.
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
        if let Some(gather) = instruction.gather() {
            return gathered(target, &instruction, gather, record, hit);
        }
        match check(&instruction, pc, record, hit) {
            Ok(confirmed) => return Ok(confirmed),
            Err(reason) => loss = reason,
        }
    }
    // After a call, the instruction that ran is told by the return address.
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
fn decode(target: &mut dyn Inspect, space: SpaceId, pc: Avma) -> Option<Instruction> {
    Instruction::decode(&code_at(target, space, pc), pc.0)
}

/// The bytes at `pc`, enough for one instruction if there are so many.
pub fn code_at(target: &mut dyn Inspect, space: SpaceId, pc: Avma) -> Vec<u8> {
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
            // A string instruction has come this far, and the watch says that it
            // touched this piece.
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
            return Ok(Confirmed {
                pc,
                kind: access.kind,
                bytes,
                locked: instruction.locked(),
                instruction: instruction.text(),
                system_call: None,
                freed_by: None,
                form: instruction.form(),
                found: found(instruction, bytes, record, hit),
                change: change(instruction, bytes, record, hit),
            });
        }
    }
    Err(loss)
}

/// What an update found in `bytes`, from what they are now.
fn found(
    instruction: &Instruction,
    bytes: Bytes,
    record: &WindowRecord,
    hit: &Hit,
) -> Option<Vec<u8>> {
    let from = usize::try_from(bytes.start.0.checked_sub(record.bytes.start.0)?).ok()?;
    let len = usize::try_from(bytes.len).ok()?;
    let now = hit.bytes_now.get(from..from.checked_add(len)?)?;
    instruction.found(now, &hit.registers)
}

/// Whether a locked update of `bytes` changed those of them that were sampled.
fn change(instruction: &Instruction, bytes: Bytes, record: &WindowRecord, hit: &Hit) -> Change {
    if !instruction.locked() {
        return Change::Made;
    }
    // What else it updated was not read, and is none of the bytes that meet.
    let widened = |known: &[u8]| -> Vec<u8> {
        let at = |address: u64| {
            let from = address.checked_sub(record.bytes.start.0)?;
            known.get(usize::try_from(from).ok()?).copied()
        };
        let all = bytes.start.0..bytes.end();
        all.map(|address| at(address).unwrap_or_default()).collect()
    };
    part_of(bytes, record.bytes).map_or(Change::Unknown, |part| {
        let (before, now) = (widened(&record.before), widened(&hit.bytes_now));
        instruction.changed(&before, &now, &hit.registers, part)
    })
}

/// Where the bytes that both touch are in `whole`.
pub fn part_of(whole: Bytes, other: Bytes) -> Option<Range<usize>> {
    let both = whole.intersection(other)?;
    let from = usize::try_from(both.start.0 - whole.start.0).ok()?;
    Some(from..from.checked_add(usize::try_from(both.len).ok()?)?)
}

/// Whether an element of a gather or scatter conflicts with the sampled access.
fn gathered(
    target: &mut dyn Inspect,
    instruction: &Instruction,
    gather: Gather,
    record: &WindowRecord,
    hit: &Hit,
) -> Result<Confirmed, Loss> {
    let vectors = target.vectors(hit.task).ok_or(Loss::UnknownInstruction)?;
    let elements = gather.after(&hit.registers, &vectors);
    let bytes = elements
        .into_iter()
        .find(|element| element.overlaps(record.bytes) && gather.kind.conflicts(record.kind))
        .ok_or(Loss::NotOverlapping)?;
    Ok(Confirmed {
        pc: Avma(instruction.address()),
        kind: gather.kind,
        bytes,
        locked: false,
        instruction: instruction.text(),
        system_call: None,
        freed_by: None,
        form: Form::Wide,
        found: None,
        change: Change::Made,
    })
}

/// The bytes read by a load that overwrote its own address register: the watched
/// ones, if size and value fit.
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

/// Confirms an access by the kernel during a system call, if the arguments explain
/// it.
fn in_kernel(
    target: &mut dyn Inspect,
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
    let access = system_call::access(
        &hit.registers,
        Progress::Returned,
        record.bytes,
        record.kind,
        &mut read_word,
    );
    match access {
        Some((name, kind, bytes)) => Ok(Confirmed {
            pc,
            kind,
            bytes,
            locked: false,
            instruction: instruction.text(),
            system_call: Some(name.to_owned()),
            freed_by: None,
            form: Form::Unknown,
            found: None,
            change: Change::Made,
        }),
        None => Err(Loss::KernelAccess),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::{ModuleId, Register, Registers, Svma, TaskId, WindowEnd, WindowId};

    /// A window at `mov eax, [rdi]`.
    fn window(kind: AccessKind) -> WindowRecord {
        let mut registers = Registers::default();
        registers.set(Register::Rdi, 0x1000);
        registers.set(Register::Rsi, 0x2000);
        WindowRecord {
            id: WindowId(1),
            space: SpaceId::default(),
            module: ModuleId(0),
            svma: Svma(0x400),
            pc: Avma(0x400),
            task: TaskId(1),
            registers,
            bytes: Bytes::new(Avma(0x1000), 4),
            kind,
            before: vec![0; 4],
            after: vec![0; 4],
            hit: None,
            end: WindowEnd::Elapsed,
            held: std::time::Duration::ZERO,
            losses: Vec::new(),
        }
    }

    #[test]
    fn other_code_at_the_place_is_not_what_was_sampled() {
        let record = window(AccessKind::Read);
        let is = |code: &[u8]| is_access_of(code, &record, || None);
        assert!(is(&[0x8b, 0x07]), "mov eax, [rdi]");
        assert!(!is(&[0x8b, 0x06]), "mov eax, [rsi]");
        assert!(!is(&[0x89, 0x07]), "mov [rdi], eax");
        assert!(!is(&[0x8a, 0x07]), "mov al, [rdi]");
        assert!(!is(&[0x90]), "nop");
        assert!(!is(&[]), "nothing can be read");
    }

    #[test]
    fn a_compare_exchange_that_failed_is_told_by_its_flag() {
        let instruction = Instruction::decode(&[0xf0, 0x0f, 0xb1, 0x37], 0x400).unwrap(); // lock cmpxchg [rdi], esi
        let change = |rflags| {
            let record = window(AccessKind::Read);
            let mut registers = record.registers;
            registers.rflags = rflags;
            let hit = Hit {
                task: TaskId(2),
                registers,
                watched: record.bytes,
                bytes_now: vec![0; 4],
            };
            let confirmed = check(&instruction, Avma(0x400), &record, &hit).unwrap();
            assert!(confirmed.locked);
            confirmed.change
        };
        assert_eq!(change(0), Change::None);
        // It compared with zero, and wrote what is in esi.
        assert_eq!(change(1 << 6), Change::Made);
    }

    #[test]
    fn what_would_fault_is_not_made_yet() {
        let faults = |kind, holds, writable, start| {
            let mapping = Mapping {
                range: start..start + 0x1000,
                writable,
                executable: false,
                holds,
            };
            would_fault(&[mapping], &window(kind))
        };
        let (read, write) = (AccessKind::Read, AccessKind::Write);
        assert!(faults(read, Holds::Nothing, false, 0x1000));
        assert!(faults(write, Holds::Bytes, false, 0x1000));
        assert!(!faults(read, Holds::Bytes, false, 0x1000));
        assert!(!faults(write, Holds::Bytes, true, 0x1000));
        assert!(!faults(write, Holds::Nothing, false, 0x2000), "elsewhere");
        assert!(!would_fault(&[], &window(write)), "nothing is known");
    }
}
