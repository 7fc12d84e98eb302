//! Types as written in C.

use super::{Btf, Type, kind};
use crate::debug::{as_written, qualify};
use std::cell::Cell;

/// A type is spelled from at most this many parts, because prototypes branch.
const MAX_SPELLED: usize = 256;

/// How deep types are spelled.
const MAX_DEPTH: usize = 32;

impl Btf {
    /// The type as written in source.
    pub(super) fn type_name(&self, id: u32) -> String {
        self.spell(id, MAX_DEPTH, &Cell::new(MAX_SPELLED))
    }

    fn spell(&self, id: u32, depth: usize, left: &Cell<usize>) -> String {
        if id == 0 {
            return "void".to_owned();
        }
        let (Some(depth), Some(rest), Some(found)) = (
            depth.checked_sub(1),
            left.get().checked_sub(1),
            self.get(id),
        ) else {
            return "…".to_owned();
        };
        left.set(rest);
        let inner = || self.spell(found.value, depth, left);
        match found.kind {
            kind::INT | kind::FLOAT => as_written(found.name()).to_owned(),
            kind::TYPEDEF => found.name().to_owned(),
            kind::STRUCT => aggregate("struct", found),
            kind::UNION => aggregate("union", found),
            kind::ENUM | kind::ENUM64 => aggregate("enum", found),
            kind::FORWARD if found.flag => aggregate("union", found),
            kind::FORWARD => aggregate("struct", found),
            kind::POINTER => self.pointer(found, depth, left),
            kind::CONST => qualify("const", &inner()),
            kind::VOLATILE => qualify("volatile", &inner()),
            kind::RESTRICT => format!("{} restrict", inner()),
            kind::TYPE_TAG | kind::VARIABLE | kind::FUNCTION => inner(),
            kind::PROTOTYPE => self.prototype(found, "", depth, left),
            kind::ARRAY => match found.array() {
                Some((element, 0)) => format!("{}[]", self.spell(element, depth, left)),
                Some((element, count)) => {
                    format!("{}[{count}]", self.spell(element, depth, left))
                }
                None => "…".to_owned(),
            },
            _ => "…".to_owned(),
        }
    }

    fn pointer(&self, pointer: Type<'_>, depth: usize, left: &Cell<usize>) -> String {
        if let Some(function) = self
            .get(pointer.value)
            .filter(|found| found.kind == kind::PROTOTYPE)
        {
            return self.prototype(function, "(*)", depth, left);
        }
        let inner = self.spell(pointer.value, depth, left);
        let space = if inner.ends_with('*') { "" } else { " " };
        format!("{inner}{space}*")
    }

    fn prototype(&self, found: Type<'_>, name: &str, depth: usize, left: &Cell<usize>) -> String {
        let result = self.spell(found.value, depth, left);
        let parameters: Vec<String> = found
            .parameters()
            .take(MAX_DEPTH)
            .map(|(_, id)| self.spell(id, depth, left))
            .collect();
        let parameters = if parameters.is_empty() {
            "void".to_owned()
        } else {
            parameters.join(", ")
        };
        format!("{result} {name}({parameters})")
    }
}

fn aggregate(keyword: &str, found: Type<'_>) -> String {
    match found.name() {
        "" => format!("{keyword} {{…}}"),
        name => format!("{keyword} {name}"),
    }
}
