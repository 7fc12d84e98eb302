//! A distribution's kernel and one of its modules.

use super::build::{instructions, open, start};
use super::installed::kernels;
use object::{Object, ObjectSection, ObjectSymbol};
use redhanded_image::kernel_file::unpack;
use redhanded_image::{Image, Unwinder, link};
use redhanded_model::{Excluded, Register, Registers, Svma};

/// A module of Debian's cloud kernels, relative to the folder of a kernel's modules.
const LOOP: &str = "kernel/drivers/block/loop.ko";

#[test]
fn a_module_with_its_debug_file() {
    for kernel in kernels() {
        let path = kernel.modules.unwrap().join(LOOP);
        // Newer kernels have it packed.
        let ko = std::fs::read(&path).or_else(|_| std::fs::read(path.with_added_extension("xz")));
        let ko = unpack(&ko.unwrap()).unwrap().into_owned();
        let debug = std::fs::read(kernel.modules_debug.unwrap().join(LOOP)).unwrap();
        let object = object::File::parse(&*ko).unwrap();
        let mut at = 0xffff_ffff_c030_0000;
        let mut sections = Vec::new();
        for section in object.sections().filter(|s| s.size() > 0) {
            let object::SectionFlags::Elf { sh_flags } = section.flags() else {
                continue;
            };
            if sh_flags & u64::from(object::elf::SHF_ALLOC) != 0 {
                at = u64::next_multiple_of(at, section.align().max(1));
                sections.push((section.name().unwrap().to_owned(), at));
                at += section.size();
            }
        }
        let printk = 0xffff_ffff_8123_0000;
        let resolve = |name: &str| (name == "_printk").then_some(printk);
        let linked = link(&ko, &sections, Some(&debug), &resolve).unwrap();
        let temporary = tempfile::tempdir().unwrap();
        let image = open(temporary.path(), &linked);
        check_module(&image);
    }
}

fn check_module(image: &Image) {
    assert!(image.is_kernel());
    let function = start(image, "lo_ioctl");
    let frames = image.debug().frames(Svma(function));
    let outermost = frames.last().unwrap();
    assert_eq!(outermost.function.as_deref(), Some("lo_ioctl"));
    assert!(
        outermost
            .file
            .as_deref()
            .unwrap()
            .ends_with("drivers/block/loop.c")
    );
    assert!(outermost.line.is_some());
    let sites = image.sites();
    assert!(sites.sites.len() > 500, "{}", sites.sites.len());
    assert!(sites.excluded.0[&Excluded::InitText] > 0);
    assert!(!sites.excluded.0.contains_key(&Excluded::DataInText));

    let symbols = std::fs::read(image.path()).unwrap();
    let object = object::File::parse(&*symbols).unwrap();
    let mutex = object.symbols().find(|s| s.name() == Ok("loop_ctl_mutex"));
    let mutex = mutex.unwrap().address();
    let variable = image.debug().variable_at(Svma(mutex + 16)).unwrap();
    assert_eq!(variable.name, "loop_ctl_mutex");
    assert!(
        variable.part(16, 4).path.starts_with('.'),
        "its type is known"
    );

    // At every instruction of the prologue the caller is where the pushes left
    // it.
    let mut unwinder = Unwinder::new();
    unwinder.add_module(image, 0);
    let mut pushed = 0;
    let mut seen = 0;
    for (at, text) in instructions(image, "lo_ioctl") {
        let mut registers = Registers {
            rip: at,
            ..Registers::default()
        };
        registers.set(Register::Rsp, 0x10_0000 - 8 * pushed);
        let caller = function + 100;
        let mut read = |at| (at == 0x10_0000).then_some(caller);
        let stack = unwinder.unwind(&registers, &mut read);
        assert_eq!(stack[..2], [at, caller], "{text}");
        seen += 1;
        match text.split(' ').next().unwrap() {
            "push" => pushed += 1,
            "mov" | "nop" | "call" | "endbr64" if pushed < 5 => {}
            _ => break,
        }
    }
    assert!(
        pushed >= 5 && seen >= 6,
        "{pushed} pushes in {seen} instructions"
    );
}

#[test]
fn the_sampling_set_of_a_kernel() {
    for kernel in kernels() {
        let image = Image::open(&kernel.vmlinux.unwrap()).unwrap();
        assert!(image.is_kernel());
        assert!(image.segments().iter().all(|s| s.svma.0 >= 1 << 63));
        let set = image.sites();
        println!("{} sites; {:?}", set.sites.len(), set.excluded);
        assert!(set.sites.len() > 300_000);
        for reason in [
            Excluded::InitText,
            Excluded::EntryText,
            Excluded::ThreadLocal,
        ] {
            assert!(set.excluded.0[&reason] > 300, "{reason:?}");
        }
        let total = set.sites.len() as u64;
        let data = set.excluded.0.get(&Excluded::DataInText).copied();
        assert!(data.unwrap_or(0) * 100 < total, "{data:?} taken for data");
        for name in ["start_kernel", "entry_SYSCALL_64", "default_idle"] {
            let index = image.functions().index_at(Svma(start(&image, name)));
            let number = u32::try_from(index.unwrap()).unwrap();
            assert!(set.of_function(number).is_empty(), "{name}");
        }
    }
}
