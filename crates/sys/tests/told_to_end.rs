//! A request to end counts although it was taken before somebody had to be waited for. It is a
//! test of its own because the whole process has been told then.

use redhanded_sys::{SignalSet, write_unless_told_to_end};
use std::io::{ErrorKind, pipe};
use std::os::fd::AsFd;
use std::time::Duration;

#[test]
fn nobody_is_waited_for_after_one_signal() {
    let signals = SignalSet::block(&[libc::SIGTERM]);
    // To this thread alone: others do not block it.
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).unwrap();
    let taken = signals.wait(Duration::ZERO).unwrap();
    assert!(taken.by_process);
    let (_reader, writer) = pipe().unwrap();
    let error = write_unless_told_to_end(writer.as_fd(), &[0; 1 << 20]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
