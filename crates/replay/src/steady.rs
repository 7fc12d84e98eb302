//! Replays over memory that others may change meanwhile.
//!
//! Pages are read one after the other while a replay asks for them. So all of them are read again
//! at the end, and if one has changed, everything begins anew. Bytes that change to and fro can
//! look unchanged, so what may prove something has to come out the same once more. Both threads
//! stand for all of it, so all of it has one deadline: that of one question.

use crate::client::{Worker, WorkerError};
use crate::memory::{Keeping, Memory, Snapshot};
use crate::outcome::{Call, Ended, Failure, Judgement};
use crate::scene::{Limits, Scene};
use std::time::Instant;

/// How often a replay is begun again because memory changed, or a second look saw something else.
const RETRIES: u32 = 2;

impl Worker {
    /// Replays a scene whose memory others may change meanwhile. Gives what the last look at it
    /// used as well.
    ///
    /// # Errors
    /// If the worker gave no answer in time; it is gone then.
    pub fn judge_live(
        &mut self,
        scene: &Scene,
        memory: &mut dyn Memory,
        limits: Limits,
    ) -> Result<(Judgement, Snapshot), WorkerError> {
        let deadline = self.deadline();
        let mut tries = 0;
        // What a first look came to, where a second one has to agree.
        let mut doubted: Option<Judgement> = None;
        loop {
            let begun = Instant::now();
            let mut memory = Keeping::new(&mut *memory);
            let judgement = self.judge_until(deadline, scene, &mut memory, limits)?;
            let changed = memory.changed(&judgement.used).first().copied();
            let differs = doubted
                .as_ref()
                .is_some_and(|before| before.call != judgement.call);
            let is_steady = changed.is_none() && !differs;
            if is_steady && (doubted.is_some() || !may_prove(&judgement)) {
                return Ok((judgement, memory.kept));
            }
            let failure = if Instant::now() + 2 * begun.elapsed() > deadline {
                // A worker that is asked all the same would be taken for one that hangs, and the
                // next look may take longer on a busy machine.
                Some(Failure::NoTime)
            } else if !is_steady && tries == RETRIES {
                let race = scene.race.first().map_or(0, |race| race.0);
                let address = changed.unwrap_or(race);
                Some(Failure::MemoryChanged { address })
            } else {
                None
            };
            if let Some(failure) = failure {
                let call = Call::ReplayFailure(failure);
                return Ok((Judgement { call, ..judgement }, memory.kept));
            }
            if is_steady {
                doubted = Some(judgement);
            } else {
                doubted = None;
                tries += 1;
            }
        }
    }
}

/// Whether a result may prove that a race is harmful: a fault, or a thread that goes another way
/// in any of the orders, on which a function may give up.
fn may_prove(judgement: &Judgement) -> bool {
    match &judgement.call {
        Call::Fault { .. } => true,
        Call::ReplayFailure(_) => false,
        Call::NoStateChange | Call::StateChange { .. } => {
            let outcomes = judgement.outcomes.iter();
            let mut here = outcomes.filter(|outcome| outcome.order.is_of_this_machine());
            let way = |ended: &'_ Ended| (ended.end.clone(), ended.ip, ended.calls.clone());
            let first = here.next().map(|outcome| outcome.ended.each_ref().map(way));
            here.any(|outcome| Some(outcome.ended.each_ref().map(way)) != first)
        }
    }
}
