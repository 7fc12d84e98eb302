//! The process in front: it takes what the tracer tells, has it named, folds it and shows it.

use super::{Display, GRACE, OnRace};
use crate::events::Events;
use crate::exit::{FAILED, Failure};
use crate::hunt::Hunting;
use crate::memory::Recorder;
use crate::scenarios::Scenarios;
use redhanded_detect::{Captured, Collision, Finding, Folded, Folder, name_crash, tally};
use redhanded_model::{Class, Counts, Crash, ModuleId, Quote, ReplayTally};
use redhanded_process::Front;
use redhanded_provision::VirtualMachine;
use redhanded_replay::MappedFile;
use redhanded_report::Tally;
use redhanded_session::{
    Answer, Asker, Finished, Heard, ImageFile, Listener, LogFile, Lost, Mapped, Question, Record,
};
use redhanded_store::Moment;
use redhanded_target::Ending;
use std::path::PathBuf;
use std::time::Instant;

/// The namer, as the front has it.
pub struct Names {
    pub asker: Asker,
    pub pid: u32,
    /// What became of it.
    pub lost: Option<String>,
}

/// The process in front.
pub struct Watching<'a> {
    pub front: Front,
    pub display: &'a Display,
    pub names: Names,
    /// Without their files, which only the namer opens.
    pub mapped: Mapped,
    pub folder: Folder,
    pub started: Instant,
    pub counts: Counts,
    pub found: u64,
    pub most: u64,
    pub on_race: Option<OnRace>,
    /// Whether the program was started by us.
    pub is_ours: bool,
    /// The program of the present run.
    pub pid: Option<u32>,
    pub crash: Option<Crash>,
    /// The virtual machine that was started for it.
    pub machine: Option<VirtualMachine>,
    pub log: Option<LogFile>,
    /// The processes that replay.
    pub servants: Vec<u32>,
    pub scenarios: Option<Scenarios>,
    /// The files that are mapped now.
    pub files: Vec<(ModuleId, MappedFile)>,
    /// What replaying the next collision needs.
    pub captured: Option<Box<Captured>>,
    pub recorder: Option<Recorder>,
    pub events: Option<Events>,
    pub program: Vec<String>,
    pub hunting: Hunting,
    /// Whether the program is left alone when the last suspect is caught, instead of being
    /// observed to the end of its run.
    pub leaves: bool,
}

