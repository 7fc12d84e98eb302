//! Keeps a scenario of each race that may be harmful (`--scenarios`).

use crate::exit::Failure;
use crate::replayer::STARTS_WITHIN;
use crate::screen;
use redhanded_detect::{Captured, Collision};
use redhanded_model::{Avma, ModuleId, Race, ReplayTally};
use redhanded_replay::{
    Limits, MappedFile, Order, Scenario, Side, SourceLine, Worker, WorkerError, Workers,
};
use redhanded_session::{Answer, Question};
use redhanded_sys::Folder;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one order may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Orders whose data is named, besides the two in which nobody is interrupted.
const MOST_ORDERS: usize = 4;
/// Addresses of data that are named; a region touches few that people know.
const MOST_NAMES: usize = 1000;

/// The mode of a scenario, which holds memory of the program.
const MODE: u32 = 0o600;

/// Writes scenarios into a folder.
pub struct Scenarios {
    /// As the user called it.
    place: PathBuf,
    folder: Folder,
    /// Where workers come from, and the one that is there.
    workers: Workers,
    worker: Option<Worker>,
    /// How telling the scenario of each race is that was kept.
    kept: HashMap<String, u8>,
    /// What was written, with the sizes.
    written: BTreeMap<PathBuf, u64>,
    /// Why one could not be made.
    failed: Option<WorkerError>,
    /// Why one could not be written.
    unwritten: Option<io::Error>,
}

impl Scenarios {
    /// Keeps them in `folder`, which the user calls `place`.
    pub fn new(place: &Path, folder: Folder, workers: Workers) -> Self {
        Self {
            place: place.to_owned(),
            folder,
            workers,
            worker: None,
            kept: HashMap::new(),
            written: BTreeMap::new(),
            failed: None,
            unwritten: None,
        }
    }

    /// Says what was written. One that could not be made is told, and is no failure: not
    /// everything can be replayed.
    pub fn finish(self) -> Result<(), Failure> {
        for (path, size) in &self.written {
            let path = path.display();
            screen::say(&format!(
                "redhanded: kept {path} ({size} bytes); look at it with redhanded replay {path}"
            ));
        }
        if let Some(why) = &self.failed {
            screen::say(&format!("redhanded: a scenario could not be made: {why}"));
        }
        self.unwritten.map_or(Ok(()), |source| {
            Err(Failure::File {
                what: "a scenario",
                path: self.place,
                source,
            })
        })
    }

    /// Keeps the scenario of an instance, if it tells more than those before.
    pub fn keep(
        &mut self,
        race: &Race,
        (collision, captured): (&Collision, Captured),
        tally: &ReplayTally,
        program: &[String],
        files: Vec<MappedFile>,
        ask: &mut dyn FnMut(&Question) -> Option<Answer>,
    ) {
        // A proof tells more than a difference, and that more than a failure.
        let tells = match tally {
            tally if tally.faults > 0 => 3,
            tally if tally.state_change > 0 => 2,
            tally if tally.replay_failure > 0 => 1,
            _ => return,
        };
        let id = race.id();
        if self.kept.get(&id).is_some_and(|kept| *kept >= tells) {
            return;
        }
        let scenario = match self.scenario(race, collision, captured, program, files, ask) {
            Ok(scenario) => scenario,
            Err(error) => {
                // The next scenario gets another one, as long as there are any.
                self.worker = None;
                let _ = self.workers.replace();
                self.failed = Some(error);
                return;
            }
        };
        match self.write(&scenario) {
            Ok(()) => drop(self.kept.insert(id, tells)),
            Err(error) => self.unwritten = Some(error),
        }
    }

