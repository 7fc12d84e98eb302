//! Calls: of atomic builtins, of functions that copy memory, and of others.

use super::values::Type;
use super::walk::{Place, TextMarking, Use, Walker};
use crate::debug::program::Die;
use crate::debug::scope::bare_name;
use crate::debug::words::{self, Bulk, Form, Operation};
use gimli::constants as dw;
use redhanded_model::Doubt;
use tree_sitter::Node;

/// How a function takes an argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Binding {
    /// Its value is read by the caller.
    Value,
    /// Only its address is taken.
    Reference,
    /// Functions of this name differ.
    Unknown,
}

impl Walker<'_, '_, '_> {
    pub(super) fn call(&mut self, node: Node<'_>) -> Type {
        let program = self.around.program;
        let Some(function) = node.child_by_field_name("function") else {
            return Type::Unknown;
        };
        let arguments: Vec<Node<'_>> = node
            .child_by_field_name("arguments")
            .map(|list| {
                let mut cursor = list.walk();
                list.named_children(&mut cursor)
                    .filter(|child| child.kind() != "comment")
                    .collect()
            })
            .unwrap_or_default();
        let name = match function.kind() {
            "identifier" => Some(self.text(function).to_owned()),
            _ => None,
        };
        if let Some(name) = &name
            && !self.around.scope.functions.contains_key(name)
            && let Some(operation) = words::operation(name, self.around.kernel)
        {
            return self.operation(node, name, operation, &arguments);
        }
        if let Some(name) = &name
            && let Some(bulk) = words::bulk(name)
        {
            for (number, argument) in arguments.iter().enumerate() {
                let kind = self.value(*argument, Use::Nothing);
                let usage = match (number, bulk) {
                    (0, Bulk::Copies | Bulk::CopiesText | Bulk::Fills) => Use::Write,
                    (1, Bulk::Copies | Bulk::CopiesText)
                    | (0 | 1, Bulk::Reads | Bulk::Searches) => Use::Read,
                    _ => continue,
                };
                let place = self.pointed(*argument, &kind);
                let marking = Some(TextMarking::Plain);
                self.record_as(place, usage, marking, Some(bulk), self.at(node));
            }
            return arguments
                .first()
                .map_or(Type::Unknown, |_| Type::Scalar(None).pointer_to());
        }
        // What is inlined may leave an access in this statement.
        self.anything(Doubt::Folded, self.at(node));
        let mut result = Type::Unknown;
        let mut unknown = None;
        let mut callees: &[Die] = &[];
        match &name {
            Some(name) => {
                let known = self
                    .around
                    .locals
                    .get(name)
                    .or_else(|| self.around.scope.functions.get(name));
                if let Some(functions) = self.around.scope.functions.get(name) {
                    callees = functions;
                }
                if known.is_some() || self.around.scope.globals.contains_key(name) {
                    let kind = self.value(function, Use::Read);
                    result = program.result(&kind);
                } else if let Some(all) = self.around.scope.types.get(name) {
                    result = all
                        .first()
                        .map_or(Type::Unknown, |die| Type::Declared(*die));
                } else if self.made.contains_key(name) {
                    result = Type::Unknown;
                } else if !words::is_harmless(name)
                    && !(self.around.is_function)(name)
                    && !self.around.no_macros_left
                    && !self.is_member_function(name)
                {
                    let doubt = Doubt::UnknownName(name.clone());
                    self.anything(doubt.clone(), self.at(function));
                    unknown = Some(doubt);
                }
            }
            None if function.kind() == "template_function"
                || function.kind() == "qualified_identifier" =>
            {
                let mut named = function;
                while named.kind() == "qualified_identifier"
                    && let Some(inner) = named.child_by_field_name("name")
                {
                    named = inner;
                }
                let called = named
                    .child_by_field_name("name")
                    .map_or_else(|| self.text(named), |inner| self.text(inner))
                    .to_owned();
                if called.ends_with("_cast") {
                    let kind = named
                        .child_by_field_name("arguments")
                        .and_then(|list| list.named_child(0));
                    result = kind.map_or(Type::Unknown, |kind| self.described(kind));
                } else if let Some(all) = self.around.scope.functions.get(bare_name(&called)) {
                    callees = all;
                    result = program.returned(all);
                }
            }
            None if function.kind() == "field_expression" => {
                let kind = match self.lvalue(function) {
                    Some(place) => {
                        let kind = place.kind.clone();
                        // A pointer to a function in a structure is read.
                        if !matches!(kind, Type::Function(_)) {
                            self.record(place, Use::Read);
                        }
                        kind
                    }
                    None => Type::Unknown,
                };
                result = program.result(&kind);
            }
            None => {
                let kind = self.value(function, Use::Read);
                result = program.result(&kind);
            }
        }
        let before = self.found.len();
        for (number, argument) in arguments.into_iter().enumerate() {
            let bound = match &result {
                Type::Object(_) => Binding::Reference,
                _ => self.binding(callees, number),
            };
            if bound == Binding::Reference {
                self.value(argument, Use::Nothing);
                continue;
            }
            let first = self.found.len();
            self.value(argument, Use::Read);
            if bound == Binding::Unknown {
                for candidate in self.found.iter_mut().skip(first) {
                    candidate.marking = TextMarking::Unknown(Doubt::Ambiguous);
                }
            }
        }
        // Nobody knows what an unknown macro does to its arguments.
        if let Some(doubt) = unknown {
            for candidate in self.found.iter_mut().skip(before) {
                candidate.reads = true;
                candidate.writes = true;
                candidate.marking = TextMarking::Unknown(doubt.clone());
            }
        }
        result
    }

    /// How a call of one of these functions takes an argument.
    fn binding(&self, callees: &[Die], number: usize) -> Binding {
        let program = self.around.program;
        let is_reference = |callee: &Die| {
            let all = program.children(*callee).into_iter();
            let mut parameters = all.filter(|(_, entry)| {
                entry.tag() == dw::DW_TAG_formal_parameter
                    && entry.attr_value(dw::DW_AT_artificial).is_none()
            });
            let parameter = parameters.nth(number);
            parameter.is_some_and(|(die, _)| program.is_reference(&program.type_of(die)))
        };
        let references = callees.iter().filter(|callee| is_reference(callee)).count();
        match references {
            0 => Binding::Value,
            count if count == callees.len() => Binding::Reference,
            _ => Binding::Unknown,
        }
    }

    pub(super) fn is_member_function(&self, name: &str) -> bool {
        let program = self.around.program;
        let Some(this) = self.around.locals.get("this").and_then(|all| all.first()) else {
            return false;
        };
        match program
            .unqualified(&program.target(&program.type_of(*this)))
            .0
        {
            Type::Declared(class) => !program.methods(class, &[name], 8).is_empty(),
            _ => false,
        }
    }

    /// The object that a pointer argument points to.
    pub(super) fn pointed(&mut self, argument: Node<'_>, kind: &Type) -> Place {
        let mut inner = argument;
        loop {
            match inner.kind() {
                "parenthesized_expression" => match inner.named_child(0) {
                    Some(next) if next.kind() != "compound_statement" => inner = next,
                    _ => break,
                },
                "cast_expression" => match inner.child_by_field_name("value") {
                    Some(next) => inner = next,
                    None => break,
                },
                "pointer_expression"
                    if inner
                        .child_by_field_name("operator")
                        .is_some_and(|sign| sign.kind() == "&") =>
                {
                    let count = self.found.len();
                    let place = inner
                        .child_by_field_name("argument")
                        .and_then(|object| self.lvalue(object));
                    // What is evaluated on the way has been recorded already.
                    self.found.truncate(count);
                    match place {
                        Some(place) => return place,
                        None => break,
                    }
                }
                _ => break,
            }
        }
        self.behind(argument, kind, false)
    }

    /// An atomic builtin, or a macro that is known to make a volatile access.
    pub(super) fn operation(
        &mut self,
        node: Node<'_>,
        name: &str,
        operation: Operation,
        arguments: &[Node<'_>],
    ) -> Type {
        let mut result = Type::Scalar(None);
        for (number, argument) in arguments.iter().enumerate() {
            let first = number == 0;
            let kind = match (first, operation.form) {
                (true, Form::Object) => {
                    let place = self.lvalue(*argument);
                    match place {
                        Some(place) => {
                            result = place.kind.clone();
                            let usage = operation.usage();
                            self.record_as(
                                place,
                                usage,
                                Some(operation.marking(name)),
                                None,
                                self.at(node),
                            );
                        }
                        None => {
                            self.value(*argument, Use::Read);
                        }
                    }
                    continue;
                }
                // `&x` evaluates no access to x.
                _ => self.value(*argument, Use::Read),
            };
            if first {
                let place = self.pointed(*argument, &kind);
                result = match self.around.program.unqualified(&place.kind).0 {
                    Type::Unknown => Type::Scalar(None),
                    kind => kind,
                };
                let usage = operation.usage();
                self.record_as(
                    place,
                    usage,
                    Some(operation.marking(name)),
                    None,
                    self.at(node),
                );
            } else if number == 1 && operation.second_is_pointer {
                let place = self.pointed(*argument, &kind);
                self.record_as(
                    place,
                    Use::Update,
                    Some(TextMarking::Plain),
                    None,
                    self.at(node),
                );
            }
        }
        result
    }
}

impl Operation {
    fn usage(self) -> Use {
        match (self.reads, self.writes) {
            (true, false) => Use::Read,
            (false, true) => Use::Write,
            _ => Use::Update,
        }
    }

    fn marking(self, name: &str) -> TextMarking {
        if self.volatile {
            TextMarking::Volatile(name.to_owned())
        } else if self.plain {
            TextMarking::Plain
        } else {
            TextMarking::Atomic(name.to_owned())
        }
    }
}
