//! Runs two threads in one order.

use crate::follow::Part;
use crate::landmark::Landmark;
use crate::machine::{Access, Machine, Pending, Written};
use crate::outcome::{End, Ended, Order, Outcome, Side};
use crate::ranges::Ranges;
use crate::scene::Limits;
use crate::state::State;

/// Whoever follows an order instruction by instruction.
pub(crate) trait Observer {
    /// Whether to go on, when a thread is about to run its next instruction, or the write that
    /// an interrupted update has still to do.
    fn goes_on(&self) -> bool;

    /// The instruction at `ip` has run, or a part of it. What it accessed is at the end of the
    /// machine's log, from `logged` on.
    fn ran(&mut self, side: Side, ip: u64, part: Part, machine: &mut Machine<'_>, logged: usize);
}

/// Nobody follows.
impl Observer for () {
    fn goes_on(&self) -> bool {
        true
    }

    fn ran(&mut self, _: Side, _: u64, _: Part, _: &mut Machine<'_>, _: usize) {}
}

/// One thread while an order runs.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    side: Side,
    pub state: State,
    pub steps: u64,
    /// Whether it has run its first instruction.
    started: bool,
    pub end: Option<End>,
    /// Where its stack was lowest.
    pub lowest_stack: u64,
    /// Where its stack was after it last returned from a function.
    pub returned_to: u64,
    /// How often it came to its landmark.
    passed: u32,
    /// The write that an interrupted update has still to do, and its instruction.
    pending: Option<(u64, Pending)>,
    /// The accesses at which it was interrupted, each with its address and size.
    pub interrupted: Vec<(u64, u64)>,
    /// The store that others see late, once it was made.
    delayed: Option<Delayed>,
    /// What it accessed, in its order.
    pub accesses: Vec<Access>,
    /// The functions that it has called and not left.
    pub calls: Vec<u64>,
}

impl Thread {
    pub fn new(side: Side, state: &State) -> Self {
        Self {
            side,
            lowest_stack: state.general[crate::state::RSP],
            returned_to: 0,
            passed: 0,
            state: state.clone(),
            steps: 0,
            started: false,
            end: None,
            pending: None,
            interrupted: Vec::new(),
            delayed: None,
            accesses: Vec::new(),
            calls: Vec::new(),
        }
    }
}

impl Thread {
    pub fn ended(&self) -> Ended {
        Ended {
            end: self.end.clone().unwrap_or(End::Bound),
            ip: self.state.ip,
            steps: self.steps,
            calls: self.calls.clone(),
        }
    }
}

/// What one order left behind.
pub(crate) struct Played {
    pub order: Order,
    pub threads: [Thread; 2],
    pub written: Written,
}

impl Played {
    pub fn outcome(&self) -> Outcome {
        Outcome {
            order: self.order,
            ended: self.threads.each_ref().map(Thread::ended),
        }
    }

    /// Whether what is special about this order happens at these bytes. An order that interrupts a
    /// thread at others shows another race of the same regions.
    pub fn is_about(&self, race: &Ranges) -> bool {
        match self.order {
            Order::First(_) | Order::Delayed { .. } => true,
            Order::Split { side, .. } => {
                let mut those = self.threads[side as usize].interrupted.iter();
                those.any(|(address, size)| race.touch(*address, *size))
            }
        }
    }

    pub fn fails(&self, handled: u64) -> bool {
        let failed = |t: &Thread| {
            t.end
                .as_ref()
                .is_some_and(|e| e.is_failure_despite(handled))
        };
        self.threads.iter().any(failed)
    }
}

/// How far the threads run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub limits: Limits,
    /// Where the region of each thread ends, if nothing else ends it.
    pub landmarks: [Option<Landmark>; 2],
}

impl Extent {
    /// Only numbers of instructions.
    pub const fn of(limits: Limits) -> Self {
        Self {
            limits,
            landmarks: [None; 2],
        }
    }

    /// How many instructions a thread may run. A landmark may be further away in some orders.
    const fn steps(&self, side: Side) -> u64 {
        match self.landmarks[side as usize] {
            Some(_) => self.limits.steps.saturating_mul(2),
            None => self.limits.steps,
        }
    }
}

/// Where a thread is interrupted.
#[derive(Clone, Copy)]
struct Interrupt<'a> {
    contested: &'a Ranges,
    after: u32,
}

