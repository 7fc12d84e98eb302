//! Folding: each collision is judged, which gives it names, a class and a
//! fingerprint, and those that share a fingerprint become one race.

use crate::{Collision, Confirmed};
use crate::{naming, special};
use redhanded_image::{Instruction, SourceSync};
use redhanded_model::{
    AccessEvidence, AccessKind, AccessReport, Avma, Bytes, Class, Evidence, Fingerprint, Frame,
    Line, Race, Region, SeenBy, Synchronisation, ThreadName, Values, What, classify,
};
use redhanded_target::{Module, module_at};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// How many pairs of lines are kept for a race; more tell nothing new.
const MOST_LINES: usize = 64;

/// What a collision was judged to be. A session log keeps it beside the collision,
/// so that the races can be folded again where the program's files are not at
/// hand.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finding {
    /// An instance of a race, told in names.
    Instance(Box<Race>),
    /// The same code at the same bytes as an earlier instance of this race.
    Again(Fingerprint),
    /// Both sides synchronise: no race.
    Synchronised,
}

/// What became of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folded {
    /// The first of its race, which has this index.
    New(usize),
    /// One more of a known race.
    Again(usize),
    /// No race.
    Synchronised,
}

/// Two code places and the bytes they touch, in their modules' own addresses. Equal
/// keys are the same collision, which shows without looking up names.
#[derive(PartialEq, Eq, Hash)]
struct Exact {
    places: [(Option<String>, u64); 2],
    at: (Option<String>, u64),
}

/// Collects races.
#[derive(Default)]
pub struct Folder {
    races: Vec<Race>,
    by_fingerprint: HashMap<Fingerprint, usize>,
    /// What was judged before: the race, or `None` for no race.
    judged: HashMap<Exact, Option<Fingerprint>>,
}

impl Folder {
    /// An empty folder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Judges a collision and folds it. `modules` are those that were mapped.
    pub fn add(&mut self, collision: &Collision, modules: &[Arc<Module>]) -> Folded {
        let finding = self.judge(collision, modules);
        self.fold(finding)
    }

    /// What a collision is. Slow the first time, because it reads debug
    /// information.
    pub fn judge(&mut self, collision: &Collision, modules: &[Arc<Module>]) -> Finding {
        let exact = exact(collision, modules);
        match self.judged.get(&exact) {
            Some(Some(fingerprint)) => return Finding::Again(fingerprint.clone()),
            Some(None) => return Finding::Synchronised,
            None => {}
        }
        let race = describe(collision, modules);
        // A heap or stack object has only an address, which may be another object's
        // later.
        if exact.at.0.is_some() {
            let fingerprint = race.as_ref().map(|race| race.fingerprint.clone());
            self.judged.insert(exact, fingerprint);
        }
        race.map_or(Finding::Synchronised, |race| {
            Finding::Instance(Box::new(race))
        })
    }

    /// Folds a finding: those that share a fingerprint are one race.
    pub fn fold(&mut self, finding: Finding) -> Folded {
        let (fingerprint, race) = match finding {
            Finding::Synchronised => return Folded::Synchronised,
            Finding::Again(fingerprint) => (fingerprint, None),
            Finding::Instance(race) => (race.fingerprint.clone(), Some(*race)),
        };
        if let Some(index) = self.by_fingerprint.get(&fingerprint) {
            let known = &mut self.races[*index];
            known.instances += 1;
            if let Some(race) = race {
                merge(known, race);
            }
            return Folded::Again(*index);
        }
        let Some(race) = race else {
            // Only a damaged log refers to a race that it does not have.
            return Folded::Synchronised;
        };
        let index = self.races.len();
        self.by_fingerprint.insert(fingerprint, index);
        self.races.push(race);
        Folded::New(index)
    }

