//! The end of an observation: the program is attended to, and the report is made.

use super::watching::Watching;
use super::{GRACE, Observation, Observed};
use crate::exit::{self, Failure};
use crate::kernel;
use crate::scenarios::Scenarios;
use redhanded_detect::Outcome;
use redhanded_model::{Counts, Report, Run, Unseen};
use redhanded_session::{Finished, LogFile, Record};
use redhanded_target::Ending;
use redhanded_verdict::judge;
use std::time::Duration;

impl Watching<'_> {
    /// Attends to the program when its tracing is over, and makes the report.
    pub fn conclude(
        mut self,
        finished: Option<Finished>,
        program: Vec<String>,
        observation: Observation,
    ) -> Result<Observed, Failure> {
        let is_ours = self.is_ours;
        let mut failure = self.lost_tracer(finished.is_some());
        if self.pid.is_none()
            && let Some(failure) = failure
        {
            return Err(failure);
        }
        // A tracer that was woken to end may not have looked at its signals.
        let has_answered = finished.as_ref().is_some_and(|finished| {
            let interrupted = matches!(finished.outcome, Outcome::Interrupted { .. });
            interrupted || !self.front.tracer_hung()
        });
        if let (false, true, Some(pid)) = (has_answered, is_ours, self.pid) {
            for signal in self.front.take_unanswered() {
                self.front.signal(pid, signal);
            }
        }
        let finished = finished.unwrap_or_else(|| Finished {
            counts: self.counts_until_lost(),
            unseen: vec![Unseen {
                what: "the rest of the run".to_owned(),
                why: failure
                    .as_ref()
                    .map_or_else(String::new, Failure::to_string),
            }],
            pursuits: Vec::new(),
            outcome: Outcome::Enough,
            ending: Ending::LeftRunning,
        });
        let (outcome, mut ending) = (finished.outcome, finished.ending);
        let mut run = Run {
            program,
            unseen: finished.unseen,
            cut_short: failure.is_some(),
            candidates: std::mem::take(&mut self.hunting).conclude(finished.pursuits),
            ..Run::from(finished.counts)
        };
        if let Some(why) = &self.names.lost {
            run.unseen.push(Unseen {
                what: "names and source lines of some races".to_owned(),
                why: format!("the process that reads debug information {why}"),
            });
        }
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
            ending = kernel::machine::end(machine, over, &mut run, self.display);
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
            exit::fail(&mut failure, error.into());
        }
        if let Some(Err(error)) = self.scenarios.map(Scenarios::finish) {
            exit::fail(&mut failure, error);
        }
        let (races, set_aside) = self.folder.into_races();
        let mut report = Report {
            run,
            races,
            set_aside,
            quotes: self.display.quotes.all(),
        };
        judge(&mut report, &observation.annotations);
        let memory = observation.memory;
        if let Some(recorder) = self.recorder {
            let counts = failure.is_none() && memory.too_little(&report.run).is_none();
            if let Err(error) = recorder.finish(&mut report, counts) {
                exit::fail(&mut failure, error);
            }
        }
        if let Some(events) = self.events
            && let Err(error) = events.finished(&report.run, report.races.len())
        {
            exit::fail(&mut failure, error);
        }
        self.front.forget_signals();
        Ok(Observed {
            report,
            ending,
            memory,
            failure,
        })
    }

    /// Whether the tracer ended otherwise than it should. If it did, the program's
    /// bytes are put back first of all.
    fn lost_tracer(&mut self, finished: bool) -> Option<Failure> {
        let ending = self.front.tracer_ending();
        if finished && ending == Some(Ending::Exited { status: 0 }) {
            // It was stopped for long, and has let go of everything since.
            let hung = self.front.tracer_hung();
            return hung.then(|| Failure::LostTracer("hung and was ended".to_owned()));
        }
        let restored = self.front.rescued();
        let why = match ending {
            _ if self.front.tracer_hung() => "hung and was killed".to_owned(),
            Some(Ending::Killed { signal, .. }) => format!("was killed by signal {signal}"),
            _ => "ended unexpectedly".to_owned(),
        };
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
        "redhanded: process {pid} is stopped at the race; threads that the report names are at their accesses\n  \
         look at it      gdb -p {pid}{here}\n  let it go on    kill -CONT {pid}{end}"
    ));
}

const fn ending_is_open(ending: Ending) -> bool {
    matches!(ending, Ending::LeftRunning | Ending::Exited { status: 0 })
}
