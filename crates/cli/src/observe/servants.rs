//! The processes that are started before the tracer: the namer and those that replay.

use redhanded_sys::{Tid, wait_for};

/// Those started so far. If the observation does not begin after all, they are waited for when
/// this is dropped, which must be after the connections to them: they end when nobody can ask
/// them any more. Without that each failed start would leave processes for init to take, which
/// count against the user's limit until it does.
#[derive(Default)]
pub struct Started(Vec<Tid>);

impl Started {
    /// One more was started.
    pub fn add(&mut self, pid: Tid) {
        self.0.push(pid);
    }

    /// The observation has begun, and its end is theirs.
    pub fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = wait_for(*pid);
        }
    }
}
