//! Large files of the machine, as far as it has them.

use crate::fixture::present;
use redhanded_image::Image;
use std::path::Path;

#[test]
fn real_binaries_have_sites_that_decode_and_lie_in_functions() {
    let names = [
        "/usr/bin/gdb",
        "/bin/bash",
        "/usr/bin/gcc",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    ];
    let found: Vec<&Path> = names.iter().filter_map(|name| present(name)).collect();
    assert!(!found.is_empty(), "none of {names:?} is here");
    for path in found {
        check(path);
    }
}

fn check(path: &Path) {
    let image = Image::open(path).unwrap();
    let set = image.sites();
    let functions = image.functions().as_slice();
    let shown = path.display();
    assert!(!set.sites.is_empty(), "{shown}");
    assert!(functions.is_sorted_by_key(|f| f.start), "{shown}");
    for pair in functions.windows(2) {
        assert!(pair[0].end <= pair[1].start, "{shown}: {pair:?} overlap");
    }
    assert!(set.sites.is_sorted_by_key(|s| s.svma), "{shown}");
    for site in set.sites.iter() {
        let function = image.functions().get(site.function).unwrap();
        assert!(function.contains(site.svma), "{shown} {}", site.svma);
        let instruction = image.instruction_at(site.svma).unwrap();
        let elements = instruction.gather();
        let (kind, size) = match (&elements, instruction.sampled_access()) {
            (Some(gather), _) => (gather.kind, u32::from(gather.element)),
            (None, access) => access.map(|access| (access.kind, access.size)).unwrap(),
        };
        assert_eq!(kind, site.kind, "{shown} {}", instruction.text());
        assert_eq!(size, u32::from(site.size));
        assert!(!instruction.locked());
        assert!(elements.is_some() || !instruction.unsupported());
        assert_eq!(image.plt_name(site.svma), None, "{shown} {}", site.svma);
    }
    for site in set.sites.iter().step_by(set.sites.len() / 100 + 1) {
        let after = image.instruction_at(site.svma).unwrap().next();
        let found = image.instruction_before(redhanded_model::Svma(after));
        assert_eq!(found, Some(site.svma), "{shown}");
    }
}
