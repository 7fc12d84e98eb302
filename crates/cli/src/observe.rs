//! Observing a program with two processes: the tracer, and this one in front, which
//! names, folds and shows what the tracer finds. Reading debug information takes
//! longer than a thread may be held, and nothing that goes wrong with it must
//! touch the program.

use crate::exit::{FAILED, Failure};
use crate::kernel::{self, KernelSubject};
use crate::tracing;
use redhanded_detect::{Collision, Finding, Folded, Folder, Options, Outcome, name_crash};
use redhanded_guest::rescue;
use redhanded_image::{Image, SiteCache};
use redhanded_model::{Class, Counts, Crash, Race, Report, Run, Unseen};
use redhanded_process::{Front, Guarded, Program, Role, Settings, split};
use redhanded_provision::VirtualMachine;
use redhanded_report::{Progress, Shown, SourceFiles, Tally, Terminal};
use redhanded_session::{Finished, Header, Heard, Listener, LogFile, Mapped, Record, tell_place};
use redhanded_target::images::Images;
use redhanded_target::{Ending, Signals, TargetError};
use std::collections::HashSet;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a program that is in the middle of a repetition may take to end by
/// itself before it is said to be left running.
const GRACE: Duration = Duration::from_secs(1);
/// How often signals and children are attended to.
const TEND_EVERY: Duration = Duration::from_millis(20);

/// What is observed.
pub enum Subject {
    /// A program that is started for it.
    Program(Program),
    /// A process that runs already.
    Process(u32),
    /// A kernel in a virtual machine.
    Kernel(Box<KernelSubject>),
}

/// What to observe, and how.
pub struct Observation {
    pub subject: Subject,
    pub images: Arc<Images>,
    pub signals: Arc<Signals>,
    pub options: Options,
    pub settings: Settings,
    pub seed: u64,
    /// Look for this long, in all runs together.
    pub until: Option<Duration>,
    /// End a run that takes longer.
    pub each: Option<Duration>,
    /// Run it this often at most; `None` with a time means until then.
    pub repeat: Option<u64>,
    pub kill: bool,
    pub max_windows: Option<u64>,
    pub max_races: Option<u64>,
    /// Leave the program stopped at the first race.
    pub stop_on_race: bool,
    /// Write a core file for each race into this folder.
    pub core: Option<PathBuf>,
    /// Keep the session log in this file.
    pub log: Option<PathBuf>,
    /// Called with each race as it is found; says whether that is enough.
    pub on_race: Option<OnRace>,
}

pub type OnRace = Box<dyn FnMut(&Race) -> bool>;

/// How it is shown while it goes on.
pub struct Display {
    pub terminal: Terminal,
    pub progress: Progress,
    pub announce: bool,
    /// How the indexing of large files is shown.
    pub indexing: Shown,
}

impl Display {
    /// Indexes an image, with a progress bar if it takes a while.
    pub fn index(&self, image: &Image, cache: Option<&SiteCache>) {
        self.progress
            .suspend(|| crate::sites::index(image, cache, self.indexing));
    }
}

/// What came of an observation.
pub struct Observed {
    pub report: Report,
    /// How the program ended.
    pub ending: Ending,
    /// What went wrong with Redhanded itself: the report may lack something.
    pub failure: Option<Failure>,
}

