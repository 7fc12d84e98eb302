//! `redhanded report`: what earlier runs found, from a store, a JSON report or a session log.

mod compare;
mod source;

use crate::arguments::{FailOn, Report};
use crate::documents::repository;
use crate::exit::Failure;
use crate::memory::suppress;
use crate::observe::Quotes;
use crate::project::Project;
use crate::screen;
use crate::triage::by_id;
use compare::compare;
use redhanded_model::{Race, State};
use redhanded_report::{Terminal, Writer};
use redhanded_store::{Pattern, Suppressions};
use redhanded_verdict::{judge, judge_again};
pub use source::{Source, read_json};
use std::process::ExitCode;

/// Prints the report, or writes it. The exit status says whether that was possible,
/// unless races are to fail.
pub fn report(arguments: &Report) -> Result<ExitCode, Failure> {
    if arguments.runs {
        screen::print(source::runs(arguments.source.as_ref())?.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let annotations = arguments.findings.verdicts.read()?;
    let mut source = Source::open(arguments.source.as_ref(), arguments.run)?;
    // A log has collisions only; the others have the verdicts of their time.
    let annotated = arguments.findings.verdicts.annotations.is_some();
    if source.is_store() && annotated {
        judge_again(&mut source.report, &annotations);
    } else if source.is_log || annotated {
        judge(&mut source.report, &annotations);
    }
    let mut notes = Vec::new();
    if let Some(path) = &arguments.suppressions {
        notes = suppress(&Suppressions::read(path)?, &mut source.report);
    } else if let Some(path) = Project::here()?.suppressions {
        // Which of its entries match nothing is for runs to say.
        suppress(&Suppressions::read(&path)?, &mut source.report);
    }
    let compared = match &arguments.compare {
        Some(other) => Some(compare(&mut source, other)?),
        None => None,
    };
    let is_empty = source.report.races.is_empty();
    narrow(&mut source, arguments)?;
    // Then it says nothing about the run that none was asked for.
    let all_left_out = !is_empty && source.report.races.is_empty();
    let quoted = Quotes::lines(&Quotes::of(&source.report));
    let mut text = Vec::new();
    // There is no program here whose output a printed document would be mixed with.
    let report = &source.report;
    // One that cannot be written does not keep the others from being printed.
    let store = source.store.as_ref().map(|(path, _)| path.as_path());
    let written = arguments
        .documents
        .write_or_print(report, &quoted, store, &mut text);
    if text.is_empty() && !arguments.quiet {
        let terminal = Terminal::new(screen::style_of_stdout())
            .explaining(arguments.findings.detail.explain)
            .verbose(arguments.findings.detail.verbose)
            .with_assembly(arguments.findings.detail.asm)
            .showing_benign(arguments.findings.verdicts.shows_benign() || arguments.race.is_some())
            .with_base(repository())
            .with_source(quoted);
        let full = arguments.full || arguments.race.is_some() || !source.is_store();
        match &compared {
            Some(compared) => compared.write(&terminal, report, &mut text)?,
            None if full && !all_left_out => terminal.write(report, &mut text)?,
            None => terminal.list(&mut text, report, &|race| source.when(race))?,
        }
        if arguments.race.is_some()
            && let Some(race) = report.races.first()
        {
            let history = source.history(race)?;
            text.extend_from_slice(screen::cleaned(&history).as_bytes());
        }
    }
    screen::print(&text)?;
    for note in notes {
        screen::say(&format!("redhanded: {note}"));
    }
    written?;
    if let Some(error) = source.cut_short {
        return Err(error.into());
    }
    let findings = &arguments.findings;
    let fail_on = findings.fail_on.unwrap_or(FailOn::Never);
    let failed = fail_on.status(&source.report, findings.exit_code);
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// Keeps the races that are asked for.
fn narrow(source: &mut Source, arguments: &Report) -> Result<(), Failure> {
    if let Some(id) = &arguments.race {
        let race = by_id(source.report.races.iter(), id)?.clone();
        source.report.races = vec![race];
    }
    let within = match &arguments.within {
        Some(glob) => {
            let pattern = Pattern::default().file(glob);
            Some(pattern.map_err(|error| Failure::Usage(error.to_string()))?)
        }
        None => None,
    };
    if arguments.since.is_some() && !source.is_store() {
        return Err(Failure::Usage(
            "only a store knows when a race was seen: --since needs one".to_owned(),
        ));
    }
    let mut races = std::mem::take(&mut source.report.races);
    races.retain(|race| {
        (!arguments.new || race.is_new())
            && (!arguments.harmful || is_harmful(race))
            && arguments
                .state
                .is_none_or(|state| state_of(race) == State::from(state))
            && arguments
                .since
                .is_none_or(|day| source.seen_since(race, day))
            && within.as_ref().is_none_or(|pattern| pattern.matches(race))
    });
    source.report.races = races;
    Ok(())
}

fn is_harmful(race: &Race) -> bool {
    let verdict = race.verdict.as_ref();
    verdict.is_some_and(|verdict| verdict.call.is_harmful())
}

fn state_of(race: &Race) -> State {
    race.triage
        .as_ref()
        .map_or(State::New, |triage| triage.state)
}
