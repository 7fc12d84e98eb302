//! Files that people write: suppressions, annotations, suppressions of another tool.

use std::path::Path;
use std::sync::OnceLock;

use redhanded_model::Report;
use redhanded_store::{Day, Suppressions, import_tsan};
use redhanded_verdict::Annotations;

/// A report with a race, to which they are applied.
fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| {
        let report = serde_json::from_slice(include_bytes!("../corpus/report/race"));
        report.unwrap_or_else(|why| panic!("the report that is kept: {why}"))
    })
}

/// Takes the input for each of them. What is made of the other tool's file can be read.
pub fn read(text: &str) {
    if let Ok(suppressions) = Suppressions::parse(text) {
        let _ = suppressions.apply(&mut report().races.clone(), Day::from_days(20_000));
    }
    if let Ok(annotations) = Annotations::parse(text, Path::new("annotations")) {
        for race in &report().races {
            let _ = annotations.of(race).count();
        }
    }
    let (ours, _) = import_tsan(text);
    let again = Suppressions::parse(&ours);
    assert!(again.is_ok(), "an imported file cannot be read: {again:?}");
}
