//! What is a site, what is not, and why.

use crate::fixture::{Built, assembly, c};
use redhanded_model::Excluded;

const ACCESSES: &str = r#"
    #include <string.h>
    struct pair { long a, b; };
    int x; char byte; struct pair one, two;
    static const int table[4] = {1, 2, 3, 4};
    __thread int mine;
    extern char **environ;
    int increment(void) { x++; return 0; }
    int load(int *p) { return *p; }
    void store(char *p) { *p = 1; }
    int constant(unsigned n) { return table[2] + (int)n; }
    int local(void) { return mine; }
    int lock(void) { return __atomic_fetch_add(&x, 1, __ATOMIC_SEQ_CST); }
    int swap(void) { return __atomic_exchange_n(&x, 1, __ATOMIC_SEQ_CST); }
    char **imported(void) { return environ; }
    void (*callback)(void);
    void call(void) { callback(); }
    void copy(void) { one = two; }
    int main(void) { return 0; }
"#;

fn reasons(built: &Built) -> Vec<Excluded> {
    built.image.sites().excluded.0.keys().copied().collect()
}

#[test]
fn plain_accesses_are_sites_and_private_ones_are_not() {
    for flags in [
        &["-O2"][..],
        &["-O2", "-no-pie"],
        &["-O2", "-fPIC", "-shared"],
    ] {
        let built = c(ACCESSES, flags);
        assert_eq!(built.sites("load"), ["read 4: mov eax, dword ptr [rdi]"]);
        assert_eq!(built.sites("store"), ["write 1: mov byte ptr [rdi], 1"]);
        for name in ["lock", "swap"] {
            assert_eq!(built.sites(name), [""; 0], "{name} with {flags:?}");
        }
        if flags.contains(&"-shared") {
            // x may be another module's: its address comes from the table.
            assert_eq!(
                built.sites("increment"),
                ["update 4: add dword ptr [rax], 1"]
            );
        } else {
            assert_eq!(
                built.sites("increment"),
                ["update 4: add dword ptr [..], 1"]
            );
            assert_eq!(built.sites("call"), ["read 8: jmp qword ptr [..]"]);
            // A library would ask the loader where its own is.
            assert_eq!(built.sites("local"), [""; 0], "{flags:?}");
        }
        let reasons = reasons(&built);
        assert!(reasons.contains(&Excluded::Locked) && reasons.contains(&Excluded::PushPopCall));
        assert_eq!(
            reasons.contains(&Excluded::ThreadLocal),
            !flags.contains(&"-shared")
        );
    }
}

#[test]
fn wide_copies_are_sites_of_their_width() {
    let built = c(ACCESSES, &["-O2"]);
    let sites = built.sites("copy");
    assert!(
        sites.iter().any(|s| s.starts_with("read 16: movdqa")),
        "{sites:?}"
    );
    assert!(
        sites.iter().any(|s| s.starts_with("write 16: movaps")),
        "{sites:?}"
    );
}

#[test]
fn the_linkage_table_and_read_only_data_are_not_sampled() {
    let built = c(
        r#"
        #define UNFOLDED __attribute__((weak, visibility("hidden")))
        UNFOLDED const int fixed[4] = {1, 2, 3, 4};
        static int target;
        UNFOLDED int *const pointer = &target;    /* relocated, then read-only */
        extern char **environ;
        int constant(void) { return fixed[2]; }
        int *relocated(void) { return pointer; }
        char **imported(void) { return environ; }
        "#,
        &["-O2", "-fPIC", "-shared", "-Wl,-z,relro,-z,now"],
    );
    for name in ["constant", "relocated"] {
        assert_eq!(built.sites(name), [""; 0], "{name}");
    }
    // Only the variable behind the table's slot is left of it.
    assert_eq!(
        built.sites("imported"),
        ["read 8: mov rax, qword ptr [rax]"]
    );
    let reasons = reasons(&built);
    assert!(reasons.contains(&Excluded::ReadOnly) && reasons.contains(&Excluded::GotOrRelro));
}

#[test]
fn rbp_is_the_stack_only_where_it_is_the_frame() {
    // -O0: push rbp; mov rbp,rsp; ...[rbp-4]...
    let frame = c(
        "int x; int f(int n) { int m = n; x = m; return m; } int main(void) { return f(1); }",
        &["-O0"],
    );
    assert_eq!(frame.sites("f"), ["write 4: mov dword ptr [..], eax"]);
    // A pointer in rbp is as good as any other.
    let pointer = assembly(
        "
        .type pointer, @function
        pointer:
            .cfi_startproc
            push rbp
            .cfi_def_cfa_offset 16
            .cfi_offset rbp, -16
            mov rbp, rdi
            mov eax, [rbp+4]
            pop rbp
            .cfi_def_cfa_offset 8
            ret
            .cfi_endproc
        .size pointer, . - pointer
        .type framed, @function
        framed:
            .cfi_startproc
            push rbp
            .cfi_def_cfa_offset 16
            .cfi_offset rbp, -16
            mov rbp, rsp
            .cfi_def_cfa_register rbp
            mov eax, [rbp+4]
            pop rbp
            .cfi_def_cfa rsp, 8
            mov ecx, [rbp+8]
            ret
            .cfi_endproc
        .size framed, . - framed
        .type untold, @function
        untold:
            push rbp
            mov rbp, rsp
            mov eax, [rbp-4]
            mov eax, [rdi]
            pop rbp
            ret
        .size untold, . - untold
        ",
    );
    assert_eq!(
        pointer.sites("pointer"),
        ["read 4: mov eax, dword ptr [rbp+4]"]
    );
    assert_eq!(
        pointer.sites("framed"),
        ["read 4: mov ecx, dword ptr [rbp+8]"]
    );
    assert_eq!(
        pointer.sites("untold"),
        ["read 4: mov eax, dword ptr [rdi]"]
    );
}

