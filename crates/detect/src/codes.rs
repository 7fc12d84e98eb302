//! The instructions of a race. What a pointer leads to has a name in one instance and none in
//! the next, as the registers happen to be; the instructions are the same.

use redhanded_model::{AccessReport, Avma, Race};
use redhanded_target::{Module, module_at};
use std::sync::Arc;

/// An instruction, or other place: its module, and its address there; or no module, and a live
/// address.
pub type Code = (Option<String>, u64);

/// Those of both accesses, in order.
pub type Codes = [Code; 2];

/// The code or data at a live address.
pub fn place(at: Avma, modules: &[Arc<Module>]) -> Code {
    match module_at(modules, at) {
        Some(module) => (Some(module.name.clone()), module.svma(at).0),
        None => (None, at.0),
    }
}

/// The instruction of an access.
pub fn code(access: &AccessReport) -> Code {
    let innermost = access.stack.first();
    (
        innermost.and_then(|frame| frame.module.clone()),
        innermost.map_or(access.pc, |frame| frame.address),
    )
}

/// Those of both accesses, if they meet at a member behind a pointer.
pub fn named_codes(race: &Race) -> Option<Codes> {
    codes(race).filter(|_| race.what.member().is_some())
}

/// Those of both accesses, if they meet at what has no name.
pub fn nameless_codes(race: &Race) -> Option<Codes> {
    codes(race).filter(|_| race.what.name.is_none() && race.what.member().is_none())
}

fn codes(race: &Race) -> Option<Codes> {
    let mut codes: Codes = match &race.accesses[..] {
        [one, other] => [code(one), code(other)],
        _ => return None,
    };
    codes.sort();
    Some(codes)
}
