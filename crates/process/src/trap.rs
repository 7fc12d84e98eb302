//! Keeps what the program wants of SIGTRAP, although breakpoints work through it.
//!
//! A breakpoint in a thread that blocks SIGTRAP makes the kernel unblock it. In a
//! process that ignores SIGTRAP it makes the kernel reset the action. And if a thread
//! that blocks it gets a perf event's SIGTRAP, that stays pending until it kills the
//! program.
//!
//! So a sampled thread never really blocks SIGTRAP. That it wants to is remembered (it
//! *owes* the signal to its mask). The one system call that could show it otherwise is
//! hooked, and the mask is put right when the thread is let go, when it forks and when
//! it runs another program. An action that the kernel reset is set again at once.

use super::Process;
use super::events::{await_change, pause};
use super::hooks::{Hook, SYSCALL};
use super::tasks::{self, SignalField, bit};
use memchr::memmem;
use redhanded_model::{Avma, SpaceId};
use redhanded_sys::{self as sys, Change, Tid};
use redhanded_target::Stop;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const TRAP: u64 = bit(libc::SIGTRAP);
/// A thread that blocks all of these has blocked all signals, SIGTRAP included.
const FULL: u64 = bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGILL) | bit(libc::SIGFPE);
/// The bytes below the stack pointer that a function may use without moving it.
const RED_ZONE: u64 = 128;
/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
pub type Action = [u64; 4];
const IGNORE: u64 = 1;

/// What a space must remember of this.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrapState {
    /// The program's own action for SIGTRAP, unless it is the default.
    pub action: Option<Action>,
    /// A `syscall` instruction that can be borrowed.
    gate: Option<u64>,
}

impl Process {
    /// Prepares a space for breakpoints that threads will run into.
    pub(super) fn expect_breakpoints(&mut self, id: SpaceId) {
        if let Some(space) = self.spaces.get_mut(&id)
            && !std::mem::replace(&mut space.armed, true)
        {
            space.set_hooks();
            self.note_trap(id);
        }
    }

    /// Reads what the process of a space wants of SIGTRAP when sampling starts.
    pub(super) fn note_trap(&mut self, id: SpaceId) {
        let tids: Vec<Tid> = self.tasks_in(id).map(|(tid, _)| *tid).collect();
        for tid in tids {
            self.hide_trap(tid);
        }
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        let maps = sys::mappings(space.pid);
        space.trap.gate = maps
            .iter()
            .find(|map| map.name == b"[vdso]")
            .and_then(|map| {
                let mut text = vec![0; (map.end - map.start) as usize];
                space.memory.read_exact_at(&mut text, map.start).ok()?;
                Some(map.start + memmem::find(&text, &SYSCALL)? as u64)
            });
        if tasks::signals(space.pid, SignalField::Ignored) & TRAP != 0 {
            space.trap.action = Some([IGNORE, 0, 0, 0]);
        }
    }

    /// Takes SIGTRAP out of a thread's mask and remembers that. The mask of a running
    /// thread is only read; its first breakpoint will unblock the signal.
    pub(super) fn hide_trap(&mut self, tid: Tid) {
        let blocked = match sys::signal_mask(tid) {
            Ok(mask) if mask & TRAP != 0 => sys::set_signal_mask(tid, mask & !TRAP).is_ok(),
            Ok(_) => return,
            Err(_) => tasks::signals(tid, SignalField::Blocked) & TRAP != 0,
        };
        if blocked && let Some(task) = self.tasks.get_mut(&tid) {
            task.owes_trap = true;
        }
    }

    /// Puts SIGTRAP back into a stopped thread's mask.
    pub(super) fn give_trap_back(tid: Tid) {
        if let Ok(mask) = sys::signal_mask(tid) {
            let _ = sys::set_signal_mask(tid, mask | TRAP);
        }
    }

    /// Restores the program's own action for SIGTRAP, through a stopped thread.
    pub(super) fn give_action_back(&mut self, tid: Tid) {
        let id = self.tasks.get(&tid).map(|task| task.space);
        let space = id.and_then(|id| self.spaces.get_mut(&id));
        if let Some(action) = space.and_then(|space| space.trap.action.take())
            && while_traced(action) != action
        {
            self.set_action(tid, action);
        }
    }

    /// Whether a space's action for SIGTRAP differs from what the program set.
    pub(super) fn owes_action(&self, id: SpaceId) -> bool {
        let action = self.spaces.get(&id).and_then(|space| space.trap.action);
        action.is_some_and(|action| while_traced(action) != action)
    }

