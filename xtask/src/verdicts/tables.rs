//! The papers' tables over labelled races.

use std::collections::BTreeMap;
use std::fmt;

use redhanded_model::{Call, ReplayTally};

use super::labels::Label;
use crate::results::Tally;

/// What a verdict goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    Rules,
    Replay,
    Both,
}

impl Stage {
    pub const ALL: [Self; 3] = [Self::Rules, Self::Replay, Self::Both];

    const fn name(self) -> &'static str {
        match self {
            Self::Rules => "rules alone",
            Self::Replay => "replay alone",
            Self::Both => "both",
        }
    }
}

/// What the races on a labelled variable were called in one run.
pub struct Judged {
    pub title: String,
    pub label: Label,
    /// The calls, by each stage.
    pub calls: [Vec<Call>; 3],
    /// The rules that spoke.
    pub rules: Vec<String>,
    pub replays: Vec<ReplayTally>,
}

impl Judged {
    /// What the variable's races are called together: a benign variable is recognised only if
    /// all are called benign, and a harmful one is missed if any is.
    fn call(&self, stage: Stage) -> Option<Call> {
        let calls = self.calls[stage as usize].iter().copied();
        if self.label.harmful {
            calls.max()
        } else {
            calls.min()
        }
    }

    /// Whether its program was written before there was any rule.
    fn is_held_out(&self) -> bool {
        self.title.starts_with("held-out/")
    }

    /// What all replays of it came to, if there were any.
    fn replayed(&self) -> Option<ReplayTally> {
        let mut sum = ReplayTally::default();
        self.replays.iter().for_each(|tally| sum.add(tally.clone()));
        (sum.instances() > 0).then_some(sum)
    }

    /// Whether a race that does harm was caught, so that it could have been called benign.
    pub fn shows_something(&self) -> bool {
        self.label.harmful && self.call(Stage::Both).is_some()
    }

    fn is_missed(&self, stage: Stage) -> bool {
        self.label.harmful && self.call(stage) == Some(Call::LikelyBenign)
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let truth = if self.label.harmful {
            "harmful"
        } else {
            "benign"
        };
        let call = self.call(Stage::Both).map_or("not caught", Call::name);
        let mut rules = self.rules.clone();
        rules.sort();
        rules.dedup();
        let wrong = if self.is_missed(Stage::Both) {
            "WRONG "
        } else {
            ""
        };
        write!(
            f,
            "{wrong}{:<44} {:<22} {truth:<8} {call:<15} {}",
            self.title,
            self.label.what,
            rules.join(" ")
        )
    }
}

/// Prints all tables; a harmful race that was called benign has failed, and so has a stage that
/// recognises too few benign ones.
pub fn print(judged: &[Judged], wanted: f64) -> Tally {
    let mut tally = Tally::default();
    for stage in Stage::ALL {
        if judged
            .iter()
            .all(|one| one.calls[stage as usize].is_empty())
        {
            continue;
        }
        let all: Vec<&Judged> = judged.iter().collect();
        let share = print_stage(&all, stage);
        let missed = judged.iter().filter(|one| one.is_missed(stage)).count() as u64;
        tally.failed += missed;
        tally.passed += judged.len() as u64 - missed;
        println!(
            "harmful called benign: {missed}; benign recognised: {:.0} %",
            share * 100.0
        );
        if stage == Stage::Both && share < wanted {
            println!(
                "fewer than {:.0} % of the benign ones are recognised",
                wanted * 100.0
            );
            tally.failed += 1;
        }
    }
    let held_out: Vec<&Judged> = judged.iter().filter(|one| one.is_held_out()).collect();
    if !held_out.is_empty() && held_out.len() < judged.len() {
        println!("\nonly those that were held out: {}", held_out.len());
        let share = print_stage(&held_out, Stage::Both);
        let missed = held_out.iter().filter(|one| one.is_missed(Stage::Both));
        println!(
            "harmful called benign: {}; benign recognised: {:.0} %",
            missed.count(),
            share * 100.0
        );
    }
    print!("{}", instances(judged));
    let silent = judged
        .iter()
        .filter(|one| one.call(Stage::Both).is_none())
        .count();
    println!(
        "\nnot caught in the time given: {silent} of {}",
        judged.len()
    );
    tally
}

/// PLDI 2007's Table 1 and DataCollider's Figure 7; the share of benign races recognised.
fn print_stage(judged: &[&Judged], stage: Stage) -> f64 {
    println!(
        "\n{}\n{:<20} {:>12} {:>13}",
        stage.name(),
        "",
        "really benign",
        "really harmful"
    );
    let count = |call: Call, harmful: bool| {
        let those = judged.iter().filter(|one| one.label.harmful == harmful);
        those.filter(|one| one.call(stage) == Some(call)).count()
    };
    for call in Call::ALL.into_iter().rev() {
        println!(
            "{:<20} {:>12} {:>13}",
            call.name(),
            count(call, false),
            count(call, true)
        );
    }
    if stage == Stage::Replay {
        print_outcomes(judged);
    }
    let mut rows: BTreeMap<(bool, &str), (usize, usize)> = BTreeMap::new();
    for one in judged {
        if let Some(call) = one.call(stage) {
            let row = rows
                .entry((one.label.harmful, &one.label.category))
                .or_default();
            row.0 += 1;
            row.1 += usize::from(match one.label.harmful {
                true => call.is_harmful(),
                false => call == Call::LikelyBenign,
            });
        }
    }
    println!("\n{:<36} {:>6} {:>10}", "category", "races", "recognised");
    let (mut all, mut recognised) = (0, 0);
    for ((harmful, category), (races, right)) in rows {
        let truth = if harmful { "harmful" } else { "benign" };
        println!(
            "{:<36} {races:>6} {right:>10}",
            format!("{truth}: {category}")
        );
        if !harmful {
            all += races;
            recognised += right;
        }
    }
    recognised as f64 / all.max(1) as f64
}

