//! The processes that a program starts: threads, forked and vforked children, and what
//! exec makes of them. Each has the breakpoints of its own space. A child that is not
//! followed has none.

use super::events::task_id;
use super::sharing;
use super::space::{Space, open_memory};
use super::{Follow, Kind, Newborn, Process, State, tasks};
use redhanded_model::SpaceId;
use redhanded_sys::{self as sys, Tid};
use redhanded_target::{Control, Stop};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A parent's event arrives within this time, however busy the machine is.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

impl Process {
    /// Handles that `parent` made `child` by fork, vfork or clone.
    pub(super) fn child_of(&mut self, parent: Tid, child: Tid, event: i32) {
        let Some(maker) = self.tasks.get(&parent).cloned() else {
            return;
        };
        let stopped = matches!(self.newborn.remove(&child), Some(Newborn::Stopped(_)));
        if self.tasks.contains_key(&child) {
            return;
        }
        let is_thread = tasks::process_of(child) == Some(maker.pid);
        // The kind of event depends on the child's exit signal, not on its memory. If
        // the kernel does not tell, fork means a copy.
        let shares_memory = is_thread
            || sys::same_memory(maker.pid, child).unwrap_or(event != libc::PTRACE_EVENT_FORK);
        if shares_memory {
            // It has its parent's breakpoints, so it stays traced until it execs or
            // ends, followed or not.
            let pid = if is_thread { maker.pid } else { child };
            self.add_task(child, pid, maker.space);
            if let Some(task) = self.tasks.get_mut(&child) {
                task.owes_trap = maker.owes_trap;
            }
            if is_thread {
                self.company_came(maker.space);
                self.see_creation(parent, child);
            }
            if stopped {
                self.set_state(child, State::Stopped(0));
                self.start_newborn(child);
            }
            return;
        }
        let follow = self.settings.follow != Follow::None && !self.tracers.contains(&maker.pid);
        let kind = Kind::Forked {
            from: Some(maker.space),
            follow,
            owes_trap: maker.owes_trap,
        };
        // A child that is not followed is let go before its parent can look for it.
        let stopped = stopped || (!follow && self.await_birth(child));
        if stopped {
            self.settle(child, kind);
        } else {
            self.newborn.insert(child, Newborn::Unseen(kind));
        }
    }

    /// Resumes a stopped new task. If a space has just started to be sampled, it waits
    /// with its parent until the sites are armed.
    fn start_newborn(&mut self, tid: Tid) {
        if self.pending.is_empty() {
            self.go_on(tid, 0);
        } else {
            self.parked.push(tid);
        }
    }

    /// Starts to sample a space when it has a second thread.
    fn company_came(&mut self, id: SpaceId) {
        let asleep = self.spaces.get(&id).is_some_and(|space| !space.awake);
        if asleep && self.may_wake(id) {
            self.wake(id);
            self.pending.push_back(Stop::ModulesChanged);
        }
    }

    /// A forked copy of a program is sampled only if all children are followed.
    fn may_wake(&self, id: SpaceId) -> bool {
        let forked = self.spaces.get(&id).is_some_and(|space| space.forked);
        !forked || self.settings.follow == Follow::All
    }

    /// Handles a forked child at its first stop. It has a copy of its parent's text, so
    /// its original bytes are restored. Then it is followed or let go.
    pub(super) fn settle(&mut self, child: Tid, kind: Kind) {
        let Kind::Forked {
            from,
            follow,
            owes_trap,
        } = kind;
        if let Ok(memory) = open_memory(child)
            && let Some(space) = self.spaces.get(&from.unwrap_or_else(|| self.origin(child)))
        {
            space.breakpoints.restore_in(&memory);
        }
        if owes_trap {
            Self::give_trap_back(child);
        }
        let space = if follow {
            self.new_space(child).ok()
        } else {
            None
        };
        let Some(id) = space else {
            let _ = sys::detach(child, 0);
            self.note("child processes", "not followed");
            return;
        };
        if let Some(space) = self.spaces.get_mut(&id) {
            space.forked = true;
        }
        self.add_task(child, child, id);
        self.set_state(child, State::Stopped(0));
        // Nobody else is in its memory, but part of it may be shared with its parent.
        if self.settings.follow == Follow::All && !sharing::shared(child).is_empty() {
            self.wake(id);
            self.pending.push_back(Stop::ModulesChanged);
        }
        self.start_newborn(child);
    }

    /// The space that an orphan is a copy of: one that runs the same file.
    fn origin(&self, child: Tid) -> SpaceId {
        let file = |pid: Tid| std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let same = |space: &&Space| file(space.pid) == file(child);
        let mut spaces = self.spaces.values();
        spaces.find(same).map(|space| space.id).unwrap_or_default()
    }

    /// Settles new tasks whose parent is gone, so that no event will tell what they
    /// are.
    pub(super) fn settle_newborns(&mut self) {
        self.settle_newborns_where(|process, tid, since| !process.is_being_made(tid, since));
    }

