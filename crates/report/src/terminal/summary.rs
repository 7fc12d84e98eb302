//! The end of a run: what was found, what it cost, what could not be seen.

use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{count, counted, percent, seconds, share, times};
use crate::style::{Role, Style};
use redhanded_model::{Class, Loss, RunReport};

/// Where the facts start.
const HANG: usize = 12;

pub(super) fn summary(style: &Style, page: &mut Page<'_>, report: &RunReport) {
    page.put(0, 2, verdict(style, report));
    if report.races.len() > 1 {
        index(style, page, report);
        page.blank();
    }
    fact(style, page, "program", &program(report));
    fact(style, page, "samples", &samples(report));
    fact(
        style,
        page,
        "held",
        &format!(
            "{}, {} of {} thread time",
            seconds(report.held_s),
            percent(report.overhead_estimate()),
            seconds(report.thread_s)
        ),
    );
    if let Some(standstill) = report.standstill {
        let mut text = format!("{} in which no CPU ran", seconds(standstill.total_s));
        if let Some(median) = standstill.window_s {
            text.push_str(&format!(
                ", {} in half of the windows or less",
                seconds(median)
            ));
        }
        fact(style, page, "stopped", &text);
    }
    let sites = report.sites;
    fact(
        style,
        page,
        "sites",
        &format!(
            "{} in all, {} armed ({}), {} sampled ({})",
            count(sites.total),
            count(sites.armed),
            share(sites.armed, sites.total),
            count(sites.sampled),
            share(sites.sampled, sites.total)
        ),
    );
    losses(style, page, report);
    not_seen(style, page, report);
    if report.races.is_empty() {
        silence(style, page, report);
    }
}

fn fact(style: &Style, page: &mut Page<'_>, label: &str, text: &str) {
    let line = Line::new(style)
        .column(Role::Heading, label, HANG - 4)
        .words(Role::Plain, text);
    page.put(2, HANG, line);
}

/// Races by class.
fn verdict<'s>(style: &'s Style, report: &RunReport) -> Line<'s> {
    let of = |class| {
        report
            .races
            .iter()
            .filter(|race| race.class == class)
            .count() as u64
    };
    let unknown = report
        .races
        .iter()
        .filter(|race| race.unknown_origin())
        .count() as u64;
    let mut line = Line::new(style);
    if report.races.is_empty() {
        let text = format!(
            "No race caught in {}.",
            counted(report.windows, "window", "windows")
        );
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
    if unknown > 0 {
        line = line.words(
            Role::Plain,
            &format!("({} of unknown origin)", count(unknown)),
        );
    }
    line
}

/// One line for each race: after pages of stacks, the way back to each.
fn index(style: &Style, page: &mut Page<'_>, report: &RunReport) {
    let number = report.races.len().to_string().len();
    for (at, race) in report.races.iter().enumerate() {
        let what = names::object(&race.what).unwrap_or_else(|| names::region(&race.what.region));
        let mut line = Line::new(style)
            .put(Role::Plain, &format!("{:>number$}", at + 1))
            .put(Role::Dim, &format!("[{}]", race.id))
            .put(Role::Name, &format!("{what}:"));
        for (at, access) in race.accesses.iter().enumerate() {
            let function = match &access.function {
                Some(name) => names::shorten(name, 32, style.ellipsis()),
                None => names::code_address(access),
            };
            let comma = if at > 0 { "/ " } else { "" };
            line = line.put(
                Role::Plain,
                &format!("{comma}{} in {function}", access.kind.name()),
            );
        }
        if race.unknown_origin() {
            line = line.put(Role::Plain, "/ unknown origin");
        }
        line = line
            .glue(Role::Plain, ",")
            .put(Role::Plain, &times(race.instances));
        if race.class == Class::PossiblyAtomic {
            line = line
                .glue(Role::Plain, ",")
                .put(Role::Doubt, "possibly atomic");
        }
        if race.class == Class::Special {
            line = line.glue(Role::Plain, ",").put(Role::Doubt, "special");
        }
        page.put(2, 4 + number, line);
    }
}

fn program(report: &RunReport) -> String {
    let mut text = if report.program.is_empty() {
        "not named".to_owned()
    } else {
        report.program.join(" ")
    };
    if report.runs > 1 {
        text.push_str(&format!(", {}", counted(report.runs, "run", "runs")));
    }
    if report.cut_off > 0 {
        text.push_str(&format!(", {} cut off by --each", count(report.cut_off)));
    }
    text.push_str(&format!(", {}", seconds(report.wall_s)));
    if let Some(ending) = &report.ending {
        text.push_str(&format!(", {ending}"));
    }
    text
}

