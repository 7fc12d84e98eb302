//! Where the registers and the memory of a guest come from.

use redhanded_model::Registers;
use redhanded_target::TargetError;
use std::time::Duration;

/// The registers of a virtual CPU. Those that the source does not give are `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VcpuRegisters {
    /// The integer registers; unknown segment bases are 0 here.
    pub general: Registers,
    /// The code segment; its lowest two bits are the privilege level.
    pub cs: Option<u16>,
    /// Base of `fs`.
    pub fs_base: Option<u64>,
    /// Base of `gs`: in kernel mode, of the per-CPU data.
    pub gs_base: Option<u64>,
    /// The base of `gs` that `swapgs` would load.
    pub kernel_gs_base: Option<u64>,
    /// Protection and paging.
    pub cr0: Option<u64>,
    /// The page-table root, with flags.
    pub cr3: Option<u64>,
    /// Four or five levels of paging, among others.
    pub cr4: Option<u64>,
    /// Long mode, among others.
    pub efer: Option<u64>,
}

/// The CPUs and the kernel memory of a guest: a stopped virtual machine, a live
/// kernel, a recording. Reads are assumed to be expensive, so that each method takes
/// all that is wanted at once.
pub trait Source {
    /// The CPUs, by the source's numbers, in the order of the kernel's.
    fn cpus(&self) -> Vec<u32>;

    /// The registers of a CPU.
    fn registers(&mut self, cpu: u32) -> Option<VcpuRegisters>;

    /// Reads kernel memory, given as addresses and lengths, in one exchange. Each
    /// answer has as many bytes as could be read from the start of its range.
    /// Translates addresses as `cpu` does, or as any CPU that has the kernel mapped.
    ///
    /// # Errors
    /// When the source is lost.
    fn read_many(
        &mut self,
        cpu: Option<u32>,
        ranges: &[(u64, usize)],
    ) -> Result<Vec<Vec<u8>>, TargetError>;

    /// Lets the guest run for a moment. `false` if it cannot run, so that there is
    /// no point in trying anything again.
    ///
    /// # Errors
    /// When the source is lost.
    fn run_for(&mut self, _time: Duration) -> Result<bool, TargetError> {
        Ok(false)
    }

    /// Reads one range; `None` if any of it cannot be read.
    fn read(&mut self, address: u64, len: usize) -> Option<Vec<u8>> {
        let bytes = self.read_many(None, &[(address, len)]).ok()?.pop()?;
        (bytes.len() == len).then_some(bytes)
    }

    /// Reads a word.
    fn word(&mut self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.read(address, 8)?.try_into().ok()?))
    }

    /// Reads half a word.
    fn half_word(&mut self, address: u64) -> Option<u32> {
        Some(u32::from_le_bytes(self.read(address, 4)?.try_into().ok()?))
    }

    /// Reads a string of at most `most` bytes. It may end where the memory does.
    fn string(&mut self, address: u64, most: usize) -> Option<String> {
        let bytes = self.read_many(None, &[(address, most)]).ok()?.pop()?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(text).into_owned())
    }
}

/// A source over a fixed image.
#[cfg(test)]
#[derive(Default)]
pub struct Snapshot {
    pub registers: std::collections::BTreeMap<u32, VcpuRegisters>,
    memory: std::collections::BTreeMap<u64, u8>,
    /// How many exchanges there were.
    pub exchanges: usize,
}

#[cfg(test)]
impl Snapshot {
    pub fn put(&mut self, address: u64, bytes: &[u8]) {
        self.memory.extend((address..).zip(bytes.iter().copied()));
    }

    pub fn put_word(&mut self, address: u64, word: u64) {
        self.put(address, &word.to_le_bytes());
    }
}

#[cfg(test)]
impl Source for Snapshot {
    fn cpus(&self) -> Vec<u32> {
        self.registers.keys().copied().collect()
    }

    fn registers(&mut self, cpu: u32) -> Option<VcpuRegisters> {
        self.registers.get(&cpu).copied()
    }

    fn read_many(
        &mut self,
        _cpu: Option<u32>,
        ranges: &[(u64, usize)],
    ) -> Result<Vec<Vec<u8>>, TargetError> {
        self.exchanges += 1;
        let read = |(address, len): &(u64, usize)| {
            let bytes = (0..*len as u64).map_while(|at| self.memory.get(&(address + at)));
            bytes.copied().collect()
        };
        Ok(ranges.iter().map(read).collect())
    }
}
