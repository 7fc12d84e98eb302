//! Starts programs that must not outlive us.

use super::check;
use std::ffi::c_ulong;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the program that `command` starts die with the thread that starts it. Gives it
/// these open files and no blocked signals.
///
/// The kernel goes by the thread, not by the process: the program dies when the
/// starting thread ends.
pub fn die_with_this_thread(command: &mut Command, files: Vec<RawFd>) {
    let starter = std::process::id();
    let prepare = move || {
        // SAFETY: async-signal-safe calls that take numbers, and a set that lives
        // on this stack.
        unsafe {
            let signal = libc::SIGKILL as c_ulong;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, signal).into())?;
            // If we died before the request was made, no signal comes.
            if libc::getppid().cast_unsigned() != starter {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            let mut none: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            for &file in &files {
                check(libc::fcntl(file, libc::F_SETFD, 0).into())?;
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes system calls only and
    // allocates nothing.
    unsafe { command.pre_exec(prepare) };
}
