//! From what the analyses found to pairs that can be named.

use super::modules::Modules;
use super::sorting::{Sorting, stack};
use redhanded_analysis::{Atomicity, Finding, Side, Standing, Suspicion};
use redhanded_detect::{Around, Collision, Confirmed};
use redhanded_model::{
    AccessKind, Analysed, Analysis, Avma, Block, Bytes, Change, Form, ModuleId, RaceStanding,
    Region, Registers, SpaceId, Svma, TaskId, ThreadName, WindowEnd, WindowId, WindowRecord,
};
use redhanded_recording::translate::{Allocation, Judge, Owns, Translator, accessed};
use redhanded_recording::{Damage, Item, Process, Recording, steps};
use redhanded_report::Progress;
use std::collections::HashMap;
use std::time::Duration;

/// Two places whose accesses conflict.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The accesses of an instance.
    pub sides: [Side; 2],
    pub standing: RaceStanding,
    pub by: Vec<Analysis>,
    pub instances: u64,
    /// The system call that the kernel made the second access for.
    call: Option<&'static str>,
    /// The function by which the second side gave the memory back.
    freed_by: Option<&'static str>,
}

/// The pairs that were found.
#[derive(Default)]
pub struct Pairs {
    found: Vec<Pair>,
    indices: HashMap<[u64; 2], usize>,
}

/// The memory of a pair, as far as it is known.
pub type KnownMemory = Option<Allocation>;

/// Decides which pairs are worth telling.
pub struct Gathering<'j, 'a> {
    judge: &'j mut Sorting<'a>,
    modules: &'j Modules<'a>,
    pairs: Pairs,
}

impl Pairs {
    /// Everything is suspect only.
    pub fn distrust(&mut self) {
        for pair in &mut self.found {
            pair.standing = RaceStanding::Suspect;
        }
    }

    /// Whatever is in the last region of its thread is suspect only.
    pub fn distrust_from(&mut self, last: &HashMap<TaskId, u64>) {
        for pair in &mut self.found {
            let is_open = |side: &Side| {
                let last = last.get(&side.thread);
                last.is_none_or(|last| side.sequencer >= *last)
            };
            if pair.sides.iter().any(is_open) {
                pair.standing = RaceStanding::Suspect;
            }
        }
    }

    /// All of them, the surest first.
    pub fn finish(mut self) -> Vec<Pair> {
        self.found
            .sort_by_key(|pair| (pair.standing, std::cmp::Reverse(pair.instances)));
        self.found
    }
}

impl<'j, 'a> Gathering<'j, 'a> {
    /// None yet.
    pub fn new(judge: &'j mut Sorting<'a>, modules: &'j Modules<'a>) -> Self {
        Self {
            judge,
            modules,
            pairs: Pairs::default(),
        }
    }

    /// Adds what happens-before or sequencers found.
    pub fn add_findings(&mut self, by: Analysis, findings: Vec<Finding>) {
        for finding in findings {
            let Some(instance) = finding.instances.first() else {
                continue;
            };
            let standing = match finding.standing() {
                Standing::Unordered => RaceStanding::Unordered,
                Standing::Suspect => RaceStanding::Suspect,
            };
            let instances = finding.unordered.saturating_add(finding.suspect);
            self.add(by, instance.sides, standing, instances);
        }
    }

    /// Adds what lockset suspects.
    pub fn add_suspicions(&mut self, suspicions: Vec<Suspicion>) {
        for one in suspicions {
            self.add(
                Analysis::Lockset,
                one.sides,
                RaceStanding::Suspect,
                one.instances,
            );
        }
    }

