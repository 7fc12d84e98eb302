//! The system calls of the `process` backend that have no safe wrapper: ptrace,
//! perf events, fork and exec, signals. All the unsafe code of this crate.
#![expect(unsafe_code, reason = "raw system calls")]

use perf_event_open_sys as perf;
use redhanded_model::{Bytes, Registers};
use std::ffi::{CString, c_int, c_long, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// A thread's number as the kernel knows it.
pub type Tid = libc::pid_t;

/// `si_code` of a SIGTRAP sent by a perf event.
pub const TRAP_PERF: c_int = 6;
/// `si_code` of the SIGTRAP that `int3` raises.
pub const SI_KERNEL: c_int = 0x80;

fn check(result: c_long) -> io::Result<c_long> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn ptrace(request: u32, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests made through this function take numbers, or pointers
    // to live buffers of the right size that the callers below own.
    check(unsafe { libc::ptrace(request, tid, address as *mut c_void, data as *mut c_void) })
        .map(drop)
}

/// Starts tracing without stopping, with these `PTRACE_O_…` options.
pub fn seize(tid: Tid, options: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, options as usize)
}

/// Lets a stopped thread run, delivering `signal` if it is not zero.
pub fn resume(tid: Tid, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_CONT, tid, 0, signal as usize)
}

/// Leaves a thread in its group stop, and hears when that ends.
pub fn listen(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_LISTEN, tid, 0, 0)
}

/// Asks a running thread to stop.
pub fn interrupt(tid: Tid) -> io::Result<()> {
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

/// Ends the tracing of a stopped thread, delivering `signal` if not zero.
pub fn detach(tid: Tid, signal: c_int) -> io::Result<()> {
    ptrace(libc::PTRACE_DETACH, tid, 0, signal as usize)
}

/// The number that goes with a ptrace event: a new thread's tid, mostly.
pub fn event_message(tid: Tid) -> io::Result<u64> {
    let mut message: libc::c_ulong = 0;
    let at = (&raw mut message) as usize;
    ptrace(libc::PTRACE_GETEVENTMSG, tid, 0, at)?;
    Ok(message)
}

/// The registers of a stopped thread.
pub fn registers(tid: Tid) -> io::Result<Registers> {
    Ok(from_user_regs(&user_regs(tid)?))
}

fn user_regs(tid: Tid) -> io::Result<libc::user_regs_struct> {
    // SAFETY: the struct is plain numbers, for which zero is a value.
    let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let at = (&raw mut regs) as usize;
    ptrace(libc::PTRACE_GETREGS, tid, 0, at)?;
    Ok(regs)
}

fn from_user_regs(r: &libc::user_regs_struct) -> Registers {
    Registers {
        gpr: [
            r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ],
        rip: r.rip,
        rflags: r.eflags,
        fs_base: r.fs_base,
        gs_base: r.gs_base,
        system_call: r.orig_rax.cast_signed(),
    }
}

/// Moves a stopped thread to `rip`; everything else of it stays as it is.
pub fn move_to(tid: Tid, rip: u64) -> io::Result<()> {
    set_register(tid, std::mem::offset_of!(libc::user_regs_struct, rip), rip)
}

/// Carries out a `ret` for a stopped thread.
pub fn return_to(tid: Tid, rip: u64, rsp: u64) -> io::Result<()> {
    set_register(tid, std::mem::offset_of!(libc::user_regs_struct, rsp), rsp)?;
    move_to(tid, rip)
}

fn set_register(tid: Tid, offset: usize, value: u64) -> io::Result<()> {
    ptrace(libc::PTRACE_POKEUSER, tid, offset, value as usize)
}

/// What a signal stop is about.
#[derive(Clone, Copy, Debug)]
pub struct SignalInfo {
    /// `si_code`.
    pub code: c_int,
    /// The address a perf event carries.
    pub address: u64,
    /// The `sig_data` a perf event carries.
    pub data: u64,
}

/// The siginfo of a signal stop.
pub fn signal_info(tid: Tid) -> io::Result<SignalInfo> {
    // The layout of the kernel's siginfo for SIGTRAP: three ints and a padding
    // word, then si_addr, then (for perf) data, type and flags.
    let mut raw = [0u64; 16];
    let at = raw.as_mut_ptr() as usize;
    ptrace(libc::PTRACE_GETSIGINFO, tid, 0, at)?;
    Ok(SignalInfo {
        code: (raw[1] & 0xffff_ffff) as u32 as c_int,
        address: raw[2],
        data: raw[3],
    })
}

/// One change of a traced thread, as `waitpid` tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It exited with this status.
    Exited(c_int),
    /// A signal killed it; whether it dumped core.
    Killed(c_int, bool),
    /// It stopped: the signal, and the ptrace event or 0.
    Stopped(c_int, c_int),
}

