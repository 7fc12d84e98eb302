//! Memory that others change, and that answers slowly.

use crate::assemble::{DATA, Race};
use redhanded_replay::{
    Call, Failure, Fetched, Judgement, Limits, Memory, Snapshot, Worker, WorkerError,
};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Counts how often the shared data is fetched.
struct Source {
    memory: Snapshot,
    looks: u64,
    /// Whether somebody else counts in it meanwhile.
    changes: bool,
    takes: Duration,
}

impl Memory for Source {
    fn fetch(&mut self, page: u64) -> Fetched {
        if page == DATA {
            sleep(self.takes);
            self.looks += 1;
            if self.changes {
                self.memory.write(DATA + 8, &self.looks.to_le_bytes());
            }
        }
        self.memory.fetch(page)
    }
}

fn judge(
    a: &str,
    changes: bool,
    takes: Duration,
    limit: Duration,
) -> (Result<Judgement, WorkerError>, u64) {
    let race = Race::new(a, "add dword ptr [data], 1; mfence; ret", &[5]);
    let mut source = Source {
        memory: race.memory,
        looks: 0,
        changes,
        takes,
    };
    let command = Command::new(env!("CARGO_BIN_EXE_redhanded-replay-worker"));
    let mut worker = Worker::start(command, limit).expect("worker");
    let judged = worker.judge_live(&race.scene, &mut source, Limits::default());
    (judged.map(|(judgement, _)| judgement), source.looks)
}

const MINUTES: Duration = Duration::from_secs(120);
const COPIES: &str = "mov eax, [data]; mov [data + 16], eax; mfence; mov eax, 1; ret";

#[test]
fn memory_that_keeps_changing_is_looked_at_three_times() {
    let (quiet, looks) = judge(COPIES, false, Duration::ZERO, MINUTES);
    let call = quiet.expect("an answer").call;
    assert!(matches!(call, Call::StateChange { .. }), "{call:?}");
    assert_eq!(
        looks, 2,
        "once for the replay, once to see that it is the same"
    );
    let uses = "mov eax, [data]; mov rcx, [data + 8]; mfence; mov eax, 1; ret";
    let (changing, looks) = judge(uses, true, Duration::ZERO, MINUTES);
    let call = changing.expect("an answer").call;
    let failure = Failure::MemoryChanged { address: DATA };
    assert_eq!(call, Call::ReplayFailure(failure));
    assert_eq!(looks, 6);
}

/// A function may give up where only an interrupted thread goes.
#[test]
fn another_way_in_any_order_is_looked_at_twice() {
    let start = "mov eax, [data]; mov [data + 16], eax; cmp eax, [data]; jne 1f
        mfence; mov eax, 1; ret; 1: call 2f; 2:";
    for end in ["mfence; ret", "int3"] {
        let (judged, looks) = judge(&format!("{start} {end}"), false, Duration::ZERO, MINUTES);
        let call = judged.expect("an answer").call;
        assert!(matches!(call, Call::StateChange { .. }), "{call:?}");
        assert_eq!(looks, 4, "{end}");
    }
}

#[test]
fn all_looks_have_one_deadline() {
    let uses = "mov eax, [data]; mov rcx, [data + 8]; mfence; mov eax, 1; ret";
    let takes = Duration::from_millis(700);
    let (judged, looks) = judge(uses, true, takes, Duration::from_secs(2));
    // On a busy machine even the first look takes too long.
    let is_expected = match &judged {
        Ok(judgement) => judgement.call == Call::ReplayFailure(Failure::NoTime),
        Err(error) => matches!(error, WorkerError::Timeout(_)),
    };
    assert!(is_expected, "{judged:?}");
    assert!(looks <= 2, "{looks} looks");
}
