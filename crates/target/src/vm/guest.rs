//! What is read from the guest's memory about the kernel in it: how far it was
//! moved, who runs on which CPU and in which context, and where an address lies.

use super::gdb::{Gdb, GdbError, Request, VcpuRegisters};
use super::{KERNEL, USER_END, Vcpu, Vm};
use redhanded_image::Image;
use redhanded_image::kernel_file::Btf;
use redhanded_model::{Avma, Context, ContextKind, Region, Svma, ThreadName};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// A kernel is moved in steps of this, within a gigabyte.
const SLIDE_STEP: u64 = 0x20_0000;
const SLIDES: u64 = 512;
/// How often it is tried to find CPUs in the kernel, and how long they run between.
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);
/// The bytes that tell one kernel from all others.
const BANNER_LEN: usize = 64;
/// The name of a task.
const COMM: usize = 16;
/// No instruction is longer.
const LONGEST_INSTRUCTION: u64 = 15;
/// What has one mapping.
const PAGE: u64 = 4096;
/// The size of a kernel stack.
const STACK: u64 = 16 << 10;
/// Above are mappings that have their place at compile time, devices among them.
const FIXED_MAPPINGS: u64 = 0xffff_ffff_ff00_0000;
/// Where interrupts are allowed, in the flags.
const INTERRUPTS: u64 = 1 << 9;

/// Symbols that are looked up.
const WANTED: &[&str] = &[
    "linux_banner",
    "_stext",
    "_etext",
    "_text",
    "_end",
    "modules",
    "current_task",
    "__preempt_count",
    "pcpu_hot",
    "page_offset_base",
    "vmalloc_base",
    "vmemmap_base",
    "__per_cpu_start",
    "__per_cpu_end",
];

/// Why the memory of a machine is not that of the kernel it is said to be.
#[derive(Debug, Error)]
pub enum NotAKernel {
    /// The file lacks what every kernel has.
    #[error(
        "{0} has no symbol linux_banner: give the kernel's vmlinux with --vmlinux, or its vmlinuz \
         with --kernel"
    )]
    NoSymbols(String),
    /// The file has no description of its types.
    #[error("{0} has no type information (.BTF section), without which tasks cannot be told apart")]
    NoTypes(String),
    /// It is not in memory.
    #[error(
        "the machine does not run the kernel {0}: its version string is nowhere in memory. Give the \
         file of the very kernel that runs, and wait until it has booted"
    )]
    Other(String),
    /// Its code is not there.
    #[error(
        "the kernel's code at {0:#x} cannot be read from the machine: give the file of the very \
         kernel that runs"
    )]
    Unreadable(u64),
    /// The machine could not be asked.
    #[error(transparent)]
    Gdb(#[from] GdbError),
}

/// The variables of a file that each CPU has a copy of.
pub(super) struct PerCpu {
    pub module: String,
    /// Where they are in the data of a CPU.
    pub within: Range<u64>,
    /// Where they are in the file.
    pub svma: Svma,
}

/// What is known of the kernel.
pub(super) struct Guest {
    /// What an address of the file needs added.
    pub slide: u64,
    symbols: HashMap<String, u64>,
    pub btf: Arc<Btf>,
    current: Option<u64>,
    preempt_count: Option<u64>,
    comm: Option<u64>,
    pid: Option<u64>,
    stack: Option<u64>,
    /// The beginning of the direct map, of vmalloc memory and of the page
    /// structures.
    areas: Option<[u64; 3]>,
    pub per_cpu: Vec<PerCpu>,
}

