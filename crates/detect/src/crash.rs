//! A crash of the target, with the windows just before it: whoever debugs it
//! wants to know whether a race or the observer had a part in it.
//!
//! The tracer gives frames as live addresses, which is what a [`Frame`] outside
//! any module has; [`name_crash`] puts names to them later.

use crate::naming::frames;
use redhanded_model::{Avma, Crash, CrashWindow, Frame, WindowRecord};
use redhanded_target::Module;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How many windows are remembered.
const MOST_RECENT: usize = 16;

/// The last windows, each with when it ended.
#[derive(Default)]
pub struct Recent(VecDeque<(Duration, CrashWindow)>);

impl Recent {
    /// Remembers a window that ends now.
    pub fn add(&mut self, now: Duration, record: &WindowRecord) {
        if self.0.len() >= MOST_RECENT {
            self.0.pop_front();
        }
        let window = CrashWindow {
            ago_s: 0.0,
            tid: record.task.0,
            at: bare(record.pc),
            held_s: record.held.as_secs_f64(),
            caught: record.hit.is_some() || record.changed(),
        };
        self.0.push_back((now, window));
    }

    /// The windows before a crash that happens now, the latest last.
    pub fn before(&self, now: Duration) -> Vec<CrashWindow> {
        let ago = |ended: Duration| now.saturating_sub(ended).as_secs_f64();
        let windows = self.0.iter().map(|(ended, window)| CrashWindow {
            ago_s: ago(*ended),
            ..window.clone()
        });
        windows.collect()
    }
}

/// A frame of which only the live address is known.
pub fn bare(address: Avma) -> Frame {
    Frame {
        address: address.0,
        ..Frame::default()
    }
}

/// Names the frames of a crash that the tracer told of. `modules` are those that
/// were mapped then.
pub fn name_crash(crash: &mut Crash, modules: &[Arc<Module>]) {
    let stack: Vec<Avma> = crash
        .stack
        .iter()
        .map(|frame| Avma(frame.address))
        .collect();
    crash.stack = frames(&stack, modules);
    for window in &mut crash.windows {
        let named = frames(&[Avma(window.at.address)], modules);
        window.at = named.into_iter().next().unwrap_or_default();
    }
}
