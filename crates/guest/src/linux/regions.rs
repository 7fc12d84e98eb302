//! What kind of memory an address is in.

use super::tasks::per_cpu_base;
use super::{Kernel, USER_END};
use crate::Source;
use redhanded_model::{Region, Svma};

const PAGE: u64 = 4096;
/// The size of a kernel stack.
const STACK: u64 = 16 << 10;
/// Mappings at addresses fixed at compile time are above, some of them devices'.
const FIXED_MAPPINGS: u64 = 0xffff_ffff_ff00_0000;
/// The end of the page structures.
const PAGES_END: u64 = 0xffff_ffff_0000_0000;

/// What the page tables say of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KernelPage {
    /// Whether it is a device's.
    pub uncached: bool,
    pub writable: bool,
    pub executable: bool,
}

impl Kernel {
    /// The variable at `address`, if it is among this CPU's data, which start at
    /// `base`.
    fn per_cpu_region(&self, cpu: u32, base: u64, address: u64) -> Option<Region> {
        let at = address.wrapping_sub(base);
        let of = self.per_cpu.iter().find(|of| of.within.contains(&at))?;
        Some(Region::PerCpu {
            module: of.module.clone(),
            cpu,
            svma: Svma(of.svma.0.wrapping_add(at - of.within.start)),
        })
    }

    /// The region of an address outside all modules.
    pub fn region(&self, source: &mut dyn Source, address: u64) -> Region {
        let mapping = |name: &str| Region::Mapping {
            name: name.to_owned(),
            shared: false,
        };
        for (number, cpu) in (0..).zip(source.cpus()) {
            let base = source.registers(cpu).as_ref().and_then(per_cpu_base);
            let own = base.and_then(|base| self.per_cpu_region(number, base, address));
            if let Some(region) = own {
                return region;
            }
            let task = self.current(source, cpu);
            if let (Some(task), Some(at)) = (task, self.offsets.stack)
                && let Some(stack) = source.word(task.wrapping_add(at))
                && address.wrapping_sub(stack) < STACK
            {
                return Region::Stack {
                    thread: self.thread_name(source, cpu),
                };
            }
        }
        match self.areas {
            _ if address < USER_END => mapping("user memory"),
            Some([direct, vmalloc, _]) if (direct..vmalloc).contains(&address) => Region::Heap,
            Some([_, vmalloc, pages]) if (vmalloc..pages).contains(&address) => {
                mapping("vmalloc area")
            }
            Some([_, _, pages]) if (pages..PAGES_END).contains(&address) => {
                mapping("page structures")
            }
            _ => Region::Unknown,
        }
    }

    /// Whether an address is a device's, whose registers may change when they are
    /// read. They are mapped uncached, in the vmalloc area or at a fixed address.
    pub fn is_device(&self, source: &mut dyn Source, cpu: u32, address: u64) -> bool {
        let Some([_, vmalloc, pages]) = self.areas else {
            return false;
        };
        let mapped = (vmalloc..pages).contains(&address) || address >= FIXED_MAPPINGS;
        // Stacks are in the vmalloc area too, and are accessed most.
        let on_stack = |source: &mut dyn Source| {
            source.cpus().into_iter().any(|cpu| {
                let registers = source.registers(cpu);
                registers.is_some_and(|r| r.general.stack_pointer() / PAGE == address / PAGE)
            })
        };
        if !mapped || on_stack(source) {
            return false;
        }
        let page = self.page(source, cpu, address);
        page.is_none_or(|page| page.uncached)
    }

    /// Walks the page tables of a CPU, which are in the direct map like all memory.
    pub fn page(&self, source: &mut dyn Source, cpu: u32, address: u64) -> Option<KernelPage> {
        const PRESENT: u64 = 1;
        const WRITABLE: u64 = 1 << 1;
        const LARGE: u64 = 1 << 7;
        const UNCACHED: u64 = 1 << 4;
        const NOT_EXECUTABLE: u64 = 1 << 63;
        const FRAME: u64 = 0x000f_ffff_ffff_f000;
        let [direct, ..] = self.areas?;
        let registers = source.registers(cpu)?;
        let five_levels = registers.cr4? & (1 << 12) != 0;
        let mut table = registers.cr3? & FRAME;
        let (mut writable, mut executable) = (true, true);
        for level in (0..if five_levels { 5 } else { 4 }).rev() {
            let index = address >> (12 + 9 * level) & 0x1ff;
            let entry = source.word(direct.wrapping_add(table).wrapping_add(8 * index))?;
            if entry & PRESENT == 0 {
                return None;
            }
            writable &= entry & WRITABLE != 0;
            executable &= entry & NOT_EXECUTABLE == 0;
            if level == 0 || (level < 3 && entry & LARGE != 0) {
                return Some(KernelPage {
                    uncached: entry & UNCACHED != 0,
                    writable,
                    executable,
                });
            }
            table = entry & FRAME;
        }
        None
    }
}
