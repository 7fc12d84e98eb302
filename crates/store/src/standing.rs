//! How races stand by what is known already.
//!
//! Of one race, sometimes both sides are caught and sometimes one only, by chance. So a race of
//! unknown origin stands like the known race whose other side was not seen this time, and the
//! other way round. Otherwise a run would fail for something new that is not.

use redhanded_model::{Class, Fingerprint, Race, State, Triage};
use std::collections::HashMap;

/// How known races stand.
#[derive(Debug, Default)]
pub struct Standings {
    by_fingerprint: HashMap<Fingerprint, (Class, Triage)>,
    /// Races of which both sides are known, by what one alone would be called.
    by_half: HashMap<Fingerprint, (Class, Triage)>,
}

impl Standings {
    /// The standings of these races, each with its own.
    pub fn of<'a>(races: impl IntoIterator<Item = (&'a Race, Triage)>) -> Self {
        let mut standings = Self::default();
        for (race, triage) in races {
            if is_settled(&triage) {
                for half in race.fingerprint.halves() {
                    let known = standings.by_half.entry(half);
                    known.or_insert_with(|| (race.class, triage.clone()));
                }
            }
            let fingerprint = race.fingerprint.clone();
            standings
                .by_fingerprint
                .insert(fingerprint, (race.class, triage));
        }
        standings
    }

    /// How this race stands, if it is known.
    #[must_use]
    pub fn get(&self, race: &Race) -> Option<Triage> {
        let known = self.by_fingerprint.get(&race.fingerprint);
        let known = known.map(|(_, triage)| triage.clone());
        match known {
            // Known, or something was decided about it that no longer holds.
            Some(triage) if !triage.new || triage.because.is_some() => Some(triage),
            known => self.of_other_view(race).or(known),
        }
    }

    /// How the race stands of which this one shows less or more. What is a race for certain is
    /// not settled by one that may be atomic.
    fn of_other_view(&self, race: &Race) -> Option<Triage> {
        let other = if race.unknown_origin() {
            self.by_half.get(&race.fingerprint)
        } else {
            let halves = race.fingerprint.halves();
            let mut known = halves
                .iter()
                .filter_map(|half| self.by_fingerprint.get(half));
            known.find(|(_, triage)| is_settled(triage))
        };
        let (class, triage) = other?;
        (*class <= race.class).then(|| triage.clone())
    }
}

/// Whether it is known, and nobody has to look when it is seen again.
fn is_settled(triage: &Triage) -> bool {
    !triage.new && triage.state != State::Fixed
}
