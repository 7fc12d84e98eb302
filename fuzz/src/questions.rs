//! Everything the detector may ask about a file.

use std::path::Path;

use redhanded_image::{Image, Instruction, Selection, SourceFacts, Unwinder};
use redhanded_model::{Registers, Svma};

use crate::kernel;

/// How many addresses of each kind are asked about.
const PLACES: usize = 12;

/// Opens the file and asks.
pub fn ask(path: &Path) {
    let Ok(image) = Image::open(path) else {
        return;
    };
    let set = image.sites();
    let functions = image.functions().as_slice();
    let step = |len: usize| (len / PLACES).max(1);
    let mut places: Vec<Svma> = Vec::new();
    places.extend(
        set.sites
            .iter()
            .step_by(step(set.sites.len()))
            .map(|s| s.svma),
    );
    for function in functions.iter().step_by(step(functions.len())) {
        places.extend([function.start, function.end]);
    }
    for segment in image.segments().iter().take(8) {
        for part in 0..8 {
            places.push(segment.svma.offset(segment.mem_size / 8 * part));
        }
    }
    places.extend([Svma(0), Svma(1), Svma(u64::MAX), image.entry()]);
    for place in &places {
        about(&image, *place);
    }
    if let Some(section) = image.section(".BTF") {
        kernel::types(&section);
    }
    select(&image);
    unwind(&image, &places);
}

fn about(image: &Image, place: Svma) {
    let _ = image.instruction_before(place);
    let _ = image.instruction_at(place);
    let _ = image.half_of_update(place);
    let _ = image.call_target_name(place);
    let _ = image.plt_name(place);
    let _ = image.sites().at(place);
    let debug = image.debug();
    let _ = debug.covers(place);
    let _ = debug.frames(place);
    let _ = debug.variable_at(place);
    let _ = debug.source_evidence(place);
}

fn select(image: &Image) {
    let globs = |text: &str| vec![text.to_owned()];
    let Ok(selection) = Selection::new(&[], &globs("*"), &globs("*"), &globs("*=2")) else {
        return;
    };
    let facts = SourceFacts {
        has_debug_info: &|_| false,
        is_toolchain: &|svma| image.debug().is_toolchain(svma),
        file: &|_| None,
        sightings: &|_, _| Vec::new(),
    };
    let _ = selection.select(image, &facts);
}

fn unwind(image: &Image, places: &[Svma]) {
    let mut unwinder = Unwinder::new();
    unwinder.add_module(image, 0);
    for place in places {
        let mut registers = Registers {
            rip: place.0,
            ..Registers::default()
        };
        registers.gpr.fill(0x7fff_0000);
        // A stack full of pointers, into the module and into itself.
        let mut turn = 0;
        let _ = unwinder.unwind(&registers, &mut |address| {
            turn += 1;
            (turn < 10_000).then(|| {
                if address & 8 == 0 {
                    place.0
                } else {
                    address.wrapping_add(64)
                }
            })
        });
    }
}

/// Decodes one instruction after another, and computes their accesses from registers that
/// are taken from the input as well.
pub fn decode(bytes: &[u8]) {
    let word = |at: usize| {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes.iter().skip(at)) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    };
    let mut registers = Registers {
        rflags: word(0),
        fs_base: word(8),
        gs_base: word(16),
        ..Registers::default()
    };
    for (index, value) in registers.gpr.iter_mut().enumerate() {
        *value = word(index * 3);
    }
    for at in 0..bytes.len().min(256) {
        let Some(instruction) = Instruction::decode(&bytes[at..], word(at)) else {
            continue;
        };
        let _ = (instruction.text(), instruction.flow(), instruction.locked());
        for access in instruction.accesses() {
            let _ = access.bytes_before(&registers);
            let _ = access.bytes_after(&registers);
        }
    }
}
