//! A watch that is set.

use crate::VcpuRegisters;
use crate::gdb::Point;
use crate::linux::USER_END;
use redhanded_target::Watch;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A watch that is set, with what tells its hits from stale ones.
pub(super) struct Watchpoint {
    pub watch: Watch,
    pub point: Point,
    /// The registers of each CPU when it was set, until the CPU is known to have
    /// moved: a CPU that is still there has accessed nothing since.
    pub before: BTreeMap<u32, VcpuRegisters>,
    /// The CPUs whose late stop has come.
    pub late: BTreeSet<u32>,
    /// The bytes when they were first read after it was set, and when last.
    pub bytes: Option<Vec<u8>>,
    pub last: Option<Vec<u8>>,
    /// The page tables that the address belongs to, for user memory.
    pub root: Option<u64>,
    pub fired: u64,
    /// How long the machine had been stopped in total before this window.
    pub downtime_before: Duration,
}

impl Watchpoint {
    /// Whether a CPU has executed something since it was set.
    pub fn has_moved(&self, number: u32, registers: &VcpuRegisters) -> bool {
        let before = self.before.get(&number);
        before.is_none_or(|before| before.general != registers.general)
    }

    /// The CPUs were resumed: those whose late stop came move now.
    pub fn resumed(&mut self) {
        for number in std::mem::take(&mut self.late) {
            self.before.remove(&number);
        }
    }

    /// Whether its address means the same bytes to a CPU with these registers.
    pub fn is_in_space_of(&self, registers: &VcpuRegisters) -> bool {
        let is_kernel = self.watch.bytes.start.0 >= USER_END;
        is_kernel || (self.root.is_some() && self.root == page_table_root(registers))
    }
}

/// The page-table root of a CPU, without flags and without the bit by which the
/// kernel tells its own tables from the user's.
pub(super) fn page_table_root(registers: &VcpuRegisters) -> Option<u64> {
    Some(registers.cr3? & 0x000f_ffff_ffff_e000)
}