    fn add(&mut self, by: Analysis, mut sides: [Side; 2], standing: RaceStanding, instances: u64) {
        // A report has the kernel's access last, or the call that frees, and no code of the
        // program's if both are.
        let is_other = |side: Side| {
            self.judge.call(side.place).is_some() || self.judge.freed_by(side.place).is_some()
        };
        match sides.map(is_other) {
            [true, true] => return,
            [true, false] => sides.swap(0, 1),
            [false, _] => {}
        }
        let call = self.judge.call(sides[1].place);
        let freed_by = self.judge.freed_by(sides[1].place);
        let own = sides.map(|side| self.judge.is_own(side.place));
        // Stacks are long, and there may be many more pairs than are told.
        let is_linker = |side: &Side| self.modules.is_linker(self.judge.instruction(side.place));
        // The end of a thread is at no instruction: the kernel clears a word that others wait for.
        let has_code = |side: &Side| self.judge.instruction(side.place) != 0;
        // A runtime's data is its own business, and so are the tables that the linker fills in.
        if own == [false, false]
            || !sides.iter().all(has_code)
            || sides.iter().any(is_linker)
            || sides
                .iter()
                .any(|side| self.modules.is_runtime(side.bytes.start.0))
        {
            return;
        }
        let asked_for = sides.map(|side| self.judge.is_asked_for(side.place));
        // A use that a call of `free` met may have been in order by what no entry shows: a hazard
        // pointer or an epoch behind a segment register, or a load ahead of a branch whose result
        // nobody uses. A hunt shows whether the block is freed while a thread stands at its use.
        let standing = match (asked_for, freed_by) {
            ([true, true], None) => standing,
            _ => RaceStanding::Suspect,
        };
        let mut key = sides.map(|side| side.place.0);
        key.sort_unstable();
        if let Some(&known) = self.pairs.indices.get(&key) {
            let known = &mut self.pairs.found[known];
            if standing < known.standing {
                known.sides = sides;
                known.call = call;
                known.freed_by = freed_by;
                known.standing = standing;
            }
            known.instances = known.instances.max(instances);
            if !known.by.contains(&by) {
                known.by.push(by);
            }
            return;
        }
        self.pairs.indices.insert(key, self.pairs.found.len());
        self.pairs.found.push(Pair {
            sides,
            standing,
            by: vec![by],
            instances,
            call,
            freed_by,
        });
    }

    /// The pairs.
    pub fn finish(self) -> Pairs {
        self.pairs
    }
}

/// Goes through the recording once more for what the analyses do not keep: what memory each pair
/// is about, as it was when its second side was there, and all bytes of both accesses. An
/// analysis keeps those of the word where the two met, and whether an access can be atomic
/// depends on all of them.
pub fn resolve(
    recording: &Recording,
    process: &Process,
    owns: &Owns,
    pairs: &mut [Pair],
    progress: &Progress,
) -> Vec<KnownMemory> {
    let mut places = vec![None; pairs.len()];
    let mut wanted: HashMap<(u64, u64), Vec<(usize, usize)>> = HashMap::new();
    let mut last = 0;
    for (index, pair) in pairs.iter().enumerate() {
        for (at, side) in pair.sides.iter().enumerate() {
            let number = Translator::number_of(side.sequencer);
            last = last.max(number);
            let key = (number, side.place.0);
            wanted.entry(key).or_default().push((index, at));
        }
    }
    let mut translator = Translator::new(process).with(owns);
    let mut events = Vec::new();
    let mut current = vec![0; process.threads().len()];
    let mut calling: Vec<Option<Item>> = vec![None; process.threads().len()];
    for step in steps(recording, process, &Damage::default()) {
        progress.advance(16);
        let item = &step.item;
        let thread = &mut current[step.thread as usize];
        if let Some(number) = item.number {
            *thread = number;
            if number > last {
                break;
            }
        }
        let call = &mut calling[step.thread as usize];
        let (place, all) = accessed(item, step.result, call);
        let given_back = translator.given_back(item);
        let (place, all): (_, Vec<Bytes>) = match given_back {
            Some((place, _, block)) => (place, vec![block.bytes]),
            None => (place, all.collect()),
        };
        if let Some(sides) = wanted.get(&(*thread, place.0)) {
            for (index, at) in sides {
                let side = &mut pairs[*index].sides[*at];
                if let Some(bytes) = all.iter().find(|bytes| bytes.overlaps(side.bytes)) {
                    if *at == 1 {
                        places[*index] = translator.allocation(side.bytes.start.0).copied();
                    }
                    side.bytes = *bytes;
                }
            }
        }
        translator.step(&step, &mut Nobody, &mut events);
        events.clear();
        if translator.is_full() {
            break;
        }
    }
    places
}

/// Says nothing of any access, where only calls matter.
struct Nobody;

impl Judge for Nobody {
    fn is_runtime(&mut self, _: u32) -> bool {
        false
    }

    fn atomicity(
        &mut self,
        _: redhanded_analysis::Place,
        _: AccessKind,
        _: Bytes,
    ) -> Option<Atomicity> {
        None
    }

