//! Who creates threads, and where: the creator's stack is unwound while it stands at its
//! `clone`. That is done as long as it takes next to no time; a program that creates thousands
//! of threads goes on without it.

use super::{Process, Task};
use redhanded_model::{Avma, TaskId, ThreadName};
use redhanded_sys::{self as sys, Tid};
use redhanded_target::{Control, Inspect};
use std::sync::Arc;
use std::time::Duration;

/// Of the program's time, one part of so many may be spent on it.
const SHARE: u32 = 500;
/// What may be spent at the start, when programs create most of their threads.
const AT_FIRST: Duration = Duration::from_millis(5);
/// Deeper stacks are cut.
const MOST_FRAMES: usize = 32;

/// A thread that created another, and its stack then.
pub type Creator = (ThreadName, Vec<Avma>);

impl Process {
    /// Remembers that `creator`, which is stopped, has created `thread`.
    pub(super) fn see_creation(&mut self, creator: Tid, thread: Tid) {
        let begun = self.now();
        if self.seeing_creations > AT_FIRST + begun / SHARE {
            return;
        }
        let Ok(registers) = sys::registers(creator) else {
            return;
        };
        let creator = TaskId(creator.cast_unsigned());
        let mut stack = self.stack(creator, &registers);
        stack.truncate(MOST_FRAMES);
        let name = self.thread_name(creator);
        if let Some(task) = self.tasks.get_mut(&thread) {
            task.created = Some(Arc::new((name, stack)));
        }
        self.seeing_creations += self.now().saturating_sub(begun);
    }
}

impl Task {
    /// Who created it, if that was seen.
    pub(super) fn creator(&self) -> Option<Creator> {
        self.created.as_deref().cloned()
    }
}
