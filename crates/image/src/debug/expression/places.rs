//! The objects that expressions denote, and accesses to them.

use super::values::Type;
use super::walk::{Base, Candidate, MAX_DEPTH, Place, TextMarking, Use, Walker};
use crate::debug::program::{Die, MAX_HOPS};
use crate::debug::text::lexer::Position;
use crate::debug::types::How;
use crate::debug::words::{self, Bulk};
use redhanded_model::Doubt;
use tree_sitter::Node;

impl Walker<'_, '_, '_> {
    /// The object that an expression denotes. What is evaluated to find it is recorded.
    pub(super) fn lvalue(&mut self, node: Node<'_>) -> Option<Place> {
        self.depth += 1;
        let place = if self.depth > MAX_DEPTH {
            None
        } else {
            self.object(node)
        };
        self.depth -= 1;
        place
    }

    pub(super) fn object(&mut self, node: Node<'_>) -> Option<Place> {
        let field = |name| node.child_by_field_name(name);
        let program = self.around.program;
        match node.kind() {
            "identifier" | "field_identifier" => self.named(node, self.text(node).to_owned()),
            "qualified_identifier" => {
                let mut name = node;
                while let Some(inner) = name.child_by_field_name("name") {
                    name = inner;
                }
                self.named(node, self.text(name).to_owned())
            }
            "parenthesized_expression" => {
                let inner = node.named_child(0)?;
                if inner.kind() == "compound_statement" {
                    return None;
                }
                let mut place = self.lvalue(inner)?;
                place.anchors.push(self.at(node));
                Some(place)
            }
            "extension_expression" => self.lvalue(node.named_child(0)?),
            "field_expression" => {
                let argument = field("argument")?;
                let member = field("field")?;
                let mut name = self.text(member).to_owned();
                if let Some(last) = member.child_by_field_name("name") {
                    name = self.text(last).to_owned();
                }
                let arrow = field("operator").is_some_and(|sign| sign.kind() == "->")
                    || node
                        .children(&mut node.walk())
                        .any(|child| child.kind() == "->");
                let mut holder = if arrow {
                    let pointer = self.operand(argument);
                    self.behind(argument, &pointer, true)
                } else {
                    match self.lvalue(argument) {
                        Some(place) => place,
                        // A structure that a function returned.
                        None => {
                            let kind = self.value(argument, Use::Read);
                            let mut place = self.behind(argument, &Type::Unknown, false);
                            place.kind = kind;
                            place.base = Base::Local;
                            place
                        }
                    }
                };
                holder.anchors = vec![self.at(node), self.at(member)];
                holder.anchors.extend(self.operator(node));
                holder.at = self.at(node);
                holder.text = self.written(node);
                self.select_member(&mut holder, &name);
                Some(holder)
            }
            "subscript_expression" => {
                let argument = field("argument")?;
                let index = field("index").or_else(|| field("indices"));
                if let Some(index) = index {
                    self.value(index, Use::Read);
                }
                let number = index.and_then(|index| {
                    self.text(index)
                        .trim_matches(['[', ']', ' '])
                        .parse::<u64>()
                        .ok()
                });
                let holder = self.lvalue(argument);
                let mut place = match holder {
                    Some(place) if program.is_array(&place.kind) => place,
                    Some(place) => {
                        let kind = place.kind.clone();
                        let declared = place.declared;
                        self.read_by_operator(place);
                        let mut behind = self.behind(argument, &kind, false);
                        behind.declared = declared;
                        behind.kind = kind;
                        behind
                    }
                    None => {
                        let kind = self.value(argument, Use::Read);
                        let mut behind = self.behind(argument, &kind, false);
                        behind.kind = kind;
                        behind
                    }
                };
                // What a class of the program does with an index is not known. Those of the library
                // have their elements side by side.
                let mut opaque = false;
                let element = match program.unqualified(&place.kind).0 {
                    Type::Declared(die) if program.is_structure(&place.kind) => {
                        let declared = program.declared(die);
                        opaque = !declared
                            .is_some_and(|(path, _)| path.to_string_lossy().contains("/c++/"));
                        place.base = Base::Pointer;
                        program.operator_result(die, &["operator[]"])
                    }
                    _ => program.target(&place.kind),
                };
                let size = program.size(&element);
                // Of two indices, the compiler may unroll the one and step over the other.
                place.gaps |= opaque || (number.is_none() && place.offset.is_none());
                place.index = match (number, index) {
                    (None, Some(index)) => Some(self.written(index)),
                    _ => None,
                };
                place.offset = number.zip(size).and_then(|(number, size)| {
                    place.offset?.checked_add(number.checked_mul(size)?)
                });
                place.kind = element;
                place.bits = None;
                place.bit_field = None;
                place.anchors = vec![self.at(node), self.at(argument)];
                place.anchors.extend(self.operator(node));
                place.anchors.extend(index.map(|index| self.at(index)));
                place.at = self.at(node);
                place.text = self.written(node);
                if let Some((_, count)) = &mut place.declared {
                    *count += 1;
                }
                Some(place)
            }
            "pointer_expression" => {
                let argument = field("argument")?;
                if field("operator")?.kind() != "*" {
                    return None;
                }
                let inner = self.lvalue(argument);
                let declared = inner.as_ref().and_then(|place| place.declared);
                let pointer = match inner {
                    Some(place) => {
                        let kind = self.kind_of(&place);
                        self.read_by_operator(place);
                        kind
                    }
                    None => self.value(argument, Use::Read),
                };
                let mut place = self.behind(argument, &pointer, false);
                place.declared = declared.map(|(die, count)| (die, count + 1));
                place.anchors = vec![self.at(node), self.at(argument)];
                place.at = self.at(node);
                place.text = self.written(node);
                Some(place)
            }
            // In C++ a call or a cast may denote an object.
            "cast_expression" => {
                let kind = self.described(field("type")?);
                if !matches!(&kind, Type::Object(_)) {
                    return None;
                }
                self.value(field("value")?, Use::Nothing);
                let mut place = self.behind(node, &kind.pointer_to(), false);
                place.text = self.written(node);
                Some(place)
            }
            "call_expression" => {
                let kind = self.call(node);
                if program.is_reference(&kind) || matches!(&kind, Type::Object(_)) {
                    let mut place = self.behind(node, &kind.pointer_to(), false);
                    place.text = self.written(node);
                    return Some(place);
                }
                let mut place = self.behind(node, &Type::Unknown, false);
                place.kind = kind;
                place.temporary = true;
                place.base = Base::Local;
                Some(place)
            }
            _ => None,
        }
    }

    /// The type of an object, which is volatile if what it is a part of is.
    pub(super) fn kind_of(&self, place: &Place) -> Type {
        let kind = place.kind.clone();
        if place.volatile && self.around.program.how(&kind).is_none() {
            kind.volatile()
        } else {
            kind
        }
    }

    /// An object that an operator is applied to. If it is of a class, the operator is a
    /// function, and what that does to the object is not known here.
    fn read_by_operator(&mut self, place: Place) {
        let of_class = self.around.program.is_structure(&place.kind);
        let marking = of_class.then_some(TextMarking::Unknown(Doubt::UnknownType));
        let at = place.at;
        self.record_as(place, Use::Read, marking, None, at);
    }

    /// What a pointer points to.
    pub(super) fn behind(&self, pointer: Node<'_>, kind: &Type, arrow: bool) -> Place {
        let program = self.around.program;
        let mut kind = kind.clone();
        if arrow
            && program.is_structure(&kind)
            && let Type::Declared(class) = program.unqualified(&kind).0
        {
            kind = program.operator_result(class, &["operator->"]);
        }
        let kind = program.target(&kind);
        Place {
            text: format!("*{}", self.written(pointer)),
            volatile: program.how(&kind) == Some(How::Volatile),
            temporary: false,
            kind,
            base: Base::Pointer,
            offset: Some(0),
            bits: None,
            bit_field: None,
            gaps: false,
            index: Some(self.written(pointer)),
            members: Vec::new(),
            at: self.at(pointer),
            anchors: vec![self.at(pointer)],
            declared: None,
        }
    }

    pub(super) fn select_member(&self, holder: &mut Place, name: &str) {
        let program = self.around.program;
        holder.volatile |= program.unqualified(&holder.kind).1 == Some(How::Volatile);
        holder.gaps |= holder.offset.is_none();
        holder.members.push(name.to_owned());
        if let Some(member) = program.find_member(&holder.kind, name) {
            let anonymous = member.anonymous;
            holder.volatile |= anonymous.is_some_and(|die| (self.around.has_volatile)(die));
            let start = holder.offset;
            holder.offset = start.and_then(|start| start.checked_add(member.offset));
            holder.bit_field = member.bits.as_ref().map(|bits| bits.end - bits.start);
            holder.bits = member
                .bits
                .zip(start)
                .map(|(bits, start)| bits.start + start * 8..bits.end + start * 8);
            holder.declared = Some((member.die, 0));
            holder.kind = member.kind;
            if program.is_reference(&holder.kind) {
                holder.base = Base::Pointer;
                holder.offset = Some(0);
            }
            return;
        }
        holder.offset = None;
        holder.bits = None;
        holder.bit_field = None;
        holder.declared = None;
        let class = program.unqualified(&holder.kind).0;
        let methods = match class {
            Type::Declared(class) => program.methods(class, &[name], MAX_HOPS),
            _ => Vec::new(),
        };
        holder.kind = if methods.is_empty() {
            self.any_member(name)
        } else {
            Type::Function(Box::new(program.returned(&methods)))
        };
    }

    /// The type of members with this name, if all of the unit agree on what matters.
    pub(super) fn any_member(&self, name: &str) -> Type {
        let program = self.around.program;
        if let Some(methods) = self.around.scope.functions.get(name) {
            return Type::Function(Box::new(self.common(methods)));
        }
        // What is in a volatile structure is volatile, whatever its members say.
        if self.around.scope.volatile_structures {
            return Type::Unknown;
        }
        let Some(all) = self.around.scope.members.get(name) else {
            return Type::Unknown;
        };
        let mut kinds = all.iter().map(|die| program.type_of(*die));
        let Some(first) = kinds.next() else {
            return Type::Unknown;
        };
        let how = program.how(&first);
        let size = program.size(&first);
        if kinds.all(|kind| program.how(&kind) == how && program.size(&kind) == size) {
            first
        } else {
            Type::Unknown
        }
    }

    /// The object with a name, or `None` if the name stands for no object.
    pub(super) fn named(&mut self, node: Node<'_>, name: String) -> Option<Place> {
        let program = self.around.program;
        let scope = self.around.scope;
        let at = self.at(node);
        let place = |kind: Type, base: Base, die: Option<Die>| Place {
            text: name.clone(),
            volatile: false,
            temporary: false,
            base: if program.is_reference(&kind) {
                Base::Pointer
            } else {
                base
            },
            // A loop may have it refer to one element after the other.
            index: program.is_reference(&kind).then(|| name.clone()),
            kind,
            offset: Some(0),
            bits: None,
            bit_field: None,
            gaps: false,
            members: Vec::new(),
            at,
            anchors: vec![at],
            declared: die.map(|die| (die, 0)),
        };
        if let Some(kind) = self.made.get(&name) {
            return Some(place(kind.clone(), Base::Local, None));
        }
        if let Some(all) = self.around.locals.get(&name) {
            let kind = self.common(all);
            let base = if all.iter().any(|die| self.is_static(*die)) {
                Base::Global(name.clone())
            } else {
                Base::Local
            };
            return Some(place(kind, base, all.first().copied()));
        }
        if let Some(this) = self.around.locals.get("this").and_then(|all| all.first())
            && let class = program.target(&program.type_of(*this))
            && program.find_member(&class, &name).is_some()
        {
            let mut holder = place(class, Base::Pointer, None);
            self.select_member(&mut holder, &name);
            return Some(holder);
        }
        if let Some(all) = scope.globals.get(&name) {
            return Some(place(
                self.common(all),
                Base::Global(name.clone()),
                all.first().copied(),
            ));
        }
        if let Some(all) = scope.functions.get(&name) {
            let kind = program.returned(all);
            return Some(place(Type::Function(Box::new(kind)), Base::Local, None));
        }
        if scope.constants.contains(&name)
            || scope.types.contains_key(&name)
            || words::is_constant(&name)
            || (self.around.is_function)(&name)
        {
            return Some(place(
                Type::Function(Box::new(Type::Scalar(None))),
                Base::Local,
                None,
            ));
        }
        // A member of a class whose type is not known here: of a base, of a template.
        if node.kind() == "field_identifier"
            || scope.members.contains_key(&name) && self.around.locals.contains_key("this")
        {
            return Some(place(self.any_member(&name), Base::Pointer, None));
        }
        self.anything(Doubt::UnknownName(name.clone()), self.at(node));
        Some(place(
            Type::Function(Box::new(Type::Unknown)),
            Base::Local,
            None,
        ))
    }

    pub(super) fn is_static(&self, die: Die) -> bool {
        self.around.program.has_fixed_address(die)
    }

    /// The type of a name that several entries declare: theirs, if they agree.
    pub(super) fn common(&self, all: &[Die]) -> Type {
        let program = self.around.program;
        let kinds: Vec<Type> = all.iter().map(|die| program.type_of(*die)).collect();
        let Some(first) = kinds.first() else {
            return Type::Unknown;
        };
        let same = |other: &&Type| {
            *other == first
                || program.spelled(other).is_some_and(|name| {
                    let plain = |name: &str| name.split('[').next().unwrap_or_default().to_owned();
                    program
                        .spelled(first)
                        .is_some_and(|known| plain(&known) == plain(&name))
                })
        };
        if kinds.iter().all(|kind| same(&kind)) {
            // An array whose size is known says more.
            kinds
                .iter()
                .find(|kind| program.size(kind).is_some_and(|size| size > 0))
                .unwrap_or(first)
                .clone()
        } else {
            Type::Unknown
        }
    }

    pub(super) fn record(&mut self, place: Place, usage: Use) {
        let at = place.at;
        self.record_as(place, usage, None, None, at);
    }

    pub(super) fn record_as(
        &mut self,
        place: Place,
        usage: Use,
        marking: Option<TextMarking>,
        bulk: Option<Bulk>,
        at: Position,
    ) {
        let program = self.around.program;
        let settled = marking.is_some();
        if usage == Use::Nothing
            || (!settled
                && (place.temporary
                    || matches!(place.kind, Type::Function(_))
                    || program.is_array(&place.kind)))
        {
            return;
        }
        let marking = marking.unwrap_or_else(|| self.by_type(&place));
        let bit_field = place.bits.is_some();
        let mut own = place.anchors.clone();
        if settled {
            own = vec![at];
        }
        self.push(Candidate {
            reads: usage != Use::Write || bit_field || bulk.is_some() && usage == Use::Read,
            writes: usage != Use::Read,
            marking,
            bulk,
            at: place.at,
            own,
            around: self.positions.clone(),
            place: Some(place),
        });
    }

    pub(super) fn by_type(&self, place: &Place) -> TextMarking {
        let program = self.around.program;
        match program.how(&place.kind) {
            Some(How::Atomic | How::Guard) => {
                return TextMarking::Atomic(format!("{} is atomic", place.text));
            }
            Some(How::Volatile) => {
                return TextMarking::Volatile(format!("{} is volatile", place.text));
            }
            None if place.volatile => {
                return TextMarking::Volatile(format!("{} is in a volatile object", place.text));
            }
            None => {}
        }
        if !self.around.scope.typed || program.unqualified(&place.kind).0 == Type::Unknown {
            return TextMarking::Unknown(Doubt::UnknownType);
        }
        match (self.around.declaration, place.declared) {
            (Some(declaration), Some((die, dereferenced))) => {
                match declaration(die, dereferenced) {
                    TextMarking::Atomic(_) => {
                        TextMarking::Atomic(format!("{} is atomic", place.text))
                    }
                    marking => marking,
                }
            }
            // Made by a call or a cast, or declared where nobody sees it.
            (Some(_), None) if place.base == Base::Pointer => {
                TextMarking::Unknown(Doubt::UnknownType)
            }
            _ => TextMarking::Plain,
        }
    }
}
