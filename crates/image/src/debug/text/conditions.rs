//! The conditions under which a source makes an access: those of the `if`, the `?:`, the `&&` and
//! the loop around it, and of what may leave the block before it.

use super::lexer::Position;
use super::regions::{SourceFile, position};
use super::rust::RustFile;
use tree_sitter::{Node, Point, Tree};

/// How many nodes of a statement are searched for one that leaves the block.
const MAX_SEARCHED: usize = 1000;
/// How many conditions are listed.
const MAX_CONDITIONS: usize = 64;

/// A condition, and where it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) struct Condition {
    pub(in crate::debug) start: Position,
    pub(in crate::debug) end: Position,
    /// Where else a compiler may place its test: at the `:` between two arms.
    pub(in crate::debug) sign: Option<Position>,
    /// Whether it is that of a loop that makes a first turn in any case: nothing is ahead of it.
    pub(in crate::debug) entered: bool,
}

impl SourceFile {
    /// The conditions around a position, innermost first.
    pub(in crate::debug) fn conditions(&self, line: u32, column: Option<u32>) -> Vec<Condition> {
        around(&self.tree, &self.text, line, column).unwrap_or_default()
    }
}

impl RustFile {
    /// The conditions around a position, innermost first.
    pub(in crate::debug) fn conditions(&self, line: u32, column: Option<u32>) -> Vec<Condition> {
        around(&self.tree, &self.text, line, column).unwrap_or_default()
    }
}

fn around(tree: &Tree, text: &str, line: u32, column: Option<u32>) -> Option<Vec<Condition>> {
    let row = usize::try_from(line.checked_sub(1)?).ok()?;
    let content = text.lines().nth(row)?;
    let indent = content.len() - content.trim_start().len();
    let column = match column {
        Some(column) => usize::try_from(column.saturating_sub(1)).ok()?,
        None => indent,
    };
    let point = Point::new(row, column.max(indent));
    let mut node = tree.root_node().descendant_for_point_range(point, point)?;
    let mut found = Vec::new();
    while let Some(parent) = node.parent() {
        if is_function(parent) || found.len() >= MAX_CONDITIONS {
            break;
        }
        if matches!(parent.kind(), "compound_statement" | "block") {
            found.extend(exits_before(parent, node, text));
        }
        found.extend(condition(parent, node, text));
        node = parent;
    }
    Some(found)
}

fn is_function(node: Node<'_>) -> bool {
    matches!(
        node.kind(),
        "function_definition" | "lambda_expression" | "function_item" | "closure_expression"
    )
}

/// Whether the outcome of a test is known when it is compiled: nothing can be ahead of it.
fn is_constant(test: Node<'_>, text: &str) -> bool {
    match test.kind() {
        "parenthesized_expression" | "condition_clause" | "unary_expression" => test
            .named_child(0)
            .is_some_and(|inner| is_constant(inner, text)),
        "macro_invocation" => test
            .child_by_field_name("macro")
            .and_then(|name| text.get(name.byte_range()))
            .is_some_and(|name| name == "cfg"),
        kind => matches!(
            kind,
            "boolean_literal" | "integer_literal" | "number_literal" | "true" | "false"
        ),
    }
}

/// Whether a loop makes a first turn in any case: it has no test, or one of constants.
fn is_entered(repeated: Node<'_>, text: &str) -> bool {
    let field = |name| repeated.child_by_field_name(name);
    match repeated.kind() {
        "for_statement" => match field("condition") {
            None => true,
            Some(test) => is_constant(test, text) || starts_true(field("initializer"), test, text),
        },
        "while_statement" | "while_expression" => {
            field("condition").is_none_or(|test| is_constant(test, text))
        }
        // `for i in 0..8`
        "for_expression" => field("value").is_some_and(|range| {
            let ends = text.get(range.byte_range()).unwrap_or_default();
            let number = |text: &str| text.trim_matches(['=', ' ']).parse::<i64>().ok();
            let ends = ends.split_once("..");
            let ends = ends.and_then(|(first, last)| number(first).zip(number(last)));
            ends.is_some_and(|(first, last)| first < last)
        }),
        _ => false,
    }
}

