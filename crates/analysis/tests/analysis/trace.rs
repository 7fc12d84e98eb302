//! Traces as text, one event in each line:
//!
//! ```text
//! T1 lock m
//! T1 write x @ f:3
//! T2 read x[4..6] doubtful
//! ```
//!
//! A thread that no line creates exists from the start. A variable has eight bytes unless it says
//! which of them are meant. A place without a name is named by its line. Every event but an
//! access without `locked` gets a number, in the order of the lines.

use redhanded_analysis::{
    Access, Atomicity, Event, Finding, HappensBefore, Mode, Object, ObjectKind, Ordering, Place,
    Sequencers, Standing, What, merge,
};
use redhanded_model::{AccessKind, Avma, Bytes, TaskId};
use std::collections::BTreeMap;

/// A parsed trace.
#[derive(Default)]
pub struct Trace {
    /// In the order of the lines.
    pub events: Vec<Event>,
    names: Vec<String>,
    places: Vec<String>,
}

/// Parses a trace.
pub fn trace(text: &str) -> Trace {
    let mut trace = Trace::default();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let mut threads: Vec<u32> = lines.iter().map(|line| thread(line).0).collect();
    threads.sort_unstable();
    threads.dedup();
    let is_created = |id: &u32| {
        lines
            .iter()
            .any(|line| line.ends_with(&format!("create T{id}")))
    };
    threads.retain(|id| !is_created(id));
    for child in &threads {
        let child = TaskId(*child);
        trace.add(TaskId(0), "", What::Create { child }, true);
    }
    trace.add(TaskId(0), "", What::Exit, true);
    for id in threads {
        trace.add(TaskId(id), "", What::Start, true);
    }
    for line in lines {
        trace.parse(line);
    }
    trace
}

/// The thread of a line, and the rest of it.
fn thread(line: &str) -> (u32, &str) {
    let (thread, rest) = line.split_once(' ').expect(line);
    (
        thread.strip_prefix('T').expect(line).parse().expect(line),
        rest,
    )
}

impl Trace {
    /// The events region by region, as the analyses want them.
    pub fn merged(&self) -> Vec<Event> {
        let mut threads: BTreeMap<TaskId, Vec<Event>> = BTreeMap::new();
        for event in &self.events {
            threads.entry(event.thread).or_default().push(*event);
        }
        merge(threads.into_values()).collect()
    }

    /// The address of a variable, or the identity of a lock.
    pub fn address(&mut self, name: &str) -> u64 {
        let known = self.names.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        0x1000 + 8 * index as u64
    }

    /// The name of a lock.
    pub fn name(&self, object: Object) -> String {
        match object.kind {
            ObjectKind::InterruptLevel => object.id.to_string(),
            ObjectKind::Atomicity => "atomicity".to_owned(),
            _ => self.names[usize::try_from((object.id - 0x1000) / 8).unwrap()].clone(),
        }
    }

    /// The name of a place.
    pub fn place(&self, place: Place) -> &str {
        &self.places[usize::try_from(place.0).unwrap()]
    }

    fn add(&mut self, thread: TaskId, place: &str, what: What, is_sequencer: bool) {
        let known = self.places.iter().position(|known| known == place);
        let place = known.unwrap_or_else(|| {
            self.places.push(place.to_owned());
            self.places.len() - 1
        });
        let numbers = self.events.iter().filter_map(|event| event.number);
        let next = numbers.max().unwrap_or(0) + 1;
        self.events.push(Event {
            thread,
            place: Place(place as u64),
            number: is_sequencer.then_some(next),
            what,
        });
    }

