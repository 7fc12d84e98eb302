//! From entries to events: what calls and system calls mean for the order of threads.
//!
//! Where it is not known which of several things synchronised, all of them did: an order too
//! many hides a race, and one too few accuses a program. Nothing here reads files. What the
//! source says of an access comes from a [`Judge`].

mod barriers;
mod calls;
mod memory;
mod own;
mod system;

use crate::entries::Item;
use crate::reader::Process;
use crate::steps::{Step, result_of};
use crate::wire::{Function, Kind};
use barriers::Barriers;
use calls::{Called, Open, hides_all, is_own, keeps_inner};
pub use memory::{Allocation, Origin};
use memory::{Memory, bytes};
pub use own::{Lock, Own, Owns, Size};
use redhanded_analysis::{
    Access, Atomicity, Event, Mode, Object, ObjectKind, Ordering, Place, What,
};
use redhanded_model::{AccessKind, Bytes, TaskId};
use std::collections::{HashMap, HashSet};
use system::{Calling, Futexes};

/// A longer access is cut off. The kernel and `rep movs` make long ones, and a length is foreign.
const LONGEST: u64 = 1 << 20;

/// Where memory can be.
const ADDRESSES: std::ops::Range<u64> = 0x1_0000..1 << 47;

/// Each entry has room for as many events with numbers of their own, as a power of two.
const ROOM: u32 = 3;

/// As many of these may be accesses of the kernel's: the rest of the call has at most three.
const MOST_BY_KERNEL: u32 = (1 << ROOM) - 3;

/// No more threads of a process are told apart, one after the other. What each knows of all
/// others is kept.
const MOST_TASKS: usize = 8192;

/// More calls are never open in one another.
const DEEPEST: usize = 256;

/// The object that stands for all that OpenMP's runtime orders.
const OPENMP: Object = Object {
    kind: ObjectKind::Channel,
    id: 1,
};

/// The object that stands for all channels: pipes, sockets, files and whatever else may pass on
/// that something happened. Which of them are connected is not recorded.
const CHANNEL: Object = Object {
    kind: ObjectKind::Channel,
    id: 0,
};

/// The object that stands for the ends of all threads. What the kernel gives back then, it gives
/// to whoever waits.
const ENDED: Object = Object {
    kind: ObjectKind::Channel,
    id: 2,
};

/// The object that stands for all signals.
const SIGNAL: Object = Object {
    kind: ObjectKind::Signal,
    id: 0,
};

/// What the code says of an access that is no locked instruction.
pub trait Judge {
    /// Whether the code at this site belongs to the C library or another runtime.
    fn is_runtime(&mut self, site: u32) -> bool;

    /// Whether the access is atomic in the source; `None` to leave it out. `place` has the site
    /// in its low half and the context in its high one.
    fn atomicity(&mut self, place: Place, kind: AccessKind, bytes: Bytes) -> Option<Atomicity>;

