//! Source files of C and C++, parsed: which statements of which function are at a position.

use super::super::openmp::AtomicDirective;
use super::lexer::{Position, tokens};
use super::prefixes::prefixes;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use tree_sitter::{Language, Node, ParseOptions, Parser, Point, Tree};

/// How long a file may take to parse, if it also takes more steps than its length explains. On
/// a busy machine a long file takes longer and is still read.
const LONGEST: Duration = Duration::from_secs(2);
/// For this many bytes the parser looks up once; an ordinary file needs a tenth of that.
const BYTES_PER_STEP: usize = 10;
/// Steps that any file may take.
const FEWEST_STEPS: usize = 1000;
/// How deep statements may be nested.
const MAX_NESTING: usize = 200;
/// How many statements of a function are examined.
const MAX_REGIONS: usize = 4096;

/// Parses a text, unless it takes too long.
pub(in crate::debug) fn parse(language: &Language, text: &str) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(language).ok()?;
    let end = Instant::now() + LONGEST;
    let mut steps = text.len() / BYTES_PER_STEP + FEWEST_STEPS;
    let mut progress = |_: &_| {
        steps = steps.saturating_sub(1);
        if steps == 0 && Instant::now() > end {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let bytes = text.as_bytes();
    parser.parse_with_options(
        &mut |at, _| bytes.get(at..).unwrap_or_default(),
        None,
        Some(options),
    )
}

/// A part of a function that is evaluated on its own: a statement, or a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::debug) struct Region {
    /// Its bytes in the file.
    pub(in crate::debug) bytes: Range<usize>,
    pub(in crate::debug) start: Position,
    pub(in crate::debug) end: Position,
    /// The `omp atomic` that it is under.
    pub(in crate::debug) omp_atomic: Option<AtomicDirective>,
    /// Words in front of it, or of the blocks that it is in, which may be macros that change what
    /// it means.
    pub(in crate::debug) prefixes: Vec<String>,
    /// Whether the parser could not make sense of it.
    pub(in crate::debug) broken: bool,
}

impl Region {
    fn contains(&self, at: Position) -> bool {
        self.start <= at && at <= self.end
    }
}

/// The function around a position.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::debug) struct Function {
    /// Its name without scopes; `None` for a lambda.
    pub(in crate::debug) name: Option<String>,
    /// The lines from its head to its body.
    pub(in crate::debug) head: Range<u32>,
    /// Where its body is.
    pub(in crate::debug) body: Range<usize>,
    /// Its statements, in order.
    pub(in crate::debug) regions: Vec<Region>,
    /// For the last statement of an arm of an `if` or `switch`: those of the other arms.
    /// Compilers merge the ends of arms that are alike.
    tails: Vec<Vec<usize>>,
}

impl Function {
    /// The statements at a column, or those on a line.
    pub(in crate::debug) fn at(&self, line: u32, column: Option<u32>) -> Vec<usize> {
        let all = || self.regions.iter().enumerate();
        if let Some(column) = column {
            // The shortest, because the head of a loop may contain others.
            let innermost = all()
                .filter(|(_, region)| region.contains((line, column)))
                .min_by_key(|(_, region)| region.bytes.len());
            if let Some((number, _)) = innermost {
                return vec![number];
            }
        }
        all()
            .filter(|(_, region)| region.start.0 <= line && line <= region.end.0)
            .map(|(number, _)| number)
            .collect()
    }

    /// The ends of other arms, into which a compiler may merge this one.
    pub(in crate::debug) fn merged_with(&self, region: usize) -> Vec<usize> {
        self.tails
            .iter()
            .filter(|tails| tails.contains(&region))
            .flatten()
            .copied()
            .filter(|other| *other != region)
            .collect()
    }
}

/// A parsed file.
pub(in crate::debug) struct SourceFile {
    pub(in crate::debug) text: String,
    pub(super) tree: Tree,
}

impl SourceFile {
    pub(in crate::debug) fn read(language: &Language, text: String) -> Option<Self> {
        let tree = parse(language, &text)?;
        Some(Self { text, tree })
    }

