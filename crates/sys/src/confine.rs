//! Confines a process that parses what others wrote.
//!
//! Such a process needs to read files and to answer on the sockets it has. Whatever a
//! damaged file makes it do, it cannot do more: it writes no file, reaches no network,
//! starts no program, signals nobody and takes a bounded amount of memory.

use super::rights::{Capabilities, Rights};
use super::{SignalSet, Tid, check, when_parent_dies};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::error::Error;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// What a confined process keeps.
#[derive(Debug)]
pub struct Confinement<'a> {
    /// Its files, besides standard error.
    pub files: &'a [RawFd],
    /// Whose rights it takes, if not those it has.
    pub rights: Option<&'a Rights>,
    /// How many bytes it may allocate.
    pub memory: u64,
    /// The process that it dies with.
    pub parent: Tid,
}

impl Confinement<'_> {
    /// Confines this process, which must not have a second thread. Where the kernel has no
    /// Landlock or allows no filter, the rest has to do; rights that cannot be given up are
    /// an error.
    ///
    /// # Errors
    /// If it keeps rights or files that it should not have.
    pub fn enter(&self) -> io::Result<()> {
        // Ctrl-Z stops the processes that ask this one, apart from those that must not wait.
        ignore_terminal_stops();
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO] {
            // SAFETY: takes numbers; nothing in this process uses what they were.
            check(unsafe { libc::dup2(null.as_raw_fd(), stream) }.into())?;
        }
        drop(null);
        close_all_but(self.files)?;
        limit(libc::RLIMIT_DATA, self.memory);
        limit(libc::RLIMIT_CORE, 0);
        match self.rights {
            Some(rights) => rights.become_it()?,
            None => Capabilities::READ_AS_ANYBODY.keep_only()?,
        }
        // SAFETY: these take numbers only.
        unsafe {
            check(libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0).into())?;
            check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        }
        // Another user's rights would have cleared it.
        when_parent_dies(libc::SIGKILL)?;
        if std::os::unix::process::parent_id() != self.parent.cast_unsigned() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let _ = allow_reading_only();
        let _ = filter_calls();
        Ok(())
    }
}

/// From now on the terminal cannot stop this process, nor those it forks.
pub fn ignore_terminal_stops() {
    let _ = SignalSet::block(&[libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU]);
}

/// Closes every file but these and the standard streams.
fn close_all_but(kept: &[RawFd]) -> io::Result<()> {
    let mut kept = kept.to_vec();
    kept.sort_unstable();
    let mut from = libc::STDERR_FILENO + 1;
    for end in kept.into_iter().chain([RawFd::MAX]) {
        if from < end {
            let (first, last) = (from.cast_unsigned(), (end - 1).cast_unsigned());
            // SAFETY: this process is a fork that uses no other file from here on.
            let closed = check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) });
            if closed.is_err() {
                close_each(from..end)?;
            }
        }
        from = end.saturating_add(1);
    }
    Ok(())
}

/// Closes files one by one: kernels before 5.9 know no other way.
fn close_each(range: std::ops::Range<RawFd>) -> io::Result<()> {
    let open: Vec<RawFd> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|file| range.contains(file))
        .collect();
    for file in open {
        // SAFETY: as above. The folder's own file is in the list and closed already.
        unsafe { libc::close(file) };
    }
    Ok(())
}

/// Lowers a limit, hard limit included.
fn limit(resource: libc::__rlimit_resource_t, most: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the struct is live in both calls.
    unsafe {
        if libc::getrlimit(resource, &raw mut limit) == 0 {
            limit.rlim_max = limit.rlim_max.min(most);
            limit.rlim_cur = limit.rlim_cur.min(most);
            libc::setrlimit(resource, &raw const limit);
        }
    }
}

