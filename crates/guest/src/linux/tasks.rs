//! Who runs on a CPU, and in which context.

use super::{Kernel, USER_END};
use crate::{Source, VcpuRegisters};
use redhanded_model::{Context, ContextKind, ThreadName};

/// The size of a task's name.
const COMM: usize = 16;

/// The start of a CPU's per-CPU data. In user mode `swapgs` has put it aside.
pub(crate) fn per_cpu_base(registers: &VcpuRegisters) -> Option<u64> {
    let bases = [registers.gs_base, registers.kernel_gs_base];
    bases.into_iter().flatten().find(|base| *base >= USER_END)
}

impl Kernel {
    /// The memory that tells the context and the task of the CPU with these data.
    pub fn context_ranges(&self, per_cpu: u64) -> Vec<(u64, usize)> {
        let words = [self.offsets.preempt_count, self.offsets.current];
        let words = words.into_iter().flatten();
        words.map(|at| (per_cpu.wrapping_add(at), 8)).collect()
    }

    /// Where the CPU with these data has its task.
    pub fn current_at(&self, per_cpu: u64) -> Option<u64> {
        Some(per_cpu.wrapping_add(self.offsets.current?))
    }

    /// The memory that tells the name and the stack of a task.
    pub fn task_ranges(&self, task: u64) -> Vec<(u64, usize)> {
        let offsets = &self.offsets;
        let fields = [(offsets.pid, 4), (offsets.comm, COMM), (offsets.stack, 8)];
        let at = |(field, len): (Option<u64>, usize)| Some((task.wrapping_add(field?), len));
        fields.into_iter().filter_map(at).collect()
    }

    pub(super) fn current(&self, source: &mut dyn Source, cpu: u32) -> Option<u64> {
        let base = per_cpu_base(&source.registers(cpu)?)?;
        source.word(self.current_at(base)?)
    }

    /// What a CPU is doing.
    pub fn context(&self, source: &mut dyn Source, cpu: u32) -> Option<Context> {
        let registers = source.registers(cpu)?;
        let at = per_cpu_base(&registers)?.wrapping_add(self.offsets.preempt_count?);
        let count = source.word(at)? as u32;
        let number = source.cpus().iter().position(|known| *known == cpu)?;
        // The kernel's own layout of this word: from below, how often preemption was
        // disabled, softirqs (odd while one is served), interrupts, NMIs. The highest
        // bit is set while no reschedule is needed.
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
            cpu: u32::try_from(number).ok()?,
            kind,
            interrupts_off: !registers.general.interrupts_enabled(),
            preemption_off: count & 0x00ff_ffff != 0,
        })
    }

    /// The name of what runs on a CPU.
    pub fn thread_name(&self, source: &mut dyn Source, cpu: u32) -> ThreadName {
        let mut named = ThreadName {
            context: self.context(source, cpu),
            ..ThreadName::default()
        };
        let Some(task) = self.current(source, cpu) else {
            return named;
        };
        let fields = [(self.offsets.pid, 4), (self.offsets.comm, COMM)];
        let ranges = fields.map(|(field, len)| (task.wrapping_add(field.unwrap_or(0)), len));
        let read = source.read_many(None, &ranges).unwrap_or_default();
        if let (Some(pid), Some(_)) = (read.first(), self.offsets.pid)
            && let Ok(pid) = pid.as_slice().try_into()
        {
            named.tid = u32::from_le_bytes(pid);
        }
        if let (Some(comm), Some(_)) = (read.get(1), self.offsets.comm)
            && comm.len() == COMM
        {
            let name = comm.split(|byte| *byte == 0).next().unwrap_or_default();
            named.name = String::from_utf8_lossy(name).into_owned();
        }
        named
    }
}
