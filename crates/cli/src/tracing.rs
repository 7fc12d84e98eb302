//! The tracer's side of an observation: sampling, once or again and again.
//! Everything it sees is told to the process in front at once.

use crate::exit::Failure;
use crate::kernel::{KernelSubject, Vm};
use crate::namer::for_tracer;
use crate::observe::{Observation, Subject};
use crate::replayer::Replaying;
use redhanded_detect::{
    Collision, Disposition, Exposure, Finding, Folded, Folder, Hunt, Outcome, Random, Sink, hunt,
    watch,
};
use redhanded_guest::{Address, GuestMachine};
use redhanded_image::{Selected, start_threads};
use redhanded_model::{Class, Counts, Crash, ModuleId, TaskId, Unseen};
use redhanded_process::{Process, Program, Tracer};
use redhanded_replay::Workers;
use redhanded_session::{Answer, Asker, Finished, ImageFile, Question, Record, Teller, hear_place};
use redhanded_sys::{Rights, beat, effective_user, renounce_debug_information};
use redhanded_target::driver::Driver;
use redhanded_target::images::Images;
use redhanded_target::{Ending, Inspect, Machine, Module, Target, TargetError};
use std::collections::{BTreeMap, HashSet};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the front is told the numbers.
const COUNTS_EVERY: Duration = Duration::from_millis(100);

