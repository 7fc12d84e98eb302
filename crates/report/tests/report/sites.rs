use redhanded_model::{Excluded, Exclusions};
use redhanded_report::{FunctionSites, SitesReport, Style, Terminal, json};
use serde_json::Value;

fn function(name: &str, file: Option<&str>, sites: u64) -> FunctionSites {
    FunctionSites {
        name: name.into(),
        file: file.map(Into::into),
        sites,
        reads: sites / 2,
        writes: sites - sites / 2,
        updates: 0,
        excluded: 3,
    }
}

fn report() -> SitesReport {
    let mut excluded = Exclusions::default();
    excluded.add_many(Excluded::Stack, 1234);
    excluded.add_many(Excluded::Locked, 5);
    SitesReport {
        file: "target/demo".into(),
        text_bytes: 123_456,
        functions: 40,
        sites: 2_001,
        excluded,
        by_function: vec![
            function("quiet", None, 0),
            function("demo::worker", Some("src/demo.rs"), 12),
            function(crate::fixtures::CPP, Some("include/table.hpp"), 1_989),
        ],
        seconds: 0.0312,
    }
}

fn table(report: &SitesReport, all: bool) -> String {
    let mut text = Vec::new();
    Terminal::new(Style::default())
        .sites(&mut text, report, all)
        .unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_table_has_most_sites_first() {
    insta::assert_snapshot!(table(&report(), false), @r#"
    target/demo: 2,001 sites in 40 functions, 123,456 bytes of code, 31 ms

    left out: 1,239 instructions (38 % of those with a memory operand)
      1,234  stack access
          5  locked instruction

    sites  reads  writes  updates  left out  function
    1,989    994     995        0         3  cache::Table<…>::insert(…)
       12      6       6        0         3  demo::worker  src/demo.rs
        0      0       0        0         3  quiet
    "#);
}

#[test]
fn the_top_is_shown_unless_all_are_asked_for() {
    let mut report = report();
    report.by_function = (0..40)
        .map(|at| function(&format!("f{at:02}"), None, 100 - at))
        .collect();
    let top = table(&report, false);
    assert!(top.contains("f29") && !top.contains("f30"), "{top}");
    assert!(
        top.ends_with("10 more functions: --all shows them\n"),
        "{top}"
    );
    let all = table(&report, true);
    assert!(all.contains("f39") && !all.contains("--all"), "{all}");
}

#[test]
fn names_are_whole_when_all_is_asked_for() {
    assert!(table(&report(), true).contains(crate::fixtures::CPP));
}

#[test]
fn the_document_has_every_key() {
    let mut text = Vec::new();
    json::write_sites(&report(), &mut text).unwrap();
    let document: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document["schema"], "redhanded-sites/1");
    assert_eq!(document["file"], "target/demo");
    assert_eq!(document["text_bytes"], 123_456);
    assert_eq!(document["functions"], 40);
    assert_eq!(document["sites"], 2_001);
    assert_eq!(document["seconds"], 0.0312);
    assert_eq!(
        document["excluded"],
        serde_json::json!({"stack": 1234, "locked": 5})
    );
    assert_eq!(
        document["by_function"][1],
        serde_json::json!({
            "name": "demo::worker", "file": "src/demo.rs", "sites": 12,
            "reads": 6, "writes": 6, "updates": 0, "excluded": 3,
        })
    );
    assert_eq!(document["by_function"][2]["file"], Value::Null);
}
