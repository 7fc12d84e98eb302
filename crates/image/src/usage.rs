//! What the code around an access does with the accessed value.
//!
//! From a load the value is followed along all paths of its function, through registers and
//! stack slots: is it an address, an index, what does a branch test of it? Of a store the code
//! before it says which bits it can change, and what it adds. Only a few dozen instructions are
//! followed. What gets out of sight is said to be lost, never guessed.

mod nearby;
mod updates;
mod value;
mod waiting;
mod walk;

use crate::Image;
use redhanded_model::{Bits, Svma, Usage, Use};
pub use updates::Updates;
pub(crate) use updates::Writers;
use walk::{Code, Followed};

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
        usage.threshold = followed.is_threshold();
        let address = code.fixed_address();
        usage.only_looks =
            address.is_some_and(|address| self.only_looks(address, &followed.through));
        usage.checked_again = followed.checked_again;
        usage.uses = followed.uses;
        usage
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
        self.looked_at |= other.looked_at;
        self.exact |= other.exact;
        self.through.extend(other.through);
        self.returned = other.returned;
        self.checked_again = self.checked_again.take().or(other.checked_again);
    }

    /// The bits that are looked at, if all that is done with the value is known.
    fn tests(&self) -> Option<u64> {
        let unknown = |used: &Use| matches!(used, Use::Lost | Use::Returned | Use::Overwritten);
        let known = !self.uses.iter().any(unknown) && self.updated.is_none();
        (self.looked_at != 0 && known).then_some(self.looked_at)
    }

    /// Whether branches look at the value, and only for whether it is above or below a number
    /// that is not next to zero.
    fn is_threshold(&self) -> bool {
        self.uses.contains(&Use::Branch) && !self.exact
    }
}
