//! A scenario and the worker that plays it.

use super::telling;
use redhanded_replay::{Followed, Judgement, Order, Scenario, Worker};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long one order may take. A scenario may come from anybody.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Theatre {
    pub scenario: Scenario,
    worker: Worker,
    judgement: Option<Judgement>,
}

impl Theatre {
    pub fn new(scenario: Scenario, stream: UnixStream) -> Result<Self, String> {
        let worker = Worker::over(stream, PATIENCE).map_err(|error| error.to_string())?;
        Ok(Self {
            scenario,
            worker,
            judgement: None,
        })
    }

    /// All orders, and how they differ.
    pub fn judge(&mut self) -> Result<Judgement, String> {
        if let Some(judgement) = &self.judgement {
            return Ok(judgement.clone());
        }
        let Scenario {
            scene,
            memory,
            limits,
            ..
        } = &mut self.scenario;
        let judged = self.worker.judge(scene, memory, *limits);
        let judgement = judged.map_err(|error| error.to_string())?;
        self.judgement = Some(judgement.clone());
        Ok(judgement)
    }

    /// The order that shows the most.
    pub fn telling_order(&mut self) -> Result<Order, String> {
        Ok(telling(&self.judge()?.call))
    }

    /// One order up to a step.
    pub fn follow(&mut self, order: Order, steps: u64, listed: bool) -> Result<Followed, String> {
        let Scenario {
            scene,
            memory,
            limits,
            ..
        } = &mut self.scenario;
        let worker = &mut self.worker;
        let followed = worker.follow(scene, memory, order, *limits, steps, listed);
        let followed = followed.map_err(|error| error.to_string())?;
        followed.map_err(|failure| format!("it cannot be replayed: {failure}"))
    }
}
