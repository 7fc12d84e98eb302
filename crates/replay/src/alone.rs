//! One thread alone, stretch by stretch, with what it read from a recording.

use crate::machine::{Machine, Mode, Space, Stubs};
use crate::memory::Memory;
use crate::native::Native;
use crate::outcome::End;
use crate::state::State;
use serde::{Deserialize, Serialize};

/// Words that were in memory before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Word {
    /// How many instructions the thread had run.
    pub count: u64,
    /// Where.
    pub address: u64,
    /// What was there.
    pub value: u64,
}

/// How far a thread runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Goal {
    /// Until it has run so many instructions.
    Count(u64),
    /// From this count on, to where its program counter and its general-purpose registers are
    /// these, within so many instructions.
    Registers {
        /// The count.
        from: u64,
        /// How many.
        most: u64,
        /// The program counter.
        ip: u64,
        /// The registers.
        general: [u64; 16],
    },
}

/// What a thread is to run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stretch {
    /// The registers that it begins with; none: it goes on with those that it has.
    pub start: Option<State>,
    /// Whether memory is as the source has it, whatever the thread wrote before.
    pub fresh: bool,
    /// How many instructions it has run.
    pub count: u64,
    /// What memory holds before certain instructions, in the order of their counts.
    pub words: Vec<Word>,
    /// How far it runs.
    pub goal: Goal,
    /// The counts of the steps that are listed, as the first and the one behind the last.
    pub listed: (u64, u64),
}

/// What it ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stretched {
    /// Its registers.
    pub state: State,
    /// How many instructions it has run.
    pub count: u64,
    /// Why it did not come to its goal, if it did not.
    pub end: Option<End>,
    /// Flags that the last instructions to set them leave undefined: they differ from processor to
    /// processor, and with whoever else uses flags.
    pub undefined: u64,
    /// The steps that were to be listed.
    pub steps: Vec<AloneStep>,
}

/// What an instruction did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AloneStep {
    /// How many instructions had run before it.
    pub count: u64,
    /// The instruction.
    pub ip: u64,
    /// The memory that it accessed: where, whether it wrote, and what was there afterwards.
    pub accesses: Vec<(u64, bool, Vec<u8>)>,
}

/// How many instructions of a stretch are run. The recorder writes registers after a tenth of that,
/// but a recording may come from anybody.
const MOST_RUN: u64 = 1 << 20;
/// A longer list is cut off.
const MOST_LISTED: usize = 10_000;
/// Accesses of one step that are listed. A repeated instruction makes many.
const MOST_ACCESSES: usize = 64;

/// Runs what it is told, until there is nothing more.
pub(crate) fn alone(
    native: &mut Native,
    stubs: &mut Stubs,
    memory: &mut dyn Memory,
    mut next: impl FnMut(Option<Stretched>) -> Option<Stretch>,
) {
    let mut state = State::default();
    let mut stretch = next(None);
    while stretch.is_some() {
        let mut machine = Machine::new(Space::new(memory), native, stubs, Mode::User);
        machine.load(&state);
        let mut is_first = true;
        while let Some(this) = stretch.take_if(|stretch| is_first || !stretch.fresh) {
            is_first = false;
            let ran = run(&mut machine, &this);
            stretch = next(Some(ran));
        }
        machine.store(&mut state);
    }
}

fn run(machine: &mut Machine<'_>, stretch: &Stretch) -> Stretched {
    if let Some(start) = &stretch.start {
        machine.load(start);
    }
    let mut ran = Stretched {
        state: State::default(),
        count: stretch.count,
        end: None,
        undefined: 0,
        steps: Vec::new(),
    };
    ran.end = advance(machine, stretch, &mut ran).err();
    machine.store(&mut ran.state);
    machine.space.log.clear();
    ran
}

/// Runs to the goal.
fn advance(machine: &mut Machine<'_>, stretch: &Stretch, ran: &mut Stretched) -> Result<(), End> {
    let mut words = stretch.words.iter().peekable();
    loop {
        match stretch.goal {
            Goal::Count(count) if ran.count >= count => return Ok(()),
            Goal::Registers {
                from,
                most,
                ip,
                general,
            } if ran.count >= from => {
                if machine.ip() == ip && *machine.general().0 == general {
                    return Ok(());
                }
                if ran.count - from >= most {
                    return Err(End::Bound);
                }
            }
            _ => {}
        }
        if ran.count.wrapping_sub(stretch.count) >= MOST_RUN {
            return Err(End::Bound);
        }
        while let Some(word) = words.next_if(|word| word.count <= ran.count) {
            put(machine, *word)?;
        }
        machine.space.log.clear();
        let ip = machine.ip();
        machine.step_alone(&mut ran.undefined)?;
        let (first, behind) = stretch.listed;
        if (first..behind).contains(&ran.count) && ran.steps.len() < MOST_LISTED {
            list(machine, ip, ran);
        }
        if !(machine.ip() == ip && machine.is_at_repeated()) {
            ran.count = ran.count.wrapping_add(1);
        }
    }
}

/// Lets memory hold a word. What was decoded of it stays if it holds it already.
fn put(machine: &mut Machine<'_>, word: Word) -> Result<(), End> {
    let mut there = [0; 8];
    let value = word.value.to_le_bytes();
    machine.space.peek(word.address, &mut there)?;
    if there != value {
        machine.space.poke(word.address, &value)?;
    }
    Ok(())
}

fn list(machine: &mut Machine<'_>, ip: u64, ran: &mut Stretched) {
    let log = &machine.space.log;
    let made: Vec<_> = log.iter().copied().take(MOST_ACCESSES).collect();
    let mut accesses = Vec::new();
    for access in made {
        let mut bytes = vec![0; access.size as usize];
        if machine.space.peek(access.address, &mut bytes).is_ok() {
            accesses.push((access.address, access.write, bytes));
        }
    }
    ran.steps.push(AloneStep {
        count: ran.count,
        ip,
        accesses,
    });
}
