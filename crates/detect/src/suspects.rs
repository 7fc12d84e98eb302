//! Bytes changed and nobody was caught: who may have done it.

use crate::system_call;
use redhanded_model::{Avma, WindowRecord};
use redhanded_target::Inspect;

/// What can be said, in words: a system call of another thread that is under way
/// into these bytes, other processes that map them.
pub fn suspects(target: &mut dyn Inspect, record: &WindowRecord) -> Vec<String> {
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
        let access = system_call::access(&registers, record.bytes, &mut read_word);
        if let Some((name, kind, _)) = access
            && kind.writes()
        {
            let thread = target.thread_name(task);
            suspects.push(format!(
                "thread {} ({}) is in {name}(2), which writes these bytes",
                thread.tid, thread.name
            ));
        }
    }
    for (pid, name) in target.sharers(record.space, record.bytes.start) {
        suspects.push(format!("process {pid} ({name}) maps them too"));
    }
    suspects
}