/// Whether the test of a loop is true at first: `for (int i = 0; i < 8; …)`.
fn starts_true(first: Option<Node<'_>>, test: Node<'_>, text: &str) -> bool {
    let written = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    let number = |text: &str| text.trim_matches([';', ' ']).parse::<i64>().ok();
    let value = first.and_then(|first| number(written(first).rsplit_once('=')?.1));
    let limit = test.child_by_field_name("right");
    let limit = limit.and_then(|limit| number(written(limit)));
    let sign = test.child_by_field_name("operator");
    let (Some((value, limit)), Some(sign)) = (value.zip(limit), sign) else {
        return false;
    };
    match sign.kind() {
        "<" => value < limit,
        "<=" => value <= limit,
        ">" => value > limit,
        ">=" => value >= limit,
        "!=" => value != limit,
        _ => false,
    }
}

/// The condition that `parent` has for its part `child`.
fn condition(parent: Node<'_>, child: Node<'_>, text: &str) -> Option<Condition> {
    let is = |name: &str| parent.child_by_field_name(name) == Some(child);
    let (test, entered) = match parent.kind() {
        "if_statement" | "if_expression" | "conditional_expression" => {
            let arm = is("consequence") || is("alternative");
            (
                arm.then(|| parent.child_by_field_name("condition"))??,
                false,
            )
        }
        "switch_statement" => (
            is("body").then(|| parent.child_by_field_name("condition"))??,
            false,
        ),
        "match_expression" => (
            is("body").then(|| parent.child_by_field_name("value"))??,
            false,
        ),
        "binary_expression" => {
            let sign = parent.child_by_field_name("operator")?.kind();
            let short = matches!(sign, "&&" | "||" | "and" | "or") && is("right");
            (short.then(|| parent.child_by_field_name("left"))??, false)
        }
        "while_statement" | "for_statement" | "for_range_loop" | "while_expression"
        | "for_expression" => {
            let body = is("body").then_some(child)?;
            return Some(Condition {
                start: position(parent.start_position()),
                end: position(body.start_position()),
                sign: None,
                entered: is_entered(parent, text),
            });
        }
        _ => return None,
    };
    if is_constant(test, text) {
        return None;
    }
    let whole = matches!(
        parent.kind(),
        "conditional_expression" | "binary_expression"
    );
    // The sign of these is where a compiler places the test.
    let end = if whole {
        child.start_position()
    } else {
        test.end_position()
    };
    Some(Condition {
        start: position(test.start_position()),
        end: position(end),
        sign: colon(parent),
        entered,
    })
}

/// Where the `:` of `a ? b : c` is.
fn colon(parent: Node<'_>) -> Option<Position> {
    let mut cursor = parent.walk();
    let mut signs = parent.children(&mut cursor);
    let colon = signs.find(|child| child.kind() == ":")?;
    (parent.kind() == "conditional_expression").then(|| position(colon.start_position()))
}

/// The conditions of those statements before `child` that may leave the block, last first.
fn exits_before(block: Node<'_>, child: Node<'_>, text: &str) -> Vec<Condition> {
    let mut cursor = block.walk();
    let before = block
        .named_children(&mut cursor)
        .take_while(|statement| *statement != child);
    let mut found: Vec<Condition> = before
        .filter_map(|statement| {
            let branch = match statement.kind() {
                "expression_statement" => statement.named_child(0)?,
                _ => statement,
            };
            let is_branch = matches!(branch.kind(), "if_statement" | "if_expression");
            let test = branch.child_by_field_name("condition")?;
            (is_branch && leaves(branch) && !is_constant(test, text)).then(|| Condition {
                start: position(test.start_position()),
                end: position(test.end_position()),
                sign: None,
                entered: false,
            })
        })
        .collect();
    found.reverse();
    found
}