    /// Whether the program ignores SIGTRAP.
    fn ignores_trap(&self, tid: Tid) -> bool {
        self.space_of(tid)
            .and_then(|space| space.trap.action)
            .is_some_and(|action| action[0] == IGNORE)
    }

    /// Undoes what the kernel did to deliver the SIGTRAP of a breakpoint.
    pub(super) fn mend_trap(&mut self, tid: Tid) {
        let mask = sys::signal_mask(tid).unwrap_or(0);
        // If it is blocked again, it is held.
        if let Some(task) = self.tasks.get_mut(&tid).filter(|_| mask & TRAP == 0) {
            let held = std::mem::take(&mut task.holds_trap);
            task.owes_trap = task.owes_trap || held || mask & FULL == FULL;
        }
        if let Some(action) = self.lost_action(tid) {
            self.set_action(tid, while_traced(action));
            for tid in std::mem::take(&mut self.awaiting_action) {
                self.go_on(tid, libc::SIGTRAP);
            }
        }
    }

    /// The program's action for SIGTRAP, if the kernel has reset it.
    fn lost_action(&self, tid: Tid) -> Option<Action> {
        let action = self.space_of(tid)?.trap.action?;
        let lost = || tasks::signals(tid, SignalField::Handled) & TRAP == 0;
        (action[0] != IGNORE && lost()).then_some(action)
    }

    /// Handles a SIGTRAP that is not ours. Returns whether that is all.
    pub(super) fn own_trap(&mut self, tid: Tid) -> bool {
        if self.ignores_trap(tid) {
            self.go_on(tid, 0);
            return true;
        }
        let owed = self.tasks.get_mut(&tid).map(|task| {
            let owed = std::mem::take(&mut task.owes_trap);
            task.holds_trap |= owed;
            owed
        });
        if owed == Some(true) {
            // The thread blocks it, so it stays pending, as it should.
            Self::give_trap_back(tid);
            self.go_on(tid, libc::SIGTRAP);
            return true;
        }
        if self.lost_action(tid).is_some() {
            // Another thread's breakpoint reset it, which will be reported in a moment.
            self.awaiting_action.push(tid);
            return true;
        }
        false
    }