/// Traces until the subject ends or enough is seen.
pub fn trace(
    observation: &Observation,
    tracer: &Tracer,
    stream: UnixStream,
    namer: UnixStream,
    workers: Option<Workers>,
) {
    renounce_debug_information();
    // The place of a virtual machine is known when it has been started.
    let place = match &observation.subject {
        Subject::Kernel(_) => match hear_place(&stream) {
            Some(place) => Some(place),
            None => return,
        },
        Subject::Program(_) | Subject::Process(_) => None,
    };
    // Every thread is started before there is a file that it must not keep open.
    let threads = start_threads(tracer.for_threads());
    let Ok(teller) = Teller::new(stream, tracer.for_threads()) else {
        return;
    };
    let Ok(namer) = for_tracer(namer) else {
        return;
    };
    let namer = Arc::new(Mutex::new(namer));
    let mut tracing = Tracing {
        observation,
        tracer,
        images: observation.selecting.images(&namer),
        namer,
        namers_modules: HashSet::new(),
        reader: None,
        place,
        teller,
        started: Instant::now(),
        counts: Counts::default(),
        unseen: BTreeMap::new(),
        told: Duration::ZERO,
        folder: Folder::new(),
        replaying: Replaying::new(workers),
        hunt: (!observation.suspects.is_empty())
            .then(|| Hunt::new(&observation.suspects, observation.options.delay.task)),
    };
    let listens = observation.settings.safe;
    if listens && tracer.start_waiter().is_err() {
        return;
    }
    tracer.wait_for_threads(threads + 1 + usize::from(listens));
    let record = match tracing.repeat() {
        Ok((outcome, ending)) => {
            for option in observation.selecting.unmatched() {
                let why = "matches no code that was loaded and can be sampled";
                tracing.unseen.insert(option, why.to_owned());
            }
            let unseen = std::mem::take(&mut tracing.unseen).into_iter();
            Record::Finished(Box::new(Finished {
                counts: tracing.counts_with(None),
                unseen: unseen.map(|(what, why)| Unseen { what, why }).collect(),
                pursuits: tracing.hunt.as_ref().map_or_else(Vec::new, Hunt::pursuits),
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
    tracing.teller.finish(beat);
}

struct Tracing<'a> {
    observation: &'a Observation,
    tracer: &'a Tracer,
    images: Arc<Images>,
    namer: Arc<Mutex<Asker>>,
    /// The modules that the namer was told of in this run.
    namers_modules: HashSet<ModuleId>,
    /// Whose rights to sources the target had when that was last told.
    reader: Option<Rights>,
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
    replaying: Replaying,
    /// What is known of the suspects, over all runs.
    hunt: Option<Hunt>,
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
            if !matches!(last, Outcome::Ended(_)) || self.tracer.is_last_run() {
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
        self.started(process.pid());
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
            // Whoever limits each run expects that some hang. The one that is going when all of the
            // time is over is ended as well.
            let too_long = observation.each.is_some() && !self.is_enough(counts);
            if too_long {
                *outcome = Outcome::Ended(Ending::EndedByUs);
                self.counts.cut_off += u64::from(limit.is_some());
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
        let images = Arc::clone(&self.images);
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
                let _ = self.images.sites(image);
            }
        }
        if matches!(kernel.vm, Vm::Launched(_)) {
            machine.reserve_host_cpu();
        }
        machine.begin(until);
        self.started(0);
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
        let images = Arc::clone(&self.images);
        let sites = |module: &Module| -> Option<Arc<Selected>> {
            Some(images.sites(module.image.as_ref()?))
        };
        let mut driver = Driver::new(machine);
        let result = match self.hunt.take() {
            Some(mut suspects) => {
                let plan = (options, &mut suspects);
                let result = hunt(&mut driver, &sites, plan, random, self);
                self.hunt = Some(suspects);
                result
            }
            None => watch(&mut driver, &sites, options, random, self),
        };
        let machine = driver.into_machine();
        self.note_unseen(&machine);
        (machine, result)
    }

    fn sampled(
        &mut self,
        result: Result<(Outcome, Counts), TargetError>,
    ) -> Result<(Outcome, Ending), Failure> {
        let (outcome, counts) = result?;
        log::debug!("sampled, {outcome:?}: {counts:?}");
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
        let images = Arc::clone(&self.images);
        let signals = Arc::clone(&observation.signals);
        let settings = observation.settings;
        Process::launch(program, images, signals, settings, Some(self.tracer))
    }

    fn attach(&self, pid: u32) -> Result<Process, TargetError> {
        let observation = self.observation;
        let images = Arc::clone(&self.images);
        let signals = Arc::clone(&observation.signals);
        let settings = observation.settings;
        Process::attach(pid, images, signals, settings, Some(self.tracer))
    }

    fn note_unseen(&mut self, machine: &impl Machine) {
        for note in machine.unseen() {
            self.unseen.insert(note.what, note.why);
        }
        if self.namer().lost().is_some() {
            let what = "what the source says of sites".to_owned();
            let why = "the process that reads debug information gave no answer".to_owned();
            self.unseen.insert(what, why);
        }
        if self.replaying.is_lost() {
            let what = "what other orders of the accesses would do".to_owned();
            let why = "the process that replays gave no answer".to_owned();
            self.unseen.insert(what, why);
        }
        for module in machine.modules() {
            if let Some(image) = &module.image
                && let Some(why) = self.images.sites(image).why_none.clone()
            {
                self.unseen.insert(module.name.clone(), why);
            }
        }
    }
}

impl Tracing<'_> {
    fn namer(&self) -> MutexGuard<'_, Asker> {
        self.namer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&mut self, pid: u32) {
        log::debug!("process {pid} is traced");
        self.teller.started(pid);
        self.replaying.started();
        self.namers_modules.clear();
        self.namer().tell(&Question::Started);
    }

    /// Tells whose rights a task has, if they are not those of the last one: root must not
    /// quote what the user of the target may not read. Programs change their users. A kernel
    /// has none, but whoever owns one of its files chose the sources that are named there.
    fn tell_rights(&mut self, task: TaskId, modules: &[Arc<Module>]) {
        if effective_user() != 0 {
            return;
        }
        let rights = match &self.observation.subject {
            Subject::Kernel(_) if self.reader.is_some() => None,
            Subject::Kernel(kernel) => {
                let given = kernel.files.origins();
                let images = modules.iter().filter_map(|module| module.image.as_deref());
                let images = images.map(|image| image.path());
                rights_over(given.iter().map(|path| &**path).chain(images))
            }
            Subject::Program(_) | Subject::Process(_) => Some(Rights::of(task.0.cast_signed())),
        };
        if let Some(rights) = rights
            && self.reader.as_ref() != Some(&rights)
        {
            self.teller.tell(Record::Rights(rights.clone()));
            self.reader = Some(rights);
        }
    }

    /// What a collision is, told while its threads stand.
    fn judge(&mut self, collision: &Collision, modules: &[Arc<Module>]) -> Option<Finding> {
        let mut namer = self.namer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rights) = &self.reader {
            namer.tell(&Question::Rights(rights.clone()));
        }
        for module in modules {
            if self.namers_modules.insert(module.id) {
                namer.tell(&Question::Module {
                    module: Module::clone(module),
                    file: module.image.as_deref().map(ImageFile::of),
                });
            }
        }
        let question = Question::Collision(Box::new(collision.clone()));
        match namer.ask(&question, beat) {
            Some(Answer::Finding { finding, .. }) => Some(finding),
            _ => None,
        }
    }
}

