//! Follows one order step by step, for people and debuggers.

use crate::bytes::Bytes;
use crate::judge::prepare;
use crate::machine::Machine;
use crate::outcome::{Ended, Failure, Order, Side};
use crate::scene::{Limits, Scene};
use crate::schedule::{Observer, follow as run};
use crate::state::State;
use serde::{Deserialize, Serialize};

/// Which part of an instruction ran. An update is interrupted between its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Part {
    /// All of it.
    Whole,
    /// Everything but the write to memory.
    Read,
    /// The write to memory.
    Write,
}

/// What one instruction did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Which thread.
    pub side: Side,
    /// The instruction.
    pub ip: u64,
    /// How much of it.
    pub part: Part,
    /// The memory that it read: where, and what was there after the step.
    pub reads: Vec<(u64, Vec<u8>)>,
    /// The memory that it wrote, likewise.
    pub writes: Vec<(u64, Vec<u8>)>,
}

/// One order, up to a step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Followed {
    /// The registers of both threads.
    pub threads: [State; 2],
    /// How both ended, or have come so far.
    pub ended: [Ended; 2],
    /// How many steps that was.
    pub at: u64,
    /// The steps, if asked for.
    pub steps: Vec<Step>,
    /// All pages that were used, as they are now.
    pub pages: Vec<(u64, Bytes<4096>)>,
}

struct Watcher {
    left: u64,
    at: u64,
    steps: Option<Vec<Step>>,
}

impl Observer for Watcher {
    fn goes_on(&self) -> bool {
        self.left > 0
    }

    fn ran(&mut self, side: Side, ip: u64, part: Part, machine: &mut Machine<'_>, logged: usize) {
        self.left -= 1;
        self.at += 1;
        let Some(steps) = &mut self.steps else {
            return;
        };
        let accesses = machine.space.log[logged..].to_vec();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for access in accesses {
            let mut bytes = vec![0; access.size as usize];
            if machine.space.peek(access.address, &mut bytes).is_ok() {
                let into = if access.write {
                    &mut writes
                } else {
                    &mut reads
                };
                into.push((access.address, bytes));
            }
        }
        steps.push(Step {
            side,
            ip,
            part,
            reads,
            writes,
        });
    }
}

/// Runs one order for so many steps.
pub(crate) fn follow(
    machine: &mut Machine<'_>,
    scene: &Scene,
    order: Order,
    limits: Limits,
    steps: u64,
    listed: bool,
) -> Result<Followed, Failure> {
    let prepared = prepare(machine, scene, limits)?;
    let mut watcher = Watcher {
        left: steps,
        at: 0,
        steps: listed.then(Vec::new),
    };
    let (starts, contested) = (&prepared.starts, &prepared.contested);
    let extent = prepared.extent;
    let threads = run(machine, starts, order, contested, extent, &mut watcher);
    let pages = machine.space.pages();
    machine.space.take_written();
    Ok(Followed {
        ended: threads.each_ref().map(|thread| thread.ended()),
        threads: threads.map(|thread| thread.state),
        at: watcher.at,
        steps: watcher.steps.unwrap_or_default(),
        pages,
    })
}