    fn scenario(
        &mut self,
        race: &Race,
        collision: &Collision,
        captured: Captured,
        program: &[String],
        files: Vec<MappedFile>,
        ask: &mut dyn FnMut(&Question) -> Option<Answer>,
    ) -> Result<Scenario, WorkerError> {
        let limits = Limits::default();
        let (code, data) = self.touched(&captured, collision, limits)?;
        let names = names(&collision.modules, &code, &data, ask);
        let (places, data) = names.unwrap_or_default();
        let name = |at: usize| {
            race.accesses
                .get(at)
                .map(|access| access.thread.to_string())
        };
        Ok(Scenario {
            id: race.id(),
            what: what(race),
            program: program.to_vec(),
            names: [0, 1].map(|at| name(at).unwrap_or_default()),
            scene: captured.scene,
            limits,
            memory: captured.memory,
            files,
            places,
            data,
        })
    }

    fn write(&mut self, scenario: &Scenario) -> io::Result<()> {
        let path = self.place.join(format!("{}.scenario", scenario.id));
        let bytes = scenario.to_bytes();
        let draft = self.folder.draft(MODE)?;
        io::Write::write_all(&mut draft.file(), &bytes)?;
        draft.place(&path)?;
        self.written.insert(path, bytes.len() as u64);
        Ok(())
    }

    /// The instructions and data of the orders that people look at.
    fn touched(
        &mut self,
        captured: &Captured,
        collision: &Collision,
        limits: Limits,
    ) -> Result<Touched, WorkerError> {
        let mut orders = vec![Order::First(Side::A), Order::First(Side::B)];
        if let Some(replay) = &collision.replay {
            let telling = replay.judgement.call.telling();
            orders.extend(telling.into_iter().take(MOST_ORDERS));
        }
        let worker = match &mut self.worker {
            Some(worker) => worker,
            none => none.insert(next(&self.workers)?),
        };
        let (mut code, mut data) = (BTreeSet::new(), BTreeSet::new());
        for order in orders {
            let memory = &mut captured.memory.clone();
            let scene = &captured.scene;
            let followed = worker.follow(scene, memory, order, limits, u64::MAX, true)?;
            let Ok(followed) = followed else {
                continue;
            };
            code.extend(followed.ended.iter().map(|ended| ended.ip));
            for step in followed.steps {
                code.insert(step.ip);
                let accesses = step.reads.iter().chain(&step.writes);
                data.extend(accesses.map(|(at, bytes)| (*at, bytes.len() as u64)));
            }
        }
        Ok((code, data))
    }
}

/// A worker that is ready.
fn next(workers: &Workers) -> Result<Worker, WorkerError> {
    let stream = workers.next(STARTS_WITHIN).map_err(WorkerError::Start)?;
    let stream = stream.ok_or(WorkerError::Timeout(STARTS_WITHIN))?;
    Worker::over(stream, PATIENCE)
}

/// Instructions; and data, with the number of bytes.
type Touched = (BTreeSet<u64>, BTreeSet<(u64, u64)>);
type Names = (BTreeMap<u64, SourceLine>, BTreeMap<u64, (u64, String)>);

fn names(
    modules: &[ModuleId],
    code: &BTreeSet<u64>,
    data: &BTreeSet<(u64, u64)>,
    ask: &mut dyn FnMut(&Question) -> Option<Answer>,
) -> Option<Names> {
    let code: Vec<Avma> = code.iter().copied().map(Avma).collect();
    let data: Vec<(Avma, u64)> = data
        .iter()
        .take(MOST_NAMES)
        .map(|(at, len)| (Avma(*at), *len))
        .collect();
    let question = Question::Places {
        modules: modules.to_vec(),
        code: code.clone(),
        data: data.clone(),
    };
    let Some(Answer::Places {
        code: places,
        data: variables,
    }) = ask(&question)
    else {
        return None;
    };
    let places = code.iter().map(|at| at.0).zip(places).collect();
    let named = data.iter().zip(variables);
    let named = named.filter_map(|((at, len), name)| Some((at.0, (*len, name?))));
    Some((places, named.collect()))
}

fn what(race: &Race) -> String {
    let what = &race.what;
    match (&what.name, &what.field) {
        (Some(name), field) => format!("{name}{}", field.as_deref().unwrap_or_default()),
        (None, _) if what.size == 1 => format!("the byte at {:#x}", what.address),
        (None, _) => format!("{} bytes at {:#x}", what.size, what.address),
    }
}
