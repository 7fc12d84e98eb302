//! What else is read of a target at a collision, so that a report says more than where it was:
//! where addresses among the values lead, the allocator's block, who created the threads.

use crate::confirm::Confirmed;
use redhanded_image::Instruction;
use redhanded_model::{Avma, Block, Bytes, Region, TaskId, ThreadName, WindowRecord};
use redhanded_target::{Inspect, Module, module_at};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Numbers below this are no addresses; those above the other are none of programs.
const ADDRESSES: std::ops::Range<u64> = 0x1_0000..1 << 47;
/// How many pairs of instructions are remembered.
const MOST_KNOWN: usize = 4096;

/// A thread that created another or allocated a block, and its stack then.
pub type Creator = (ThreadName, Vec<Avma>);

/// What lies around a collision.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Around {
    /// Where addresses among the values lead, outside modules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pointed: Vec<(u64, Region)>,
    /// The allocator's block that the bytes are in, if that is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<Block>,
    /// Who allocated it, if that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated: Option<Creator>,
    /// An instruction of the function in whose frame on a side's stack the bytes are, if that is
    /// certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<Avma>,
    /// Who created the sampled thread and the other one, if that was seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<Option<Creator>>,
}

/// The collisions that were looked at. The same instructions meet again and again, and the
/// threads stand meanwhile.
#[derive(Default)]
pub struct Known(HashSet<(Avma, Option<Avma>, bool)>);

impl Known {
    /// Looks around a collision whose threads stand, unless its like was looked at before.
    pub fn look(
        &mut self,
        target: &mut dyn Inspect,
        record: &WindowRecord,
        other: Option<(&Confirmed, TaskId)>,
        region: &Region,
        modules: &[Arc<Module>],
    ) -> Around {
        let pc = other.map(|(confirmed, _)| confirmed.pc);
        let changed = record.before != record.after;
        if self.0.len() >= MOST_KNOWN || !self.0.insert((record.pc, pc, changed)) {
            return Around::default();
        }
        let (block, allocated) = if may_be_block(region) {
            let at = record.bytes.start;
            let seen = target.allocation(record.space, at);
            block(target.block(record.space, at), seen)
        } else {
            (None, None)
        };
        let mut created = vec![target.creation(record.task)];
        created.extend(other.map(|(_, task)| target.creation(task)));
        Around {
            pointed: pointed(target, record, other.map(|(other, _)| other), modules),
            block,
            allocated,
            frame: frame(target, record, other.map(|(_, task)| task), region),
            created,
        }
    }
}

/// A block whose allocation was seen: the thread that did it, and its stack.
type Allocation = (Block, ThreadName, Vec<Avma>);

/// The block that has the bytes, as memory shows it and as its allocation was seen. If memory has
/// another one there, the one that was seen has ended.
fn block(found: Option<Block>, seen: Option<Allocation>) -> (Option<Block>, Option<Creator>) {
    match seen {
        Some((block, thread, stack))
            if found.is_none_or(|found| found.address == block.address) =>
        {
            (Some(block), Some((thread, stack)))
        }
        _ => (found, None),
    }
}

/// Whose frame has the bytes, if they are on the stack of one of the sides.
fn frame(
    target: &mut dyn Inspect,
    record: &WindowRecord,
    other: Option<TaskId>,
    region: &Region,
) -> Option<Avma> {
    let Region::Stack { thread } = region else {
        return None;
    };
    let caught = other.zip(record.hit.as_ref().map(|hit| &hit.registers));
    let mut sides = [Some((record.task, &record.registers)), caught]
        .into_iter()
        .flatten();
    let (task, registers) = sides.find(|(task, _)| task.0 == thread.tid)?;
    target.frame_at(task, registers, record.bytes.start)
}

/// Whether a block of an allocator may be there.
fn may_be_block(region: &Region) -> bool {
    match region {
        Region::Heap => true,
        Region::Mapping { name, shared } => name == "anonymous" && !shared,
        _ => false,
    }
}

/// Where the words lead that were read or written, if they may be addresses.
fn pointed(
    target: &mut dyn Inspect,
    record: &WindowRecord,
    other: Option<&Confirmed>,
    modules: &[Arc<Module>],
) -> Vec<(u64, Region)> {
    let both = both(record, other);
    let held = instruction_at(modules, record.pc);
    let caught = other.and_then(|other| instruction_at(modules, other.pc));
    let stored = [
        held.and_then(|one| one.stored(&record.registers)),
        caught
            .zip(record.hit.as_ref())
            .and_then(|(one, hit)| one.stored(&hit.registers)),
    ];
    let mut words: Vec<u64> = [&record.before, &record.after]
        .into_iter()
        .filter_map(|bytes| part(bytes, record.bytes, both))
        .chain(stored.iter().flatten().map(Vec::as_slice))
        .filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
        .filter(|word| ADDRESSES.contains(word))
        .filter(|word| module_at(modules, Avma(*word)).is_none())
        .collect();
    words.sort_unstable();
    words.dedup();
    let found = words.into_iter().map(|word| {
        let region = target.region(record.space, Avma(word));
        // The heaps of threads are anonymous.
        let is_block = region != Region::Heap
            && may_be_block(&region)
            && target.block(record.space, Avma(word)).is_some();
        (word, if is_block { Region::Heap } else { region })
    });
    found.collect()
}

/// The instruction at an address, as its file has it.
pub fn instruction_at(modules: &[Arc<Module>], pc: Avma) -> Option<Instruction> {
    let module = module_at(modules, pc)?;
    module.image.as_ref()?.instruction_at(module.svma(pc))
}

/// The bytes that both sides touch.
pub fn both(record: &WindowRecord, other: Option<&Confirmed>) -> Bytes {
    other
        .and_then(|other| other.bytes.intersection(record.bytes))
        .unwrap_or(record.bytes)
}

/// What `content`, which begins where `whole` does, has of `wanted`. `None` unless it has all.
pub fn part(content: &[u8], whole: Bytes, wanted: Bytes) -> Option<&[u8]> {
    let from = wanted.start.0.checked_sub(whole.start.0)?;
    let from = usize::try_from(from).ok()?;
    let len = usize::try_from(wanted.len).ok()?;
    content.get(from..from.checked_add(len)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_is_told_unless_memory_contradicts() {
        let at = |address, size| Block { address, size };
        let thread = ThreadName {
            tid: 1,
            name: String::new(),
            context: None,
        };
        let seen = Some((at(0x100, 40), thread.clone(), vec![Avma(7)]));
        let by = Some((thread, vec![Avma(7)]));
        // What was asked for is less than what is there.
        let told = (Some(at(0x100, 40)), by);
        assert_eq!(block(Some(at(0x100, 56)), seen.clone()), told);
        assert_eq!(block(None, seen.clone()), told);
        let other = Some(at(0x110, 24));
        assert_eq!(block(other, seen), (other, None));
        assert_eq!(block(other, None), (other, None));
    }

    #[test]
    fn a_part_is_cut_only_from_what_has_it_all() {
        let whole = Bytes::new(Avma(0x100), 4);
        let content = [1, 2, 3, 4];
        let cut = |start, len| part(&content, whole, Bytes::new(Avma(start), len));
        assert_eq!(cut(0x102, 2), Some(&[3, 4][..]));
        assert_eq!(cut(0x102, 3), None);
        assert_eq!(cut(0xff, 1), None);
    }
}
