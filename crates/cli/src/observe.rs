//! Observing a program, once or again and again: the session on this thread,
//! naming and folding on another, because reading debug information takes longer
//! than a thread may be held.

use crate::exit::Failure;
use redhanded_detect::{Collision, Counts, Folded, Folder, Options, Outcome, Random, Sink, watch};
use redhanded_image::Image;
use redhanded_model::{Class, Race, RunReport, Unseen};
use redhanded_report::{Progress, Tally, Terminal};
use redhanded_target::driver::Driver;
use redhanded_target::images::{Images, Selected};
use redhanded_target::process::{Process, Program, Signals};
use redhanded_target::{Ending, Module};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// A program that is cut off in the middle of a repetition may end by itself
/// this long before it is called left running.
const GRACE: Duration = Duration::from_secs(1);

/// What is to be observed, and how.
pub struct Observation {
    pub program: Program,
    pub images: Arc<Images>,
    pub signals: Arc<Signals>,
    pub options: Options,
    pub seed: u64,
    /// Look for this long in sum.
    pub until: Option<Duration>,
    /// Run it so often at most; `None` with a time means until then.
    pub repeat: Option<u64>,
    pub kill: bool,
    pub max_windows: Option<u64>,
    pub max_races: Option<u64>,
    /// Called with each race as it is found: whether that is enough.
    pub on_race: Option<OnRace>,
}

/// How it is shown meanwhile.
pub struct Display {
    pub terminal: Terminal,
    pub progress: Progress,
    pub announce: bool,
    pub show_indexing: bool,
}

impl Display {
    /// Indexes an image, with a progress bar if it takes a while.
    pub fn index(&self, image: &Image) {
        self.progress
            .suspend(|| crate::sites::index(image, self.show_indexing));
    }
}

/// Observes it. The report, and how the program ended.
pub fn observe(
    mut observation: Observation,
    display: &Arc<Display>,
) -> Result<(RunReport, Ending), Failure> {
    let (sender, receiver) = mpsc::channel();
    let found = Arc::new(AtomicU64::new(0));
    let fold = {
        let (display, found) = (Arc::clone(display), Arc::clone(&found));
        let most = observation.max_races;
        let on_race = observation.on_race.take();
        std::thread::spawn(move || fold(&receiver, &display, &found, most, on_race))
    };
    let sink = Pipe {
        sender,
        found,
        most: observation.max_races.unwrap_or(u64::MAX),
        windows_before: 0,
        started: Instant::now(),
        display: Arc::clone(display),
        races: 0,
        total: Counts::default(),
    };
    let result = repeat(&observation, sink);
    let races = fold.join().unwrap_or_default();
    display.progress.finish();
    let (mut report, ending) = result?;
    report.races = races;
    Ok((report, ending))
}

fn repeat(observation: &Observation, mut sink: Pipe) -> Result<(RunReport, Ending), Failure> {
    let started = Instant::now();
    let mut random = Random::new(observation.seed);
    let mut report = RunReport {
        program: observation
            .program
            .arguments
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        ..RunReport::default()
    };
    let mut unseen = BTreeMap::new();
    let mut ending = Ending::Exited(0);
    let runs = match (observation.repeat, observation.until) {
        (Some(runs), _) => runs,
        (None, Some(_)) => u64::MAX,
        (None, None) => 1,
    };
    for _ in 0..runs {
        let left = observation
            .until
            .map(|until| until.saturating_sub(started.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let run = Run {
            observation,
            until: left,
            max_windows: observation
                .max_windows
                .map(|most| most.saturating_sub(report.windows)),
            random: Random::new(random.bits()),
        };
        let (outcome, counts, ended) = run.once(&mut sink, &mut unseen)?;
        report.runs += 1;
        add(&mut report, &counts);
        sink.windows_before = report.windows;
        sink.total = total(&report);
        if ended != Ending::Exited(0) && ending == Ending::Exited(0) {
            ending = ended;
        }
        if !matches!(outcome, Outcome::Ended(_)) {
            break;
        }
    }
    report.wall_s = started.elapsed().as_secs_f64();
    report.ending = Some(describe(ending));
    report.unseen = unseen
        .into_iter()
        .map(|(what, why)| Unseen { what, why })
        .collect();
    Ok((report, ending))
}

struct Run<'a> {
    observation: &'a Observation,
    until: Option<Duration>,
    max_windows: Option<u64>,
    random: Random,
}

impl Run<'_> {
    /// Runs the program once.
    fn once(
        self,
        sink: &mut Pipe,
        unseen: &mut BTreeMap<String, String>,
    ) -> Result<(Outcome, Counts, Ending), Failure> {
        let observation = self.observation;
        let mut process = Process::launch(
            &observation.program,
            Arc::clone(&observation.images),
            Arc::clone(&observation.signals),
        )?;
        if let Some(refused) = process.watch_refused().map(str::to_owned)
            && !observation.options.strategy.rereads()
        {
            // Nobody asked for it to run unobserved.
            process.kill();
            process.wait_for_end();
            return Err(Failure::Usage(format!(
                "perf events were refused ({refused}), so --detect watch is impossible; run as \
                 root, set kernel.perf_event_paranoid to 2, or use --detect reread"
            )));
        }
        let mut options = observation.options;
        options.until = self.until;
        options.max_windows = self.max_windows;
        let images = &observation.images;
        let sites = |module: &Module| -> Option<Arc<Selected>> {
            Some(images.sites(module.image.as_ref()?))
        };
        let mut driver = Driver::new(process);
        let result = watch(&mut driver, &sites, options, self.random, sink);
        let mut process = driver.into_machine();
        note_unseen(&process, images, unseen);
        let (outcome, counts) = result?;
        let ending = match outcome {
            Outcome::Ended(ending) => ending,
            Outcome::Enough => {
                process.detach();
                if observation.kill {
                    process.kill();
                    process.wait_for_end();
                    Ending::EndedByUs
                } else {
                    process.wait_at_most(GRACE)
                }
            }
            Outcome::Interrupted { signal, by_process } => {
                process.detach();
                // The terminal sent its signal to the program as well.
                if by_process {
                    process.signal(signal);
                }
                process.wait_for_end()
            }
        };
        Ok((outcome, counts, ending))
    }
}

