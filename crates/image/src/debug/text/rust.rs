//! Rust sources: whether the code at a position may be inline assembly.
//!
//! In Rust only functions of the library make atomic accesses, and they are frames of their
//! own. What the frames do not show is assembly, which a macro may hide.

use super::regions::parse;
use redhanded_model::Doubt;
use tree_sitter::{Node, Point, Tree};

/// How many macros may be nested.
const MAX_DEPTH: usize = 16;

/// Longer expressions are not quoted.
const MAX_QUOTED: usize = 200;

/// A parsed file.
pub(in crate::debug) struct RustFile {
    pub(super) text: String,
    pub(super) tree: Tree,
}

/// Macros of the library that hold neither assembly nor foreign code besides their arguments.
const HARMLESS: [&str; 28] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "print",
    "println",
    "eprint",
    "eprintln",
    "format",
    "format_args",
    "write",
    "writeln",
    "vec",
    "panic",
    "unreachable",
    "unimplemented",
    "todo",
    "matches",
    "addr_of",
    "addr_of_mut",
    "dbg",
    "concat",
    "stringify",
    "env",
    "line",
    "file",
];

const ASSEMBLY: [&str; 4] = ["asm", "naked_asm", "global_asm", "llvm_asm"];

impl RustFile {
    pub(in crate::debug) fn read(text: String) -> Option<Self> {
        let tree = parse(&tree_sitter_rust::LANGUAGE.into(), &text)?;
        Some(Self { text, tree })
    }

    /// Why the code at a position is not known, if it is in a macro. `definition` finds the
    /// bodies of the macros that the files of the unit define.
    pub(in crate::debug) fn doubt(
        &self,
        line: u32,
        column: Option<u32>,
        definition: &dyn Fn(&str) -> Vec<String>,
    ) -> Option<Doubt> {
        let row = usize::try_from(line.checked_sub(1)?).ok()?;
        if row > self.tree.root_node().end_position().row {
            return Some(Doubt::SourceChanged);
        }
        let column = match column {
            Some(column) => usize::try_from(column.saturating_sub(1)).ok()?,
            None => {
                let content = self.text.lines().nth(row)?;
                content.len() - content.trim_start().len()
            }
        };
        let point = Point::new(row, column);
        let mut node = self
            .tree
            .root_node()
            .descendant_for_point_range(point, point)?;
        let mut doubt = None;
        loop {
            if node.kind() == "macro_invocation" {
                doubt = self.in_macro(node, definition).or(doubt);
            }
            // Assembly in the body of a macro keeps its place there.
            if node.kind() == "macro_definition"
                && let Some(body) = self.text.get(node.byte_range())
                && invoked(body).iter().any(|name| ASSEMBLY.contains(name))
            {
                doubt = Some(Doubt::InlineAssembly);
            }
            match node.parent() {
                Some(parent) => node = parent,
                None => return doubt,
            }
        }
    }

    /// The expression at a position, on one line.
    pub(in crate::debug) fn quote(&self, line: u32, column: Option<u32>) -> Option<String> {
        let row = usize::try_from(line.checked_sub(1)?).ok()?;
        let column = usize::try_from(column?.saturating_sub(1)).ok()?;
        let point = Point::new(row, column);
        let mut node = self
            .tree
            .root_node()
            .descendant_for_point_range(point, point)?;
        while !node.kind().ends_with("expression") {
            node = node.parent()?;
        }
        let text = self.text.get(node.byte_range())?;
        (!text.contains('\n') && text.len() <= MAX_QUOTED).then(|| text.to_owned())
    }

    fn in_macro(&self, node: Node<'_>, definition: &dyn Fn(&str) -> Vec<String>) -> Option<Doubt> {
        let name = self
            .text
            .get(node.child_by_field_name("macro")?.byte_range())?;
        judge_macro(last(name), definition, 0)
    }

    /// The bodies of the macros with this name that the file defines.
    pub(in crate::debug) fn definitions(&self, name: &str) -> Vec<String> {
        let head = format!("macro_rules! {name}");
        self.text
            .match_indices(&head)
            .filter_map(|(at, _)| {
                let node = self
                    .tree
                    .root_node()
                    .descendant_for_byte_range(at, at + head.len())?;
                let mut node = node;
                while node.kind() != "macro_definition" {
                    node = node.parent()?;
                }
                Some(self.text.get(node.byte_range())?.to_owned())
            })
            .collect()
    }
}

fn judge_macro(
    name: &str,
    definition: &dyn Fn(&str) -> Vec<String>,
    depth: usize,
) -> Option<Doubt> {
    if ASSEMBLY.contains(&name) {
        return Some(Doubt::InlineAssembly);
    }
    if HARMLESS.contains(&name) {
        return None;
    }
    let bodies = definition(name);
    if bodies.is_empty() || depth > MAX_DEPTH {
        return Some(Doubt::UnknownName(format!("{name}!")));
    }
    bodies.iter().find_map(|body| {
        invoked(body)
            .into_iter()
            .filter(|inner| *inner != name && *inner != "macro_rules")
            .find_map(|inner| judge_macro(inner, definition, depth + 1))
    })
}

/// The names before `!(`, `![` and `!{`.
fn invoked(text: &str) -> Vec<&str> {
    text.match_indices('!')
        .filter_map(|(at, _)| {
            let after = text.get(at + 1..)?.trim_start();
            if !after.starts_with(['(', '[', '{']) {
                return None;
            }
            let before = text.get(..at)?;
            let start = before
                .rfind(|c: char| !super::lexer::is_word(c))
                .map_or(0, |at| {
                    at + before
                        .get(at..)
                        .and_then(|t| t.chars().next())
                        .map_or(1, char::len_utf8)
                });
            before.get(start..).filter(|name| !name.is_empty())
        })
        .collect()
}

fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn doubt(text: &str, line: u32) -> Option<Doubt> {
        let file = RustFile::read(text.to_owned()).unwrap();
        file.doubt(line, None, &|name| file.definitions(name))
    }

    #[test]
    fn assembly_is_found_also_behind_macros() {
        let text = "macro_rules! set { ($p:expr) => { core::arch::asm!(\"mov [{}], 1\", in(reg) $p) } }\nmacro_rules! add { ($p:expr) => { *$p += 1 } }\nmacro_rules! deep { ($p:expr) => { set!($p) } }\nfn f(p: *mut u32) {\n  unsafe { std::arch::asm!(\"\") }\n  set!(p);\n  add!(p);\n  deep!(p);\n  println!(\"{}\", x);\n  *p += 1;\n  other!(p);\n}\n";
        assert_eq!(doubt(text, 5), None, "the block, not the macro");
        let file = RustFile::read(text.to_owned()).unwrap();
        assert_eq!(
            file.doubt(5, Some(12), &|_| vec![]),
            Some(Doubt::InlineAssembly)
        );
        assert_eq!(doubt(text, 6), Some(Doubt::InlineAssembly));
        assert_eq!(doubt(text, 7), None);
        assert_eq!(doubt(text, 8), Some(Doubt::InlineAssembly));
        assert_eq!(doubt(text, 9), None);
        assert_eq!(doubt(text, 10), None);
        assert_eq!(
            doubt(text, 11),
            Some(Doubt::UnknownName("other!".to_owned()))
        );
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[a-zé#\"'/*!(){};\n ]{0,200}", line in 0u32..20, column in 0u32..40) {
            let file = RustFile::read(text).unwrap();
            file.doubt(line, Some(column), &|name| file.definitions(name));
        }
    }
}
