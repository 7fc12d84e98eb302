//! `redhanded analyze`: the races in a recording.
//!
//! Three passes over each process: which memory its threads share, the analyses over what
//! touches it, and what memory that was. Each holds a piece of each thread, and something for
//! each shared word.

mod allowance;
mod files;
mod modules;
mod own;
mod pairs;
mod shared;
mod sorting;

use crate::arguments::Analyze;
use crate::exit::{self, Failure};
use crate::namer::{Hired, Namer, Work};
use crate::observe::Display;
use crate::{debuginfod, run, screen};
use allowance::Allowance;
use files::Files;
use modules::Modules;
use own::{Functions, is_own_call};
use pairs::{Gathering, KnownMemory, Pair, Pairs, resolve};
use redhanded_analysis::{Event, HappensBefore, Lockset, Sequencers, What};
use redhanded_detect::{Folded, Folder};
use redhanded_image::{DebugSearch, is_within_rust_runtime};
use redhanded_model::{Analysed, Analysis, Ending, Race, Recorded, Report, Run, Unseen};
use redhanded_recording::translate::Translator;
use redhanded_recording::{Damage, Process, Recording, became_another, steps};
use redhanded_report::{Progress, Shown, Writer};
use redhanded_session::{Answer, Question};
use redhanded_store::Moment;
use redhanded_sys::renounce_debug_information;
use redhanded_verdict::{Annotations, judge};
use shared::Shared;
use sorting::Sorting;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// So many pairs of places get names. Whoever has more has other worries.
const MOST_PAIRS: usize = 2000;

