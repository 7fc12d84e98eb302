//! From the addresses of a collision to names.

use redhanded_image::{How, Reading, Variable};
use redhanded_model::{Avma, Bytes, Declared, Frame, Region, What};
use redhanded_target::{Module, module_at};
use std::sync::Arc;

/// The named frames of a stack: one per address, and one per inlined function.
pub fn frames(stack: &[Avma], modules: &[Arc<Module>]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (depth, address) in stack.iter().enumerate() {
        // A return address belongs to the call before it.
        let inside = if depth == 0 {
            *address
        } else {
            Avma(address.0.wrapping_sub(1))
        };
        let Some(module) = module_at(modules, inside) else {
            frames.push(Frame {
                address: address.0,
                ..Frame::default()
            });
            continue;
        };
        let from = frames.len();
        frames.extend(frames_in(module, inside, module.svma(*address).0));
        // Variants of C library functions have no symbols, but the call in their caller
        // has a name.
        if let Some(last) = frames.get_mut(from..).and_then(<[Frame]>::last_mut)
            && last.function.is_none()
        {
            last.function = stack.get(depth + 1).and_then(|back| {
                let caller = module_at(modules, Avma(back.0.wrapping_sub(1)))?;
                caller.image.as_ref()?.call_target_name(caller.svma(*back))
            });
        }
    }
    frames
}

fn frames_in(module: &Module, inside: Avma, address: u64) -> Vec<Frame> {
    let frame = Frame {
        module: Some(module.name.clone()),
        address,
        ..Frame::default()
    };
    let Some(image) = &module.image else {
        return vec![frame];
    };
    let source = image.debug().frames(module.svma(inside));
    if source.is_empty() {
        return vec![frame];
    }
    source
        .into_iter()
        .map(|source| Frame {
            function: source.function,
            file: source.file,
            line: source.line,
            inlined: source.inlined,
            ..frame.clone()
        })
        .collect()
}

/// What is known of a variable or field.
pub struct Described {
    pub what: What,
    /// How the part is declared, if its declaration says that accesses to it synchronise.
    pub declared: Option<(String, Declared)>,
    /// What its bytes mean.
    pub reading: Option<Reading>,
}

/// The variable or field at `bytes`. Of the members of a union it is the one that the
/// source's `expressions` name.
pub fn what(bytes: Bytes, region: Region, modules: &[Arc<Module>], expressions: &str) -> Described {
    let variable = variable_at(bytes.start, &region, modules);
    let mut what = What {
        name: None,
        type_name: None,
        field: None,
        field_in_full: None,
        bit_fields: Vec::new(),
        address: bytes.start.0,
        size: bytes.len,
        region,
        pointee: None,
        sides_differ: false,
        frame: None,
        block: None,
        allocated: None,
    };
    let Some((variable, offset)) = variable else {
        return Described {
            what,
            declared: None,
            reading: None,
        };
    };
    let part = variable.part_as(offset, bytes.len, Some(expressions));
    let declared = part.synchronising.map(|how| match how {
        How::Atomic => Declared::Atomic,
        How::Volatile => Declared::Volatile,
        How::Guard => Declared::Guard,
    });
    let declared =
        declared.map(|how| (format!("{}{}", variable.name, part.path_as_written()), how));
    // Which member of a union is meant, only the source can tell.
    let is_settled = !part.in_union || part.is_named_by(expressions);
    let written = part.path_as_written();
    let reading = part.reading.filter(|_| is_settled);
    what.name = Some(variable.name.clone());
    what.type_name = (!part.type_name.is_empty()).then_some(part.type_name);
    what.field_in_full = (written != part.path).then_some(part.path);
    what.field = (!written.is_empty()).then_some(written);
    what.bit_fields = part.bit_fields;
    Described {
        what,
        declared,
        reading,
    }
}

fn variable_at(address: Avma, region: &Region, modules: &[Arc<Module>]) -> Option<(Variable, u64)> {
    let (module, svma) = match region {
        Region::PerCpu { module, svma, .. } => {
            (modules.iter().find(|known| known.name == *module)?, *svma)
        }
        _ => {
            let module = module_at(modules, address)?;
            (module, module.svma(address))
        }
    };
    let variable = module.image.as_ref()?.debug().variable_at(svma)?;
    let offset = svma.0.wrapping_sub(variable.svma.0);
    Some((variable, offset))
}

/// A path without its indices: races on many elements of an array are one race.
pub fn without_indices(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut inside = false;
    for character in path.chars() {
        match character {
            '[' => {
                inside = true;
                plain.push('[');
            }
            ']' => {
                inside = false;
                plain.push(']');
            }
            _ if inside => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_do_not_tell_races_apart() {
        assert_eq!(without_indices("[3].next[12].x"), "[].next[].x");
        assert_eq!(without_indices(".plain"), ".plain");
    }
}
