//! The distribution's kernels that tests read.

use redhanded_provision::{Archive, Provision, Wanted, find};
use std::path::Path;

/// The kernels with debug information in the folder that `REDHANDED_KERNELS` names, chosen
/// as Redhanded chooses them: whatever else is in the folder does not matter. None, with
/// the reason printed, where the variable is not set.
///
/// # Panics
/// When the folder lacks the kernel of the release, or a part of it.
pub fn kernels() -> Vec<Provision> {
    let Some(folder) = std::env::var_os("REDHANDED_KERNELS") else {
        println!("skipped: REDHANDED_KERNELS names no folder with kernels");
        return Vec::new();
    };
    let of = |archive| {
        let wanted = Wanted {
            archive,
            debug: true,
            headers: false,
        };
        find(Path::new(&folder), &wanted)
    };
    let mut found = vec![of(Archive::Release).expect("no complete kernel in REDHANDED_KERNELS")];
    match of(Archive::Backports) {
        Some(newer) => found.push(newer),
        None => println!("one kernel only: REDHANDED_KERNELS has no complete one of the backports"),
    }
    found
}
