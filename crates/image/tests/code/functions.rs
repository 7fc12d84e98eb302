//! Where functions begin and end, and what they are called.

use crate::fixture::{assembly, c, run};
use redhanded_image::{Image, Instruction};
use redhanded_model::Svma;
use std::process::Command;

const PROGRAM: &str = r#"
    int x;
    __attribute__((noinline)) static void local(void) { x++; }
    __attribute__((noinline)) void shown(int n) { x = n; }
    int main(int argc, char **argv) { local(); shown(argc); return x; }
"#;

#[test]
fn symbols_give_names_and_a_stripped_file_the_same_ranges() {
    for flags in [
        &["-O2"][..],
        &["-O2", "-no-pie"],
        &["-O0", "-fcf-protection=full"],
        &["-O2", "-static"],
    ] {
        let built = c(PROGRAM, flags);
        let stripped = built.stripped();
        for name in ["main", "local", "shown"] {
            let start = built.start(name);
            let named = built.image.function_at(start).unwrap();
            let unnamed = stripped.image.function_at(start).unwrap();
            assert_eq!(unnamed.start, named.start, "{name} with {flags:?}");
            assert_eq!(unnamed.end, named.end, "{name} with {flags:?}");
            assert_eq!(unnamed.name, None, "{name} with {flags:?}");
        }
    }
}

#[test]
fn exported_names_survive_stripping() {
    let built = c(PROGRAM, &["-O2", "-rdynamic"]);
    let stripped = built.stripped();
    assert_eq!(stripped.start("shown"), built.start("shown"));
}

#[test]
fn a_separate_debug_file_gives_the_names_back() {
    let built = c(PROGRAM, &["-O2", "-g"]);
    let folder = built.path.parent().unwrap();
    let (debug, bare) = (folder.join("built.debug"), folder.join("bare"));
    run(Command::new("objcopy")
        .arg("--only-keep-debug")
        .args([&built.path, &debug]));
    run(Command::new("strip").arg("-o").args([&bare, &built.path]));
    run(Command::new("objcopy")
        .arg("--add-gnu-debuglink=built.debug")
        .arg(&bare)
        .current_dir(folder));
    let bare = Image::open(&bare).unwrap();
    let function = bare.function_at(built.start("local")).unwrap();
    assert_eq!(function.name.as_deref(), Some("local"));
}

#[test]
fn without_section_headers_the_unwind_table_is_found_through_its_segment() {
    let built = c(PROGRAM, &["-O2"]);
    let bare = built.edited(|bytes| {
        bytes[0x28..0x30].fill(0); // e_shoff
        bytes[0x3c..0x40].fill(0); // e_shnum, e_shstrndx
    });
    for name in ["main", "local", "shown"] {
        let start = built.start(name);
        let function = bare.image.function_at(start).unwrap();
        assert_eq!(function.start, start);
        assert_eq!(function.end, built.image.function_at(start).unwrap().end);
        assert_eq!(bare.sites_at(start).len(), built.sites_at(start).len());
    }
}

#[test]
fn the_cold_part_of_a_function_is_a_function() {
    let built = c(
        r#"
        void fail(const char *) __attribute__((noreturn, cold));
        int x, y;
        int work(int n) {
            if (__builtin_expect(n < 0, 0)) { y = n; fail("negative"); }
            return x += n;
        }
        void fail(const char *why) { y = 1; __builtin_trap(); }
        int main(int argc, char **argv) { return work(argc); }
        "#,
        &["-O2", "-freorder-blocks-and-partition"],
    );
    let (hot, cold) = (built.start("work"), built.start("work.cold"));
    assert!(
        built
            .sites("work")
            .iter()
            .any(|s| s.starts_with("write 4") || s.starts_with("update 4"))
    );
    assert_eq!(built.sites("work.cold").len(), 1);
    assert!(built.sites("work.cold")[0].starts_with("write 4: mov dword ptr [..]"));
    assert_ne!(
        built.image.functions().index_at(hot),
        built.image.functions().index_at(cold)
    );
}

#[test]
fn of_several_names_the_public_one_is_taken() {
    let built = assembly(
        "
        .globl  __internal_read, read_it
        .type   __internal_read, @function
        .type   read_it, @function
        .type   local_read, @function
        local_read:
        read_it:
        __internal_read:
            mov eax, [rdi]
            ret
        .size read_it, . - read_it
        .size local_read, . - local_read
        .size __internal_read, . - __internal_read
        ",
    );
    let function = built.image.function_at(built.start("read_it")).unwrap();
    assert_eq!(function.name.as_deref(), Some("read_it"));
    assert_eq!(built.sites("read_it"), ["read 4: mov eax, dword ptr [rdi]"]);
}

#[test]
fn labels_without_size_go_on_and_inner_symbols_divide() {
    let built = assembly(
        "
        .type outer, @function
        outer:
            mov eax, [rdi]
        .type inner, @function
        inner:
            mov [rsi], eax
        .size inner, . - inner
            mov ecx, [rdx]
            ret
        .size outer, . - outer
        .type sizeless, @function
        sizeless:
            mov eax, [r8]
            ret
        .type next, @function
        next:
            mov eax, [r9]
            ret
        .size next, . - next
        ",
    );
    assert_eq!(built.sites("outer"), ["read 4: mov eax, dword ptr [rdi]"]);
    assert_eq!(built.sites("inner"), ["write 4: mov dword ptr [rsi], eax"]);
    assert_eq!(built.sites("sizeless"), ["read 4: mov eax, dword ptr [r8]"]);
    assert_eq!(built.sites("next"), ["read 4: mov eax, dword ptr [r9]"]);
    // Behind the inner symbol the outer one goes on.
    let inner = built.image.function_at(built.start("inner")).unwrap();
    let rest = built.image.function_at(inner.end).unwrap();
    assert_eq!(rest.name.as_deref(), Some("outer"));
    assert_eq!(built.sites_at(rest.start).len(), 1);
}

#[test]
fn code_in_several_sections_is_found() {
    let built = c(
        r#"
        int x;
        __attribute__((section(".text.special"))) void special(void) { x = 1; }
        __attribute__((section(".far"))) void elsewhere(void) { x = 2; }
        __attribute__((constructor)) void early(void) { x = 3; }
        int main(void) { special(); elsewhere(); return x; }
        "#,
        &["-O2"],
    );
    for name in ["special", "elsewhere", "early"] {
        assert_eq!(built.sites(name).len(), 1, "{name}");
    }
}

#[test]
fn the_instruction_before_an_address_is_exact_or_nothing() {
    let built = c(PROGRAM, &["-O2"]);
    let image = &built.image;
    for name in ["main", "local", "shown"] {
        let function = image.function_at(built.start(name)).unwrap().clone();
        let mut at = function.start;
        while at < function.end {
            let bytes = image.bytes_at(at, 15).unwrap();
            let instruction = Instruction::decode(bytes, at.0).unwrap();
            for inside in at.0 + 1..instruction.next() {
                assert_eq!(image.instruction_before(Svma(inside)), None);
            }
            let next = Svma(instruction.next());
            assert_eq!(image.instruction_before(next), Some(at));
            at = next;
        }
        assert_eq!(at, function.end);
    }
    assert_eq!(image.instruction_before(Svma(0)), None);
    assert_eq!(image.instruction_before(Svma(u64::MAX)), None);
}