/// The rows of Table 1: what the replays of a race came to.
fn print_outcomes(judged: &[&Judged]) {
    let of = |harmful: bool, fits: &dyn Fn(&ReplayTally) -> bool| {
        let those = judged.iter().filter(|one| one.label.harmful == harmful);
        let tallies = those.filter_map(|one| one.replayed());
        tallies.filter(|tally| fits(tally)).count()
    };
    let changes = |tally: &ReplayTally| tally.state_change + tally.faults > 0;
    let fails = |tally: &ReplayTally| !changes(tally) && tally.replay_failure > 0;
    type Fits<'a> = &'a dyn Fn(&ReplayTally) -> bool;
    let rows: [(&str, Fits<'_>); 3] = [
        ("No State Change", &|tally| !changes(tally) && !fails(tally)),
        ("State Change", &changes),
        ("Replay Failure", &fails),
    ];
    for (name, fits) in rows {
        println!("{name:<20} {:>12} {:>13}", of(false, fits), of(true, fits));
    }
}

/// PLDI 2007's Figures 3 to 5: how many instances of each race were replayed, and how many of
/// them showed that the order may matter, by a difference or a failure.
fn instances(judged: &[Judged]) -> String {
    let replayed: Vec<(&Judged, u64, u64)> = judged
        .iter()
        .filter_map(|one| {
            let tally = one.replayed()?;
            let all = tally.instances();
            Some((one, all - tally.no_state_change, all))
        })
        .collect();
    type Fits<'a> = &'a dyn Fn(&Judged, u64) -> bool;
    let figures: [(&str, Fits<'_>); 3] = [
        ("no instance showed a difference (Figure 3)", &|_, shown| {
            shown == 0
        }),
        (
            "really harmful, and some instances showed it (Figure 4)",
            &|one, shown| shown > 0 && one.label.harmful,
        ),
        (
            "really benign, and some instances looked harmful (Figure 5)",
            &|one, shown| shown > 0 && !one.label.harmful,
        ),
    ];
    let mut text = String::new();
    for (figure, fits) in figures {
        let those = replayed.iter().filter(|(one, shown, _)| fits(one, *shown));
        text.push_str(&format!("\n{figure}\n"));
        for (one, shown, all) in those {
            let (title, what) = (&one.title, &one.label.what);
            text.push_str(&format!("{title:<44} {what:<22} {shown:>4} of {all:>4}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(harmful: bool, calls: &[Call]) -> Judged {
        Judged {
            title: String::new(),
            label: Label {
                what: "x".to_owned(),
                harmful,
                category: "any".to_owned(),
            },
            calls: [calls.to_vec(), Vec::new(), calls.to_vec()],
            rules: Vec::new(),
            replays: Vec::new(),
        }
    }

    #[test]
    fn one_benign_call_misses_a_harmful_variable() {
        let both = [Call::LikelyHarmful, Call::LikelyBenign];
        assert!(judged(true, &both).is_missed(Stage::Both));
        assert_eq!(
            judged(false, &both).call(Stage::Both),
            Some(Call::LikelyHarmful)
        );
        assert!(!judged(true, &[Call::Undecided]).is_missed(Stage::Both));
        assert!(!judged(true, &[]).is_missed(Stage::Both));
    }

    #[test]
    fn only_harm_that_was_caught_shows_something() {
        assert!(judged(true, &[Call::Undecided]).shows_something());
        assert!(!judged(true, &[]).shows_something());
        assert!(!judged(false, &[Call::LikelyBenign]).shows_something());
    }

    #[test]
    fn too_few_recognised_have_failed() {
        let right = judged(false, &[Call::LikelyBenign]);
        assert_eq!(print(&[right], 0.9).failed, 0);
        assert_eq!(print(&[judged(false, &[Call::Undecided])], 0.9).failed, 1);
        assert_eq!(print(&[judged(true, &[Call::LikelyBenign])], 0.0).failed, 2);
    }

    #[test]
    fn instances_are_told_by_what_they_showed() {
        let with = |harmful, no_state_change, state_change| Judged {
            title: format!("program {no_state_change}{state_change}"),
            replays: vec![ReplayTally {
                no_state_change,
                state_change,
                ..ReplayTally::default()
            }],
            ..judged(harmful, &[])
        };
        let all = [
            with(true, 3, 0),
            with(true, 1, 2),
            with(false, 4, 1),
            judged(true, &[]),
        ];
        let text = instances(&all);
        let parts: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(parts.len(), 3, "{text}");
        let told = [
            ("program 30", "0 of    3"),
            ("program 12", "2 of    3"),
            ("program 41", "1 of    5"),
        ];
        for (part, (title, count)) in parts.into_iter().zip(told) {
            assert_eq!(part.matches("program").count(), 1, "{text}");
            assert!(part.contains(title) && part.contains(count), "{text}");
        }
    }
}
