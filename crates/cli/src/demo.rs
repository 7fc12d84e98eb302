//! `redhanded demo`: the tool at work on a program of its own, so that a
//! newcomer sees a race caught before choosing a program to try it on.

mod kernel;

use crate::arguments::{Demo, DemoOf, ShowProgress};
use crate::exit::Failure;
use crate::observe::{Display, Observation, Observed, OnRace, Subject, observe};
use crate::run::{clock, display};
use crate::{arguments, screen, select};
use redhanded_demo::{NEIGHBOURS, SEEDED, Variable};
use redhanded_detect::{Budget, CREDIT, Options, Start};
use redhanded_model::{Class, Delays, Race, Report, Strategy};
use redhanded_process::{Program, Settings};
use redhanded_report::json::Json;
use redhanded_report::{Writer, check, times, write_file};
use redhanded_target::Signals;
use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The demo looks no longer than this.
const LONGEST: Duration = Duration::from_secs(12);

/// Shows what was asked for.
pub fn demo(arguments: &Demo) -> Result<ExitCode, Failure> {
    if let Some(path) = &arguments.json {
        check(path)?;
    }
    match arguments.what {
        DemoOf::Program => program(arguments.json.as_deref()),
        DemoOf::Kernel => kernel::demo(arguments.json.as_deref()),
    }
}

/// What is observed prints nothing: the terminal is ours.
fn shown() -> Arc<Display> {
    display(false, screen::shown(ShowProgress::Auto, false, false))
}

/// Says when all of these have been caught.
fn found_all(seeded: &[Variable]) -> OnRace {
    let mut missing: HashSet<&'static str> = seeded.iter().map(|seed| seed.variable).collect();
    Box::new(move |race| {
        missing.retain(|variable| !is_on(race, variable));
        missing.is_empty()
    })
}

/// Shows every seeded race being caught; fails if one is not, or if a neighbour
/// is.
fn program(report_to: Option<&Path>) -> Result<ExitCode, Failure> {
    let signals = Signals::hold();
    let own = std::env::current_exe()?;
    let program = Program::find(&[own.into_os_string(), "demo-program".into()])?;
    screen::say(&format!(
        "Redhanded runs a small multithreaded program that is part of this binary, with \
         {} data races beside {} neighbours that do it right.\n",
        SEEDED.len(),
        NEIGHBOURS.len()
    ));
    let display = shown();
    let selection = arguments::Select {
        module: vec!["redhanded".to_owned()],
        function: vec!["redhanded_demo::*".to_owned()],
        ..arguments::Select::default()
    };
    let images = select::images(&selection, &display)?;
    let observation = Observation {
        subject: Subject::Program(program),
        images,
        signals,
        options: Options {
            rate: 1000.0,
            delay: Delays::of_tasks(Duration::from_millis(2)),
            budget: Budget {
                overhead: 0.5,
                credit: CREDIT,
            },
            strategy: Strategy::Both,
            until: None,
            max_windows: None,
            start: Start::AtOnce,
        },
        settings: Settings::default(),
        seed: clock(),
        until: Some(LONGEST),
        each: None,
        repeat: None,
        kill: true,
        max_windows: None,
        max_races: None,
        stop_on_race: false,
        core: None,
        log: None,
        on_race: Some(found_all(SEEDED)),
    };
    let observed = observe(observation, &display)?;
    let mut text = Vec::new();
    display.terminal.write(&observed.report, &mut text)?;
    let caught = conclude(&mut text, &observed.report, SEEDED, NEIGHBOURS)?;
    write!(
        text,
        "
Nothing was recompiled and no lock was explained: threads were held for a moment at
randomly chosen instructions, and whoever touched the same bytes meanwhile was caught.

What to do next
  redhanded run -- ./your-program            until it ends
  redhanded run --for 1m -- ./your-test      a short test, again and again
  redhanded sites ./your-program             what can be sampled in it
  redhanded demo kernel                      the same in a kernel
  redhanded run --help                       everything else
"
    )?;
    tell(&text, observed, report_to, caught)
}

/// Shows and writes it; the exit status.
fn tell(
    text: &[u8],
    observed: Observed,
    report_to: Option<&Path>,
    caught: bool,
) -> Result<ExitCode, Failure> {
    let _ = std::io::stderr().write_all(text);
    if let Some(path) = report_to {
        write_file(&Json, &observed.report, path)?;
    }
    if let Some(failure) = observed.failure {
        return Err(failure);
    }
    Ok(if caught {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn is_on(race: &Race, variable: &str) -> bool {
    race.class == Class::Race
        && race
            .what
            .name
            .as_deref()
            .is_some_and(|name| name == variable || name.ends_with(&format!("::{variable}")))
}

/// What was seen; whether all went as it should.
fn conclude(
    out: &mut dyn Write,
    report: &Report,
    seeded: &[Variable],
    neighbours: &[Variable],
) -> std::io::Result<bool> {
    let mut good = true;
    writeln!(out, "\nWhat you saw")?;
    for seed in seeded {
        let found = report.races.iter().find(|race| is_on(race, seed.variable));
        let result = match found {
            Some(race) => format!("caught {}", times(race.instances)),
            None => {
                good = false;
                "NOT CAUGHT this time".to_owned()
            }
        };
        writeln!(out, "  {:<18} {}: {result}", seed.variable, seed.story)?;
    }
    for neighbour in neighbours {
        let reported = report
            .races
            .iter()
            .any(|race| is_on(race, neighbour.variable));
        good &= !reported;
        let result = if reported {
            "REPORTED, which is a bug"
        } else {
            "silent"
        };
        writeln!(
            out,
            "  {:<18} {}: {result}",
            neighbour.variable, neighbour.story
        )?;
    }
    Ok(good)
}
