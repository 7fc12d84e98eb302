//! The end of a run: what was found, what it cost, what could not be seen.

use crate::layout::{Line, Page};
use crate::names;
use crate::numbers::{count, counted, percent, seconds, share, times};
use crate::style::{Role, Style};
use redhanded_model::{Class, Loss, Report, Run};

/// Where the facts start.
const HANG: usize = 12;

pub(super) fn summary(style: &Style, page: &mut Page<'_>, report: &Report) {
    let run = &report.run;
    page.put(0, 2, headline(style, report));
    if report.races.len() > 1 {
        index(style, page, report);
        page.blank();
    }
    fact(style, page, "program", &program(run));
    fact(style, page, "samples", &samples(run));
    fact(
        style,
        page,
        "held",
        &format!(
            "{}, {} of {} of thread time",
            seconds(run.held_s),
            percent(run.overhead_estimate()),
            seconds(run.thread_s)
        ),
    );
    if let Some(standstill) = run.standstill {
        let mut text = format!("no CPU ran for {}", seconds(standstill.total_s));
        if let Some(median) = standstill.window_s {
            text.push_str(&format!("; median of a window {}", seconds(median)));
        }
        fact(style, page, "stopped", &text);
    }
    let sites = run.sites;
    fact(
        style,
        page,
        "sites",
        &format!(
            "{} in total, {} armed ({}), {} sampled ({})",
            count(sites.total),
            count(sites.armed),
            share(sites.armed, sites.total),
            count(sites.sampled),
            share(sites.sampled, sites.total)
        ),
    );
    losses(style, page, run);
    not_seen(style, page, run);
    if report.races.is_empty() {
        silence(style, page, run);
    }
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
            counted(report.run.windows, "window", "windows")
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

/// One line for each race: an index to the pages of stacks above.
fn index(style: &Style, page: &mut Page<'_>, report: &Report) {
    let number = report.races.len().to_string().len();
    for (at, race) in report.races.iter().enumerate() {
        let what = names::object(&race.what).unwrap_or_else(|| race.what.region.to_string());
        let mut line = Line::new(style)
            .put(Role::Plain, &format!("{:>number$}", at + 1))
            .put(Role::Dim, &format!("[{}]", race.id()))
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

fn program(run: &Run) -> String {
    let mut text = if run.program.is_empty() {
        "not named".to_owned()
    } else {
        run.program.join(" ")
    };
    if run.runs > 1 {
        text.push_str(&format!(", {}", counted(run.runs, "run", "runs")));
    }
    if run.cut_off > 0 {
        text.push_str(&format!(", {} cut off by --each", count(run.cut_off)));
    }
    text.push_str(&format!(", {}", seconds(run.wall_s)));
    if let Some(ending) = &run.ending {
        text.push_str(&format!(", {ending}"));
    }
    text
}

fn samples(run: &Run) -> String {
    format!(
        "{} ({:.0}/s), {}",
        count(run.samples),
        run.samples_per_s(),
        counted(run.windows, "window", "windows")
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

/// Whether a loss concerns a site that could not be armed: there was no sample.
const fn of_site(loss: Loss) -> bool {
    matches!(loss, Loss::CodeNotWritable | Loss::TooManyBreakpoints)
}

/// The losses that happened, most frequent first. Losses of samples are shown with
/// their share of all samples; traps and sites have none.
fn losses(style: &Style, page: &mut Page<'_>, run: &Run) {
    let mut losses: Vec<(Loss, u64)> = run
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
    for unseen in &run.unseen {
        let line = Line::new(style)
            .column(Role::Heading, label, HANG - 4)
            .put(Role::Plain, &format!("{}:", unseen.what))
            .words(Role::Plain, &unseen.why);
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
    prose(
        page,
        2,
        2,
        "Silence is no proof: a race is caught only if another thread accesses the bytes while \
         one is held at its access.",
    );
    for advice in advice(run) {
        let line = Line::new(style)
            .put(Role::Plain, "-")
            .words(Role::Plain, &advice);
        page.put(2, 4, line);
    }
}

fn advice(run: &Run) -> Vec<String> {
    let mut advice = Vec::new();
    let sites = run.sites;
    let lost = |loss| run.losses.get(loss);
    let many = |loss| lost(loss) > 0 && lost(loss) >= run.samples / 10;
    // A virtual machine runs once, and may be held all the time.
    let is_kernel = run.standstill.is_some();
    let more = if is_kernel {
        "longer (--for 10m) and with other workloads"
    } else {
        "longer (--for 60s) or more often (--repeat 100), with other input, and with a larger share \
         of its time (--overhead 20%)"
    };
    if sites.total == 0 {
        advice.push(
            "There was nothing to sample: no code of the program was selected. \
             `redhanded sites PROGRAM` shows what can be."
                .to_owned(),
        );
    } else if run.samples == 0 && is_kernel {
        advice.push(
            "No site was reached: give the machine a workload that runs the code in question."
                .to_owned(),
        );
    } else if run.samples == 0 {
        advice.push(
            "No site was reached: the program may have ended too soon. Run it repeatedly with \
             --repeat 100 or --for 30s."
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
            "The budget was often used up: allow more with --overhead 20%, or sample longer with \
             --for."
                .to_owned(),
        );
    }
    if run.samples > 0 && sites.sampled < sites.total {
        advice.push(format!(
            "{} of {} were sampled: run {more}.",
            count(sites.sampled),
            counted(sites.total, "site", "sites")
        ));
    }
    if run.windows > 0 && advice.is_empty() {
        advice.push(format!("Run {more}."));
    }
    advice
}