/// The next change of any traced thread or child, without waiting.
pub fn poll_change() -> io::Result<Option<(Tid, Change)>> {
    wait_change(-1, libc::WNOHANG)
}

/// The next change of `tid`, without waiting.
pub fn poll_change_of(tid: Tid) -> io::Result<Option<Change>> {
    Ok(wait_change(tid, libc::WNOHANG)?.map(|(_, change)| change))
}

/// The next change of `tid`, waiting for it.
pub fn wait_for(tid: Tid) -> io::Result<Option<Change>> {
    loop {
        match wait_change(tid, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return Ok(other?.map(|(_, change)| change)),
        }
    }
}

fn wait_change(tid: Tid, flags: c_int) -> io::Result<Option<(Tid, Change)>> {
    let mut status = 0;
    // Tracees belong to the thread that seized them, so several threads may each
    // drive a process of their own.
    let flags = flags | libc::__WALL | libc::__WNOTHREAD;
    // SAFETY: `status` outlives the call.
    let tid = unsafe { libc::waitpid(tid, &raw mut status, flags) };
    match tid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        tid => Ok(Some((tid, decode_status(status)))),
    }
}

fn decode_status(status: c_int) -> Change {
    if libc::WIFEXITED(status) {
        Change::Exited(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Change::Killed(libc::WTERMSIG(status), libc::WCOREDUMP(status))
    } else {
        Change::Stopped(libc::WSTOPSIG(status), status >> 16)
    }
}

/// Signals that are taken by waiting for them instead of by handlers.
pub struct SignalSet {
    set: libc::sigset_t,
    before: libc::sigset_t,
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
    /// Blocks `signals` in this thread and in the threads it starts from now on.
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

    /// Waits for one of them until `timeout` is over.
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
        (signal > 0).then_some(Taken {
            signal,
            by_process: info.si_code <= 0,
        })
    }
}

impl Drop for SignalSet {
    fn drop(&mut self) {
        // SAFETY: restores the mask that `block` saved.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            );
        }
    }
}

/// A child that waits to be told to exec.
pub struct Launch {
    /// Its process number.
    pub pid: Tid,
    go: OwnedFd,
    failure: OwnedFd,
}

/// Forks a child that waits, and becomes `program` when [`Launch::go`] is called.
///
/// The child gets the signal mask `mask` had before it blocked anything, and the
/// default action for SIGPIPE, which Rust's runtime ignores.
pub fn launch(program: &CString, arguments: &[CString], mask: &SignalSet) -> io::Result<Launch> {
    let (go_read, go) = pipe()?;
    let (failure, failure_write) = pipe()?;
    let mut argv: Vec<*const libc::c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    argv.push(std::ptr::null());
    // SAFETY: between fork and exec the child calls only async-signal-safe
    // functions and touches only what was allocated before.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; the pointers are to memory copied by fork.
            unsafe {
                libc::close(go.as_raw_fd());
                let mut byte = 0u8;
                if libc::read(go_read.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                    libc::_exit(127);
                }
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::sigprocmask(
                    libc::SIG_SETMASK,
                    &raw const mask.before,
                    std::ptr::null_mut(),
                );
                libc::execv(program.as_ptr(), argv.as_ptr());
                let errno = *libc::__errno_location();
                libc::write(failure_write.as_raw_fd(), (&raw const errno).cast(), 4);
                libc::_exit(127)
            }
        }
        pid => Ok(Launch { pid, go, failure }),
    }
}