    fn parse(&mut self, line: &str) {
        let (id, rest) = thread(line);
        let (rest, place) = rest.split_once(" @ ").unwrap_or((rest, line));
        let words: Vec<&str> = rest.split_whitespace().collect();
        let what = match words[..] {
            ["read" | "write" | "update", variable, ref marks @ ..] => {
                self.access(words[0], variable, marks)
            }
            ["fence"] => What::Fence,
            ["call"] => What::SystemCall,
            ["exit"] => What::Exit,
            ["start"] => What::Start,
            ["create", child] => What::Create {
                child: TaskId(thread(&format!("{child} ")).0),
            },
            ["join", child] => What::Join {
                child: TaskId(thread(&format!("{child} ")).0),
            },
            ["lock", name] => self.acquire(ObjectKind::Lock, name, Mode::Exclusive),
            ["share", name] => self.acquire(ObjectKind::Lock, name, Mode::Shared),
            ["unlock", name] => self.release(ObjectKind::Lock, name),
            ["down", name] => self.acquire(ObjectKind::Semaphore, name, Mode::Exclusive),
            ["up", name] => self.release(ObjectKind::Semaphore, name),
            ["count", name, count] => What::SetCount {
                semaphore: self.address(name),
                count: count.parse().unwrap(),
            },
            ["receive", name] => self.acquire(ObjectKind::Channel, name, Mode::Exclusive),
            ["send", name] => self.release(ObjectKind::Channel, name),
            ["arrive", name] => What::Arrive {
                barrier: self.address(name),
            },
            ["depart", name] => What::Depart {
                barrier: self.address(name),
            },
            ["allocate", variable] => What::Allocate {
                bytes: self.bytes(variable),
            },
            ["free", variable] => What::Free {
                bytes: self.bytes(variable),
                written: None,
            },
            ["slack", variable] => What::Slack {
                bytes: self.bytes(variable),
            },
            ["give-back", variable] => What::Free {
                bytes: self.bytes(variable),
                written: Some(self.bytes(variable)),
            },
            ["level", level] => What::SetInterruptLevel {
                level: level.parse().unwrap(),
            },
            _ => panic!("{line}"),
        };
        let is_sequencer = !matches!(what, What::Access(_)) || words.contains(&"locked");
        self.add(TaskId(id), place, what, is_sequencer);
    }

    fn access(&mut self, kind: &str, variable: &str, marks: &[&str]) -> What {
        let atomicity = match marks {
            [] => Atomicity::Plain,
            ["doubtful"] => Atomicity::Doubtful,
            ["atomic" | "locked"] => Atomicity::Atomic(Ordering::AcquireRelease),
            ["relaxed"] => Atomicity::Atomic(Ordering::Relaxed),
            _ => panic!("{marks:?}"),
        };
        let kind = match kind {
            "read" => AccessKind::Read,
            "write" => AccessKind::Write,
            _ => AccessKind::Update,
        };
        let bytes = self.bytes(variable);
        What::Access(Access {
            bytes,
            kind,
            atomicity,
        })
    }

    fn bytes(&mut self, variable: &str) -> Bytes {
        let (name, range) = variable.split_once('[').unwrap_or((variable, "0..8]"));
        let (start, end) = range.trim_end_matches(']').split_once("..").unwrap();
        let (start, end): (u64, u64) = (start.parse().unwrap(), end.parse().unwrap());
        Bytes::new(Avma(self.address(name) + start), end - start)
    }

    fn acquire(&mut self, kind: ObjectKind, name: &str, mode: Mode) -> What {
        let id = self.address(name);
        What::Acquire {
            object: Object { kind, id },
            mode,
        }
    }

    fn release(&mut self, kind: ObjectKind, name: &str) -> What {
        let id = self.address(name);
        What::Release {
            object: Object { kind, id },
        }
    }

    /// Findings in words, sorted.
    pub fn words(&self, findings: &[Finding]) -> Vec<String> {
        let mut words: Vec<String> = findings
            .iter()
            .map(|finding| {
                let standing = match finding.standing() {
                    Standing::Unordered => "unordered",
                    Standing::Suspect => "suspect",
                };
                let mut places = finding.places.map(|place| self.place(place));
                places.sort_unstable();
                format!("{} | {}: {standing}", places[0], places[1])
            })
            .collect();
        words.sort();
        words
    }
}

/// What happens-before finds.
pub fn happens_before(events: &[Event]) -> Vec<Finding> {
    let mut analysis = HappensBefore::default();
    for event in events {
        analysis.push(event);
    }
    analysis.finish()
}

/// What sequencers find.
pub fn sequencers(events: &[Event]) -> Vec<Finding> {
    let mut analysis = Sequencers::default();
    for event in events {
        analysis.push(event);
    }
    analysis.finish()
}