fn note_unseen(process: &Process, images: &Images, unseen: &mut BTreeMap<String, String>) {
    use redhanded_target::Machine;
    for note in process.unseen() {
        unseen.insert(note.what, note.why);
    }
    for module in process.modules() {
        if let Some(image) = &module.image
            && let Some(why) = images.sites(image).why_none.clone()
        {
            unseen.insert(module.name.clone(), why);
        }
    }
}

fn add(report: &mut RunReport, counts: &Counts) {
    report.samples += counts.samples;
    report.windows += counts.windows;
    report.held_s += counts.held.as_secs_f64();
    report.thread_s += counts.thread_time.as_secs_f64();
    report.losses.merge(&counts.losses);
    report.sites.total = report.sites.total.max(counts.sites.total);
    report.sites.armed = report.sites.armed.max(counts.sites.armed);
    report.sites.sampled = report.sites.sampled.max(counts.sites.sampled);
}

fn total(report: &RunReport) -> Counts {
    Counts {
        samples: report.samples,
        windows: report.windows,
        held: Duration::from_secs_f64(report.held_s),
        thread_time: Duration::from_secs_f64(report.thread_s),
        sites: report.sites,
        losses: report.losses.clone(),
    }
}

fn describe(ending: Ending) -> String {
    match ending {
        Ending::Exited(status) => format!("exited with status {status}"),
        Ending::Killed { signal, core } => {
            let dumped = if core { ", core dumped" } else { "" };
            format!("killed by signal {signal}{dumped}")
        }
        Ending::EndedByUs => "ended by --kill".to_owned(),
        Ending::LeftRunning => "left running".to_owned(),
    }
}

/// A sink that hands collisions to the folding thread.
struct Pipe {
    sender: Sender<(Collision, u64)>,
    found: Arc<AtomicU64>,
    most: u64,
    windows_before: u64,
    started: Instant,
    display: Arc<Display>,
    races: u64,
    total: Counts,
}

impl Sink for Pipe {
    fn collision(&mut self, collision: Collision) {
        // The folder lives as long as we do; if it panicked, the run goes on so
        // that the target's text is restored in the ordinary way.
        let _ = self.sender.send((collision, self.windows_before));
    }

    fn progress(&mut self, counts: &Counts) {
        self.races = self.found.load(Ordering::Relaxed);
        let held = (self.total.held + counts.held).as_secs_f64();
        let time = (self.total.thread_time + counts.thread_time).as_secs_f64();
        self.display.progress.update(&Tally {
            elapsed: self.started.elapsed(),
            samples: self.total.samples + counts.samples,
            held: if time > 0.0 { held / time } else { 0.0 },
            sites_sampled: counts.sites.sampled.max(self.total.sites.sampled),
            sites_total: counts.sites.total,
            races: self.races.min(self.most),
        });
    }

    fn enough(&self) -> bool {
        self.found.load(Ordering::Relaxed) >= self.most
    }
}

type OnRace = Box<dyn FnMut(&Race) -> bool + Send>;

/// Names and folds collisions until the session is over.
fn fold(
    collisions: &Receiver<(Collision, u64)>,
    display: &Display,
    found: &AtomicU64,
    most: Option<u64>,
    mut on_race: Option<OnRace>,
) -> Vec<Race> {
    let mut folder = Folder::new();
    for (collision, windows_before) in collisions {
        let windows = windows_before + collision.record.id.0;
        let Folded::New(index) = folder.add(&collision) else {
            continue;
        };
        let Some(race) = folder.races().get(index) else {
            continue;
        };
        if display.announce {
            display.progress.suspend(|| {
                let mut text = Vec::new();
                let _ = display.terminal.race(&mut text, race, windows);
                let _ = std::io::stderr().write_all(&text);
            });
        }
        if race.class == Class::Race {
            found.fetch_add(1, Ordering::Relaxed);
        }
        if on_race.as_mut().is_some_and(|enough| enough(race)) {
            found.store(most.unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }
    folder.into_races()
}