#[test]
fn string_instructions_masked_moves_and_operands_of_push_and_call_are_sites() {
    let built = assembly(
        "
        .type strings, @function
        strings:
            rep movsb
            stosd
            repne scasb
            push qword ptr [rdi]
            pop qword ptr [rsi]
            call qword ptr [rax+8]
            push rax
            mov [rsp+8], rax
            prefetcht0 [rdi]
            nop dword ptr [rax]
            mfence
            vpmaskmovd ymm0, ymm1, [rdi]
            ret
        .size strings, . - strings
        ",
    );
    assert_eq!(
        built.sites("strings"),
        [
            "write 0: rep movsb byte ptr [rdi], byte ptr [rsi]",
            "write 4: stosd dword ptr [rdi]",
            "read 1: repne scasb byte ptr [rdi]",
            "read 8: push qword ptr [rdi]",
            "write 8: pop qword ptr [rsi]",
            "read 8: call qword ptr [rax+8]",
            "read 4: vpmaskmovd ymm0, ymm1, ymmword ptr [rdi]",
        ]
    );
    let excluded = &built.image.sites().excluded.0;
    assert_eq!(excluded[&Excluded::PushPopCall], 2, "push rax, ret");
    assert_eq!(excluded[&Excluded::Stack], 1);
    assert_eq!(excluded[&Excluded::NoData], 3);
}

/// Each function with data in it is dropped whole; its neighbours are not.
#[test]
fn functions_with_data_in_them_are_dropped() {
    let built = assembly(
        "
        .macro function name
        .type \\name, @function
        \\name:
        .endm
        .macro done name
        .size \\name, . - \\name
        .endm

        function clean
            mov eax, [rdi]
            ret
        done clean

        function invalid                    # bytes that are no instruction
            mov eax, [rdi]
            ret
            .byte 0x06, 0x06
            mov eax, [rdi]
            ret
        done invalid

        function overlapping                # a branch into an instruction
            jmp 1f
            .byte 0x48, 0xb8                # movabs rax, ... swallows what follows
        1:  mov eax, [rdi]
            mov eax, [rdi]
            mov eax, [rdi]
            mov eax, [rdi]
            mov eax, [rdi]
            ret
        done overlapping

        function table                      # read by another function
            mov eax, [rdi]
            ret
        numbers: .byte 0x8b, 0x07, 0x8b, 0x07
        done table

        function reader
            mov eax, [rip + numbers]
            mov eax, [rsi]
            ret
        done reader

        function jumps                      # a table of offsets, used by address
            lea rcx, [rip + offsets]
            movsxd rax, dword ptr [rcx+rdi*4]
            add rax, rcx
            jmp rax
        offsets: .byte 0x8b, 0x07, 0x8b, 0x07
        1:  mov eax, [rdi]
            ret
        done jumps

        function zeros
            mov eax, [rdi]
            ret
            .zero 8
            nop
        done zeros

        function skips_lock                 # as C libraries did: no data
            je 1f
            lock
        1:  cmpxchg [rdi], rsi
            mov eax, [rdx]
            ret
        done skips_lock

        function padded
            mov eax, [rdi]
            ret
            .zero 13
        done padded

        function trapped
            mov eax, [rdi]
            ret
            .fill 13, 1, 0xcc
        done trapped
        ",
    );
    for name in ["invalid", "overlapping", "table", "jumps", "zeros"] {
        assert_eq!(built.sites(name), [""; 0], "{name}");
    }
    let load = "read 4: mov eax, dword ptr [rdi]";
    for name in ["clean", "padded", "trapped"] {
        assert_eq!(built.sites(name), [load], "{name}");
    }
    assert_eq!(built.sites("reader"), ["read 4: mov eax, dword ptr [rsi]"]);
    assert_eq!(
        built.sites("skips_lock"),
        ["read 4: mov eax, dword ptr [rdx]"]
    );
    assert!(built.image.sites().excluded.0[&Excluded::DataInText] >= 5);
}

