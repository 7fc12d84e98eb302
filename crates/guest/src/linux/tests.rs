use super::forged::{DIRECT, LIST, PAGES, VMALLOC, kernel};
use super::*;
use crate::source::{Snapshot, VcpuRegisters};
use redhanded_model::{ContextKind, Region, Register};

const PER_CPU: [u64; 2] = [DIRECT + 0x1000_0000, DIRECT + 0x1010_0000];
const TASK: u64 = DIRECT + 0x2000;

/// Two CPUs, of which the second is in user mode; the first runs `worker`.
fn snapshot(preempt_count: u32) -> Snapshot {
    let mut snapshot = Snapshot::default();
    for (cpu, base) in [1, 2].into_iter().zip(PER_CPU) {
        let mut registers = VcpuRegisters {
            gs_base: Some(if cpu == 1 { base } else { 0x7000 }),
            kernel_gs_base: Some(if cpu == 1 { 0x7000 } else { base }),
            cr3: Some(0x10_0000 | 0xfff),
            cr4: Some(0),
            ..VcpuRegisters::default()
        };
        registers.general.rflags = 1 << 9;
        registers.general.set(Register::Rsp, VMALLOC + 0x4f00);
        snapshot.registers.insert(cpu, registers);
    }
    snapshot.put_word(PER_CPU[0] + 0x40, TASK);
    snapshot.put_word(PER_CPU[0] + 0x48, u64::from(preempt_count));
    snapshot.put(TASK + 0x80, &42u32.to_le_bytes());
    snapshot.put(TASK + 0x100, b"worker\0\0\0\0\0\0\0\0\0\0");
    snapshot.put_word(TASK + 0x20, VMALLOC + 0x4000);
    snapshot
}

#[test]
fn the_preemption_count_tells_the_context() {
    for (count, kind, preemption_off) in [
        (0x8000_0000, ContextKind::Task, false),
        (0x8000_0001, ContextKind::Task, true),
        (0x8000_0100, ContextKind::Softirq, true),
        // Softirqs are only disabled.
        (0x8000_0200, ContextKind::Task, true),
        (0x8001_0100, ContextKind::Hardirq, true),
        (0x8011_0000, ContextKind::Nmi, true),
    ] {
        let context = kernel().context(&mut snapshot(count), 1).unwrap();
        assert_eq!(
            (context.kind, context.preemption_off),
            (kind, preemption_off)
        );
        assert!(context.cpu == 0 && !context.interrupts_off);
    }
    let unreadable = kernel().context(&mut snapshot(0), 2);
    assert_eq!(unreadable, None, "nothing is known of the second CPU");
}

#[test]
fn a_task_is_named_in_three_exchanges() {
    let mut snapshot = snapshot(0);
    let thread = kernel().thread_name(&mut snapshot, 1);
    assert_eq!((thread.tid, thread.name.as_str()), (42, "worker"));
    assert_eq!(snapshot.exchanges, 3);
}

