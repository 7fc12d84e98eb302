//! The tracer's side of an observation: sampling, once or again and again.
//! Everything it finds is told to the process in front at once.

use crate::exit::Failure;
use crate::kernel::{KernelSubject, Place};
use crate::observe::{Observation, Subject};
use crate::wire::{Finished, Message, Teller, hear_place};
use redhanded_detect::{
    Collision, Counts, Crashed, Folded, Folder, Outcome, Random, Sink, Standing, watch,
};
use redhanded_guest::Vm;
use redhanded_guest::gdb::{Address, Gdb};
use redhanded_model::{Class, RunReport, Unseen};
use redhanded_process::{Process, Program, Tracer};
use redhanded_target::driver::Driver;
use redhanded_target::images::{Images, Selected};
use redhanded_target::{Ending, Machine, Module, Target, TargetError};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a gdbstub may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the one in front hears how things stand.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Traces until the subject ends or enough is seen.
pub fn trace(observation: &Observation, tracer: &Tracer, stream: UnixStream) {
    // Where a virtual machine is, is known when it was started.
    let place = match &observation.subject {
        Subject::Kernel(_) => match hear_place(&stream) {
            Some(place) => Some(place),
            None => return,
        },
        Subject::Program(_) | Subject::Process(_) => None,
    };
    // All threads there will be, before there is a file that they must not keep.
    let first = tracer.for_threads();
    let pool = rayon::ThreadPoolBuilder::new().start_handler(move |_| first());
    let threads = match pool.build_global() {
        Ok(()) => rayon::current_num_threads(),
        Err(_) => 0,
    };
    let mut tracing = Tracing {
        observation,
        tracer,
        place,
        teller: Teller::new(stream, tracer.for_threads()),
        started: Instant::now(),
        report: RunReport::default(),
        unseen: BTreeMap::new(),
        told: Duration::ZERO,
        folder: Folder::new(),
    };
    let listens = observation.settings.safe;
    if listens {
        tracer.start_waiter();
    }
    tracer.wait_for_threads(threads + 1 + usize::from(listens));
    let result = tracing.repeat();
    let message = match result {
        Ok((outcome, ending)) => {
            let mut report = std::mem::take(&mut tracing.report);
            report.wall_s = tracing.started.elapsed().as_secs_f64();
            report.unseen = std::mem::take(&mut tracing.unseen)
                .into_iter()
                .map(|(what, why)| Unseen { what, why })
                .collect();
            Message::Finished(Box::new(Finished {
                report,
                outcome,
                ending,
            }))
        }
        Err(failure) => Message::Failed {
            code: failure.status(),
            message: failure.to_string(),
        },
    };
    tracing.teller.tell(message);
    tracing.teller.finish();
}

struct Tracing<'a> {
    observation: &'a Observation,
    tracer: &'a Tracer,
    /// Where the target is, if that was told.
    place: Option<String>,
    teller: Teller,
    started: Instant,
    report: RunReport,
    unseen: BTreeMap<String, String>,
    /// When it was last told how things stand.
    told: Duration,
    /// The races so far, where something is to be done while both threads stand.
    folder: Folder,
}