    /// Whether the call at this place, which gives these bytes back by this function, is to be
    /// held against what others do to them.
    fn tells_free(&mut self, place: Place, function: &'static str, bytes: Bytes) -> bool;

    /// Whether an access that the kernel made for the system call of this name is to be told.
    fn tells_kernel(&mut self, place: Place, call: &'static str, bytes: Bytes) -> bool;
}

/// What tells the place of a call from that of the instruction behind it: both have one address.
const CALL: u64 = 1 << 63;

/// The place of a call that returns to this one.
const fn before(place: Place) -> Place {
    Place(place.0 | CALL)
}

/// Whether a place is that of a call. Its site is that of the return address.
#[must_use]
pub const fn is_call(place: Place) -> bool {
    place.0 & CALL != 0
}

/// The site and the context of a place.
#[must_use]
pub const fn parts(place: Place) -> (u32, u32) {
    (place.0 as u32, ((place.0 & !CALL) >> 32) as u32)
}

/// The memory that an item of a thread accesses, and its place: by its own instruction, or by the
/// kernel for a system call, which is all told when the call has returned, at the place of the
/// call. `calling` is the call that the thread is in. What a call returned may be known before
/// that.
pub fn accessed(
    item: &Item,
    result: Option<i64>,
    calling: &mut Option<Item>,
) -> (Place, impl Iterator<Item = Bytes> + use<>) {
    let mut place = Place(item.entry.word);
    let mut own = None;
    let mut returned = None;
    let call = calling.take();
    match item.entry.kind {
        Kind::Read | Kind::Write | Kind::Update | Kind::Atomic => {
            own = Some(bytes(item.entry.address, item.length()));
        }
        Kind::SystemCall => {
            *calling = Some(*item);
            returned = Some(*item).zip(result);
        }
        Kind::SystemReturn => {
            returned = call.and_then(|call| Some((call, result_of(&call, item)?)));
        }
        _ => {}
    }
    let by_kernel = returned.map_or_else(Vec::new, |(call, result)| {
        place = Place(call.entry.word);
        Calling::new(&call, place).accesses(result)
    });
    let by_kernel = by_kernel.into_iter().map(|(.., bytes)| bytes);
    (place, own.into_iter().chain(by_kernel))
}

/// A thread, as events call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its index among the threads of the process.
    pub thread: u32,
    /// Its number for the kernel.
    pub tid: u32,
    /// Who created it, and where, if that was seen.
    pub creator: Option<(TaskId, Place)>,
    /// The base of its thread-local memory, which is also its `pthread_t`.
    pub base: u64,
    /// The memory that its stack is in, as far as that is known.
    pub stack: Option<Bytes>,
    has_ended: bool,
    /// The word that the kernel clears at its end.
    cleared: Option<u64>,
}

/// The bytes that an access touches; none if they are a thread's own. Those that are reached
/// through a segment register have only their offset for an address.
fn touched(item: &Item) -> Bytes {
    let address = item.entry.address;
    let length = if ADDRESSES.contains(&address) {
        item.length().min(LONGEST)
    } else {
        0
    };
    bytes(address, length)
}

/// Whether an innermost call tells what the runtime does to these bytes.
fn is_told(open: &[Open], touched: Bytes) -> bool {
    open.last().is_some_and(|open| !keeps_inner(open, touched))
}

/// Makes events of the steps of one process.
pub struct Translator<'a> {
    process: &'a Process,
    tasks: Vec<Task>,
    /// By their bases, the latest thread that has ended, and the latest of all.
    by_base: HashMap<u64, (Option<TaskId>, TaskId)>,
    is_full: bool,
    /// What each thread is doing, by its index.
    threads: Vec<Thread>,
    /// Threads that were created and have not begun, by their number for the kernel.
    expected: HashMap<u32, TaskId>,
    begun: HashMap<u32, Began>,
    memory: Memory,
    futexes: Futexes,
    barriers: Barriers,
    owns: Owns,
    /// Which of these were called.
    called: HashSet<u64>,
    is_annotated: bool,
    lost: u64,
}

#[derive(Default)]
struct Thread {
    task: Option<TaskId>,
    open: Vec<Open>,
    calling: Option<Calling>,
    /// The number behind those of its last sequencer's events.
    spare: Option<u64>,
}

/// Who began last with a number of the kernel's, and when.
#[derive(Clone, Copy)]
struct Began {
    task: TaskId,
    number: Option<u64>,
}

/// Where events go, with what they have in common.
struct Out<'o> {
    events: &'o mut Vec<Event>,
    thread: TaskId,
    place: Place,
    /// The number of the next event, if it has one.
    number: Option<u64>,
}