#[test]
fn an_address_has_a_region() {
    let region = |address| kernel().region(&mut snapshot(0), address);
    // A CPU in user mode has its per-CPU data all the same.
    for (cpu, base) in (0..).zip(PER_CPU) {
        let expected = Region::PerCpu {
            module: VMLINUX.to_owned(),
            cpu,
            svma: Svma(0x123),
        };
        assert_eq!(region(base + 0x123), expected);
    }
    let stack = region(VMALLOC + 0x7ff8);
    assert!(matches!(stack, Region::Stack { thread } if thread.tid == 42));
    let mapping = |address| match region(address) {
        Region::Mapping { name, .. } => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(mapping(VMALLOC + 0x8000), "vmalloc area");
    assert_eq!(mapping(PAGES), "page structures");
    assert_eq!(mapping(0x1000), "user memory");
    assert_eq!(region(DIRECT), Region::Heap);
    assert_eq!(region(0xffff_ffff_8100_0000), Region::Unknown);
}

#[test]
fn uncached_memory_is_a_devices() {
    let device = VMALLOC + 0x20_0000;
    let mut snapshot = snapshot(0);
    let kernel = kernel();
    assert!(
        kernel.is_device(&mut snapshot, 1, device),
        "for all that is known"
    );
    assert!(
        !kernel.is_device(&mut snapshot, 1, VMALLOC + 0x4010),
        "a stack"
    );
    assert!(
        !kernel.is_device(&mut snapshot, 1, DIRECT + 0x20_0000),
        "memory"
    );
    let mut table = 0x10_0000;
    for level in (1..4).rev() {
        let index = device >> (12 + 9 * level) & 0x1ff;
        snapshot.put_word(DIRECT + table + 8 * index, (table + 0x1000) | 1);
        table += 0x1000;
    }
    for (entry, is_device) in [(0x5001, false), (0x5011, true)] {
        snapshot.put_word(DIRECT + table + 8 * (device >> 12 & 0x1ff), entry);
        assert_eq!(kernel.is_device(&mut snapshot, 1, device), is_device);
    }
}

#[test]
fn the_list_of_modules_is_walked() {
    let [first, second, third] = [1, 2, 3].map(|number| VMALLOC + 0x1000 * number);
    let mut snapshot = Snapshot::default();
    // The second is still being loaded.
    for (module, next, state) in [(first, second, 0u32), (second, third, 3), (third, 0, 1)] {
        snapshot.put(module, &state.to_le_bytes());
        let next = if next == 0 { LIST } else { next + 8 };
        snapshot.put_word(module + 8, next);
        snapshot.put(
            module + 0x18,
            format!("m{}\0", module >> 12 & 0xf).as_bytes(),
        );
    }
    snapshot.put_word(LIST, first + 8);
    let kernel = kernel();
    let loaded = kernel.loaded_modules(&mut snapshot).unwrap();
    let names: Vec<&str> = loaded.iter().map(|module| module.name.as_str()).collect();
    assert_eq!(names, ["m1", "m3"]);

    let table = VMALLOC + 0x9000;
    snapshot.put_word(first + 0x70, table);
    snapshot.put(table, &3u32.to_le_bytes());
    for (index, (name, address)) in [(".text", 0x111), (".init.text", 0x222), (".data", 0x333)]
        .into_iter()
        .enumerate()
    {
        let entry = table + 8 + 0x18 * index as u64;
        // The last byte of the names is the last one that can be read.
        let at = VMALLOC + 0xa000 + 0x100 * index as u64;
        snapshot.put(at, format!("{name}\0").as_bytes());
        snapshot.put_word(entry + 8, at);
        snapshot.put_word(entry + 0x10, address);
    }
    let sections = kernel.module_sections(&mut snapshot, first).unwrap();
    let expected = [(".data".to_owned(), 0x333), (".text".to_owned(), 0x111)];
    assert_eq!(sections, expected, "without what initialisation needed");

    snapshot.put_word(first + 0x60, 0x2_0000);
    snapshot.put(first + 0x68, &0x30u32.to_le_bytes());
    let per_cpu = kernel.module_per_cpu(&mut snapshot, first);
    assert_eq!(per_cpu, Some(0x2_0000..0x2_0030));

    snapshot.put_word(third + 8, first + 8);
    assert_eq!(
        kernel.loaded_modules(&mut snapshot),
        None,
        "a list without an end"
    );
}

#[test]
fn a_kernel_is_found_where_it_was_moved_to() {
    let banner = 0xffff_ffff_8180_0000;
    let mut snapshot = snapshot(0);
    assert_eq!(find_slide(&mut snapshot, banner, b"Linux").unwrap(), None);
    snapshot.put(banner + 7 * SLIDE_STEP, b"Linux version");
    snapshot.exchanges = 0;
    let slide = find_slide(&mut snapshot, banner, b"Linux").unwrap();
    assert_eq!((slide, snapshot.exchanges), (Some(7 * SLIDE_STEP), 1));
}

#[test]
fn text_that_cannot_be_read_is_an_error() {
    let mut kernel = kernel();
    let text = 0xffff_ffff_8100_0000u64;
    let symbols = [("_stext", text), ("_etext", text + 6)];
    let symbols = symbols.map(|(name, at)| (name.to_owned(), at - 0x1000));
    kernel.symbols.extend(symbols);
    kernel.slide = 0x1000;
    let mut snapshot = snapshot(0);
    let error = kernel.read_text(&mut snapshot).unwrap_err().to_string();
    assert!(error.contains("0xffffffff81000000"), "{error}");
    snapshot.put(text, b"\x90\x90\xcc\x90\x90\x90");
    let read = kernel.read_text(&mut snapshot).unwrap();
    assert_eq!(
        read,
        [(Svma(text - 0x1000), b"\x90\x90\xcc\x90\x90\x90".to_vec())]
    );
}
