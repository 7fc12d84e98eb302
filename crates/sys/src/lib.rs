//! System calls that have no safe wrapper, and the files of `/proc` that several crates
//! read.
//!
//! It gives ptrace, perf events on debug registers, fork and exec, waiting, signals,
//! sockets with precise timeouts, CPU affinity, a list that two processes share, and files
//! that others may change or whose folders somebody else may own. It holds all unsafe code
//! of the tracer and decides nothing: errors go to the caller as they are.
#![expect(unsafe_code, reason = "raw system calls")]

mod affinity;
mod confine;
mod exchange;
mod folder;
mod foreign_file;
mod launch;
mod ledger;
mod lifetime;
mod maps;
mod out_of_memory;
mod outlet;
mod perf;
mod pipe;
mod ptrace;
mod remedy;
mod rights;
mod sandbox;
mod signals;
mod socket;
mod source;
mod stat;
mod status;
mod user_cache;
mod wait;

pub use affinity::reserve_cpu;
pub use confine::{Confinement, ignore_terminal_stops};
pub use exchange::{
    Exchangeable, exchangeable, exchangeable_but_by, make_own_folder, temporary_place,
};
pub use folder::{Draft, Folder, folder_of, link_target, reopen, takes_files, write_whole};
pub use foreign_file::{FileMap, open_regular, read_regular, read_regular_text};
pub use launch::{Launch, Parent, exec, launch, launch_in};
pub use ledger::{Ledger, beat};
pub use lifetime::die_with_this_thread;
pub use maps::{Mapping, grows_down, mappings};
pub use out_of_memory::{
    OrExit, exit_if_for_want_of_memory, share_heap_if_limited, thread_builder,
};
pub use outlet::{
    open_for_reader, open_without_reader, write_some, write_stderr, write_unless_told_to_end,
};
pub use perf::{PcSamples, PerfWatch};
pub use pipe::{Pipe, wait_readable};
pub use ptrace::*;
pub use remedy::remedy;
pub use rights::Rights;
pub use sandbox::{close_all_but, limit_memory, lock_down, no_new_privileges};
pub use signals::{REQUESTS, SignalSet, Taken, is_ignored, stop_self};
pub use socket::{
    ReadyTo, finish_sending, peer_user, receive, receive_file, send, send_file, wait_ready,
};
pub use source::{
    may_read_debug_information, read_source, read_sources_as, renounce_debug_information,
};
pub use stat::StatLine;
pub use status::status_field;
pub use user_cache::user_cache;
pub use wait::{
    Change, expect_waiter, let_waiter_run, poll_change, poll_change_of, poll_child, run_waiter,
    wait_for,
};

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// A thread's number.
pub type Tid = libc::pid_t;

/// `si_code` of a SIGTRAP sent by a perf event.
pub const TRAP_PERF: c_int = 6;
/// `si_code` of a SIGTRAP by a debug register.
pub const TRAP_HWBKPT: c_int = 4;
/// `si_code` of the SIGTRAP that `int3` raises.
pub const SI_KERNEL: c_int = 0x80;

fn check(result: c_long) -> io::Result<c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Sends `signal` to a process.
pub fn kill(pid: Tid, signal: c_int) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Whether two processes share their memory; `None` if the kernel does not tell.
pub fn same_memory(a: Tid, b: Tid) -> Option<bool> {
    const KCMP_VM: c_int = 1;
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) } {
        -1 => None,
        order => Some(order == 0),
    }
}

/// The CPU time a process has used, over all its threads.
pub fn cpu_time(pid: Tid) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both out-pointers are live.
    let ok = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    ok.then(|| Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32))
}

/// Forks. The new process gets `None`. Only the calling thread exists in it, so there
/// must be no other.
pub fn fork() -> io::Result<Option<Tid>> {
    // SAFETY: the callers have started no thread yet, so that nothing is left
    // half-done in the child.
    let pid = check(unsafe { libc::fork() }.into())?;
    Ok((pid != 0).then_some(pid as Tid))
}

/// Asks the kernel to send us `signal` when the parent dies.
pub fn when_parent_dies(signal: c_int) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }.into()).map(drop)
}

/// Gives the calling thread its own table of open files, without `left_out`. Otherwise
/// files of another thread that dies would stay open as long as this one lives.
pub fn unshare_files(left_out: &[RawFd]) -> io::Result<()> {
    // SAFETY: takes a number only, and changes nothing that others see.
    check(unsafe { libc::unshare(libc::CLONE_FILES) }.into())?;
    for file in left_out {
        // SAFETY: in this thread's table nobody else uses the descriptor.
        check(unsafe { libc::close(*file) }.into())?;
    }
    Ok(())
}

/// Gives this thread the lowest real-time priority, or else this nice value if it may
/// have that, and the shortest time slice. Its children get ordinary priority.
pub fn raise_priority(nice: c_int) {
    let first = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: takes numbers, and a struct that is live.
    unsafe {
        // Another policy was chosen on purpose.
        let ordinary = libc::sched_getscheduler(0) == libc::SCHED_OTHER;
        if ordinary && libc::sched_setscheduler(0, policy, &raw const first) == 0 {
            return;
        }
        libc::setpriority(libc::PRIO_PROCESS, 0, nice);
    }
    // Not for our children, and it is only slower without.
    let _ = affinity::shorten_slice(0, libc::SCHED_FLAG_RESET_ON_FORK as u64);
}

/// The memory of this machine, in bytes.
pub fn total_memory() -> u64 {
    // SAFETY: takes numbers only.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let number = |value: c_long| u64::try_from(value).unwrap_or(0);
    number(pages).saturating_mul(number(size))
}

/// The memory of its own that this process uses, in bytes; 0 if the kernel does not tell.
pub fn own_memory() -> u64 {
    let said = status_field(std::process::id().cast_signed(), "RssAnon:");
    let number = said
        .as_deref()
        .and_then(|said| said.split_whitespace().next());
    let number = number.and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// The effective user of this process.
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Raises the limit on open files as far as possible: an attached process needs several
/// for each of its threads.
pub fn raise_file_limit() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is live in both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
