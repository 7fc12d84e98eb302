//! How many sites may be armed at once, where only few can be and each that fires
//! stops all tasks.
//!
//! While a window is open, another site that fires stops all tasks for nothing. In hot
//! code that happens many times in a window, and fewer sites are better; in cold code
//! as many as possible are needed for one to fire at all. So the limit backs off after
//! wasted stops and grows again after quiet windows.

/// Factors on the limit: when a site fired for nothing,
const WASTED: f64 = 0.8;
/// when a window passed without that,
const UNDISTURBED: f64 = 1.1;
/// and when nothing fired for a tick.
const SILENT: f64 = 1.5;

/// The number of sites that may be armed at once.
pub struct ArmedLimit {
    most: usize,
    /// Between 1 and the most; `None` where a site that fires stops only its task.
    wanted: Option<f64>,
    disturbed: bool,
}

impl ArmedLimit {
    pub fn new(most: usize, stops_all: bool) -> Self {
        Self {
            most,
            wanted: stops_all.then_some(most as f64),
            disturbed: false,
        }
    }

    /// Whether the limit follows what happens.
    pub const fn adapts(&self) -> bool {
        self.wanted.is_some()
    }

    pub fn current(&self) -> usize {
        self.wanted.map_or(self.most, |wanted| wanted as usize)
    }

    fn change(&mut self, factor: f64) {
        let most = self.most.max(1) as f64;
        self.wanted = self.wanted.map(|wanted| (wanted * factor).clamp(1.0, most));
    }

    /// A site fired while a window was open and no other could be.
    pub fn wasted_stop(&mut self) {
        self.disturbed = true;
        self.change(WASTED);
    }

    /// A window ended.
    pub fn window_ended(&mut self) {
        if !std::mem::take(&mut self.disturbed) {
            self.change(UNDISTURBED);
        }
    }

    /// A tick passed in which no site fired.
    pub fn silent_tick(&mut self) {
        self.change(SILENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn there_is_always_one_and_never_too_many(
            most in 1usize..100, steps in proptest::collection::vec(0..3, 0..200)
        ) {
            let mut limit = ArmedLimit::new(most, true);
            for step in steps {
                match step {
                    0 => limit.wasted_stop(),
                    1 => limit.window_ended(),
                    _ => limit.silent_tick(),
                }
                prop_assert!((1..=most).contains(&limit.current()));
            }
        }
    }

    #[test]
    fn it_shrinks_where_windows_are_disturbed_and_recovers() {
        let mut limit = ArmedLimit::new(24, true);
        for _ in 0..20 {
            limit.wasted_stop();
            limit.window_ended();
        }
        assert_eq!(limit.current(), 1);
        for _ in 0..9 {
            limit.silent_tick();
        }
        assert_eq!(limit.current(), 24);
    }

    #[test]
    fn it_stays_where_only_one_task_is_stopped() {
        let mut limit = ArmedLimit::new(1000, false);
        limit.wasted_stop();
        assert_eq!(limit.current(), 1000);
    }
}
