//! Attaches to a running process without stopping its threads.

use super::{OPTIONS, Process, Settings, Signals, Tracer, tasks};
use redhanded_sys::{self as sys, Tid};
use redhanded_target::TargetError;
use redhanded_target::images::Images;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// How often to look for threads that were started meanwhile.
const ROUNDS: u32 = 100;

impl Process {
    /// Attaches to process `pid` and all its threads.
    ///
    /// # Errors
    /// If it does not exist or may not be traced, with the reason.
    pub fn attach(
        pid: u32,
        images: Arc<Images>,
        signals: Arc<Signals>,
        settings: Settings,
        tracer: Option<&Tracer>,
    ) -> Result<Self, TargetError> {
        let pid: Tid = pid.try_into().map_err(|_| no_such_process(pid))?;
        check(pid)?;
        sys::raise_file_limit();
        let mut process = Self::new(pid, images, signals, settings, tracer);
        let space = process.new_space(pid).map_err(|error| match error {
            TargetError::System { source, .. } => refused(pid, &source),
            other => other,
        })?;
        process.seize_all(pid, space)?;
        process.cpu_before = sys::cpu_time(pid).unwrap_or_default();
        process.look_at_program(pid);
        process.wake(space);
        Ok(process)
    }

    /// Seizes every thread. Threads that a seized one starts are seized already.
    fn seize_all(&mut self, pid: Tid, space: redhanded_model::SpaceId) -> Result<(), TargetError> {
        for _ in 0..ROUNDS {
            let mut any = false;
            for tid in tasks::threads(pid) {
                if self.tasks.contains_key(&tid) {
                    continue;
                }
                match sys::seize(tid, OPTIONS) {
                    Ok(()) => {
                        any = true;
                        self.add_task(tid, pid, space);
                        self.see_sleeping_stack(tid);
                    }
                    // It is gone again, or we trace it already and will hear of it.
                    Err(_) if self.is_known_elsewhere(tid) => {}
                    Err(error) => return Err(refused(pid, &error)),
                }
            }
            if !any {
                break;
            }
        }
        if self.tasks.is_empty() {
            return Err(no_such_process(pid.cast_unsigned()));
        }
        Ok(())
    }

    fn is_known_elsewhere(&self, tid: Tid) -> bool {
        let own = std::process::id().cast_signed();
        tasks::tracer_of(tid).is_none_or(|tracer| tracer == own)
    }

    /// Reads the stack pointer of a running thread: where it last entered the kernel.
    fn see_sleeping_stack(&mut self, tid: Tid) {
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.stack = tasks::stack_pointer(task.pid, tid).unwrap_or(0);
        }
    }
}

/// Refuses what cannot work before anything is touched.
fn check(pid: Tid) -> Result<(), TargetError> {
    let Some(leader) = tasks::process_of(pid) else {
        return Err(no_such_process(pid.cast_unsigned()));
    };
    let no = |why: String| Err(TargetError::Unsupported(why));
    if leader != pid {
        return no(format!(
            "{pid} is a thread of process {leader}; attach to that"
        ));
    }
    if pid == std::process::id().cast_signed() {
        return no("redhanded cannot attach to itself".to_owned());
    }
    if let Some(tracer) = tasks::tracer_of(pid).filter(|tracer| *tracer != 0) {
        let name = tasks::name(tracer, tracer);
        return no(format!(
            "process {pid} is already traced by {name} (process {tracer}); end that first"
        ));
    }
    if tasks::has_ended(pid) {
        return no(format!(
            "process {pid} has ended; only its exit status is left, for its parent (a zombie)"
        ));
    }
    if fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty())
        && fs::read_link(format!("/proc/{pid}/exe"))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    {
        return no(format!(
            "{pid} is a thread of the kernel; `redhanded kernel` observes kernels in virtual machines"
        ));
    }
    Ok(())
}

fn no_such_process(pid: u32) -> TargetError {
    TargetError::Unsupported(format!("there is no process {pid}"))
}

/// Why tracing was refused, and what to do about it.
fn refused(pid: Tid, error: &io::Error) -> TargetError {
    if error.raw_os_error() == Some(libc::ESRCH) {
        return no_such_process(pid.cast_unsigned());
    }
    let own = sys::effective_user();
    let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid());
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let why = match (owner, scope.trim()) {
        (Ok(owner), _) if own != 0 && owner != own => {
            format!("it belongs to user {owner}; run redhanded as that user or as root")
        }
        (_, "3") => "kernel.yama.ptrace_scope is 3, which forbids all tracing until the next boot"
            .to_owned(),
        (_, "1" | "2") if own != 0 => format!(
            "kernel.yama.ptrace_scope is {}, which lets only root attach; run redhanded as root, \
             or `sysctl kernel.yama.ptrace_scope=0`, or start the program with `redhanded run`",
            scope.trim()
        ),
        _ if own == 0 => "even root may not trace it: a container needs --cap-add=SYS_PTRACE; \
                          otherwise a security module forbids it"
            .to_owned(),
        _ => "it has privileges that you do not have (it is setuid, or made itself undumpable); \
              run redhanded as root"
            .to_owned(),
    };
    TargetError::Unsupported(format!("cannot attach to process {pid} ({error}): {why}"))
}
