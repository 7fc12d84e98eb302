//! Asks of memory that is no kernel's whatever is asked of one.

use super::offsets::{ModuleOffsets, Offsets, SectionOffsets};
use super::{BANNER_LEN, Kernel, PerCpu, USER_END, find_slide, per_cpu_base};
use crate::Source;
use redhanded_model::Svma;
use redhanded_target::VMLINUX;
use std::collections::HashMap;

pub(super) const DIRECT: u64 = 0xffff_8880_0000_0000;
pub(super) const VMALLOC: u64 = 0xffff_c900_0000_0000;
pub(super) const PAGES: u64 = 0xffff_ea00_0000_0000;
/// The list of modules.
pub(super) const LIST: u64 = 0xffff_ffff_8200_0000;
/// A little code.
const TEXT: u64 = 0xffff_ffff_8100_0000;

/// A list that leads into itself has very many. The sections of so many are looked at.
const MOST_MODULES: usize = 8;

/// A kernel that was found, with offsets like those of a real one.
pub(super) fn kernel() -> Kernel {
    Kernel {
        slide: 0,
        symbols: HashMap::from([("modules".to_owned(), LIST)]),
        offsets: Offsets {
            current: Some(0x40),
            preempt_count: Some(0x48),
            comm: Some(0x100),
            pid: Some(0x80),
            stack: Some(0x20),
            module: Some(ModuleOffsets {
                list: 8,
                name: 0x18,
                state: 0,
                per_cpu: Some((0x60, 0x68)),
            }),
            sections: Some(SectionOffsets {
                table: 0x70,
                count: Some(0),
                first: 8,
                size: 0x18,
                name: 8,
                address: 0x10,
            }),
        },
        areas: Some([DIRECT, VMALLOC, PAGES]),
        per_cpu: vec![PerCpu {
            module: VMLINUX.to_owned(),
            within: 0..0x1000,
            svma: Svma(0),
        }],
    }
}

/// Reads the list of modules, tasks, stacks and page tables of a guest, in which all of them
/// may be anything. For the fuzzer.
pub fn explore_forged(source: &mut dyn Source) {
    let mut kernel = kernel();
    kernel.symbols.extend([
        ("_stext".to_owned(), TEXT),
        ("_etext".to_owned(), TEXT + 0x2345),
        ("page_offset_base".to_owned(), LIST + 0x10),
        ("vmalloc_base".to_owned(), LIST + 0x18),
        ("vmemmap_base".to_owned(), LIST + 0x20),
    ]);
    let banner = source.read(TEXT, BANNER_LEN).unwrap_or_default();
    let _ = find_slide(source, LIST, &banner);
    let _ = kernel.read_text(source);
    let modules = kernel.loaded_modules(source).unwrap_or_default();
    for module in modules.iter().take(MOST_MODULES) {
        let _ = kernel.module_per_cpu(source, module.address);
        let _ = kernel.module_sections(source, module.address);
    }
    look_around(&kernel, source);
    // The areas are where the guest says, and so are the variables of its modules.
    kernel.areas = kernel.read_areas(source);
    if let Some(within) = kernel.module_per_cpu(source, LIST) {
        kernel.per_cpu.insert(
            0,
            PerCpu {
                module: "module".to_owned(),
                within,
                svma: Svma(u64::MAX),
            },
        );
    }
    look_around(&kernel, source);
}

/// Asks about each CPU, and about addresses of every kind.
fn look_around(kernel: &Kernel, source: &mut dyn Source) {
    let mut addresses = vec![0, USER_END, DIRECT, VMALLOC, PAGES, LIST, u64::MAX];
    for cpu in source.cpus() {
        let _ = (kernel.context(source, cpu), kernel.thread_name(source, cpu));
        let Some(base) = source.registers(cpu).as_ref().and_then(per_cpu_base) else {
            continue;
        };
        let task = kernel.current(source, cpu).unwrap_or(0);
        let _ = (kernel.context_ranges(base), kernel.task_ranges(task));
        addresses.extend([base, base.wrapping_add(0xfff), task]);
        addresses.extend(source.word(task.wrapping_add(0x20)));
    }
    for address in addresses {
        let _ = kernel.region(source, address);
        for cpu in source.cpus() {
            let _ = kernel.page(source, cpu, address);
            let _ = kernel.is_device(source, cpu, address);
        }
    }
}
