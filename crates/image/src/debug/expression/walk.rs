//! Walks a statement and lists the memory accesses that its text makes.

use super::fragment::{Fragment, TYPEOF};
use super::values::Type;
use crate::debug::program::{Die, Program};
use crate::debug::scope::{Names, Scope};
use crate::debug::text::lexer::{Position, Token};
use crate::debug::text::regions::parse;
use crate::debug::words::Bulk;
use redhanded_model::Doubt;
use std::collections::HashMap;
use std::ops::Range;
use tree_sitter::{Language, Node};

/// How deep expressions may be nested.
pub(super) const MAX_DEPTH: usize = 200;
/// How many accesses of a statement are listed.
const MAX_CANDIDATES: usize = 2000;

/// What the text says about an access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) enum TextMarking {
    Atomic(String),
    Volatile(String),
    Plain,
    Unknown(Doubt),
}

/// Where an object is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) enum Base {
    /// In a variable of the function.
    Local,
    /// In this variable with a fixed address.
    Global(String),
    /// Behind a pointer or a reference.
    Pointer,
}

/// An object that an expression denotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) struct Place {
    pub(in crate::debug) text: String,
    pub(in crate::debug) kind: Type,
    pub(in crate::debug) base: Base,
    /// How far it is from the start of its base, if no index decides that.
    pub(in crate::debug) offset: Option<u64>,
    /// The bits of a bit-field, counted from the start of the base.
    pub(in crate::debug) bits: Option<Range<u64>>,
    /// How many bits a bit-field has. Where they are in their word may not be known.
    pub(in crate::debug) bit_field: Option<u64>,
    /// Whether it is a member of an element, so that there are gaps from one to the next.
    pub(in crate::debug) gaps: bool,
    /// The index or pointer that decides which element it is.
    pub(in crate::debug) index: Option<String>,
    /// The members that were named on the way.
    pub(in crate::debug) members: Vec<String>,
    pub(in crate::debug) at: Position,
    pub(super) anchors: Vec<Position>,
    pub(super) volatile: bool,
    /// Whether it is what a function returned, in registers.
    pub(super) temporary: bool,
    /// The last declaration that was followed, and how often it was dereferenced since.
    pub(super) declared: Option<(Die, usize)>,
}

/// An access that the text makes, or something that may make any.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) struct Candidate {
    pub(in crate::debug) reads: bool,
    pub(in crate::debug) writes: bool,
    pub(in crate::debug) marking: TextMarking,
    /// `None` for what may access anything: an unknown macro, assembly.
    pub(in crate::debug) place: Option<Place>,
    /// What it belongs to if it covers more than an object: a call of memset, memcpy or strlen.
    pub(in crate::debug) bulk: Option<Bulk>,
    pub(in crate::debug) at: Position,
    /// Positions that mean this access.
    pub(in crate::debug) own: Vec<Position>,
    /// Positions of the expressions around it.
    pub(in crate::debug) around: Vec<Position>,
}

impl Candidate {
    /// Something that may access anything.
    pub(in crate::debug) fn anything(doubt: Doubt, at: Position) -> Self {
        Self {
            reads: true,
            writes: true,
            marking: TextMarking::Unknown(doubt),
            place: None,
            bulk: None,
            at,
            own: vec![at],
            around: Vec::new(),
        }
    }
}

/// What is known where a statement is.
pub(in crate::debug) struct Surroundings<'a, 'd> {
    pub(in crate::debug) program: &'a Program<'d>,
    pub(in crate::debug) scope: &'a Scope,
    pub(in crate::debug) locals: &'a Names,
    pub(in crate::debug) language: &'a Language,
    pub(in crate::debug) kernel: bool,
    /// Whether every macro has been expanded.
    pub(in crate::debug) no_macros_left: bool,
    /// Whether the program has a function with this name.
    pub(in crate::debug) is_function: &'a dyn Fn(&str) -> bool,
    /// Whether the text of a declaration has `volatile`, which Clang omits from anonymous
    /// members.
    pub(in crate::debug) has_volatile: &'a dyn Fn(Die) -> bool,
    /// What the text of a declaration says, if the types omit `_Atomic`.
    pub(in crate::debug) declaration: Option<&'a dyn Fn(Die, usize) -> TextMarking>,
}