/// Landlock: files may be read, and nothing else that it knows of is allowed. Tells how much
/// of that this kernel enforces.
fn allow_reading_only() -> Result<RulesetStatus, Box<dyn Error>> {
    let newest = ABI::V6;
    let reading = AccessFs::ReadFile | AccessFs::ReadDir;
    let enforced = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .scope(Scope::from_all(newest))?
        .create()?
        .add_rule(PathBeneath::new(PathFd::new("/")?, reading))?
        .restrict_self()?;
    Ok(enforced.ruleset)
}

/// The system calls that take no check of their arguments: memory, threads, time, reading
/// files that are open, and asking about files.
const ALLOWED: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_fadvise64,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_fcntl,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_sigaltstack,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_sysinfo,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Sources are read with the rights of the target's user. These give no rights to a
    // process that has none.
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capset,
];

/// Calls that are allowed if these bits of an argument have this value.
const ALLOWED_IF: &[(libc::c_long, u8, u64, u64)] = &[
    (libc::SYS_openat, 2, WRITING, libc::O_RDONLY as u64),
    (libc::SYS_mmap, 2, libc::PROT_EXEC as u64, 0),
    (libc::SYS_mprotect, 2, libc::PROT_EXEC as u64, 0),
    // Threads, not processes. The C library falls back to it when clone3 is not there.
    (libc::SYS_clone, 0, THREAD, THREAD),
    (
        libc::SYS_prctl,
        0,
        u32::MAX as u64,
        libc::PR_SET_NAME as u64,
    ),
    // Asking for a limit, not setting one.
    (libc::SYS_prlimit64, 2, u64::MAX, 0),
];

const WRITING: u64 = (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC) as u64;
const THREAD: u64 = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;