impl Tracing<'_> {
    fn repeat(&mut self) -> Result<(Outcome, Ending), Failure> {
        let observation = self.observation;
        let mut random = Random::new(observation.seed);
        let mut ending = Ending::Exited(0);
        let runs = match (&observation.subject, observation.repeat, observation.until) {
            (Subject::Process(_) | Subject::Kernel(_), ..) | (_, None, None) => 1,
            (_, Some(runs), _) => runs,
            (_, None, Some(_)) => u64::MAX,
        };
        let mut last = Outcome::Enough;
        for run in 0..runs {
            let left = observation
                .until
                .map(|until| until.saturating_sub(self.started.elapsed()));
            if run > 0 && left.is_some_and(|left| left.is_zero()) {
                break;
            }
            let (outcome, ended) = self.once(left, Random::new(random.bits()))?;
            last = outcome;
            if ended != Ending::Exited(0) && ending == Ending::Exited(0) {
                ending = ended;
            }
            if !matches!(outcome, Outcome::Ended(_)) {
                break;
            }
        }
        Ok((last, ending))
    }

    /// Observes one run.
    fn once(
        &mut self,
        until: Option<Duration>,
        random: Random,
    ) -> Result<(Outcome, Ending), Failure> {
        let observation = self.observation;
        let mut process = match &observation.subject {
            Subject::Kernel(kernel) => return self.machine(kernel, until, random),
            Subject::Program(program) => self.launch(program)?,
            Subject::Process(pid) => self.attach(*pid)?,
        };
        self.teller.started(process.pid());
        if let Some(refused) = process.watch_refused().map(str::to_owned)
            && (observation.settings.safe || !observation.options.strategy.rereads())
        {
            if matches!(observation.subject, Subject::Program(_)) {
                // Nobody asked for it to run unobserved.
                process.kill();
            }
            let what = if observation.settings.safe {
                "--safe is impossible; run as root, or set kernel.perf_event_paranoid to 2. \
                 Threads whose debug registers a debugger or --watch ptrace has used cannot be \
                 watched by perf any more"
            } else {
                "--detect watch is impossible with --watch perf; run as root, set \
                 kernel.perf_event_paranoid to 2, or drop --watch"
            };
            return Err(Failure::Usage(format!(
                "perf events were refused ({refused}), so {what}"
            )));
        }
        let (mut process, result) = self.sample(process, until, random);
        if observation.kill && matches!(result, Ok((Outcome::Enough, _))) {
            process.kill();
        }
        process.detach();
        self.sampled(result)
    }

    /// Observes a virtual machine.
    fn machine(
        &mut self,
        kernel: &KernelSubject,
        until: Option<Duration>,
        random: Random,
    ) -> Result<(Outcome, Ending), Failure> {
        let observation = self.observation;
        let place = self.place.clone().unwrap_or_default();
        let address: Address = place
            .parse()
            .map_err(|error| Failure::Usage(format!("{error}")))?;
        let driven = |error| TargetError::Unsupported(format!("{error}"));
        address.connect_over(&kernel.socket).map_err(driven)?;
        let gdb = Gdb::over(kernel.socket.try_clone()?, PATIENCE)
            .map_err(|error| TargetError::Unsupported(format!("{address}: {error}")))?;
        let images = Arc::clone(&observation.images);
        let signals = Arc::clone(&observation.signals);
        let mut vm = Vm::attach(gdb, kernel.files.clone(), images, signals)?;
        // Before anybody waits for it.
        for module in vm.modules() {
            if let Some(image) = &module.image {
                let _ = observation.images.sites(image);
            }
        }
        if matches!(kernel.place, Place::Launched(_)) {
            vm.keep_apart();
        }
        vm.begin();
        self.teller.started(0);
        let (vm, result) = self.sample(vm, until, random);
        vm.detach();
        self.sampled(result)
    }

    /// Samples until the target ends or enough is seen.
    fn sample<M: Machine>(
        &mut self,
        machine: M,
        until: Option<Duration>,
        random: Random,
    ) -> (M, Result<(Outcome, Counts), TargetError>) {
        let observation = self.observation;
        let mut options = observation.options;
        options.until = until;
        options.max_windows = observation
            .max_windows
            .map(|most| most.saturating_sub(self.report.windows));
        let images = Arc::clone(&observation.images);
        let sites = |module: &Module| -> Option<Arc<Selected>> {
            Some(images.sites(module.image.as_ref()?))
        };
        let mut driver = Driver::new(machine);
        let result = watch(&mut driver, &sites, options, random, self);
        let machine = driver.into_machine();
        self.note_unseen(&machine);
        (machine, result)
    }

    fn sampled(
        &mut self,
        result: Result<(Outcome, Counts), TargetError>,
    ) -> Result<(Outcome, Ending), Failure> {
        let (outcome, counts) = result?;
        self.report.runs += 1;
        self.report.add(&counts);
        self.teller.tell(Message::Progress(total(&self.report)));
        let ending = match outcome {
            Outcome::Ended(ending) => ending,
            Outcome::Enough | Outcome::Frozen | Outcome::Interrupted { .. } => Ending::LeftRunning,
        };
        Ok((outcome, ending))
    }

    fn launch(&self, program: &Program) -> Result<Process, TargetError> {
        let observation = self.observation;
        let images = Arc::clone(&observation.images);
        let signals = Arc::clone(&observation.signals);
        let settings = observation.settings;
        Process::launch(program, images, signals, settings, Some(self.tracer))
    }

    fn attach(&self, pid: u32) -> Result<Process, TargetError> {
        let observation = self.observation;
        let images = Arc::clone(&observation.images);
        let signals = Arc::clone(&observation.signals);
        let settings = observation.settings;
        Process::attach(pid, images, signals, settings, Some(self.tracer))
    }

    fn note_unseen(&mut self, machine: &impl Machine) {
        let images: &Images = &self.observation.images;
        for note in machine.unseen() {
            self.unseen.insert(note.what, note.why);
        }
        for module in machine.modules() {
            if let Some(image) = &module.image
                && let Some(why) = images.sites(image).why_none.clone()
            {
                self.unseen.insert(module.name.clone(), why);
            }
        }
    }
}

