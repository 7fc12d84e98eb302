//! Replays a collision while both of its threads stand.
//!
//! Their registers are copied; memory is read when the replay asks for it, because nobody knows
//! beforehand what the threads will touch. Other threads run meanwhile, so it may change:
//! [`Worker::judge_live`] sees to that. Nothing is executed in this process.

use crate::Collision;
use redhanded_model::{AccessKind, Avma, Registers, SpaceId, TaskId};
use redhanded_replay::{
    Fetched, Judgement, Limits, Memory, Mode, PAGE, Page, Scene, Snapshot, Start, State, Vectors,
    Worker, WorkerError,
};
use redhanded_target::{Holds, Inspect, Mapping};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How far below its end a stack is taken to grow by itself. The kernel may go further, up to
/// a limit of the process, so nothing is said of what lies beyond.
const STACK_GROWS: u64 = 1 << 17;

/// What replaying one collision came to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Replay {
    /// All orders, and how they differ.
    pub judgement: Judgement,
    /// The bytes that both access, as start and end.
    pub race: (u64, u64),
    /// How long the threads stood for it.
    pub took: Duration,
}

/// What a replay used: enough to do it again anywhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Captured {
    /// The threads.
    pub scene: Scene,
    /// The memory that they touched, code included.
    pub memory: Snapshot,
}

/// Replays a collision whose threads stand. `None` if there is nothing to replay: nobody was
/// caught, or the kernel made the access.
///
/// # Errors
/// If the worker gave no answer; it is gone then.
pub fn replay(
    worker: &mut Worker,
    collision: &Collision,
    target: &mut dyn Inspect,
    limits: Limits,
) -> Result<Option<(Replay, Captured)>, WorkerError> {
    let begun = Instant::now();
    let Some(scene) = scene(collision, target) else {
        return Ok(None);
    };
    let space = collision.record.space;
    let mut live = Live::new(target, space);
    let (mut judgement, memory) = worker.judge_live(&scene, &mut live, limits)?;
    judgement.used = Vec::new();
    let race = scene.race.first().copied().unwrap_or_default();
    let replay = Replay {
        judgement,
        race,
        took: begun.elapsed(),
    };
    Ok(Some((replay, Captured { scene, memory })))
}

/// Both threads as they stand: the sampled one before its access, the other after its own.
fn scene(collision: &Collision, target: &mut dyn Inspect) -> Option<Scene> {
    let record = &collision.record;
    let hit = record.hit.as_ref()?;
    let (confirmed, ..) = collision.other.as_ref()?;
    // The other thread may be in another process that shares the bytes, or not in the kernel:
    // its addresses mean something else then.
    let elsewhere = target.space_of(hit.task) != record.space
        || mode_of(hit.registers.rip) != mode_of(record.pc.0)
        || mode_of(confirmed.pc.0) != mode_of(record.pc.0);
    if confirmed.system_call.is_some() || elsewhere {
        return None;
    }
    let race = record.bytes.intersection(confirmed.bytes)?;
    let nothing = (confirmed.bytes.start.0, Vec::new());
    let (from, before) = match confirmed.kind {
        AccessKind::Read => nothing,
        _ => found(collision).unwrap_or(nothing),
    };
    let mode = mode_of(record.pc.0);
    Some(Scene {
        mode,
        threads: [
            Start::Before(state(record.task, &record.registers, mode, target)?),
            Start::After {
                state: state(hit.task, &hit.registers, mode, target)?,
                ip: confirmed.pc.0,
                address: confirmed.bytes.start.0,
                from,
                before,
            },
        ],
        race: vec![(race.start.0, race.end())],
        handled: target.handled_signals(record.space),
    })
}

/// Whose code is at an address.
const fn mode_of(pc: u64) -> Mode {
    if pc >> 63 == 0 {
        Mode::User
    } else {
        Mode::Kernel
    }
}

/// What the caught write overwrote, as far as that was seen, and where that begins.
fn found(collision: &Collision) -> Option<(u64, Vec<u8>)> {
    let (confirmed, ..) = collision.other.as_ref()?;
    if let Some(found) = &confirmed.found {
        return Some((confirmed.bytes.start.0, found.clone()));
    }
    let record = &collision.record;
    let both = record.bytes.intersection(confirmed.bytes)?;
    let skipped = usize::try_from(both.start.0 - record.bytes.start.0).ok()?;
    let before = record.before.get(skipped..)?;
    let most = before.len().min(usize::try_from(both.len).ok()?);
    Some((both.start.0, before[..most].to_vec()))
}

fn state(
    task: TaskId,
    registers: &Registers,
    mode: Mode,
    target: &mut dyn Inspect,
) -> Option<State> {
    let vectors = match (target.saved_vectors(task), mode) {
        (Some(saved), _) => Vectors::from_xsave(&saved)?,
        // A kernel's own code uses none.
        (None, Mode::Kernel) => Vectors::default(),
        (None, Mode::User) => return None,
    };
    Some(State {
        general: registers.gpr,
        ip: registers.rip,
        flags: registers.rflags,
        fs_base: registers.fs_base,
        gs_base: registers.gs_base,
        vectors: Box::new(vectors),
    })
}

/// The memory of a live target.
struct Live<'a> {
    target: &'a mut dyn Inspect,
    space: SpaceId,
    mappings: Vec<Mapping>,
}

impl<'a> Live<'a> {
    fn new(target: &'a mut dyn Inspect, space: SpaceId) -> Self {
        let mappings = target.mappings(space);
        Self {
            target,
            space,
            mappings,
        }
    }

    /// What a page is that no mapping holds. Below a stack that is not known to be nothing:
    /// the stack may only not have grown there yet.
    fn unmapped(&mut self, page: u64) -> Fetched {
        let above = self.mappings.iter().filter(|m| m.range.start > page);
        let Some(m) = above.min_by_key(|m| m.range.start) else {
            return Fetched::Unmapped;
        };
        let start = m.range.start;
        // Programs can make such memory themselves, and a stack can be in several pieces, of
        // which the lowest has no name.
        if m.holds != Holds::Stack && !(m.writable && self.target.grows_down(self.space, start)) {
            return Fetched::Unmapped;
        }
        if start - page > STACK_GROWS {
            return Fetched::Unknown;
        }
        Fetched::Page(Page {
            bytes: Box::default(),
            writable: true,
            executable: false,
        })
    }
}

impl Memory for Live<'_> {
    fn look_again(&mut self) {
        self.mappings = self.target.mappings(self.space);
    }

    fn fetch(&mut self, page: u64) -> Fetched {
        let listed = self.mappings.iter().find(|m| m.range.contains(&page));
        let mapping = listed
            .cloned()
            .or_else(|| self.target.page(self.space, page));
        let Some(mapping) = mapping else {
            return self.unmapped(page);
        };
        match mapping.holds {
            Holds::Clock => return Fetched::Changing,
            Holds::Unknown => return Fetched::Unknown,
            Holds::Nothing => return Fetched::Unmapped,
            Holds::Bytes | Holds::Stack => {}
        }
        let (writable, executable) = (mapping.writable, mapping.executable);
        let mut bytes = Box::new([0; PAGE as usize]);
        if self.target.read(self.space, Avma(page), &mut bytes[..]) {
            Fetched::Page(Page {
                bytes: Box::new(redhanded_replay::Bytes(*bytes)),
                writable,
                executable,
            })
        } else {
            // Behind the end of a mapped file, or gone by now.
            Fetched::Unknown
        }
    }
}
