//! The examples in docs/ are what is really written.

use crate::fixtures;
use redhanded_model::Report;
use redhanded_report::json::Json;
use redhanded_report::{Style, Terminal};

const JSON: &str = include_str!("../../../../docs/json.md");
const READING: &str = include_str!("../../../../docs/reading-a-report.md");

fn example() -> Report {
    let mut report = fixtures::run();
    report.races.truncate(1);
    report
}

#[test]
fn the_json_example_is_a_real_one() {
    let text = fixtures::written(&Json, &example());
    assert!(JSON.contains(&text), "docs/json.md should hold:\n{text}");
}

#[test]
fn the_annotated_race_is_a_real_one() {
    let terminal = Terminal::new(Style::default()).with_source(fixtures::source());
    let text = fixtures::written(&terminal, &example());
    assert!(
        READING.contains(&text),
        "docs/reading-a-report.md should hold:\n{text}"
    );
}