    /// Settles all new tasks, whoever made them. Called when no memory holds anything
    /// of ours.
    pub(super) fn settle_all_newborns(&mut self) {
        self.settle_newborns_where(|_, _, _| true);
    }

    /// Settles forked children whose first stop has not come, and stopped tasks that
    /// are orphans.
    fn settle_newborns_where(&mut self, is_orphan: impl Fn(&Self, Tid, Duration) -> bool) {
        let waiting: Vec<Tid> = self.newborn.keys().copied().collect();
        for tid in waiting {
            let Some(newborn) = self.newborn.get(&tid).copied() else {
                continue;
            };
            let is_process = || tasks::process_of(tid).is_none_or(|pid| pid == tid);
            let kind = match newborn {
                Newborn::Unseen(kind) => kind,
                Newborn::Stopped(since) if is_process() && is_orphan(self, tid, since) => {
                    Kind::Forked {
                        from: None,
                        follow: self.settings.follow != Follow::None,
                        owes_trap: false,
                    }
                }
                Newborn::Stopped(_) => continue,
            };
            let stopped = newborn != Newborn::Unseen(kind) || self.await_birth(tid);
            self.newborn.remove(&tid);
            if stopped {
                self.settle(tid, kind);
            }
        }
    }

    /// Settles tasks whose parents should have reported them long ago. They were killed
    /// before they could.
    pub(super) fn settle_forgotten(&mut self) {
        let now = self.now();
        let is_forgotten = |newborn: &Newborn| match newborn {
            Newborn::Stopped(since) => now >= *since + TOLD_WITHIN,
            Newborn::Unseen(_) => false,
        };
        if self.newborn.values().any(is_forgotten) {
            self.settle_newborns();
        }
    }

    /// Whether an event will still tell what a new task is: its parent is traced, or it
    /// shares memory with a traced process. On a busy machine a child may be heard of
    /// long before its parent's event.
    fn is_being_made(&self, newborn: Tid, since: Duration) -> bool {
        let parent = tasks::parent_of(newborn);
        let is_here = |space: &Space| sys::same_memory(space.pid, newborn) == Some(true);
        self.now() < since + TOLD_WITHIN
            && (self.tasks.values().any(|task| Some(task.pid) == parent)
                || self.spaces.values().any(is_here))
    }

    /// Handles that a process runs another program. The calling thread has the
    /// process's number now; the other threads are gone.
    pub(super) fn execed(&mut self, pid: Tid) -> Option<Stop> {
        let before = sys::event_message(pid).map_or(pid, |tid| tid as Tid);
        let owes_trap = self.tasks.get(&before).is_some_and(|task| task.owes_trap);
        let own: Vec<Tid> = self
            .tasks
            .iter()
            .filter(|(_, task)| task.pid == pid)
            .map(|(tid, _)| *tid)
            .collect();
        let mut left: Vec<SpaceId> = Vec::new();
        for tid in own {
            self.pc_samples.remove(&tid);
            if let Some(task) = self.tasks.remove(&tid) {
                left.push(task.space);
                self.pending.push_back(Stop::TaskGone(task_id(tid)));
            }
        }
        self.parked.retain(|tid| self.tasks.contains_key(tid));
        self.settle_newborns();
        left.dedup();
        for space in left {
            let gone = self.leave_space(space);
            self.pending.extend(gone);
        }
        if owes_trap {
            Self::give_trap_back(pid);
        }
        self.tracers.remove(&pid);
        self.begin_program(pid);
        None
    }

    /// Sets up for the program that process `pid` now runs.
    fn begin_program(&mut self, pid: Tid) {
        let followed = pid == self.pid || self.settings.follow != Follow::None;
        let space = if followed {
            self.new_space(pid).ok()
        } else {
            None
        };
        let Some(id) = space else {
            let _ = sys::detach(pid, 0);
            self.note("child processes", "not followed");
            return;
        };
        self.look_at_program(pid);
        self.add_task(pid, pid, id);
        self.set_state(pid, State::Stopped(0));
        self.parked.push(pid);
        if pid == self.pid {
            self.wake(id);
        }
        self.pending.push_back(Stop::ModulesChanged);
    }

    /// Notes programs that do not work when traced: setuid ones, and tracers.
    pub(super) fn look_at_program(&mut self, pid: Tid) {
        let link = format!("/proc/{pid}/exe");
        let path = std::fs::read_link(&link).unwrap_or_default();
        let name = path.display().to_string();
        if std::fs::metadata(&link).is_ok_and(|data| data.mode() & 0o6000 != 0)
            && sys::effective_user() != 0
        {
            self.note(
                &name,
                "it is setuid, and the kernel gives a traced program no privileges; use \
                 --follow none if it needs them and is started by fork",
            );
        }
        let traces = self
            .images
            .open(Path::new(&path))
            .is_ok_and(|image| image.imports("ptrace"));
        if traces {
            self.tracers.insert(pid);
            self.note(
                &name,
                "it traces programs itself; those it starts are left to it",
            );
        }
    }
}
