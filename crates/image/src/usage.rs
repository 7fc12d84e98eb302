//! What the code around an access does with the accessed value.
//!
//! From a load the value is followed along all paths of its function, through registers and
//! stack slots: is it an address, an index, what does a branch test of it? Of a store the code
//! before it says which bits it can change, and what it adds. Only a few dozen instructions are
//! followed. What gets out of sight is said to be lost, never guessed.

mod nearby;
mod value;
mod waiting;
mod walk;

use crate::Image;
use iced_x86::{OpKind, Register};
use redhanded_model::{Bits, Step, Svma, Usage, Use};
use std::collections::HashMap;
use walk::{Code, Followed};

/// How much code is searched for other updates of the same variable.
const MOST_CODE: usize = 8 << 20;

impl Image {
    /// What the code around the instruction at `site` does with the bytes that it accesses.
    /// `callers` are the places that calls return to, the innermost first, each with its image.
    #[must_use]
    pub fn usage(&self, site: Svma, callers: &[(&Self, Svma)]) -> Usage {
        let mut usage = Usage {
            lock: self.lock_before(site),
            barrier: self.barrier_near(site),
            ..Usage::default()
        };
        for (image, back) in callers {
            // The thread's start in the C library takes locks that it has given back.
            if usage.lock.is_none() && std::ptr::eq(*image, self) {
                usage.lock = image.lock_before(Svma(back.0.saturating_sub(1)));
            }
        }
        let Some(code) = Code::around(self, site) else {
            usage.uses.push(Use::Lost);
            return usage;
        };
        if let Some(stored) = code.stored() {
            usage.step = stored.step;
            usage.changes = stored.changes.map(Bits);
            usage.constant = stored.constant.map(Bits);
        }
        let mut followed = code.follow();
        // Whoever stores a changed value may also keep it.
        if let Some(load) = code.stored().and_then(|stored| stored.load)
            && let Some(code) = Code::around(self, load)
        {
            followed = code.follow();
        }
        let mut callers = callers.iter();
        while let Some(bits) = followed.returned.take() {
            let Some((image, back)) = callers.next() else {
                followed.add(Use::Returned);
                break;
            };
            match Code::around(image, *back) {
                Some(code) => followed.join(code.follow_result(bits)),
                None => followed.add(Use::Returned),
            }
        }
        if let Some((step, changes)) = followed.updated {
            usage.step.get_or_insert(step);
            usage.changes.get_or_insert(Bits(changes));
        }
        usage.tests = followed.tests().map(Bits);
        usage.checked_again = followed.checked_again;
        usage.uses = followed.uses;
        usage
    }

    /// What all code of this file adds to the variable at `address`, as far as instructions
    /// name it by its address. Setting it to a constant is something other than adding.
    #[must_use]
    pub fn updates_of(&self, address: Svma) -> Vec<Step> {
        let writers = self.code.writers.get_or_init(|| self.find_writers());
        let mut steps = Vec::new();
        for site in writers.get(&address.0).into_iter().flatten() {
            let stored = Code::around(self, Svma(*site)).and_then(|code| code.stored());
            let step = stored.and_then(|it| it.step.or(it.constant.map(|_| Step::Other)));
            if let Some(step) = step
                && !steps.contains(&step)
            {
                steps.push(step);
            }
        }
        steps
    }

    fn find_writers(&self) -> HashMap<u64, Vec<u64>> {
        let mut writers: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut searched = 0;
        for function in self.functions().as_slice() {
            searched += self.function_bytes(function).len();
            if searched > MOST_CODE {
                break;
            }
            for raw in self.instructions(function) {
                let fixed = raw.is_ip_rel_memory_operand()
                    || (raw.memory_base() == Register::None
                        && raw.memory_index() == Register::None);
                if raw.op0_kind() == OpKind::Memory && fixed {
                    let address = raw.memory_displacement64();
                    writers.entry(address).or_default().push(raw.ip());
                }
            }
        }
        writers
    }
}

impl Followed {
    fn add(&mut self, used: Use) {
        if !self.uses.contains(&used) {
            self.uses.push(used);
        }
    }

    fn join(&mut self, other: Self) {
        for used in other.uses {
            self.add(used);
        }
        self.tested |= other.tested;
        self.returned = other.returned;
        self.checked_again = self.checked_again.take().or(other.checked_again);
    }

    /// The bits that are looked at, if branches alone look at them.
    fn tests(&self) -> Option<u64> {
        let only = |used: &Use| matches!(used, Use::Branch | Use::Computed);
        (self.tested != 0 && self.uses.iter().all(only)).then_some(self.tested)
    }
}
