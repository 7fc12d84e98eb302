//! What is known about a collision, collected in one place. Nothing here says what it means:
//! that is for the rules in `model/src/class.rs`.

mod allocation;
mod names;

use crate::confirm::part_of;
use crate::{Collision, Confirmed, naming};
use redhanded_image::{Image, StringFunction, is_runtime};
use redhanded_model::{
    AccessKind, Avma, Bytes, Change, Declared, Doubt, Evidence, Extent, Fact, Form, Frame, Known,
    Marking, Region, Registers, SideEvidence, Sort, SourceEvidence, Svma, What, WindowEnd,
    memory_function,
};
use redhanded_target::{Module, VMLINUX, module_at};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub use allocation::freeing_call;

/// How many callers are checked for a section that guards what they call.
const GUARDING_CALLERS: usize = 4;

/// Collects what is known of the two accesses. `frames` are those of each side.
pub fn collect(collision: &Collision, modules: &[Arc<Module>], frames: [&[Frame]; 2]) -> Evidence {
    let record = &collision.record;
    let mut sides = vec![sampled_side(collision, modules, frames[0])];
    let mut conflict = changed(record.bytes, &record.before, &record.after);
    if let Some((confirmed, _, stack)) = &collision.other {
        let registers = record.hit.as_ref().map(|hit| &hit.registers);
        let confirmed_side = confirmed_side(confirmed, registers, stack, modules, frames[1]);
        sides.push(confirmed_side);
        let changes = [sampled_change(collision, confirmed), confirmed.change];
        for (side, change) in sides.iter_mut().zip(changes) {
            side.facts.extend(changes_nothing(change).map(Known::from));
        }
        conflict = confirmed.bytes.intersection(record.bytes).map(Extent::from);
    }
    allocation::add(&mut sides, &frames, &collision.region);
    let unmapped = (record.end == WindowEnd::Unmapped).then_some(Fact::Unmapped);
    Evidence {
        sides,
        conflict,
        bytes: unmapped.into_iter().map(Known::from).collect(),
    }
}

/// The fact about a locked update that changes nothing, or may change nothing.
const fn changes_nothing(change: Change) -> Option<Fact> {
    match change {
        Change::Made => None,
        Change::None => Some(Fact::ChangesNothing { known: true }),
        Change::Unknown => Some(Fact::ChangesNothing { known: false }),
    }
}

/// Whether the sampled access changes the bytes that meet. Locked instructions are not sampled, so
/// it is one of a recording if it is locked, and what was in its registers is not known.
fn sampled_change(collision: &Collision, confirmed: &Confirmed) -> Change {
    let part = part_of(collision.record.bytes, confirmed.bytes);
    let instruction = collision.sampled_instruction().zip(part);
    instruction.map_or(Change::Made, |(instruction, part)| {
        instruction.changes(part)
    })
}

/// The expressions by which the source accesses the bytes.
pub fn expressions(evidence: &Evidence) -> String {
    let sides = evidence.sides.iter().filter_map(SideEvidence::source);
    let texts = sides.filter_map(|source| Some(source.expression.as_ref()?.text.as_str()));
    texts.collect::<Vec<_>>().join(" ")
}

/// Adds what the name of the bytes tells: how the part that is raced on is declared, if that
/// matters; whether that is on purpose; and whether it is what a vectorised loop is about.
pub fn add_names(evidence: &mut Evidence, what: &What, declared: Option<(String, Declared)>) {
    let declared = declared.map(|(part, as_what)| Fact::Declared { part, as_what });
    let special = names::special(what).map(|reason| Fact::Special {
        reason: reason.to_owned(),
    });
    let facts = declared.into_iter().chain(special);
    evidence.bytes.extend(facts.map(Known::from));
    for side in &mut evidence.sides {
        if let Some(reached) = names_member(side, what) {
            side.facts.push(Fact::InSource { reached }.into());
        }
    }
}