impl Out<'_> {
    fn put(&mut self, what: What) {
        self.events.push(Event {
            thread: self.thread,
            place: self.place,
            number: self.number,
            what,
        });
        self.number = self.number.map(|number| number.saturating_add(1));
    }

    fn acquire(&mut self, object: Object, mode: Mode) {
        self.put(What::Acquire { object, mode });
    }

    fn release(&mut self, object: Object) {
        self.put(What::Release { object });
    }

    fn slack(&mut self, block: &Allocation) {
        if let Some(bytes) = block.slack() {
            self.put(What::Slack { bytes });
        }
    }
}

impl<'a> Translator<'a> {
    /// Begins with a process.
    #[must_use]
    pub fn new(process: &'a Process) -> Self {
        Self {
            process,
            tasks: Vec::new(),
            by_base: HashMap::new(),
            is_full: false,
            threads: process
                .threads()
                .iter()
                .map(|_| Thread::default())
                .collect(),
            expected: HashMap::new(),
            begun: HashMap::new(),
            memory: Memory::default(),
            futexes: Futexes::default(),
            barriers: Barriers::default(),
            owns: Owns::default(),
            called: HashSet::new(),
            is_annotated: false,
            lost: 0,
        }
    }

    /// The same, with what functions of the program's own mean.
    #[must_use]
    pub fn with(self, owns: &Owns) -> Self {
        let owns = owns.clone();
        Self { owns, ..self }
    }

    /// Whether the last step was a call of such a function, or within one. What is said of these is
    /// for analyses that only suspect: the others keep to what the instructions did.
    #[must_use]
    pub const fn is_annotated(&self) -> bool {
        self.is_annotated
    }

    /// The numbers of those functions that were called so far.
    #[must_use]
    pub const fn called(&self) -> &HashSet<u64> {
        &self.called
    }

    /// The threads so far, by the numbers that events have.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// Whether there are more threads than can be told apart. Then the last step meant nothing,
    /// and none that follows does.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// How many entries the recorder has lost so far.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// What memory this address is in now, if it is known.
    #[must_use]
    pub fn allocation(&self, address: u64) -> Option<&Allocation> {
        self.memory.at(address)
    }

    /// The number that events of an entry with this number begin with.
    #[must_use]
    pub const fn scaled(number: u64) -> u64 {
        number.saturating_mul(1 << ROOM)
    }

    /// The number of the entry that an event with this number comes from.
    #[must_use]
    pub const fn number_of(event: u64) -> u64 {
        event >> ROOM
    }

    /// Translates a step. What it means is added to `events`.
    pub fn step(&mut self, step: &Step, judge: &mut dyn Judge, events: &mut Vec<Event>) {
        let was_within = self.is_within_own(step.thread);
        self.translate(step, judge, events);
        self.is_annotated = was_within || self.is_within_own(step.thread);
    }

    fn is_within_own(&self, thread: u32) -> bool {
        let thread = self.threads.get(thread as usize);
        thread.is_some_and(|thread| thread.open.iter().any(is_own))
    }