impl Watching<'_> {
    /// Takes the tracer's records until the last; `None` if there was none.
    pub fn listen(&mut self, mut listener: Listener) -> Result<Option<Finished>, Failure> {
        loop {
            let record = match listener.hear() {
                Heard::Record(record) => *record,
                Heard::Nothing => {
                    self.tend();
                    continue;
                }
                Heard::Silence => return Ok(None),
            };
            let passing = matches!(
                record,
                Record::Crash { .. }
                    | Record::Rights(_)
                    | Record::Exposure(_)
                    | Record::Captured(_)
            );
            if !passing {
                self.keep(&record);
            }
            match record {
                Record::Started { pid } => {
                    self.names.asker.tell(&Question::Started);
                    self.files.clear();
                    self.pid = Some(pid);
                    if let Some(recorder) = &mut self.recorder {
                        recorder.begin(Moment::now());
                    }
                    if let Some(events) = &mut self.events {
                        events.started(&self.program, pid);
                    }
                    if self.is_ours {
                        self.front.mirror(pid);
                    }
                    if let Some(machine) = &mut self.machine {
                        machine.start();
                    }
                }
                Record::Module { module, file } => {
                    log::debug!("mapped at {:#x}: {}", module.bias, module.name);
                    if let Some(file) = &file {
                        self.files.push((module.id, mapped_file(file, module.bias)));
                    }
                    self.mapped.add_unopened(module.clone());
                    self.names.asker.tell(&Question::Module { module, file });
                }
                Record::Rights(rights) => self.names.asker.tell(&Question::Rights(rights)),
                Record::Captured(captured) => self.captured = Some(captured),
                Record::Collision { collision, .. } => self.collision(collision),
                Record::Crash { crash, modules } => {
                    let crash = self.name_crash(crash, modules.clone());
                    self.crash = Some(crash.clone());
                    self.keep(&Record::Crash { crash, modules });
                }
                Record::Core(written) => self.tell_of_core(written),
                Record::Counts(counts) => {
                    self.counts = counts;
                    if let Some(events) = &mut self.events {
                        events.counts(&self.counts);
                    }
                    self.show_progress();
                    self.tend();
                }
                Record::Exposure(exposure) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.exposed(&exposure);
                    }
                }
                Record::Finished(finished) => return Ok(Some(*finished)),
                Record::Failed { code, message } => return Err(Failure::Tracer { code, message }),
                // The front's own.
                Record::Header(_)
                | Record::Finding(_)
                | Record::Replayed(_)
                | Record::Source { .. }
                | Record::Run(_) => {}
            }
        }
    }

    pub fn keep(&mut self, record: &Record) {
        if let Some(log) = &mut self.log {
            log.keep(record);
        }
    }

    /// Asks the namer, and goes on with everything else until it answers.
    fn ask(&mut self, question: &Question) -> Option<Answer> {
        let answer = self.names.asker.ask(question, || self.front.tend());
        if answer.is_none() && self.names.lost.is_none() {
            self.lost_namer();
        }
        answer
    }

    fn collision(&mut self, collision: Box<Collision>) {
        log::trace!("collision: {collision:?}");
        let captured = self.captured.take();
        let question = Question::Collision(collision);
        let answer = self.ask(&question);
        let Question::Collision(collision) = question else {
            return;
        };
        let (finding, replay) = match answer {
            Some(Answer::Finding {
                finding,
                quotes,
                replay,
            }) => {
                self.quote(quotes);
                (finding, replay)
            }
            _ => {
                let modules = self.mapped.of(&collision.modules);
                let finding = self.folder.judge(&collision, &modules);
                (finding, tally(&collision, &modules))
            }
        };
        if self.log.is_some() {
            self.keep(&Record::Finding(finding.clone()));
        }
        if let Finding::Instance(race) = &finding
            && race.class.is_listed()
            && self.hunting.caught(race)
        {
            if self.leaves {
                self.front.enough();
            } else {
                self.front.last_run();
            }
        }
        let folded = self.folder.fold_instance(finding, &collision);
        if let Some(tally) = replay {
            self.keep(&Record::Replayed(tally.clone()));
            if let Some(captured) = captured {
                self.keep_scenario(folded, &collision, *captured, &tally);
            }
            self.folder.replayed(folded, tally);
        }
        match folded {
            Folded::New(index) => self.found_race(index),
            Folded::Again(index) => self.saw_again(index),
            Folded::SetAside => {}
        }
    }

    fn keep_scenario(
        &mut self,
        folded: Folded,
        collision: &Collision,
        captured: Captured,
        tally: &ReplayTally,
    ) {
        let (Folded::New(index) | Folded::Again(index)) = folded else {
            return;
        };
        let (Some(scenarios), Some(race)) = (&mut self.scenarios, self.folder.races().get(index))
        else {
            return;
        };
        let files = self
            .files
            .iter()
            .filter(|(id, _)| collision.modules.contains(id));
        let files = files.map(|(_, file)| file.clone()).collect();
        let asker = &mut self.names.asker;
        let front = &mut self.front;
        let ask = &mut |question: &Question| asker.ask(question, || front.tend());
        let instance = (collision, captured);
        scenarios.keep(race, instance, tally, &self.program, files, ask);
    }

    /// Keeps the source lines that a report quotes.
    fn quote(&mut self, quotes: Vec<Quote>) {
        for quote in quotes {
            if self.display.quotes.add(&quote) {
                let Quote { file, line, text } = quote;
                self.keep(&Record::Source { file, line, text });
            }
        }
    }

    fn name_crash(&mut self, mut crash: Crash, modules: Vec<ModuleId>) -> Crash {
        let mapped = self.mapped.of(&modules);
        let question = Question::Crash {
            crash: crash.clone(),
            modules,
        };
        if let Some(Answer::Crash(named)) = self.ask(&question) {
            return named;
        }
        name_crash(&mut crash, &mapped);
        crash
    }

    /// Notes that there will be no more names, and says why.
    fn lost_namer(&mut self) {
        let why = match self.names.asker.lost() {
            Some(Lost::TooLong) => "takes too long".to_owned(),
            Some(Lost::Ended) | None => match self.front.wait_for(self.names.pid, GRACE) {
                Ending::Exited { status } if status == i32::from(FAILED) => {
                    "ran out of the memory that it may use".to_owned()
                }
                Ending::Killed { signal, .. } => format!("was killed by signal {signal}"),
                _ => "ended unexpectedly".to_owned(),
            },
        };
        self.display.progress.suspend(|| {
            crate::screen::say(&format!(
                "redhanded: the process that reads debug information {why}; from here on races \
                 are reported by their addresses"
            ));
        });
        self.names.lost = Some(why);
    }

    /// Ends the processes that were asked.
    pub fn end_servants(&mut self) {
        for pid in std::iter::once(self.names.pid).chain(std::mem::take(&mut self.servants)) {
            self.front.kill(pid);
            self.front.wait_for(pid, GRACE);
        }
    }

    fn tend(&mut self) {
        self.front.tend();
        // From here on the machine only shuts down.
        if self.machine.as_ref().is_some_and(|m| m.state().is_over()) {
            self.front.enough();
        }
    }

    fn saw_again(&mut self, index: usize) {
        let Some(race) = self.folder.races().get(index) else {
            return;
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.saw_again(race);
        }
        if let Some(events) = &mut self.events {
            events.again(race);
        }
    }

    fn found_race(&mut self, index: usize) {
        let Some(race) = self.folder.races().get(index) else {
            return;
        };
        // Before anybody hears of it: what was told is remembered, whatever happens next.
        if let Some(recorder) = &mut self.recorder {
            recorder.saw(race);
        }
        if let Some(events) = &mut self.events {
            events.race(race, self.started.elapsed());
        }
        if self.display.announce {
            self.display.progress.suspend(|| {
                let mut text = Vec::new();
                let _ = self
                    .display
                    .terminal
                    .race(&mut text, race, self.started.elapsed());
                crate::screen::show(&text);
            });
        }
        self.found = self.folder.listed(Class::Race);
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
}

fn mapped_file(file: &ImageFile, bias: u64) -> MappedFile {
    MappedFile {
        path: file.path.to_string_lossy().into_owned(),
        build_id: file.build_id.clone(),
        bias,
    }
}