fn samples(report: &RunReport) -> String {
    format!(
        "{} ({:.0}/s), {}",
        count(report.samples),
        report.samples_per_s(),
        counted(report.windows, "window", "windows")
    )
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

/// The losses that happened, most frequent first. Those of samples have a share;
/// nobody counts the traps that were none.
fn losses(style: &Style, page: &mut Page<'_>, report: &RunReport) {
    let mut losses: Vec<(Loss, u64)> = report
        .losses
        .0
        .iter()
        .map(|(loss, count)| (*loss, *count))
        .filter(|(_, count)| *count > 0)
        .collect();
    losses.sort_by_key(|(loss, count)| (std::cmp::Reverse(*count), *loss));
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
        ("samples that said less than they might", false),
        ("traps set aside because they could not be confirmed", true),
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
            if !traps && *number <= report.samples {
                let share = format!("({} of samples)", share(*number, report.samples));
                line = line.words(Role::Dim, &share);
            }
            page.put(HANG, HANG + width + 1, line);
        }
    }
}

/// What the run was blind to.
fn not_seen(style: &Style, page: &mut Page<'_>, report: &RunReport) {
    let sites = report.sites;
    let never = sites.total.saturating_sub(sites.sampled);
    if never == 0 && report.unseen.is_empty() {
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
    for unseen in &report.unseen {
        let line = Line::new(style)
            .column(Role::Heading, label, HANG - 4)
            .put(Role::Plain, &format!("{}:", unseen.what))
            .words(Role::Plain, &unseen.why);
        page.put(2, HANG, line);
        label = "";
    }
}

/// What silence means, and what would make it mean more.
fn silence(style: &Style, page: &mut Page<'_>, report: &RunReport) {
    page.blank();
    let prose = |page: &mut Page<'_>, indent, hang, text: &str| {
        page.put(indent, hang, Line::new(style).words(Role::Plain, text));
    };
    prose(
        page,
        2,
        2,
        "Silence is no proof: a race shows only if another thread comes along while one is \
         held at its access.",
    );
    for advice in advice(report) {
        let line = Line::new(style)
            .put(Role::Plain, "-")
            .words(Role::Plain, &advice);
        page.put(2, 4, line);
    }
}

fn advice(report: &RunReport) -> Vec<String> {
    let mut advice = Vec::new();
    let sites = report.sites;
    let lost = |loss| report.losses.get(loss);
    let many = |loss| lost(loss) > 0 && lost(loss) >= report.samples / 10;
    // A virtual machine is run once, and may be held all the time.
    let is_kernel = report.standstill.is_some();
    let more = if is_kernel {
        "longer (--for 10m) and with other workloads"
    } else {
        "longer (--for 60s) or more often (--repeat 100), with other input, and with a larger share \
         of its time (--overhead 20%)"
    };
    if sites.total == 0 {
        advice.push(
            "There was nothing to sample: no code of the program was selected. See what \
             `redhanded sites PROGRAM` counts."
                .to_owned(),
        );
    } else if report.samples == 0 && is_kernel {
        advice.push(
            "No site was reached: give the machine a workload that runs the code in question."
                .to_owned(),
        );
    } else if report.samples == 0 {
        advice.push(
            "No site was reached: the program may have ended too soon. Run it again and again \
             with --repeat 100 or --for 30s."
                .to_owned(),
        );
    }
    if many(Loss::Alone) {
        advice.push(format!(
            "{} found no other thread: give the program input that keeps several threads at work.",
            counted(lost(Loss::Alone), "sample", "samples")
        ));
    }
    if many(Loss::OverBudget) {
        advice.push(
            "The budget was used up often: allow more with --overhead 20%, or sample longer with \
             --for."
                .to_owned(),
        );
    }
    if report.samples > 0 && sites.sampled < sites.total {
        advice.push(format!(
            "{} of {} were sampled: run {more}.",
            count(sites.sampled),
            counted(sites.total, "site", "sites")
        ));
    }
    if report.windows > 0 && advice.is_empty() {
        advice.push(format!("Run {more}."));
    }
    advice
}