    /// Makes the program's own SIGTRAP, of which a thread's stop tells, pending again, and blocks
    /// it, as before the breakpoint that the thread has executed. Nothing is executed meanwhile.
    /// Fails with what happened instead.
    pub(super) fn hold_trap_again(&mut self, tid: Tid) -> Result<(), Change> {
        const INTERRUPTED: Change = Change::Stopped(libc::SIGTRAP, libc::PTRACE_EVENT_STOP);
        Self::give_trap_back(tid);
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.owes_trap = false;
            task.holds_trap = true;
        }
        // The kernel keeps a blocked signal with all that is known of it. The interruption comes
        // before the next instruction.
        let _ = sys::interrupt(tid);
        let _ = sys::resume(tid, libc::SIGTRAP);
        match await_change(tid) {
            Ok(Some(change)) if !matches!(change, INTERRUPTED) => Err(change),
            _ => Ok(()),
        }
    }

    /// Makes a stopped thread set the process's action for SIGTRAP.
    fn set_action(&mut self, tid: Tid, action: Action) {
        let (Ok(mut before), Some(space)) = (sys::raw_registers(tid), self.space_of(tid)) else {
            return;
        };
        begin_again(&mut before);
        let Some(gate) = space.trap.gate else {
            return;
        };
        let room = (before.rsp - RED_ZONE - size_of::<Action>() as u64) & !0xf;
        let mut kept = [0; size_of::<Action>()];
        let bytes: Vec<u8> = action.iter().flat_map(|word| word.to_le_bytes()).collect();
        if space.memory.read_exact_at(&mut kept, room).is_err()
            || space.memory.write_all_at(&bytes, room).is_err()
        {
            return;
        }
        let mut registers = before;
        registers.rax = libc::SYS_rt_sigaction as u64;
        registers.orig_rax = u64::MAX;
        registers.rdi = libc::SIGTRAP as u64;
        registers.rsi = room;
        registers.rdx = 0;
        registers.r10 = 8;
        registers.rip = gate;
        let _ = sys::set_raw_registers(tid, &registers);
        match self.run_system_call(tid) {
            Err(Change::Stopped(signal, 0)) => self.set_state(tid, super::State::Stopped(signal)),
            Ok(()) | Err(Change::Stopped(..)) => {}
            // Its end must be reported.
            Err(ended) => self.backlog.push_back((tid, ended)),
        }
        let _ = sys::set_raw_registers(tid, &before);
        if let Some(space) = self.space_of(tid) {
            let _ = space.memory.write_all_at(&kept, room);
        }
    }

    /// Carries out a hooked system call, so that the program sees what it would have
    /// seen alone.
    pub(super) fn carry_out(&mut self, tid: Tid, address: u64, hook: Hook) -> Option<Stop> {
        let Ok(mut registers) = sys::raw_registers(tid) else {
            return None;
        };
        let result = match hook {
            // These are no system calls.
            Hook::Linker | Hook::Allocator(_) | Hook::AllocatorReturns => None,
            Hook::Mask => Some(self.change_mask(tid, &registers)),
            Hook::Clone => return self.clone_openly(tid, address, registers),
            Hook::Action if self.is_to_be_ignored(tid, &registers) => {
                self.action_set(tid, registers.rsi, registers.rdx);
                Some(0)
            }
            // Most actions are for other signals. The kernel sets them.
            Hook::Action => {
                let gate = self.space_of(tid).and_then(|space| space.trap.gate);
                let Some(gate) = gate else {
                    return self.drop_hook(tid, address);
                };
                registers.rip = gate;
                registers.orig_rax = u64::MAX;
                let _ = sys::set_raw_registers(tid, &registers);
                if let Err(change) = self.run_system_call(tid) {
                    // Something else comes first. The thread traps here again
                    // afterwards.
                    registers.rip = address;
                    let _ = sys::set_raw_registers(tid, &registers);
                    return self.changed(tid, change);
                }
                registers = sys::raw_registers(tid).unwrap_or(registers);
                if registers.rax == 0 && registers.rdi == libc::SIGTRAP as u64 {
                    self.action_set(tid, registers.rsi, registers.rdx);
                    let action = self.space_of(tid).and_then(|s| s.trap.action);
                    if let Some(action) = action.filter(|action| action[0] != IGNORE) {
                        self.set_action(tid, while_traced(action));
                    }
                }
                None
            }
        };
        if let Some(result) = result {
            registers.rax = result.cast_unsigned();
            registers.r11 = registers.eflags;
        }
        registers.rip = address + SYSCALL.len() as u64;
        registers.rcx = registers.rip;
        registers.orig_rax = u64::MAX;
        let _ = sys::set_raw_registers(tid, &registers);
        self.go_on(tid, 0);
        None
    }

    /// Carries out a `clone` in place, because the child starts there, and without
    /// CLONE_UNTRACED.
    fn clone_openly(
        &mut self,
        tid: Tid,
        address: u64,
        mut registers: libc::user_regs_struct,
    ) -> Option<Stop> {
        const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
        let id = self.space_of(tid)?.id;
        registers.rdi &= !UNTRACED;
        registers.rip = address;
        let _ = sys::set_raw_registers(tid, &registers);
        let space = self.spaces.get_mut(&id)?;
        let original = space.breakpoints.original_at(address);
        space.remove_breakpoint(address);
        let entered = self.enter_system_call(tid);
        let space = self.spaces.get_mut(&id)?;
        if let Some(original) = original {
            let again = [(Avma(address), original)];
            space.breakpoints.set(&space.memory, &again);
        }
        match entered {
            Ok(()) => {
                self.go_on(tid, 0);
                None
            }
            Err(change) => self.changed(tid, change),
        }
    }

    /// Does what the kernel's `rt_sigprocmask` does, except to SIGTRAP. Returns its
    /// result.
    fn change_mask(&mut self, tid: Tid, registers: &libc::user_regs_struct) -> i64 {
        let (how, new, old, size) = (registers.rdi, registers.rsi, registers.rdx, registers.r10);
        let owed = self.tasks.get(&tid).is_some_and(|task| task.owes_trap);
        let (Ok(real), Some(space)) = (sys::signal_mask(tid), self.space_of(tid)) else {
            return -i64::from(libc::EFAULT);
        };
        if size != size_of::<u64>() as u64 {
            return -i64::from(libc::EINVAL);
        }
        let before = if owed { real | TRAP } else { real };
        let mut after = before;
        if new != 0 {
            let Some(set) = space.word_at(new) else {
                return -i64::from(libc::EFAULT);
            };
            after = match how as i32 {
                libc::SIG_BLOCK => before | set,
                libc::SIG_UNBLOCK => before & !set,
                libc::SIG_SETMASK => set,
                _ => return -i64::from(libc::EINVAL),
            } & !(bit(libc::SIGKILL) | bit(libc::SIGSTOP));
        }
        let told = old == 0
            || space
                .memory
                .write_all_at(&before.to_le_bytes(), old)
                .is_ok();
        let _ = sys::set_signal_mask(tid, after & !TRAP);
        if let Some(task) = self.tasks.get_mut(&tid) {
            task.owes_trap = after & TRAP != 0;
        }
        if told { 0 } else { -i64::from(libc::EFAULT) }
    }

    /// Whether a thread is about to ignore SIGTRAP. The kernel would then discard
    /// pending ones of threads that are behind a breakpoint, so it is told only when
    /// there are none.
    fn is_to_be_ignored(&self, tid: Tid, registers: &libc::user_regs_struct) -> bool {
        let handler = self
            .space_of(tid)
            .filter(|_| registers.rdi == libc::SIGTRAP as u64 && registers.rsi != 0)
            .and_then(|space| space.word_at(registers.rsi));
        handler == Some(IGNORE)
    }

    /// Handles that a thread has set the action for SIGTRAP from memory at `new`.
    /// Writes the program's old action to `old`, not the one that we had set.
    fn action_set(&mut self, tid: Tid, new: u64, old: u64) {
        let Some(id) = self.space_of(tid).map(|space| space.id) else {
            return;
        };
        if let Some(space) = self.spaces.get_mut(&id) {
            let before = space.trap.action.unwrap_or_default();
            if new != 0 {
                let words = [0, 8, 16, 24].map(|at| space.word_at(new + at).unwrap_or(0));
                // The kernel resets a one-shot handler itself.
                let lasts = words[0] != 0 && words[1] & libc::SA_RESETHAND as u64 == 0;
                space.trap.action = lasts.then_some(words);
            }
            if old != 0 {
                let bytes: Vec<u8> = before.iter().flat_map(|word| word.to_le_bytes()).collect();
                let _ = space.memory.write_all_at(&bytes, old);
            }
        }
    }

    /// Removes a hook that cannot be carried out.
    pub(super) fn drop_hook(&mut self, tid: Tid, address: u64) -> Option<Stop> {
        let id = self.space_of(tid)?.id;
        self.spaces.get_mut(&id)?.remove_breakpoint(address);
        let _ = sys::move_to(tid, address);
        self.go_on(tid, 0);
        None
    }
}

