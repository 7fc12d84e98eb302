//! How many events each analysis takes in a second: `cargo bench -p redhanded-analysis`.
//!
//! Eight threads work on data of their own, on data under locks, and on data that all read. In
//! the second kind of program nothing shows which moves are atomic; in the third, nothing is
//! locked and everything races.

use redhanded_analysis::{
    Access, Atomicity, Event, HappensBefore, Lockset, Mode, Object, ObjectKind, Place, Sequencers,
    What,
};
use redhanded_model::{AccessKind, Avma, Bytes, TaskId};

const THREADS: u32 = 8;
const EVENTS: usize = 5_000_000;
/// Sites that use a word.
const SITES: u64 = 4;
/// Accesses in a region, on average.
const REGION: u64 = 100;

#[derive(Clone, Copy)]
struct Program {
    name: &'static str,
    /// How the program's moves look.
    moves: Atomicity,
    takes_locks: bool,
}

/// A small generator of random numbers, so that every run has the same events.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn events(program: Program) -> Vec<Event> {
    let mut events = Vec::with_capacity(EVENTS + 1000);
    let mut random = Random(0x5eed);
    let mut number = 0;
    let mut sequencer = |thread: u32, what: What| {
        number += 1;
        Event {
            thread: TaskId(thread),
            place: Place(1),
            number: Some(number),
            what,
        }
    };
    for child in (1..=THREADS).map(TaskId) {
        events.push(sequencer(0, What::Create { child }));
    }
    for thread in 1..=THREADS {
        events.push(sequencer(thread, What::Start));
    }
    while events.len() < EVENTS {
        let thread = 1 + u32::try_from(random.below(THREADS.into())).expect("a thread");
        let id = random.below(64);
        let object = Object {
            kind: ObjectKind::Lock,
            id,
        };
        let mode = Mode::Exclusive;
        let is_locked = program.takes_locks;
        events.push(sequencer(
            thread,
            if is_locked {
                What::Acquire { object, mode }
            } else {
                What::Fence
            },
        ));
        let start = random.below(1 << 14);
        for step in 0..random.below(2 * REGION) {
            let address = match random.below(10) {
                // Below the lock,
                0..3 => 0x10_0000 + 0x1000 * id + 8 * random.below(64),
                // what all read,
                3..5 => 0x80_0000 + 8 * random.below(1 << 12),
                // and its own, mostly one after the other.
                _ => 0x100_0000 * u64::from(thread + 1) + 8 * ((start + step) % (1 << 14)),
            };
            // A word is used by few sites.
            let site = address / 8 % 100 * SITES + random.below(SITES);
            let kind = match random.below(3) {
                0 if !(0x80_0000..0x100_0000).contains(&address) => AccessKind::Write,
                _ => AccessKind::Read,
            };
            events.push(Event {
                thread: TaskId(thread),
                place: Place(2 * site + u64::from(kind.writes())),
                number: None,
                what: What::Access(Access {
                    bytes: Bytes::new(Avma(address), 8),
                    kind,
                    atomicity: program.moves,
                }),
            });
        }
        if is_locked {
            events.push(sequencer(thread, What::Release { object }));
        }
    }
    events
}

/// How long this process has run on a processor, in nanoseconds: other load must not matter.
fn processor_time() -> f64 {
    let times = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux with schedstat");
    let ran = times.split(' ').next().and_then(|ran| ran.parse().ok());
    ran.expect("a number of nanoseconds")
}

fn timed(name: &str, events: &[Event], analyse: impl FnOnce(&[Event]) -> usize) {
    let start = processor_time();
    let found = analyse(events);
    let rate = events.len() as f64 * 1e3 / (processor_time() - start);
    println!("  {name:<16} {rate:>8.1} million events a second, {found} pairs");
}

fn main() {
    for program in [
        Program {
            name: "with locks",
            moves: Atomicity::Plain,
            takes_locks: true,
        },
        Program {
            name: "with locks, moves in doubt",
            moves: Atomicity::Doubtful,
            takes_locks: true,
        },
        Program {
            name: "without locks",
            moves: Atomicity::Plain,
            takes_locks: false,
        },
    ] {
        let events = events(program);
        println!("{}: {} events", program.name, events.len());
        timed("sequencers", &events, |events| {
            let mut analysis = Sequencers::default();
            events.iter().for_each(|event| analysis.push(event));
            analysis.finish().len()
        });
        timed("happens-before", &events, |events| {
            let mut analysis = HappensBefore::default();
            events.iter().for_each(|event| analysis.push(event));
            analysis.finish().len()
        });
        timed("lockset", &events, |events| {
            let mut analysis = Lockset::default();
            events.iter().for_each(|event| analysis.push(event));
            analysis.finish().len()
        });
    }
}
