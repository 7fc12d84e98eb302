//! `redhanded demo`: the tool at work on a program of its own, so that a
//! newcomer sees a race caught before choosing a program to try it on.

mod kernel;

use crate::arguments::{Demo, DemoOf, Detail, Documents, ShowProgress};
use crate::exit::Failure;
use crate::memory::Memory;
use crate::observe::{Display, Observation, Observed, OnRace, Subject, observe};
use crate::run::{clock, display};
use crate::select::Selecting;
use crate::{arguments, screen};
use redhanded_demo::{NEIGHBOURS, SEEDED, Variable};
use redhanded_detect::{Budget, CREDIT, Options, Start};
use redhanded_image::CarriedSource;
use redhanded_model::{Class, Delays, Leans, Race, ReplayTally, Report, Strategy, Verdict};
use redhanded_process::{Program, Settings};
use redhanded_report::{Writer, literal, replayed};
use redhanded_target::Signals;
use redhanded_verdict::Annotations;
use std::collections::HashSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The demo looks no longer than this. It takes a few seconds, and longer on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Shows what was asked for.
pub fn demo(arguments: &Demo) -> Result<ExitCode, Failure> {
    arguments.documents.check()?;
    match arguments.what {
        DemoOf::Program => program(&arguments.documents),
        DemoOf::Kernel => kernel::demo(&arguments.documents),
    }
}

/// What is observed prints nothing: the terminal is ours.
fn shown() -> Arc<Display> {
    let progress = screen::shown(ShowProgress::Auto, false, false);
    let mut display = display(false, &Detail::default(), false, progress);
    // What was seen of each variable is told at the end.
    if let Some(display) = Arc::get_mut(&mut display) {
        display.terminal.leave_out_list();
    }
    display
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
fn program(documents: &Documents) -> Result<ExitCode, Failure> {
    let signals = Signals::hold();
    let own = std::env::current_exe()?;
    // Whatever it was renamed to.
    let name = own.to_string_lossy().into_owned();
    let module = literal(&name);
    let program = Program::find(&[own.into_os_string(), "demo-program".into()])?;
    screen::say(&format!(
        "Redhanded runs a small multithreaded program that is part of this binary, with\n\
         {} data races beside {} neighbours that do it right.\n",
        SEEDED.len(),
        NEIGHBOURS.len()
    ));
    let display = shown();
    let selection = arguments::Select {
        module: vec![module],
        function: vec!["redhanded_demo::*".to_owned()],
        ..arguments::Select::default()
    };
    let mut selecting = Selecting::new(&selection, &display)?;
    let (file, text) = redhanded_demo::SOURCE;
    selecting.search.carried.push(CarriedSource { file, text });
    let observation = Observation {
        subject: Subject::Program(program),
        selecting,
        rights: None,
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
        replay: true,
        scenarios: None,
        core: None,
        log: None,
        events: None,
        memory: Memory::default(),
        on_race: Some(found_all(SEEDED)),
        annotations: Annotations::default(),
        suspects: Vec::new(),
    };
    let mut observed = observe(observation, &display)?;
    // It is this binary, which is why it is said to trace programs: not this time.
    observed
        .report
        .run
        .unseen
        .retain(|unseen| unseen.what != name);
    let mut text = Vec::new();
    display.terminal.write(&observed.report, &mut text)?;
    let caught = conclude(&mut text, &observed.report, SEEDED, NEIGHBOURS)?;
    write!(
        text,
        "
Nothing was recompiled and no lock was explained: threads were held for a moment
at randomly chosen instructions, and whoever touched the same bytes was caught.

What to do next
  redhanded run -- ./your-program            until it ends
  redhanded run --for 1m -- ./your-test      a short test, again and again
  redhanded sites ./your-program             what can be sampled in it
  redhanded demo kernel                      the same in a kernel
  redhanded run --help                       everything else
"
    )?;
    tell(&text, observed, documents, &display, caught)
}

/// Shows and writes it; the exit status.
fn tell(
    text: &[u8],
    observed: Observed,
    documents: &Documents,
    display: &Display,
    caught: bool,
) -> Result<ExitCode, Failure> {
    screen::show(text);
    documents.write(&observed.report, &display.source(), None)?;
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
    let line = |variable: &Variable, result: &str| {
        let Variable {
            variable, story, ..
        } = variable;
        format!("  {variable:<18} {result:<14}  {story}")
    };
    for seed in seeded {
        let found = report.races.iter().find(|race| is_on(race, seed.variable));
        let verdict = found.map(|race| race.verdict.as_ref());
        let result = verdict.map_or("NOT CAUGHT", |verdict| {
            verdict.map_or("caught", |verdict| verdict.call.name())
        });
        good &= found.is_some();
        writeln!(out, "{}", line(seed, result))?;
    }
    for neighbour in neighbours {
        let reported = report
            .races
            .iter()
            .any(|race| is_on(race, neighbour.variable));
        good &= !reported;
        let result = if reported { "REPORTED" } else { "silent" };
        writeln!(out, "{}", line(neighbour, result))?;
    }
    let told = |seed: &Variable| {
        let race = report.races.iter().find(|race| is_on(race, seed.variable));
        Some((seed.variable, harm(race?.verdict.as_ref()?)?))
    };
    let harm: Vec<(&str, String)> = seeded.iter().filter_map(told).collect();
    if !harm.is_empty() {
        writeln!(out, "\nWhat does harm, and what another order does")?;
    }
    for (variable, why) in harm {
        writeln!(
            out,
            "  {variable:<18} {}",
            redhanded_report::clean(&why, true)
        )?;
    }
    Ok(good)
}

/// Why a race does harm, if it does: what replaying it in every order came to, or what a rule saw.
fn harm(verdict: &Verdict) -> Option<String> {
    if !verdict.call.is_harmful() {
        return None;
    }
    let differs = |it: &&ReplayTally| it.faults > 0 || it.state_change > 0;
    let replay = verdict.replay.as_ref().filter(differs);
    let rules = verdict.rules.iter();
    let mut facts = rules
        .filter(|rule| rule.leans == Leans::Harmful)
        .map(|rule| rule.facts.join("; "));
    replay.and_then(replayed).or_else(|| facts.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use redhanded_model::{Differing, Leaning, combine};

    #[test]
    fn what_another_order_does_is_told() {
        let rule = Leaning::new(
            "lost-update",
            Leans::Harmful,
            vec!["two writers".to_owned()],
        );
        let judged = combine(vec![rule.clone()], None, 1);
        assert_eq!(harm(&judged).as_deref(), Some("two writers"));
        let tally = ReplayTally {
            state_change: 1,
            difference: vec![Differing {
                what: "STATE".to_owned(),
                raced: true,
                copy: false,
                in_use: None,
                this: "3 (held first)".to_owned(),
                that: "2 (caught in between)".to_owned(),
            }],
            ..ReplayTally::default()
        };
        let judged = combine(vec![rule], Some(tally), 1);
        assert_eq!(
            harm(&judged).as_deref(),
            Some(
                "the order matters in 1 of 1 replay: STATE: 3 (held first); 2 (caught in between)"
            )
        );
        let unknown = combine(Vec::new(), None, 1);
        assert_eq!(harm(&unknown), None, "nothing is known");
    }
}