    /// The function around a position.
    pub(in crate::debug) fn function(&self, line: u32, column: Option<u32>) -> Option<Function> {
        let row = usize::try_from(line.checked_sub(1)?).ok()?;
        let content = self.line(line)?;
        let indent = content.len() - content.trim_start().len();
        let column = match column {
            Some(column) => usize::try_from(column.saturating_sub(1)).ok()?,
            None => indent,
        };
        let point = Point::new(row, column.max(indent));
        let mut node = self
            .tree
            .root_node()
            .descendant_for_point_range(point, point)?;
        // Without a column a line may begin outside of a function and end in it.
        let holder = loop {
            if is_function(node)
                && node.child_by_field_name("body").is_some()
                && !is_macro_with_block(node)
            {
                break node;
            }
            node = node.parent()?;
        };
        let body = holder.child_by_field_name("body")?;
        let declarator = holder.child_by_field_name("declarator");
        let mut collected = Collected {
            text: &self.text,
            regions: Vec::new(),
            tails: Vec::new(),
        };
        let mut cursor = holder.walk();
        for child in holder.children(&mut cursor) {
            if child.kind() == "field_initializer_list" {
                let mut inner = child.walk();
                for initializer in child.named_children(&mut inner) {
                    collected.region(initializer);
                }
            }
        }
        collected.statement(body, 0);
        let written = self.text.get(body.byte_range()).unwrap_or_default();
        let written = tokens(written, position(body.start_position()));
        let starts: Vec<Position> = collected
            .regions
            .iter()
            .map(|region| region.start)
            .collect();
        for (region, words) in collected
            .regions
            .iter_mut()
            .zip(prefixes(&written, &starts))
        {
            region.prefixes = words;
        }
        Some(Function {
            name: declarator.and_then(|declarator| self.declared_name(declarator)),
            head: row_number(holder.start_position())..row_number(body.start_position()) + 1,
            body: body.byte_range(),
            regions: collected.regions,
            tails: collected.tails,
        })
    }

    /// The innermost name in a declarator.
    fn declared_name(&self, declarator: Node<'_>) -> Option<String> {
        let mut node = declarator;
        for _ in 0..MAX_NESTING {
            let next = match node.kind() {
                "identifier" | "field_identifier" | "destructor_name" | "operator_name"
                | "operator_cast" | "type_identifier" => {
                    return Some(self.text.get(node.byte_range())?.replace(' ', ""));
                }
                "qualified_identifier" | "template_function" | "template_method" => {
                    node.child_by_field_name("name")
                }
                _ => node
                    .child_by_field_name("declarator")
                    .or_else(|| node.named_child(0)),
            };
            node = next?;
        }
        None
    }

    /// The directive that a line belongs to: `#pragma`, with all its lines.
    pub(in crate::debug) fn directive(&self, line: u32) -> Option<String> {
        let mut first = line;
        while let Some(before) = first.checked_sub(1)
            && self
                .line(before)
                .is_some_and(|text| text.trim_end().ends_with('\\'))
        {
            first = before;
        }
        let text = self.line(first)?;
        text.trim_start().starts_with('#').then_some(())?;
        let lines: Vec<&str> = (first..=line).filter_map(|line| self.line(line)).collect();
        Some(lines.join("\n"))
    }

    /// One line.
    pub(in crate::debug) fn line(&self, line: u32) -> Option<&str> {
        self.text
            .lines()
            .nth(usize::try_from(line.checked_sub(1)?).ok()?)
    }

    /// The declaration of `name` on a line, if that is a parameter; else the first on the line:
    /// of a variable, a member, a type or a function.
    pub(in crate::debug) fn declaration(&self, line: u32, name: Option<&str>) -> Option<String> {
        let row = usize::try_from(line.checked_sub(1)?).ok()?;
        let content = self.line(line)?;
        let indent = content.len() - content.trim_start().len();
        let whole = Point::new(row, indent)..Point::new(row, content.len());
        if let Some(parameter) = name.and_then(|name| self.parameter(&whole, name)) {
            return Some(self.text.get(parameter.byte_range())?.to_owned());
        }
        let mut node = self
            .tree
            .root_node()
            .descendant_for_point_range(Point::new(row, indent), Point::new(row, indent))?;
        for _ in 0..MAX_NESTING {
            if matches!(
                node.kind(),
                "declaration"
                    | "field_declaration"
                    | "type_definition"
                    | "parameter_declaration"
                    | "alias_declaration"
            ) {
                return Some(self.text.get(node.byte_range())?.to_owned());
            }
            if node.kind() == "function_definition" {
                let body = node.child_by_field_name("body")?;
                let head = node.start_byte()..body.start_byte();
                return Some(self.text.get(head)?.to_owned());
            }
            node = node.parent()?;
        }
        None
    }

