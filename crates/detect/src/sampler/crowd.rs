//! How many sites are armed where only few can be, and each one that is reached
//! stops everybody.
//!
//! While a window is open whoever reaches another site stops all in vain. In code
//! that runs all the time that happens many times a window, and fewer are better; of
//! code that seldom runs as many as possible are needed for one to be reached at all.
//! So the number follows what happens.

/// What the number becomes when a site was reached in vain.
const IN_VAIN: f64 = 0.8;
/// When a window went by without that.
const IN_PEACE: f64 = 1.1;
/// And when nothing was reached for a tick.
const IN_SILENCE: f64 = 1.5;

/// The number of sites that are armed at once.
pub struct Crowd {
    most: usize,
    /// Between 1 and the most; `None` where whoever reaches one stops nobody else.
    wanted: Option<f64>,
    disturbed: bool,
}

impl Crowd {
    pub fn new(most: usize, stop_all: bool) -> Self {
        Self {
            most,
            wanted: stop_all.then_some(most as f64),
            disturbed: false,
        }
    }

    /// Whether the number follows what happens.
    pub const fn adapts(&self) -> bool {
        self.wanted.is_some()
    }

    pub fn limit(&self) -> usize {
        self.wanted.map_or(self.most, |wanted| wanted as usize)
    }

    fn change(&mut self, factor: f64) {
        let most = self.most.max(1) as f64;
        self.wanted = self.wanted.map(|wanted| (wanted * factor).clamp(1.0, most));
    }

    /// A site was reached while a window had to be left in peace.
    pub fn reached_in_vain(&mut self) {
        self.disturbed = true;
        self.change(IN_VAIN);
    }

    /// A window ended.
    pub fn window_ended(&mut self) {
        if !std::mem::take(&mut self.disturbed) {
            self.change(IN_PEACE);
        }
    }

    /// Some time passed in which no site was reached.
    pub fn was_silent(&mut self) {
        self.change(IN_SILENCE);
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
            let mut crowd = Crowd::new(most, true);
            for step in steps {
                match step {
                    0 => crowd.reached_in_vain(),
                    1 => crowd.window_ended(),
                    _ => crowd.was_silent(),
                }
                prop_assert!((1..=most).contains(&crowd.limit()));
            }
        }
    }

    #[test]
    fn it_shrinks_where_windows_are_disturbed_and_recovers() {
        let mut crowd = Crowd::new(24, true);
        for _ in 0..20 {
            crowd.reached_in_vain();
            crowd.window_ended();
        }
        assert_eq!(crowd.limit(), 1);
        for _ in 0..9 {
            crowd.was_silent();
        }
        assert_eq!(crowd.limit(), 24);
    }

    #[test]
    fn it_stays_where_nobody_else_is_stopped() {
        let mut crowd = Crowd::new(1000, false);
        crowd.reached_in_vain();
        assert_eq!(crowd.limit(), 1000);
    }
}