    fn tells_kernel(&mut self, _: redhanded_analysis::Place, _: &'static str, _: Bytes) -> bool {
        false
    }

    fn tells_free(&mut self, _: redhanded_analysis::Place, _: &'static str, _: Bytes) -> bool {
        false
    }
}

impl Pair {
    /// The pair in the form in which collisions are judged.
    pub fn collision(
        &self,
        process: &Process,
        modules: &Modules<'_>,
        place: &KnownMemory,
        translator: &Translator<'_>,
        analysed: &Analysed,
    ) -> Collision {
        let [one, other] = self.sides;
        let name = |task: TaskId| thread_name(process, translator, task);
        let stacks = self.sides.map(|side| stack(process, side.place));
        let stack = |at: usize| -> Vec<Avma> { stacks[at].iter().copied().map(Avma).collect() };
        let pc = Avma(stacks[0][0]);
        let module = modules.at(pc.0);
        let created = |task: TaskId| {
            let (creator, at) = translator.tasks().get(task.0 as usize)?.creator?;
            let mut stack = vec![Avma(process.site(at.0 as u32)?)];
            let callers = process.stack((at.0 >> 32) as u32);
            stack.extend(callers.into_iter().map(Avma));
            Some((name(creator), stack))
        };
        Collision {
            record: WindowRecord {
                id: WindowId(0),
                space: SpaceId::default(),
                module: module.map_or(ModuleId(0), |module| module.id),
                svma: module.map_or(Svma(pc.0), |module| module.svma(pc)),
                pc,
                task: one.thread,
                registers: Registers::default(),
                bytes: one.bytes,
                kind: one.kind,
                before: Vec::new(),
                after: Vec::new(),
                hit: None,
                end: WindowEnd::Cut,
                held: Duration::ZERO,
                losses: Vec::new(),
            },
            sampled: (name(one.thread), stack(0)),
            other: Some((
                Confirmed {
                    pc: Avma(stacks[1][0]),
                    kind: other.kind,
                    bytes: other.bytes,
                    locked: false,
                    instruction: String::new(),
                    system_call: self.call.map(str::to_owned),
                    freed_by: self.freed_by.map(str::to_owned),
                    form: Form::default(),
                    found: None,
                    change: Change::Made,
                },
                name(other.thread),
                stack(1),
            )),
            region: region(process, modules, place, translator, other.bytes.start.0),
            modules: modules.ids(),
            suspects: Vec::new(),
            sampled_code: Vec::new(),
            around: Around {
                pointed: Vec::new(),
                block: place.as_ref().and_then(|place| {
                    place.origin.is_block().then_some(Block {
                        address: place.bytes.start.0,
                        size: place.bytes.len,
                    })
                }),
                allocated: None,
                frame: None,
                created: vec![created(one.thread), created(other.thread)],
            },
            replay: None,
            analysed: Some(analysed.clone()),
        }
    }
}

fn thread_name(process: &Process, translator: &Translator<'_>, task: TaskId) -> ThreadName {
    let task = translator.tasks().get(task.0 as usize);
    let thread = task.and_then(|task| process.threads().get(task.thread as usize));
    ThreadName {
        tid: task.map_or(0, |task| task.tid),
        name: thread
            .and_then(redhanded_recording::Thread::name)
            .unwrap_or_default()
            .to_owned(),
        context: None,
    }
}

/// Where the bytes are.
fn region(
    process: &Process,
    modules: &Modules<'_>,
    place: &KnownMemory,
    translator: &Translator<'_>,
    address: u64,
) -> Region {
    if let Some(module) = modules.at(address) {
        return Region::Global {
            module: module.name.clone(),
        };
    }
    if place.as_ref().is_some_and(|place| place.origin.is_block()) {
        return Region::Heap;
    }
    let stack = translator.tasks().iter().rposition(|task| {
        let stack = task.stack;
        stack.is_some_and(|stack| (stack.start.0..stack.end()).contains(&address))
    });
    if let Some(index) = stack.and_then(|index| u32::try_from(index).ok()) {
        return Region::Stack {
            thread: thread_name(process, translator, TaskId(index)),
        };
    }
    match place {
        Some(_) => Region::Mapping {
            name: "anonymous".to_owned(),
            shared: false,
        },
        None => Region::Unknown,
    }
}