    /// The one parameter of this name on a line.
    fn parameter(&self, line: &Range<Point>, name: &str) -> Option<Node<'_>> {
        let root = self.tree.root_node();
        let mut open = vec![root.descendant_for_point_range(line.start, line.end)?];
        let mut found = None;
        while let Some(node) = open.pop() {
            let declared = || {
                let declarator = node.child_by_field_name("declarator")?;
                let on_line = declarator.end_position() <= line.end;
                self.declared_name(declarator).filter(|_| on_line)
            };
            if node.kind() == "parameter_declaration" && declared().is_some_and(|it| it == name) {
                if found.is_some() {
                    return None;
                }
                found = Some(node);
            }
            let mut cursor = node.walk();
            let on_line = |child: &Node<'_>| {
                child.start_position() < line.end && child.end_position() > line.start
            };
            open.extend(node.named_children(&mut cursor).filter(on_line));
        }
        found
    }
}

fn is_function(node: Node<'_>) -> bool {
    matches!(node.kind(), "function_definition" | "lambda_expression")
}

/// Whether it looks like a function in a function: `FOREACH(x) { … }`. What has a type and
/// parameters is one: after a macro that it cannot make sense of, the parser may take all that
/// follows for the body of a function.
fn is_macro_with_block(node: Node<'_>) -> bool {
    let mut around = node.parent();
    while let Some(parent) = around
        && parent.kind().starts_with("preproc_")
    {
        around = parent.parent();
    }
    node.kind() == "function_definition"
        && !has_type_and_parameters(node)
        && around.is_some_and(|around| {
            let kind = around.kind();
            kind == "compound_statement" || kind == "else_clause" || kind.ends_with("_statement")
        })
}

fn has_type_and_parameters(function: Node<'_>) -> bool {
    let mut declarator = function.child_by_field_name("declarator");
    while let Some(inner) = declarator
        && inner.kind() != "function_declarator"
    {
        declarator = inner.child_by_field_name("declarator");
    }
    declarator.is_some() && function.child_by_field_name("type").is_some()
}

fn row_number(point: Point) -> u32 {
    u32::try_from(point.row + 1).unwrap_or(u32::MAX)
}

pub(super) fn position(point: Point) -> Position {
    (
        row_number(point),
        u32::try_from(point.column + 1).unwrap_or(u32::MAX),
    )
}

struct Collected<'t> {
    text: &'t str,
    regions: Vec<Region>,
    tails: Vec<Vec<usize>>,
}