/// Where a loop reads over gaps between the members that it is about: whether the bytes that
/// meet are such a member. Where a read takes in what the source reads on a condition: true if
/// the bytes are the member that it reads in any case.
fn names_member(side: &SideEvidence, what: &What) -> Option<bool> {
    let source = side.source()?;
    let perhaps = match source.marking {
        Marking::Unknown { why: Doubt::Wider } => false,
        Marking::Unknown {
            why: Doubt::Conditional,
        } => true,
        _ => return None,
    };
    let (_, member) = source.expression.as_ref()?.text.rsplit_once(['.', '>'])?;
    let (_, of_bytes) = what.field.as_ref()?.rsplit_once('.')?;
    let without_index = |name: &str| name.split('[').next().map(|name| name.trim().to_owned());
    let same = without_index(member)? == without_index(of_bytes)?;
    (same || !perhaps).then_some(same)
}

/// The bytes from the first to the last that differ.
fn changed(bytes: Bytes, before: &[u8], after: &[u8]) -> Option<Extent> {
    let differs = || {
        before
            .iter()
            .zip(after)
            .map(|(before, after)| before != after)
    };
    let first = differs().position(|differs| differs)? as u64;
    let last = differs()
        .collect::<Vec<_>>()
        .iter()
        .rposition(|differs| *differs)? as u64;
    Some(Extent {
        address: bytes.start.0.saturating_add(first),
        size: last - first + 1,
    })
}

/// One access, as far as the machine's state tells.
struct Access<'a> {
    pc: Avma,
    kind: AccessKind,
    bytes: Bytes,
    locked: bool,
    form: Form,
    system_call: Option<&'a str>,
    freed_by: Option<&'a str>,
    /// The registers before it, or after it: flags are the same.
    registers: Option<&'a Registers>,
    stack: &'a [Avma],
    frames: &'a [Frame],
}

fn sampled_side(collision: &Collision, modules: &[Arc<Module>], frames: &[Frame]) -> SideEvidence {
    let record = &collision.record;
    let instruction = collision.sampled_instruction();
    side(
        &Access {
            pc: record.pc,
            kind: record.kind,
            bytes: record.bytes,
            locked: instruction.is_some_and(|i| i.locked()),
            form: instruction.map(|i| i.form()).unwrap_or_default(),
            system_call: None,
            freed_by: None,
            registers: collision.registers(),
            stack: &collision.sampled.1,
            frames,
        },
        modules,
    )
}

/// What one access is, before anything collided with it: by the same facts and rules.
pub fn sort_of(touch: &Touch, modules: &[Arc<Module>]) -> Sorted {
    let none = Sorted {
        sort: Sort::Doubtful,
        is_memory_function: false,
        may_over_read: false,
    };
    let code = module_at(modules, touch.pc).and_then(|module| {
        let (image, svma) = (module.image.as_ref()?, module.svma(touch.pc));
        Some((
            image.instruction_at(svma)?,
            image.string_function(svma, false),
        ))
    });
    let Some((instruction, string_function)) = code else {
        return none;
    };
    let reads_past = |function: StringFunction| {
        let is_wide = touch.bytes.len >= function.narrowest.max(2);
        // An element of a masked vector is read together with the others.
        !touch.kind.writes() && (is_wide || instruction.gather().is_some())
    };
    let frames = naming::frames(&touch.stack, modules);
    let mut evidence = Evidence {
        sides: vec![side(
            &Access {
                pc: touch.pc,
                kind: touch.kind,
                bytes: touch.bytes,
                locked: instruction.locked(),
                form: instruction.form(),
                system_call: None,
                freed_by: None,
                registers: None,
                stack: &touch.stack,
                frames: &frames,
            },
            modules,
        )],
        conflict: None,
        bytes: Vec::new(),
    };
    let expressions = expressions(&evidence);
    let described = naming::what(touch.bytes, Region::Unknown, modules, &expressions);
    add_names(&mut evidence, &described.what, described.declared);
    let Some(side) = evidence.sides.first() else {
        return none;
    };
    let memory = |fact: &Fact| matches!(fact, Fact::MemoryFunction { .. }).then_some(());
    Sorted {
        sort: side.sort(&evidence.bytes),
        is_memory_function: side.find(memory).is_some(),
        may_over_read: string_function.is_some_and(reads_past),
    }
}