    /// The races so far, in the order in which they were found.
    #[must_use]
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// The races, the most certain and most often seen first.
    #[must_use]
    pub fn into_races(self) -> Vec<Race> {
        let mut races = self.races;
        races.sort_by(|a, b| {
            (
                a.class,
                a.seen_by,
                std::cmp::Reverse(a.instances),
                &a.fingerprint,
            )
                .cmp(&(
                    b.class,
                    b.seen_by,
                    std::cmp::Reverse(b.instances),
                    &b.fingerprint,
                ))
        });
        races
    }
}

/// Merges another instance into a known race.
fn merge(known: &mut Race, race: Race) {
    for pair in &race.lines {
        if !known.lines.contains(pair) && known.lines.len() < MOST_LINES {
            known.lines.push(pair.clone());
        }
    }
    // The plainest instance stands for the race.
    let told = |race: &Race| {
        let unchanged = race.values.before == race.values.after;
        (race.class, race.seen_by, unchanged)
    };
    if told(&race) < told(known) {
        *known = Race {
            instances: known.instances,
            lines: std::mem::take(&mut known.lines),
            ..race
        };
    }
}

fn exact(collision: &Collision, modules: &[Arc<Module>]) -> Exact {
    let place = |at: Avma| match module_at(modules, at) {
        Some(module) => (Some(module.name.clone()), module.svma(at).0),
        None => (None, at.0),
    };
    let other = collision
        .other
        .as_ref()
        .map_or((None, 0), |(confirmed, ..)| place(confirmed.pc));
    let mut places = [place(collision.record.pc), other];
    places.sort();
    Exact {
        places,
        at: place(collision.record.bytes.start),
    }
}

/// The race that a collision is an instance of, or `None` if it is not a race.
fn describe(collision: &Collision, modules: &[Arc<Module>]) -> Option<Race> {
    let record = &collision.record;
    let (what, declared) = what(collision, modules);
    let sampled = sampled_side(collision, modules);
    let other = collision
        .other
        .as_ref()
        .map(|(confirmed, _, stack)| confirmed_side(confirmed, stack, modules));
    let evidence = Evidence {
        declared_synchronising: declared,
    };
    let mut class = classify(sampled, other, evidence)?;
    if class == Class::Race && may_be_guarded(collision, modules, sampled, other) {
        class = Class::PossiblyAtomic;
    }
    let special = special::reason(&what);
    if special.is_some() {
        class = Class::Special;
    }
    let mut accesses = vec![sampled_report(collision, modules, sampled)];
    if let (Some((confirmed, thread, stack)), Some(side)) = (&collision.other, other) {
        accesses.push(AccessReport {
            kind: confirmed.kind,
            size: confirmed.bytes.len,
            pc: confirmed.pc.0,
            instruction: Some(confirmed.instruction.clone()),
            system_call: confirmed.system_call.clone(),
            ..report(thread, stack, modules, side)
        });
    }
    let fingerprint = fingerprint(&accesses, &what);
    Some(Race {
        fingerprint,
        class,
        what,
        seen_by: if other.is_some() {
            SeenBy::Watch
        } else {
            SeenBy::Value
        },
        values: Values {
            before: record.before.clone(),
            after: record.after.clone(),
        },
        instances: 1,
        lines: lines(&accesses),
        accesses,
        suspects: collision.suspects.clone(),
        special: special.map(str::to_owned),
    })
}

/// What is raced on. The name is that of the bytes which both sides touch; values
/// and bit-fields are those of the sampled access.
fn what(collision: &Collision, modules: &[Arc<Module>]) -> (What, bool) {
    let sampled = collision.record.bytes;
    let named = |bytes: Bytes| {
        let region = collision.region.clone();
        naming::what(bytes.start, bytes.len, region, modules)
    };
    let (mut what, declared) = named(sampled);
    let both = collision
        .other
        .as_ref()
        .and_then(|(confirmed, ..)| confirmed.bytes.intersection(sampled))
        .filter(|both| *both != sampled);
    let Some(both) = both else {
        return (what, declared);
    };
    let (narrow, declared) = named(both);
    what.name = narrow.name;
    what.field = narrow.field;
    what.type_name = narrow.type_name;
    (what, declared)
}

