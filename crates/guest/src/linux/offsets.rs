//! Where the fields and per-CPU variables are that are read from a kernel. They
//! differ from version to version; the kernel's type information has them.

use redhanded_image::kernel_file::Btf;
use std::collections::HashMap;

/// Offsets in the kernel's structures and in the data of a CPU. `None` where this
/// kernel has no such thing.
#[derive(Clone, Default)]
pub(crate) struct Offsets {
    /// Per CPU: the running task, and the preemption count.
    pub current: Option<u64>,
    pub preempt_count: Option<u64>,
    /// In `task_struct`.
    pub comm: Option<u64>,
    pub pid: Option<u64>,
    pub stack: Option<u64>,
    pub module: Option<ModuleOffsets>,
    pub sections: Option<SectionOffsets>,
}

/// In `struct module`.
#[derive(Clone)]
pub(crate) struct ModuleOffsets {
    pub list: u64,
    pub name: u64,
    pub state: u64,
    /// The start and the size of its per-CPU variables.
    pub per_cpu: Option<(u64, u64)>,
}

/// In the attributes through which sysfs shows a module's sections.
#[derive(Clone)]
pub(crate) struct SectionOffsets {
    /// Of the table, in `struct module`.
    pub table: u64,
    /// Of the number of sections and of the first one, in the table.
    pub count: Option<u64>,
    pub first: u64,
    /// The size of an entry, and the offsets of its name and address.
    pub size: u64,
    pub name: u64,
    pub address: u64,
}

impl Offsets {
    /// `within` turns the address of a per-CPU variable into its offset.
    pub fn new(btf: &Btf, symbols: &HashMap<String, u64>, within: impl Fn(u64) -> u64) -> Self {
        let field = |holder: &str, path: &str| Some(btf.field(holder, path)?.offset_bytes);
        // From 6.2 to 6.14 these variables are fields of another one.
        let per_cpu = |name: &str, path: &str| {
            let hot = || {
                symbols
                    .get("pcpu_hot")?
                    .checked_add(field("pcpu_hot", path)?)
            };
            symbols.get(name).copied().or_else(hot).map(&within)
        };
        Self {
            current: per_cpu("current_task", "current_task"),
            preempt_count: per_cpu("__preempt_count", "preempt_count"),
            comm: field("task_struct", "comm"),
            pid: field("task_struct", "pid"),
            stack: field("task_struct", "stack"),
            module: module(&field),
            sections: sections(btf, &field),
        }
    }
}

fn module(field: &dyn Fn(&str, &str) -> Option<u64>) -> Option<ModuleOffsets> {
    Some(ModuleOffsets {
        list: field("module", "list")?,
        name: field("module", "name")?,
        state: field("module", "state")?,
        per_cpu: field("module", "percpu").zip(field("module", "percpu_size")),
    })
}

fn sections(btf: &Btf, field: &dyn Fn(&str, &str) -> Option<u64>) -> Option<SectionOffsets> {
    // Since 6.14 the address is the private part of the attribute itself.
    let (size, name, address) = match field("module_sect_attr", "address") {
        Some(address) => (
            btf.size_of("module_sect_attr")?,
            field("module_sect_attr", "battr.attr.name")?,
            address,
        ),
        None => (
            btf.size_of("bin_attribute")?,
            field("bin_attribute", "attr.name")?,
            field("bin_attribute", "private")?,
        ),
    };
    Some(SectionOffsets {
        table: field("module", "sect_attrs")?,
        count: field("module_sect_attrs", "nsections"),
        first: field("module_sect_attrs", "attrs")?,
        size,
        name,
        address,
    })
}
