//! Races that are one problem: one bug may race in several places.

use redhanded_model::{Fingerprint, Race};
use std::collections::HashMap;

/// A problem with its races, of which there is at least one.
pub(crate) struct Problem<'r> {
    pub(crate) first: &'r Race,
    pub(crate) others: Vec<&'r Race>,
}

impl Problem<'_> {
    /// What its races have in common.
    pub(crate) fn common(&self) -> String {
        match &self.first.what.name {
            Some(name) => format!("on {name}"),
            None => "between the same functions".to_owned(),
        }
    }

    /// All its races.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Race> {
        [self.first].into_iter().chain(self.others.iter().copied())
    }

    /// How many races it has.
    pub(crate) fn races(&self) -> usize {
        1 + self.others.len()
    }
}

/// The problems that these races are parts of, in the order of their first races.
pub(crate) fn problems<'r>(races: impl IntoIterator<Item = &'r Race>) -> Vec<Problem<'r>> {
    let mut problems: Vec<Problem<'r>> = Vec::new();
    let mut known: HashMap<Fingerprint, usize> = HashMap::new();
    for race in races {
        let at = *known.entry(race.problem()).or_insert(problems.len());
        match problems.get_mut(at) {
            Some(problem) => problem.others.push(race),
            None => problems.push(Problem {
                first: race,
                others: Vec::new(),
            }),
        }
    }
    problems
}