/// The pair of lines, if any is known, whichever side was sampled.
fn lines(accesses: &[AccessReport]) -> Vec<Vec<Line>> {
    let mut pair: Vec<Line> = accesses.iter().map(Line::from).collect();
    pair.sort();
    if pair.iter().any(|line| line.line.is_some()) {
        vec![pair]
    } else {
        Vec::new()
    }
}

fn sampled_report(
    collision: &Collision,
    modules: &[Arc<Module>],
    side: AccessEvidence,
) -> AccessReport {
    let record = &collision.record;
    let (thread, stack) = &collision.sampled;
    AccessReport {
        kind: record.kind,
        size: record.bytes.len,
        pc: record.pc.0,
        instruction: collision.sampled_instruction().map(|i| i.text()),
        ..report(thread, stack, modules, side)
    }
}

/// The parts of an access's report that come from its stack.
fn report(
    thread: &ThreadName,
    stack: &[Avma],
    modules: &[Arc<Module>],
    side: AccessEvidence,
) -> AccessReport {
    let stack = naming::frames(stack, modules);
    let innermost = stack.first().cloned().unwrap_or_default();
    AccessReport {
        thread: thread.clone(),
        kind: AccessKind::Read,
        size: 0,
        pc: 0,
        instruction: None,
        atomic: side.synchronisation.is_atomic(),
        function: innermost.function,
        file: innermost.file,
        line: innermost.line,
        system_call: None,
        stack,
    }
}

fn fingerprint(accesses: &[AccessReport], what: &What) -> Fingerprint {
    let mut places: Vec<String> = accesses.iter().map(place).collect();
    if places.len() < 2 {
        places.push("unknown origin".to_owned());
    }
    let touched = match (&what.name, &what.region) {
        (Some(name), _) => {
            let field = what.field.as_deref().unwrap_or("");
            format!("{name}{}", naming::without_indices(field))
        }
        (None, Region::Global { module }) => format!("data of {module}"),
        (None, Region::Heap) => "heap".to_owned(),
        (None, Region::Stack { .. }) => "stack".to_owned(),
        (None, Region::PerCpu { .. }) => "per-CPU data".to_owned(),
        (None, Region::Mapping { .. }) => "mapping".to_owned(),
        (None, Region::Unknown) => "memory".to_owned(),
    };
    Fingerprint::new(places, &touched)
}

/// A code place without addresses and lines: the function, or in a stripped
/// module its place in the file, which is all there is.
fn place(access: &AccessReport) -> String {
    let name = |frame: &Frame| frame.function.clone();
    let innermost = access.stack.first();
    let module = innermost
        .and_then(|frame| frame.module.clone())
        .unwrap_or_else(|| "?".to_owned());
    let function = innermost
        .and_then(name)
        .unwrap_or_else(|| format!("+{:#x}", innermost.map_or(access.pc, |frame| frame.address)));
    match &access.system_call {
        // The innermost function is a wrapper of libc; its caller tells more.
        Some(call) => {
            let caller = access
                .stack
                .iter()
                .filter(|frame| frame.module.as_deref() != Some(module.as_str()))
                .find_map(name);
            format!("{call}(2) from {}", caller.unwrap_or(function))
        }
        None => format!("{module}!{function}"),
    }
}

fn sampled_side(collision: &Collision, modules: &[Arc<Module>]) -> AccessEvidence {
    let record = &collision.record;
    let instruction = collision.sampled_instruction();
    let locked = instruction.is_some_and(|i| i.locked());
    let never_atomic = instruction.as_ref().is_some_and(never_atomic) || record.bytes.len > 8;
    side(
        record.pc,
        record.kind,
        record.bytes,
        locked,
        never_atomic,
        (&collision.sampled.1, modules),
    )
}

