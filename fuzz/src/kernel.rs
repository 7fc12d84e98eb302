//! Questions about a kernel's image, its symbols and its types.

use std::path::Path;

use redhanded_image::kernel_file::{Btf, symbols, unpack, with_symbols};

use crate::{questions, targets};

/// Takes the input, which is in `path` too, for a kernel.
pub fn ask(bytes: &[u8], path: &Path) {
    let Ok(elf) = unpack(bytes) else {
        return;
    };
    if let Ok(found) = symbols(&elf) {
        let _ = with_symbols(&elf, &found);
    }
    questions::ask(path);
}

/// Takes the input for a section of types, alone and split in two.
pub fn types(section: &[u8]) {
    if let Ok(btf) = Btf::parse(section, None) {
        about(&btf);
        if let Some(split) = targets::split(section, btf) {
            about(&split);
        }
    }
}

fn about(btf: &Btf) {
    for name in ["st", "t", "int", "struct st", "union a"] {
        let _ = btf.size_of(name);
        for path in ["a", "b", "a.a", "b[1].a", "b[4294967295][1]"] {
            let _ = btf.field(name, path);
        }
        for (offset, size) in [(0, 1), (0, 4), (3, 8), (8, 8), (u64::MAX, 1)] {
            let _ = btf.path_at(name, offset, size);
        }
    }
    let _ = btf.part_of_variable("run", 4, 8);
}
