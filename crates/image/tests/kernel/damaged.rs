//! Object files whose bytes lie.

use super::build::{KERNEL, MARK, compile, open, places};
use redhanded_image::{Unwinder, link};
use redhanded_model::{Registers, Svma};

const SOURCE: &str = "
static int table[8];
int *place = table;
int bump(int i) { return table[i]++ + *place; }
asm(\".pushsection .orc_unwind_ip,\\\"a\\\"\\n .long bump - .\\n .popsection\\n\"
    \".pushsection .orc_unwind,\\\"a\\\"\\n .short 8, 0, 5\\n .popsection\\n\");
";

/// Small steps through all bytes, the same at each run.
fn mutations(len: usize) -> impl Iterator<Item = (usize, u8)> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    std::iter::from_fn(move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        Some((
            usize::try_from(state >> 33).unwrap() % len,
            [0, 0xff, 0x80, 1][usize::try_from(state >> 20 & 3).unwrap()],
        ))
    })
}

#[test]
fn give_an_error_or_a_file_that_opens() {
    let built = compile(&format!("{MARK}{SOURCE}"), "module.c", &KERNEL);
    let bytes = built.bytes();
    let sections = places(&[
        (".text", 0xffff_ffff_c020_0000),
        (".data", 0xffff_ffff_c021_0000),
        (".bss", 0xffff_ffff_c021_1000),
        (".orc_unwind", 0xffff_ffff_c022_0000),
        (".orc_unwind_ip", 0xffff_ffff_c022_1000),
    ]);
    let mut good = 0;
    // The headers of sections, at the end, are where lies matter most.
    let tail = bytes.len() - bytes.len() / 4;
    let everywhere = mutations(bytes.len()).take(600);
    let in_headers = mutations(bytes.len() - tail).map(|(at, to)| (tail + at, to));
    for (at, to) in everywhere.chain(in_headers.take(1200)) {
        let mut damaged = bytes.clone();
        damaged[at] = to;
        let separate = link(&bytes, &sections, Some(&damaged), &|_| None);
        for linked in [link(&damaged, &sections, None, &|_| None), separate] {
            let Ok(linked) = linked else { continue };
            good += 1;
            if good % 8 == 0 {
                let image = open(built.folder.path(), &linked);
                let _ = image.sites();
                let _ = image.debug().frames(Svma(0xffff_ffff_c020_0000));
                let _ = image.debug().variable_at(Svma(0xffff_ffff_c021_1004));
                let mut unwinder = Unwinder::new();
                unwinder.add_module(&image, 0);
                let registers = Registers {
                    rip: 0xffff_ffff_c020_0004,
                    ..Registers::default()
                };
                let _ = unwinder.unwind(&registers, &mut |at| Some(at ^ 0x1234));
            }
        }
    }
    assert!(good > 100, "the damage is spread too thickly");
    for cut in (0..bytes.len()).step_by(97) {
        let _ = link(&bytes[..cut], &sections, None, &|_| None);
    }
}
