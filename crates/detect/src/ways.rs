//! The ways to two instructions that meet: what a collision is may depend on who called them.

use crate::codes::{Code, place};
use crate::fold::Finding;
use crate::{Collision, usage};
use redhanded_model::{AccessReport, Avma};
use redhanded_target::Module;
use std::sync::Arc;

/// For how many ways it is looked up what the code does with the value. Callers make a difference
/// to it now and then.
const MOST_WAYS: usize = 8;

/// How many are kept for the sake of the functions that they belong to.
const MOST_KEPT: usize = 256;

/// The callers of both sides of a collision, whichever was sampled.
pub struct Stacks {
    sides: [Vec<Code>; 2],
    /// Whether the sampled side comes second.
    swapped: bool,
}

impl Stacks {
    /// Those of this collision.
    pub fn of(collision: &Collision, modules: &[Arc<Module>]) -> Self {
        let callers = |stack: &[Avma]| -> Vec<Code> {
            let callers = stack.iter().skip(1);
            callers.map(|back| place(*back, modules)).collect()
        };
        let sampled = (collision.record.pc.0, callers(&collision.sampled.1));
        let other = collision.other.as_ref();
        let other = other.map_or((0, Vec::new()), |(confirmed, _, stack)| {
            (confirmed.pc.0, callers(stack))
        });
        let swapped = other < sampled;
        let (first, second) = if swapped {
            (other, sampled)
        } else {
            (sampled, other)
        };
        Self {
            sides: [first.1, second.1],
            swapped,
        }
    }
}

/// The innermost callers on both sides, up to these depths.
fn within(sides: &[Vec<Code>; 2], depths: [usize; 2]) -> [&[Code]; 2] {
    let part = |side: usize| {
        let callers = &sides[side];
        &callers[..callers.len().min(depths[side])]
    };
    [part(0), part(1)]
}

/// One way.
struct Way {
    callers: [Vec<Code>; 2],
    /// How far out the functions of the program are that made the accesses.
    own: [usize; 2],
    finding: Finding,
}

impl Way {
    /// How many callers tell this way from others.
    fn depths(&self) -> [usize; 2] {
        self.own.map(|depth| depth.max(usage::CALLERS))
    }

    fn is(&self, stacks: &Stacks) -> bool {
        self.agrees(stacks, self.depths())
    }

    /// Whether it is from the same functions of the program.
    fn is_from(&self, stacks: &Stacks) -> bool {
        self.agrees(stacks, self.own)
    }

    fn agrees(&self, stacks: &Stacks, depths: [usize; 2]) -> bool {
        within(&self.callers, depths) == within(&stacks.sides, depths)
    }
}

/// What collisions of two code places at the same bytes are.
#[derive(Default)]
pub struct Ways {
    ways: Vec<Way>,
}

impl Ways {
    /// What a collision is that came this way, or, if many are known, one like it.
    pub fn find(&self, stacks: &Stacks) -> Option<&Finding> {
        let exactly = self.ways.iter().find(|way| way.is(stacks));
        let found = exactly.or_else(|| {
            let many = self.ways.len() >= MOST_WAYS;
            self.ways.iter().find(|way| many && way.is_from(stacks))
        });
        found.map(|way| &way.finding)
    }

    /// Remembers what a collision is, whose accesses were told like this.
    pub fn add(&mut self, stacks: &Stacks, accesses: &[AccessReport], finding: Finding) {
        if self.ways.len() >= MOST_KEPT {
            return;
        }
        let depth = |at: usize| accesses.get(at).map_or(0, depth);
        let (sampled, other) = (depth(0), depth(1));
        let own = if stacks.swapped {
            [other, sampled]
        } else {
            [sampled, other]
        };
        let mut way = Way {
            callers: Default::default(),
            own,
            finding,
        };
        way.callers = within(&stacks.sides, way.depths()).map(<[Code]>::to_vec);
        self.ways.push(way);
    }
}

/// How many callers there are up to the program's own function. Inlined functions have none.
fn depth(access: &AccessReport) -> usize {
    let within = match access.own() {
        Some((at, _)) => &access.stack[..at],
        None => &access.stack[..],
    };
    within.iter().filter(|frame| !frame.inlined).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::{AccessKind, Fingerprint, Frame, ThreadName};

    fn stacks(side: &[u64]) -> Stacks {
        let callers = side.iter().map(|at| (None, *at));
        Stacks {
            sides: [callers.collect(), Vec::new()],
            swapped: false,
        }
    }

    /// An access whose own function is behind so many of a library.
    fn access(libraries: usize) -> AccessReport {
        let frame = |file: &str| Frame {
            module: Some("app".to_owned()),
            file: Some(file.to_owned()),
            ..Frame::default()
        };
        let inlined = Frame {
            inlined: true,
            ..frame("/usr/include/c++/12/vector")
        };
        let header = frame("/usr/include/c++/12/vector");
        let mut stack = vec![inlined];
        stack.extend(vec![header; libraries]);
        stack.extend([frame("work.cc"), frame("main.cc")]);
        AccessReport {
            thread: ThreadName::default(),
            kind: AccessKind::Read,
            size: 4,
            pc: 0,
            instruction: None,
            atomic: false,
            function: None,
            file: None,
            line: None,
            system_call: None,
            freed_by: None,
            pointee: None,
            value: None,
            created: None,
            stack,
        }
    }

    fn finding(name: &str) -> Finding {
        Finding::Again(Fingerprint(name.to_owned()))
    }

    #[test]
    fn callers_tell_as_far_as_the_programs_own_function() {
        let mut ways = Ways::default();
        ways.add(&stacks(&[1, 2, 3, 4, 10, 11]), &[access(5)], finding("one"));
        ways.add(&stacks(&[1, 2, 3, 4, 20, 11]), &[access(5)], finding("two"));
        let found = |side: &[u64]| ways.find(&stacks(side)).cloned();
        assert_eq!(found(&[1, 2, 3, 4, 10, 99]), Some(finding("one")));
        assert_eq!(found(&[1, 2, 3, 4, 20, 11]), Some(finding("two")));
        assert_eq!(found(&[1, 2, 3, 4, 30, 11]), None);
        assert_eq!(found(&[1, 2, 3]), None);
    }

    #[test]
    fn of_many_ways_none_is_taken_for_one_from_another_function() {
        let mut ways = Ways::default();
        for caller in 0..20 {
            let name = format!("from {caller}");
            ways.add(&stacks(&[caller, 1]), &[access(1)], finding(&name));
        }
        let found = |side: &[u64]| ways.find(&stacks(side)).cloned();
        assert_eq!(found(&[17, 99]), Some(finding("from 17")));
        assert_eq!(found(&[20, 1]), None);
        // What the program accesses itself is the same from everywhere.
        let mut ways = Ways::default();
        for caller in 0..MOST_WAYS as u64 {
            ways.add(&stacks(&[caller]), &[access(0)], finding("own"));
        }
        assert_eq!(ways.find(&stacks(&[99])), Some(&finding("own")));
    }
}
