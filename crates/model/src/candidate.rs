//! Candidates: pairs of code places that are suspected of racing, and what came of hunting
//! them.

use crate::notation::{object, rounded};
use crate::{AccessReport, Call, Race, Svma};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A place in code, as somebody named it: by its function, by its line, or by both.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Spot {
    /// The function.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
}

impl Spot {
    /// Whether it names anything that code can be found by.
    #[must_use]
    pub const fn is_named(&self) -> bool {
        self.function.is_some() || self.place().is_some()
    }

    /// The file and the line, if it has both.
    #[must_use]
    pub const fn place(&self) -> Option<(&String, u32)> {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => Some((file, line)),
            _ => None,
        }
    }

    /// Whether code that fits like this is all that is meant, whatever else there is: a function
    /// is not, if a line in it was named.
    #[must_use]
    pub fn is_met_by(&self, fit: Fit) -> bool {
        self.place().is_none() || fit > Fit::Function
    }
}

/// `cache_put (src/cache.c:42)`, `cache_put` or `src/cache.c:42`.
impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, self.place()) {
            (Some(function), Some((file, line))) => write!(f, "{function} ({file}:{line})"),
            (Some(function), None) => f.write_str(function),
            (None, Some((file, line))) => write!(f, "{file}:{line}"),
            (None, None) => f.write_str("?"),
        }
    }
}

/// How well an address fits a place. The best fit in a file counts, so that a function is
/// taken as a whole only if its line is not found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// It is in the function.
    Function,
    /// It is on the line.
    Line,
    /// It is on the line, in the function.
    Both,
}

/// An address that fits a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sighting {
    /// The index of the place.
    pub spot: u32,
    /// The address.
    pub svma: Svma,
    /// How well it fits.
    pub fit: Fit,
}

/// Two places that are suspected of racing with each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Candidate {
    /// The places, in no particular order.
    pub sides: [Spot; 2],
    /// Whether it would do harm, if that was judged.
    pub call: Option<Call>,
}

impl Candidate {
    /// A pair of which nothing else is known.
    #[must_use]
    pub const fn new(sides: [Spot; 2]) -> Self {
        Self { sides, call: None }
    }

    /// The pair that a race was seen at; none if one side is unknown or has no names.
    #[must_use]
    pub fn of_race(race: &Race) -> Option<Self> {
        let [first, second] = race.accesses.as_slice() else {
            return None;
        };
        let spot = |access: &AccessReport| Spot {
            function: access.function.clone(),
            file: access.file.clone(),
            line: access.line,
        };
        let sides = [spot(first), spot(second)];
        let call = race.verdict.as_ref().map(|verdict| verdict.call);
        sides
            .iter()
            .all(Spot::is_named)
            .then_some(Self { sides, call })
    }

    /// Its share of the time, compared with that of others: what is likely harmful gets
    /// more.
    #[must_use]
    pub const fn share(&self) -> u32 {
        match self.call {
            Some(Call::ProvenHarmful | Call::LikelyHarmful) => 4,
            Some(Call::Undecided) | None => 2,
            Some(Call::LikelyBenign) => 1,
        }
    }
}

/// `a | b`, as in a list of suspects.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} | {}", self.sides[0], self.sides[1])
    }
}

/// What was done to catch a candidate, in all runs together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pursuit {
    /// How many sites each side was found at.
    pub sites: [u64; 2],
    /// How often one of them was reached while it was armed.
    pub reached: u64,
    /// How often a thread was held at each side.
    pub holds: [u64; 2],
    /// For how long, in all.
    pub held: Duration,
    /// How well the sites of each side fit the place that was named.
    #[serde(default)]
    pub fits: [Option<Fit>; 2],
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HuntOutcome {
    /// Both sides met.
    Caught,
    /// Threads were held, and the other side did not come.
    NotCaught,
    /// It was reached, and no thread could be held.
    NeverHeld,
    /// Its code was there and was not executed.
    NeverReached,
    /// No code that was loaded has these names, or none that can be sampled.
    NotFound,
}

/// A candidate, and what came of it.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
pub struct Hunted {
    /// The places.
    pub sides: [Spot; 2],
    /// The short name of the race that it was caught as.
    #[serde(default)]
    pub race: Option<String>,
    /// How many sites each side was found at.
    pub sites: [u64; 2],
    /// How often one of them was reached while it was armed.
    pub reached: u64,
    /// How often a thread was held at each side.
    pub holds: [u64; 2],
    /// For how long, in seconds.
    pub held_s: f64,
}

impl Hunted {
    /// What became of it.
    #[must_use]
    pub const fn outcome(&self) -> HuntOutcome {
        match self {
            Self { race: Some(_), .. } => HuntOutcome::Caught,
            Self { sites: [0, 0], .. } => HuntOutcome::NotFound,
            Self { reached: 0, .. } => HuntOutcome::NeverReached,
            Self { holds: [0, 0], .. } => HuntOutcome::NeverHeld,
            _ => HuntOutcome::NotCaught,
        }
    }

    /// With what was done to catch it.
    #[must_use]
    pub fn pursued(self, pursuit: Pursuit) -> Self {
        Self {
            sites: pursuit.sites,
            reached: pursuit.reached,
            holds: pursuit.holds,
            held_s: rounded(pursuit.held.as_secs_f64()),
            ..self
        }
    }
}

impl Serialize for Hunted {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        object!(out, {
            "sides": self.sides,
            "outcome": self.outcome(),
            "race": self.race,
            "sites": self.sites,
            "reached": self.reached,
            "holds": self.holds,
            "held_s": rounded(self.held_s),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_follow_from_the_numbers() {
        let hunted = |sites, reached, holds| Hunted {
            sites,
            reached,
            holds,
            ..Hunted::default()
        };
        assert_eq!(hunted([0, 0], 0, [0, 0]).outcome(), HuntOutcome::NotFound);
        let unreached = hunted([1, 0], 0, [0, 0]);
        assert_eq!(unreached.outcome(), HuntOutcome::NeverReached);
        assert_eq!(hunted([1, 2], 3, [0, 0]).outcome(), HuntOutcome::NeverHeld);
        assert_eq!(hunted([1, 2], 3, [0, 1]).outcome(), HuntOutcome::NotCaught);
        let caught = Hunted {
            race: Some("0123abcd".to_owned()),
            ..Hunted::default()
        };
        assert_eq!(caught.outcome(), HuntOutcome::Caught);
    }

    #[test]
    fn a_document_is_read_back_as_it_was_written() {
        let spot = |function: &str| Spot {
            function: Some(function.to_owned()),
            ..Spot::default()
        };
        let hunted = Hunted {
            sides: [spot("put"), spot("get")],
            sites: [1, 2],
            reached: 5,
            holds: [2, 1],
            held_s: 1.25,
            race: None,
        };
        let text = serde_json::to_string(&hunted).unwrap();
        assert!(text.contains("\"outcome\":\"not-caught\""), "{text}");
        assert_eq!(serde_json::from_str::<Hunted>(&text).unwrap(), hunted);
    }
}