impl Launch {
    /// Tells the child to exec.
    pub fn go(&self) -> io::Result<()> {
        // SAFETY: writes one byte from a live buffer.
        check(unsafe { libc::write(self.go.as_raw_fd(), [1u8].as_ptr().cast(), 1) } as c_long)
            .map(drop)
    }

    /// Why exec failed, if it did. Call when the child is known to be past it.
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

/// Sends `signal` to a process.
pub fn kill(pid: Tid, signal: c_int) -> io::Result<()> {
    // SAFETY: takes numbers only.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Whether two processes have one memory. Assumed where the kernel cannot say:
/// a child that is kept needlessly costs less than one with our bytes in it.
pub fn same_memory(a: Tid, b: Tid) -> bool {
    const KCMP_VM: c_int = 1;
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, a, b, KCMP_VM, 0, 0) <= 0 }
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

/// Which accesses a watch fires on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchFor {
    /// Writes.
    Writes,
    /// Reads and writes: the hardware cannot watch for reads alone.
    ReadsAndWrites,
}

/// One perf event: a debug register in every thread of a process.
pub struct PerfWatch {
    event: OwnedFd,
    in_kernel: bool,
}

impl PerfWatch {
    /// Opens a switched-off watch on `tid`, which every thread started later
    /// inherits. Kernel accesses are included if `in_kernel`.
    pub fn open(tid: Tid, in_kernel: bool) -> io::Result<Self> {
        let mut attr = attributes(
            Bytes::new(redhanded_model::Avma(8), 8),
            WatchFor::Writes,
            0,
            in_kernel,
        );
        attr.set_disabled(1);
        // SAFETY: the attributes are a live, initialised struct of stated size.
        let fd = unsafe {
            perf::perf_event_open(
                &raw mut attr,
                tid,
                -1,
                -1,
                perf::bindings::PERF_FLAG_FD_CLOEXEC.into(),
            )
        };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and is owned by nobody else.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { event, in_kernel })
    }

    /// Watches `bytes` in all threads from now on. `number` comes back with hits.
    pub fn set(&self, bytes: Bytes, watch: WatchFor, number: u64) -> io::Result<()> {
        let mut attr = attributes(bytes, watch, number, self.in_kernel);
        let fd = self.event.as_raw_fd();
        // SAFETY: the descriptor is ours and open, the attributes live.
        unsafe {
            check(perf::ioctls::MODIFY_ATTRIBUTES(fd, &raw mut attr).into())?;
            check(perf::ioctls::ENABLE(fd, 0).into())?;
        }
        Ok(())
    }

    /// Stops watching in all threads.
    pub fn clear(&self) -> io::Result<()> {
        // SAFETY: the descriptor is ours and open.
        check(unsafe { perf::ioctls::DISABLE(self.event.as_raw_fd(), 0) }.into()).map(drop)
    }

    /// How often it has fired since it was opened, in all threads.
    pub fn count(&self) -> Option<u64> {
        let mut count = [0u8; 8];
        // SAFETY: reads at most eight bytes into a live buffer.
        let got = unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), 8) };
        (got == 8).then(|| u64::from_ne_bytes(count))
    }
}

fn attributes(
    bytes: Bytes,
    watch: WatchFor,
    number: u64,
    in_kernel: bool,
) -> perf::bindings::perf_event_attr {
    let mut attr = perf::bindings::perf_event_attr {
        type_: perf::bindings::PERF_TYPE_BREAKPOINT,
        size: size_of::<perf::bindings::perf_event_attr>() as u32,
        bp_type: match watch {
            WatchFor::Writes => perf::bindings::HW_BREAKPOINT_W,
            WatchFor::ReadsAndWrites => perf::bindings::HW_BREAKPOINT_RW,
        },
        sig_data: number,
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_3.bp_addr = bytes.start.0;
    attr.__bindgen_anon_4.bp_len = bytes.len;
    attr.set_exclude_kernel(u64::from(!in_kernel));
    attr.set_exclude_hv(1);
    attr.set_inherit(1);
    attr.set_inherit_thread(1);
    attr.set_sigtrap(1);
    attr.set_remove_on_exec(1);
    attr
}