/// Whether a statement has one in it that goes elsewhere.
fn leaves(statement: Node<'_>) -> bool {
    let mut left = vec![statement];
    for _ in 0..MAX_SEARCHED {
        let Some(node) = left.pop() else {
            return false;
        };
        let kind = node.kind();
        if matches!(
            kind,
            "return_statement"
                | "break_statement"
                | "continue_statement"
                | "goto_statement"
                | "throw_statement"
                | "return_expression"
                | "break_expression"
                | "continue_expression"
        ) {
            return true;
        }
        if !is_function(node) {
            let mut cursor = node.walk();
            left.extend(node.named_children(&mut cursor));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts of the conditions around `marked`, innermost first; loops in brackets.
    fn texts(found: &[Condition], text: &str) -> Vec<String> {
        found
            .iter()
            .map(|condition| {
                let column = |at: Position| usize::try_from(at.1 - 1).unwrap();
                let part = text[column(condition.start)..column(condition.end)].trim();
                if condition.entered {
                    format!("[{part}]")
                } else {
                    part.to_owned()
                }
            })
            .collect()
    }

    #[track_caller]
    fn check(text: &str, marked: &str, expect: &[&str]) {
        let column = u32::try_from(text.find(marked).unwrap() + 1).unwrap();
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let found = file.conditions(1, Some(column));
        assert_eq!(texts(&found, text), expect);
    }

    #[test]
    fn conditions_are_those_of_arms_and_loops() {
        check(
            "int f() { for (i = 0; i < 8; i++) if (may[i]) sum += total; }",
            "total",
            &["(may[i])", "[for (i = 0; i < 8; i++)]"],
        );
        check("int f() { if (a) x = 1; else total++; }", "total", &["(a)"]);
        check("int f() { if (total) x = 1; }", "total", &[]);
        check("int f() { return own ? secret : 7; }", "secret", &["own ?"]);
        check("int f() { return a && b && c; }", "b", &["a &&"]);
        check("int f() { do { total++; } while (a); }", "total", &[]);
        check(
            "int f() { switch (a) { case 1: total++; } }",
            "total",
            &["(a)"],
        );
    }

    #[test]
    fn what_leaves_the_block_before_counts() {
        check(
            "int f() { if (!mine) return 0; if (b) x = 1; return total; }",
            "total",
            &["(!mine)"],
        );
        check(
            "int f() { while (n--) { if (a) continue; total++; } }",
            "total",
            &["(a)", "while (n--)"],
        );
    }

    #[test]
    fn a_loop_may_make_no_turn() {
        check(
            "int f() { for (i = 0; i < n; i++) total++; }",
            "total",
            &["for (i = 0; i < n; i++)"],
        );
        check(
            "int f() { for (int i = 8; i >= 1; i--) total++; }",
            "total",
            &["[for (int i = 8; i >= 1; i--)]"],
        );
        check("int f() { for (;;) total++; }", "total", &["[for (;;)]"]);
    }

    #[test]
    fn rust_has_them_too() {
        let text =
            "fn f() { if !mine { return 0; } for i in 0..8 { if may[i] { sum += total; } } }";
        let file = RustFile::read(text.to_owned()).unwrap();
        let column = u32::try_from(text.find("total").unwrap() + 1).unwrap();
        assert_eq!(
            texts(&file.conditions(1, Some(column)), text),
            ["may[i]", "[for i in 0..8]", "!mine"]
        );
    }

    #[test]
    fn what_is_known_when_compiled_is_no_condition() {
        check("int f() { if (1) total++; }", "total", &[]);
        check("int f() { if (!0) return 1; total++; }", "total", &[]);
        for (text, expect) in [
            ("fn f() { if cfg!(twin) { total } else { 0 } }", vec![]),
            ("fn f() { if !cfg!(twin) { total } else { 0 } }", vec![]),
            ("fn f() { if own!(twin) { total } }", vec!["own!(twin)"]),
        ] {
            let file = RustFile::read(text.to_owned()).unwrap();
            let column = u32::try_from(text.find("total").unwrap() + 1).unwrap();
            assert_eq!(texts(&file.conditions(1, Some(column)), text), expect);
        }
    }
}
