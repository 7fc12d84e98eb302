//! Observing a program with two processes: the tracer, and this one in front, which
//! names, folds and shows what the tracer finds. Reading debug information takes
//! longer than a thread may be held, and nothing that goes wrong with it must
//! touch the program.

mod conclude;
mod display;
mod servants;
mod watching;

use crate::events::Events;
use crate::exit::{FAILED, Failure};
use crate::hunt::Hunting;
use crate::kernel::{self, KernelSubject};
use crate::memory::{Memory, Recorder};
use crate::namer::{Namer, Work, for_front};
use crate::replayer::{AT_LEISURE, URGENT, start_keeper};
use crate::scenarios::Scenarios;
use crate::select::Selecting;
use crate::tracing;
pub use display::{Display, Quotes};
use redhanded_detect::{Folder, Options};
use redhanded_guest::rescue;
use redhanded_model::{Candidate, Counts, Race, Report};
use redhanded_process::{Guarded, Program, Role, Settings, split};
use redhanded_session::{Header, Listener, LogFile, Mapped, tell_place};
use redhanded_sys::{Rights, Tid, renounce_debug_information};
use redhanded_target::{Ending, Signals, TargetError};
use redhanded_verdict::Annotations;
use servants::Started;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use watching::{Names, Watching};

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
    pub selecting: Selecting,
    /// Whose rights are enough to name what is found, if not ours.
    pub rights: Option<Rights>,
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
    /// Replay collisions in every order.
    pub replay: bool,
    /// Keep a scenario of each race that may be harmful in this folder.
    pub scenarios: Option<PathBuf>,
    /// Write a core file for each race into this folder.
    pub core: Option<PathBuf>,
    /// Keep the session log in this file.
    pub log: Option<PathBuf>,
    /// Write what happens to this file.
    pub events: Option<PathBuf>,
    /// What is remembered of it, and what is known from before.
    pub memory: Memory,
    /// Called with each race as it is found; says whether that is enough.
    pub on_race: Option<OnRace>,
    /// What the user says of functions and variables.
    pub annotations: Annotations,
    /// The pairs to hunt; without any, chance decides what is sampled.
    pub suspects: Vec<Candidate>,
}

pub type OnRace = Box<dyn FnMut(&Race) -> bool>;

/// What came of an observation.
pub struct Observed {
    pub report: Report,
    /// How the program ended.
    pub ending: Ending,
    /// What is known from before.
    pub memory: Memory,
    /// What went wrong with Redhanded itself: the report may lack something.
    pub failure: Option<Failure>,
}

/// Observes it.
pub fn observe(mut observation: Observation, display: &Display) -> Result<Observed, Failure> {
    let program = name(&observation.subject);
    // Before the connections to them, so that it is dropped after these.
    let mut started = Started::default();
    // Before there is a file that it must not have.
    let namer = Namer::start(Work {
        search: observation.selecting.search.clone(),
        rights: observation.rights.take(),
        log: None,
    })?;
    started.add(namer.pid);
    let keeper = match observation.replay {
        true => Some(start_keeper(URGENT)?),
        false => None,
    };
    if let Some(keeper) = &keeper {
        started.add(keeper.pid);
    }
    // Another one, which the front asks at leisure.
    let for_scenarios = match (&observation.scenarios, &keeper) {
        (Some(_), Some(_)) => Some(start_keeper(AT_LEISURE)?),
        _ => None,
    };
    if let Some(keeper) = &for_scenarios {
        started.add(keeper.pid);
    }
    let scenarios = match (&observation.scenarios, for_scenarios) {
        (Some(place), Some(keeper)) => {
            let folder = redhanded_sys::Folder::make_all(place).map_err(|source| {
                let place = place.display();
                Failure::Usage(format!("cannot keep scenarios in {place}: {source}"))
            })?;
            Some((place.clone(), folder, keeper))
        }
        _ => None,
    };
    let keeper_pid = keeper.as_ref().map(|keeper| keeper.pid);
    let log = match &observation.log {
        Some(path) => Some(LogFile::create(path, Header::new(program.clone()))?),
        None => None,
    };
    let events = observation.events.as_deref().map(Events::open);
    let events = events.transpose()?;
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
            drop((namer.front, scenarios));
            let workers = keeper.map(|keeper| keeper.workers);
            let trace = || {
                tracing::trace(&observation, &tracer, stream, namer.tracer, workers);
            };
            let ended = catch_unwind(AssertUnwindSafe(trace)).map(|()| tracer.farewell());
            // The end of this process lets go of everything that is still traced.
            std::process::exit(if ended.is_ok() { 0 } else { FAILED.into() })
        }
        Role::Front(front) => {
            started.keep();
            renounce_debug_information();
            drop((namer.tracer, keeper));
            let names = Names {
                asker: for_front(namer.front)?,
                pid: namer.pid.cast_unsigned(),
                lost: None,
            };
            let machine = match &observation.subject {
                Subject::Kernel(kernel) => {
                    let (place, machine) =
                        kernel::machine::begin(kernel, &observation.signals, display)?;
                    tell_place(&stream, &place)?;
                    machine
                }
                Subject::Program(_) | Subject::Process(_) => None,
            };
            let mut servants: Vec<u32> = keeper_pid.map(Tid::cast_unsigned).into_iter().collect();
            let scenarios = match scenarios {
                Some((place, folder, keeper)) => {
                    servants.push(keeper.pid.cast_unsigned());
                    Some(Scenarios::new(&place, folder, keeper.workers))
                }
                None => None,
            };
            let listener = Listener::new(stream, TEND_EVERY)?;
            let on_race = observation.on_race.take();
            // SQLite's locks do not survive a fork, so it is opened after the last one.
            let store = observation.memory.store.as_deref();
            let recorder = store.map(|path| Recorder::new(path, program.clone()));
            let recorder = recorder.transpose()?;
            let mut watching = Watching {
                front,
                display,
                names,
                mapped: Mapped::default(),
                folder: Folder::new(),
                started: Instant::now(),
                counts: Counts::default(),
                found: 0,
                most: observation.max_races.unwrap_or(u64::MAX),
                on_race,
                is_ours: matches!(observation.subject, Subject::Program(_)),
                pid: None,
                program: program.clone(),
                crash: None,
                machine,
                log,
                servants,
                scenarios,
                files: Vec::new(),
                captured: None,
                recorder,
                events,
                hunting: Hunting::new(&observation.suspects),
                // What is left of the time would be spent on nothing.
                leaves: observation.until.is_some()
                    || matches!(observation.subject, Subject::Process(_)),
            };
            let finished = watching.listen(listener);
            // Only the end of the tracer lets go of threads that sleep.
            watching.front.wait_for_tracer();
            watching.end_servants();
            display.progress.finish();
            watching.conclude(finished?, program, observation)
        }
    }
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
