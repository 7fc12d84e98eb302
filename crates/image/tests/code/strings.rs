//! String functions that read whole words or vectors, and where their arguments are.

use crate::fixture::{Built, assembly, c, present};
use redhanded_image::{Image, Stop};
use redhanded_model::Register;

/// glibc's way: an unaligned vector first, then aligned ones. The length needs the start, so
/// it is kept.
const STRLEN: &str = "
    .type NAME, @function
    NAME:
        mov rdx, rdi
        pxor xmm0, xmm0
        movdqu xmm1, [rdi]
        pcmpeqb xmm1, xmm0
        pmovmskb eax, xmm1
        test eax, eax
        jnz 2f
        and rdi, -16
    1:  add rdi, 16
        movdqa xmm1, [rdi]
        pcmpeqb xmm1, xmm0
        pmovmskb eax, xmm1
        test eax, eax
        jz 1b
    2:  bsf eax, eax
        add rax, rdi
        sub rax, rdx
        ret
    .size NAME, .-NAME
    .globl NAME
";

fn strlen(name: &str) -> Built {
    assembly(&STRLEN.replace("NAME", name))
}

#[test]
fn a_string_function_is_known_by_name_and_its_argument_is_followed() {
    let built = strlen("__strlen_sse2");
    let start = built.start("__strlen_sse2");
    let sites = built.sites_at(start);
    let first = built.image.string_function(sites[0].svma, false).unwrap();
    assert_eq!(first.texts.len(), 1);
    assert_eq!(first.texts[0].string, 0);
    assert_eq!(first.narrowest, 2);
    // Either register will do while both hold it; in the loop only rdx does.
    assert!(first.arguments[0].is_some());
    for ran in [false, true] {
        let in_loop = built.image.string_function(sites[1].svma, ran).unwrap();
        assert_eq!(in_loop.arguments[0], Some(Register::Rdx));
    }
}

#[test]
fn other_names_are_ordinary_functions() {
    let built = strlen("count_items");
    let at = built.sites_at(built.start("count_items"))[0].svma;
    assert_eq!(built.image.string_function(at, false), None);
}

#[test]
fn without_a_name_a_search_is_one_of_which_nothing_is_known() {
    let source = format!(
        "{}
        .type copy, @function
        copy:
            .cfi_startproc
            movdqu xmm0, [rsi]
            movdqu [rdi], xmm0
            ret
            .cfi_endproc
        .size copy, .-copy
        .type by_word, @function
        by_word:
            .cfi_startproc
            mov rdx, [rdi]
            movabs rcx, 0x0101010101010101
            mov rax, rdx
            sub rax, rcx
            ret
            .cfi_endproc
        .size by_word, .-by_word
        ",
        STRLEN
            .replace("NAME:", "NAME: .cfi_startproc")
            .replace("ret\n", "ret\n .cfi_endproc\n")
            .replace(".globl NAME", "")
            .replace("NAME", "find")
    );
    let built = assembly(&source);
    let stripped = built.stripped();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libc.so.6");
    std::fs::copy(&stripped.path, &path).unwrap();
    let library = Image::open(&path).unwrap();
    let of = |name: &str| {
        let at = built.sites_at(built.start(name))[0].svma;
        assert_eq!(
            built.image.string_function(at, false),
            None,
            "{name} is named"
        );
        assert_eq!(stripped.image.function_at(at).unwrap().name, None);
        let of_program = stripped.image.string_function(at, false);
        assert_eq!(
            of_program, None,
            "{name} may be about the program's own data"
        );
        assert_eq!(library.may_search(at), None, "{name} is a library's");
        assert_eq!(built.image.may_search(at), None, "{name} is named");
        let of_library = library.string_function(at, false);
        let of_library = of_library.map(|function| (function.texts.len(), function.narrowest));
        (of_library, stripped.image.may_search(at))
    };
    assert_eq!(of("find"), (Some((0, 9)), Some(9)));
    assert_eq!(of("by_word"), (Some((0, 2)), Some(2)));
    assert_eq!(of("copy"), (None, None));
}

#[test]
fn a_resolver_names_the_variants_of_a_stripped_library() {
    let source = STRLEN.replace(".globl NAME", "").replace("NAME", "one");
    let source = format!(
        "{}
        .type strlen, @gnu_indirect_function
        .globl strlen
        strlen:
            .cfi_startproc
            lea rax, one[rip]
            ret
            .cfi_endproc
        .size strlen, .-strlen
        ",
        source
            .replace("one:", "one: .cfi_startproc")
            .replace("ret\n", "ret\n .cfi_endproc\n")
    );
    let built = assembly(&source);
    let at = built.sites_at(built.start("one"))[0].svma;
    let stripped = built.stripped();
    assert_eq!(stripped.image.function_at(at).unwrap().name, None);
    let function = stripped.image.string_function(at, false).unwrap();
    assert_eq!(function.texts.len(), 1);
    assert!(function.arguments[0].is_some());
}

/// In a static program every variant has its name.
#[test]
fn in_a_static_program_strcmp_stops_at_a_difference() {
    let built = c(
        "#include <string.h>
        int main(int n, char **v) { return strcmp(v[0], v[n - 1]) + (int)strlen(v[0]); }",
        &["-O2", "-static", "-fno-builtin"],
    );
    let named = |name: &str| {
        let at = built.start(name);
        built.image.string_function(at, false).unwrap()
    };
    let compared = named("__strcmp_avx2");
    assert_eq!(compared.texts.len(), 2);
    assert_eq!(compared.texts[0].stop, Stop::Difference(1));
    assert_eq!(
        compared.arguments[..2],
        [Some(Register::Rdi), Some(Register::Rsi)]
    );
    assert_eq!(named("__strlen_avx2").texts.len(), 1);
}

/// The library of this machine is stripped: its resolvers name the variants, and `strlen`
/// keeps its argument.
#[test]
fn in_the_c_library_of_this_machine_strlen_keeps_its_argument() {
    let Some(path) = present("/lib/x86_64-linux-gnu/libc.so.6") else {
        println!("skipped: no C library at the usual place");
        return;
    };
    let image = Image::open(path).unwrap();
    let (mut known, mut all) = (0, 0);
    for site in image.sites().sites.iter().filter(|site| site.size > 8) {
        if let Some(function) = image.string_function(site.svma, false)
            && let [text] = function.texts
            && (text.string, text.count, text.stop) == (0, None, Stop::Nothing)
        {
            all += 1;
            known += i32::from(function.arguments[0].is_some());
        }
    }
    assert!(all > 50 && known * 2 > all, "{known} of {all}");
}