/// Sums over runs.
trait Add {
    fn add(&mut self, counts: &Counts);
}

impl Add for RunReport {
    fn add(&mut self, counts: &Counts) {
        self.samples += counts.samples;
        self.windows += counts.windows;
        self.held_s += counts.held.as_secs_f64();
        self.thread_s += counts.thread_time.as_secs_f64();
        // A machine is observed once.
        self.standstill = counts.standstill.or(self.standstill);
        self.losses.merge(&counts.losses);
        self.sites.total = self.sites.total.max(counts.sites.total);
        self.sites.armed = self.sites.armed.max(counts.sites.armed);
        self.sites.sampled = self.sites.sampled.max(counts.sites.sampled);
    }
}

fn total(report: &RunReport) -> Counts {
    Counts {
        samples: report.samples,
        windows: report.windows,
        held: Duration::from_secs_f64(report.held_s),
        thread_time: Duration::from_secs_f64(report.thread_s),
        standstill: report.standstill,
        sites: report.sites,
        losses: report.losses.clone(),
    }
}

impl Sink for Tracing<'_> {
    fn collision(&mut self, collision: Collision) {
        let windows = self.report.windows + collision.record.id.0;
        self.teller.collision(collision, windows);
    }

    fn standing(&mut self, collision: &Collision, target: &mut dyn Target) -> Standing {
        let observation = self.observation;
        if observation.core.is_none() && !observation.stop_on_race {
            return Standing::Release;
        }
        // Only a race is worth it, and only the debug information tells one.
        let Folded::New(index) = self.folder.add(collision) else {
            return Standing::Release;
        };
        let race = self.folder.races().get(index);
        let Some(race) = race.filter(|race| race.class == Class::Race) else {
            return Standing::Release;
        };
        if let Some(folder) = &observation.core {
            let tid = collision.record.task.0;
            let path = folder.join(format!("core.{tid}.{}", race.id));
            let written = target.write_core(collision.record.id, &path);
            self.teller.tell(Message::Core(
                written.map(|_| path).map_err(|error| error.to_string()),
            ));
        }
        if observation.stop_on_race {
            return Standing::Freeze;
        }
        Standing::Release
    }

    fn crash(&mut self, crash: Crashed) {
        self.teller.crash(crash);
    }

    fn progress(&mut self, counts: &Counts) {
        let now = self.started.elapsed();
        if now < self.told + PROGRESS_EVERY {
            return;
        }
        self.told = now;
        let mut report = RunReport {
            races: Vec::new(),
            unseen: Vec::new(),
            ..self.report.clone()
        };
        report.add(counts);
        self.teller.tell(Message::Progress(total(&report)));
    }

    fn enough(&self) -> bool {
        self.tracer.is_enough()
    }
}