/// What is done with the object that an expression denotes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Nothing,
    Read,
    Write,
    Update,
}

/// Lists the accesses of a statement, given by its tokens after expansion.
pub(in crate::debug) fn accesses(
    around: &Surroundings<'_, '_>,
    tokens: &[Token],
) -> Vec<Candidate> {
    let fragment = Fragment::new(tokens);
    let mut walker = Walker {
        around,
        fragment: &fragment,
        found: Vec::new(),
        positions: Vec::new(),
        made: HashMap::new(),
        depth: 0,
    };
    walker.run();
    walker.found
}

/// Walks a statement.
pub(super) struct Walker<'w, 'a, 'd> {
    pub(super) around: &'w Surroundings<'a, 'd>,
    pub(super) fragment: &'w Fragment,
    pub(super) found: Vec<Candidate>,
    /// Positions of the expressions around.
    pub(super) positions: Vec<Position>,
    /// Variables that the statement itself declares.
    pub(super) made: HashMap<String, Type>,
    pub(super) depth: usize,
}

impl Walker<'_, '_, '_> {
    pub(super) fn run(&mut self) {
        let Some(tree) = parse(self.around.language, &self.fragment.text) else {
            self.anything(Doubt::NoExpression, (0, 0));
            return;
        };
        let root = tree.root_node();
        if root.has_error() {
            self.anything(Doubt::NoExpression, (0, 0));
            return;
        }
        let body = root
            .named_child(0)
            .and_then(|function| function.child_by_field_name("body"));
        match body {
            Some(body) => self.statements(body),
            None => self.anything(Doubt::NoExpression, (0, 0)),
        }
    }

    pub(super) fn text(&self, node: Node<'_>) -> &str {
        self.fragment
            .text
            .get(node.byte_range())
            .unwrap_or_default()
    }

    pub(super) fn at(&self, node: Node<'_>) -> Position {
        self.fragment.position(node.start_byte())
    }

    /// The text as people write it, without the spaces between tokens.
    pub(super) fn written(&self, node: Node<'_>) -> String {
        let mut written = String::new();
        for word in self.text(node).split_whitespace() {
            let last = written.chars().last();
            let both = |c: Option<char>| c.is_some_and(crate::debug::text::lexer::is_word);
            if both(last) && both(word.chars().next()) {
                written.push(' ');
            }
            match word
                .strip_prefix(TYPEOF)
                .and_then(|number| number.parse::<usize>().ok())
            {
                Some(number) => {
                    let inside = self.fragment.typeofs.get(number).into_iter().flatten();
                    let inside: String = inside.map(|token| token.text.as_str()).collect();
                    written.push_str(&format!("typeof({inside})"));
                }
                None => written.push_str(word),
            }
        }
        written
    }

    /// Something here may access anything.
    pub(super) fn anything(&mut self, doubt: Doubt, at: Position) {
        self.push(Candidate {
            around: self.positions.clone(),
            ..Candidate::anything(doubt, at)
        });
    }

    pub(super) fn push(&mut self, candidate: Candidate) {
        if self.found.len() < MAX_CANDIDATES {
            self.found.push(candidate);
        }
    }

    pub(super) fn statements(&mut self, node: Node<'_>) {
        let mut cursor = node.walk();
        let children: Vec<_> = node.named_children(&mut cursor).collect();
        for child in children {
            self.statement(child);
        }
    }

    pub(super) fn statement(&mut self, node: Node<'_>) -> Type {
        match node.kind() {
            "declaration" => {
                self.declaration(node);
                Type::Scalar(None)
            }
            "expression_statement" => node
                .named_child(0)
                .map_or(Type::Scalar(None), |inner| self.value(inner, Use::Read)),
            "comment" | "type_definition" => Type::Scalar(None),
            kind if kind.ends_with("_statement") || kind.ends_with("_clause") => {
                let mut cursor = node.walk();
                let children: Vec<_> = node.named_children(&mut cursor).collect();
                for child in children {
                    let first = self.found.len();
                    let kind = self.statement(child);
                    if node.kind() == "condition_clause" {
                        self.by_operator(first, &kind);
                    }
                }
                Type::Scalar(None)
            }
            _ => self.value(node, Use::Read),
        }
    }

    pub(super) fn declaration(&mut self, node: Node<'_>) {
        let base = self.described_base(node);
        let first_of_all = self.found.len();
        let mut cursor = node.walk();
        let declarators: Vec<_> = node
            .children_by_field_name("declarator", &mut cursor)
            .collect();
        for declarator in declarators {
            let value = declarator.child_by_field_name("value");
            let inner = declarator
                .child_by_field_name("declarator")
                .filter(|_| declarator.kind() == "init_declarator")
                .unwrap_or(declarator);
            let mut read = Type::Scalar(None);
            let operator = self.operator(declarator);
            self.positions.push(self.at(declarator));
            self.positions.extend(operator);
            if let Some(value) = value {
                // A reference is bound to an object, which is not read.
                let usage = match inner.kind() {
                    "reference_declarator" => Use::Nothing,
                    _ => Use::Read,
                };
                let first = self.found.len();
                read = self.value(value, usage);
                let made = base.as_ref().unwrap_or(&read);
                if !self.around.program.is_structure(made) {
                    self.by_operator(first, &read);
                }
            }
            let depth = 1 + usize::from(operator.is_some());
            self.positions
                .truncate(self.positions.len().saturating_sub(depth));
            let Some(name) = innermost_name(inner) else {
                continue;
            };
            let text = self.text(name).to_owned();
            if !self.around.locals.contains_key(&text)
                && !self.around.scope.globals.contains_key(&text)
            {
                let mut kind = base.clone().unwrap_or(read);
                let mut pointer = inner;
                while pointer.kind() == "pointer_declarator" {
                    kind = kind.pointer_to();
                    match pointer.child_by_field_name("declarator") {
                        Some(next) => pointer = next,
                        None => break,
                    }
                }
                self.made.insert(text.clone(), kind);
            }
            if value.is_some()
                && let Some(mut place) = self.lvalue(name)
                && place.base != Base::Pointer
            {
                place.anchors.extend(operator);
                place.anchors.push(self.at(declarator));
                self.record(place, Use::Write);
            }
            // `ATOMIC x = 1;` is no declaration if `x` is declared elsewhere.
            if base == Some(Type::Unknown) && self.is_declared_elsewhere(&text, self.at(name)) {
                let word = node
                    .child_by_field_name("type")
                    .map(|kind| self.written(kind));
                let doubt = Doubt::UnknownName(word.unwrap_or_default());
                for candidate in self.found.iter_mut().skip(first_of_all) {
                    candidate.marking = TextMarking::Unknown(doubt.clone());
                }
            }
        }
    }

    /// Whether nothing of this name is declared on its line.
    fn is_declared_elsewhere(&self, name: &str, at: Position) -> bool {
        let around = self.around;
        let known = around.locals.get(name).into_iter().flatten();
        let mut known = known.chain(around.scope.globals.get(name).into_iter().flatten());
        let here = |die: &Die| {
            let declared = around.program.declared(*die);
            declared.is_some_and(|(_, line)| line == at.0)
        };
        !known.any(here)
    }

    /// The position of the operator of an expression.
    pub(super) fn operator(&self, node: Node<'_>) -> Option<Position> {
        if let Some(operator) = node.child_by_field_name("operator") {
            return Some(self.at(operator));
        }
        let mut cursor = node.walk();
        let sign = node.children(&mut cursor).find(|child| {
            !child.is_named() && matches!(child.kind(), "=" | "[" | "?" | "," | "->" | "." | "(")
        });
        sign.map(|sign| self.at(sign))
    }

    pub(super) fn value(&mut self, node: Node<'_>, usage: Use) -> Type {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            self.depth -= 1;
            self.anything(Doubt::NoExpression, self.at(node));
            return Type::Unknown;
        }
        let before = self.positions.len();
        let kind = self.evaluate(node, usage, before);
        self.positions.truncate(before);
        self.depth -= 1;
        kind
    }

    /// Evaluates an operand. If it is an object of a class, the operator is a function.
    pub(super) fn operand(&mut self, node: Node<'_>) -> Type {
        let first = self.found.len();
        let kind = self.value(node, Use::Read);
        self.by_operator(first, &kind);
        kind
    }

    /// Of objects of a class that are not copied but given to an operator or converted, only
    /// their functions know what is done to them. Those that have no debug information leave
    /// their accesses in the statement that calls them.
    fn by_operator(&mut self, first: usize, kind: &Type) {
        if !self.around.program.is_structure(kind) {
            return;
        }
        let bare = self.around.program.unqualified(kind).0;
        for candidate in self.found.iter_mut().skip(first) {
            let place = candidate.place.as_ref();
            if place.is_some_and(|place| self.around.program.unqualified(&place.kind).0 == bare) {
                candidate.marking = TextMarking::Unknown(Doubt::UnknownType);
            }
        }
    }

    pub(super) fn evaluate(&mut self, node: Node<'_>, usage: Use, before: usize) -> Type {
        if let Some(place) = self.lvalue(node) {
            self.positions.truncate(before);
            let kind = self.kind_of(&place);
            // The operators of a class are calls.
            if self.around.program.is_structure(&kind) && usage != Use::Nothing {
                self.anything(Doubt::Folded, place.at);
            }
            self.record(place, usage);
            return kind;
        }
        self.positions.push(self.at(node));
        let operator = self.operator(node);
        self.positions.extend(operator);
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "assignment_expression" => {
                let plain = field("operator").is_none_or(|operator| operator.kind() == "=");
                let before = self.found.len();
                let right = field("right").map(|right| self.value(right, Use::Read));
                let Some(left) = field("left") else {
                    return Type::Unknown;
                };
                let usage = if plain { Use::Write } else { Use::Update };
                let first = self.found.len();
                let left = self.written_to(left, usage, operator);
                let program = self.around.program;
                if let (Some(left), Some(right)) = (&left, &right) {
                    let copies = plain
                        && (program.unqualified(left).0 == program.unqualified(right).0
                            || matches!(right, Type::Unknown));
                    if !copies {
                        self.by_operator(first, left);
                        self.by_operator(before, right);
                    }
                }
                left.or(right).unwrap_or(Type::Unknown)
            }
            "update_expression" => {
                let first = self.found.len();
                let kind = field("argument")
                    .and_then(|argument| self.written_to(argument, Use::Update, operator))
                    .unwrap_or(Type::Unknown);
                self.by_operator(first, &kind);
                kind
            }
            "pointer_expression" => {
                // The address of an object: no access to it.
                let inner = field("argument").map(|argument| self.value(argument, Use::Nothing));
                inner.unwrap_or(Type::Unknown).pointer_to()
            }
            "parenthesized_expression" => {
                let Some(inner) = node.named_child(0) else {
                    return Type::Unknown;
                };
                if inner.kind() == "compound_statement" {
                    return self.block(inner);
                }
                self.value(inner, usage)
            }
            "extension_expression" => node
                .named_child(0)
                .map_or(Type::Unknown, |inner| self.value(inner, usage)),
            "binary_expression" => {
                let left = field("left").map_or(Type::Unknown, |left| self.operand(left));
                let right = field("right").map_or(Type::Unknown, |right| self.operand(right));
                let sign = field("operator").map(|sign| sign.kind());
                match sign {
                    Some("+" | "-") if self.is_pointer(&left) => self.decayed(left),
                    Some("+") if self.is_pointer(&right) => self.decayed(right),
                    _ => Type::Scalar(None),
                }
            }
            "conditional_expression" => {
                if let Some(condition) = field("condition") {
                    self.operand(condition);
                }
                let first = field("consequence").map(|arm| self.value(arm, usage));
                let second = field("alternative").map(|arm| self.value(arm, usage));
                match first {
                    Some(Type::Scalar(_)) | None => second.or(first).unwrap_or(Type::Unknown),
                    Some(first) => first,
                }
            }
            "comma_expression" => {
                if let Some(left) = field("left") {
                    self.value(left, Use::Read);
                }
                field("right").map_or(Type::Unknown, |right| self.value(right, usage))
            }
            "cast_expression" => {
                if let Some(value) = field("value") {
                    self.operand(value);
                }
                field("type").map_or(Type::Unknown, |kind| self.described(kind))
            }
            "call_expression" => self.call(node),
            "compound_literal_expression" => {
                if let Some(value) = field("value") {
                    self.value(value, Use::Read);
                }
                field("type").map_or(Type::Unknown, |kind| self.described(kind))
            }
            "sizeof_expression" | "alignof_expression" | "offsetof_expression" => {
                Type::Scalar(Some(8))
            }
            "number_literal"
            | "char_literal"
            | "true"
            | "false"
            | "null"
            | "nullptr"
            | "type_descriptor"
            | "user_defined_literal"
            | "concatenated_string"
            | "type_identifier"
            | "primitive_type"
            | "lambda_expression"
            | "comment" => Type::Scalar(None),
            "string_literal" | "raw_string_literal" => Type::Scalar(Some(1)).pointer_to(),
            "this" => match self.around.locals.get("this").and_then(|dies| dies.first()) {
                Some(die) => self.around.program.type_of(*die),
                None => Type::Unknown,
            },
            // An empty template only keeps the compiler from moving code.
            "gnu_asm_expression"
                if field("assembly_code").is_some_and(|code| self.text(code) == "\"\"") =>
            {
                Type::Scalar(None)
            }
            "gnu_asm_expression" => {
                self.anything(Doubt::InlineAssembly, self.at(node));
                Type::Scalar(None)
            }
            "generic_expression" | "ERROR" => {
                self.anything(Doubt::NoExpression, self.at(node));
                Type::Unknown
            }
            "field_initializer" => {
                let mut cursor = node.walk();
                let children: Vec<_> = node.named_children(&mut cursor).collect();
                for child in children.iter().skip(1) {
                    self.value(*child, Use::Read);
                }
                if let Some(name) = children.first() {
                    self.written_to(*name, Use::Write, operator);
                }
                Type::Scalar(None)
            }
            "compound_statement" => self.block(node),
            _ => {
                let mut cursor = node.walk();
                let children: Vec<_> = node.named_children(&mut cursor).collect();
                for child in children {
                    match node.kind() {
                        "unary_expression" | "condition_clause" => self.operand(child),
                        _ => self.value(child, Use::Read),
                    };
                }
                match node.kind() {
                    "unary_expression" => Type::Scalar(None),
                    _ => Type::Unknown,
                }
            }
        }
    }

    /// A statement expression; its type is that of its last statement.
    pub(super) fn block(&mut self, node: Node<'_>) -> Type {
        let mut cursor = node.walk();
        let children: Vec<_> = node.named_children(&mut cursor).collect();
        let mut last = Type::Scalar(None);
        for child in children {
            last = self.statement(child);
        }
        last
    }

    pub(super) fn written_to(
        &mut self,
        node: Node<'_>,
        usage: Use,
        operator: Option<Position>,
    ) -> Option<Type> {
        match self.lvalue(node) {
            Some(mut place) => {
                let kind = place.kind.clone();
                place.anchors.extend(operator);
                self.record(place, usage);
                Some(kind)
            }
            None => Some(self.value(node, usage)),
        }
    }

    pub(super) fn is_pointer(&self, kind: &Type) -> bool {
        !matches!(self.around.program.target(kind), Type::Unknown)
    }

    /// An array as a pointer to its elements.
    pub(super) fn decayed(&self, kind: Type) -> Type {
        if self.around.program.is_array(&kind) {
            self.around.program.target(&kind).pointer_to()
        } else {
            kind
        }
    }
}

fn innermost_name(node: Node<'_>) -> Option<Node<'_>> {
    let mut node = node;
    for _ in 0..MAX_DEPTH {
        if node.kind() == "identifier" {
            return Some(node);
        }
        node = node
            .child_by_field_name("declarator")
            .or_else(|| node.named_child(0))?;
    }
    None
}
