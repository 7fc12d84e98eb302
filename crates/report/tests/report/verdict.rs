//! Verdicts on the terminal.

use crate::fixtures;
use redhanded_model::{
    Analysed, Analysis, Differing, FAILED_REPLAY, Leaning, Leans, Race, RaceStanding, ReplayTally,
    Report, SeenBy, combine,
};
use redhanded_report::{Style, Terminal};

#[test]
fn a_verdict_is_told_with_its_reasons_and_benign_races_are_brief() {
    let leaning = |rule: &str, leans, fact: &str| Leaning::new(rule, leans, vec![fact.to_owned()]);
    let mut harmful = fixtures::bit_fields();
    let rule = leaning("lost-update", Leans::Harmful, "both sides write");
    harmful.verdict = Some(combine(vec![rule], None, 3));
    let mut benign = fixtures::bit_fields();
    let rule = leaning("safe-flag", Leans::Benign, "other bits are tested");
    benign.verdict = Some(combine(vec![rule], None, 3));
    let report = Report {
        races: vec![harmful, benign],
        ..fixtures::run()
    };
    let text = fixtures::written(&Terminal::new(Style::default()), &report);
    assert!(text.contains("judged  likely harmful"), "{text}");
    assert!(text.contains("both sides write [lost-update]"), "{text}");
    assert!(text.contains("other bits are tested [safe-flag]"), "{text}");
    let counts = "1 likely harmful, 1 likely benign (--show benign";
    assert!(text.contains(counts), "{text}");
    let stacks = |text: &str| text.matches("stack of the ").count();
    let all = Terminal::new(Style::default()).showing_benign(true);
    let whole = fixtures::written(&all, &report);
    assert_eq!(stacks(&whole), 2 * stacks(&text), "{whole}");
    // Brief, never dropped.
    assert_eq!(text.matches("2 of 2").count(), 1, "{text}");
}

#[test]
fn a_register_is_told_by_the_place_that_goes_on_with_it() {
    let differing = |what: &str, in_use: Option<&str>| Differing {
        what: what.to_owned(),
        raced: false,
        copy: false,
        in_use: in_use.map(str::to_owned),
        this: "0x117a773 (held first)".to_owned(),
        that: "0x117a774 (caught first)".to_owned(),
    };
    let told = |difference: Vec<Differing>| {
        let tally = ReplayTally {
            state_change: 2,
            difference,
            ..ReplayTally::default()
        };
        let mut race = fixtures::bit_fields();
        race.verdict = Some(combine(Vec::new(), Some(tally), 3));
        let report = Report {
            races: vec![race],
            ..fixtures::run()
        };
        let text = fixtures::written(&Terminal::new(Style::default()), &report);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let register = differing("rdx of the held thread", Some("scan (a.c:12)"));
    let text = told(vec![register.clone(), differing(FAILED_REPLAY, None)]);
    let place =
        "the order matters in 2 of 2 replays: in values that are still in use in scan (a.c:12)";
    assert!(text.contains(place), "{text}");
    assert!(!text.contains("rdx"), "{text}");
    // What has a name comes before it.
    let text = told(vec![register, differing("hits", None)]);
    assert!(
        text.contains(": hits: 0x117a773 (held first); 0x117a774"),
        "{text}"
    );
}

/// There may be many of them, and most are none.
#[test]
fn what_only_locks_speak_against_is_brief() {
    let told = |standing, by| {
        let mut report = fixtures::run();
        report.races = vec![Race {
            seen_by: SeenBy::Analysis,
            analysed: Some(Analysed { standing, by }),
            ..fixtures::bit_fields()
        }];
        fixtures::written(&Terminal::new(Style::default()), &report)
    };
    let has_stacks = |text: &str| text.contains("stack of");
    let lockset = told(RaceStanding::Suspect, vec![Analysis::Lockset]);
    assert!(
        !has_stacks(&lockset) && lockset.contains("SUSPECT"),
        "{lockset}"
    );
    let both = vec![Analysis::HappensBefore, Analysis::Lockset];
    assert!(has_stacks(&told(RaceStanding::Suspect, both)));
}
