//! What the code around both accesses of a collision does with the value.

use crate::Collision;
use redhanded_image::Image;
use redhanded_model::{Avma, Svma, Usage};
use redhanded_target::{Module, module_at};
use std::sync::Arc;

/// How many callers a value is followed into, or searched for a lock.
pub const CALLERS: usize = 3;

/// The usage of the sampled access, then of the one that was caught.
pub fn of(collision: &Collision, modules: &[Arc<Module>]) -> Vec<Usage> {
    let mut usages = vec![of_side(collision.record.pc, &collision.sampled.1, modules)];
    if let Some((confirmed, _, stack)) = &collision.other {
        usages.push(match confirmed.system_call {
            Some(_) => Usage::default(),
            None => of_side(confirmed.pc, stack, modules),
        });
    }
    // A counter may also go down, where nobody was caught doing it.
    let counts = |usage: &Usage| {
        usage
            .step
            .is_some_and(|step| step.is_up() || step.is_down())
    };
    if usages.iter().any(counts)
        && let Some((image, at)) = place(collision.record.bytes.start, modules)
    {
        let updates = image.updates_of(at);
        for usage in &mut usages {
            usage.elsewhere.clone_from(&updates.steps);
            usage.left_tested = updates.left_tested;
            usage.guarded = updates.guarded;
        }
    }
    usages
}

/// The addresses that hold nothing but copies of what either access of a collision loads.
pub fn copies(collision: &Collision, modules: &[Arc<Module>]) -> Vec<Avma> {
    let caught = collision.other.as_ref().map(|(caught, ..)| caught);
    let caught = caught.filter(|caught| caught.system_call.is_none());
    let places = [Some(collision.record.pc), caught.map(|caught| caught.pc)];
    let of = |pc: Avma| {
        let module = module_at(modules, pc)?;
        let image = module.image.as_deref()?;
        let copies = image.copies_of(module.svma(pc));
        Some(copies.into_iter().map(|at| module.avma(at)))
    };
    places
        .into_iter()
        .flatten()
        .filter_map(of)
        .flatten()
        .collect()
}

fn of_side(pc: Avma, stack: &[Avma], modules: &[Arc<Module>]) -> Usage {
    let Some((image, site)) = place(pc, modules) else {
        return Usage::default();
    };
    let callers: Vec<(&Image, Svma)> = stack
        .iter()
        .skip(1)
        .take(CALLERS)
        .map_while(|back| place(*back, modules))
        .collect();
    image.usage(site, &callers)
}

fn place(at: Avma, modules: &[Arc<Module>]) -> Option<(&Image, Svma)> {
    let module = module_at(modules, at)?;
    Some((module.image.as_deref()?, module.svma(at)))
}
