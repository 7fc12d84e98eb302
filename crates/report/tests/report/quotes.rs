//! The source line that a side is shown with, and what is marked in it.

use crate::fixtures;
use crate::terminal::compact;
use redhanded_model::{Fact, Race};
use redhanded_report::{Style, Terminal};
use std::sync::Arc;

/// A race whose caught side is in a header of the compiler, inlined into the program.
fn in_a_header() -> Race {
    let mut race = fixtures::bit_fields();
    let mut inlined = fixtures::frame(
        "std::optional<int>::value_or",
        "/usr/include/c++/12/optional",
        1012,
        0x1204,
    );
    inlined.inlined = true;
    let caught = &mut race.accesses[1];
    caught.function = inlined.function.clone();
    caught.file = inlined.file.clone();
    caught.line = inlined.line;
    caught.stack.insert(0, inlined);
    race
}

#[test]
fn the_line_that_is_quoted_is_that_of_the_frame_that_is_shown() {
    let text = compact(&in_a_header());
    let sides = text.lines().take_while(|line| !line.starts_with("  value"));
    insta::assert_snapshot!(sides.collect::<Vec<_>>().join("\n"), @r#"
    RACE 1 of 1  device.flags (unsigned int, 4 bytes), global of demo  [d3ee6081]
      held    set_busy  demo.c:42
              update 4 bytes  thread 4711 (worker)
              42 │ dev->busy = 1;
      caught  request_callback (in std::optional<int>::value_or)  demo.c:71
              update 4 bytes  thread 4710 (poll)
              71 │ dev->need_callback = 1;
    "#);
    // The nearest code that has lines.
    let mut race = in_a_header();
    let caught = &mut race.accesses[1];
    (caught.file, caught.line) = (None, None);
    for frame in &mut caught.stack[..2] {
        (frame.file, frame.line) = (None, None);
    }
    let text = compact(&race);
    assert!(text.contains("from demo.c:90"), "{text}");
    assert!(
        text.contains("\n          90 │ dev->need_callback"),
        "{text}"
    );
}

/// The held side of a race at this line, in which this expression is accessed.
fn quoted(line: &'static str, expression: &str, style: Style) -> String {
    let mut race = fixtures::bit_fields();
    let mut evidence = fixtures::evidence(expression);
    for known in &mut evidence.sides[0].facts {
        if let Fact::Source { source } = &mut known.fact
            && let Some(expression) = &mut source.expression
        {
            expression.line = 42;
        }
    }
    race.evidence = Some(evidence);
    let mut report = fixtures::run();
    report.races = vec![race];
    let source = Arc::new(move |_: &str, number| (number == 42).then(|| line.to_owned()));
    let text = fixtures::written(&Terminal::new(style).with_source(source), &report);
    let is_quote = |line: &&str| {
        line.contains('│') || line.contains(" | ") || line.trim_start().starts_with('^')
    };
    let quote: Vec<&str> = text.lines().filter(is_quote).collect();
    quote.join("\n").replace('\x1b', "ESC")
}

#[test]
fn without_colours_the_accessed_expression_is_marked_below_if_that_tells_something() {
    let plain = Style::default();
    let line = "\tint room = c->limit - c->used;";
    insta::assert_snapshot!(quoted(line, "c->used", plain), @r#"
    42 │ int room = c->limit - c->used;
                               ^^^^^^^
    "#);
    let long = "__attribute__((noinline)) void set_bits(struct conn *c, int v){ c->a = v & 7; \
                c->dirty = 1; }";
    insta::assert_snapshot!(quoted(long, "c->a", plain), @r#"
    42 │ …d set_bits(struct conn *c, int v){ c->a = v & 7; c->dirty = 1; }
                                             ^^^^
    "#);
    let ascii = Style {
        unicode: false,
        width: 60,
        ..plain
    };
    insta::assert_snapshot!(quoted(long, "c->a", ascii), @r#"
    42 | ... conn *c, int v){ c->a = v & 7; c->dirt...
                              ^^^^
    "#);
    let coloured = Style {
        color: true,
        ..plain
    };
    insta::assert_snapshot!(
        quoted(long, "c->a", coloured).trim_start(),
        @"ESC[2m42ESC[0m ESC[2m│ESC[0m …d set_bits(struct conn *c, int v){ ESC[4mc->aESC[0m = v & 7; c->dirty = 1; }"
    );
    // It is all that the line has.
    for line in ["\tdev->busy = 1;", "dev->busy++;", "return dev->busy;"] {
        let text = quoted(line, "dev->busy", plain);
        assert!(!text.contains('^'), "{text}");
    }
}
