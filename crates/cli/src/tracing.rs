//! The tracer's side of an observation: sampling, once or again and again.
//! Everything it sees is told to the process in front at once.

use crate::exit::Failure;
use crate::kernel::{KernelSubject, Place};
use crate::observe::{Observation, Subject};
use redhanded_detect::{Collision, Folded, Folder, Outcome, Random, Sink, Standing, watch};
use redhanded_guest::{Address, GuestMachine};
use redhanded_image::Selected;
use redhanded_model::{Class, Counts, Crash, Unseen};
use redhanded_process::{Process, Program, Tracer};
use redhanded_session::{Finished, Record, Teller, hear_place};
use redhanded_target::driver::Driver;
use redhanded_target::images::Images;
use redhanded_target::{Ending, Inspect, Machine, Module, Target, TargetError};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the front is told the numbers.
const COUNTS_EVERY: Duration = Duration::from_millis(100);

/// Traces until the subject ends or enough is seen.
pub fn trace(observation: &Observation, tracer: &Tracer, stream: UnixStream) {
    // The place of a virtual machine is known when it has been started.
    let place = match &observation.subject {
        Subject::Kernel(_) => match hear_place(&stream) {
            Some(place) => Some(place),
            None => return,
        },
        Subject::Program(_) | Subject::Process(_) => None,
    };
    // Every thread is started before there is a file that it must not keep open.
    let first = tracer.for_threads();
    let pool = rayon::ThreadPoolBuilder::new().start_handler(move |_| first());
    let threads = match pool.build_global() {
        Ok(()) => rayon::current_num_threads(),
        Err(_) => 0,
    };
    let Ok(teller) = Teller::new(stream, tracer.for_threads()) else {
        return;
    };
    let mut tracing = Tracing {
        observation,
        tracer,
        place,
        teller,
        started: Instant::now(),
        counts: Counts::default(),
        unseen: BTreeMap::new(),
        told: Duration::ZERO,
        folder: Folder::new(),
    };
    let listens = observation.settings.safe;
    if listens && tracer.start_waiter().is_err() {
        return;
    }
    tracer.wait_for_threads(threads + 1 + usize::from(listens));
    let record = match tracing.repeat() {
        Ok((outcome, ending)) => {
            let unseen = std::mem::take(&mut tracing.unseen).into_iter();
            Record::Finished(Box::new(Finished {
                counts: tracing.counts_with(None),
                unseen: unseen.map(|(what, why)| Unseen { what, why }).collect(),
                outcome,
                ending,
            }))
        }
        Err(failure) => Record::Failed {
            code: failure.status(),
            message: failure.to_string(),
        },
    };
    tracing.teller.tell(record);
    tracing.teller.finish();
}

struct Tracing<'a> {
    observation: &'a Observation,
    tracer: &'a Tracer,
    /// Where the target is, if that was told.
    place: Option<String>,
    teller: Teller,
    started: Instant,
    /// The runs that are over.
    counts: Counts,
    unseen: BTreeMap<String, String>,
    /// When the numbers were last told.
    told: Duration,
    /// The races so far, where something is to be done while both threads are
    /// stopped.
    folder: Folder,
}