/// Analyses a recording and prints what was found.
pub fn analyze(arguments: &mut Analyze) -> Result<ExitCode, Failure> {
    let memory = arguments.telling.settle(&mut arguments.remembering)?;
    let began = Moment::now();
    let annotations = arguments.telling.findings.verdicts.read()?;
    arguments.telling.documents.check()?;
    let shown = screen::shown(arguments.progress, arguments.quiet, false);
    let display = run::display(
        arguments.quiet,
        &arguments.telling.findings.detail,
        arguments.telling.findings.verdicts.shows_benign(),
        shown,
    );
    let how: Vec<Analysis> = arguments.by.iter().map(|by| (*by).into()).collect();
    let search = search(&arguments.telling.sources);
    let mut examined = examine(
        &arguments.recording,
        &how,
        &annotations,
        search,
        &display,
        shown,
    )?;
    judge(&mut examined.report, &annotations);
    // A store that fails costs nobody the report.
    let report = &mut examined.report;
    let mut failure = memory
        .keep(report, began, examined.cut_short.is_none())
        .err();
    let notes = memory.annotate(report);
    let mut text = Vec::new();
    let source = display.source();
    let store = memory.store.as_deref();
    let documents = &arguments.telling.documents;
    if let Err(unwritten) = documents.write_or_print(report, &source, store, &mut text) {
        exit::fail(&mut failure, unwritten);
    }
    if text.is_empty() && !arguments.quiet {
        let terminal = arguments
            .telling
            .terminal(screen::style_of_stdout(), &source);
        terminal.write(report, &mut text)?;
    }
    screen::print(&text)?;
    if !arguments.quiet {
        for note in notes {
            screen::say(&format!("redhanded: {note}"));
        }
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    if let Some(why) = examined.cut_short {
        return Err(Failure::Usage(format!(
            "{} is cut short or damaged ({why}); the report covers what is in it",
            arguments.recording.display()
        )));
    }
    let findings = &arguments.telling.findings;
    let fail_on = findings.fail_on.unwrap_or_default();
    let failed = fail_on.status(report, findings.exit_code);
    Ok(failed.unwrap_or(ExitCode::SUCCESS))
}

/// Where to search for debug information and sources.
pub fn search(sources: &[PathBuf]) -> DebugSearch {
    let mut search = DebugSearch {
        sources: sources.to_vec(),
        ..DebugSearch::default()
    };
    search.roots.extend(debuginfod::root());
    search
}

/// What is in a recording.
pub struct Examined {
    /// The races.
    pub report: Report,
    /// What is wrong with the recording, if it ends too early.
    pub cut_short: Option<String>,
}

/// Analyses a recording. This process must not have a second thread yet.
pub fn examine(
    path: &Path,
    how: &[Analysis],
    annotations: &Annotations,
    search: DebugSearch,
    display: &Display,
    shown: Shown,
) -> Result<Examined, Failure> {
    let recording = Recording::open(path)?;
    let files = Files::of(&recording);
    let work = Work {
        search,
        rights: files.rights(),
        ..Work::default()
    };
    let namer = Namer::start(work)?.alone()?;
    renounce_debug_information();
    let mut examination = Examination {
        recording: &recording,
        files,
        allowance: Allowance::of(&recording),
        functions: Functions::new(annotations, &recording.header().functions),
        how,
        namer,
        display,
        shown,
        folder: Folder::new(),
        recorded: Recorded::default(),
        unseen: Vec::new(),
        cut_short: recording.cut_short().map(str::to_owned),
        ends_early: false,
        modules: 0,
    };
    for process in recording.processes() {
        if process.threads().len() > 1 {
            examination.process(process);
        } else {
            // Nothing can race in it.
            examination.count(process);
        }
        if let Some(why) = examination.allowance.spent() {
            let why = why.to_owned();
            examination.unseen("the rest of the recording", why);
            break;
        }
    }
    for unseen in examination.functions.unseen() {
        examination.unseen(&unseen.what, unseen.why);
    }
    let (mut races, set_aside) = examination.folder.into_races();
    races.retain(is_told);
    let report = Report {
        run: Run {
            recorded: Some(examination.recorded),
            unseen: examination.unseen,
            cut_short: examination.cut_short.is_some() || examination.ends_early,
            ..about(&recording)
        },
        races,
        set_aside,
        quotes: display.quotes.all(),
    };
    examination.namer.dismiss()?;
    Ok(Examined {
        report,
        cut_short: examination.cut_short,
    })
}

/// The run that was recorded.
fn about(recording: &Recording) -> Run {
    let header = recording.header();
    let mut program = vec![header.program.clone()];
    program.extend(header.arguments.iter().cloned());
    let ending = recording.ending();
    let seconds = ending.map_or(0.0, |ending| ending.milliseconds as f64 / 1000.0);
    Run {
        program,
        runs: 1,
        ending: ending.and_then(|ending| match (ending.status, ending.signal) {
            (Some(status), _) => Some(Ending::Exited { status }),
            (None, Some(signal)) => Some(Ending::Killed {
                signal,
                core: false,
            }),
            (None, None) => None,
        }),
        wall_s: seconds,
        ..Run::default()
    }
}

/// How much the analyses may have to keep of some events: each word of an access, and what a
/// thread knows of all others.
fn work(events: &[Event], threads: u64) -> u64 {
    let of = |event: &Event| match event.what {
        What::Access(access) => 1 + access.bytes.len / 8,
        _ => 1 + threads / 16,
    };
    events.iter().map(of).fold(1, u64::saturating_add)
}

/// Whether a race is worth telling. How Rust's standard library keeps its own data is its own
/// business, and no call tells which locks it holds.
fn is_told(race: &Race) -> bool {
    let mut accesses = race.accesses.iter();
    !race.is_by_locks_alone() || !accesses.any(|access| is_within_rust_runtime(&access.stack))
}

struct Examination<'a> {
    recording: &'a Recording,
    files: Files,
    allowance: Allowance,
    functions: Functions<'a>,
    how: &'a [Analysis],
    namer: Hired,
    display: &'a Display,
    shown: Shown,
    folder: Folder,
    recorded: Recorded,
    unseen: Vec<Unseen>,
    cut_short: Option<String>,
    /// Whether a process was not recorded to its end, in a recording that is sound.
    ends_early: bool,
    /// Modules so far, of all processes.
    modules: u32,
}

