//! Text of a kernel that is not sampled.

use super::build::{compile, start};
use redhanded_model::{Excluded, Svma};

const SOURCE: &str = r#"
.intel_syntax noprefix
.macro function name
    .globl \name
    .type \name, @function
\name:
    mov eax, [rdi]
    mov [rsi], eax
    ret
    .size \name, . - \name
.endm
.text
function ordinary
.globl __noinstr_text_start, __noinstr_text_end
__noinstr_text_start:
function guarded
__noinstr_text_end:
.globl __cpuidle_text_start, __cpuidle_text_end
__cpuidle_text_start:
function idle
__cpuidle_text_end:
.globl __kprobes_text_start, __kprobes_text_end
__kprobes_text_start:
__kprobes_text_end:
function behind
.section .entry.text,"ax"
function entered
.section .init.text,"ax"
function begun
.section .exit.text,"ax"
function ended
.section .altinstr_replacement,"ax"
function replacement
.section .note.GNU-stack,""
"#;

#[test]
fn by_symbols_and_by_sections() {
    let kernel = format!("{SOURCE}\n.section .modinfo,\"a\"\n.asciz \"license=none\"\n");
    let image = compile(&kernel, "source.S", &["-shared", "-nostdlib"]).image();
    assert!(image.is_kernel());
    let sampled = |name| {
        let index = image.functions().index_at(Svma(start(&image, name)));
        let number = u32::try_from(index.unwrap()).unwrap();
        let set = image.sites();
        (set.of_function(number).len(), set.excluded_in(number))
    };
    // Two accesses each; the return is an exclusion of its own.
    for name in ["ordinary", "behind"] {
        assert_eq!(sampled(name), (2, 1), "{name}");
    }
    for name in [
        "guarded",
        "idle",
        "entered",
        "begun",
        "ended",
        "replacement",
    ] {
        assert_eq!(sampled(name), (0, 3), "{name}");
    }
    let excluded = &image.sites().excluded.0;
    assert_eq!(excluded[&Excluded::EntryText], 6);
    assert_eq!(excluded[&Excluded::InitText], 4);
    assert_eq!(excluded[&Excluded::Alternative], 2);
}

#[test]
fn a_program_may_name_its_sections_so() {
    let image = compile(SOURCE, "source.S", &["-shared", "-nostdlib"]).image();
    assert!(!image.is_kernel());
    assert_eq!(image.sites().sites.len(), 16);
}
