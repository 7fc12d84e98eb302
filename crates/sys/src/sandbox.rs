//! Locks a process down, for work on data that nobody vouches for.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// From now on this process can read and write `only`, use up to `memory` bytes, and
/// compute. It gets no other file, starts nothing, makes nothing executable, and dies with its
/// parent. Any other system call kills it. There is no way back. It must have one thread.
pub fn lock_down(only: &impl AsFd, memory: u64) -> io::Result<()> {
    crate::when_parent_dies(libc::SIGKILL)?;
    limit_memory(memory)?;
    limit(libc::RLIMIT_CORE, 0)?;
    limit(libc::RLIMIT_FSIZE, 0)?;
    close_all_but(only)?;
    let filter = filter(only.as_fd().as_raw_fd() as u32);
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    no_new_privileges()?;
    // SAFETY: takes numbers, and a program that is live.
    let confined = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    crate::check(confined.into()).map(drop)
}

/// From now on no program that this process executes gets more rights than it has.
///
/// # Errors
/// If the system refuses.
pub fn no_new_privileges() -> io::Result<()> {
    // SAFETY: takes numbers only.
    crate::check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }.into()).map(drop)
}

/// From now on this process can use up to `memory` bytes of address space. Where it had less,
/// that stays.
///
/// # Errors
/// If the system refuses.
pub fn limit_memory(memory: u64) -> io::Result<()> {
    let mut now = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is live.
    crate::check(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut now) }.into())?;
    limit(libc::RLIMIT_AS, now.rlim_cur.min(memory))
}

fn limit(resource: libc::__rlimit_resource_t, most: u64) -> io::Result<()> {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the struct is live.
    crate::check(unsafe { libc::setrlimit(resource, &raw const limit) }.into()).map(drop)
}

/// Closes every file of this process but this one, whoever has it in use.
///
/// # Errors
/// If the system refuses.
pub fn close_all_but(only: &impl AsFd) -> io::Result<()> {
    let close = |first: u32, last: u32| {
        // SAFETY: takes numbers. The process was told that it keeps nothing else.
        crate::check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })
    };
    let only = only.as_fd().as_raw_fd() as u32;
    if only > 0 {
        close(0, only - 1)?;
    }
    close(only + 1, u32::MAX).map(drop)
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_ANY: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
/// Offsets in `seccomp_data`: the call's number, the architecture, the arguments' lower halves.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(n: u32) -> u32 {
    16 + 8 * n
}
const X86_64: u32 = 0xc000_003e;

/// Calls that are allowed with any arguments: memory, the return from a signal handler,
/// clocks that no page has, and the end.
const ALLOWED: [libc::c_long; 11] = [
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that are allowed on the one file.
const ON_THE_FILE: [libc::c_long; 5] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_close,
];

fn filter(only: u32) -> Vec<libc::sock_filter> {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let kill = step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS);
    let allow = step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW);
    let mut steps = vec![
        step(LOAD, 0, 0, ARCHITECTURE),
        step(IF_EQUAL, 1, 0, X86_64),
        kill,
        step(LOAD, 0, 0, NUMBER),
    ];
    for call in ALLOWED {
        steps.extend([step(IF_EQUAL, 0, 1, call as u32), allow]);
    }
    for call in ON_THE_FILE {
        steps.extend([
            step(IF_EQUAL, 0, 4, call as u32),
            step(LOAD, 0, 0, argument(0)),
            step(IF_EQUAL, 0, 1, only),
            allow,
            kill,
        ]);
    }
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        steps.extend([
            step(IF_EQUAL, 0, 4, call as u32),
            step(LOAD, 0, 0, argument(2)),
            step(IF_ANY, 1, 0, libc::PROT_EXEC as u32),
            allow,
            kill,
        ]);
    }
    steps.push(kill);
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// How a process ends that does this after it was locked down. It can still send.
    fn end_of(act: impl FnOnce()) -> WaitStatus {
        let (mut ours, mut theirs) = UnixStream::pair().expect("pair");
        let Some(pid) = crate::fork().expect("fork") else {
            let status = match lock_down(&theirs, 1 << 30) {
                Ok(()) => {
                    let _ = theirs.write_all(b"!");
                    act();
                    0
                }
                Err(_) => 9,
            };
            // SAFETY: ends this process, which has nothing to clean up.
            unsafe { libc::_exit(status) }
        };
        drop(theirs);
        let mut sent = Vec::new();
        ours.read_to_end(&mut sent).expect("read");
        assert_eq!(sent, b"!", "it sends");
        waitpid(Pid::from_raw(pid), None).expect("wait")
    }

    #[test]
    fn a_locked_process_computes_and_nothing_else() {
        let computes = end_of(|| {
            std::hint::black_box(vec![1_u8; 10 << 20]);
        });
        assert!(matches!(computes, WaitStatus::Exited(_, 0)), "{computes:?}");
        let killed = |act: fn()| {
            let ended = end_of(act);
            assert!(
                matches!(ended, WaitStatus::Signaled(_, Signal::SIGSYS, _)),
                "{ended:?}"
            );
        };
        killed(|| drop(std::fs::metadata("/")));
        killed(|| drop(std::net::UdpSocket::bind("127.0.0.1:0")));
        killed(|| drop(crate::fork()));
        killed(|| drop(crate::kill(1, 0)));
        // Another descriptor than its own.
        // SAFETY: reads nothing.
        killed(|| unsafe {
            libc::write(77, [0_u8].as_ptr().cast(), 1);
        });
        // SAFETY: a new mapping.
        killed(|| unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
        });
    }
}
