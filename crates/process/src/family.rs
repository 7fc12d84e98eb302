//! The processes a program starts: threads, forked and vforked children, and
//! what exec makes of them. Each has the breakpoints of its own space, and one
//! that is not followed has none left in it.

use super::events::task_id;
use super::maps;
use super::space::{Space, open_memory};
use super::{Follow, Kind, Newborn, Process, State, tasks};
use redhanded_model::SpaceId;
use redhanded_sys::{self as sys, Tid};
use redhanded_target::{Control, Stop};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// Whoever makes a child tells of it in this time, however busy the machine is.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

impl Process {
    /// `parent` made `child` by fork, vfork or clone.
    pub(super) fn child_of(&mut self, parent: Tid, child: Tid, event: i32) {
        let Some(maker) = self.tasks.get(&parent).cloned() else {
            return;
        };
        let stopped = matches!(self.newborn.remove(&child), Some(Newborn::Stopped(_)));
        if self.tasks.contains_key(&child) {
            return;
        }
        let is_thread = tasks::process_of(child) == Some(maker.pid);
        // Which event it is depends on the signal at its end, not on the memory.
        // Where the kernel does not say, a fork is what forks are.
        let shares_memory = is_thread
            || sys::same_memory(maker.pid, child).unwrap_or(event != libc::PTRACE_EVENT_FORK);
        if shares_memory {
            // Its breakpoints are its maker's: it stays traced until it execs or
            // ends, followed or not.
            let pid = if is_thread { maker.pid } else { child };
            self.add_task(child, pid, maker.space);
            if let Some(task) = self.tasks.get_mut(&child) {
                task.owes_trap = maker.owes_trap;
            }
            if is_thread {
                self.company_came(maker.space);
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
        // One that is left to others is so before its maker can look for it.
        let stopped = stopped || (!follow && self.await_birth(child));
        if stopped {
            self.settle(child, kind);
        } else {
            self.newborn.insert(child, Newborn::Unseen(kind));
        }
    }

    /// A stopped newborn goes on, or waits with its maker until a space that woke
    /// for it is armed.
    fn start_newborn(&mut self, tid: Tid) {
        if self.pending.is_empty() {
            self.go_on(tid, 0);
        } else {
            self.parked.push(tid);
        }
    }

    /// A space has a second thread: from here on it is worth sampling.
    fn company_came(&mut self, id: SpaceId) {
        let asleep = self.spaces.get(&id).is_some_and(|space| !space.awake);
        if asleep && self.may_wake(id) {
            self.wake(id);
            self.pending.push_back(Stop::ModulesChanged);
        }
    }

    /// A copy of a program is only sampled where all children are followed.
    fn may_wake(&self, id: SpaceId) -> bool {
        let forked = self.spaces.get(&id).is_some_and(|space| space.forked);
        !forked || self.settings.follow == Follow::All
    }

    /// A forked child stands at its beginning, with a copy of its maker's text: it
    /// gets its bytes back, and is followed or no longer our business.
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
        // Alone in its memory, but for what it shares with its maker.
        if self.settings.follow == Follow::All && !maps::shared(child).is_empty() {
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

    /// Somebody is gone: settles what he may have made, and nobody else will tell of.
    pub(super) fn settle_newborns(&mut self) {
        self.settle_newborns_where(|process, tid, since| !process.is_being_made(tid, since));
    }

    /// Nothing of ours is left in any memory: settles everything that is not known
    /// yet, whoever made it.
    pub(super) fn settle_all_newborns(&mut self) {
        self.settle_newborns_where(|_, _, _| true);
    }

    /// Settles what is known as a fork's child and has not been heard of yet, and what
    /// has been heard of and is an orphan.
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

    /// Settles those whose makers should have told of them long ago: they were killed
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

    /// Whether somebody is about to tell that he made this newborn: a parent whom we
    /// trace, or one who shares his memory with it. On a busy machine the child may
    /// be heard of long before its maker.
    fn is_being_made(&self, newborn: Tid, since: Duration) -> bool {
        let parent = tasks::parent_of(newborn);
        let is_here = |space: &Space| sys::same_memory(space.pid, newborn) == Some(true);
        self.now() < since + TOLD_WITHIN
            && (self.tasks.values().any(|task| Some(task.pid) == parent)
                || self.spaces.values().any(is_here))
    }

    /// A process became another program. Its first thread has the process's
    /// number now, whoever it was before; the others are gone.
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

    /// Sets up for the program that process `pid` has just become.
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

    /// Recognises programs that a tracer is in the way of.
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
