//! The end of a run: what was found, what it cost, what could not be seen.

use super::{Terminal, list};
use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{count, counted, share};
use crate::outcome;
use crate::style::{Role, Style};
use redhanded_model::{Call, Class, Loss, Race, Report, Run};

/// Where the facts start.
const HANG: usize = 12;

pub(super) fn summary(terminal: &Terminal, page: &mut Page<'_>, report: &Report) {
    let style = &terminal.style;
    let run = &report.run;
    page.put(0, 2, headline(style, report));
    let (suppressed, shown): (Vec<&Race>, Vec<&Race>) =
        report.races.iter().partition(|race| race.is_suppressed());
    if shown.len() > 1 && terminal.lists {
        list::index(style, page, &shown);
        page.blank();
    }
    if !suppressed.is_empty() {
        let races = counted(suppressed.len() as u64, "race", "races");
        let text = format!("{races} that the suppression file lists:");
        fact(style, page, "suppressed", &text);
        for race in suppressed {
            let because = race.triage.as_ref().and_then(|t| t.suppressed.as_ref());
            let because = because.map_or("", |suppressed| &suppressed.because);
            let what = names::race_object(race);
            fact(
                style,
                page,
                "",
                &format!("[{}] {what}: {because}", race.id()),
            );
        }
    }
    for (label, mut text) in outcome::facts(report) {
        let benign = |race: &Race| {
            let call = race.verdict.as_ref().map(|verdict| verdict.call);
            call == Some(Call::LikelyBenign)
        };
        match label {
            // Who leaves out the list tells of verdicts, too.
            outcome::VERDICTS if !terminal.lists => continue,
            outcome::NO_RACE => text.push_str(" (--explain lists them)"),
            outcome::VERDICTS if report.races.iter().any(benign) => {
                text.push_str(" (--show benign tells those in full)");
            }
            _ => {}
        }
        fact(style, page, label, &text);
    }
    if is_observed(run) {
        losses(style, page, run);
    }
    not_seen(style, page, run);
    if report.races.is_empty() && is_observed(run) {
        silence(style, page, run);
    }
}

/// Whether threads were held, or could have been: a recording alone is not observed.
const fn is_observed(run: &Run) -> bool {
    run.recorded.is_none() || run.windows > 0
}

fn fact(style: &Style, page: &mut Page<'_>, label: &str, text: &str) {
    let line = Line::new(style)
        .column(Role::Heading, label, HANG - 4)
        .words(Role::Plain, text);
    page.put(2, HANG, line);
}

/// Races by class.
fn headline<'s>(style: &'s Style, report: &Report) -> Line<'s> {
    let of = |class| {
        let known = report.races.iter().filter(|race| !race.is_suspect());
        known.filter(|race| race.class == class).count() as u64
    };
    let suspects = report.races.iter().filter(|race| race.is_suspect()).count() as u64;
    let unknown = report
        .races
        .iter()
        .filter(|race| race.unknown_origin())
        .count() as u64;
    let mut line = Line::new(style);
    if report.races.is_empty() {
        let text = if is_observed(&report.run) {
            let windows = counted(report.run.windows, "window", "windows");
            format!("No race caught in {windows}.")
        } else {
            "No race found in the recording.".to_owned()
        };
        return line.words(Role::Good, &text);
    }
    let (races, doubts) = (of(Class::Race), of(Class::PossiblyAtomic));
    let special = of(Class::Special);
    if races > 0 {
        line = line.words(Role::Race, &counted(races, "race", "races"));
    }
    if doubts > 0 {
        if races > 0 {
            line = line.glue(Role::Plain, ",");
        }
        line = line.words(Role::Doubt, &format!("{} possibly atomic", count(doubts)));
    }
    if special > 0 {
        if races + doubts > 0 {
            line = line.glue(Role::Plain, ",");
        }
        line = line.words(Role::Doubt, &format!("{} special", count(special)));
    }
    if suspects > 0 {
        if races + doubts + special > 0 {
            line = line.glue(Role::Plain, ",");
        }
        line = line.words(Role::Doubt, &counted(suspects, "suspect", "suspects"));
    }
    if let Some(text) = outcome::in_problems(report) {
        line = line.words(Role::Plain, &text);
    }
    if unknown > 0 {
        line = line.words(
            Role::Plain,
            &format!("({} of unknown origin)", count(unknown)),
        );
    }
    line
}

