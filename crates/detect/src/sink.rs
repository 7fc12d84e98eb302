//! Where the findings of the sampling loop go.

use crate::confirm::Collision;
use crate::exposure::Exposure;
use redhanded_model::{Counts, Crash};
use redhanded_target::{Module, Target};
use std::sync::Arc;

/// Where a session's findings go. `modules` are those that were mapped.
pub trait Sink {
    /// A confirmed collision.
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]);

    /// A confirmed collision, while both threads are still stopped: whether they
    /// go on.
    fn standing(
        &mut self,
        _collision: &mut Collision,
        _modules: &[Arc<Module>],
        _target: &mut dyn Target,
    ) -> Disposition {
        Disposition::Release
    }

    /// A signal is about to kill the target. The frames have no names yet: see
    /// [`name_crash`](crate::name_crash).
    fn crash(&mut self, _crash: Crash, _modules: &[Arc<Module>]) {}

    /// The numbers so far, several times a second.
    fn progress(&mut self, counts: &Counts);

    /// How often each site was sampled, at the end.
    fn exposure(&mut self, _exposure: Vec<Exposure>) {}

    /// Whether enough was found.
    fn enough(&self) -> bool {
        false
    }
}

/// What to do with the threads of a collision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// Let them go on.
    Release,
    /// Leave the whole target stopped, for a debugger.
    Freeze,
}
