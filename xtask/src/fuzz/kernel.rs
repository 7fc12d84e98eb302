//! A kernel to damage.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use redhanded_image::Image;
use redhanded_image::kernel_file::{symbols, unpack};

use super::seeds::Seed;

/// Two functions, and behind them the tables a kernel carries: its symbols (but
/// for the tokens, which are put in for `TOKENS`), its types and its unwind table.
const SOURCE: &str = r#"
    .intel_syntax noprefix
    .globl _text
    .text
    _text: mov eax, [rdi]
           ret
    other: mov [rsi], eax
           ret
    .section .rodata
    .balign 8
    .long 3
    .balign 8
    names: .byte 6
           .ascii "T_text"
           .byte 6
           .ascii "tother"
           .byte 2
           .ascii "Rx"
    .balign 8
    .long 0
    .balign 8
    TOKENS
    .balign 8
    .long -1, _text - other - 1, -4096
    .balign 8
    .quad _text
    .section .BTF,"a"
    .short 0xeb9f
    .byte 1, 0
    .long 24, 0, types_end - types, types_end - types, strings_end - types_end
    types: .long 1, 0x01000000, 4, 32
           .long 5, 0x84000003, 16, 8, 1, 0x03000000, 10, 1, 0x05000003, 0, 3, 64
           .long 0, 0x05000002, 8, 8, 4, 0, 10, 5, 0
           .long 0, 0x02000000, 2
           .long 0, 0x03000000, 0, 1, 1, 2
           .long 12, 0x08000000, 2
           .long 0, 0x0d000001, 1, 8, 4
           .long 14, 0x0c000001, 7
    types_end: .asciz ""
           .asciz "int"
           .asciz "st"
           .asciz "a"
           .asciz "b"
           .asciz "t"
           .asciz "run"
    strings_end:
    .section .orc_unwind_ip,"a"
    .long _text - ., other - .
    .section .orc_unwind,"a"
    .short 8, 0, 0x0205, 16, -16, 0x0215
    .section .note.GNU-stack,""
"#;

/// A kernel as it is, and the same packed.
pub fn seeds(folder: &Path) -> Result<Vec<Seed>> {
    let (source, output) = (folder.join("kernel.S"), folder.join("kernel"));
    fs::write(&source, SOURCE.replace("TOKENS", &tokens()))
        .with_context(|| format!("cannot write {}", source.display()))?;
    let status = Command::new("gcc")
        .arg(&source)
        .arg("-o")
        .arg(&output)
        .args(["-static", "-nostdlib", "-s", "-Wl,-e,_text"])
        .status()
        .context("gcc cannot be started: install it")?;
    ensure!(
        status.success(),
        "gcc does not build the fuzzer's seed kernel"
    );
    let kernel = fs::read(&output)?;
    // Damage tests something only if the parser understands the undamaged file.
    ensure!(
        symbols(&kernel)?.len() == 3,
        "the seed kernel's symbols are not found"
    );
    let packed = Command::new("gzip")
        .arg("-nc")
        .arg(&output)
        .output()
        .context("gzip cannot be started: install it")?;
    ensure!(
        packed.status.success(),
        "gzip does not pack the seed kernel"
    );
    let vmlinuz = bz_image(&packed.stdout);
    ensure!(
        *unpack(&vmlinuz)? == *kernel,
        "the seed vmlinuz does not unpack"
    );
    let image = Image::open(&output)?;
    let types = image
        .section(".BTF")
        .context("the seed kernel has no types")?;
    let types = Seed::new("btf", types.into_owned());
    fs::remove_file(&output)?;
    Ok(vec![
        types,
        Seed::new("kernel", kernel),
        Seed::new("vmlinuz", vmlinuz),
    ])
}

/// Every letter stands for itself, and nothing else for anything.
fn tokens() -> String {
    let (mut strings, mut index) = (String::new(), String::from(".balign 8\n"));
    let mut at = 0;
    for number in 0..256 {
        let letter = (0x21..0x7f).contains(&number);
        index.push_str(&format!(".short {at}\n"));
        if letter {
            strings.push_str(&format!(".byte {number}\n"));
        }
        strings.push_str(".byte 0\n");
        at += if letter { 2 } else { 1 };
    }
    strings + &index
}

fn bz_image(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 2 * 512];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]);
    put(0x202, b"HdrS\x0f\x02");
    put(
        0x24c,
        &u32::try_from(payload.len()).unwrap_or(0).to_le_bytes(),
    );
    image.extend(payload);
    image
}