/// Whether a loss concerns a trap in the other thread and not the sample.
const fn of_trap(loss: Loss) -> bool {
    matches!(
        loss,
        Loss::StaleTrap
            | Loss::NotOverlapping
            | Loss::UnknownInstruction
            | Loss::AddressDestroyed
            | Loss::KernelAccess
            | Loss::OverRead
            | Loss::OtherSpace
    )
}

/// Whether a loss concerns a site that could not be armed: there was no sample.
const fn of_site(loss: Loss) -> bool {
    matches!(loss, Loss::CodeNotWritable | Loss::TooManyBreakpoints)
}

/// The losses that happened, most frequent first. Losses of samples are shown with
/// their share of all samples; traps and sites have none.
fn losses(style: &Style, page: &mut Page<'_>, run: &Run) {
    let losses = outcome::losses(run);
    if losses.is_empty() {
        fact(style, page, "losses", "none");
        return;
    }
    let width = losses
        .iter()
        .map(|(_, number)| count(*number).len())
        .max()
        .unwrap_or(0);
    for (heading, traps) in [
        (
            "samples that showed nothing, or less than they could",
            false,
        ),
        ("traps dropped because they could not be confirmed", true),
    ] {
        let some: Vec<_> = losses
            .iter()
            .filter(|(loss, _)| of_trap(*loss) == traps)
            .collect();
        if some.is_empty() {
            continue;
        }
        fact(style, page, "losses", heading);
        for (loss, number) in some {
            let mut line = Line::new(style)
                .put(Role::Plain, &format!("{:>width$}", count(*number)))
                .words(Role::Plain, loss.describe());
            if !traps && !of_site(*loss) && *number <= run.samples {
                let share = format!("({} of samples)", share(*number, run.samples));
                line = line.words(Role::Dim, &share);
            }
            page.put(HANG, HANG + width + 1, line);
        }
    }
}

/// What the run could not see.
fn not_seen(style: &Style, page: &mut Page<'_>, run: &Run) {
    let sites = run.sites;
    let never = sites.total.saturating_sub(sites.sampled);
    if never == 0 && run.unseen.is_empty() {
        return;
    }
    let mut label = "not seen";
    if never > 0 {
        let text = format!(
            "{} of {} were never sampled ({})",
            count(never),
            counted(sites.total, "site", "sites"),
            share(never, sites.total)
        );
        fact(style, page, label, &text);
        label = "";
    }
    // What was not seen for the same reason stands together.
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for unseen in &run.unseen {
        match reasons.iter_mut().find(|(why, _)| *why == unseen.why) {
            Some((_, what)) => what.push(&unseen.what),
            None => reasons.push((&unseen.why, vec![&unseen.what])),
        }
    }
    for (why, what) in reasons {
        let line = Line::new(style)
            .column(Role::Heading, label, HANG - 4)
            .words(Role::Plain, &format!("{}:", what.join(", ")))
            .words(Role::Plain, why);
        page.put(2, HANG, line);
        label = "";
    }
}

/// What it means that no race was caught, and how to learn more.
fn silence(style: &Style, page: &mut Page<'_>, run: &Run) {
    page.blank();
    let prose = |page: &mut Page<'_>, indent, hang, text: &str| {
        page.put(indent, hang, Line::new(style).words(Role::Plain, text));
    };
    prose(page, 2, 2, outcome::SILENCE);
    for advice in outcome::advice(run) {
        let line = Line::new(style)
            .put(Role::Plain, "-")
            .words(Role::Plain, &advice);
        page.put(2, 4, line);
    }
}
