//! The fingerprint of a collision: which code meets at what, in words that survive a rebuild,
//! another load address, an edit elsewhere in the file and another processor.
//!
//! Kinds of access are not part of it. One statement of the source is a load, a store or an
//! update by turns, and which of them is the compiler's choice.

use crate::naming;
use redhanded_model::{AccessReport, Fingerprint, Frame, Region, Svma, What, unversioned};
use redhanded_target::Module;
use std::sync::Arc;

/// What makes these accesses to `what` the race that they are.
pub fn fingerprint(
    accesses: &[AccessReport],
    what: &What,
    unmapped: bool,
    modules: &[Arc<Module>],
) -> Fingerprint {
    let places = accesses
        .iter()
        .filter_map(|access| access.place(|frame| Some(nameless(frame, modules))));
    Fingerprint::of_sides(places.collect(), &touched(what), unmapped)
}

/// What is raced on, without addresses. What is behind a pointer is known by its member, if
/// that is certain, wherever it was allocated.
pub fn touched(what: &What) -> String {
    match what.member() {
        Some(member) => Fingerprint::behind_a_pointer(member),
        None => placed(what),
    }
}

/// The same without what a pointer leads to.
pub fn placed(what: &What) -> String {
    match (&what.name, &what.region) {
        (Some(name), _) => {
            let field = what.whole_field().unwrap_or("");
            format!("{name}{}", naming::without_indices(field))
        }
        (None, Region::Global { module }) => format!("data of {}", unversioned(module)),
        (None, Region::Heap) => "heap".to_owned(),
        (None, Region::Stack { .. }) => "stack".to_owned(),
        (None, Region::PerCpu { .. }) => "per-CPU data".to_owned(),
        (None, Region::Mapping { .. }) => "mapping".to_owned(),
        (None, Region::Unknown) => "memory".to_owned(),
    }
}

/// What a function without a name is known by: its code, or else its address.
fn nameless(frame: &Frame, modules: &[Arc<Module>]) -> String {
    let module = modules
        .iter()
        .find(|module| Some(&module.name) == frame.module.as_ref());
    let image = module.and_then(|module| module.image.as_ref());
    match image.and_then(|image| image.code_hash(Svma(frame.address))) {
        Some(hash) => format!("code {hash:016x}"),
        None => format!("+{:#x}", frame.address),
    }
}