/// Any other call fails as if the kernel did not have it.
fn filter_calls() -> Result<(), Box<dyn Error>> {
    let mut rules: Vec<(i64, Vec<SeccompRule>)> =
        ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    for (call, argument, mask, value) in ALLOWED_IF {
        let same_bits = SeccompCmpOp::MaskedEq(*mask);
        let width = SeccompCmpArgLen::Qword;
        let condition = SeccompCondition::new(*argument, width, same_bits, *value)?;
        rules.push((*call, vec![SeccompRule::new(vec![condition])?]));
    }
    let filter = SeccompFilter::new(
        rules.into_iter().collect(),
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
        SeccompAction::Allow,
        TargetArch::x86_64,
    )?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::wait::{WaitStatus, waitpid};
    use nix::unistd::Pid;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    /// The status of a process that cannot be confined as it should be.
    const NOT_CONFINED: i32 = 9;
    const MEMORY: u64 = 64 << 20;

    /// Whether a process that has confined itself succeeds in something. `None` if it could
    /// not be confined.
    fn succeeds(confine: impl FnOnce() -> bool, act: impl FnOnce() -> bool) -> Option<bool> {
        let Some(pid) = crate::fork().unwrap() else {
            let status = if confine() {
                i32::from(!act())
            } else {
                NOT_CONFINED
            };
            // SAFETY: ends this process, which has nothing to clean up.
            unsafe { libc::_exit(status) }
        };
        match waitpid(Pid::from_raw(pid), None).unwrap() {
            WaitStatus::Exited(_, NOT_CONFINED) => None,
            WaitStatus::Exited(_, status) => Some(status == 0),
            other => panic!("{other:?}"),
        }
    }

    fn enter(rights: Option<&Rights>) -> impl FnOnce() -> bool {
        let parent = std::process::id().cast_signed();
        move || {
            let confinement = Confinement {
                files: &[],
                rights,
                memory: MEMORY,
                parent,
            };
            confinement.enter().is_ok()
        }
    }

    /// Landlock alone, if the kernel enforces all that is asked of it.
    fn landlock() -> bool {
        // SAFETY: takes numbers only.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        matches!(allow_reading_only(), Ok(RulesetStatus::FullyEnforced))
    }

    fn writes(path: &std::path::Path) -> bool {
        OpenOptions::new().append(true).open(path).is_ok()
    }

    fn execs() -> bool {
        let program = c"/bin/true".as_ptr();
        let arguments = [program, std::ptr::null()];
        // SAFETY: the strings live on, and the list ends with null. It returns only if it fails.
        unsafe { libc::execv(program, arguments.as_ptr()) };
        false
    }

    fn maps_code() -> bool {
        let code = libc::PROT_READ | libc::PROT_EXEC;
        let fresh = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping overlaps nothing.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, code, fresh, -1, 0) };
        at != libc::MAP_FAILED
    }

    fn takes(bytes: u64) -> bool {
        Vec::<u8>::new().try_reserve_exact(bytes as usize).is_ok()
    }

    #[test]
    fn a_confined_process_reads_and_does_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (known, new) = (folder.path().join("known"), folder.path().join("new"));
        fs::write(&known, "read").unwrap();
        let parent = std::process::id().cast_signed();
        let check = |what: &str, may: bool, act: &dyn Fn() -> bool| {
            assert_eq!(succeeds(|| true, act), Some(true), "{what}, unconfined");
            let _ = fs::remove_file(&new);
            assert_eq!(succeeds(enter(None), act), Some(may), "{what}");
        };
        let reads = || fs::read(&known).is_ok_and(|text| text == b"read");
        check("reading", true, &reads);
        // The stacks of the other tests' threads count as well.
        check("memory", true, &|| takes(MEMORY / 4));
        check("more memory", false, &|| takes(MEMORY * 2));
        check("writing", false, &|| writes(&known));
        check("a new file", false, &|| File::create(&new).is_ok());
        check("removing", false, &|| {
            File::create(&new).is_ok() && fs::remove_file(&new).is_ok()
        });
        check("a network", false, &|| {
            std::net::UdpSocket::bind("127.0.0.1:0").is_ok()
        });
        check("a socket", false, &|| UnixStream::pair().is_ok());
        check("a process", false, &|| match crate::fork() {
            // SAFETY: ends a process that has nothing to clean up.
            Ok(None) => unsafe { libc::_exit(0) },
            other => other.is_ok(),
        });
        check("a signal", false, &|| crate::kill(parent, 0).is_ok());
        check("code", false, &maps_code);
        assert_eq!(succeeds(enter(None), execs), Some(false), "a program");
        assert!(!new.exists());
    }

    #[test]
    fn with_the_rights_of_another_it_reads_what_that_user_may() {
        if crate::effective_user() != 0 {
            eprintln!("skipped: only root can take the rights of another user");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        for (mode, may) in [(0o644, true), (0o600, false)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let reads = || File::open(&path).is_ok();
            let read = succeeds(enter(Some(&Rights::NOBODY)), reads);
            assert_eq!(read, Some(may), "mode {mode:o}");
            assert_eq!(succeeds(enter(None), reads), Some(true), "as root");
        }
    }

    #[test]
    fn landlock_alone_forbids_all_but_reading() {
        if succeeds(landlock, || true).is_none() {
            eprintln!("skipped: this kernel does not enforce all of Landlock's rules");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        let new = folder.path().join("new");
        let parent = std::process::id().cast_signed();
        let check = |what: &str, may: bool, act: &dyn Fn() -> bool| {
            assert_eq!(succeeds(landlock, act), Some(may), "{what}");
        };
        check("reading", true, &|| File::open(&path).is_ok());
        check("writing", false, &|| writes(&path));
        check("a new file", false, &|| File::create(&new).is_ok());
        check("removing", false, &|| fs::remove_file(&path).is_ok());
        check("a network", false, &|| {
            std::net::TcpListener::bind("127.0.0.1:0").is_ok()
        });
        check("a signal", false, &|| crate::kill(parent, 0).is_ok());
        assert_eq!(succeeds(landlock, execs), Some(false), "a program");
    }
}
