use crate::fixtures;
use redhanded_model::{Losses, Race, RunReport, SiteCounts};
use redhanded_report::{Style, Terminal};

fn short(race: &Race) -> String {
    let mut text = Vec::new();
    Terminal::new(Style::default())
        .race(&mut text, race, 120)
        .unwrap();
    String::from_utf8(text).unwrap()
}

fn full_as(style: Style, race: &Race) -> String {
    let mut text = Vec::new();
    Terminal::new(style)
        .with_source(|file, line| {
            (file == "demo.c").then(|| match line {
                42 => "\t\tdev->busy = 1;".to_owned(),
                _ => "\tdev->need_callback = 1;".to_owned(),
            })
        })
        .race_in_full(&mut text, race, (1, 3), 1204)
        .unwrap();
    String::from_utf8(text).unwrap()
}

fn full(race: &Race) -> String {
    full_as(Style::default(), race)
}

fn summary(report: &RunReport) -> String {
    let mut text = Vec::new();
    Terminal::new(Style::default())
        .summary(&mut text, report)
        .unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn show() {
    for r in [
        fixtures::bit_fields(),
        fixtures::unknown_origin(),
        fixtures::possibly_atomic(),
        fixtures::system_call(),
        fixtures::long_names(),
        fixtures::hostile(),
    ] {
        println!("{}\n=====\n{}\n======", short(&r), full(&r));
    }
    println!(
        "{}",
        full_as(
            Style {
                color: true,
                unicode: false,
                width: 60
            },
            &fixtures::bit_fields()
        )
    );
    println!("{}", summary(&fixtures::run()));
    println!(
        "{}",
        summary(&RunReport {
            races: vec![],
            ..fixtures::run()
        })
    );
    println!("{}", summary(&RunReport::default()));
}