fn never_atomic(instruction: &Instruction) -> bool {
    instruction.is_repeated()
        || instruction
            .accesses()
            .iter()
            .any(|access| access.size > 8 || !access.size.is_power_of_two())
}

fn confirmed_side(
    confirmed: &Confirmed,
    stack: &[Avma],
    modules: &[Arc<Module>],
) -> AccessEvidence {
    side(
        confirmed.pc,
        confirmed.kind,
        confirmed.bytes,
        confirmed.locked,
        confirmed.never_atomic || confirmed.system_call.is_some(),
        (stack, modules),
    )
}

/// How many callers are checked for a section that guards what they call.
const GUARDING_CALLERS: usize = 4;

/// Whether an access, or a call that led to it, is in a section of a sequence
/// counter.
fn in_sequence_section(pc: Avma, stack: &[Avma], modules: &[Arc<Module>]) -> bool {
    // A return address belongs to the call before it.
    let calls = stack.iter().skip(1).take(GUARDING_CALLERS);
    let calls = calls.map(|back| Avma(back.0.wrapping_sub(1)));
    std::iter::once(pc).chain(calls).any(|at| {
        module_at(modules, at).is_some_and(|module| {
            let image = module.image.as_ref();
            image.is_some_and(|image| image.in_sequence_section(module.svma(at)))
        })
    })
}

/// Whether a sequence counter may guard a read although nothing shows it: the
/// writer's section may be in a caller that is not known, or the functions that
/// begin and end a section are inlined and there is no debug information.
fn may_be_guarded(
    collision: &Collision,
    modules: &[Arc<Module>],
    sampled: AccessEvidence,
    other: Option<AccessEvidence>,
) -> bool {
    let Some((other, (confirmed, _, stack))) = other.zip(collision.other.as_ref()) else {
        return false;
    };
    let guarded = |side: AccessEvidence| side.synchronisation == Synchronisation::Guarded;
    let cut = |stack: &[Avma]| {
        let caller = stack.get(1).map(|back| Avma(back.0.wrapping_sub(1)));
        caller.is_none_or(|at| module_at(modules, at).is_none())
    };
    let untold = |pc: Avma| {
        let module = module_at(modules, pc);
        let image = module.and_then(|module| Some((module.image.as_ref()?, module.svma(pc))));
        image.is_some_and(|(image, svma)| image.is_kernel() && !image.debug().covers(svma))
    };
    let reads = sampled.kind == AccessKind::Read || other.kind == AccessKind::Read;
    (guarded(sampled) && cut(stack))
        || (guarded(other) && cut(&collision.sampled.1))
        || (reads && (untold(collision.record.pc) || untold(confirmed.pc)))
}

fn side(
    pc: Avma,
    kind: AccessKind,
    bytes: Bytes,
    locked: bool,
    never_atomic: bool,
    (stack, modules): (&[Avma], &[Arc<Module>]),
) -> AccessEvidence {
    let place =
        module_at(modules, pc).and_then(|module| Some((module.image.as_ref()?, module.svma(pc))));
    let synchronisation = if locked {
        Synchronisation::Locked
    } else if never_atomic {
        Synchronisation::Plain
    } else {
        match place.map(|(image, svma)| image.debug().synchronisation(svma)) {
            Some(SourceSync::Marked(_)) => Synchronisation::Marked,
            _ if in_sequence_section(pc, stack, modules) => Synchronisation::Guarded,
            Some(SourceSync::Plain) => Synchronisation::Plain,
            Some(SourceSync::Unknown) | None => Synchronisation::Unknown,
        }
    };
    AccessEvidence {
        kind,
        natural: bytes.is_natural(),
        synchronisation,
        half_of_update: place.is_some_and(|(image, svma)| image.half_of_update(svma)),
    }
}
