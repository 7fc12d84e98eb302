//! Types that the text itself names: in casts, declarations and `typeof`.

use super::fragment::{Fragment, TYPEOF};
use super::values::Type;
use super::walk::{MAX_DEPTH, Walker};
use crate::debug::program::Die;
use crate::debug::scope::bare_name;
use crate::debug::text::lexer::Token;
use crate::debug::text::regions::parse;
use crate::debug::types::How;
use crate::debug::words;
use gimli::constants as dw;
use tree_sitter::Node;

impl Walker<'_, '_, '_> {
    /// The type that a descriptor in a cast names.
    pub(super) fn described(&self, node: Node<'_>) -> Type {
        let mut kind = self.described_base(node).unwrap_or(Type::Unknown);
        let mut declarator = node.child_by_field_name("declarator");
        while let Some(next) = declarator {
            kind = match next.kind() {
                "abstract_pointer_declarator" => kind.pointer_to(),
                "abstract_reference_declarator" => Type::Object(Box::new(kind)),
                "abstract_parenthesized_declarator" => kind,
                _ => Type::Scalar(Some(8)),
            };
            let mut cursor = next.walk();
            for child in next.children(&mut cursor) {
                if child.kind() == "type_qualifier" && is_volatile(self.text(child)) {
                    kind = Type::Qualified(How::Volatile, Box::new(kind));
                }
            }
            declarator = next.child_by_field_name("declarator");
        }
        kind
    }

    /// The type of a declaration without its declarators; `None` if it is deduced.
    pub(super) fn described_base(&self, node: Node<'_>) -> Option<Type> {
        let mut volatile = false;
        let mut atomic = false;
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            if child.kind() == "type_qualifier" {
                volatile |= is_volatile(self.text(child));
                atomic |= self.text(child).contains("_Atomic");
            }
        }
        let mut kind = self.named_type(node.child_by_field_name("type")?)?;
        if volatile {
            kind = Type::Qualified(How::Volatile, Box::new(kind));
        }
        if atomic {
            kind = Type::Qualified(How::Atomic, Box::new(kind));
        }
        Some(kind)
    }

    pub(super) fn named_type(&self, node: Node<'_>) -> Option<Type> {
        let text = self.text(node);
        if let Some(number) = text.strip_prefix(TYPEOF) {
            let tokens = number
                .parse::<usize>()
                .ok()
                .and_then(|number| self.fragment.typeofs.get(number))?;
            return Some(self.typeof_(tokens));
        }
        let by_name = |name: &str| self.type_named(name, false);
        Some(match node.kind() {
            "primitive_type" | "sized_type_specifier" => Type::Scalar(words::size(text)),
            "struct_specifier" | "union_specifier" | "enum_specifier" | "class_specifier" => node
                .child_by_field_name("name")
                .and_then(|name| self.type_named(self.text(name), true))
                .unwrap_or(Type::Unknown),
            "macro_type_specifier" if text.starts_with("_Atomic") => {
                let inner = node.child_by_field_name("type")?;
                Type::Qualified(How::Atomic, Box::new(self.described(inner)))
            }
            "placeholder_type_specifier" => return None,
            "type_identifier" if matches!(text, "auto" | "__auto_type") => return None,
            "type_identifier" => by_name(text).unwrap_or(Type::Unknown),
            "qualified_identifier" | "template_type" => {
                let mut name = node;
                while name.kind() == "qualified_identifier"
                    && let Some(inner) = name.child_by_field_name("name")
                {
                    name = inner;
                }
                by_name(self.text(name)).unwrap_or(Type::Unknown)
            }
            _ => Type::Unknown,
        })
    }

    /// The type with a name, or with a tag. Several may have it: instances of a template,
    /// classes in other classes, structures in functions, a tag and a typedef. Which one is
    /// meant must not matter.
    fn type_named(&self, name: &str, tag: bool) -> Option<Type> {
        let program = self.around.program;
        let spaceless = |name: &str| name.split_whitespace().collect::<String>();
        let written = spaceless(name);
        let all = self.around.scope.types.get(bare_name(name).trim_end())?;
        let is_typedef = |die: &Die| {
            let entry = program.entry(*die);
            entry.is_some_and(|entry| entry.tag() == dw::DW_TAG_typedef)
        };
        let mut found: Vec<Die> = all.clone();
        // A structure that is declared here and defined elsewhere has no size.
        narrow(&mut found, |die| program.size_of(*die).is_some());
        let is_written = |die: &Die| program.name(*die).is_some_and(|n| spaceless(&n) == written);
        narrow(&mut found, is_written);
        if tag {
            narrow(&mut found, |die| !is_typedef(die));
        } else {
            narrow(&mut found, is_typedef);
        }
        let first = *found.first()?;
        let structure = program.unqualified(&Type::Declared(first));
        let same = |die: &Die| {
            let other = program.unqualified(&Type::Declared(*die));
            other == structure
                || (other.1 == structure.1
                    && !program.is_structure(&other.0)
                    && !program.is_structure(&structure.0)
                    && program.how(&other.0) == program.how(&structure.0))
        };
        Some(if found.iter().all(same) {
            Type::Declared(first)
        } else {
            Type::Unknown
        })
    }

    /// The type of an expression, or a type.
    pub(super) fn typeof_(&self, tokens: &[Token]) -> Type {
        let fragment = Fragment::new(tokens);
        let Some(tree) = parse(self.around.language, &fragment.text) else {
            return Type::Unknown;
        };
        let mut walker = Walker {
            around: self.around,
            fragment: &fragment,
            found: Vec::new(),
            positions: Vec::new(),
            made: self.made.clone(),
            depth: self.depth + 1,
        };
        if self.depth > MAX_DEPTH || tree.root_node().has_error() {
            return Type::Unknown;
        }
        let statement = tree
            .root_node()
            .named_child(0)
            .and_then(|function| function.child_by_field_name("body"))
            .and_then(|body| body.named_child(0));
        match statement {
            Some(statement) if statement.kind() == "expression_statement" => {
                walker.statement(statement)
            }
            _ => {
                // A type, which is no statement.
                let name: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
                words::size(&name.join(" ")).map_or(Type::Unknown, |size| Type::Scalar(Some(size)))
            }
        }
    }
}

/// Keeps those that `is` takes, if there are any.
fn narrow(found: &mut Vec<Die>, is: impl Fn(&Die) -> bool) {
    if found.iter().any(&is) {
        found.retain(is);
    }
}

fn is_volatile(word: &str) -> bool {
    matches!(word, "volatile" | "__volatile__" | "__volatile")
}
