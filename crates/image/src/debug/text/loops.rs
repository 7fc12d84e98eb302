//! In which steps a loop goes through an array.

use super::lexer::{Position, is_word};
use super::regions::SourceFile;
use tree_sitter::{Node, Point};

/// How many nodes of a loop's body are searched.
const MAX_SEARCHED: usize = 2000;

impl SourceFile {
    /// Whether the innermost loop around a position visits one element after the other by
    /// `index`, and leaves none out. Not known is no.
    pub(in crate::debug) fn steps_by_one(&self, at: Position, index: &str) -> bool {
        self.stepping(at, index).unwrap_or(false)
    }

    fn stepping(&self, (line, column): Position, index: &str) -> Option<bool> {
        let variable = variable_of(index)?;
        let row = usize::try_from(line.checked_sub(1)?).ok()?;
        let column = usize::try_from(column.checked_sub(1)?).ok()?;
        let point = Point::new(row, column);
        let mut node = self
            .tree
            .root_node()
            .descendant_for_point_range(point, point)?;
        loop {
            match node.kind() {
                "for_statement" => break,
                "while_statement"
                | "do_statement"
                | "for_range_loop"
                | "function_definition"
                | "lambda_expression" => return None,
                _ => node = node.parent()?,
            }
        }
        let update = node.child_by_field_name("update")?;
        let body = node.child_by_field_name("body")?;
        let steps = self.changes(update, variable)?;
        let others = self.changes(body, variable)?;
        Some(steps == [Change::ByOne] && others.is_empty())
    }

    /// How a part of the text changes a variable.
    fn changes(&self, part: Node<'_>, variable: &str) -> Option<Vec<Change>> {
        let mut found = Vec::new();
        let mut left = vec![part];
        let mut searched = 0;
        while let Some(node) = left.pop() {
            searched += 1;
            if searched > MAX_SEARCHED {
                return None;
            }
            let is_it = |name| {
                let operand = node.child_by_field_name(name);
                operand.and_then(|operand| self.text.get(operand.byte_range())) == Some(variable)
            };
            let text = || self.text.get(node.byte_range()).unwrap_or_default();
            match node.kind() {
                "update_expression" if is_it("argument") => found.push(Change::ByOne),
                "assignment_expression" if is_it("left") => {
                    let text: String = text().split_whitespace().collect();
                    let one = text.ends_with("+=1") || text.ends_with("-=1");
                    found.push(if one { Change::ByOne } else { Change::Other });
                }
                // Somebody else may change it.
                "pointer_expression" if is_it("argument") && text().starts_with('&') => {
                    found.push(Change::Other);
                }
                _ => {}
            }
            let mut cursor = node.walk();
            left.extend(node.named_children(&mut cursor));
        }
        Some(found)
    }
}

/// How a variable is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    ByOne,
    Other,
}

/// The variable of an index such as `i` or `i + 1`.
fn variable_of(index: &str) -> Option<&str> {
    let mut variables = Vec::new();
    for term in index.trim_matches(['[', ']']).split(['+', '-']) {
        let term = term.trim();
        if term.is_empty() || !term.chars().all(is_word) {
            return None;
        }
        if !term.starts_with(|c: char| c.is_ascii_digit()) {
            variables.push(term);
        }
    }
    match variables.as_slice() {
        [variable] => Some(variable),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str, index: &str) -> bool {
        let text = format!("int f(int n) {{ {text} }}");
        let column = u32::try_from(text.find('@').unwrap()).unwrap() + 1;
        let text = text.replace('@', "");
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text).unwrap();
        file.steps_by_one((1, column), index)
    }

    #[test]
    fn a_loop_that_leaves_nothing_out() {
        let one = |text| assert!(steps(text, "i"), "{text}");
        one("for (int i = 0; i < n; i++) s += @a[i];");
        one("for (i = n; i > 0; --i) { t = i; s += @a[i]; }");
        one("for (i = 0, j = 0; i < n; i += 1, j += 2) s += @a[i];");
        assert!(steps("for (; i < n; i++) s += @a[i + 1];", "i + 1"));
        assert!(steps("for (; p < end; p++) s += @*p;", "p"));
    }

    #[test]
    fn a_loop_that_may_leave_something_out() {
        let none = |text, index| assert!(!steps(text, index), "{text}");
        none("for (int i = 0; i < n; i += 2) s += @a[i];", "i");
        none("for (int i = 0; i < n; i++) s += @a[2 * i];", "2 * i");
        none("for (int i = 0; i < n; i++) s += @a[i * k];", "i * k");
        none("for (int i = 0; i < n; i++) s += @a[at(i)];", "at(i)");
        none("for (int i = 0; i < n; i++) { s += @a[i]; i++; }", "i");
        none("for (int i = 0; i < n; i++) { s += @a[i]; skip(&i); }", "i");
        none("for (int i = 0; i < n; i++) s += @a[j];", "j");
        none("for (int i = 0; i < n; i++) s += @a[i + j];", "i + j");
        none("while (i < n) s += @a[i++];", "i++");
        none("s = @a[i];", "i");
    }
}