    fn translate(&mut self, step: &Step, judge: &mut dyn Judge, events: &mut Vec<Event>) {
        let Step { thread, item, .. } = step;
        if self.threads.get(*thread as usize).is_none() {
            return;
        }
        if item.entry.kind == Kind::Start {
            self.start(*thread, item, events);
            return;
        }
        if item.entry.kind == Kind::Exit && self.threads[*thread as usize].task.is_none() {
            // The child of a vfork: it is told once more, at the end of its parent.
            return;
        }
        let Some(task) = self.task(*thread) else {
            return;
        };
        let mut out = Out {
            events,
            thread: task,
            place: Place(item.entry.word),
            number: item.number.map(Self::scaled),
        };
        self.retake(*thread, item, judge, &mut out);
        match item.entry.kind {
            Kind::Read => self.access(*thread, item, AccessKind::Read, judge, &mut out),
            Kind::Write => self.access(*thread, item, AccessKind::Write, judge, &mut out),
            Kind::Update => self.access(*thread, item, AccessKind::Update, judge, &mut out),
            Kind::Atomic => self.atomic(*thread, item, judge, &mut out),
            Kind::Fence => out.put(What::Fence),
            Kind::Call => self.call(*thread, item, judge, &mut out),
            Kind::Return => self.returned(*thread, item, &mut out),
            Kind::SystemCall => self.system_call(*thread, step, judge, &mut out),
            Kind::SystemReturn => self.system_return(*thread, item, judge, &mut out),
            Kind::Signal => out.acquire(SIGNAL, Mode::Exclusive),
            Kind::Exit => {
                self.threads[*thread as usize].calling = None;
                self.ended(task, &mut out);
                self.threads[*thread as usize] = Thread::default();
            }
            Kind::Lost => self.lost = self.lost.saturating_add(item.entry.word.max(1)),
            Kind::Start
            | Kind::Number
            | Kind::Value
            | Kind::At
            | Kind::Load
            | Kind::Check
            | Kind::Register => {}
        }
        if out.number.is_some() {
            self.threads[*thread as usize].spare = out.number;
        }
    }

    /// A thread ends. The kernel gives back the robust mutexes that it holds, and clears a word
    /// that others may wait for or look at.
    fn ended(&mut self, task: TaskId, out: &mut Out<'_>) {
        self.note_end(task);
        out.release(ENDED);
        if let Some(word) = self.tasks[task.0 as usize].cleared {
            out.put(What::Access(Access {
                bytes: bytes(word, 4),
                kind: AccessKind::Write,
                atomicity: Atomicity::Atomic(Ordering::Release),
            }));
            out.release(self.futexes.object(word));
        }
        out.put(What::Exit);
    }

    /// If a thread is cancelled while it waits for a condition, the wait takes the mutex again
    /// and never returns: the program's own code runs. This also happens in the handler of a
    /// signal, which cannot be told from it.
    fn retake(&mut self, thread: u32, item: &Item, judge: &mut dyn Judge, out: &mut Out<'_>) {
        let Thread { open, spare, .. } = &mut self.threads[thread as usize];
        let Some(open) = open.last_mut().filter(|open| !open.has_retaken) else {
            return;
        };
        let Some(mutex) = calls::awaited_with(open) else {
            return;
        };
        let acts = matches!(
            item.entry.kind,
            Kind::Read | Kind::Write | Kind::Update | Kind::Atomic | Kind::Call
        );
        if !acts || judge.is_runtime(item.entry.site()) {
            return;
        }
        open.has_retaken = true;
        if out.number.is_some() {
            out.acquire(mutex, Mode::Exclusive);
        } else if let Some(number) = spare {
            // The mutex was taken before the last sequencer: taking it is one.
            out.events.push(Event {
                thread: out.thread,
                place: out.place,
                number: Some(*number),
                what: What::Acquire {
                    object: mutex,
                    mode: Mode::Exclusive,
                },
            });
            *number = number.saturating_add(1);
        }
    }

    /// The thread that makes the entries of this index now.
    fn task(&mut self, thread: u32) -> Option<TaskId> {
        if self.threads[thread as usize].task.is_none() {
            self.threads[thread as usize].task = self.new_task(thread, None);
        }
        self.threads[thread as usize].task
    }

    /// None if there are more than can be told apart.
    fn new_task(&mut self, thread: u32, creator: Option<(TaskId, Place)>) -> Option<TaskId> {
        if self.tasks.len() == MOST_TASKS {
            self.is_full = true;
            return None;
        }
        let id = TaskId(u32::try_from(self.tasks.len()).unwrap_or(u32::MAX));
        let threads = self.process.threads();
        self.tasks.push(Task {
            thread,
            tid: threads.get(thread as usize).map_or(0, crate::Thread::id),
            creator,
            base: 0,
            stack: None,
            has_ended: false,
            cleared: None,
        });
        Some(id)
    }

