//! Starts a program that waits until it is traced.

use super::{SignalSet, Tid, check, is_ignored};
use std::ffi::{CString, c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};

/// Whether SIGPIPE, SIGXFSZ and SIGCHLD were ignored when we were started.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static FILE_SIZE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);

/// Our nice value when we were started.
static NICENESS: AtomicI32 = AtomicI32::new(0);

/// Our timer slack when we were started, in nanoseconds. Real-time threads have none.
static TIMER_SLACK: AtomicI32 = AtomicI32::new(0);

/// Which standard streams were closed when we were started, a bit for each.
static CLOSED_STREAMS: AtomicU8 = AtomicU8::new(0);

/// The standard streams: in, out and error.
const STREAMS: std::ops::RangeInclusive<RawFd> = libc::STDIN_FILENO..=libc::STDERR_FILENO;

/// Saves these before Rust's runtime starts, which changes SIGPIPE and opens /dev/null in
/// place of closed streams. Ignores SIGXFSZ, so
/// that a file that may not grow gives an error and does not kill us. Resets SIGCHLD,
/// because the endings of ignored children are not reported.
// SAFETY: the loader calls what this section holds, as it calls constructors.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: takes numbers only.
        let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        NICENESS.store(nice, Ordering::Relaxed);
        // SAFETY: takes numbers only.
        let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        TIMER_SLACK.store(slack, Ordering::Relaxed);
        for stream in STREAMS {
            // SAFETY: takes numbers only.
            if unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1 {
                CLOSED_STREAMS.fetch_or(1 << stream, Ordering::Relaxed);
            }
        }
        PIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
        FILE_SIZE_IGNORED.store(is_ignored(libc::SIGXFSZ), Ordering::Relaxed);
        // SAFETY: no thread but this one runs yet.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        if is_ignored(libc::SIGCHLD) {
            CHILD_IGNORED.store(true, Ordering::Relaxed);
            // SAFETY: as before.
            unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        }
    }
    look
};

/// The parent that a program gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parent {
    /// The calling process.
    Caller,
    /// The parent of the calling process, which then learns how the program ends even
    /// if the caller dies.
    CallersParent,
}

/// A child that waits for permission to exec.
pub struct Launch {
    /// Its process number.
    pub pid: Tid,
    go: OwnedFd,
    failure: OwnedFd,
}

/// Pointers to `arguments` for exec. The arguments must outlive them.
fn pointers(arguments: &[CString]) -> Vec<*const libc::c_char> {
    let null = std::iter::once(std::ptr::null());
    arguments.iter().map(|a| a.as_ptr()).chain(null).collect()
}

/// Runs `program` in place of this process, with everything as it was when we were
/// started, and the signal mask as it was before `mask`. Its environment is `envp`, or ours.
/// Returns the error number if that fails.
///
/// # Safety
/// `argv` and `envp` must hold pointers to strings and end with null. Calls only functions
/// that may be called between fork and exec.
unsafe fn become_program(
    program: &CString,
    argv: &[*const libc::c_char],
    envp: Option<&[*const libc::c_char]>,
    mask: &SignalSet,
) -> i32 {
    // SAFETY: takes numbers, and pointers that the caller vouches for.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS.load(Ordering::Relaxed));
        let slack = TIMER_SLACK.load(Ordering::Relaxed);
        libc::prctl(libc::PR_SET_TIMERSLACK, slack as libc::c_ulong, 0, 0, 0);
        for stream in STREAMS {
            if CLOSED_STREAMS.load(Ordering::Relaxed) & 1 << stream != 0 {
                libc::fcntl(stream, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        if !PIPE_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        }
        if !FILE_SIZE_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        }
        if CHILD_IGNORED.load(Ordering::Relaxed) {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        libc::sigprocmask(
            libc::SIG_SETMASK,
            &raw const mask.before,
            std::ptr::null_mut(),
        );
        match envp {
            Some(envp) => libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr()),
            None => libc::execv(program.as_ptr(), argv.as_ptr()),
        };
        *libc::__errno_location()
    }
}

/// Runs `program` in place of this process. Returns only if that fails.
pub fn exec(program: &CString, arguments: &[CString], mask: &SignalSet) -> io::Error {
    let argv = pointers(arguments);
    // SAFETY: the strings live to the end of this function.
    let errno = unsafe { become_program(program, &argv, None, mask) };
    io::Error::from_raw_os_error(errno)
}

/// Forks a child that runs `program` when [`Launch::go`] is called.
pub fn launch(
    program: &CString,
    arguments: &[CString],
    mask: &SignalSet,
    parent: Parent,
) -> io::Result<Launch> {
    launch_in(program, arguments, None, mask, parent)
}

/// As [`launch`], with an environment of its own.
pub fn launch_in(
    program: &CString,
    arguments: &[CString],
    environment: Option<&[CString]>,
    mask: &SignalSet,
    parent: Parent,
) -> io::Result<Launch> {
    let envp = environment.map(pointers);
    let (go_read, go) = pipe()?;
    let (failure, failure_write) = pipe()?;
    let argv = pointers(arguments);
    let tracer = std::process::id();
    let pid = match parent {
        // SAFETY: between fork and exec the child calls only async-signal-safe
        // functions and touches only what was allocated before.
        Parent::Caller => unsafe { libc::fork() },
        // SAFETY: without CLONE_VM this is a fork, and the child is as careful.
        Parent::CallersParent => unsafe {
            libc::syscall(
                libc::SYS_clone,
                libc::CLONE_PARENT | libc::SIGCHLD,
                0,
                0,
                0,
                0,
            ) as Tid
        },
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; the pointers are to memory copied by fork.
            unsafe {
                libc::close(go.as_raw_fd());
                // If only ancestors may trace, the caller could not trace its sibling.
                libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0);
                let mut byte = 0u8;
                if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                    libc::_exit(127);
                }
                let errno = become_program(program, &argv, envp.as_deref(), mask);
                libc::write(failure_write.as_raw_fd(), (&raw const errno).cast(), 4);
                libc::_exit(127)
            }
        }
        pid => Ok(Launch { pid, go, failure }),
    }
}

impl Launch {
    /// Lets the child exec.
    pub fn go(&self) -> io::Result<()> {
        // SAFETY: writes one byte from a live buffer.
        check(unsafe { libc::write(self.go.as_raw_fd(), [1u8].as_ptr().cast(), 1) } as c_long)
            .map(drop)
    }

    /// Why exec failed, if it did. To be called when the child is past it.
    #[must_use]
    pub fn failure(&self) -> Option<io::Error> {
        let mut errno: c_int = 0;
        // SAFETY: reads at most four bytes into a live int.
        let got = unsafe { libc::read(self.failure.as_raw_fd(), (&raw mut errno).cast(), 4) };
        (got == 4).then(|| io::Error::from_raw_os_error(errno))
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [RawFd; 2] = [-1; 2];
    // SAFETY: the array has room for both descriptors, which are owned by nobody
    // else when the call succeeds.
    unsafe {
        check(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC).into())?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}
