//! Code that was not there when the program started.

use crate::row::Row;

#[test]
fn code_made_at_run_time() {
    Row::new("generated").same_as_alone(&[], 0);
}

#[test]
fn code_that_changes_itself() {
    Row::new("changes_itself").same_as_alone(&[], 0);
}

#[test]
fn another_library_at_the_same_address() {
    let row = Row::new("reloads");
    for (shape, name) in [("-DSHAPE=1", "one.so"), ("-DSHAPE=2", "two.so")] {
        row.compile("plugin", name, &["-shared", "-fPIC", shape]);
    }
    row.same_as_alone(&["./one.so", "./two.so"], 0);
}