    /// A thread begins. If its creator has not returned from its system call yet, this is the
    /// moment of its creation, too.
    fn start(&mut self, thread: u32, item: &Item, events: &mut Vec<Event>) {
        let tid = self.process.threads()[thread as usize].id();
        let mut number = item.number.map(Self::scaled);
        let task = match self.expected.remove(&tid) {
            Some(task) => {
                self.tasks[task.0 as usize].thread = thread;
                task
            }
            None => {
                let calling = self.only_creator(thread);
                let creator = calling.map(|(creator, calling)| (creator, calling.place));
                let Some(task) = self.new_task(thread, creator) else {
                    return;
                };
                if let Some((_, calling)) = calling {
                    self.tasks[task.0 as usize].cleared = calling.cleared_by_child();
                }
                if let Some((creator, place)) = creator {
                    events.push(Event {
                        thread: creator,
                        place,
                        number,
                        what: What::Create { child: task },
                    });
                    number = number.map(|number| number.saturating_add(1));
                }
                task
            }
        };
        let is_first = task.0 == 0;
        self.threads[thread as usize] = Thread {
            task: Some(task),
            ..Thread::default()
        };
        let began = Began {
            task,
            number: item.number,
        };
        self.begun.insert(tid, began);
        let mut out = Out {
            events,
            thread: task,
            place: Place(item.entry.word),
            number,
        };
        out.put(What::Start);
        let (base, pointer) = (item.value(0).unwrap_or(0), item.value(1).unwrap_or(0));
        self.has_base(task, base);
        if pointer != 0 {
            let stack = self.memory.stack(pointer);
            self.tasks[task.0 as usize].stack = Some(stack);
            if !is_first {
                out.put(What::Allocate { bytes: stack });
            }
        }
    }

    /// The thread that is creating one, if exactly one is. If several are, nobody knows whose
    /// child a new thread is; without a creator it comes after everything before it.
    fn only_creator(&self, but: u32) -> Option<(TaskId, Calling)> {
        let mut creating = self.threads.iter().zip(0..).filter_map(|(thread, index)| {
            let calling = thread.calling.as_ref().filter(|call| call.creates())?;
            (index != but).then_some((thread.task?, *calling))
        });
        let first = creating.next();
        first.filter(|_| creating.next().is_none())
    }

    fn access(
        &mut self,
        thread: u32,
        item: &Item,
        kind: AccessKind,
        judge: &mut dyn Judge,
        out: &mut Out<'_>,
    ) {
        let open = &self.threads[thread as usize].open;
        let touched = touched(item);
        if touched.len == 0 || open.iter().any(hides_all) {
            return;
        }
        // What a call does within the runtime is told by the call.
        if is_told(open, touched) && judge.is_runtime(item.entry.site()) {
            return;
        }
        if let Some(atomicity) = judge.atomicity(out.place, kind, touched) {
            out.put(What::Access(Access {
                bytes: touched,
                kind,
                atomicity,
            }));
        }
    }

    /// A locked instruction. Those that the runtime makes within a call are told by the call, too:
    /// what it counts threads or blocks with orders nobody on purpose.
    fn atomic(&mut self, thread: u32, item: &Item, judge: &mut dyn Judge, out: &mut Out<'_>) {
        let open = &self.threads[thread as usize].open;
        let touched = touched(item);
        if touched.len == 0
            || open.iter().any(hides_all)
            || (is_told(open, touched) && judge.is_runtime(item.entry.site()))
        {
            out.put(What::Fence);
            return;
        }
        out.put(What::Access(Access {
            bytes: touched,
            kind: AccessKind::Update,
            atomicity: Atomicity::Atomic(Ordering::AcquireRelease),
        }));
    }

