//! Looks at which code runs, taken now and then while the machine stands anyway:
//! the functions where the CPUs are, and those that will be returned to. Most of a
//! kernel does not run at a given time, and few breakpoints can stand at once.

use super::gdb::{Answer, Request};
use super::loadable::WALK_EVERY;
use super::peek::Peeked;
use super::{USER_END, Vm};
use redhanded_model::Avma;
use std::time::Duration;

/// How often it is looked.
const EVERY: Duration = Duration::from_millis(20);
/// How much of a stack is looked through for return addresses.
const STACK: usize = 768;

/// What is to be read for a look; nothing, if none is due.
#[derive(Default)]
pub(super) struct Look {
    requests: Vec<Request>,
    /// Where each CPU is that runs the kernel, and its stack.
    places: Vec<u64>,
    stacks: Vec<u64>,
}

impl Look {
    pub(super) fn requests(&self) -> &[Request] {
        &self.requests
    }
}

impl Vm {
    /// A look, if one is due and all CPUs stand whose registers are known.
    pub(super) fn due_look(&mut self) -> Look {
        let now = self.started.elapsed();
        if now < self.next_look || !self.whose_registers().is_empty() {
            return Look::default();
        }
        // Where nothing is armed only modules that come are of interest.
        let idle = self.breakpoints.is_empty() && self.standing.is_empty();
        self.next_look = now + if idle { WALK_EVERY } else { EVERY };
        let in_kernel = self.vcpus.values().filter(|vcpu| vcpu.sees_kernel());
        let (places, stacks): (Vec<u64>, Vec<u64>) = in_kernel
            .filter_map(|vcpu| vcpu.registers)
            .map(|registers| {
                (
                    registers.general.rip,
                    registers.general.stack_pointer() & !7,
                )
            })
            .unzip();
        let mut ranges: Vec<(u64, usize)> = stacks.iter().map(|top| (*top, STACK)).collect();
        ranges.extend(self.ends_of_list());
        Look {
            requests: Peeked::default().requests(self.kernel_view(), &ranges),
            places,
            stacks,
        }
    }

    /// Makes something of what was read for a look.
    pub(super) fn seen(&mut self, look: &Look, answers: Vec<Answer>) {
        if look.requests.is_empty() {
            return;
        }
        let mut read = Peeked::default();
        read.answered(&look.requests, answers, true);
        for place in &look.places {
            self.ran(*place);
        }
        for top in &look.stacks {
            let stack = read.known(*top, STACK);
            for word in stack.as_chunks::<8>().0 {
                self.ran(u64::from_le_bytes(*word));
            }
        }
        if let Some((at, len)) = self.ends_of_list() {
            let ends = read.known(at, len);
            self.must_walk |= self.list_ends.as_ref() != Some(&ends);
        }
    }

    /// Looks at which code runs and which modules there are, if that is due.
    pub(super) fn look_around(&mut self) {
        let now = self.started.elapsed();
        if now < self.next_look && !self.must_walk && now < self.next_walk {
            return;
        }
        self.fetch_registers(None);
        self.modules_may_have_changed();
        let look = self.due_look();
        // Nobody has to wait for what is made of it.
        let answers = if self.pending.is_empty() {
            self.ask_and_go_on(look.requests())
        } else {
            self.ask(look.requests())
        };
        self.seen(&look, answers.unwrap_or_default());
    }

    /// Takes note of the function at an address, if it is one.
    fn ran(&mut self, address: u64) {
        if address < USER_END {
            return;
        }
        let Some(module) = self.module_at(Avma(address)) else {
            return;
        };
        let Some(image) = &module.image else { return };
        let Some(function) = image.function_at(module.svma(Avma(address))) else {
            return;
        };
        let range = module.avma(function.start).0..module.avma(function.end).0;
        if !self.lively.contains(&range) {
            self.lively.push(range);
        }
    }
}