impl Tracing<'_> {
    fn repeat(&mut self) -> Result<(Outcome, Ending), Failure> {
        let observation = self.observation;
        let mut random = Random::new(observation.seed);
        let mut first_failure = None;
        let runs = match (&observation.subject, observation.repeat, observation.until) {
            (Subject::Process(_) | Subject::Kernel(_), ..) | (_, None, None) => 1,
            (_, Some(runs), _) => runs,
            (_, None, Some(_)) => u64::MAX,
        };
        let (mut last, mut ending) = (Outcome::Enough, Ending::Exited { status: 0 });
        for run in 0..runs {
            let left = observation
                .until
                .map(|until| until.saturating_sub(self.started.elapsed()));
            if run > 0 && left.is_some_and(|left| left.is_zero()) {
                break;
            }
            (last, ending) = self.once(left, Random::new(random.bits()))?;
            if !matches!(ending, Ending::Exited { status: 0 } | Ending::EndedByUs) {
                first_failure = first_failure.or(Some(ending));
            }
            if !matches!(last, Outcome::Ended(_)) {
                break;
            }
        }
        Ok((last, first_failure.unwrap_or(ending)))
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
                // It was started to be observed.
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
        let limit = observation
            .each
            .filter(|each| until.is_none_or(|until| *each < until));
        let (mut process, mut result) = self.sample(process, limit.or(until), random);
        if let Ok((outcome @ Outcome::Enough, counts)) = &mut result {
            let too_long = limit.is_some() && !self.is_enough(counts);
            if too_long {
                *outcome = Outcome::Ended(Ending::EndedByUs);
                self.counts.cut_off += 1;
            }
            if too_long || observation.kill {
                process.kill();
            }
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
        let images = Arc::clone(&observation.images);
        let signals = Arc::clone(&observation.signals);
        let files = kernel.files.clone();
        let connected = GuestMachine::connect(&address, &kernel.socket, files, images, signals);
        let mut machine = connected.map_err(|error| match observation.signals.asked_to_end() {
            Some(signal) => Failure::told_to_end(signal, "the virtual machine was reached"),
            None => error.into(),
        })?;
        // Indexed now, while no CPU has to wait for it.
        for module in machine.modules() {
            if let Some(image) = &module.image {
                let _ = observation.images.sites(image);
            }
        }
        if matches!(kernel.place, Place::Launched(_)) {
            machine.reserve_host_cpu();
        }
        machine.begin(until);
        self.teller.started(0);
        let (machine, result) = self.sample(machine, until, random);
        machine.detach();
        self.sampled(result)
    }

    /// Whether the whole session has seen enough, and not only this run.
    fn is_enough(&self, run: &Counts) -> bool {
        let windows = self.counts.windows + run.windows;
        let most = self.observation.max_windows;
        self.tracer.is_enough() || most.is_some_and(|most| windows >= most)
    }

    /// The numbers of the runs that are over and of the present one.
    fn counts_with(&self, run: Option<&Counts>) -> Counts {
        let mut counts = self.counts.clone();
        if let Some(run) = run {
            counts.add(run);
        }
        counts.wall = self.started.elapsed();
        counts
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
            .map(|most| most.saturating_sub(self.counts.windows));
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
        self.counts.runs += 1;
        self.counts.add(&counts);
        self.teller.tell(Record::Counts(self.counts_with(None)));
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

impl Sink for Tracing<'_> {
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]) {
        let windows = self.counts.windows + collision.record.id.0;
        self.teller.collision(collision, modules, windows);
    }

    fn standing(
        &mut self,
        collision: &Collision,
        modules: &[Arc<Module>],
        target: &mut dyn Target,
    ) -> Standing {
        let observation = self.observation;
        if observation.core.is_none() && !observation.stop_on_race {
            return Standing::Release;
        }
        // This is for races only, and telling one takes the debug information.
        let Folded::New(index) = self.folder.add(collision, modules) else {
            return Standing::Release;
        };
        let race = self.folder.races().get(index);
        let Some(race) = race.filter(|race| race.class == Class::Race) else {
            return Standing::Release;
        };
        if let Some(folder) = &observation.core {
            let tid = collision.record.task.0;
            let path = folder.join(format!("core.{tid}.{}", race.id()));
            let written = target.write_core(collision.record.id, &path);
            self.teller.tell(Record::Core(
                written.map(|_| path).map_err(|error| error.to_string()),
            ));
        }
        if observation.stop_on_race {
            return Standing::Freeze;
        }
        Standing::Release
    }

    fn crash(&mut self, crash: Crash, modules: &[Arc<Module>]) {
        self.teller.crash(crash, modules);
    }

    fn progress(&mut self, counts: &Counts) {
        let now = self.started.elapsed();
        if now < self.told + COUNTS_EVERY {
            return;
        }
        self.told = now;
        self.teller
            .tell(Record::Counts(self.counts_with(Some(counts))));
    }

    fn enough(&self) -> bool {
        self.tracer.is_enough()
    }
}
