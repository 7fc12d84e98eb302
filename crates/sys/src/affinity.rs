//! Reserves a CPU for the tracer of a machine, and keeps QEMU's main thread off it.

use super::check;
use super::socket::peer_credentials;
use std::io;
use std::mem::zeroed;
use std::os::fd::BorrowedFd;

/// The shortest time slice that a thread can be given, in nanoseconds.
const SHORTEST: u64 = 100_000;

/// Reserves a CPU for the calling thread: the first thread of the process behind a UNIX
/// socket may use only the others. Returns whether there are enough CPUs.
///
/// The scheduler tends to put a thread that a message wakes on the CPU of the sender,
/// which it expects to sleep. A sender that spins for the answer would keep the other
/// thread from giving it.
///
/// # Errors
/// If the system refuses.
pub fn reserve_cpu(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let other = peer(socket)?;
    let allowed = cpus(0)?;
    // SAFETY: the set is live, and the numbers are below its size.
    let numbers: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        .filter(|number| unsafe { libc::CPU_ISSET(*number, &allowed) })
        .collect();
    if numbers.len() < 2 {
        return Ok(false);
    }
    // If several processes do this, most of them choose different CPUs.
    let ours = numbers[std::process::id() as usize % numbers.len()];
    let (mut own, mut others) = (none(), cpus(other)?);
    // SAFETY: as before.
    unsafe {
        libc::CPU_SET(ours, &mut own);
        libc::CPU_CLR(ours, &mut others);
    }
    set_cpus(other, &others)?;
    set_cpus(0, &own)?;
    // It is only slower without.
    let _ = shorten_slice(other, 0);
    Ok(true)
}

/// Makes the scheduler run a thread as soon as it has something to do, even if that
/// interrupts others. In return it gets shorter time slices. Needs Linux 6.12;
/// everybody may do it to their own processes. `flags` are added to those it has.
pub(super) fn shorten_slice(thread: libc::pid_t, flags: u64) -> io::Result<()> {
    let mut attributes = scheduling(thread)?;
    // Another policy was chosen on purpose.
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_runtime = SHORTEST;
    attributes.sched_flags |= flags;
    // SAFETY: a live structure that tells its size.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) })
        .map(drop)
}

/// How a thread is scheduled.
fn scheduling(thread: libc::pid_t) -> io::Result<libc::sched_attr> {
    // SAFETY: a structure of integers.
    let mut attributes: libc::sched_attr = unsafe { zeroed() };
    let size = size_of_val(&attributes) as libc::c_uint;
    let into = &raw mut attributes;
    // SAFETY: a live structure, and its size.
    check(unsafe { libc::syscall(libc::SYS_sched_getattr, thread, into, size, 0) })?;
    Ok(attributes)
}

/// The process that listens behind a UNIX socket.
fn peer(socket: BorrowedFd<'_>) -> io::Result<libc::pid_t> {
    match peer_credentials(socket)?.pid {
        // One that we cannot see.
        0 => Err(io::ErrorKind::NotFound.into()),
        pid => Ok(pid),
    }
}

const fn none() -> libc::cpu_set_t {
    // SAFETY: no bit of the set is set then.
    unsafe { zeroed() }
}

/// The CPUs that a thread may use; 0 is the calling thread.
fn cpus(thread: libc::pid_t) -> io::Result<libc::cpu_set_t> {
    let mut set = none();
    // SAFETY: a live set, and its size.
    let got = unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &raw mut set) };
    check(got.into())?;
    Ok(set)
}

fn set_cpus(thread: libc::pid_t, set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: a live set, and its size.
    check(unsafe { libc::sched_setaffinity(thread, size_of_val(set), set) }.into()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn has(set: &libc::cpu_set_t, number: usize) -> bool {
        // SAFETY: the set is live, and the number below its size.
        unsafe { libc::CPU_ISSET(number, set) }
    }

    #[test]
    fn a_thread_has_the_shortest_slice_where_the_system_knows_slices() {
        // SAFETY: it has no arguments.
        let own = unsafe { libc::gettid() };
        let before = scheduling(own).unwrap();
        let done = shorten_slice(own, 0);
        let after = scheduling(own).unwrap();
        if before.sched_runtime == 0 {
            // Linux before 6.12 shows none and sets none.
            assert_eq!(after.sched_runtime, 0);
        } else {
            done.unwrap();
            assert_eq!(after.sched_runtime, SHORTEST);
        }
    }

    #[test]
    fn the_first_thread_of_the_listener_stays_off_our_cpu() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let stream = UnixStream::connect(&path).unwrap();
        let first = std::process::id() as libc::pid_t;
        let before = cpus(first).unwrap();
        // Tests that run one at a time run in the first thread, which is the other one here.
        let (apart, ours, its) = std::thread::scope(|scope| {
            let tracer = scope.spawn(|| {
                let apart = reserve_cpu(stream.as_fd()).unwrap();
                (apart, cpus(0).unwrap(), cpus(first).unwrap())
            });
            tracer.join().unwrap()
        });
        set_cpus(first, &before).unwrap();
        let all = 0..libc::CPU_SETSIZE as usize;
        let count = |set| all.clone().filter(|number| has(set, *number)).count();
        if !apart {
            assert_eq!(count(&before), 1, "there are enough CPUs");
            return;
        }
        assert_eq!(count(&ours), 1);
        assert_eq!(count(&its), count(&before) - 1);
        assert!(!all.clone().any(|n| has(&ours, n) && has(&its, n)));
    }
}