#[test]
fn stripped_and_whole_files_have_the_same_sites() {
    for flags in [
        &["-O2"][..],
        &["-O0"],
        &["-O2", "-static"],
        &["-O2", "-static-pie"],
    ] {
        let built = c(ACCESSES, flags);
        let stripped = built.stripped();
        for name in ["increment", "load", "store", "call", "copy"] {
            let start = built.start(name);
            let places = |built: &Built| -> Vec<_> {
                built
                    .sites_at(start)
                    .iter()
                    .map(|s| (s.svma, s.kind, s.size))
                    .collect()
            };
            assert_eq!(places(&stripped), places(&built), "{name} with {flags:?}");
        }
    }
}

#[test]
fn progress_ends_with_everything_done() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let built = c(ACCESSES, &["-O2", "-static"]);
    let (most, all) = (AtomicU64::new(0), AtomicU64::new(0));
    let set = built.image.index(None, &|done, total| {
        most.fetch_max(done, Ordering::Relaxed);
        all.store(total, Ordering::Relaxed);
    });
    assert!(!set.sites.is_empty());
    assert_eq!(most.into_inner(), all.into_inner());
}

/// A slot whose address is taken is shared memory like any other. The fixtures are assembly,
/// so that it is known where each slot is.
#[test]
fn slots_whose_address_is_taken_are_sites() {
    let built = assembly(
        "
        .macro frame name
        .type \\name, @function
        \\name:
            .cfi_startproc
            sub rsp, 40
            .cfi_def_cfa_offset 48
        .endm
        .macro end name
            add rsp, 40
            .cfi_def_cfa_offset 8
            ret
            .cfi_endproc
        .size \\name, . - \\name
        .endm

        frame lends
            mov [rsp+8], rdi        # below what is lent
            lea rsi, [rsp+16]
            push rsi
            .cfi_adjust_cfa_offset 8
            mov [rsp+16], rdi       # the slot at 8 again: rsp has moved
            mov [rsp+24], rdi       # the slot at 16
            pop rsi
            .cfi_adjust_cfa_offset -8
            mov eax, [rsp+28]       # in the same object, as far as can be seen
            mov eax, [rsp+48]       # the caller's
        end lends

        frame lends_nothing
            mov [rsp+8], rdi
            lea rsp, [rsp]
            mov eax, [rsp+16]
        end lends_nothing

        frame lends_its_bottom
            mov rdi, rsp
            mov dword ptr [rsp], 1
        end lends_its_bottom

        frame indexes
            lea rsi, [rsp+16]
            mov eax, [rsp+rdi*4]    # may go anywhere
        end indexes

        .type framed, @function
        framed:
            .cfi_startproc
            push rbp
            .cfi_def_cfa_offset 16
            mov rbp, rsp
            .cfi_def_cfa_register rbp
            sub rsp, 32
            mov [rbp-24], rdi
            mov dword ptr [rbp-12], 1
            lea rdi, [rbp-12]
            mov eax, [rbp-4]
            leave
            .cfi_def_cfa rsp, 8
            ret
            .cfi_endproc
        .size framed, . - framed

        .type untold, @function
        untold:                     # no unwind entry: nothing can be placed
            sub rsp, 24
            lea rdi, [rsp+16]
            mov [rsp], rsi
            add rsp, 24
            ret
        .size untold, . - untold
        ",
    );
    assert_eq!(
        built.sites("lends"),
        [
            "write 8: mov qword ptr [rsp+0x18], rdi",
            "read 4: mov eax, dword ptr [rsp+0x1c]"
        ]
    );
    assert_eq!(built.sites("lends_nothing"), [""; 0]);
    assert_eq!(
        built.sites("lends_its_bottom"),
        ["write 4: mov dword ptr [rsp], 1"]
    );
    assert_eq!(
        built.sites("indexes"),
        ["read 4: mov eax, dword ptr [rsp+rdi*4]"]
    );
    assert_eq!(
        built.sites("framed"),
        [
            "write 4: mov dword ptr [rbp-0xc], 1",
            "read 4: mov eax, dword ptr [rbp-4]"
        ]
    );
    assert_eq!(built.sites("untold"), ["write 8: mov qword ptr [rsp], rsi"]);
    assert_eq!(built.image.sites().excluded.0[&Excluded::Stack], 6);
}

/// A variable of main that a thread is given the address of, at every level.
#[test]
fn a_local_variable_that_is_lent_to_a_thread_is_a_site() {
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-fno-omit-frame-pointer"]] {
        let built = c(
            "#define OPAQUE __attribute__((noipa))
            OPAQUE void lend(int *p) { (void)p; }
            OPAQUE void wait_a_little(void) {}
            OPAQUE int owner(void) {
                int progress = 0;
                lend(&progress);
                while (progress < 10) wait_a_little();
                return progress;
            }
            int main(void) { return owner(); }",
            flags,
        );
        let sites = built.sites("owner");
        assert!(
            sites.iter().any(|site| site.contains("dword ptr [r")),
            "{flags:?}: {sites:?}"
        );
    }
}
