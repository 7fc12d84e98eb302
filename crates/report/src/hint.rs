//! How races like this one are usually mended. It is chosen from what the accesses do, how
//! wide they are and where the bytes lie; what the program means by them is not known.

use redhanded_model::{AccessReport, Class, Form, Race, Region, Rule};

/// What usually mends such a race, if its kind suggests anything.
pub(crate) fn hint(race: &Race) -> Option<&'static str> {
    let [held, caught] = race.accesses.as_slice() else {
        return None;
    };
    if race.class != Class::Race {
        return None;
    }
    let both = |is: fn(&AccessReport) -> bool| is(held) && is(caught);
    let kernel = held.thread.context.is_some();
    Some(match &race.what.region {
        _ if race.is_freed() => {
            "keep the block alive while somebody uses it: count its users, or free it under the \
             lock that they hold"
        }
        _ if race.accesses.iter().any(is_outside) => "hold the index to the length of its array",
        Region::PerCpu { .. } => {
            "turn off preemption or interrupts around both, or use this_cpu operations"
        }
        Region::Stack { .. } => {
            "let the owner of this stack wait until the other thread is done with it, or hand \
             over a copy"
        }
        _ if both(|side| side.kind.writes()) && race.what.bit_fields.len() > 1 => {
            "one lock for all fields that share these bytes, or a word of its own for each"
        }
        _ if is_wide(race) => "one lock around both, or a copy for each thread",
        _ if loses_an_update(race) => "an atomic update on both sides, or one lock around both",
        _ if held.atomic != caught.atomic => {
            "one side is atomic already: make the other atomic too"
        }
        _ if both(|side| side.kind.writes()) => {
            "one lock around both, or atomic stores if it does not matter which is last"
        }
        _ if kernel => "one lock around both; READ_ONCE and WRITE_ONCE if this value alone matters",
        _ => {
            "one lock around both, or atomic accesses (release and acquire if it announces other \
             data)"
        }
    })
}

/// Whether an access is of a size or form that is not made atomic by declaring it so.
fn is_wide(race: &Race) -> bool {
    let wide = |side: &AccessReport| side.size > 8 || side.system_call.is_some();
    let evidence = race.evidence.as_ref();
    race.accesses.iter().any(wide)
        || evidence.is_some_and(|evidence| {
            let forms = evidence.sides.iter().map(|side| side.form());
            forms
                .into_iter()
                .any(|form| matches!(form, Form::Vector | Form::Wide | Form::Repeated))
        })
}

/// Whether an index leads this side out of its array.
fn is_outside(side: &AccessReport) -> bool {
    side.pointee.as_ref().is_some_and(|meant| meant.outside)
}

/// Whether both sides update the bytes, so that one update can be lost.
fn loses_an_update(race: &Race) -> bool {
    let evidence = race.evidence.as_ref().map(|evidence| &evidence.sides);
    race.rule == Some(Rule::LostUpdate)
        || evidence
            .is_some_and(|sides| sides.len() > 1 && sides.iter().all(|side| side.is_update()))
}
