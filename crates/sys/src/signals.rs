//! Signals to the tool itself.

use std::ffi::c_int;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The signals that ask the tool to end.
pub const REQUESTS: [c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// A process has sent one of them, and it was taken.
static TOLD: AtomicBool = AtomicBool::new(false);

/// Whether a process has told this one to end, or a signal that does so is pending.
/// Ctrl-C does not count once it was taken: who presses it is there, and can press it again.
#[must_use]
pub fn is_told_to_end() -> bool {
    TOLD.load(Ordering::Relaxed) || SignalSet::is_pending(&REQUESTS)
}

/// Signals that are waited for instead of handled.
pub struct SignalSet {
    set: libc::sigset_t,
    pub(super) before: libc::sigset_t,
}

/// A signal that was waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Which.
    pub signal: c_int,
    /// Whether a process sent it (the terminal does not).
    pub by_process: bool,
}

impl SignalSet {
    /// Blocks `signals` in this thread and in the threads it starts from now on, for good:
    /// otherwise a second Ctrl-C would kill the tool while it writes what it found.
    #[must_use]
    pub fn block(signals: &[c_int]) -> Self {
        // SAFETY: sigset_t is plain data; both sets are initialised by the calls
        // made on them, which only write to them.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Self { set, before }
        }
    }

    /// Waits for one of them, no longer than `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<Taken> {
        let timeout = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: siginfo_t is plain data, and all pointers outlive the call.
        let (signal, info) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let signal = libc::sigtimedwait(&raw const self.set, &raw mut info, &raw const timeout);
            (signal, info)
        };
        let by_process = info.si_code <= 0;
        if by_process && REQUESTS.contains(&signal) {
            TOLD.store(true, Ordering::Relaxed);
        }
        (signal > 0).then_some(Taken { signal, by_process })
    }

    /// Has a command start with the mask that this process had before. Otherwise it starts
    /// with ours, and so would whatever it starts.
    pub fn spare(&self, command: &mut Command) {
        let before = self.before;
        let restore = move || {
            // SAFETY: reads a set that the closure owns.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            }
            Ok(())
        };
        // SAFETY: between fork and exec it calls one function, which may be called there.
        unsafe { command.pre_exec(restore) };
    }

    /// Whether one of `signals` is pending, which it stays.
    #[must_use]
    pub fn is_pending(signals: &[c_int]) -> bool {
        // SAFETY: sigset_t is plain data; the calls only write to it and read it.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending) == 0
                && signals
                    .iter()
                    .any(|signal| libc::sigismember(&raw const pending, *signal) == 1)
        }
    }
}

/// Whether this process ignores `signal`.
#[must_use]
pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: sigaction is plain data; the call changes nothing and only writes to it.
    let action = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Stops this process by `signal` until it is continued.
pub fn stop_self(signal: c_int) {
    // SAFETY: takes a number only.
    unsafe { libc::raise(signal) };
}
