//! Races that are one problem stand together.

use crate::fixtures;
use redhanded_model::{Fingerprint, Report};
use redhanded_report::{Style, Terminal};

/// Two races on one variable, and another between them.
fn two_problems() -> Report {
    let mut count = fixtures::bit_fields();
    count.what.field = Some(".count".into());
    count.what.bit_fields.clear();
    count.fingerprint.0 = count.fingerprint.0.replace("flags", "count");
    count.instances = 1;
    Report {
        races: vec![fixtures::bit_fields(), fixtures::long_names(), count],
        ..fixtures::run()
    }
}

#[test]
fn races_of_one_problem_are_one_entry() {
    let report = two_problems();
    let text = fixtures::written(&Terminal::new(Style::default()), &report);
    let titles: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("RACE") || line.starts_with("  Part"))
        .collect();
    insta::assert_snapshot!(titles.join("\n"), @r#"
    RACE 1 of 3  device.flags (unsigned int, 4 bytes), global of demo  [d3ee6081]
    RACE 2 of 3  device.count (unsigned int, 4 bytes), global of demo  [051777c8]
      Part of the same problem as race 1: both are on device.
    RACE 3 of 3  hits (i64, 8 bytes), global of demo  [a7962c33]
    "#);
    let start = text.find("\n3 races").unwrap() + 1;
    let end = start + text[start..].find("\n\n").unwrap();
    insta::assert_snapshot!(&text[start..end], @r#"
    3 races in 2 problems
      1 [d3ee6081] device.flags, 3 times
        2 [051777c8] device.count, once
      3 [a7962c33] hits, 3 times
    "#);
    let mut list = Vec::new();
    Terminal::new(Style::default())
        .list(&mut list, &report, &|_| Some("on 2027-01-15".to_owned()))
        .unwrap();
    insta::assert_snapshot!(String::from_utf8(list).unwrap(), @r#"
    1 [d3ee6081] device.flags: update in set_busy / update in request_callback,
       3 times, on 2027-01-15
       and 1 more race on device: [051777c8] device.count
    2 [a7962c33] hits: write in cache::Table<…>::insert(…)
       / read in <Shared<…> as Record<…>>::record, 3 times, on 2027-01-15
    "#);
}

/// An unlocked container races on each of its members, in each of its functions.
#[test]
fn races_behind_pointers_between_the_same_functions_of_the_program_are_one_entry() {
    let on = |places: [&str; 2], what: &str| {
        let mut race = fixtures::bit_fields();
        race.what.name = None;
        let places = places.map(str::to_owned).into();
        race.fingerprint = Fingerprint::new(places, what);
        race
    };
    let finish = Fingerprint::behind_a_pointer("Vector._M_finish");
    let report = Report {
        races: vec![
            on(["app!add", "app!add"], &finish),
            on(["app!add", "memmove from app!add"], "heap"),
            on(["app!add", "app!drain"], &finish),
        ],
        ..fixtures::run()
    };
    let text = fixtures::written(&Terminal::new(Style::default()), &report);
    assert!(text.contains("\n3 races in 2 problems\n"), "{text}");
    assert!(
        text.contains("Part of the same problem as race 1: both are between the same functions."),
        "{text}"
    );
}