/// Observes it.
pub fn observe(mut observation: Observation, display: &Display) -> Result<Observed, Failure> {
    let program = name(&observation.subject);
    let log = match &observation.log {
        Some(path) => Some(LogFile::create(path, Header::new(program.clone()))?),
        None => None,
    };
    let refused = |source| TargetError::System {
        action: "cannot make a process for the tracer".to_owned(),
        source,
    };
    let guarded = match &observation.subject {
        Subject::Kernel(kernel) => {
            let socket = kernel.socket.try_clone().map_err(refused)?;
            Guarded::Other(Box::new(|| rescue(socket).is_ok()))
        }
        Subject::Program(_) | Subject::Process(_) => Guarded::Processes,
    };
    let (side, stream) = split(Arc::clone(&observation.signals), guarded).map_err(refused)?;
    match side {
        Role::Tracer(tracer) => {
            let trace = || tracing::trace(&observation, &tracer, stream);
            let ended = catch_unwind(AssertUnwindSafe(trace)).map(|()| tracer.farewell());
            // The end of this process lets go of everything that is still traced.
            std::process::exit(if ended.is_ok() { 0 } else { FAILED.into() })
        }
        Role::Front(front) => {
            let machine = match &observation.subject {
                Subject::Kernel(kernel) => {
                    let (place, machine) =
                        kernel::machine::begin(kernel, &observation.signals, display)?;
                    tell_place(&stream, &place)?;
                    machine
                }
                Subject::Program(_) | Subject::Process(_) => None,
            };
            let listener = Listener::new(stream, TEND_EVERY)?;
            let on_race = observation.on_race.take();
            let mut watching = Watching {
                front,
                display,
                images: &observation.images,
                mapped: Mapped::default(),
                folder: Folder::new(),
                started: Instant::now(),
                counts: Counts::default(),
                found: 0,
                most: observation.max_races.unwrap_or(u64::MAX),
                on_race,
                is_ours: matches!(observation.subject, Subject::Program(_)),
                pid: None,
                crash: None,
                machine,
                log,
                source: SourceFiles::default(),
                quoted: HashSet::new(),
            };
            let finished = watching.listen(listener);
            // Only the end of the tracer lets go of threads that sleep.
            watching.front.wait_for_tracer();
            display.progress.finish();
            watching.conclude(finished?, program, &observation)
        }
    }
}

/// The process in front.
struct Watching<'a> {
    front: Front,
    display: &'a Display,
    images: &'a Images,
    mapped: Mapped,
    folder: Folder,
    started: Instant,
    counts: Counts,
    found: u64,
    most: u64,
    on_race: Option<OnRace>,
    /// Whether the program was started by us.
    is_ours: bool,
    /// The program of the present run.
    pid: Option<u32>,
    crash: Option<Crash>,
    /// The virtual machine that was started for it.
    machine: Option<VirtualMachine>,
    log: Option<LogFile>,
    source: SourceFiles,
    /// The source lines that the log has.
    quoted: HashSet<(String, u32)>,
}

