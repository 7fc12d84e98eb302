//! Code in memory that differs from the file's.

use super::build::{compile, instructions, start};
use redhanded_image::DebugSearch;
use redhanded_model::{Marking, Svma};

const SOURCE: &str = r#"
.intel_syntax noprefix
.globl patched, other
.type patched, @function
.type other, @function
.text
patched:
    mov eax, [rdi]
    add eax, 1
    mov [rdi], eax
    ret
.size patched, . - patched
other:
    mov eax, [rsi]
    ret
.size other, . - other
.section .note.GNU-stack,""
"#;

#[test]
fn goes_before_the_files_in_everything() {
    let built = compile(SOURCE, "source.S", &["-shared", "-nostdlib"]);
    let image = built.image();
    let [patched, other] = ["patched", "other"].map(|name| start(&image, name));
    assert_eq!(image.sites().sites.len(), 3);
    assert!(image.half_of_update(Svma(patched)));
    assert!(image.instruction_before(Svma(patched + 5)).is_some());

    // mov eax, 7 over the load and the addition: mov [rdi], eax stays.
    let live = vec![0xb8, 7, 0, 0, 0];
    let image = image.with_live_text(&[(Svma(patched), live.clone())]);
    assert_eq!(image.bytes_at(Svma(patched), 5), Some(&live[..]));
    let sites: Vec<u64> = image.sites().sites.iter().map(|site| site.svma.0).collect();
    assert_eq!(sites, [patched + 5, other]);
    assert_eq!(
        instructions(&image, "patched")[..2],
        [
            (patched, "mov eax, 7".to_owned()),
            (patched + 5, "mov dword ptr [rdi], eax".to_owned())
        ]
    );
    assert!(!image.half_of_update(Svma(patched + 5)));
    assert_eq!(
        image.instruction_before(Svma(patched + 5)),
        Some(Svma(patched))
    );
    // What differs from the file gives the same image again, and is not much.
    let differences = image.live_differences();
    assert!(
        differences
            .iter()
            .map(|(_, piece)| piece.len())
            .sum::<usize>()
            <= 32
    );
    let again = built.image().with_live_text(&differences);
    let code = |image: &redhanded_image::Image| {
        let segment = image.segment_at(Svma(patched)).unwrap().svma;
        image.bytes_at(segment, usize::MAX).unwrap().to_vec()
    };
    assert!(code(&again) == code(&image) && code(&again) != code(&built.image()));
    // The rest of the segment is the file's, in one piece with it.
    let both = image.bytes_at(Svma(patched), 10).unwrap();
    assert_eq!(
        both[5..],
        built.image().bytes_at(Svma(patched + 5), 5).unwrap()[..]
    );
    assert_eq!(instructions(&image, "other").len(), 2);
    // Also in what lives on without the image.
    let debug = redhanded_image::DebugInfo::new(&image, DebugSearch::default());
    drop(image);
    let marking = debug.source_evidence(Svma(patched)).marking;
    assert!(matches!(marking, Marking::Unknown { .. }));
}

#[test]
fn outside_the_file_it_means_nothing() {
    let built = compile(SOURCE, "source.S", &["-shared", "-nostdlib"]);
    let before = built.image();
    let patched = start(&before, "patched");
    let segment = *before.segment_at(Svma(patched)).unwrap();
    let end = segment.svma.0 + segment.file_size;
    let image = built.image().with_live_text(&[
        (Svma(end), vec![0x90; 64]),
        (Svma(u64::MAX - 3), vec![0x90; 64]),
        // Begins before the segment and ends in it.
        (Svma(segment.svma.0 - 2), vec![0x90, 0x90, 0xcc]),
    ]);
    assert_eq!(image.bytes_at(segment.svma, 1), Some(&[0xcc][..]));
    let rest = |image: &redhanded_image::Image| {
        image
            .bytes_at(Svma(segment.svma.0 + 1), usize::MAX)
            .unwrap()
            .to_vec()
    };
    assert_eq!(rest(&image), rest(&before));
}