impl Guest {
    /// Finds the kernel of `image` in the machine, which stands.
    pub fn find(gdb: &mut Gdb, image: &Image) -> Result<Self, NotAKernel> {
        let name = || image.path().display().to_string();
        let symbols: HashMap<String, u64> = image
            .symbols_named(WANTED)
            .into_iter()
            .map(|(name, svma)| (name, svma.0))
            .collect();
        let btf = image.types().ok_or_else(|| NotAKernel::NoTypes(name()))?;
        let banner = *symbols
            .get("linux_banner")
            .ok_or_else(|| NotAKernel::NoSymbols(name()))?;
        let expected = image
            .bytes_at(Svma(banner), BANNER_LEN)
            .ok_or_else(|| NotAKernel::NoSymbols(name()))?;
        let slide = find_slide(gdb, banner, expected)?.ok_or_else(|| NotAKernel::Other(name()))?;
        let field = |holder: &str, path: &str| Some(btf.field(holder, path)?.offset_bytes);
        // Up to 6.14 the file has per-CPU variables at the place that they have in the
        // data of a CPU; later ones are moved with the kernel, like all others.
        let start = symbols.get("__per_cpu_start").copied().unwrap_or(0);
        let moved = if start == 0 { 0 } else { slide };
        let within = |svma: u64| svma.wrapping_add(moved);
        let end = symbols.get("__per_cpu_end").copied().unwrap_or(start);
        // From 6.2 to 6.14 the hottest of them are fields of one.
        let hot = |path: &str| {
            symbols
                .get("pcpu_hot")?
                .checked_add(field("pcpu_hot", path)?)
        };
        let per_cpu = |name: &str, path| {
            let svma = symbols.get(name).copied().or_else(|| hot(path));
            svma.map(within)
        };
        let mut guest = Self {
            slide,
            current: per_cpu("current_task", "current_task"),
            preempt_count: per_cpu("__preempt_count", "preempt_count"),
            comm: field("task_struct", "comm"),
            pid: field("task_struct", "pid"),
            stack: field("task_struct", "stack"),
            areas: None,
            per_cpu: vec![PerCpu {
                module: KERNEL.to_owned(),
                within: within(start)..within(end),
                svma: Svma(start),
            }],
            btf: Arc::clone(&btf),
            symbols,
        };
        guest.areas = guest.read_areas(gdb);
        Ok(guest)
    }

    /// The live address of a symbol.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        Some(self.symbols.get(name)?.wrapping_add(self.slide))
    }

    /// The copy of a variable that is at `address`, among the data of this CPU,
    /// which are at `base`.
    fn per_cpu_region(&self, cpu: u32, base: u64, address: u64) -> Option<Region> {
        let at = address.wrapping_sub(base);
        let of = self.per_cpu.iter().find(|of| of.within.contains(&at))?;
        Some(Region::PerCpu {
            module: of.module.clone(),
            cpu,
            svma: Svma(of.svma.0.wrapping_add(at - of.within.start)),
        })
    }

    fn read_areas(&self, gdb: &mut Gdb) -> Option<[u64; 3]> {
        let mut areas = [0; 3];
        let names = ["page_offset_base", "vmalloc_base", "vmemmap_base"];
        for (area, name) in areas.iter_mut().zip(names) {
            let mut word = [0; 8];
            let read = gdb.read(self.symbol(name)?, &mut word);
            *area = read.ok()?.then(|| u64::from_le_bytes(word))?;
        }
        Some(areas)
    }

    pub fn field(&self, holder: &str, path: &str) -> Option<u64> {
        Some(self.btf.field(holder, path)?.offset_bytes)
    }
}

/// How far the kernel was moved: where its version string is found. A CPU that
/// runs a user's program may not see the kernel, so it is tried for a while.
fn find_slide(gdb: &mut Gdb, banner: u64, expected: &[u8]) -> Result<Option<u64>, NotAKernel> {
    let patience = Duration::from_secs(5);
    for _ in 0..TRIES {
        for vcpu in gdb.vcpus().to_vec() {
            let reads = (0..SLIDES).map(|step| Request::Read {
                address: banner.wrapping_add(step * SLIDE_STEP),
                len: expected.len(),
            });
            let requests: Vec<Request> = std::iter::once(Request::Select(vcpu))
                .chain(reads)
                .collect();
            let answers = gdb.ask(&requests)?;
            let found = answers
                .into_iter()
                .skip(1)
                .position(|answer| answer.memory().as_deref() == Some(expected));
            if let Some(step) = found {
                return Ok(Some(step as u64 * SLIDE_STEP));
            }
        }
        gdb.resume(None)?;
        if gdb.wait(BETWEEN_TRIES)?.is_none() {
            gdb.interrupt(patience)?;
        }
    }
    Ok(None)
}

