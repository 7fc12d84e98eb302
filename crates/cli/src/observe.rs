//! Observing a program: two processes, of which one traces and this one names,
//! folds and shows what the other finds. Reading debug information takes longer
//! than a thread may be held, and whatever goes wrong with it must not concern
//! the program.

use crate::exit::Failure;
use crate::kernel::{self, KernelSubject};
use crate::tracing;
use crate::wire::{Finished, Heard, Listener, Mapped, Message, tell_place};
use redhanded_detect::{Counts, Folded, Folder, Options, Outcome};
use redhanded_guest::gdb::rescue;
use redhanded_image::Image;
use redhanded_model::{Class, Crash, Race, RunReport, Unseen};
use redhanded_process::{Front, Guarded, Program, Role, Settings, split};
use redhanded_provision as launch;
use redhanded_report::{Progress, Tally, Terminal};
use redhanded_target::images::Images;
use redhanded_target::{Ending, Signals, TargetError};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A program that is cut off in the middle of a repetition may end by itself
/// this long before it is called left running.
const GRACE: Duration = Duration::from_secs(1);
/// How often signals and children are looked after.
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

/// What is to be observed, and how.
pub struct Observation {
    pub subject: Subject,
    pub images: Arc<Images>,
    pub signals: Arc<Signals>,
    pub options: Options,
    pub settings: Settings,
    pub seed: u64,
    /// Look for this long in sum.
    pub until: Option<Duration>,
    /// Run it so often at most; `None` with a time means until then.
    pub repeat: Option<u64>,
    pub kill: bool,
    pub max_windows: Option<u64>,
    pub max_races: Option<u64>,
    /// Leave the program stopped at the first race.
    pub stop_on_race: bool,
    /// Write a core file for each race into this folder.
    pub core: Option<PathBuf>,
    /// Called with each race as it is found: whether that is enough.
    pub on_race: Option<OnRace>,
}

pub type OnRace = Box<dyn FnMut(&Race) -> bool>;

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
    display: &Display,
) -> Result<(RunReport, Ending), Failure> {
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
            tracing::trace(&observation, &tracer, stream);
            tracer.farewell();
            // Its end lets go of everything that is still traced.
            std::process::exit(0)
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
            };
            let finished = watching.listen(listener);
            // Only its end lets go of threads that sleep.
            watching.front.wait_for_tracer();
            display.progress.finish();
            watching.conclude(finished?, &observation)
        }
    }
}

/// The side in front.
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
    machine: Option<launch::Vm>,
}

impl Watching<'_> {
    /// Takes the tracer's messages until the last; `None` if there was none.
    fn listen(&mut self, mut listener: Listener) -> Result<Option<Finished>, Failure> {
        loop {
            let message = match listener.hear() {
                Heard::Message(message) => *message,
                Heard::Nothing => {
                    self.tend();
                    continue;
                }
                Heard::Silence => return Ok(None),
            };
            match message {
                Message::Started { pid } => {
                    self.pid = Some(pid);
                    if self.is_ours {
                        self.front.mirror(pid);
                    }
                    if let Some(machine) = &mut self.machine {
                        machine.start();
                    }
                }
                Message::Module(file) => self.mapped.add(file, self.images),
                Message::Collision(caught, windows) => {
                    let collision = self.mapped.collision(*caught);
                    if let Folded::New(index) = self.folder.add(&collision) {
                        self.found_race(index, windows);
                    }
                }
                Message::Crash(crash) => self.crash = Some(self.mapped.crash(*crash).named()),
                Message::Core(written) => self.tell_of_core(written),
                Message::Progress(counts) => {
                    self.counts = counts;
                    self.show_progress();
                    self.tend();
                }
                Message::Finished(finished) => return Ok(Some(*finished)),
                Message::Failed { code, message } => return Err(Failure::Tracer { code, message }),
            }
        }
    }

    fn tend(&mut self) {
        self.front.tend();
        // What follows is the machine being switched off.
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

    /// Sees to the program after its tracing is over; the report.
    fn conclude(
        mut self,
        finished: Option<Finished>,
        observation: &Observation,
    ) -> Result<(RunReport, Ending), Failure> {
        let is_ours = self.is_ours;
        let (mut report, outcome, mut ending) = match finished {
            Some(finished) => (finished.report, finished.outcome, finished.ending),
            None => (self.bereaved(), Outcome::Enough, Ending::LeftRunning),
        };
        if let (true, Some(pid)) = (is_ours, self.pid) {
            let cut_short = report.cut_short;
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
            ending = kernel::machine::end(machine, over, &mut report);
        }
        if let (false, Outcome::Frozen, Some(pid)) = (is_ours, outcome, self.pid) {
            say_frozen(pid, false);
        }
        if let Some(crash) = self.crash.take()
            && matches!(ending, Ending::Killed { signal, .. } if signal == crash.signal)
        {
            report.crash = Some(crash);
        }
        report.program = name(&observation.subject);
        report.ending = Some(match outcome {
            Outcome::Frozen if ending == Ending::LeftRunning => {
                "left stopped at the race".to_owned()
            }
            _ => describe(ending),
        });
        report.races = self.folder.into_races();
        Ok((report, ending))
    }

    /// The tracer is gone without a word: what is known, and first of all the
    /// program's bytes back.
    fn bereaved(&mut self) -> RunReport {
        let restored = self.front.rescued();
        let why = match self.front.tracer_ending() {
            Some(Ending::Killed { signal, .. }) => format!("was killed by signal {signal}"),
            _ => "ended unexpectedly".to_owned(),
        };
        crate::screen::say(&format!(
            "redhanded: its tracer {why}; breakpoints were removed from {restored} targets, and \
             what was observed goes on unobserved"
        ));
        RunReport {
            runs: 1,
            wall_s: self.started.elapsed().as_secs_f64(),
            samples: self.counts.samples,
            windows: self.counts.windows,
            held_s: self.counts.held.as_secs_f64(),
            thread_s: self.counts.thread_time.as_secs_f64(),
            standstill: self.counts.standstill,
            sites: self.counts.sites,
            losses: self.counts.losses.clone(),
            unseen: vec![Unseen {
                what: "the rest of the run".to_owned(),
                why: format!("the tracer {why}"),
            }],
            cut_short: true,
            ..RunReport::default()
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
    matches!(ending, Ending::LeftRunning | Ending::Exited(0))
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

fn describe(ending: Ending) -> String {
    match ending {
        Ending::Exited(status) => format!("exited with status {status}"),
        Ending::Killed { signal, core } => {
            let dumped = if core { ", core dumped" } else { "" };
            format!("killed by signal {signal}{dumped}")
        }
        Ending::EndedByUs => "ended by redhanded".to_owned(),
        Ending::LeftRunning => "left running".to_owned(),
    }
}
