//! Merging the instances of a race. One of them stands for it; of the others all is kept that
//! makes a difference to a verdict.

use redhanded_model::Race;

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
        (race.class, race.seen_by, unchanged)
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
