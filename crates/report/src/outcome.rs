//! What a run came to, in words: what was done, what it cost, what was lost, and what to try
//! if nothing was found.

use crate::numbers::{count, counted, percent, seconds, share};
use crate::problems::problems;
use redhanded_model::{Call, Class, HuntOutcome, Hunted, Loss, Report, Run, State, Triage};

/// The label of what the races were judged to be.
pub(crate) const VERDICTS: &str = "verdicts";

/// The label of what was seen and is no race.
pub(crate) const NO_RACE: &str = "no race";

/// What it means that no race was caught.
pub(crate) const SILENCE: &str = "Silence is no proof: a race is caught only if another thread \
    accesses the bytes while one is held at its access.";

/// The run in a few lines, each with its label.
pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let run = &report.run;
    let held = format!(
        "{}, {} of {} of thread time",
        seconds(run.held_s),
        percent(run.overhead_estimate()),
        seconds(run.thread_s)
    );
    let sites = run.sites;
    let sites = format!(
        "{} in total, {} armed ({}), {} sampled ({})",
        count(sites.total),
        count(sites.armed),
        share(sites.armed, sites.total),
        count(sites.sampled),
        share(sites.sampled, sites.total)
    );
    let verdicts = verdicts(report).map(|text| (VERDICTS, text));
    let mut facts: Vec<_> = verdicts.into_iter().collect();
    facts.push(("program", program(run)));
    if let Some(recorded) = run.recorded {
        let text = format!(
            "{} with {}, {} of which {} are sequencers",
            counted(recorded.processes, "process", "processes"),
            counted(recorded.threads, "thread", "threads"),
            counted(recorded.entries, "entry", "entries"),
            count(recorded.sequencers)
        );
        facts.push(("recorded", text));
        if run.windows == 0 {
            facts.extend(set_aside(report).map(|text| (NO_RACE, text)));
            return facts;
        }
    }
    facts.extend([("samples", samples(run)), ("held", held)]);
    if let Some(standstill) = run.standstill {
        let mut text = format!("no CPU ran for {}", seconds(standstill.total_s));
        if let Some(median) = standstill.window_s {
            text.push_str(&format!("; median of a window {}", seconds(median)));
        }
        facts.push(("stopped", text));
    }
    facts.push(("sites", sites));
    facts.extend(suspects(run));
    facts.extend(set_aside(report).map(|text| (NO_RACE, text)));
    facts
}

/// What came of a hunt: in all, and of each suspect.
fn suspects(run: &Run) -> Vec<(&'static str, String)> {
    let all = &run.candidates;
    if all.is_empty() {
        return Vec::new();
    }
    let of = |outcome: HuntOutcome| all.iter().filter(|one| one.outcome() == outcome).count();
    let outcomes = [
        (HuntOutcome::Caught, "caught"),
        (HuntOutcome::NotCaught, "not caught"),
        (HuntOutcome::NeverHeld, "never held"),
        (HuntOutcome::NeverReached, "never reached"),
        (HuntOutcome::NotFound, "not found"),
    ];
    let parts: Vec<String> = outcomes
        .into_iter()
        .filter(|(outcome, _)| of(*outcome) > 0)
        .map(|(outcome, words)| format!("{} {words}", of(outcome)))
        .collect();
    let mut lines = vec![("suspects", parts.join(", "))];
    lines.extend(all.iter().map(|one| ("", suspect(one))));
    lines
}

/// What came of one suspect.
fn suspect(one: &Hunted) -> String {
    let pair = format!("{} | {}", one.sides[0], one.sides[1]);
    let became = match (one.outcome(), &one.race) {
        (HuntOutcome::Caught, race) => {
            format!("caught as [{}]", race.as_deref().unwrap_or_default())
        }
        (HuntOutcome::NotCaught, _) => {
            let holds = one.holds[0].saturating_add(one.holds[1]);
            let held = seconds(one.held_s);
            format!("not caught in {} ({held})", counted(holds, "hold", "holds"))
        }
        (HuntOutcome::NeverHeld, _) => {
            let times = counted(one.reached, "time", "times");
            format!("reached {times}, and nobody could be held there")
        }
        (HuntOutcome::NeverReached, _) => "never reached".to_owned(),
        (HuntOutcome::NotFound, _) => "no code that can be sampled was found there".to_owned(),
    };
    format!("{pair}: {became}")
}

/// `1 likely harmful, 2 undecided`, if the races were judged.
fn verdicts(report: &Report) -> Option<String> {
    let of = |call: Call| {
        let calls = report.races.iter().filter_map(|race| race.verdict.as_ref());
        calls.filter(|verdict| verdict.call == call).count()
    };
    let parts: Vec<String> = Call::ALL
        .into_iter()
        .filter(|call| of(*call) > 0)
        .map(|call| format!("{} {}", of(call), call.name()))
        .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// How a race stands, in words.
pub(crate) fn standing(triage: &Triage) -> String {
    let state = match (triage.state, triage.new) {
        (State::New, false) => "known",
        (state, _) => state.name(),
    };
    match &triage.suppressed {
        Some(_) => format!("{state}, suppressed"),
        None => state.to_owned(),
    }
}

/// `in 2 problems`, if some of the races are one.
pub(crate) fn in_problems(report: &Report) -> Option<String> {
    let problems = problems(&report.races).len();
    let text = || format!("in {}", counted(problems as u64, "problem", "problems"));
    (problems < report.races.len()).then(text)
}

/// The losses that happened, most frequent first.
pub(crate) fn losses(run: &Run) -> Vec<(Loss, u64)> {
    let losses = run.losses.0.iter().map(|(loss, count)| (*loss, *count));
    let mut losses: Vec<_> = losses.filter(|(_, count)| *count > 0).collect();
    losses.sort_by_key(|(loss, count)| (std::cmp::Reverse(*count), *loss));
    losses
}

/// Collisions that are no races.
fn set_aside(report: &Report) -> Option<String> {
    let of = |class| -> u64 {
        let those = report.set_aside.iter().filter(|race| race.class == class);
        those.map(|race| race.instances).sum()
    };
    let (wider, synchronised) = (of(Class::WiderThanSource), of(Class::Synchronised));
    let mut parts = Vec::new();
    if synchronised > 0 {
        let collisions = counted(synchronised, "collision", "collisions");
        parts.push(format!("{collisions} where both sides synchronise"));
    }
    if wider > 0 {
        let collisions = counted(wider, "collision", "collisions");
        parts.push(format!(
            "{collisions} on bytes that only the compiler accesses, wider than the source"
        ));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
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

/// What to try next.
pub(crate) fn advice(run: &Run) -> Vec<String> {
    let mut advice = Vec::new();
    let sites = run.sites;
    let lost = |loss| run.losses.get(loss);
    let many = |loss| lost(loss) > 0 && lost(loss) >= run.samples / 10;
    // A virtual machine runs once, and may be held all the time.
    let is_kernel = run.standstill.is_some();
    let more = if is_kernel {
        "longer (--for 10m) and with other workloads"
    } else if !run.candidates.is_empty() {
        "more often (--repeat 20) and hold threads for longer (--delay 10s)"
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