impl Vm {
    /// What is asked of every CPU that is held: in which context it is, and who runs.
    pub(super) fn hot(&self, number: u32) -> Vec<(u64, usize)> {
        let base = self.vcpus.get(&number).and_then(|vcpu| vcpu.per_cpu);
        let words = [self.guest.preempt_count, self.guest.current];
        let words = words.into_iter().flatten();
        base.map_or_else(Vec::new, |base| {
            words.map(|at| (base.wrapping_add(at), 8)).collect()
        })
    }

    /// What is told of the CPUs of a collision, as far as it is known where that is:
    /// instruction, stack, context and task.
    pub(super) fn told_of_held(&self) -> Vec<(u64, usize)> {
        let mut ranges = Vec::new();
        for (number, vcpu) in self.vcpus.iter().filter(|(_, vcpu)| vcpu.held) {
            ranges.extend(self.hot(*number));
            if let Some(registers) = &vcpu.registers {
                let code = registers.general.rip.saturating_sub(LONGEST_INSTRUCTION);
                ranges.push((code, 2 * LONGEST_INSTRUCTION as usize));
                ranges.push(super::machine::top_of_stack(&registers.general));
            }
            let current = vcpu.per_cpu.zip(self.guest.current);
            let current = current.and_then(|(base, at)| self.peeked.word(base.wrapping_add(at)));
            if let Some(task) = current {
                let fields = [
                    (self.guest.pid, 4),
                    (self.guest.comm, COMM),
                    (self.guest.stack, 8),
                ];
                let at =
                    |(field, len): (Option<u64>, usize)| Some((task.wrapping_add(field?), len));
                ranges.extend(fields.into_iter().filter_map(at));
            }
        }
        ranges
    }

    /// The per-CPU data of a CPU that is in the kernel.
    pub(super) fn per_cpu(registers: &VcpuRegisters) -> Option<u64> {
        [registers.gs_base, registers.kernel_gs_base]
            .into_iter()
            .flatten()
            .find(|base| *base >= USER_END)
    }

    fn per_cpu_word(&mut self, number: u32, offset: Option<u64>) -> Option<u64> {
        let base = Self::per_cpu(&self.registers(number)?)?;
        self.word(base.wrapping_add(offset?))
    }

    /// What a standing CPU is doing.
    pub(super) fn context_of(&mut self, number: u32) -> Option<Context> {
        let registers = self.registers(number)?;
        let count = self.per_cpu_word(number, self.guest.preempt_count)? as u32;
        let cpu = self.vcpus.keys().position(|known| *known == number)?;
        // The kernel's own layout of this word: from below, how often preemption is
        // off, softirqs (an odd number while one is served), interrupts, NMIs. The
        // highest bit says that nobody wants the CPU.
        let kind = if count & 0x00f0_0000 != 0 {
            ContextKind::Nmi
        } else if count & 0x000f_0000 != 0 {
            ContextKind::Hardirq
        } else if count & 0x0000_0100 != 0 {
            ContextKind::Softirq
        } else {
            ContextKind::Task
        };
        Some(Context {
            cpu: u32::try_from(cpu).ok()?,
            kind,
            interrupts_off: registers.general.rflags & INTERRUPTS == 0,
            preemption_off: count & 0x00ff_ffff != 0,
        })
    }

    /// Who runs on a standing CPU.
    pub(super) fn name_of(&mut self, number: u32) -> ThreadName {
        let context = self.context_of(number);
        let task = self.per_cpu_word(number, self.guest.current);
        let mut named = ThreadName {
            tid: 0,
            name: String::new(),
            context,
        };
        if let (Some(task), Some(pid), Some(comm)) = (task, self.guest.pid, self.guest.comm) {
            self.peek_all(&[(task.wrapping_add(pid), 4), (task.wrapping_add(comm), COMM)]);
        }
        if let (Some(task), Some(at)) = (task, self.guest.pid)
            && let Some(pid) = self.peek(task.wrapping_add(at), 4)
            && let Ok(pid) = pid.try_into()
        {
            named.tid = u32::from_le_bytes(pid);
        }
        if let (Some(task), Some(at)) = (task, self.guest.comm)
            && let Some(comm) = self.peek(task.wrapping_add(at), COMM)
        {
            let name = comm.split(|byte| *byte == 0).next().unwrap_or_default();
            named.name = String::from_utf8_lossy(name).into_owned();
        }
        named
    }

