//! Files that lie: an error or an omission, never a panic.

use crate::fixture::c;
use proptest::prelude::*;
use redhanded_image::{Image, ImageError};
use redhanded_model::Svma;
use std::io::Write;
use std::sync::OnceLock;

fn open(bytes: &[u8]) -> Result<Image, ImageError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Image::open(file.path())
}

/// Asks for everything there is.
fn exercise(image: &Image) {
    let set = image.sites();
    for site in set.sites.iter().take(20) {
        let _ = image.half_of_update(site.svma);
        let _ = image.instruction_before(site.svma);
        let _ = image.call_target_name(site.svma);
    }
    for function in image.functions().as_slice().iter().take(20) {
        assert!(function.start < function.end);
        let _ = image.plt_name(function.start);
        let _ = image.instruction_before(function.end);
    }
    let _ = image.instruction_before(Svma(u64::MAX));
}

fn seed() -> &'static [u8] {
    static SEED: OnceLock<Vec<u8>> = OnceLock::new();
    SEED.get_or_init(|| {
        let source =
            "#include <stdio.h>\nint x; int main(int n, char **v) { x += n; return puts(v[0]); }";
        std::fs::read(c(source, &["-O1", "-g0"]).path).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..2000), magic: bool) {
        if magic && bytes.len() > 20 {
            bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
            bytes[18..20].copy_from_slice(&[62, 0]);
        }
        if let Ok(image) = open(&bytes) {
            exercise(&image);
        }
    }

    #[test]
    fn a_damaged_program_never_panics(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = seed().to_vec();
        let len = bytes.len();
        for (index, value, region) in edits {
            // Headers decide most, so they are hit most.
            let at = match region {
                0 => index.index(64),
                1 => index.index(1024),
                2 => len - 1 - index.index(2048),
                _ => index.index(len),
            };
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(len));
        }
        if let Ok(image) = open(&bytes) {
            exercise(&image);
        }
    }
}

#[test]
fn cut_files_say_so() {
    let bytes = seed();
    assert!(open(bytes).is_ok());
    for (len, expect) in [
        (0, "empty"),
        (3, "other kind"),
        (40, "damaged"),
        (2000, "damaged"),
    ] {
        let error = open(&bytes[..len]).unwrap_err().to_string();
        assert!(error.contains(expect), "{len} bytes: {error}");
    }
}