/// The action that is set while we trace. The first breakpoint in a handler that blocks
/// SIGTRAP would reset it, so the handler does not block it. A SIGTRAP to be ignored
/// never reaches the program, because we take it.
fn while_traced(action: Action) -> Action {
    let [handler, flags, restorer, mask] = action;
    match handler {
        0 => action,
        IGNORE => Action::default(),
        _ => [
            handler,
            flags | libc::SA_NODEFER as u64,
            restorer,
            mask & !TRAP,
        ],
    }
}

/// Makes a thread that was interrupted in a system call restart it when it is resumed,
/// as the kernel would.
fn begin_again(registers: &mut libc::user_regs_struct) {
    const RESTARTS: std::ops::RangeInclusive<i64> = -514..=-512;
    const RESTARTS_BY_BLOCK: i64 = -516;
    if registers.orig_rax.cast_signed() < 0 {
        return;
    }
    let result = registers.rax.cast_signed();
    if RESTARTS.contains(&result) {
        registers.rax = registers.orig_rax;
    } else if result == RESTARTS_BY_BLOCK {
        registers.rax = libc::SYS_restart_syscall as u64;
    } else {
        return;
    }
    registers.rip -= SYSCALL.len() as u64;
    registers.orig_rax = u64::MAX;
}

impl Process {
    /// Runs a stopped thread into the system call at its pc and out of it. Fails with
    /// what happened instead.
    fn run_system_call(&mut self, tid: Tid) -> Result<(), Change> {
        self.enter_system_call(tid)?;
        // Leaving works like entering.
        self.enter_system_call(tid)
    }

    /// Runs a stopped thread to the next entry or exit of a system call. Reports of
    /// other threads are queued: a process that ends waits until we have heard of all
    /// its threads, and this one may be its leader.
    fn enter_system_call(&mut self, tid: Tid) -> Result<(), Change> {
        const AT_SYSTEM_CALL: i32 = libc::SIGTRAP | 0x80;
        let _ = sys::resume_to_system_call(tid);
        let began = Instant::now();
        while began.elapsed() < TAKES_NO_LONGER {
            match sys::poll_change() {
                Ok(Some((heard, Change::Stopped(AT_SYSTEM_CALL, 0)))) if heard == tid => {
                    return Ok(());
                }
                Ok(Some((heard, change))) if heard == tid => return Err(change),
                Ok(Some(other)) => {
                    self.backlog.push_back(other);
                }
                Ok(None) => pause(began),
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// The longest time a system call can take that only sets something.
const TAKES_NO_LONGER: Duration = Duration::from_millis(500);