impl Collected<'_> {
    fn region(&mut self, node: Node<'_>) {
        self.under(node, None);
    }

    fn under(&mut self, node: Node<'_>, omp_atomic: Option<AtomicDirective>) {
        if self.regions.len() < MAX_REGIONS {
            let omp_atomic =
                omp_atomic.or_else(|| AtomicDirective::preceding(self.text, node.start_byte()));
            self.regions.push(Region {
                bytes: node.byte_range(),
                start: position(node.start_position()),
                end: position(node.end_position()),
                omp_atomic,
                prefixes: Vec::new(),
                broken: node.is_error() || node.is_missing(),
            });
        }
    }

    /// Takes the statements of `node`, and returns the last one, if it is an arm's end.
    fn statement(&mut self, node: Node<'_>, depth: usize) -> Option<usize> {
        if depth > MAX_NESTING {
            self.under(node, None);
            if let Some(last) = self.regions.last_mut() {
                last.broken = true;
            }
            return None;
        }
        let field = |name| node.child_by_field_name(name);
        match node.kind() {
            "if_statement" => {
                self.parts(node, &["condition"]);
                let mut ends = Vec::new();
                for name in ["consequence", "alternative"] {
                    let arm = field(name).and_then(|arm| self.statement(arm, depth + 1));
                    ends.extend(arm);
                }
                self.tails.push(ends.clone());
                // What follows may be merged with either.
                ends.last().copied()
            }
            "while_statement" | "do_statement" => {
                self.parts(node, &["condition"]);
                let _ = field("body").and_then(|body| self.statement(body, depth + 1));
                None
            }
            "switch_statement" => {
                self.parts(node, &["condition"]);
                let mut ends = Vec::new();
                if let Some(body) = field("body") {
                    let mut cursor = body.walk();
                    for arm in body.named_children(&mut cursor) {
                        ends.extend(self.statement(arm, depth + 1));
                    }
                }
                self.tails.push(ends);
                None
            }
            "for_statement" => {
                self.parts(node, &["initializer", "condition", "update"]);
                let _ = field("body").and_then(|body| self.statement(body, depth + 1));
                None
            }
            // A macro in front of a block.
            "function_definition" => field("body").and_then(|body| self.statement(body, depth + 1)),
            "for_range_loop" => {
                // The elements are read at the declaration, by operators of the range.
                self.parts(node, &["right", "declarator"]);
                if let Some(last) = self.regions.last_mut() {
                    last.broken = true;
                }
                let _ = field("body").and_then(|body| self.statement(body, depth + 1));
                None
            }
            "compound_statement"
            | "case_statement"
            | "labeled_statement"
            | "else_clause"
            | "attributed_statement"
            | "try_statement"
            | "catch_clause"
            | "preproc_if"
            | "preproc_ifdef"
            | "preproc_else"
            | "preproc_elif"
            | "linkage_specification" => self.block(node, depth),
            "comment"
            | "break_statement"
            | "continue_statement"
            | "goto_statement"
            | "preproc_call"
            | "preproc_def"
            | "preproc_function_def"
            | "preproc_include"
            | "parameter_list"
            | "statement_identifier"
            | "attribute_declaration" => None,
            kind if kind.ends_with("statement")
                || kind.ends_with("expression")
                || matches!(kind, "declaration" | "ERROR" | "call_expression") =>
            {
                self.region(node);
                self.regions.len().checked_sub(1)
            }
            _ => None,
        }
    }

    fn block(&mut self, node: Node<'_>, depth: usize) -> Option<usize> {
        let mut last = None;
        let mut pragma = None;
        let value = node.child_by_field_name("value");
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            if Some(child) == value {
                continue;
            }
            if let Some(directive) = self.omp_atomic(child) {
                pragma = Some(directive);
                continue;
            }
            // A comment may stand between a pragma and its statement.
            if child.kind() == "comment" {
                continue;
            }
            if let Some(directive) = pragma.take() {
                self.under(child, Some(directive));
                last = self.regions.len().checked_sub(1);
                continue;
            }
            if child.kind() != "break_statement" {
                last = self.statement(child, depth + 1);
            }
        }
        last
    }

    fn omp_atomic(&self, node: Node<'_>) -> Option<AtomicDirective> {
        let text = || self.text.get(node.byte_range());
        match node.kind() {
            "preproc_call" => AtomicDirective::of_pragma(text()?),
            "attribute_declaration" => AtomicDirective::of_attribute(text()?),
            _ => None,
        }
    }

    fn parts(&mut self, node: Node<'_>, names: &[&str]) {
        for name in names {
            if let Some(part) = node.child_by_field_name(name) {
                self.region(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str, line: u32, column: Option<u32>) -> Vec<String> {
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let function = file.function(line, column).unwrap();
        let numbers = function.at(line, column);
        let region = |number: usize| function.regions[number].bytes.clone();
        numbers
            .into_iter()
            .map(|number| text[region(number)].to_owned())
            .collect()
    }

    #[test]
    fn a_head_and_its_body_are_two_statements() {
        let text = "void f() {\n  while (!load(&stop)) plain++;\n}\n";
        assert_eq!(at(text, 2, Some(24)), ["plain++;"]);
        assert_eq!(at(text, 2, Some(10)), ["(!load(&stop))"]);
        assert_eq!(at(text, 2, None).len(), 2);
        assert_eq!(at("int f() { return 1; }", 1, None), ["return 1;"]);
        assert_eq!(at("int f() { x++; y = 1; }", 1, Some(5)).len(), 2);
    }

    #[test]
    fn a_statement_has_all_its_lines() {
        let text = "int f() { x =\n  load(\n    &a);\ny = 1; }\n";
        for line in 1..=3 {
            assert_eq!(at(text, line, None), ["x =\n  load(\n    &a);"]);
        }
        assert_eq!(at(text, 4, None), ["y = 1;"]);
    }

    #[test]
    fn the_reach_of_an_atomic_pragma() {
        let text = "void f() {\n#pragma omp atomic read\nv = x;\nw = x;\n#pragma omp atomic capture\n{ v = x; x += 1; }\nw = v;\n}\n";
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let function = file.function(3, None).unwrap();
        let clause = |line| {
            let number = function.at(line, None)[0];
            function.regions[number]
                .omp_atomic
                .as_ref()
                .map(|found| found.clause.clone())
        };
        assert_eq!(clause(3).as_deref(), Some("read"));
        assert_eq!(clause(4), None);
        assert_eq!(clause(6).as_deref(), Some("capture"));
        assert_eq!(clause(7), None);
    }

    #[test]
    fn a_comment_may_stand_between_a_pragma_and_its_statement() {
        let text =
            "void f() {\n#pragma omp \\\n atomic write\n// the newest\n/* one */\nx = v;\n}\n";
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let function = file.function(6, None).unwrap();
        let number = function.at(6, None)[0];
        let directive = function.regions[number].omp_atomic.as_ref().unwrap();
        assert!(directive.certain && directive.clause == "write");
    }

    #[test]
    fn ends_of_arms_may_be_merged() {
        let text = "void f() { if (a) { b = 1; x = 2; } else y = 3; z = 4; }";
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let function = file.function(1, Some(20)).unwrap();
        let number = |part: &str| {
            let at = text.find(part).unwrap();
            function
                .regions
                .iter()
                .position(|region| region.bytes.start == at)
                .unwrap()
        };
        assert_eq!(function.merged_with(number("x = 2")), [number("y = 3")]);
        assert!(function.merged_with(number("b = 1")).is_empty());
        assert!(function.merged_with(number("z = 4")).is_empty());
    }

    #[test]
    fn a_parameter_has_a_declaration_of_its_own() {
        let text = "KEEP void f(long *place, count value)\n{\n    int x, *y;\n}\n\
                    void g(int a,\n       char *b) {}\nvoid h(long, void (*k)(int k));\n";
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let declared = |line, name| file.declaration(line, Some(name)).unwrap();
        assert_eq!(declared(1, "place"), "long *place");
        assert_eq!(declared(1, "value"), "count value");
        assert!(declared(1, "f").starts_with("KEEP void f("));
        assert_eq!(declared(3, "y"), "int x, *y;");
        assert_eq!(declared(5, "a"), "int a");
        assert_eq!(declared(6, "b"), "char *b");
        // Which of the two is not clear.
        assert!(declared(7, "k").starts_with("void h("));
    }

    #[test]
    fn functions_after_a_macro_that_ends_no_declaration() {
        // The parser takes the rest of the file for the body of a function.
        let text = "#define KEEP\nEACH(DECLARE)\n\nenum { A };\nstatic long r;\n\
                    KEEP static void add(long more)\n{\n    r += more;\n}\n\
                    long get(void)\n{\n    EACH(i) { r = i; }\n    return r;\n}\n";
        let file = SourceFile::read(&tree_sitter_c::LANGUAGE.into(), text.to_owned()).unwrap();
        let name = |line| file.function(line, None).unwrap().name;
        assert_eq!(name(8).as_deref(), Some("add"));
        assert_eq!(name(12).as_deref(), Some("get"));
        assert_eq!(name(13).as_deref(), Some("get"));
    }

    proptest! {
        #[test]
        fn any_text_can_be_read(text in "[a-zé#\"'/*\\\\(){};\n R]{0,200}", line in 0u32..20, column in 0u32..40) {
            for language in [tree_sitter_c::LANGUAGE, tree_sitter_cpp::LANGUAGE] {
                let file = SourceFile::read(&language.into(), text.clone()).unwrap();
                if let Some(function) = file.function(line, Some(column)) {
                    function.at(line, None);
                }
                file.declaration(line, None);
                file.declaration(line, Some("R"));
            }
        }
    }
}
