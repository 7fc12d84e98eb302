//! What `/proc` tells about the threads of a process.

use redhanded_model::{Register, Registers};
use redhanded_sys::{Tid, status_field};
use std::fs;

/// The name of a thread.
pub fn name(pid: Tid, tid: Tid) -> String {
    fs::read(format!("/proc/{pid}/task/{tid}/comm")).map_or_else(
        |_| String::new(),
        |bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned(),
    )
}

/// The process a thread belongs to.
pub fn process_of(tid: Tid) -> Option<Tid> {
    status_field(tid, "Tgid:")?.parse().ok()
}

/// The parent of a process.
pub fn parent_of(pid: Tid) -> Option<Tid> {
    status_field(pid, "PPid:")?.parse().ok()
}

/// The threads of a process that are traced, by us as long as we have it.
pub fn traced(pid: Tid) -> Vec<Tid> {
    let mut threads = threads(pid);
    threads.retain(|tid| tracer_of(*tid).is_some_and(|tracer| tracer != 0));
    threads
}

/// The sets of signals in the status of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalField {
    /// Pending for this thread.
    Pending,
    /// Pending for any thread of its process.
    PendingForProcess,
    /// Blocked by the thread.
    Blocked,
    /// Ignored by the process.
    Ignored,
    /// Handled by the process.
    Handled,
}

/// A set of signals of a thread; bit 0 is signal 1.
pub fn signals(tid: Tid, which: SignalField) -> u64 {
    let field = match which {
        SignalField::Pending => "SigPnd:",
        SignalField::PendingForProcess => "ShdPnd:",
        SignalField::Blocked => "SigBlk:",
        SignalField::Ignored => "SigIgn:",
        SignalField::Handled => "SigCgt:",
    };
    status_field(tid, field)
        .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
        .unwrap_or(0)
}

/// The bit of a signal in such a set.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Whether a process is stopped, by a signal or by a tracer.
pub fn is_stopped(pid: Tid) -> bool {
    status_field(pid, "State:").is_some_and(|state| state.starts_with(['T', 't']))
}

/// Whether a thread runs, or would if it had a processor. Only such a thread can have a trap
/// on its way that shows nowhere yet: the kernel makes the signal of a perf event pending when
/// the thread next returns to its program.
pub fn wants_to_run(tid: Tid) -> bool {
    status_field(tid, "State:").is_some_and(|state| state.starts_with('R'))
}

/// Whether a process has ended and its parent has not waited for it.
pub fn has_ended(pid: Tid) -> bool {
    status_field(pid, "State:").is_some_and(|state| state.starts_with('Z'))
}

/// The tracer of a thread, or 0.
pub fn tracer_of(tid: Tid) -> Option<Tid> {
    status_field(tid, "TracerPid:")?.parse().ok()
}

/// The threads of a process.
pub fn threads(pid: Tid) -> Vec<Tid> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The system call that a thread sleeps in: its number and its arguments, the stack
/// pointer and the pc. Outside of system calls the number is -1, without arguments.
/// `None` if the thread runs.
fn asleep(pid: Tid, tid: Tid) -> Option<(i64, Vec<u64>)> {
    parse_syscall(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

fn parse_syscall(text: &str) -> Option<(i64, Vec<u64>)> {
    let mut fields = text.split_whitespace();
    let number = fields.next()?.parse().ok()?;
    let word = |field: &str| u64::from_str_radix(field.trim_start_matches("0x"), 16).ok();
    Some((number, fields.filter_map(word).collect()))
}

/// The stack pointer of a thread that sleeps in the kernel.
pub fn stack_pointer(pid: Tid, tid: Tid) -> Option<u64> {
    let (_, words) = asleep(pid, tid)?;
    words.iter().nth_back(1).copied()
}

/// The system call that a thread is in, with its arguments in their registers.
pub fn system_call(pid: Tid, tid: Tid) -> Option<Registers> {
    let (system_call, words) = asleep(pid, tid).filter(|(call, _)| *call >= 0)?;
    let mut registers = Registers {
        system_call,
        ..Registers::default()
    };
    for (register, value) in Register::SYSTEM_CALL_ARGUMENTS.into_iter().zip(words) {
        registers.set(register, value);
    }
    Some(registers)
}

/// The number of the system call that a thread sleeps in.
pub fn sleeps_in(pid: Tid, tid: Tid) -> Option<i64> {
    asleep(pid, tid).map(|(number, _)| number)
}

/// Whether a thread sleeps in a system call that only another thread can end: a futex
/// without a timeout (locks, joins, conditions), or a wait for children or signals. A
/// thread that sleeps with a timeout or on a file may wake by itself.
pub fn is_blocked(pid: Tid, tid: Tid) -> bool {
    asleep(pid, tid).is_some_and(|(number, words)| blocks_forever(number, &words))
}

fn blocks_forever(number: i64, arguments: &[u64]) -> bool {
    const FUTEX_COMMAND: u64 = 0x7f;
    match (number, arguments) {
        (libc::SYS_futex, [_, command, _, timeout, ..]) => {
            // WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2.
            matches!(command & FUTEX_COMMAND, 0 | 6 | 9 | 11 | 13) && *timeout == 0
        }
        (libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_pause | libc::SYS_rt_sigsuspend, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_untimed_waits_block_forever() {
        let blocks_forever = |text: &str| {
            parse_syscall(text).is_some_and(|(number, words)| blocks_forever(number, &words))
        };
        let futex = |op: &str, timeout: &str| {
            format!("202 0x7ffd0 {op} 0x2 {timeout} 0x0 0x0 0x7ffe 0x7fff\n")
        };
        assert!(blocks_forever(&futex("0x80", "0x0")));
        assert!(blocks_forever(&futex("0x189", "0x0")));
        assert!(!blocks_forever(&futex("0x80", "0x7ffc")));
        assert!(!blocks_forever(&futex("0x81", "0x0")), "a wake");
        assert!(!blocks_forever("running\n"));
        assert!(
            !blocks_forever("35 0x7ffd 0x0 0x0 0x0 0x0 0x0 0x1 0x2\n"),
            "a sleep"
        );
        assert!(!blocks_forever("-1 0x7ffd 0x7fff\n"));
    }
}