    /// The block that this item gives back, if it calls a function that does, and the place of
    /// the call. In the order of the steps, before its own.
    #[must_use]
    pub fn given_back(&self, item: &Item) -> Option<(Place, &'static str, Allocation)> {
        if item.entry.kind != Kind::Call {
            return None;
        }
        // A block that is moved may stay where it was, or not be freed for want of memory.
        let function = Function::new(item.entry.address).filter(|one| *one == Function::Free)?;
        // What it asked for: how an allocator rounds up is not known, and what is behind may be
        // another's. Nobody's word makes a race, so a block that somebody described is none.
        let block = self.memory.block(item.value(0)?)?;
        if !matches!(block.origin, Origin::Heap { .. }) {
            return None;
        }
        Some((before(Place(item.entry.word)), function.symbol(), *block))
    }

    fn call(&mut self, thread: u32, item: &Item, judge: &mut dyn Judge, out: &mut Out<'_>) {
        let number = item.entry.address;
        let known = Function::new(number).map(Called::Known);
        let Some(called) = known.or_else(|| self.owns.get(number).cloned().map(Called::Own)) else {
            out.put(What::Fence);
            return;
        };
        if matches!(called, Called::Own(_)) {
            self.called.insert(number);
        }
        let argument = |index| item.value(index).unwrap_or(0);
        let open = Open {
            number,
            called,
            arguments: [argument(0), argument(1), argument(2)],
            place: out.place,
            has_retaken: false,
        };
        let given_back = self.given_back(item).filter(|(place, function, block)| {
            let bytes = bytes(block.bytes.start.0, block.bytes.len.min(LONGEST));
            judge.tells_free(*place, function, bytes)
        });
        let written = given_back.map(|(place, _, block)| {
            out.place = place;
            block.bytes
        });
        calls::entered(&open, written, &mut self.memory, &mut self.barriers, out);
        let calls = &mut self.threads[thread as usize].open;
        if calls.len() < DEEPEST {
            calls.push(open);
        } else {
            // Nobody will know what its return means.
            self.lost = self.lost.saturating_add(1);
        }
    }

    fn returned(&mut self, thread: u32, item: &Item, out: &mut Out<'_>) {
        let calls = &mut self.threads[thread as usize].open;
        let number = item.entry.address;
        // Calls that were left by an exception or a jump have no return.
        let at = calls.iter().rposition(|open| open.number == number);
        let Some(at) = at else {
            out.put(What::Fence);
            return;
        };
        let open = calls.swap_remove(at);
        calls.truncate(at);
        if calls::is_join(&open) && calls::succeeded(item) {
            match self.joined(open.arguments[0]) {
                Some(child) => out.put(What::Join { child }),
                None => out.put(What::Fence),
            }
            return;
        }
        calls::left(&open, item, &mut self.memory, &mut self.barriers, out);
    }

    /// The thread that a `pthread_t` stands for and that has ended: the latest, because the next
    /// one that gets this address cannot have ended yet.
    fn joined(&self, base: u64) -> Option<TaskId> {
        let (ended, latest) = self.by_base.get(&base)?;
        Some(ended.unwrap_or(*latest))
    }

    /// A thread says where its thread-local memory is. The child of a vfork has that of its
    /// parent, which goes on; nobody joins the child.
    fn has_base(&mut self, id: TaskId, base: u64) {
        let latest = self.by_base.get(&base).map(|(_, latest)| *latest);
        if base == 0 || latest.is_some_and(|latest| latest != id && !self.has_ended(latest)) {
            return;
        }
        self.tasks[id.0 as usize].base = base;
        let (_, latest) = self.by_base.entry(base).or_insert((None, id));
        *latest = id.max(*latest);
    }

    fn note_end(&mut self, id: TaskId) {
        let task = &mut self.tasks[id.0 as usize];
        task.has_ended = true;
        if let Some((ended, _)) = self.by_base.get_mut(&task.base) {
            *ended = Some(id).max(*ended);
        }
    }