impl Sink for Tracing<'_> {
    fn collision(&mut self, collision: Collision, modules: &[Arc<Module>]) {
        self.tell_rights(collision.record.task, modules);
        let windows = self.counts.windows + collision.record.id.0;
        self.teller.collision(collision, modules, windows);
    }

    fn standing(
        &mut self,
        collision: &mut Collision,
        modules: &[Arc<Module>],
        target: &mut dyn Target,
    ) -> Disposition {
        let observation = self.observation;
        let captured = self.replaying.consider(collision, modules, target);
        if let (Some(captured), Some(_)) = (captured, &observation.scenarios) {
            self.teller.tell(Record::Captured(Box::new(captured)));
        }
        if observation.core.is_none() && !observation.stop_on_race {
            return Disposition::Release;
        }
        // This is for races only, and only the debug information tells one.
        self.tell_rights(collision.record.task, modules);
        let Some(finding) = self.judge(collision, modules) else {
            return Disposition::Release;
        };
        let Folded::New(index) = self.folder.fold(finding) else {
            return Disposition::Release;
        };
        let race = self.folder.races().get(index);
        let Some(race) = race.filter(|race| race.class == Class::Race) else {
            return Disposition::Release;
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
            return Disposition::Freeze;
        }
        Disposition::Release
    }

    fn crash(&mut self, crash: Crash, modules: &[Arc<Module>]) {
        self.teller.crash(crash, modules);
    }

    fn exposure(&mut self, exposure: Vec<Exposure>) {
        if self.observation.memory.store.is_some() {
            self.teller.tell(Record::Exposure(exposure));
        }
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

/// The rights of whoever can decide what is in one of these files, if that is not only root.
fn rights_over<'a>(files: impl IntoIterator<Item = &'a Path>) -> Option<Rights> {
    let mut owners = files.into_iter().map(Rights::over);
    // What is there no longer has an owner who is not known.
    owners.find_map(|owner| owner.map_or(Some(Rights::NOBODY), |(_, rights)| rights))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    #[test]
    fn one_file_of_another_user_decides_what_root_may_quote() {
        if effective_user() != 0 {
            eprintln!("skipped: only root can give a file away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let files = ["vmlinux", "root.ko", "user.ko"].map(|name| place.path().join(name));
        for file in &files {
            redhanded_sys::write_whole(file, 0o644, b"").unwrap();
        }
        let over = || rights_over(files.iter().map(|file| &**file));
        assert_eq!(over(), None);
        chown(&files[2], Some(4711), Some(4712)).unwrap();
        assert_eq!(over(), Some(Rights::of_owner(4711, 4712)));
        std::fs::remove_file(&files[0]).unwrap();
        assert_eq!(over(), Some(Rights::NOBODY));
    }
}
