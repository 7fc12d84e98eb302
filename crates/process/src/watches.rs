//! Watches the bytes of a window in every thread of a space.
//!
//! Perf events are best: one call moves a watch in all threads without stopping them,
//! and they vanish with their tracer. If they are refused, as to ordinary users on
//! Debian and Ubuntu, each thread's debug registers are set through ptrace, for which
//! it must stop a moment.

use redhanded_model::Avma;
use redhanded_model::{Watch, WatchFor};
use redhanded_sys::{self as sys, PerfWatch, Tid};
use std::io;

/// Debug registers of an x86-64 CPU.
pub const DEBUG_REGISTERS: usize = 4;
/// How many of them are code breakpoints if no byte may be written.
pub const FOR_SITES: usize = 2;
/// Marks the number of a code breakpoint. Windows never get that far.
const SITE: u64 = 1 << 63;

/// How to set debug registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WatchBy {
    /// With perf events if they are allowed, else through ptrace.
    #[default]
    Auto,
    /// With perf events.
    Perf,
    /// Through ptrace.
    Ptrace,
}

/// The watches of one space.
pub enum Watches {
    /// Perf events.
    Perf(PerfWatches),
    /// Debug registers, thread by thread.
    Registers(RegisterWatches),
    /// There are none, for this reason.
    Refused(String),
}

impl Watches {
    /// Opens watches for these threads and those that they start.
    pub fn open(by: WatchBy, tids: &[Tid], first: usize) -> Self {
        if by != WatchBy::Ptrace {
            match PerfWatches::open(tids, first) {
                Ok(watches) => return Self::Perf(watches),
                Err(error) if by == WatchBy::Perf => return Self::Refused(error.to_string()),
                Err(_) => {}
            }
        }
        Self::Registers(RegisterWatches::default())
    }
}

/// Perf events. Each slot has one for each thread that existed at the beginning; other
/// threads inherit them.
pub struct PerfWatches {
    in_kernel: bool,
    slots: Vec<Vec<PerfWatch>>,
    /// The slots before this one are code breakpoints.
    first: usize,
    /// The address of each code breakpoint that is set.
    sites: Vec<Option<Avma>>,
    /// What each slot had counted when its watch was set.
    base: Vec<u64>,
}

