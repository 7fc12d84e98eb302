//! Where a region ends that nothing ends before the bound.
//!
//! A number of instructions is no place: in another order a thread takes a way of another
//! length, and would be compared in the middle of something else. So the thread is first run
//! alone, and the last landmark that it passes is taken: where it comes back to the head of a
//! loop, or from a function, in the outermost frame that it reaches. In each order its region
//! ends where it comes there for the same time.

use crate::follow::Part;
use crate::machine::Machine;
use crate::outcome::Side;
use crate::schedule::Observer;
use crate::state::RSP;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Before which instruction a region ends, and for which time that is about to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Landmark {
    pub ip: u64,
    pub time: u32,
}

/// Behind an instruction of this length the next one begins.
const LONGEST_INSTRUCTION: u64 = 16;

/// How good a landmark is: far out, at the head of a loop, of the outermost one.
type Worth = (u64, bool, Reverse<u64>);

/// Finds the last landmark of one thread.
pub(crate) struct Scout {
    side: Side,
    ran: HashMap<u64, u32>,
    /// Where the stack was before the instruction that runs next.
    stack: Option<u64>,
    best: Option<(Worth, Landmark)>,
}

impl Scout {
    pub fn new(side: Side) -> Self {
        Self {
            side,
            ran: HashMap::new(),
            stack: None,
            best: None,
        }
    }

    /// The last one that it passed.
    pub fn landmark(&self) -> Option<Landmark> {
        self.best.map(|(_, landmark)| landmark)
    }

    fn passes(&mut self, from: u64, to: u64, stack: u64) {
        // A call leads anywhere and pushes; what only goes on is no landmark.
        let before = self.stack.replace(stack).unwrap_or(stack);
        let backwards = to <= from && stack == before;
        let returned = stack > before && to.wrapping_sub(from) >= LONGEST_INSTRUCTION;
        if !backwards && !returned {
            return;
        }
        let worth = (stack, backwards, Reverse(to));
        if self.best.is_none_or(|(best, _)| worth >= best) {
            let time = self.ran.get(&to).copied().unwrap_or(0) + 1;
            self.best = Some((worth, Landmark { ip: to, time }));
        }
    }
}

impl Observer for Scout {
    fn goes_on(&self) -> bool {
        true
    }

    fn ran(&mut self, side: Side, ip: u64, part: Part, machine: &mut Machine<'_>, _logged: usize) {
        if side != self.side {
            return;
        }
        if part != Part::Write {
            *self.ran.entry(ip).or_default() += 1;
        }
        let stack = machine.general().0[RSP];
        self.passes(ip, machine.ip(), stack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a scout see instructions: from where to where, and the stack afterwards.
    fn scouted(steps: &[(u64, u64, u64)]) -> Option<Landmark> {
        let mut scout = Scout::new(Side::A);
        for (from, to, stack) in steps {
            *scout.ran.entry(*from).or_default() += 1;
            scout.passes(*from, *to, *stack);
        }
        scout.landmark()
    }

    #[test]
    fn the_head_of_the_outermost_loop_is_the_landmark() {
        let round = [
            (0x10, 0x100, 0x7f8), // call
            (0x100, 0x104, 0x7f8),
            (0x104, 0x100, 0x7f8), // a loop in the function
            (0x100, 0x104, 0x7f8),
            (0x104, 0x15, 0x800), // return
            (0x15, 0x10, 0x800),  // the loop that calls it
        ];
        let twice: Vec<_> = [(0x8, 0x10, 0x800)]
            .into_iter()
            .chain(round)
            .chain(round)
            .chain([(0x10, 0x100, 0x7f8), (0x100, 0x104, 0x7f8)])
            .collect();
        assert_eq!(scouted(&twice), Some(Landmark { ip: 0x10, time: 3 }));
    }

    #[test]
    fn a_function_that_was_left_is_one_too() {
        let steps = [
            (0x100, 0x104, 0x7f8),
            (0x104, 0x100, 0x7f8),
            (0x100, 0x108, 0x7f8),
            (0x108, 0x15, 0x800),
            (0x15, 0x200, 0x7f8),
            (0x200, 0x200, 0x7f8),
        ];
        assert_eq!(scouted(&steps), Some(Landmark { ip: 0x15, time: 1 }));
        assert_eq!(scouted(&[(0x10, 0x14, 8), (0x14, 0x16, 16)]), None, "a pop");
    }
}
