//! Merging the instances of a race. One of them stands for it; of the others all is kept that
//! makes a difference to a verdict.

use redhanded_model::{Pair, Race};

/// How many pairs of lines are kept for a race; more tell nothing new.
const MOST_LINES: usize = 64;

/// Merges another instance into a known race.
pub fn merge(known: &mut Race, race: Race) {
    for pair in &race.lines {
        if !known.lines.contains(pair) && known.lines.len() < MOST_LINES {
            known.lines.push(pair.clone());
        }
    }
    let verdict = match (known.verdict.take(), race.verdict.clone()) {
        (Some(one), Some(two)) => Some(one.over(two)),
        (one, two) => one.or(two),
    };
    known.verdict.clone_from(&verdict);
    let analysed = match (known.analysed.take(), &race.analysed) {
        (Some(mut one), Some(two)) => {
            one.join(two);
            Some(one)
        }
        (one, two) => one.or_else(|| two.clone()),
    };
    known.analysed.clone_from(&analysed);
    // The plainest instance stands for the race.
    let told = |race: &Race| {
        let unchanged = race.values.before == race.values.after;
        (race.class, !race.is_freed(), race.seen_by, unchanged)
    };
    if told(&race) < told(known) {
        let other = known.pair();
        *known = Race {
            instances: known.instances,
            lines: std::mem::take(&mut known.lines),
            history: known.history.take(),
            pairs: std::mem::take(&mut known.pairs),
            verdict,
            analysed,
            ..race
        };
        let own = known.pair();
        known.pairs.retain(|pair| !pair.is_like(&own));
        known.add_pair(other);
    } else {
        known.add_pair(race.pair());
    }
}

/// Takes in instances that tell less than the known race does: of one side only, or without the
/// name of what both touch. What was found out about them holds for the race.
pub fn absorb(known: &mut Race, race: &Race) {
    known.instances += race.instances;
    // A race that was caught is one, whatever an analysis thinks of another instance.
    if let (Some(analysed), Some(other)) = (&mut known.analysed, &race.analysed) {
        analysed.join(other);
    }
    for face in race.faces() {
        let pair = named_like(known, face.pair());
        known.add_pair(pair);
    }
}

/// The pair with the name that the race has for what is behind the pointer, if the pair has none:
/// what is said of that name is said of all pairs.
fn named_like(known: &Race, mut pair: Pair) -> Pair {
    let is_nameless = pair.what.name.is_none() && pair.what.member().is_none();
    if is_nameless && !pair.what.sides_differ && known.what.member().is_some() {
        pair.what.pointee.clone_from(&known.what.pointee);
    }
    pair
}