    /// Whether an address is a device's, whose registers may change when they are
    /// read. They are mapped uncached, and nowhere but among vmalloc memory and at
    /// the very end.
    pub(super) fn is_device(&mut self, number: u32, address: u64) -> bool {
        let Some([_, vmalloc, pages]) = self.guest.areas else {
            return false;
        };
        let mapped = (vmalloc..pages).contains(&address) || address >= FIXED_MAPPINGS;
        // Stacks lie there too, and are what is accessed most.
        let on_stack = |vcpu: &Vcpu| {
            let registers = vcpu.registers.as_ref();
            registers
                .is_some_and(|registers| registers.general.stack_pointer() / PAGE == address / PAGE)
        };
        mapped
            && !self.vcpus.values().any(on_stack)
            && self.is_uncached(number, address) != Some(false)
    }

    /// Walks the page tables of a CPU, which lie in the direct map like all memory.
    fn is_uncached(&mut self, number: u32, address: u64) -> Option<bool> {
        const PRESENT: u64 = 1;
        const LARGE: u64 = 1 << 7;
        const UNCACHED: u64 = 1 << 4;
        const FRAME: u64 = 0x000f_ffff_ffff_f000;
        let [direct, ..] = self.guest.areas?;
        let registers = self.registers(number)?;
        let five_levels = registers.cr4? & (1 << 12) != 0;
        let mut table = registers.cr3? & FRAME;
        for level in (0..if five_levels { 5 } else { 4 }).rev() {
            let index = address >> (12 + 9 * level) & 0x1ff;
            let entry = self.word(direct.wrapping_add(table).wrapping_add(8 * index))?;
            if entry & PRESENT == 0 {
                return None;
            }
            if level == 0 || (level < 3 && entry & LARGE != 0) {
                return Some(entry & UNCACHED != 0);
            }
            table = entry & FRAME;
        }
        None
    }

    /// Where an address lies.
    pub(super) fn region_of(&mut self, address: Avma) -> Region {
        if let Some(module) = self.module_at(address) {
            return Region::Global {
                module: module.name.clone(),
            };
        }
        let mapping = |name: &str| Region::Mapping {
            name: name.to_owned(),
            shared: false,
        };
        let numbers: Vec<u32> = self.vcpus.keys().copied().collect();
        for (cpu, number) in numbers.into_iter().enumerate() {
            let base = self.registers(number).as_ref().and_then(Self::per_cpu);
            let own = u32::try_from(cpu).ok().zip(base);
            let own = own.and_then(|(cpu, base)| self.guest.per_cpu_region(cpu, base, address.0));
            if let Some(region) = own {
                return region;
            }
            let task = self.per_cpu_word(number, self.guest.current);
            if let (Some(task), Some(at)) = (task, self.guest.stack)
                && let Some(stack) = self.word(task.wrapping_add(at))
                && address.0.wrapping_sub(stack) < STACK
            {
                return Region::Stack {
                    thread: self.name_of(number),
                };
            }
        }
        match self.guest.areas {
            _ if address.0 < USER_END => mapping("user memory"),
            Some([direct, vmalloc, _]) if (direct..vmalloc).contains(&address.0) => Region::Heap,
            Some([_, vmalloc, pages]) if (vmalloc..pages).contains(&address.0) => {
                mapping("vmalloc area")
            }
            Some([_, _, pages]) if address.0 >= pages && address.0 < 0xffff_ffff_0000_0000 => {
                mapping("page structures")
            }
            _ => Region::Unknown,
        }
    }
}
