//! Writes a core file of a space while its process lives on.

use super::{Process, State};
use redhanded_corefile::{self as corefile, CoreProcess, CoreThread};
use redhanded_model::{SpaceId, TaskId};
use redhanded_sys::{self as sys, Change, Tid};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// A register set, by the kernel's number.
const FLOATING: i32 = 2;
/// How long running threads may take to stop. One that takes longer is left out.
const STOPS_WITHIN: Duration = Duration::from_millis(500);

impl Process {
    /// Writes the core. All threads of the process are stopped meanwhile.
    pub(super) fn dump(&mut self, id: SpaceId, first: &[TaskId], path: &Path) -> io::Result<u64> {
        let Some(pid) = self.spaces.get(&id).map(|space| space.pid) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let stopped_for_it = self.stop_all(id);
        let mut tids: Vec<Tid> = self
            .tasks_in(id)
            .filter(|(_, task)| task.pid == pid && matches!(task.state, State::Stopped(_)))
            .map(|(tid, _)| *tid)
            .collect();
        let place = |tid: &Tid| {
            let found = first.iter().position(|task| task.0.cast_signed() == *tid);
            (found.unwrap_or(first.len()), *tid)
        };
        tids.sort_by_key(place);
        let threads: Vec<CoreThread> = tids.iter().filter_map(|tid| thread(*tid)).collect();
        let result = self
            .spaces
            .get(&id)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
            .and_then(|space| {
                let process = CoreProcess {
                    pid,
                    threads: &threads,
                    memory: &space.memory,
                    hide: &|address, buffer| {
                        sys::beat();
                        space.breakpoints.hide(address, buffer);
                    },
                };
                corefile::write(&process, path)
            });
        for tid in stopped_for_it {
            Self::restart_system_call(tid);
            self.go_on(tid, 0);
        }
        result
    }

    /// Stops every running thread of a space. Returns the threads that this stopped.
    fn stop_all(&mut self, id: SpaceId) -> Vec<Tid> {
        let mut waiting: Vec<Tid> = self
            .tasks_in(id)
            .filter(|(_, task)| task.state == State::Running)
            .map(|(tid, _)| *tid)
            .collect();
        for tid in &waiting {
            let _ = sys::interrupt(*tid);
        }
        let mut stopped = Vec::new();
        let until = Instant::now() + STOPS_WITHIN;
        while !waiting.is_empty() && Instant::now() < until {
            let Ok(Some((tid, change))) = self.next_change() else {
                std::thread::sleep(Duration::from_micros(50));
                continue;
            };
            let asked_for = change == Change::Stopped(libc::SIGTRAP, libc::PTRACE_EVENT_STOP);
            if asked_for && waiting.contains(&tid) {
                self.set_state(tid, State::Stopped(0));
                stopped.push(tid);
                waiting.retain(|waited| *waited != tid);
                continue;
            }
            let stop = self.changed(tid, change);
            self.pending.extend(stop);
            // It stopped for another reason; the stop we asked for comes later.
            if !matches!(
                self.tasks.get(&tid).map(|task| task.state),
                Some(State::Running)
            ) {
                waiting.retain(|waited| *waited != tid);
            }
        }
        stopped
    }
}

fn thread(tid: Tid) -> Option<CoreThread> {
    let r = sys::raw_registers(tid).ok()?;
    Some(CoreThread {
        tid,
        registers: [
            r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx,
            r.rdx, r.rsi, r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base,
            r.gs_base, r.ds, r.es, r.fs, r.gs,
        ],
        floating: sys::register_set(tid, FLOATING).unwrap_or_default(),
        xstate: sys::register_set(tid, sys::XSTATE).unwrap_or_default(),
        signal: 0,
    })
}
