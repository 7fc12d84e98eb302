//! Bytes changed or were unmapped, and nobody was caught: who may have done it.

use crate::system_call::{self, Progress};
use redhanded_model::{AccessKind, Avma, Suspect, WindowEnd, WindowRecord};
use redhanded_target::Inspect;

/// System calls of other threads that are under way and write or unmap these bytes, and
/// other processes that map them.
pub fn suspects(target: &mut dyn Inspect, record: &WindowRecord) -> Vec<Suspect> {
    let mut suspects = Vec::new();
    for (task, registers) in target.in_system_calls(record.space) {
        if task == record.task {
            continue;
        }
        let mut read_word = |at: Avma| {
            let mut word = [0; 8];
            let read = target.read(record.space, at, &mut word);
            read.then(|| u64::from_le_bytes(word))
        };
        // Only a write conflicts with a read.
        let call = if record.end == WindowEnd::Unmapped {
            system_call::unmaps(&registers)
                .filter(|(_, bytes)| bytes.overlaps(record.bytes))
                .map(|(call, _)| call)
        } else {
            system_call::access(
                &registers,
                Progress::UnderWay,
                record.bytes,
                AccessKind::Read,
                &mut read_word,
            )
            .map(|(call, ..)| call)
        };
        if let Some(call) = call {
            suspects.push(Suspect::SystemCall {
                thread: target.thread_name(task),
                call: call.to_owned(),
            });
        }
    }
    let sharers = target.sharers(record.space, record.bytes.start);
    suspects.extend(
        sharers
            .into_iter()
            .map(|(pid, name)| Suspect::Process { pid, name }),
    );
    suspects
}