    fn system_call(&mut self, thread: u32, step: &Step, judge: &mut dyn Judge, out: &mut Out<'_>) {
        let calling = Calling::new(&step.item, out.place);
        if let Some(result) = step.result {
            self.by_kernel(thread, &calling, result, false, judge, out);
        }
        let open = self.threads[thread as usize].open.last();
        let is_inner = open.is_some_and(|open| !calls::shows_waiting(open));
        system::entered(&calling, is_inner, &mut self.memory, &mut self.futexes, out);
        self.threads[thread as usize].calling = Some(calling);
    }

    fn system_return(
        &mut self,
        thread: u32,
        item: &Item,
        judge: &mut dyn Judge,
        out: &mut Out<'_>,
    ) {
        let Some(calling) = self.threads[thread as usize].calling.take() else {
            out.put(What::SystemCall);
            return;
        };
        let result = item.value(0).unwrap_or(0).cast_signed();
        let open = self.threads[thread as usize].open.last();
        let is_inner = open.is_some_and(|open| !calls::shows_waiting(open));
        if calling.creates()
            && let Ok(tid) = u32::try_from(result)
            && tid != 0
        {
            self.created(tid, &calling, out);
            return;
        }
        system::left(
            &calling,
            result,
            is_inner,
            &mut self.memory,
            &mut self.futexes,
            out,
        );
        self.by_kernel(thread, &calling, result, true, judge, out);
    }

    /// What the kernel reads or writes for a system call. When exactly is not known, so it reads
    /// before all that the call sends, and writes after all that the call receives: an order too
    /// many hides a race. What a call of the runtime's does within is its own business.
    fn by_kernel(
        &self,
        thread: u32,
        calling: &Calling,
        result: i64,
        writes: bool,
        judge: &mut dyn Judge,
        out: &mut Out<'_>,
    ) {
        if !self.threads[thread as usize].open.iter().all(is_own) {
            return;
        }
        out.place = calling.place;
        let mut left = MOST_BY_KERNEL;
        for (name, kind, touched) in calling.accesses(result) {
            let is_known = ADDRESSES.contains(&touched.start.0);
            let bytes = bytes(touched.start.0, touched.len.min(LONGEST));
            if kind.writes() == writes
                && is_known
                && left > 0
                && judge.tells_kernel(calling.place, name, bytes)
            {
                left -= 1;
                out.put(What::Access(Access {
                    bytes,
                    kind,
                    atomicity: Atomicity::Plain,
                }));
            }
        }
    }

    /// A thread was created, or a process with the same memory, which may have begun since, and even have ended.
    fn created(&mut self, tid: u32, calling: &Calling, out: &mut Out<'_>) {
        let begun = self.begun.get(&tid).copied();
        let since = |began: &Began| began.number > calling.since || !self.has_ended(began.task);
        let Some(Began { task: child, .. }) = begun.filter(since) else {
            // It has not begun: this comes before.
            let Some(child) = self.new_task(u32::MAX, Some((out.thread, calling.place))) else {
                return;
            };
            let task = &mut self.tasks[child.0 as usize];
            task.tid = tid;
            task.cleared = calling.cleared_by_child();
            self.expected.insert(tid, child);
            out.put(What::Create { child });
            return;
        };
        self.tasks[child.0 as usize].cleared = calling.cleared_by_child();
        if !calling.waits_for_child() {
            out.put(What::SystemCall);
            return;
        }
        // It no longer uses this memory. Nothing else says so: it has become another program.
        if !self.has_ended(child) {
            let parent = std::mem::replace(&mut out.thread, child);
            self.ended(child, out);
            out.thread = parent;
            let index = self.tasks[child.0 as usize].thread;
            if let Some(thread) = self.threads.get_mut(index as usize) {
                *thread = Thread::default();
            }
        }
        out.put(What::Join { child });
    }

    fn has_ended(&self, task: TaskId) -> bool {
        self.tasks[task.0 as usize].has_ended
    }
}