/// An access of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Touch {
    /// The instruction.
    pub pc: Avma,
    /// What it did.
    pub kind: AccessKind,
    /// To which bytes.
    pub bytes: Bytes,
    /// The instruction and the return addresses behind it, as far as they matter.
    pub stack: Vec<Avma>,
}

/// What an access is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sorted {
    /// Whether it is atomic.
    pub sort: Sort,
    /// Whether `memcpy` or another function of its kind makes it.
    pub is_memory_function: bool,
    /// Whether it may go past what a string function was asked for. Which bytes that was, only
    /// the registers of its caller tell.
    pub may_over_read: bool,
}

fn confirmed_side(
    confirmed: &Confirmed,
    registers: Option<&Registers>,
    stack: &[Avma],
    modules: &[Arc<Module>],
    frames: &[Frame],
) -> SideEvidence {
    side(
        &Access {
            pc: confirmed.pc,
            kind: confirmed.kind,
            bytes: confirmed.bytes,
            locked: confirmed.locked,
            form: confirmed.form,
            system_call: confirmed.system_call.as_deref(),
            freed_by: confirmed.freed_by.as_deref(),
            registers,
            stack,
            frames,
        },
        modules,
    )
}

fn side(access: &Access<'_>, modules: &[Arc<Module>]) -> SideEvidence {
    if let Some(name) = access.freed_by {
        let given_back = Fact::Allocator {
            name: name.to_owned(),
            frees: true,
            hands_out: false,
        };
        return SideEvidence {
            kind: access.kind,
            extent: access.bytes.into(),
            facts: vec![given_back.into()],
        };
    }
    let mut facts = vec![
        Fact::Form { form: access.form },
        Fact::Natural {
            natural: access.bytes.is_natural(),
        },
    ];
    if access.locked {
        facts.push(Fact::Locked);
    }
    let is_aligned = access.bytes.len == 16 && access.bytes.start.0.is_multiple_of(16);
    // Makers of processors with AVX guarantee it.
    if access.form == Form::Vector && is_aligned && std::is_x86_feature_detected!("avx") {
        facts.push(Fact::AtomicVector);
    }
    let code = module_at(modules, access.pc);
    let place = code.and_then(|module| Some((module.image.as_deref()?, module.svma(access.pc))));
    match (access.system_call, place) {
        (Some(name), _) => facts.push(Fact::SystemCall {
            name: name.to_owned(),
        }),
        (None, Some((image, svma))) => {
            let data = module_at(modules, access.bytes.start)
                .filter(|module| Some(module.id) == code.map(|code| code.id))
                .map(|module| module.svma(access.bytes.start));
            about_code(&mut facts, access, image, svma, data);
            if image.in_restartable_sequence(svma) {
                facts.push(Fact::RestartableSequence);
            }
        }
        (None, None) => {}
    }
    if in_sequence_section(access, modules) {
        facts.push(Fact::SequenceSection);
    }
    let of_kernel = match place {
        Some((image, _)) => image.is_kernel(),
        None => modules.iter().any(|module| module.name == VMLINUX),
    };
    if of_kernel {
        let caller = access.stack.get(1).map(|back| Avma(back.0.wrapping_sub(1)));
        if caller.is_none_or(|at| module_at(modules, at).is_none()) {
            facts.push(Fact::CallersUnknown);
        }
        if place.is_none_or(|(image, svma)| !image.debug().covers(svma)) {
            facts.push(Fact::KernelWithoutDebugInformation);
        }
    }
    SideEvidence {
        kind: access.kind,
        extent: access.bytes.into(),
        facts: facts.into_iter().map(Known::from).collect(),
    }
}