impl PerfWatches {
    /// Watches the kernel's accesses as well if that is allowed.
    fn open(tids: &[Tid], first: usize) -> io::Result<Self> {
        let mut refused = io::Error::from_raw_os_error(libc::ESRCH);
        for in_kernel in [true, false] {
            let mut watches = Self {
                in_kernel,
                slots: (0..DEBUG_REGISTERS).map(|_| Vec::new()).collect(),
                first,
                sites: vec![None; first],
                base: vec![0; DEBUG_REGISTERS],
            };
            match tids.iter().try_for_each(|tid| watches.add(*tid)) {
                Ok(()) if !tids.is_empty() => return Ok(watches),
                Ok(()) => {}
                // One reason: registers that were set through ptrace in a thread stay
                // taken until it ends.
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }

    /// Opens watches for one more thread.
    fn add(&mut self, tid: Tid) -> io::Result<()> {
        for (slot, events) in self.slots.iter_mut().enumerate() {
            let in_kernel = self.in_kernel && slot >= self.first;
            match PerfWatch::open(tid, in_kernel) {
                Ok(event) => events.push(event),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn events(&self, slot: usize) -> &[PerfWatch] {
        self.slots
            .get(self.first + slot)
            .map_or(&[], |events| events)
    }

    pub fn count(&self) -> usize {
        self.slots.len() - self.first
    }

    pub fn set(&mut self, slot: usize, watch: Watch) -> bool {
        self.base[self.first + slot] = self.fired(slot);
        // It is enough if one succeeds: the other threads are gone.
        let done = self
            .events(slot)
            .iter()
            .filter(|e| e.set(watch).is_ok())
            .count();
        done > 0
    }

    /// Removes a watch. Returns how often it fired.
    pub fn clear(&self, slot: usize) -> u64 {
        for event in self.events(slot) {
            let _ = event.clear();
        }
        self.fired(slot)
            .saturating_sub(self.base[self.first + slot])
    }

    fn fired(&self, slot: usize) -> u64 {
        self.events(slot).iter().filter_map(PerfWatch::count).sum()
    }

    /// Sets a code breakpoint in a free register. Returns whether there was one.
    pub fn set_site(&mut self, address: Avma) -> bool {
        let Some(slot) = self.sites.iter().position(Option::is_none) else {
            return false;
        };
        let number = SITE | slot as u64;
        let mut done = false;
        for event in &self.slots[slot] {
            done |= event.set_code(address, number).is_ok();
        }
        if done {
            self.sites[slot] = Some(address);
        }
        done
    }

    /// Whether `number` belongs to a code breakpoint.
    pub fn is_site(number: u64) -> bool {
        number & SITE != 0
    }

    /// Removes the code breakpoint at `address`. Returns whether there was one.
    pub fn remove_site(&mut self, address: Avma) -> bool {
        let Some(slot) = self.sites.iter().position(|site| *site == Some(address)) else {
            return false;
        };
        self.sites[slot] = None;
        for event in &self.slots[slot] {
            let _ = event.clear();
        }
        true
    }

    /// Removes all code breakpoints.
    pub fn clear_sites(&mut self) {
        for address in self.sites.clone().into_iter().flatten() {
            self.remove_site(address);
        }
    }
}

/// What each debug register should hold, in all threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Table([Option<Watch>; DEBUG_REGISTERS]);

/// Debug registers, set thread by thread.
#[derive(Default)]
pub struct RegisterWatches {
    pub wanted: Table,
    /// How often each fired since it was set.
    pub fired: [u64; DEBUG_REGISTERS],
}

impl RegisterWatches {
    pub fn set(&mut self, slot: usize, watch: Watch) {
        self.wanted.0[slot] = Some(watch);
        self.fired[slot] = 0;
    }

    pub fn clear(&mut self, slot: usize) {
        self.wanted.0[slot] = None;
    }
}

impl Table {
    /// Replaces `old` by this table in a stopped thread's registers. Returns whether
    /// that worked.
    pub fn apply(&self, tid: Tid, old: &Self) -> bool {
        if self == old {
            return true;
        }
        // An address may only change while its register is off.
        let apply = || -> io::Result<()> {
            sys::set_debug_register(tid, CONTROL, 0)?;
            for (slot, (new, old)) in self.0.iter().zip(&old.0).enumerate() {
                if let Some(watch) = new
                    && old.map(|old| old.bytes.start) != Some(watch.bytes.start)
                {
                    sys::set_debug_register(tid, slot, watch.bytes.start.0)?;
                }
            }
            sys::set_debug_register(tid, CONTROL, self.control())
        };
        apply().is_ok()
    }

    fn control(&self) -> u64 {
        let fields = self.0.iter().enumerate().map(|(slot, watch)| {
            watch.map_or(0, |watch| {
                let kind = match watch.watch_for {
                    WatchFor::Writes => 0b01,
                    WatchFor::ReadsAndWrites => 0b11,
                };
                let len = match watch.bytes.len {
                    1 => 0b00,
                    2 => 0b01,
                    4 => 0b11,
                    _ => 0b10,
                };
                (kind | len << 2) << (16 + 4 * slot) | 1 << (2 * slot)
            })
        });
        fields.fold(0, |all, field| all | field)
    }

    /// The slots that fired in a thread that trapped with this table.
    pub fn hits(&self, tid: Tid) -> Vec<(usize, Watch)> {
        let status = sys::debug_register(tid, STATUS).unwrap_or(0);
        let _ = sys::set_debug_register(tid, STATUS, 0);
        let fired = |slot: &usize| status & (1 << slot) != 0;
        (0..DEBUG_REGISTERS)
            .filter(fired)
            .filter_map(|slot| Some((slot, self.0[slot]?)))
            .collect()
    }
}

/// The register that tells which ones fired.
const STATUS: usize = 6;
/// The register that enables the others.
const CONTROL: usize = 7;
