//! A crash of the target, with what was done to it just before: whoever debugs
//! it wants to know whether a race or the observer had a part in it.

use crate::naming;
use redhanded_model::{Avma, Crash, CrashWindow, TaskId, ThreadName, WindowRecord};
use redhanded_target::Module;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// How many windows are remembered.
pub const MOST_RECENT: usize = 16;

/// A window that ended not long ago.
pub struct Recent {
    pub ended: Duration,
    pub record: WindowRecord,
}

impl Recent {
    pub fn told(&self, now: Duration) -> RecentWindow {
        RecentWindow {
            ago: now.saturating_sub(self.ended),
            task: self.record.task,
            pc: self.record.pc,
            held: self.record.held,
            caught: self.record.hit.is_some() || self.record.changed(),
        }
    }
}

/// A window before a crash.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecentWindow {
    /// How long before the crash it ended.
    pub ago: Duration,
    /// Who was held.
    pub task: TaskId,
    /// At which instruction.
    pub pc: Avma,
    /// For how long.
    pub held: Duration,
    /// Whether somebody was caught in it.
    pub caught: bool,
}

impl Crashed {
    /// The crash in names.
    #[must_use]
    pub fn named(&self) -> Crash {
        let windows = self.windows.iter().map(|window| CrashWindow {
            ago_s: window.ago.as_secs_f64(),
            tid: window.task.0,
            at: naming::frames(&[window.pc], &self.modules)
                .into_iter()
                .next()
                .unwrap_or_default(),
            held_s: window.held.as_secs_f64(),
            caught: window.caught,
        });
        Crash {
            signal: self.signal,
            thread: self.thread.clone(),
            stack: naming::frames(&self.stack, &self.modules),
            windows: windows.collect(),
        }
    }
}

/// A crash, in addresses.
#[derive(Clone, Debug)]
pub struct Crashed {
    /// The thread that got the signal.
    pub thread: ThreadName,
    /// Which.
    pub signal: i32,
    /// Where it was.
    pub stack: Vec<Avma>,
    /// What was mapped.
    pub modules: Vec<Arc<Module>>,
    /// The windows before, the last one last.
    pub windows: Vec<RecentWindow>,
}