/// What the file of an instruction says about it, and about its access to `data` in that file.
fn about_code(
    facts: &mut Vec<Fact>,
    access: &Access<'_>,
    image: &Image,
    svma: Svma,
    data: Option<Svma>,
) {
    if image.half_of_update(svma) {
        facts.push(Fact::HalfOfUpdate);
    }
    let debug = image.debug();
    let mut source = match data {
        Some(data) => debug.source_evidence_at(svma, data),
        None => debug.source_evidence(svma),
    };
    let of_program = !is_runtime(image.path());
    let variant = image.variant_of(svma);
    let inside = memory_function_around(access.frames, variant, &source, of_program);
    // Which of several statements a load belongs to is not known, and so not its condition either.
    let ahead = || match &source.marking {
        Marking::Plain => image.reads_ahead(svma, &source),
        Marking::Unknown {
            why: Doubt::Folded | Doubt::Ambiguous,
        } => image.precedes_choice(svma),
        _ => false,
    };
    let in_doubt = || ahead() || image.reads_for_nothing(svma, &source);
    // A library's memory function was asked for these bytes, whatever it then does with what it
    // has read: those that it was not asked for are no collision.
    if access.kind == AccessKind::Read && inside.is_none() && in_doubt() {
        source.marking = Marking::Unknown {
            why: Doubt::Speculative,
        };
    }
    if let Some(name) = inside.or_else(|| called_memory_function(&source)) {
        facts.push(Fact::MemoryFunction {
            name: name.to_owned(),
        });
    }
    let is_gathered = || {
        let instruction = image.instruction_at(svma);
        instruction.is_some_and(|one| one.gather().is_some())
    };
    if access.kind == AccessKind::Read
        && image
            .may_search(svma)
            .is_some_and(|narrowest| access.bytes.len >= narrowest || is_gathered())
    {
        facts.push(Fact::MaySearch);
    }
    let speculative = Marking::Unknown {
        why: Doubt::Speculative,
    };
    let instruction = || image.instruction_at(svma);
    if source.marking == speculative
        && let Some((instruction, registers)) = instruction().zip(access.registers)
        && let Some(reached) = instruction.condition_holds(registers)
    {
        facts.push(Fact::InSource { reached });
    }
    facts.push(Fact::Source { source });
}

/// The memory function that the access is in.
///
/// A program that has debug information may have a function of such a name that does something
/// else, such as a copy by atomics. In a stripped library the function is a `variant` of one that
/// has a name.
fn memory_function_around(
    frames: &[Frame],
    variant: Option<&str>,
    source: &SourceEvidence,
    of_program: bool,
) -> Option<&'static str> {
    let described = !matches!(
        source.marking,
        Marking::Plain
            | Marking::Unknown {
                why: Doubt::NoDebugInformation
            }
    );
    if is_marked(source) || of_program && described {
        return None;
    }
    // A tail call gives a nameless function the name of its caller.
    let name = variant.or(frames.first()?.function.as_deref())?;
    memory_function(name)
}

/// The memory function that the source calls and the compiler replaced by moves.
fn called_memory_function(source: &SourceEvidence) -> Option<&'static str> {
    let text = &source.expression.as_ref()?.text;
    let (name, _) = text.split_once('(')?;
    memory_function(name.trim()).filter(|_| !is_marked(source))
}

const fn is_marked(source: &SourceEvidence) -> bool {
    matches!(
        source.marking,
        Marking::Atomic { .. } | Marking::Volatile { .. }
    )
}

/// Whether an access, or a call that led to it, is in a section of a sequence counter.
fn in_sequence_section(access: &Access<'_>, modules: &[Arc<Module>]) -> bool {
    // A return address belongs to the call before it.
    let calls = access.stack.iter().skip(1).take(GUARDING_CALLERS);
    let calls = calls.map(|back| Avma(back.0.wrapping_sub(1)));
    std::iter::once(access.pc).chain(calls).any(|at| {
        module_at(modules, at).is_some_and(|module| {
            let image = module.image.as_ref();
            image.is_some_and(|image| image.in_sequence_section(module.svma(at)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bytes_that_differ_have_changed() {
        let bytes = Bytes::new(Avma(0x1000), 4);
        let extent = changed(bytes, &[1, 2, 3, 4], &[1, 9, 9, 4]).unwrap();
        assert_eq!((extent.address, extent.size), (0x1001, 2));
        assert_eq!(changed(bytes, &[1], &[1]), None);
    }
}