impl Examination<'_> {
    fn unseen(&mut self, what: &str, why: impl Into<String>) {
        let unseen = Unseen {
            what: what.to_owned(),
            why: why.into(),
        };
        if !self.unseen.contains(&unseen) {
            self.unseen.push(unseen);
        }
    }

    /// Counts what is recorded of a process that is not analysed.
    fn count(&mut self, process: &Process) {
        let damage = Damage::default();
        let mut last = None;
        for step in steps(self.recording, process, &damage) {
            self.recorded.entries += 1;
            self.recorded.sequencers += u64::from(step.item.number.is_some());
            last = Some(step.item);
            if !self.allowance.allows(1) {
                break;
            }
        }
        if !became_another(last.as_slice()) {
            self.ended_early(process, &damage);
        }
        self.recorded.processes += 1;
        self.recorded.threads += process.threads().len() as u64;
    }

    /// Says that what threads of a process did last is not known, if it is not.
    fn ended_early(&mut self, process: &Process, damage: &Damage) {
        let Some(why) = damage.get() else {
            return;
        };
        let stopped = self.recording.ending().and_then(|end| end.stopped.as_ref());
        if damage.is_early_end() && self.recording.cut_short().is_none() {
            let why = match stopped {
                Some(why) => format!("the recording was stopped, because {why}"),
                None => {
                    "it was killed or outlived the program, and what it had not written by then \
                         is lost"
                        .to_owned()
                }
            };
            let what = format!("the last that process {} did", process.hello().process);
            self.unseen(&what, why);
            self.ends_early = true;
        } else {
            self.cut_short.get_or_insert(why);
        }
    }

    fn process(&mut self, process: &Process) {
        let total = self.recording.size(process);
        let progress = Progress::bytes(self.shown, "analysing", total.saturating_mul(3));
        let started = self.recording.header().started;
        let modules = Modules::of(process, &self.files, started, &mut self.modules);
        for question in modules.tell() {
            self.namer.asker.tell(&question);
        }
        for path in modules.changed() {
            let why = "changed after the recording was made, so its names are not used";
            self.unseen(path, why);
        }
        let shared = Shared::of(self.recording, process, &progress, &mut self.allowance);
        let (pairs, translator) = self.pairs(process, &modules, &shared, &progress);
        self.recorded.processes += 1;
        self.recorded.threads += translator.tasks().len() as u64;
        let mut trusted = true;
        if translator.lost() > 0 {
            trusted = false;
            let why = "what the recorder lost may have ordered any two accesses";
            self.unseen(&format!("{} lost entries", translator.lost()), why);
        }
        if shared.is_full() {
            trusted = false;
            self.unseen(
                "part of the memory",
                "the program uses more than can be kept track of",
            );
        }
        let mut pairs = pairs;
        if !trusted {
            pairs.distrust();
        }
        let mut pairs = pairs.finish();
        if pairs.len() > MOST_PAIRS {
            let more = pairs.len() - MOST_PAIRS;
            self.unseen(&format!("{more} pairs of places"), "too many to name");
            pairs.truncate(MOST_PAIRS);
        }
        let places = resolve(
            self.recording,
            process,
            &self.functions.owns,
            &mut pairs,
            &progress,
        );
        progress.finish();
        for (pair, place) in pairs.iter().zip(places) {
            self.add(process, &modules, pair, &place, &translator);
        }
    }

    /// Runs the analyses.
    fn pairs<'p>(
        &mut self,
        process: &'p Process,
        modules: &Modules<'_>,
        shared: &Shared,
        progress: &Progress,
    ) -> (Pairs, Translator<'p>) {
        let mut judge = Sorting::new(process, modules, shared, &mut self.namer.asker);
        let mut translator = Translator::new(process).with(&self.functions.owns);
        let has = |analysis| self.how.contains(&analysis);
        let mut happens_before = has(Analysis::HappensBefore).then(HappensBefore::default);
        let mut sequencers = has(Analysis::Sequencers).then(Sequencers::default);
        let mut lockset = has(Analysis::Lockset).then(Lockset::default);
        let damage = Damage::default();
        let mut events: Vec<Event> = Vec::new();
        let mut last: HashMap<_, u64> = HashMap::new();
        let mut entries = 0u64;
        let mut is_over = false;
        for step in steps(self.recording, process, &damage) {
            entries += 1;
            progress.advance(16);
            self.recorded.sequencers += u64::from(step.item.number.is_some());
            translator.step(&step, &mut judge, &mut events);
            if translator.is_full() {
                is_over = true;
            }
            let threads = translator.tasks().len() as u64;
            if is_over || !self.allowance.allows(work(&events, threads)) {
                is_over = true;
                break;
            }
            // Nobody's word makes a race: memory that is said to be another variable by now may
            // have ordered threads before.
            let is_annotated = translator.is_annotated();
            let is_said = |event: &Event| {
                let is_memory = matches!(event.what, What::Allocate { .. } | What::Free { .. });
                is_memory && is_own_call(&step.item)
            };
            for event in events.drain(..) {
                if let Some(number) = event.number {
                    last.insert(event.thread, number);
                }
                if let Some(analysis) = &mut happens_before
                    && !is_said(&event)
                {
                    analysis.push(&event);
                }
                if let Some(analysis) = &mut sequencers
                    && !is_said(&event)
                {
                    analysis.push(&event);
                }
                if let Some(analysis) = &mut lockset
                    && (event.access().is_none() || (judge.is_own(event.place) && !is_annotated))
                {
                    analysis.push(&event);
                }
            }
        }
        self.recorded.entries += entries;
        self.functions.note(translator.called());
        let mut pairs = Gathering::new(&mut judge, modules);
        if let Some(analysis) = happens_before {
            pairs.add_findings(Analysis::HappensBefore, analysis.finish());
        }
        if let Some(analysis) = sequencers {
            pairs.add_findings(Analysis::Sequencers, analysis.finish());
        }
        let mut left_out = 0;
        if let Some(analysis) = lockset {
            left_out = analysis.left_out();
            pairs.add_suspicions(analysis.finish());
        }
        let mut pairs = pairs.finish();
        if translator.is_full() {
            let why = format!("only {} threads are told apart", translator.tasks().len());
            self.unseen("the rest of a process", why);
        }
        if left_out > 0 {
            let what = format!("{left_out} accesses, by lockset");
            self.unseen(&what, "their threads held more locks than are told apart");
        }
        if is_over {
            pairs.distrust_from(&last);
        }
        if damage.get().is_some() {
            // What an unfinished region did later is not known.
            pairs.distrust_from(&last);
            if !shared.became_another() {
                self.ended_early(process, &damage);
            }
        }
        (pairs, translator)
    }

    /// Has a pair named and judged.
    fn add(
        &mut self,
        process: &Process,
        modules: &Modules<'_>,
        pair: &Pair,
        place: &KnownMemory,
        translator: &Translator<'_>,
    ) {
        let analysed = Analysed {
            standing: pair.standing,
            by: pair.by.clone(),
        };
        let collision = pair.collision(process, modules, place, translator, &analysed);
        let question = Question::Collision(Box::new(collision));
        let answer = self.namer.asker.ask(&question, || {});
        if let Some(Answer::Finding {
            finding, quotes, ..
        }) = answer
        {
            for quote in &quotes {
                self.display.quotes.add(quote);
            }
            let folded = self.folder.fold(finding);
            if !matches!(folded, Folded::SetAside) {
                self.folder.analysed(folded, &analysed, pair.instances);
            }
        }
    }
}