/// What is special about how a thread runs.
#[derive(Clone, Copy)]
enum How<'a> {
    Straight,
    Interrupted(Interrupt<'a>),
    /// One of its stores is late: the how manieth to these bytes.
    Late(&'a Ranges, u32),
}

/// A store that others see late.
#[derive(Clone, Debug)]
struct Delayed {
    address: u64,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Runs both threads in this order, over the memory as it was at the start.
pub(crate) fn play(
    machine: &mut Machine<'_>,
    starts: &[State; 2],
    order: Order,
    contested: &Ranges,
    extent: Extent,
    observer: &mut impl Observer,
) -> Played {
    let threads = follow(machine, starts, order, contested, extent, observer);
    Played {
        order,
        threads,
        written: machine.space.take_written(),
    }
}

/// Runs both threads in this order until the observer stops them. What they wrote is left in
/// the machine's memory.
pub(crate) fn follow(
    machine: &mut Machine<'_>,
    starts: &[State; 2],
    order: Order,
    contested: &Ranges,
    extent: Extent,
    observer: &mut impl Observer,
) -> [Thread; 2] {
    let mut threads = SIDES.map(|side| Thread::new(side, &starts[side as usize]));
    let (first, how) = match order {
        Order::First(side) => (side, How::Straight),
        Order::Split { side, after } => (side, How::Interrupted(Interrupt { contested, after })),
        Order::Delayed { side, store } => (side, How::Late(contested, store)),
    };
    let second = first.other();
    let mut player = Player {
        machine,
        extent,
        observer,
    };
    player.run(&mut threads[first as usize], how);
    let late = threads[first as usize].delayed.take();
    if let Some(late) = &late {
        player.show(late.address, &late.before);
    }
    player.run(&mut threads[second as usize], How::Straight);
    if let Some(late) = &late {
        player.show(late.address, &late.after);
    }
    if !matches!(how, How::Straight) {
        player.run(&mut threads[first as usize], How::Straight);
        player.go_on_waiting(&mut threads[second as usize]);
    }
    // A thread that ran in a circle was perhaps waiting for the other one.
    player.go_on_waiting(&mut threads[first as usize]);
    threads
}

struct Player<'a, 'm, O> {
    machine: &'a mut Machine<'m>,
    extent: Extent,
    observer: &'a mut O,
}

impl<O: Observer> Player<'_, '_, O> {
    /// Lets memory hold these bytes, which were there before or will be.
    fn show(&mut self, address: u64, bytes: &[u8]) {
        // It was just written, so it can be.
        let _ = self.machine.space.poke(address, bytes);
    }

    fn go_on_waiting(&mut self, thread: &mut Thread) {
        if thread.end == Some(End::Waits) {
            thread.end = None;
            let before = std::mem::take(&mut thread.steps);
            self.run(thread, How::Straight);
            thread.steps += before;
        }
    }

    /// Lets a thread run to the end of its region, or to where it is interrupted.
    fn run(&mut self, thread: &mut Thread, how: How<'_>) {
        if thread.end.is_some() || !self.observer.goes_on() {
            return;
        }
        let machine = &mut *self.machine;
        machine.load(&thread.state);
        machine.lowest_stack = thread.lowest_stack;
        machine.returned_to = thread.returned_to;
        machine.calls = std::mem::take(&mut thread.calls);
        machine.space.log.clear();
        let end = self.advance(thread, how);
        let machine = &mut *self.machine;
        machine.store(&mut thread.state);
        thread.lowest_stack = machine.lowest_stack;
        thread.returned_to = machine.returned_to;
        thread.calls = std::mem::take(&mut machine.calls);
        thread.accesses.append(&mut machine.space.log);
        thread.end = end;
    }

    fn advance(&mut self, thread: &mut Thread, how: How<'_>) -> Option<End> {
        let interrupt = match how {
            How::Interrupted(interrupt) => Some(interrupt),
            How::Straight | How::Late(..) => None,
        };
        let mut stores = 0;
        let machine = &mut *self.machine;
        let side = thread.side;
        if let Some((ip, pending)) = thread.pending.take() {
            let logged = machine.space.log.len();
            if let Err(end) = machine.commit(&pending) {
                return Some(end);
            }
            self.observer.ran(side, ip, Part::Write, machine, logged);
        }
        let mut left = interrupt.map_or(u32::MAX, |i| i.after);
        let mut circle = Circle::new(machine);
        let landmark = self.extent.landmarks[side as usize];
        while thread.steps < self.extent.steps(side) {
            if left == 0 || !self.observer.goes_on() {
                return None;
            }
            let ip = machine.ip();
            if let Some(landmark) = landmark
                && landmark.ip == ip
            {
                thread.passed += 1;
                if thread.passed >= landmark.time {
                    return Some(End::Round);
                }
            }
            let logged = machine.space.log.len();
            let mut update = None;
            if let Some(interrupt) = interrupt {
                update = machine.next_update();
                if let Some((address, size)) = update
                    && left == 1
                    && interrupt.contested.touch(address, size as u64)
                {
                    thread.started = true;
                    thread.steps += 1;
                    thread.interrupted = vec![(address, size as u64)];
                    return match machine.step_held() {
                        Ok(pending) => {
                            thread.pending = pending.map(|pending| (ip, pending));
                            self.observer.ran(side, ip, Part::Read, machine, logged);
                            None
                        }
                        Err(end) => Some(end),
                    };
                }
            }
            let mut late = None;
            if let How::Late(contested, which) = how
                && let Some((address, size)) = machine.next_store()
                && contested.touch(address, size as u64)
            {
                stores += 1;
                let mut before = vec![0; size];
                if stores == which && machine.space.peek(address, &mut before).is_ok() {
                    late = Some((address, before));
                }
            }
            // The first instruction is the access itself, whatever it is.
            if let Err(end) = machine.step(!thread.started) {
                return Some(end);
            }
            thread.started = true;
            thread.steps += 1;
            // A later store to the same bytes cannot overtake it.
            if let Some(delayed) = &thread.delayed {
                let end = delayed.address + delayed.after.len() as u64;
                let own = Ranges::new(vec![(delayed.address, end)]);
                let mut made = machine.space.log[logged..].iter();
                if made.any(|a| a.write && own.touch(a.address, a.size.into())) {
                    thread.delayed = None;
                }
            }
            if let Some((address, before)) = late {
                let mut after = vec![0; before.len()];
                let seen = machine.space.peek(address, &mut after).is_ok();
                thread.delayed = seen.then_some(Delayed {
                    address,
                    before,
                    after,
                });
            }
            self.observer.ran(side, ip, Part::Whole, machine, logged);
            if let Some(interrupt) = interrupt {
                let made = &machine.space.log[logged..];
                let count = contested_accesses(made, interrupt.contested, update.is_some());
                if count > 0 {
                    let ranges = made.iter().map(|a| (a.address, a.size.into()));
                    thread.interrupted = ranges.collect();
                }
                left = left.saturating_sub(count);
            }
            if let Some(end) = circle.closes(machine) {
                return Some(end);
            }
        }
        Some(End::Bound)
    }
}

/// How often one instruction accessed contested memory: an update twice, anything else at
/// most once.
fn contested_accesses(made: &[Access], contested: &Ranges, update: bool) -> u32 {
    let count = made
        .iter()
        .filter(|a| contested.touch(a.address, a.size.into()))
        .count();
    if update {
        count as u32
    } else {
        count.min(1) as u32
    }
}

/// How many contested accesses a thread makes when it runs alone. Their number is that of
/// the log's entries, so a repeated string instruction is many; more orders than that are
/// not tried.
pub(crate) fn count(accesses: &[Access], contested: &Ranges) -> u32 {
    accesses
        .iter()
        .filter(|a| contested.touch(a.address, a.size.into()))
        .count() as u32
}

/// Finds out that a thread comes back to the same place with the same registers and has
/// written nothing on its way: then it does so for ever, or until somebody else writes. It compares with a place further on
/// each time, so that every circle is found once the distance is as long as it.
struct Circle {
    here: State,
    logged: usize,
    steps: u64,
    distance: u64,
}

impl Circle {
    fn new(machine: &Machine<'_>) -> Self {
        let mut circle = Self {
            here: State::default(),
            logged: 0,
            steps: 0,
            distance: 16,
        };
        circle.mark(machine);
        circle
    }

    fn mark(&mut self, machine: &Machine<'_>) {
        machine.store(&mut self.here);
        self.logged = machine.space.log.len();
        self.steps = 0;
        self.distance *= 2;
    }

    fn closes(&mut self, machine: &Machine<'_>) -> Option<End> {
        self.steps += 1;
        let accesses = &machine.space.log[self.logged..];
        if machine.ip() == self.here.ip
            && machine.general() == (&self.here.general, self.here.flags)
            && accesses.iter().all(|a| !a.write)
        {
            let mut again = State::default();
            machine.store(&mut again);
            let nobody_can_end_it = accesses.is_empty();
            return (again == self.here).then_some(if nobody_can_end_it {
                End::Endless
            } else {
                End::Waits
            });
        }
        if self.steps == self.distance {
            self.mark(machine);
        }
        None
    }
}

/// Both threads, by name.
pub(crate) const SIDES: [Side; 2] = [Side::A, Side::B];