impl Watching<'_> {
    /// Takes the tracer's records until the last; `None` if there was none.
    fn listen(&mut self, mut listener: Listener) -> Result<Option<Finished>, Failure> {
        loop {
            let record = match listener.hear() {
                Heard::Record(record) => *record,
                Heard::Nothing => {
                    self.tend();
                    continue;
                }
                Heard::Silence => return Ok(None),
            };
            if !matches!(record, Record::Crash { .. }) {
                self.keep(&record);
            }
            match record {
                Record::Started { pid } => {
                    self.pid = Some(pid);
                    if self.is_ours {
                        self.front.mirror(pid);
                    }
                    if let Some(machine) = &mut self.machine {
                        machine.start();
                    }
                }
                Record::Module { module, file } => {
                    self.mapped.add(module, file.as_ref(), self.images);
                }
                Record::Collision { collision, windows } => self.collision(&collision, windows),
                Record::Crash { mut crash, modules } => {
                    name_crash(&mut crash, &self.mapped.of(&modules));
                    self.crash = Some(crash.clone());
                    self.keep(&Record::Crash { crash, modules });
                }
                Record::Core(written) => self.tell_of_core(written),
                Record::Counts(counts) => {
                    self.counts = counts;
                    self.show_progress();
                    self.tend();
                }
                Record::Finished(finished) => return Ok(Some(*finished)),
                Record::Failed { code, message } => return Err(Failure::Tracer { code, message }),
                // The front's own.
                Record::Header(_) | Record::Finding(_) | Record::Source { .. } | Record::Run(_) => {
                }
            }
        }
    }

    fn keep(&mut self, record: &Record) {
        if let Some(log) = &mut self.log {
            log.keep(record);
        }
    }

    fn collision(&mut self, collision: &Collision, windows: u64) {
        let modules = self.mapped.of(&collision.modules);
        let finding = self.folder.judge(collision, &modules);
        if self.log.is_some() {
            if let Finding::Instance(race) = &finding {
                self.keep_source(race);
            }
            self.keep(&Record::Finding(finding.clone()));
        }
        if let Folded::New(index) = self.folder.fold(finding) {
            self.found_race(index, windows);
        }
    }

    /// Keeps the source lines that a report of the race quotes.
    fn keep_source(&mut self, race: &Race) {
        for access in &race.accesses {
            if let (Some(file), Some(line)) = (&access.file, access.line)
                && self.quoted.insert((file.clone(), line))
                && let Some(text) = self.source.line(file, line)
            {
                let file = file.clone();
                self.keep(&Record::Source { file, line, text });
            }
        }
    }

    fn tend(&mut self) {
        self.front.tend();
        // From here on the machine only shuts down.
        if self.machine.as_ref().is_some_and(|m| m.state().is_over()) {
            self.front.enough();
        }
    }

    fn found_race(&mut self, index: usize, windows: u64) {
        let Some(race) = self.folder.races().get(index) else {
            return;
        };
        if self.display.announce {
            self.display.progress.suspend(|| {
                let mut text = Vec::new();
                let _ = self.display.terminal.race(&mut text, race, windows);
                let _ = std::io::stderr().write_all(&text);
            });
        }
        self.found += u64::from(race.class == Class::Race);
        let enough = self.on_race.as_mut().is_some_and(|enough| enough(race));
        if enough || self.found >= self.most {
            self.front.enough();
        }
    }

    fn tell_of_core(&self, written: Result<PathBuf, String>) {
        self.display.progress.suspend(|| {
            crate::screen::say(&match written {
                Ok(path) => format!("redhanded: wrote {}", path.display()),
                Err(why) => format!("redhanded: {why}"),
            });
        });
    }

    fn show_progress(&self) {
        let held = self.counts.held.as_secs_f64();
        let time = self.counts.thread_time.as_secs_f64();
        self.display.progress.update(&Tally {
            elapsed: self.started.elapsed(),
            samples: self.counts.samples,
            held: if time > 0.0 { held / time } else { 0.0 },
            sites_sampled: self.counts.sites.sampled,
            sites_total: self.counts.sites.total,
            races: self.found.min(self.most),
        });
    }

    /// Attends to the program when its tracing is over, and makes the report.
    fn conclude(
        mut self,
        finished: Option<Finished>,
        program: Vec<String>,
        observation: &Observation,
    ) -> Result<Observed, Failure> {
        let is_ours = self.is_ours;
        let mut failure = self.lost_tracer(finished.is_some());
        if self.pid.is_none()
            && let Some(failure) = failure
        {
            return Err(failure);
        }
        let finished = finished.unwrap_or_else(|| Finished {
            counts: self.counts_until_lost(),
            unseen: vec![Unseen {
                what: "the rest of the run".to_owned(),
                why: failure
                    .as_ref()
                    .map_or_else(String::new, Failure::to_string),
            }],
            outcome: Outcome::Enough,
            ending: Ending::LeftRunning,
        });
        let (outcome, mut ending) = (finished.outcome, finished.ending);
        let mut run = Run {
            program,
            unseen: finished.unseen,
            cut_short: failure.is_some(),
            ..Run::from(finished.counts)
        };
        if let (true, Some(pid)) = (is_ours, self.pid) {
            let cut_short = run.cut_short;
            let after = match outcome {
                Outcome::Ended(ending) => {
                    self.front.wait_for(pid, GRACE);
                    ending
                }
                Outcome::Enough if observation.kill => {
                    self.front.kill(pid);
                    self.front.wait_for(pid, Duration::MAX);
                    Ending::EndedByUs
                }
                Outcome::Enough if cut_short => self.front.wait_for(pid, Duration::MAX),
                Outcome::Enough => self.front.wait_for(pid, GRACE),
                Outcome::Frozen => {
                    say_frozen(pid, true);
                    self.front.wait_for(pid, Duration::MAX)
                }
                Outcome::Interrupted { signal, by_process } => {
                    // The terminal sent its signal to the program as well.
                    if by_process {
                        self.front.signal(pid, signal);
                    }
                    self.front.wait_for(pid, Duration::MAX)
                }
            };
            if !matches!(outcome, Outcome::Ended(_)) && ending_is_open(ending) {
                ending = after;
            }
        }
        if let Some(machine) = self.machine.take() {
            let over = machine.state().is_over() || matches!(outcome, Outcome::Ended(_));
            ending = kernel::machine::end(machine, over, &mut run);
        }
        if let (false, Outcome::Frozen, Some(pid)) = (is_ours, outcome, self.pid) {
            say_frozen(pid, false);
        }
        if let Some(crash) = self.crash.take()
            && matches!(ending, Ending::Killed { signal, .. } if signal == crash.signal)
        {
            run.crash = Some(crash);
        }
        if outcome == Outcome::Frozen && ending == Ending::LeftRunning {
            ending = Ending::LeftStopped;
        }
        run.ending = Some(ending);
        self.keep(&Record::Run(Box::new(run.clone())));
        if let Some(Err(error)) = self.log.as_mut().map(LogFile::finish) {
            failure.get_or_insert(error.into());
        }
        let races = self.folder.into_races();
        Ok(Observed {
            report: Report { run, races },
            ending,
            failure,
        })
    }

    /// Whether the tracer ended otherwise than it should. If it did, the program's
    /// bytes are put back first of all.
    fn lost_tracer(&mut self, finished: bool) -> Option<Failure> {
        let why = match self.front.tracer_ending() {
            Some(Ending::Exited { status: 0 }) if finished => return None,
            Some(Ending::Killed { signal, .. }) => format!("was killed by signal {signal}"),
            _ => "ended unexpectedly".to_owned(),
        };
        let restored = self.front.rescued();
        if self.pid.is_some() {
            crate::screen::say(&format!(
                "redhanded: its tracer {why}; breakpoints were removed from {restored} targets, \
                 and what was observed goes on unobserved"
            ));
        }
        Some(Failure::LostTracer(why))
    }

    /// The numbers as last told. The run in which the tracer was lost counts.
    fn counts_until_lost(&self) -> Counts {
        let counts = self.counts.clone();
        Counts {
            runs: counts.runs.max(1),
            wall: self.started.elapsed(),
            ..counts
        }
    }
}

/// Says how to go on with a process that was left stopped; `waits` if we wait for it.
fn say_frozen(pid: u32, waits: bool) {
    let (here, end) = if waits {
        (
            "  (in another terminal, or here after Ctrl-Z)",
            "\n  end it          Ctrl-C",
        )
    } else {
        ("", "")
    };
    crate::screen::say(&format!(
        "redhanded: process {pid} is stopped at the race, both threads at their accesses\n  \
         look at it      gdb -p {pid}{here}\n  let it go on    kill -CONT {pid}{end}"
    ));
}

const fn ending_is_open(ending: Ending) -> bool {
    matches!(ending, Ending::LeftRunning | Ending::Exited { status: 0 })
}

fn name(subject: &Subject) -> Vec<String> {
    match subject {
        Subject::Program(program) => program
            .arguments
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        Subject::Process(pid) => std::fs::read(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .split(|byte| *byte == 0)
            .filter(|argument| !argument.is_empty())
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect(),
        Subject::Kernel(kernel) => kernel.name.clone(),
    }
}
