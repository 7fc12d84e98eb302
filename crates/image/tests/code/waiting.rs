//! Signs of locks that were written by hand.

use crate::fixture::{Built, assembly};
use redhanded_image::Image;
use redhanded_model::Svma;

/// The first instruction of a function whose text begins so.
fn first(built: &Built, function: &str, text: &str) -> (Svma, bool, bool) {
    let image: &Image = &built.image;
    let mut at = built.start(function);
    loop {
        let instruction = image.instruction_at(at).unwrap();
        if instruction.text().starts_with(text) {
            return (at, image.waits(at), image.is_beside_locked(at));
        }
        at = Svma(instruction.next());
    }
}

fn function(name: &str, body: &str) -> String {
    format!(".globl {name}\n.type {name}, @function\n{name}:\n{body}\n.size {name}, .-{name}\n")
}

#[test]
fn a_loop_that_only_waits() {
    let source = [
        function(
            "spins",
            "1: mov eax, [rdi]\n cmp eax, esi\n je 2f\n pause\n jmp 1b\n2: ret",
        ),
        // After some turns it lets the processor go.
        function(
            "yields",
            "1: mov eax, [rbx]\n cmp eax, ebp\n je 2f\n cmp r12d, 50\n jb 3f\n call spins\n jmp 1b\n\
             3: inc r12d\n pause\n jmp 1b\n2: ret",
        ),
        function(
            "once",
            "mov eax, [rdi]\n cmp eax, esi\n je 2f\n pause\n2: ret",
        ),
        function(
            "polls",
            "1: mov eax, [rbx]\n test eax, eax\n jne 2f\n call spins\n jmp 1b\n2: ret",
        ),
        function(
            "counts",
            "1: mov eax, [rdi]\n inc dword ptr [rsi]\n test eax, eax\n jz 1b\n ret",
        ),
        function(
            "walks",
            "1: mov eax, [rdi]\n add rdi, 4\n test eax, eax\n jz 1b\n ret",
        ),
        function(
            "follows",
            "1: mov rdi, [rdi]\n test rdi, rdi\n jnz 1b\n ret",
        ),
    ];
    let built = assembly(&source.concat());
    for (name, expect) in [
        ("spins", true),
        ("yields", true),
        ("once", false),
        ("polls", false),
        ("counts", false),
        ("walks", false),
        ("follows", false),
    ] {
        let (_, waits, _) = first(&built, name, "mov");
        assert_eq!(waits, expect, "{name}");
    }
}

#[test]
fn a_narrow_word_beside_what_locked_instructions_access() {
    let source = [
        ".data\n.balign 8\nticket: .quad 0\nplain: .quad 0\ncounter: .quad 0\ngate: .quad 0\n.text\n".to_owned(),
        function("draws", "lock xadd word ptr ticket[rip+2], ax\n ret"),
        function("draws_there", "lock xadd word ptr [rdi+18], ax\n ret"),
        function("adds", "lock add dword ptr counter[rip], 1\n ret"),
        // An exchange needs no prefix, and nothing else of its function has one.
        function("takes", "xchg word ptr gate[rip+2], ax\n ret"),
        function("takes_there", "xchg word ptr [rdi+26], ax\n ret"),
        function("swaps", "xchg ax, cx\n ret"),
        function("holder", "inc word ptr gate[rip]\n ret"),
        function("holder_there", "inc word ptr [rdi+24]\n ret"),
        function("owner", "inc word ptr ticket[rip]\n ret"),
        function("owner_there", "inc word ptr [rdi+16]\n ret"),
        function("same", "inc dword ptr counter[rip]\n ret"),
        function("neighbour", "inc dword ptr counter[rip+4]\n ret"),
        function("alone", "inc word ptr plain[rip]\n ret"),
        function("alone_there", "inc word ptr [rdi+8]\n ret"),
        function("wide_there", "inc dword ptr [rdi+16]\n ret"),
    ];
    let built = assembly(&source.concat());
    for (name, expect) in [
        ("owner", true),
        ("owner_there", true),
        ("holder", true),
        ("holder_there", true),
        ("same", true),
        ("neighbour", false),
        ("alone", false),
        ("alone_there", false),
        ("wide_there", false),
    ] {
        let (_, _, beside) = first(&built, name, "inc");
        assert_eq!(beside, expect, "{name}");
    }
}
